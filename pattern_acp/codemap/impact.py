"""What a change can reach: who uses what changes, who uses those, and which tests are among them.

Owns: following proven uses up to a depth, and what counts as a test of it. Must not know: what proves a use
(`callers.py`), where changes come from, or how an answer is worded.

Only proven uses are followed. Guesses about what changes itself are told apart and not followed.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field

from pattern_acp.codemap import lookups, store
from pattern_acp.codemap.callers import Known, Use, importers_of_file, uses_of
from pattern_acp.codemap.model import FileRecord, Symbol
from pattern_acp.codemap.naming import fold
from pattern_acp.codemap.paths import name_under_test, stem_of
from pattern_acp.db.transaction import Transaction

MOST_FOLLOWED = 200
"""Symbols and files that are followed; beyond it, an answer says that it is not whole."""


class Reached(Struct, frozen=True):
    """A file that a change can reach. `depth` is 1 for what uses the changed thing itself."""

    file: FileRecord
    depth: int
    uses: tuple[Use, ...]
    """The uses by which it was reached, those of its own depth."""


class Impact(Struct, frozen=True):
    """What a change can reach, nearest first; `tests` are proven, `likely_tests` only have the name."""

    reached: tuple[Reached, ...] = ()
    tests: tuple[Reached, ...] = ()
    guesses: tuple[Use, ...] = ()
    likely_tests: tuple[FileRecord, ...] = ()
    is_whole: bool = True
    more_guesses: bool = False
    """Whether there are more guesses than these."""


class _Search(Struct):
    """One breadth-first search."""

    known: Known
    changed: set[str]
    may_show: Callable[[str], bool]
    depths: dict[str, int] = field(default_factory=dict[str, int])
    uses: dict[str, list[Use]] = field(default_factory=dict[str, list[Use]])
    guesses: list[Use] = field(default_factory=list[Use])
    more_guesses: bool = False
    seen_symbols: set[int] = field(default_factory=set[int])
    seen_files: set[str] = field(default_factory=set[str])
    followed: int = 0

    def take(self, uses: Iterable[Use], depth: int) -> list[Use]:
        """Note proven uses; those that were not met before."""
        new: list[Use] = []
        for use in uses:
            if not self.may_show(use.path):
                continue
            if use.path not in self.changed:
                first = self.depths.setdefault(use.path, depth)
                if first == depth:
                    self.uses.setdefault(use.path, []).append(use)
            new.append(use)
        return new


def impact_of(
    tx: Transaction,
    symbols: Sequence[Symbol],
    paths: Sequence[str],
    *,
    depth: int,
    may_show: Callable[[str], bool],
) -> Impact:
    """What a change of these symbols and whole files can reach, through at most `depth` steps.

    A file may be one that is no longer there: imports of it are then guesses.
    """
    changed = set(paths)
    search = _Search(Known(tx), changed, may_show)
    wave_symbols, wave_files = list(symbols), list(paths)
    for step in range(1, depth + 1):
        wave_symbols, wave_files = _step(search, wave_symbols, wave_files, step)
    return _answer(search, [*changed, *(symbol.path for symbol in symbols)])


def _step(
    search: _Search, symbols: Sequence[Symbol], files: Sequence[str], depth: int
) -> tuple[list[Symbol], list[str]]:
    next_symbols: list[Symbol] = []
    next_files: list[str] = []
    for symbol in symbols:
        if symbol.id in search.seen_symbols or search.followed >= MOST_FOLLOWED:
            continue
        search.seen_symbols.add(symbol.id)
        search.followed += 1
        found = uses_of(search.known, symbol)
        if depth == 1:
            search.more_guesses = search.more_guesses or found.has_more
            search.guesses += [use for use in found.guesses if search.may_show(use.path)]
        next_symbols += _enclosing(search.take(found.proven, depth))
    for path in files:
        if path in search.seen_files or search.followed >= MOST_FOLLOWED:
            continue
        search.seen_files.add(path)
        search.followed += 1
        found = importers_of_file(search.known, path)
        if depth == 1:
            search.guesses += [use for use in found.guesses if search.may_show(use.path)]
        next_files += [use.path for use in search.take(found.proven, depth)]
    return next_symbols, next_files


def _enclosing(uses: Sequence[Use]) -> list[Symbol]:
    """What would have to be followed next: the functions and classes around the uses."""
    around = {use.within.id: use.within for use in uses if use.within is not None}
    return list(around.values())


def _answer(search: _Search, origins: Sequence[str]) -> Impact:
    records = lookups.files_named(search.known.tx, search.depths)
    reached = [
        Reached(records[path], depth, tuple(search.uses[path]))
        for path, depth in search.depths.items()
        if path in records
    ]
    reached.sort(key=lambda item: (item.depth, item.file.path))
    tests = [item for item in reached if item.file.is_test]
    # What is named like a test is one; the rest are fixtures and fakes beside them.
    tests.sort(key=lambda item: (item.depth, not name_under_test(item.file.path)))
    guesses = tuple(use for use in search.guesses if use.path not in search.depths)
    return Impact(
        tuple(item for item in reached if not item.file.is_test),
        tuple(tests),
        guesses,
        _likely_tests(search, origins, {item.file.path for item in tests}),
        is_whole=search.followed < MOST_FOLLOWED,
        more_guesses=search.more_guesses,
    )


def _likely_tests(search: _Search, origins: Sequence[str], proven: set[str]) -> tuple[FileRecord, ...]:
    """Tests that are named after a changed file and do not certainly use it."""
    names = {fold(stem_of(path)[0]) for path in origins}
    return tuple(
        file
        for file in store.files_at(search.known.tx, "")
        if file.is_test
        and file.path not in proven
        and file.path not in search.changed
        and name_under_test(file.path) in names
        and search.may_show(file.path)
    )


def symbols_changed(tx: Transaction, path: str, lines: Sequence[tuple[int, int]]) -> tuple[tuple[Symbol, ...], bool]:
    """What changed lines of a file mean: the innermost symbols around them, and whether the whole file counts.

    That does when lines outside every symbol changed, or none are named.
    """
    if not store.files_at(tx, path):
        return (), False
    if not lines:
        return (), True
    symbols = store.symbols_in(tx, path)
    changed: dict[int, Symbol] = {}
    at_top = False
    for first, last in lines:
        touched = [symbol for symbol in symbols if symbol.line <= last and symbol.end_line >= first]
        outer = {symbol.parent_id for symbol in touched}
        changed.update((symbol.id, symbol) for symbol in touched if symbol.id not in outer)
        at_top = at_top or not touched
    return tuple(changed.values()), at_top
