"""The model's window of a subagent: a long task does not end because its conversation became too long."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from pattern_acp.config.settings import Settings
from pattern_acp.journal.events import ContextCompacted
from pattern_acp.journal.history import with_subagent_events
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.scripts import Turn, calls, says
from tests.support.turns import events_of, last_result, of_type, results_of
from tests.support.window_model import WindowModel

WINDOW = 14_000
FILES = 12
TASK = "Read every file and say which holds the plum."


class Reader:
    """The answers: one file after the other, with `reads_on` from the marker of what was shortened at the end."""

    def __init__(self, *, reads_on: bool = False) -> None:
        self._files = iter(range(FILES))
        self._reads_on = reads_on
        self.asked: list[ProviderRequest] = []

    def answer(self, request: ProviderRequest) -> Turn:
        if "/" not in request.cache_key:
            given = [m for m in request.messages if m.tool_calls]
            return says("Done.") if given else calls("delegate", kind="explorer", name="finder", task=TASK)
        self.asked.append(request)
        number = next(self._files, None)
        if number is not None:
            return calls("read_file", path=f"{number}.txt")
        if self._reads_on:
            self._reads_on = False
            short = next(result for result in results_of(request) if "characters left out here" in result.text)
            return calls("read_attachment", id=short.call_id, start=0)
        return says("It is in 3.txt.")


@asynccontextmanager
async def agent_with(model: WindowModel, window: int = WINDOW) -> AsyncGenerator[RunningAgent]:
    settings = Settings(editor_deadline_seconds=5, mode="auto")
    async with running_agent(ScriptedProvider([]), settings=settings, others={"scripted": model}) as agent:
        info = agent.models.infos["scripted"]
        agent.models.infos["scripted"] = replace(info, context_window=window, max_output_tokens=1_000)
        for number in range(FILES):
            (agent.folder / f"{number}.txt").write_text(f"The fruit of {number} is a pear.\n" * 200)
        yield agent


async def run(agent: RunningAgent) -> list[ContextCompacted]:
    session = await agent.editor.open_session(str(agent.folder))
    assert await agent.editor.prompt(session, "Find it.") == {"stopReason": "end_turn"}
    events = await events_of(agent, session)
    assert of_type(events, ContextCompacted) == []
    return of_type(list(with_subagent_events(events)), ContextCompacted)


async def test_a_long_task_of_a_subagent_stays_within_the_window():
    reader = Reader()
    model = WindowModel(WINDOW, reader.answer)
    async with agent_with(model) as agent:
        assert await run(agent)
        assert model.refused == 0
        assert len(reader.asked) == FILES + 1
        assert "It is in 3.txt." in last_result(model.requests[-1]).text
        assert all(TASK in request.messages[0].text for request in reader.asked)
        assert not any("memory_search finds" in m.text for m in reader.asked[-1].messages)


async def test_a_request_of_a_subagent_that_is_refused_as_too_long_is_sent_again_with_less():
    model = WindowModel(WINDOW, Reader().answer)
    async with agent_with(model, window=100_000) as agent:
        assert {event.trigger for event in await run(agent)} >= {"provider"}
        assert model.refused
        assert "It is in 3.txt." in last_result(model.requests[-1]).text


async def test_a_subagent_reads_on_in_what_was_shortened():
    reader = Reader(reads_on=True)
    model = WindowModel(WINDOW, reader.answer)
    async with agent_with(model) as agent:
        await run(agent)
        assert "is a pear" in last_result(reader.asked[-1]).text
        assert not last_result(reader.asked[-1]).is_error
