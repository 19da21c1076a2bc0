"""Files through the editor, and what happens when it is wrong, silent or absent."""

import os

import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import Settings
from pattern_acp.jsonrpc.messages import RpcError
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import FULL_CLIENT, RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.editor_terminals import FakeTerminalState
from tests.support.passing_time import passing
from tests.support.scripts import Turn, calls, says
from tests.support.turns import last_result, results_of

EDIT = Settings(editor_deadline_seconds=30, mode="edit")
IMPATIENT = Settings(editor_deadline_seconds=2, mode="edit")
READ_A: Turn = calls("read_file", path="a.txt")
EDIT_A: Turn = calls("edit_file", path="a.txt", edits=[{"old_text": "one", "new_text": "two"}])


def requests(agent: RunningAgent, method: str) -> list[JsonDict]:
    return [params for asked, params in agent.editor.requests if asked == method]


async def test_unsaved_text_is_what_is_read_and_edited():
    model = ScriptedProvider([READ_A, EDIT_A, says("Done.")])
    async with running_agent(model, capabilities=FULL_CLIENT, settings=EDIT) as agent:
        path = agent.folder / "a.txt"
        path.write_text("old\n", encoding="utf-8")
        agent.editor.files[str(path)] = "one, not saved yet\n"
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert results_of(model.requests[1])[0].text == "1\tone, not saved yet"
        assert path.read_text(encoding="utf-8") == "two, not saved yet\n"


async def test_whole_files_are_asked_for_whatever_lines_are_wanted():
    model = ScriptedProvider([calls("read_file", path="a.txt", start_line=2, line_count=1), says("Done.")])
    async with running_agent(model, capabilities=FULL_CLIENT) as agent:
        (agent.folder / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        (asked,) = requests(agent, "fs/read_text_file")
        assert asked == {"sessionId": session, "path": str(agent.folder / "a.txt")}
        assert last_result(model.requests[1]).text.startswith("2\ttwo")


async def test_of_a_file_too_large_to_be_read_whole_the_wanted_lines_are_asked_for():
    model = ScriptedProvider([calls("read_file", path="a.txt", start_line=2, line_count=2), says("Done.")])
    async with running_agent(model, capabilities=FULL_CLIENT) as agent:
        path = agent.folder / "a.txt"
        path.write_text("line\n" * 2_500_000, encoding="utf-8")
        agent.editor.files[str(path)] = "one\ntwo, not saved yet\nthree\nfour\n"
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        (asked,) = requests(agent, "fs/read_text_file")
        assert asked == {"sessionId": session, "path": str(path), "line": 2, "limit": 2}
        assert last_result(model.requests[1]).text.startswith("2\ttwo, not saved yet\n3\tthree\n")


async def test_an_empty_answer_for_a_missing_file_is_a_missing_file():
    model = ScriptedProvider([READ_A, calls("write_file", path="a.txt", content="new\n"), says("Done.")])
    async with running_agent(model, capabilities=FULL_CLIENT, settings=EDIT) as agent:
        agent.editor.disk.habits.missing_as_empty = True
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert "does not exist" in results_of(model.requests[2])[0].text
        assert "Created a.txt" in results_of(model.requests[2])[1].text
        diff = agent.editor.of_kind("tool_call")[1]["content"][0]
        assert diff == {"type": "diff", "path": str(agent.folder / "a.txt"), "newText": "new\n"}


async def test_a_mute_editor_costs_one_deadline_and_the_person_is_told_once():
    model = ScriptedProvider([READ_A, says("Done."), says("Again.")])
    async with running_agent(model, capabilities=FULL_CLIENT, settings=IMPATIENT) as agent:
        (agent.folder / "a.txt").write_text("on the disk\n", encoding="utf-8")
        agent.editor.disk.habits.mute = True
        session = await agent.editor.open_session(str(agent.folder))
        async with passing(3, lambda: agent.editor.wait_for_request("fs/read_text_file")):
            await agent.editor.prompt(session, "Go.")
        assert last_result(model.requests[1]).text == "1\ton the disk"
        assert agent.editor.said().count("did not answer") == 1
        await agent.editor.prompt(session, "And now?")
        assert agent.editor.said().count("did not answer") == 1


DENIED = RpcError(-32603, "Internal error", {"details": "Permission denied for fs"})
"""What acpx answers with `--deny-all`, and when its user says no."""


@pytest.mark.parametrize("mode", ["ask", "edit", "auto", "plan"])
@pytest.mark.parametrize(
    ("error", "reason"), [(DENIED, "Permission denied for fs"), (RpcError(-32603, "Odd."), "did not read a.txt: Odd.")]
)
async def test_what_the_editor_refuses_to_read_or_write_is_refused_in_every_mode(
    mode: str, error: RpcError, reason: str
):
    create = calls("write_file", path="new.txt", content="x")
    model = ScriptedProvider([READ_A, create, says("Done.")])
    async with running_agent(model, capabilities=FULL_CLIENT, settings=replace(EDIT, mode=mode)) as agent:
        (agent.folder / "a.txt").write_text("secret\n", encoding="utf-8")
        agent.editor.disk.habits.error = error
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        read, written = results_of(model.requests[2])
        assert read.is_error
        assert reason in read.text.replace(f"{agent.folder}/", "")
        assert "secret" not in read.text
        assert written.is_error
        assert not (agent.folder / "new.txt").exists()


@pytest.mark.parametrize(
    "change",
    [
        EDIT_A,
        calls("write_file", path="a.txt", content="x"),
        calls("apply_patch", input="*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch"),
        calls(
            "apply_patch",
            input="*** Begin Patch\n*** Update File: a.txt\n*** Move to: b.txt\n@@\n-one\n+two\n*** End Patch",
        ),
    ],
)
async def test_a_refused_write_leaves_every_file_as_it_was_whatever_tool_makes_it(change: Turn):
    model = ScriptedProvider([READ_A, change, says("Done.")])
    async with running_agent(model, capabilities=FULL_CLIENT, settings=replace(EDIT, edit_tool="both")) as agent:
        (agent.folder / "a.txt").write_text("one\n", encoding="utf-8")
        agent.editor.disk.habits.write_error = DENIED
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        result = last_result(model.requests[2])
        assert result.is_error
        assert "Permission denied for fs" in result.text
        assert (agent.folder / "a.txt").read_text(encoding="utf-8") == "one\n"
        assert not (agent.folder / "b.txt").exists()


async def test_a_rewind_leaves_a_file_that_the_editor_does_not_let_be_written():
    model = ScriptedProvider([READ_A, EDIT_A, says("Done.")])
    async with running_agent(model, capabilities=FULL_CLIENT, settings=EDIT) as agent:
        (agent.folder / "a.txt").write_text("one\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        agent.editor.disk.habits.write_error = DENIED
        await agent.editor.prompt(session, "/rewind 1")
        assert "Permission denied for fs" in agent.editor.said()
        assert (agent.folder / "a.txt").read_text(encoding="utf-8") == "two\n"


async def test_an_editor_that_cannot_is_not_needed_and_that_is_told_before_the_disk_is_read_or_written():
    model = ScriptedProvider([READ_A, EDIT_A, says("Done.")])
    async with running_agent(model, capabilities=FULL_CLIENT, settings=EDIT) as agent:
        (agent.folder / "a.txt").write_text("one\n", encoding="utf-8")
        agent.editor.disk.habits.error = RpcError(-32603, "Not supported.")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert (agent.folder / "a.txt").read_text(encoding="utf-8") == "two\n"
        assert agent.editor.said().count("is written on the disk instead") == 1
        shown = [str(update) for update in agent.editor.updates]
        (written,) = (at for at, update in enumerate(shown) if "is written on the disk instead" in update)
        read = min(at for at, update in enumerate(shown) if "a.txt is read from the disk" in update)
        ends = [at for at, update in enumerate(shown) if "'status': 'completed'" in update]
        assert (read < ends[0], written < ends[-1]) == (True, True)
        assert agent.editor.said().endswith("Done.")


async def test_a_file_outside_the_editor_s_project_is_read_from_the_disk_without_a_word():
    model = ScriptedProvider([READ_A, says("Done.")])
    async with running_agent(model, capabilities=FULL_CLIENT) as agent:
        (agent.folder / "a.txt").write_text("on the disk\n", encoding="utf-8")
        agent.editor.disk.habits.error = RpcError(-32002, "Resource not found")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert last_result(model.requests[1]).text == "1\ton the disk"
        assert agent.editor.said() == "Done."


async def test_what_a_formatter_makes_of_a_write_is_told_to_the_model_and_shown():
    model = ScriptedProvider([READ_A, EDIT_A, EDIT_A_AGAIN, says("Done.")])
    async with running_agent(model, capabilities=FULL_CLIENT, settings=EDIT) as agent:
        path = agent.folder / "a.txt"
        path.write_text("one\n", encoding="utf-8")
        agent.editor.disk.habits.formatter = str.upper
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        told = results_of(model.requests[2])[1].text
        assert "changed further" in told
        assert "+TWO" in told
        # The model was told, so the next edit is based on what is there now.
        assert not last_result(model.requests[3]).is_error
        shown = [update for update in agent.editor.of_kind("tool_call_update") if update.get("status") == "completed"]
        assert shown[1]["content"][0]["newText"] == "TWO\n"


EDIT_A_AGAIN: Turn = calls("edit_file", path="a.txt", edits=[{"old_text": "TWO", "new_text": "three"}])


async def test_an_edit_of_a_file_that_changed_since_it_was_read_is_refused_with_the_new_text():
    model = ScriptedProvider([READ_A, EDIT_A, says("I see.")])
    async with running_agent(model, capabilities=FULL_CLIENT, settings=EDIT) as agent:
        path = str(agent.folder / "a.txt")
        agent.editor.files[path] = "one\n"
        reads: list[str] = []

        def type_after_the_first_read(asked: str) -> None:
            reads.append(asked)
            if len(reads) == 2:
                agent.editor.files[path] = "one, and the person typed\n"

        agent.editor.disk.habits.before_read = type_after_the_first_read
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        result = last_result(model.requests[2])
        assert result.is_error
        assert "1\tone, and the person typed" in result.text
        assert requests(agent, "fs/write_text_file") == []


async def test_an_edit_of_a_file_that_changed_while_the_person_thought_is_refused():
    model = ScriptedProvider([READ_A, EDIT_A, says("I see.")])
    async with running_agent(model, capabilities=FULL_CLIENT) as agent:
        path = str(agent.folder / "a.txt")
        agent.editor.files[path] = "one\n"

        async def type_and_allow(params: JsonDict) -> JsonDict:
            del params
            agent.editor.files[path] = "one, and the person typed\n"
            return {"outcome": "selected", "optionId": "allow_once"}

        agent.editor.permission = type_and_allow
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert "changed after this change was prepared" in last_result(model.requests[2]).text
        assert agent.editor.files[path] == "one, and the person typed\n"


async def test_after_a_command_a_newer_file_on_the_disk_wins_over_a_stale_buffer():
    model = ScriptedProvider([READ_A, calls("run_command", command="make"), READ_A, says("Done.")])
    async with running_agent(model, capabilities=FULL_CLIENT) as agent:
        path = agent.folder / "a.txt"
        path.write_text("before\n", encoding="utf-8")
        agent.editor.files[str(path)] = "before\n"
        os.utime(path, (1_700_000_000, 1_700_000_000))

        def make(state: FakeTerminalState) -> None:
            path.write_text("after\n", encoding="utf-8")
            state.end()

        agent.editor.terminals.run = make
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert last_result(model.requests[3]).text == "1\tafter"


async def test_a_write_goes_through_the_editor_alone():
    model = ScriptedProvider([calls("write_file", path="new.txt", content="text\n"), says("Done.")])
    async with running_agent(model, capabilities=FULL_CLIENT, settings=EDIT) as agent:
        agent.editor.disk.habits.saves = False
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert len(requests(agent, "fs/write_text_file")) == 1
        assert not (agent.folder / "new.txt").exists()
        assert "did not save it" in agent.editor.said()


@pytest.mark.parametrize(
    "capabilities", [{}, {"fs": {}}, {"fs": {"readTextFile": False, "writeTextFile": False}}, {"terminal": True}]
)
async def test_without_the_capability_the_disk_is_used(capabilities: JsonDict):
    model = ScriptedProvider([READ_A, EDIT_A, says("Done.")])
    async with running_agent(model, capabilities=capabilities, settings=EDIT) as agent:
        (agent.folder / "a.txt").write_text("one\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert (agent.folder / "a.txt").read_text(encoding="utf-8") == "two\n"
        assert agent.editor.requests == []


async def test_an_editor_that_only_reads_is_not_asked_to_write():
    model = ScriptedProvider([READ_A, EDIT_A, READ_A, says("Done.")])
    async with running_agent(model, capabilities={"fs": {"readTextFile": True}}, settings=EDIT) as agent:
        (agent.folder / "a.txt").write_text("one\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert (agent.folder / "a.txt").read_text(encoding="utf-8") == "two\n"
        assert {method for method, _ in agent.editor.requests} == {"fs/read_text_file"}
        assert last_result(model.requests[3]).text == "1\ttwo"
