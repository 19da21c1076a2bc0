"""Turns that touch all that a constellation keeps, run on a disk that records them, and the check of what a crash left.

Owns: the script, the moments of acknowledgement, and the check. Must not know: which crash it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from pattern_acp.config.settings import Settings
from pattern_acp.db.connection import Transaction, open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.events import Event
from pattern_acp.journal.reader import read_stream
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.store import list_blocks
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.recovery.checks import Health, verify
from tests.support.acknowledged import Acknowledged
from tests.support.agent import RunningAgent
from tests.support.editor import JsonDict
from tests.support.faulty_disk import FaultyDisk, Files, put
from tests.support.scripts import Turn, calls, says, uses

AUTO = Settings(editor_deadline_seconds=30, mode="auto")

TURNS = 2

UNSAVED = "Nothing more was saved"


def script(turns: int = TURNS) -> list[Turn]:
    """For each prompt two requests: text, a file read and written, a command, a plan and memory; then an answer."""
    played: list[Turn] = []
    for number in range(turns):
        entry = {"content": f"step {number}", "priority": "high", "status": "pending"}
        played += [
            says(f"I look at it, time {number}. ")
            + calls("memory_write", label="human", operation="append", text=f"fact {number}")
            + calls("read_file", path="a.txt")
            + calls("update_plan", entries=[entry])
            + calls("write_file", path=f"{number}.txt", content=f"content {number}\n" * 20)
            + calls("run_command", command="echo one; echo two"),
            says(f"Done, time {number}.") + uses(10, 3),
        ]
    return played


@dataclass(slots=True)
class Witness:
    """What the editor was told, each with how many operations the disk had done when it was."""

    disk: FaultyDisk
    session: str = ""
    opened: int = 0
    """When the session was there."""
    updates: list[tuple[int, JsonDict]] = field(default_factory=list[tuple[int, JsonDict]])
    ended: list[int] = field(default_factory=list[int])

    async def begin(self, agent: RunningAgent) -> None:
        """Open a session that is watched from now on."""
        (agent.folder / "a.txt").write_text("hello\n", encoding="utf-8")
        agent.editor.watch = lambda update: self.updates.append((self.now, update["update"]))
        self.session = await agent.editor.open_session(str(agent.folder))
        self.opened = self.now

    async def watch(self, agent: RunningAgent, turns: int = TURNS) -> None:
        """Run the script's turns in a new session of the agent."""
        await self.begin(agent)
        for number in range(turns):
            await agent.editor.prompt(self.session, f"Prompt {number}")
            self.ended.append(self.now)
            if number == 0:
                # As the hourly snapshot and long sessions do, in the middle.
                await agent.database.checkpoint()

    @property
    def now(self) -> int:
        """How many operations the disk has done."""
        return len(self.disk.operations)

    def until(self, done: int) -> Acknowledged:
        """What was acknowledged before the operation with this number."""
        told = Acknowledged()
        told.note(update for at, update in self.updates if at <= done and not _is_unsaved(update))
        told.ended = sum(at <= done for at in self.ended)
        told.prompts = max(told.ended, int(bool(told.started)))
        return told


def _is_unsaved(update: JsonDict) -> bool:
    """Whether it is the sentence that says that nothing could be saved, which then is not saved either."""
    content = update.get("content")
    return isinstance(content, dict) and str(cast("JsonDict", content).get("text", "")).lstrip().startswith(UNSAVED)


def read_session(tx: Transaction, session: str) -> tuple[list[Event], set[str]]:
    """The events of the session, and the lines of memory."""
    blocks = list_blocks(tx, [(Scope.PERSONA, AUTO.persona)])
    return [each.event for each in read_stream(tx, session)], {line for b in blocks for line in b.text.splitlines()}


async def lost(files: Files, folder: Path, witness: Witness, done: int) -> list[str]:
    """What is wrong with the files that are left after `done` operations; empty when all is well."""
    put(files, folder)
    return await problems_of(folder / "constellation.db", witness, done)


async def problems_of(path: Path, witness: Witness, done: int) -> list[str]:
    """What is wrong with a constellation after `done` operations; empty when all is well.

    It is opened, as the next start does; then every page, chain, block, file and the search index are checked, and each
    acknowledgement until then is looked for.
    """
    async with open_database(path, clock=SystemClock()) as database:
        events, memory = await database.read(lambda tx: read_session(tx, witness.session))
        known = await database.read(lambda tx: tx.one("SELECT count(*) FROM sessions WHERE id = ?", (witness.session,)))
    broken = [finding.detail for finding in verify(path) if finding.health is not Health.OK]
    session = ["no session"] if witness.opened <= done and witness.session and known != (1,) else []
    return [*broken, *session, *witness.until(done).missing(events, memory)]


def provider(turns: int = TURNS, more: Sequence[Turn] = ()) -> ScriptedProvider:
    """The model that plays the script, and `more` after it."""
    return ScriptedProvider([*script(turns), *more])
