"""Answers of servers, made sound part by part: an odd entry or part costs only itself and not its server.

Owns: which entries are repaired or left out before the `mcp` package's session judges a list as a whole, and tools'
schemas in the form that every vendor accepts; what is left of a result that does not follow the protocol. A call has
done its work by then, so what can be read is read: a model that learns of an error would call again. Must not know:
what the entries are for.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import mcp_types as types
from mcp.shared.message import SessionMessage
from mcp_types import methods
from msgspec import Struct
from pydantic_core import ValidationError

from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.messages import ImagePart
from pattern_acp.domain.untrusted_blocks import untrusted_block
from pattern_acp.mcp_servers.catalogue import Reply, clean

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
"""Characters of an unknown block's type that are reported."""


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
    # How long it may be stored is asked for by the newest version; nothing is stored here.
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


_DEEPEST = 64
"""Depth of nesting beyond which a schema is not repaired."""

_TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")
_SHORT_TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "dict": "object",
    "list": "array",
}

ARGUMENT_LIMIT = 64
_PLAIN_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Anthropic refuses every request with a tool whose arguments have other names."""

_ELSEWHERE = frozenset(
    {"$schema", "$id", "$vocabulary", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"}
)
"""Keywords that make sense only together with other documents."""

_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SCHEMAS = ("contains", "propertyNames", "not", "if", "then", "else", "contentSchema")
_OR_BOOLEAN = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS = (
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
)  # fmt: skip
_TEXTS = ("title", "description", "format", "pattern", "$comment", "contentEncoding", "contentMediaType")
_BOOLEANS = ("uniqueItems", "deprecated", "readOnly", "writeOnly")
_SIMPLE: dict[str, type] = {**dict.fromkeys(_TEXTS, str), **dict.fromkeys(_BOOLEANS, bool)}
_VALUES = frozenset({"default", "const", "enum", "examples"})
"""Keywords with values, which are no schemas whatever they look like."""

_Schema = dict[str, Json]


class UnusableSchemaError(ValueError):
    """A schema cannot be repaired. Its text says why, as the end of a sentence."""


def usable_schema(schema: Json) -> JsonObject:
    """Return the schema in the form that vendors accept: sound, an object at the root, without other documents.

    Raises:
        UnusableSchemaError: it is no schema, or not one of an object.
    """
    if schema is None or schema == []:
        # Schema of a tool without arguments: some languages write an empty object as an empty list.
        return {"type": "object", "properties": {}}
    if not isinstance(schema, Mapping):
        raise UnusableSchemaError("its inputSchema is no JSON Schema")
    cleaned = _cleaned(schema, 0)
    cleaned = cast("_Schema", _without_dangling(cleaned, cleaned))
    cleaned = _flat(cleaned)
    kinds = _kinds(cleaned, "object")
    if "object" not in kinds:
        kind = " or ".join(map(str, kinds))
        raise UnusableSchemaError(f"its inputSchema is of type {kind}, and arguments are an object")
    return {**cleaned, "type": "object", "properties": cleaned.get("properties", {})}


def plain_arguments(schema: JsonObject) -> JsonObject:
    """Rename the schema's arguments as every vendor accepts them; a changed name ends in a hash of the whole one."""
    plain: _Schema = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str):
            plain[key] = _plain_reference(value)
        elif key in _BY_NAME and isinstance(value, Mapping):
            rename = plain_name if key == "properties" else str
            plain[key] = {rename(name): _plain_below(below) for name, below in value.items()}
        elif key == "required":
            plain[key] = [plain_name(name) for name in _names(value)]
        elif key not in _VALUES:
            plain[key] = _plain_below(value)
        else:
            plain[key] = value
    return plain


def plain_name(name: str) -> str:
    """An argument's name in the characters that every vendor accepts."""
    return name if _PLAIN_NAME.fullmatch(name) else clean(name, ARGUMENT_LIMIT)


def own_names(schema: Json) -> dict[str, str]:
    """The arguments' names that are not plain, by their replacements."""
    found: dict[str, str] = {}
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        names = properties if isinstance(properties, Mapping) else ()
        found = {plain_name(name): name for name in names if plain_name(name) != name}
        for value in schema.values():
            found |= own_names(value)
    elif isinstance(schema, list):
        for value in schema:
            found |= own_names(value)
    return found


def named_arguments(value: Json, own: Mapping[str, str]) -> Json:
    """Restore the server's own names in a model's arguments for a plain schema."""
    if isinstance(value, Mapping):
        return {own.get(name, name): named_arguments(item, own) for name, item in value.items()}
    return [named_arguments(item, own) for item in value] if isinstance(value, list) else value


def _plain_below(value: Json) -> Json:
    if isinstance(value, Mapping):
        return plain_arguments(value)
    return [_plain_below(item) for item in value] if isinstance(value, list) else value


def _plain_reference(reference: str) -> str:
    steps = reference.split("/")
    for number, step in enumerate(steps):
        if number and steps[number - 1] == "properties":
            plain = plain_name(step.replace("~1", "/").replace("~0", "~"))
            steps[number] = step if plain == step else plain
    return "/".join(steps)


def is_sound(schema: Json) -> bool:
    """Return whether a schema, of whatever type, needs no repair."""
    if not isinstance(schema, Mapping):
        return False
    try:
        cleaned = _cleaned(schema, 0)
    except UnusableSchemaError:
        return False
    usable = {key: value for key, value in schema.items() if key not in _ELSEWHERE}
    return _without_dangling(cleaned, cleaned) == usable


def _cleaned(node: JsonObject, depth: int) -> _Schema:
    """Remove the unsound parts of a schema, without changing its order."""
    if depth > _DEEPEST:
        raise UnusableSchemaError(f"its inputSchema is nested deeper than {_DEEPEST} levels")
    cleaned: _Schema = {}
    for key, value in node.items():
        if key not in _ELSEWHERE:
            usable = _sound_value(key, value, depth)
            if usable is not None or key in {"default", "const"}:
                cleaned[key] = usable
    _hoist_required(node, cleaned)
    _fit_type(cleaned)
    if isinstance(node.get("items"), list):
        cleaned.pop("additionalItems", None)
    if "array" in _kinds(cleaned) and "prefixItems" not in cleaned:
        cleaned.setdefault("items", {})
    return cleaned


def _sound_value(key: str, value: Json, depth: int) -> Json:
    """The sound value of a keyword; None if there is none."""
    if key in _BY_NAME:
        return _named_schemas(value, depth) if isinstance(value, Mapping) else None
    if key in _SCHEMAS:
        return _schema(value, depth)
    if key in _OR_BOOLEAN:
        return value if isinstance(value, bool) else _schema(value, depth)
    if key == "items":
        return _items(value, depth)
    if key in _SCHEMA_LISTS:
        choices = [choice for item in _sequence(value) if (choice := _schema(item, depth)) is not None]
        return choices or None
    if key in {"dependentRequired", "dependencies"}:
        return _dependencies(value, depth, schemas=key == "dependencies")
    return _plain(key, value)


def _plain(key: str, value: Json) -> Json:
    """The sound value of a keyword that contains no schema."""
    match key:
        case "type":
            return _known_types(value)
        case "required":
            return _names(value) if isinstance(value, list | tuple) else None
        case "enum" | "examples":
            is_sound = isinstance(value, list | tuple) and bool(value)
        case "$ref":
            is_sound = isinstance(value, str) and (value == "#" or value.startswith("#/"))
        case _ if key in _NUMBERS:
            is_sound = _is_number(value, above=0 if key == "multipleOf" else None)
        case _ if key in _COUNTS:
            is_sound = _is_number(value, above=-1) and value == int(cast("float", value))
        case _:
            is_sound = isinstance(value, _SIMPLE.get(key, object))
    return value if is_sound else None


def _is_number(value: Json, *, above: float | None) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (isinstance(value, int) or math.isfinite(value)) and (above is None or value > above)


def _schema(value: Json, depth: int) -> _Schema | None:
    """A nested schema; `true`, which allows anything, in the form that all vendors know."""
    if value is True:
        return {}
    return _cleaned(value, depth + 1) if isinstance(value, Mapping) else None


def _named_schemas(schemas: JsonObject, depth: int) -> _Schema:
    named: _Schema = {}
    for name, value in schemas.items():
        if isinstance(value, Mapping):
            named[name] = _cleaned(value, depth + 1)
        elif isinstance(value, str) and _known_types(value) is not None:
            named[name] = {"type": _known_types(value)}
        elif value is not False and not (name == "required" and isinstance(value, list)):
            # An argument without a description is still an argument.
            named[name] = {}
    return named


def _items(value: Json, depth: int) -> Json:
    if not isinstance(value, list | tuple):
        return _schema(value, depth)
    # The form of older drafts, one schema per item, which newer ones refuse.
    items = [item_schema for item in value if (item_schema := _schema(item, depth)) is not None]
    return items[0] if len(items) == 1 else {"anyOf": [*items]} if items else {}


def _dependencies(value: Json, depth: int, *, schemas: bool) -> Json:
    if not isinstance(value, Mapping):
        return None
    found: _Schema = {}
    for name, needs in value.items():
        if isinstance(needs, list | tuple):
            found[name] = _names(needs)
        elif schemas and isinstance(needs, Mapping):
            found[name] = _cleaned(needs, depth + 1)
    return found


def _known_types(value: Json) -> Json:
    if isinstance(value, str):
        word = _SHORT_TYPES.get(value.lower(), value.lower())
        return word if word in _TYPES else None
    kinds = dict.fromkeys(
        kind for item in _sequence(value) if isinstance(item, str) and isinstance(kind := _known_types(item), str)
    )
    return [*kinds] or None


def _hoist_required(node: JsonObject, cleaned: _Schema) -> None:
    """List an object's required arguments on the object, where the server marks them in the arguments or among them."""
    properties = node.get("properties")
    known = cleaned.get("properties")
    if not isinstance(properties, Mapping) or not isinstance(known, Mapping):
        return
    among = properties.get("required")
    names = [name for name in _names(among) if name in known] if isinstance(among, list) else []
    names += [
        name for name, value in properties.items() if isinstance(value, Mapping) and value.get("required") is True
    ]
    if names:
        cleaned["required"] = [*dict.fromkeys([*_names(cleaned.get("required")), *names])]


def _fit_type(cleaned: _Schema) -> None:
    """Let a type allow the values of its enumeration, which say better what is meant."""
    kinds, words = set(_kinds(cleaned)), _sequence(cleaned.get("enum"))
    if kinds and any(not _types_of(word) & kinds for word in words):
        fitting = [kind for kind in _TYPES if any(_first_type(word) == kind for word in words)]
        cleaned["type"] = fitting[0] if len(fitting) == 1 else [*fitting]


def _first_type(value: Json) -> str:
    return next(kind for kind in _TYPES if kind in _types_of(value))


def _types_of(value: Json) -> set[Json]:
    match value:
        case None:
            return {"null"}
        case bool():
            return {"boolean"}
        case int():
            return {"integer", "number"}
        case float():
            return {"integer", "number"} if value.is_integer() else {"number"}
        case str():
            return {"string"}
        case Mapping():
            return {"object"}
        case _:
            return {"array"}


def _without_dangling(value: Json, root: JsonObject) -> Json:
    """Remove references that lead nowhere, after everything else is sound."""
    if isinstance(value, Mapping):
        return {
            key: item if key in _VALUES else _without_dangling(item, root)
            for key, item in value.items()
            if key != "$ref" or not isinstance(item, str) or _target(item, root) is not None
        }
    if isinstance(value, list):
        return [_without_dangling(item, root) for item in value]
    return value


def _target(reference: str, root: JsonObject) -> JsonObject | None:
    found: Json = root
    for step in reference.removeprefix("#").removeprefix("/").split("/") if reference != "#" else ():
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found if isinstance(found, Mapping) else None


def _flat(root: _Schema, depth: int = 0) -> _Schema:
    """Flatten the root into one object: vendors refuse alternatives and references there, even sound ones."""
    if depth > _DEEPEST:
        raise UnusableSchemaError("its inputSchema refers to itself at the root")
    followed: set[str] = set()
    while isinstance(reference := root.get("$ref"), str):
        target = {} if reference in followed else _target(reference, root) or {}
        followed.add(reference)
        root = {**target, **{key: value for key, value in root.items() if key != "$ref"}}
    for key in ("allOf", "anyOf", "oneOf"):
        if key in root:
            root = _joined(root, key, depth)
    return {key: value for key, value in root.items() if key not in {"enum", "not"}}


def _joined(root: _Schema, key: str, depth: int) -> _Schema:
    """Merge the root's alternatives or parts; required is what all alternatives, or any part, require."""
    defined = {name: root[name] for name in ("$defs", "definitions") if name in root}
    branches = [_flat({**defined, **cast("_Schema", item)}, depth + 1) for item in _sequence(root[key])]
    objects = [branch for branch in branches if "object" in _kinds(branch, "object")] or branches
    properties: _Schema = {**_properties(root)}
    for branch in objects:
        for name, schema in _properties(branch).items():
            properties[name] = _either(properties[name], schema) if name in properties else schema
    needs = [_names(branch.get("required")) for branch in objects]
    needed = [name for names in needs for name in names if key == "allOf" or all(name in each for each in needs)]
    required = [*dict.fromkeys([*_names(root.get("required")), *needed])]
    kinds = _kinds(root) or [kind for branch in objects for kind in _kinds(branch, "object")]
    joined: _Schema = {name: value for name, value in root.items() if name != key}
    joined |= {"type": [*dict.fromkeys(map(str, kinds))], "properties": properties}
    return joined | ({"required": required} if required else {})


def _kinds(schema: JsonObject, default: str = "") -> Sequence[Json]:
    """The types that a schema names."""
    kind = schema.get("type", default)
    return ([kind] if kind else []) if isinstance(kind, str) else _sequence(kind)


def _properties(branch: JsonObject) -> JsonObject:
    properties = branch.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _either(one: Json, other: Json) -> Json:
    if one == other or not other:
        return one
    known = cast("JsonObject", one)
    if set(known) == {"anyOf"}:
        return one if other in _sequence(known["anyOf"]) else {"anyOf": [*_sequence(known["anyOf"]), other]}
    return {"anyOf": [one, other]} if one else other


def _names(value: Json) -> list[str]:
    return [*dict.fromkeys(item for item in _sequence(value) if isinstance(item, str))]


def _sequence(value: Json) -> Sequence[Json]:
    return () if isinstance(value, str) or not isinstance(value, Sequence) else value


NAME_LIMIT = 80
"""Characters of an entry's name in the sentence about leaving it out."""

Entry = dict[str, Any]


class _List(Struct, frozen=True):
    key: str
    kind: str
    result: type[types.ListToolsResult | types.ListPromptsResult | types.ListResourcesResult]
    needed: tuple[str, ...]


_LISTS: Mapping[str, _List] = {
    "tools/list": _List("tools", "tool", types.ListToolsResult, ("name", "inputSchema")),
    # The arguments of a prompt must be right: one whose arguments make no sense is left out.
    "prompts/list": _List("prompts", "prompt", types.ListPromptsResult, ("name", "arguments")),
    "resources/list": _List("resources", "resource", types.ListResourcesResult, ("uri", "name")),
}


class LeftOutError(ValueError):
    """An entry cannot be used. Its text says why, as the end of a sentence."""


class ListFilter:
    """Sits between a server and the package's session, and makes answers sound: lists entry by entry, and results."""

    def __init__(self) -> None:
        self.version = types.LATEST_PROTOCOL_VERSION
        """The version of the protocol, once agreed on."""
        self.left_out: dict[str, None] = {}
        """Entries left out, each with its reason, such as "the tool `a` (it has no name)"."""
        self._asked: dict[str, tuple[str, str]] = {}
        """The requests that run, by their ids: the method, and the address that is read."""

    def note(self, item: SessionMessage) -> None:
        """Look at what is sent: which answer has which form is only known by its request."""
        message = item.message
        if isinstance(message, types.JSONRPCRequest):
            self._asked[str(message.id)] = message.method, str((message.params or {}).get("uri", ""))

    def sift(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        """Return a received message, with only the sound entries of a list or the readable parts of a result."""
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            method, uri = self._asked.pop(str(message.id), ("", ""))
            if isinstance(message, types.JSONRPCResponse):
                is_list = method in _LISTS
                result = message.result
                message.result = (
                    self._page(method, result) if is_list else sound_result(method, self.version, result, uri=uri)
                )
        return item

    def _page(self, method: str, page: Entry) -> Entry:
        kind = _LISTS[method]
        entries = page.get(kind.key)
        rest = {key: value for key, value in page.items() if key != kind.key and value is not None}
        rest = self._sound(method, {**rest, kind.key: []}, (), kind.needed)
        if self._problem(method, rest) is not None:
            return page
        if not isinstance(entries, list):
            if entries is not None:
                self._leave_out(f"its {kind.key}", "they are no list")
            return rest
        sound: list[Entry] = []
        for number, entry in enumerate(cast("list[object]", entries), 1):
            try:
                sound.append(self._entry(method, rest, entry))
            except LeftOutError as error:
                self._leave_out(f"the {kind.kind} {_named(entry, number)}", str(error))
        return {**rest, kind.key: sound}

    def _leave_out(self, what: str, why: str) -> None:
        self.left_out[f"{what} ({why})"] = None

    def _entry(self, method: str, rest: Entry, entry: object) -> Entry:
        kind = _LISTS[method]
        if not isinstance(entry, dict):
            raise LeftOutError("it is no object")
        given = cast("Entry", entry)
        found = {key: value for key, value in given.items() if value is not None}
        if kind.kind == "resource":
            found.setdefault("name", found.get("uri"))
        elif not isinstance(found.get("name"), str) or not found["name"].strip():
            raise LeftOutError("it has no name")
        if kind.kind == "tool":
            found["inputSchema"] = _input_schema(given.get("inputSchema"))
            if not is_sound(cast("Json", found.get("outputSchema"))):
                # Answers are validated against it; none passes an unsound one.
                found.pop("outputSchema", None)
        sound = self._sound(method, {**rest, kind.key: [found]}, (kind.key, 0), kind.needed)
        return cast("list[Entry]", sound[kind.key])[0]

    def _sound(self, method: str, page: Entry, at: tuple[()] | tuple[str, int], needed: tuple[str, ...]) -> Entry:
        """Remove from the page the fields at a path that have a form they may not have."""
        part = cast("Entry", page[at[0]][at[1]]) if at else page
        while (problem := self._problem(method, page)) is not None:
            loc, words = problem
            inside = loc[: len(at)] == at
            field = next((step for step in (loc[len(at) :] if inside else ()) if step in part), None)
            if field is None or field in needed:
                path = ".".join(map(str, loc[len(at) :] if inside else loc))
                if at:
                    raise LeftOutError(f"{path}: {words[:1].lower()}{words[1:]}")
                return page
            del part[field]
        return page

    def _problem(self, method: str, page: Entry) -> tuple[tuple[str | int, ...], str] | None:
        try:
            # A version may have no form of its own for a list.
            with suppress(KeyError):
                methods.validate_server_result(method, self.version, page)
            _LISTS[method].result.model_validate(page, by_name=False)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            return first["loc"], first["msg"]
        return None


def _input_schema(schema: object) -> object:
    try:
        return usable_schema(cast("Json", schema))
    except UnusableSchemaError as error:
        raise LeftOutError(str(error)) from error


def _named(entry: object, number: int) -> str:
    given = cast("Entry", entry) if isinstance(entry, dict) else {}
    name = given.get("name", given.get("uri"))
    shown = " ".join(name.split())[:NAME_LIMIT] if isinstance(name, str) else ""
    return f"`{shown}`" if shown else f"number {number}"
