"""MCP servers that we did not write: one from npm, one from PyPI, and one made with PyPI's official package."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pattern_acp.domain.messages import ToolResultPart
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.mcp_fakes import official
from tests.support.programs import path_of, problem_of
from tests.support.scripts import calls, says

CLOCK = ("mcp-server-time==2026.10.19", "tzlocal==5.3.1", "tzdata==2025.2")
EVERYTHING = "@modelcontextprotocol/server-everything@2026.8.31"


@pytest.fixture(scope="session")
def everything() -> Path:
    """The reference server from the npm registry, kept in the system's temporary folder between runs."""
    problem = problem_of("npm", "node")
    if problem:
        pytest.skip(f"the server of npm {problem}")
    npm = path_of("npm")
    folder = Path(tempfile.gettempdir()) / "pattern-acp-mcp" / EVERYTHING.rpartition("@")[2]
    # Run by node itself: its own first line names the program by `env`, which Windows does not know.
    program = folder / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), EVERYTHING]
        install(command, EVERYTHING)
    return program


@pytest.fixture(scope="session")
def clock() -> Path:
    """The reference server from PyPI, kept as the one of npm is; what it needs of the SDK is installed with us."""
    folder = Path(tempfile.gettempdir()) / "pattern-acp-mcp" / CLOCK[0].replace("==", "-")
    if not (folder / "mcp_server_time").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *CLOCK]
        install(command, CLOCK[0])
    return folder


def install(command: list[str], name: str) -> None:
    """Run an installer; the test is left out where it fails, as without a network."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{name} was not installed within two minutes")
    if done.returncode != 0:
        pytest.skip(f"{name} could not be installed: {done.stderr.strip().splitlines()[-1:]}")


async def opened(agent: RunningAgent, server: JsonDict) -> str:
    answer = await agent.editor.request("session/new", {"cwd": str(agent.folder), "mcpServers": [server]})
    await agent.sessions.get(answer["sessionId"]).mcp.servers.wait_settled(30)
    return answer["sessionId"]


def result(request: ProviderRequest) -> str:
    (part,) = request.messages[-1].parts
    assert isinstance(part, ToolResultPart)
    return part.text


@pytest.mark.timeout(180)
async def test_the_reference_server_of_npm_works(everything: Path):
    model = ScriptedProvider(
        [
            calls("everything__echo", message="hello"),
            calls("everything__get-tiny-image"),
            calls("everything__trigger-long-running-operation", duration=0.5, steps=2),
            calls("mcp_read_resource", server="everything"),
            says("Done."),
            says("Prompted."),
        ]
    )
    async with running_agent(model) as agent:
        node = path_of("node")
        session = await opened(agent, {"name": "everything", "command": node, "args": [str(everything)], "env": []})
        await agent.editor.prompt(session, "Try everything.")
        assert result(model.requests[1]) == "Echo: hello"
        assert "MCP logo" in result(model.requests[2])
        assert "Duration: 0.5 seconds" in result(model.requests[3])
        assert "2 of 2" in json.dumps(agent.editor.updates)
        assert "demo://resource" in result(model.requests[4])
        await agent.editor.prompt(session, "/everything:simple-prompt")
        assert len(model.requests) == 6
        # A session that is loaded later finds the calls as they were.
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []})


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_the_reference_server_of_pypi_works(clock: Path):
    times = {"source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo"}
    model = ScriptedProvider(
        [calls("clock__convert_time", **times), calls("clock__get_current_time", timezone="No/Where"), says("Done.")]
    )
    arguments = ["-m", "mcp_server_time", "--local-timezone", "UTC"]
    path = {"name": "PYTHONPATH", "value": str(clock)}
    async with running_agent(model) as agent:
        server: JsonDict = {"name": "clock", "command": sys.executable, "args": arguments, "env": [path]}
        session = await opened(agent, server)
        await agent.editor.prompt(session, "What time is it there?")
        assert "21:30" in result(model.requests[1])
        assert "No/Where" in result(model.requests[2])
        assert [update["status"] for update in agent.editor.of_kind("tool_call_update") if "status" in update][-1] == (
            "failed"
        )


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
async def test_a_server_of_the_official_package_works_over_every_transport(transport: str):
    model = ScriptedProvider(
        [
            calls("official__add", first=1.5, second=2),
            calls("mcp_read_resource", server="official", uri="official://facts"),
            calls("official__add", first="a word", second=2),
            says("Done."),
            says("Hello."),
        ]
    )
    async with official(transport) as server, running_agent(model) as agent:
        session = await opened(agent, server)
        await agent.editor.prompt(session, "Add.")
        assert result(model.requests[1]) == "3.5"
        assert "Two and two are four." in result(model.requests[2])
        assert "first" in result(model.requests[3])
        await agent.editor.prompt(session, "/official:greet Ada")
        assert "Greet Ada politely." in json.dumps([str(part) for part in model.requests[4].messages[-1].parts])


@pytest.mark.slow
async def test_a_server_over_http_that_was_started_anew_is_joined_again_and_no_call_is_lost():
    model = ScriptedProvider(
        [*[calls("official__add", first=1, second=each) for each in (1, 2, 3)], says("Done."), says("")]
    )
    async with running_agent(model) as agent:
        async with official("http") as server:
            session = await opened(agent, server)
        port = int(server["url"].split(":")[2].partition("/")[0])
        async with official("http", port):
            await agent.editor.prompt(session, "Add three times.")
            assert [result(request) for request in model.requests[1:4]] == ["2.0", "3.0", "4.0"]
            await agent.editor.prompt(session, "/mcp")
            assert "| official | ready (http) | 1 tool, 1 prompt, 1 resource |" in agent.editor.said()
            (joined,) = agent.sessions.get(session).mcp.servers.servers
            assert joined.restarts == 0


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_over_http_that_goes_away_fails_calls_and_nothing_else(transport: str):
    model = ScriptedProvider([calls("official__add", first=1, second=2), says("Done."), says("Still here.")])
    async with running_agent(model) as agent:
        async with official(transport) as server:
            session = await opened(agent, server)
        await agent.editor.prompt(session, "Add.")
        assert "official" in result(model.requests[1])
        assert agent.editor.of_kind("tool_call_update")[-1]["status"] == "failed"
        assert await agent.editor.prompt(session, "And now?") == {"stopReason": "end_turn"}
