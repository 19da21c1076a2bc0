"""Writing what was read out of files into the index.

Owns: the statements that change rows, and keeping resolved imports true when files come and go. Must not know: how
files are read (`indexing.py`) or which have to be (`freshness.py`). Every function takes the transaction of its caller.
"""

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from pattern_acp.codemap.extract import SourceFacts
from pattern_acp.codemap.languages import is_test, language_of
from pattern_acp.codemap.model import FileStatus, Stamp
from pattern_acp.codemap.naming import fold, words_of
from pattern_acp.codemap.resolving import names_meaning, resolve, tail_of
from pattern_acp.db.columns import integer, text
from pattern_acp.db.transaction import Transaction

_MANIFEST_BYTES = 20_000


class ReadFile(Struct, frozen=True):
    """A file as it was read. `read_ns` is the time before reading; `facts` is None unless it was parsed."""

    path: str
    language: str
    status: FileStatus
    stamp: Stamp
    read_ns: int
    content_hash: str = ""
    lines: int = 0
    note: str = ""
    facts: SourceFacts | None = None


class StoredWorkspace:
    """`resolving.Workspace` over the rows of an index, in one transaction."""

    def __init__(self, tx: Transaction, root: str) -> None:
        self._tx = tx
        self._root = root
        self._folders: dict[str, bool] = {}
        self._files: dict[str, bool] = {}
        self._texts: dict[str, str] = {}

    def has(self, path: str) -> bool:
        """See `Workspace.has`."""
        known = self._files.get(path)
        if known is None:
            known = self._tx.one("SELECT 1 FROM files WHERE path = ?", (path,)) is not None
            self._files[path] = known
        return known

    def has_folder(self, path: str) -> bool:
        """See `Workspace.has_folder`."""
        known = self._folders.get(path)
        if known is None:
            row = self._tx.one("SELECT 1 FROM files WHERE path > ? AND path < ?", (f"{path}/", f"{path}0"))
            known = self._folders[path] = row is not None
        return known

    def called(self, base_name: str) -> Sequence[str]:
        """See `Workspace.called`."""
        rows = self._tx.all("SELECT path FROM files WHERE base_name = ? ORDER BY path", (base_name.lower(),))
        return [text(row[0]) for row in rows]

    def text(self, path: str) -> str:
        """See `Workspace.text`."""
        if path not in self._texts:
            try:
                with Path(self._root, path).open("rb") as file:
                    self._texts[path] = file.read(_MANIFEST_BYTES).decode("utf-8", "replace")
            except OSError:
                self._texts[path] = ""
        return self._texts[path]


def add_listed(tx: Transaction, paths: Iterable[str]) -> None:
    """Put files into the index that were not read yet, so that imports of them can be resolved."""
    tx.execute_each(
        "INSERT INTO files (path, base_name, language, status, size, mtime_ns, ctime_ns, inode, read_ns, content_hash, "
        "lines, is_test, note) VALUES (?, ?, ?, ?, 0, 0, 0, 0, 0, '', 0, ?, '') ON CONFLICT (path) DO NOTHING",
        [
            (path, _base_name(path), language, "pending" if language else "listed", int(is_test(path)))
            for path, language in ((path, language_of(path)) for path in paths)
        ],
    )


def remove_files(tx: Transaction, paths: Iterable[str]) -> None:
    """Take files out of the index, with all that was read from them and all that was resolved to them."""
    gone = [(path,) for path in paths]
    tx.execute_each("DELETE FROM files WHERE path = ?", gone)
    tx.execute_each("UPDATE imports SET resolved_path = NULL WHERE resolved_path = ?", gone)


def record_files(tx: Transaction, root: str, files: Sequence[ReadFile]) -> None:
    """Replace what the index says of each file."""
    workspace = StoredWorkspace(tx, root)
    newest = tx.one("SELECT coalesce(max(id), 0) FROM symbols")
    next_id = integer(newest[0]) + 1 if newest else 1
    for file in files:
        file_id = _record_file(tx, file)
        for table in ("DELETE FROM symbols WHERE file_id = ?", "DELETE FROM refs WHERE file_id = ?"):
            tx.execute(table, (file_id,))
        tx.execute("DELETE FROM imports WHERE file_id = ?", (file_id,))
        if file.facts is not None:
            _record_facts(tx, file_id, next_id, file, file.facts, workspace)
            next_id += len(file.facts.symbols)


def confirm_files(tx: Transaction, confirmed: Sequence[tuple[str, Stamp, int]]) -> None:
    """Note that files, each with its stamp and the time, were compared with their hash and are as they were read."""
    tx.execute_each(
        "UPDATE files SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, read_ns = ? WHERE path = ?",
        [
            (stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.inode, read_ns, path)
            for path, stamp, read_ns in confirmed
        ],
    )


def resolve_again(tx: Transaction, root: str, changed: Sequence[str]) -> None:
    """Resolve every import anew that may mean one of the files `changed`, which came or went."""
    workspace = StoredWorkspace(tx, root)
    names = sorted({name for path in changed for name in names_meaning(path)})
    seen: dict[int, tuple[str | None, str | None]] = {}
    for name in names:
        rows = tx.all(
            "SELECT i.id, f.path, f.language, i.module, i.name, i.resolved_path FROM imports AS i JOIN files AS f "
            "ON f.id = i.file_id WHERE i.tail = ? OR i.folded = ?",
            (name, name),
        )
        for row in rows:
            known = integer(row[0])
            if known not in seen:
                now = resolve(text(row[2]), text(row[1]), text(row[3]), text(row[4]), workspace)
                seen[known] = (None if row[5] is None else text(row[5]), now)
    tx.execute_each(
        "UPDATE imports SET resolved_path = ? WHERE id = ?",
        [(now, known) for known, (before, now) in seen.items() if before != now],
    )


def _record_file(tx: Transaction, file: ReadFile) -> int:
    stamp = file.stamp
    row = tx.one(
        "INSERT INTO files (path, base_name, language, status, size, mtime_ns, ctime_ns, inode, read_ns, content_hash, "
        "lines, is_test, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET "
        "language = excluded.language, status = excluded.status, size = excluded.size, mtime_ns = excluded.mtime_ns, "
        "ctime_ns = excluded.ctime_ns, inode = excluded.inode, read_ns = excluded.read_ns, "
        "content_hash = excluded.content_hash, lines = excluded.lines, note = excluded.note RETURNING id",
        (
            file.path,
            _base_name(file.path),
            file.language,
            file.status,
            stamp.size,
            stamp.mtime_ns,
            stamp.ctime_ns,
            stamp.inode,
            file.read_ns,
            file.content_hash,
            file.lines,
            int(is_test(file.path)),
            file.note,
        ),
    )
    if row is None:
        raise RuntimeError("An INSERT with RETURNING gave no row.")
    return integer(row[0])


def _record_facts(
    tx: Transaction, file_id: int, first_id: int, file: ReadFile, facts: SourceFacts, workspace: StoredWorkspace
) -> None:
    tx.execute_each(
        "INSERT INTO symbols (id, file_id, parent_id, name, folded, words, qualified_name, kind, line, end_line, "
        "column_number, signature, exported) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                first_id + index,
                file_id,
                None if symbol.parent is None else first_id + symbol.parent,
                symbol.name,
                *_found_by(symbol.name),
                symbol.qualified_name,
                symbol.kind,
                symbol.line,
                symbol.end_line,
                symbol.column,
                symbol.signature,
                int(symbol.exported),
            )
            for index, symbol in enumerate(facts.symbols)
        ],
    )
    tx.execute_each(
        "INSERT INTO imports (file_id, module, tail, name, folded, local, line, resolved_path) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                file_id,
                found.module,
                tail_of(found.module),
                found.name,
                found.name.lower(),
                found.local,
                found.line,
                resolve(file.language, file.path, found.module, found.name, workspace),
            )
            for found in facts.imports
        ],
    )
    tx.execute_each(
        "INSERT OR IGNORE INTO refs (file_id, line, column_number, name, receiver, kind, symbol_id, count) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                file_id,
                used.line,
                used.column,
                used.name,
                used.receiver,
                used.kind,
                None if used.symbol is None else first_id + used.symbol,
                used.count,
            )
            for used in facts.references
        ],
    )


@lru_cache(maxsize=20_000)
def _found_by(name: str) -> tuple[str, str]:
    return fold(name), f" {' '.join(words_of(name))} "


def _base_name(path: str) -> str:
    return os.path.basename(path).lower()  # noqa: PTH119  # a string of our own form, thousands of times
