"""Checks through the whole agent: once a batch, behind the edit's result, the same after a reload."""

from pathlib import Path

from pattern_acp.bootstrap.process import start_process
from pattern_acp.bootstrap.project import read_project
from pattern_acp.config.settings import CheckSettings, Flags, Settings
from pattern_acp.domain.messages import Role
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.constellation import ProjectSettings
from pattern_acp.session.memory_context import reload_history
from tests.support.agent import FULL_CLIENT, running_agent
from tests.support.editor import choose
from tests.support.scripts import Turn, calls, says
from tests.support.turns import last_result, results_of

LINT = CheckSettings("lint", "echo linted {files}; exit 3", ("*.txt",))
FILES_ONLY = {**FULL_CLIENT, "terminal": False}
TWO_EDITS: Turn = (
    *calls("write_file", path="a.txt", content="a\n"),
    *calls("write_file", path="b.txt", content="b\n"),
    *calls("write_file", path="c.md", content="c\n"),
)


def with_checks(*checks: CheckSettings) -> Settings:
    return Settings(editor_deadline_seconds=30, mode="edit", checks=checks)


async def test_checks_run_once_a_batch_and_stand_behind_the_last_edit(tmp_path: Path):
    model = ScriptedProvider([TWO_EDITS, says("Done."), says("Again.")])
    database = tmp_path / "c.db"
    async with running_agent(model, settings=with_checks(LINT), database=database) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        first, second, third = (result.text for result in results_of(model.requests[1]))
        assert "linted" not in first + second
        assert third.startswith("Created c.md (1 line).\nThe check lint (`echo linted a.txt b.txt; exit 3`) failed.")
        assert "linted a.txt b.txt" in third
        titles = [call["title"] for call in agent.editor.of_kind("tool_call")]
        assert titles[-1] == "Check lint: echo linted a.txt b.txt; exit 3"
        assert agent.editor.asked == []
        told = results_of(model.requests[1])
        await reload_history(agent.sessions.get(session).dialogue)
        await agent.editor.prompt(session, "More.")
        assert results_of(model.requests[2]) == told


async def test_a_formatter_on_the_disk_is_what_the_model_and_the_editor_see():
    upper = CheckSettings("upper", "tr a-z A-Z < a.txt > t && mv t a.txt", ("*.txt",), "formatter")
    edit = calls("edit_file", path="a.txt", edits=[{"old_text": "TWO", "new_text": "three"}])
    model = ScriptedProvider([calls("write_file", path="a.txt", content="one\ntwo\n"), edit, says("Done.")])
    async with running_agent(model, capabilities=FILES_ONLY, settings=with_checks(upper)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert "+TWO" in results_of(model.requests[1])[0].text
        assert not last_result(model.requests[2]).is_error
        assert (agent.folder / "a.txt").read_text(encoding="utf-8") == "ONE\nTHREE\n"
        parts = [part for update in agent.editor.of_kind("tool_call_update") for part in update.get("content") or ()]
        diffs = [(part.get("oldText"), part["newText"]) for part in parts if part["type"] == "diff"]
        assert ("one\ntwo\n", "ONE\nTWO\n") in diffs
        await agent.editor.prompt(session, "/diff")
        assert agent.editor.said().count("@@") == 2
        assert "+THREE" in agent.editor.said()


async def test_a_check_that_fails_at_the_end_lets_the_model_go_on():
    test = CheckSettings("tests", "grep -q good a.txt || { echo bad a.txt; exit 1; }", when="on_stop")
    edit = calls("edit_file", path="a.txt", edits=[{"old_text": "bad", "new_text": "good"}])
    write = calls("write_file", path="a.txt", content="bad\n")
    model = ScriptedProvider([write, says("Done."), edit, says("Now it is."), says("Hello.")])
    async with running_agent(model, settings=with_checks(test)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert len(model.requests) == 4
        assert "Created a.txt" in last_result(model.requests[1]).text
        told = model.requests[2].messages[-1]
        assert told.role is Role.USER
        assert 'context source="check"' in told.text
        assert "The check tests (`grep" in told.text
        assert "bad a.txt" in told.text
        assert agent.editor.said().endswith("Now it is.")
        await agent.editor.prompt(session, "Thanks.")
        assert len(model.requests) == 5


async def test_a_turn_without_edits_runs_no_check_and_one_that_never_passes_ends():
    test = CheckSettings("tests", "echo still bad; exit 1", when="on_stop")

    def write(number: int) -> Turn:
        return calls("write_file", path=f"{number}.txt", content="x\n")

    turns = [turn for number in range(6) for turn in (write(number), says(f"Try {number}."))]
    model = ScriptedProvider([says("Hello."), *turns])
    async with running_agent(model, settings=with_checks(test)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello.")
        assert [call["title"] for call in agent.editor.of_kind("tool_call")] == []
        await agent.editor.prompt(session, "Go.")
        assert len(model.requests) == 13
        assert "let this turn continue 5 times" in agent.editor.said()


async def test_a_projects_checks_run_only_once_the_folder_is_trusted(tmp_path: Path):
    def settings_of(folder: str) -> ProjectSettings:
        return read_project(start_process(Flags(), {"PATTERN_ACP_HOME": f"{folder}/.home"}), folder)

    config = tmp_path / ".pattern" / "config.toml"
    config.parent.mkdir()
    config.write_text('[checks.mark]\ncommand = "echo ran > mark"\n', encoding="utf-8")
    write = calls("write_file", path="a.txt", content="a\n")
    for answer, runs in (("reject_once", False), ("allow_once", True)):
        (tmp_path / "a.txt").unlink(missing_ok=True)
        model = ScriptedProvider([write, says("Done.")])
        async with running_agent(model, permission=choose(answer)) as agent:
            agent.sessions.constellation.settings_for = settings_of
            session = await agent.editor.open_session(str(tmp_path))
            await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "edit"})
            await agent.editor.prompt(session, "Go.")
            assert [asked["toolCall"]["title"] for asked in agent.editor.asked] == ["Trust this folder's 1 check?"]
            assert (tmp_path / "mark").exists() is runs
