"""Changes of files in ACP v2: edits and what commands changed, with patches that git itself applies."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.acp.v2 import schema
from pattern_acp.acp.v2.updates import diff, git_patch, tool_content
from pattern_acp.config.settings import Settings
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.tool_calls import ChangedPath, DiffContent, FileSide
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.scripts import calls, says
from tests.support.second_editor import SECOND, send, until_idle

AUTO = Settings(editor_deadline_seconds=30, mode="auto")
CALL = ToolCallId("call")
GONE = FileSide("missing")


async def diffs_of_turn(agent: RunningAgent) -> list[JsonDict]:
    await agent.editor.initialize(SECOND)
    session = await agent.editor.open_session(str(agent.folder))
    await send(agent.editor, session, "Go on.")
    await until_idle(agent.editor)
    (last,) = [one for one in agent.editor.of_kind("tool_call_update") if one.get("status") == "completed"]
    return [item for item in cast("list[JsonDict]", last["content"]) if item["type"] == "diff"]


async def test_a_patch_that_deletes_and_moves_says_so():
    patch = (
        "*** Begin Patch\n*** Delete File: a.txt\n*** Update File: b.txt\n*** Move to: c.txt\n@@\n-b\n+c\n*** End Patch"
    )
    model = ScriptedProvider([calls("apply_patch", input=patch), says("Done.")])
    async with running_agent(model, settings=AUTO, introduce=False) as agent:
        (agent.folder / "a.txt").write_text("a\n", encoding="utf-8")
        (agent.folder / "b.txt").write_text("b\n", encoding="utf-8")
        a, b, c = (str(agent.folder / name) for name in ("a.txt", "b.txt", "c.txt"))
        deleted, moved = await diffs_of_turn(agent)
        assert deleted["changes"] == [{"operation": "delete", "path": a, "fileType": "text"}]
        assert deleted["patch"]["text"] == (
            f"diff --git {a} {a}\ndeleted file mode 100644\n--- {a}\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
        )
        assert moved["changes"] == [{"operation": "move", "path": c, "oldPath": b, "fileType": "text"}]
        assert f"rename from {b}\nrename to {c}\n" in moved["patch"]["text"]


@pytest.mark.skipif(sys.platform == "win32", reason="the command line is written for a POSIX shell")
@pytest.mark.needs("git")
async def test_files_that_a_command_changed_are_shown_behind_its_terminal():
    line = (
        "printf 'new\\n' > new.txt; rm gone.txt; mv old.txt moved.txt; chmod +x run.sh; printf 'a\\0b' > blob; "
        "ln -s new.txt link"
    )
    model = ScriptedProvider([calls("run_command", command=line), says("Done.")])
    async with running_agent(model, settings=AUTO, introduce=False) as agent:
        for name in ("gone.txt", "old.txt", "run.sh"):
            (agent.folder / name).write_text(f"{name}\n", encoding="utf-8")
        await anyio.run_process(["git", "init", "-q", str(agent.folder)])
        (found,) = await diffs_of_turn(agent)
        changes = {Path(one["path"]).name: one for one in found["changes"]}
        assert {name: one["operation"] for name, one in changes.items()} == {
            "new.txt": "add",
            "gone.txt": "delete",
            "moved.txt": "move",
            "run.sh": "modify",
            "blob": "add",
            "link": "add",
        }
        assert Path(changes["moved.txt"]["oldPath"]).name == "old.txt"
        assert changes["blob"]["fileType"] == "binary"
        assert changes["link"]["fileType"] == "symlink"
        text = found["patch"]["text"]
        assert "old mode 100644\nnew mode 100755\n" in text
        assert "Binary files /dev/null and " in text
        assert "new file mode 120000\n" in text


def test_a_file_whose_text_is_not_shown_has_a_change_and_no_patch():
    large = FileSide("file", None, 0o644)
    shown = diff((ChangedPath("/w/large.txt", large, large),))
    assert [change.operation for change in shown.changes] == ["modify"]
    assert shown.patch is None


def test_what_is_gone_without_a_name_behind_it_was_deleted():
    (shown,) = tool_content((DiffContent("/w/a", "a\n", "", is_gone=True),), CALL)
    assert isinstance(shown, schema.Diff)
    assert [change.operation for change in shown.changes] == ["delete"]


lines = st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "", "é"]), max_size=6).map("".join)
sides = st.just(GONE) | st.builds(FileSide, st.just("file"), lines, st.sampled_from([0o644, 0o755]))


@pytest.mark.slow
@pytest.mark.needs("git")
@given(st.tuples(sides, sides).filter(lambda change: change != (GONE, GONE)), st.booleans())
def test_git_applies_what_a_patch_says(change: tuple[FileSide, FileSide], moves: bool):
    before, after = change
    moves = moves and "missing" not in {before.kind, after.kind}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        old, new = root / "old.txt", root / ("new.txt" if moves else "old.txt")
        if before.text is not None:
            old.write_bytes(before.text.encode())
            old.chmod(before.mode)
        patch = git_patch(ChangedPath(str(new), before, after, str(old) if moves else ""))
        if not patch:
            assert before.text == after.text or (before.text or "") == (after.text or "")
            return
        # Our paths are absolute, those of git are below the folder it works in.
        relative = patch.replace(f"{folder}/", "")
        subprocess.run(
            ["git", "apply", "-p0", "--unsafe-paths", "-"],
            cwd=folder,
            input=relative.encode(),
            check=True,
        )
        if after.text is None:
            assert not old.exists()
        else:
            assert new.read_bytes() == after.text.encode()
            assert bool(new.stat().st_mode & 0o100) == bool(after.mode & 0o100)
        assert not (moves and old.exists())
