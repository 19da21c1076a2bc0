"""Messages between the person, the model and the tools, independent of any wire."""

from collections.abc import Sequence
from enum import StrEnum
from operator import is_
from typing import TypeAlias

from msgspec import Struct

from pattern_acp.domain.ids import MessageId, ToolCallId


class Role(StrEnum):
    """Who a message speaks for. Tool results travel in a message of role `TOOL`."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class TextPart(Struct, frozen=True):
    """Plain text."""

    text: str


class ThinkingPart(Struct, frozen=True):
    """A model's reasoning. `signature` and `redacted` go back to the same provider byte for byte."""

    text: str
    signature: str = ""
    redacted: str = ""
    """Opaque data of a reasoning block that the provider keeps hidden; empty otherwise."""
    provider: str = ""
    """`PROVIDER/MODEL` that made it; other wires, and models that bind thinking to themselves, leave it out."""
    wire: str = ""
    """The wire whose form `signature` and `redacted` have; no other wire reads or sends them. Empty in old journals."""


class ImagePart(Struct, frozen=True):
    """An image as base64 text with its media type, such as `image/png`.

    `workspace/images.py` makes one that models take. `width` and `height` are in pixels, 0 where they are not known.
    """

    media_type: str
    data: str
    name: str = ""
    width: int = 0
    height: int = 0

    @property
    def about(self) -> str:
        """Its name and size in words, such as `image diagram.png, 800x600`."""
        named = f"image {self.name}" if self.name else "image"
        return f"{named}, {self.width}x{self.height}" if self.width else named


class Given(StrEnum):
    """How a resource came with a prompt."""

    EMBEDDED = "embedded"
    """The client sent its text."""
    LINK = "link"
    """The client sent a link; the text, if any, is what we read there."""
    MENTION = "mention"
    """The person wrote `@path`; the text is what we read there, and the client sent nothing else."""


class ResourcePart(Struct, frozen=True):
    """A file or link that the person attached. `text` is None when only the link is known."""

    uri: str
    name: str
    text: str | None = None
    media_type: str | None = None
    given: Given = Given.EMBEDDED
    lines: str = ""
    """The 1-based lines that `text` is of the whole, as `10-20`; empty for the whole."""
    note: str = ""
    """What the model should know of it, in a sentence: what was left out, why it was not read."""


class ToolCallPart(Struct, frozen=True):
    """A call that the model asked for. `arguments` is the JSON text exactly as the model wrote it."""

    call_id: ToolCallId
    name: str
    arguments: str
    problem: str = ""
    """Why the call cannot be read, for one that was written as text and is none; `arguments` is that text then."""


class ToolResultPart(Struct, frozen=True):
    """The result of one call, as the model reads it."""

    call_id: ToolCallId
    text: str
    is_error: bool = False
    images: tuple[ImagePart, ...] = ()


Part: TypeAlias = TextPart | ThinkingPart | ImagePart | ResourcePart | ToolCallPart | ToolResultPart


class Message(Struct, frozen=True):
    """One message: a role and its parts in order."""

    message_id: MessageId
    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All plain text of the message, in order."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def words(self) -> str:
        """What the user typed: the text without what a client put around it, and all of it when nothing is left."""
        from pattern_acp.domain.typed_words import typed_words

        return typed_words(self.parts)

    @property
    def typed_line(self) -> str:
        """The text of the prompt that may be a slash command."""
        from pattern_acp.domain.typed_words import typed_line

        return typed_line(self.parts)

    @property
    def searched(self) -> str:
        """What a search finds the message by: what the user typed, or all that the model wrote."""
        return self.words if self.role is Role.USER else self.text

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls the message asks for, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))


def begins_with(messages: Sequence[Message], before: Sequence[Message]) -> bool:
    """Whether a conversation goes on from `before` with the very same messages, told by their identity.

    Messages never change and histories grow at their end, so what was worked out of `before` holds then.
    """
    return len(messages) >= len(before) and all(map(is_, before, messages))
