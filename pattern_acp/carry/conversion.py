"""Turning what another program remembers into an archive, so that it comes in by the way of all imports.

Owns: which block, fact or event each thing becomes. Must not know: the forms of other programs (`foreign`), or how an
archive is taken over. The same file gives the same ids and hashes, so that importing it twice is importing it once;
where it came from is a constellation of its own, called by the hash of its first event.
"""

import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import anyio.to_thread

from pattern_acp.carry.car import ArchiveReader, read_archive
from pattern_acp.carry.export import Choice, ExportReport, export
from pattern_acp.carry.foreign import Foreign, ForeignBlock, ForeignFact, ForeignMessage, ForeignSession
from pattern_acp.db.connection import Transaction, open_database
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import BlockId, Clock, MessageId, SessionId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.domain.tool_calls import StopReason
from pattern_acp.journal.events import (
    OWN_TURN,
    EntryArchived,
    Event,
    MessageRecorded,
    SessionCreated,
    SessionTitled,
    TurnEnded,
    TurnStarted,
)
from pattern_acp.journal.sessions import NewSession, create_session, note_prompt, set_title, touch
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.memory.archive import MOST_CHARACTERS, NewEntry, entry_facts, find_same, insert_entry
from pattern_acp.memory.blocks import DEFAULT_LIMIT, MOST_LIMIT, BlockKey, BlockSpec, Permission, Scope, Tier
from pattern_acp.memory.secrets import SecretMask
from pattern_acp.memory.service.commit import block_event
from pattern_acp.memory.store import WriteRecord, block_exists, propose_creation, store_change

_EARLIEST_MS = 1_577_836_800_000
"""The time of what says none: the beginning of 2020, the same whenever it is imported."""


class _Converter:
    """One file, inside the transaction of a constellation that it fills."""

    def __init__(self, tx: Transaction, found: Foreign, persona: str, project: str, folder: str) -> None:
        self._tx = tx
        self._found = found
        self._persona = persona
        self._project = project
        self._folder = folder
        self._has_several_agents = len(found.agents()) > 1

    def run(self) -> None:
        """Store all of it."""
        for block in self._found.blocks:
            self._block(block)
        for fact in self._found.facts:
            for text in _pieces(fact.text, MOST_CHARACTERS):
                self._fact(fact, text)
        for session in self._found.sessions:
            self._session(session)

    def _owner(self, agent: str) -> str:
        """Return the persona that memory of an agent goes to: the one in use, unless the file has several agents."""
        return agent if self._has_several_agents else self._persona

    def _id(self, prefix: str, *parts: str) -> str:
        named = "\n".join((self._found.program, *parts)).encode("utf-8", "surrogatepass")
        return f"{prefix}_{sha256_hex(named)[:32]}"

    def _append(self, stream: str, event: Event, at_ms: int) -> int:
        # Data of others, no matter who said it there. The salt follows from what is reported, as the hash has to.
        actor, origin = Actor.IMPORT, Origin.WORKSPACE
        return append(self._tx, stream, event, actor=actor, origin=origin, at_ms=at_ms, salt=_salt(event)).seq

    def _block(self, block: ForeignBlock) -> None:
        scope = Scope.PROJECT if block.place == "project" else Scope.PERSONA
        owner = self._project if scope is Scope.PROJECT else self._owner(block.agent)
        for number, text in enumerate(_pieces(block.text, MOST_LIMIT), 1):
            label = block.label if number == 1 else f"{block.label[:50]}-{number}"
            key = self._free(BlockKey(scope, owner, label))
            spec = BlockSpec(
                key,
                block.description,
                text,
                max(DEFAULT_LIMIT, min(MOST_LIMIT, len(text) * 5 // 4)),
                permission=Permission.READ_ONLY if block.read_only else Permission.READ_WRITE,
                tier=Tier.CORE if block.is_core else Tier.WORKING,
            )
            block_id = BlockId(self._id("block", scope, owner, label, text))
            # Another text is another document, which no peer may have written to before.
            peer = int.from_bytes(sha256(block_id.encode()).digest()[:7], "big") or 1
            change = propose_creation(spec, block_id, peer=peer)
            reason, at_ms = f"It was imported from {self._found.program}.", block.at_ms or _EARLIEST_MS
            seq = self._append(CONSTELLATION_STREAM, block_event(change, reason), at_ms)
            store_change(self._tx, change, WriteRecord(seq, Actor.IMPORT, Origin.WORKSPACE, reason, at_ms))

    def _free(self, key: BlockKey) -> BlockKey:
        number, found = 1, key
        while block_exists(self._tx, found):
            number += 1
            found = BlockKey(key.scope, key.owner, f"{key.label[:50]}-{number}")
        return found

    def _fact(self, fact: ForeignFact, text: str) -> None:
        owner, at_ms = self._owner(fact.agent), fact.at_ms or _EARLIEST_MS
        if find_same(self._tx, Scope.PERSONA, owner, text) is not None:
            return
        entry_id, reason = self._id("entry", owner, text), f"It was imported from {self._found.program}."
        new = NewEntry(entry_id, Scope.PERSONA, owner, text, Actor.IMPORT, Origin.WORKSPACE, reason)
        event = EntryArchived(
            entry_id,
            Scope.PERSONA.value,
            owner,
            sha256_hex(text.encode("utf-8", "surrogatepass")),
            reason,
            facts_hash=entry_facts(text, ""),
        )
        insert_entry(self._tx, new, at_ms=at_ms, seq=self._append(CONSTELLATION_STREAM, event, at_ms))

    def _session(self, session: ForeignSession) -> None:
        tx = self._tx
        session_id = SessionId(self._id("ses", self._folder, session.key))
        at_ms = session.at_ms or next((one.at_ms for one in session.messages if one.at_ms), 0) or _EARLIEST_MS
        model = "offline/offline"
        created = SessionCreated(self._folder, (), self._persona, "", model, "ask", thought_level="off")
        seq = self._append(session_id, created, at_ms)
        create_session(
            tx, NewSession(session_id, self._folder, (), self._persona, "", model, "ask"), seq=seq, at_ms=at_ms
        )
        seq = self._append(session_id, SessionTitled(session.title), at_ms)
        set_title(tx, session_id, session.title, seq=seq, at_ms=at_ms)
        turn = TurnId("")
        for number, message in enumerate(session.messages):
            said = _message(session_id, number, message)
            if message.is_user or not turn:
                # As it would be if nothing followed: a conversation that continued begins with the same events.
                self._end(session_id, turn, at_ms)
                at_ms = max(at_ms, message.at_ms)
                turn = TurnId(f"turn_{session_id[4:]}_{number}")
                first = said if message.is_user else Message(MessageId(f"{said.message_id}_0"), Role.USER, ())
                begun = TurnStarted(turn, first, "" if message.is_user else OWN_TURN)
                note_prompt(tx, session_id, seq=self._append(session_id, begun, at_ms), at_ms=at_ms)
            if not message.is_user:
                at_ms = max(at_ms, message.at_ms)
                seq = self._append(session_id, MessageRecorded(turn, said), at_ms)
                touch(tx, session_id, seq=seq, at_ms=at_ms)
        self._end(session_id, turn, at_ms)

    def _end(self, session_id: SessionId, turn: TurnId, at_ms: int) -> None:
        if turn:
            self._append(session_id, TurnEnded(turn, StopReason.END_TURN), at_ms)


@asynccontextmanager
async def as_archive(
    found: Foreign, *, persona: str, project: str, folder: str, clock: Clock
) -> AsyncGenerator[tuple[ArchiveReader, ExportReport], None]:
    """Convert what a file has into an archive, which is deleted at the end.

    Memory of agents goes to `persona`, or to one by the name of each where there are several; a memory file to the
    `project`, and conversations into the `folder`. What seems to hold a secret is left out, or masked in conversations.

    Raises:
        PatternError: something cannot be stored.
    """
    with tempfile.TemporaryDirectory(prefix="pattern-acp-import-") as name:
        path = Path(name) / "constellation.db"
        async with open_database(path, clock=clock, is_lean=True) as database:
            await database.write(lambda tx: _Converter(tx, found, persona, project, folder).run())
            with (Path(name) / "archive.car").open("w+b") as file:
                report = await database.read(lambda tx: export(tx, file, Choice(), SecretMask(), str))
                yield await anyio.to_thread.run_sync(read_archive, file), report


def _salt(event: Event) -> str:
    return sha256_hex(repr(event).encode("utf-8", "surrogatepass"))[:32]


def _message(session_id: SessionId, number: int, message: ForeignMessage) -> Message:
    role = Role.USER if message.is_user else Role.ASSISTANT
    return Message(MessageId(f"msg_{session_id[4:]}_{number}"), role, (TextPart(message.text),))


def _pieces(text: str, most: int) -> Iterator[str]:
    """Yield a text in pieces that can be stored, cut before a heading, or else at a paragraph or a line."""
    text = text.strip()
    while len(text) > most:
        window = text[:most]
        cut = max(window.rfind("\n#"), 0) or max(window.rfind("\n\n"), 0) or max(window.rfind("\n"), 0)
        cut = cut if cut > most // 4 else most
        yield text[:cut].strip()
        text = text[cut:].strip()
    if text:
        yield text
