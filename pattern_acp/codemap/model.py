"""The values of the code map.

Owns: the facts on a file, a symbol, an import and a reference, how fresh an answer is, and the port through which the
workspace is listed. Must not know: how they are found or stored.
"""

import os
import threading
from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

SymbolKind: TypeAlias = Literal[
    "function", "method", "class", "interface", "type", "enum", "constant", "variable", "field", "module", "macro"
]
"""`type` is a type alias, struct, union or trait-less type; a struct with methods of its own language is a `class`."""

ReferenceKind: TypeAlias = Literal["call", "inherit", "type", "use"]
"""`call`: called or instantiated; `inherit`: named as a base or an implemented interface; `type`: named as a type;
`use`: named in any other way, of names that the file imports or defines at its top level only."""

FileStatus: TypeAlias = Literal["parsed", "pending", "listed", "no_grammar", "skipped", "unparsable"]
"""`pending`: not read yet; `listed`: no source file, known by name only; `no_grammar`: its grammar is not installed;
`skipped`: too large, binary or generated; `unparsable`: the grammar failed on it."""

Freshness: TypeAlias = Literal["fresh", "stale", "partial", "missing"]
"""`fresh`: the index matches the disk; `stale`: it was complete once and some files differ from it; `partial`: it was
never complete so far; `missing`: there is no index."""


class Stamp(Struct, frozen=True):
    """Fingerprint of a file that shows a change without reading it. Times are nanoseconds since 1970."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


def stamp_of(found: os.stat_result) -> Stamp:
    """The stamp of a file; identities of more than 63 bits, as on Windows, are cut to fit the index."""
    return Stamp(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino & 0x7FFF_FFFF_FFFF_FFFF)


class ListedFile(Struct, frozen=True):
    """A file of the workspace on disk. `path` is relative to the root, with forward slashes."""

    path: str
    stamp: Stamp


ListFiles: TypeAlias = Callable[[str, threading.Event], list[ListedFile]]
"""The port that lists regular files below an absolute root that Git does not ignore, no links. Blocks, so it is called
in a thread; it stops with any exception of its own once the event is set."""


class FileRecord(Struct, frozen=True):
    """One file of the index."""

    id: int
    path: str
    """Relative to the root, with forward slashes."""
    language: str
    """A name of `grammars.LANGUAGES`; "" for a file that is no source."""
    status: FileStatus
    size: int
    lines: int
    content_hash: str
    """BLAKE2b of the bytes, in hex; "" for a file that was not read."""
    is_test: bool
    note: str = ""
    """The reason why it was not read, in a few words; "" if it was."""


class Symbol(Struct, frozen=True):
    """A definition in a file. `id` lasts until its file is read again. Lines and columns count from 1."""

    id: int
    path: str
    name: str
    qualified_name: str
    """The name with those of its enclosing symbols: `Store.append`."""
    kind: SymbolKind
    line: int
    end_line: int
    column: int
    signature: str
    """Its first line or lines without the body, whitespace collapsed, at most 200 characters."""
    exported: bool
    """True if other files can use it, by its language's rules (by its conventions if there are none)."""
    parent_id: int | None


class Import(Struct, frozen=True):
    """One imported name; a statement that imports three names yields three."""

    path: str
    """The importing file."""
    module: str
    """The module as written: `pattern_acp.db`, `../store`, `<stdio.h>`, `crate::a::b`."""
    name: str
    """The imported name; "" for the module as a whole, `*` for everything in it."""
    local: str
    """The importing file's name for it; "" when it has none of its own."""
    line: int
    resolved_path: str | None
    """The imported file, by a rule that leaves no choice; a folder, with a final slash, in languages that import
    folders (Go); None when it is outside the workspace or not certain."""


class Reference(Struct, frozen=True):
    """A use of a name.

    One for each name, receiver, kind and enclosing symbol of a file, with the first position and the number.
    """

    path: str
    name: str
    """The last part alone: `append` for `store.append()`."""
    receiver: str
    """The text before it: `store`, `self`, `a.b`; "" for a plain name, at most 80 characters."""
    kind: ReferenceKind
    line: int
    column: int
    symbol_id: int | None
    """The innermost symbol of the file around it; None at the top level."""
    count: int


class Judgement(Struct, frozen=True):
    """Freshness of the index, and the reason for it."""

    freshness: Freshness
    listed: int
    """Number of files in the workspace now."""
    indexed: int
    """Number of indexed files that are up to date."""
    changed: tuple[str, ...] = ()
    """Files that differ from the index or are missing in it, deleted ones included; in the order of paths."""
    missing_languages: tuple[str, ...] = ()
    """Languages of the workspace whose grammar is not installed, with the reason."""


class IndexProgress(Struct, frozen=True):
    """Progress of a build or a refresh."""

    done: int
    total: int
