"""A `FakeEditor` that speaks ACP v2 and lets a test see it as version 1, where both mean the same.

Owns: the translation of requests, answers, questions and updates. What version 1 has no word for is left out; what the
agent really wrote is kept in `recording`, and judged as version 2.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

import msgspec

from pattern_acp.jsonrpc.dispatcher import RequestContext
from pattern_acp.jsonrpc.messages import AUTH_REQUIRED, RemoteError
from tests.support.editor import FakeEditor, JsonDict
from tests.support.second_editor import SECOND

METHODS = {"session/load": "session/resume", "authenticate": "auth/login", "logout": "auth/logout"}
"""Methods that have another name in version 2."""

WHOLE = {
    "user_message": "user_message_chunk",
    "agent_message": "agent_message_chunk",
    "agent_thought": "agent_thought_chunk",
}
"""Messages that version 1 knows in chunks alone."""

OPENING = frozenset({"session/load", "session/resume", "_pattern/session/open"})

LEFT_OUT = frozenset({"terminal_update", "terminal_output_chunk"})

_spoken = [1]


def spoken() -> int:
    """The version that editors of tests speak now."""
    return _spoken[-1]


@contextmanager
def speaking(version: int) -> Generator[None, None, None]:
    """Have the editors of a block speak this version."""
    _spoken.append(version)
    try:
        yield
    finally:
        _spoken.pop()


def editor_kind(*, plain: bool) -> type[FakeEditor]:
    """The editor for a test; one that does nothing for the agent is the same in both versions."""
    return TranslatingEditor if plain and spoken() == 2 else FakeEditor


class TranslatingEditor(FakeEditor):
    """See the module."""

    _ends: dict[str, list[JsonDict]]
    _calls: set[str]
    _subagents: set[str]
    _opening = False
    """True while a session is opened, of which the history may be replayed."""

    async def initialize(self, introduction: JsonDict | None = None) -> JsonDict:
        """See `FakeEditor.initialize`."""
        self._ends, self._calls, self._subagents = {}, set(), set()
        return await super().request("initialize", introduction or SECOND)

    async def request(self, method: str, params: JsonDict, *, deadline: float = 60.0) -> JsonDict:
        """See `FakeEditor.request`."""
        if method == "session/prompt":
            return await self._prompt(params, deadline)
        if method == "session/load":
            params = {**params, "replayFrom": {"type": "start"}}
        if method == "session/set_mode":
            mode = {"configId": "mode", "type": "id", "value": params["modeId"]}
            await super().request("session/set_config_option", {"sessionId": params["sessionId"], **mode})
            return {}
        if method == "session/set_config_option":
            params = {"type": "id", **params}
        self._opening = method in OPENING
        if self._opening:
            self._calls.clear()
        try:
            answer = await super().request(METHODS.get(method, method), params, deadline=deadline)
        finally:
            self._opening = False
        if "availableCommands" in answer:
            # Version 1 brings them behind the answer.
            session = answer.get("sessionId", params.get("sessionId"))
            commands = {"sessionUpdate": "available_commands_update", "availableCommands": answer["availableCommands"]}
            super()._update(msgspec.Raw(msgspec.json.encode({"sessionId": session, "update": commands})))
        return _as_first(answer)

    async def prompt(self, session_id: str, text: str, *, deadline: float = 60.0) -> JsonDict:
        """See `FakeEditor.prompt`."""
        return await self._prompt({"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}, deadline)

    async def _prompt(self, params: JsonDict, deadline: float) -> JsonDict:
        ends = self._ends.setdefault(cast("str", params["sessionId"]), [])
        before = len(ends)
        await super().request("session/prompt", params, deadline=deadline)
        await self.wait_until(lambda: len(ends) > before, seconds=deadline)
        end = ends[before]
        error = cast("JsonDict", end.get("error") or {})
        if error.get("code") == AUTH_REQUIRED:
            raise RemoteError(AUTH_REQUIRED, error["message"], error.get("data"))
        if not error:
            return {"stopReason": end["stopReason"]}
        return {"stopReason": "end_turn", "_meta": {"pattern": {"failure": error["data"]["failure"]}}}

    def _update(self, raw: msgspec.Raw) -> None:
        notification = cast("JsonDict", msgspec.json.decode(raw))
        session, update = notification["sessionId"], notification["update"]
        if update["sessionUpdate"] == "subagent_update":
            self._subagents.add(update["sessionId"])
        if update["sessionUpdate"] == "subagent_update" or session in self._subagents:
            # Version 1 shows a subagent in the call that it works for.
            self._note()
            return
        if update["sessionUpdate"] == "state_update":
            if update.get("stopReason"):
                self._ends.setdefault(session, []).append(update)
            self._note()
            return
        for shown in self._shown(update):
            super()._update(msgspec.Raw(msgspec.json.encode({"sessionId": session, "update": shown})))

    def _shown(self, update: JsonDict) -> list[JsonDict]:
        kind = update["sessionUpdate"]
        if kind in LEFT_OUT:
            return []
        if kind in WHOLE:
            rest = {"sessionUpdate": WHOLE[kind], "messageId": update["messageId"]}
            # What was said while a turn runs is known from its prompt and its chunks.
            return [{**rest, "content": block} for block in update["content"]] if self._opening else []
        if kind == "notice":
            # Version 1 says it in the conversation.
            text = {"type": "text", "text": f"> {update['title']}\n\n"}
            return [{"sessionUpdate": "agent_message_chunk", "messageId": "msg_notice", "content": text}]
        if kind == "plan_update":
            return [{"sessionUpdate": "plan", "entries": update["plan"]["entries"]}]
        if kind == "tool_call_update":
            return self._shown_call(update)
        if kind == "config_option_update":
            return [{**update, "configOptions": _options(update["configOptions"])}]
        return [update]

    def _shown_call(self, update: JsonDict) -> list[JsonDict]:
        if update.keys() <= {"sessionUpdate", "toolCallId", "capabilities"}:
            return []
        shown = {name: value for name, value in update.items() if name != "capabilities"}
        if shown.get("status") == "cancelled":
            shown["status"] = "failed"
        if update["toolCallId"] not in self._calls:
            self._calls.add(update["toolCallId"])
            shown["sessionUpdate"] = "tool_call"
        return [shown]

    async def _ask(self, raw: msgspec.Raw, context: RequestContext) -> JsonDict:
        params = cast("JsonDict", msgspec.json.decode(raw))
        subject = params.pop("subject")
        call = subject.get("toolCall") or {
            "toolCallId": subject.get("toolCallId"),
            "kind": "execute",
            "status": "pending",
            "rawInput": {"command": subject["command"]},
        }
        reason = {"type": "content", "content": {"type": "text", "text": params.get("description", "")}}
        content = [*call.get("content", []), reason]
        params["toolCall"] = {"title": params["title"], **call, "content": content}
        return await super()._ask(msgspec.Raw(msgspec.json.encode(params)), context)


def _as_first(answer: JsonDict) -> JsonDict:
    """An answer with the options, and the modes among them, as version 1 has them."""
    if "configOptions" not in answer:
        return answer
    options = _options(answer["configOptions"])
    mode = next(option for option in options if option["id"] == "mode")
    choices = [{"id": one["value"], "name": one["name"]} for one in mode["options"]]
    modes = {"currentModeId": mode["currentValue"], "availableModes": choices}
    return {**answer, "configOptions": options, "modes": modes}


def _options(options: list[JsonDict]) -> list[JsonDict]:
    # Version 1 has no option for prompts that come during a turn, unless a setting says so.
    return [{**option, "id": option["configId"]} for option in options if option["configId"] != "overlapping"]
