"""The transport to models' servers, over real connections to a server of raw bytes."""

import base64
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import pairwise

import anyio
import h11
import pytest
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.buffered import BufferedByteReceiveStream
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.domain.errors import ProviderError
from pattern_acp.providers.http_errors import ProviderConnectionError, ProviderRequestError
from pattern_acp.providers.http_transport import (
    JOINED_BYTES,
    BodyReader,
    Cookies,
    DirectTransport,
    RawRequest,
    RawResponse,
    read_head,
)
from tests.support.constellation import FakeClock

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
IDLE = (HELLO, HELLO, HELLO)
DEAF = (b"", None)
"""A server that reads a request, says nothing and ends the connection."""


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
                self.heads.append(head)
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


async def text_of(answer: RawResponse) -> str:
    """Read all and end the exchange."""
    try:
        return b"".join([piece async for piece in answer.body]).decode()
    finally:
        await answer.close()


class Line:
    """A transport, and a question that it can ask the server."""

    def __init__(self, url: str, idle_seconds: float, crossing_seconds: float = 30) -> None:
        self.question = RawRequest("POST", "models", url, {}, b"question")
        self.transport = DirectTransport(None, 5, idle_seconds, FakeClock(), crossing_seconds)

    async def ask(self, body: bytes = b"question", headers: Mapping[str, str] | None = None) -> str:
        """Ask and return the answer's text."""
        return await text_of(await self.begin(body, headers))

    async def begin(self, body: bytes = b"question", headers: Mapping[str, str] | None = None) -> RawResponse:
        """Ask and return the answer with its body unread."""
        return await self.transport.send(replace(self.question, body=body, headers=headers or {}))

    async def use_connections(self, count: int) -> None:
        """Leave so many idle connections."""
        for answer in [await self.begin() for _ in range(count)]:
            await text_of(answer)


@asynccontextmanager
async def serving(
    *answers: bytes | None, idle_seconds: float = 30, crossing_seconds: float = 30
) -> AsyncGenerator[tuple[RawServer, Line], None]:
    server = RawServer(answers)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(listener.serve, server.handle))
        url = f"http://127.0.0.1:{listener.extra_attributes[SocketAttribute.local_port]()}/v1"
        line = Line(url, idle_seconds, crossing_seconds)
        yield server, line
        await line.transport.aclose()
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("end", [b"Max-Age=0", b"Max-Age=-1", b"Expires=Thu, 01 Jan 1970 00:00:00 GMT"])
async def test_a_cookie_that_a_server_sets_comes_back_until_it_is_taken_back(end: bytes):
    def setting(cookie: bytes) -> bytes:
        return HELLO.replace(b"\r\n", b"\r\nSet-Cookie: %b\r\n" % cookie, 1)

    answers = (HELLO, setting(b"place=7; Path=/"), HELLO, setting(b"place=; Path=/; %b" % end), HELLO)
    async with serving(*answers) as (server, line):
        for _ in answers:
            await line.ask()
    found = [head.partition(b"\r\nCookie: ")[2].partition(b"\r\n")[0] for head in server.heads]
    assert found == [b"", b"", b"place=7", b"place=7", b""]


@pytest.mark.parametrize(
    ("attributes", "seconds"),
    [
        ("", None),
        ("Max-Age=60", 60),
        ("max-age = 60; Expires=Thu, 01 Jan 1970 00:00:00 GMT", 60),
        ("Expires=Fri, 15 Jan 2027 08:01:00 GMT", 60),
        ("expires=Fri, 15-Jan-27 08:01:00 GMT", 60),
        ("Expires=Fri Jan 15 08:01:00 2027", 60),
        ("Max-Age=soon; Expires=soon", None),
        ("Max-Age=; Expires=Thu, 01 Jan 99999999999999999999 00:00:00 GMT", None),
    ],
)
def test_a_cookie_lasts_as_long_as_its_server_says(attributes: str, seconds: int | None):
    # The clock says Friday, 15 January 2027, 8:00 UTC.
    clock = FakeClock()
    cookies = Cookies(clock, is_safe=True)
    cookies.take([f"lb=7; {attributes}"], "/v1")
    clock.advance(1000 * (seconds or 10**9) - 1)
    assert cookies.header("/v1") == "lb=7"
    clock.advance(1)
    assert cookies.header("/v1") == ("" if seconds else "lb=7")


@pytest.mark.parametrize(
    ("path", "asked", "expected"),
    [
        ("; Path=/auth", "/v1/messages", ""),
        ("; Path=/auth", "/authors", ""),
        ("; Path=/auth", "/auth", "a=b"),
        ("; Path=/auth/", "/auth", ""),
        ("; Path=/auth/", "/auth/keys?all=1", "a=b"),
        ("; Path=/", "/v1/messages", "a=b"),
        ("; Path=v1", "/v1/models", "a=b"),
        ("", "/v1/models?limit=10", "a=b"),
        ("", "/v2", ""),
    ],
)
def test_a_cookie_goes_only_to_the_paths_it_is_for(path: str, asked: str, expected: str):
    cookies = Cookies(FakeClock(), is_safe=True)
    cookies.take([f"a=b{path}"], "/v1/messages?at=/x/y")
    assert cookies.header(asked) == expected


def test_cookies_of_a_name_for_two_paths_are_two_and_the_closer_one_comes_first():
    cookies = Cookies(FakeClock(), is_safe=True)
    cookies.take(["a=1; Path=/", "a=2; Path=/v1", "b=3"], "/")
    assert cookies.header("/v1") == "a=2; a=1; b=3"
    cookies.take(["a=; Path=/v1; Max-Age=0"], "/")
    assert cookies.header("/v1") == "a=1; b=3"


def test_a_secure_cookie_goes_through_tls_alone():
    servers = [Cookies(FakeClock(), is_safe=is_safe) for is_safe in (True, False)]
    for cookies in servers:
        cookies.take(["a=b; secure", "c=d"], "/")
    assert [cookies.header("/") for cookies in servers] == ["a=b; c=d", "c=d"]


@given(st.lists(st.text(st.characters(codec="latin-1")) | st.text("a=b; ").map("a=b; Expires={}".format), max_size=4))
def test_any_cookies_leave_a_header_that_can_be_sent(lines: list[str]):
    cookies = Cookies(FakeClock(), is_safe=True)
    cookies.take(lines, "/")
    header = cookies.header("/")
    assert header.isascii()
    assert header.isprintable()


async def test_a_request_names_its_host_and_length_and_has_the_headers_it_was_given():
    async with serving(HELLO) as (server, line):
        await line.ask(b"four", {"x-api-key": "k-1", "user-agent": "mine"})
    lines = server.heads[0].decode().split("\r\n")
    host = line.question.url.removeprefix("http://").removesuffix("/v1")
    assert lines[0] == "POST /v1 HTTP/1.1"
    assert {f"Host: {host}", "Content-Length: 4", "x-api-key: k-1", "user-agent: mine"} <= set(lines)
    assert [line for line in lines if line.lower().startswith("user-agent")] == ["user-agent: mine"]


@pytest.mark.parametrize(
    ("ending", "target"),
    [
        ("", b"/v1"),
        ("/models?limit=10&after=a%20b", b"/v1/models?limit=10&after=a%20b"),
        ("/a b/\u00fc#part", b"/v1/a%20b/%C3%BC"),
        (":generate?alt=sse", b"/v1:generate?alt=sse"),
    ],
)
async def test_an_address_is_asked_for_as_it_was_written_and_escaped_where_it_must_be(ending: str, target: bytes):
    async with serving(HELLO) as (server, line):
        line.question = replace(line.question, url=line.question.url + ending)
        await line.ask()
    assert server.heads[0].startswith(b"POST %b HTTP/1.1\r\n" % target)


async def test_a_name_and_password_in_an_address_go_into_a_header():
    async with serving(HELLO) as (server, line):
        line.question = replace(line.question, url=line.question.url.replace("//", "//me:p%40ss@"))
        await line.ask()
    assert b"\r\nAuthorization: Basic %b" % base64.b64encode(b"me:p@ss") in server.heads[0]


@pytest.mark.parametrize(
    "headers",
    [{"x-api-key": "k\r\nEvil: 1"}, {"x-api-key": "k\u00fc"}, {"x-api-key": " k"}, {"two words": "k"}, {"": "k"}],
)
async def test_a_header_that_cannot_be_sent_is_an_error_without_its_words(headers: dict[str, str]):
    async with serving(HELLO) as (server, line):
        with pytest.raises(ProviderRequestError, match="cannot be sent") as caught:
            await line.ask(headers=headers)
    assert ("k" in caught.value.sentence.split(), server.heads) == (False, [])


@pytest.mark.parametrize("size", [JOINED_BYTES, JOINED_BYTES + 1, 5_000_000])
async def test_a_body_of_any_length_comes_whole_behind_its_head(size: int):
    async with serving(HELLO, HELLO) as (server, line):
        content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        for body in (content, b"short"):
            assert await line.ask(body) == "hello"
    assert (server.connections, server.bodies) == (1, [content, b"short"])


async def test_requests_share_a_connection():
    async with serving(HELLO, CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", HELLO) as (server, line):
        answers = [await line.ask() for _ in range(3)]
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
    async with serving(answer, HELLO) as (server, line):
        assert [await line.ask() for _ in range(2)] == ["hello"] * 2
    assert server.connections == 2


async def test_an_idle_connection_that_its_server_closed_is_not_used():
    async with serving(HELLO, None, HELLO) as (server, line):
        await line.ask()
        await server.ended.wait()
        await anyio.wait_all_tasks_blocked()
        assert await line.ask() == "hello"
    assert server.connections == 2


async def test_a_request_that_crosses_the_end_of_its_connection_is_sent_on_another():
    async with serving(HELLO, None, HELLO) as (server, line):
        assert [await line.ask() for _ in range(2)] == ["hello"] * 2
    assert server.connections == 2


async def test_a_request_that_crosses_the_end_of_its_connection_is_not_sent_on_another_idle_one():
    async with serving(*IDLE, *DEAF, HELLO) as (server, line):
        await line.use_connections(len(IDLE))
        assert await line.ask() == "hello"
    assert (len(server.bodies), server.connections) == (len(IDLE) + 2, len(IDLE) + 1)


async def test_a_request_is_sent_no_more_than_once_again():
    async with serving(*IDLE, *DEAF, *DEAF, HELLO) as (server, line):
        await line.use_connections(len(IDLE))
        with pytest.raises(ProviderConnectionError, match="broke"):
            await line.ask()
    assert len(server.bodies) == len(IDLE) + 2


async def test_a_request_whose_connection_ends_only_after_a_silence_is_not_sent_again():
    # The server may have worked on it all the time.
    async with serving(HELLO, *DEAF, HELLO, crossing_seconds=0) as (server, line):
        await line.ask()
        with pytest.raises(ProviderConnectionError, match="broke"):
            await line.ask()
    assert len(server.bodies) == 2


async def test_a_connection_that_was_idle_for_too_long_is_not_used():
    async with serving(HELLO, HELLO, idle_seconds=-1) as (server, line):
        assert [await line.ask() for _ in range(2)] == ["hello"] * 2
    assert server.connections == 2


async def test_an_answer_that_is_not_read_to_its_end_ends_its_connection():
    async with serving(CHUNKED + b"2\r\nhe\r\n", HELLO) as (server, line):
        begun = await line.begin()
        assert await anext(begun.body) == b"he"
        await begun.close()
        assert await line.ask() == "hello"
    assert server.connections == 2


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=12))
async def test_chunks_of_one_read_come_as_one_piece(chunks: list[bytes]):
    body = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in chunks)
    async with serving(CHUNKED + body + b"0\r\n\r\n") as (_, line):
        answer = await line.begin()
        pieces = [piece async for piece in answer.body]
        await answer.close()
    assert b"".join(pieces) == b"".join(chunks)
    assert len(pieces) <= 2


async def test_informational_answers_are_passed_over():
    async with serving(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + HELLO) as (_, line):
        assert await line.ask() == "hello"


async def test_a_body_without_a_length_lasts_as_long_as_its_connection():
    async with serving(b"HTTP/1.1 200 OK\r\n\r\nhello", None) as (_, line):
        assert await line.ask() == "hello"


async def test_an_answer_without_a_body_is_read_to_its_end():
    async with serving(b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", HELLO) as (server, line):
        assert [await line.ask() for _ in range(2)] == ["", "hello"]
    assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"",
        CHUNKED + b"5\r\nhel",
        CHUNKED + b"5\r\nhellothere",
        CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\nhello",
        b"HTTP/1.1 fine\r\n\r\nhello",
        b"SSH-2.0-x\r\n\r\n",
        b"SSH-2.0-x without an end",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
    ],
    ids=[
        "nothing", "empty", "chunk cut", "chunk longer than said", "odd size", "shorter than said", "two lengths",
        "no length", "odd encoding", "no header", "no status", "not HTTP", "not HTTP yet", "endless",
    ],
)  # fmt: skip
async def test_what_is_no_whole_answer_is_a_broken_connection(answer: bytes | None):
    async with serving(answer, None) as (_, line):
        with pytest.raises(ProviderConnectionError, match="broke"):
            await line.ask()


async def test_nobody_at_an_address_is_a_connection_error():
    async with serving() as (_, line):
        pass
    with pytest.raises(ProviderConnectionError, match="cannot be reached at 127"):
        await line.ask()


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1/", "ftp://127.0.0.1/", "http://", "http://127.0.0.1:x/", "http://[", "http://h/\n"]
)
async def test_an_address_that_cannot_be_asked_is_refused_before_a_connection_is_made(url: str):
    with pytest.raises(ProviderRequestError):
        await DirectTransport(None, 5, 30, FakeClock()).send(RawRequest("GET", "models", url, {}))


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
        line = Line(f"http://127.0.0.1:{listener.extra_attributes[SocketAttribute.local_port]()}/v1", 30)
        answer = await line.begin(b"x" * 20_000_000)
        assert (answer.status, await text_of(answer)) == (413, "large")
        heard.set()
        tasks.cancel_scope.cancel()


def as_h11_reads(reads: Sequence[bytes]) -> tuple[bytes, str]:
    """The body of an answer, and how it ended, by another implementation."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    connection.send(h11.EndOfMessage())
    body = b""
    try:
        for read in reads:
            connection.receive_data(read)
            while (event := connection.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.EndOfMessage):
                    return body, "end"
                if isinstance(event, h11.Data):
                    body += bytes(event.data)
    except h11.RemoteProtocolError:
        return body, "error"
    return body, "more"


def as_we_read(reads: Sequence[bytes]) -> tuple[bytes, str]:
    """The same by ours."""
    received, body = b"", b""
    reader: BodyReader | None = None
    try:
        for read in reads:
            received += read
            if reader is None:
                head = read_head(received)
                if head is None:
                    continue
                reader, received = head.body, received[head.size :]
            body += reader.feed(received)
            received = b""
            if reader.is_over:
                return body, "end"
    except ValueError:
        return body, "error"
    return body, "more"


ends = st.sampled_from([b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"", b"5\r\nab", b"zz\r\n", b"2;a=b\r\nhi\r\n0\r\n\r\n"])


@given(st.lists(st.binary(min_size=1, max_size=40)), ends, st.lists(st.integers(0, 500), max_size=12))
def test_a_body_in_chunks_is_the_same_wherever_the_network_cuts(chunks: list[bytes], end: bytes, cuts: list[int]):
    stream = CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + end
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    reads = [stream[first:last] for first, last in pairwise(places) if first < last]
    ours, theirs = as_we_read(reads), as_h11_reads(reads)
    # What comes in one read with an error is lost with it here.
    assert ours == theirs or (ours[1] == theirs[1] == "error" and theirs[0].startswith(ours[0]))


@given(st.binary(max_size=300), st.integers(0, 300), st.lists(st.integers(0, 400), max_size=8))
def test_a_body_with_a_length_is_the_same_wherever_the_network_cuts(content: bytes, length: int, cuts: list[int]):
    stream = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + content
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    reads = [stream[first:last] for first, last in pairwise(places) if first < last]
    assert as_we_read(reads) == as_h11_reads(reads)


@given(st.binary(max_size=200))
async def test_no_bytes_of_a_server_bring_anything_but_an_answer_or_an_error_of_ours(noise: bytes):
    async with serving(b"HTTP/1.1 200 OK\r\n" + noise, None) as (_, line):
        with suppress(ProviderError, UnicodeDecodeError):
            await line.ask()
