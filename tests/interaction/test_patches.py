"""Patches through the whole agent: one question for all files, and the same result with and without the editor."""

from pathlib import Path

import pytest

from pattern_acp.config.settings import Settings
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import FULL_CLIENT, running_agent
from tests.support.editor import JsonDict
from tests.support.scripts import Turn, calls, says
from tests.support.turns import last_result

PATCH = """*** Begin Patch
*** Update File: a.txt
@@
-one
+two
*** Update File: old.txt
*** Move to: new.txt
@@
-old
+new
*** Add File: added.txt
+added
*** Delete File: gone.txt
*** End Patch"""

APPLY: Turn = calls("apply_patch", input=PATCH)
EDIT = Settings(editor_deadline_seconds=30, mode="edit")


def make_files(root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\r\nlast")
    (root / "old.txt").write_bytes(b"old\n")
    (root / "gone.txt").write_bytes(b"gone\n")


def contents(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()}


async def refuse(_params: JsonDict) -> JsonDict:
    return {"outcome": "selected", "optionId": "reject_once"}


@pytest.mark.parametrize("capabilities", [FULL_CLIENT, {}], ids=["through the editor", "on the disk"])
async def test_a_patch_has_the_same_result_with_and_without_the_editor(capabilities: JsonDict):
    model = ScriptedProvider([APPLY, says("Done.")])
    async with running_agent(model, capabilities=capabilities, settings=EDIT) as agent:
        make_files(agent.folder)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert not last_result(model.requests[1]).is_error
        assert contents(agent.folder) == {"a.txt": b"two\r\nlast", "new.txt": b"new\n", "added.txt": b"added\n"}
        (call,) = agent.editor.of_kind("tool_call")
        assert call["title"] == "Edit a.txt, Move old.txt to new.txt, Create added.txt, Delete gone.txt"


async def test_one_question_shows_all_files_and_a_refusal_changes_none():
    model = ScriptedProvider([APPLY, says("I see.")])
    async with running_agent(model, capabilities=FULL_CLIENT, permission=refuse) as agent:
        make_files(agent.folder)
        before = contents(agent.folder)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        (asked,) = agent.editor.asked
        diffs = [item for item in asked["toolCall"]["content"] if item["type"] == "diff"]
        assert [Path(diff["path"]).name for diff in diffs] == ["a.txt", "old.txt", "new.txt", "added.txt", "gone.txt"]
        assert contents(agent.folder) == before


async def test_a_path_that_asks_makes_the_whole_patch_ask():
    hook = PATCH.replace("*** Delete File: gone.txt", "*** Add File: .git/hooks/post-commit\n+#!/bin/sh")
    model = ScriptedProvider([calls("apply_patch", input=hook), says("I see.")])
    async with running_agent(model, capabilities=FULL_CLIENT, settings=EDIT, permission=refuse) as agent:
        make_files(agent.folder)
        before = contents(agent.folder)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        (asked,) = agent.editor.asked
        assert "belongs to git's own files" in str(asked["toolCall"]["content"])
        assert "refused" in last_result(model.requests[1]).text
        assert contents(agent.folder) == before
