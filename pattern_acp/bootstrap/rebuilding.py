"""Making a constellation again from its segments.

Owns: choosing the generation, the search index of what was rebuilt, the checks behind it, and putting it in the place
of what was there, which is kept. Must not know: the form of a segment, or how a report is shown. Everything here
blocks.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from pattern_acp.bootstrap.findings import Finding, Health
from pattern_acp.bootstrap.recovery import stamp
from pattern_acp.bootstrap.recovery_checks import check_rows
from pattern_acp.bootstrap.segments import TABLES
from pattern_acp.db.backup import COMPANIONS, FOLDER, check_copy, put_in_place
from pattern_acp.db.connection import Transaction, read_file
from pattern_acp.db.segment_files import generations, read_tail
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.journal.errors import SegmentsError
from pattern_acp.journal.segment_rebuild import Rebuilt, rebuild
from pattern_acp.journal.sessions import every_session
from pattern_acp.memory.reindexing import count_blocks, index_memory
from pattern_acp.session.row_state import mend_rows
from pattern_acp.session.stored import index_all
from pattern_acp.tools.memory_counting import count_again

Progress: TypeAlias = Callable[[str, int, int], object]
"""Called with what is being done, how much of it is done, and of how much."""


def _silent(_what: str, _done: int, _of: int) -> None:
    pass


class RebuildReport(Struct, frozen=True):
    """What was rebuilt, from which generation, what of it is not sound, and how much there is of it."""

    generation: str
    rebuilt: Rebuilt
    sessions: int
    blocks: int
    problems: tuple[str, ...]
    longer: tuple[str, ...]
    """Other generations that go further than this one."""


def rebuild_into(path: Path, target: Path, *, number: int, now_ms: int, progress: Progress = _silent) -> RebuildReport:
    """Make the new file `target` from the segments of the constellation at `path`, and check it from end to end.

    `number` is that of the generation, 0 for the newest. Neither the constellation nor a segment is changed. `progress`
    is told what is being done, how much of it is done, and of how much.

    Raises:
        SegmentsError: there is no such generation, or nothing in it can be used.
        DatabaseError: `target` is there already, or cannot be written.
        OSError: a segment cannot be read.
    """
    if target.exists():
        raise DatabaseError(f"{target} exists already; choose another name.")
    known = generations(path)
    chosen = next((each for each in reversed(known) if number in {0, int(each.name)}), None)
    if chosen is None:
        which = f" number {number}" if number else ""
        raise SegmentsError(f"There are no segments{which} of {path}; `pattern-acp restore --latest` goes to a backup.")
    reading = partial(progress, "reading segments")
    try:
        rebuilt = rebuild(chosen, target, TABLES, partial(_finish, progress=progress), now_ms=now_ms, told=reading)
        progress("checking what was rebuilt", 0, 1)
        findings, (sessions, blocks) = read_file(target, check_rows), read_file(target, _counts)
    except BaseException:
        # Half of it must not be taken for a constellation, nor stand in the way of the next attempt.
        for ending in ("", *COMPANIONS):
            target.with_name(target.name + ending).unlink(missing_ok=True)
        raise
    tails = {each.name: read_tail(each).seq for each in known if each != chosen}
    return RebuildReport(
        chosen.name,
        rebuilt,
        sessions,
        blocks,
        tuple(_sentence(one) for one in findings if one.health is Health.BROKEN),
        tuple(name for name, seq in tails.items() if seq > rebuilt.upto),
    )


def take_place(path: Path, rebuilt: Path, *, now_ms: int) -> Path | None:
    """Put a rebuilt file in the place of the constellation at `path`; the folder that holds what was there, if any.

    Raises:
        DatabaseError: another process has it open, or a file cannot be written.
    """
    check_copy(rebuilt)
    safety = path.parent / FOLDER / f"before-rebuild-{stamp(now_ms)}"
    put_in_place(rebuilt, path, safety=safety)
    return safety if safety.exists() else None


def _finish(tx: Transaction, progress: Progress) -> None:
    # Where the end is missing, rows may be ahead of their events (rule R1).
    mend_rows(tx, partial(progress, "comparing sessions"))
    index_memory(tx)
    count_again(tx)
    index_all(tx, partial(progress, "indexing sessions"))


def _counts(tx: Transaction) -> tuple[int, int]:
    sessions = sum(not deleted for _, _, deleted in every_session(tx))
    return sessions, count_blocks(tx)


def _sentence(finding: Finding) -> str:
    return f"{finding.name}: {finding.detail}"
