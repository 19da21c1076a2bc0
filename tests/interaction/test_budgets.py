"""Budgets: a notice at 80 %, a question at 100 %, and nothing at zero; over the wire, before every request."""

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import BudgetSettings, Settings
from pattern_acp.domain.clock import TurnId
from pattern_acp.domain.usage import Allowance, Cost, Usage, parse_allowance
from pattern_acp.journal.events import BudgetChanged, ModelRequested, PermissionAsked, ToolCallStarted, UsageReported
from pattern_acp.providers.base import ModelProperty, UsageKnown, UsageMissing
from pattern_acp.providers.catalogue import Source, with_sources
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.budgets import BudgetGate, limit_of
from pattern_acp.session.state import BudgetScope
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, PermissionAnswer, choose
from tests.support.scripts import Turn, calls, says, uses
from tests.support.turns import events_of, of_type


def costs(micro_units: int, tokens: int = 10) -> Turn:
    return (UsageKnown(Usage(tokens), Cost(micro_units)),)


def settings(**budget: str) -> Settings:
    return Settings(editor_deadline_seconds=30, mode="auto", budget=BudgetSettings(**budget))


def priced(agent: RunningAgent, name: str = "scripted", price: int = 1_000_000) -> None:
    """A model whose prompt costs a dollar a million tokens: a request of this size costs less than a cent."""
    info = agent.models.infos[name]
    agent.models.infos[name] = replace(info, input_price=price, output_price=price, prices="table 1")


async def refuse(_params: JsonDict) -> JsonDict:
    return {"outcome": {"outcome": "cancelled"}}


async def requests_of(agent: RunningAgent, session: str) -> int:
    return len(of_type(await events_of(agent, session), ModelRequested))


async def test_a_notice_comes_once_when_most_of_a_budget_is_used():
    model = ScriptedProvider([says("One.") + costs(850_000), says("Two.") + costs(1_000)])
    async with running_agent(model, settings=settings(session="1 USD")) as agent:
        priced(agent)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "First")
        assert "This session has used 0.8500 USD of 1.00 USD (/budget)." in agent.editor.said()
        await agent.editor.prompt(session, "Second")
        assert agent.editor.said().count("has used") == 1


@pytest.mark.parametrize(("answer", "expected"), [(choose("reject_once"), 1), (refuse, 1), (choose("allow_once"), 2)])
async def test_a_turn_pauses_in_its_middle_and_the_person_says_how_it_goes_on(answer: PermissionAnswer, expected: int):
    model = ScriptedProvider([calls("list_directory", path=".") + costs(2_000_000), says("Done.") + costs(1)])
    async with running_agent(model, settings=settings(turn="1 USD"), permission=answer) as agent:
        priced(agent)
        session = await agent.editor.open_session(str(agent.folder))
        assert (await agent.editor.prompt(session, "Go on."))["stopReason"] == "end_turn"
        assert await requests_of(agent, session) == expected
        events = await events_of(agent, session)
        assert len(of_type(events, PermissionAsked)) == 1
        assert [event.call.name for event in of_type(events, ToolCallStarted)] == ["list_directory", "budget"]
        said = agent.editor.said()
        assert ("Stopped: This turn has used 2.00 USD of 1.00 USD" in said) is (expected == 1)
        changes = of_type(events, BudgetChanged)
        # As much again as often as is needed to come out above what is spent.
        assert [(event.scope, event.allowance, event.by) for event in changes] == (
            [("turn", "3.00 USD", "extended")] if expected == 2 else []
        )


@pytest.mark.parametrize("scope", ["turn", "session", "day"])
@pytest.mark.parametrize(
    ("budget", "more", "in_all"),
    [
        # A step that the next request does not fit into, one that is smaller than the shown digits, and two at once.
        ("1 USD", "2.00 USD", "3.00 USD"),
        ("0.75 USD", "1.50 USD", "2.25 USD"),
        ("0.000007 USD", "", ""),
        ("30000 tokens", "90000 tokens", "120000 tokens"),
        ("5 USD, 30000 tokens", "15.00 USD, 90000 tokens", "20.00 USD, 120000 tokens"),
    ],
)
async def test_the_button_says_what_is_granted_and_the_event_and_the_limit_are_the_same(
    scope: BudgetScope, budget: str, more: str, in_all: str
):
    spending = (UsageKnown(Usage(100_000), Cost(2_000_000)),)
    model = ScriptedProvider([calls("list_directory", path=".") + spending, says("Done.")])
    # The budget is set in the middle of the turn, since a small one would not let the first request through.
    async with running_agent(model, settings=settings(), permission=choose("allow_once")) as agent:
        priced(agent)
        session = await agent.editor.open_session(str(agent.folder))
        opened = agent.sessions.get(session)

        def lower(update: JsonDict) -> None:
            if update["update"]["sessionUpdate"] == "tool_call":
                opened.state.budgets.changed[scope] = parse_allowance(budget) or Allowance()

        agent.editor.watch = lower
        await agent.editor.prompt(session, "Go on.")
        (asked,) = agent.editor.asked
        name = asked["options"][0]["name"]
        (changed,) = of_type(await events_of(agent, session), BudgetChanged)
        assert name.startswith("Continue, with ")
        assert name.endswith(f" more ({changed.allowance} in all)")
        if in_all:
            assert (name, changed.allowance) == (f"Continue, with {more} more ({in_all} in all)", in_all)
        (allowed,) = opened.state.budgets.extended.values()
        assert str(allowed) == changed.allowance
        assert await requests_of(agent, session) == 2


@pytest.mark.parametrize("budget", ["0", "0 tokens"])
async def test_zero_means_that_no_model_is_asked_and_no_question_either(budget: str):
    async with running_agent(ScriptedProvider([says("Never.")]), settings=settings(day=budget)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello?")
        assert await requests_of(agent, session) == 0
        assert of_type(await events_of(agent, session), PermissionAsked) == []
        assert "No model was asked." in agent.editor.said()


async def test_a_model_that_costs_nothing_may_be_asked_with_no_money_at_all():
    async with running_agent(ScriptedProvider([says("For free.")]), settings=settings(day="0 USD")) as agent:
        info = agent.models.infos["scripted"]
        agent.models.infos["scripted"] = replace(info, is_free=True)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello?")
        assert "For free." in agent.editor.said()


async def test_a_price_that_is_not_known_is_told_once_and_tokens_still_count():
    model = ScriptedProvider([says("One.") + uses(10), says("Two.") + uses(10**6)])
    limits = settings(session="1 USD, 500k tokens")
    async with running_agent(model, settings=limits, permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        for prompt in ("One?", "Two?", "Three?"):
            await agent.editor.prompt(session, prompt)
        assert agent.editor.said().count("No price of scripted/test is known") == 1
        assert await requests_of(agent, session) == 2
        assert "1,000,010 of 500,000 tokens" in agent.editor.said()


async def test_a_model_that_is_taken_for_free_is_told_once_where_money_is_limited():
    nothing = (UsageKnown(Usage(10, 2), Cost(0)),)
    model = ScriptedProvider([says("One.") + nothing, says("Two.") + nothing])
    async with running_agent(model, settings=settings(session="1 USD")) as agent:
        info = replace(agent.models.infos["scripted"], is_free=True)
        agent.models.infos["scripted"] = with_sources(info, Source.ASSUMED, ModelProperty.PRICES)
        session = await agent.editor.open_session(str(agent.folder))
        for prompt in ("One?", "Two?", "/usage"):
            await agent.editor.prompt(session, prompt)
        said = agent.editor.said()
        assert said.count("scripted/test counts as free in budgets of money, which is assumed") == 1
        assert said.count("scripted/test counts as free, which is assumed") == 1


async def test_the_day_is_shared_by_sessions():
    model = ScriptedProvider([says("One.") + costs(2_000_000), says("Never.")])
    async with running_agent(model, settings=settings(day="1 USD"), permission=choose("reject_once")) as agent:
        priced(agent)
        first, second = [await agent.editor.open_session(str(agent.folder)) for _ in range(2)]
        await agent.editor.prompt(first, "First")
        await agent.editor.prompt(second, "Second")
        assert await requests_of(agent, second) == 0
        assert "Today, over all sessions, has used 2.00 USD of 1.00 USD" in agent.editor.said()


async def test_a_turn_goes_on_with_a_cheaper_model_when_the_person_says_so():
    model = ScriptedProvider([calls("list_directory", path=".") + costs(2_000_000), says("Never.")])
    local = ScriptedProvider([says("I finish it.")], name="local")
    async with running_agent(
        model, settings=settings(session="1 USD"), permission=choose("allow_always"), others={"local": local}
    ) as agent:
        priced(agent)
        agent.models.infos["local"] = replace(agent.models.infos["local"], is_free=True)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go on.")
        assert "I finish it." in agent.editor.said()
        events = of_type(await events_of(agent, session), ModelRequested)
        assert [event.provider for event in events] == ["scripted", "local"]
        assert agent.sessions.get(session).state.model.qualified == "local/test"
        assert of_type(await events_of(agent, session), BudgetChanged) == []


@pytest.mark.parametrize(("form", "offered"), [("auto", True), ("text", True), ("native", False)])
async def test_a_model_without_native_calls_is_offered_unless_the_person_wants_native_calls(
    form: str, *, offered: bool
):
    model = ScriptedProvider([calls("list_directory", path=".") + costs(2_000_000), says("Never.")])
    local = ScriptedProvider([says("I finish it.")], name="local")
    async with running_agent(
        model, settings=settings(session="1 USD"), permission=choose("reject_once"), others={"local": local}
    ) as agent:
        priced(agent)
        agent.models.infos["local"] = replace(agent.models.infos["local"], is_free=True, calls_tools=False)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, f"/tools {form}")
        await agent.editor.prompt(session, "Go on.")
        asked = of_type(await events_of(agent, session), PermissionAsked)
        assert [("allow_always" in event.options) for event in asked] == [offered]


async def test_answers_that_nobody_counts_use_up_a_budget_by_an_estimate():
    model = ScriptedProvider([(*says("One."), UsageMissing()), (*says("Two."), UsageMissing()), says("Never.")])
    async with running_agent(model, settings=settings(session="4 USD"), permission=choose("reject_once")) as agent:
        priced(agent, price=700_000_000)
        session = await agent.editor.open_session(str(agent.folder))
        for prompt in ("First", "Second", "Third"):
            await agent.editor.prompt(session, prompt)
        used = of_type(await events_of(agent, session), UsageReported)
        assert 0 < len(used) < 3
        assert all(event.estimated and event.usage.input_tokens > 1_000 for event in used)
        assert "Stopped: This session has used" in agent.editor.said()
        await agent.editor.prompt(session, "/usage")
        assert "requests were counted by nobody but us: estimated." in agent.editor.said()


async def test_budget_sets_shows_and_survives_opening_the_session_again():
    model = ScriptedProvider([says("One.") + costs(1)])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        for text in (
            "/budget",
            "/budget session 2.50 USD",
            "/budget week 1",
            "/budget day lots",
            "/budget day 500k",
            "Hi",
        ):
            await agent.editor.prompt(session, text)
        said = agent.editor.said()
        assert "| session | off | 0.0000 USD | 0 |" in said
        assert "The budget of the session is now 2.50 USD." in said
        assert "Say which budget, and how much" in said
        assert 'A budget must be an amount such as "2.50 USD"' in said
        assert "`[budget] day` in config.toml is for all" in said
        await agent.editor.request("session/close", {"sessionId": session})
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []})
        again = agent.sessions.get(session)
        assert [str(limit_of(again.state, scope)) for scope in ("turn", "session", "day")] == [
            "off",
            "2.50 USD",
            "500000 tokens",
        ]


async def test_subagents_are_held_to_the_budget_too():
    model = ScriptedProvider(
        [calls("delegate", kind="explorer", name="finder", task="Look.") + costs(1), says("Never.")],
        subagents={"finder": [calls("list_directory", path=".") + costs(2_000_000), says("Never.")]},
    )
    async with running_agent(model, settings=settings(turn="1 USD"), permission=choose("reject_once")) as agent:
        priced(agent)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Find it.")
        assert len(model.requests) == 2


async def test_stand_ins_side_by_side_do_not_both_spend_the_rest():
    async with running_agent(ScriptedProvider([]), settings=settings(session="0.10 USD")) as agent:
        priced(agent, price=50_000_000)
        session = agent.sessions.get(await agent.editor.open_session(str(agent.folder)))
        turn, info = TurnId("turn_1"), agent.models.infos["scripted"]
        one, other = BudgetGate(session, turn, None), BudgetGate(session, turn, None)
        answers: list[str] = []

        async def stand_in() -> None:
            answers.append(await other.refusal(info, 1_500, 100))

        assert await one.refusal(info, 1_500, 100) == ""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stand_in)
            for _ in range(3):
                await session.constellation.database.write(lambda tx: None)
            assert answers == []
            # Two would be too much beside each other; the first one turns out to have used nothing.
            await one.after_request()
        assert answers == [""]
        await other.after_request()


async def test_a_stand_in_sets_aside_in_the_place_of_the_model_that_failed():
    async with running_agent(ScriptedProvider([]), settings=settings(session="0.10 USD")) as agent:
        priced(agent, price=50_000_000)
        session = agent.sessions.get(await agent.editor.open_session(str(agent.folder)))
        gate = BudgetGate(session, TurnId("turn_1"), None)
        info = agent.models.infos["scripted"]
        assert await gate.has_room(info, 1_500, 100)
        assert await gate.refusal(info, 1_500, 100) == ""
        assert "has used 0.0000 USD of 0.1000 USD" in await gate.refusal(info, 2_500, 100)
        assert await gate.has_room(info, 1_900, 100)
        await gate.after_request()
        assert not session.state.budgets.running


async def test_no_summary_is_written_for_which_a_budget_has_no_room():
    model = ScriptedProvider([says("One.") + costs(2), says("Two.") + costs(2), says("Never.")])
    async with running_agent(model) as agent:
        priced(agent)
        session = await agent.editor.open_session(str(agent.folder))
        for prompt in ("First", "Second", "/budget session 0", "/compact"):
            await agent.editor.prompt(session, prompt)
        assert len(model.requests) == 2
        assert "a budget has no space for one" in agent.editor.said()
