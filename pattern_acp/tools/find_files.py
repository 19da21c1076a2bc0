"""The tool find_files."""

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from itertools import groupby
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio.to_thread
from msgspec import Meta, Struct
from msgspec.structs import replace

from pattern_acp.domain.access import ReadPath
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.paths import display_path
from pattern_acp.domain.text_limits import cut_middle, one_line, plural
from pattern_acp.domain.tool_calls import Location, TextContent, ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    CodeTarget,
    PreparedCall,
    Progress,
    ToolContext,
    ToolOutcome,
    confirm_target,
    find_target,
    is_shown,
    looks_readable,
    missing_target,
)
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.workspace.errors import FileMissingError, NotTextError
from pattern_acp.workspace.files import LineWindow
from pattern_acp.workspace.kinds import inspect_path
from pattern_acp.workspace.local_files import MAX_TEXT_BYTES
from pattern_acp.workspace.search import MatchedLine, Matches
from pattern_acp.workspace.walk import DirectoryEntry, list_directory

if TYPE_CHECKING:
    from pattern_acp.workspace.search import SearchHits

FILES_SHOWN = 200
"""Files of one result; the newest are the likeliest to matter."""

CUT_FOR_TIME = "the search was cut off for time, narrow it"

LOCATIONS_SHOWN = 20
"""Places that are reported to an editor; it opens or marks each."""


class FindFilesArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of find_files."""

    pattern: Annotated[str, Meta(min_length=1)]
    path: Annotated[str, Meta(min_length=1)] = "."


class FindFiles:
    """Finds files by a glob on their names."""

    spec = ToolSpec(
        "find_files",
        "Find unignored files by glob at any depth, newest first.",
        input_schema(FindFilesArguments),
    )
    kind = ToolKind.SEARCH
    changes_things = False

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, FindFilesArguments)
        target = await find_target(asked.path, context)
        where = "" if target.path == context.cwd else f" in {target.shown}"
        return PreparedCall(
            title=f"Find {one_line(asked.pattern)}{where}",
            accesses=(ReadPath(target.resolved, is_folder=True),),
            run=partial(_find, asked, target, context),
        )


async def _find(
    asked: FindFilesArguments, target: CodeTarget, context: ToolContext, _progress: Progress
) -> ToolOutcome:
    # Late: a start needs nothing of how files are searched.
    from pattern_acp.workspace.search import find_files

    await confirm_target(target)
    try:
        found = await find_files(target.path, asked.pattern, limit=FILES_SHOWN)
    except FileMissingError as error:
        raise await missing_target(target) from error
    # The walk follows links to its root; people and editors know the files below the name that was asked for.
    paths = [str(Path(target.path, *file.name.split("/"))) for file in found.files]
    lines = [display_path(path, context.cwd) for path in paths]
    counted = counted_files(found)
    return ToolOutcome(
        cut_middle("\n".join([counted, *lines]), context.result_limit).text,
        content=(TextContent(counted),),
        locations=tuple(Location(path) for path in paths[:LOCATIONS_SHOWN]),
    )


def counted_files(found: "SearchHits") -> str:
    """State the number of files in a line, and if there may be more."""
    if not found.files:
        return f"No file matches, but {CUT_FOR_TIME}." if found.timed_out else "No file matches."
    more = "" if found.complete else "more than "
    shown = f"; the newest {len(found.files)}, narrow the pattern for others" if found.total > len(found.files) else ""
    cut = f"; {CUT_FOR_TIME}" if found.timed_out else ""
    return f"{more}{plural(found.total, 'file')}{shown}{cut}:"


ENTRIES_SHOWN = 500
"""Entries of one result; a folder with more is data, and find_files is the way into it."""


class ListDirectoryArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of list_directory."""

    path: Annotated[str, Meta(min_length=1)] = "."
    depth: Annotated[int, Meta(ge=1, le=6)] = 1


class ListDirectory:
    """Lists a folder, and the folders in it down to a depth."""

    spec = ToolSpec(
        "list_directory",
        "List a folder with sizes.",
        input_schema(ListDirectoryArguments),
    )
    kind = ToolKind.READ
    changes_things = False

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, ListDirectoryArguments)
        target = await find_target(asked.path, context)
        return PreparedCall(
            title=f"List {target.shown}",
            accesses=(ReadPath(target.resolved, is_folder=True),),
            run=partial(_list, asked, target, context),
            locations=(Location(target.path),),
        )


async def _list(
    asked: ListDirectoryArguments, target: CodeTarget, context: ToolContext, _progress: Progress
) -> ToolOutcome:
    await confirm_target(target)
    try:
        listing = await list_directory(target.path, limit=ENTRIES_SHOWN, depth=asked.depth)
    except FileMissingError as error:
        raise await missing_target(target) from error
    counted = plural(listing.total, "entry", "entries")
    lines = [_line(entry) for entry in listing.entries] or ["(empty)"]
    if listing.total > len(listing.entries):
        lines.append(f"[{listing.total - len(listing.entries):,} more; list a folder below, or use find_files]")
    return ToolOutcome(
        cut_middle("\n".join(lines), context.result_limit).text,
        content=(TextContent(f"{counted}."),),
        locations=(Location(target.path),),
    )


def _line(entry: DirectoryEntry) -> str:
    marks = {"directory": "/", "link": " (link)", "other": " (special)", "file": f" {entry.size}"}
    return f"{entry.name}{marks[entry.kind]}{' (ignored by git)' if entry.ignored else ''}"


MATCHES_SHOWN = 200
"""Matching lines of one result."""

FEWEST_OF_FILE = 4
"""Matching lines that each file is shown with, as far as there are, where there are too many in all."""

FILES_LISTED = 200
"""Files of one result that lists or counts them."""

MOST_MATCHES = 4_000
"""Matching lines that are looked at to find the files that matter most."""

MOST_OF_FILE = 400
"""Matching lines of one file that are looked at."""

LEFT_OUT_NAMED = 3
"""Files that a result names as not searched for one reason."""

REASONS = {
    "binary": "as they are binary",
    "too large": "as they have a line that is too long to search",
    "unreadable": "as they cannot be read",
}


class SearchForm(StrEnum):
    """Content of the answer to a search."""

    LINES = "lines"
    FILES = "files"
    COUNT = "count"


class SearchTextArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of search_text."""

    pattern: Annotated[str, Meta(min_length=1)]
    path: Annotated[str, Meta(min_length=1)] = "."
    glob: Annotated[str, Meta(min_length=1)] | None = None
    case_sensitive: bool = True
    context_lines: Annotated[int, Meta(ge=0, le=20)] = 0
    form: SearchForm = SearchForm.LINES
    offset: Annotated[int, Meta(ge=0)] = 0


class SearchText:
    """Searches files for lines that a regular expression matches."""

    spec = ToolSpec(
        "search_text",
        "Search unignored files for a Python regex (\\n spans lines), best files first.",
        input_schema(SearchTextArguments, unlisted=("case_sensitive",)),
    )
    kind = ToolKind.SEARCH
    changes_things = False

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, SearchTextArguments)
        target = await find_target(asked.path, context)
        where = "" if target.path == context.cwd else f" in {target.shown}"
        only = f" ({one_line(asked.glob)})" if asked.glob else ""
        return PreparedCall(
            title=f"Search {one_line(asked.pattern)}{where}{only}",
            accesses=(ReadPath(target.resolved),),
            run=partial(_search, asked, target, context),
        )


async def _search(
    asked: SearchTextArguments, target: CodeTarget, context: ToolContext, _progress: Progress
) -> ToolOutcome:
    # Late: a start needs nothing of how files are searched.
    from pattern_acp.workspace.search import any_file, search_text

    await confirm_target(target)
    # The one who was let search a file or folder of credentials itself sees all of it.
    is_whole = not (looks_readable(target.path) and looks_readable(target.resolved))
    text = await _text_of_file(target, context)
    is_file = text is not None or await anyio.to_thread.run_sync(Path(target.path).is_file)
    most = MOST_MATCHES if is_file else MOST_OF_FILE
    try:
        matches = await search_text(
            target.path,
            asked.pattern,
            glob=asked.glob,
            case_sensitive=asked.case_sensitive,
            context=asked.context_lines if asked.form is SearchForm.LINES else 0,
            limit=MOST_MATCHES,
            file_limit=most,
            may_read=any_file if is_whole else looks_readable,
            # The one who may search the one file may see it by any of its names.
            may_show=any_file if is_whole or is_file else is_shown,
            text=text,
        )
    except FileMissingError as error:
        raise await missing_target(target) from error
    found = by_relevance(matches.lines)
    by_line = is_file and asked.form is SearchForm.LINES
    shown, rest = _lines_of_one(found, asked) if by_line else _page(found, asked)
    counted = _counted(matches, at_least=any(file.count > most for file in found))
    hits = [line for lines in shown for line in lines.lines if line.is_match]
    body = [line for lines in shown for line in _shown(lines, asked.form, context.cwd, most)]
    return ToolOutcome(
        cut_middle("\n".join([counted, *body, *rest, *_left_out(matches, context.cwd)]), context.result_limit).text,
        content=(TextContent(counted),),
        locations=tuple(Location(hit.path, hit.line) for hit in hits[:LOCATIONS_SHOWN]),
    )


class FileMatches(Struct, frozen=True):
    """The matching lines of one file, with those around them; `count` is how many match in all."""

    path: str
    lines: tuple[MatchedLine, ...]
    count: int


_DEFINES = late_pattern(
    r"\b(?:def|class|fn|func|function|interface|struct|enum|trait|type|module|macro|const|let|var|static)\s*\W?\s*$"
)
"""The end of a line before a name that the line defines."""

_SECONDARY = late_pattern(
    r"(?:^|/)(?:tests?|spec|docs?|examples?|fixtures|vendor|third_party|dist|build)(?:/|$)|\.(?:lock|min\.\w+|svg|map|log)$"
)
"""Paths whose files say less about where something is made."""


def by_relevance(lines: Sequence[MatchedLine]) -> list[FileMatches]:
    """The files of the matching lines, those first that define what was looked for or have most of it."""
    files = [FileMatches(path, tuple(group), 0) for path, group in groupby(lines, key=lambda line: line.path)]
    files = [replace(file, count=sum(line.is_match for line in file.lines)) for file in files]
    return sorted(files, key=lambda file: (-_score(file), file.path))


def _score(file: FileMatches) -> float:
    defines = any(line.is_match and _DEFINES.search(line.text[: line.start]) for line in file.lines)
    secondary = _SECONDARY.search(file.lines[0].name) is not None
    return 4 * defines - 2 * secondary + min(log2(1 + file.count), 4)


def _page(found: Sequence[FileMatches], asked: SearchTextArguments) -> tuple[list[FileMatches], list[str]]:
    """The files of one answer, and a line on the others."""
    files = found[asked.offset :]
    shown = list(files[:FILES_LISTED]) if asked.form is not SearchForm.LINES else _with_shares(files)
    behind = len(files) - len(shown)
    rest = [f"[{plural(behind, 'more file')}; continue with offset={asked.offset + len(shown)}]"] if behind else []
    return shown, rest


def _with_shares(files: Sequence[FileMatches]) -> list[FileMatches]:
    """The first files, each with its share of the lines of one answer; what some leave over goes to the first."""
    share = max(MATCHES_SHOWN // max(len(files), 1), FEWEST_OF_FILE)
    spare = max(MATCHES_SHOWN - sum(min(file.count, share) for file in files), 0)
    left = MATCHES_SHOWN
    shown: list[FileMatches] = []
    for file in files:
        if not left:
            break
        more = min(max(file.count - share, 0), spare)
        most = min(share + more, left)
        shown.append(_first_matches(file, most))
        spare -= more
        left -= min(most, file.count)
    return shown


def _lines_of_one(found: Sequence[FileMatches], asked: SearchTextArguments) -> tuple[list[FileMatches], list[str]]:
    """The lines of one answer about one file, and what it says of the others."""
    if not found:
        return [], []
    (file,) = found
    skipped = _first_matches(file, asked.offset)
    behind = file.lines[len(skipped.lines) if asked.offset else 0 :]
    shown = _first_matches(replace(file, lines=behind, count=file.count - asked.offset), MATCHES_SHOWN)
    left = file.count - asked.offset - MATCHES_SHOWN
    end = asked.offset + MATCHES_SHOWN
    rest = [f"[{plural(left, 'more line')}; continue with offset={end}]"] if left > 0 else []
    return [replace(shown, count=min(shown.count, MATCHES_SHOWN))], rest


def _first_matches(file: FileMatches, most: int) -> FileMatches:
    """The file with its first matching lines only, and what is around them."""
    if file.count <= most:
        return file
    kept: list[MatchedLine] = []
    for line in file.lines:
        most -= line.is_match
        if most < 0:
            break
        kept.append(line)
    return replace(file, lines=tuple(kept))


def _shown(file: FileMatches, form: SearchForm, cwd: str, most: int) -> list[str]:
    path = display_path(file.path, cwd)
    if form is SearchForm.FILES:
        return [path]
    if form is SearchForm.COUNT:
        return [f"{path}: {min(file.count, most):,}{'+' if file.count > most else ''}"]
    left = file.count - sum(line.is_match for line in file.lines)
    least = "at least " if file.count > most else ""
    more = [f"[{least}{plural(left, 'more line')} in this file; search it by its path]"] if left > 0 else []
    return [*_grouped(file.lines, cwd), *more]


def _counted(matches: Matches, *, at_least: bool) -> str:
    if matches.match_count == 0:
        return "No line matches, but the search was cut off for time." if matches.stopped else "No line matches."
    files = plural(matches.file_count, "file")
    counted = f"{'at least ' if at_least else ''}{plural(matches.match_count, 'line')} in {files}"
    counted = counted[:1].upper() + counted[1:]
    stopped = {
        "": "",
        "limit": "; there are more, narrow the search",
        "time": "; the search was cut off for time, narrow it",
    }
    return f"{counted}{stopped[matches.stopped]}:"


async def _text_of_file(target: CodeTarget, context: ToolContext) -> str | None:
    """Return a file's text, unsaved changes included; None for all that the search looks at on the disk itself.

    What the editor refuses to read is not read from the disk either.
    """
    facts = await anyio.to_thread.run_sync(inspect_path, target.path)
    if facts.kind not in {"text", "missing"}:
        return None
    try:
        if facts.size > MAX_TEXT_BYTES:
            # Searched on the disk, in portions, unless the editor refuses as much as a line of it.
            await context.files.read_lines(target.path, LineWindow(start=1, count=1, width=1, characters=1))
            return None
        return (await context.files.read_text_file(target.path)).text
    except NotTextError:
        return None


def _left_out(matches: Matches, cwd: str) -> list[str]:
    """List all files that were not searched: named only where a line matches, they would reveal their content."""
    secrets = _named(matches.left_out, matches, cwd)
    lines = [f"(Not searched, as files of credentials: {secrets}. Search one by its path.)"] if secrets else []
    for reason, words in REASONS.items():
        named = _named([file.name for file in matches.skipped if file.reason == reason], matches, cwd)
        lines += [f"(Not searched, {words}: {named}.)"] if named else []
    return lines


def _named(names: Sequence[str], matches: Matches, cwd: str) -> str:
    named = [display_path(str(Path(matches.root, name)), cwd) for name in names[:LEFT_OUT_NAMED]]
    more = len(names) - len(named)
    return f"{', '.join(named)}{f' and {more:,} more' if more else ''}"


def _grouped(lines: Sequence[MatchedLine], cwd: str) -> list[str]:
    """Each file's name once, then its lines: `12:` before a match, `13-` before context, `--` at gaps in context."""
    shown: list[str] = []
    has_context = any(not line.is_match for line in lines)
    for path, of_file in groupby(lines, key=lambda line: line.path):
        shown.append(display_path(path, cwd))
        previous = 0
        for line in of_file:
            if has_context and previous and line.line > previous + 1:
                shown.append("--")
            shown.append(f"{line.line}{':' if line.is_match else '-'} {line.text}")
            previous = line.line
    return shown
