"""Content blocks and the content of tool calls (ACP v1, content and tool calls)."""

from typing import TypeAlias

import msgspec

from pattern_acp.acp.schema_base import MetaWire
from pattern_acp.domain.tool_calls import ToolCallStatus, ToolKind


class TextContent(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Text, Markdown by convention."""

    text: str


class ImageContent(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image: base64 data and its media type."""

    data: str
    mime_type: str
    uri: str | None = None


class AudioContent(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    """Sound: base64 data and its media type."""

    data: str
    mime_type: str


class ResourceLink(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="resource_link"):
    """A link to something that the agent may read itself. `size` is in bytes."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None


class ResourceContents(MetaWire, frozen=True, kw_only=True):
    """What a resource holds: `text`, or `blob` in base64."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class EmbeddedResource(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="resource"):
    """A resource with its contents."""

    resource: ResourceContents


class UnsupportedBlock(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="unsupported"):
    """Stands for a block of a type that we do not know; never sent."""


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
"""The five blocks of ACP v1."""

PromptBlock: TypeAlias = ContentBlock | UnsupportedBlock
"""A block of a prompt as it came in."""

CONTENT_BLOCK_TYPES = frozenset({"text", "image", "audio", "resource_link", "resource"})


class Content(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="content"):
    """A content block inside a tool call."""

    content: ContentBlock


class Diff(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="diff"):
    """A change of one file: absolute path, whole texts; no old text for a new file."""

    path: str
    new_text: str
    old_text: str | None = None


class Terminal(MetaWire, frozen=True, kw_only=True, tag_field="type", tag="terminal"):
    """A live terminal, by its id."""

    terminal_id: str


ToolCallContent: TypeAlias = Content | Diff | Terminal


class ToolCallLocation(MetaWire, frozen=True, kw_only=True):
    """A file that a call touches: absolute path and 1-based line."""

    path: str
    line: int | None = None


class ToolCallUpdate(MetaWire, frozen=True, kw_only=True):
    """The changed parts of a call, as a permission request shows it; content and locations replace what was shown."""

    tool_call_id: str
    title: str | None = None
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    name: str | None = None
    content: tuple[ToolCallContent, ...] | None = None
    locations: tuple[ToolCallLocation, ...] | None = None
    raw_input: object = msgspec.UNSET
    raw_output: object = msgspec.UNSET
