"""The real process goes back, and is killed while it does."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from pattern_acp.journal.events import SessionRewound
from pattern_acp.jsonrpc.messages import ConnectionClosedError, RemoteError
from tests.support.editor import JsonDict
from tests.support.process import (
    COMMAND,
    AgentProcess,
    Launch,
    agent_environment,
    read_events,
    running_process,
    write_script,
)

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(os.name == "nt", reason="permission bits and signals of POSIX")]

WRITES: JsonDict = {"fs": {"readTextFile": True, "writeTextFile": True}}
FILES = ("a.txt", "b.txt", "c.txt")


def launch(tmp_path: Path, *, capabilities: JsonDict) -> Launch:
    def write(name: str, text: str) -> dict[str, object]:
        return {"tool": "write_file", "arguments": {"path": name, "content": text}}

    line = "chmod 755 a.txt; rm -f gone.bin; echo made > made.txt"
    turns = [
        [write(name, f"first {name}\n") for name in FILES],
        [{"text": "First done."}],
        [*(write(name, f"second {name}\n") for name in FILES), {"tool": "run_command", "arguments": {"command": line}}],
        [{"text": "Second done."}],
        [{"text": "Third."}],
    ]
    return Launch(tmp_path / "home", environment=write_script(tmp_path, turns), capabilities=capabilities)


def folder_in(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "gone.bin").write_bytes(b"\x00\xff")
    (folder / "gone.bin").chmod(0o640)
    return folder


async def two_turns(agent: AgentProcess, folder: Path) -> str:
    session = await agent.editor.open_session(str(folder))
    await agent.editor.prompt(session, "The first.")
    await agent.editor.prompt(session, "The second.")
    assert (folder / "b.txt").read_text() == "second b.txt\n"
    assert not (folder / "gone.bin").exists()
    return session


def is_as_after_the_first_turn(folder: Path) -> bool:
    texts = [(folder / name).read_text() for name in FILES]
    gone = folder / "gone.bin"
    return (
        texts == [f"first {name}\n" for name in FILES]
        and (folder / "a.txt").stat().st_mode & 0o111 == 0
        and gone.exists()
        and (gone.read_bytes(), gone.stat().st_mode & 0o777) == (b"\x00\xff", 0o640)
        and not (folder / "made.txt").exists()
    )


async def test_bytes_and_modes_are_what_they_were_after_a_rewind(tmp_path: Path):
    folder = folder_in(tmp_path)
    async with running_process(launch(tmp_path, capabilities={})) as agent:
        session = await two_turns(agent, folder)
        await agent.editor.prompt(session, "/rewind 2 yes")
        assert is_as_after_the_first_turn(folder)
        await agent.editor.prompt(session, "/rewind undo yes")
        assert (folder / "made.txt").exists()
        assert (folder / "a.txt").read_text() == "second a.txt\n"


async def test_a_rewind_that_is_killed_is_finished_when_the_session_is_opened_again(tmp_path: Path):
    folder = folder_in(tmp_path)
    begun = launch(tmp_path, capabilities=WRITES)
    async with running_process(begun) as agent:
        session = await two_turns(agent, folder)

        def die_at_the_second_file(text: str) -> str:
            if text == "first b.txt\n":
                agent.kill()
            return text

        agent.editor.disk.habits.formatter = die_at_the_second_file
        with pytest.raises((ConnectionClosedError, RemoteError)):
            await agent.editor.prompt(session, "/rewind 2 yes")
        await agent.wait()
    assert not is_as_after_the_first_turn(folder)
    assert (folder / "a.txt").read_text() == "first a.txt\n"
    async with running_process(begun) as agent:
        params: JsonDict = {"sessionId": session, "cwd": str(folder), "mcpServers": []}
        await agent.editor.request("session/load", params)
        assert is_as_after_the_first_turn(folder)
        said = agent.editor.said()
        assert "First done." in said
        assert "Second done." not in said
        assert "A rewind that was cut off has been finished." in said
        await agent.editor.prompt(session, "/rewind undo yes")
        assert (folder / "made.txt").exists()
    events = await read_events(agent.constellation, session)
    assert sum(isinstance(event, SessionRewound) for event in events) == 2


async def test_files_of_a_turn_that_was_killed_can_be_put_back(tmp_path: Path):
    folder = folder_in(tmp_path)
    begun = launch(tmp_path, capabilities=WRITES)
    async with running_process(begun) as agent:
        session = await agent.editor.open_session(str(folder))
        await agent.editor.prompt(session, "The first.")

        def die_at_the_third_file(text: str) -> str:
            if text == "second c.txt\n":
                agent.kill()
            return text

        agent.editor.disk.habits.formatter = die_at_the_third_file
        with pytest.raises((ConnectionClosedError, RemoteError)):
            await agent.editor.prompt(session, "The second.")
        await agent.wait()
    async with running_process(begun) as agent:
        params: JsonDict = {"sessionId": session, "cwd": str(folder), "mcpServers": []}
        await agent.editor.request("session/load", params)
        await agent.editor.prompt(session, "/rewind 2 files yes")
        assert is_as_after_the_first_turn(folder)


def sessions(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "sessions", "rewind", *arguments],
        env=agent_environment(home),
        capture_output=True,
        timeout=60,
        check=False,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def cells(line: str) -> list[str]:
    return [cell for cell in re.split(r" *\| *| {2,}", line) if cell]


async def test_a_terminal_shows_the_moments_previews_goes_back_and_takes_it_back(tmp_path: Path):
    folder = folder_in(tmp_path)
    async with running_process(launch(tmp_path, capabilities={})) as agent:
        session = await two_turns(agent, folder)
        held = sessions(tmp_path / "home", session, "2", "--yes")
        assert held.returncode == 1
        assert f"Session {session} is open in another window; close it there, or type /rewind in it." in held.stderr
        agent.editor.updates.clear()
        await agent.editor.prompt(session, "/rewind")
        typed = [cells(line.strip("| ")) for line in agent.editor.said().splitlines() if re.match(r"\| [^-]", line)]
        await agent.close_input()
        await agent.wait()
    home = tmp_path / "home"
    listed = [cells(line) for line in sessions(home, session).stdout.splitlines()]
    assert listed[0] == [heading.upper() for heading in typed[0]]
    assert [row[1:] for row in listed[1:]] == [row[1:] for row in typed[1:]]
    assert [f"`/rewind {row[0]}`" for row in listed[1:]] == [row[0] for row in typed[1:]]
    assert "before “The second.”" in listed[2]
    shown = sessions(home, session, "--to", "2", "--preview", "--files")
    assert (shown.returncode, "a.txt" in shown.stdout, "loses" in shown.stdout) == (0, True, False)
    refused = sessions(home, session, "2")
    assert (refused.returncode, "say --yes" in refused.stderr) == (1, True)
    assert not is_as_after_the_first_turn(folder)
    gone = sessions(home, session, "2", "--yes")
    assert (gone.returncode, "1 turn dropped" in gone.stdout) == (0, True)
    assert is_as_after_the_first_turn(folder)
    nothing = sessions(home, session, "2", "--files")
    assert (nothing.returncode, nothing.stderr) == (0, "")
    assert nothing.stdout.endswith("Nothing has changed since.\n")
    back = json.loads(sessions(home, session, "undo", "--yes", "--json").stdout)
    assert len(back["regained"]) == 1
    assert (folder / "b.txt").read_text() == "second b.txt\n"
    only = sessions(home, session, "2", "--conversation", "--yes")
    assert "file" not in only.stdout.partition("The session is at")[2]
    assert (folder / "b.txt").read_text() == "second b.txt\n"
    unknown = sessions(home, session, "9", "--yes")
    assert (unknown.returncode, "no turn or checkpoint '9'" in unknown.stderr) == (1, True)
    assert sessions(home, "ses_none", "1").returncode == 1
