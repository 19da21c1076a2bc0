"""Archival entries."""

from collections.abc import AsyncGenerator

import pytest

from pattern_acp.db.connection import Transaction
from pattern_acp.db.errors import ConstraintError
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.writer import append
from pattern_acp.memory.archive import (
    MOST_CHARACTERS,
    ArchivalEntry,
    EntryMissingError,
    EntryRefusedError,
    NewEntry,
    find_same,
    forget_entry,
    insert_entry,
    list_entries,
    load_entry,
    verify_entry,
)
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.recall import search
from pattern_acp.memory.search_terms import ALL_KINDS, EntryKind, Filters
from tests.support.constellation import Constellation, temporary_constellation

NOW = 1_800_000_000_000
OWNERS = ((Scope.PROJECT, "/p"),)


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


def an_event(tx: Transaction) -> int:
    return append(tx, "s1", SessionTitled("t"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=NOW).seq


def keep(
    tx: Transaction, entry_id: str, text: str, *, owner: str = "/p", supersedes: str = "", at_ms: int = NOW
) -> ArchivalEntry:
    new = NewEntry(entry_id, Scope.PROJECT, owner, text, Actor.PERSONA, Origin.MODEL, "a test", supersedes)
    return insert_entry(tx, new, at_ms=at_ms, seq=an_event(tx))


def found(tx: Transaction, query: str, *kinds: EntryKind) -> list[str]:
    filters = Filters(("/p",), kinds) if kinds else Filters(("/p",))
    return [one.source for one in search(tx, query, filters, limit=9, now_ms=NOW)]


async def test_an_entry_is_stored_with_its_author_and_found(constellation: Constellation):
    def run(tx: Transaction) -> tuple[ArchivalEntry, list[str]]:
        return keep(tx, "a1", "  The port is 5433.\n"), found(tx, "port")

    entry, hits = await constellation.database.write(run)
    assert (entry.text, entry.actor, entry.origin, entry.reason) == (
        "The port is 5433.",
        Actor.PERSONA,
        Origin.MODEL,
        "a test",
    )
    assert entry.is_current
    assert hits == ["a1"]


async def test_a_superseded_entry_leaves_search_but_not_history(constellation: Constellation):
    def run(tx: Transaction) -> tuple[ArchivalEntry, ArchivalEntry]:
        keep(tx, "a1", "The port is 5432.", at_ms=NOW - 1)
        new = keep(tx, "a2", "The port is 5433.", supersedes="a1")
        assert found(tx, "port") == ["a2"]
        assert found(tx, "port", "superseded") == ["a1"]
        assert set(found(tx, "port", *ALL_KINDS)) == {"a1", "a2"}
        assert [entry.id for entry in list_entries(tx, OWNERS, limit=9)] == ["a2"]
        assert [entry.id for entry in list_entries(tx, OWNERS, limit=9, with_superseded=True)] == ["a2", "a1"]
        return load_entry(tx, "a1"), new

    old, new = await constellation.database.write(run)
    assert (old.superseded_by, new.supersedes) == ("a2", "a1")


async def test_an_entry_is_superseded_once_and_only_by_its_owner(constellation: Constellation):
    def run(tx: Transaction) -> None:
        keep(tx, "a1", "The port is 5432.")
        keep(tx, "a2", "The port is 5433.", supersedes="a1")
        with pytest.raises(EntryRefusedError, match=r"superseded by 'a2'"):
            keep(tx, "a3", "The port is 5434.", supersedes="a1")
        with pytest.raises(EntryMissingError):
            keep(tx, "a4", "The port is 5435.", owner="/other", supersedes="a2")
        with pytest.raises(EntryMissingError):
            keep(tx, "a5", "The port is 5436.", supersedes="nowhere")

    await constellation.database.write(run)


@pytest.mark.parametrize("text", ["", " \n ", "x" * (MOST_CHARACTERS + 1)])
async def test_a_text_of_no_or_too_many_characters_is_refused(constellation: Constellation, text: str):
    def run(tx: Transaction) -> None:
        with pytest.raises(EntryRefusedError):
            keep(tx, "a1", text)

    await constellation.database.write(run)


async def test_the_same_text_in_other_case_and_space_is_recognised(constellation: Constellation):
    def run(tx: Transaction) -> list[ArchivalEntry | None]:
        keep(tx, "a1", "The port is 5433.")
        keep(tx, "a2", "Something else.", supersedes="a1")
        keep(tx, "a3", "Use tabs here.")
        texts = ("the  port IS 5433.", "use TABS\nhere.", "use tabs there.")
        return [find_same(tx, Scope.PROJECT, "/p", text) for text in texts]

    gone, same, other = await constellation.database.write(run)
    assert (gone, same and same.id, other) == (None, "a3", None)


async def test_a_fact_may_be_found_true_again_but_never_rewritten(constellation: Constellation):
    def verify(tx: Transaction) -> int | None:
        keep(tx, "a1", "The port is 5433.")
        verify_entry(tx, "a1", verified_ms=NOW + 5, seq=an_event(tx))
        with pytest.raises(EntryMissingError):
            verify_entry(tx, "nowhere", verified_ms=NOW, seq=an_event(tx))
        return load_entry(tx, "a1").verified_ms

    assert await constellation.database.write(verify) == NOW + 5
    with pytest.raises(DatabaseError, match="immutable"):
        await constellation.database.write(lambda tx: tx.execute("UPDATE archival_entries SET text = 'other'"))


async def test_a_forgotten_entry_is_in_no_table_and_its_successor_stays(constellation: Constellation):
    def run(tx: Transaction) -> list[str]:
        keep(tx, "a1", "The canary lives in the tree.")
        keep(tx, "a2", "The port is 5433.", supersedes="a1")
        forget_entry(tx, "a1", seq=an_event(tx))
        with pytest.raises(EntryMissingError):
            forget_entry(tx, "a1", seq=an_event(tx))
        assert found(tx, "canary", *ALL_KINDS) == []
        return [entry.supersedes for entry in list_entries(tx, OWNERS, limit=9, with_superseded=True)]

    assert await constellation.database.write(run) == [""]


async def test_an_entry_without_its_event_cannot_be_committed(constellation: Constellation):
    new = NewEntry("a1", Scope.PROJECT, "/p", "text", Actor.PERSONA, Origin.MODEL)
    with pytest.raises(ConstraintError):
        await constellation.database.write(lambda tx: insert_entry(tx, new, at_ms=NOW, seq=99))
