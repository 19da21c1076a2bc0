"""What both ways to a server have in common: connections of our own, and httpx."""

import gzip
import zlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from pattern_acp.providers.connections import Connections
from pattern_acp.providers.errors import ProviderConnectionError, ProviderProtocolError, ProviderRequestError
from pattern_acp.providers.exchanges import Answer, Asked, Sender
from pattern_acp.providers.httpx_client import HttpxSender
from pattern_acp.testing.fault_server import FaultServer, Piece, serve_faults

TEXT = b"".join(b"line %d of the answer\n" % number for number in range(500))
SECRET = "not-a-real-key"

senders = pytest.mark.parametrize("kind", ["connections", "httpx"])


@asynccontextmanager
async def sender_of(kind: str) -> AsyncGenerator[Sender, None]:
    made = Connections if kind == "connections" else HttpxSender
    sender = made(connect_seconds=30, write_seconds=30)
    try:
        yield sender
    finally:
        await sender.aclose()


async def body_of(answer: Answer) -> bytes:
    """The whole body; the answer is closed behind it."""
    found = bytearray()
    try:
        while (piece := await answer.piece()) is not None:
            found += piece
    finally:
        await answer.aclose()
    return bytes(found)


def asked(server: FaultServer, method: str = "POST", **headers: str) -> Asked:
    return Asked(method, "Mine", f"{server.url}/v1/x", headers, b"{}" if method == "POST" else None)


def packed(encoding: str, body: bytes) -> Sequence[Piece]:
    """A whole answer that comes in pieces of 700 bytes."""
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: %b\r\ncontent-length: %d\r\n\r\n" % (encoding.encode(), len(body))
    whole = head + body
    return [whole[at : at + 700] for at in range(0, len(whole), 700)]


def without_head(data: bytes) -> bytes:
    """What some servers send as `deflate`."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


@senders
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_answer_has_its_status_its_headers_by_lower_case_names_and_its_body(kind: str, method: str):
    async with serve_faults() as server, sender_of(kind) as sender:
        server.pieces = [b"HTTP/1.1 418 No\r\nX-One: a\r\nx-one: b\r\nContent-Length: 5\r\n\r\n", b"he", b"llo"]
        answer = await sender.send(asked(server, method))
        assert answer.status == 418
        assert answer.headers["x-one"] == "a, b"
        assert await body_of(answer) == b"hello"


@senders
@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("identity", TEXT),
        ("gzip", gzip.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", without_head(TEXT)),
    ],
)
async def test_a_packed_body_is_unpacked_as_it_comes(kind: str, encoding: str, body: bytes):
    async with serve_faults() as server, sender_of(kind) as sender:
        server.pieces = packed(encoding, body)
        answer = await sender.send(asked(server))
        assert await body_of(answer) == TEXT


@senders
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_body_that_is_not_packed_as_its_head_says_is_a_fault_of_the_server(kind: str, encoding: str):
    async with serve_faults() as server, sender_of(kind) as sender:
        server.pieces = packed(encoding, b"\xff\xff and so on")
        answer = await sender.send(asked(server))
        with pytest.raises(ProviderProtocolError, match="Mine sent a body that cannot be unpacked"):
            await body_of(answer)


@senders
async def test_what_comes_before_the_answer_is_passed_over(kind: str):
    async with serve_faults() as server, sender_of(kind) as sender:
        hints = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
        server.pieces = [hints, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"]
        answer = await sender.send(asked(server))
        assert (answer.status, await body_of(answer)) == (200, b"abc")


@senders
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\nzz",
    ],
)
async def test_an_answer_that_is_cut_or_none_is_a_broken_connection(kind: str, answer: bytes):
    async with serve_faults() as server, sender_of(kind) as sender:
        server.pieces = [answer]
        with pytest.raises(ProviderConnectionError, match="The connection to Mine broke"):
            await body_of(await sender.send(asked(server)))


@senders
async def test_a_body_without_a_length_ends_with_its_connection(kind: str):
    async with serve_faults() as server, sender_of(kind) as sender:
        server.pieces = [b"HTTP/1.0 200 OK\r\n\r\n", TEXT]
        answer = await sender.send(asked(server))
        assert await body_of(answer) == TEXT


@senders
@pytest.mark.parametrize("value", [f"{SECRET}\nx: y", f"{SECRET}\u2026"])
async def test_a_header_that_cannot_be_sent_is_refused_and_not_named(kind: str, value: str):
    async with serve_faults() as server, sender_of(kind) as sender:
        with pytest.raises(ProviderRequestError, match="characters that cannot be sent") as refused:
            await sender.send(asked(server, authorization=value))
        assert server.asked == 0
    assert SECRET not in str(refused.value)


@senders
@pytest.mark.parametrize("url", ["", "nothing", "ftp://127.0.0.1/", "http://", "http://127.0.0.1:x/"])
async def test_what_is_no_address_of_http_is_refused(kind: str, url: str):
    async with sender_of(kind) as sender:
        with pytest.raises(ProviderRequestError, match="Mine"):
            await sender.send(Asked("GET", "Mine", url, {}))
