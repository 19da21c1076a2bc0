"""Answers that break off at any byte: what was shown is recorded, no call runs twice, and the turn replays the same."""

from collections import Counter
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pattern_acp.cli.journal import current_means
from pattern_acp.config.settings import Wire
from pattern_acp.journal.events import MessageRecorded, ToolCallStarted
from pattern_acp.journal.history import read_history
from pattern_acp.providers.scripted import ScriptStep
from pattern_acp.replay.comparison import replay_turns
from pattern_acp.session.session_row_rebuild import replay
from tests.interaction.test_cut_streams import at_faulty_line
from tests.support.editor import JsonDict
from tests.support.fault_server import http_answer
from tests.support.turns import events_of, of_type
from tests.support.wires import WIRES, stream_of

places = st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(0, 2)), min_size=1, max_size=4)
"""For each answer the place where it breaks off, 1.0 for nowhere, and its number of calls."""


def answer(number: int, calls: int) -> list[ScriptStep]:
    """A text and calls, each of which can be told from all others."""
    written = [
        ScriptStep(
            tool="write_file", arguments={"path": f"{number}_{one}.txt", "content": "x"}, id=f"call_{number}_{one}"
        )
        for one in range(calls)
    ]
    return [ScriptStep(text=f"Answer {number} with some words."), *written]


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(places)
async def test_breaks_at_any_place_lose_no_shown_text_and_run_no_call_twice(
    wire: Wire, breaks: list[tuple[float, int]]
):
    async with at_faulty_line(wire) as (agent, line, session):
        answers = [stream_of(wire, answer(number, calls)) for number, (_, calls) in enumerate(breaks)]
        cut = [whole[: round(len(whole) * place)] for whole, (place, _) in zip(answers, breaks, strict=True)]
        last = http_answer(stream_of(wire, [ScriptStep(text="Done.")]))
        line.server.then = [*((http_answer(each),) for each in cut[1:]), (last,)]
        line.server.pieces = (http_answer(cut[0]),)
        assert await agent.editor.prompt(session, "Go.") == {"stopReason": "end_turn"}
        events = await events_of(agent, session)
        recorded = [event.message for event in of_type(events, MessageRecorded) if event.for_model]
        assert "".join(message.text for message in recorded) == agent.editor.said()
        runs = Counter(
            str(cast("JsonDict", event.call.raw_input)["path"]) for event in of_type(events, ToolCallStarted)
        )
        assert max(runs.values(), default=0) <= 1
        assert {path.name for path in agent.folder.glob("*_*.txt")} == set(runs)
        history = await agent.database.read(lambda tx: read_history(tx, session))
        report = await replay_turns(session, history, current_means())
        assert report.difference is None, report.difference
        assert (await agent.database.read(lambda tx: replay(tx, session))).difference is None
