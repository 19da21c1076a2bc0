"""What of a block is in the search index: logs, sections, and what forgetting and restoring make of them."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import RandomIds, SessionId
from pattern_acp.memory.search_terms import block_passages
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.memory.service.forget import MemoryForgetting
from pattern_acp.memory.service.history import HistoryScope, MemoryHistory
from pattern_acp.memory.service.scope import PERSON, MemoryRules, MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.service.undo import MemoryReverts
from pattern_acp.tools.registry import parameter_names
from tests.support.constellation import Constellation, temporary_constellation

IDS = RandomIds()
OWNER = MemoryScope("tester", "/project", SessionId("s1"))
SCOPE = HistoryScope(OWNER.owners, "s1", Actor.HUMAN, Origin.PERSON, IDS.peer())
TEMPLATE = """
description = "What happened, and what is known."
[schema]
kind = "composite"
[[schema.sections]]
name = "events"
schema = { kind = "log", shown = 3 }
[[schema.sections]]
name = "facts"
schema = { kind = "list" }
[[schema.sections]]
name = "alarms"
schema = { kind = "log", shown = 2 }
"""
LOG = 'description = "What happened."\n[schema]\nkind = "log"\nshown = 2'


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


@pytest.fixture
async def memory(constellation: Constellation, tmp_path: Path) -> ConstellationMemory:
    (tmp_path / "mixed.toml").write_text(TEMPLATE, encoding="utf-8")
    (tmp_path / "short.toml").write_text(LOG, encoding="utf-8")
    memory = ConstellationMemory(
        constellation.database,
        OWNER,
        clock=constellation.clock,
        ids=IDS,
        peer=IDS.peer(),
        writer=PERSON,
        rules=MemoryRules(templates=tmp_path),
    )
    for name in ("mixed", "short"):
        await memory.commit(MemoryEdit(name, "create", "", template=name), None)
    return memory


async def note(memory: ConstellationMemory, text: str, *, label: str = "mixed", field: str = "events") -> None:
    await memory.commit(MemoryEdit(label, "append", text, field=field), None)


async def found(memory: ConstellationMemory, query: str) -> list[str]:
    return [hit.text for hit in await memory.search(query, 5)]


async def text_of(memory: ConstellationMemory, label: str = "mixed") -> str:
    (text,) = [block.text for block in await memory.blocks() if block.label == label]
    return text


async def test_the_index_follows_every_edit_wherever_it_is(memory: ConstellationMemory, constellation: Constellation):
    lines: list[str] = []

    def indexed(tx: Transaction) -> list[tuple[object, object]]:
        return [
            (row[0], row[1])
            for row in tx.all(
                "SELECT CAST(e.item AS INTEGER), e.text FROM search_entries e JOIN blocks b ON b.id = e.source "
                "WHERE b.label = 'project' ORDER BY CAST(e.item AS INTEGER)"
            )
        ]

    for number in range(80):
        at, taken, new = number * 37 % (len(lines) + 1), number % 5 // 2, number * 7 % 11 // 4
        line = (f"Fact {number}.", f"- item {number}", "", "  goes on", "x" * 450)[number * 3 % 5]
        lines[at : at + taken] = [line] * new
        text = "\n".join(lines)
        if text != await text_of(memory, "project"):
            await memory.commit(MemoryEdit("project", "rewrite", text), None)
        assert await constellation.database.read(indexed) == list(enumerate(block_passages(text), 1))


async def test_entries_of_a_log_section_stay_findable_after_they_left_its_view(memory: ConstellationMemory):
    await note(memory, "The zeppelin left.")
    await note(memory, "The giraffe alarm rang.", field="alarms")
    await memory.commit(MemoryEdit("mixed", "add", "The hangar is in Delft.", field="facts"), None)
    for number in range(6):
        await note(memory, f"Ordinary event {number}.")
        await note(memory, f"Ordinary alarm {number}.", field="alarms")
    assert "zeppelin" not in await text_of(memory)
    (hit,) = await found(memory, "zeppelin")
    assert hit.endswith("The zeppelin left.")
    assert len(await found(memory, "giraffe")) == 1
    assert len(await found(memory, "hangar")) == 1
    await memory.commit(MemoryEdit("mixed", "remove", "", "The hangar is in Delft.", field="facts"), None)
    assert await found(memory, "hangar") == []
    assert len(await found(memory, "zeppelin")) == 1


async def test_every_entry_is_indexed_once_however_long_a_section_grows(
    constellation: Constellation, memory: ConstellationMemory
):
    for number in range(30):
        await note(memory, f"Event number {number}.")
    rows = await constellation.database.read(
        lambda tx: tx.all("SELECT text FROM search_entries WHERE text LIKE '%Event number%'")
    )
    texts = [columns.text(row[0]) for row in rows]
    assert len(texts) == len(set(texts)) == 30


async def test_an_entry_of_a_section_that_is_undone_leaves_search_and_older_ones_stay(
    constellation: Constellation, memory: ConstellationMemory
):
    from pattern_acp.memory.undo import plan_undo

    for text in ("One walrus.", "Two.", "Three.", "Four.", "Five okapi."):
        await note(memory, text)
    await MemoryReverts(constellation.database, SCOPE, clock=constellation.clock).change("mixed", plan_undo)
    assert await found(memory, "okapi") == []
    assert len(await found(memory, "walrus")) == 1


@pytest.mark.parametrize("label", ["mixed", "short"])
async def test_what_a_log_shows_no_longer_is_forgotten_too(
    constellation: Constellation, memory: ConstellationMemory, label: str
):
    field = "events" if label == "mixed" else ""
    await note(memory, "The code is quartzvejle 58213 here.", label=label, field=field)
    for number in range(5):
        await note(memory, f"Ordinary event {number}.", label=label, field=field)
    before = await text_of(memory, label)
    assert "quartzvejle" not in before
    await MemoryForgetting(constellation.database, SCOPE, clock=constellation.clock, parameters=parameter_names).forget(
        label, "quartzvejle 58213"
    )
    assert await found(memory, "quartzvejle") == []
    assert "quartzvejle" not in raw(constellation)
    assert await text_of(memory, label) == before, "what is shown stays, with the count of older entries"
    await note(memory, "One more.", label=label, field=field)
    assert [write.operation for write in await MemoryHistory(constellation.database, OWNER.owners).log(label)][:2] == [
        "append",
        "forget",
    ]


def raw(constellation: Constellation) -> str:
    """All that the file and its log hold."""
    path = constellation.database.path
    parts = (path, path.with_name(path.name + "-wal"))
    return b"".join(part.read_bytes() for part in parts if part.exists()).decode("latin-1")


@pytest.mark.parametrize("label", ["mixed", "short"])
async def test_a_restored_block_has_its_older_entries_in_search_again(
    constellation: Constellation, memory: ConstellationMemory, label: str
):
    field = "events" if label == "mixed" else ""
    await note(memory, "The zeppelin left.", label=label, field=field)
    for number in range(5):
        await note(memory, f"Ordinary event {number}.", label=label, field=field)
    reverts = MemoryReverts(constellation.database, SCOPE, clock=constellation.clock)
    await reverts.delete(label)
    assert await found(memory, "zeppelin") == []
    await reverts.restore(label)
    assert len(await found(memory, "zeppelin")) == 1
    await note(memory, "And on.", label=label, field=field)
    assert len(await found(memory, "zeppelin")) == 1
