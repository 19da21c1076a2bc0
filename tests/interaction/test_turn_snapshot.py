"""Everything that one whole turn shows, as it is on the wire. A change here is a change of what people see."""

import re
from typing import cast

import anyio
from inline_snapshot import snapshot

from pattern_acp.domain.canonical import Json
from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import FULL_CLIENT, RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.scripts import calls, says, thinks, uses

FOLDER = "a-folder-whose-name-fills-every-button"
"""Long, since buttons show the end of a path and the beginning of ours is another one in every run."""


class Names:
    """Puts short names in the place of random ids and folders, and 0 in that of measured times."""

    def __init__(self, agent: RunningAgent) -> None:
        self._folder = str(agent.folder / FOLDER)
        self._known: dict[str, str] = {}

    def applied(self, value: Json) -> Json:
        """`value` with everything in it made stable; the same id has the same name."""
        if isinstance(value, str):
            return re.sub(r"\b([a-z]+)_[0-9a-f]{32}", self._short, value.replace(self._folder, "/project"))
        if isinstance(value, list | tuple):
            return [self.applied(item) for item in value]
        if isinstance(value, dict):
            return {key: 0 if key == "durationMs" else self.applied(item) for key, item in value.items()}
        return value

    def _short(self, found: re.Match[str]) -> str:
        return self._known.setdefault(found[0], f"{found[1]}-{len(self._known) + 1}")


def stable(agent: RunningAgent, value: object) -> Json:
    return Names(agent).applied(cast("Json", value))


def shown(agent: RunningAgent) -> Json:
    # The commands come a moment after session/new, whatever else happens then.
    updates = [wrapper["update"] for wrapper in agent.editor.updates]
    return stable(agent, [update for update in updates if update["sessionUpdate"] != "available_commands_update"])


async def open_project(agent: RunningAgent, **files: str) -> str:
    folder = agent.folder / FOLDER
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
        agent.editor.files[str(folder / f"{name}.txt")] = text
    return await agent.editor.open_session(str(folder))


async def test_a_turn_that_thinks_reads_edits_and_answers_is_shown_like_this():
    model = ScriptedProvider(
        [
            thinks("Which file?") + says("Let me look.") + calls("read_file", path="a.txt") + uses(100, 10),
            calls("edit_file", path="a.txt", edits=[{"old_text": "hello", "new_text": "bye"}]) + uses(120, 12),
            says("It says bye now.") + uses(140, 14),
        ]
    )
    with anyio.fail_after(30):
        async with running_agent(model, capabilities=FULL_CLIENT) as agent:
            session = await open_project(agent, a="hello\n")
            answer = await agent.editor.prompt(session, "Say bye in a.txt.")
            assert answer == snapshot({"stopReason": "end_turn"})
            assert shown(agent) == snapshot(
                [
                    {"sessionUpdate": "session_info_update", "title": "Say bye in a.txt."},
                    {
                        "sessionUpdate": "agent_thought_chunk",
                        "content": {"type": "text", "text": "Which file?"},
                        "messageId": "msg-1_thought",
                    },
                    {
                        "sessionUpdate": "agent_message_chunk",
                        "content": {"type": "text", "text": "Let me look."},
                        "messageId": "msg-1",
                    },
                    {"sessionUpdate": "usage_update", "used": 110, "size": 100000},
                    {
                        "sessionUpdate": "tool_call",
                        "toolCallId": "call_1",
                        "title": "Read a.txt",
                        "kind": "read",
                        "status": "pending",
                        "name": "read_file",
                        "locations": [{"path": "/project/a.txt", "line": 1}],
                        "rawInput": {"path": "a.txt"},
                    },
                    {"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "status": "in_progress"},
                    {
                        "sessionUpdate": "tool_call_update",
                        "toolCallId": "call_1",
                        "status": "completed",
                        "content": [{"type": "content", "content": {"type": "text", "text": "Lines 1-1 of 1."}}],
                        "locations": [{"path": "/project/a.txt", "line": 1}],
                        "rawOutput": "Lines 1-1 of 1.",
                        "_meta": {"pattern": {"durationMs": 0}},
                    },
                    {"sessionUpdate": "usage_update", "used": 132, "size": 100000},
                    {
                        "sessionUpdate": "tool_call",
                        "toolCallId": "call_2",
                        "title": "Edit a.txt",
                        "kind": "edit",
                        "status": "pending",
                        "name": "edit_file",
                        "content": [
                            {"type": "diff", "path": "/project/a.txt", "newText": "bye\n", "oldText": "hello\n"}
                        ],
                        "locations": [{"path": "/project/a.txt", "line": 1}],
                        "rawInput": {"path": "a.txt", "edits": [{"old_text": "hello", "new_text": "bye"}]},
                    },
                    {"sessionUpdate": "tool_call_update", "toolCallId": "call_2", "status": "in_progress"},
                    {
                        "sessionUpdate": "tool_call_update",
                        "toolCallId": "call_2",
                        "status": "completed",
                        "content": [
                            {"type": "diff", "path": "/project/a.txt", "newText": "bye\n", "oldText": "hello\n"}
                        ],
                        "locations": [{"path": "/project/a.txt", "line": 1}],
                        "_meta": {"pattern": {"durationMs": 0}},
                    },
                    {
                        "sessionUpdate": "agent_message_chunk",
                        "content": {"type": "text", "text": "It says bye now."},
                        "messageId": "msg-2",
                    },
                    {"sessionUpdate": "usage_update", "used": 154, "size": 100000},
                ]
            )
            assert stable(agent, agent.editor.asked) == snapshot(
                [
                    {
                        "sessionId": "ses-1",
                        "toolCall": {
                            "toolCallId": "call_2",
                            "title": "Edit a.txt",
                            "kind": "edit",
                            "status": "pending",
                            "content": [
                                {"type": "diff", "path": "/project/a.txt", "newText": "bye\n", "oldText": "hello\n"},
                                {
                                    "type": "content",
                                    "content": {
                                        "type": "text",
                                        "text": "It changes a.txt, and mode `ask` asks before each edit.",
                                    },
                                },
                            ],
                            "locations": [{"path": "/project/a.txt", "line": 1}],
                            "rawInput": {"path": "a.txt", "edits": [{"old_text": "hello", "new_text": "bye"}]},
                        },
                        "options": [
                            {"optionId": "allow_once", "name": "Allow once", "kind": "allow_once"},
                            {
                                "optionId": "allow_always",
                                "name": "Always allow edits in a-folder-whose-name-fills-every-button/ in this session",
                                "kind": "allow_always",
                            },
                            {
                                "optionId": "allow_always_turn",
                                "name": "Allow edits for the rest of this turn",
                                "kind": "allow_always",
                            },
                            {
                                "optionId": "allow_always_project",
                                "name": "Always allow edits in a-folder-whose-name-fills-every-button/ in this project",
                                "kind": "allow_always",
                            },
                            {"optionId": "reject_once", "name": "Reject", "kind": "reject_once"},
                            {
                                "optionId": "reject_always",
                                "name": "Never allow edits in a-folder-whose-name-fills-every-button/ in this session",
                                "kind": "reject_always",
                            },
                        ],
                    }
                ]
            )


async def test_a_failed_call_is_shown_like_this():
    model = ScriptedProvider([calls("read_file", path="no.txt"), says("It is not there.")])
    with anyio.fail_after(30):
        async with running_agent(model, capabilities=FULL_CLIENT) as agent:
            session = await open_project(agent)
            await agent.editor.prompt(session, "Read it.")
            failed = agent.editor.of_kind("tool_call_update")
            assert stable(agent, failed) == snapshot(
                [
                    {"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "status": "in_progress"},
                    {
                        "sessionUpdate": "tool_call_update",
                        "_meta": {"pattern": {"durationMs": 0, "failure": "tool.target-missing"}},
                        "toolCallId": "call_1",
                        "status": "failed",
                        "content": [
                            {
                                "type": "content",
                                "content": {
                                    "type": "text",
                                    "text": "no.txt does not exist.",
                                },
                            }
                        ],
                        "rawOutput": "no.txt does not exist.",
                    },
                ]
            )


async def error_of(agent: RunningAgent, method: str, params: JsonDict) -> Json:
    try:
        await agent.editor.request(method, params)
    except RemoteError as error:
        return stable(agent, [error.code, error.sentence, error.data])
    return None


async def test_errors_are_told_like_this():
    with anyio.fail_after(30):
        async with running_agent(ScriptedProvider([])) as agent:
            session = await agent.editor.open_session(str(agent.folder))
            errors = {
                "unknown session": await error_of(agent, "session/prompt", {"sessionId": "ses_none", "prompt": []}),
                "unknown method": await error_of(agent, "session/dance", {}),
                "missing field": await error_of(agent, "session/prompt", {"sessionId": session}),
                "wrong type": await error_of(agent, "session/prompt", {"sessionId": 7, "prompt": []}),
                "unknown mode": await error_of(agent, "session/set_mode", {"sessionId": session, "modeId": "yolo"}),
                "unknown option": await error_of(
                    agent, "session/set_config_option", {"sessionId": session, "configId": "colour", "value": "red"}
                ),
                "relative folder": await error_of(agent, "session/new", {"cwd": "here", "mcpServers": []}),
                "wrong protocol version": await error_of(agent, "initialize", {"protocolVersion": "one"}),
            }
    assert errors == snapshot(
        {
            "unknown session": [
                -32002,
                "Session not found: ses_none",
                {"details": "Session not found: ses_none", "code": "session.unknown"},
            ],
            "unknown method": [
                -32601,
                "There is no such method.",
                {"method": "session/dance", "code": "protocol.method-unknown"},
            ],
            "missing field": [-32602, "The parameter `prompt` is missing.", {"code": "protocol.params-invalid"}],
            "wrong type": [
                -32602,
                "The parameter `sessionId` must be a string, not an integer.",
                {"code": "protocol.params-invalid"},
            ],
            "unknown mode": [
                -32602,
                "The option 'mode' has no value 'yolo'; choose one of ask, edit, plan, auto.",
                {
                    "details": "The option 'mode' has no value 'yolo'; choose one of ask, edit, plan, auto.",
                    "code": "session.option-unusable",
                },
            ],
            "unknown option": [
                -32602,
                "There is no option 'colour'; this session has mode, model, thought_level.",
                {
                    "details": "There is no option 'colour'; this session has mode, model, thought_level.",
                    "code": "session.option-unusable",
                },
            ],
            "relative folder": [
                -32602,
                "The folder 'here' is not an absolute path; send absolute paths.",
                {
                    "details": "The folder 'here' is not an absolute path; send absolute paths.",
                    "code": "session.folder-unusable",
                },
            ],
            "wrong protocol version": [
                -32602,
                "The parameter `protocolVersion` must be an integer, such as 1.",
                {"code": "protocol.params-invalid"},
            ],
        }
    )
