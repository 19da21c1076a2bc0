"""Commands in the editor's terminals, and in ours."""

import sys

import pytest

from pattern_acp.config.settings import Settings
from pattern_acp.domain.messages import ToolResultPart
from pattern_acp.journal.events import ToolCallFinished
from pattern_acp.jsonrpc.messages import RpcError
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.editor_terminals import FakeTerminalState, end_with, hang
from tests.support.passing_time import passing
from tests.support.scripts import calls, says
from tests.support.turns import events_of, last_result, of_type, statuses

AUTO = Settings(editor_deadline_seconds=30, mode="auto")
TERMINALS: JsonDict = {"terminal": True}
FOLLOWS_OURS: JsonDict = {"_meta": {"terminal_output": True}}

posix = pytest.mark.skipif(sys.platform == "win32", reason="the command lines are written for a POSIX shell")


def running(command: str, **more: int) -> ScriptedProvider:
    return ScriptedProvider([calls("run_command", command=command, **more), says("Done.")])


async def go(agent: RunningAgent) -> str:
    session = await agent.editor.open_session(str(agent.folder))
    assert await agent.editor.prompt(session, "Go.") == {"stopReason": "end_turn"}
    return session


def position(agent: RunningAgent, *needles: bytes) -> int:
    lines = [line for by_agent, line in agent.editor.recording.both if by_agent]
    return next(at for at, line in enumerate(lines) if all(needle in line for needle in needles))


async def test_the_editor_s_terminal_is_embedded_before_it_is_released_and_stays_embedded():
    model = running("make all")
    async with running_agent(model, capabilities=TERMINALS, settings=AUTO) as agent:
        agent.editor.terminals.run = end_with("built\n", 0)
        await go(agent)
        terminal = agent.editor.terminals.by_id["term_1"]
        assert (terminal.line, terminal.cwd, terminal.released, terminal.killed) == (
            "make all",
            str(agent.folder),
            True,
            False,
        )
        embedded = position(agent, b'"tool_call_update"', b'{"type":"terminal","terminalId":"term_1"}')
        assert embedded < position(agent, b'"terminal/release"')
        last = agent.editor.of_kind("tool_call_update")[-1]
        assert last["content"][0] == {"type": "terminal", "terminalId": "term_1"}
        assert last_result(model.requests[1]).text.startswith("Exit code 0 after ")
        assert last_result(model.requests[1]).text.endswith("\nbuilt")


async def test_a_line_that_needs_a_shell_goes_as_a_script_that_is_removed_afterwards():
    line = "echo a; echo 'b c' | cat"
    async with running_agent(running(line), capabilities=TERMINALS, settings=AUTO) as agent:
        await go(agent)
        assert agent.editor.terminals.by_id["term_1"].line == line
        (created,) = [params for method, params in agent.editor.requests if method == "terminal/create"]
        assert " " not in "".join(created["args"])
        assert not list(agent.folder.glob("**/command-*"))


@pytest.mark.first_version("the output is in a terminal of ours")
async def test_a_command_without_output_says_how_it_ended_once():
    async with running_agent(running("true"), settings=AUTO) as agent:
        await go(agent)
        console, status = agent.editor.of_kind("tool_call_update")[-1]["content"]
        assert console["content"]["text"] == "```console\n$ true\n(no output)\n```"
        assert status["content"]["text"].startswith("Exit code 0 after ")


async def test_a_command_that_the_editor_does_not_start_runs_here():
    model = running("printf hello")
    async with running_agent(model, capabilities=TERMINALS, settings=AUTO) as agent:
        agent.editor.terminals.errors["terminal/create"] = RpcError(-32603, "No terminals today.")
        await go(agent)
        assert last_result(model.requests[1]).text.endswith("hello")
        told = "did not start the command: No terminals today. The command runs outside the editor instead.\n\nDone."
        assert agent.editor.said().endswith(told)
        shown = [str(update) for update in agent.editor.updates]
        (before,) = (at for at, update in enumerate(shown) if "runs outside the editor" in update)
        assert before < min(at for at, update in enumerate(shown) if "'status': 'completed'" in update)
        assert "terminal/release" not in [method for method, _ in agent.editor.requests]
        content = agent.editor.of_kind("tool_call_update")[-1]["content"][0]["content"]["text"]
        assert "$ printf hello\nhello" in content


@pytest.mark.parametrize("more", [{}, {"background": True}])
async def test_a_command_that_the_editor_refuses_runs_nowhere(more: dict[str, bool]):
    model = running("touch ran.txt", **more)
    async with running_agent(model, capabilities=TERMINALS, settings=AUTO) as agent:
        denied = {"details": "Permission denied for terminal/create"}
        agent.editor.terminals.errors["terminal/create"] = RpcError(-32603, "Internal error", denied)
        await go(agent)
        result = last_result(model.requests[1])
        assert result.is_error
        assert "Permission denied for terminal/create" in result.text
        assert not (agent.folder / "ran.txt").exists()
        assert next(iter(statuses(agent.editor).values()))[-1] == "failed"


async def test_an_editor_that_cannot_wait_is_asked_again_and_again():
    model = running("make all")
    async with running_agent(model, capabilities=TERMINALS, settings=AUTO) as agent:
        agent.editor.terminals.run = end_with("built\n", 3)
        agent.editor.terminals.errors["terminal/wait_for_exit"] = RpcError(-32601, "Method not found")
        await go(agent)
        assert last_result(model.requests[1]).text.startswith("Exit code 3 after ")
        assert agent.editor.terminals.by_id["term_1"].released


async def test_a_kill_that_fails_is_no_reason_to_keep_the_terminal():
    model = running("make all", timeout_seconds=1)
    async with running_agent(model, capabilities=TERMINALS, settings=AUTO) as agent:

        def end_soon(state: FakeTerminalState) -> None:
            state.output = "half"

        agent.editor.terminals.run = end_soon
        agent.editor.terminals.errors["terminal/kill"] = RpcError(-32602, "sessionID is missing")
        agent.editor.terminals.errors["terminal/wait_for_exit"] = RpcError(-32601, "Method not found")
        session = await agent.editor.open_session(str(agent.folder))
        async with (
            passing(2, lambda: agent.editor.wait_for_request("terminal/output")),
            passing(4, lambda: agent.editor.wait_for_request("terminal/kill")),
        ):
            await agent.editor.prompt(session, "Go.")
        assert "time limit of 1 s" in last_result(model.requests[1]).text
        assert agent.editor.terminals.by_id["term_1"].released


async def test_a_time_limit_ends_the_editor_s_command_and_tells_the_model():
    model = running("make all", timeout_seconds=1)
    async with running_agent(model, capabilities=TERMINALS, settings=AUTO) as agent:
        agent.editor.terminals.run = hang
        async with passing(2, lambda: agent.editor.wait_for_request("terminal/wait_for_exit")):
            await go(agent)
        terminal = agent.editor.terminals.by_id["term_1"]
        assert (terminal.killed, terminal.released) == (True, True)
        result = last_result(model.requests[1])
        assert result.is_error
        assert "ended at its time limit of 1 s" in result.text
        assert next(iter(statuses(agent.editor).values()))[-1] == "failed"


@posix
async def test_a_time_limit_ends_our_command():
    model = running("echo started; sleep 600", timeout_seconds=8)
    async with running_agent(model, capabilities=FOLLOWS_OURS, settings=AUTO) as agent:
        async with passing(9, lambda: agent.editor.wait_until(lambda: "started\\n" in str(agent.editor.updates))):
            await go(agent)
        result = last_result(model.requests[1])
        assert "ended at its time limit of 8 s" in result.text
        assert "started" in result.text


@posix
async def test_a_client_that_follows_our_terminals_sees_output_and_end_live():
    model = running("printf 'one\\n'; printf 'two\\n' >&2; exit 3")
    async with running_agent(model, capabilities=FOLLOWS_OURS, settings=AUTO) as agent:
        await go(agent)
        (announced,) = agent.editor.of_kind("tool_call")
        name = announced["toolCallId"]
        assert announced["_meta"] == {"terminal_info": {"terminal_id": name}}
        updates = agent.editor.of_kind("tool_call_update")
        metas = [update["_meta"] for update in updates if "_meta" in update and "pattern" not in update["_meta"]]
        assert metas[0] == {"terminal_info": {"terminal_id": name, "cwd": str(agent.folder)}}
        output = "".join(meta["terminal_output"]["data"] for meta in metas if "terminal_output" in meta)
        assert sorted(output.splitlines()) == ["one", "two"]
        assert metas[-1] == {"terminal_exit": {"terminal_id": name, "exit_code": 3, "signal": None}}
        assert updates[-1]["content"][0] == {"type": "terminal", "terminalId": name}
        assert {meta["terminal_output"]["terminal_id"] for meta in metas if "terminal_output" in meta} == {name}


@pytest.mark.first_version("the output is in a terminal of ours")
@posix
async def test_other_clients_see_the_output_as_text():
    async with running_agent(running("printf hello; exit 2"), settings=AUTO) as agent:
        await go(agent)
        last = agent.editor.of_kind("tool_call_update")[-1]
        assert "$ printf hello; exit 2\nhello" in last["content"][0]["content"]["text"]
        assert last["content"][1]["content"]["text"].startswith("Exit code 2 after ")
        assert not any("terminal_info" in update.get("_meta", {}) for update in agent.editor.updates)


@posix
@pytest.mark.parametrize(
    ("line", "status", "failure"),
    [
        ("true", "completed", None),
        ("exit 2", "failed", "tool.command-failed"),
        ("no-such-program", "failed", "tool.command-failed"),
        ("kill -9 $$", "failed", "tool.command-failed"),
    ],
)
async def test_a_command_that_ends_badly_is_shown_as_failed_live_and_replayed_and_is_no_error_for_the_model(
    line: str, status: str, failure: str | None
):
    model = ScriptedProvider([calls("run_command", command=line), says("Done."), says("Done.")])
    async with running_agent(model, settings=AUTO) as agent:
        session = await go(agent)
        assert not last_result(model.requests[1]).is_error
        for _ in range(2):
            last = agent.editor.of_kind("tool_call_update")[-1]
            assert last["status"] == status
            assert last.get("_meta", {}).get("pattern", {}).get("failure") == failure
            agent.editor.updates.clear()
            await agent.editor.request("session/close", {"sessionId": session})
            opening: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
            await agent.editor.request("session/load", opening)
        await agent.editor.prompt(session, "Go on.")
        results = [part for message in model.requests[2].messages for part in message.parts]
        assert not any(part.is_error for part in results if isinstance(part, ToolResultPart))


@posix
async def test_a_signal_is_named():
    model = running("kill -9 $$")
    async with running_agent(model) as agent:
        await go(agent)
        assert last_result(model.requests[1]).text.startswith("Ended by SIGKILL after ")


@posix
async def test_long_output_is_whole_in_the_journal_and_cut_in_the_middle_for_the_model():
    model = running("seq 1 60000")
    async with running_agent(model, settings=AUTO) as agent:
        session = await go(agent)
        text = last_result(model.requests[1]).text
        assert len(text) <= 40_000
        assert "bytes cut ...]" in text
        assert "\n1\n2\n3\n" in text
        assert text.endswith("59999\n60000")
        (finished,) = of_type(await events_of(agent, session), ToolCallFinished)
        assert finished.full_output == "".join(f"{number}\n" for number in range(1, 60_001))
        assert finished.duration_ms >= 0


@posix
@pytest.mark.parametrize("capabilities", [{}, FOLLOWS_OURS], ids=["plain", "follows ours"])
async def test_five_megabytes_of_output_go_out_in_short_lines(capabilities: JsonDict):
    model = running("head -c 5000000 /dev/zero | tr '\\0' 'x'")
    async with running_agent(model, capabilities=capabilities, settings=AUTO) as agent:
        await go(agent)
        sizes = [len(line) for by_agent, line in agent.editor.recording.both if by_agent]
        assert max(sizes) < 1_000_000
        assert "Only the newest" in last_result(model.requests[1]).text


async def test_a_loaded_session_shows_a_dead_terminal_as_text():
    async with running_agent(running("make all"), capabilities=TERMINALS, settings=AUTO) as agent:
        agent.editor.terminals.run = end_with("built\n", 0)
        session = await go(agent)
        agent.editor.updates.clear()
        load: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", load)
        (update,) = agent.editor.of_kind("tool_call_update")
        assert "$ make all\nbuilt" in update["content"][0]["content"]["text"]
