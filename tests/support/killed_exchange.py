"""An exchange through a folder whose process is killed at one of its steps: `python -m … FILE FOLDER KEY STEP`."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio

from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.ids import RandomIds
from pattern_acp.memory.secrets import SecretMask
from pattern_acp.sync.exchange import MemoryExchange
from pattern_acp.sync.folder import FolderCarrier
from pattern_acp.sync.outgoing import Sharing
from pattern_acp.sync.segments import SegmentName


class KillingCarrier(FolderCarrier):
    """Kills the process before or after one of the calls, counted from 0: two a call."""

    def __init__(self, folder: Path, step: int) -> None:
        super().__init__(folder)
        self._left = step

    def _step(self) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1

    async def names(self) -> Sequence[SegmentName]:
        self._step()
        found = await super().names()
        self._step()
        return found

    async def fetch(self, name: SegmentName) -> bytes:
        self._step()
        content = await super().fetch(name)
        self._step()
        return content

    async def put(self, name: SegmentName, content: bytes) -> None:
        self._step()
        await super().put(name, content)
        self._step()


async def main(file: str, folder: str, key: str, step: str) -> None:
    carrier = KillingCarrier(Path(folder), int(step))
    async with open_database(Path(file), clock=SystemClock()) as database:
        sharing = Sharing()
        await MemoryExchange(
            database, carrier, bytes.fromhex(key), sharing, SecretMask(), SystemClock(), RandomIds()
        ).run()


if __name__ == "__main__":
    file, folder, key, step = sys.argv[1:5]
    anyio.run(main, file, folder, key, step)
