"""Messages between the person, the model and the tools, independent of any wire."""

from enum import StrEnum
from typing import TypeAlias

from pattern_acp.domain.ids import MessageId, ToolCallId
from pattern_acp.domain.lazy_dataclass import dataclass


class Role(StrEnum):
    """Who a message speaks for. Tool results travel in a message of role `TOOL`."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class TextPart:
    """Plain text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """A model's reasoning. `signature` and `redacted` go back to the same provider byte for byte."""

    text: str
    signature: str = ""
    redacted: str = ""
    """Opaque data of a reasoning block that the provider keeps hidden; empty otherwise."""
    provider: str = ""
    """`PROVIDER/MODEL` that made it; other wires, and models that bind thinking to themselves, leave it out."""


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image as base64 text with its media type, such as `image/png`."""

    media_type: str
    data: str


@dataclass(frozen=True, slots=True)
class ResourcePart:
    """A file or link that the person attached. `text` is None for a bare link."""

    uri: str
    name: str
    text: str | None = None
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A call that the model asked for. `arguments` is the JSON text exactly as the model wrote it."""

    call_id: ToolCallId
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolResultPart:
    """The result of one call, as the model reads it."""

    call_id: ToolCallId
    text: str
    is_error: bool = False
    images: tuple[ImagePart, ...] = ()


Part: TypeAlias = TextPart | ThinkingPart | ImagePart | ResourcePart | ToolCallPart | ToolResultPart


@dataclass(frozen=True, slots=True)
class Message:
    """One message: a role and its parts in order."""

    message_id: MessageId
    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All plain text of the message, in order."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls the message asks for, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))
