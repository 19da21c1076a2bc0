"""The order in which processes get to write a constellation: whoever came first is first.

Owns: the small file beside the constellation in which those that wait are noted. Must not know: SQL or transactions.

SQLite's lock decides who may write; this decides only who asks for it. SQLite itself lets whoever asks again soonest
have it, and its pauses grow the longer one waits: of four processes that wrote all the time, one waited for 18 s. So
every process that finds the lock taken notes itself here, and only the one that has waited longest asks for the lock,
every half millisecond. Nothing about the safety of data depends on the file: if it is lost, damaged or cannot be
written, all ask at once, as they would without it.

A note carries the time at which its owner last looked. One that has not looked for `STALE_NS`, because it was killed or
suspended, is not waited for; if it comes back, it has its place again. Hence no lock has to be given back by anybody.
"""

import os
import random
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

STALE_NS = 200_000_000
"""Nanoseconds after which a note whose owner did not look is passed over: what a killed process costs the others, once.
A process that waits looks every 20 ms at most, and on an overloaded machine every 100 ms."""

_FORGOTTEN_NS = 5_000_000_000
"""Nanoseconds after which such a note is wiped out."""

PLACES = 64
"""Processes that can be noted at a time; any more of them ask at once."""

_NOTE = struct.Struct("<QQQ")
"""The owner (a random number; 0: nobody), when it came and when it last looked, in nanoseconds since 1970."""

_SIZE = PLACES * _NOTE.size
_NOBODY = bytes(_SIZE)

_FIRST_PAUSE = 0.0005
_PAUSE_BEHIND = 0.001
_LONGEST_PAUSE = 0.02


class _Note(Struct, frozen=True):
    place: int
    owner: int
    since: int
    seen: int


class WriteQueue:
    """One connection's view of the queue of a constellation. Used on one thread; `close` when done.

    `now` gives nanoseconds since 1970: the one clock that processes share on every system, containers included.
    """

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`path` is the constellation's; the queue's file is beside it, and made when somebody first has to wait."""
        self._path = path.with_name(f"{path.name}-queue")
        self._now = now
        self._sleep = sleep
        self._descriptor: int | None = None
        self._owner = random.getrandbits(63) + 1
        self._since = 0
        self._place: int | None = None

    def in_turn(self, attempt: Callable[[], bool], *, seconds: float, is_stopped: Callable[[], bool]) -> bool:
        """Call `attempt` when it is this one's turn, until it succeeds. False: `seconds` are over, or it was stopped.

        At once when nobody waits. Whatever `attempt` raises goes on to the caller.
        """
        if not self._others(self._read()) and attempt():
            return True
        deadline = time.monotonic() + seconds
        self.join()
        try:
            while not is_stopped():
                ahead = self.ahead()
                if ahead == 0 and attempt():
                    return True
                if time.monotonic() >= deadline:
                    return False
                self._sleep(_pause(ahead))
            return False
        finally:
            self.leave()

    def join(self) -> None:
        """Note that this one waits, from now on."""
        self._since = self._now()
        self._open(create=True)
        self._take_place(self._read())

    def ahead(self) -> int:
        """How many others have waited longer. Tells them that this one is still there."""
        notes = self._read()
        mine = next((note for note in notes if note.place == self._place and note.owner == self._owner), None)
        if mine is None:
            # Two that came in the same moment chose one place, or this process was suspended for long.
            self._take_place(notes)
        else:
            self._write(mine.place, self._owner, self._since, self._now())
        return sum((note.since, note.owner) < (self._since, self._owner) for note in self._others(notes))

    def leave(self) -> None:
        """Take the note away; harmless without one."""
        place, self._place = self._place, None
        if place is not None and any(note.place == place and note.owner == self._owner for note in self._read()):
            self._write(place, 0, 0, 0)

    def close(self) -> None:
        """Let go of the file; harmless when closed."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _others(self, notes: Sequence[_Note]) -> list[_Note]:
        """Those who wait besides this one and are alive."""
        if not notes:
            return []
        now = self._now()
        return [note for note in notes if note.owner != self._owner and abs(now - note.seen) <= STALE_NS]

    def _take_place(self, notes: Sequence[_Note]) -> None:
        now = self._now()
        taken = {note.place for note in notes if abs(now - note.seen) <= STALE_NS}
        free = [place for place in range(PLACES) if place not in taken]
        self._place = random.choice(free) if free else None  # noqa: S311  # guards nothing
        if self._place is not None:
            self._write(self._place, self._owner, self._since, now)
        for note in notes:
            if abs(now - note.seen) > _FORGOTTEN_NS and note.place != self._place:
                self._write(note.place, 0, 0, 0)

    def _open(self, *, create: bool) -> int | None:
        if self._descriptor is None:
            flags = os.O_RDWR | getattr(os, "O_BINARY", 0) | (os.O_CREAT if create else 0)
            try:
                self._descriptor = os.open(self._path, flags, 0o600)
            except OSError:
                return None
        return self._descriptor

    def _read(self) -> list[_Note]:
        """All notes; none when the file cannot be read."""
        descriptor = self._open(create=False)
        if descriptor is None:
            return []
        try:
            os.lseek(descriptor, 0, os.SEEK_SET)
            data = os.read(descriptor, _SIZE)
        except OSError:
            return []
        if data == _NOBODY[: len(data)]:
            return []
        whole = data[: len(data) // _NOTE.size * _NOTE.size]
        notes = enumerate(_NOTE.iter_unpack(whole))
        return [_Note(place, owner, since, seen) for place, (owner, since, seen) in notes if owner]

    def _write(self, place: int, owner: int, since: int, seen: int) -> None:
        descriptor = self._open(create=False)
        if descriptor is None:
            return
        try:
            os.lseek(descriptor, place * _NOTE.size, os.SEEK_SET)
            os.write(descriptor, _NOTE.pack(owner, since, seen))
        except OSError:
            # A full disk: the others do not see this one, which then waits for its luck.
            return


def _pause(ahead: int) -> float:
    longest = min(_FIRST_PAUSE + ahead * _PAUSE_BEHIND, _LONGEST_PAUSE)
    return random.uniform(longest / 2, longest)  # noqa: S311  # spreads processes in time, guards nothing
