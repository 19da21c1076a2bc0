"""Forgetting on all devices: what one of them forgets goes to the others, which forget it too.

Owns: the record of a forgetting while other devices have to hear of it, and following it. Must not know: how segments
are moved, or how words are found (memory/service/forget.py).

The words go inside segments, which are encrypted. Until each device has them they are here too, encrypted with the key
of sync, which is not in this file: then the record goes. It stays `HEARD_MS` at least, since a device that has only
read the segments is not known yet. What comes meanwhile from a device that has not followed is looked through again.
"""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from pattern_acp.db.columns import data, integer, text
from pattern_acp.db.connection import Database, SqlValue, Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import Clock, IdFactory
from pattern_acp.domain.errors import PatternError
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.service.forget import ForgottenReport, ForgottenWords, MemoryForgetting, Tell
from pattern_acp.memory.service.history import HistoryScope
from pattern_acp.session.redaction import KEPT_SOURCES
from pattern_acp.sync.outgoing import QUERIES, Sharing
from pattern_acp.sync.segments import Forgetting, decrypt, encrypt
from pattern_acp.tasks.forget import FORGETTING as OF_TASKS
from pattern_acp.tools.registry import parameter_names

HEARD_MS = 30 * 24 * 3_600_000
"""Shortest time for which a record stays."""


class _Record(Struct, frozen=True):
    """A row: `told` is the segment of this device that first had it, 0 before."""

    id: str
    at_ms: int
    sealed: bytes
    is_followed: bool
    told: int


def note_forgetting(tx: Transaction, said: ForgottenWords, at_ms: int, *, key: bytes, ids: IdFactory) -> None:
    """Note a forgetting of this device for the others: the `Tell` of `MemoryForgetting`."""
    _put(tx, key, Forgetting(ids.new("forgetting"), at_ms, said), is_followed=True)


def take_forgettings(tx: Transaction, key: bytes, came: Sequence[Forgetting], followed: Sequence[str] | None) -> None:
    """Note the forgettings of a segment.

    Those that its device had not `followed` are followed here once more: what came of it may have their words. None
    where nothing came.
    """
    for one in came:
        _put(tx, key, one, is_followed=False)
    if followed is None:
        return
    known = set(followed)
    for record in _records(tx):
        if record.id not in known:
            tx.execute(QUERIES["follow_forgetting"], {"id": record.id, "followed": 0})


def forgettings_to_tell(tx: Transaction, key: bytes, sharing: Sharing, *, is_whole: bool) -> tuple[Forgetting, ...]:
    """The forgettings for the next segment; for a whole one all. What a project forgot that is not shared stays."""
    found = (_open(key, one) for one in _records(tx) if is_whole or not one.told)
    return tuple(one for one in found if one and not sharing.leaves_out(one.words.scope, one.words.owner))


def followed_forgettings(tx: Transaction) -> tuple[str, ...]:
    """The ids of the forgettings that this device has followed."""
    return tuple(one.id for one in _records(tx) if one.is_followed)


def mark_told(tx: Transaction, told: Sequence[Forgetting], number: int) -> None:
    """Note that a segment has these forgettings."""
    for one in told:
        tx.execute(QUERIES["tell_forgetting"], {"id": one.id, "number": number})


def tell_forgettings_again(tx: Transaction) -> None:
    """Have all told once more, such as by a device of another name."""
    tx.execute(QUERIES["tell_forgettings_again"])


def drop_heard(tx: Transaction, key: bytes, sharing: Sharing, seen: Sequence[int], now_ms: int) -> None:
    """Drop the records that every other device has, by the segments that they have `seen`, and those that stay here."""
    for record in _records(tx):
        forgetting = _open(key, record)
        stays = forgetting is not None and sharing.leaves_out(forgetting.words.scope, forgetting.words.owner)
        is_heard = 0 < record.told <= min(seen, default=record.told)
        if record.is_followed and (stays or (is_heard and now_ms - record.at_ms >= HEARD_MS)):
            tx.execute(QUERIES["drop_forgetting"], {"id": record.id})


def unheard_forgettings(tx: Transaction, seen: int) -> int:
    """The number of forgettings that a device lacks which has `seen` our segments up to one."""
    return sum(not 0 < record.told <= seen for record in _records(tx))


def change_key(tx: Transaction, old: bytes, new: bytes) -> None:
    """Encrypt the records with another key."""
    for record in _records(tx):
        if forgetting := _open(old, record):
            row: dict[str, SqlValue] = {"id": record.id, "sealed": sealed(new, forgetting)}
            tx.execute(QUERIES["seal_forgetting"], row)


class Following:
    """Forgets here what other devices forgot."""

    def __init__(
        self, database: Database, key: bytes, clock: Clock, ids: IdFactory, *, tell: Tell | None = None
    ) -> None:
        """`tell` notes what is followed here for other constellations of this machine."""
        self._database = database
        self._key = key
        self._tell = tell
        self._forgetting = forgetting_in(database, clock, ids)

    async def run(self) -> tuple[int, list[str]]:
        """Follow what is not followed yet: how many took something from here, and sentences about what is left."""
        count, notes = 0, list[str]()
        for record in await self._database.read(_records):
            if record.is_followed:
                continue
            forgetting = _open(self._key, record)
            if forgetting is None:
                notes.append("What another device forgot cannot be read with this key: forget it here too.")
                continue
            try:
                report = await self._forgetting.follow(forgetting.words, self._noting(record, forgetting))
            except PatternError as error:
                if error.failure_code.startswith("database"):
                    raise
                notes.append(f"What another device forgot is not forgotten here: {error.sentence}")
                continue
            if report is not None:
                count += 1
                notes += _left(report)
        return count, notes

    def _noting(self, record: _Record, forgetting: Forgetting) -> Callable[[Transaction], None]:
        def note(tx: Transaction) -> None:
            tx.execute(QUERIES["follow_forgetting"], {"id": record.id, "followed": 1})
            if self._tell is not None:
                self._tell(tx, forgetting.words, forgetting.at_ms)

        return note


def forgetting_in(database: Database, clock: Clock, ids: IdFactory) -> MemoryForgetting:
    """The forgetting in a constellation of what was forgotten in another one."""
    scope = HistoryScope((), CONSTELLATION_STREAM, Actor.IMPORT, Origin.WORKSPACE, ids.peer())
    return MemoryForgetting(
        database, scope, clock=clock, parameters=parameter_names, tasks=OF_TASKS, sources=KEPT_SOURCES
    )


def _left(report: ForgottenReport) -> list[str]:
    places = ", ".join((*report.others, *report.left))
    return [f"What another device forgot is still in: {places}. Forget it there too."] if places else []


def _put(tx: Transaction, key: bytes, forgetting: Forgetting, *, is_followed: bool) -> None:
    row: dict[str, SqlValue] = {
        "id": forgetting.id,
        "at_ms": forgetting.at_ms,
        "sealed": sealed(key, forgetting),
        "followed": int(is_followed),
    }
    tx.execute(QUERIES["put_forgetting"], row)


def sealed(key: bytes, forgetting: Forgetting) -> bytes:
    """The encrypted record of a forgetting."""
    return encrypt(key, msgspec.msgpack.encode(forgetting), about=forgetting.id.encode())


def _open(key: bytes, record: _Record) -> Forgetting | None:
    return opened(key, record.id, record.sealed)


def opened(key: bytes, forgetting_id: str, content: bytes) -> Forgetting | None:
    """The forgetting of a record that `sealed` made; None with another key."""
    content = decrypt(key, content, about=forgetting_id.encode()) or b""
    return msgspec.msgpack.decode(content, type=Forgetting) if content else None


def _records(tx: Transaction) -> list[_Record]:
    return [
        _Record(text(row[0]), integer(row[1]), data(row[2]), row[3] == 1, integer(row[4]))
        for row in tx.all(QUERIES["forgettings"])
    ]
