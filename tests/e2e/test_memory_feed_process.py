"""Live memory over the pipes of a real agent, to a client that stops reading while another process writes."""

import json
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process as RunningProcess
from anyio.streams.buffered import BufferedByteReceiveStream

from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import RandomIds, SessionId, SystemClock
from pattern_acp.memory.blocks import project_key
from pattern_acp.memory.feed import MOST_DELTAS, QUEUE_EVENTS
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.memory.service.history import HistoryScope
from pattern_acp.memory.service.scope import PERSON, MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.service.undo import MemoryReverts
from tests.support.editor import JsonDict
from tests.support.process import COMMAND, agent_environment

pytestmark = pytest.mark.e2e

WRITES = 7
"""To each block in one transaction."""

ROUND = MOST_DELTAS // WRITES
"""Transactions in a row: so few that all of them would come as deltas to a client that reads."""

REASON = "because " * 5_000
"""Goes with every event (40 kB): sixty fill what the agent, the pipe and this client hold of lines (2.4 MB)."""

BLOCKS = tuple(f"notes-{number}" for number in range((QUEUE_EVENTS + 60) // (WRITES * ROUND) + 2))
"""One of them is deleted in the first round; the others are more than enough to fill the queue."""


def _appends(labels: Sequence[str], start: int) -> list[MemoryEdit]:
    return [
        MemoryEdit(label, "append", f"{label}.{number}", reason=REASON)
        for number in range(start, start + WRITES)
        for label in labels
    ]


class Client:
    """Speaks JSON-RPC with an agent, and reads only when it is told to."""

    def __init__(self, process: RunningProcess) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._stdout = BufferedByteReceiveStream(process.stdout)
        self.events: list[JsonDict] = []
        self._number = 0

    async def ask(self, method: str, params: JsonDict) -> JsonDict:
        self._number += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        await self._stdin.send(line.encode() + b"\n")
        while (message := await self.read()).get("id") != self._number:
            pass
        return message["result"]

    async def read(self) -> JsonDict:
        message = json.loads(await self._stdout.receive_until(b"\n", 4_000_000))
        if message.get("method") == "_pattern/memory/event":
            self.events.append(message["params"]["event"])
        return message

    def told(self, kind: str) -> int:
        """How many events of a kind came."""
        return sum(event["type"] == kind for event in self.events)

    def texts(self) -> dict[str, str]:
        """What a client that follows the events holds of each block."""
        held: dict[str, str] = {}
        for event in self.events:
            if event["type"] == "block_gone":
                held.pop(event["blockId"], None)
            elif event["type"] == "block_available":
                held[event["block"]["blockId"]] = event["text"]
            elif event["type"] == "delta" and event.get("text") is not None:
                held[event["blockId"]] = event["text"]
        return held


@pytest.mark.timeout(400)
async def test_a_client_that_stops_reading_loses_events_and_holds_the_same_memory_afterwards(tmp_path: Path):
    home, folder = tmp_path / "home", tmp_path / "folder"
    folder.mkdir()
    clock, ids = SystemClock(), RandomIds()
    with anyio.fail_after(300):
        async with await anyio.open_process([*COMMAND], env=agent_environment(home), stderr=None) as process:
            client = Client(process)
            await client.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
            opened = await client.ask("session/new", {"cwd": str(folder), "mcpServers": []})
            session = {"sessionId": opened["sessionId"]}
            prompt = [{"type": "text", "text": "/memory"}]
            await client.ask("session/prompt", {**session, "prompt": prompt})
            (path,) = home.rglob("constellation.db")
            async with open_database(path, clock=clock) as database:
                owner = MemoryScope("default", project_key(None, str(folder)), SessionId("other"))
                memory = ConstellationMemory(database, owner, clock=clock, ids=ids, peer=ids.peer())
                for label in BLOCKS:
                    await memory.commit(MemoryEdit(label, "create", label, description="Notes."), None)
                subscribed = await client.ask("_pattern/memory/subscribe", session)
                while len(client.texts()) < 3 + len(BLOCKS):
                    await client.read()
                labels, written = BLOCKS, 0
                # How often the agent looks meanwhile is not ours to say, so a round that it slept through is repeated.
                while client.told("block_available") == 3 + len(BLOCKS):
                    for _ in range(ROUND):
                        await memory.commit_all(_appends(labels, written), None)
                        written += WRITES
                    if labels == BLOCKS:
                        scope = HistoryScope(owner.owners, "other", PERSON.actor, PERSON.origin, ids.peer())
                        await MemoryReverts(database, scope, clock=clock).delete(BLOCKS[0])
                        labels = BLOCKS[1:]
                    there = {block.block_id: block.text for block in await memory.blocks()}
                    while client.texts() != there:
                        await client.read()
            assert client.told("delta") < written * len(BLOCKS)
            await client.ask("_pattern/memory/unsubscribe", {"subscriptionId": subscribed["subscriptionId"]})
            while client.events[-1]["type"] != "done":
                await client.read()
            assert client.events[-1]["reason"] == "unsubscribed"
            process.terminate()
