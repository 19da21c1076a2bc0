"""Where work on a history runs, so that the event loop goes on meanwhile.

Owns: the choice between a thread and a process of its own, and carrying errors over. Must not know: what the work is.
loro never lets go of the interpreter's lock, so a history of 100,000 edits would stop everything for seconds, even from
a thread (memory.md section 1.4); reading its rows and handing them over would too, so the other process reads them.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import anyio.to_process
import anyio.to_thread
from anyio import BrokenWorkerProcess
from msgspec import Struct

from pattern_acp.db.connection import Database, read_file
from pattern_acp.domain.errors import PatternError
from pattern_acp.memory.blocks import Block
from pattern_acp.memory.errors import BlockCorruptError, HistoryCorruptError
from pattern_acp.memory.history import StoredHistory, read_history

_LOGGER = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

WORKER_WRITES = 10_000
"""Writes above which a history is worked on in another process: up to here it takes about 0.2 s, in steps of 20 µs
between which other threads run; starting a process costs about as much."""


class _Failure(Struct, frozen=True):
    """An error on its way between processes: ours take other arguments than pickle would give them."""

    kind: type[PatternError]
    message: str
    fields: dict[str, object]


async def run_on_history(
    database: Database,
    block: Block,
    work: Callable[Concatenate[StoredHistory, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """What `work(history, …)` returns for the history of `block` up to the version that was read.

    `work` must be pure and can be pickled: a function of a module, or a `functools.partial` of one.

    Raises:
        BlockError: what `work` raises, or the history is damaged. The text of `block` was read, so it is sound.
        DatabaseError: the constellation cannot be read.
    """
    try:
        if block.head_update > WORKER_WRITES:
            try:
                return await _in_process(database.path, block, work, args, kwargs)
            except BrokenWorkerProcess:
                _LOGGER.warning("A history could not be read in a process of its own; it is read here.", exc_info=True)
        history = await database.read(lambda tx: read_history(tx, block))
        return await anyio.to_thread.run_sync(lambda: work(history, *args, **kwargs))
    except BlockCorruptError as error:
        raise HistoryCorruptError(block.key.label, error.problem) from error


async def _in_process(
    path: Path, block: Block, work: Callable[..., T], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> T:
    outcome = await anyio.to_process.run_sync(_attempt, path, block, work, args, kwargs, cancellable=True)
    if isinstance(outcome, _Failure):
        error = outcome.kind.__new__(outcome.kind, outcome.message)
        error.__dict__.update(outcome.fields)
        raise error
    return outcome


def _attempt(
    path: Path, block: Block, work: Callable[..., T], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> T | _Failure:
    """Runs in the other process."""
    try:
        history = read_file(path, lambda tx: read_history(tx, block))
        return work(history, *args, **kwargs)
    except PatternError as error:
        return _Failure(type(error), str(error), dict(error.__dict__))
