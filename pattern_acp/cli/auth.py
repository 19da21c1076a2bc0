"""`pattern-acp auth`: sign in at a provider, show where keys come from, forget one. It never shows a key."""

import getpass
import os
import sys
import threading
import webbrowser
from collections.abc import Mapping, Sequence

import anyio
import anyio.to_thread
from anyio.from_thread import run_sync
from anyio.lowlevel import current_token
from msgspec.structs import replace

from pattern_acp.bootstrap.credentials import KeysOfPerson, can_show_browser, post_once
from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Auth
from pattern_acp.cli.command_runner import show_answer
from pattern_acp.cli.output import printable, write_failure, write_line
from pattern_acp.commands.document import Paragraph, Table, as_result, columns
from pattern_acp.config.logs import mask_also
from pattern_acp.config.providers import PRESETS
from pattern_acp.config.settings import HTTP_WIRES, OAuthSettings, ProviderSettings
from pattern_acp.credentials.google_tokens import ADVICE as GOOGLE_ADVICE
from pattern_acp.credentials.model import Credential, KeySource, SignInRefusedError
from pattern_acp.credentials.oauth import OFFLINE, DeviceCode
from pattern_acp.credentials.signing_in import sign_in_with_browser, sign_in_with_device
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.clock import SystemClock, local_minute, utc_second
from pattern_acp.domain.errors import ProviderError
from pattern_acp.providers.endpoints import sent_openly
from pattern_acp.web import VENDORS, key_owner

CHUNK_BYTES = 4096
"""A terminal gives a line at most at a time; none is longer than this on Linux."""


class PastedLines:
    """Lines of stdin, stripped, none empty. Made within an event loop; reading begins with the first call."""

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[str](16)
        self._token = current_token()
        self._reading = False

    async def next(self) -> str:
        """The next line; waits for good once the input has ended."""
        if not self._reading and sys.stdin is not None:
            self._reading = True
            # A daemon that reads the descriptor itself: a thread that waits in a file object holds up the exit.
            threading.Thread(target=self._read, args=(sys.stdin.fileno(),), daemon=True).start()
        try:
            return await self._receive.receive()
        except anyio.EndOfStream:
            await anyio.sleep_forever()
            raise

    def _read(self, descriptor: int) -> None:
        rest = b""
        try:
            while data := os.read(descriptor, CHUNK_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._hand_over(line)
            self._hand_over(rest)
            run_sync(self._send.close, token=self._token)
        except (OSError, RuntimeError, anyio.RunFinishedError):
            # The terminal went away, or nobody waits any more.
            return

    def _hand_over(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip()
        if text:
            run_sync(self._offer, text, token=self._token)

    def _offer(self, text: str) -> None:
        try:
            self._send.send_nowait(text)
        except anyio.WouldBlock:
            # More lines than anybody pastes for one question.
            return


PASTE = (
    "If that browser cannot come back to this machine, paste the address that it ends at, or the code, and press Enter."
)

KEY_CHARACTERS = 64 * 1024
"""As much of stdin as is read for a key; the longest, those with claims in them, have a few thousand."""

CHECK_SECONDS = 5.0
"""Longest wait for the provider that is asked whether it takes the new key."""


def run_auth(arguments: Auth, process: Process) -> int:
    """Carry it out; 1 when it did not work.

    Raises:
        PatternError: the credentials cannot be used, or the sign-in failed.
    """
    return anyio.run(_run, arguments, process)


async def _run(arguments: Auth, process: Process) -> int:
    keys = KeysOfPerson(process)
    known = {
        name: provider for name, provider in process.loaded.settings.providers.items() if provider.wire in HTTP_WIRES
    }
    vendors = (key_owner(name, process.environ) for name in VENDORS)
    known |= {vendor.name: vendor for vendor in vendors if vendor is not None and vendor.name not in known}
    if arguments.action == "status":
        keys.store.check()
        return _status(arguments, known, keys, process)
    name = arguments.provider or await anyio.to_thread.run_sync(_ask_provider, sorted(known))
    if arguments.action == "logout":
        return await _logout(name, known, keys)
    provider = known.get(name)
    if provider is None:
        write_failure("cli.usage", f"pattern-acp: {_unknown(name, known)}")
        return EXIT_ERROR
    if provider.host == "vertex":
        write_failure("cli.usage", f"pattern-acp: {name} takes Google's own credentials; {GOOGLE_ADVICE}.")
        return EXIT_ERROR
    shows = can_show_browser(process.environ, sys.platform)
    return await _login(replace(arguments, browser=arguments.browser and shows), provider, keys)


def _unknown(name: str, known: Mapping[str, ProviderSettings]) -> str:
    if not name:
        return f"name a provider: pattern-acp auth login PROVIDER, which is one of {', '.join(sorted(known))}."
    if name in PRESETS:
        return f"{name} differs for each customer; add [providers.{name}] to config.toml (docs/reference/providers.md)."
    return (
        f"there is no provider {name!r}; providers are {', '.join(sorted(known))}. Add others as [providers.NAME] to "
        "config.toml."
    )


def _ask_provider(names: Sequence[str]) -> str:
    if not sys.stdin.isatty():
        return ""
    sys.stdout.write(f"Sign in at which provider? ({', '.join(names)}) ")
    sys.stdout.flush()
    return sys.stdin.readline().strip()


async def _login(arguments: Auth, provider: ProviderSettings, keys: KeysOfPerson) -> int:
    if arguments.device and provider.oauth is None:
        raise SignInRefusedError(
            f"{provider.name} has no sign-in with a code; set device_url in [providers.{provider.name}.oauth]."
        )
    if provider.oauth is None or arguments.api_key:
        credential = Credential(await anyio.to_thread.run_sync(_read_key, provider))
    else:
        credential = await _sign_in(arguments, provider.name, provider.oauth)
    mask_also(credential.secret)
    place = await anyio.to_thread.run_sync(
        lambda: keys.store.save(provider.name, credential, in_file=arguments.in_file)
    )
    where = "the system's keyring" if place == "keyring" else str(keys.store.path)
    write_line(f"Signed in at {provider.name}; it is stored in {where}.")
    if credential.kind == "oauth" and not credential.refresh_token and credential.expires_at_ms is not None:
        write_line(
            f"It ends at {local_minute(credential.expires_at_ms)} and cannot be renewed, as the server gave no refresh "
            f"token; many give one for the scope {OFFLINE}."
        )
    if warning := sent_openly(provider):
        write_line(warning)
    used = keys.stored.sources(provider)[0]
    if used.tier.value == "config":
        write_line(f"Yet {used.where}, which config.toml names, is used first; take it out to use this one.")
    if provider.wire in HTTP_WIRES:
        return await _check(provider, keys)
    write_line(f'It is for web_search, which asks {provider.name} when search.provider = "{provider.name}".')
    return EXIT_OK


async def _sign_in(arguments: Auth, name: str, oauth: OAuthSettings) -> Credential:
    if arguments.device:
        if not oauth.device_url:
            raise SignInRefusedError(f"{name} has no sign-in with a code; set device_url in [providers.{name}.oauth].")
        return await sign_in_with_device(oauth, post_once, SystemClock(), _show_device)
    if not oauth.authorization_url:
        raise SignInRefusedError(f"{name} has no sign-in in a browser; use --device.")

    async def show(url: str) -> None:
        write_line(f"Sign in at {name} in your browser:\n\n  {url}\n\n{PASTE}")
        if arguments.browser:
            await anyio.to_thread.run_sync(webbrowser.open, url, abandon_on_cancel=True)

    return await sign_in_with_browser(oauth, post_once, SystemClock(), show, pasted=PastedLines().next)


async def _show_device(device: DeviceCode) -> None:
    # A server's own text must not steer the terminal.
    address, code = printable(device.verification_url), printable(device.user_code)
    write_line(f"Open {address} on any device and enter this code:\n\n  {code}\n")
    if device.complete_url:
        write_line(f"Or open {printable(device.complete_url)}, which has it in it.")


def _read_key(provider: ProviderSettings) -> str:
    """A key from a hidden prompt, or from stdin when that is no terminal.

    Raises:
        SignInRefusedError: it is none.
    """
    hidden = sys.stdin.isatty()
    instead = f"; ${provider.api_key_env} would serve as well" if provider.api_key_env else ""
    asked = f"Key for {provider.name} (it is not shown{instead}): "
    key = (getpass.getpass(asked) if hidden else sys.stdin.read(KEY_CHARACTERS)).strip()
    if not hidden and len(key.split("\n")) > 1:
        raise SignInRefusedError(
            "There is more than one line on stdin, and only a key may be there; send it alone. Nothing was changed."
        )
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise SignInRefusedError("This is no key: it must be one word of ASCII characters. Nothing was changed.")
    return key


async def _check(provider: ProviderSettings, keys: KeysOfPerson) -> int:
    """Ask the provider for its models; an answer that refuses the key is reported, anything else is no fault of it."""
    from pattern_acp.providers.discovery import fetch_models
    from pattern_acp.providers.http import Deadlines, HttpClient
    from pattern_acp.providers.http_errors import ProviderAuthError

    http = HttpClient(Deadlines(), SystemClock())
    try:
        with anyio.fail_after(CHECK_SECONDS):
            models = await fetch_models(http, await keys.signed(provider))
        write_line(f"{provider.name} takes it and offers {len(models)} models.")
    except ProviderAuthError as error:
        write_failure(error.failure_code, f"pattern-acp: {error.sentence}")
        return EXIT_ERROR
    except (ProviderError, TimeoutError):
        write_line(f"{provider.name} could not be asked for its models now, so it is stored unchecked.")
    finally:
        await http.aclose()
    return EXIT_OK


async def _logout(name: str, known: Mapping[str, ProviderSettings], keys: KeysOfPerson) -> int:
    was_there = await anyio.to_thread.run_sync(keys.store.delete, name)
    write_line(f"Signed out of {name}." if was_there else f"Nothing is stored for {name or 'no provider'}.")
    left = keys.stored.sources(known[name]) if name in known else ()
    if left:
        write_line(f"{left[0].where} still holds a key for it, which is used now.")
    return EXIT_OK


def _status(arguments: Auth, known: Mapping[str, ProviderSettings], keys: KeysOfPerson, process: Process) -> int:
    if arguments.provider and arguments.provider not in known:
        write_failure("cli.usage", f"pattern-acp: {_unknown(arguments.provider, known)}")
        return EXIT_ERROR
    chosen = {name: each for name, each in known.items() if arguments.provider in {"", name}}
    found = [
        (name, number == 0, source)
        for name, provider in chosen.items()
        for number, source in enumerate(keys.stored.sources(provider))
    ]
    facts = [_as_json(*row) | {"sentOpenly": bool(sent_openly(chosen[row[0]]))} for row in found]
    warnings = filter(None, (sent_openly(chosen[name]) for name, used, _ in found if used))
    rows = tuple(_as_row(*row) for row in found)
    table = Table(columns("Provider", "Used", "Tier", "From", "Key", "Expires"), rows)
    names = arguments.provider or "any provider"
    variable = known[arguments.provider].api_key_env if arguments.provider else ""
    instead = f", or set {variable}" if variable else ""
    how = f"run `pattern-acp auth login {arguments.provider or 'PROVIDER'}`{instead}"
    parts = (table, *map(Paragraph, warnings)) if found else (Paragraph(f"There is no key for {names}; {how}."),)
    return show_answer(as_result(*parts, facts=facts), process, as_json=arguments.json)


def _as_row(name: str, used: bool, source: KeySource) -> tuple[str, ...]:  # noqa: FBT001 - a column
    ending = f"…{source.last_four}" if source.last_four else "…"
    expires = local_minute(source.expires_at_ms) if source.expires_at_ms is not None else ""
    return (name, "yes" if used else "no", source.tier.value, source.where, ending, expires)


def _as_json(name: str, used: bool, source: KeySource) -> dict[str, Json]:  # noqa: FBT001 - a column
    return {
        "provider": name,
        "used": used,
        "tier": source.tier.value,
        "from": source.where,
        "lastFour": source.last_four,
        "expiresAt": None if source.expires_at_ms is None else utc_second(source.expires_at_ms),
    }
