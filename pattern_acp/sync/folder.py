"""Segments in a folder that any file-sync tool keeps the same on several machines.

Owns: the files: `FOLDER/DEVICE/NUMBER.segment`, written once and never changed. Must not know: what is in them. Other
files are left alone: those that are not yet all here, and the copies that such tools make when they see a conflict.
"""

import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from pattern_acp.sync.segments import SegmentName, SyncError, name_of

LOOK_SECONDS = 2.0
"""Between two looks for what came: no tool tells it in a way that works everywhere."""

MOST_BYTES = 1_000_000_000
"""The largest file that is read."""

T = TypeVar("T")


class FolderCarrier:
    """Moves segments by files of one folder, in which each device writes into a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: Sequence[SegmentName] = ()

    async def names(self) -> Sequence[SegmentName]:
        """See `Carrier.names`."""
        self._last = await self._run(self._list)
        return self._last

    async def require_writable(self) -> None:
        """Find out whether anything can be put there.

        Raises:
            SyncError: it can be read alone, or not at all.
        """
        if not await self._run(lambda: os.access(self._folder, os.W_OK | os.X_OK)):
            raise SyncError(
                f"The folder {self._folder} of sync cannot be written to: what others wrote comes, and what is new "
                "here does not go. Give yourself the right to write there."
            )

    async def fetch(self, name: SegmentName) -> bytes:
        """See `Carrier.fetch`."""
        return await self._run(lambda: _read(self._path(name)))

    async def put(self, name: SegmentName, content: bytes) -> None:
        """See `Carrier.put`."""
        await self._run(lambda: _write(self._path(name), content))

    async def remove(self, name: SegmentName) -> None:
        """See `Carrier.remove`."""
        await self._run(lambda: self._path(name).unlink(missing_ok=True))

    async def news(self) -> None:
        """See `Carrier.news`."""
        while True:
            await anyio.sleep(LOOK_SECONDS)
            with suppress(SyncError):
                if await self._run(self._list) != self._last:
                    return

    async def close(self) -> None:
        """See `Carrier.close`."""

    def _list(self) -> Sequence[SegmentName]:
        if not self._folder.is_dir():
            # Not made here: where a disk or a tool's folder is not mounted, one would be made beside it.
            raise SyncError(f"The folder {self._folder} of sync is not there; make it, or mount what it is on.")
        found: list[SegmentName] = []
        for device in self._folder.iterdir():
            if device.is_dir() and device.name.startswith("device_"):
                found += [name for file in device.iterdir() if (name := name_of(device.name, file.name))]
        return sorted(found)

    def _path(self, name: SegmentName) -> Path:
        return self._folder / name.device / name.file

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            # A drive that does not answer must not hold up the end of a process.
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except OSError as error:
            raise SyncError(f"The folder {self._folder} of sync cannot be used ({error.strerror or error}).") from error


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_BYTES)


def _write(path: Path, content: bytes) -> None:
    """Write a file that is there as a whole or not at all, also after the power fails."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    for left in path.parent.glob(".*.part"):
        # A process that was killed while it wrote left it; one writes into this folder at a time.
        left.unlink(missing_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
