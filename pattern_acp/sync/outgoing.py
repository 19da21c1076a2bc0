"""The content of a segment: the changes since the last one, or all there is, as an archive (pattern_acp/carry).

Owns: which changes go, and what stays. Must not know: what they are encrypted with, or who moves them.

All that is here goes, also what came from another device: so each device's segments are on nothing but those before
them, and one that is gone for good takes nothing with it.
"""

import json
from collections.abc import Iterator, Mapping
from io import BytesIO

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.carry.car import ArchiveWriter
from pattern_acp.carry.export import (
    BLOCK_KINDS,
    ENTRY_KINDS,
    BlockEvent,
    BlockRecord,
    Cells,
    Choice,
    EntryRecord,
    Export,
    ExportReport,
    SessionRecord,
    TaskListRecord,
)
from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.canonical import canonical_json, sha256_hex
from pattern_acp.domain.errors import BlockError
from pattern_acp.journal.codec import kinds_of
from pattern_acp.journal.reader import newest_event
from pattern_acp.memory.blocks import Block, BlockKey, Scope, fork_in
from pattern_acp.memory.configuring import propose_restoration
from pattern_acp.memory.history import read_history, texts_of_all_versions
from pattern_acp.memory.secrets import SecretMask
from pattern_acp.memory.store import load_block
from pattern_acp.session.stored import project_of_folder

QUERIES = load_queries("pattern_acp.sync")

_NAMED = "project:"
"""Begins the owner of memory of a project that has the same name everywhere, and other folders."""


class Sharing(Struct, frozen=True):
    """The projects that are shared, and what the devices call them."""

    excluded: tuple[str, ...] = ()
    """Folders of which nothing goes and nothing comes, with all that is in them."""
    folders: Mapping[str, str] = {}
    """The project here of each name that the devices share."""
    sessions_since_ms: int | None = None
    """The time since which a session was used that goes; None for no sessions."""
    user_only: bool = False
    """True for the user's own memory alone: nothing of any project goes or comes."""

    def leaves_out(self, scope: str, owner: str) -> bool:
        """True when memory of this owner, here or in a segment, is not shared."""
        if fork_in(owner):
            return True
        if scope != Scope.PROJECT.value:
            return False
        if self.user_only:
            return True
        if owner.startswith(_NAMED) and owner.removeprefix(_NAMED) not in self.folders:
            return True
        return any(owner == folder or owner.startswith(f"{folder.rstrip('/')}/") for folder in self.excluded)

    def name_of(self, scope: str, owner: str) -> str:
        """The owner as the devices call it."""
        named = next((name for name, folder in self.folders.items() if folder == owner), "")
        return f"{_NAMED}{named}" if named and scope == Scope.PROJECT.value else owner

    @property
    def keys(self) -> dict[str, str]:
        """The project here of each owner in a segment that has a name."""
        return {f"{_NAMED}{name}": folder for name, folder in self.folders.items()}

    @property
    def digest(self) -> str:
        """A hash of all this."""
        has_sessions = self.sessions_since_ms is not None
        return sha256_hex(canonical_json([list(self.excluded), dict(self.folders), "tasks", has_sessions]))


class Changes(Struct, frozen=True):
    """The changes up to an event, as an archive."""

    archive: bytes
    upto: int
    report: ExportReport
    told: Mapping[str, int] = {}
    """Sessions in it, and how many events of each the devices know with it."""

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to tell."""
        report = self.report
        return not (report.blocks or report.entries or report.tasks or report.sessions)


def read_changes(tx: Transaction, sharing: Sharing, after: int, mask: SecretMask | None) -> Changes:
    """The changes behind an event; behind 0, all there is. `mask` takes secrets out of a text; None leaves them."""
    file = BytesIO()
    increment = _Increment(tx, file, sharing, after, mask)
    report = increment.run()
    return Changes(file.getvalue(), newest_event(tx), report, increment.told)


class _Increment(Export):
    """The writing of what changed since an event."""

    def __init__(self, tx: Transaction, file: BytesIO, sharing: Sharing, after: int, mask: SecretMask | None) -> None:
        super().__init__(tx, ArchiveWriter(file), Choice(), mask, project_of_folder)
        self._sharing = sharing
        self._after = after
        self.told: dict[str, int] = {}

    def _blocks(self) -> Iterator[BlockRecord]:
        asked = {"after": self._after, "kinds": json.dumps(kinds_of(BLOCK_KINDS))}
        for row in self._tx.all(QUERIES["changed_blocks"], asked):
            block_id, scope, owner, label, deleted, was_told, is_written = row
            # What the program made and nobody has written to yet is on every device, each time another block. The files
            # of one machine agree on one before anybody writes to it.
            is_ours = integer(is_written) or self._sharing.user_only
            if not is_ours or self._sharing.leaves_out(text(scope), text(owner)):
                continue
            key = BlockKey(Scope(text(scope)), text(owner), text(label))
            events = self._new_events(text(block_id), self._after if integer(was_told) else 0)
            try:
                block = self._deleted(key, text(block_id)) if integer(deleted) else load_block(self._tx, key)
                history = read_history(self._tx, block)
                record = self._block_record(block.id, events, [history.text, *texts_of_all_versions(history)])
            except BlockError as error:
                self.report.left_out.append(f"The memory block {key.label} stays here: {error.sentence}")
                continue
            if record is None:
                self.report.left_out.append(f"The memory block {key.label} seems to hold a secret, so it stays here.")
            else:
                yield replace(record, row=self._named(record.row))

    def _new_events(self, block_id: str, after: int) -> list[BlockEvent]:
        events = list(self._block_events(block_id))
        if any(seq > after and one.event.kind == "block_restored" for seq, one in events):
            # A device that never had it, since it was deleted, has none of what was before.
            after = 0
        return [one for seq, one in events if seq > after]

    def _deleted(self, key: BlockKey, block_id: str) -> Block:
        """The deleted block of this id, of those that had the label. Raises NothingDeletedError where there is none."""
        skip = 0
        while (mark := propose_restoration(self._tx, key, skip)).block.id != block_id:
            skip += 1
        return mark.block

    def _entries(self) -> Iterator[EntryRecord]:
        asked = {"after": self._after, "kinds": json.dumps(kinds_of(ENTRY_KINDS))}
        for row in self._tx.all(QUERIES["changed_entries"], asked):
            if self._sharing.leaves_out(text(row[1]), text(row[2])) or not (record := self._entry(text(row[0]))):
                continue
            bound = None if record.bound is None else self._named(record.bound)
            yield replace(record, row=self._named(record.row), bound=bound)

    def _task_lists(self) -> Iterator[TaskListRecord]:
        for row in self._tx.all(QUERIES["changed_lists"], {"after": self._after}):
            list_id, scope, owner = map(text, row)
            if not self._sharing.leaves_out(scope, owner) and (
                record := self._task_list(list_id, scope, owner, self._after)
            ):
                yield replace(record, owner=self._sharing.name_of(scope, owner))

    def _sessions(self) -> Iterator[SessionRecord]:
        since_ms = self._sharing.sessions_since_ms
        if since_ms is None:
            return
        left_out = set[str]()
        for row in self._tx.all(QUERIES["changed_sessions"], {"since_ms": since_ms, "whole": int(self._after == 0)}):
            session, cwd, parent = text(row[0]), text(row[1]), row[2]
            events, told = integer(row[3]), integer(row[4])
            # A fork without what it shares with its parent is none.
            if self._sharing.leaves_out(Scope.PROJECT, self._project_of(cwd)) or parent in left_out:
                left_out.add(session)
            elif events > told:
                self.told[session] = events
                yield self._session(session, told)

    def _named(self, row: Cells) -> Cells:
        return {**row, "owner": self._sharing.name_of(str(row["scope"]), str(row["owner"]))}
