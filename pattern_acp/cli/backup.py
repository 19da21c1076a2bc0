"""`pattern-acp backup`, `restore` and `gc`: recovery/backups.py and garbage_collection.py in the terminal."""

from pathlib import Path

import anyio

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_OK, BackUp, Restore, Sweep
from pattern_acp.cli.command_runner import name_others, show_answer, write_segments
from pattern_acp.commands.document import Column, Paragraph, PartsResult, Table, as_result, columns
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.clock import SystemClock, local_minute
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.domain.text_limits import one_line
from pattern_acp.journal.leases import host_name, is_running
from pattern_acp.journal.retention import size_text
from pattern_acp.recovery.backups import Backup, list_backups, make_backup, restore
from pattern_acp.recovery.garbage_collection import RetentionPolicy, Sweepable, find_sweepable, sweep
from pattern_acp.workspace.worker_tree import leftovers


def run_backup(arguments: BackUp, process: Process) -> int:
    """Copy the constellation, or list its copies. Raises DatabaseError where it cannot be copied."""
    path = process.constellation_path
    if arguments.list_only:
        result = listed(list_backups(path))
    else:
        made = make_backup(path, Path(arguments.output) if arguments.output else None, now_ms=SystemClock().now_ms())
        said = Paragraph(f"{made.path} holds {size_text(made.size)}; it was checked and can be restored.")
        result = as_result(said, facts=_as_json(made))
    show_answer(result, process, as_json=arguments.json)
    if not arguments.json:
        name_others(process)
    return EXIT_OK


def run_restore(arguments: Restore, process: Process) -> int:
    """Put a copy where the constellation is, and say where that is now.

    Raises:
        DatabaseError: a process has it open, or no copy can be used.
    """
    path = process.constellation_path
    copy = Path(arguments.file) if arguments.file else None
    used, safety = restore(path, copy, now_ms=SystemClock().now_ms())
    facts = {"restored": str(used), "before": str(safety) if safety else None}
    before = (Paragraph(f"The state before it is in {safety}."),) if safety else ()
    parts = (Paragraph(f"{path} is again what {one_line(used.name, 120)} holds."), *before)
    return show_answer(as_result(*parts, facts=facts), process, as_json=arguments.json)


def run_sweep(arguments: Sweep, process: Process) -> int:
    """Show what serves nothing any more, and take it away unless it is only to be shown.

    Raises:
        DatabaseError: the constellation cannot be read or written, or a file cannot be deleted.
    """
    path = process.constellation_path
    settings = process.loaded.settings
    workers = tuple(leftovers(is_running, host_name()))
    policy = RetentionPolicy(SystemClock().now_ms(), settings.retention, settings.backup, workers)
    found, smaller = find_sweepable(path, policy), True
    if not arguments.dry_run:
        try:
            smaller = sweep(path, found, policy)
            if settings.backup.segments and any(not one.path for one in found):
                # They hold what was taken out of the file, until they are written again.
                anyio.run(write_segments, path)
        except OSError as error:
            raise DatabaseError(f"{error.filename} cannot be deleted ({error.strerror}).") from error
    total = sum(one.size for one in found)
    verb = "would be" if arguments.dry_run else "was"
    heads = columns(Column("Kind", "yellow"), Column("Size", "bold"), "Why", Column("What", "dim"))
    cells = tuple(
        (one.kind, size_text(one.size), one.reason, one.session_id or one.path or "inside the constellation")
        for one in found
    )
    still = "The file itself is still as large, since other windows use it; run gc again when they are closed."
    parts = (
        *((Table(heads, cells),) if found else ()),
        Paragraph(f"{size_text(total)} {verb} deleted." if found else "There is nothing to delete."),
        *(() if smaller else (Paragraph(still),)),
    )
    entries: list[Json] = [_sweepable_as_json(one) for one in found]
    facts = {"swept": not arguments.dry_run, "bytes": total, "smaller": smaller, "found": entries}
    return show_answer(as_result(*parts, facts=facts), process, as_json=arguments.json)


def _sweepable_as_json(one: Sweepable) -> JsonObject:
    return {
        "kind": one.kind,
        "path": one.path or None,
        "session": one.session_id or None,
        "bytes": one.size,
        "reason": one.reason,
    }


def listed(backups: tuple[Backup, ...]) -> PartsResult:
    """The copies, each with its path on its own line in a terminal: one folded at its blanks could not be copied."""
    heads = columns("Made", "Kind", Column("Size", "bold"), Column("File", "dim", code=True, below=True))
    rows = tuple((local_minute(one.at_ms), one.kind, size_text(one.size), str(one.path)) for one in backups)
    shown = Table(heads, rows, "lines") if rows else Paragraph("There are no backups yet.")
    return as_result(shown, facts={"backups": [_as_json(one) for one in backups]})


def _as_json(backup: Backup) -> JsonObject:
    return {"file": str(backup.path), "kind": backup.kind, "at_ms": backup.at_ms, "bytes": backup.size}
