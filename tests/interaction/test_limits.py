"""When a turn stops by itself, and what is said about it."""

import pytest
from msgspec.structs import replace

from pattern_acp.cli.journal import current_means
from pattern_acp.config.settings import Settings, TurnSettings
from pattern_acp.journal.events import ErrorReported, PermissionAsked, TurnEnded
from pattern_acp.journal.history import read_history
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.replay.comparison import replay_turns
from tests.support.agent import FULL_CLIENT, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.editor_terminals import hang
from tests.support.passing_time import passing
from tests.support.scripts import calls, gate, says
from tests.support.turns import events_of, last_result, of_type, results_of, statuses, unpaired_calls


def limited(*, max_model_requests: int = 100, max_wall_seconds: int = 3600) -> Settings:
    return Settings(editor_deadline_seconds=30, turn=TurnSettings(max_model_requests, max_wall_seconds))


async def test_the_number_of_model_requests_is_limited():
    model = ScriptedProvider([calls("list_directory", path=".")], repeat=True)
    async with running_agent(model, settings=limited(max_model_requests=3)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "max_turn_requests"
        assert len(model.requests) == 3
        assert "limit of 3 model requests" in agent.editor.said()
        (ended,) = of_type(await events_of(agent, session), TurnEnded)
        assert ended.stop_reason == "max_turn_requests"


async def test_the_next_prompt_goes_on_where_the_limit_stopped():
    model = ScriptedProvider([calls("list_directory", path="."), says("Done.")])
    async with running_agent(model, settings=limited(max_model_requests=1)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "max_turn_requests"
        assert (await agent.editor.prompt(session, "Go on."))["stopReason"] == "end_turn"
        assert len(results_of(model.requests[1])) == 1


async def test_the_time_of_a_turn_is_limited():
    model = ScriptedProvider([calls("list_directory", path=".")], repeat=True)
    async with running_agent(model, settings=limited(max_wall_seconds=0)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "max_turn_requests"
        assert len(model.requests) == 1
        assert "limit of 0 seconds" in agent.editor.said()


async def test_the_time_is_limited_within_an_answer_and_what_came_is_kept():
    held = gate()
    model = ScriptedProvider([(*says("One, two"), held, *says("three")), says("Here again.")])
    async with running_agent(model, settings=limited(max_wall_seconds=6)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with passing(7, held.reached.wait):
            assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "max_turn_requests"
        assert "One, two" in agent.editor.said()
        assert "limit of 6 seconds and was ended in the middle" in agent.editor.said()
        assert (await agent.editor.prompt(session, "Go on."))["stopReason"] == "end_turn"
        assert "One, two" in [message.text for message in model.requests[-1].messages]


async def test_the_time_is_limited_within_a_call_and_the_model_is_told_why_it_ended():
    model = ScriptedProvider([calls("run_command", command="x"), says("Here again.")])
    settings = replace(limited(max_wall_seconds=6), mode="auto")
    async with running_agent(model, settings=settings, capabilities=FULL_CLIENT) as agent:
        agent.editor.terminals.run = hang
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "auto"})
        async with passing(7, lambda: agent.editor.wait_for_request("terminal/wait_for_exit")):
            assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "max_turn_requests"
        assert [shown[-1] for shown in statuses(agent.editor).values()] == ["failed"]
        assert (await agent.editor.prompt(session, "Go on."))["stopReason"] == "end_turn"
        assert unpaired_calls(model.requests[-1]) == []
        assert "The turn reached its limit of time" in last_result(model.requests[-1]).text


@pytest.mark.parametrize("path", ["missing.txt", "a.txt"], ids=["fails", "works"])
async def test_a_repeated_call_is_noted_at_the_third_time_and_ends_the_turn_when_the_user_refuses_the_fifth(path: str):
    model = ScriptedProvider([calls("read_file", path=path)], repeat=True)
    async with running_agent(model, permission=choose("reject_once")) as agent:
        (agent.folder / "a.txt").write_text("One line.\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "end_turn"
        assert len(model.requests) == 5
        noted = [" times" in result.text for result in results_of(model.requests[4])]
        assert noted == [False, False, True, True]
        assert "same call of read_file again and again" in agent.editor.said()
        assert [event.code for event in of_type(await events_of(agent, session), ErrorReported)] == ["turn.repeating"]
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        report = await replay_turns(session, recorded, current_means())
        assert (report.difference, report.requests) == (None, 5)


@pytest.mark.parametrize("path", ["missing.txt", "a.txt"], ids=["fails", "works"])
async def test_a_repeated_call_goes_on_when_the_user_allows_the_fifth(path: str):
    model = ScriptedProvider([*[calls("read_file", path=path)] * 7, says("Done.")])
    async with running_agent(model, permission=choose("allow_once")) as agent:
        (agent.folder / "a.txt").write_text("One line.\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert agent.editor.said() == "Done."
        assert len(of_type(await events_of(agent, session), PermissionAsked)) == 1
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        report = await replay_turns(session, recorded, current_means())
        assert (report.difference, report.requests) == (None, 8)


async def test_two_failing_calls_side_by_side_are_stopped_as_well():
    both = calls("read_file", path="missing.txt") + calls("read_file", path="gone.txt")
    model = ScriptedProvider([both], repeat=True)
    async with running_agent(model, permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert len(model.requests) == 5


async def test_a_change_of_the_workspace_begins_the_count_anew():
    fails, writes = calls("read_file", path="missing.txt"), calls("write_file", path="b.txt", content="b")
    model = ScriptedProvider([*[fails] * 2, writes, *[fails] * 2, says("Done.")])
    async with running_agent(model, permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert not any(" times" in result.text for result in results_of(model.requests[-1]))


async def test_the_limits_of_repeats_are_settings():
    model = ScriptedProvider([calls("list_directory", path=".")], repeat=True)
    settings = Settings(editor_deadline_seconds=30, turn=TurnSettings(repeats_noted=2, repeats_asked=3))
    async with running_agent(model, settings=settings, permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert len(model.requests) == 3
        assert [" 2 times" in result.text for result in results_of(model.requests[2])] == [False, True]


async def test_a_notice_about_repeats_is_still_there_after_a_load():
    fails = calls("read_file", path="missing.txt")
    model = ScriptedProvider([fails, fails, fails, says("I give up."), says("Yes.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        told = last_result(model.requests[3]).text
        assert "failed 3 times" in told
        load: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", load)
        await agent.editor.prompt(session, "Again?")
        assert last_result(model.requests[4]).text == told
