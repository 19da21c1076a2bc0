"""A carrier of segments in memory, and one that lies: it drops, repeats, reorders and replays."""

from collections.abc import Sequence
from random import Random

import anyio

from pattern_acp.sync.segments import SegmentName, SyncError


class Depot:
    """What devices have in common: segments by name, and all that ever were there."""

    def __init__(self) -> None:
        self.there: dict[SegmentName, bytes] = {}
        self.ever: list[tuple[SegmentName, bytes]] = []
        self.changed = anyio.Event()

    def ring(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


class MemoryCarrier:
    """Moves segments between devices of one process."""

    def __init__(self, depot: Depot) -> None:
        self.depot = depot

    async def names(self) -> Sequence[SegmentName]:
        return sorted(self.depot.there)

    async def fetch(self, name: SegmentName) -> bytes:
        try:
            return self.depot.there[name]
        except KeyError:
            raise SyncError("The segment is gone.") from None

    async def put(self, name: SegmentName, content: bytes) -> None:
        self.depot.there[name] = content
        self.depot.ever.append((name, content))
        self.depot.ring()

    async def remove(self, name: SegmentName) -> None:
        self.depot.there.pop(name, None)

    async def news(self) -> None:
        await self.depot.changed.wait()

    async def close(self) -> None:
        pass


class LyingCarrier(MemoryCarrier):
    """Does something else than it says, with luck that the test chooses, until it is told to be honest."""

    def __init__(self, depot: Depot, luck: Random) -> None:
        super().__init__(depot)
        self.luck = luck
        self.is_honest = False

    def _happens(self, share: float) -> bool:
        return not self.is_honest and self.luck.random() < share

    async def names(self) -> Sequence[SegmentName]:
        if self._happens(0.1):
            raise SyncError("The server does not answer.")
        names = list(await super().names())
        if self._happens(0.3):
            names = [name for name in names if self.luck.random() < 0.7]
        if not self.is_honest:
            self.luck.shuffle(names)
            names += self.luck.sample(names, len(names) // 3)
        return names

    async def fetch(self, name: SegmentName) -> bytes:
        if self._happens(0.1):
            raise SyncError("The server does not answer.")
        content = await super().fetch(name)
        if self._happens(0.1):
            return content[: len(content) // 2]
        if self._happens(0.2):
            # Another one, perhaps an old one of the same device.
            return self.luck.choice(self.depot.ever)[1]
        return content

    async def put(self, name: SegmentName, content: bytes) -> None:
        if self._happens(0.15):
            raise SyncError("The server does not answer.")
        if self._happens(0.15):
            return
        await super().put(name, content)
        if self._happens(0.1):
            # What was removed is there again.
            old, again = self.luck.choice(self.depot.ever)
            self.depot.there[old] = again

    async def remove(self, name: SegmentName) -> None:
        if not self._happens(0.3):
            await super().remove(name)
