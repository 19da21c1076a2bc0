"""Integrity checks of a constellation and its surroundings, and safe repairs.

Owns: the checks behind `doctor` and `doctor --verify`, and carrying out repairs that lose nothing. Must not know: how
findings are shown. A repair moves and writes again; it never deletes. Everything here blocks.
"""

import platform
import shutil
import stat
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from msgspec import Struct

from pattern_acp.db.backup import FOLDER, PART, RESTORING, back_up, full_check
from pattern_acp.db.connection import Transaction, change_file, read_file
from pattern_acp.db.segment_files import (
    SegmentDamageError,
    SegmentReading,
    decode_row,
    generations,
    read_lines,
    read_value,
    segments,
    size_of,
)
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.clock import RandomIds
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.history import readable
from pattern_acp.journal.reader import (
    broken_streams,
    count_events,
    damaged_contents,
    newest_times,
    wrong_origins,
)
from pattern_acp.memory.forget import labels_of_blocks
from pattern_acp.memory.indexing import index_memory
from pattern_acp.memory.integrity import (
    damaged_blocks,
    damaged_histories,
    damaged_snapshots,
    rebuild_search,
    search_problem,
)
from pattern_acp.memory.recall import IndexedCount, entries_since, newest_entry
from pattern_acp.memory.search_terms import TASK_ID
from pattern_acp.memory.service.forget import begin_histories_anew
from pattern_acp.memory.service.provenance import archive_mismatches, mismatches
from pattern_acp.recovery.backups import STALE_PART_MS, free_path, stamp
from pattern_acp.session.session_row_rebuild import wrong_rows
from pattern_acp.session.stored import index_all
from pattern_acp.tasks.store import index_tasks


class Health(StrEnum):
    """The outcome of one check."""

    OK = "ok"
    NOTE = "note"
    """Something optional is missing, or a setting was not used."""
    BROKEN = "broken"
    """Something that is needed does not work; `pattern-acp doctor` exits with 1."""


class Repair(Struct, frozen=True):
    """A way to repair a finding. Only a `safe` one, which loses nothing, ever runs without being asked for."""

    action: Literal["chmod", "move", "rebuild_search", "begin_histories", "restore"]
    target: str
    safe: bool


class Finding(Struct, frozen=True):
    """One thing that was looked at. `remedy` says what to do; empty when there is nothing to do."""

    name: str
    health: Health
    detail: str
    remedy: str = ""
    repair: Repair | None = None
    code: str = ""
    """The code of the failure that it is (cli/failures.toml), where it is one."""


NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "fuse.sshfs", "fuse.rclone", "davfs", "glusterfs", "ceph"}
)
"""Their locks are not those that SQLite needs (sqlite.org/faq.html, question 5), and a shared log does not work on them
at all (sqlite.org/wal.html)."""

LOW_DISK_BYTES = 500_000_000

CLOCK_SLACK_MS = 300_000
"""Clocks of two machines that share a folder differ by seconds."""

_MOUNTS = Path("/proc/self/mounts")
_SAFE_MODE = 0o600


def check_environment(path: Path, *, now_ms: int, mounts: Path = _MOUNTS) -> list[Finding]:
    """Report findings about the disk, permissions and leftovers around `path`; none while there is no constellation."""
    if not path.exists():
        return []
    found = [*_file_system(path, mounts), *_free_space(path), *_private(path), *_leftovers(path, now_ms)]
    try:
        newest, latest = read_file(path, newest_times)
    except DatabaseError:
        return found  # the check of the file itself says so
    detail = ""
    if newest > now_ms + CLOCK_SLACK_MS:
        detail = f"The newest event is of {stamp(newest)}, but it is {stamp(now_ms)}: a clock was set."
    elif latest > newest + CLOCK_SLACK_MS:
        detail = f"The newest event is of {stamp(newest)}, but one before it of {stamp(latest)}: a clock was set."
    if detail:
        found.append(Finding("Clock", Health.NOTE, detail, "Set the clock of this machine right."))
    return found


def verify(path: Path) -> list[Finding]:
    """Check a temporary copy of the constellation at `path` from end to end.

    These are the file's structure, the chain of every session, the row of every session recomputed from its events,
    every block of memory rebuilt from its writes, every stored file against its hash, the search index against what it
    is made from, and every line of the segments.
    """
    with TemporaryDirectory(prefix="pattern-acp-", ignore_cleanup_errors=True) as scratch:
        copy = Path(scratch) / path.name
        try:
            back_up(path, copy)
            findings = [*read_file(copy, check_rows), *change_file(copy, lambda tx: _verify_search(tx, path))]
            return [*findings, *_verify_segments(path)]
        except DatabaseError as error:
            remedy = "Close every window that uses it, then run: pattern-acp restore --latest"
            repair = Repair("restore", str(path), safe=False)
            return [Finding("Verified file", Health.BROKEN, error.sentence, remedy, repair, error.failure_code)]


def repair(path: Path, findings: Sequence[Finding], *, now_ms: int) -> list[tuple[Repair, str]]:
    """Carry out the repairs of `findings` that are safe, each with a sentence on the outcome."""
    wanted = [finding.repair for finding in findings if finding.repair is not None and finding.repair.safe]
    return [(one, _carry_out(path, one, now_ms)) for one in wanted]


def _carry_out(path: Path, wanted: Repair, now_ms: int) -> str:
    target = Path(wanted.target)
    try:
        if wanted.action == "chmod":
            target.chmod(_SAFE_MODE | (0o100 if target.is_dir() else 0))
            return f"{target} can now be read by this user alone."
        if wanted.action == "move":
            folder = path.parent / FOLDER / f"leftovers-{stamp(now_ms)}"
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            target.replace(folder / target.name)
            return f"{target.name} was moved to {folder}."
        if wanted.action == "begin_histories":
            copy = free_path(path.parent / FOLDER, f"damaged-{stamp(now_ms)}", ".db")
            copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            back_up(path, copy)
            begin = partial(begin_histories_anew, peer=RandomIds().peer(), at_ms=now_ms)
            return f"The history of {', '.join(change_file(path, begin))} begins again; as it was it is in {copy}."
        change_file(path, _rebuild_search)
    except OSError as error:
        return f"{target} could not be changed ({error.strerror})."
    except DatabaseError as error:
        return error.sentence
    return "The search index was rebuilt from what it indexes."


def check_rows(tx: Transaction) -> list[Finding]:
    """Check a whole constellation that nobody uses, as `verify` does, all but its search index."""
    problems = full_check(tx)
    found = [_outcome("Verified file", list(problems), "every page and index is sound")]
    if problems:
        return found
    count, broken = broken_streams(tx)
    chains = [f"{stream}: event {report.first_bad_seq}: {report.problem}" for stream, report in broken]
    nothing: tuple[str, ...] = ()
    chains += readable(lambda: wrong_origins(tx), nothing)
    found.append(_outcome("Verified journal", chains, f"{count} chains are whole"))
    sessions, wrong = wrong_rows(tx)
    found.append(_outcome("Verified sessions", list(wrong), f"{sessions} rows are what their events say"))
    blocks, mendable, lost = damaged_blocks(tx)
    forged = [f"{one.label}: {one.problem}" for one in (*mismatches(tx), *archive_mismatches(tx))]
    found.append(_outcome("Verified memory", [*lost, *forged], f"{blocks} blocks were rebuilt from their writes"))
    if cut := damaged_histories(tx):
        names = ", ".join(opened.block.key.label for opened, _ in cut[:5])
        detail = f"The text is sound, and the history cannot be read: {names}."
        remedy = "pattern-acp doctor --verify --repair stores a copy and lets it begin again with the text."
        begins = Repair("begin_histories", "memory", safe=True)
        found.append(Finding("Verified histories", Health.BROKEN, detail, remedy, begins, "database.corrupt"))
    parts = [] if lost or forged else [f"{label} ({problem})" for label, problem in damaged_snapshots(tx)]
    if mendable or parts:
        detail = f"Damaged, but whole in another place: {', '.join((parts or mendable)[:5])}."
        found.append(Finding("Verified memory", Health.NOTE, detail, "The next session of that persona repairs them."))
    kept, damaged = damaged_contents(tx)
    found.append(_outcome("Verified stored files", list(damaged), f"{kept} contents have their hash"))
    return found


def _verify_search(tx: Transaction, path: Path) -> list[Finding]:
    problem = search_problem(tx)
    if not problem:
        missing = readable(lambda: _missing_passages(tx), "")
        problem = f"Searches do not find {missing}." if missing else ""
    if not problem:
        return [Finding("Verified search", Health.OK, "every block, archival entry and task is in the index")]
    remedy = "pattern-acp doctor --verify --repair rebuilds it."
    mends = Repair("rebuild_search", str(path), safe=True)
    return [Finding("Verified search", Health.BROKEN, problem, remedy, mends, "database.corrupt")]


def _index_again(tx: Transaction) -> Sequence[IndexedCount]:
    """Index what the search index lacks of memory and tasks, and say what that was.

    Skills are indexed as sessions find them. Messages are left out: earlier versions indexed less of a session.
    """
    newest = newest_entry(tx)
    index_memory(tx)
    index_tasks(tx)
    return entries_since(tx, newest)


def _missing_passages(tx: Transaction) -> str:
    """The passages that the search index lacks and what they are of, as a clause; empty for none."""
    added = _index_again(tx)
    if not added:
        return ""
    labels = labels_of_blocks(tx)
    blocks = [f"the block {labels.get(one.source, one.source)}" for one in added if one.kind == "block"]
    entries = sum(one.kind in {"archival", "superseded"} for one in added)
    tasks = sum(one.source.startswith(TASK_ID) for one in added)
    named = _first(blocks, "block")
    named += [plural(entries, "archival entry", "archival entries")] if entries else []
    named += [plural(tasks, "task")] if tasks else []
    return f"{plural(sum(one.count for one in added), 'passage')} of {', '.join(named)}"


def _first(names: Sequence[str], noun: str) -> list[str]:
    return [*names[:3], *([f"{plural(len(names) - 3, f'other {noun}')}"] if len(names) > 3 else [])]


def _rebuild_search(tx: Transaction) -> None:
    rebuild_search(tx)
    _index_again(tx)
    index_all(tx)


def _verify_segments(path: Path) -> Iterator[Finding]:
    for generation in generations(path)[-1:]:
        try:
            checked = check_segments(generation)
            damaged = checked.damaged or _missing(path, generation, checked)
        except OSError as error:
            yield Finding("Verified segments", Health.NOTE, f"{generation} cannot be read ({error.strerror}).")
            continue
        if damaged:
            more = f" and {len(damaged) - 3} more" if len(damaged) > 3 else ""
            detail = f"Damaged at {'; '.join(damaged[:3])}{more}."
            remedy = "pattern-acp doctor --repair moves them away; the next session writes them again."
            yield Finding("Verified segments", Health.NOTE, detail, remedy, Repair("move", str(generation), safe=True))
        else:
            cut = f", {checked.torn} lines were cut off" if checked.torn else ""
            detail = f"{checked.events:,} events in {size_of(generation) / 1e6:.1f} MB{cut}"
            yield Finding("Verified segments", Health.OK, detail)


class CheckedSegments(Struct, frozen=True):
    """The result of reading a generation from end to end."""

    events: int
    upto: int
    """Number of the newest event."""
    torn: int
    """Lines that were cut off when they were written."""
    damaged: tuple[str, ...]
    """Locations of damaged lines and files."""


def check_segments(generation: Path) -> CheckedSegments:
    """Read a generation from end to end, with every value that a line names. Raises OSError where it cannot be read."""
    reading, count, upto = SegmentReading(), 0, 0
    for segment in segments(generation):
        for number, line in enumerate(read_lines(segment, reading)):
            try:
                for row in _rows(line):
                    decode_row(row, partial(read_value, generation))
            except SegmentDamageError as error:
                reading.damaged.append(f"{segment.name}, line {number + 1}: {error}")
            match line:
                # Lines that were written again after a cut-off page count once.
                case {"e": [int(seq), *_]} if seq > upto:
                    count, upto = count + 1, seq
                case _:
                    pass
    return CheckedSegments(count, upto, reading.torn, tuple(reading.damaged))


def _rows(line: JsonObject) -> Sequence[Json]:
    match line:
        case {"e": row} | {"r": row}:
            return (row,)
        case {"rows": list(rows)}:
            return rows
        case _:
            return ()


def _missing(path: Path, generation: Path, checked: CheckedSegments) -> tuple[str, ...]:
    """The parts of the constellation that a generation lacks, such as a deleted segment."""
    there = read_file(path, partial(count_events, upto=checked.upto))
    gone = there - checked.events
    return (f"{generation.name}, where {gone:,} events are missing",) if gone > 0 else ()


def _outcome(name: str, problems: Sequence[str], sound: str) -> Finding:
    if not problems:
        return Finding(name, Health.OK, sound)
    more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
    remedy = "See docs/how-to/recovery.md; pattern-acp backup --list shows what you can go back to."
    code = "journal.not-sound" if name == "Verified journal" else "database.corrupt"
    mends = Repair("restore", "latest", safe=False)
    return Finding(name, Health.BROKEN, "; ".join(problems[:3]) + more, remedy, mends, code)


def _file_system(path: Path, mounts: Path) -> Iterator[Finding]:
    kind = file_system_of(path.resolve(), mounts)
    if kind in NETWORK_FILE_SYSTEMS:
        detail = f"{path.parent} is on a network file system ({kind}), whose locks SQLite cannot rely on."
        yield Finding("File system", Health.NOTE, detail, "Set PATTERN_ACP_HOME to a folder on a disk of this machine.")


def file_system_of(path: Path, mounts: Path) -> str:
    """The kind of file system that holds `path`; empty where the system does not say."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        place = fields[1].replace("\\040", " ")
        if len(place) >= len(best) and path.is_relative_to(place):
            best, kind = place, fields[2]
    return kind


def _free_space(path: Path) -> Iterator[Finding]:
    free = shutil.disk_usage(path.parent).free
    if free < max(LOW_DISK_BYTES, 2 * path.stat().st_size):
        detail = f"{free / 1e6:.0f} MB are left on the disk of {path.parent}, {path.stat().st_size / 1e6:.0f} are used."
        yield Finding("Disk", Health.NOTE, detail, "Free some space; pattern-acp gc --dry-run shows what we can.")


def _private(path: Path) -> Iterator[Finding]:
    if platform.system() == "Windows":
        return
    folder = path.parent
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o077:
        detail = f"{folder} can be used by others (mode {mode:o})."
        repair = Repair("chmod", str(folder), safe=True)
        yield Finding("Constellation folder", Health.NOTE, detail, f"chmod 700 '{folder}'", repair)


def _leftovers(path: Path, now_ms: int) -> Iterator[Finding]:
    """Leftovers of a backup or restore that was interrupted."""
    folder = path.parent / FOLDER
    for each in sorted([*folder.glob(f"*{PART}"), *path.parent.glob(f"*{RESTORING}")]):
        if now_ms - each.stat().st_mtime_ns // 1_000_000 > STALE_PART_MS:
            detail = f"{each} was left by a copy that was cut off."
            repair = Repair("move", str(each), safe=True)
            yield Finding("Leftover", Health.NOTE, detail, "Delete it, or pattern-acp doctor --repair", repair)
