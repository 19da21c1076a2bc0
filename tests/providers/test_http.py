import gzip
import subprocess
import sys
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.config.load import process_environment
from pattern_acp.domain.clock import SystemClock
from pattern_acp.providers.http import Deadlines, HttpClient, is_plain_loopback, parse_retry_after
from pattern_acp.providers.http_errors import ProviderProtocolError

NOON_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "3"}, 3_000),
        ({"retry-after": "0.5"}, 500),
        ({"retry-after": "-1"}, 0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 250),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:10 GMT"}, 10_000),
        ({"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:10"}, 10_000),
        ({"retry-after": "Thu, 01 Jan 99999999999999999999 00:00:00 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], expected: int | None):
    assert parse_retry_after(headers, NOON_MS) == expected


@given(st.text(max_size=60))
def test_any_retry_after_can_be_read(text: str):
    parsed = parse_retry_after({"retry-after": text}, NOON_MS)
    assert parsed is None or parsed >= 0


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:11434/v1", True),
        ("http://localhost/v1", True),
        ("http://[::1]:8080", True),
        ("https://127.0.0.1/v1", False),
        ("http://127.example.com/v1", False),
        ("http://localhost.example.com", False),
        ("http://10.0.0.2", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_loopback_is_told_from_the_rest(url: str, expected: object):
    assert is_plain_loopback(url) is expected


COUNT_CERTIFICATES = """
import gc, ssl
from pattern_acp.domain.clock import SystemClock
from pattern_acp.providers.http import Deadlines, HttpClient
client = HttpClient(Deadlines(), SystemClock())
client.warm("https://models.invalid")
print(sum(isinstance(each, ssl.SSLContext) for each in gc.get_objects()))
"""


def test_certificates_are_read_once_however_many_proxies_there_are():
    proxies = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "localhost"}
    environment = {**process_environment(), **proxies}
    command = (sys.executable, "-c", COUNT_CERTIFICATES)
    ran = subprocess.run(command, capture_output=True, check=True, env=environment, text=True, timeout=50)
    assert ran.stdout.split() == ["1"]


@asynccontextmanager
async def answering(packing: str, body: bytes) -> AsyncGenerator[tuple[str, list[bytes]], None]:
    """Serve one answer; its address, and the heads of the requests that came."""
    heads: list[bytes] = []

    async def answer(stream: ByteStream) -> None:
        async with stream:
            heads.append(await stream.receive())
            await stream.send(f"HTTP/1.1 200 OK\r\nContent-Encoding: {packing}\r\n\r\n".encode() + body[:9])
            await stream.send(body[9:])

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(listener.serve, answer))
        yield f"http://127.0.0.1:{listener.extra_attributes[SocketAttribute.local_port]()}", heads
        tasks.cancel_scope.cancel()


def framed(body: bytes, bits: int) -> bytes:
    packer = zlib.compressobj(wbits=bits)
    return packer.compress(body) + packer.flush()


LONG = b"a word and another one, " * 500


@pytest.mark.parametrize(
    ("packing", "body"),
    [
        ("gzip", gzip.compress(LONG)),
        ("GZIP", gzip.compress(LONG)),
        ("deflate", framed(LONG, zlib.MAX_WBITS)),
        ("deflate", framed(LONG, -zlib.MAX_WBITS)),
        ("identity", LONG),
    ],
    ids=["gzip", "capitals", "deflate", "deflate without a frame", "nothing"],
)
async def test_a_body_is_unpacked_whatever_form_it_comes_in(packing: str, body: bytes):
    client = HttpClient(Deadlines(), SystemClock())
    async with answering(packing, body) as (url, heads):
        assert await client.get("models", url, {}, 1_000_000) == (200, LONG)
        await client.aclose()
    assert b"\r\nAccept-Encoding: gzip, deflate\r\n" in heads[0]


async def test_a_body_that_is_not_packed_as_it_says_is_an_error():
    client = HttpClient(Deadlines(), SystemClock())
    async with answering("gzip", b"no gzip at all, in any form") as (url, _):
        with pytest.raises(ProviderProtocolError, match="cannot be unpacked"):
            await client.get("models", url, {}, 1_000)
        await client.aclose()


ASK_BY_PROXY = """
import anyio
from pattern_acp.domain.clock import SystemClock
from pattern_acp.providers.http import Deadlines, HttpClient

async def ask():
    client = HttpClient(Deadlines(), SystemClock())
    print(await client.get("models", "http://models.invalid/v1", {"x-api-key": "k"}, 20))
    await client.aclose()

anyio.run(ask)
"""


async def test_a_proxy_that_the_environment_names_is_asked_and_its_answer_unpacked():
    async with answering("gzip", gzip.compress(LONG)) as (url, heads):
        ran = await anyio.run_process(
            (sys.executable, "-c", ASK_BY_PROXY), env={**process_environment(), "HTTP_PROXY": url}, check=False
        )
    assert ran.stdout.decode().strip() == str((200, LONG[:20])), ran.stderr.decode()
    assert heads[0].startswith(b"GET http://models.invalid/v1 HTTP/1.1\r\n")
    assert b"\r\nx-api-key: k\r\n" in heads[0]
