"""Memory and conversations in the files of other programs: what is in them, in our words.

Owns: the forms of Letta's agent files, conversations as JSON (ChatGPT, Claude, lists of
messages), and memory files of Claude Code and Codex. Must not know: the constellation. What such a program says is
data: a field that is missing or of another type is named with its place, and what nobody can use is left out.
"""

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar, cast

from msgspec import Struct, field
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pattern_acp.context.instructions import without_memory
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.text_limits import one_line

Place: TypeAlias = Literal["persona", "project"]
"""The owner: a persona in all projects, or the project that it is imported into."""

MOST_BYTES = 20_000_000
"""The largest file that is read as a whole, which takes seven times as much memory; a list of conversations is read one
by one, however long it is."""

MOST_CHARACTERS = 16_000_000
"""The largest conversation of a list."""

_CHUNK = 1 << 20

_MARKDOWN = frozenset({".md", ".markdown", ".mdc"})

CORE_LABELS = frozenset({"persona", "human", "system"})
ARCHIVE_LABELS = frozenset({"archival", "archive", "long_term"})

M = TypeVar("M", bound=BaseModel)


class ForeignFileError(PatternError):
    """A file of another program cannot be read."""

    failure_code = "carry.foreign"


class ForeignBlock(Struct, frozen=True):
    """A text that is always, or at times, before the model. `agent` is whose it is, for a persona."""

    label: str
    text: str
    description: str
    place: Place = "persona"
    agent: str = ""
    is_core: bool = False
    read_only: bool = False
    at_ms: int = 0


class ForeignFact(Struct, frozen=True):
    """A passage that is found by search alone."""

    text: str
    agent: str = ""
    at_ms: int = 0


class ForeignMessage(Struct, frozen=True):
    """A prompt or an answer."""

    is_user: bool
    text: str
    at_ms: int = 0


class ForeignSession(Struct, frozen=True):
    """A conversation. `key` tells it from others of its program."""

    key: str
    title: str
    messages: tuple[ForeignMessage, ...]
    at_ms: int = 0


class Foreign(Struct):
    """The content of a file; `left_out` says what is not taken over, a sentence each. Times are 0 where unknown."""

    program: str
    blocks: list[ForeignBlock] = field(default_factory=list[ForeignBlock])
    facts: Iterable[ForeignFact] = field(default_factory=list[ForeignFact])
    sessions: Iterable[ForeignSession] = field(default_factory=list[ForeignSession])
    """Facts and sessions may be read from the file each time that they are looked through."""
    left_out: list[str] = field(default_factory=list[str])

    def agents(self) -> frozenset[str]:
        """The agents that it has memory of. Looks through all facts."""
        return frozenset(one.agent for each in (self.blocks, self.facts) for one in each if one.agent)


def is_foreign(path: Path, beginning: bytes) -> bool:
    """Tell whether a file is one of another program, and no archive."""
    return path.suffix.lower() in _MARKDOWN or beginning.lstrip()[:1] in {b"{", b"["}


def read_foreign(path: Path) -> Foreign:
    """Return the content of a file of another program.

    Raises:
        ForeignFileError: it is none that is known, or a field of it is not of its form.
        OSError: it cannot be read.
    """
    if path.suffix.lower() not in _MARKDOWN and _begins_list(path):
        return _listed(path)
    _require_small(path)
    content = path.read_bytes()
    if path.suffix.lower() in _MARKDOWN:
        return _memory_file(path, without_memory(_text(path, content)))
    try:
        found = cast("object", json.loads(_text(path, content)))
    except (ValueError, RecursionError) as error:
        raise ForeignFileError(f"{path.name} is not JSON ({error}).") from error
    fields = _fields(found)
    if "core_memory" in fields or "agents" in fields:
        return _letta(path, fields)
    inside = fields.get("conversations", found)
    return _conversations(path, cast("list[object]", inside) if isinstance(inside, list) else [inside])


def _require_small(path: Path) -> None:
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise ForeignFileError(
            f"{path.name} has {size:,} bytes, and a file that is no list of conversations may have {MOST_BYTES:,}; "
            "split it."
        )


def _fields(value: object) -> Mapping[str, object]:
    """Return the fields of an object; none for another value."""
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ForeignFileError(f"{path.name} is not text in UTF-8 (byte {error.start:,}).") from error


def valid(path: Path, form: type[M], value: object, place: str = "") -> M:
    """Return a value as a model; an error names the file and the place in it.

    Raises:
        ForeignFileError: it is not of this form.
    """
    try:
        return form.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(one) for one in (*([place] if place else []), *first["loc"]))
        raise ForeignFileError(f"{path.name} cannot be imported: {where or 'it'}: {first['msg']}.") from error


class _Model(BaseModel):
    """A form of others, which grows: fields that are not named here are left unread."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def _milliseconds(value: object) -> object:
    """Seconds since 1970, or a date in the form of ISO 8601, as milliseconds; 0 for none."""
    match value:
        case None | "":
            return 0
        case bool():
            return value
        case int() | float():
            return int(value * 1000) if abs(value) < 1e11 else value
        case str():
            from datetime import UTC, datetime

            moment = datetime.fromisoformat(value)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return int(moment.timestamp() * 1000)
        case _:
            return value


def moment_ms(date: str) -> int:
    """Return a date in the form of ISO 8601 as milliseconds; 0 for none, or one that cannot be read."""
    try:
        return max(0, cast("int", _milliseconds(date)))
    except ValueError:
        return 0


_Moment = Annotated[int, BeforeValidator(_milliseconds), Field(ge=0, le=1 << 50)]


# Memory files


def _memory_file(path: Path, text: str) -> Foreign:
    """A file of Claude Code or Codex: of the project that it is in, or of the user where it is in their settings."""
    program = "Codex" if path.stem.upper() == "AGENTS" or ".codex" in path.parts else "Claude Code"
    at_ms = int(path.stat().st_mtime * 1000)
    label = re.sub(r"[^a-z0-9]+", "-", path.name.removesuffix(path.suffix).lower()).strip("-")[:40] or "memory"
    is_users = path.absolute().parent.name in {".claude", ".codex"}
    about = f"What {program} was said in {path.name}, as it was when it was imported."
    found = Foreign(program)
    if text.strip():
        place: Place = "persona" if is_users else "project"
        found.blocks.append(ForeignBlock(f"{label}-md", text.strip(), about, place, at_ms=at_ms))
    return found


# Letta


class _LettaBlock(_Model):
    label: str
    value: str = ""
    description: str | None = None
    read_only: bool | None = False
    id: str = ""
    updated_at: _Moment = 0


class _LettaPassage(_Model):
    text: str
    created_at: _Moment = 0


class _LettaFunction(_Model):
    name: str = ""
    arguments: str = ""


class _LettaCall(_Model):
    function: _LettaFunction = _LettaFunction()


class _LettaMessage(_Model):
    role: str
    text: str | None = None
    content: object = None
    tool_calls: tuple[_LettaCall, ...] | None = ()
    created_at: _Moment = 0


class _LettaAgent(_Model):
    name: str = "agent"
    id: str = ""
    core_memory: tuple[_LettaBlock, ...] = ()
    block_ids: tuple[str, ...] = ()
    messages: tuple[_LettaMessage, ...] = ()
    passages: tuple[_LettaPassage, ...] = ()


class _LettaFile(_Model):
    agents: tuple[_LettaAgent, ...] = ()
    blocks: tuple[_LettaBlock, ...] = ()


def _letta(path: Path, found: Mapping[str, object]) -> Foreign:
    """An agent file, in its first form (one agent) or its second (agents, and blocks that they share)."""
    file = valid(path, _LettaFile, found)
    agents = file.agents or (valid(path, _LettaAgent, found),)
    shared, taken = {one.id: one for one in file.blocks}, set[str]()
    into, facts, sessions = Foreign("Letta"), list[ForeignFact](), list[ForeignSession]()
    into.facts, into.sessions = facts, sessions
    for agent in agents:
        for one in (*agent.core_memory, *(shared[each] for each in agent.block_ids if each in shared)):
            # The first agent that has a shared block owns it.
            if one.id and one.id in taken:
                continue
            taken.add(one.id)
            if one.label in ARCHIVE_LABELS:
                facts.append(ForeignFact(one.value, agent.name, one.updated_at))
            elif one.value.strip():
                into.blocks.append(
                    ForeignBlock(
                        one.label,
                        one.value,
                        one.description or f"What the agent {agent.name} of Letta had under this name.",
                        agent=agent.name,
                        is_core=one.label in CORE_LABELS,
                        read_only=bool(one.read_only),
                        at_ms=one.updated_at,
                    )
                )
        facts += (ForeignFact(one.text, agent.name, one.created_at) for one in agent.passages)
        messages = tuple(said for one in agent.messages if (said := _letta_message(one)) is not None)
        if messages:
            key = sha256_hex(f"{agent.id}\n{agent.name}".encode())
            sessions.append(ForeignSession(key, f"{agent.name} (Letta)", messages))
    into.left_out.append("Tools, settings and files of the agents stay out.")
    return into


def _letta_message(message: _LettaMessage) -> ForeignMessage | None:
    """Return what the user or the agent said; None for what the program told the model."""
    text = message.text or "\n".join(texts_of(message.content))
    if message.role == "user":
        packed = _packed(text)
        if packed is not None:
            if packed.get("type") != "user_message":
                return None
            text = str(packed.get("message", ""))
    elif message.role == "assistant":
        # Its words to the user are the argument of a call; the text beside it is its thinking.
        sent = [
            str(packed.get("message", ""))
            for call in message.tool_calls or ()
            if call.function.name == "send_message" and (packed := _packed(call.function.arguments)) is not None
        ]
        if message.tool_calls:
            text = "\n".join(sent)
    else:
        return None
    return ForeignMessage(message.role == "user", text, message.created_at) if text.strip() else None


def _packed(text: str) -> Mapping[str, object] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        return _fields(cast("object", json.loads(text))) or None
    except ValueError:
        return None


# Conversations


class _Author(_Model):
    role: str


class _Content(_Model):
    content_type: str = "text"
    parts: tuple[object, ...] = ()
    text: str | None = None


class _NodeMessage(_Model):
    author: _Author
    content: _Content = _Content()
    create_time: _Moment = 0


class _Node(_Model):
    message: _NodeMessage | None = None
    parent: str | None = None
    children: tuple[str, ...] = ()


class _Tree(_Model):
    """A conversation of ChatGPT: a tree of messages, of which one branch is shown."""

    mapping: dict[str, _Node]
    title: str | None = ""
    id: str = ""
    conversation_id: str = ""
    create_time: _Moment = 0
    current_node: str | None = None


class _ClaudeMessage(_Model):
    sender: str
    text: str | None = ""
    content: object = None
    created_at: _Moment = 0


class _ClaudeChat(_Model):
    chat_messages: tuple[_ClaudeMessage, ...]
    name: str | None = ""
    uuid: str = ""
    created_at: _Moment = 0


class _PlainMessage(_Model):
    role: str
    content: object = None
    created_at: _Moment = 0


class _PlainChat(_Model):
    messages: tuple[_PlainMessage, ...]
    title: str | None = ""
    id: str = ""
    created_at: _Moment = 0


def _conversations(path: Path, items: list[object]) -> Foreign:
    """Return conversations that are all in memory."""
    if items and all("role" in _fields(one) for one in items):
        # One conversation, as interfaces of models take it.
        items = [{"messages": items}]
    named = [_conversation(path, item, str(number) if len(items) > 1 else "") for number, item in enumerate(items)]
    program = next((program for program, _ in reversed(named) if program), "Conversations")
    return Foreign(program, sessions=[session for _, session in named if session.messages])


def _listed(path: Path) -> Foreign:
    """Return the conversations of a list, which are read from the file once more when they are converted."""
    program, number = "Conversations", 0
    for number, item in enumerate(_items(path), 1):
        if number == 1 and "role" in _fields(item):
            _require_small(path)
            return _conversations(path, list(_items(path)))
        program = _conversation(path, item, str(number - 1))[0] or program
    return Foreign(program, sessions=_ListedSessions(path)) if number else Foreign(program)


class _ListedSessions:
    """The conversations of a list in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[ForeignSession]:
        for number, item in enumerate(_items(self._path)):
            _, session = _conversation(self._path, item, str(number))
            if session.messages:
                yield session


def _conversation(path: Path, item: object, place: str) -> tuple[str, ForeignSession]:
    """Return the program that wrote a conversation, empty where unknown, and what was said."""
    keys = _fields(item)
    if "mapping" in keys:
        return "ChatGPT", _of_tree(valid(path, _Tree, item, place))
    if "chat_messages" in keys:
        return "Claude", _of_claude(valid(path, _ClaudeChat, item, place))
    if "messages" in keys:
        return "", _of_plain(valid(path, _PlainChat, item, place))
    where = f" (entry {place})" if place else ""
    raise ForeignFileError(
        f"{path.name} has no conversations and no agents{where}: it should be a Letta agent file, or JSON with "
        "`mapping`, `chat_messages` or `messages`."
    )


def _begins_list(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["


def _items(path: Path) -> Iterator[object]:
    """Yield the items of a list in JSON, with one of them in memory at a time.

    Raises:
        ForeignFileError: it is not JSON in UTF-8, or an item is too large.
    """
    parts = _decoded(path)
    # Behind the bracket that it begins with.
    buffer, at, number = next(parts, "").lstrip()[1:], 0, 0
    while True:
        at = _behind_space(buffer, at)
        if at == len(buffer):
            buffer, at = next(parts, ""), 0
            if not buffer:
                raise ForeignFileError(f"{path.name} is not JSON (its list does not end).")
            continue
        if buffer[at] == "]":
            return
        if number:
            if buffer[at] != ",":
                raise ForeignFileError(f"{path.name} is not JSON (a comma is missing behind entry {number - 1}).")
            at += 1
        item, buffer, at = _next_item(path, number, parts, buffer, at)
        yield item
        number += 1


def _next_item(path: Path, number: int, parts: Iterator[str], buffer: str, at: int) -> tuple[object, str, int]:
    """Return an item that begins in a text, the text with what was read to its end, and where that is."""
    decoder = json.JSONDecoder()
    while True:
        at = _behind_space(buffer, at)
        try:
            item, end = cast("tuple[object, int]", decoder.raw_decode(buffer, at))
        except (json.JSONDecodeError, RecursionError) as error:
            # It may only not be here as a whole yet; twice as much each time, or a long one would take for ever.
            more = _more(parts, len(buffer) - at)
            if not more or isinstance(error, RecursionError):
                detail = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
                raise ForeignFileError(f"{path.name} is not JSON ({detail} in entry {number}).") from error
            buffer, at = buffer[at:] + more, 0
            if len(buffer) > MOST_CHARACTERS:
                raise ForeignFileError(
                    f"{path.name} is not JSON, or its entry {number} has more than {MOST_CHARACTERS:,} characters."
                ) from error
            continue
        return item, buffer, end


_SPACE = re.compile(r"\s*")


def _behind_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _more(parts: Iterator[str], least: int) -> str:
    found, size = list[str](), 0
    while size <= least and (part := next(parts, "")):
        found.append(part)
        size += len(part)
    return "".join(found)


def _decoded(path: Path) -> Iterator[str]:
    """Yield the text of a file piece by piece."""
    decoder, before = getincrementaldecoder("utf-8-sig")(), 0
    with path.open("rb") as file:
        while True:
            content = file.read(_CHUNK)
            pending = len(decoder.getstate()[0])
            try:
                text = decoder.decode(content, final=not content)
            except UnicodeDecodeError as error:
                place = before - pending + error.start
                raise ForeignFileError(f"{path.name} is not text in UTF-8 (byte {place:,}).") from error
            before += len(content)
            if text:
                yield text
            if not content:
                return


def _of_tree(tree: _Tree) -> ForeignSession:
    """The branch that was shown last."""
    at = tree.current_node
    if at not in tree.mapping:
        at = next((name for name, node in reversed(tree.mapping.items()) if not node.children), None)
    branch, seen = list[_NodeMessage](), set[str]()
    while at is not None and at in tree.mapping and at not in seen:
        seen.add(at)
        node = tree.mapping[at]
        branch += [node.message] if node.message is not None else []
        at = node.parent
    messages = tuple(
        ForeignMessage(one.author.role == "user", text, one.create_time)
        for one in reversed(branch)
        if one.author.role in {"user", "assistant"} and one.content.content_type in {"text", "multimodal_text"}
        if (text := "\n".join((*texts_of(one.content.parts), *texts_of(one.content.text))).strip())
    )
    return _session(tree.conversation_id or tree.id, tree.title, messages, tree.create_time)


def _of_claude(chat: _ClaudeChat) -> ForeignSession:
    messages = tuple(
        ForeignMessage(one.sender == "human", text, one.created_at)
        for one in chat.chat_messages
        # Newer exports have the words of some messages in their parts alone.
        if (text := one.text or "\n".join(texts_of(one.content))).strip()
    )
    return _session(chat.uuid, chat.name, messages, chat.created_at)


def _of_plain(chat: _PlainChat) -> ForeignSession:
    messages = tuple(
        ForeignMessage(one.role == "user", text, one.created_at)
        for one in chat.messages
        if one.role in {"user", "assistant"} and (text := "\n".join(texts_of(one.content)).strip())
    )
    return _session(chat.id, chat.title, messages, chat.created_at)


def _session(key: str, title: str | None, messages: Sequence[ForeignMessage], at_ms: int) -> ForeignSession:
    # A conversation without a name is called by its beginning, which stays when it continues.
    first = messages[0].text if messages else ""
    named = one_line(title or first, 80)
    return ForeignSession(key or sha256_hex(first.encode("utf-8", "surrogatepass")), named, tuple(messages), at_ms)


def texts_of(content: object) -> Iterator[str]:
    """Yield the texts of a message: one, or those of its parts; images and files have none."""
    fields = _fields(content)
    match content:
        case str():
            yield content
        case list() | tuple():
            for part in cast("Sequence[object]", content):
                yield from texts_of(part)
        case {"text": str(text)} if fields.get("type", "text") in {"text", "input_text", "output_text"}:
            yield text
        case _:
            # As Rust writes a value of several kinds.
            for kind in {"Text", "Parts", "Blocks"} & fields.keys():
                yield from texts_of(fields[kind])
