"""Who uses a symbol or imports a file, with what is proven apart from what only has the same name.

Owns: what counts as proof. Must not know: how an answer is worded, or what follows from a use (`impact.py`).

A use is proven when the using file imports the name from the defining file (also under another name, through its
module, or through a file that hands it on), when both are in one file, or for a method when it is called on its own
object or through its class. A use of the same name that certainly means something else is left out; all others are
guesses.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from pattern_acp.codemap import lookups, store
from pattern_acp.codemap.model import FileRecord, Import, Reference, Symbol
from pattern_acp.codemap.naming import fold
from pattern_acp.codemap.paths import folder_of, stem_of
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.lazy_dataclass import dataclass

HANDED_ON = 3
"""How many files a name may be handed through, as by `__init__.py` and `index.ts`."""

UseKind: TypeAlias = Literal["call", "inherit", "type", "use", "import"]

_OWN = frozenset({"self", "this", "cls", "super", "super()", "Self", "@", "base", "parent", "static", "$this"})
_IMPLICIT_OWN = frozenset({"java", "csharp", "cpp", "ruby", "kotlin", "scala", "swift"})
"""Languages in which a method is called on its own object by its name alone."""
_FOLDER_IS_MODULE = frozenset({"go", "java"})
"""Languages in which files of one folder see each other's names without an import."""
_NAME_ONLY = "same name only"
_CALLABLES = frozenset({"method", "function", "field"})


@dataclass(frozen=True, slots=True)
class Use:
    """A place that uses a name. `why` says what proves it, or why it is no more than a guess."""

    path: str
    line: int
    kind: UseKind
    within: Symbol | None
    """The symbol around it; None at the top of a file."""
    why: str
    target: str
    """The qualified name, or the path, of what is used."""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Uses:
    """Uses of one thing: tests last, in the order of paths and lines; of guesses, those that say more first."""

    proven: tuple[Use, ...] = ()
    guesses: tuple[Use, ...] = ()


@dataclass(slots=True)
class _Access:
    """How a file can reach a symbol: by which plain names, and behind which receivers."""

    names: dict[str, str] = field(default_factory=dict[str, str])
    receivers: dict[str, str] = field(default_factory=dict[str, str])
    imports: list[Import] = field(default_factory=list[Import])


def importers_of_file(tx: Transaction, path: str) -> Uses:
    """The imports of a file: proven where the index knows which file is meant, a guess where only the name agrees."""
    proven = [
        Use(found.path, found.line, "import", None, _import_words(found), path)
        for found in lookups.imports_resolved_to(tx, _as_imported(path))
        if found.path != path
    ]
    known = {use.path for use in proven} | {path}
    guesses = [
        Use(found.path, found.line, "import", None, f"imports a module called {found.module}", path)
        for found in lookups.unresolved_imports_ending(tx, stem_of(path)[0])
        if found.path not in known
    ]
    files = _Files(tx)
    return Uses(
        tuple(sorted(_once_a_file(proven), key=lambda use: files.is_test(use.path))),
        tuple(sorted(_once_a_file(guesses), key=lambda use: files.is_test(use.path))),
    )


def uses_of(tx: Transaction, symbol: Symbol) -> Uses:
    """The uses of a symbol, its own definition left out."""
    files = _Files(tx)
    enclosing = _class_around(tx, symbol)
    if enclosing is not None and symbol.kind in _CALLABLES:
        return _uses_of_member(tx, symbol, enclosing, files)
    return _uses_of_top_level(tx, symbol, files)


class _Files:
    """What is known of files, looked up once each."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._known: dict[str, FileRecord | None] = {}

    def language(self, path: str) -> str:
        """The language of a file; "" when it has none."""
        found = self._find(path)
        return found.language if found is not None else ""

    def is_test(self, path: str) -> bool:
        """Whether a file is a test."""
        found = self._find(path)
        return found is not None and found.is_test

    def _find(self, path: str) -> FileRecord | None:
        if path not in self._known:
            self._known[path] = next(iter(store.files_at(self._tx, path)), None)
        return self._known[path]


def _class_around(tx: Transaction, symbol: Symbol) -> Symbol | None:
    parent = store.symbol_with(tx, symbol.parent_id) if symbol.parent_id is not None else None
    return parent if parent is not None and parent.kind in {"class", "interface", "type", "enum"} else None


def _uses_of_top_level(tx: Transaction, symbol: Symbol, files: _Files) -> Uses:
    access = _access_to(tx, symbol)
    names = {symbol.name}.union(*(item.names for item in access.values()))
    sort = _Sorter(tx, symbol, files)
    defining = {found.path for found in store.symbols_named(tx, symbol.name) if found.parent_id is None}
    elsewhere = {found.path for found in store.imports_naming(tx, symbol.name)} - set(access)
    same_module = _same_module(symbol, files)
    for used in lookups.references_among(tx, names):
        item = access.get(used.path, _Access())
        if used.receiver:
            reason = item.receivers.get(used.receiver, "") if used.name == symbol.name else ""
            if reason:
                sort.proven(used, reason)
            elif _is_named_after(used.receiver, symbol) and used.path not in elsewhere:
                sort.guess(used, f"called on {used.receiver}, which has the file's name")
        elif used.name in item.names and used.path not in defining - {symbol.path}:
            sort.proven(used, item.names[used.name])
        elif used.name != symbol.name or used.path in elsewhere | (defining - {symbol.path}):
            continue  # it means what that file defines or imports itself
        elif used.path == symbol.path:
            sort.proven(used, "same file")
        elif same_module(used.path):
            sort.proven(used, "same package")
        elif files.language(used.path) == files.language(symbol.path):
            sort.guess(used, _NAME_ONLY)
    sort.imports(item for each in access.values() for item in each.imports)
    return sort.uses()


def _uses_of_member(tx: Transaction, symbol: Symbol, owner: Symbol, files: _Files) -> Uses:
    owner_access = _access_to(tx, owner)
    heirs = {use.within.id for use in uses_of(tx, owner).proven if use.kind == "inherit" and use.within is not None}
    sort = _Sorter(tx, symbol, files)
    for used in lookups.references_among(tx, (symbol.name,)):
        around = sort.enclosing_ids(used)
        is_own = used.receiver in _OWN or (not used.receiver and files.language(used.path) in _IMPLICIT_OWN)
        names = owner_access[used.path].names if used.path in owner_access else {}
        if used.path == owner.path:
            names = {**names, owner.name: "same file"}
        if is_own and owner.id in around:
            sort.proven(used, f"inside {owner.name}")
        elif is_own and around & heirs:
            sort.proven(used, f"in a class derived from {owner.name}")
        elif used.receiver in names:
            sort.proven(used, f"called on {owner.name}, {names[used.receiver]}")
        elif is_own and around:
            continue  # another class calls a method of its own
        elif used.receiver and files.language(used.path) == files.language(symbol.path):
            known = used.path in owner_access or used.path == owner.path
            sort.guess(used, f"same name, in a file that knows {owner.name}" if known else _NAME_ONLY)
    return sort.uses()


class _Sorter:
    """Collects uses of one symbol."""

    def __init__(self, tx: Transaction, symbol: Symbol, files: _Files) -> None:
        self._tx = tx
        self._files = files
        self._symbol = symbol
        self._proven: list[Use] = []
        self._guesses: list[Use] = []
        self._known: dict[int, Symbol] = {}

    def enclosing_ids(self, used: Reference) -> set[int]:
        """The symbols around a use, the outer ones too."""
        ids: set[int] = set()
        current = used.symbol_id
        while current is not None and current not in ids:
            ids.add(current)
            symbol = self._with(current)
            current = symbol.parent_id if symbol is not None else None
        return ids

    def proven(self, used: Reference, why: str) -> None:
        """A use that certainly means the symbol."""
        self._proven.append(self._use(used, why))

    def guess(self, used: Reference, why: str) -> None:
        """A use that may mean it."""
        self._guesses.append(self._use(used, why))

    def imports(self, found: Iterable[Import]) -> None:
        """Imports of the symbol count as uses where the file shows no other: it may pass it on as a value."""
        using = {use.path for use in self._proven}
        for item in found:
            if item.path not in using and item.path != self._symbol.path:
                using.add(item.path)
                why = "imports it"
                self._proven.append(Use(item.path, item.line, "import", None, why, self._symbol.qualified_name))

    def uses(self) -> Uses:
        """All of them, in order."""
        return Uses(
            tuple(sorted(self._proven, key=lambda use: (self._files.is_test(use.path), use.path, use.line))),
            tuple(
                sorted(
                    self._guesses,
                    key=lambda use: (use.why == _NAME_ONLY, self._files.is_test(use.path), use.path, use.line),
                )
            ),
        )

    def _use(self, used: Reference, why: str) -> Use:
        within = self._with(used.symbol_id) if used.symbol_id is not None else None
        return Use(used.path, used.line, used.kind, within, why, self._symbol.qualified_name, used.count)

    def _with(self, symbol_id: int) -> Symbol | None:
        if symbol_id not in self._known:
            found = store.symbol_with(self._tx, symbol_id)
            if found is None:
                return None
            self._known[symbol_id] = found
        return self._known[symbol_id]


def _access_to(tx: Transaction, symbol: Symbol) -> dict[str, _Access]:
    """How each file that imports the symbol's file can name the symbol."""
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
    """Note what an import makes of a symbol; the name by which the importing file can hand it on, or ""."""
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
    """What an import of the file may be resolved to: itself, its folder, or the header that announces it."""
    folder = folder_of(path)
    ways = [path, folder or "./"]
    base, dot, ending = path.rpartition(".")
    if dot and f".{ending}" in _HEADERS:
        ways += [f"{base}{header}" for header in (".h", ".hh", ".hpp", ".hxx")]
    return ways


def _same_module(symbol: Symbol, files: _Files) -> Callable[[str], bool]:
    language, folder = files.language(symbol.path), folder_of(symbol.path)

    def same(path: str) -> bool:
        return language in _FOLDER_IS_MODULE and folder_of(path) == folder and files.language(path) == language

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
    """One use a file, with all that it imports in its reason."""
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
