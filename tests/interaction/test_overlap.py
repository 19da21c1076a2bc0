"""A second prompt while one runs: the first is answered cancelled, then the second runs."""

import anyio
import anyio.lowlevel

from pattern_acp.journal.events import TurnEnded, TurnStarted
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.heard import conversation
from tests.support.scripts import calls, gate, says
from tests.support.turns import answers_to, events_of, of_type, prompting, unpaired_calls


async def test_the_first_is_answered_cancelled_and_then_the_second_runs():
    waits = gate()
    model = ScriptedProvider([(*says("One"), waits, *says("never")), says("Two")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session, "First.") as first:
            await waits.reached.wait()
            answer = await agent.editor.prompt(session, "Second.")
            assert answer == {"stopReason": "end_turn"}
            assert await first.stop_reason() == "cancelled"
        assert agent.editor.said() == "OneTwo"
        answers = [message["result"]["stopReason"] for message in answers_to(agent.editor, "session/prompt")]
        assert answers == ["cancelled", "end_turn"]
        assert [message.text for message in conversation(model.requests[1])] == ["First.", "One", "Second."]


async def test_the_second_shows_nothing_before_the_first_is_answered():
    waits = gate()
    model = ScriptedProvider([(*says("One"), waits), says("Two")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session, "First.") as first:
            await waits.reached.wait()
            await agent.editor.prompt(session, "Second.")
            assert await first.stop_reason() == "cancelled"
        lines = [line for by_agent, line in agent.editor.recording.both if by_agent]
        cancelled = next(at for at, line in enumerate(lines) if b'"cancelled"' in line)
        assert not any(b'"Two"' in line for line in lines[:cancelled])
        assert not any(b'"One"' in line for line in lines[cancelled:])


async def test_three_in_a_row_run_in_order_and_only_the_last_to_its_end():
    first_waits = gate()
    model = ScriptedProvider([(*says("One"), first_waits), says("Three")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session, "First.") as first:
            await first_waits.reached.wait()
            async with prompting(agent.editor, session, "Second.") as second:
                while not any(b"Second." in line for by_agent, line in agent.editor.recording.both if not by_agent):
                    await anyio.lowlevel.checkpoint()
                async with prompting(agent.editor, session, "Third.") as third:
                    assert await third.stop_reason() == "end_turn"
                    assert await first.stop_reason() == "cancelled"
                    assert await second.stop_reason() == "cancelled"
        events = await events_of(agent, session)
        assert [item.message.text for item in of_type(events, TurnStarted)] == ["First.", "Second.", "Third."]
        assert [item.stop_reason for item in of_type(events, TurnEnded)] == ["cancelled", "cancelled", "end_turn"]
        turns = [item.turn_id for item in events if isinstance(item, TurnStarted | TurnEnded)]
        assert turns[0::2] == turns[1::2]


async def test_a_second_prompt_while_a_permission_is_pending_refuses_the_call():
    model = ScriptedProvider([calls("write_file", path="new.txt", content="x\n"), says("Two")])
    async with running_agent(model) as agent:
        waits = gate()

        async def late(params: dict[str, object]) -> dict[str, object]:
            del params
            await waits.opened.wait()
            return {"outcome": "selected", "optionId": "allow_once"}

        agent.editor.permission = late
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session, "First.") as first:
            await agent.editor.wait_until(lambda: len(agent.editor.asked) == 1)
            assert await agent.editor.prompt(session, "Second.") == {"stopReason": "end_turn"}
            assert await first.stop_reason() == "cancelled"
            waits.opened.set()
        assert not (agent.folder / "new.txt").exists()
        assert unpaired_calls(model.requests[-1]) == []


async def test_sessions_run_side_by_side():
    one_waits, other_waits = gate(), gate()
    model = ScriptedProvider([(one_waits, *says("one")), (other_waits, *says("other"))])
    async with running_agent(model) as agent:
        one = await agent.editor.open_session(str(agent.folder))
        other = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, one) as first:
            await one_waits.reached.wait()
            async with prompting(agent.editor, other) as second:
                await other_waits.reached.wait()
                other_waits.opened.set()
                assert await second.stop_reason() == "end_turn"
                assert not first.answered.is_set()
                one_waits.opened.set()
                assert await first.stop_reason() == "end_turn"
