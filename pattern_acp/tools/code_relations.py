"""Answers about who uses what: callers, importers, and what a change can reach.

Owns: how such an answer is laid out, with what is proven first and guesses apart. Must not know: what proves a use.
"""

from collections.abc import Sequence
from itertools import groupby

from pattern_acp.codemap.callers import Known, Use, Uses, importers_of_file, uses_of
from pattern_acp.codemap.impact import Impact, impact_of, symbols_changed
from pattern_acp.codemap.model import FileRecord, Symbol
from pattern_acp.codemap.targets import targets_named
from pattern_acp.db.transaction import Transaction
from pattern_acp.tools.code_map import CodeMapArguments
from pattern_acp.tools.code_roots import CodeRoot, limit_of, near_lines
from pattern_acp.tools.code_texts import Line, Naming, reached_line, symbol_line, use_line
from pattern_acp.tools.text_limits import plural

GUESSES_BESIDE_PROOF = 10
"""Guesses that are shown beside proven uses, unless a limit was asked for."""


def callers_lines(tx: Transaction, asked: CodeMapArguments, root: CodeRoot, naming: Naming) -> list[Line]:
    """Who uses what the query names: a symbol, or every symbol of that name, or the importers of a file."""
    targets, known = targets_named(tx, asked.query, may_show=root.may_show), Known(tx)
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
    """Which files import the file, or the symbol by its name."""
    targets, known = targets_named(tx, asked.query, may_show=root.may_show), Known(tx)
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
    known: Known, file: FileRecord, asked: CodeMapArguments, root: CodeRoot, naming: Naming
) -> list[Line]:
    uses = _shown_uses(importers_of_file(known, file.path), root)
    lines = [naming.line(file.path, None, "")]
    lines += _listed(plural(len(uses.proven), "proven importer"), uses.proven, asked, naming)
    if uses.guesses:
        lines += _listed(plural(len(uses.guesses), "guess", "guesses"), uses.guesses, asked, naming)
    return lines


def impact_lines(tx: Transaction, asked: CodeMapArguments, root: CodeRoot, naming: Naming) -> list[Line]:
    """What a change of what the query names can reach, or of what differs from the last commit."""
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
    """What differs from the last commit: symbols, and paths of files that changed as a whole or were deleted."""
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
