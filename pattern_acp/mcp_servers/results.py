"""Results of calls, prompts and reads: made sound part by part, and read as text and images.

Owns: what is left of a result that does not follow the protocol. A call has done its work by then, so what can be read
is read: a model that learns of an error would call again. Must not know: requests.
"""

import json
from collections.abc import Mapping, Sequence
from typing import cast

import mcp_types as types
from mcp_types import methods
from pydantic_core import ValidationError

from pattern_acp.domain.messages import ImagePart
from pattern_acp.domain.untrusted_blocks import untrusted_block
from pattern_acp.mcp_servers.catalogue import Reply

SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Image types that models accept."""


def call_reply(result: types.CallToolResult) -> Reply:
    """Convert the result of a call. Structured content counts only if there is no other."""
    reply = content_reply(result.content)
    text = reply.text
    if not text and not reply.images and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    return Reply(text, result.is_error, reply.images)


def content_reply(blocks: Sequence[types.ContentBlock]) -> Reply:
    """Convert content blocks to text and images; others are mentioned."""
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
    """Convert the result of a read."""
    parts = [_contents(item) for item in result.contents]
    text = "\n".join(text for text, _ in parts if text)
    return Reply(text, images=tuple(image for _, image in parts if image is not None))


def prompt_text(result: types.GetPromptResult) -> str:
    """Convert a prompt to text. Turns written for the assistant are marked, since they are not the model's."""
    lines: list[str] = []
    for message in result.messages:
        text = content_reply([message.content]).text
        lines.append(text if message.role == "user" else f"(an answer to continue from)\n{text}")
    return "\n\n".join(line for line in lines if line)


def _contents(item: types.TextResourceContents | types.BlobResourceContents) -> tuple[str, ImagePart | None]:
    if isinstance(item, types.TextResourceContents):
        return str(untrusted_block("resource", item.text, uri=item.uri)), None
    if item.mime_type in SHOWN_IMAGES:
        return "", ImagePart(item.mime_type, item.blob)
    return f"(resource {item.uri} of type {item.mime_type or 'unknown'}, which cannot be shown)", None


Object = dict[str, object]

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
    "resource": ("resource",),
}
"""Fields of a block without which it is none, by its type."""

KIND_LIMIT = 40
"""Characters of an unknown block's type that are told."""


def sound_result(method: str, version: str, result: Object, *, uri: str = "") -> Object:
    """A result in the form that the protocol has for a method; a sound one as it is. `uri`: what was to be read."""
    if method not in _MENDERS or is_sound_result(method, version, result):
        return result
    if result.get("resultType", "complete") != "complete":
        # Another kind of answer, such as a question of the server.
        return result
    return _MENDERS[method](version, result, uri)


def is_sound_result(method: str, version: str, result: Object) -> bool:
    """Return whether the `mcp` package accepts a result."""
    try:
        methods.parse_server_result(method, version, result)
    except (ValidationError, KeyError):
        return False
    return True


def _call_result(version: str, result: Object, _uri: str) -> Object:
    blocks = _blocks(version, result.get("content"))
    structured = result.get("structuredContent")
    mended: Object = {"content": blocks, "isError": result.get("isError") in (True, "true"), "resultType": "complete"}
    if isinstance(structured, dict):
        mended["structuredContent"] = structured
    elif structured is not None and not blocks:
        blocks.append(_text_block(structured))
    return mended


def _prompt(version: str, result: Object, _uri: str) -> Object:
    messages: list[object] = []
    for message in _listed(result.get("messages")):
        fields = _fields(message)
        role = "assistant" if fields.get("role") == "assistant" else "user"
        content = fields.get("content") if fields else message
        messages += [{"role": role, "content": block} for block in _blocks(version, content)]
    return {"messages": messages, "resultType": "complete"}


def _read(_version: str, result: Object, uri: str) -> Object:
    contents = [found for item in _listed(result.get("contents")) if (found := _content(item, uri)) is not None]
    # How long it may be kept is asked for by the newest version; nothing is kept here.
    return {"contents": contents, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


_MENDERS = {"tools/call": _call_result, "prompts/get": _prompt, "resources/read": _read}


def _content(item: object, uri: str) -> Object | None:
    fields = _fields(item) or {"text": item}
    own = fields.get("uri")
    found: Object = {"uri": own if isinstance(own, str) else uri}
    if isinstance(fields.get("mimeType"), str):
        found["mimeType"] = fields["mimeType"]
    if fields.get("text") is not None:
        return {**found, "text": _written(fields["text"])}
    return {**found, "blob": fields["blob"]} if isinstance(fields.get("blob"), str) else None


def _blocks(version: str, content: object) -> list[Object]:
    return [block for item in _listed(content) if (block := _block(version, item)) is not None]


def _block(version: str, item: object) -> Object | None:
    if item is None:
        return None
    if not isinstance(item, dict):
        return _text_block(item)
    block = cast("Object", item)
    kind = block.get("type")
    kind = kind if isinstance(kind, str) else ""
    slim: Object = {"type": kind, **{name: block.get(name) for name in _NEEDED.get(kind, ())}}
    if kind == "resource_link":
        slim["name"] = slim["name"] or slim["uri"]
    if kind == "resource":
        slim["resource"] = _content(block.get("resource"), "") if isinstance(block.get("resource"), dict) else None
    for candidate in (block, slim):
        if is_sound_result("tools/call", version, {"content": [candidate], "resultType": "complete"}):
            return candidate
    if block.get("text") is not None:
        return _text_block(block["text"])
    return None if kind == "text" else _text_block(f"(content of type {_shown(kind)}, which cannot be shown)")


def _shown(kind: str) -> str:
    return " ".join(kind.split())[:KIND_LIMIT] or "unknown"


def _text_block(value: object) -> Object:
    return {"type": "text", "text": _written(value)}


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _listed(value: object) -> list[object]:
    if isinstance(value, list):
        return cast("list[object]", value)
    return [] if value is None else [value]


def _fields(value: object) -> Object:
    return cast("Object", value) if isinstance(value, dict) else {}
