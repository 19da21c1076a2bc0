"""One odd entry of a server's list costs itself at most; the others are there, and it is named with the reason."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from pattern_acp.config.settings import McpServerSettings
from pattern_acp.mcp_servers.catalogue import ServerError
from pattern_acp.mcp_servers.server import Server, ServerState
from tests.support.mcp_fakes import hosted, silent
from tests.support.mcp_http_server import HttpServer, Refused, http_server
from tests.support.mcp_server import NO_ARGUMENTS, TEXT_SCHEMA, tool

GOOD = tool("echo", "Echoes a text.", TEXT_SCHEMA)
EMPTY = NO_ARGUMENTS


@pytest.fixture
def http() -> Iterator[HttpServer]:
    with http_server() as server:
        yield server


@asynccontextmanager
async def listed(http: HttpServer) -> AsyncGenerator[Server]:
    async with hosted(McpServerSettings("odd", "http", url=http.url)) as session:
        await session.wait_settled(30)
        (server,) = session.servers
        assert (server.state, server.problem) == (ServerState.READY, "")
        yield server


def odd(**fields: object) -> dict[str, Any]:
    return {"name": "odd", "inputSchema": EMPTY, **fields}


REPAIRED = {
    "only $schema": odd(inputSchema={"$schema": "https://json-schema.org/draft/2020-12/schema"}),
    "required among properties": odd(inputSchema={"type": "object", "properties": {"required": ["a"]}}),
    "anyOf without type": odd(inputSchema={"anyOf": [EMPTY]}),
    "$ref without type": odd(inputSchema={"$ref": "#/$defs/A", "$defs": {"A": EMPTY}}),
    "object or null": odd(inputSchema={"type": ["object", "null"]}),
    "schema null": odd(inputSchema=None),
    "schema missing": {"name": "odd"},
    "schema an empty list": odd(inputSchema=[]),
    "properties null": odd(inputSchema={"type": "object", "properties": None}),
    "required null": odd(inputSchema={"type": "object", "required": None}),
    "description a number": odd(description=5),
    "description null": odd(description=None),
    "title a list": odd(title=["a"]),
    "icons of a draft": odd(icons=[{"sizes": "48x48"}]),
    "icons with a source of a draft": odd(icons=[{"src": "https://x/y.png", "sizes": "48x48"}]),
    "outputSchema a text": odd(outputSchema="a"),
    "outputSchema of text": odd(outputSchema={"type": "string"}),
    "outputSchema unsound": odd(outputSchema={"type": "object", "properties": {"a": {"type": "nonsense"}}}),
    "outputSchema that leads nowhere": odd(outputSchema={"type": "object", "properties": {"a": {"$ref": "#/gone"}}}),
    "task support unknown": odd(execution={"taskSupport": "sometimes"}),
    "_meta a number": odd(_meta=5),
    "annotations a text": odd(annotations="readOnly"),
    "a hint that is no boolean": odd(annotations={"readOnlyHint": "yes please"}),
}


@pytest.mark.parametrize("entry", REPAIRED.values(), ids=REPAIRED.keys())
async def test_a_tool_of_unusual_form_is_repaired_and_can_be_called(http: HttpServer, entry: dict[str, Any]):
    http.pages = [{"tools": [GOOD, entry]}]
    async with listed(http) as server:
        assert [each.name for each in server.catalogue.tools] == ["echo", "odd"]
        found = server.catalogue.tool("odd")
        assert found is not None
        assert found.input_schema["type"] == "object"
        assert not found.read_only
        assert server.catalogue.left_out == ()
        assert (await server.call("odd", {}, silent)).text == "odd: "


@pytest.mark.parametrize(
    ("entry", "left_out"),
    [
        (None, "the tool number 2 (it is no object)"),
        ("echo", "the tool number 2 (it is no object)"),
        ({"inputSchema": EMPTY}, "the tool number 2 (it has no name)"),
        (odd(name=None), "the tool number 2 (it has no name)"),
        (odd(name=5), "the tool number 2 (it has no name)"),
        (odd(name=" \n"), "the tool number 2 (it has no name)"),
        (
            odd(inputSchema={"type": "string"}),
            "the tool `odd` (its inputSchema is of type string, and arguments are an object)",
        ),
        (odd(inputSchema="object"), "the tool `odd` (its inputSchema is no JSON Schema)"),
        (odd(inputSchema=[EMPTY]), "the tool `odd` (its inputSchema is no JSON Schema)"),
    ],
)
async def test_a_tool_that_cannot_be_used_is_left_out_with_the_reason(
    http: HttpServer, entry: object, left_out: str, caplog: pytest.LogCaptureFixture
):
    http.pages = [{"tools": [GOOD, entry]}]
    async with listed(http) as server:
        told = [record.getMessage() for record in caplog.records if "Left out" in record.getMessage()]
        assert told == [f"Left out of what the MCP server 'odd' offers: {left_out}."]
        assert [each.name for each in server.catalogue.tools] == ["echo"]
        assert server.catalogue.left_out == (left_out,)
        assert (await server.call("echo", {"text": "hi"}, silent)).text == "echo: hi"


@pytest.mark.parametrize(("tools", "left_out"), [(None, ()), ({"echo": GOOD}, ("its tools (they are no list)",))])
async def test_a_list_that_is_none_leaves_the_server(http: HttpServer, tools: object, left_out: tuple[str, ...]):
    http.pages = [{"tools": tools, "_meta": 5}]
    async with listed(http) as server:
        assert (server.catalogue.tools, server.catalogue.left_out) == ((), left_out)


async def test_prompts_and_resources_are_looked_at_one_by_one_too(http: HttpServer):
    http.lists = {
        "prompts/list": {
            "prompts": [
                {"name": "good", "arguments": [{"name": "topic", "required": True}], "title": None},
                {"name": "plain", "arguments": None, "description": 5},
                {"name": "bad", "arguments": [{"required": True}]},
                {"description": "nameless"},
                None,
            ],
            "nextCursor": 5,
        },
        "resources/list": {
            "resources": [
                {"uri": "a:b", "name": "Notes", "size": "big", "mimeType": None},
                {"uri": "c:d"},
                {"name": "nowhere"},
                7,
            ]
        },
    }
    async with listed(http) as server:
        offered = server.catalogue
        assert [(prompt.name, len(prompt.arguments)) for prompt in offered.prompts] == [("good", 1), ("plain", 0)]
        assert [(resource.uri, resource.name) for resource in offered.resources] == [("a:b", "Notes"), ("c:d", "c:d")]
        assert [each.partition(" (")[0] for each in offered.left_out] == [
            "the prompt `bad`",
            "the prompt number 4",
            "the prompt number 5",
            "the resource `nowhere`",
            "the resource number 4",
        ]
        assert [tool.name for tool in offered.tools] == ["echo"]


async def test_only_a_cursor_that_is_missing_ends_a_list(http: HttpServer):
    names = [tool(name, "Does something.") for name in "abc"]
    http.pages = [
        {"tools": [names[0]], "nextCursor": ""},
        {"tools": [names[1]], "nextCursor": "more"},
        {"tools": [names[2]], "nextCursor": None},
    ]
    async with listed(http) as server:
        assert [each.name for each in server.catalogue.tools] == ["a", "b", "c"]


async def test_a_cursor_that_repeats_ends_a_list_and_nothing_is_listed_twice(http: HttpServer):
    # So do servers that write an empty cursor behind their last page, and take it for none.
    http.pages = [{"tools": [GOOD], "nextCursor": ""}, {"tools": [GOOD], "nextCursor": ""}]
    async with listed(http) as server:
        assert [each.name for each in server.catalogue.tools] == ["echo"]
        assert http.count("tools/list") == 2


@pytest.mark.parametrize(("cursor", "told"), [("", False), ("more", True)])
async def test_a_list_that_breaks_off_keeps_what_came(http: HttpServer, cursor: str, *, told: bool):
    http.pages = [{"tools": [GOOD], "nextCursor": cursor}]
    http.refused_cursor = Refused(
        200, '{"jsonrpc": "2.0", "id": null, "error": {"code": -32602, "message": "Invalid cursor"}}'
    )
    async with listed(http) as server:
        assert [each.name for each in server.catalogue.tools] == ["echo"]
        assert ["Invalid cursor" in each for each in server.catalogue.left_out] == [True] * told


async def test_a_result_that_does_not_hold_to_a_sound_schema_is_still_refused(http: HttpServer):
    http.pages = [{"tools": [odd(outputSchema={"type": "object", "properties": {"a": {"type": "string"}}})]}]
    async with listed(http) as server:
        with pytest.raises(ServerError, match="does not have the form that it promised"):
            await server.call("odd", {}, silent)


async def test_the_server_gets_its_own_names_of_arguments(http: HttpServer):
    schema = {"type": "object", "properties": {"$text": {"type": "string"}, "text": {"type": "string"}}}
    http.pages = [{"tools": [odd(inputSchema=schema)]}]
    async with listed(http) as server:
        found = server.catalogue.tool("odd")
        assert found is not None
        renamed = cast("dict[str, object]", found.input_schema["properties"])
        assert (await server.call("odd", {next(iter(renamed)): "q", "text": "t"}, silent)).text == "odd: t"
        assert http.arguments == {"$text": "q", "text": "t"}
