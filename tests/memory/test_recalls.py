"""How often what memory holds was recalled, and what that is used for."""

from collections.abc import AsyncGenerator

import pytest

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.clock import RandomIds, SessionId
from pattern_acp.memory.indexing import count_recalls, least_needed, times_recalled
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.memory.service.scope import PERSON, MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.constellation import Constellation, temporary_constellation
from tests.support.scripts import calls, says

IDS = RandomIds()


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


@pytest.fixture
def memory(constellation: Constellation) -> ConstellationMemory:
    owner = MemoryScope("tester", "/project", SessionId("s1"))
    return ConstellationMemory(
        constellation.database, owner, clock=constellation.clock, ids=IDS, peer=IDS.peer(), writer=PERSON
    )


async def write(memory: ConstellationMemory, operation: str, text: str, old: str = "") -> None:
    await memory.commit(MemoryEdit("human", operation, text, old), None)


async def recall(constellation: Constellation, memory: ConstellationMemory, query: str, times: int = 1) -> None:
    for _ in range(times):
        memory.recalled([hit.entry for hit in await memory.search(query, 1)])
    await constellation.database.write(lambda tx: memory.store_recalls(tx, at_ms=constellation.clock.now_ms()))


async def seldom(constellation: Constellation, memory: ConstellationMemory) -> list[tuple[str, int]]:
    (block,) = [block.block_id for block in await memory.blocks() if block.label == "human"]
    found = await constellation.database.read(lambda tx: least_needed(tx, block, 9))
    return [(one.text, one.times) for one in found]


async def test_the_oldest_and_least_recalled_come_first(constellation: Constellation, memory: ConstellationMemory):
    for text in ("Likes green tea.", "Owns a zeppelin.", "Speaks Dutch."):
        await write(memory, "append", text)
        constellation.clock.advance(3_600)
    assert [text for text, _ in await seldom(constellation, memory)] == [
        "Likes green tea.",
        "Owns a zeppelin.",
        "Speaks Dutch.",
    ]
    await recall(constellation, memory, "tea", 2)
    assert await seldom(constellation, memory) == [
        ("Owns a zeppelin.", 0),
        ("Speaks Dutch.", 0),
        ("Likes green tea.", 2),
    ]


async def test_a_count_survives_every_write_that_leaves_the_passage_as_it_is(
    constellation: Constellation, memory: ConstellationMemory
):
    await write(memory, "append", "Likes green tea.\n\nSpeaks Dutch.")
    await recall(constellation, memory, "tea")
    await write(memory, "rewrite", "Owns a zeppelin.\n\nSpeaks Dutch.\n\nLikes green tea.")
    assert ("Likes green tea.", 1) in await seldom(constellation, memory)
    await write(memory, "replace", "black", "green")
    assert ("Likes black tea.", 0) in await seldom(constellation, memory)


async def test_messages_and_what_is_gone_are_not_counted(constellation: Constellation):
    def count(tx: Transaction) -> tuple[int, dict[str, int]]:
        count_recalls(tx, {424_242: 1}, at_ms=1, seq=1)
        row = tx.one("SELECT count(*) FROM recalls")
        return columns.integer(row[0]) if row else -1, times_recalled(tx, ["nothing"])

    assert await constellation.database.write(count) == (0, {})


async def test_the_next_search_says_how_often_it_was_recalled_before(
    constellation: Constellation, memory: ConstellationMemory
):
    await write(memory, "append", "Likes green tea.")
    assert "recalled" not in (await memory.search("tea", 1))[0].why
    await recall(constellation, memory, "tea")
    assert "recalled once before" in (await memory.search("tea", 1))[0].why
    await recall(constellation, memory, "tea", 2)
    assert "recalled 3 times before" in (await memory.search("tea", 1))[0].why


async def times(agent: RunningAgent) -> list[int]:
    rows = await agent.database.read(lambda tx: tx.all("SELECT times FROM recalls ORDER BY entry"))
    return [columns.integer(row[0]) for row in rows]


async def test_what_the_agent_the_person_and_a_prompt_recall_is_counted_when_the_turn_ends():
    model = ScriptedProvider([calls("memory_search", query="zeppelin"), says("In Delft."), says("Still there.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        made = "/memory create hangars --template scratchpad Where airships are."
        await agent.editor.prompt(session, made)
        await agent.editor.prompt(session, "/memory set hangars tier working")
        await agent.editor.prompt(session, "/memory edit hangars The zeppelin stands in the hangar of Delft.")
        await agent.editor.prompt(session, "Where is it?")
        assert await times(agent) == [1]
        await agent.editor.prompt(session, "/recall zeppelin")
        assert await times(agent) == [2]
        other = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(other, "Does the zeppelin still stand in its hangar in Delft?")
        assert await times(agent) == [3]
