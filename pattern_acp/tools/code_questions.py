"""Answers questions about code: asks the index of each root and puts the answer into words.

Owns: what each operation asks and how its answer is laid out and cut. Must not know: how an index is stored. Imported
with the first call of `code_map`, since it brings `codemap` with it.
"""

import os
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.codemap.brief import MOST_FILES, brief, outline_file, outline_folder
from pattern_acp.codemap.callers import (
    Impact,
    KnownCallers,
    Use,
    Uses,
    impact_of,
    importers_of_file,
    symbols_changed,
    uses_of,
)
from pattern_acp.codemap.lookups import FILE_KIND, FindQuery, find, targets_named
from pattern_acp.codemap.model import FileRecord, IndexProgress, Symbol, SymbolKind
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.paths import is_within
from pattern_acp.domain.text_limits import cut_line, plural
from pattern_acp.domain.tool_calls import Location, TextContent
from pattern_acp.memory.service.access import MemoryHit
from pattern_acp.tools.base import (
    CodeAccess,
    CodeMapArguments,
    CodeOperation,
    CodeState,
    NotAvailableError,
    Progress,
    ToolContext,
    ToolInputError,
    ToolOutcome,
    WrongTargetError,
    find_target,
    is_shown,
    looks_readable,
)
from pattern_acp.tools.code_texts import (
    ELSEWHERE,
    LISTED,
    NO_EXACT,
    CodeRoot,
    Line,
    Naming,
    Question,
    as_typed,
    brief_lines,
    find_lines,
    folder_lines,
    freshness_line,
    limit_of,
    near_lines,
    outline_lines,
    reached_line,
    symbol_line,
    use_line,
)
from pattern_acp.workspace.git import FileDiff

LINE_LIMIT = 400
"""Characters of one line."""

TEXT_LIMIT = 12_000
"""Characters of an answer: a longer one is better asked more narrowly."""

LOCATIONS_SHOWN = 30
"""Places that are reported to an editor."""

MEMORIES = 5
"""Memories of a brief (issue 4, section 2)."""

CLOSE_IN_MEANING = 0.6
"""From which likeness in meaning a memory belongs to a topic though it shares no word with it."""

MEMORY_CHARACTERS = 300

FOUND_BY_TEXT = frozenset({CodeOperation.FIND, CodeOperation.CALLERS})
"""Questions about a name, which its text answers as long as the index cannot."""

TEXT_SECONDS = 3.0
"""Longest search for a name by its text, while the index is being built. In 100,000 files it takes 1.6 s of a machine
that does nothing else; with the wait for the index before it, an answer takes less than 5 s."""

TEXT_MATCHES = 200
"""Lines that such a search finds, before those that define something are put first."""

TEXT_CHARACTERS = 160
"""Characters that are shown of each."""

_NAME = re.compile(r"[^\W\d]\w+")


class Answered(Struct, frozen=True):
    """An answer: how fresh it is, and its lines."""

    freshness: str
    lines: tuple[Line, ...]


async def answer(asked: CodeMapArguments, context: ToolContext, progress: Progress) -> ToolOutcome:
    """The answer to a question as the result of a call; see `answered`."""
    return outcome_of(await answered(asked, context, progress), context)


async def answered(asked: CodeMapArguments, context: ToolContext, progress: Progress) -> Answered:
    """The answer to a question, over every root of the session.

    Raises:
        ToolInputError: a kind is none that there is.
        ToolFailedError: there is no code map, or the question is about a place outside the roots.
        WorkspaceError: git cannot say what changed, or the index cannot be used.
        DatabaseError: memory cannot be read.
    """
    code = context.code
    if asked.operation in {CodeOperation.DEFINITION, CodeOperation.REFERENCES}:
        from pattern_acp.tools.code_language import language_lines

        return Answered("answered by a language server", tuple(await language_lines(asked, context)))
    if code is None:
        raise NotAvailableError("There is no code map in this session", advice="use search_text and find_files.")
    _require_kinds(asked)
    states: list[CodeState] = []
    parts: list[list[Line]] = []
    roots = await _roots(asked, context, code)
    for root in roots:
        found, state = await code.ask(
            root.path,
            partial(_ask, asked, root),
            on_progress=_shower(progress),
            briefly=asked.operation in FOUND_BY_TEXT,
        )
        states.append(state)
        parts.append(_marked(found or [], root, state))
    # Where one root has it, it is no matter what may have been meant in another.
    telling = [part for part in parts if any(line.place is not None for line in part)]
    lines = [line for part in telling or parts for line in part]
    if _may_miss(asked, states, lines):
        lines = [*(lines if telling else ()), *await _lines_by_text(asked, roots)] or lines
    if asked.operation is CodeOperation.BRIEF:
        lines += await _memories(asked.query, context)
    if not lines:
        lines = [Line(_nothing(asked))]
    return Answered(freshness_line(states), tuple(lines))


def _may_miss(asked: CodeMapArguments, states: Sequence[CodeState], lines: Sequence[Line]) -> bool:
    """Return whether a name was not found in an index that lacks files which may have it."""
    if asked.operation not in FOUND_BY_TEXT:
        return False
    is_whole = all(state.judgement.freshness not in {"partial", "missing"} for state in states)
    is_found = any(line.place is not None for line in lines) and not any(NO_EXACT in line.text for line in lines)
    return not is_whole and not is_found


async def _lines_by_text(asked: CodeMapArguments, roots: Sequence[CodeRoot]) -> list[Line]:
    """Lines with the name that is asked for, found by their text: definitions first."""
    # Late: an index that is whole needs none of it.
    from pattern_acp.tools.find_files import by_relevance
    from pattern_acp.workspace.search import search_text

    names = _NAME.findall(asked.query)
    if not names:
        return []
    lines: list[Line] = []
    is_whole = True
    under, most = asked.under.strip().removeprefix("./").strip("/"), limit_of(asked)
    for root in roots:
        matches = await search_text(
            root.path,
            rf"\b{names[-1]}\b",
            limit=TEXT_MATCHES,
            time_limit=TEXT_SECONDS,
            may_read=looks_readable,
            may_show=is_shown,
        )
        is_whole = is_whole and matches.stopped != "time"
        hits = [line for file in by_relevance(matches.lines) for line in file.lines if line.is_match]
        lines += [
            root.naming.line(hit.name, hit.line, f": {cut_line(hit.text.strip(), TEXT_CHARACTERS)}")
            for hit in hits
            if is_within(f"/{hit.name}", (f"/{under}",)) and root.may_show(hit.name)
        ]
    return found_by_text(names[-1], lines[:most], is_whole=is_whole)


def found_by_text(name: str, lines: Sequence[Line], *, is_whole: bool) -> list[Line]:
    """The lines in which the text of a name was found, below one that says so; none where nothing more can be said.

    `is_whole`: all files were searched. Where they were not, that is said, so that nobody takes the name for unknown.
    """
    if lines:
        unsearched = "" if is_whole else f", and not all files were searched in {TEXT_SECONDS:.0f} s"
        return [Line(f"{name}: by its text, since the index is not complete{unsearched}"), *lines]
    return [] if is_whole else [Line(f"{name}: not found, but not all files were searched in {TEXT_SECONDS:.0f} s")]


def _ask(asked: CodeMapArguments, root: CodeRoot, tx: Transaction) -> list[Line]:
    return _QUESTIONS[asked.operation](tx, asked, root, root.naming)


def _marked(lines: Sequence[Line], root: CodeRoot, state: CodeState) -> list[Line]:
    """The lines, with a word at those whose file was changed since it was indexed: they may mean another line now."""
    changed = {root.locate(path) for path in state.judgement.changed}
    return [
        replace(line, text=f"{line.text}  (changed since it was indexed)")
        if line.place is not None and line.place.path in changed
        else line
        for line in lines
    ]


async def _roots(asked: CodeMapArguments, context: ToolContext, code: CodeAccess) -> list[CodeRoot]:
    """The roots to ask: all, without those that lie inside another; for an outline, the one that has the file."""
    outer = [
        path
        for path in dict.fromkeys(context.roots)
        if not any(path != other and is_within(path, (other,)) for other in context.roots)
    ]
    if asked.operation is CodeOperation.OUTLINE:
        target = await find_target(asked.query or ".", context)
        inside = [path for path in outer if is_within(target.resolved, (path,))]
        if not inside:
            raise WrongTargetError(f"{target.shown} is outside the folders of this session; only those are indexed.")
        return [_root(path, context) for path in inside]
    if asked.operation is CodeOperation.IMPACT and not asked.query.strip():
        return [_root(path, context, await code.changed_files(path)) for path in outer]
    return [_root(path, context) for path in outer]


def _root(path: str, context: ToolContext, changes: tuple[FileDiff, ...] = ()) -> CodeRoot:
    return CodeRoot(path, context.cwd if path == context.roots[0] else "", context, changes)


def _require_kinds(asked: CodeMapArguments) -> None:
    known = (FILE_KIND, *get_args(SymbolKind))
    unknown = [kind for kind in asked.kinds if kind not in known]
    if unknown:
        raise ToolInputError(f"`kinds` has no {unknown[0]!r}; there are {', '.join(known)}.")


def _shower(progress: Progress) -> Callable[[IndexProgress], Awaitable[None]]:
    async def show(at: IndexProgress) -> None:
        await progress.show((TextContent(f"Indexing the code: {at.done:,} of {at.total:,} files"),))

    return show


def _find(tx: Transaction, asked: CodeMapArguments, root: CodeRoot, naming: Naming) -> list[Line]:
    under = asked.under.strip().removeprefix("./").strip("/")
    query = FindQuery(
        asked.query, frozenset(asked.kinds), f"{under}/" if under not in {"", "."} else "", limit_of(asked)
    )
    return find_lines(asked.query.strip(), find(tx, query, may_show=root.may_show), naming)


def _outline(tx: Transaction, asked: CodeMapArguments, root: CodeRoot, naming: Naming) -> list[Line]:
    wanted = asked.query.strip() or "."
    relative = root.relative(os.path.realpath(Path(root.context.cwd, wanted)))
    outline = outline_file(tx, relative)
    if outline is not None:
        return outline_lines(outline, naming)
    folder = f"{relative}/" if relative else ""
    return folder_lines(outline_folder(tx, folder, limit=limit_of(asked), may_show=root.may_show), naming) or (
        _outline_of_named(tx, wanted, root, naming)
    )


def _outline_of_named(tx: Transaction, wanted: str, root: CodeRoot, naming: Naming) -> list[Line]:
    """The outline of the one file whose path ends so; otherwise what may have been meant."""
    targets = targets_named(tx, wanted, may_show=root.may_show)
    outline = outline_file(tx, targets.files[0].path) if targets.files else None
    return outline_lines(outline, naming) if outline is not None else near_lines(targets)


def _brief(tx: Transaction, asked: CodeMapArguments, root: CodeRoot, naming: Naming) -> list[Line]:
    found = brief(tx, asked.query, may_show=root.may_show)
    lines = brief_lines(found.files[: asked.limit or MOST_FILES], naming)
    if found.more > 0 and lines:
        lines.append(
            Line(f"{plural(found.more, 'other file has', 'other files have')} to do with it; use more words to narrow")
        )
    return lines


def _nothing(asked: CodeMapArguments) -> str:
    shown = cut_line(" ".join(asked.query.split()), 100)
    if asked.operation is CodeOperation.OUTLINE:
        return f"The index has no file or folder {shown or '.'} with code in it{LISTED}."
    return f"The index knows nothing for {shown!r}{ELSEWHERE}."


async def _memories(topic: str, context: ToolContext) -> list[Line]:
    hits = await context.memory.search(topic, MEMORIES)
    telling = [hit for hit in hits if hit.words or (hit.meaning or 0) >= CLOSE_IN_MEANING][:MEMORIES]
    return [Line("Memory on it:"), *(_memory_line(hit) for hit in telling)] if telling else []


def _memory_line(hit: MemoryHit) -> Line:
    return Line(f"{hit.source}: {cut_line(' '.join(hit.text.split()), MEMORY_CHARACTERS)}")


def outcome_of(found: Answered, context: ToolContext) -> ToolOutcome:
    """An answer as the result of a call: as much text as is worth reading, and the first places."""
    lines = found.lines
    room = min(TEXT_LIMIT, max(context.result_limit - 200, 0)) - len(found.freshness)
    kept: list[str] = []
    for line in lines:
        text = cut_line(line.whole, LINE_LIMIT)
        room -= len(text) + 1
        if room < 0:
            left = len(lines) - len(kept)
            kept.append(f"{plural(left, 'line')} left out; narrow the question with a path, a kind or a limit")
            break
        kept.append(text)
    places = dict.fromkeys(line.place for line in lines if line.place is not None)
    text = "\n".join([found.freshness, *kept])
    return ToolOutcome(text, content=(TextContent(as_typed(text)),), locations=_locations(places))


def _locations(places: dict[Location, None]) -> tuple[Location, ...]:
    return tuple(places)[:LOCATIONS_SHOWN]


GUESSES_BESIDE_PROOF = 10
"""Guesses that are shown beside proven uses, unless a limit was asked for."""


def callers_lines(tx: Transaction, asked: CodeMapArguments, root: CodeRoot, naming: Naming) -> list[Line]:
    """Who uses what the query names: a symbol, or every symbol of that name, or the importers of a file."""
    targets, known = targets_named(tx, asked.query, may_show=root.may_show), KnownCallers(tx)
    lines: list[Line] = []
    guesses: dict[tuple[str, int], Use] = {}
    proven_places: set[tuple[str, int]] = set()
    has_more = False
    for file in targets.files:
        lines += _file_importers(known, file, asked, root, naming)
    quiet: list[Symbol] = []
    for symbol in targets.symbols:
        uses = _shown_uses(uses_of(known, symbol), root)
        proven_places |= {(use.path, use.line) for use in uses.proven}
        has_more = has_more or uses.has_more
        guesses |= {(use.path, use.line): use for use in uses.guesses}
        if uses.proven or len(targets.symbols) == 1:
            lines.append(symbol_line(symbol, naming))
            lines += _listed(f"{plural(len(uses.proven), 'proven use')}", uses.proven, asked, naming)
        else:
            quiet.append(symbol)
    if quiet:
        lines.append(Line(f"No proven use of {plural(len(quiet), 'other')} of that name:"))
        lines += [symbol_line(symbol, naming) for symbol in quiet[:10]]
    if targets.left_out:
        lines.append(Line(f"{plural(targets.left_out, 'more definition')} of that name; ask for one as path:name"))
    left = [use for place, use in guesses.items() if place not in proven_places]
    if left:
        counted = f"{'more than ' if has_more else ''}{plural(len(left), 'guess', 'guesses')}"
        title = f"{counted} (only the name agrees; check before relying on one)"
        shown = left if asked.limit or not proven_places else left[:GUESSES_BESIDE_PROOF]
        lines += _listed(title, shown, asked, naming) + _more(len(left) - len(shown))
    return lines or near_lines(targets)


def importers_lines(tx: Transaction, asked: CodeMapArguments, root: CodeRoot, naming: Naming) -> list[Line]:
    """List the files that import the file, or the symbol by its name."""
    targets, known = targets_named(tx, asked.query, may_show=root.may_show), KnownCallers(tx)
    lines: list[Line] = []
    for file in targets.files:
        lines += _file_importers(known, file, asked, root, naming)
    for symbol in targets.symbols:
        named = [
            use
            for use in importers_of_file(known, symbol.path).proven
            if symbol.name in use.why.removeprefix("imports ").split(", ") and root.may_show(use.path)
        ]
        if named or len(targets.symbols) == 1:
            lines.append(symbol_line(symbol, naming))
            lines += _listed(plural(len(named), "proven import"), named, asked, naming)
    return lines or near_lines(targets)


def _file_importers(
    known: KnownCallers, file: FileRecord, asked: CodeMapArguments, root: CodeRoot, naming: Naming
) -> list[Line]:
    uses = _shown_uses(importers_of_file(known, file.path), root)
    lines = [naming.line(file.path, None, "")]
    lines += _listed(plural(len(uses.proven), "proven importer"), uses.proven, asked, naming)
    if uses.guesses:
        lines += _listed(plural(len(uses.guesses), "guess", "guesses"), uses.guesses, asked, naming)
    return lines


def impact_lines(tx: Transaction, asked: CodeMapArguments, root: CodeRoot, naming: Naming) -> list[Line]:
    """List what a change of the query's symbol can reach, or of what differs from the last commit."""
    if asked.query.strip():
        targets = targets_named(tx, asked.query, may_show=root.may_show)
        symbols, paths = targets.symbols, tuple(file.path for file in targets.files)
        if not symbols and not paths:
            return near_lines(targets)
    else:
        symbols, paths = _changed(tx, root)
        if not symbols and not paths:
            return [Line("Nothing that the index knows differs from the last commit.")]
    found = impact_of(tx, symbols, paths, depth=asked.depth, may_show=root.may_show)
    changed = [Line("A change of:")]
    changed += [naming.line(path, None, "") for path in paths]
    changed += [symbol_line(symbol, naming) for symbol in symbols]
    return [*changed, *_reach_lines(found, asked, naming)]


def _reach_lines(found: Impact, asked: CodeMapArguments, naming: Naming) -> list[Line]:
    lines: list[Line] = []
    limit = limit_of(asked)
    for depth, group in groupby(found.reached, key=lambda item: item.depth):
        reached = list(group)
        step = "uses it directly" if depth == 1 else f"is {depth} steps away"
        lines.append(Line(f"Proven, {step}: {plural(len(reached), 'file')}"))
        lines += [reached_line(item, naming) for item in reached[:limit]] + _more(len(reached) - limit)
    if not found.reached:
        lines.append(Line("No file is proven to use it."))
    lines.append(Line(f"Tests that are proven to reach it: {len(found.tests) or 'none'}"))
    lines += [reached_line(item, naming) for item in found.tests[:limit]] + _more(len(found.tests) - limit)
    if found.likely_tests:
        lines.append(Line(f"Guess, tests that are only named after it: {len(found.likely_tests)}"))
        lines += [naming.line(file.path, None, "") for file in found.likely_tests[:limit]]
    if found.guesses:
        shown = found.guesses if asked.limit or not found.reached else found.guesses[:GUESSES_BESIDE_PROOF]
        more = "more than " if found.more_guesses else ""
        lines += _listed(f"Guesses, not followed further: {more}{len(found.guesses)}", shown, asked, naming)
        lines += _more(len(found.guesses) - len(shown))
    if not found.is_whole:
        lines.append(Line("It was not followed to the end, since it reaches very much; ask for a smaller depth."))
    return lines


def _changed(tx: Transaction, root: CodeRoot) -> tuple[tuple[Symbol, ...], tuple[str, ...]]:
    """Return the differences from the last commit: symbols, and paths of files changed as a whole or deleted."""
    symbols: list[Symbol] = []
    paths: list[str] = []
    for change in root.changes:
        if not root.may_show(change.path):
            continue
        some, whole = symbols_changed(tx, change.path, change.lines)
        symbols += some
        if whole or change.is_deleted:
            paths.append(change.path)
    return tuple(symbols), tuple(paths)


def _shown_uses(uses: Uses, root: CodeRoot) -> Uses:
    return Uses(
        tuple(use for use in uses.proven if root.may_show(use.path)),
        tuple(use for use in uses.guesses if root.may_show(use.path)),
        uses.has_more,
    )


def _listed(title: str, uses: Sequence[Use], asked: CodeMapArguments, naming: Naming) -> list[Line]:
    limit = limit_of(asked)
    shown = [use_line(use, naming) for use in uses[:limit]]
    return [Line(f"{title}{':' if shown else ''}"), *shown, *_more(len(uses) - limit)]


def _more(count: int) -> list[Line]:
    return [Line(f"{count:,} more; raise limit, or name it as path:name")] if count > 0 else []


_QUESTIONS: dict[CodeOperation, Question] = {
    CodeOperation.FIND: _find,
    CodeOperation.OUTLINE: _outline,
    CodeOperation.BRIEF: _brief,
    CodeOperation.CALLERS: callers_lines,
    CodeOperation.IMPORTERS: importers_lines,
    CodeOperation.IMPACT: impact_lines,
}
