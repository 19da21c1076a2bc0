"""The user's own memory in two constellations of one machine: that of the user, and that of a project.

Owns: carrying what is new from one file into the other, both ways, and forgetting in both. Must not know: which files
these are, or when it is done. What goes is what goes to another device (outgoing, incoming), of personas and shared
blocks alone: nothing of a project leaves its file or comes into another one.

No segments lie between the two. How far one has been read is noted in the other, with what came, in one transaction: a
process that is killed leaves nothing half done, and what is read twice changes nothing.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
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
from pattern_acp.sync.forgetting import forgetting_in, opened, sealed
from pattern_acp.sync.incoming import take_over
from pattern_acp.sync.outgoing import QUERIES, Changes, Sharing, read_changes
from pattern_acp.sync.segments import Forgetting

_LOGGER = logging.getLogger(__name__)

USERS_MEMORY = Sharing(user_only=True)
"""The part that both files have."""

PASS_EVENTS = 500
"""Events without anything to carry after which that is noted, so that they are not looked through again."""

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


class ReplicaForgetting:
    """Forgets in the other constellations of this machine what one of them forgot of the user's memory."""

    def __init__(self, key: bytes, reach: Reach, clock: Clock, ids: IdFactory) -> None:
        """`key` encrypts what is still to be forgotten; it must not be in any of the files."""
        self._key = key
        self._reach = reach
        self._clock = clock
        self._ids = ids

    def telling(self, targets: Sequence[str], also: Tell | None = None) -> Tell:
        """Notes for `targets` what is forgotten of the user's memory, and whatever it is `also` noted by."""

        def tell(tx: Transaction, said: ForgottenWords, at_ms: int) -> None:
            if also is not None:
                also(tx, said, at_ms)
            if not USERS_MEMORY.leaves_out(said.scope, said.owner):
                self._put(tx, Forgetting(self._ids.new("forgetting"), at_ms, said), targets)

        return tell

    async def run(self, database: Database, others: Callable[[str], Sequence[str]], also: Tell | None = None) -> None:
        """Have all follow that have not yet.

        Args:
            database: Where it was noted.
            others: The constellations that the one which follows, by its name, has to tell in its turn.
            also: What the user's constellation notes it by besides.

        Raises:
            DatabaseError: the constellation cannot be read or written.
        """
        for row in await database.read(lambda tx: tx.all(QUERIES["replica_forgettings"])):
            about = {"id": text(row[0]), "target": text(row[1])}
            forgetting = opened(self._key, about["id"], data(row[3]))
            if forgetting is None:
                _LOGGER.warning("What was forgotten cannot be read: forget it in %s too.", about["target"])
            elif not await self._follow(about["target"], forgetting, others(about["target"]), also):
                continue
            await database.write(lambda tx, about=about: tx.execute(QUERIES["drop_replica_forgetting"], about))

    async def _follow(self, target: str, forgetting: Forgetting, others: Sequence[str], also: Tell | None) -> bool:
        """Forget in one constellation; False to try again."""
        opening = self._reach(target)
        if opening is None:
            return True

        def note(tx: Transaction) -> None:
            self._put(tx, forgetting, others)
            if also is not None and others:
                also(tx, forgetting.words, forgetting.at_ms)

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
