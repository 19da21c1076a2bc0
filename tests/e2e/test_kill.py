"""SIGKILL at random moments: what was acknowledged is there, the chain holds, and the session goes on."""

import random
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from pattern_acp.config.load import process_environment
from pattern_acp.config.settings import Settings
from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.jsonrpc.messages import ConnectionClosedError, RemoteError
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.store import list_blocks
from tests.support.acknowledged import Acknowledged, recorded_texts
from tests.support.process import (
    SLACK_SECONDS,
    AgentProcess,
    Launch,
    read_events,
    running_process,
    write_script,
)

pytestmark = pytest.mark.e2e

ROUNDS = 30
SESSION_ROUNDS = 5
"""Rounds that go on with one session; its replay grows with each."""

PAUSE_SECONDS = 0.05
"""Longest time between what the editor was shown and the kill: as long as some steps of the turn take."""

UNSAVED_SECONDS = 1.0
"""Rule R2: text of an unfinished message that is younger than this may be lost."""

SEED_VARIABLE = "PATTERN_ACP_TEST_SEED"


def turns_of_round(number: int) -> list[list[dict[str, object]]]:
    """Streaming, reading, a command, a plan, a file and three memory writes in one prompt of about a second."""

    def stream(words: int) -> list[dict[str, object]]:
        steps: list[dict[str, object]] = []
        for word in range(words):
            steps.append({"text": f"word{word} "})
            steps.append({"wait_ms": 12})
        return steps

    def remember(index: int) -> dict[str, object]:
        arguments = {"label": "human", "operation": "append", "text": f"fact {number}.{index}"}
        return {"tool": "memory_write", "arguments": arguments}

    def call(tool: str, **arguments: object) -> dict[str, object]:
        return {"tool": tool, "arguments": arguments}

    plan = {"entries": [{"content": f"round {number}", "priority": "high", "status": "pending"}]}
    return [
        [*stream(6), remember(1), call("read_file", path="a.txt")],
        [{"thinking": "Hm."}, *stream(4), call("update_plan", **plan), remember(2)],
        [call("run_command", command="echo one; echo two"), call("write_file", path=f"{number}.txt", content="x")],
        [*stream(3), remember(3), call("list_directory", path=".")],
        [*stream(12), {"usage": {"input_tokens": 10, "output_tokens": 3}}],
    ]


async def prompt(agent: AgentProcess, session: str, acknowledged: Acknowledged) -> None:
    # The process dies in the middle of it.
    with suppress(ConnectionClosedError, RemoteError):
        await agent.editor.prompt(session, "go")
        acknowledged.ended += 1


@dataclass(frozen=True, slots=True)
class Moment:
    """When a process is killed: so many seconds after the editor was shown so many updates of the turn, or its end."""

    updates: int
    seconds: float


async def kill_in_a_turn(agent: AgentProcess, session: str, moment: Moment, acknowledged: Acknowledged) -> None:
    agent.editor.updates.clear()
    ended = anyio.Event()

    async def run() -> None:
        await prompt(agent, session, acknowledged)
        ended.set()

    async def follow(moments: anyio.CancelScope) -> None:
        await agent.editor.wait_until(lambda: len(agent.editor.updates) >= moment.updates)
        # Nothing is waited for: the moments between two updates are what is tried, and any of them has to be survived.
        await anyio.sleep(moment.seconds)
        moments.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(follow, waiting.cancel_scope)
            await ended.wait()
            waiting.cancel_scope.cancel()
        agent.kill()
        await agent.wait()
        await ended.wait()
    kinds = {update["update"]["sessionUpdate"] for update in agent.editor.updates}
    acknowledged.prompts += bool(kinds - {"available_commands_update"})
    acknowledged.note(update["update"] for update in agent.editor.updates)


async def check(constellation: Path, session: str, acknowledged: Acknowledged) -> None:
    """Nothing that was acknowledged is missing."""
    events = await read_events(constellation, session)
    owners = [(Scope.PERSONA, Settings().persona)]
    async with open_database(constellation, clock=SystemClock(), read_only=True) as database:
        blocks = await database.read(lambda tx: list_blocks(tx, owners))
    lines = {line for block in blocks for line in block.text.splitlines()}
    assert acknowledged.missing(events, lines) == []


async def check_replay(agent: AgentProcess, session: str, folder: Path, acknowledged: Acknowledged) -> None:
    """Load the session: everything acknowledged is shown again, and no call is left open."""
    await agent.editor.request("session/load", {"sessionId": session, "cwd": str(folder), "mcpServers": []})
    shown = {update["toolCallId"]: update.get("status", "pending") for update in agent.editor.of_kind("tool_call")}
    shown |= {
        update["toolCallId"]: update["status"]
        for update in agent.editor.of_kind("tool_call_update")
        if "status" in update
    }
    assert acknowledged.finished.items() <= shown.items()
    assert set(shown.values()) <= {"completed", "failed"}
    assert acknowledged.started <= shown.keys()


async def updates_of_a_turn(home: Path, work: Path, folder: Path) -> int:
    """How many updates a whole turn shows here and now."""
    script = write_script(folder, turns_of_round(ROUNDS))
    async with running_process(Launch(home, ("--mode", "auto"), script)) as agent:
        session = await agent.editor.open_session(str(work))
        agent.editor.updates.clear()
        await agent.editor.prompt(session, "go")
        return len(agent.editor.updates)


@pytest.mark.timeout(300)
async def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path):
    # What decides whether a change lands must give the same answer twice; a loop over seeds looks further.
    moments = random.Random(int(process_environment().get(SEED_VARIABLE, 1)))
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (work / "a.txt").write_text("hello\n", encoding="utf-8")
    session, acknowledged = "", Acknowledged()
    whole = await updates_of_a_turn(home, work, tmp_path)
    # Whatever the machine's speed, they are spread over the whole turn.
    shares = moments.sample(range(ROUNDS), ROUNDS)
    for number in range(ROUNDS):
        script = write_script(tmp_path, turns_of_round(number))
        async with running_process(Launch(home, ("--mode", "auto"), script)) as agent:
            if number % SESSION_ROUNDS:
                await check_replay(agent, session, work, acknowledged)
            else:
                session = await agent.editor.open_session(str(work))
                acknowledged = Acknowledged(facts=acknowledged.facts)
            moment = Moment(whole * shares[number] // ROUNDS, moments.uniform(0.0, PAUSE_SECONDS))
            await kill_in_a_turn(agent, session, moment, acknowledged)
            await check(agent.constellation, session, acknowledged)
    assert len(acknowledged.facts) > ROUNDS / 2, "the moments came too early to prove anything"


async def test_text_that_was_shown_a_second_ago_survives_a_kill(tmp_path: Path):
    turn = [{"wait_ms": 250}, {"text": "Shown early."}, {"wait_for": "cancel"}]
    script = write_script(tmp_path, [turn])
    async with running_process(Launch(tmp_path, environment=script)) as agent, anyio.create_task_group() as tasks:
        session = await agent.editor.open_session(str(tmp_path))
        tasks.start_soon(prompt, agent, session, Acknowledged())
        await agent.editor.wait_until(lambda: agent.editor.said() == "Shown early.")
        with anyio.move_on_after(UNSAVED_SECONDS + SLACK_SECONDS):
            while not recorded_texts(await read_events(agent.constellation, session)):
                await anyio.lowlevel.checkpoint()
        agent.kill()
        await agent.wait()
        texts = recorded_texts(await read_events(agent.constellation, session))
        assert list(texts.values()) == ["Shown early."]


async def test_a_file_that_was_half_written_at_a_kill_is_gone_at_the_next_start(tmp_path: Path):
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    write = {"tool": "write_file", "arguments": {"path": "a.txt", "content": "half\n" * 1_000_000}}
    launch = Launch(home, environment=write_script(tmp_path, [[write], [{"text": "Done."}]]))

    def left() -> list[Path]:
        return list(project.glob(".a.txt.*.tmp"))

    async with running_process(launch) as agent, anyio.create_task_group() as tasks:
        session = await agent.editor.open_session(str(project))
        await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "edit"})
        tasks.start_soon(prompt, agent, session, Acknowledged())
        with anyio.fail_after(SLACK_SECONDS * 10):
            while not left():
                await anyio.lowlevel.checkpoint()
        agent.kill()
        await agent.wait()
        assert left()
    async with running_process(Launch(home)) as agent:
        await agent.editor.open_session(str(project))
        with anyio.fail_after(SLACK_SECONDS * 10):
            while left():
                await anyio.lowlevel.checkpoint()
    assert not (project / "a.txt").exists()
