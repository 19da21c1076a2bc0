"""`pattern-acp sync`: exchange memory with the user's other devices now, show how far each is, and its key.

Owns: the words of a terminal for it. Must not know: how an exchange works (pattern_acp/sync).
"""

import getpass
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

import anyio.to_thread
from msgspec import Struct, convert
from msgspec.structs import replace

from pattern_acp.bootstrap.constellation_choice import is_per_project
from pattern_acp.bootstrap.process import Process
from pattern_acp.bootstrap.syncing import SHOWN_DEVICE, KeyRing, mask_of, open_exchange, place_problem, sharing_of
from pattern_acp.cli.command_runner import open_for_command
from pattern_acp.commands.document import Column, Paragraph, Part, Result, Table, as_result, columns
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.text_limits import plural
from pattern_acp.memory.service.forget import Telling
from pattern_acp.sync.exchange import Peer, clock_problem, device_of, peers_of, revoke, tell_all_again
from pattern_acp.sync.forgetting import change_key, unheard_forgettings
from pattern_acp.sync.outgoing import read_changes
from pattern_acp.sync.segments import DeviceRevokedError, SyncKeyError, key_text, new_key, read_key


class SyncDesk(Struct, frozen=True):
    """Dependencies of the verbs."""

    database: Database
    process: Process
    keys: KeyRing


class UnknownDeviceError(PatternError):
    """No device, or more than one, has the name that was typed."""

    failure_code = "cli.usage"


@asynccontextmanager
async def open_sync(call: TypedCommand, process: Process) -> AsyncGenerator[SyncDesk, None]:
    """Open the constellation. Raises PatternError where it cannot be used."""
    del call
    async with open_for_command(process) as database:
        yield SyncDesk(database, process, KeyRing.of(process))


class Exchanged(Result, frozen=True):
    """The outcome of an exchange."""

    sent: int
    received: int
    blocks: int
    facts: int
    tasks: int
    sessions: int
    forgotten: int
    waiting: int
    notes: tuple[str, ...]

    @property
    def document(self) -> Sequence[Part]:
        """A sentence on each."""
        kinds = ((self.blocks, "memory block"), (self.facts, "fact"), (self.tasks, "task change"))
        numbers = [plural(number, kind) for number, kind in (*kinds, (self.sessions, "session")) if number]
        came = f"{', '.join(numbers) or 'nothing'} came"
        went = "what is new here went" if self.sent else "nothing had to go"
        parts: list[Part] = [Paragraph(f"Memory was exchanged: {came}, and {went}.")]
        if self.forgotten:
            passages = plural(self.forgotten, "passage")
            parts.append(Paragraph(f"{passages} that another device forgot went from this one too."))
        if self.waiting:
            sentence = (
                f"{plural(self.waiting, 'segment')} cannot be taken over yet; `pattern-acp sync status` says why."
            )
            parts.append(Paragraph(sentence, "warning"))
        return (*parts, *(Paragraph(note, "note") for note in self.notes))


class SyncDevice(Struct, frozen=True):
    """Another device, as status shows it."""

    device: str
    host: str
    segment: int
    written_ms: int
    has_all: bool
    """True when it had all that this device has written when it wrote last."""
    revoked: bool
    problem: str
    to_forget: int
    """Passages that were forgotten and that it may still have."""


class SyncState(Result, frozen=True):
    """The devices, and how far each is."""

    url: str
    device: str
    segments: int
    key: bool
    to_tell: int
    """Memory blocks, facts, tasks of lists that changed, and sessions, which no segment has yet."""
    devices: tuple[SyncDevice, ...]
    problem: str = ""
    """A sentence on why nothing can be exchanged now; empty where nothing is known of it."""

    @property
    def document(self) -> Sequence[Part]:
        """A table of the other devices, and what has to be done first."""
        parts: list[Part] = []
        if not self.url:
            sentence = "Memory is not exchanged: set url in [sync] of config.toml (docs/how-to/sync.md)."
            parts.append(Paragraph(sentence, "note"))
        if not self.key:
            parts.append(Paragraph("There is no key yet: `pattern-acp sync key new`, or `set`.", "note"))
        if self.url:
            # What was written and could not be put there goes with the next exchange.
            nothing = "what is new here goes later" if self.problem else "nothing to tell"
            told = f"{plural(self.to_tell, 'change')} to tell" if self.to_tell else nothing
            name = f"This device is {self.device[:SHOWN_DEVICE]}" if self.device else "This device has told nothing yet"
            parts.append(Paragraph(f"{name}, at {self.url}; {told}."))
        if self.problem:
            parts.append(Paragraph(self.problem, "warning"))
        rows = tuple(
            (
                one.device[:SHOWN_DEVICE],
                one.host,
                _when(one.written_ms),
                "revoked" if one.revoked else "yes" if one.has_all else "not yet",
                one.problem or (f"has not forgotten {plural(one.to_forget, 'passage')} yet" if one.to_forget else ""),
            )
            for one in self.devices
        )
        if rows:
            headings = columns(Column("Device", "cyan"), "Machine", "Last heard of", "Has all of this one", "Problem")
            parts.append(Table(headings, rows))
        return parts


async def sync_now(desk: SyncDesk) -> Exchanged:
    """Exchange once. Raises PatternError where there is no place or no key, or the place cannot be used."""
    telling: Telling | None = None
    if is_per_project(desk.process.loaded):
        # Late: without a constellation for each project nothing of it is wanted.
        from pattern_acp.bootstrap.replicas import tell_projects

        telling = partial(tell_projects, desk.process)
    async with open_exchange(desk.process, desk.database, telling) as opened:
        return convert(await opened.run(), Exchanged, from_attributes=True)


async def sync_status(desk: SyncDesk) -> SyncState:
    """Show the devices, and whether the folder or server can be used.

    Raises:
        PatternError: the constellation or the key cannot be read.
    """
    settings = desk.process.loaded.settings.sync
    sharing, mask = await anyio.to_thread.run_sync(sharing_of, settings), mask_of(desk.process)

    def read(tx: Transaction) -> SyncState:
        device = device_of(tx)
        changes = read_changes(tx, sharing, 0 if device is None else device.upto, mask)
        number = 0 if device is None else device.number
        return SyncState(
            settings.url,
            "" if device is None else device.name,
            number,
            has_key,
            changes.report.blocks + changes.report.entries + changes.report.tasks + changes.report.sessions,
            tuple(_shown(tx, peer, number, now_ms) for peer in peers_of(tx)),
            problem,
        )

    now_ms = SystemClock().now_ms()
    has_key = await anyio.to_thread.run_sync(desk.keys.load) is not None
    problem = await place_problem(settings.url) if settings.url else ""
    state = await desk.database.read(read)
    if any(one.revoked and one.device == state.device for one in state.devices):
        return replace(state, problem=DeviceRevokedError().sentence)
    return state


async def sync_key(desk: SyncDesk, action: str, *, in_file: bool = False) -> Result:
    """Make, show or store the key.

    Raises:
        PatternError: there is none, or one already, or what was read is none.
    """
    known = await anyio.to_thread.run_sync(desk.keys.load)
    if action == "show":
        if known is None:
            raise SyncKeyError("There is no key of sync: run `pattern-acp sync key new`.")
        return as_result(key_text(known))
    if action == "new" and known is not None:
        raise SyncKeyError(
            "There is a key already; `pattern-acp sync key show` shows it. Revoking a device makes a new one."
        )
    key = new_key() if action == "new" else read_key(await anyio.to_thread.run_sync(_typed_key))
    where = await _store(desk, known, key, in_file=in_file)
    if action == "set":
        return as_result(f"The key is stored in {where}. Exchange now with: pattern-acp sync")
    return _NewKey(key_text(key), f"It is stored in {where}. On each other device: pattern-acp sync key set")


async def sync_revoke(desk: SyncDesk, device: str) -> Result:
    """Take nothing of a device any more, and make a key that it does not have.

    Raises:
        PatternError: there is no such device, or the key cannot be stored.
    """
    peers = await desk.database.read(peers_of)
    found = [peer for peer in peers if device and (peer.device.startswith(device) or peer.host == device)]
    if len(found) != 1:
        some = "No device" if not found else "More than one device"
        raise UnknownDeviceError(f"{some} is called {device}; `pattern-acp sync status` shows their names.")
    (peer,) = found
    await desk.database.write(lambda tx: revoke(tx, peer.device))
    key = new_key()
    where = await _store(desk, await anyio.to_thread.run_sync(desk.keys.load), key)
    return _NewKey(
        key_text(key),
        f"{peer.host or peer.device} is revoked. It does not have the new key, which is stored in {where}: on each of "
        "your other devices run `pattern-acp sync key set`. What it took over before stays there.",
    )


class _NewKey(Result, frozen=True):
    """A key that was made just now."""

    sync_key: str
    about: str

    @property
    def document(self) -> Sequence[Part]:
        """The key on its own, so that it can be copied."""
        return (Paragraph(self.sync_key), Paragraph(self.about))


async def _store(desk: SyncDesk, old: bytes | None, key: bytes, *, in_file: bool = False) -> str:
    where = await anyio.to_thread.run_sync(partial(desk.keys.save, key, in_file=in_file))

    def write(tx: Transaction) -> None:
        # All that is there is encrypted with the old one.
        tell_all_again(tx)
        if old is not None:
            change_key(tx, old, key)

    await desk.database.write(write)
    return where


def _typed_key() -> str:
    hidden = sys.stdin.isatty()
    return getpass.getpass("Key of sync (it is not shown): ") if hidden else sys.stdin.read(1024)


def _shown(tx: Transaction, peer: Peer, number: int, now_ms: int) -> SyncDevice:
    has_all = number > 0 and peer.seen >= number
    problem = peer.problem or clock_problem(peer, now_ms)
    to_forget = 0 if peer.revoked else unheard_forgettings(tx, peer.seen)
    return SyncDevice(peer.device, peer.host, peer.number, peer.at_ms, has_all, peer.revoked, problem, to_forget)


def _when(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M") if at_ms else "never"
