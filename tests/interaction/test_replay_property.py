"""Whatever a session did, a load shows what was shown live: same order, texts, calls, statuses and contents."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pattern_acp.providers.base import Retrying
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import FULL_CLIENT, running_agent
from tests.support.requests import updates_of
from tests.support.scripts import Turn, calls, calls_raw, says, thinks, uses
from tests.support.transcript import Item, shown

PLAN = [{"content": "Look", "status": "in_progress", "priority": "medium"}]

texts = st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=4).map(lambda parts: says(*parts))
thoughts = st.text(min_size=1, max_size=20).map(thinks)
tool_calls = st.sampled_from(
    [
        calls("read_file", path="a.txt"),
        calls("read_file", path="missing.txt"),
        calls("read_file"),
        calls("write_file", path="b.txt", content="new\n"),
        calls("edit_file", path="a.txt", edits=[{"old_text": "hello", "new_text": "hello"}]),
        calls("list_directory", path="."),
        calls("update_plan", entries=PLAN),
        calls("memory_write", label="human", operation="append", text="A fact.", reason="told"),
        calls("run_command", command="echo hi"),
        calls("no_such_tool", x=1),
        calls_raw("read_file", "{not json"),
    ]
)
RETRIED: Turn = (Retrying(1, 10, "Busy; trying again."),)
"""A request is tried again only before any content."""

spoken = st.tuples(st.sampled_from([(), RETRIED]), st.lists(st.one_of(texts, thoughts), max_size=3)).map(
    lambda pieces: [pieces[0], *pieces[1]]
)
working = st.tuples(spoken, st.lists(tool_calls, min_size=1, max_size=3))
answering = st.tuples(spoken, st.booleans())


def joined(pieces: list[Turn]) -> Turn:
    return tuple(step for piece in pieces for step in piece)


def numbered(pieces: list[Turn]) -> Turn:
    """Calls of raw argument text name their index themselves, so a turn takes one of those at most, and alone."""
    raw = [piece for piece in pieces if len(piece) == 2]
    return raw[0] if raw else joined(pieces)


prompts = st.lists(
    st.tuples(
        st.text(min_size=1, max_size=20).filter(lambda text: bool(text.strip()) and not text.strip().startswith("/")),
        st.lists(working, max_size=2),
        answering,
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(prompts)
async def test_a_load_shows_what_was_shown_live(
    conversation: list[tuple[str, list[tuple[list[Turn], list[Turn]]], tuple[list[Turn], bool]]],
):
    script: list[Turn] = []
    for _, work, (said, counted) in conversation:
        script += [joined(before) + numbered(asked) for before, asked in work]
        script.append(joined(said) + (uses(100, 10) if counted else ()))
    async with running_agent(ScriptedProvider(script), capabilities=FULL_CLIENT) as agent:
        (agent.folder / "a.txt").write_text("hello\n", encoding="utf-8")
        agent.editor.files[str(agent.folder / "a.txt")] = "hello\n"
        session = await agent.editor.open_session(str(agent.folder))
        live: list[Item] = []
        for text, _, _ in conversation:
            agent.editor.updates.clear()
            await agent.editor.prompt(session, text)
            live += shown(updates_of(agent.editor, session), text)
        agent.editor.updates.clear()
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []})
        assert without_terminals(shown(updates_of(agent.editor, session))) == without_terminals(live)


def without_terminals(items: list[Item]) -> list[Item]:
    """Live a terminal, in a replay its text: everything else of such a call must still be equal."""
    return [item[:4] if item[0] == "call" and "echo hi" in item[2] else item for item in items]
