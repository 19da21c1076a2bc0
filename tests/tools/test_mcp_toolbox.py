"""Which tools of MCP servers are in the prompt, and what is told of changes."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import McpServerSettings
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.mcp_servers.catalogue import Catalogue, Pin, RemoteTool, pin_of
from pattern_acp.mcp_servers.server import Server
from pattern_acp.tools.base import ToolFailedError, ToolInputError
from pattern_acp.tools.mcp_toolbox import TOOL_LIMIT, McpToolbox, best_tools, call_arguments
from tests.support.mcp_fakes import FakeConnection, FakeServers, hosted
from tests.support.tools import as_json_object, tool_bench


class Memory:
    """`Agreements` without a database."""

    def __init__(self) -> None:
        self.pins: dict[str, Pin] = {}

    async def known(self, server: Server) -> Mapping[str, Pin]:
        del server
        return self.pins

    async def agree(self, server: Server, tools: Sequence[RemoteTool]) -> None:
        del server
        self.pins |= {tool.name: pin_of(tool) for tool in tools}


def remote(name: str, *, read_only: bool = False) -> RemoteTool:
    return RemoteTool(name, f"Does {name}.", {"type": "object", "properties": {}}, read_only=read_only)


def many(count: int) -> tuple[RemoteTool, ...]:
    return tuple(remote(f"t{number}") for number in range(count))


@asynccontextmanager
async def toolbox(
    *offers: Catalogue, own: Sequence[str] = ("read_file",)
) -> AsyncGenerator[tuple[McpToolbox, list[FakeConnection]], None]:
    connections = [FakeConnection(offer) for offer in offers]
    settings = [McpServerSettings(f"s{number}", command="x") for number in range(len(offers))]
    async with hosted(*settings, load=FakeServers(*connections).load) as session:
        await session.wait_settled(30)
        yield McpToolbox(session, Memory(), own), connections


def offered(box: McpToolbox, *, plan: bool = False) -> list[str]:
    return [tool.spec.name for tool in box.offered(mode_is_plan=plan)]


async def test_nothing_is_offered_before_the_first_prompt_and_nothing_changes_after_it(tmp_path: Path):
    async with toolbox(Catalogue(many(2))) as (box, (connection,)):
        assert offered(box) == []
        box.fix()
        assert offered(box) == ["s0__t0", "s0__t1"]
        connection.offers = Catalogue((remote("t1"), remote("t2")))
        connection.on_change()
        with anyio.fail_after(30):
            while not box.notes():
                await anyio.lowlevel.checkpoint()
        box.fix()
        assert offered(box) == ["s0__t0", "s0__t1"]
        (note,) = box.notes()
        assert "added: s0__t2" in note
        assert "removed: s0__t0" in note
        gone = next(tool for tool in box.callable() if tool.spec.name == "s0__t0")
        with pytest.raises(ToolFailedError, match="no longer has the tool t0"):
            await gone.prepare({}, ToolCallId("c"), tool_bench(tmp_path).context)


async def test_all_tools_are_in_the_prompt_up_to_forty_in_total():
    async with toolbox(Catalogue(many(TOOL_LIMIT - 1))) as (box, _):
        box.fix()
        assert len(offered(box)) == TOOL_LIMIT - 1
    async with toolbox(Catalogue(many(TOOL_LIMIT))) as (box, _):
        box.fix()
        assert offered(box) == ["mcp_search", "mcp_call"]


async def test_what_searches_and_calls_counts_among_the_forty():
    async with toolbox(Catalogue(many(TOOL_LIMIT - 3), may_change=True)) as (box, _):
        box.fix()
        assert len(offered(box)) == TOOL_LIMIT - 1
    async with toolbox(Catalogue(many(TOOL_LIMIT - 2), may_change=True)) as (box, _):
        box.fix()
        assert offered(box) == ["mcp_search", "mcp_call"]


async def test_a_server_that_may_change_brings_the_means_to_reach_what_it_adds():
    async with toolbox(Catalogue(many(1), may_change=True)) as (box, _):
        box.fix()
        assert offered(box) == ["s0__t0", "mcp_search", "mcp_call"]


async def test_plan_mode_keeps_what_reads():
    async with toolbox(Catalogue((remote("look", read_only=True), remote("do")), may_change=True)) as (box, _):
        box.fix()
        assert offered(box, plan=True) == ["s0__look", "mcp_search", "mcp_call"]


async def test_tools_that_end_up_with_one_name_are_told_apart_from_ours_and_each_other():
    offers = Catalogue((remote("t"), remote("t ")))
    async with toolbox(offers, own=("s0__t",)) as (box, _):
        box.fix()
        names = offered(box)
        assert len(set(names)) == 2
        assert "s0__t" not in names


async def test_a_server_that_ended_is_told():
    async with toolbox(Catalogue(many(1))) as (box, (connection,)):
        box.fix()
        connection.ended.set()
        with anyio.fail_after(30):
            while not box.notes():
                await anyio.lowlevel.checkpoint()
        assert box.notes() == ("The MCP server s0 is not there now.",)


async def test_words_find_tools_names_before_descriptions():
    about = replace(remote("other"), description="Sends mail about issues.")
    async with toolbox(Catalogue((about, remote("create_issue"), remote("list_pages")))) as (box, _):
        tools = box.tools()
        assert [tool.remote.name for tool in best_tools(tools, "issue")] == ["create_issue", "other"]
        assert best_tools(tools, "s0 pages")[0].remote.name == "list_pages"
        assert best_tools(tools, "zebra") == []
        assert len(best_tools(tools, " ")) == 3


def test_inner_arguments_may_come_as_text():
    assert call_arguments({"tool": "a", "arguments": '{"b": 1}'}) == ("a", {"b": 1})
    assert call_arguments({"tool": "a"}) == ("a", {})


@pytest.mark.parametrize("arguments", [{}, {"tool": 5}, {"tool": "a", "arguments": []}, {"tool": "a", "x": 1}])
def test_what_is_no_call_is_refused_with_the_form(arguments: dict[str, object]):
    with pytest.raises(ToolInputError, match="the name that mcp_search gave"):
        call_arguments(as_json_object(arguments))
