"""Many clients of one process over WebSocket: who may connect, what each sees, and the ends of connections."""

import json
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from acp.ws.client import create_websocket_stream
from anyio.abc import ByteStream

from pattern_acp.bootstrap.remote_server import AddressUnusableError, ClientLimits, parse_address
from pattern_acp.jsonrpc.websocket import HandshakeRefusedError, dial
from pattern_acp.providers.scripted import ScriptStep
from tests.support.remote import TOKEN, ServedRemotely, remote_editor, served_remotely
from tests.support.serving import temporary_home


async def try_to_connect(served: ServedRemotely, *, path: str = "/acp", **headers: str) -> HandshakeRefusedError:
    """The refusal of a client that shows these headers."""
    url = f"ws://127.0.0.1:{served.port}{path}"
    with pytest.raises(HandshakeRefusedError) as refused:
        await dial(await served.stream(), url, {name.replace("_", "-"): value for name, value in headers.items()})
    return refused.value


async def read_to_the_end(stream: ByteStream) -> None:
    """Read until the other side has closed the stream."""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            await stream.receive()


async def leave(stream: ByteStream) -> None:
    """Close what connected."""
    await stream.aclose()


async def test_clients_have_sessions_of_their_own_over_one_memory() -> None:
    async with temporary_home() as home:
        home.script([ScriptStep(text="One.")], [ScriptStep(text="Two.")])
        async with served_remotely(home) as served, remote_editor(served) as first, remote_editor(served) as second:
            one = await first.open_session(str(home.project))
            two = await second.open_session(str(home.project))
            await first.prompt(one, "hello")
            await second.prompt(two, "hello")
            assert served.server.clients == 2
            assert "One." in first.said()
            assert "One." not in second.said()
            assert "Two." in second.said()
            listed = await second.request("session/list", {"cwd": str(home.project)})
            assert {each["sessionId"] for each in listed["sessions"]} == {one, two}


async def test_a_session_that_one_client_has_open_is_shown_to_another() -> None:
    async with temporary_home() as home:
        home.script([ScriptStep(text="Hello you.")])
        async with served_remotely(home) as served, remote_editor(served) as first, remote_editor(served) as second:
            session = await first.open_session(str(home.project))
            await first.prompt(session, "hello")
            await second.request("session/load", {"sessionId": session, "cwd": str(home.project), "mcpServers": []})
            await second.wait_until(lambda: "Hello you." in second.said())


async def test_the_client_of_the_sdk_drives_a_turn() -> None:
    async with temporary_home() as home:
        home.script([ScriptStep(text="From afar.")])
        async with served_remotely(home) as served:
            transport = await create_websocket_stream(served.url, headers={"Authorization": f"Bearer {TOKEN}"})
            number = 0

            async def ask(method: str, params: dict[str, object]) -> dict[str, object]:
                nonlocal number
                number += 1
                await transport.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
                while (message := await transport.receive()) is not None:
                    seen.append(json.dumps(message))
                    if message.get("id") == number:
                        return message["result"]
                raise AssertionError("the server left")

            seen: list[str] = []
            await ask("initialize", {"protocolVersion": 1})
            opened = await ask("session/new", {"cwd": str(home.project), "mcpServers": []})
            prompt = [{"type": "text", "text": "hello"}]
            ended = await ask("session/prompt", {"sessionId": opened["sessionId"], "prompt": prompt})
            assert ended["stopReason"] == "end_turn"
            assert any("From afar." in line for line in seen)
            await transport.close()


@pytest.mark.parametrize("token", ["", "Bearer ", "Bearer pat_another", f"Basic {TOKEN}"])
async def test_a_wrong_token_or_none_is_refused_with_a_sentence(token: str) -> None:
    async with temporary_home() as home, served_remotely(home) as served:
        refused = await try_to_connect(served, **({"Authorization": token} if token else {}))
        assert refused.status == 401
        assert "token is missing or wrong" in refused.sentence
        assert served.server.clients == 0


async def test_a_page_shows_the_token_in_a_subprotocol_or_the_query_and_needs_its_origin_allowed() -> None:
    async with temporary_home() as home, served_remotely(home, origins=("http://localhost:3000",)) as served:
        refused = await try_to_connect(served, path=f"/acp?token={TOKEN}", Origin="http://evil.example")
        assert (refused.status, "origin" in refused.sentence) == (403, True)
        for path, offered in (("/acp", f"acp, pattern-token.{TOKEN}"), (f"/acp?token={TOKEN}", "acp")):
            socket, headers = await dial(
                await served.stream(),
                f"ws://127.0.0.1:{served.port}{path}",
                {"Origin": "http://localhost:3000"},
                subprotocols=[each.strip() for each in offered.split(",")],
            )
            assert headers["sec-websocket-protocol"] == "acp"
            assert headers["acp-connection-id"]
            await socket.close()


async def test_an_unknown_path_and_an_unknown_connection_are_refused() -> None:
    async with temporary_home() as home, served_remotely(home) as served:
        authorization = f"Bearer {TOKEN}"
        assert (await try_to_connect(served, path="/other", Authorization=authorization)).status == 404
        gone = await try_to_connect(
            served, Authorization=authorization, Acp_Connection_Id="nobody", Pattern_Received="4"
        )
        assert gone.status == 410


async def test_more_clients_than_the_limit_are_refused_with_the_limit() -> None:
    limits = ClientLimits(clients=1)
    async with temporary_home() as home, served_remotely(home, limits=limits) as served, remote_editor(served):
        refused = await try_to_connect(served, Authorization=f"Bearer {TOKEN}")
        assert (refused.status, "1 clients" in refused.sentence) == (503, True)


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x00\xff" * 40, b"GET " + b"x" * 100_000])
async def test_silence_and_garbage_end_within_the_handshakes_time(said: bytes) -> None:
    async with temporary_home() as home, served_remotely(home, limits=ClientLimits(handshake_seconds=0.2)) as served:
        stream = await served.stream()
        if said:
            await stream.send(said)
        with anyio.fail_after(20):
            await read_to_the_end(stream)
        async with remote_editor(served) as editor:
            await editor.open_session(str(home.project))


async def test_a_frame_beyond_the_limit_ends_that_connection_alone() -> None:
    limits = ClientLimits(message_bytes=10_000)
    async with temporary_home() as home, served_remotely(home, limits=limits) as served, remote_editor(served) as good:
        socket, _ = await dial(await served.stream(), served.url, {"Authorization": f"Bearer {TOKEN}"})
        await socket.send_text(b'"' + b"x" * 20_000 + b'"')
        with anyio.fail_after(20):
            assert await socket.receive() is None
        assert socket.end_code == 1009
        await good.open_session(str(home.project))


async def test_garbage_in_a_frame_is_answered_and_a_client_that_says_nothing_is_ended() -> None:
    async with (
        temporary_home() as home,
        served_remotely(home, limits=ClientLimits(first_message_seconds=0.1)) as served,
    ):
        socket, _ = await dial(await served.stream(), served.url, {"Authorization": f"Bearer {TOKEN}"})
        await socket.send_text(b"{nonsense")
        answer = await socket.receive()
        assert answer is not None
        assert json.loads(answer.data)["error"]["code"] == -32700
        silent, _ = await dial(await served.stream(), served.url, {"Authorization": f"Bearer {TOKEN}"})
        with anyio.fail_after(20):
            assert await silent.receive() is None


async def test_the_lease_of_a_client_that_left_is_free_for_the_next() -> None:
    async with temporary_home() as home:
        home.script([ScriptStep(text="One.")], [ScriptStep(text="Two.")])
        async with served_remotely(home) as served:
            async with remote_editor(served) as first:
                session = await first.open_session(str(home.project))
                await first.prompt(session, "hello")
            await served.server.wait_until_empty()
            async with remote_editor(served) as second:
                await second.request("session/load", {"sessionId": session, "cwd": str(home.project), "mcpServers": []})
                assert (await second.prompt(session, "go on"))["stopReason"] == "end_turn"
                assert "Two." in second.said()


@pytest.mark.parametrize("text", ["8931x", "127.0.0.1", "127.0.0.1:99999", "unix:", "::1:80", "host:-1"])
def test_what_is_no_address_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(AddressUnusableError, match=r"give 127\.0\.0\.1:PORT"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "is_here"),
    [
        *((text, True) for text in ("127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/tmp/x", ":1")),
        *((text, False) for text in ("0.0.0.0:1", "[::]:1", "10.0.0.4:1", "example.org:1")),
    ],
)
def test_an_address_says_whether_other_machines_reach_it(text: str, is_here: bool) -> None:
    assert parse_address(text).is_of_this_machine is is_here


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    from pattern_acp.bootstrap.remote_server import Address, listen

    taken, url = await listen(Address("127.0.0.1", 0), None, 1)
    async with taken:
        port = int(url.rpartition(":")[2].partition("/")[0])
        with pytest.raises(AddressUnusableError, match="choose another address"):
            await listen(Address("127.0.0.1", port), None, 1)
    socket = tmp_path / "socket"
    held, _ = await listen(Address(path=str(socket)), None, 1)
    async with held, anyio.create_task_group() as tasks:
        tasks.start_soon(held.serve, leave)
        with pytest.raises(AddressUnusableError, match="Another server listens"):
            await listen(Address(path=str(socket)), None, 1)
        tasks.cancel_scope.cancel()
