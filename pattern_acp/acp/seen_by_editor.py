"""The part of a conversation that an editor has: a new connection to the agent continues where another ended.

Owns: which requests wait on either side, which sessions are open, and which of a replay's updates the editor lacks.
Must not know: how connections are made. In version 1 of ACP `session/load` replays a session, and the replay tells
whether a prompt had begun; in version 2 `session/resume` does, and a key makes sure that a prompt begins once.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct, field

from pattern_acp.acp.initialize_response import SECOND_VERSION, asks_for_second
from pattern_acp.jsonrpc.dispatcher import CANCEL_REQUEST
from pattern_acp.jsonrpc.messages import (
    INTERNAL_ERROR,
    Notification,
    Request,
    RequestId,
    Response,
    RpcError,
    encode_error,
    encode_notification,
    encode_request,
    parse,
)

OWN_ID = "pattern-connect-"
"""Begins the ids of the connector's own requests, whose answers the editor never sees."""

INTERRUPTED = (
    "The agent's server was restarted during this turn, so the turn ended there; what it had done is shown. Send a "
    "prompt to continue."
)

CUT_OFF = "The agent's server was restarted during this turn, so the turn ended there. Send a prompt to continue."
"""The notice in version 2, whose prompts were answered when the turn began."""

_CHUNKS = ("agent_message_chunk", "agent_thought_chunk")
_WHOLE = ("agent_message", "agent_thought")
_FINAL = ("completed", "failed", "cancelled")


class _Session(Struct):
    """A session that the editor has open."""

    params: dict[str, Any]
    """Parameters that open it again."""
    texts: dict[str, int] = field(default_factory=dict[str, int])
    """Characters of each message that the editor has."""
    calls: dict[str, str] = field(default_factory=dict[str, str])
    """Status of each tool call as the editor has it."""
    replayed: dict[str, int] = field(default_factory=dict[str, int])
    """Characters of each message that the running replay has shown."""
    is_replaying: bool = False
    state: str = "idle"
    """State of the foreground as the editor has it; version 1 shows none."""
    prompts: set[str] = field(default_factory=set[str])
    """Ids of the user's messages that the editor has; version 1 does not send them back."""
    prompt_id: str = ""
    prompt: str = ""
    """The newest prompt that the running replay has shown."""
    was_cut_off: bool = False
    """True if a turn ran, as the editor has it, that the replay says has ended."""

    def take_notices(self, session_id: str) -> list[bytes]:
        """Return what the editor learns behind a replay."""
        if not self.was_cut_off:
            return []
        self.was_cut_off = False
        notice = {"sessionUpdate": "notice", "severity": "warning", "title": CUT_OFF}
        return [encode_notification("session/update", {"sessionId": session_id, "update": notice})]


class SeenByEditor:
    """Notes what passes between an editor and an agent, and says what a new agent and the editor have to be sent."""

    def __init__(self) -> None:
        self._introduction: bytes | None = None
        self.version = 1
        self._waiting: dict[RequestId, tuple[bytes, Request]] = {}
        """Requests of the editor without an answer."""
        self._asked: dict[RequestId, RequestId] = {}
        """Requests of the agent without an answer, by the id that the editor knows."""
        self._sessions: dict[str, _Session] = {}
        self._own: dict[str, str] = {}
        """Sessions that are being replayed, by the id of the request."""
        self._later: list[bytes] = []
        self._prompts: list[Request] = []
        """Prompts without an answer, of which the replay says whether they began."""
        self._epoch = 0

    @property
    def is_waiting(self) -> bool:
        """True while the editor has asked for something that is not answered."""
        return bool(self._waiting)

    def folders_of(self, session_id: str) -> tuple[str, ...] | None:
        """Return the folders of a session that the editor opened, its own first; None for any other."""
        session = self._sessions.get(session_id)
        cwd = session.params.get("cwd") if session is not None else None
        if session is None or not isinstance(cwd, str):
            return None
        more = session.params.get("additionalDirectories")
        others = cast("list[object]", more) if isinstance(more, list) else []
        return (cwd, *(folder for folder in others if isinstance(folder, str)))

    def open_folders(self) -> tuple[str, ...]:
        """Return the folders of all sessions that the editor has open."""
        return tuple(folder for session_id in self._sessions for folder in self.folders_of(session_id) or ())

    def from_editor(self, line: bytes) -> list[bytes]:
        """Return what the agent is to be sent for a line of the editor."""
        message = parse(line)
        if self.version == SECOND_VERSION and isinstance(message, Request) and message.method == "session/prompt":
            line = _with_key(line, message)
            message = parse(line)
        match message:
            case Request():
                self._waiting[message.id] = (line, message)
                if message.method == "initialize" and self._introduction is None:
                    self._introduction = line
                    params = _object(message.params)
                    self.version = SECOND_VERSION if asks_for_second(params) else 1
            case Response():
                if message.id not in self._asked and self._epoch:
                    # The answer to an agent that is gone.
                    return []
                ours = self._asked.pop(message.id, message.id)
                if ours != message.id:
                    return [_with_id(line, ours)]
            case _:
                pass
        if self._own and isinstance(message, Request | Notification) and message.method != CANCEL_REQUEST:
            # The sessions come first: a prompt must find its own.
            self._later.append(line)
            return []
        return [line]

    def from_agent(self, line: bytes) -> tuple[list[bytes], list[bytes]]:
        """Return what the editor is to be sent for a line of the agent, and what the agent is to be sent then."""
        message = parse(line)
        match message:
            case Request():
                return [self._asked_by_agent(line, message)], []
            case Response():
                return self._answered(line, message)
            case Notification(method="session/update"):
                return self._updated(line, message), []
            case _:
                return [line], []

    def begin_anew(self) -> tuple[list[bytes], list[bytes]]:
        """Return what a new agent has to be sent first, and what the editor has to learn meanwhile."""
        self._epoch += 1
        told = [encode_notification(CANCEL_REQUEST, {"requestId": shown}) for shown in self._asked]
        self._asked.clear()
        first = [self._introduction] if self._introduction is not None else []
        self._later, self._own, self._prompts = [], {}, []
        for session_id, session in self._sessions.items():
            # Those of subagents are replayed with the one that they belong to.
            session.is_replaying, session.replayed, session.prompt, session.prompt_id = True, {}, "", ""
            if "cwd" not in session.params:
                continue
            own = f"{OWN_ID}{self._epoch}-{len(self._own)}"
            self._own[own] = session_id
            params: dict[str, Any] = {**session.params, "sessionId": session_id}
            if self.version == SECOND_VERSION:
                first.append(encode_request(own, "session/resume", {**params, "replayFrom": {"type": "start"}}))
            else:
                first.append(encode_request(own, "session/load", params))
        for line, request in self._waiting.values():
            if request.method == "session/prompt" and self.version != SECOND_VERSION:
                self._prompts.append(request)
            elif request.method != "initialize":
                self._later.append(line)
        if self._own:
            return first, told
        sent, shown = self._after_replay()
        return [*first, *sent], [*told, *shown]

    def give_up(self, error: RpcError) -> list[bytes]:
        """Return an answer to each request of the editor that will get none."""
        waiting, self._waiting = self._waiting, {}
        return [encode_error(request_id, error) for request_id in waiting]

    def _asked_by_agent(self, line: bytes, request: Request) -> bytes:
        # Agents count from one, and the editor may still have a question of the one before.
        shown = f"{self._epoch}-{request.id}" if self._epoch else request.id
        self._asked[shown] = request.id
        return line if shown == request.id else _with_id(line, shown)

    def _answered(self, line: bytes, response: Response) -> tuple[list[bytes], list[bytes]]:
        if isinstance(response.id, str) and (session_id := self._own.pop(response.id, None)) is not None:
            told: list[bytes] = []
            if (session := self._sessions.get(session_id)) is not None:
                session.is_replaying = False
                told = session.take_notices(session_id)
            if self._own:
                return told, []
            sent, shown = self._after_replay()
            return [*told, *shown], sent
        waited = self._waiting.pop(response.id, None)
        if waited is None:
            # The second answer to initialize.
            return [], []
        if response.error is None:
            self._note_session(waited[1], response)
        return [line], []

    def _after_replay(self) -> tuple[list[bytes], list[bytes]]:
        """Return what waited for the sessions: for the agent, and for the editor."""
        sent: list[bytes] = []
        shown: list[bytes] = []
        for session in self._sessions.values():
            session.is_replaying = False
        for request in self._prompts:
            line, _ = self._waiting[request.id]
            if self._began(request):
                del self._waiting[request.id]
                shown.append(encode_error(request.id, RpcError(INTERNAL_ERROR, INTERRUPTED)))
            else:
                sent.append(line)
        sent += self._later
        self._later, self._prompts = [], []
        return sent, shown

    def _began(self, request: Request) -> bool:
        """Tell whether the agent had begun with a prompt; when that is uncertain, it had: twice would be worse."""
        params = _object(request.params)
        session = self._sessions.get(str(params.get("sessionId")))
        blocks = cast("list[dict[str, Any]]", params.get("prompt") or [])
        said = next((str(each.get("text", "")) for each in blocks if each.get("type") == "text"), "")
        return session is None or not said or session.prompt.startswith(said)

    def _note_session(self, request: Request, response: Response) -> None:
        params = _object(request.params)
        match request.method:
            case "session/new" | "session/fork" | "_pattern/session/fork":
                session_id = _object(response.result).get("sessionId")
            case "session/load" | "session/resume":
                session_id = params.get("sessionId")
            case "session/close" | "session/delete":
                self._sessions.pop(str(params.get("sessionId")), None)
                return
            case _:
                return
        if isinstance(session_id, str):
            kept = {name: params[name] for name in ("cwd", "mcpServers", "additionalDirectories") if name in params}
            known = self._sessions.setdefault(session_id, _Session(kept))
            known.params = {"mcpServers": [], **kept}

    def _updated(self, line: bytes, message: Notification) -> list[bytes]:
        params = _object(message.params)
        update = params.get("update")
        if not isinstance(update, dict):
            return [line]
        session = self._sessions.setdefault(str(params.get("sessionId")), _Session({}))
        members = cast("dict[str, Any]", update)
        left = _lacking(session, members) if session.is_replaying else members
        if left is None:
            return []
        self._note_update(session, left)
        return [line] if left is members else [encode_notification("session/update", {**params, "update": left})]

    def _note_update(self, session: _Session, update: Mapping[str, Any]) -> None:
        kind, call = update.get("sessionUpdate"), update.get("toolCallId")
        if kind in _CHUNKS:
            message_id = str(update.get("messageId"))
            session.texts[message_id] = session.texts.get(message_id, 0) + len(_text_of(update))
        elif kind in _WHOLE:
            session.texts[str(update.get("messageId"))] = len(_text_of_whole(update))
        elif kind == "user_message":
            session.prompts.add(str(update.get("messageId")))
        elif kind == "state_update":
            session.state = str(update.get("state"))
        elif isinstance(call, str):
            session.calls[call] = str(update.get("status") or session.calls.get(call, ""))


def _text_of_whole(update: Mapping[str, Any]) -> str:
    content = update.get("content")
    blocks = cast("list[object]", content) if isinstance(content, list) else []
    return "".join(_text_of({"content": block}) for block in blocks)


def _lacking(session: _Session, update: dict[str, Any]) -> dict[str, Any] | None:
    """Return what the editor lacks of an update of a replay; None when it has all of it."""
    kind = update.get("sessionUpdate")
    match kind:
        case "state_update":
            session.was_cut_off = session.was_cut_off or session.state != "idle"
        case "user_message":
            is_known = update.get("messageId") in session.prompts
            session.replayed[str(update.get("messageId"))] = 0 if is_known else 1
            return None if is_known else update
        case "terminal_update" if session.calls.get(str(update.get("terminalId"))) in _FINAL:
            return None
        case "user_message_chunk" if session.replayed.get(str(update.get("messageId"))) == 1:
            # The rest of one that is too long for a line.
            return update
        case "user_message_chunk":
            return _lacking_of_prompt(session, update)
        case "agent_message" | "agent_thought":
            return _lacking_of_whole(session, update)
        case "agent_message_chunk" | "agent_thought_chunk":
            return _lacking_of_chunk(session, update)
        case "tool_call" | "tool_call_update" if (
            status := session.calls.get(str(update.get("toolCallId")))
        ) is not None:
            return None if status in _FINAL else {**update, "sessionUpdate": "tool_call_update"}
        case _:
            pass
    return update


def _lacking_of_prompt(session: _Session, update: dict[str, Any]) -> None:
    """Note a prompt of a replay; the editor sent it."""
    is_same = session.prompt_id == str(update.get("messageId"))
    session.prompt = session.prompt + _text_of(update) if is_same else _text_of(update)
    session.prompt_id = str(update.get("messageId"))


def _lacking_of_chunk(session: _Session, update: dict[str, Any]) -> dict[str, Any] | None:
    message_id, text = str(update.get("messageId")), _text_of(update)
    begin = session.replayed.get(message_id, 0)
    session.replayed[message_id] = begin + len(text)
    has = session.texts.get(message_id, 0)
    if begin + len(text) <= has:
        return None
    if begin < has:
        return {**update, "content": {**update["content"], "text": text[has - begin :]}}
    return update


def _lacking_of_whole(session: _Session, update: dict[str, Any]) -> dict[str, Any] | None:
    """Return what the editor lacks of a whole message of a replay: all of it, its end, or nothing."""
    message_id, text = str(update.get("messageId")), _text_of_whole(update)
    session.replayed[message_id] = len(text)
    has = session.texts.get(message_id, 0)
    if not has:
        return update
    if has >= len(text):
        return None
    content = {"type": "text", "text": text[has:]}
    return {"sessionUpdate": f"{update['sessionUpdate']}_chunk", "messageId": message_id, "content": content}


def _with_key(line: bytes, request: Request) -> bytes:
    """Return a prompt that begins once, however often it is sent."""
    params = _object(request.params)
    if params.get("idempotencyKey"):
        return line
    return encode_request(request.id, request.method, {**params, "idempotencyKey": f"{OWN_ID}{secrets.token_hex(12)}"})


def with_offer(line: bytes, offered: Sequence[str]) -> bytes:
    """Return a line of the editor; an initialize promises what is done beside the editor on its machine as well."""
    message = parse(line)
    if not isinstance(message, Request) or message.method != "initialize":
        return line
    params = _object(message.params)
    name = "clientCapabilities" if "info" not in params or "clientCapabilities" in params else "capabilities"
    promised = params.get(name, {})
    if not isinstance(promised, dict):
        return line
    capabilities = cast("dict[str, Any]", promised)
    meta = capabilities.get("_meta")
    members = cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}
    pattern = members.get("pattern")
    ours = cast("dict[str, Any]", pattern) if isinstance(pattern, dict) else {}
    more = {**capabilities, "_meta": {**members, "pattern": {**ours, "workspace": list(offered)}}}
    return encode_request(message.id, message.method, {**params, name: more})


def cancelled_id(message: Notification) -> RequestId:
    """Return the id of the request that a notification withdraws; None where it is another one."""
    if message.method != CANCEL_REQUEST:
        return None
    found = _object(message.params).get("requestId")
    return found if isinstance(found, int | str) else None


def _text_of(update: Mapping[str, Any]) -> str:
    content = update.get("content")
    text = cast("dict[str, Any]", content).get("text", "") if isinstance(content, dict) else ""
    return text if isinstance(text, str) else ""


def _object(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _with_id(line: bytes, request_id: RequestId) -> bytes:
    members = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    members["id"] = msgspec.Raw(msgspec.json.encode(request_id))
    return msgspec.json.encode(members)
