"""Sync, put together: the place that the settings name, the key of the keyring, and exchanges while sessions are open.

Owns: which carrier an address means, and how often is exchanged. Must not know: what goes, or in which form.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct

from pattern_acp.bootstrap.process import Process
from pattern_acp.config.load import known_secrets
from pattern_acp.config.settings import SyncSettings
from pattern_acp.credentials.model import Credential
from pattern_acp.credentials.store import SYNC_KEY, CredentialStore, SystemKeyring
from pattern_acp.db.connection import Database
from pattern_acp.domain.clock import RandomIds, SystemClock
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.reader import newest_event
from pattern_acp.memory.secrets import SecretMask
from pattern_acp.memory.service.forget import Tell, Telling
from pattern_acp.recovery.checks import Finding, Health
from pattern_acp.session.stored import DAY_MS, project_of_folder
from pattern_acp.sync.exchange import ExchangeReport, MemoryExchange, clock_problem, device_of, peers_of
from pattern_acp.sync.forgetting import note_forgetting
from pattern_acp.sync.outgoing import Sharing
from pattern_acp.sync.segments import (
    Carrier,
    DeviceRevokedError,
    FolderCarrier,
    SyncError,
    SyncKeyError,
    key_text,
    read_key,
)

_LOGGER = logging.getLogger(__name__)

FOLDER = "folder:"

OWN_SECONDS = 0.5
"""Between two looks whether something was recorded here that may have to go."""

LOOK_SECONDS = 3.0
"""Longest that status and doctor wait for the folder or server."""

SHOWN_DEVICE = len("device_") + 6
"""Characters of a device's name that are shown."""

EXCHANGE_SECONDS = 120.0
"""Longest that one exchange beside sessions takes; the next continues where it ended."""

LAST_SECONDS = 1.0
"""Longest that the last exchange may hold up the end of the process."""

LONGEST_PAUSE_SECONDS = 600.0
"""Between two attempts where the folder or server cannot be used."""


class KeyRing(Struct, frozen=True):
    """The place of the key of sync: beside the keys of providers, never in a constellation."""

    store: CredentialStore

    @classmethod
    def of(cls, process: Process) -> "KeyRing":
        """The one of this user."""
        return cls(CredentialStore(process.loaded.paths.data, SystemKeyring()))

    def load(self) -> bytes | None:
        """The key; None without one. Blocking.

        Raises:
            SignInError: it is not available now.
            SyncKeyError: it is not one.
        """
        stored = self.store.load(SYNC_KEY)
        return None if stored is None else read_key(stored.secret)

    def save(self, key: bytes, *, in_file: bool = False) -> str:
        """Store a key instead of the old one, in a file where that one is in it, and say where. Blocking.

        Raises:
            SignInError: it cannot be stored.
        """
        old = self.store.entries().get(SYNC_KEY)
        in_file = in_file or (old is not None and old.place == "file")
        place = self.store.save(SYNC_KEY, Credential(key_text(key)), in_file=in_file)
        return "the system's keyring" if place == "keyring" else str(self.store.path)


def sharing_of(settings: SyncSettings) -> Sharing:
    """The projects that are shared. Blocking: looks which repositories the folders are of."""
    named = (each.partition("=") for each in settings.projects)
    # A folder that holds projects, and is none itself, is left out with all of them.
    excluded = (key for each in settings.exclude for key in (_absolute(each), project_of_folder(_absolute(each))))
    days = settings.sessions_days
    return Sharing(
        tuple(dict.fromkeys(excluded)),
        {name: project_of_folder(_absolute(folder)) for name, _, folder in named},
        SystemClock().now_ms() - days * DAY_MS if days else None,
    )


def telling_of(process: Process) -> Telling | None:
    """Prepares the noting of what is forgotten for the user's other devices; None without sync.

    What it returns raises a `PatternError` where there is no key, or it is not available now.
    """
    if not process.loaded.settings.sync.url:
        return None

    async def prepare() -> Tell:
        key = await anyio.to_thread.run_sync(KeyRing.of(process).load)
        if key is None:
            raise SyncKeyError("There is no key of sync: run `pattern-acp sync key new`, or `set`.")
        return partial(note_forgetting, key=key, ids=RandomIds())

    return prepare


def mask_of(process: Process) -> SecretMask:
    """The function that takes secrets out of a text."""
    return SecretMask(known_secrets(process.loaded.settings))


def carrier_of(url: str) -> Carrier:
    """The carrier that an address means. Raises SyncError where it means none."""
    if url.startswith(FOLDER):
        return FolderCarrier(Path(_absolute(url.removeprefix(FOLDER))))
    if url:
        try:
            # Late, and an extra: most have a folder.
            from pattern_acp.sync.nats_carrier import NatsCarrier
        except ImportError as error:
            raise SyncError('A server of NATS needs the extra [sync]; run: pip install "pattern-acp[sync]".') from error
        return NatsCarrier(url)
    raise SyncError(
        "There is no place to exchange memory at: set url in [sync] of config.toml (docs/how-to/sync.md). Of one "
        "that is there and not used `pattern-acp doctor` says why."
    )


async def place_problem(url: str) -> str:
    """Say why the folder or server cannot be used now; empty when it can."""
    try:
        carrier = carrier_of(url)
        try:
            with anyio.fail_after(LOOK_SECONDS):
                await carrier.names()
                if isinstance(carrier, FolderCarrier):
                    await carrier.require_writable()
        finally:
            await carrier.close()
    except SyncError as error:
        return error.sentence
    except TimeoutError:
        return f"{url} of sync does not answer in time."
    return ""


async def sync_finding(process: Process, database: Database) -> Finding:
    """Report for doctor what keeps memory from the user's other devices."""
    name, url = "Sync", process.loaded.settings.sync.url
    try:
        if problem := await place_problem(url):
            return Finding(name, Health.NOTE, problem, "Do what the sentence says.", code=SyncError.failure_code)
        if await anyio.to_thread.run_sync(KeyRing.of(process).load) is None:
            return Finding(name, Health.NOTE, f"{url}, but there is no key yet.", "pattern-acp sync key new (or set)")
        device, peers = await database.read(lambda tx: (device_of(tx), peers_of(tx)))
    except PatternError as error:
        return Finding(name, Health.NOTE, error.sentence, "Do what the sentence says.", code=error.failure_code)
    if device is not None and any(peer.device == device.name and peer.revoked for peer in peers):
        return Finding(name, Health.NOTE, DeviceRevokedError().sentence, "Take url out of [sync] in config.toml.")
    now_ms = SystemClock().now_ms()
    problems = [(peer, peer.problem or clock_problem(peer, now_ms)) for peer in peers if not peer.revoked]
    for peer, problem in problems:
        if not problem:
            continue
        detail = f"{peer.host or peer.device[:SHOWN_DEVICE]}: {problem.rstrip('.')}."
        return Finding(name, Health.NOTE, detail, "pattern-acp sync status shows all devices.")
    others = plural(sum(not peer.revoked for peer in peers), "other device")
    return Finding(name, Health.OK, f"{others} at {url}")


class OpenExchange(Struct, frozen=True):
    """An exchange, and the carrier that it uses."""

    exchange: MemoryExchange
    carrier: Carrier
    telling: Telling | None = None
    """Prepares, before each exchange, the noting for the constellations that projects have by then of what is forgotten
    because another device did; None: there are none."""

    async def run(self) -> ExchangeReport:
        """See `MemoryExchange.run`."""
        return await self.exchange.run(None if self.telling is None else await self.telling())


@asynccontextmanager
async def open_exchange(
    process: Process, database: Database, telling: Telling | None = None
) -> AsyncGenerator[OpenExchange, None]:
    """Open what the settings say. `telling`: see `OpenExchange`.

    Raises:
        SyncError: they name no place.
        SyncKeyError: there is no key.
        SignInError: the key is not available now.
    """
    settings = process.loaded.settings.sync
    carrier = carrier_of(settings.url)
    try:
        key = await anyio.to_thread.run_sync(KeyRing.of(process).load)
        if key is None:
            raise SyncKeyError(
                "There is no key of sync: run `pattern-acp sync key new` on the first device, and "
                "`pattern-acp sync key set` on each other one."
            )
        sharing = await anyio.to_thread.run_sync(sharing_of, settings)
        exchange = MemoryExchange(database, carrier, key, sharing, mask_of(process), SystemClock(), RandomIds())
        yield OpenExchange(exchange, carrier, telling)
    finally:
        await carrier.close()


async def keep_in_sync(
    process: Process, database: Database, answered: anyio.Event, telling: Telling | None = None
) -> None:
    """Exchange whenever something is new here or there, until cancelled or this device is revoked.

    `telling`: see `OpenExchange`.
    """
    await answered.wait()
    settings, pause, said = process.loaded.settings.sync, 1.0, ""
    while True:
        try:
            async with open_exchange(process, database, telling) as opened:
                known = -1
                try:
                    while True:
                        known = await database.read(newest_event)
                        with anyio.fail_after(EXCHANGE_SECONDS):
                            await opened.run()
                        pause, said = 1.0, ""
                        await _until_news(opened.carrier, database, known, settings.every_seconds)
                except anyio.get_cancelled_exc_class():
                    await _exchange_last(opened, database, known)
                    raise
        except DeviceRevokedError as error:
            _LOGGER.warning("%s", error.sentence)
            return
        except (PatternError, TimeoutError) as error:
            sentence = error.sentence if isinstance(error, PatternError) else "An exchange took too long."
            if sentence != said:
                _LOGGER.warning("Memory is not exchanged now: %s", sentence)
            said = sentence
        await anyio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


async def _exchange_last(exchange: OpenExchange, database: Database, known: int) -> None:
    """Exchange what was recorded behind an event while the process ends, as far as there is time."""
    with anyio.CancelScope(shield=True), anyio.move_on_after(LAST_SECONDS):
        try:
            if await database.read(newest_event) != known:
                await exchange.run()
        except PatternError as error:
            _LOGGER.warning("Memory is not exchanged now: %s", error.sentence)


async def _until_news(carrier: Carrier, database: Database, known: int, seconds: float) -> None:
    """Return when there may be something to exchange, at the latest after some time."""

    async def recorded() -> None:
        while True:
            await anyio.sleep(OWN_SECONDS)
            if await database.read(newest_event) != known:
                return

    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as tasks:

            async def first(wait: Callable[[], Awaitable[None]]) -> None:
                await wait()
                tasks.cancel_scope.cancel()

            for wait in (carrier.news, recorded):
                tasks.start_soon(first, wait)


def _absolute(folder: str) -> str:
    return str(Path(folder).expanduser().absolute())
