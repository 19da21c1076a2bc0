"""The address on this machine that a browser comes back to after a sign-in (RFC 8252, section 7.3).

Owns: a listener on 127.0.0.1 that takes one redirect and shows a page. Must not know: what the redirect means.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from html import escape

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.stapled import MultiListener

PATH = "/callback"
REQUEST_SECONDS = 10.0
"""Longest wait for the request line of one connection; browsers open some that they never use."""

MAX_REQUEST_BYTES = 16 * 1024
PAGE_SECONDS = 40.0
"""How long the browser waits for its page while the code is exchanged."""

GOODBYE_SECONDS = 2.0

_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>pattern-acp</title>"
    "<body style='font: 1.1rem system-ui; margin: 4rem auto; max-width: 32rem'><p>{sentence}</p></body></html>"
)


class RedirectListener:
    """Waits for the redirect. Made by `listen_for_redirect`."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}{PATH}"
        """The redirect URI."""
        self._target = ""
        self._came = anyio.Event()
        self._sentence = ""
        self._page = anyio.Event()
        self._shown = anyio.Event()

    async def redirect(self) -> str:
        """Path and query of the first request to the redirect URI. Waits as long as it takes."""
        await self._came.wait()
        return self._target

    async def show(self, sentence: str) -> None:
        """Show the browser how it ended; waits for that at most 2 s."""
        self._sentence = sentence
        self._page.set()
        if self._came.is_set():
            with anyio.move_on_after(GOODBYE_SECONDS, shield=True):
                await self._shown.wait()

    async def serve(self, stream: SocketStream) -> None:
        """Answer one connection."""
        async with stream:
            with suppress(anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError):
                target = await _read_target(stream)
                if target.partition("?")[0] != PATH or self._came.is_set():
                    await stream.send(_response("404 Not Found", "There is nothing here."))
                    return
                self._target = target
                self._came.set()
                try:
                    with anyio.move_on_after(PAGE_SECONDS):
                        await self._page.wait()
                    sentence = self._sentence or "Go back to the terminal; you can close this page."
                    await stream.send(_response("200 OK", sentence))
                finally:
                    self._shown.set()


@asynccontextmanager
async def listen_for_redirect(port: int) -> AsyncGenerator[RedirectListener]:
    """Listen on `port` of 127.0.0.1, or on any other when it is taken; the listener is closed with the context.

    Raises:
        OSError: this machine lets nobody listen.
    """
    try:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    except OSError:
        if not port:
            raise
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener, anyio.create_task_group() as tasks:
        waiting = RedirectListener(port_of(listener))
        tasks.start_soon(listener.serve, waiting.serve)
        try:
            yield waiting
        finally:
            tasks.cancel_scope.cancel()


def port_of(listener: MultiListener[SocketStream]) -> int:
    """The port that the system gave."""
    attributes = listener.extra_attributes
    return int(attributes[SocketAttribute.local_port]())


async def _read_target(stream: SocketStream) -> str:
    """Path and query of a GET; empty for anything else."""
    head = b""
    with anyio.move_on_after(REQUEST_SECONDS):
        while b"\r\n\r\n" not in head and len(head) < MAX_REQUEST_BYTES:
            head += await stream.receive()
    words = head.partition(b"\r\n")[0].decode("ascii", "replace").split(" ")
    return words[1] if len(words) == 3 and words[0] == "GET" else ""


def _response(status: str, sentence: str) -> bytes:
    body = _PAGE.format(sentence=escape(sentence)).encode()
    # The address of the page holds the code: no referrer, no store.
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
