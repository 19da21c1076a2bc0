"""The user's own memory in two constellations of one machine: that of the user, and that of a project.

Owns: carrying what is new from one file into the other, both ways, and forgetting in both. Must not know: which files
these are, or when it is done. What goes is what goes to another device (outgoing, incoming), of personas and shared
blocks alone: nothing of a project leaves its file or comes into another one.

No segments lie between the two. How far one has been read is noted in the other, with what came, in one transaction: a
process that is killed leaves nothing half done, and what is read twice changes nothing.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from io import BytesIO
from typing import TypeAlias

from msgspec import Struct

from pattern_acp.carry.car import read_archive
from pattern_acp.db.columns import data, integer, text
from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.clock import Clock, IdFactory
from pattern_acp.domain.errors import PatternError
from pattern_acp.journal.reader import newest_event
from pattern_acp.memory.service.forget import ForgottenWords, Tell
from pattern_acp.sync.forgetting import HEARD_MS, forgetting_in, opened, sealed
from pattern_acp.sync.incoming import take_over
from pattern_acp.sync.outgoing import QUERIES, Changes, Sharing, read_changes
from pattern_acp.sync.segments import Forgetting

_LOGGER = logging.getLogger(__name__)

USERS_MEMORY = Sharing(user_only=True)
"""The part that both files have."""

PASS_EVENTS = 500
"""Events without anything to carry after which that is noted, so that they are not looked through again."""

DEVICES = ""
"""Stands for the user's other devices among the constellations that have to follow; none is called so."""

Reach: TypeAlias = Callable[[str], "AbstractAsyncContextManager[Database] | None"]
"""Opens a constellation by its name; None for one that is not there."""


class Side(Struct, frozen=True):
    """One of the two constellations."""

    name: str
    database: Database


class _Mark(Struct, frozen=True):
    upto: int = 0
    hash: str = ""


class _Found(Struct, frozen=True):
    changes: Changes
    mark: _Mark


async def replicate(project: Side, user: Side, clock: Clock) -> bool:
    """Carry what is new from each side to the other; tells whether anything came to either.

    Raises:
        PatternError: one of them cannot be read or written.
    """
    # The user's first: what a project begins with makes way for it.
    came = await _carry(user, project, clock)
    went = await _carry(project, user, clock)
    return came or went


async def _carry(source: Side, to: Side, clock: Clock) -> bool:
    mark = await to.database.read(lambda tx: _mark_of(tx, source.name))
    found = await source.database.read(lambda tx: _read(tx, mark))
    changes = found.changes
    if changes.is_empty:
        if found.mark.upto - mark.upto > PASS_EVENTS:
            await to.database.write(lambda tx: _put_mark(tx, source.name, found.mark))
        return False
    archive, now_ms = read_archive(BytesIO(changes.archive)), clock.now_ms()

    def write(tx: Transaction) -> int:
        taken = take_over(tx, archive, USERS_MEMORY, now_ms=now_ms)
        _put_mark(tx, source.name, found.mark)
        for note in (*changes.report.left_out, *taken.notes):
            _LOGGER.info("The user's memory of %s in %s: %s", source.name, to.name, note)
        return taken.blocks + taken.facts + taken.tasks

    return await to.database.write(write) > 0


def _read(tx: Transaction, mark: _Mark) -> _Found:
    """The changes behind a mark; all there is where words were forgotten since, or the file is another one now."""
    newest = newest_event(tx)
    after = mark.upto if mark.upto and _hash_of(tx, mark.upto) == mark.hash else 0
    forgotten = tx.one(QUERIES["forgotten_after"], {"after": after})
    if forgotten is not None and forgotten[0] == 1:
        after = 0
    return _Found(read_changes(tx, USERS_MEMORY, after, None), _Mark(newest, _hash_of(tx, newest)))


def _hash_of(tx: Transaction, seq: int) -> str:
    row = tx.one(QUERIES["hash_of_event"], {"seq": seq})
    return "" if row is None else text(row[0])


def _mark_of(tx: Transaction, source: str) -> _Mark:
    row = tx.one(QUERIES["replica_mark"], {"source": source})
    return _Mark() if row is None else _Mark(integer(row[0]), text(row[1]))


def _put_mark(tx: Transaction, source: str, mark: _Mark) -> None:
    tx.execute(QUERIES["mark_replica"], {"source": source, "upto": mark.upto, "hash": mark.hash})


def is_to_be_forgotten(tx: Transaction) -> bool:
    """Tell whether another constellation has to forget what this one has."""
    return bool(tx.all(QUERIES["replica_forgettings"]))


def is_due(tx: Transaction, key: Callable[[], bytes]) -> bool:
    """Tell whether another constellation can be made to forget something now.

    What was noted with another key than `key` returns cannot be read, and what waits for other devices changes nothing
    in this machine's constellations.
    """
    waiting = (row for row in tx.all(QUERIES["replica_forgettings"]) if text(row[1]) != DEVICES)
    return any(opened(key(), text(row[0]), data(row[3])) is not None for row in waiting)


def unreadable_forgettings(tx: Transaction, key: bytes) -> tuple[str, ...]:
    """The constellations that have to forget something which was noted with another key."""
    rows = tx.all(QUERIES["replica_forgettings"])
    return tuple(dict.fromkeys(text(row[1]) for row in rows if opened(key, text(row[0]), data(row[3])) is None))


class ReplicaForgetting:
    """Forgets in the other constellations of this machine what one of them forgot of the user's memory."""

    def __init__(self, key: bytes, reach: Reach, clock: Clock, ids: IdFactory) -> None:
        """`key` encrypts what is still to be forgotten; it must not be in any of the files."""
        self._key = key
        self._reach = reach
        self._clock = clock
        self._ids = ids

    def telling(self, targets: Sequence[str], also: Tell | None = None, *, waits: bool = False) -> Tell:
        """Notes for `targets` what is forgotten of the user's memory, and whatever it is `also` noted by.

        `waits`: other devices are to hear of it too, once that can be noted for them.
        """

        def tell(tx: Transaction, said: ForgottenWords, at_ms: int) -> None:
            if also is not None:
                also(tx, said, at_ms)
            forgetting = Forgetting(self._ids.new("forgetting"), at_ms, said)
            if not USERS_MEMORY.leaves_out(said.scope, said.owner):
                self._put(tx, forgetting, targets)
            if waits:
                self._put(tx, forgetting, (DEVICES,))

        return tell

    async def run(
        self,
        database: Database,
        others: Callable[[str], Sequence[str]],
        also: Tell | None = None,
        *,
        waits: bool = False,
    ) -> tuple[str, ...]:
        """Have all follow that have not yet; the constellations of which that cannot be read with this key.

        What cannot be read, or reported to other devices yet, stays `HEARD_MS`, since the key for it may come back.
        Where there are no other devices any more, what waits for them goes at once.

        Args:
            database: Where it was noted.
            others: The constellations that the one which follows, by its name, has to tell in its turn.
            also: What the user's constellation notes it by for other devices.
            waits: There are other devices, and nothing can be noted for them now.

        Raises:
            DatabaseError: the constellation cannot be read or written.
        """
        unread: dict[str, None] = {}
        for row in await database.read(lambda tx: tx.all(QUERIES["replica_forgettings"])):
            about = {"id": text(row[0]), "target": text(row[1])}
            forgetting = opened(self._key, about["id"], data(row[3]))
            is_new = self._clock.now_ms() - integer(row[2]) < HEARD_MS
            if forgetting is None:
                if is_new:
                    unread[about["target"]] = None
                    continue
                _LOGGER.warning("What was forgotten could not be read for 30 days, and is dropped.")
            elif about["target"] == DEVICES:
                if also is not None:
                    await database.write(partial(_tell_devices, also, forgetting, about))
                    continue
                if waits and is_new:
                    continue
                _LOGGER.warning("What was forgotten is not reported to other devices: %s.", _why_dropped(waits=waits))
            elif not await self._follow(about["target"], forgetting, others(about["target"]), also, waits=waits):
                continue
            await database.write(partial(_drop, about))
        return tuple(unread)

    async def _follow(
        self, target: str, forgetting: Forgetting, others: Sequence[str], also: Tell | None, *, waits: bool
    ) -> bool:
        """Forget in one constellation; False to try again."""
        opening = self._reach(target)
        if opening is None:
            return True

        def note(tx: Transaction) -> None:
            self._put(tx, forgetting, others)
            if also is not None and others:
                also(tx, forgetting.words, forgetting.at_ms)
            if waits and others:
                self._put(tx, forgetting, (DEVICES,))

        try:
            async with opening as database:
                await forgetting_in(database, self._clock, self._ids).follow(forgetting.words, note)
        except PatternError as error:
            _LOGGER.warning("What was forgotten is not forgotten in %s yet: %s", target, error.sentence)
            return False
        return True

    def _put(self, tx: Transaction, forgetting: Forgetting, targets: Sequence[str]) -> None:
        content = sealed(self._key, forgetting)
        for target in targets:
            row = {"id": forgetting.id, "target": target, "at_ms": forgetting.at_ms, "sealed": content}
            tx.execute(QUERIES["put_replica_forgetting"], row)


def _why_dropped(*, waits: bool) -> str:
    return "the key of sync was not available for 30 days" if waits else "sync is not set up any more"


def _drop(about: Mapping[str, str], tx: Transaction) -> None:
    tx.execute(QUERIES["drop_replica_forgetting"], about)


def _tell_devices(also: Tell, forgetting: Forgetting, about: Mapping[str, str], tx: Transaction) -> None:
    also(tx, forgetting.words, forgetting.at_ms)
    _drop(about, tx)
