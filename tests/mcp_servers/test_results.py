"""Results that do not follow the protocol: the tool has done its work, so what can be read of them is read."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.config.settings import McpServerSettings
from pattern_acp.mcp_servers.catalogue import ServerError
from pattern_acp.mcp_servers.listing import is_sound_result, sound_result
from pattern_acp.mcp_servers.server import Server
from tests.support.mcp_fakes import hosted, script, silent
from tests.support.mcp_http_server import HttpServer, http_server
from tests.support.mcp_server import NO_ARGUMENTS, ONE_PIXEL, tool

TEXT = {"type": "text", "text": "Done."}
PROTOCOL = "2025-11-25"


@pytest.fixture
def http() -> Iterator[HttpServer]:
    with http_server() as server:
        yield server


@asynccontextmanager
async def joined(http: HttpServer) -> AsyncGenerator[Server]:
    async with hosted(McpServerSettings("odd", "http", url=http.url)) as session:
        await session.wait_settled(30)
        yield session.servers[0]


ODD: dict[str, tuple[dict[str, object], str]] = {
    "structured content alone": ({"structuredContent": {"a": 1}}, '{"a": 1}'),
    "structured content and null": ({"content": None, "structuredContent": {"a": 1}}, '{"a": 1}'),
    "structured content that is a list": ({"structuredContent": [1, 2]}, "[1, 2]"),
    "structured content that is a list, and text": ({"content": [TEXT], "structuredContent": [1]}, "Done."),
    "nothing": ({}, ""),
    "content null": ({"content": None}, ""),
    "content a text": ({"content": "Done."}, "Done."),
    "content a block": ({"content": TEXT}, "Done."),
    "content a number": ({"content": 5}, "5"),
    "a text among the blocks": ({"content": ["Done.", TEXT]}, "Done.\nDone."),
    "null among the blocks": ({"content": [None, TEXT]}, "Done."),
    "a block of a type to come": (
        {"content": [TEXT, {"type": "hologram", "data": "aGk="}]},
        "Done.\n(content of type hologram, which cannot be shown)",
    ),
    "a block of a type to come, with text": ({"content": [{"type": "hologram", "text": "Words."}]}, "Words."),
    "a block without type": ({"content": [{"text": "Words."}]}, "Words."),
    "a text block without text": ({"content": [{"type": "text"}, TEXT]}, "Done."),
    "a text that is a number": ({"content": [{"type": "text", "text": 5}]}, "5"),
    "a text that is an object": ({"content": [{"type": "text", "text": {"a": 1}}]}, '{"a": 1}'),
    "an image without a type": (
        {"content": [{"type": "image", "data": "aGk="}]},
        "(content of type image, which cannot be shown)",
    ),
    "notes of another form": ({"content": [{**TEXT, "annotations": "for you", "_meta": 5}]}, "Done."),
    "audience to come": ({"content": [{**TEXT, "annotations": {"audience": ["robot"]}}]}, "Done."),
    "_meta a number": ({"content": [TEXT], "_meta": 5}, "Done."),
    "isError null": ({"content": [TEXT], "isError": None}, "Done."),
    "a link without a name": ({"content": [{"type": "resource_link", "uri": "a:b"}]}, "a:b: a:b"),
}


@pytest.mark.parametrize(("result", "text"), ODD.values(), ids=ODD.keys())
async def test_what_can_be_read_of_an_odd_result_is_read(http: HttpServer, result: object, text: str):
    http.result = result
    async with joined(http) as server:
        reply = await server.call("echo", {}, silent)
        assert (reply.text, reply.is_error) == (text, False)
        assert http.calls == 1


@pytest.mark.parametrize("flag", [True, "true", 1])
async def test_an_error_is_one_however_it_is_written(http: HttpServer, flag: object):
    http.result = {"content": [TEXT], "isError": flag}
    async with joined(http) as server:
        assert (await server.call("echo", {}, silent)).is_error


async def test_what_a_sound_result_has_stays(http: HttpServer):
    http.result = {"content": [{"type": "image", "data": ONE_PIXEL, "mimeType": "image/png"}, TEXT]}
    async with joined(http) as server:
        reply = await server.call("echo", {}, silent)
        assert (reply.text, len(reply.images)) == ("Done.", 1)


async def test_a_result_that_breaks_its_own_schema_says_that_the_call_may_have_run(http: HttpServer):
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    http.pages = [{"tools": [{**tool("odd", "", NO_ARGUMENTS), "outputSchema": schema}]}]
    http.result = {"structuredContent": {"a": 5}}
    async with joined(http) as server:
        with pytest.raises(
            ServerError, match="does not have the form that it promised; the call may have taken effect"
        ):
            await server.call("odd", {}, silent)


async def test_odd_prompts_and_resources_are_read_too(http: HttpServer):
    http.lists = {
        "prompts/get": {
            "messages": [
                {"role": "user", "content": "Explain."},
                {"role": "system", "content": {"type": "hologram"}},
                {"role": "user", "content": [TEXT, {"type": "text", "text": "Twice."}]},
                None,
            ],
            "description": 5,
        },
        "resources/read": {"contents": [{"text": "The notes."}, {"uri": "a:c", "blob": None, "text": 5}, None]},
    }
    async with joined(http) as server:
        assert (await server.prompt("explain", {})).split("\n\n") == [
            "Explain.",
            "(content of type hologram, which cannot be shown)",
            "Done.",
            "Twice.",
        ]
        text = (await server.read("a:b")).text
        assert '<resource uri="a:b">\nThe notes.\n</resource>' in text
        assert '<resource uri="a:c">\n5\n</resource>' in text


async def test_a_cancel_reaches_a_server_over_http_and_names_the_call(http: HttpServer):
    http.hangs = True
    async with joined(http) as server:

        async def call() -> None:
            await server.call("echo", {}, silent)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            with anyio.fail_after(30):
                while not http.calls:
                    await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(30):
            while not http.cancelled.is_set():
                await anyio.lowlevel.checkpoint()
        (told,) = [each for each in http.notified if each["method"] == "notifications/cancelled"]
        assert told["params"]["requestId"] is not None
        http.hangs = False
        assert (await server.call("echo", {"text": "hi"}, silent)).text == "echo: hi"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["text", "image", "resource"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "content", "data", "mimeType", "uri", "resource", "blob", "name", "_meta"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.sampled_from(["tools/call", "prompts/get", "resources/read"]),
    st.dictionaries(
        st.sampled_from(["content", "structuredContent", "isError", "messages", "contents", "_meta", "x"]), JSON
    ),
)
def test_whatever_a_server_answers_becomes_a_sound_result_that_stays_so(method: str, result: dict[str, object]):
    sound = sound_result(method, PROTOCOL, result, uri="a:b")
    assert is_sound_result(method, PROTOCOL, sound)
    assert sound_result(method, PROTOCOL, json.loads(json.dumps(sound)), uri="a:b") == sound


@pytest.mark.parametrize(
    "progress", [{"progress": "half"}, {"progress": None}, {"progress": True}, {"total": "all", "message": 5}, {}]
)
async def test_odd_words_of_progress_leave_the_call(progress: dict[str, object]):
    lines: list[str] = []

    async def report(line: str) -> None:
        lines.append(line)

    async with hosted(script("progress", json.dumps(progress))) as session:
        await session.wait_settled(30)
        assert (await session.servers[0].call("echo", {"text": "hi"}, report)).text == "echo: hi"
    assert all(isinstance(line, str) for line in lines)
