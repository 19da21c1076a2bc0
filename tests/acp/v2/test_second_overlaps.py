"""Prompts of ACP v2 that overlap, against a model: what comes of each of them, and in which order."""

from typing import cast

import anyio
import anyio.lowlevel
from hypothesis import given, settings
from hypothesis import strategies as st

from pattern_acp.jsonrpc.errors import RemoteError
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.editor import FakeEditor, JsonDict
from tests.support.scripts import says
from tests.support.second_editor import SECOND, prompt_of, states, until_idle

CANCEL = "cancel"

ACTIONS = st.lists(st.sampled_from(["a", "b", "c", ""]) | st.just(CANCEL), min_size=1, max_size=100)
"""Prompts by their key, none where it is empty, and cancels."""


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


@settings(max_examples=8, deadline=None)
@given(ACTIONS)
async def test_prompts_run_once_in_the_order_of_their_lines_and_a_cancel_drops_what_waits(actions: list[str]):
    sent = Sent()
    keys: dict[int, str] = {}
    model = ScriptedProvider([says("Ok.")] * len(actions))
    async with running_agent(model, introduce=False) as agent:
        await agent.editor.initialize(SECOND)
        session = await agent.editor.open_session(str(agent.folder))
        async with anyio.create_task_group() as tasks:
            for number, action in enumerate(actions):
                if action == CANCEL:
                    await agent.editor.cancel(session)
                    continue
                keys[number] = action
                tasks.start_soon(sent.prompt, agent.editor, prompt_of(session, str(number), action), number)
                # The next line is written behind this one.
                await anyio.lowlevel.checkpoint()
        shown = [(one["messageId"], one["content"][0]["text"]) for one in agent.editor.of_kind("user_message")]
        await until_idle(agent.editor, len(shown))
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
        if CANCEL not in actions:
            assert not sent.dropped
        ends = [state for state in states(agent.editor) if state != "running"]
        assert len(ends) == len(shown)
        assert set(ends) <= ({"idle:end_turn", "idle:cancelled"} if CANCEL in actions else {"idle:end_turn"})
