"""Queries of the index for questions only, and comparison of names and paths.

Owns: the statements behind find, brief, callers and impact. Must not know: how answers are ranked or worded.
"""

import json
import re
from collections.abc import Iterable, Sequence

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


def symbols_alike(tx: Transaction, folded: str, *, limit: int) -> list[Symbol]:
    """Symbols whose folded name is exactly `folded`, in the order of paths; at most `limit`."""
    rows = tx.all(SYMBOLS + "WHERE s.folded = ? ORDER BY f.path, s.line LIMIT ?", (folded, limit))
    return [symbol_of(row) for row in rows]


def symbols_with_words(tx: Transaction, words: Sequence[str], *, limit: int) -> list[Symbol]:
    """Symbols whose words include, or begin with, each of `words`; shortest names first, at most `limit`."""
    wanted = json.dumps([f" {word}" for word in words])
    rows = tx.all(
        SYMBOLS
        + "WHERE NOT EXISTS (SELECT 1 FROM json_each(?) AS w WHERE NOT instr(s.words, w.value)) "
        + "ORDER BY length(s.folded), f.path, s.line LIMIT ?",
        (wanted, limit),
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
    rows = tx.all(FILES + "WHERE f.path IN (SELECT value FROM json_each(?))", (json.dumps(sorted(set(paths))),))
    return {file.path: file for file in map(file_of, rows)}


def importer_counts(tx: Transaction, paths: Iterable[str]) -> dict[str, int]:
    """Numbers of files that certainly import each of these."""
    rows = tx.all(
        "SELECT i.resolved_path, count(DISTINCT i.file_id) FROM imports AS i "
        "WHERE i.resolved_path IN (SELECT value FROM json_each(?)) GROUP BY i.resolved_path",
        (json.dumps(sorted(set(paths))),),
    )
    return {text(row[0]): integer(row[1]) for row in rows}


def imports_resolved_to(tx: Transaction, paths: Iterable[str]) -> list[Import]:
    """Imports that certainly refer to one of these files, or folders with a final slash."""
    rows = tx.all(
        IMPORTS + "WHERE i.resolved_path IN (SELECT value FROM json_each(?)) ORDER BY f.path, i.line, i.id",
        (json.dumps(sorted(set(paths))),),
    )
    return [import_of(row) for row in rows]


def imports_in(tx: Transaction, paths: Iterable[str]) -> list[Import]:
    """Imports of these files."""
    rows = tx.all(
        IMPORTS + "WHERE f.path IN (SELECT value FROM json_each(?)) ORDER BY f.path, i.line, i.id",
        (json.dumps(sorted(set(paths))),),
    )
    return [import_of(row) for row in rows]


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
        (json.dumps(sorted(set(paths))),),
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
