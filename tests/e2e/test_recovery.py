"""A constellation that was damaged, through the real process: what is said, what is left alone, and the ways back."""

import json
from pathlib import Path

import pytest

from pattern_acp.db.connection import change_file
from pattern_acp.jsonrpc.messages import RemoteError
from tests.support.process import Launch, run_command_line, running_process

pytestmark = pytest.mark.e2e

PAGE = 4096
CONSTELLATION = Path("constellations", "default", "constellation.db")


async def first_session(home: Path) -> str:
    async with running_process(Launch(home)) as agent:
        session = await agent.editor.open_session(str(home))
        await agent.editor.prompt(session, "hello")
        await agent.close_input()
        await agent.wait()
    return session


async def test_a_damaged_file_is_named_with_the_way_back_and_the_way_back_works(tmp_path: Path):
    path = tmp_path / CONSTELLATION
    session = await first_session(tmp_path)
    assert run_command_line(tmp_path, "backup").returncode == 0
    content = path.read_bytes()
    damaged = bytes(100) + content[100:]
    path.write_bytes(damaged)
    async with running_process(Launch(tmp_path)) as agent:
        with pytest.raises(RemoteError, match=r"is damaged.*nothing was changed.*pattern-acp restore --latest"):
            await agent.editor.open_session(str(tmp_path))
    assert path.read_bytes() == damaged
    restored = run_command_line(tmp_path, "restore", "--latest")
    assert (restored.returncode, restored.stderr) == (0, "")
    [safety] = path.parent.glob("backups/before-restore-*/constellation.db")
    assert safety.read_bytes() == damaged
    assert session in run_command_line(tmp_path, "sessions", "--all").stdout


async def test_nothing_is_restored_under_a_running_agent_and_a_backup_can_be_made(tmp_path: Path):
    async with running_process(Launch(tmp_path)) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "hello")
        assert run_command_line(tmp_path, "backup").returncode == 0
        refused = run_command_line(tmp_path, "restore", "--latest")
        assert refused.returncode == 1
        assert "open in another process" in refused.stderr
        await agent.editor.prompt(session, "still there?")


async def test_an_empty_file_in_the_place_of_a_constellation_with_backups_is_told(tmp_path: Path):
    path = tmp_path / CONSTELLATION
    await first_session(tmp_path)
    assert run_command_line(tmp_path, "backup").returncode == 0
    path.write_bytes(b"")
    async with running_process(Launch(tmp_path)) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "hello")
        assert "was empty, so a new one was begun" in str(agent.editor.updates)


async def test_gc_takes_the_words_of_a_session_that_was_deleted_long_ago_and_nothing_else(tmp_path: Path):
    path = tmp_path / CONSTELLATION
    (tmp_path / "config.toml").write_text("[retention]\ndeleted_days = 7\n", encoding="utf-8")
    kept = await first_session(tmp_path)
    old = await first_session(tmp_path)
    assert run_command_line(tmp_path, "sessions", "delete", old).returncode == 0
    assert run_command_line(tmp_path, "gc", "--dry-run").stdout == "There is nothing to delete.\n"
    change_file(path, lambda tx: tx.execute("UPDATE sessions SET deleted_ms = 5 WHERE deleted = 1"))
    shown = run_command_line(tmp_path, "gc", "--dry-run")
    assert "deleted more than 7 days ago" in shown.stdout
    assert "would be deleted" in shown.stdout
    assert old in shown.stdout
    before = path.stat().st_size
    swept = run_command_line(tmp_path, "gc", "--json")
    assert (swept.returncode, '"smaller":true' in swept.stdout) == (0, True)
    assert path.stat().st_size <= before
    assert run_command_line(tmp_path, "journal", "verify").returncode == 0
    verified = run_command_line(tmp_path, "doctor", "--verify", "--json")
    assert not [each for each in json.loads(verified.stdout)["findings"] if each["health"] == "broken"]
    change_file(path, lambda tx: tx.execute("UPDATE sessions SET deleted_ms = updated_ms WHERE deleted = 1"))
    back = run_command_line(tmp_path, "sessions", "undelete", old)
    assert (back.returncode, "took its words" in back.stderr) == (1, True)
    assert run_command_line(tmp_path, "sessions", "show", kept).stdout.count("hello") >= 1


def damage_page_of(path: Path, said: str) -> None:
    """Write over the page that holds the event of a prompt."""
    content = bytearray(path.read_bytes())
    at = content.index(f'"text":"{said}'.encode())
    page = at - at % PAGE
    content[page : page + PAGE] = b"\xa5" * PAGE
    path.write_bytes(content)


async def test_a_session_with_damage_in_its_middle_is_shown_as_far_as_it_can_be_read_and_takes_no_prompt(
    tmp_path: Path,
):
    path = tmp_path / CONSTELLATION
    async with running_process(Launch(tmp_path)) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        for number in range(6):
            await agent.editor.prompt(session, f"plum {number} {'x' * 3000}")
        await agent.close_input()
        await agent.wait()
    damage_page_of(path, "plum 3")
    async with running_process(Launch(tmp_path)) as agent:
        listed = await agent.editor.request("session/list", {})
        assert [one["sessionId"] for one in listed["sessions"]] == [session]
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        shown = "".join(update["content"]["text"] for update in agent.editor.of_kind("user_message_chunk"))
        assert [number for number in range(6) if f"plum {number} " in shown] == [0, 1, 2, 4, 5]
        said = agent.editor.said()
        for part in ("can still be read", "is damaged", "restore --latest", "journal rebuild"):
            assert part in said
        size = path.stat().st_size
        with pytest.raises(RemoteError, match="is damaged"):
            await agent.editor.prompt(session, "go on")
        with pytest.raises(RemoteError, match="is damaged"):
            await agent.editor.open_session(str(tmp_path))
        listed = await agent.editor.request("session/list", {})
        assert [one["sessionId"] for one in listed["sessions"]] == [session]
        assert path.stat().st_size == size
        await agent.close_input()
        await agent.wait()
    partly = run_command_line(tmp_path, "sessions", "show", session)
    assert ("plum 2" in partly.stdout, "plum 3" in partly.stdout, "only a part" in partly.stderr) == (True, False, True)
    rebuilt = run_command_line(tmp_path, "journal", "rebuild", "--replace")
    assert rebuilt.returncode == 0
    assert "plum 3" in run_command_line(tmp_path, "sessions", "show", session).stdout
