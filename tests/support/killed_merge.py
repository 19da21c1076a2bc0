"""A process that merges forked memory and kills itself in the middle: `python -m tests.support.killed_merge`.

Owns: the kill before one statement of the transaction that writes. Must not know: what the merge does.
"""

import os
import signal
import sys
from pathlib import Path
from typing import LiteralString

import anyio

from pattern_acp.db.connection import Transaction, open_database
from pattern_acp.db.raw import Params
from pattern_acp.domain.clock import RandomIds, SessionId, SystemClock
from pattern_acp.memory.blocks import MemoryFork
from pattern_acp.memory.service.forking import merge_fork
from pattern_acp.memory.service.scope import PERSON, MemoryRules, MemoryScope, WriteContext
from pattern_acp.memory.templates import NO_TEMPLATES


class _Killing(Transaction):
    """A transaction that ends its process before a statement that writes."""

    def __init__(self, inner: Transaction, kill_at: int) -> None:
        super().__init__(inner._handle, inner._path)
        self._left = kill_at

    def execute(self, sql: LiteralString, params: Params = ()) -> int:
        """See `Transaction.execute`."""
        self._count()
        return super().execute(sql, params)

    def insert(self, sql: LiteralString, params: Params = ()) -> int:
        """See `Transaction.insert`."""
        self._count()
        return super().insert(sql, params)

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def merge(path: Path, fork: MemoryFork, owner: MemoryScope, kill_at: int) -> None:
    """Merge a fork, and end before the statement `kill_at`, or say that there were fewer."""
    clock, ids = SystemClock(), RandomIds()
    writing = WriteContext(owner, PERSON, MemoryRules(), ids, ids.peer(), clock.now_ms(), NO_TEMPLATES)
    async with open_database(path, clock=clock) as database:
        await database.write(lambda tx: merge_fork(_Killing(tx, kill_at), fork, writing))


if __name__ == "__main__":
    _, file, fork_id, forked_ms, persona, project, session, number = sys.argv
    scope = MemoryScope(persona, project, SessionId(session))
    anyio.run(merge, Path(file), MemoryFork(fork_id, int(forked_ms)), scope, int(number))
