"""The chat's side of the protocol against an agent of the official SDK, which judges every message."""

import json
import queue
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import acp
import anyio
import pytest
from acp import schema as sdk
from acp.agent.connection import AgentSideConnection

from pattern_acp.cli.chat.agent_process import AgentProcess, AgentRefusedError, Incoming
from pattern_acp.cli.chat.conversation import Conversation, GivenImage, GivenText, SessionToOpen, open_conversation
from pattern_acp.cli.chat.events import AgentAsks, Happening, PromptAnswered, Updated
from pattern_acp.config.load import process_environment
from pattern_acp.jsonrpc.transport import LoopbackTransport, Oversize, loopback_pair
from pattern_acp.workspace.local_terminal import LocalTerminal
from tests.support.chats import Receiver, Running, Sender


class SdkTransport:
    """`acp.transports.Transport` over one end of a loopback."""

    def __init__(self, end: LoopbackTransport) -> None:
        self._end = end

    async def send(self, message: dict[str, Any]) -> None:
        await self._end.send(json.dumps(message).encode() + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        line = await self._end.receive()
        if line is None or isinstance(line, Oversize):
            return None
        message: dict[str, Any] = json.loads(line)
        return message

    async def close(self) -> None:
        self._end.close_sending()


class SdkAgent:
    """`acp.Agent`: does with the client what a prompt's text names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client: Any = None
        self.asked: list[tuple[str, Any]] = []

    def on_connect(self, conn: Any) -> None:  # noqa: ANN401  the SDK's own type is a Protocol of unknown parts
        self.client = conn

    async def initialize(self, **given: Any) -> sdk.InitializeResponse:  # noqa: ANN401
        self.asked.append(("initialize", given))
        return sdk.InitializeResponse(
            protocol_version=1,
            agent_capabilities=sdk.AgentCapabilities(),
            agent_info=sdk.Implementation(name="sdk", version="1"),
        )

    async def new_session(self, **given: Any) -> sdk.NewSessionResponse:  # noqa: ANN401
        self.asked.append(("new", given))
        return sdk.NewSessionResponse(session_id="s1")

    async def list_sessions(self, **given: Any) -> sdk.ListSessionsResponse:  # noqa: ANN401
        self.asked.append(("list", given))
        return sdk.ListSessionsResponse(
            sessions=[sdk.SessionInfo(session_id="old", cwd=str(self.folder), title="Before")]
        )

    async def load_session(self, **given: Any) -> sdk.LoadSessionResponse:  # noqa: ANN401
        self.asked.append(("load", given))
        modes = sdk.SessionModeState(current_mode_id="ask", available_modes=[sdk.SessionMode(id="ask", name="Ask")])
        return sdk.LoadSessionResponse(modes=modes)

    async def set_session_mode(self, **given: Any) -> sdk.SetSessionModeResponse:  # noqa: ANN401
        self.asked.append(("mode", given))
        return sdk.SetSessionModeResponse()

    async def cancel(self, **given: Any) -> None:  # noqa: ANN401
        self.asked.append(("cancel", given))

    async def prompt(self, session_id: str, prompt: Any, **given: Any) -> sdk.PromptResponse:  # noqa: ANN401
        self.asked.append(("prompt", prompt))
        text = next(block.text for block in prompt if isinstance(block, sdk.TextContentBlock))
        if text == "fail":
            raise acp.RequestError(-32603, "Internal error", {"details": "It is broken.", "code": "agent.fault"})
        await getattr(self, f"_{text}")(session_id)
        return sdk.PromptResponse(stop_reason="end_turn")

    async def _talk(self, session_id: str) -> None:
        await self.client.session_update(session_id, acp.update_agent_message_text("Hello."))

    async def _ask(self, session_id: str) -> None:
        answer = await self.client.request_permission(
            session_id=session_id,
            tool_call=sdk.ToolCallUpdate(tool_call_id="c1", title="Edit a.txt", kind="edit"),
            options=[sdk.PermissionOption(option_id="yes", name="Allow", kind="allow_once")],
        )
        self.asked.append(("answer", answer))

    async def _files(self, session_id: str) -> None:
        path = str(self.folder / "a.txt")
        await self.client.write_text_file(session_id=session_id, path=path, content="one\ntwo\n")
        read = await self.client.read_text_file(session_id=session_id, path=path, line=2, limit=1)
        self.asked.append(("read", read.content))
        with pytest.raises(acp.RequestError) as missing:
            await self.client.read_text_file(session_id=session_id, path=f"{path}.not")
        self.asked.append(("missing", missing.value.code))

    async def _command(self, session_id: str) -> None:
        started = await self.client.create_terminal(
            session_id=session_id, command="echo", args=["a b"], cwd=str(self.folder)
        )
        name = started.terminal_id
        exit_status = await self.client.wait_for_terminal_exit(session_id=session_id, terminal_id=name)
        output = await self.client.terminal_output(session_id=session_id, terminal_id=name)
        await self.client.kill_terminal(session_id=session_id, terminal_id=name)
        await self.client.release_terminal(session_id=session_id, terminal_id=name)
        self.asked.append(("ran", (exit_status.exit_code, output.output.strip(), output.exit_status.exit_code)))


@asynccontextmanager
async def talking(folder: Path) -> AsyncGenerator[tuple[SdkAgent, Conversation]]:
    """The chat's connection, and the agent at its other end."""
    near, far = loopback_pair()
    agent = SdkAgent(folder)
    connection = AgentSideConnection(cast("acp.Agent", agent), SdkTransport(near))
    process = AgentProcess(cast("Any", Running()), Sender(far), Receiver(far))
    process.drained.set()
    incoming = Incoming(queue.SimpleQueue[Happening]())
    with anyio.fail_after(60):
        async with open_conversation(process, LocalTerminal(process_environment()), incoming) as conversation:
            await conversation.initialize()
            yield agent, conversation
            far.close_sending()
        await connection.close()


def said(agent: SdkAgent, name: str) -> Any:  # noqa: ANN401  whatever the SDK made of it
    return next(value for kind, value in agent.asked if kind == name)


async def test_a_session_begins_and_a_prompt_carries_text_piped_text_and_images(tmp_path: Path):
    async with talking(tmp_path) as (agent, conversation):
        opened = await conversation.open(SessionToOpen(str(tmp_path)))
        conversation.piped = GivenText("pipe:in", "a line")
        conversation.images = (GivenImage("aGk=", "image/png", "file:///a.png"),)
        await conversation.prompt("talk")
        assert opened.session_id == "s1"
        assert said(agent, "initialize")["client_capabilities"].terminal is True
        assert said(agent, "new")["cwd"] == str(tmp_path)
        assert [type(block).__name__ for block in said(agent, "prompt")] == [
            "EmbeddedResourceContentBlock",
            "TextContentBlock",
            "ImageContentBlock",
        ]
        happened = [conversation.incoming.inbox.get_nowait() for _ in range(2)]
        assert isinstance(happened[0], Updated)
        assert happened[0].update["content"] == {"type": "text", "text": "Hello."}
        assert happened[1] == PromptAnswered("end_turn", session_id="s1")


async def test_a_recorded_session_is_found_loaded_and_set_to_the_mode_that_is_wanted(tmp_path: Path):
    async with talking(tmp_path) as (agent, conversation):
        opened = await conversation.open(SessionToOpen(str(tmp_path), latest=True, replay=True, mode="plan"))
        assert (opened.session_id, opened.title, opened.mode, opened.is_new) == ("old", "Before", "plan", False)
        assert said(agent, "load")["session_id"] == "old"
        assert said(agent, "mode")["mode_id"] == "plan"


async def test_files_and_commands_of_this_machine_serve_the_agent(tmp_path: Path):
    async with talking(tmp_path) as (agent, conversation):
        await conversation.open(SessionToOpen(str(tmp_path)))
        await conversation.prompt("files")
        await conversation.prompt("command")
        assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"
        assert (said(agent, "read"), said(agent, "missing")) == ("two\n", -32002)
        assert said(agent, "ran") == (0, "a b", 0)


async def test_a_question_waits_for_the_user_and_a_cancel_withdraws_it(tmp_path: Path):
    async with talking(tmp_path) as (agent, conversation):
        await conversation.open(SessionToOpen(str(tmp_path)))
        for answer in ("yes", None):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(conversation.prompt, "ask")
                while conversation.incoming.inbox.empty():
                    await anyio.lowlevel.checkpoint()
                asked = conversation.incoming.inbox.get_nowait()
                assert isinstance(asked, AgentAsks)
                assert (asked.question.call.title, asked.question.choices[0].name) == ("Edit a.txt", "Allow")
                if answer is None:
                    await conversation.cancel()
                else:
                    asked.question.beside.append("Not now.")
                    asked.question.reply(answer)
            assert conversation.incoming.inbox.get_nowait() == PromptAnswered("end_turn", session_id="s1")
        values = [value for kind, value in agent.asked if kind == "answer"]
        assert [value.outcome.outcome for value in values] == ["selected", "cancelled"]
        assert [value.field_meta for value in values] == [{"pattern": {"words": "Not now."}}, None]
        assert said(agent, "cancel")["session_id"] == "s1"


async def test_an_error_of_the_agent_ends_the_turn_with_its_sentence_and_code(tmp_path: Path):
    async with talking(tmp_path) as (_, conversation):
        await conversation.open(SessionToOpen(str(tmp_path)))
        await conversation.prompt("fail")
        end = conversation.incoming.inbox.get_nowait()
        assert end == PromptAnswered("", "It is broken.", failure="agent.fault", session_id="s1")
        with pytest.raises(AgentRefusedError):
            await conversation.request("session/none", {}, dict[str, object])
