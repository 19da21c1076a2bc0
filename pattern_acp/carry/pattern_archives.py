"""Exports of Pattern (https://github.com/orual/pattern), version 3: what is in them, in our words.

Owns: their records. Must not know: the constellation, or how such a file is opened (car.py). A block of memory there
is a Loro snapshot in pieces, and a preview that may be newer than it: Pattern writes the snapshot when a block is made,
and the preview with every change.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TypeVar, cast

from msgspec import Struct

from pattern_acp.carry.car import ArchiveReader
from pattern_acp.carry.foreign import (
    MOST_CHARACTERS,
    Foreign,
    ForeignBlock,
    ForeignFact,
    ForeignFileError,
    ForeignMessage,
    ForeignSession,
    moment_ms,
    texts_of,
)
from pattern_acp.memory.document import text_of_snapshot

VERSION = 3
"""The only version that is read: those before it have records of another database."""

_ROOT = frozenset({"version", "export_type", "data_cid"})

T = TypeVar("T")


class PatternManifest(Struct, frozen=True):
    """The root of an export: what it is of, and where that is."""

    version: int
    export_type: str
    data_cid: bytes


class _Agent(Struct, frozen=True):
    id: str
    name: str


class _AgentExport(Struct, frozen=True):
    agent: _Agent
    message_chunk_cids: list[bytes] = []
    memory_block_cids: list[bytes] = []
    archival_entry_cids: list[bytes] = []


class _Group(Struct, frozen=True):
    """A group with its agents, or, within a whole constellation, the blocks that it shares."""

    agent_exports: list[_AgentExport] = []
    shared_memory_cids: list[bytes] = []


class _Whole(Struct, frozen=True):
    agent_exports: dict[str, bytes] = {}
    group_exports: list[_Group] = []
    all_memory_block_cids: list[bytes] = []


class _Block(Struct, frozen=True):
    id: str
    agent_id: str
    label: str
    block_type: str
    description: str = ""
    permission: str = ""
    content_preview: str | None = None
    is_active: bool = True
    updated_at: str = ""
    snapshot_chunk_cids: list[bytes] = []


class _Chunk(Struct, frozen=True):
    data: bytes


class _Entry(Struct, frozen=True):
    id: str
    agent_id: str
    content: str
    chunk_index: int = 0
    parent_entry_id: str | None = None
    created_at: str = ""


class _Message(Struct, frozen=True):
    position: str
    role: str
    content_json: object = None
    content_preview: str | None = None
    is_deleted: bool = False
    created_at: str = ""


class _Messages(Struct, frozen=True):
    messages: list[_Message]


def is_pattern_export(archive: ArchiveReader) -> bool:
    """Tell whether an archive is an export of Pattern. Raises ArchiveDamagedError where its root cannot be read."""
    root = archive.read(archive.root, object)
    return isinstance(root, dict) and set(cast("dict[str, object]", root)) >= _ROOT


def read_pattern_export(archive: ArchiveReader) -> Foreign:
    """Return the content of an export of Pattern: memory blocks, archival entries, and a session for each agent.

    Raises:
        ArchiveDamagedError: a record is missing, or is not of the form that it should have.
        ForeignFileError: it is of another version.
        BlockCorruptError: the document of a block is damaged.
    """
    manifest = archive.read(archive.root, PatternManifest)
    if manifest.version != VERSION:
        raise ForeignFileError(
            f"The file is an export of Pattern of version {manifest.version}, and version {VERSION} is read; import it "
            "into a Pattern of today, and export it there again."
        )
    return _PatternExport(archive).read(manifest)


class _PatternExport:
    """The reading of one export."""

    def __init__(self, archive: ArchiveReader) -> None:
        self._archive = archive
        self._into = Foreign("Pattern")
        self._names: dict[str, str] = {}
        self._facts: list[ForeignFact] = []
        self._seen: set[str] = set()

    def read(self, manifest: PatternManifest) -> Foreign:
        """Return all of it."""
        agents, shared = self._content(manifest)
        self._names = {one.agent.id: one.agent.name for one in agents}
        for one in agents:
            self._blocks(one.memory_block_cids)
        self._blocks(shared)
        self._into.facts = _Facts(self._archive, agents, self._names, self._facts)
        self._into.sessions = _Sessions(self._archive, agents)
        self._into.left_out.append("Settings, tools, groups and summaries of the agents stay out.")
        return self._into

    def _content(self, manifest: PatternManifest) -> tuple[Sequence[_AgentExport], Sequence[bytes]]:
        """Return the agents, and the blocks beside theirs."""
        read, at = self._archive.read, manifest.data_cid
        match manifest.export_type:
            case "Agent":
                return (read(at, _AgentExport),), ()
            case "Group":
                group = read(at, _Group)
                return group.agent_exports, group.shared_memory_cids
            case "Constellation":
                whole = read(at, _Whole)
                shared = [cid for group in whole.group_exports for cid in group.shared_memory_cids]
                agents = [read(cid, _AgentExport) for _, cid in sorted(whole.agent_exports.items())]
                return agents, (*shared, *whole.all_memory_block_cids)
            case other:
                raise ForeignFileError(f"The file is an export of Pattern of a kind that is not known ({other[:40]}).")

    def _records(self, cids: Sequence[bytes], form: type[T]) -> Iterator[T]:
        return (self._archive.read(cid, form) for cid in cids)

    def _blocks(self, cids: Sequence[bytes]) -> None:
        for block in self._records(cids, _Block):
            # A block that several agents see is the first one's.
            if block.id in self._seen or not block.is_active:
                continue
            self._seen.add(block.id)
            text, agent, kind = self._text(block), self._names.get(block.agent_id, ""), block.block_type.lower()
            if not text.strip():
                continue
            if kind in {"archival", "log"}:
                self._facts.append(ForeignFact(text, agent, moment_ms(block.updated_at)))
                continue
            about = block.description or f"What the agent {agent} of Pattern had under this name."
            self._into.blocks.append(
                ForeignBlock(
                    block.label,
                    text,
                    about,
                    agent=agent,
                    is_core=kind == "core",
                    read_only=block.permission.replace("_", "").lower() == "readonly",
                    at_ms=moment_ms(block.updated_at),
                )
            )

    def _text(self, block: _Block) -> str:
        preview = block.content_preview or ""
        snapshot = b"".join(one.data for one in self._records(block.snapshot_chunk_cids, _Chunk))
        text = text_of_snapshot(block.label, snapshot) if snapshot else ""
        # What does not begin as the preview is older than it.
        return text if text.startswith(preview.removesuffix("...").removesuffix("…")) else preview


class _Facts:
    """The archival entries of all agents, read from the archive each time that they are looked through.

    `also` are facts that come before them.
    """

    def __init__(
        self,
        archive: ArchiveReader,
        agents: Sequence[_AgentExport],
        names: Mapping[str, str],
        also: Sequence[ForeignFact],
    ) -> None:
        self._archive = archive
        self._agents = agents
        self._names = names
        self._also = also

    def __iter__(self) -> Iterator[ForeignFact]:
        yield from self._also
        for one in self._agents:
            yield from self._entries(one.archival_entry_cids)

    def _entries(self, cids: Sequence[bytes]) -> Iterator[ForeignFact]:
        # The parts of an entry may be anywhere. Only their places are in memory, not what they say.
        parts: dict[str, list[tuple[bool, int, bytes]]] = {}
        for cid in cids:
            one = self._archive.read(cid, _Entry)
            part = (one.parent_entry_id is not None, one.chunk_index, cid)
            parts.setdefault(one.parent_entry_id or one.id, []).append(part)
        for several in parts.values():
            several.sort(key=itemgetter(0, 1))
            entries = [self._archive.read(cid, _Entry) for _, _, cid in several]
            agent = self._names.get(entries[0].agent_id, "")
            yield ForeignFact("\n".join(one.content for one in entries), agent, moment_ms(entries[0].created_at))


class _Sessions:
    """The messages of each agent as a session, read from the archive each time that they are looked through.

    Those of an agent that wrote more than `MOST_CHARACTERS` are several sessions.
    """

    def __init__(self, archive: ArchiveReader, agents: Sequence[_AgentExport]) -> None:
        self._archive = archive
        self._agents = agents

    def __iter__(self) -> Iterator[ForeignSession]:
        for one in self._agents:
            for number, messages in enumerate(self._parts(one), 1):
                part = f", part {number}" if number > 1 else ""
                key = one.agent.id if number == 1 else f"{one.agent.id} {number}"
                yield ForeignSession(key, f"{one.agent.name} (Pattern){part}", messages)

    def _parts(self, export: _AgentExport) -> Iterator[tuple[ForeignMessage, ...]]:
        said, characters = list[tuple[tuple[int, str], ForeignMessage]](), 0
        # Chunks follow on each other, and messages are in any order in them.
        for cid in export.message_chunk_cids:
            for one in self._archive.read(cid, _Messages).messages:
                if (message := _said(one)) is not None:
                    # Positions are numbers that grow, written as texts.
                    said.append(((len(one.position), one.position), message))
                    characters += len(message.text)
            if characters > MOST_CHARACTERS:
                yield _in_order(said)
                said, characters = [], 0
        if said:
            yield _in_order(said)


def _said(one: _Message) -> ForeignMessage | None:
    """The message of a user or an agent; None for anything else."""
    role = one.role.lower()
    if one.is_deleted or role not in {"user", "assistant"}:
        return None
    text = "\n".join(texts_of(one.content_json)).strip() or (one.content_preview or "").strip()
    return ForeignMessage(role == "user", text, moment_ms(one.created_at)) if text else None


def _in_order(said: Sequence[tuple[tuple[int, str], ForeignMessage]]) -> tuple[ForeignMessage, ...]:
    return tuple(message for _, message in sorted(said, key=itemgetter(0)))
