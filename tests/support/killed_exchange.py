"""An exchange whose process is killed at one of its steps: `python -m … FILE CARRIER KEY STEP`.

The carrier is a folder, or the URL of a server of NATS, where the step is the first segment that is sent. In a folder,
it is a number, or `writing`: a segment was written there, and does not have its name yet.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio

from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import RandomIds, SystemClock
from pattern_acp.memory.secrets import SecretMask
from pattern_acp.sync.exchange import MemoryExchange
from pattern_acp.sync.nats_carrier import NatsCarrier
from pattern_acp.sync.outgoing import Sharing
from pattern_acp.sync.segments import FolderCarrier, SegmentName


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

    async def remove(self, name: SegmentName) -> None:
        self._step()
        await super().remove(name)
        self._step()


class KillingContent(bytes):
    """Kills the process that asks for its length again: all of its pieces are sent then, and not what they are."""

    has_begun = False

    def __len__(self) -> int:
        if self.has_begun:
            os.kill(os.getpid(), signal.SIGKILL)
        self.has_begun = True
        return super().__len__()


class KillingNatsCarrier(NatsCarrier):
    """Kills the process while it sends a segment."""

    async def put(self, name: SegmentName, content: bytes) -> None:
        await super().put(name, KillingContent(content))


def kill_before_naming(event: str, arguments: tuple[object, ...]) -> None:
    """Kill the process where a file gets its name."""
    if event == "os.rename" and str(arguments[0]).endswith(".part"):
        os.kill(os.getpid(), signal.SIGKILL)


def carrier_of(there: str, step: str) -> FolderCarrier | NatsCarrier:
    """The carrier that kills at a step."""
    if there.startswith("nats:"):
        return KillingNatsCarrier(there)
    if step == "writing":
        sys.addaudithook(kill_before_naming)
        return FolderCarrier(Path(there))
    return KillingCarrier(Path(there), int(step))


async def main(file: str, there: str, key: str, step: str) -> None:
    carrier = carrier_of(there, step)
    async with open_database(Path(file), clock=SystemClock()) as database:
        sharing = Sharing()
        await MemoryExchange(
            database, carrier, bytes.fromhex(key), sharing, SecretMask(), SystemClock(), RandomIds()
        ).run()


if __name__ == "__main__":
    file, there, key, step = sys.argv[1:5]
    anyio.run(main, file, there, key, step)
