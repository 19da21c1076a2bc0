"""States of files: what a file was at a moment, enough to put it back.

Owns: the value types that the journal keeps and the workspace captures. Must not know: how a file is read or written.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

A_FOLDER = "it is a folder"
"""The reason why nothing is saved of a path that is one."""

FileKind: TypeAlias = Literal["missing", "file", "link"]


class FileState(Struct, frozen=True):
    """One path at one moment.

    `digest` is the SHA-256 of a file's bytes, or what a link points at; empty when the content was not saved, and
    `why_not` says why in a clause. `mode` holds the permission bits, 0 where they do not count.
    """

    kind: FileKind
    mode: int = 0
    size: int = 0
    digest: str = ""
    why_not: str = ""

    @property
    def is_kept(self) -> bool:
        """True when the path can be put back into this state."""
        return self.kind == "missing" or bool(self.digest)

    @property
    def is_folder(self) -> bool:
        """True when there was a folder; what was in it has states of its own."""
        # Before 0.2, folders were not distinguished from devices.
        return self.why_not.startswith(A_FOLDER)


MISSING = FileState("missing")
"""There is nothing."""


class SavedFile(Struct, frozen=True):
    """A path, absolute and resolved but for its last part, and its state."""

    path: str
    state: FileState


class FileChange(Struct, frozen=True):
    """A change of a path."""

    path: str
    before: FileState
    after: FileState


class UnsavedFile(Struct, frozen=True):
    """Something that a checkpoint does not hold, and why, in a clause."""

    path: str
    why: str
