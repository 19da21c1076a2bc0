"""Edits that go beyond plain text: into a field, a list, a tree, between two lines.

Owns: what each edit asks for. Must not know: how it is carried out. `memory/edits.py` has the edits of plain text,
which every schema takes as well: there they act on the text form.
"""

from typing import TypeAlias

from msgspec import Struct

from pattern_acp.memory.edits import BlockEdit


class RewriteFrom(Struct, frozen=True):
    """Make the block read `text`, as worked out by someone who saw it reading `base`.

    What others changed since stays; where both changed the same lines, both are kept and marked as a conflict.
    """

    text: str
    base: str


class InsertAfter(Struct, frozen=True):
    """Put `text` on lines of its own behind the line that `passage` ends in, or the item that it is."""

    passage: str
    text: str


class SetField(Struct, frozen=True):
    """Give a field of a map a value; an empty text takes the value away."""

    text: str


class AddItem(Struct, frozen=True):
    """Add an item to a list or log, an entry to a tree below the entry `under`, or an amount to a counter."""

    text: str
    under: str = ""


class MoveItem(Struct, frozen=True):
    """Move an item of a list behind the item `to`, or an entry of a tree below the entry `to`.

    An empty `to` is the beginning of the list, or the top of the tree.
    """

    item: str
    to: str


class RemoveItem(Struct, frozen=True):
    """Take out an item of a list, an entry of a tree with all below it, or a passage of a text."""

    item: str


class Verify(Struct, frozen=True):
    """Mark the line that holds `passage` as found true at `now_ms`; `command` is how to find out again."""

    passage: str
    command: str
    now_ms: int


ContentEdit: TypeAlias = BlockEdit | RewriteFrom | InsertAfter | SetField | AddItem | MoveItem | RemoveItem | Verify


class Within(Struct, frozen=True):
    """`edit` inside the section, field, or field of a section (`section.field`) that `place` names."""

    place: str
    edit: ContentEdit


AnyEdit: TypeAlias = ContentEdit | Within


class Authoring(Struct, frozen=True):
    """Who edits, and when, in seconds since 1970-01-01 UTC.

    `trusted` is the person or the program, who may write read-only fields and change entries of a log.
    """

    at: int = 0
    by: str = "agent"
    trusted: bool = False
