"""Notes that age: what is told as old, what is about one machine, and what runs out."""

import pytest

from pattern_acp.config.settings import Settings
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.memory.archive import (
    ArchivalEntry,
    MatchedNote,
    NoteKind,
    NoteRule,
    PathNote,
    Status,
    end_of_span,
    warning_text,
)
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.dates import handoff_age, plan_age
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent

DAY = 24 * 60 * 60_000


@pytest.mark.parametrize(
    ("days", "clause"),
    [
        (6, ""),
        (7, "untouched for 7 days"),
        (29, "untouched for 29 days"),
        (30, "untouched for 30 days, so ask the user whether it still matters"),
    ],
)
def test_a_plan_is_told_as_old_after_a_week_and_after_a_month(days: int, clause: str):
    assert plan_age(5, now_ms=5 + days * DAY) == clause


def test_a_handoff_is_told_as_old_after_two_weeks():
    assert handoff_age(5, now_ms=5 + 13 * DAY) == ""
    assert handoff_age(5, now_ms=5 + 14 * DAY) == "14 days old, so look whether it still holds"


@pytest.mark.parametrize(
    ("text", "end"), [("45min", 2_700_005), ("2h", 7_200_005), ("3d", 3 * DAY + 5), ("2026-12-31", None), ("h", None)]
)
def test_an_end_may_be_a_span(text: str, end: int | None):
    assert end_of_span(text, 5) == end


async def said(agent: RunningAgent, session: str, text: str) -> str:
    agent.editor.updates.clear()
    await agent.editor.prompt(session, text)
    return agent.editor.said()


async def test_a_runtime_note_runs_out_and_leaves_search():
    async with running_agent(ScriptedProvider([]), settings=Settings(editor_deadline_seconds=30)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await said(agent, session, "/memory runtime The staging server listens on port 7433. --until 2h")
        assert "on this machine" in await said(agent, session, "/memory traps")
        assert "7433" in await said(agent, session, "/recall staging port")
        await agent.database.write(lambda tx: tx.execute("UPDATE bound_entries SET until_ms = 1"))
        assert "7433" not in await said(agent, session, "/recall staging port")
        assert "expired" in await said(agent, session, "/memory traps")


async def test_a_note_of_another_machine_is_listed_and_never_found():
    async with running_agent(ScriptedProvider([]), settings=Settings(editor_deadline_seconds=30)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await said(agent, session, "/memory machine Node is in /opt/node-22 here.")
        assert "node-22" in await said(agent, session, "/recall node")
        await agent.database.write(lambda tx: tx.execute("UPDATE bound_entries SET host = 'elsewhere'"))
        assert "node-22" not in await said(agent, session, "/recall node")
        assert "on the machine elsewhere" in await said(agent, session, "/memory traps")


async def test_a_trap_ages_from_its_writing_and_a_decision_from_its_check_alone():
    entry = ArchivalEntry(
        *("entry_1", Scope.PROJECT, "/w", "Close the pool.", Actor.HUMAN, Origin.PERSON, "", 5, "", ""), None, "make", 1
    )
    trap = MatchedNote(PathNote(entry, NoteRule(NoteKind.TRAP, ("*.sql",)), Status.ACTIVE), ("a.sql",))
    decision = PathNote(entry, NoteRule(NoteKind.DECISION), Status.ACTIVE)
    assert (trap.bound.seen_ms, decision.seen_ms) == (5, None)
    assert "not checked" not in warning_text([trap], (), now_ms=5 + 29 * DAY).for_model
    assert (
        "offer the user to run `make`, which tells; then verify"
        in warning_text([trap], (), now_ms=5 + 40 * DAY).for_model
    )


async def test_a_warning_stays_within_its_characters_and_counts_what_it_cut():
    long = "x" * 1_100
    notes = [
        MatchedNote(
            PathNote(
                ArchivalEntry(
                    *(f"entry_{n}", Scope.PROJECT, "/w", long, Actor.HUMAN, Origin.PERSON, "", 5, "", ""), None, "", 1
                ),
                NoteRule(NoteKind.TRAP, ("*.sql",)),
                Status.ACTIVE,
            ),
            ("a.sql",),
        )
        for n in range(6)
    ]
    text = warning_text(notes, (), now_ms=5).for_model
    assert "3 of 6 things" in text
    assert "entry_5." in text
    assert len(text) < 4_600
