"""From the `mcp` package's results to values of ours.

Owns: what becomes of each kind of content. Must not know: connections. Everything here is a server's word: data.
"""

import json
from collections.abc import Sequence

import mcp_types as types

from pattern_acp.domain.data_frames import framed
from pattern_acp.domain.messages import ImagePart
from pattern_acp.mcp_servers.catalogue import PromptArgument, RemotePrompt, RemoteResource, RemoteTool, Reply

SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What models take."""


def tool_of(tool: types.Tool) -> RemoteTool:
    """A listed tool, whose schema was made usable when the list came (`listing`)."""
    notes = tool.annotations
    title = tool.title or (notes.title if notes is not None else None) or ""
    read_only = notes is not None and notes.read_only_hint is True
    repeatable = read_only or (notes is not None and notes.idempotent_hint is True)
    return RemoteTool(tool.name, tool.description or "", tool.input_schema, title, read_only, repeatable)


def prompt_of(prompt: types.Prompt) -> RemotePrompt:
    """A listed prompt."""
    arguments = tuple(PromptArgument(item.name, item.required is True) for item in prompt.arguments or ())
    return RemotePrompt(prompt.name, prompt.description or prompt.title or "", arguments)


def resource_of(resource: types.Resource) -> RemoteResource:
    """A listed resource."""
    return RemoteResource(resource.uri, resource.name, resource.description or "", resource.mime_type or "")


def call_reply(result: types.CallToolResult) -> Reply:
    """The answer to a call. Structured content counts where there is no other."""
    reply = content_reply(result.content)
    text = reply.text
    if not text and not reply.images and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    return Reply(text if text or reply.images else "(no content)", result.is_error, reply.images)


def content_reply(blocks: Sequence[types.ContentBlock]) -> Reply:
    """Text and images of content blocks; what cannot be shown is named."""
    texts: list[str] = []
    images: list[ImagePart] = []
    for block in blocks:
        match block:
            case types.TextContent(text=text):
                texts.append(text)
            case types.ImageContent(mime_type=media_type, data=data) if media_type in SHOWN_IMAGES:
                images.append(ImagePart(media_type, data))
            case types.ImageContent(mime_type=media_type) | types.AudioContent(mime_type=media_type):
                texts.append(f"(content of type {media_type}, which cannot be shown)")
            case types.ResourceLink(uri=uri, name=name):
                texts.append(f"{name}: {uri}")
            case types.EmbeddedResource(resource=resource):
                text, image = _contents(resource)
                texts += [text] if text else []
                images += [image] if image is not None else []
    return Reply("\n".join(texts), images=tuple(images))


def read_reply(result: types.ReadResourceResult) -> Reply:
    """The answer to a read."""
    parts = [_contents(item) for item in result.contents]
    text = "\n".join(text for text, _ in parts if text)
    return Reply(text, images=tuple(image for _, image in parts if image is not None))


def prompt_text(result: types.GetPromptResult) -> str:
    """A prompt as text. Turns that a server wrote for the assistant are marked, since they are not the model's."""
    lines: list[str] = []
    for message in result.messages:
        text = content_reply([message.content]).text
        lines.append(text if message.role == "user" else f"(an answer to go on from)\n{text}")
    return "\n\n".join(line for line in lines if line)


def _contents(item: types.TextResourceContents | types.BlobResourceContents) -> tuple[str, ImagePart | None]:
    if isinstance(item, types.TextResourceContents):
        return str(framed("resource", item.text, uri=item.uri)), None
    if item.mime_type in SHOWN_IMAGES:
        return "", ImagePart(item.mime_type, item.blob)
    return f"(resource {item.uri} of type {item.mime_type or 'unknown'}, which cannot be shown)", None
