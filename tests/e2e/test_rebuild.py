"""A constellation that is gone altogether, through the real process: what is there again after a rebuild."""

import json
from pathlib import Path

import pytest

from pattern_acp.db.connection import change_file
from tests.support.editor import JsonDict
from tests.support.process import AgentProcess, Launch, run_command_line, running_process, write_script

pytestmark = pytest.mark.e2e

CONSTELLATION = Path("constellations", "default", "constellation.db")
WRITES: JsonDict = {"fs": {"readTextFile": True, "writeTextFile": True}}


def launch(tmp_path: Path) -> Launch:
    def write(name: str, text: str) -> dict[str, object]:
        return {"tool": "write_file", "arguments": {"path": name, "content": text}}

    remember: dict[str, object] = {
        "tool": "memory_write",
        "arguments": {"label": "human", "operation": "append", "text": "Likes ducks.", "reason": "They said so."},
    }
    turns: list[list[dict[str, object]]] = [
        [write("a.txt", "first\n" * 20_000), remember],
        [{"text": "First done. " + "Long words. " * 2_000}],
        [write("a.txt", "second\n")],
        [{"text": "Second done."}],
        [{"text": "In the fork."}],
    ]
    environment = write_script(tmp_path, turns)
    return Launch(tmp_path / "home", environment=environment, capabilities=WRITES)


def shown(home: Path) -> dict[str, str]:
    """What a person sees of everything that was kept."""
    ask = {
        "sessions": ("sessions", "--all"),
        "search": ("sessions", "search", "ducks"),
        "memory": ("memory", "show", "human"),
        "history": ("memory", "history", "human"),
        "verify": ("journal", "verify"),
        "usage": ("usage", "--json"),
    }
    return {name: run_command_line(home, *arguments).stdout for name, arguments in ask.items()}


async def loaded(agent: AgentProcess, session: str, folder: Path) -> str:
    agent.editor.updates.clear()
    await agent.editor.request("session/load", {"sessionId": session, "cwd": str(folder), "mcpServers": []})
    # The commands of a session follow the answer, so those of the one before may come while this one is loaded.
    shown_now = [
        each
        for each in agent.editor.updates
        if each["sessionId"] == session and "available_commands_update" not in json.dumps(each)
    ]
    return json.dumps(shown_now, sort_keys=True)


async def work(tmp_path: Path, folder: Path) -> tuple[str, str]:
    async with running_process(launch(tmp_path)) as agent:
        session = await agent.editor.open_session(str(folder))
        await agent.editor.prompt(session, "The first, about ducks.")
        await agent.editor.prompt(session, "The second.")
        await agent.editor.prompt(session, "/checkpoint before the fork")
        forked = await agent.editor.request("session/fork", {"sessionId": session, "cwd": str(folder)})
        await agent.editor.prompt(forked["sessionId"], "The third.")
        await agent.close_input()
        await agent.wait()
    return session, forked["sessionId"]


async def test_a_constellation_that_was_deleted_is_there_again_with_all_that_a_person_sees(tmp_path: Path):
    folder, home = tmp_path / "project", tmp_path / "home"
    folder.mkdir()
    session, fork = await work(tmp_path, folder)
    path = home / CONSTELLATION
    before = shown(home)
    assert "Likes ducks." in before["memory"]
    async with running_process(launch(tmp_path)) as agent:
        loads = [await loaded(agent, each, folder) for each in (session, fork)]
        await agent.close_input()
        await agent.wait()
    before["verify"] = run_command_line(home, "journal", "verify").stdout
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()

    rebuilt = run_command_line(home, "journal", "rebuild", "--replace", "--json")
    assert (rebuilt.returncode, rebuilt.stderr) == (0, "")
    report = json.loads(rebuilt.stdout)
    assert (report["torn"], report["damaged"], report["problems"], report["replaced"]) == (0, [], [], True)
    assert report["sessions"] == 2

    assert shown(home) == before
    async with running_process(launch(tmp_path)) as agent:
        assert [await loaded(agent, each, folder) for each in (session, fork)] == loads
        await agent.editor.prompt(session, "/rewind 2 yes")
        assert (folder / "a.txt").read_text(encoding="utf-8") == "first\n" * 20_000
        await agent.close_input()
        await agent.wait()
    assert run_command_line(home, "doctor", "--verify").returncode == 0
    assert len(list((path.parent / "segments").glob("0*"))) == 1


async def test_a_rebuild_beside_the_constellation_changes_nothing_and_one_in_its_place_needs_a_word(tmp_path: Path):
    home = tmp_path / "home"
    async with running_process(Launch(home)) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "hello")
        await agent.close_input()
        await agent.wait()
    path = home / CONSTELLATION
    content = path.read_bytes()
    beside = run_command_line(home, "journal", "rebuild", "--into", str(tmp_path / "again.db"))
    assert (beside.returncode, beside.stderr) == (0, "")
    assert "is sound" in beside.stdout
    assert (tmp_path / "again.db").stat().st_size > 0
    asked = run_command_line(home, "journal", "rebuild")
    assert asked.returncode == 1
    assert "say --replace" in asked.stderr
    assert path.read_bytes() == content
    path.write_bytes(b"no database at all, but long enough to be looked at " * 100)
    replaced = run_command_line(home, "journal", "rebuild", "--replace")
    assert replaced.returncode == 0
    assert session in run_command_line(home, "sessions", "--all").stdout
    [kept] = path.parent.glob("backups/before-rebuild-*/constellation.db")
    assert kept.read_bytes().startswith(b"no database at all")


def lose(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


async def test_what_commands_of_the_terminal_wrote_is_in_segments_when_they_end(tmp_path: Path):
    folder, home = tmp_path / "project", tmp_path / "home"
    folder.mkdir()
    session, fork = await work(tmp_path, folder)
    path = home / CONSTELLATION
    assert run_command_line(home, "backup").returncode == 0
    for arguments in (
        ("sessions", "rename", session, "Named on the command line"),
        ("sessions", "delete", fork),
        ("memory", "create", "notes", "What I noted"),
        ("memory", "forget", "human", "ducks", "--yes"),
        ("journal", "redact", session, "--match", "Long words.", "--yes"),
    ):
        done = run_command_line(home, *arguments)
        # The backup still holds what was redacted.
        assert (done.returncode, done.stderr) == (int("redact" in arguments), ""), done.args
    assert f"{path.parent / 'backups'}/backup-" in done.stdout
    asked = (("sessions", "--all"), ("memory", "list"), ("memory", "show", "human"), ("journal", "verify"))
    before = [run_command_line(home, *arguments).stdout for arguments in asked]
    lose(path)

    assert run_command_line(home, "journal", "rebuild", "--replace").returncode == 0
    assert [run_command_line(home, *arguments).stdout for arguments in asked] == before
    assert "Named on the command line" in before[0]
    assert fork not in before[0]
    assert "notes" in before[1]
    assert "ducks" not in before[2]


async def test_words_that_gc_took_do_not_come_back_with_a_rebuild(tmp_path: Path):
    folder, home = tmp_path / "project", tmp_path / "home"
    folder.mkdir()
    session, fork = await work(tmp_path, folder)
    path = home / CONSTELLATION
    for deleted in (fork, session):
        assert run_command_line(home, "sessions", "delete", deleted).returncode == 0
    change_file(path, lambda tx: tx.execute("UPDATE sessions SET deleted_ms = 5 WHERE deleted = 1"))
    swept = run_command_line(home, "gc")
    assert (swept.returncode, swept.stderr) == (0, "")
    before = run_command_line(home, "journal", "verify").stdout
    assert f"{session}  sound" in before
    assert " redacted" in before
    lose(path)

    assert run_command_line(home, "journal", "rebuild", "--replace").returncode == 0
    assert run_command_line(home, "journal", "verify").stdout == before


async def test_commands_say_when_the_constellation_is_gone_and_can_be_had_back(tmp_path: Path):
    home = tmp_path / "home"
    async with running_process(Launch(home)) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "hello")
        await agent.close_input()
        await agent.wait()
    lose(home / CONSTELLATION)
    reading = (("sessions", "show", session), ("memory", "list"), ("journal", "verify"), ("usage",), ("trust", "list"))
    for arguments in (("sessions",), *reading):
        told = run_command_line(home, *arguments)
        assert told.returncode == 1
        assert told.stdout == ""
        assert "is missing, and with it your sessions and memory" in told.stderr
        assert "pattern-acp journal rebuild" in told.stderr
        assert told.stderr.rstrip().endswith("[database.lost]")
    (home / CONSTELLATION).touch()
    told = run_command_line(home, "sessions", "--json")
    assert told.returncode == 1
    assert "is empty, and with it your sessions and memory" in json.loads(told.stdout)["error"]["message"]
    (home / CONSTELLATION).unlink()
    # This one makes a new constellation, so nobody would say it afterwards.
    assert "is missing" in run_command_line(home, "trust", "revoke", str(tmp_path)).stderr
