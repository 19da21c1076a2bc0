"""The official package against a program that speaks MCP over its pipes."""

import json
import os
import sys
from pathlib import Path

import anyio
import pytest

from pattern_acp.config.settings import McpServerSettings
from pattern_acp.mcp_servers.catalogue import ServerError
from pattern_acp.mcp_servers.server import ServerState
from tests.support.mcp_fakes import hosted, script, silent
from tests.support.passing_time import passing


async def test_tools_prompts_and_resources_are_listed():
    async with hosted(script("usual")) as session:
        await session.wait_settled(30)
        (server,) = session.ready
        assert [tool.name for tool in server.catalogue.tools][:2] == ["echo", "look"]
        look = server.catalogue.tool("look")
        assert look is not None
        assert look.read_only
        assert [prompt.name for prompt in server.catalogue.prompts] == ["explain"]
        assert [resource.uri for resource in server.catalogue.resources] == ["test://notes"]
        assert server.catalogue.may_change


async def test_calls_return_text_images_errors_and_resources():
    async with hosted(script("usual")) as session:
        await session.wait_settled(30)
        (server,) = session.ready
        assert (await server.call("echo", {"text": "hi"}, silent)).text == "echo: hi"
        assert (await server.call("fail", {}, silent)).is_error
        (image,) = (await server.call("picture", {}, silent)).images
        assert image.media_type == "image/png"
        assert "The notes." in (await server.read("test://notes")).text
        assert await server.prompt("explain", {"topic": "fire"}) == "Explain fire to a child."
        with pytest.raises(ServerError, match="MCP server usual could not do it: Method not found"):
            await server.prompt("explain", {})


async def test_a_call_tells_its_progress_and_a_cancel_reaches_the_server():
    lines: list[str] = []
    async with hosted(script("usual")) as session:
        await session.wait_settled(30)
        (server,) = session.ready
        with anyio.CancelScope() as scope, anyio.fail_after(30):

            async def report(line: str) -> None:
                lines.append(line)
                if len(lines) == 2:
                    scope.cancel()

            await server.call("slow", {}, report)
        assert lines == ["1 of 100: still at it", "2 of 100: still at it"]
        with anyio.fail_after(30):
            while (await server.call("cancelled", {}, silent)).text != "cancelled: 1":
                await anyio.lowlevel.checkpoint()


async def test_a_program_gets_its_folder_and_variables_and_not_the_clients_shell():
    settings = script("usual")
    settings = McpServerSettings("usual", command=settings.command, args=settings.args, env={"TOKEN": "t"})
    async with hosted(settings, cwd=str(Path(__file__).parent)) as session:
        await session.wait_settled(30)
        seen = json.loads((await session.ready[0].call("environment", {}, silent)).text)
        assert (seen["cwd"], seen["TOKEN"]) == (str(Path(__file__).parent), "t")


async def test_noise_on_stdout_and_deafness_to_signals_are_survived():
    async with hosted(script("rude")) as session:
        await session.wait_settled(30)
        assert session.ready
        with anyio.fail_after(30):
            session.close()
            await session.wait_closed()


async def test_a_program_that_dies_in_a_call_is_named_with_its_last_words_and_started_again(tmp_path: Path):
    async with hosted(script("once", str(tmp_path / "died"))) as session:
        await session.wait_settled(30)
        (server,) = session.servers
        with pytest.raises(ServerError, match="I am done for"):
            await server.call("echo", {}, silent)
        with anyio.fail_after(30):
            while server.restarts == 0 or server.state is not ServerState.READY:
                await anyio.lowlevel.checkpoint()
        assert (await server.call("echo", {"text": "back"}, silent)).text == "echo: back"


async def test_a_mute_program_is_waited_for_as_long_as_was_said():
    async with hosted(script("mute"), script("usual")) as session:
        async with passing(2):
            await session.wait_settled(2)
        mute = session.named("mute")
        assert mute is not None
        assert mute.state is ServerState.STARTING


@pytest.mark.skipif(sys.platform == "win32", reason="signal 0 is POSIX")
async def test_what_a_program_started_dies_with_the_session(tmp_path: Path):
    note = tmp_path / "child"
    async with hosted(script("child", str(note))) as session:
        await session.wait_settled(30)
        child = int(note.read_text(encoding="utf-8"))
        os.kill(child, 0)
    with anyio.fail_after(30):
        # A signal takes its time.
        while is_running(child):
            await anyio.lowlevel.checkpoint()


async def test_a_program_that_ends_at_once_is_reported():
    settings = McpServerSettings("bad", command=sys.executable, args=("-c", "raise SystemExit('no token given')"))
    async with hosted(settings) as session:
        await session.wait_settled(30)
        (server,) = session.servers
        assert server.state is ServerState.FAILED
        assert "no token given" in server.problem


async def test_a_server_that_cannot_be_reached_is_reported_without_its_address():
    async with hosted(
        McpServerSettings("a", "http", url="http://user:hush@127.0.0.1:1/mcp"),
        McpServerSettings("b", "sse", url="http://127.0.0.1:1/sse?key=hush"),
    ) as session:
        await session.wait_settled(30)
        for server in session.servers:
            assert server.state is ServerState.FAILED
            assert "cannot be reached" in server.problem
            assert "hush" not in server.problem


def is_running(pid: int) -> bool:
    """Whether a process is there and not only waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return _answers(pid) if sys.platform != "linux" else False
    return stat.rpartition(")")[2].split()[0] != "Z"


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
