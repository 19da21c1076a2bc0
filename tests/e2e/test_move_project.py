"""A user moves a project into a constellation of its own with the real program, and works on there."""

import json
from pathlib import Path

import anyio
import pytest

from tests.e2e.test_two_homes import command
from tests.support.editor import JsonDict, choose
from tests.support.process import Launch, run_command_line, running_process, write_script

pytestmark = [pytest.mark.slow, pytest.mark.e2e]


async def test_a_session_goes_on_where_its_project_moved_to_with_its_checkpoints(tmp_path: Path):
    home, shop = tmp_path / "home", tmp_path / "shop"
    for folder in (home, shop):
        await anyio.Path(folder).mkdir()
    file = anyio.Path(shop / "a.txt")
    await file.write_text("It was crimson.\n")
    edit: JsonDict = {"path": "a.txt", "edits": [{"old_text": "crimson", "new_text": "teal"}]}
    script = write_script(home, [[{"tool": "edit_file", "arguments": edit}], [{"text": "Teal it is."}]])
    move = ("move-project", str(shop), "--to", "own")
    async with running_process(Launch(home, environment=script, permission=choose("allow_once"))) as agent:
        session = await agent.editor.open_session(str(shop))
        await agent.editor.prompt(session, "Paint it teal.")
        assert await file.read_text() == "It was teal.\n"
        refused = await anyio.to_thread.run_sync(run_command_line, home, *move)
        assert refused.returncode == 1
        assert refused.stderr.startswith(f"pattern-acp: {shop} cannot be moved now. Session {session} is in use by")
    command(home, "memory", "decision", "Walls are teal.", "--cwd", str(shop))
    command(home, "memory", "decision", "Tabs everywhere.", "--cwd", str(tmp_path))
    command(home, "backup")
    shown = command(home, *move, "--dry-run")
    assert f"{shop} would move from default to own: " in shown
    assert "1 fact, 0 tasks, 1 session, 0 jobs and " in shown
    done = json.loads(command(home, *move, "--json"))
    assert (done["is_moved"], done["facts"], done["sessions"], done["merged"]) == (True, 1, 1, 0)
    assert f"default has nothing of {shop} to move." in command(home, *move)
    assert "teal" not in command(home, "memory", "traps", "--cwd", str(shop))
    assert "Tabs" in command(home, "memory", "traps", "--cwd", str(tmp_path))
    assert "Paint it" not in command(home, "sessions", "list", "--all")
    assert "Walls are teal." in command(home, "--constellation", "own", "memory", "traps", "--cwd", str(shop))
    for constellation in ("default", "own"):
        assert '"broken"' not in command(home, "--constellation", constellation, "doctor", "--verify", "--json")
    there = {"PATTERN_ACP_CONSTELLATION": "own"}
    async with running_process(Launch(home, environment=there, permission=choose("allow_once"))) as agent:
        params: JsonDict = {"sessionId": session, "cwd": str(shop), "mcpServers": list[object]()}
        await agent.editor.request("session/load", params)
        assert "Teal it is." in agent.editor.said()
        await agent.editor.prompt(session, "/rewind 1 files yes")
        assert await file.read_text() == "It was crimson.\n"
    default = home / "constellations" / "default"
    copies = default / "backups"
    assert done["copies"] == [str(copies)]
    # Segments are written again by the command itself, without what moved.
    files = [each for each in default.rglob("*") if each.is_file() and not each.is_relative_to(copies)]
    assert any(each.suffix == ".jsonl" for each in files)
    assert not [each for each in files if b"teal" in each.read_bytes()]


async def test_with_per_project_a_project_moves_into_its_own_constellation(tmp_path: Path):
    home, shop = tmp_path / "home", tmp_path / "shop"
    for folder in (home, shop):
        await anyio.Path(folder).mkdir()
    command(home, "memory", "decision", "Walls are teal.", "--cwd", str(shop))
    await anyio.Path(home / "config.toml").write_text("[constellation]\nper_project = true\n")
    done = json.loads(command(home, "move-project", str(shop), "--json"))
    assert done["target"].startswith("default.shop-")
    there = ("--constellation", done["target"])
    assert "Walls are teal." in command(home, *there, "memory", "traps", "--cwd", str(shop))
    assert "teal" not in command(home, "--constellation", "default", "memory", "traps", "--cwd", str(shop))
    assert json.loads(command(home, "move-project", str(shop), "--json"))["is_moved"] is False
    back = json.loads(command(home, *there, "move-project", str(shop), "--to", "default", "--json"))
    assert (back["is_moved"], back["facts"], back["merged"]) == (True, 1, 0)
    assert "Walls are teal." in command(home, "--constellation", "default", "memory", "traps", "--cwd", str(shop))
