"""Users of a symbol or a file, proven ones apart from mere namesakes, and the reach of a change.

Owns: the rules of proof, and the steps from use to use. Must not know: how an answer is worded.

A use is proven if the using file imports the name from the defining file (also under another name, through its module,
or through a re-exporting file), if both are in one file, or for a method if it is called on its own object or through
its class. A use of the same name that certainly refers to something else is left out; all others are guesses.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, field

from pattern_acp.codemap import lookups, store
from pattern_acp.codemap.lookups import fold, folder_of, name_under_test, stem_of
from pattern_acp.codemap.model import FileRecord, Import, Reference, Symbol
from pattern_acp.db.transaction import Transaction

HANDED_ON = 3
"""Limit on re-exports of a name, as by `__init__.py` and `index.ts`."""

MOST_GUESSES = 300
"""Limit on guesses about one symbol; more of them would not help anybody to find the true ones."""

UseKind: TypeAlias = Literal["call", "inherit", "type", "use", "import"]

_OWN = frozenset({"self", "this", "cls", "super", "super()", "Self", "@", "base", "parent", "static", "$this"})
_IMPLICIT_OWN = frozenset({"java", "csharp", "cpp", "ruby", "kotlin", "scala", "swift"})
"""Languages in which a method is called on its own object by its name alone."""
_FOLDER_IS_MODULE = frozenset({"go", "java"})
"""Languages in which files of one folder see each other's names without an import."""
_NAME_ONLY = "same name only"


class Use(Struct, frozen=True):
    """A use of a name. `why` is the proof, or the reason why it is only a guess."""

    path: str
    line: int
    kind: UseKind
    within: Symbol | None
    """The enclosing symbol; None at the top of a file."""
    why: str
    target: str
    """The qualified name, or the path, of the used thing."""
    count: int = 1


class Uses(Struct, frozen=True):
    """Uses of one thing: tests last, in the order of paths and lines; the most telling guesses first."""

    proven: tuple[Use, ...] = ()
    guesses: tuple[Use, ...] = ()
    has_more: bool = False
    """True if there are more guesses than these."""


class _Access(Struct):
    """Ways in which a file can refer to a symbol: by plain names, and behind receivers."""

    names: dict[str, str] = field(default_factory=dict[str, str])
    receivers: dict[str, str] = field(default_factory=dict[str, str])
    imports: list[Import] = field(default_factory=list[Import])


_NO_ACCESS = _Access()


class KnownCallers:
    """Cache of look-ups in one snapshot of the index: a common name has many uses."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx
        self._files: dict[str, FileRecord | None] = {}
        self._symbols: dict[int, Symbol | None] = {}
        self._references: dict[str, list[Reference]] = {}

    def language(self, path: str) -> str:
        """The language of a file; "" when it has none."""
        found = self._file(path)
        return found.language if found is not None else ""

    def is_test(self, path: str) -> bool:
        """Return whether a file is a test."""
        found = self._file(path)
        return found is not None and found.is_test

    def symbol(self, symbol_id: int | None) -> Symbol | None:
        """The symbol with this id."""
        if symbol_id is None:
            return None
        if symbol_id not in self._symbols:
            self._symbols[symbol_id] = store.symbol_with(self.tx, symbol_id)
        return self._symbols[symbol_id]

    def references(self, names: Iterable[str]) -> list[Reference]:
        """Every use of something with one of these names."""
        for name in names:
            if name not in self._references:
                self._references[name] = store.references_to(self.tx, name)
        return [used for name in names for used in self._references[name]]

    def around(self, used: Reference) -> set[int]:
        """The symbols around a use, the outer ones too."""
        ids: set[int] = set()
        current = used.symbol_id
        while current is not None and current not in ids:
            ids.add(current)
            symbol = self.symbol(current)
            current = symbol.parent_id if symbol is not None else None
        return ids

    def _file(self, path: str) -> FileRecord | None:
        if path not in self._files:
            self._files[path] = next(iter(store.files_at(self.tx, path)), None)
        return self._files[path]


def importers_of_file(known: KnownCallers, path: str) -> Uses:
    """The imports of a file: proven if the index knows the imported file, a guess if only the name agrees."""
    proven = [
        Use(found.path, found.line, "import", None, _import_words(found), path)
        for found in lookups.imports_resolved_to(known.tx, _as_imported(path))
        if found.path != path
    ]
    certain = {use.path for use in proven} | {path}
    guesses = [
        Use(found.path, found.line, "import", None, f"imports a module called {found.module}", path)
        for found in lookups.unresolved_imports_ending(known.tx, stem_of(path)[0])
        if found.path not in certain
    ]
    return Uses(
        tuple(sorted(_once_a_file(proven), key=lambda use: known.is_test(use.path))),
        tuple(sorted(_once_a_file(guesses), key=lambda use: known.is_test(use.path))),
    )


def uses_of(known: KnownCallers, symbol: Symbol) -> Uses:
    """The uses of a symbol, its own definition left out."""
    parent = known.symbol(symbol.parent_id)
    if parent is None or parent.kind == "module":
        return _uses_of_top_level(known, symbol)
    if parent.kind in {"class", "interface", "type", "enum"}:
        return _uses_of_member(known, symbol, parent)
    return _uses_of_inner(known, symbol, parent)


def _uses_of_inner(known: KnownCallers, symbol: Symbol, parent: Symbol) -> Uses:
    """Uses of a symbol that is defined inside a function: nothing outside of it can name it."""
    sort = _Sorter(known, symbol)
    for used in known.references((symbol.name,)):
        if used.path == symbol.path and not used.receiver and parent.id in known.around(used):
            sort.proven(used, f"inside {parent.name}")
    return sort.uses()


def _uses_of_top_level(known: KnownCallers, symbol: Symbol) -> Uses:
    access = _access_to(known.tx, symbol)
    names = {symbol.name}.union(*(item.names for item in access.values()))
    sort = _Sorter(known, symbol)
    defining = {found.path for found in store.symbols_named(known.tx, symbol.name) if found.parent_id is None}
    others = defining - {symbol.path}
    elsewhere = {found.path for found in store.imports_naming(known.tx, symbol.name)} - set(access)
    same_module = _same_module(symbol, known)
    for used in known.references(sorted(names)):
        item = access.get(used.path, _NO_ACCESS)
        if used.receiver:
            reason = item.receivers.get(used.receiver, "") if used.name == symbol.name else ""
            if reason:
                sort.proven(used, reason)
            elif _is_named_after(used.receiver, symbol) and used.path not in elsewhere:
                sort.guess(used, f"called on {used.receiver}, which has the file's name")
        elif used.name in item.names and used.path not in others:
            sort.proven(used, item.names[used.name])
        elif used.name != symbol.name or used.path in elsewhere or used.path in others:
            continue  # it refers to the file's own definition or import
        elif used.path == symbol.path:
            sort.proven(used, "same file")
        elif same_module(used.path):
            sort.proven(used, "same package")
        elif known.language(used.path) == known.language(symbol.path):
            sort.guess(used, _NAME_ONLY)
    sort.imports(item for each in access.values() for item in each.imports)
    return sort.uses()


def _uses_of_member(known: KnownCallers, symbol: Symbol, owner: Symbol) -> Uses:
    access = _access_to(known.tx, owner)
    heirs = {use.within.id for use in uses_of(known, owner).proven if use.kind == "inherit" and use.within is not None}
    sort = _Sorter(known, symbol)
    for used in known.references((symbol.name,)):
        is_own = used.receiver in _OWN or (not used.receiver and known.language(used.path) in _IMPLICIT_OWN)
        if is_own:
            around = known.around(used)
            if owner.id in around:
                sort.proven(used, f"inside {owner.name}")
            elif around & heirs:
                sort.proven(used, f"in a class derived from {owner.name}")
            if around:
                continue  # otherwise another class calls a method of its own
        names = access[used.path].names if used.path in access else {}
        if used.receiver in names:
            sort.proven(used, f"called on {owner.name}, {names[used.receiver]}")
        elif used.receiver == owner.name and used.path == owner.path:
            sort.proven(used, f"called on {owner.name}, same file")
        elif used.receiver and known.language(used.path) == known.language(symbol.path):
            sort.guess(used, _member_guess(used, owner, knows=used.path in access or used.path == owner.path))
    return sort.uses()


def _member_guess(used: Reference, owner: Symbol, *, knows: bool) -> str:
    last = fold(re.split(r"[.\->:]+", used.receiver)[-1])
    if last and (last == fold(owner.name) or (len(last) > 3 and fold(owner.name).endswith(last))):
        return f"called on {used.receiver}, which is named like {owner.name}"
    return f"same name, in a file that knows {owner.name}" if knows else _NAME_ONLY


class _Sorter:
    """Collects uses of one symbol."""

    def __init__(self, known: KnownCallers, symbol: Symbol) -> None:
        self._known = known
        self._symbol = symbol
        self._proven: list[tuple[Reference, str]] = []
        self._guesses: list[tuple[Reference, str]] = []
        self._imports: list[Use] = []

    def proven(self, used: Reference, why: str) -> None:
        """Add a use that certainly refers to the symbol."""
        self._proven.append((used, why))

    def guess(self, used: Reference, why: str) -> None:
        """Add a use that may refer to it."""
        self._guesses.append((used, why))

    def imports(self, found: Iterable[Import]) -> None:
        """Add imports of the symbol as uses if the file shows no other: it may pass it on as a value."""
        using = {used.path for used, _ in self._proven}
        for item in found:
            if item.path not in using and item.path != self._symbol.path:
                using.add(item.path)
                self._imports.append(
                    Use(item.path, item.line, "import", None, "imports it", self._symbol.qualified_name)
                )

    def uses(self) -> Uses:
        """All of them, in order."""
        proven = [*(self._use(used, why) for used, why in self._proven), *self._imports]
        proven.sort(key=lambda use: (self._known.is_test(use.path), use.path, use.line))
        self._guesses.sort(
            key=lambda pair: (_worth(pair[1]), self._known.is_test(pair[0].path), pair[0].path, pair[0].line)
        )
        guesses = tuple(self._use(used, why) for used, why in self._guesses[:MOST_GUESSES])
        return Uses(tuple(proven), guesses, has_more=len(self._guesses) > MOST_GUESSES)

    def _use(self, used: Reference, why: str) -> Use:
        within = self._known.symbol(used.symbol_id)
        return Use(used.path, used.line, used.kind, within, why, self._symbol.qualified_name, used.count)


def _worth(why: str) -> int:
    """Rank of a guess: telling names first, accidental agreement last."""
    return 2 if why == _NAME_ONLY else int(why.startswith("same name"))


def _access_to(tx: Transaction, symbol: Symbol) -> dict[str, _Access]:
    """The ways in which each file that imports the symbol's file can name the symbol."""
    access: dict[str, _Access] = {}
    wave, seen = {(symbol.path, symbol.name)}, {(symbol.path, symbol.name)}
    for _ in range(HANDED_ON):
        following: set[tuple[str, str]] = set()
        for path, name in wave:
            for found in lookups.imports_resolved_to(tx, _as_imported(path)):
                handed = _take_import(access.setdefault(found.path, _Access()), found, name, path)
                if handed and (found.path, handed) not in seen:
                    following.add((found.path, handed))
        seen |= following
        wave = following
    return {path: item for path, item in access.items() if item.names or item.receivers}


def _take_import(item: _Access, found: Import, name: str, path: str) -> str:
    """Record what an import makes of a symbol; return the name by which the file can re-export it, or ""."""
    why = f"imports it from {stem_of(path)[0]}"
    if found.name == name:
        local = found.local or name
        item.names[local] = why
        item.imports.append(found)
        return local
    if found.name == "default" and fold(found.local) == fold(name):
        item.names[found.local] = f"imports the default of {stem_of(path)[0]}"
        return ""
    if found.name == "*" or (not found.name and found.module[:1] in {"<", '"', "."} and path.endswith(_HEADERS)):
        item.names[name] = f"imports everything of {stem_of(path)[0]}"
        return name
    if not found.name or fold(found.name) == fold(stem_of(path)[0]):
        for receiver in {found.local, found.module, stem_of(found.module)[0], found.name} - {""}:
            item.receivers[receiver] = f"imports {stem_of(path)[0]}"
    return ""


_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".c", ".cc", ".cpp", ".cxx", ".inc")


def _as_imported(path: str) -> list[str]:
    """The paths to which an import of the file may be resolved: itself, its folder, or the header that declares it."""
    folder = folder_of(path)
    ways = [path, folder or "./"]
    base, dot, ending = path.rpartition(".")
    if dot and f".{ending}" in _HEADERS:
        ways += [f"{base}{header}" for header in (".h", ".hh", ".hpp", ".hxx")]
    return ways


def _same_module(symbol: Symbol, known: KnownCallers) -> Callable[[str], bool]:
    language, folder = known.language(symbol.path), folder_of(symbol.path)

    def same(path: str) -> bool:
        return language in _FOLDER_IS_MODULE and folder_of(path) == folder and known.language(path) == language

    return same


def _is_named_after(receiver: str, symbol: Symbol) -> bool:
    last = fold(receiver.replace("::", ".").rpartition(".")[2])
    around = stem_of(symbol.path, whole=True)
    return bool(last) and last in {fold(part) for part in around[-2:]} and receiver not in _OWN


def _import_words(found: Import) -> str:
    if found.name == "*":
        return "imports everything in it"
    return f"imports {found.name}" if found.name else "imports it"


def _once_a_file(uses: Sequence[Use]) -> tuple[Use, ...]:
    """Reduce to one use a file, with all that it imports in its reason."""
    by_path: dict[str, list[Use]] = {}
    for use in uses:
        by_path.setdefault(use.path, []).append(use)
    merged: list[Use] = []
    for group in by_path.values():
        first = group[0]
        names = list(dict.fromkeys(use.why.removeprefix("imports ") for use in group))
        why = first.why if len(names) == 1 else "imports " + ", ".join(names)
        merged.append(Use(first.path, first.line, "import", None, why, first.target, len(group)))
    return tuple(merged)


MOST_FOLLOWED = 200
"""Limit on followed symbols and files; beyond it, an answer says that it is incomplete."""


class ReachedFile(Struct, frozen=True):
    """A file that a change can reach. `depth` is 1 for direct users of the changed thing."""

    file: FileRecord
    depth: int
    uses: tuple[Use, ...]
    """The uses by which it was reached, at its own depth."""


class Impact(Struct, frozen=True):
    """The reach of a change, nearest first; `tests` are proven, `likely_tests` only match by name."""

    reached: tuple[ReachedFile, ...] = ()
    tests: tuple[ReachedFile, ...] = ()
    guesses: tuple[Use, ...] = ()
    likely_tests: tuple[FileRecord, ...] = ()
    is_whole: bool = True
    more_guesses: bool = False
    """True if there are more guesses than these."""


class _Search(Struct):
    """One breadth-first search."""

    known: KnownCallers
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
        """Record proven uses; return those that are new."""
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
    """Determine what a change of these symbols and whole files can reach, in at most `depth` steps.

    A file may already be deleted: imports of it are then guesses.
    """
    changed = set(paths)
    search = _Search(KnownCallers(tx), changed, may_show)
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
    """The symbols to follow next: the functions and classes around the uses."""
    around = {use.within.id: use.within for use in uses if use.within is not None}
    return list(around.values())


def _answer(search: _Search, origins: Sequence[str]) -> Impact:
    records = lookups.files_named(search.known.tx, search.depths)
    reached = [
        ReachedFile(records[path], depth, tuple(search.uses[path]))
        for path, depth in search.depths.items()
        if path in records
    ]
    reached.sort(key=lambda item: (item.depth, item.file.path))
    tests = [item for item in reached if item.file.is_test]
    # Functions named like tests are tests; the rest are fixtures and fakes beside them.
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
    """The innermost symbols around the changed lines of a file, and whether the whole file counts as changed.

    It does if lines outside every symbol changed, or no lines are named.
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
