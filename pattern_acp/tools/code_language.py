"""Questions about code that a language server answers, and renaming.

Owns: what in a file a query means, the words of the answers, and a server's edits as one change of files that policy
decides on. Must not know: how servers are run. Imported with the first such call.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from pattern_acp.codemap.lookups import targets_named
from pattern_acp.codemap.model import Symbol
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.access import Access, ReadPath
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.paths import display_path, is_within, resolve_path
from pattern_acp.domain.text_limits import cut_line, plural
from pattern_acp.domain.tool_calls import Location, ToolKind
from pattern_acp.lsp.model import CodeLocation, FileEdits, Span, apply_edits, column_of, split_lines, units
from pattern_acp.tools.base import (
    CodeMapArguments,
    CodeOperation,
    LanguageAccess,
    NotAvailableError,
    NothingChangedError,
    PreparedCall,
    TargetMissingError,
    ToolContext,
    ToolInputError,
    WrongTargetError,
    find_target,
    missing_target,
)
from pattern_acp.tools.code_texts import CodeRoot, Line
from pattern_acp.tools.file_changes import PlannedFileChange, prepared_changes
from pattern_acp.workspace.errors import FileMissingError
from pattern_acp.workspace.files import TextFile

_AT_LINE = re.compile(r"(?P<path>.+?):(?P<line>[1-9]\d{0,8}):(?P<name>[^:]+)")
_IN_FILE = re.compile(r"(?P<path>.+?):(?P<name>[^:/\\]+)")
_NAMED = 8
"""Things of one name that a sentence lists."""

LINE_CHARACTERS = 160


class Spot(Struct, frozen=True):
    """A name in a file: where a question is asked."""

    file: TextFile
    span: Span
    name: str


async def accesses_of(asked: CodeMapArguments, context: ToolContext) -> tuple[Access, ...]:
    """Return the accesses of a question: the file that it names outright, and the folders of the session."""
    roots = tuple(ReadPath(root, is_folder=True) for root in context.roots)
    match = _AT_LINE.fullmatch(asked.query.strip()) or _IN_FILE.fullmatch(asked.query.strip())
    if match is None:
        return roots
    return (ReadPath((await find_target(match["path"], context)).resolved), *roots)


async def language_lines(asked: CodeMapArguments, context: ToolContext) -> list[Line]:
    """Return the definitions or uses of the name, with the line of each place that may be read unasked.

    Raises:
        ToolFailedError: the query names nothing, or more than one thing.
        LanguageServerError: there is no server for the file, or it cannot say.
    """
    languages = servers_of(context)
    spot = await find_spot(asked.query.strip(), context)
    if asked.operation is CodeOperation.DEFINITION:
        places = await languages.definition(spot.file.path, spot.file.text, spot.span)
        title = f"{spot.name}: {plural(len(places), 'definition')}"
    else:
        places = await languages.references(spot.file.path, spot.file.text, spot.span)
        title = f"{spot.name}: {plural(len(places), 'reference')}, the definition included"
    if not places:
        return [Line(f"The language server finds nothing for {spot.name} at {_where(spot, context)}.")]
    limit = asked.limit or 60
    lines = [Line(title), *await _place_lines(places[:limit], context)]
    return [*lines, Line(f"{len(places) - limit:,} more; raise limit")] if len(places) > limit else lines


async def prepare_rename(asked: CodeMapArguments, title: str, context: ToolContext) -> PreparedCall:
    """The call that gives what the query names the name `new_name`, in all files or in none.

    Raises:
        ToolInputError: `new_name` is missing.
        ToolFailedError: the query names nothing, or files outside the session's folders would change.
        LanguageServerError: there is no server for the file, or it refuses.
    """
    new_name = asked.new_name.strip()
    if not new_name or len(new_name.split()) > 1:
        raise ToolInputError("`new_name` must be one name; rename needs what it is called and what it is to be called.")
    languages = servers_of(context)
    spot = await find_spot(asked.query.strip(), context)
    edits = await languages.rename(spot.file.path, spot.file.text, spot.span, new_name)
    for each in edits:
        # Before anything is read: a server may want to change the libraries that it knows.
        if not is_within(await anyio.to_thread.run_sync(resolve_path, each.path), context.roots):
            shown = _shown(each.path, context)
            raise WrongTargetError(f"Renaming would change {shown}, outside the folders of this session.")
    files = [await _read(each.path, context) for each in edits]
    if any(file.source == "editor" for file in files):
        # The server may have read from the disk what the user has changed and not saved.
        for file in files:
            await languages.show(file.path, file.text)
        edits = await languages.rename(spot.file.path, spot.file.text, spot.span, new_name)
    if not edits:
        raise NothingChangedError(f"The language server would change nothing to rename {spot.name}.")
    changes = [await _change(each, context) for each in edits]
    prepared = prepared_changes(f"{title} to {new_name}", changes, context)
    return PreparedCall(
        prepared.title, prepared.accesses, prepared.run, prepared.locations, prepared.preview, kind=ToolKind.EDIT
    )


def servers_of(context: ToolContext) -> LanguageAccess:
    """The language servers of the session. Raises ToolFailedError where there are none."""
    if context.languages is None:
        raise NotAvailableError("There are no language servers in this session", advice="use find and callers.")
    return context.languages


async def find_spot(query: str, context: ToolContext) -> Spot:
    """The one place that `path:line:name`, `path:name`, `Class.method` or a name means.

    Raises:
        ToolFailedError: there is none, or there are several.
        WorkspaceError: the file cannot be read.
    """
    at_line = _AT_LINE.fullmatch(query)
    if at_line is not None:
        file = await _read(at_line["path"], context)
        return _on_line(file, int(at_line["line"]), at_line["name"], context)
    found = await _indexed(query, context)
    if len(found) > 1:
        choices = ", ".join(f"{_shown(path, context)}:{symbol.line}:{symbol.name}" for path, symbol in found[:_NAMED])
        raise WrongTargetError(f"{plural(len(found), 'thing')} have that name; say which as path:line:name: {choices}.")
    if found:
        path, symbol = found[0]
        return _on_line(await _read(path, context), symbol.line, symbol.name, context)
    in_file = _IN_FILE.fullmatch(query)
    if in_file is None:
        raise TargetMissingError(f"The index knows nothing called {query[:100]!r}", advice="name it as path:line:name.")
    file = await _read(in_file["path"], context)
    name = in_file["name"].rpartition(".")[2]
    lines = (number for number, line in enumerate(split_lines(file.text), 1) if _word(name).search(line))
    return _on_line(file, next(lines, 1), name, context)


async def _indexed(query: str, context: ToolContext) -> list[tuple[str, Symbol]]:
    found: list[tuple[str, Symbol]] = []
    for path in context.roots if context.code is not None else ():
        root = CodeRoot(path, "", context)

        def named(tx: Transaction, root: CodeRoot = root) -> tuple[Symbol, ...]:
            return targets_named(tx, query, may_show=root.may_show).symbols

        symbols, _ = await context.code.ask(path, named, on_progress=_unheard) if context.code else ((), None)
        found += [(root.locate(symbol.path), symbol) for symbol in symbols or ()]
    return list(dict.fromkeys(found))


async def _unheard(_progress: object) -> None:
    """Progress of the index, which a question that only looks for a name does not show."""


def _on_line(file: TextFile, number: int, name: str, context: ToolContext) -> Spot:
    lines = split_lines(file.text)
    line = lines[number - 1] if number <= len(lines) else ""
    word = name.strip().rpartition(".")[2]
    match = _word(word).search(line)
    if match is None:
        shown = cut_line(line.strip(), LINE_CHARACTERS)
        where = f"{_shown(file.path, context)}:{number}"
        raise TargetMissingError(f"There is no {word} at {where}, which reads {shown!r}; its lines may have moved.")
    start = units(line[: match.start()])
    return Spot(file, Span(number - 1, start, number - 1, start + units(word)), word)


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")


async def _read(path: str, context: ToolContext) -> TextFile:
    target = await find_target(path, context)
    try:
        return await context.files.read_text_file(target.path)
    except FileMissingError:
        raise await missing_target(target) from None


async def _change(edits: FileEdits, context: ToolContext) -> PlannedFileChange:
    target = await find_target(edits.path, context)
    before = await context.files.read_text_file(target.path)
    after = apply_edits(before.text, edits.edits)
    line = min(each.span.line for each in edits.edits) + 1 if edits.edits else 1
    is_known = context.read_fingerprints.get(target.resolved) == before.fingerprint
    summary = f"Renamed in {target.shown} at {plural(len(edits.edits), 'place')}."
    return PlannedFileChange(target, before, after, summary, line, is_known)


async def _place_lines(places: Sequence[CodeLocation], context: ToolContext) -> list[Line]:
    texts: dict[str, list[str]] = {}
    lines: list[Line] = []
    for place in places:
        if place.path not in texts:
            texts[place.path] = await _lines_of(place.path, context)
        known = texts[place.path]
        number = place.span.line
        text = known[number] if number < len(known) else ""
        column = column_of(text, place.span.unit) + 1
        head = f"{_shown(place.path, context)}:{number + 1}"
        reads = f" {cut_line(text.strip(), LINE_CHARACTERS)}" if text.strip() else f" column {column}"
        lines.append(Line(reads, Location(place.path, number + 1), head))
    return lines


async def _lines_of(path: str, context: ToolContext) -> list[str]:
    """The lines of a file that may be read unasked; none of another."""
    if not Path(path).is_absolute():
        return []
    try:
        target = await find_target(path, context)
        if not context.may_read(target.resolved):
            return []
        return split_lines((await context.files.read_text_file(target.path)).text)
    except WorkspaceError:
        return []


def _shown(path: str, context: ToolContext) -> str:
    return display_path(path, context.cwd)


def _where(spot: Spot, context: ToolContext) -> str:
    return f"{_shown(spot.file.path, context)}:{spot.span.line + 1}"
