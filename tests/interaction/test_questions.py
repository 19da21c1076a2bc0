"""Questions of calls that run side by side, as editors really answer them: late, never, or by closing the panel."""

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import pytest

from pattern_acp.config.settings import Settings
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.journal.events import PermissionAsked
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.scripts import Turn, calls, says
from tests.support.turns import (
    CANCEL_SECONDS,
    events_of,
    of_type,
    prompting,
    results_of,
    statuses,
    unpaired_calls,
)

SETTINGS = Settings(editor_deadline_seconds=30)
TWO: Turn = calls("read_file", path="/etc/hostname") + calls("read_file", path="/etc/hosts")
"""Both read outside of the folder, side by side, and are asked about."""

AFTERWARDS: Turn = says("Here again.")
ALLOWED: JsonDict = {"outcome": "selected", "optionId": "allow_once"}
WITHDRAWN: JsonDict = {"outcome": "cancelled"}


class Panel:
    """Where questions come up; the person answers each when the test says so."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._answers: dict[str, JsonDict] = {}
        self._changed = anyio.Event()

    async def decide(self, params: JsonDict) -> JsonDict:
        call: str = params["toolCall"]["toolCallId"]
        self.asked.append(call)
        while call not in self._answers:
            await self._changed.wait()
        return self._answers[call]

    def answer(self, call: str, outcome: JsonDict) -> None:
        self._answers[call] = outcome
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


def withdrawn(agent: RunningAgent) -> int:
    return sum(by_agent and b"$/cancel_request" in line for by_agent, line in agent.editor.recording.both)


async def end_while_asking(end: Callable[[RunningAgent, str, Panel], Awaitable[None]]) -> None:
    """Two calls wait for the person; `end` is what their editor does then. The next prompt works all the same."""
    panel = Panel()
    model = ScriptedProvider([TWO, AFTERWARDS])
    async with running_agent(model, settings=SETTINGS, permission=panel.decide) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await agent.editor.wait_until(lambda: len(panel.asked) == 1)
            await end(agent, session, panel)
            assert await flight.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
        assert len(panel.asked) == 1, "the second question came up"
        assert len(model.requests) == 1
        assert {shown[-1] for shown in statuses(agent.editor).values()} == {"failed"}
        assert len(of_type(await events_of(agent, session), PermissionAsked)) == 1
        for call in ("call_1", "call_2"):
            panel.answer(call, ALLOWED)
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/resume", params)
        assert await agent.editor.prompt(session, "And now?") == {"stopReason": "end_turn"}
        assert agent.editor.said().endswith("Here again.")
        assert unpaired_calls(model.requests[-1]) == []


async def test_an_editor_that_answers_what_is_open_before_it_cancels_is_asked_nothing_more():
    async def end(agent: RunningAgent, session: str, panel: Panel) -> None:
        panel.answer(panel.asked[0], WITHDRAWN)
        await anyio.wait_all_tasks_blocked()
        await agent.editor.cancel(session)

    await end_while_asking(end)


async def test_an_editor_that_cancels_and_answers_later_or_never_is_asked_nothing_more():
    async def end(agent: RunningAgent, session: str, panel: Panel) -> None:
        del panel
        await agent.editor.cancel(session)
        await agent.editor.wait_until(lambda: withdrawn(agent) == 1)

    await end_while_asking(end)


async def test_a_panel_that_is_closed_takes_its_questions_along():
    async def end(agent: RunningAgent, session: str, panel: Panel) -> None:
        del panel
        assert await agent.editor.request("session/close", {"sessionId": session}) == {}
        assert withdrawn(agent) == 1

    await end_while_asking(end)


@pytest.mark.first_version("a prompt that comes during a turn joins it")
async def test_a_prompt_that_is_typed_instead_of_an_answer_withdraws_the_questions():
    panel = Panel()
    model = ScriptedProvider([TWO, AFTERWARDS])
    async with running_agent(model, settings=SETTINGS, permission=panel.decide) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await agent.editor.wait_until(lambda: len(panel.asked) == 1)
            assert await agent.editor.prompt(session, "No, do this.") == {"stopReason": "end_turn"}
            assert await flight.stop_reason() == "cancelled"
        assert (len(panel.asked), withdrawn(agent)) == (1, 1)
        assert agent.editor.said().endswith("Here again.")


async def test_a_question_that_is_withdrawn_without_a_cancel_is_a_refusal_and_the_next_one_comes():
    panel = Panel()
    model = ScriptedProvider([TWO, AFTERWARDS])
    async with running_agent(model, settings=SETTINGS, permission=panel.decide) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await agent.editor.wait_until(lambda: len(panel.asked) == 1)
            panel.answer(panel.asked[0], WITHDRAWN)
            await agent.editor.wait_until(lambda: len(panel.asked) == 2)
            panel.answer(panel.asked[1], ALLOWED)
            assert await flight.stop_reason() == "end_turn"
        results = {result.call_id: result for result in results_of(model.requests[-1])}
        refused, allowed = (results[ToolCallId(call)] for call in panel.asked)
        assert "The user refused this call" in refused.text
        assert (refused.is_error, allowed.is_error) == (True, False)
        assert [statuses(agent.editor)[call][-1] for call in panel.asked] == ["failed", "completed"]


async def test_the_second_question_is_not_answered_by_a_late_click_on_the_first():
    panel = Panel()
    model = ScriptedProvider([TWO, TWO, AFTERWARDS])
    async with running_agent(model, settings=SETTINGS, permission=panel.decide) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await agent.editor.wait_until(lambda: len(panel.asked) == 1)
            await agent.editor.cancel(session)
            assert await flight.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
        async with prompting(agent.editor, session) as flight:
            await agent.editor.wait_until(lambda: len(panel.asked) == 2)
            panel.answer(panel.asked[0], ALLOWED)
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
            assert len(panel.asked) == 2
            assert statuses(agent.editor)[panel.asked[1]] == ["pending"]
            panel.answer(panel.asked[1], {"outcome": "selected", "optionId": "reject_once"})
            await agent.editor.wait_until(lambda: len(panel.asked) == 3)
            panel.answer(panel.asked[2], ALLOWED)
            assert await flight.stop_reason() == "end_turn"
        results = {result.call_id: result for result in results_of(model.requests[-1])}
        assert [results[ToolCallId(call)].is_error for call in panel.asked[1:]] == [True, False]


async def test_subagents_ask_one_at_a_time_and_one_that_is_stopped_gives_way_to_the_next():
    panel = Panel()
    both = calls("delegate", kind="explorer", name="one", task="Do it.")
    both += calls("delegate", kind="explorer", name="two", task="Do it.")
    look = calls("read_file", path="/etc/hostname")
    model = ScriptedProvider(
        [both, says("Both are back.")], subagents={"one": [look, says("One.")], "two": [look, says("Two.")]}
    )
    async with running_agent(model, settings=SETTINGS, permission=panel.decide) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await agent.editor.wait_until(lambda: len(panel.asked) == 1)
            (first,) = panel.asked
            assert withdrawn(agent) == 0
            stopped: JsonDict = {"sessionId": session, "toolCallId": first}
            await agent.editor.request("_pattern/subagent/stop", stopped)
            await agent.editor.wait_until(lambda: len(panel.asked) == 2)
            assert withdrawn(agent) == 1
            panel.answer(panel.asked[1], ALLOWED)
            assert await flight.stop_reason() == "end_turn"
        assert {asked["sessionId"] for asked in agent.editor.asked} == {session}
        assert set(panel.asked) == {"call_1", "call_2"}
        assert statuses(agent.editor)[panel.asked[1]][-1] == "completed"
