"""What a file defines, nested, or what the files of a folder do.

Owns: the nesting, and which symbols stand for a file. Must not know: how it is worded.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from pattern_acp.codemap import store
from pattern_acp.codemap.model import FileRecord, Import, Symbol
from pattern_acp.db.transaction import Transaction

SYMBOLS_OF_A_FILE = 6
"""Symbols that stand for a file in the outline of its folder."""


class OutlineLine(Struct, frozen=True):
    """A symbol and how deep it is nested; 0 at the top."""

    depth: int
    symbol: Symbol


class FileOutline(Struct, frozen=True):
    """A file, its symbols in the order of lines, and what it imports."""

    file: FileRecord
    lines: tuple[OutlineLine, ...]
    imports: tuple[Import, ...] = ()


class FolderOutline(Struct, frozen=True):
    """The files of a folder, each with its top-level symbols, and how many files are not among them."""

    files: tuple[FileOutline, ...]
    more: int = 0


def outline_file(tx: Transaction, path: str) -> FileOutline | None:
    """The outline of the file at `path`; None when the index does not have it."""
    found = store.files_at(tx, path) if path and not path.endswith("/") else []
    if not found:
        return None
    symbols = store.symbols_in(tx, path)
    return FileOutline(found[0], nested(symbols), tuple(store.imports_of(tx, path)))


def outline_folder(tx: Transaction, folder: str, *, limit: int, may_show: Callable[[str], bool]) -> FolderOutline:
    """The files below `folder` (with a final slash, "" for all), those nearest to it first; at most `limit`."""
    files = [file for file in store.files_at(tx, folder) if file.language and may_show(file.path)]
    files.sort(key=lambda file: (file.is_test, file.path.count("/"), file.path))
    shown = sorted(files[:limit], key=lambda file: file.path)
    return FolderOutline(
        tuple(FileOutline(file, _top(store.symbols_in(tx, file.path))) for file in shown), len(files) - len(shown)
    )


def nested(symbols: Sequence[Symbol]) -> tuple[OutlineLine, ...]:
    """The symbols of one file with their depth. One whose parent is not among them counts as top level."""
    depths: dict[int, int] = {}
    for symbol in symbols:
        depths[symbol.id] = depths.get(symbol.parent_id, -1) + 1 if symbol.parent_id is not None else 0
    return tuple(OutlineLine(depths[symbol.id], symbol) for symbol in symbols)


def _top(symbols: Sequence[Symbol]) -> tuple[OutlineLine, ...]:
    top = [symbol for symbol in symbols if symbol.parent_id is None]
    # What others can use says more of a file than its constants and what it keeps to itself.
    top.sort(key=lambda symbol: (not symbol.exported, symbol.kind in {"constant", "variable", "field"}))
    chosen = sorted(top[:SYMBOLS_OF_A_FILE], key=lambda symbol: symbol.line)
    return tuple(OutlineLine(0, symbol) for symbol in chosen)
