"""A sign-in with OAuth from its beginning to the credential: in a browser, or with a code on another device.

Owns: the two flows and their deadlines. Must not know: where the credential is kept, and what a terminal shows.
"""

from collections.abc import Awaitable, Callable

import anyio

from pattern_acp.config.settings import OAuthSettings
from pattern_acp.credentials.errors import SignInExpiredError, SignInRefusedError, SignInTransientError
from pattern_acp.credentials.loopback import RedirectListener, listen_for_redirect
from pattern_acp.credentials.model import Credential, Post
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

BROWSER_SECONDS = 300.0
"""As long as a person may take to sign in, with a second factor and a password that has to be looked up."""

Pasted = Callable[[], Awaitable[str]]
"""The next line that the person pastes; waits until there is one."""

SIGNED_IN = "You are signed in. You can close this page and go back to the terminal."


async def sign_in_with_browser(
    oauth: OAuthSettings,
    post: Post,
    clock: Clock,
    show: Callable[[str], Awaitable[None]],
    *,
    pasted: Pasted | None = None,
    wait_seconds: float = BROWSER_SECONDS,
) -> Credential:
    """Sign in through a browser. `show` gets the address, to open it or to print it.

    A browser of another machine cannot come back to this one: what `pasted` gives, the address that it ended at or the
    code alone, serves as well.

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
    """What came first: the path and query of the redirect, or what was pasted."""
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
    post: Post,
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
    post: Post,
    clock: Clock,
    show: Callable[[DeviceCode], Awaitable[None]],
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
) -> Credential:
    """Sign in with a code that the person enters in any browser, on any machine. `show` gets the code.

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
