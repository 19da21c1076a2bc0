"""Who is asked, what they see, and what their answer does, on the disk and in the editor."""

import sys
from pathlib import Path
from typing import cast

import pytest

from pattern_acp.config.settings import PolicySettings, Settings
from pattern_acp.journal.events import GrantStored, PermissionAnswered, PermissionAsked, PermissionDecided
from pattern_acp.jsonrpc.messages import RpcError
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import FULL_CLIENT, RunningAgent, running_agent
from tests.support.editor import JsonDict, PermissionAnswer, choose
from tests.support.editor_terminals import end_with
from tests.support.scripts import Turn, calls, calls_raw, says
from tests.support.turns import events_of, last_result, of_type, results_of, statuses

NEW_FILE: Turn = calls("write_file", path="new.txt", content="text\n")
TERMINAL_CLIENT: JsonDict = {"terminal": True}


async def ask_once(agent: RunningAgent, text: str = "Go.") -> str:
    session = await agent.editor.open_session(str(agent.folder))
    assert await agent.editor.prompt(session, text) == {"stopReason": "end_turn"}
    return session


@pytest.mark.parametrize(("option", "happens"), [("allow_once", True), ("allow_always", True), ("reject_once", False)])
async def test_an_edit_happens_when_it_is_allowed_and_only_then(option: str, *, happens: bool):
    model = ScriptedProvider([NEW_FILE, says("Done.")])
    async with running_agent(model, capabilities=FULL_CLIENT, permission=choose(option)) as agent:
        await ask_once(agent)
        assert (agent.folder / "new.txt").exists() == happens
        assert (str(agent.folder / "new.txt") in agent.editor.files) == happens
        assert last_result(model.requests[1]).is_error == (not happens)
        final = "completed" if happens else "failed"
        assert next(iter(statuses(agent.editor).values()))[-1] == final


async def test_a_refused_edit_leaves_the_file_as_it_was_and_tells_the_model():
    model = ScriptedProvider(
        [calls("edit_file", path="a.txt", edits=[{"old_text": "one", "new_text": "two"}]), says("I see.")]
    )
    async with running_agent(model, capabilities=FULL_CLIENT, permission=choose("reject_once")) as agent:
        path = agent.folder / "a.txt"
        path.write_text("one\n", encoding="utf-8")
        agent.editor.files[str(path)] = "one\n"
        await ask_once(agent)
        assert path.read_text(encoding="utf-8") == "one\n"
        assert agent.editor.files[str(path)] == "one\n"
        assert "fs/write_text_file" not in [method for method, _ in agent.editor.requests]
        assert "refused" in last_result(model.requests[1]).text
        assert agent.editor.said() == "I see."


async def unknown_option(params: JsonDict) -> JsonDict:
    del params
    return {"outcome": "selected", "optionId": "yes_please"}


async def an_error(params: JsonDict) -> JsonDict:
    del params
    raise RpcError(-32601, "Method not found")


async def cancelled(params: JsonDict) -> JsonDict:
    del params
    return {"outcome": "cancelled"}


async def nonsense(params: JsonDict) -> JsonDict:
    del params
    return {"outcome": "selected"}


@pytest.mark.parametrize("permission", [unknown_option, an_error, cancelled, nonsense])
async def test_anything_but_an_offered_allowance_is_a_refusal_and_the_turn_goes_on(permission: PermissionAnswer):
    model = ScriptedProvider([NEW_FILE, says("I see.")])
    async with running_agent(model, permission=permission) as agent:
        session = await ask_once(agent)
        assert not (agent.folder / "new.txt").exists()
        assert agent.editor.said() == "I see."
        (answered,) = of_type(await events_of(agent, session), PermissionAnswered)
        assert answered.answer in {"reject_once", "cancelled"}


@pytest.mark.first_version("diffs are patches")
async def test_the_question_shows_the_diff_first_the_reason_and_the_whole_call():
    model = ScriptedProvider([NEW_FILE, says("Done.")])
    async with running_agent(model) as agent:
        await ask_once(agent)
        (asked,) = agent.editor.asked
        call = cast("JsonDict", asked["toolCall"])
        path = str(agent.folder / "new.txt")
        assert call["content"][0] == {"type": "diff", "path": path, "newText": "text\n"}
        reason = call["content"][1]["content"]["text"]
        assert "mode `ask` asks before each edit" in reason
        assert (call["kind"], call["status"], call["title"]) == ("edit", "pending", "Create new.txt")
        assert call["rawInput"] == {"path": "new.txt", "content": "text\n"}
        assert call["locations"] == [{"path": path, "line": 1}]
        kinds = [option["kind"] for option in asked["options"]]
        assert kinds == ["allow_once", *["allow_always"] * 3, "reject_once", "reject_always"]
        ids = [option["optionId"] for option in asked["options"]]
        assert ids[1:4] == ["allow_always", "allow_always_turn", "allow_always_project"]
        assert (ids[0], *ids[4:]) == ("allow_once", "reject_once", "reject_always")


async def test_the_call_stays_pending_while_it_is_asked_about():
    seen: list[list[str]] = []
    model = ScriptedProvider([NEW_FILE, says("Done.")])
    async with running_agent(model) as agent:

        async def look(params: JsonDict) -> JsonDict:
            seen.append(statuses(agent.editor)[params["toolCall"]["toolCallId"]])
            return {"outcome": "selected", "optionId": "allow_once"}

        agent.editor.permission = look
        await ask_once(agent)
        assert seen == [["pending"]]
        assert next(iter(statuses(agent.editor).values())) == ["pending", "in_progress", "completed"]


async def test_the_title_and_the_content_of_a_command_hold_the_command():
    model = ScriptedProvider([calls("run_command", command="pytest -q tests", description="Run it"), says("Done.")])
    async with running_agent(model, capabilities=TERMINAL_CLIENT) as agent:
        await ask_once(agent)
        (asked,) = agent.editor.asked
        call = cast("JsonDict", asked["toolCall"])
        assert call["title"] == "pytest -q tests"
        assert "pytest -q tests" in call["content"][0]["content"]["text"]


async def test_a_refused_command_never_ran():
    model = ScriptedProvider([calls("run_command", command="touch made"), says("I see.")])
    async with running_agent(model, capabilities=TERMINAL_CLIENT, permission=choose("reject_once")) as agent:
        await ask_once(agent)
        assert agent.editor.terminals.by_id == {}
        assert not (agent.folder / "made").exists()
        assert "refused" in last_result(model.requests[1]).text


@pytest.mark.skipif(sys.platform == "win32", reason="the command lines are written for a POSIX shell")
async def test_a_refused_command_of_ours_never_ran():
    model = ScriptedProvider([calls("run_command", command="touch made"), says("I see.")])
    async with running_agent(model, permission=choose("reject_once")) as agent:
        await ask_once(agent)
        assert not (agent.folder / "made").exists()


async def test_allow_always_covers_the_next_command_of_the_prefix_and_nothing_smuggled_in():
    model = ScriptedProvider(
        [
            calls("run_command", command="pytest tests/a"),
            calls("run_command", command="pytest tests/b"),
            calls("run_command", command="pytest tests/b; rm -rf /"),
            calls("run_command", command="pytest $(rm -rf /)"),
            calls("run_command", command="pytest > ../out"),
            says("Done."),
        ]
    )
    async with running_agent(model, capabilities=TERMINAL_CLIENT, permission=choose("allow_always")) as agent:
        agent.editor.terminals.run = end_with("ok", 0)
        session = await agent.editor.open_session(str(agent.folder))
        asked_after: list[int] = []
        agent.editor.watch = lambda update: asked_after.append(len(agent.editor.asked)) if is_end(update) else None
        await agent.editor.prompt(session, "Go.")
        assert asked_after == [1, 1, 2, 3, 4]


async def test_our_own_program_asks_in_auto_after_an_always_too_and_offers_none():
    trust = calls("run_command", command="pattern-acp trust --yes .")
    reads = calls("run_command", command="pattern-acp memory list")
    model = ScriptedProvider([reads, trust, says("I see.")])
    settings = Settings(editor_deadline_seconds=30, mode="auto")
    async with running_agent(model, settings=settings, permission=choose("reject_once")) as agent:
        await ask_once(agent)
        (asked,) = agent.editor.asked
        assert asked["toolCall"]["rawInput"]["command"] == "pattern-acp trust --yes ."
        assert [option["kind"] for option in asked["options"]] == ["allow_once", "reject_once"]
        assert last_result(model.requests[2]).is_error


def is_end(update: JsonDict) -> bool:
    return update["update"].get("status") in {"completed", "failed"}


async def test_reject_always_refuses_the_next_one_without_asking():
    model = ScriptedProvider(
        [calls("run_command", command="make a"), calls("run_command", command="make a"), says("I see.")]
    )
    async with running_agent(model, capabilities=TERMINAL_CLIENT, permission=choose("reject_always")) as agent:
        session = await ask_once(agent)
        assert len(agent.editor.asked) == 1
        assert [result.is_error for result in results_of(model.requests[2])] == [True, True]
        assert agent.editor.terminals.by_id == {}
        decided = of_type(await events_of(agent, session), PermissionDecided)
        assert [item.verdict for item in decided] == ["ask", "deny"]


async def test_a_call_that_did_not_run_shows_why_below_what_it_would_have_done():
    model = ScriptedProvider(
        [calls("run_command", command="make a"), calls("run_command", command="make a"), says("I see.")]
    )
    async with running_agent(model, capabilities=TERMINAL_CLIENT, permission=choose("reject_always")) as agent:
        await ask_once(agent)
        ends = [update["update"] for update in agent.editor.updates if is_end(update)]
        shown = [[item["content"]["text"] for item in end["content"]] for end in ends]
        assert shown[0] == ["```sh\nmake a\n```", "Refused; it did not run."]
        assert shown[1][0] == "```sh\nmake a\n```"
        assert shown[1][1].startswith("Not allowed: ")


async def test_an_allowance_survives_a_load():
    first, second = (calls("run_command", command=f"pytest tests/{name}") for name in "ab")
    model = ScriptedProvider([first, says("One."), second, says("Two.")])
    async with running_agent(model, capabilities=TERMINAL_CLIENT, permission=choose("allow_always")) as agent:
        session = await ask_once(agent)
        folder = str(agent.folder)
        await agent.editor.request("session/load", {"sessionId": session, "cwd": folder, "mcpServers": []})
        await agent.editor.prompt(session, "Again.")
        assert len(agent.editor.asked) == 1
        assert len(agent.editor.terminals.by_id) == 2
        (grant,) = of_type(await events_of(agent, session), GrantStored)
        assert (grant.effect, grant.kind, grant.lifetime) == ("allow", "command_prefix", "session")


async def test_an_allowance_ends_with_its_session():
    turns = [calls("run_command", command="make a"), says("One."), calls("run_command", command="make a"), says("Two.")]
    async with running_agent(
        ScriptedProvider(turns), capabilities=TERMINAL_CLIENT, permission=choose("allow_always")
    ) as agent:
        await ask_once(agent)
        await ask_once(agent)
        assert len(agent.editor.asked) == 2


async def test_what_is_allowed_in_a_project_is_not_asked_again_after_a_restart_nor_elsewhere(tmp_path: Path):
    def model() -> ScriptedProvider:
        return ScriptedProvider([calls("run_command", command="pytest tests/a"), says("Done.")] * 2)

    database, project, other = tmp_path / "constellation.db", tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    asked: list[int] = []
    for folder in (project, project, other):
        agent_with = running_agent(
            model(), capabilities=TERMINAL_CLIENT, database=database, permission=choose("allow_always_project")
        )
        async with agent_with as agent:
            session = await agent.editor.open_session(str(folder))
            await agent.editor.prompt(session, "Go.")
            asked.append(len(agent.editor.asked))
    assert asked == [1, 0, 1]


async def test_what_is_allowed_for_the_persona_is_asked_nowhere_again():
    turn = [calls("run_command", command="pytest tests/a"), says("Done.")]
    async with running_agent(
        ScriptedProvider(turn * 2), capabilities=TERMINAL_CLIENT, permission=choose("allow_always_persona")
    ) as agent:
        await ask_once(agent)
        other = agent.folder / "other"
        other.mkdir()
        await agent.editor.prompt(await agent.editor.open_session(str(other)), "Go.")
        assert len(agent.editor.asked) == 1


async def test_edits_that_are_allowed_for_the_rest_of_the_turn_ask_again_in_the_next():
    def edits() -> list[Turn]:
        return [calls("write_file", path=f"{folder}/a.txt", content="x\n") for folder in ("one", "two", "three")]

    model = ScriptedProvider([*edits(), says("Done."), NEW_FILE, says("Done.")])
    async with running_agent(model, permission=choose("allow_always_turn")) as agent:
        session = await ask_once(agent)
        assert len(agent.editor.asked) == 1
        assert (agent.folder / "three" / "a.txt").exists()
        await agent.editor.prompt(session, "Again.")
        assert len(agent.editor.asked) == 2
        assert agent.sessions.get(session).state.policy.mode == "ask"


@pytest.mark.parametrize("remembers", [True, False])
async def test_a_new_session_begins_in_the_mode_of_the_last_in_its_folder_where_the_user_wishes(*, remembers: bool):
    settings = Settings(editor_deadline_seconds=30, policy=PolicySettings(remember_mode=remembers))
    async with running_agent(ScriptedProvider([says("Hello.")]), settings=settings) as agent:
        first = await agent.editor.open_session(str(agent.folder))
        await agent.editor.request("session/set_mode", {"sessionId": first, "modeId": "edit"})
        await agent.editor.prompt(first, "Hello")
        other = agent.folder / "other"
        other.mkdir()
        modes = [
            agent.sessions.get(await agent.editor.open_session(str(folder))).state.policy.mode
            for folder in (agent.folder, other)
        ]
        assert modes == (["edit", "ask"] if remembers else ["ask", "ask"])


async def test_a_folder_without_sessions_begins_in_the_mode_of_the_last_in_its_project():
    settings = Settings(editor_deadline_seconds=30, policy=PolicySettings(remember_mode=True))
    async with running_agent(ScriptedProvider([says("Hello.")]), settings=settings) as agent:
        (agent.folder / ".git").mkdir()
        (agent.folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        below = agent.folder / "packages" / "one"
        below.mkdir(parents=True)
        first = await agent.editor.open_session(str(agent.folder))
        await agent.editor.request("session/set_mode", {"sessionId": first, "modeId": "edit"})
        await agent.editor.prompt(first, "Hello")
        assert agent.sessions.get(await agent.editor.open_session(str(below))).state.policy.mode == "edit"


async def test_a_mode_that_changes_during_the_turn_is_honoured_by_the_next_call():
    model = ScriptedProvider(
        [
            calls("write_file", path="one.txt", content="1\n"),
            calls("write_file", path="two.txt", content="2\n"),
            calls("write_file", path="three.txt", content="3\n"),
            says("Done."),
        ]
    )
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))

        async def switch(params: JsonDict) -> JsonDict:
            await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "edit"})
            return {"outcome": "selected", "optionId": "allow_once"}

        agent.editor.permission = switch
        await agent.editor.prompt(session, "Go.")
        assert len(agent.editor.asked) == 1
        assert (agent.folder / "three.txt").exists()


async def test_a_switch_to_plan_during_the_turn_stops_changes():
    model = ScriptedProvider([NEW_FILE, calls("write_file", path="two.txt", content="2\n"), says("I see.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))

        async def switch(params: JsonDict) -> JsonDict:
            del params
            await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "plan"})
            return {"outcome": "selected", "optionId": "allow_once"}

        agent.editor.permission = switch
        await agent.editor.prompt(session, "Go.")
        assert (agent.folder / "new.txt").exists()
        assert not (agent.folder / "two.txt").exists()
        assert "Plan mode" in last_result(model.requests[2]).text


CHANGING: list[tuple[str, Turn]] = [
    ("write_file", NEW_FILE),
    ("edit_file", calls("edit_file", path="a.txt", edits=[{"old_text": "one", "new_text": "two"}])),
    ("run_command", calls("run_command", command="touch made")),
    ("memory_write", calls("memory_write", label="human", operation="append", text="Likes tea.", reason="Said so.")),
]


@pytest.mark.parametrize(("name", "turn"), CHANGING, ids=[name for name, _ in CHANGING])
async def test_plan_mode_offers_nothing_that_changes_anything_and_refuses_it_all_the_same(name: str, turn: Turn):
    model = ScriptedProvider([turn, says("I see.")])
    async with running_agent(model, capabilities=FULL_CLIENT) as agent:
        (agent.folder / "a.txt").write_text("one\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "plan"})
        await agent.editor.prompt(session, "Go.")
        offered = {tool.name for tool in model.requests[0].tools}
        assert name not in offered
        assert "read_file" in offered
        result = last_result(model.requests[1])
        assert result.is_error
        assert "Plan mode" in result.text
        assert agent.editor.asked == []
        assert not (agent.folder / "new.txt").exists()
        assert (agent.folder / "a.txt").read_text(encoding="utf-8") == "one\n"
        assert agent.editor.terminals.by_id == {}


async def test_a_tool_that_does_not_exist_is_named_with_those_that_do():
    model = ScriptedProvider([calls_raw("delete_everything", "{}"), says("I see.")])
    async with running_agent(model) as agent:
        await ask_once(agent)
        result = last_result(model.requests[1])
        assert result.is_error
        assert "read_file" in result.text
        assert next(iter(statuses(agent.editor).values())) == ["pending", "failed"]


async def test_every_decision_is_recorded_with_its_reason():
    model = ScriptedProvider([calls("read_file", path="a.txt"), NEW_FILE, says("Done.")])
    async with running_agent(model) as agent:
        (agent.folder / "a.txt").write_text("one\n", encoding="utf-8")
        session = await ask_once(agent)
        events = await events_of(agent, session)
        decided = [(item.verdict, item.rule, bool(item.reason)) for item in of_type(events, PermissionDecided)]
        assert decided == [("allow", "inside_read", True), ("ask", "ask_mode", True)]
        (asked,) = of_type(events, PermissionAsked)
        always = ("allow_always", "allow_always_turn", "allow_always_project")
        assert asked.options == ("allow_once", *always, "reject_once", "reject_always")
        (answered,) = of_type(events, PermissionAnswered)
        assert answered.answer == "allow_once"


async def test_the_call_the_decision_and_the_question_are_in_the_journal_before_the_person_is_asked():
    async with running_agent(ScriptedProvider([NEW_FILE, says("Done.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        recorded: list[str] = []

        async def look(params: JsonDict) -> JsonDict:
            del params
            recorded.extend(type(event).__name__ for event in await events_of(agent, session))
            return {"outcome": "selected", "optionId": "allow_once"}

        agent.editor.permission = look
        await agent.editor.prompt(session, "Go.")
        assert recorded[-4:] == ["MessageRecorded", "ToolCallStarted", "PermissionDecided", "PermissionAsked"]


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege there")
async def test_a_link_that_leads_out_of_the_folders_asks(tmp_path: Path):
    (tmp_path / "secret.txt").write_text("outside\n", encoding="utf-8")
    model = ScriptedProvider([calls("read_file", path="link.txt"), says("Done.")])
    async with running_agent(model, permission=choose("reject_once")) as agent:
        (agent.folder / "link.txt").symlink_to(tmp_path / "secret.txt")
        await ask_once(agent)
        assert len(agent.editor.asked) == 1
        assert "outside" not in last_result(model.requests[1]).text.replace("outside the", "")


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege there")
async def test_a_link_that_is_swapped_while_the_person_thinks_is_refused(tmp_path: Path):
    (tmp_path / "precious.txt").write_text("precious\n", encoding="utf-8")
    model = ScriptedProvider([NEW_FILE, says("I see.")])
    async with running_agent(model) as agent:

        async def swap(params: JsonDict) -> JsonDict:
            del params
            (agent.folder / "new.txt").symlink_to(tmp_path / "precious.txt")
            return {"outcome": "selected", "optionId": "allow_once"}

        agent.editor.permission = swap
        await ask_once(agent)
        assert (tmp_path / "precious.txt").read_text(encoding="utf-8") == "precious\n"
        assert last_result(model.requests[1]).is_error
