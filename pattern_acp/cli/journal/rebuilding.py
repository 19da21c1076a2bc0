"""`pattern-acp journal rebuild`: makes the constellation again from its segments, says what came of it, and asks.

Owns: the question and what is printed. Must not know: how it is rebuilt (recovery/rebuild.py).
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import to_builtins

from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Journal
from pattern_acp.cli.output import printable, write_failure, write_json, write_line
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.clock import SystemClock, local_minute
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.domain.text_limits import plural
from pattern_acp.recovery.rebuild import RebuildReport, rebuild_into, take_place

_ERASE = "\r\x1b[K"
"""Back to the beginning of the line, which is emptied (ECMA-48)."""

_MOST = 5
"""Problems that are shown; JSON has them all."""


def rebuild_constellation(arguments: Journal, path: Path) -> int:
    """Rebuild the constellation at `path`; 1 when something is not sound, or nothing was put in its place.

    Raises:
        SegmentsError: there are no segments, or nothing in them can be used.
        DatabaseError: a file cannot be written, or another process has the constellation open.
    """
    now_ms = SystemClock().now_ms()
    try:
        if arguments.into:
            report = _rebuilt(arguments, path, Path(arguments.into), now_ms)
            _show(report, arguments, {"into": arguments.into})
            if not arguments.json:
                write_line(printable(f"{arguments.into} holds it; the constellation was not touched."))
            return EXIT_ERROR if report.problems else EXIT_OK
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Beside the constellation: the folder for temporary files may be too small, or lie in memory.
        with TemporaryDirectory(prefix=".rebuilt-", dir=path.parent, ignore_cleanup_errors=True) as scratch:
            return _rebuild_in_place(arguments, path, Path(scratch) / path.name, now_ms)
    except OSError as error:
        raise DatabaseError(f"{error.filename or path} cannot be used ({error.strerror}).") from error


def _rebuilt(arguments: Journal, path: Path, target: Path, now_ms: int) -> RebuildReport:
    if arguments.json or not sys.stderr.isatty():
        return rebuild_into(path, target, number=arguments.generation, now_ms=now_ms)
    shown = ""

    def show(what: str, done: int, of: int) -> None:
        nonlocal shown
        text = f"{what}: {100 * done // max(of, 1)} %" if of > 1 else f"{what} …"
        if text != shown:
            sys.stderr.write(f"{_ERASE}{text}")
            sys.stderr.flush()
            shown = text

    try:
        return rebuild_into(path, target, number=arguments.generation, now_ms=now_ms, progress=show)
    finally:
        sys.stderr.write(_ERASE)
        sys.stderr.flush()


def _rebuild_in_place(arguments: Journal, path: Path, fresh: Path, now_ms: int) -> int:
    report = _rebuilt(arguments, path, fresh, now_ms)
    if not arguments.json:
        _show(report, arguments, {})
    agreed = arguments.replace and (arguments.assume_yes or not sys.stdin.isatty() or _confirmed(path))
    if not arguments.replace:
        agreed = sys.stdin.isatty() and not arguments.json and _confirmed(path)
    safety = take_place(path, fresh, now_ms=now_ms) if agreed else None
    if arguments.json:
        _show(report, arguments, {"replaced": agreed, "before": str(safety) if safety else None})
    elif agreed:
        write_line(printable(f"{path} is now what was rebuilt."))
        if safety:
            write_line(printable(f"The state before it is in {safety}."))
    else:
        write_failure(
            "cli.not-confirmed",
            "pattern-acp: nothing was changed; say --replace to put it in place, or --into FILE to keep it.",
        )
    return EXIT_OK if agreed and not report.problems else EXIT_ERROR


def _show(report: RebuildReport, arguments: Journal, outcome: JsonObject) -> None:
    found = report.rebuilt
    if arguments.json:
        facts: dict[str, Json] = {
            "generation": report.generation,
            "sessions": report.sessions,
            "blocks": report.blocks,
            "problems": list(report.problems),
            "longer": list(report.longer),
            **to_builtins(found),
        }
        write_json({**facts, **outcome})
        return
    counts = (plural(found.events, "event"), plural(report.sessions, "session"), plural(report.blocks, "block"))
    write_line(f"From segments {report.generation}: {', '.join(counts)}, up to {local_minute(found.at_ms)}.")
    if found.torn:
        write_line(f"{plural(found.torn, 'line')} had been cut off while it was written, as a crash leaves it.")
    if found.damaged:
        write_line(f"{plural(len(found.damaged), 'place')} in the segments DAMAGED, which no crash explains:")
        for place in found.damaged[:_MOST]:
            write_line(f"  {printable(place)}")
    if found.moved or found.dropped:
        write_line(f"{plural(found.moved + found.dropped, 'row')} lost the event or the row that it belongs to.")
    for problem in report.problems[:_MOST]:
        write_line(printable(f"NOT SOUND: {problem}"))
    if not report.problems:
        write_line("Every chain, block of memory and stored file of it was checked and is sound.")
    for name in report.longer:
        write_line(f"Segments {name} go further, of a constellation that was replaced; --from {int(name)} takes them.")


def _confirmed(path: Path) -> bool:
    sys.stdout.write(printable(f"Replace it in {path}? The old one stays as a copy. [y/N] "))
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
