"""Edits that go beyond plain text: into a field, a list, a tree, between two lines.

Owns: what each edit asks for. Must not know: how it is carried out. `memory/edits.py` has the edits of plain text,
which every schema takes as well: there they act on the text form.
"""

from typing import TypeAlias

from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.memory.edits import BlockEdit


@dataclass(frozen=True, slots=True)
class RewriteFrom:
    """Make the block read `text`, as worked out by someone who saw it reading `base`.

    What others changed since stays; where both changed the same lines, both are kept and marked as a conflict.
    """

    text: str
    base: str


@dataclass(frozen=True, slots=True)
class InsertAfter:
    """Put `text` on lines of its own behind the line that `passage` ends in, or the item that it is."""

    passage: str
    text: str


@dataclass(frozen=True, slots=True)
class SetField:
    """Give a field of a map a value; an empty text takes the value away."""

    text: str


@dataclass(frozen=True, slots=True)
class AddItem:
    """Add an item to a list or log, an entry to a tree below the entry `under`, or an amount to a counter."""

    text: str
    under: str = ""


@dataclass(frozen=True, slots=True)
class MoveItem:
    """Move an item of a list behind the item `to`, or an entry of a tree below the entry `to`.

    An empty `to` is the beginning of the list, or the top of the tree.
    """

    item: str
    to: str


@dataclass(frozen=True, slots=True)
class RemoveItem:
    """Take out an item of a list, an entry of a tree with all below it, or a passage of a text."""

    item: str


@dataclass(frozen=True, slots=True)
class Verify:
    """Mark the line that holds `passage` as found true at `now_ms`; `command` is how to find out again."""

    passage: str
    command: str
    now_ms: int


ContentEdit: TypeAlias = BlockEdit | RewriteFrom | InsertAfter | SetField | AddItem | MoveItem | RemoveItem | Verify


@dataclass(frozen=True, slots=True)
class Within:
    """`edit` inside the section, field, or field of a section (`section.field`) that `place` names."""

    place: str
    edit: ContentEdit


AnyEdit: TypeAlias = ContentEdit | Within


@dataclass(frozen=True, slots=True)
class Authoring:
    """Who edits, and when, in seconds since 1970-01-01 UTC.

    `trusted` is the person or the program, who may write read-only fields and change entries of a log.
    """

    at: int = 0
    by: str = "agent"
    trusted: bool = False
