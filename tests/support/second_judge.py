"""A judge of everything an agent writes in ACP v2.

Owns: checking each line against the official schema, and the rules of a conversation that no schema states. Must not
know: our own wire structs, which it judges.
"""

import json
from collections.abc import Mapping
from typing import Final, TypeAlias, cast

from pattern_acp.domain.canonical import JsonObject
from tests.support.official_schema import check_of
from tests.support.wire import LINE_BYTES, WireFaultError

Members: TypeAlias = dict[str, object]

RESULTS: Final[Mapping[str, str]] = {
    "initialize": "InitializeResponse",
    "auth/login": "LoginAuthResponse",
    "auth/logout": "LogoutAuthResponse",
    "session/new": "NewSessionResponse",
    "session/resume": "ResumeSessionResponse",
    "session/list": "ListSessionsResponse",
    "session/close": "CloseSessionResponse",
    "session/delete": "DeleteSessionResponse",
    "session/set_config_option": "SetSessionConfigOptionResponse",
    "session/prompt": "PromptResponse",
    "tool_call/cancel": "CancelToolCallResponse",
    "providers/list": "ListProvidersResponse",
    "providers/set": "SetProviderResponse",
    "providers/disable": "DisableProviderResponse",
    "auth/status": "AuthStatusResponse",
    "terminal/cancel": "CancelTerminalResponse",
    "session/fork": "ForkSessionResponse",
    "session/archive": "ArchiveSessionResponse",
    "session/unarchive": "UnarchiveSessionResponse",
    "session/status": "SessionStatusResponse",
    "session/set_title": "SetSessionTitleResponse",
}

CALLS: Final[Mapping[str, str]] = {
    "session/update": "UpdateSessionNotification",
    "session/request_permission": "RequestPermissionRequest",
    "elicitation/create": "CreateElicitationRequest",
    "$/cancel_request": "CancelRequestNotification",
    "mcp/message": "MessageMcpRequest",
}

FREE: Final = frozenset({"_meta", "rawInput", "rawOutput", "data", "params", "properties"})
"""Members that may hold anything."""


class SecondJudge:
    """Watches one connection. Give it the lines of both sides in the order in which they were written."""

    def __init__(self, official: JsonObject | None = None) -> None:
        self._check = None if official is None else check_of(official)
        self._asked: dict[object, tuple[str, Members]] = {}
        self._state: dict[object, str] = {}
        self._calls: set[tuple[object, object]] = set()
        self._updates_before: dict[object, list[str]] = {}

    def client_wrote(self, line: bytes) -> None:
        """Note a line of the client; any line is accepted."""
        try:
            message = cast("object", json.loads(line))
        except ValueError:
            return
        if isinstance(message, dict) and "method" in message and "id" in message:
            members = cast("Members", message)
            params = members.get("params")
            self._asked[members["id"]] = (
                str(members["method"]),
                cast("Members", params if isinstance(params, dict) else {}),
            )

    def agent_wrote(self, line: bytes) -> None:
        """Check a line of the agent.

        Raises:
            WireFaultError: what is wrong with it.
        """
        _require(line.endswith(b"\n") and line.count(b"\n") == 1, "A line is one JSON object and a line feed.")
        _require(len(line) <= LINE_BYTES, f"The line has {len(line)} bytes; clients read {LINE_BYTES} at most.")
        message = cast("Members", json.loads(line))
        method = message.get("method")
        if isinstance(method, str):
            self._call(method, cast("Members", message.get("params", {})))
        else:
            self._answer(message)

    def _call(self, method: str, params: Members) -> None:
        if method.startswith("_"):
            return
        _require(method in CALLS, f"{method} is not something that an agent may send in version 2.")
        self._judge(CALLS[method], params)
        if method == "session/update":
            self._update(params["sessionId"], cast("Members", params["update"]))

    def _update(self, session: object, update: Members) -> None:
        kind = update["sessionUpdate"]
        if kind == "state_update":
            before, state = self._state.get(session, "idle"), str(update["state"])
            _require(
                not (state == "requires_action" and before == "idle" and session in self._state),
                "Nothing asks while idle.",
            )
            _require("stopReason" not in update or before != "idle", "An end that was no end of anything.")
            _require("usage" not in update or "stopReason" in update, "A snapshot repeats no usage.")
            self._state[session] = state
        self._updates_before.setdefault(session, []).append(str(kind))

    def _answer(self, message: Members) -> None:
        method, params = self._asked.pop(message.get("id"), ("", Members()))
        if "error" in message:
            self._judge("Error", cast("Members", message["error"]))
            return
        _require(method, "An answer to nothing.")
        if method.startswith("_"):
            return
        _require(method in RESULTS, f"{method} is no method of version 2.")
        self._judge(RESULTS[method], cast("Members", message["result"]))
        if method == "session/resume":
            last = self._updates_before.get(params.get("sessionId"), [""])
            _require("state_update" in last, "The state comes before the answer to session/resume.")

    def _judge(self, name: str, value: Members) -> None:
        if self._check is not None:
            fault = self._check.fault_of(name, value)
            _require(not fault, f"The schema of version 2 refuses {fault}")
            unknown = sorted(_keys(value) - self._check.property_names)
            _require(not unknown, f"No definition of version 2 has {', '.join(unknown)}.")


def _keys(value: object) -> set[str]:
    if isinstance(value, dict):
        members = cast("Members", value)
        inner = (_keys(each) for key, each in members.items() if key not in FREE)
        return set(members).union(*inner)
    if isinstance(value, list):
        return set[str]().union(*(_keys(each) for each in cast("list[object]", value)))
    return set()


def _require(condition: object, sentence: str) -> None:
    if not condition:
        raise WireFaultError(sentence)
