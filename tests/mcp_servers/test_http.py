"""Servers over HTTP that forget sessions, are busy or want a login; judged by the status, not by words."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest

from pattern_acp.config.settings import McpServerSettings
from pattern_acp.mcp_servers.catalogue import ServerError
from pattern_acp.mcp_servers.server import Server, ServerState
from tests.support.mcp_fakes import hosted, silent
from tests.support.mcp_http_server import SESSION_NOT_FOUND, HttpServer, Refused, http_server
from tests.support.mcp_server import TEXT_SCHEMA, tool
from tests.support.web_server import Answer, web_server

BUSY = Refused(503, "Busy", "text/plain", retry_after="0")


@pytest.fixture
def http() -> Iterator[HttpServer]:
    with http_server() as server:
        yield server


@asynccontextmanager
async def joined(http: HttpServer, transport: str = "http") -> AsyncGenerator[Server]:
    async with hosted(McpServerSettings("far", transport, url=http.url)) as session:
        await session.wait_settled(30)
        yield session.servers[0]


async def echo(server: Server, text: str = "hi", *, agreed: str = "") -> str:
    with anyio.fail_after(30):
        return (await server.call("echo", {"text": text}, silent, agreed=agreed)).text


def rpc_error(code: int, message: str) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}})


FORGOT = [
    Refused(404, SESSION_NOT_FOUND),
    Refused(404),
    Refused(404, "Nothing here", "text/plain"),
    Refused(404, "<html><h1>Not found</h1></html>", "text/html"),
    Refused(404, '{"error": "unknown session"}'),
    Refused(404, "not JSON at all"),
    Refused(404, rpc_error(-32601, "Method not found")),
    Refused(400, SESSION_NOT_FOUND),
    Refused(400, rpc_error(-32000, "Bad Request: No valid session ID provided")),
    Refused(400, rpc_error(-32000, "Bad Request: Server not initialized")),
    Refused(400, '{"error": {"code": -32000, "message": "Session terminated"}}'),
    Refused(400, "Invalid session ID", "text/plain"),
]


@pytest.mark.parametrize("strange", FORGOT, ids=lambda strange: f"{strange.status} {strange.body[-60:]}")
async def test_a_server_that_forgot_the_session_is_joined_again_and_no_call_is_lost(http: HttpServer, strange: Refused):
    http.strange = strange
    async with joined(http) as server:
        for number in range(3):
            http.forget()
            assert await echo(server, str(number)) == f"echo: {number}"
            assert (server.state, server.problem, server.restarts) == (ServerState.READY, "", 0)
        assert (http.count("initialize"), http.count("tools/list"), http.calls) == (4, 4, 3)
        # A new session is begun without the old one's id.
        assert [session for method, session in http.asked if method == "initialize"] == [""] * 4


async def test_calls_side_by_side_are_all_made_again(http: HttpServer):
    async with joined(http) as server:
        http.forget()
        answers: list[str] = []

        async def call(text: str) -> None:
            answers.append(await echo(server, text))

        async with anyio.create_task_group() as tasks:
            for text in "abcde":
                tasks.start_soon(call, text)
        assert sorted(answers) == [f"echo: {text}" for text in "abcde"]
        assert (http.count("initialize"), http.calls) == (2, 5)


async def test_a_call_is_made_again_once_and_the_next_one_tries_anew(http: HttpServer):
    async with joined(http) as server:
        http.forgets_at_calls = True
        with pytest.raises(ServerError, match=r"far could not do it: Session not found \(HTTP status 404\)"):
            await echo(server)
        assert (http.count("tools/call"), http.count("initialize")) == (2, 2)
        http.forgets_at_calls = False
        assert await echo(server) == "echo: hi"
        assert server.restarts == 0


async def test_a_server_that_forgets_the_new_session_too_before_it_is_listed_is_given_up(http: HttpServer):
    async with joined(http) as server:
        http.refusals = [http.strange] * 3
        with pytest.raises(ServerError, match="cannot be used now"):
            await echo(server)
        assert server.state is ServerState.FAILED


async def test_prompts_and_resources_are_asked_for_again_too(http: HttpServer):
    http.lists = {
        "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "Explain."}}]},
        "resources/read": {"contents": [{"uri": "a:b", "text": "The notes."}]},
    }
    async with joined(http) as server:
        http.forget()
        assert await server.prompt("explain", {}) == "Explain."
        http.forget()
        assert "The notes." in (await server.read("a:b")).text


async def test_a_tool_that_changed_meanwhile_is_not_called_as_it_was_allowed(http: HttpServer):
    async with joined(http) as server:
        known = server.catalogue.tool("echo")
        assert known is not None
        http.pages = [{"tools": [tool("echo", "Sends the text to everybody.", TEXT_SCHEMA)]}]
        http.forget()
        with pytest.raises(ServerError, match="has changed the tool echo since this call was allowed; call it again"):
            await echo(server, agreed=known.digest)
        now = server.catalogue.tool("echo")
        assert now is not None
        assert now.description == "Sends the text to everybody."
        assert http.calls == 0
        assert await echo(server, agreed=now.digest) == "echo: hi"
        http.pages = [{"tools": []}]
        http.forget()
        with pytest.raises(ServerError, match="no longer has the tool echo"):
            await echo(server, agreed=now.digest)


async def test_without_a_session_a_404_is_no_sign_of_one(http: HttpServer):
    http.with_sessions = False
    async with joined(http) as server:
        http.refusals = [Refused(404, "Gone for lunch", "text/plain")]
        with pytest.raises(ServerError, match=r"it answered with HTTP status 404 \(Gone for lunch\)"):
            await echo(server)
        assert http.count("initialize") == 1
        assert server.state is ServerState.READY


async def test_a_400_that_says_nothing_of_a_session_is_an_error_of_the_call(http: HttpServer):
    async with joined(http) as server:
        http.refusals = [Refused(400, rpc_error(-32602, "session_date is missing"))]
        with pytest.raises(ServerError, match=r"could not do it: session_date is missing \(HTTP status 400\)"):
            await echo(server)
        assert http.count("initialize") == 1


@pytest.mark.parametrize("status", [429, 503])
async def test_a_call_that_a_busy_server_did_not_begin_is_made_again(http: HttpServer, status: int):
    async with joined(http) as server:
        http.refusals = [replace(BUSY, status=status)] * 2
        assert await echo(server) == "echo: hi"
        assert (http.count("tools/call"), http.calls) == (3, 1)
        http.refusals = [replace(BUSY, status=status)] * 3
        with pytest.raises(ServerError, match=rf"it answered with HTTP status {status} \(Busy\)"):
            await echo(server)
        assert server.problem == f"it answered with HTTP status {status} (Busy)", "/mcp shows it"
        assert await echo(server) == "echo: hi"
        assert server.problem == ""


async def test_a_server_that_wants_more_time_than_a_call_has_is_not_waited_for(http: HttpServer):
    async with joined(http) as server:
        http.refusals = [Refused(429, retry_after="3600")]
        with pytest.raises(ServerError, match="HTTP status 429; it wants to be asked again in 3600 s"):
            await echo(server)


@pytest.mark.parametrize(("hints", "tries"), [({}, 1), ({"idempotentHint": True}, 2), ({"readOnlyHint": True}, 2)])
@pytest.mark.parametrize("status", [502, 504])
async def test_a_call_that_may_have_begun_is_made_again_only_where_that_changes_nothing(
    http: HttpServer, status: int, hints: dict[str, bool], tries: int
):
    http.pages = [{"tools": [{**tool("echo", "Echoes a text.", TEXT_SCHEMA), "annotations": hints}]}]
    async with joined(http) as server:
        http.refusals = [Refused(status, "<html>Bad Gateway</html>", "text/html", retry_after="0")]
        if tries == 1:
            with pytest.raises(ServerError, match=rf"it answered with HTTP status {status}\."):
                await echo(server)
        else:
            assert await echo(server) == "echo: hi"
        assert http.count("tools/call") == tries


async def test_a_server_that_is_busy_at_its_start_is_asked_again(http: HttpServer):
    http.greeting = [BUSY]
    http.refusals = [Refused(502, retry_after="0")]
    async with joined(http) as server:
        assert (server.state, server.restarts) == (ServerState.READY, 0)


@pytest.mark.parametrize(("status", "words"), [(401, "it wants a login"), (403, "it refuses this login")])
async def test_a_login_that_is_wanted_is_named_at_the_start_and_in_a_call(http: HttpServer, status: int, words: str):
    http.greeting = [Refused(status, '{"error": "invalid_token"}')]
    async with joined(http) as server:
        assert server.state is ServerState.FAILED
        assert server.problem.startswith(f"{words} (HTTP status {status}): ")
        assert "`headers`" in server.problem
        assert http.count("initialize") == 1, "a login does not come by asking again"
    async with joined(http) as server:
        http.refusals = [Refused(status)]
        with pytest.raises(ServerError, match=rf"far could not do it: {words} \(HTTP status {status}\)"):
            await echo(server)
        assert (server.state, server.problem[: len(words)]) == (ServerState.READY, words)


@pytest.mark.parametrize(("status", "words"), [(404, "HTTP status 404"), (401, "it wants a login (HTTP status 401)")])
async def test_messages_that_the_older_transport_refuses_end_the_wait_and_name_the_status(status: int, words: str):
    stream = Answer(b"event: endpoint\ndata: /messages\n\n", "text/event-stream", hangs=True)
    async with (
        web_server({"/sse": stream, "/messages": Answer(status=status)}) as web,
        hosted(McpServerSettings("old", "sse", url=web.url("/sse"))) as session,
    ):
        with anyio.fail_after(20):
            await session.wait_settled(30)
        assert session.servers[0].state is ServerState.FAILED
        assert words in session.servers[0].problem


async def test_an_older_transport_that_wants_a_login_is_named():
    async with (
        web_server({"/sse": Answer(status=401)}) as web,
        hosted(McpServerSettings("old", "sse", url=web.url("/sse"))) as session,
    ):
        await session.wait_settled(30)
        assert "it wants a login (HTTP status 401)" in session.servers[0].problem


async def test_an_error_by_the_packages_own_code_for_an_end_is_no_end(http: HttpServer):
    async with joined(http) as server:
        http.refusals = [Refused(200, rpc_error(-32000, "The printer is on fire"))]
        with pytest.raises(ServerError, match="far could not do it: The printer is on fire"):
            await echo(server)
