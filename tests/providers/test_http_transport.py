"""The transport below httpx's client, over real connections to a server of raw bytes."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise

import anyio
import h11
import httpx
import pytest
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.buffered import BufferedByteReceiveStream
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.providers.http import DirectClient
from pattern_acp.providers.http_transport import JOINED_BYTES, ChunkJoiner, ReusingTransport

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class RawServer:
    """Answers each request with the next of `answers` and counts connections; an answer of None ends the connection."""

    def __init__(self, answers: Sequence[bytes | None]) -> None:
        self.answers = list(answers)
        self.connections = 0
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.ended = anyio.Event()

    async def handle(self, stream: ByteStream) -> None:
        self.connections += 1
        reader = BufferedByteReceiveStream(stream)
        async with stream:
            while self.answers:
                try:
                    head = await reader.receive_until(b"\r\n\r\n", 65536)
                except (anyio.IncompleteRead, anyio.BrokenResourceError):
                    return
                self.heads.append(head.lower())
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or b"0")
                self.bodies.append(await reader.receive_exactly(length))
                answer = self.answers.pop(0)
                if answer is None:
                    break
                await stream.send(answer)
                if self.answers and self.answers[0] is None:
                    self.answers.pop(0)
                    break
        self.ended.set()


@asynccontextmanager
async def serving(
    *answers: bytes | None, idle_seconds: float = 30
) -> AsyncGenerator[tuple[RawServer, Callable[[], httpx.Request], httpx.AsyncClient], None]:
    server = RawServer(answers)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(listener.serve, server.handle))
        url = f"http://127.0.0.1:{listener.extra_attributes[SocketAttribute.local_port]()}/v1"
        async with DirectClient(httpx.Timeout(5), ReusingTransport(None, idle_seconds)) as client:
            yield server, partial(client.build_request, "POST", url, content=b"question"), client
        tasks.cancel_scope.cancel()


async def test_a_cookie_that_a_server_sets_comes_back_with_every_request_behind_it():
    with_cookie = HELLO.replace(b"\r\n", b"\r\nSet-Cookie: place=7; Path=/\r\n", 1)
    async with serving(HELLO, with_cookie, HELLO, HELLO) as (server, request, client):
        for _ in range(4):
            await client.send(request())
    assert [b"\r\ncookie: place=7" in head for head in server.heads] == [False, False, True, True]


@pytest.mark.parametrize("size", [JOINED_BYTES, JOINED_BYTES + 1, 5_000_000])
async def test_a_body_of_any_length_comes_whole_behind_its_head(size: int):
    async with serving(HELLO, HELLO) as (server, request, client):
        content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        for body in (content, b"short"):
            answer = await client.send(client.build_request("POST", request().url, content=body))
            assert answer.text == "hello"
    assert (server.connections, server.bodies) == (1, [content, b"short"])


async def test_requests_share_a_connection():
    async with serving(HELLO, CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", HELLO) as (server, request, client):
        answers = [(await client.send(request())).text for _ in range(3)]
    assert answers == ["hello"] * 3
    assert (server.connections, server.bodies) == (1, [b"question"] * 3)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        HELLO + b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nunasked",
    ],
    ids=["close", "HTTP/1.0", "more than was asked"],
)
async def test_a_connection_that_cannot_be_trusted_with_another_request_gets_none(answer: bytes):
    async with serving(answer, HELLO) as (server, request, client):
        assert [(await client.send(request())).text for _ in range(2)] == ["hello"] * 2
    assert server.connections == 2


async def test_an_idle_connection_that_its_server_closed_is_not_used():
    async with serving(HELLO, None, HELLO) as (server, request, client):
        await client.send(request())
        await server.ended.wait()
        await anyio.wait_all_tasks_blocked()
        assert (await client.send(request())).text == "hello"
    assert server.connections == 2


async def test_a_request_that_crosses_the_end_of_its_connection_is_sent_on_another():
    async with serving(HELLO, None, HELLO) as (server, request, client):
        assert [(await client.send(request())).text for _ in range(2)] == ["hello"] * 2
    assert server.connections == 2


async def test_a_connection_that_was_idle_for_too_long_is_not_used():
    async with serving(HELLO, HELLO, idle_seconds=-1) as (server, request, client):
        assert [(await client.send(request())).text for _ in range(2)] == ["hello"] * 2
    assert server.connections == 2


async def test_an_answer_that_is_not_read_to_its_end_ends_its_connection():
    async with serving(CHUNKED + b"2\r\nhe\r\n", HELLO) as (server, request, client):
        begun = await client.send(request(), stream=True)
        assert await anext(begun.aiter_raw()) == b"he"
        await begun.aclose()
        assert (await client.send(request())).text == "hello"
    assert server.connections == 2


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=12))
async def test_chunks_of_one_read_come_as_one_piece(chunks: list[bytes]):
    body = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in chunks)
    async with serving(CHUNKED + body + b"0\r\n\r\n") as (_, request, client):
        answer = await client.send(request(), stream=True)
        pieces = [piece async for piece in answer.aiter_raw()]
        await answer.aclose()
    assert b"".join(pieces) == b"".join(chunks)
    assert len(pieces) <= 2


async def test_informational_answers_are_passed_over():
    async with serving(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + HELLO) as (
        _,
        request,
        client,
    ):
        assert (await client.send(request())).text == "hello"


async def test_a_body_without_a_length_lasts_as_long_as_its_connection():
    async with serving(b"HTTP/1.1 200 OK\r\n\r\nhello", None) as (_, request, client):
        assert (await client.send(request())).text == "hello"


@pytest.mark.parametrize(
    "answer",
    [None, b"", CHUNKED + b"5\r\nhel", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", b"SSH-2.0-x\r\n\r\n"],
    ids=["nothing", "empty", "chunk cut", "shorter than said", "not HTTP"],
)
async def test_what_is_no_whole_answer_is_an_error_of_the_protocol(answer: bytes | None):
    async with serving(answer, None) as (_, request, client):
        with pytest.raises(httpx.RemoteProtocolError):
            await client.send(request())


async def test_nobody_at_an_address_is_a_connection_error():
    async with serving() as (_, request, client):
        unreachable = request()
    async with httpx.AsyncClient(transport=ReusingTransport(None, 30), trust_env=False) as client:
        with pytest.raises(httpx.ConnectError):
            await client.send(unreachable)


@pytest.mark.parametrize("url", ["https://127.0.0.1/", "ftp://127.0.0.1/"])
async def test_an_address_of_another_scheme_is_refused_before_a_connection_is_made(url: str):
    async with httpx.AsyncClient(transport=ReusingTransport(None, 30), trust_env=False) as client:
        with pytest.raises(httpx.UnsupportedProtocol):
            await client.get(url)


async def test_a_server_that_answers_before_it_has_read_all_is_heard():
    refusal = b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 5\r\n\r\nlarge"

    async def refuse(stream: ByteStream) -> None:
        async with stream:
            await stream.receive(1)
            await stream.send(refusal)
            # Until the client has the answer: an end with unread bytes may destroy what is on its way.
            await heard.wait()

    heard = anyio.Event()
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(listener.serve, refuse))
        url = f"http://127.0.0.1:{listener.extra_attributes[SocketAttribute.local_port]()}/v1"
        async with httpx.AsyncClient(transport=ReusingTransport(None, 30), trust_env=False) as client:
            answer = await client.post(url, content=b"x" * 20_000_000)
            assert (answer.status_code, answer.text) == (413, "large")
        heard.set()
        tasks.cancel_scope.cancel()


def events_of_body(reads: Sequence[bytes], joiner: ChunkJoiner | None) -> tuple[bytes, int, str]:
    """The body as h11 reads it, in how many pieces, and how it ended."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(CHUNKED)
    connection.next_event()
    body: list[bytes] = []
    try:
        for read in reads:
            connection.receive_data(read if joiner is None else joiner.join(read))
            while (event := connection.next_event()) is not h11.NEED_DATA:
                if not isinstance(event, h11.Data):
                    return b"".join(body), len(body), "end"
                body.append(bytes(event.data))
    except h11.RemoteProtocolError:
        return b"".join(body), len(body), "error"
    return b"".join(body), len(body), "more"


ends = st.sampled_from([b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"", b"5\r\nab", b"zz\r\n", b"2;a=b\r\nhi\r\n0\r\n\r\n"])


@given(st.lists(st.binary(min_size=1, max_size=40)), ends, st.lists(st.integers(0, 400), max_size=12))
def test_chunks_that_are_joined_are_the_same_body_wherever_the_network_cuts(
    chunks: list[bytes], end: bytes, cuts: list[int]
):
    stream = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + end
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    reads = [stream[first:last] for first, last in pairwise(places) if first < last]
    plain, joined = events_of_body(reads, None), events_of_body(reads, ChunkJoiner())
    assert joined[::2] == plain[::2]


def test_a_read_of_many_chunks_is_one_for_h11():
    stream = b"14\r\n%b\r\n" % (b"x" * 20) * 1_000
    assert events_of_body([stream, stream[:7], stream[7:]], ChunkJoiner())[::2] == (b"x" * 40_000, "more")
    assert events_of_body([stream, stream[:7], stream[7:]], ChunkJoiner())[1] <= 5
