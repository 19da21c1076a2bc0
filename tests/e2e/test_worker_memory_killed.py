"""What workers learn in a real process that is killed: it lands with their files, or neither does."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.events import LandingEnded, MemoryForkEnded
from pattern_acp.jsonrpc.messages import ConnectionClosedError, RemoteError
from tests.support.editor import JsonDict
from tests.support.process import AgentProcess, Launch, read_events, running_process
from tests.support.turns import of_type

pytestmark = [pytest.mark.anyio, pytest.mark.e2e, pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")]

WRITES: JsonDict = {"fs": {"readTextFile": True, "writeTextFile": True}}
CALL = {"kind": "worker", "name": "maker", "task": "Make both files."}
WORK = [
    [{"tool": "memory_write", "arguments": {"label": "project", "operation": "append", "text": "Use ruff."}}],
    [{"tool": "write_file", "arguments": {"path": name, "content": f"{name}\n"}} for name in ("a.txt", "b.txt")],
    [{"text": "Made them."}],
]


def launch(folder: Path, *, holds: bool = False) -> Launch:
    """A session whose worker makes two files and learns something; with `holds` it never reports."""
    home, file = folder / "home", folder / "script.json"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text('mode = "auto"\n[delegate]\nworker_changes = "whole"\n', encoding="utf-8")
    work = [*WORK[:2], [{"wait_for": "cancel"}]] if holds else WORK
    turns = [[{"tool": "delegate", "arguments": CALL}], *[[{"text": "Done."}]] * 3]
    file.write_text(json.dumps({"turns": turns, "subagents": {"maker": work}}), encoding="utf-8")
    environment = {"PATTERN_ACP_SCRIPT": str(file), "PATTERN_ACP_MODEL": "scripted/scripted"}
    return Launch(home, (), environment, capabilities=WRITES)


async def text_of_project(path: Path) -> str:
    async with open_database(path, clock=SystemClock(), read_only=True) as database:
        query = "SELECT text FROM blocks WHERE label = 'project' AND owner NOT LIKE '%(fork_%'"
        return str((await database.read(lambda tx: tx.all(query)))[0][0])


async def killed(agent: AgentProcess, session: str, when: Callable[[], bool] | None = None) -> None:
    async def prompt() -> None:
        with suppress(ConnectionClosedError, RemoteError):
            await agent.editor.prompt(session, "Go.")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(prompt)
        if when is not None:
            await agent.editor.wait_until(when)
            agent.kill()
        await agent.wait()


@pytest.mark.parametrize("moment", ["at work", "a.txt", "b.txt"])
async def test_a_kill_before_the_end_of_a_landing_leaves_neither_files_nor_memory(tmp_path: Path, moment: str):
    folder = tmp_path / "project"
    folder.mkdir()
    async with running_process(launch(tmp_path, holds=moment == "at work")) as agent:
        session = await agent.editor.open_session(str(folder))

        def die(text: str) -> str:
            if text == f"{moment}\n":
                agent.kill()
            return text

        agent.editor.disk.habits.formatter = die
        is_at_work = (lambda: "b.txt" in str(agent.editor.updates)) if moment == "at work" else None
        await killed(agent, session, is_at_work)
        path = agent.constellation
    events = await read_events(path, session)
    assert (of_type(events, LandingEnded), of_type(events, MemoryForkEnded)) == ([], [])
    async with running_process(launch(tmp_path)) as agent:
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(folder), "mcpServers": []})
        assert list(folder.glob("*.txt")) == []
        assert await text_of_project(path) == ""
        # What is left is as usable as before: the same work lands.
        await agent.editor.prompt(session, "Go.")
        assert sorted(each.name for each in folder.glob("*.txt")) == ["a.txt", "b.txt"]
        assert await text_of_project(path) == "Use ruff."
    events = await read_events(path, session)
    ends = [each.outcome for each in of_type(events, MemoryForkEnded)]
    assert ends == ["discarded", "merged"]
