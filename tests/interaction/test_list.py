"""session/list: what is shown, in which order, and page by page."""

from datetime import datetime
from pathlib import Path

import anyio
import pytest

from pattern_acp.jsonrpc.messages import INVALID_PARAMS
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.requests import refused
from tests.support.scripts import says


def talkative() -> ScriptedProvider:
    return ScriptedProvider([says("Hello.")], repeat=True)


async def talked(agent: RunningAgent, cwd: Path, text: str = "Hi") -> str:
    session = await agent.editor.open_session(str(cwd))
    await agent.editor.prompt(session, text)
    return session


async def rows(agent: RunningAgent, params: JsonDict | None = None) -> list[JsonDict]:
    answer = await agent.editor.request("session/list", params or {})
    return answer["sessions"]


async def test_nothing_to_list_is_an_empty_list():
    async with running_agent(talkative()) as agent:
        assert await agent.editor.request("session/list", {}) == {"sessions": []}


async def test_a_session_without_a_prompt_is_hidden():
    async with running_agent(talkative()) as agent:
        await agent.editor.open_session(str(agent.folder))
        session = await talked(agent, agent.folder)
        assert [row["sessionId"] for row in await rows(agent)] == [session]


@pytest.mark.parametrize("slip", ["/status", "/no-such-command", "/memory show no-such-block"])
async def test_a_session_of_slash_commands_alone_is_hidden_until_it_is_about_something(slip: str):
    async with running_agent(talkative()) as agent:
        session = await talked(agent, agent.folder, slip)
        assert await rows(agent) == []
        assert (await agent.editor.request("session/list", {"cwd": str(agent.folder)}))["sessions"] == []
        await agent.editor.prompt(session, "Fix the parser")
        assert [(row["sessionId"], row["title"]) for row in await rows(agent)] == [(session, "Fix the parser")]


async def test_a_session_of_slash_commands_with_a_name_is_listed():
    async with running_agent(talkative()) as agent:
        session = await talked(agent, agent.folder, "/rename Of animals")
        assert [(row["sessionId"], row["title"]) for row in await rows(agent)] == [(session, "Of animals")]


async def test_a_row_has_folder_title_and_time():
    async with running_agent(talkative()) as agent:
        await talked(agent, agent.folder, "# Fix the parser\nIt drops the last line.")
        (row,) = await rows(agent)
        assert row["cwd"] == str(agent.folder)
        assert row["title"] == "Fix the parser"
        assert row["updatedAt"].endswith("Z")
        assert datetime.fromisoformat(row["updatedAt"]).tzinfo is not None


async def test_the_newest_is_first_and_a_new_prompt_moves_a_session_up():
    async with running_agent(talkative()) as agent:
        first = await talked(agent, agent.folder)
        second = await talked(agent, agent.folder)
        assert [row["sessionId"] for row in await rows(agent)] == [second, first]
        await agent.editor.prompt(first, "Again")
        assert [row["sessionId"] for row in await rows(agent)] == [first, second]


async def test_the_folder_filter_compares_normalised_paths():
    async with running_agent(talkative()) as agent:
        inside, other = agent.folder / "project", agent.folder / "other"
        inside.mkdir()
        other.mkdir()
        link = agent.folder / "link"
        link.symlink_to(inside)
        session = await talked(agent, inside)
        await talked(agent, other)
        for spelling in (inside, f"{inside}/", f"{agent.folder}/other/../project", link):
            found = await rows(agent, {"cwd": str(spelling)})
            assert [row["sessionId"] for row in found] == [session], spelling
        assert await rows(agent, {"cwd": str(agent.folder)}) == []
        assert len(await rows(agent, {"cwd": None, "cursor": None})) == 2


async def test_additional_directories_are_listed_while_they_are_there():
    async with running_agent(talkative()) as agent:
        extra = str(agent.folder / "extra")
        await anyio.Path(extra).mkdir()
        params: JsonDict = {"cwd": str(agent.folder), "mcpServers": [], "additionalDirectories": [extra]}
        answer = await agent.editor.request("session/new", params)
        await agent.editor.prompt(answer["sessionId"], "Hi")
        (row,) = await rows(agent)
        assert row["additionalDirectories"] == [extra]
        # As those of a session from another machine.
        await anyio.Path(extra).rmdir()
        (row,) = await rows(agent)
        assert row.get("additionalDirectories", []) == []


@pytest.mark.slow
async def test_pages_hold_every_session_once_with_opaque_cursors():
    async with running_agent(talkative()) as agent:
        sessions = [await talked(agent, agent.folder) for _ in range(53)]
        first = await agent.editor.request("session/list", {})
        assert len(first["sessions"]) == 50
        second = await agent.editor.request("session/list", {"cursor": first["nextCursor"]})
        assert "nextCursor" not in second
        found = [row["sessionId"] for row in (*first["sessions"], *second["sessions"])]
        assert found == sessions[::-1]


@pytest.mark.parametrize("cursor", ["", "1", "not a cursor", "WzEsMl0=", "ümlaut", "x" * 10_000, 5])
async def test_a_cursor_that_we_did_not_make_is_refused(cursor: object):
    async with running_agent(talkative()) as agent:
        error = await refused(agent.editor, "session/list", {"cursor": cursor})
        assert error.code == INVALID_PARAMS


async def test_a_list_reads_no_transcripts_so_it_stays_cheap():
    async with running_agent(talkative()) as agent:
        await talked(agent, agent.folder)
        plan = await agent.database.read(
            lambda tx: tx.all("EXPLAIN QUERY PLAN SELECT * FROM sessions WHERE prompt_count > 0 ORDER BY updated_ms")
        )
        assert all("events" not in str(step) for step in plan)
        assert [row["title"] for row in await rows(agent)] == ["Hi"]


async def test_a_folder_that_cannot_exist_is_named_as_wrong():
    async with running_agent(talkative()) as agent:
        error = await refused(agent.editor, "session/list", {"cwd": f"{agent.folder}\0evil"})
        assert error.code == INVALID_PARAMS
        assert "cannot exist" in error.message
