"""Requests that run at once do not all spend the same rest of a budget; those that were cut are counted too."""

import anyio

from pattern_acp.config.settings import Settings
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.events import ModelRequested, PermissionAsked, SubagentRecorded, UsageReported
from pattern_acp.providers.base import UsageKnown
from pattern_acp.providers.http_errors import ProviderConnectionError, ProviderOverloadedError
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import choose
from tests.support.requests import begin_prompt
from tests.support.scripts import Turn, calls, gate, says, thinks, uses
from tests.support.turns import CANCEL_SECONDS, events_of, of_type, prompting


async def estimate_of(agent: RunningAgent, session: str) -> int:
    """Tokens of the newest request of a session, by our estimate."""
    return of_type(await events_of(agent, session), ModelRequested)[-1].estimate


async def test_another_window_is_held_back_by_what_a_request_that_runs_will_use():
    waits = gate()
    model = ScriptedProvider([says("One."), (waits, *says("Two.")), says("Three.")])
    async with running_agent(model, permission=choose("reject_once")) as agent:
        first, second = [await agent.editor.open_session(str(agent.folder)) for _ in range(2)]
        await agent.editor.prompt(first, "First")
        most = int(await estimate_of(agent, first) * 1.7)
        for session in (first, second):
            await agent.editor.prompt(session, f"/budget day {most} tokens")
        async with anyio.create_task_group() as tasks:
            running = begin_prompt(tasks, agent.editor, first, "Second")
            await waits.reached.wait()
            await agent.editor.prompt(second, "Third")
            assert len(model.requests) == 2
            assert len(of_type(await events_of(agent, second), PermissionAsked)) == 1
            waits.opened.set()
            await running.end()
        await agent.editor.prompt(second, "Third, again")
        assert agent.editor.said().endswith("Three.")


async def test_subagents_that_fit_one_after_the_other_wait_and_nobody_is_asked():
    waits = gate()
    both = calls("delegate", kind="explorer", name="one", task="Look.") + calls(
        "delegate", kind="explorer", name="two", task="Look."
    )
    model = ScriptedProvider(
        [says("One."), both, says("Done.")],
        subagents={"one": [(waits, *says("I looked."))], "two": [says("I looked as well.")]},
    )
    async with running_agent(model, settings=Settings(mode="auto"), permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "First")
        await agent.editor.prompt(session, f"/budget turn {int(await estimate_of(agent, session) * 1.5)} tokens")
        async with anyio.create_task_group() as tasks:
            running = begin_prompt(tasks, agent.editor, session, "Find it.")
            await waits.reached.wait()
            waits.opened.set()
            await running.end()
        events = await events_of(agent, session)
        assert of_type(events, PermissionAsked) == []
        inner = [event.event for event in of_type(events, SubagentRecorded)]
        assert len(of_type(inner, ModelRequested)) == 2
        assert agent.editor.said().endswith("Done.")


async def test_a_turn_that_the_person_stopped_at_a_budget_does_not_ask_for_its_other_requests_again():
    both = calls("delegate", kind="explorer", name="one", task="Look.") + calls(
        "delegate", kind="explorer", name="two", task="Look."
    )
    model = ScriptedProvider(
        [says("One."), both + uses(10**6, 1), calls("list_directory", path=".") + uses(10**6, 1)],
        subagents={"one": [says("I looked.")], "two": [says("I looked as well.")]},
    )
    async with running_agent(model, settings=Settings(mode="auto"), permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "First")
        await agent.editor.prompt(session, f"/budget turn {int(await estimate_of(agent, session) * 1.5)} tokens")
        await agent.editor.prompt(session, "Find it.")
        assert len(of_type(await events_of(agent, session), PermissionAsked)) == 1
        assert "Stopped: This turn has used 1,000,001 of" in agent.editor.said()
        # Another turn is another question.
        await agent.editor.prompt(session, "List it.")
        assert len(of_type(await events_of(agent, session), PermissionAsked)) == 2


async def reported_after_cancel(turn: Turn) -> UsageReported:
    """What is counted of a turn whose script waits at its end, when it is cancelled there."""
    waits = gate()
    model = ScriptedProvider([(*turn, waits)])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session, "Go.") as flight:
            await waits.reached.wait()
            await agent.editor.cancel(session)
            assert await flight.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
        await agent.editor.prompt(session, "/usage")
        assert "In this session, 1 of 1 requests were counted by nobody but us" in agent.editor.said()
        (reported,) = of_type(await events_of(agent, session), UsageReported)
        assert reported.estimated
        assert await estimate_of(agent, session) == reported.usage.input_tokens
        return reported


async def test_a_request_that_is_cancelled_counts_by_our_estimate_with_what_was_written():
    assert (await reported_after_cancel(())).usage.output_tokens == 0
    assert (await reported_after_cancel(says("x" * 400))).usage.output_tokens == 100
    assert (await reported_after_cancel(thinks("y" * 200))).usage.output_tokens == 50


async def test_a_request_that_its_provider_refused_counts_nothing_and_one_that_broke_counts():
    broken: Turn = (*says("x" * 40), ProviderConnectionError("The connection broke."))
    refused: Turn = (ProviderOverloadedError("It is overloaded."),)
    told: Turn = (UsageKnown(Usage(7, 1), Cost(3)), *says("z" * 80), ProviderConnectionError("The connection broke."))
    async with running_agent(ScriptedProvider([refused, broken, told])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Refused")
        assert of_type(await events_of(agent, session), UsageReported) == []
        await agent.editor.prompt(session, "Broken")
        await agent.editor.prompt(session, "Told its input only")
        first, second = of_type(await events_of(agent, session), UsageReported)
        assert (first.usage.output_tokens, first.estimated) == (10, True)
        assert (second.usage, second.estimated) == (Usage(7, 20), True)
