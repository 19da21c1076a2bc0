"""One exchange with the other devices: take over what came, then tell what is new here.

Owns: the order of steps, and how far each device is. Must not know: how segments are moved, or what a change is.

The constellation is the truth, and segments are a projection of it. A process that is killed between two steps leaves a
state that the next exchange continues from: a segment is taken over in the transaction that says so, and the number of
one that is written is taken before it is put there. Where a number of ours is missing there, however that came, all is
told once more in a segment that stands for those before it.
"""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path

import anyio.to_thread
import msgspec
from msgspec import Struct, field

from pattern_acp.carry.arrival import ImportReport, NewerArchiveError
from pattern_acp.carry.car import ArchiveDamagedError, ArchiveReader, read_archive
from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Database, SqlValue, Transaction
from pattern_acp.domain.clock import Clock, IdFactory
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.leases import host_name
from pattern_acp.memory.secrets import SecretMask
from pattern_acp.memory.service.forget import Tell
from pattern_acp.sync.forgetting import (
    Following,
    drop_heard,
    followed_forgettings,
    forgettings_to_tell,
    mark_told,
    take_forgettings,
    tell_forgettings_again,
)
from pattern_acp.sync.incoming import take_over
from pattern_acp.sync.outgoing import QUERIES, Changes, Sharing, read_changes
from pattern_acp.sync.segments import (
    DEVICE,
    Carrier,
    DeviceRevokedError,
    Forgetting,
    Segment,
    SegmentName,
    SyncError,
    SyncKeyError,
    seal,
    unseal,
)

_LOGGER = logging.getLogger(__name__)

WHOLE_EVERY = 100
"""Segments after which all is reported in one, and those before it go."""

PASS_EVENTS = 500
"""Events without anything to tell after which that is noted, so that they are not looked through again."""

AHEAD_MINUTES = 5
"""Time behind now at which a device may have written before its clock is named."""

LOCK_SECONDS = 10.0
"""Longest wait for another window that exchanges."""


class Device(Struct, frozen=True):
    """This device, and how far it has told the others what is here."""

    name: str
    number: int = 0
    upto: int = 0
    whole: int = 0
    choice: str = ""


class Peer(Struct, frozen=True):
    """Another device, and how far its segments were taken over."""

    device: str
    host: str
    number: int
    seen: int
    at_ms: int
    revoked: bool
    problem: str


class ExchangeReport(Struct):
    """The outcome of an exchange."""

    sent: int = 0
    """Segments that were written."""
    received: int = 0
    blocks: int = 0
    facts: int = 0
    tasks: int = 0
    sessions: int = 0
    forgotten: int = 0
    """Forgettings of other devices that took something from here."""
    waiting: int = 0
    """Segments that are there and cannot be taken over yet, since one before them is not."""
    notes: list[str] = field(default_factory=list[str])


class MemoryExchange:
    """Exchanges the memory of one constellation."""

    def __init__(
        self,
        database: Database,
        carrier: Carrier,
        key: bytes,
        sharing: Sharing,
        mask: SecretMask,
        clock: Clock,
        ids: IdFactory,
        *,
        host: str = "",
    ) -> None:
        """`host` is what the other devices call this one; the machine's name without."""
        self._database = database
        self._carrier = carrier
        self._key = key
        self._sharing = sharing
        self._mask = mask
        self._clock = clock
        self._ids = ids
        self._host = host or host_name()

    async def run(self, tell: Tell | None = None) -> ExchangeReport:
        """Exchange once. One window of a constellation does it at a time. `tell`: see `Following`.

        Raises:
            SyncError: the folder or server cannot be used, or another window exchanges and does not come to an end.
            DeviceRevokedError: another device revoked this one.
        """
        async with _locked(self._database.path):
            names = await self._carrier.names()
            device = await self._database.write(lambda tx: self._begin(tx, names))
            report = ExchangeReport()
            await self._receive(device, names, report)
            # Before anything goes: a segment says that what those it has seen forgot is forgotten here.
            following = Following(self._database, self._key, self._clock, self._ids, tell=tell)
            report.forgotten, left = await following.run()
            report.notes += left
            await self._send(device, names, report)
            return report

    def _begin(self, tx: Transaction, names: Sequence[SegmentName]) -> Device:
        """The device, under another name where this one is used by a copy of the constellation, or was before."""
        row = tx.one(QUERIES["device"])
        place = str(self._database.path)
        device = None if row is None or (row[1], row[2]) != (self._host, place) else device_of(tx)
        if device is not None and any(name.device == device.name and name.number > device.number for name in names):
            # A backup was restored: what it lacks is in those segments, and is taken over like that of any device.
            device = None
        if device is None:
            named: dict[str, SqlValue] = {"device": self._ids.new("device"), "host": self._host, "place": place}
            tx.execute(QUERIES["begin_device"], named)
            tell_forgettings_again(tx)
            device = Device(str(named["device"]))
        if device.choice != self._sharing.digest:
            tx.execute(QUERIES["read_again"])
        return device

    async def _receive(self, device: Device, names: Sequence[SegmentName], report: ExchangeReport) -> None:
        peers = await self._peers(device)
        for other in dict.fromkeys(name.device for name in names if name.device != device.name):
            peer = peers.get(other)
            if peer is None or not peer.revoked:
                there = sorted(name for name in names if name.device == other)
                await self._follow(device, there, 0 if peer is None else peer.number, report)
        await self._peers(device)

    async def _peers(self, device: Device) -> dict[str, Peer]:
        """The other devices by their names. Raises DeviceRevokedError where this one was revoked."""
        peers = {peer.device: peer for peer in await self._database.read(peers_of)}
        if device.name in peers and peers[device.name].revoked:
            raise DeviceRevokedError
        return peers

    async def _follow(self, device: Device, there: Sequence[SegmentName], number: int, report: ExchangeReport) -> None:
        """Take over the segments of one device behind `number`, as far as they follow on each other."""
        while ahead := [name for name in there if name.number > number]:
            # The next one; a later one that says all where that one is missing or torn.
            candidates = [name for name in ahead if name.number == number + 1 or name.whole]
            problem = "the segment after the last one has not come yet"
            for name in candidates:
                try:
                    segment = unseal(self._key, name, await self._carrier.fetch(name))
                    if segment is None:
                        problem = f"the segment {name.number} is not whole, or was changed"
                        continue
                    await self._take_over(device, name, segment, report)
                except (SyncError, SyncKeyError, ArchiveDamagedError, NewerArchiveError) as error:
                    problem = error.sentence
                    continue
                number = name.number
                break
            else:
                report.waiting += len(ahead)
                await self._database.write(lambda tx: _note_problem(tx, there[0].device, problem))  # noqa: B023
                return

    async def _take_over(self, device: Device, name: SegmentName, segment: Segment, report: ExchangeReport) -> None:
        now_ms = self._clock.now_ms()

        def write(tx: Transaction, archive: ArchiveReader) -> ImportReport:
            taken = take_over(tx, archive, self._sharing, now_ms=now_ms)
            row: dict[str, SqlValue] = {
                "device": name.device,
                "host": segment.host,
                "number": name.number,
                "seen": segment.seen.get(device.name, 0),
                "at_ms": segment.at_ms,
            }
            tx.execute(QUERIES["follow_peer"], row)
            for revoked in segment.revoked:
                revoke(tx, revoked)
            came = taken.blocks or taken.facts or taken.tasks or taken.sessions
            # What came may have the words of a forgetting that its device had not heard of.
            take_forgettings(tx, self._key, segment.forgotten, segment.followed if came else None)
            return taken

        archive = read_archive(BytesIO(segment.archive))
        taken = await self._database.write(lambda tx: write(tx, archive))
        report.received += 1
        report.blocks += taken.blocks
        report.facts += taken.facts
        report.tasks += taken.tasks
        report.sessions += taken.sessions
        report.notes += [note for note in dict.fromkeys(taken.notes) if note not in report.notes]

    async def _send(self, device: Device, names: Sequence[SegmentName], report: ExchangeReport) -> None:
        device = await self._database.read(device_of) or device
        own = _of_device(device, names)
        # In one snapshot: what another window forgets in between would be passed over.
        is_whole, changes, forgotten, followed = await self._database.read(lambda tx: self._look(tx, device, own))
        report.notes += changes.report.left_out
        if changes.is_empty and not is_whole and not forgotten:
            if changes.upto - device.upto > PASS_EVENTS:
                passed: dict[str, SqlValue] = {"device": device.name, "upto": changes.upto, "before": device.number}
                await self._database.write(lambda tx: tx.execute(QUERIES["pass_events"], passed))
        else:
            await self._write(device, changes, forgotten, followed, report, is_whole=is_whole)
            if is_whole:
                # Those before may have words that were forgotten.
                device = await self._database.read(device_of) or device
                own = _of_device(device, await self._carrier.names())
        for name in own.values():
            if name.number < device.whole and device.whole in own:
                await self._carrier.remove(name)
        await self._database.write(self._drop_heard)

    def _drop_heard(self, tx: Transaction) -> None:
        seen = [peer.seen for peer in peers_of(tx) if not peer.revoked]
        drop_heard(tx, self._key, self._sharing, seen, self._clock.now_ms())

    def _look(
        self, tx: Transaction, device: Device, own: dict[int, SegmentName]
    ) -> tuple[bool, Changes, tuple[Forgetting, ...], tuple[str, ...]]:
        """Find out whether all is to be reported, the changes and forgettings to report, and those followed here."""
        is_whole = self._is_whole_due(tx, device, own)
        changes = read_changes(tx, self._sharing, 0 if is_whole else device.upto, self._mask)
        forgotten = forgettings_to_tell(tx, self._key, self._sharing, is_whole=is_whole)
        return is_whole, changes, forgotten, followed_forgettings(tx)

    def _is_whole_due(self, tx: Transaction, device: Device, own: dict[int, SegmentName]) -> bool:
        """Tell whether all is to be reported at once: something is missing there, or too much is."""
        is_there = all(number in own for number in range(max(1, device.whole), device.number + 1))
        due = device.number == 0 or not is_there or device.choice != self._sharing.digest
        forgotten = tx.one(QUERIES["forgotten_after"], {"after": device.upto})
        return due or device.number - device.whole >= WHOLE_EVERY or (forgotten is not None and forgotten[0] == 1)

    async def _write(
        self,
        device: Device,
        changes: Changes,
        forgotten: tuple[Forgetting, ...],
        followed: tuple[str, ...],
        report: ExchangeReport,
        *,
        is_whole: bool,
    ) -> None:
        name = SegmentName(device.name, device.number + 1, is_whole)
        peers = await self._database.read(peers_of)
        segment = Segment(
            changes.archive,
            self._host,
            {peer.device: peer.number for peer in peers},
            tuple(peer.device for peer in peers if peer.revoked),
            self._clock.now_ms(),
            forgotten,
            followed,
        )
        row: dict[str, SqlValue] = {
            "device": device.name,
            "number": name.number,
            "upto": changes.upto,
            "whole": name.number if is_whole else device.whole,
            "choice": self._sharing.digest,
            "before": device.number,
        }
        # Before it is put there: a number that peers may have read never stands for something else.

        def advance(tx: Transaction) -> int:
            for session, told in changes.told.items():
                tx.execute(QUERIES["tell_session"], {"session": session, "told": told})
            mark_told(tx, forgotten, name.number)
            return tx.execute(QUERIES["advance_device"], row)

        if await self._database.write(advance) == 1:
            content = await anyio.to_thread.run_sync(seal, self._key, name, segment)
            await self._carrier.put(name, content)
            report.sent += 1


def _of_device(device: Device, names: Sequence[SegmentName]) -> dict[int, SegmentName]:
    """The segments of a device by their numbers."""
    return {name.number: name for name in names if name.device == device.name}


def device_of(tx: Transaction) -> Device | None:
    """This device; None before its first exchange."""
    row = tx.one(QUERIES["device"])
    if row is None:
        return None
    return Device(text(row[0]), integer(row[3]), integer(row[4]), integer(row[5]), text(row[6]))


def peers_of(tx: Transaction) -> tuple[Peer, ...]:
    """The devices of which anything was read, or that were revoked; this one too where it was."""
    return tuple(
        Peer(text(row[0]), text(row[1]), integer(row[2]), integer(row[3]), integer(row[4]), row[5] == 1, text(row[6]))
        for row in tx.all(QUERIES["peers"])
    )


def clock_problem(peer: Peer, now_ms: int) -> str:
    """Tell how far the clock of a device is ahead of this one's; empty where nothing is known of it."""
    minutes = (peer.at_ms - now_ms) // 60_000
    if minutes < AHEAD_MINUTES:
        return ""
    return (
        f"its clock is {plural(minutes, 'minute')} ahead of this one's: set both right, since of settings and of the "
        "state of facts the later change counts"
    )


def revoke(tx: Transaction, device: str) -> None:
    """Take over nothing of a device any more, and tell the others so."""
    if DEVICE.fullmatch(device):
        tx.execute(QUERIES["revoke_peer"], {"device": device})


def tell_all_again(tx: Transaction) -> None:
    """Have the next exchange tell all there is in one segment, such as with another key, and read all again."""
    device = device_of(tx)
    if device is not None:
        row: dict[str, SqlValue] = {**msgspec.structs.asdict(device), "device": device.name, "before": device.number}
        tx.execute(QUERIES["advance_device"], {**row, "choice": ""})


def _note_problem(tx: Transaction, device: str, problem: str) -> None:
    tx.execute(QUERIES["note_problem"], {"device": device, "problem": problem})


@asynccontextmanager
async def _locked(constellation: Path) -> AsyncGenerator[None, None]:
    """Hold the right to exchange this constellation. Raises SyncError where another window has it for long."""
    from filelock import FileLock, Timeout

    # A process that is killed gives it up, too.
    lock = FileLock(constellation.with_suffix(".sync.lock"), timeout=LOCK_SECONDS, mode=0o600, thread_local=False)
    try:
        await anyio.to_thread.run_sync(lock.acquire)
    except Timeout:
        raise SyncError("Another window exchanges memory just now; try again when it is done.") from None
    try:
        yield
    finally:
        lock.release()
