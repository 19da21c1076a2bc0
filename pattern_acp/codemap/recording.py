"""Writing facts on files into the index, and resolving their imports to files.

Owns: the statements that change rows, the targets of imports, and updating resolved imports when files come and go.
Must not know: how files are read (`indexing.py`). Every function takes the transaction of its caller.
"""

import os
import posixpath
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from pattern_acp.codemap.extract import SourceFacts
from pattern_acp.codemap.lookups import fold, words_of
from pattern_acp.codemap.model import FileStatus, Stamp, is_test, language_of
from pattern_acp.db.columns import integer, text
from pattern_acp.db.transaction import Transaction


class Workspace(Protocol):
    """The files of a workspace, by their paths below its root."""

    def has(self, path: str) -> bool:
        """Return whether there is a file at `path`."""
        ...

    def has_folder(self, path: str) -> bool:
        """Return whether there is a file somewhere below `path`, which has no final slash."""
        ...

    def called(self, base_name: str) -> Sequence[str]:
        """Every file whose last part is `base_name`, whatever the case."""
        ...

    def text(self, path: str) -> str:
        """The beginning of a file, for manifests; "" when it cannot be read."""
        ...


_SCRIPT_ENDINGS = (".ts", ".tsx", ".d.ts", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".json")
_COMPILED = {".js": (".ts", ".tsx"), ".jsx": (".tsx",), ".mjs": (".mts",), ".cjs": (".cts",)}
"""Endings in TypeScript's sources behind the compiled ending that an import names."""
_GO_MODULE = re.compile(r"^module\s+(\S+)", re.MULTILINE)
_CARGO_NAME = re.compile(r"^\[package\][^\[]*?^name\s*=\s*\"([^\"]+)\"", re.MULTILINE | re.DOTALL)


def resolve(language: str, path: str, module: str, name: str, workspace: Workspace) -> str | None:
    """Return the file from which the file at `path` imports `name` of `module`; see `model.Import`."""
    resolver = _RESOLVERS.get(language)
    return None if resolver is None else resolver(path, module, name, workspace)


def tail_of(module: str) -> str:
    """The last part of a module without its ending, in lower case: the name of the files that it may refer to."""
    last = re.split(r"[/\\]|::", module.strip("<>"))[-1]
    if "/" not in module and not module.endswith((".h", ".hpp", ".rb", ".js", ".ts", ".sh", ".php")):
        last = last.rpartition(".")[2]
    return last.partition(".")[0].lower()


def names_meaning(path: str) -> tuple[str, ...]:
    """All values of `tail_of` an import, and all imported names in lower case, that can refer to the file at `path`."""
    folder, _, base = path.rpartition("/")
    return tuple({base.partition(".")[0].lower(), folder.rpartition("/")[2].lower()})


def _first(workspace: Workspace, *candidates: str) -> str | None:
    return next((path for path in candidates if workspace.has(path)), None)


def _only(paths: Sequence[str]) -> str | None:
    return paths[0] if len(paths) == 1 else None


def _ending_in(workspace: Workspace, suffix: str) -> str | None:
    """The only file whose path is `suffix`, or ends with it behind a slash."""
    found = workspace.called(posixpath.basename(suffix))
    return _only([path for path in found if path == suffix or path.endswith(f"/{suffix}")])


def _beside(path: str, relative: str) -> str:
    """Resolve `relative` from the folder of `path`; a path above the root begins with `..` and names no file."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), relative))


def _ancestors(path: str) -> list[str]:
    """The folders around a file, nearest first, "" being the root."""
    folders: list[str] = []
    while path:
        path = posixpath.dirname(path)
        folders.append(path)
    return folders


def _join(*parts: str) -> str:
    return "/".join(part for part in parts if part)


def _python(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    rest = module.lstrip(".")
    dots = len(module) - len(rest)
    parts = rest.replace(".", "/")
    if dots:
        folders = _ancestors(path)
        return _python_file(_join(folders[dots - 1], parts), name, workspace) if dots <= len(folders) else None
    first = rest.partition(".")[0]
    if first in sys.stdlib_module_names:
        return None
    for folder in _ancestors(path):
        if workspace.has(_join(folder, "__init__.py")):
            continue  # inside a package, so no absolute import starts here
        for start in (folder, _join(folder, "src")):
            if workspace.has(_join(start, f"{first}.py")) or workspace.has_folder(_join(start, first)):
                return _python_file(_join(start, parts), name, workspace)
    return None


def _python_file(base: str, name: str, workspace: Workspace) -> str | None:
    candidates = [base] if name in {"", "*"} else [_join(base, name), base]
    for candidate in candidates:
        files = [f"{candidate}.py", f"{candidate}.pyi"] if candidate else []
        packages = [_join(candidate, "__init__.py"), _join(candidate, "__init__.pyi")]
        found = _first(workspace, *packages, *files)
        if found:
            return found
    return None


def _script(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    del name
    if not module.startswith((".", "/")):
        return None
    base = _beside(path, module)
    stem, ending = posixpath.splitext(base)
    return _first(
        workspace,
        base,
        *(stem + other for other in _COMPILED.get(ending, ())),
        *(base + other for other in _SCRIPT_ENDINGS),
        *(f"{base}/index{other}" for other in _SCRIPT_ENDINGS),
    )


def _go(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    del name
    for folder in _ancestors(path):
        manifest = _join(folder, "go.mod")
        if workspace.has(manifest):
            declared = _GO_MODULE.search(workspace.text(manifest))
            own = declared[1].strip('"') if declared else ""
            if not own or (module != own and not module.startswith(f"{own}/")):
                return None
            target = _join(folder, module[len(own) + 1 :])
            return f"{target or '.'}/" if not target or workspace.has_folder(target) else None
    return None


def _rust(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    root = next(
        (
            folder
            for folder in _ancestors(path)
            if workspace.has(_join(folder, "lib.rs")) or workspace.has(_join(folder, "main.rs"))
        ),
        None,
    )
    below = path if root in {None, ""} else path[len(root or "") + 1 :]
    own = [part for part in below.removesuffix(".rs").split("/") if part not in {"mod", "lib", "main"}]
    folder = root if root is not None else ""
    parts = [part for part in [*module.split("::"), "" if name == "*" else name] if part]
    if parts[0] == "mod":
        return _rust_file(folder, [*own, *parts[1:]], len(own) + 1, workspace)
    if parts[0] in {"crate", "self", "super"} and root is not None:
        start = [] if parts[0] == "crate" else own
        parts = parts[1:] if parts[0] in {"crate", "self"} else parts
        while parts and parts[0] == "super":
            start, parts = start[:-1], parts[1:]
        return _rust_file(folder, [*start, *parts], len(start), workspace)
    if root is not None and (found := _rust_file(folder, [*own, *parts], len(own) + 1, workspace)):
        return found
    return _rust_package(path, parts, workspace)


def _rust_file(root: str, parts: list[str], least: int, workspace: Workspace) -> str | None:
    """The file of the innermost module of `parts` that has one; at least `least` of them must be modules."""
    for count in range(len(parts), max(least, 0) - 1, -1):
        base = _join(root, *parts[:count])
        if count == 0:
            return _first(workspace, _join(root, "lib.rs"), _join(root, "main.rs"))
        if found := _first(workspace, f"{base}.rs", f"{base}/mod.rs"):
            return found
    return None


def _rust_package(path: str, parts: list[str], workspace: Workspace) -> str | None:
    """A path that begins with the name of the file's own package, as its tests and programs write."""
    for folder in _ancestors(path):
        manifest = _join(folder, "Cargo.toml")
        if workspace.has(manifest):
            declared = _CARGO_NAME.search(workspace.text(manifest))
            if declared and declared[1].replace("-", "_") == parts[0]:
                return _rust_file(_join(folder, "src"), parts[1:], 0, workspace)
            return None
    return None


def _java(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    del path
    folder = module.replace(".", "/")
    found = _ending_in(workspace, f"{folder}/{name}.java") if name not in {"", "*"} else None
    return found or _ending_in(workspace, f"{folder}.java")


def _include(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    del name
    target = module.strip("<>")
    if module.startswith("<"):
        return _ending_in(workspace, target) if "/" in target else None
    beside = _beside(path, target)
    if workspace.has(beside):
        return beside
    return None if target.startswith("..") else _ending_in(workspace, posixpath.normpath(target))


def _ruby(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    del name
    if module.startswith("."):
        beside = _beside(path, module)
        return _first(workspace, f"{beside}.rb", beside)
    return _ending_in(workspace, f"lib/{module.removesuffix('.rb')}.rb")


def _php(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    if name == "*":
        return _first(workspace, _beside(path, module))
    spaces = module.split("\\")
    found = _only(workspace.called(f"{name}.php")) if name else None
    is_like = found is not None and posixpath.basename(posixpath.dirname(found)).lower() == spaces[-1].lower()
    return found if is_like else None


def _bash(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    del name
    return _first(workspace, _beside(path, module), posixpath.normpath(module))


_RESOLVERS: dict[str, Callable[[str, str, str, Workspace], str | None]] = {
    "python": _python,
    "javascript": _script,
    "typescript": _script,
    "tsx": _script,
    "go": _go,
    "rust": _rust,
    "java": _java,
    "c": _include,
    "cpp": _include,
    "ruby": _ruby,
    "php": _php,
    "bash": _bash,
}


_MANIFEST_BYTES = 20_000


class ParsedFile(Struct, frozen=True):
    """The contents read from a file. `read_ns` is the time before reading; `facts` is None unless it was parsed."""

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
    """A `Workspace` over the rows of an index, in one transaction."""

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
    """Add files to the index that were not read yet, so that imports of them can be resolved."""
    tx.execute_each(
        "INSERT INTO files (path, base_name, language, status, size, mtime_ns, ctime_ns, inode, read_ns, content_hash, "
        "lines, is_test, note) VALUES (?, ?, ?, ?, 0, 0, 0, 0, 0, '', 0, ?, '') ON CONFLICT (path) DO NOTHING",
        [
            (path, _base_name(path), language, "pending" if language else "listed", int(is_test(path)))
            for path, language in ((path, language_of(path)) for path in paths)
        ],
    )


def remove_files(tx: Transaction, paths: Iterable[str]) -> None:
    """Remove files from the index, with all that was read from them and all that was resolved to them."""
    gone = [(path,) for path in paths]
    tx.execute_each("DELETE FROM files WHERE path = ?", gone)
    tx.execute_each("UPDATE imports SET resolved_path = NULL WHERE resolved_path = ?", gone)


def record_files(tx: Transaction, root: str, files: Sequence[ParsedFile]) -> None:
    """Replace the index's records of each file."""
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
    """Record that files were compared with their hash and are unchanged, each with its stamp and the time."""
    tx.execute_each(
        "UPDATE files SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, read_ns = ? WHERE path = ?",
        [
            (stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.inode, read_ns, path)
            for path, stamp, read_ns in confirmed
        ],
    )


def resolve_again(tx: Transaction, root: str, changed: Sequence[str]) -> None:
    """Resolve every import again that may refer to one of the files `changed`, which came or went."""
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


def _record_file(tx: Transaction, file: ParsedFile) -> int:
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
    tx: Transaction, file_id: int, first_id: int, file: ParsedFile, facts: SourceFacts, workspace: StoredWorkspace
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
