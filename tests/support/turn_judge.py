"""A judge of turns: the rules of ACP about order, which no schema states.

Owns: what may be said when in a turn (reference acp.md, part 1 sections 5 and 7). Must not know: our own structs.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

from tests.support.wire import WireFaultError

OF_A_TURN = frozenset(
    {"agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call", "tool_call_update", "plan"}
)
"""Updates that belong to a turn or a replay: none may come when neither runs."""

FINAL = frozenset({"completed", "failed"})

RESUMING = "session/resume"

REPLAYING = frozenset({"session/load", "_pattern/session/open"})


@dataclass(slots=True)
class _Session:
    running: int = 0
    """Prompts and replays without an answer."""
    resuming: int = 0
    """Requests to resume it without an answer: the plan of its task may come, and nothing of its history."""
    calls: dict[str, str] = field(default_factory=dict[str, str])
    """Announced calls and their last status."""


class TurnJudge:
    """Watches one connection; give it the lines of both sides in the order in which they were written."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._open: dict[str, tuple[str, str]] = {}

    def client_wrote(self, line: bytes) -> None:
        """Note a line of the client; broken ones are allowed."""
        try:
            message: Any = json.loads(line)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        members = cast("dict[str, Any]", message)
        method, params = members.get("method"), members.get("params")
        if (
            method not in {"session/prompt", RESUMING, *REPLAYING}
            or not isinstance(params, dict)
            or "id" not in members
        ):
            return
        session_id = str(cast("dict[str, Any]", params).get("sessionId"))
        session = self._session(session_id)
        if method == RESUMING:
            session.resuming += 1
        else:
            session.running += 1
        if '"live":true' in line.decode("utf-8", "replace").replace(" ", ""):
            # A client that asked to see what another window does hears of turns that are not its own.
            session.running += 1
        if method in REPLAYING:
            session.calls.clear()
        self._open[repr(members["id"])] = (str(method), session_id)

    def agent_wrote(self, line: bytes) -> None:
        """Check a line of the agent.

        Raises:
            WireFaultError: what came too early, too late or twice.
        """
        members = cast("dict[str, Any]", json.loads(line))
        if members.get("method") == "session/update":
            self._check_update(str(members["params"]["sessionId"]), members["params"]["update"])
        elif members.get("method") == "session/request_permission":
            self._check_question(members["params"])
        elif "method" not in members and repr(members.get("id")) in self._open:
            self._check_answer(members)

    def _check_update(self, session_id: str, update: dict[str, Any]) -> None:
        session, kind = self._session(session_id), update["sessionUpdate"]
        may_come = session.running > 0 or (kind == "plan" and session.resuming > 0)
        _require(kind not in OF_A_TURN or may_come, f"{kind} came when no turn was running.")
        if kind == "tool_call":
            call_id = update["toolCallId"]
            _require(call_id not in session.calls, f"The call {call_id} was announced twice.")
            session.calls[call_id] = str(update.get("status", "pending"))
        elif kind == "tool_call_update":
            call_id = update["toolCallId"]
            _require(call_id in session.calls, f"The call {call_id} was updated before it was announced.")
            _require(session.calls[call_id] not in FINAL, f"The call {call_id} was updated after its end.")
            session.calls[call_id] = str(update.get("status") or session.calls[call_id])

    def _check_question(self, params: dict[str, Any]) -> None:
        call_id = params["toolCall"]["toolCallId"]
        status = self._session(str(params["sessionId"])).calls.get(call_id)
        # A call that the sandbox stopped has begun, and its question is whether it may run again outside.
        is_open = status in {"pending", "in_progress"}
        _require(is_open, f"It was asked about the call {call_id}, which is {status} and neither pending nor running.")
        ids = Counter(option["optionId"] for option in params["options"])
        _require(max(ids.values()) == 1, "Two options have one id.")
        names = Counter(option["name"] for option in params["options"])
        _require(max(names.values()) == 1, "Two options have one label.")
        strange = [option["optionId"] for option in params["options"] if not _extends_kind(option)]
        _require(not strange, f"An id is neither its kind nor begins with it: {', '.join(strange)}.")
        kinds = {option["kind"]: option["optionId"] for option in reversed(params["options"])}
        late = [kind for kind, first in kinds.items() if first != kind and kind in ids]
        _require(not late, "An option that has a kind's id is not the first of its kind.")
        _require(any(kind.startswith("reject") for kind in kinds), "There is no way to refuse.")

    def _check_answer(self, members: dict[str, Any]) -> None:
        method, session_id = self._open.pop(repr(members["id"]))
        session = self._session(session_id)
        if method == RESUMING:
            session.resuming -= 1
            return
        session.running -= 1
        if session.running == 0:
            unfinished = [call_id for call_id, status in session.calls.items() if status not in FINAL]
            _require(not unfinished, f"The turn was answered before these calls ended: {', '.join(unfinished)}.")

    def _session(self, session_id: str) -> _Session:
        return self._sessions.setdefault(session_id, _Session())


def _extends_kind(option: dict[str, Any]) -> bool:
    option_id, kind = str(option["optionId"]), str(option["kind"])
    return option_id == kind or option_id.startswith(f"{kind}_")


def _require(condition: object, sentence: str) -> None:
    if not condition:
        raise WireFaultError(sentence)
