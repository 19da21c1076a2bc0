"""Jobs over the pipes of a real process that is killed in each state, resumed, replayed, verified and tampered with."""

import sqlite3
import sys
import zipfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from pattern_acp.domain.errors import PatternError
from pattern_acp.journal.events import Event, JobMoved, JobQuoted, JobSettled
from tests.support.editor import JsonDict, choose
from tests.support.process import AgentProcess, Launch, read_events, run_command_line, running_process, write_script

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

WRITES = [{"tool": "write_file", "arguments": {"path": "tests/a.py", "content": "x = 1\n"}}]
DONE = [{"text": "Done."}]
HANGS = [{"wait_for": "cancel"}]


def job(check: str) -> str:
    return f'/job "Write the test" --max 60k tokens --paths tests/** --check {check}'


def python(code: str) -> str:
    return f'"{sys.executable}" -c "{code}"'


async def never(_params: JsonDict) -> JsonDict:
    await anyio.sleep_forever()
    raise AssertionError


async def killed_when(agent: AgentProcess, session: str, text: str, reached: Callable[[list[Event]], bool]) -> None:
    """Kill the process once the journal of the session has got so far."""

    async def prompt() -> None:
        with suppress(PatternError, anyio.ClosedResourceError):
            await agent.editor.prompt(session, text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(prompt)
        with anyio.fail_after(60):
            while not reached(await read_events(agent.constellation, session)):
                await anyio.lowlevel.checkpoint()
        agent.kill()
        await agent.wait()
        tasks.cancel_scope.cancel()


def states(events: list[Event]) -> list[str]:
    return [event.state for event in events if isinstance(event, JobMoved)]


def receipts(events: list[Event]) -> list[JobSettled]:
    return [event for event in events if isinstance(event, JobSettled)]


async def finish(home: Path, folder: Path, session: str, script: dict[str, str]) -> list[Event]:
    """Open the session in a new process, and go on with its job."""
    async with running_process(Launch(home, ("--mode", "auto"), script, permission=choose("allow_once"))) as agent:
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(folder), "mcpServers": []})
        await agent.editor.prompt(session, "/job resume 1")
        return await read_events(agent.constellation, session)


Begin = Callable[[AgentProcess, str], Awaitable[None]]


@pytest.mark.parametrize("state", ["quoted", "agreed", "working", "settling"])
@pytest.mark.timeout(180)
async def test_a_job_that_is_killed_in_a_state_goes_on_from_it(state: str, tmp_path: Path):
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    (folder / "slow").write_text("", encoding="utf-8")
    check = python("import os, time; os.path.exists('slow') and time.sleep(60)")
    turns = [HANGS] if state in {"agreed", "working"} else [DONE]
    permission = never if state == "quoted" else choose("allow_once")
    launch = Launch(home, ("--mode", "auto"), write_script(tmp_path, turns), permission=permission)
    async with running_process(launch) as agent:
        session = await agent.editor.open_session(str(folder))
        await killed_when(
            agent,
            session,
            job(check),
            lambda events: (
                any(isinstance(event, JobQuoted) for event in events)
                if state == "quoted"
                # The next move follows at once: the kill may come behind it.
                else state in (states(events) if state == "agreed" else states(events)[-1:])
            ),
        )
    (folder / "slow").unlink()
    events = await finish(home, folder, session, write_script(tmp_path, [WRITES, DONE]))
    (receipt,) = receipts(events)
    assert receipt.outcome == "completed"
    assert [one.exit_code for one in receipt.checks] == [0]
    checked = run_command_line(home, "jobs", "verify")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("state", ["quoted", "working"])
@pytest.mark.timeout(180)
async def test_a_job_that_a_turn_was_made_and_that_is_killed_goes_on_from_its_state(state: str, tmp_path: Path):
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    home.mkdir()
    (home / "config.toml").write_text('[jobs]\nask_above = "1k tokens"\n', encoding="utf-8")
    steps = [{"content": "Write the test", "status": "pending"}]
    plan = [{"tool": "update_plan", "arguments": {"entries": steps}}]
    permission = never if state == "quoted" else choose("allow_once")
    launch = Launch(home, ("--mode", "auto"), write_script(tmp_path, [plan, HANGS]), permission=permission)
    async with running_process(launch) as agent:
        session = await agent.editor.open_session(str(folder))

        def reached(events: list[Event]) -> bool:
            if state == "quoted":
                return any(isinstance(event, JobQuoted) for event in events)
            return state in states(events)[-1:]

        await killed_when(agent, session, "Write the test", reached)
    events = await finish(home, folder, session, write_script(tmp_path, [WRITES, DONE]))
    (receipt,) = receipts(events)
    assert receipt.outcome == "completed"
    assert [Path(file.path).name for file in receipt.files] == ["a.py"]
    checked = run_command_line(home, "jobs", "verify")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.timeout(180)
async def test_a_receipt_is_the_same_on_replay_and_what_is_tampered_with_is_named(tmp_path: Path):
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    script = write_script(tmp_path, [WRITES, DONE])
    async with running_process(Launch(home, ("--mode", "auto"), script, permission=choose("allow_once"))) as agent:
        session = await agent.editor.open_session(str(folder))
        await agent.editor.prompt(session, job(python("open('tests/a.py')")))
        said = agent.editor.said()
        assert "Job 1: completed." in said
        constellation = agent.constellation
    async with running_process(Launch(home, ("--mode", "auto"))) as agent:
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(folder), "mcpServers": []})
        assert "Job 1: completed." in agent.editor.said()
    shown = [run_command_line(home, "jobs", "receipt", "1").stdout for _ in range(2)]
    assert shown[0] == shown[1]
    assert "tests/a.py" in shown[0]
    assert run_command_line(home, "jobs", "verify").returncode == 0
    again = run_command_line(home, "journal", "replay", session)
    assert "run again the same: 1 turn, 2 model requests, 1 tool call" in again.stdout, again.stdout + again.stderr
    bundle = tmp_path / "bundle.zip"
    exported = run_command_line(home, "journal", "export", session, "--output", str(bundle))
    assert exported.returncode == 0, exported.stdout + exported.stderr
    assert run_command_line(home, "journal", "verify", str(bundle)).returncode == 0
    with zipfile.ZipFile(bundle) as whole:
        texts = {name: whole.read(name) for name in whole.namelist()}
    assert "Job 1: completed." in texts["conversation.md"].decode()
    (events,) = [name for name, text in texts.items() if b"job_settled" in text]
    with zipfile.ZipFile(bundle, "w") as tampered:
        for name, text in texts.items():
            changed = text.replace(b'"outcome":"completed"', b'"outcome":"stopped"') if name == events else text
            tampered.writestr(name, changed)
    found = run_command_line(home, "journal", "verify", str(bundle))
    assert found.returncode == 1, found.stdout + found.stderr
    for change, named in (
        (
            "UPDATE job_holds SET spent = spent + 1, released = released - 1 WHERE meter = 'tokens'",
            "of tokens spent, its requests",
        ),
        (
            "UPDATE job_holds SET granted = granted + 5, released = released + 5 WHERE meter = 'tokens'",
            "its hold of tokens is",
        ),
        ("UPDATE jobs SET model = 'other/model'", "its model is other/model, by its events"),
        (
            "DROP TRIGGER events_are_not_updated;"
            "UPDATE events SET payload = replace(payload, 'completed', 'stopped') WHERE kind = 'job_settled'",
            "of its session was changed",
        ),
    ):
        with sqlite3.connect(constellation) as raw:
            raw.executescript(change)
        raw.close()
        checked = run_command_line(home, "jobs", "verify")
        assert checked.returncode == 1, change
        assert named in checked.stdout + checked.stderr, change
