"""`PatternAgent` behind the SDK's own connections, over real sockets of this process."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import acp
import anyio
import pytest
from acp import schema as sdk
from acp.client.connection import ClientSideConnection

import pattern_acp
from pattern_acp.providers.scripted import ScriptStep
from tests.support.serving import Home, temporary_home

LONG = "A rather long answer in many pieces. " * 40


class Editor:
    """A client that allows everything and stores what it is told."""

    def __init__(self) -> None:
        self.updates: list[object] = []
        self.asked: list[str] = []

    async def session_update(self, session_id: str, update: object, **kwargs: object) -> None:
        del session_id, kwargs
        self.updates.append(update)

    async def request_permission(
        self, session_id: str, tool_call: sdk.ToolCallUpdate, options: list[sdk.PermissionOption], **kwargs: object
    ) -> sdk.RequestPermissionResponse:
        del session_id, kwargs
        self.asked.append(tool_call.tool_call_id)
        allowed = next(option for option in options if option.kind == "allow_once")
        return sdk.RequestPermissionResponse(
            outcome=sdk.AllowedOutcome(outcome="selected", option_id=allowed.option_id)
        )

    @property
    def said(self) -> str:
        """The agent's words, in the order in which they came."""
        pieces = [update.content for update in self.updates if isinstance(update, sdk.AgentMessageChunk)]
        return "".join(piece.text for piece in pieces if isinstance(piece, sdk.TextContentBlock))


@asynccontextmanager
async def embedded(home: Home, editor: Editor) -> AsyncGenerator[ClientSideConnection]:
    """An editor connected to the agent by `acp.run_agent`."""
    connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Future()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set_result((reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    theirs, ours = await connected
    async with pattern_acp.PatternAgent(environ=home.environ) as agent, anyio.create_task_group() as tasks:
        tasks.start_soon(acp.run_agent, agent, ours, theirs)
        connection = acp.connect_to_agent(editor, writer, reader)  # pyright: ignore[reportArgumentType]
        await connection.initialize(acp.PROTOCOL_VERSION)
        yield connection
        await connection.close()
        tasks.cancel_scope.cancel()
    for stream in (writer, ours):
        stream.close()
    server.close()


async def prompt(connection: ClientSideConnection, session: str, text: str) -> sdk.PromptResponse:
    return await connection.prompt(session_id=session, prompt=[acp.text_block(text)])


async def test_a_program_that_embeds_the_agent_gets_its_answers_in_their_order():
    editor = Editor()
    async with temporary_home() as home:
        home.script([ScriptStep(text=LONG)], [ScriptStep(text="Again.")])
        async with embedded(home, editor) as connection:
            opened = await connection.new_session(cwd=str(home.project))
            answer = await prompt(connection, opened.session_id, "Hello")
            assert (answer.stop_reason, editor.said) == ("end_turn", LONG)
            listed = await connection.list_sessions()
            assert [each.session_id for each in listed.sessions] == [opened.session_id]
        assert home.constellation.exists()


async def test_the_client_of_the_program_is_asked_for_permission():
    editor = Editor()
    async with temporary_home() as home:
        home.script(
            [ScriptStep(tool="write_file", arguments='{"path": "a.txt", "content": "hello"}')],
            [ScriptStep(text="Done.")],
        )
        async with embedded(home, editor) as connection:
            opened = await connection.new_session(cwd=str(home.project))
            assert (await prompt(connection, opened.session_id, "Write")).stop_reason == "end_turn"
        assert len(editor.asked) == 1
        assert (home.project / "a.txt").read_text() == "hello"


async def test_an_error_of_the_agent_reaches_the_client():
    async with temporary_home() as home, embedded(home, Editor()) as connection:
        with pytest.raises(acp.RequestError):
            await connection.load_session(cwd=str(home.project), session_id="nobody")


async def test_leaving_the_context_ends_a_running_turn():
    editor = Editor()
    async with temporary_home() as home:
        home.script([ScriptStep(text="So far."), ScriptStep(wait_for="cancel")])
        with anyio.fail_after(60):
            async with embedded(home, editor) as connection, anyio.create_task_group() as tasks:
                opened = await connection.new_session(cwd=str(home.project))
                tasks.start_soon(prompt, connection, opened.session_id, "Talk")
                while not editor.said:
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()


async def test_an_agent_that_was_not_entered_takes_no_client(tmp_path: Path):
    agent = pattern_acp.PatternAgent(environ={"PATTERN_ACP_HOME": str(tmp_path)})
    with pytest.raises(RuntimeError, match="async with"):
        agent.on_connect(Editor())  # pyright: ignore[reportArgumentType]
    with pytest.raises(RuntimeError, match="No client"):
        await agent.initialize(acp.PROTOCOL_VERSION)


def test_the_type_of_the_agent_is_that_of_the_sdk():
    agent: acp.Agent = pattern_acp.PatternAgent()
    assert agent
    assert set(pattern_acp.__all__) == {"PatternAgent", "__version__"}
    with pytest.raises(AttributeError, match="nothing"):
        getattr(pattern_acp, "nothing")  # noqa: B009  the type checker knows that it is not there
