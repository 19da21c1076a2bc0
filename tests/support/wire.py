"""A judge of everything an agent writes.

Owns: checking each line against the models of the ACP SDK and, when it is given, the official JSON schema, and the
rules of a conversation that no schema states. Must not know: our own wire structs, which it judges.

The SDK drops keys that it does not know and values that it does not like, so whatever does not survive its models is
reported too: that is how a misspelt key or an invented status is found.
"""

import json
from collections.abc import Mapping
from typing import Final, TypeAlias, cast

import acp.schema as sdk
from pydantic import BaseModel, ValidationError

from pattern_acp.domain.canonical import JsonObject
from tests.support.official_schema import check_of

LINE_BYTES = 1_000_000
"""Longest line that every known client reads (reference acp.md, part 1 section 1)."""

Members: TypeAlias = dict[str, object]

RESULTS: Final[Mapping[str, type[BaseModel]]] = {
    "initialize": sdk.InitializeResponse,
    "authenticate": sdk.AuthenticateResponse,
    "logout": sdk.LogoutResponse,
    "session/new": sdk.NewSessionResponse,
    "session/load": sdk.LoadSessionResponse,
    "session/resume": sdk.ResumeSessionResponse,
    "session/fork": sdk.ForkSessionResponse,
    "_pattern/session/fork": sdk.ForkSessionResponse,
    "_pattern/session/open": sdk.ForkSessionResponse,
    "session/list": sdk.ListSessionsResponse,
    "session/close": sdk.CloseSessionResponse,
    "session/delete": sdk.DeleteSessionResponse,
    "session/set_mode": sdk.SetSessionModeResponse,
    "session/set_config_option": sdk.SetSessionConfigOptionResponse,
    "session/prompt": sdk.PromptResponse,
}
"""What the agent answers, by method."""

LIKE_FORK: Final = frozenset({"_pattern/session/fork", "_pattern/session/open"})
"""Methods of ours that answer as session/fork does."""

REQUESTS: Final[Mapping[str, type[BaseModel]]] = {
    "session/request_permission": sdk.RequestPermissionRequest,
    "elicitation/create": sdk.CreateFormSessionElicitationRequest,
    "fs/read_text_file": sdk.ReadTextFileRequest,
    "fs/write_text_file": sdk.WriteTextFileRequest,
    "terminal/create": sdk.CreateTerminalRequest,
    "terminal/output": sdk.TerminalOutputRequest,
    "terminal/wait_for_exit": sdk.WaitForTerminalExitRequest,
    "terminal/kill": sdk.KillTerminalRequest,
    "terminal/release": sdk.ReleaseTerminalRequest,
}
"""What the agent asks, by method."""

NOTIFICATIONS: Final[Mapping[str, type[BaseModel]]] = {
    "session/update": sdk.SessionNotification,
    "$/cancel_request": sdk.CancelRequestNotification,
}
"""What the agent tells, by method."""

NEWER_THAN_SDK: Final = frozenset({"notice", "compaction_update", "compaction_summary_chunk"})
"""Stable updates that SDK 0.12.1 does not know; only the official schema judges them."""

NEWER_KEYS: Final = frozenset({"update.name", "toolCall.name"})
"""Stable members that SDK 0.12.1 does not know."""


class WireFaultError(AssertionError):
    """The agent wrote something that ACP does not allow."""


class WireJudge:
    """Watches one connection. Give it the lines of both sides in the order in which they were written."""

    def __init__(self, official: JsonObject | None = None) -> None:
        self._official = None if official is None else _OfficialSchema(official)
        self._open: dict[tuple[str, object], list[str]] = {}
        self._asked: set[tuple[str, object]] = set()
        self._sessions: set[object] = set()

    @property
    def unanswered(self) -> list[str]:
        """Methods of the client's requests that have no answer yet."""
        return [method for waiting in self._open.values() for method in waiting]

    def client_wrote(self, line: bytes) -> None:
        """Note a line of the client; any line is accepted."""
        try:
            message = cast("object", json.loads(line))
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        members = cast("Members", message)
        method, params = members.get("method"), members.get("params")
        if isinstance(method, str) and "id" in members:
            self._open.setdefault(_key(members["id"]), []).append(method)
            if method in {"session/load", "session/resume", "_pattern/session/open"} and isinstance(params, dict):
                session = cast("Members", params).get("sessionId")
                if isinstance(session, str):
                    self._sessions.add(session)

    def agent_wrote(self, line: bytes) -> None:
        """Check a line of the agent.

        Raises:
            WireFaultError: what is wrong with it.
        """
        members = _read_line(line)
        method = members.get("method")
        if isinstance(method, str):
            self._check_call(method, members)
        elif "method" in members:
            raise WireFaultError("The method is not a string.")
        else:
            self._check_answer(members)

    def _check_call(self, method: str, members: Members) -> None:
        if "id" in members:
            key = _key(members["id"])
            _require(key not in self._asked, f"The request {method} reuses an id.")
            self._asked.add(key)
        if method.startswith("_"):
            return
        table = REQUESTS if "id" in members else NOTIFICATIONS
        _require(method in table, f"{method} is not something that an agent may send this way.")
        params = _object(members.get("params"), f"The parameters of {method}")
        if method == "$/cancel_request":
            _require(_key(params.get("requestId")) in self._asked, "A request was withdrawn that was never made.")
        else:
            _require(params.get("sessionId") in self._sessions, f"{method} names a session unknown to the client.")
        update = params.get("update")
        variant = cast("Members", update).get("sessionUpdate") if isinstance(update, dict) else None
        if variant not in NEWER_THAN_SDK:
            _check_model(table[method], params, method)
        if self._official is not None:
            self._official.check_call(method, params)

    def _check_answer(self, members: Members) -> None:
        _require("id" in members, "The message has neither a method nor an id.")
        _require(("result" in members) != ("error" in members), "An answer has exactly one of result and error.")
        if "error" in members:
            self._check_error(members)
            return
        waiting = self._open.get(_key(members["id"]))
        _require(bool(waiting), "A result answers a request that nobody made, or one that was answered.")
        method = cast("list[str]", waiting).pop(0)
        result = _object(members["result"], f"The result of {method}")
        if method in {"session/new", "session/fork", "_pattern/session/fork"}:
            self._sessions.add(result.get("sessionId"))
        if method in RESULTS:
            _check_model(RESULTS[method], result, f"the result of {method}")
            if self._official is not None:
                self._official.check_result("session/fork" if method in LIKE_FORK else method, result)

    def _check_error(self, members: Members) -> None:
        error = _object(members["error"], "The error")
        _check_model(sdk.Error, error, "the error")
        if self._official is not None:
            self._official.check("Error", error)
        _require(bool(error.get("message")), "The error has no message.")
        if members["id"] is None and not self._open.get(_key(None)):
            return  # the answer to a line that had no usable id
        waiting = self._open.get(_key(members["id"]))
        _require(bool(waiting), "An error answers a request that nobody made, or one that was answered.")
        # The later of two requests under one id is the one that is refused.
        cast("list[str]", waiting).pop()


class _OfficialSchema:
    """Validators by definition of the official schema."""

    def __init__(self, schema: JsonObject) -> None:
        self._check = check_of(schema)
        self._names: dict[tuple[str, str, str], str] = {}
        for name, definition in cast("Mapping[str, Members]", schema["$defs"]).items():
            if "x-method" in definition:
                kind = "Response" if name.endswith("Response") else "Call"
                self._names[str(definition["x-side"]), str(definition["x-method"]), kind] = name

    def check_call(self, method: str, params: Members) -> None:
        side = "protocol" if method.startswith("$/") else "client"
        self.check(self._names[side, method, "Call"], params)

    def check_result(self, method: str, result: Members) -> None:
        self.check(self._names["agent", method, "Response"], result)

    def check(self, name: str, value: Members) -> None:
        fault = self._check.fault_of(name, value)
        _require(not fault, f"The official schema refuses {fault}")


def _read_line(line: bytes) -> Members:
    _require(line.endswith(b"\n"), "The line does not end with a line feed.")
    _require(line.count(b"\n") == 1, "The line holds a line feed inside.")
    _require(len(line) <= LINE_BYTES, f"The line has {len(line)} bytes; some clients read {LINE_BYTES} at most.")
    try:
        message = cast("object", json.loads(line))
    except ValueError as error:
        raise WireFaultError("The line is not JSON.") from error
    members = _object(message, "The message")
    _require(members.get("jsonrpc") == "2.0", "The member jsonrpc is not 2.0.")
    return members


def _check_model(model: type[BaseModel], value: Members, what: str) -> None:
    try:
        parsed = model.model_validate_json(json.dumps(value))
    except ValidationError as error:
        raise WireFaultError(f"The SDK refuses {what}: {error}") from error
    kept = cast("object", parsed.model_dump(mode="json", by_alias=True, exclude_unset=True))
    lost = [path for path in _lost(value, kept, "") if path not in NEWER_KEYS]
    _require(not lost, f"The SDK does not keep these members of {what}: {', '.join(lost)}.")


def _lost(sent: object, kept: object, path: str) -> list[str]:
    if isinstance(sent, dict) and isinstance(kept, dict):
        members, rest = cast("Members", sent), cast("Members", kept)
        lost: list[str] = []
        for key, value in members.items():
            where = f"{path}.{key}" if path else key
            lost += _lost(value, rest[key], where) if key in rest else [where]
        return lost
    if isinstance(sent, list) and isinstance(kept, list):
        items, others = cast("list[object]", sent), cast("list[object]", kept)
        if len(items) != len(others):
            return [path]
        return [lost for one, other in zip(items, others, strict=True) for lost in _lost(one, other, f"{path}[]")]
    return [] if sent == kept else [path]


def _key(request_id: object) -> tuple[str, object]:
    return type(request_id).__name__, request_id if isinstance(request_id, int | str) else None


def _object(value: object, what: str) -> Members:
    _require(isinstance(value, dict), f"{what} is not an object.")
    return cast("Members", value)


def _require(condition: object, sentence: str) -> None:
    if not condition:
        raise WireFaultError(sentence)
