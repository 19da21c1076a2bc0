"""A block's text as a user edits it in a file: Markdown, or TOML where its schema has typed fields.

Owns: which of both, and the way back to the text that a block reads as. Must not know: where the file is, or how the
change is applied.
"""

from msgspec import Struct

from pattern_acp.memory.errors import ContentRefusedError
from pattern_acp.memory.schemas.forms import read, show
from pattern_acp.memory.schemas.toml import has_typed_fields, looks_like_toml, read_toml, show_toml
from pattern_acp.memory.schemas.types import BlockSchema
from pattern_acp.memory.schemas.values import ContentError

MARKDOWN, TOML = ".md", ".toml"
"""Suffixes of the files of each form."""


class EditableText(Struct, frozen=True):
    """A text of a block in the form that it is edited in, and how the name of its file ends."""

    text: str
    suffix: str


def editable_text(schema: BlockSchema, text: str) -> EditableText:
    """The text of a block as TOML where its schema has typed fields, otherwise as it reads.

    A text that the schema does not take, such as one of a damaged block, is given as it reads too.
    """
    if not has_typed_fields(schema):
        return EditableText(text, MARKDOWN)
    try:
        return EditableText(show_toml(schema, read(schema, text)), TOML)
    except ContentError:
        return EditableText(text, MARKDOWN)


def text_of_edited(label: str, schema: BlockSchema, edited: str, before: str, suffix: str = "") -> str:
    """Text of the block `label` after an edit of its file; `before` is its text when it was opened.

    `suffix` is that of the file which was opened. Without one the text itself tells which of both forms it has.

    Raises:
        ContentRefusedError: it is TOML that cannot be read, or of other fields; says in which line, and why.
    """
    is_toml = suffix == TOML or (not suffix and has_typed_fields(schema) and looks_like_toml(edited))
    if not is_toml:
        return edited
    try:
        return show(schema, read_toml(schema, edited, read(schema, before)))
    except ContentError as error:
        raise ContentRefusedError(label, str(error), error.field) from error
