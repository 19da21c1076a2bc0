"""Prompts of ACP v2 that overlap, against a model: what comes of each of them, and in which order."""

from typing import Literal, TypeAlias, cast

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pattern_acp.journal.events import TurnEnded, TurnStarted
from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import FakeEditor, JsonDict
from tests.support.heard import conversation
from tests.support.scripts import calls, gate, says
from tests.support.second_editor import SECOND, prompt_of, states, until_idle
from tests.support.turns import events_of, of_type

CANCEL = "cancel"

Way: TypeAlias = Literal["steer", "queue", "replace"]

WAYS = st.sampled_from(["steer", "queue", "replace"])


class Sent:
    """What came of the prompts, by their number."""

    def __init__(self) -> None:
        self.messages: dict[int, str] = {}
        self.dropped: set[int] = set()
        self.codes: set[int] = set()

    async def prompt(self, editor: FakeEditor, params: JsonDict, number: int) -> None:
        try:
            self.messages[number] = cast("str", (await editor.request("session/prompt", params))["messageId"])
        except RemoteError as error:
            self.dropped.add(number)
            self.codes.add(error.code)


async def choose_way(editor: FakeEditor, session: str, way: str) -> None:
    params: JsonDict = {"sessionId": session, "configId": "overlapping", "type": "id", "value": way}
    await editor.request("session/set_config_option", params)


def inserted(editor: FakeEditor) -> list[tuple[str, str]]:
    """The messages of the user that were shown, with their ids."""
    return [(one["messageId"], one["content"][0]["text"]) for one in editor.of_kind("user_message")]


async def every_turn_ended_in_order(agent: RunningAgent, session: str) -> list[TurnEnded]:
    """The ends of all turns, which do not interleave and are of the messages that were shown."""
    events = await events_of(agent, session)
    turns = [event for event in events if isinstance(event, TurnStarted | TurnEnded)]
    assert [type(event) for event in turns] == [TurnStarted, TurnEnded] * (len(turns) // 2)
    assert [event.turn_id for event in turns[0::2]] == [event.turn_id for event in turns[1::2]]
    started = [(event.message.message_id, event.message.text) for event in of_type(events, TurnStarted)]
    assert started == inserted(agent.editor)
    return of_type(events, TurnEnded)


ACTIONS = st.lists(
    st.sampled_from(["a", "b", "c", ""]) | st.just(CANCEL) | WAYS.map(lambda way: f"={way}"), min_size=1, max_size=100
)
"""Prompts by their key, none where it is empty, cancels, and choices of what overlapping prompts do."""


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(WAYS, ACTIONS)
async def test_prompts_run_once_in_the_order_of_their_lines_whatever_becomes_of_those_that_overlap(
    way: Way, actions: list[str]
):
    sent = Sent()
    keys: dict[int, str] = {}
    model = ScriptedProvider([says("Ok.")] * len(actions))
    async with running_agent(model, introduce=False) as agent:
        await agent.editor.initialize(SECOND)
        session = await agent.editor.open_session(str(agent.folder))
        await choose_way(agent.editor, session, way)
        async with anyio.create_task_group() as tasks:
            for number, action in enumerate(actions):
                if action == CANCEL:
                    await agent.editor.cancel(session)
                elif action.startswith("="):
                    await choose_way(agent.editor, session, action[1:])
                else:
                    keys[number] = action
                    tasks.start_soon(sent.prompt, agent.editor, prompt_of(session, str(number), action), number)
                    # The next line is written behind this one.
                    await anyio.lowlevel.checkpoint()
        shown = inserted(agent.editor)
        await agent.editor.wait_until(lambda: not shown or states(agent.editor)[-1].startswith("idle:"))
        assert sent.messages.keys() | sent.dropped == keys.keys()
        assert not sent.messages.keys() & sent.dropped
        assert sent.codes <= {-32800}
        # Each message has the text of the first prompt that was answered with it, and they came in that order.
        first: dict[str, int] = {}
        for number in sorted(sent.messages):
            first.setdefault(sent.messages[number], number)
        assert [message for message, _ in shown] == list(first)
        assert len({text for _, text in shown}) == len(shown)
        # One key, one message.
        for key in ("a", "b", "c"):
            assert len({sent.messages[number] for number in sent.messages if keys[number] == key}) <= 1
        replaces = way == "replace" or "=replace" in actions
        if CANCEL not in actions and not replaces:
            assert not sent.dropped
        ends = await every_turn_ended_in_order(agent, session)
        idle = [state for state in states(agent.editor) if state != "running"]
        assert idle == [f"idle:{end.stop_reason}" for end in ends if not end.handed_over]
        may_be_cancelled = CANCEL in actions or replaces
        assert set(idle) <= ({"idle:end_turn", "idle:cancelled"} if may_be_cancelled else {"idle:end_turn"})


def expected_ends(ways: list[str]) -> list[bool]:
    """Tell of each turn whether it is handed over, when all prompts wait behind a call of the first."""
    return [*(way == "steer" for way in ways), False]


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from(["steer", "queue"]), min_size=1, max_size=100))
async def test_prompts_that_wait_behind_a_call_join_or_follow_the_turn_as_a_model_says(ways: list[str]):
    model = ScriptedProvider([calls("write_file", path="a.txt", content="a\n"), *[says("Ok.")] * (len(ways) + 1)])
    waits, sent = gate(), Sent()

    async def late(params: JsonDict) -> JsonDict:
        del params
        await waits.opened.wait()
        return {"outcome": "selected", "optionId": "allow_once"}

    async with running_agent(model, introduce=False, permission=late) as agent:
        await agent.editor.initialize(SECOND)
        session = await agent.editor.open_session(str(agent.folder))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sent.prompt, agent.editor, prompt_of(session, "0"), 0)
            await agent.editor.wait_until(lambda: len(agent.editor.asked) == 1)
            for number, way in enumerate(ways, start=1):
                await choose_way(agent.editor, session, way)
                tasks.start_soon(sent.prompt, agent.editor, prompt_of(session, str(number)), number)
                await anyio.lowlevel.checkpoint()
            # Answered behind the prompts, which are ready then.
            await agent.editor.request("session/list", {})
            assert sent.messages.keys() == {0}
            waits.opened.set()
        handed_over = expected_ends(ways)
        await until_idle(agent.editor, handed_over.count(False))
        assert not sent.dropped
        assert inserted(agent.editor) == [(sent.messages[number], str(number)) for number in range(len(ways) + 1)]
        ends = await every_turn_ended_in_order(agent, session)
        assert [end.handed_over for end in ends] == handed_over
        assert [state for state in states(agent.editor) if state.startswith("idle")] == (
            ["idle:end_turn"] * handed_over.count(False)
        )
        # The model read each prompt once, in their order, behind the result of the call.
        heard = [message.text for message in conversation(model.requests[-1]) if message.text.isdecimal()]
        assert heard == [str(number) for number in range(len(ways) + 1)]
        assert len(model.requests) == 1 + handed_over.count(False)


async def test_a_steering_prompt_comes_between_two_calls_and_the_rest_of_the_answer_is_left_out():
    two = calls("write_file", path="a.txt", content="a\n") + calls("write_file", path="b.txt", content="b\n")
    model = ScriptedProvider([two, says("As you wish.")])
    waits, sent = gate(), Sent()

    async def late(params: JsonDict) -> JsonDict:
        del params
        await waits.opened.wait()
        return {"outcome": "selected", "optionId": "allow_once"}

    async with running_agent(model, introduce=False, permission=late) as agent:
        await agent.editor.initialize(SECOND)
        session = await agent.editor.open_session(str(agent.folder))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sent.prompt, agent.editor, prompt_of(session, "Write both."), 0)
            await agent.editor.wait_until(lambda: len(agent.editor.asked) == 1)
            tasks.start_soon(sent.prompt, agent.editor, prompt_of(session, "Only the first."), 1)
            await anyio.lowlevel.checkpoint()
            await agent.editor.request("session/list", {})
            waits.opened.set()
        await until_idle(agent.editor)
        assert (agent.folder / "a.txt").exists()
        assert not (agent.folder / "b.txt").exists()
        assert len(agent.editor.asked) == 1
        ends = {one["toolCallId"]: one["status"] for one in agent.editor.of_kind("tool_call_update") if "status" in one}
        assert list(ends.values()) == ["completed", "cancelled"]
        assert states(agent.editor) == ["running", "requires_action", "running", "running", "idle:end_turn"]
        assert [message.text for message in conversation(model.requests[-1])][-1] == "Only the first."


async def test_a_command_waits_for_the_end_of_the_turn_or_is_answered_beside_it():
    waits, sent = gate(), Sent()
    model = ScriptedProvider([(*says("One"), waits)])
    async with running_agent(model, introduce=False) as agent:
        await agent.editor.initialize(SECOND)
        session = await agent.editor.open_session(str(agent.folder))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sent.prompt, agent.editor, prompt_of(session, "First."), 0)
            await waits.reached.wait()
            tasks.start_soon(sent.prompt, agent.editor, prompt_of(session, "/rename Other"), 1)
            await anyio.lowlevel.checkpoint()
            await sent.prompt(agent.editor, prompt_of(session, "/queue"), 2)
            assert sent.messages.keys() == {0, 2}
            assert "| 1 | /rename Other | steer |" in agent.editor.said()
            waits.opened.set()
        await until_idle(agent.editor, 2)
        assert sent.messages.keys() == {0, 1, 2}
        ends = [end.handed_over for end in of_type(await events_of(agent, session), TurnEnded)]
        assert ends == [False, False]
