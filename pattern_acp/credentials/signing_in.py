"""A sign-in with OAuth from its beginning to the credential: in a browser, or with a code on another device.

Owns: the two flows and their deadlines. Must not know: where the credential is stored, and what a terminal shows.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from html import escape

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.stapled import MultiListener

from pattern_acp.config.settings import OAuthSettings
from pattern_acp.credentials.model import (
    Credential,
    HttpPost,
    SignInExpiredError,
    SignInRefusedError,
    SignInTransientError,
)
from pattern_acp.credentials.oauth import (
    DEVICE_INTERVAL_SECONDS,
    AuthorizationRequest,
    DeviceCode,
    DevicePending,
    begin_authorization,
    device_form,
    device_token_form,
    exchange_form,
    read_device,
    read_redirect,
    read_token,
)
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.errors import SignInError

PATH = "/callback"
REQUEST_SECONDS = 10.0
"""Longest wait for the request line of one connection; browsers open some that they never use."""

MAX_REQUEST_BYTES = 16 * 1024
PAGE_SECONDS = 40.0
"""Longest wait of the browser for its page, during the exchange of the code."""

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
        """Path and query of the first request to the redirect URI. Waits without a limit."""
        await self._came.wait()
        return self._target

    async def show(self, sentence: str) -> None:
        """Show the outcome in the browser; waits at most 2 s for that."""
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
    """The port that the system assigned."""
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
    # The address of the page contains the code: no referrer, no store.
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


BROWSER_SECONDS = 300.0
"""Longest time to sign in, with a second factor and a password that has to be looked up."""

Pasted = Callable[[], Awaitable[str]]
"""Waits for the next line that the user pastes."""

SIGNED_IN = "You are signed in. You can close this page and go back to the terminal."


async def sign_in_with_browser(
    oauth: OAuthSettings,
    post: HttpPost,
    clock: Clock,
    show: Callable[[str], Awaitable[None]],
    *,
    pasted: Pasted | None = None,
    wait_seconds: float = BROWSER_SECONDS,
) -> Credential:
    """Sign in through a browser. `show` gets the address, to open it or to print it.

    A browser on another machine cannot redirect to this one: the pasted address at which it ended, or the code alone,
    works as well.

    Raises:
        SignInError: it did not come to an end; the class says why.
    """
    try:
        async with listen_for_redirect(oauth.redirect_port) as listener:
            # Raised outside: the listener's task group would wrap it.
            request = begin_authorization(oauth, listener.url)
            target = ""
            with anyio.move_on_after(wait_seconds):
                await show(request.url)
                target = await _come_back(listener, pasted)
            if target:
                outcome = await _exchanged(oauth, post, clock, listener, request, target)
            else:
                outcome = _nobody_came(wait_seconds)
    except OSError as error:
        raise SignInRefusedError(
            f"This machine lets nobody listen for the browser ({error.strerror}); use --device."
        ) from error
    if isinstance(outcome, SignInError):
        raise outcome
    return outcome


def _nobody_came(wait_seconds: float) -> SignInExpiredError:
    return SignInExpiredError(f"Nobody signed in within {wait_seconds / 60:.0f} minutes; start again, or use --device.")


async def _come_back(listener: RedirectListener, pasted: Pasted | None) -> str:
    """Return whichever comes first: path and query of the redirect, or the pasted line."""
    found = ""

    async def take(wait: Pasted) -> None:
        nonlocal found
        came = await wait()
        found = found or came
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take, listener.redirect)
        if pasted is not None:
            tasks.start_soon(take, pasted)
    return found


async def _exchanged(
    oauth: OAuthSettings,
    post: HttpPost,
    clock: Clock,
    listener: RedirectListener,
    request: AuthorizationRequest,
    target: str,
) -> Credential | SignInError:
    try:
        form = exchange_form(oauth, request, read_redirect(request, target))
        credential = read_token(*await post(form.url, form.headers, form.body), clock.now_ms())
    except SignInError as error:
        await listener.show(error.sentence)
        return error
    except DevicePending:
        return SignInRefusedError("The authorization server answered as to a device code; check token_url.")
    await listener.show(SIGNED_IN)
    return credential


async def sign_in_with_device(
    oauth: OAuthSettings,
    post: HttpPost,
    clock: Clock,
    show: Callable[[DeviceCode], Awaitable[None]],
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
) -> Credential:
    """Sign in with a code that the user enters in any browser, on any machine. `show` gets the code.

    A server that is away for a moment is asked again later (RFC 8628, section 3.5).

    Raises:
        SignInError: it did not come to an end; the class says why.
    """
    form = device_form(oauth)
    device = read_device(*await post(form.url, form.headers, form.body), clock.now_ms())
    await show(device)
    interval = device.interval_seconds
    form = device_token_form(oauth, device)
    while clock.now_ms() < device.expires_at_ms:
        await sleep(interval)
        try:
            return read_token(*await post(form.url, form.headers, form.body), clock.now_ms())
        except DevicePending as pending:
            interval += DEVICE_INTERVAL_SECONDS if pending.slower else 0
        except SignInTransientError:
            interval += DEVICE_INTERVAL_SECONDS
    raise SignInExpiredError("The code expired before it was entered; start the sign-in again.")
