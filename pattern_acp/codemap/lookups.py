"""Search for a symbol or file by name, and queries of the index for the other questions.

Owns: the forms of a query, the order of matches (exact names, then paths, then similar ones), comparing names, and the
statements behind brief, callers and impact. Must not know: how an answer is worded, or who may see which file beyond
the test that the caller passes.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum

from msgspec import Struct

from pattern_acp.codemap import store
from pattern_acp.codemap.model import FileRecord, Import, Symbol
from pattern_acp.codemap.store import (
    FILES,
    IMPORTS,
    SYMBOLS,
    file_of,
    import_of,
    symbol_of,
)
from pattern_acp.db.columns import integer, text
from pattern_acp.db.transaction import Transaction

CANDIDATES = 2_000
"""Limit on symbols from one way of matching; beyond it, the number of further ones is not exact."""

FUZZY_BESIDE_EXACT = 5
"""Similar symbols that are shown beside exact ones: more would bury them."""

TYPO_CUTOFF = 0.75
"""Similarity (difflib's ratio) from which a name counts as a typo."""

FILE_KIND = "file"
"""The kind for files in a query, beside `model.SymbolKind`."""

_DEFINING = ("class", "interface", "function", "type", "enum", "macro", "module", "method", "constant")
"""Kinds in the order in which users look for them; others come last."""


class Match(IntEnum):
    """Ways to match a query, best first."""

    EXACT = 0
    EXACT_BUT_CASE = 1
    WHOLE_PATH = 2
    """The file's path from the root of the workspace."""
    PATH = 3
    START = 4
    WORDS = 5
    WORDS_AND_PATH = 6
    """Some words are in the name, the others in its path or class."""
    PART = 7
    PATH_PART = 8
    TYPO = 9

    @property
    def is_exact(self) -> bool:
        """Return whether the name itself matched, or the whole path."""
        return self <= Match.WHOLE_PATH

    @property
    def is_fuzzy(self) -> bool:
        """Return whether it is merely similar."""
        return self >= Match.START


class SymbolHit(Struct, frozen=True):
    """One match: a symbol, or a file if `symbol` is None."""

    match: Match
    path: str
    is_test: bool
    symbol: Symbol | None = None


class FindAnswer(Struct, frozen=True):
    """Matches, best first, and the number of further ones; `more_is_exact` is False when that is a lower bound."""

    hits: tuple[SymbolHit, ...]
    more: int = 0
    more_is_exact: bool = True


class FindQuery(Struct, frozen=True):
    """A query. `kinds` are of `model.SymbolKind` or `file`, none for all; `under` is a folder with a final slash."""

    text: str
    kinds: frozenset[str] = frozenset()
    under: str = ""
    limit: int = 20


def find(tx: Transaction, query: FindQuery, *, may_show: Callable[[str], bool]) -> FindAnswer:
    """Search the index.

    The query is a name (`serve`, `Session.prompt`, `read file`), a path or its end (`session/session.py`), or both
    (`session.py:prompt`). Case and the way words are joined do not matter, but an exact spelling comes first.
    """
    best: dict[tuple[str, int], SymbolHit] = {}
    files = paths_and_tests(tx)
    for match, symbol in _symbols(tx, query.text):
        if not query.kinds or symbol.kind in query.kinds:
            _keep(best, SymbolHit(match, symbol.path, files.get(symbol.path, False), symbol))
    if not query.kinds or FILE_KIND in query.kinds:
        for match, path in _files(files, query.text):
            _keep(best, SymbolHit(match, path, files[path]))
    hits = [hit for hit in best.values() if hit.path.startswith(query.under) and may_show(hit.path)]
    if not hits:
        slips = _slips(tx, query, files)
        hits = [hit for hit in slips if hit.path.startswith(query.under) and may_show(hit.path)]
    hits = _ordered(tx, hits, query.text)
    shown = _cut(hits, query)
    return FindAnswer(tuple(shown), len(hits) - len(shown), more_is_exact=len(best) < CANDIDATES)


def _keep(best: dict[tuple[str, int], SymbolHit], hit: SymbolHit) -> None:
    key = (hit.path, hit.symbol.id if hit.symbol is not None else 0)
    if key not in best or hit.match < best[key].match:
        best[key] = hit


def _symbols(tx: Transaction, text: str) -> Iterable[tuple[Match, Symbol]]:
    path, _, name = text.strip().rpartition(":")
    if path and is_path_like(path):
        # `path:name`: the file decides, so that nothing elsewhere is offered.
        yield from ((match, symbol) for match, symbol in _symbols(tx, name) if _is_end_of_path(path, symbol.path))
        return
    parts = qualified_parts(text)
    if len(parts) > 1:
        yield from _qualified(tx, parts)
    name = text.strip() if len(parts) != 1 else parts[0]
    if fold(name) and not is_path_like(name):
        yield from _by_name(tx, name)


def _by_name(tx: Transaction, name: str) -> Iterable[tuple[Match, Symbol]]:
    folded, words = fold(name), words_of(name)
    for symbol in store.symbols_named(tx, name):
        yield Match.EXACT, symbol
    for symbol in symbols_alike(tx, folded):
        yield Match.EXACT_BUT_CASE, symbol
    for symbol in store.symbols_folded(tx, folded, limit=CANDIDATES):
        yield (Match.START if fold(symbol.name).startswith(folded) else Match.PART), symbol
    if len(words) > 1:
        for symbol in symbols_with_words(tx, words):
            yield Match.WORDS, symbol
        yield from _by_words_and_path(tx, words)


def _by_words_and_path(tx: Transaction, words: Sequence[str]) -> Iterable[tuple[Match, Symbol]]:
    for word in words:
        for symbol in symbols_with_words(tx, (word,)):
            around = {*words_of(symbol.path), *words_of(symbol.qualified_name)}
            if word in words_of(symbol.name) and around.issuperset(words):
                yield Match.WORDS_AND_PATH, symbol


def _qualified(tx: Transaction, parts: Sequence[str]) -> Iterable[tuple[Match, Symbol]]:
    """Symbols by `Class.method`; the first part may also be the module, as in `writer.append`."""
    *outer, name = parts
    for symbol in symbols_alike(tx, fold(name)):
        around = [*stem_of(symbol.path, whole=True), *qualified_parts(symbol.qualified_name)[:-1]]
        if [fold(part) for part in around[-len(outer) :]] == [fold(part) for part in outer]:
            is_same = symbol.name == name and around[-len(outer) :] == outer
            yield (Match.EXACT if is_same else Match.EXACT_BUT_CASE), symbol


def _files(paths: Iterable[str], text: str) -> Iterable[tuple[Match, str]]:
    wanted = text.strip().removeprefix("./").rstrip("/")
    if not wanted or ":" in wanted:
        return
    words, folded = words_of(wanted), fold(wanted)
    for path in paths:
        if path == wanted:
            yield Match.WHOLE_PATH, path
        elif _is_end_of_path(wanted, path) or fold(stem_of(path)[-1]) == folded:
            yield Match.PATH, path
        elif words and all(word in path.lower() for word in words):
            yield Match.PATH_PART, path


def _is_end_of_path(end: str, path: str) -> bool:
    return f"/{path}".lower().endswith(f"/{end.lower()}")


def _slips(tx: Transaction, query: FindQuery, files: Mapping[str, bool]) -> list[SymbolHit]:
    """Symbols whose names differ from the query by a letter or two."""
    parts = qualified_parts(query.text)
    wanted = fold(parts[-1]) if parts else ""
    if len(wanted) < 3:
        return []
    by_fold: dict[str, list[str]] = {}
    for name in symbol_names(tx):
        by_fold.setdefault(fold(name), []).append(name)
    near = difflib.get_close_matches(wanted, list(by_fold), n=5, cutoff=TYPO_CUTOFF)
    names = [name for folded in near for name in by_fold[folded]]
    return [
        SymbolHit(Match.TYPO, symbol.path, files.get(symbol.path, False), symbol)
        for symbol in symbols_among(tx, names)
        if not query.kinds or symbol.kind in query.kinds
    ]


def _ordered(tx: Transaction, hits: list[SymbolHit], text: str) -> list[SymbolHit]:
    """Sort, best first. The number of importers only breaks ties: the most used is not the one asked for.

    Among similar matches, tests come last whatever agrees, since their names are sentences that hold any word.
    """
    used = importer_counts(tx, {hit.path for hit in hits if not hit.match.is_fuzzy})
    wanted, words = fold(text), words_of(text)

    def rank(hit: SymbolHit) -> tuple[bool | int | str, ...]:
        symbol = hit.symbol
        is_word = hit.match.is_fuzzy and symbol is not None and fold(symbol.name) in words
        return (
            Match.START if hit.match.is_fuzzy else hit.match,
            hit.is_test,
            not is_word,
            hit.match,
            fold(stem_of(hit.path)[-1]) != wanted,
            _kind_rank(symbol),
            symbol is not None and not symbol.exported,
            -used.get(hit.path, 0),
            len(symbol.name) if symbol is not None else hit.path.count("/"),
            hit.path,
            symbol.line if symbol is not None else 0,
        )

    return sorted(hits, key=rank)


def _kind_rank(symbol: Symbol | None) -> int:
    if symbol is None:
        return 0
    return _DEFINING.index(symbol.kind) if symbol.kind in _DEFINING else len(_DEFINING)


def _cut(hits: Sequence[SymbolHit], query: FindQuery) -> list[SymbolHit]:
    clear = [hit for hit in hits if not hit.match.is_fuzzy]
    room = query.limit - len(clear)
    if any(hit.match.is_exact for hit in clear) or (clear and is_path_like(query.text)):
        room = min(room, FUZZY_BESIDE_EXACT)
    return [*clear, *(hit for hit in hits if hit.match.is_fuzzy)][: min(len(clear) + max(room, 0), query.limit)]


_MOST_CANDIDATES = 200
"""Matches that are searched for those with exactly the name."""

MOST_SYMBOLS = 12
"""Limit on symbols of one name; a name that more have says nothing."""

_AT_LINE = re.compile(r"(.+):(\d+)(?::\d+)?")


class Targets(Struct, frozen=True):
    """The symbols or the file that a text names; both empty if it names nothing, and `near` has similar ones."""

    symbols: tuple[Symbol, ...] = ()
    files: tuple[FileRecord, ...] = ()
    near: tuple[str, ...] = ()
    left_out: int = 0
    """Symbols of the same name that are not among these."""


def targets_named(tx: Transaction, text: str, *, may_show: Callable[[str], bool]) -> Targets:
    """Find the symbols or the file that a text names; hidden files count as absent.

    It is a path, its end (when only one file has it), a name, `Class.method`, `path:name` or `path:line`.
    """
    wanted = text.strip().removeprefix("./")
    at_line = _AT_LINE.fullmatch(wanted)
    if at_line is not None and (files := _target_files(tx, at_line[1], may_show)):
        symbol = symbol_at(tx, files[0].path, int(at_line[2]))
        return Targets((symbol,)) if symbol is not None else Targets(files=files)
    if files := _target_files(tx, wanted, may_show):
        return Targets(files=files)
    if is_path_like(wanted) and ":" not in wanted:
        return Targets(near=_near(tx, wanted, may_show))
    return _target_symbols(tx, wanted, may_show)


def _target_files(tx: Transaction, wanted: str, may_show: Callable[[str], bool]) -> tuple[FileRecord, ...]:
    if not wanted or wanted.endswith("/"):
        return ()
    exact = [file for file in store.files_at(tx, wanted) if may_show(file.path)]
    if exact or not is_path_like(wanted):
        return tuple(exact)
    same_name = store.files_called(tx, wanted.rpartition("/")[2])
    ends = [
        file for file in same_name if f"/{file.path}".lower().endswith(f"/{wanted.lower()}") and may_show(file.path)
    ]
    return tuple(ends) if len(ends) == 1 else ()


def _target_symbols(tx: Transaction, wanted: str, may_show: Callable[[str], bool]) -> Targets:
    answer = find(tx, FindQuery(wanted, limit=_MOST_CANDIDATES), may_show=may_show)
    exact = [hit.symbol for hit in answer.hits if hit.symbol is not None and hit.match is Match.EXACT]
    if not exact:
        exact = [hit.symbol for hit in answer.hits if hit.symbol is not None and hit.match is Match.EXACT_BUT_CASE]
    if not exact:
        names = dict.fromkeys(hit.symbol.qualified_name if hit.symbol else hit.path for hit in answer.hits)
        return Targets(near=tuple(names)[:3])
    return Targets(tuple(exact[:MOST_SYMBOLS]), left_out=max(len(exact) - MOST_SYMBOLS, 0))


def _near(tx: Transaction, wanted: str, may_show: Callable[[str], bool]) -> tuple[str, ...]:
    base = wanted.rpartition("/")[2]
    answer = find(tx, FindQuery(base, kinds=frozenset({"file"}), limit=3), may_show=may_show)
    return tuple(hit.path for hit in answer.hits)


def symbols_alike(tx: Transaction, folded: str) -> list[Symbol]:
    """Symbols whose folded name is exactly `folded`, in the order of paths; at most `CANDIDATES`."""
    rows = tx.all(SYMBOLS + "WHERE s.folded = ? ORDER BY f.path, s.line LIMIT ?", (folded, CANDIDATES))
    return [symbol_of(row) for row in rows]


def symbols_with_words(tx: Transaction, words: Sequence[str]) -> list[Symbol]:
    """Symbols whose words include, or begin with, each of `words`; shortest names first, at most `CANDIDATES`."""
    wanted = json.dumps([f" {word}" for word in words])
    rows = tx.all(
        SYMBOLS
        + "WHERE NOT EXISTS (SELECT 1 FROM json_each(?) AS w WHERE NOT instr(s.words, w.value)) "
        + "ORDER BY length(s.folded), f.path, s.line LIMIT ?",
        (wanted, CANDIDATES),
    )
    return [symbol_of(row) for row in rows]


def symbols_with_word(tx: Transaction, word: str) -> list[Symbol]:
    """Symbols with a word that begins with `word`."""
    rows = tx.all(SYMBOLS + "WHERE instr(s.words, ?) ORDER BY f.path, s.line", (f" {word}",))
    return [symbol_of(row) for row in rows]


def symbol_names(tx: Transaction) -> list[str]:
    """All names of symbols, each once."""
    return [text(row[0]) for row in tx.all("SELECT DISTINCT name FROM symbols ORDER BY name")]


def symbols_among(tx: Transaction, names: Sequence[str]) -> list[Symbol]:
    """All symbols with exactly one of the names."""
    rows = tx.all(
        SYMBOLS + "WHERE s.name IN (SELECT value FROM json_each(?)) ORDER BY f.path, s.line", (json.dumps(list(names)),)
    )
    return [symbol_of(row) for row in rows]


def symbol_at(tx: Transaction, path: str, line: int) -> Symbol | None:
    """The innermost symbol of the file at `path` around the line."""
    row = tx.one(
        SYMBOLS + "WHERE f.path = ? AND s.line <= ? AND s.end_line >= ? ORDER BY s.line DESC, s.end_line, s.id DESC",
        (path, line, line),
    )
    return symbol_of(row) if row else None


def paths_and_tests(tx: Transaction) -> dict[str, bool]:
    """All paths, in order, and whether each is a test: in a large workspace much less to read than its records."""
    return {text(row[0]): bool(row[1]) for row in tx.all("SELECT path, is_test FROM files ORDER BY path")}


def files_named(tx: Transaction, paths: Iterable[str]) -> dict[str, FileRecord]:
    """The files at these paths, as far as they exist."""
    rows = tx.all(FILES + "WHERE f.path IN (SELECT value FROM json_each(?))", _among(paths))
    return {file.path: file for file in map(file_of, rows)}


def _among(paths: Iterable[str]) -> tuple[str]:
    """Parameters of a statement that asks for `IN (SELECT value FROM json_each(?))`."""
    return (json.dumps(sorted(set(paths))),)


def importer_counts(tx: Transaction, paths: Iterable[str]) -> dict[str, int]:
    """Numbers of files that certainly import each of these."""
    rows = tx.all(
        "SELECT i.resolved_path, count(DISTINCT i.file_id) FROM imports AS i "
        "WHERE i.resolved_path IN (SELECT value FROM json_each(?)) GROUP BY i.resolved_path",
        _among(paths),
    )
    return {text(row[0]): integer(row[1]) for row in rows}


def imports_resolved_to(tx: Transaction, paths: Iterable[str]) -> list[Import]:
    """Imports that certainly refer to one of these files, or folders with a final slash."""
    wanted = "WHERE i.resolved_path IN (SELECT value FROM json_each(?)) ORDER BY f.path, i.line, i.id"
    return [import_of(row) for row in tx.all(IMPORTS + wanted, _among(paths))]


def imports_in(tx: Transaction, paths: Iterable[str]) -> list[Import]:
    """Imports of these files."""
    wanted = "WHERE f.path IN (SELECT value FROM json_each(?)) ORDER BY f.path, i.line, i.id"
    return [import_of(row) for row in tx.all(IMPORTS + wanted, _among(paths))]


def unresolved_imports_ending(tx: Transaction, tail: str) -> list[Import]:
    """Imports with an uncertain file, whose module's last part is `tail`, in lower case."""
    rows = tx.all(
        IMPORTS + "WHERE i.tail = ? AND i.resolved_path IS NULL ORDER BY f.path, i.line, i.id", (tail.lower(),)
    )
    return [import_of(row) for row in rows]


def imports_with_word(tx: Transaction, word: str) -> list[Import]:
    """Imports of a name that contains `word`, in any case."""
    rows = tx.all(IMPORTS + "WHERE instr(lower(i.name), ?) ORDER BY f.path, i.line", (word,))
    return [import_of(row) for row in rows]


def symbol_counts(tx: Transaction, paths: Iterable[str]) -> dict[str, int]:
    """Numbers of symbols that each of these files defines, without those that define none."""
    rows = tx.all(
        "SELECT f.path, count(*) FROM files AS f JOIN symbols AS s ON s.file_id = f.id "
        "WHERE f.path IN (SELECT value FROM json_each(?)) GROUP BY f.id",
        _among(paths),
    )
    return {text(row[0]): integer(row[1]) for row in rows}


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")


def words_of(name: str) -> tuple[str, ...]:
    """The words of an identifier in lower case: `HTTPServer2_start` has http, server, 2 and start."""
    return tuple(word.lower() for word in _WORD.findall(name))


def fold(name: str) -> str:
    """The identifier in lower case and without separators, so that `getUser`, `get_user` and `get-user` are alike."""
    return re.sub(r"[\W_]+", "", name).lower()


_QUALIFIER = re.compile(r"::|->|[.#]")
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9+]{0,5}$")
_TEST_MARKS = re.compile(r"^(?:[Tt]ests?|spec)(?=[_.\-A-Z])|[_.\-](?:test|tests|spec)$|(?<=[a-z0-9])(?:Tests?|Spec)$")
_CODE_ENDINGS = frozenset(
    {
        "py", "pyi", "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "go", "rs", "java", "c", "h", "cc", "cpp",
        "cxx", "hpp", "hh", "rb", "php", "cs", "sh", "bash", "kt", "lua", "swift", "scala", "md", "toml", "json",
        "yaml", "yml", "html", "css", "sql", "txt", "vue", "svelte",
    }
)  # fmt: skip


def folder_of(path: str) -> str:
    """The folder of a path with its final slash; "" at the top."""
    return path[: path.rfind("/") + 1]


def stem_of(path: str, *, whole: bool = False) -> tuple[str, ...]:
    """The name without its ending; with `whole`, preceded by its folders.

    A file like `__init__.py`, `index.ts` or `mod.rs` is named after its folder.
    """
    folders, _, base = path.rpartition("/")
    stem = _ENDING.sub("", base)
    around = tuple(part for part in folders.split("/") if part)
    if stem in {"__init__", "index", "mod"} and around:
        around, stem = around[:-1], around[-1]
    return (*around, stem) if whole else (stem,)


def is_path_like(text: str) -> bool:
    """Return whether a text looks like a path: it has a slash, or ends like a source file."""
    ending = _ENDING.search(text.strip())
    return "/" in text or (ending is not None and ending[0][1:].lower() in _CODE_ENDINGS)


def qualified_parts(text: str) -> list[str]:
    """The parts of `a.b`, `A::b`, `A#b` or `a->b`; call brackets behind it are left out."""
    name = re.sub(r"\(.*\)$", "", text.strip(), flags=re.DOTALL)
    return [part for part in _QUALIFIER.split(name) if part]


def name_under_test(path: str) -> str:
    """Name of the tested module, folded: `writer` for `test_writer.py`; "" if the test's name has none."""
    stem = _ENDING.sub("", path.rpartition("/")[2])
    rest = _TEST_MARKS.sub("", stem)
    return fold(rest) if rest != stem else ""
