"""Language servers in whole conversations: what an edit broke, and questions and renaming through code_map."""

from pathlib import Path

import anyio
import anyio.lowlevel
from msgspec.structs import replace

from pattern_acp.config.settings import HookSettings, Settings
from pattern_acp.domain.messages import Role
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.memory_context import reload_history
from tests.support.agent import FULL_CLIENT, running_agent
from tests.support.editor import choose
from tests.support.language_servers import fake_server
from tests.support.scripts import calls, gate, says
from tests.support.turns import last_result, prompting, results_of

FILES_ONLY = {**FULL_CLIENT, "terminal": False}


def with_server(kind: str = "usual", argument: str = "", *, seconds: int = 30, mode: str = "edit") -> Settings:
    settings = Settings(editor_deadline_seconds=30, lsp=replace(fake_server(kind, argument), wait_seconds=seconds))
    return replace(settings, mode="plan" if mode == "plan" else "ask" if mode == "ask" else "edit")


def write(path: str, content: str):
    return calls("write_file", path=path, content=content)


async def test_new_errors_stand_behind_the_last_edit_and_are_shown_and_replayed(tmp_path: Path):
    two = (*write("a.txt", "fine\nbad\n"), *write("b.txt", "fine\n"))
    model = ScriptedProvider([two, write("a.txt", "still bad\n"), says("Done."), says("Again.")])
    async with running_agent(model, settings=with_server(), database=tmp_path / "c.db") as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        first, second = results_of(model.requests[1])
        assert "new error" not in first.text
        assert second.text.endswith(
            "Since the last edits, 1 new error by the language server:\na.txt:2:1 bad is not allowed (fake E1)"
        )
        assert "new error" not in last_result(model.requests[2]).text, "an old error is not told again"
        shown = next(call for call in agent.editor.of_kind("tool_call") if call["title"] == "1 new error")
        assert shown["locations"] == [{"path": str(agent.folder / "a.txt"), "line": 2}]
        told = results_of(model.requests[1])
        await reload_history(agent.sessions.get(session).dialogue)
        await agent.editor.prompt(session, "More.")
        assert results_of(model.requests[3])[:2] == told
        await agent.editor.prompt(session, "/status")
        assert "fake (ready)" in agent.editor.said()


async def test_errors_that_come_too_late_let_the_model_go_on(tmp_path: Path):
    judged, waits = tmp_path / "judged", gate()
    model = ScriptedProvider(
        [write("a.txt", "bad\n"), (waits, *says("Done.")), write("a.txt", "fine\n"), says("Mended.")]
    )
    async with running_agent(model, settings=with_server("held", str(judged), seconds=0)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await waits.reached.wait()
            judged.touch()
            servers = agent.sessions.get(session).languages
            assert servers is not None
            with anyio.fail_after(30):
                while any(each.synced.files.incomplete(anyio.current_time()) for each in servers.started.all):
                    await anyio.lowlevel.checkpoint()
            waits.opened.set()
            assert await flight.stop_reason() == "end_turn"
        assert "new error" not in last_result(model.requests[1]).text
        told = model.requests[2].messages[-1]
        assert told.role is Role.USER
        assert "a.txt:1:1 bad is not allowed" in told.text
        assert agent.editor.said().endswith("Mended.")


async def test_the_text_is_the_one_in_the_editor():
    edit = calls("edit_file", path="a.txt", edits=[{"old_text": "two", "new_text": "bad"}])
    model = ScriptedProvider([edit, says("Done.")])
    async with running_agent(model, capabilities=FILES_ONLY, settings=with_server()) as agent:
        path = agent.folder / "a.txt"
        path.write_text("other\n", encoding="utf-8")
        agent.editor.files[str(path)] = "bad\n😀 two\n"
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert last_result(model.requests[1]).text.endswith("a.txt:2:3 bad is not allowed (fake E1)")


async def test_definitions_and_references_are_shown_with_their_lines():
    questions = (
        *calls("code_map", operation="definition", query="b.txt:1:one"),
        *calls("code_map", operation="references", query="b.txt:one", limit=1),
        *calls("code_map", operation="references", query="b.txt:1:none"),
        *calls("code_map", operation="definition", query="nothing"),
        *calls("code_map", operation="definition", query="missing.txt:1:one"),
        *calls("code_map", operation="definition", query="c.other:1:one"),
    )
    model = ScriptedProvider([questions, says("Done.")])
    async with running_agent(model, settings=with_server()) as agent:
        (agent.folder / "a.txt").write_text("# one\n", encoding="utf-8")
        (agent.folder / "b.txt").write_text("😀 one\n", encoding="utf-8")
        (agent.folder / "c.other").write_text("one\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        found = [result.text for result in results_of(model.requests[1])]
        assert found[0] == "answered by a language server\none: 1 definition\na.txt:1 # one"
        assert found[1].splitlines()[1:] == [
            "one: 2 references, the definition included",
            "a.txt:1 # one",
            "1 more; raise limit",
        ]
        assert found[2].startswith("There is no none at b.txt:1")
        assert "The index knows nothing called 'nothing'" in found[3]
        assert "missing.txt does not exist" in found[4]
        assert "There is no language server for c.other" in found[5]


async def test_a_renaming_is_one_edit_that_the_person_is_asked_about():
    rename = calls("code_map", operation="rename", query="b.txt:1:one", new_name="bad")
    model = ScriptedProvider([rename, says("Done.")])
    async with running_agent(model, settings=with_server(mode="ask"), permission=choose("allow_once")) as agent:
        (agent.folder / "a.txt").write_text("one\n", encoding="utf-8")
        (agent.folder / "b.txt").write_text("😀 one two one\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        (asked,) = agent.editor.asked
        assert asked["toolCall"]["kind"] == "edit"
        diffs = [item for item in asked["toolCall"]["content"] if item["type"] == "diff"]
        assert [item["newText"] for item in diffs] == ["bad\n", "😀 bad two bad\n"]
        assert (agent.folder / "b.txt").read_text(encoding="utf-8") == "😀 bad two bad\n"
        text = last_result(model.requests[1]).text
        assert text.startswith("Renamed in a.txt at 1 place.\nRenamed in b.txt at 2 places.\n")
        assert "3 new errors by the language server" in text


async def test_a_renaming_goes_by_what_the_editor_has_not_saved():
    rename = calls("code_map", operation="rename", query="b.txt:1:one", new_name="six")
    model = ScriptedProvider([rename, says("Done.")])
    async with running_agent(model, capabilities=FILES_ONLY, settings=with_server()) as agent:
        first, second = agent.folder / "a.txt", agent.folder / "b.txt"
        first.write_text("one\n", encoding="utf-8")
        second.write_text("one\n", encoding="utf-8")
        agent.editor.files.update({str(first): "new line\none\n", str(second): "one\n"})
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert agent.editor.files[str(first)] == "new line\nsix\n"


async def test_plan_mode_and_a_hook_on_edits_refuse_a_renaming():
    rename = calls("code_map", operation="rename", query="b.txt:1:one", new_name="six")
    for settings, said in (
        (with_server(mode="plan"), "Plan mode changes no files."),
        (
            replace(with_server(), hooks=(HookSettings("PreToolUse", "echo no >&2; exit 2", "Edit"),)),
            "A hook refused it: no.",
        ),
    ):
        model = ScriptedProvider([rename, says("Done.")])
        async with running_agent(model, settings=settings) as agent:
            (agent.folder / "b.txt").write_text("one\n", encoding="utf-8")
            session = await agent.editor.open_session(str(agent.folder))
            await agent.editor.prompt(session, "Go.")
            assert said in last_result(model.requests[1]).text
            assert (agent.folder / "b.txt").read_text(encoding="utf-8") == "one\n"


async def test_renaming_needs_a_name_and_the_persons_own_words_do_it_too():
    model = ScriptedProvider([calls("code_map", operation="rename", query="b.txt:1:one"), says("Done.")])
    async with running_agent(model, settings=with_server()) as agent:
        (agent.folder / "b.txt").write_text("one\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert "`new_name` must be one name" in last_result(model.requests[1]).text
        await agent.editor.prompt(session, "/code definition b.txt:1:one")
        assert "one: 1 definition" in agent.editor.said()
        await agent.editor.prompt(session, "/code rename b.txt:1:one six")
        assert (agent.folder / "b.txt").read_text(encoding="utf-8") == "six\n"


async def test_a_session_in_which_a_slash_command_alone_changed_files_is_listed_by_that_command():
    async with running_agent(ScriptedProvider([]), settings=with_server()) as agent:
        (agent.folder / "b.txt").write_text("one\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/code rename b.txt:1:one six")
        assert (agent.folder / "b.txt").read_text(encoding="utf-8") == "six\n"
        (row,) = (await agent.editor.request("session/list", {}))["sessions"]
        assert row["title"] == "/code rename b.txt:1:one six"


async def test_deleted_and_moved_files_are_closed():
    moved = "*** Update File: b.txt\n*** Move to: c.txt\n@@\n-two\n+bad\n"
    patch = f"*** Begin Patch\n*** Delete File: a.txt\n{moved}*** End Patch"
    model = ScriptedProvider(
        [(*write("a.txt", "one\n"), *write("b.txt", "two\n")), calls("apply_patch", input=patch), says("Done.")]
    )
    async with running_agent(model, settings=with_server()) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert "c.txt:1:1 bad is not allowed" in last_result(model.requests[2]).text
        await agent.editor.request("session/close", {"sessionId": session})
