"""Forgetting: words taken out of a block, its history, the search indexes and the journal, for good.

Owns: composing all of it in one transaction with the event that says who did it and why, and what the user learns
before and afterwards. Must not know: how anything is shown, or who decided that it is allowed.

The order: copies are looked for in the whole journal first, without the write lock; then, in one transaction,
the audit event is appended and everything is changed; then the file is written again, since SQLite leaves deleted words
in free pages and in the write-ahead log. Last, everything is looked through once more by the same recogniser, and what
still holds the words is named.

The command that asks for it holds the words too: events of the turn that runs are masked like any other, but count for
nothing, so that words which are nowhere else are refused.
"""

import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db.backup import copies_of
from pattern_acp.db.connection import Database, SqlValue, Transaction
from pattern_acp.db.table_rows import all_rows, tables_of_state, text_columns
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.clock import Clock, TurnId
from pattern_acp.domain.errors import BlockError, DatabaseError, PatternError
from pattern_acp.domain.messages import Message
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.contents import contents_with, drop_contents
from pattern_acp.journal.events import BlockForgotten, MessageRecorded, TurnStarted
from pattern_acp.journal.reader import newest_event, read_item
from pattern_acp.journal.redact import (
    PlannedRedaction,
    digest_of,
    events_of_block,
    find_events,
    mask_titles,
    partial_events,
    plan_redaction,
    redact,
    title_events,
    with_requests,
)
from pattern_acp.journal.sessions import session_folders
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.memory.archive import mask_bound
from pattern_acp.memory.block_loader import text_hash
from pattern_acp.memory.blocks import Block, BlockKey, Scope
from pattern_acp.memory.errors import BlockMissingError, StaleProposalError, UnusableEditError
from pattern_acp.memory.forget import (
    ProposedForgetting,
    archived_with,
    clean_indexes,
    every_block,
    find_forgettable,
    forget_archived,
    forget_message,
    holds_words,
    look_through,
    mask_reasons,
    propose_beginning_anew,
    propose_forgetting,
    propose_forgetting_all,
    store_forgetting,
    words_of_block,
    words_of_passage,
)
from pattern_acp.memory.forgotten import MARK, Forgotten, of_sources
from pattern_acp.memory.forks import GONE, forked_from, related_blocks, stored_block
from pattern_acp.memory.history import StoredHistory, run_on_history
from pattern_acp.memory.indexing import Name, index_block, mask_of_sessions, mask_passages, names_without
from pattern_acp.memory.integrity import damaged_histories
from pattern_acp.memory.recall import remove_source
from pattern_acp.memory.service.access import ARCHIVE
from pattern_acp.memory.service.forking import drop_block
from pattern_acp.memory.service.history import HistoryScope, find_key, keys_of
from pattern_acp.memory.service.recall_counts import plan_uncounting
from pattern_acp.memory.store import WriteRecord, block_exists, changed_block

_LOGGER = logging.getLogger(__name__)

_ATTEMPTS = 5

_CARRIER = "project/project"
"""The block, which every project has, in whose name words of the archive are forgotten."""

_ELSEWHERE = "It was forgotten on another device."
"""The reason of a forgetting that follows another one."""

_SHORTEST_NEARBY = 3
"""Characters of a line of a whole block that is masked in the calls and commands which wrote that block."""


class ForgettingElsewhere(Struct, frozen=True):
    """Forgetting in what is built upon memory: how many records hold the words, and taking these out at a time."""

    count: Callable[[Transaction, Forgotten], int]
    forget: Callable[[Transaction, Forgotten, int], int]


class ForgottenWords(Struct, frozen=True):
    """The words that were forgotten, and in which block, for the user's other constellations to forget them too."""

    block_id: str
    scope: str
    owner: str
    whole: bool
    sources: tuple[str, ...]
    """Those of `Forgotten`: folded."""
    nearby: tuple[str, ...] = ()
    """The same of the words that go beside the writes of a whole block."""


Tell: TypeAlias = Callable[[Transaction, ForgottenWords, int], None]
"""Notes for other constellations what is forgotten, and when, in the transaction that forgets it."""

Telling: TypeAlias = Callable[[], Awaitable[Tell]]
"""Prepares a `Tell`, or raises a `PatternError` when nothing can be noted now: an `UntoldError` when that is so for
other devices alone."""


class UntoldError(PatternError):
    """Other devices cannot hear of a forgetting now; `tell` notes it for all, and for them until they can."""

    failure_code = "sync.key"

    def __init__(self, error: PatternError, tell: Tell) -> None:
        """`error` says why."""
        super().__init__(error.sentence)
        self.tell = tell


class ForgettingPreview(Struct, frozen=True):
    """The effects of forgetting, planned or done.

    `in_text` tells that the block's text holds the words. `versions` are those that can be shown no longer: all that
    can be shown now, or none when no version holds the words. `events`, `archived`, `kept_files` and `tasks` count
    recorded events, archival entries, states of files that going back brings back no longer, and tasks.
    """

    label: str
    whole: bool
    in_text: bool
    versions: int
    events: int
    archived: int
    kept_files: int
    tasks: int = 0
    sources: int = 0
    """Stored sources of definitions."""


class ForgottenReport(Struct, frozen=True):
    """The outcome of forgetting, and the places that still have the words.

    `before` is the text with a mark instead of the words. `messages` counts the indexed ones that lost words.
    `others` are labels of blocks that hold the words too, `left` all other places that do, a clause each. `backups` are
    copies of the file, or folders of them, that were made before and are not looked at. `clean` is False while another
    process's reading keeps the old words in the write-ahead log.
    """

    taken: ForgettingPreview
    before: str
    after: str
    messages: int
    others: tuple[str, ...]
    left: tuple[str, ...]
    backups: tuple[Path, ...]
    clean: bool


class NothingToForgetError(UnusableEditError):
    """The words to forget are nowhere."""

    failure_code = "memory.edit-unusable"


class _Search(Struct, frozen=True):
    """The findings before the transaction: the block, the words, and the events up to `newest` that contain them."""

    key: BlockKey
    head: int
    words: Forgotten
    nearby: Forgotten | None
    """The words to mask beside the writes of a whole block; None for a passage."""
    in_block: bool
    """True if a version of the block contains the words; otherwise its history can stay."""
    related: tuple[str, ...]
    """The ids of those blocks that the words were forked with, or to, of which a version contains them."""
    events: tuple[int, ...]
    newest: int


class _Prepared(Struct, frozen=True):
    """The effects of one transaction, planned or done."""

    block: Block
    forgetting: ProposedForgetting | None
    planned: tuple[PlannedRedaction, ...]
    kept: tuple[str, ...]
    taken: ForgettingPreview

    @property
    def after(self) -> str:
        """The text that is left."""
        return self.block.text if self.forgetting is None else self.forgetting.change.text


class MemoryForgetting:
    """Forgets what a scope sees. `turn_id` is the turn that it is recorded under."""

    def __init__(
        self,
        database: Database,
        scope: HistoryScope,
        *,
        clock: Clock,
        parameters: Callable[[], frozenset[str]],
        tasks: ForgettingElsewhere | None = None,
        sources: ForgettingElsewhere | None = None,
        telling: Telling | None = None,
    ) -> None:
        """`parameters` are the names of arguments of tools, which stay whatever words are forgotten.

        `telling` gives what notes them for other devices, or raises a `PatternError` when these cannot be reported now.
        """
        self._parameters = parameters
        self._tasks, self._sources = tasks, sources
        self._telling = telling
        self.turn_id: TurnId | None = None
        self._database = database
        self._scope = scope
        self._clock = clock

    async def preview(self, label: str, passage: str | None = None) -> ForgettingPreview:
        """Preview what `forget` would remove. Changes nothing.

        Raises:
            BlockError: there is nothing to forget, or it cannot be done, as `forget` says.
            RedactionError: see `forget`.
        """
        search = await self._search(label, passage)
        return (await self._database.read(lambda tx: self._prepare(tx, search, whole=passage is None))).taken

    async def forget(self, label: str, passage: str | None = None, reason: str = "") -> ForgottenReport:
        """Forget a passage of a block, or with the label `archive` of the archive, or a whole block, for good.

        The history of the block is only given up when a version of it holds the passage.

        Raises:
            BlockError: there is no such block, the passage is too short or nowhere, or the block's schema needs it.
            RedactionError: an event would break.
            DatabaseError: the constellation cannot be written. Nothing was changed, unless only writing the file again
                failed, which is then logged and told as not `clean`.
        """
        tell, untold = None, ""
        if self._telling is not None:
            try:
                tell = await self._telling()
            except PatternError as error:
                tell = error.tell if isinstance(error, UntoldError) else None
                later = "are not notified" if tell is None else "will be notified later"
                untold = f"your other devices, which {later}: {error.sentence.rstrip('.')}"

        def write(tx: Transaction, search: _Search) -> tuple[_Prepared, int]:
            done = self._forget(tx, search, whole=passage is None, reason=reason)
            if tell is not None:
                tell(tx, _said(done[0].block, search), self._clock.now_ms())
            return done

        for attempt in range(_ATTEMPTS):
            search = await self._search(label, passage)
            try:
                done, messages = await self._database.write(lambda tx, s=search: write(tx, s))
            except StaleProposalError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                report = await self._report(search, done, messages)
                return replace(report, left=(*report.left, untold)) if untold else report
        raise AssertionError("the last attempt returns or raises")

    async def follow(self, said: ForgottenWords, note: Callable[[Transaction], None]) -> ForgottenReport | None:
        """Forget what was forgotten in another constellation of the user; None where nothing here has the words.

        `note` runs in the same transaction.

        Raises:
            BlockError, RedactionError, DatabaseError: as `forget` says.
        """
        for _ in range(_ATTEMPTS):
            found = await self._search_said(said)
            if found is not None:
                search, whole = found

                def write(tx: Transaction, search: _Search, *, whole: bool) -> tuple[_Prepared, int]:
                    note(tx)
                    return self._forget(tx, search, whole=whole, reason=_ELSEWHERE)

                try:
                    done, messages = await self._database.write(lambda tx, s=search, w=whole: write(tx, s, whole=w))
                    return await self._report(search, done, messages)
                except StaleProposalError:
                    continue
                except NothingToForgetError:
                    pass
            await self._database.write(note)
            return None
        raise StaleProposalError(said.block_id)

    async def _search_said(self, said: ForgottenWords) -> tuple[_Search, bool] | None:
        """Look for words of another constellation; tells too whether the block itself goes. None: there is no block."""
        block = await self._database.read(lambda tx: _find_said(tx, said.block_id))
        is_here = block is not None
        if block is None:
            # The event that records it is that of a block, whichever it is.
            every = await self._database.read(every_block)
            block = next((one for one, deleted in every if not deleted), None)
        if block is None:
            return None
        words, nearby, whole = of_sources(said.sources), None, said.whole and is_here
        if whole:
            here, beside = await run_on_history(self._database, block, _words_of_whole)
            words = of_sources(tuple(dict.fromkeys((*said.sources, *here.sources))))
            nearby = of_sources(tuple(dict.fromkeys((*said.nearby, *beside.sources))))
        in_block = whole or (is_here and await run_on_history(self._database, block, holds_words, words))
        return await self._searched(block, words, nearby, in_block=in_block, whole=whole), whole

    async def _search(self, label: str, passage: str | None) -> _Search:
        block = await self._database.read(lambda tx: self._find(tx, label, passage))
        nearby: Forgotten | None = None
        in_block = True
        if passage is not None:
            words = words_of_passage(passage, block.key.label)
            in_block = await run_on_history(self._database, block, holds_words, words)
        else:
            words, nearby = await run_on_history(self._database, block, _words_of_whole)
        return await self._searched(block, words, nearby, in_block=in_block, whole=passage is None)

    async def _searched(
        self, block: Block, words: Forgotten, nearby: Forgotten | None, *, in_block: bool, whole: bool
    ) -> _Search:
        def look(tx: Transaction) -> tuple[tuple[int, ...], int]:
            return find_events(tx, words.is_in), newest_event(tx)

        events, newest = await self._database.read(look)
        related = await self._related(block, words, whole=whole)
        return _Search(block.key, block.head_update, words, nearby, in_block, related, events, newest)

    async def _related(self, block: Block, words: Forgotten, *, whole: bool) -> tuple[str, ...]:
        """The ids of blocks to forget in besides: of a whole block its copies, of a passage what else began with it."""
        look = forked_from if whole else related_blocks
        ids = await self._database.read(lambda tx: look(tx, block.id))
        found: list[str] = []
        for block_id in ids:
            stored = await self._database.read(lambda tx, one=block_id: stored_block(tx, one))
            if stored is None or stored.deleted == GONE:
                continue
            if whole or await run_on_history(self._database, stored.block, holds_words, words):
                found.append(block_id)
        return tuple(found)

    def _find(self, tx: Transaction, label: str, passage: str | None) -> Block:
        if label == ARCHIVE and passage is not None:
            # Words are forgotten wherever they are, and the event that records it is that of a block.
            label = _CARRIER
        keys = keys_of(self._scope.owners, label)
        # One that is there goes before a deleted one, whosever it is.
        for key in sorted(keys, key=lambda key: not block_exists(tx, key)):
            try:
                return find_forgettable(tx, key)
            except BlockMissingError:
                continue
        return find_forgettable(tx, find_key(tx, self._scope.owners, label))

    def _prepare(self, tx: Transaction, search: _Search, *, whole: bool) -> _Prepared:
        words = search.words
        block = find_forgettable(tx, search.key)
        forgetting = self._propose(tx, search, whole=whole)
        planned = _plan(tx, search, block.id, self._parameters())
        own = self._running(tx)
        kept = contents_with(tx, words.holds)
        taken = ForgettingPreview(
            label=block.key.label,
            whole=whole,
            in_text=whole or words.holds(block.text),
            versions=0 if forgetting is None else block.head_update - block.history_from + 1,
            events=sum(one.seq not in own for one in planned),
            archived=len(archived_with(tx, words)),
            kept_files=len(kept),
            tasks=0 if self._tasks is None else self._tasks.count(tx, words),
            sources=0 if self._sources is None else self._sources.count(tx, words),
        )
        if forgetting is None and not (taken.events or taken.archived or kept or taken.tasks or taken.sources):
            but = "" if self.turn_id is None else " but in this command"
            problem = f"the words to forget are neither in it nor recorded anywhere{but}."
            raise NothingToForgetError(search.key.label, problem)
        uncounted = _uncounted(tx, block.id, words, whole=whole, in_block=forgetting is not None)
        return _Prepared(block, forgetting, (*planned, *uncounted), kept, taken)

    def _running(self, tx: Transaction) -> range:
        """The numbers that events of the running turn may have: those from its beginning on."""
        if self.turn_id is None:
            return range(0)
        recorded = read_item(tx, self._scope.stream, self.turn_id)
        first = next((one.seq for one in recorded if isinstance(one.event, TurnStarted)), None)
        return range(0) if first is None else range(first, newest_event(tx) + 1)

    def _forget(self, tx: Transaction, search: _Search, *, whole: bool, reason: str) -> tuple[_Prepared, int]:
        at_ms, words = self._clock.now_ms(), search.words
        done = self._prepare(tx, search, whole=whole)
        block, forgetting, planned = done.block, done.forgetting, done.planned
        shown_reason = words.mask(reason)
        event = BlockForgotten(
            block_id=block.id,
            scope=block.key.scope.value,
            owner=block.key.owner,
            label=block.key.label,
            reason=shown_reason,
            whole=whole,
            events=len(planned),
            after_hash=text_hash(done.after),
            redaction=digest_of(planned),
            turn_id=self.turn_id,
            update_hash="" if forgetting is None else forgetting.change.update_hash,
            facts_hash="" if forgetting is None else forgetting.change.facts_hash,
        )
        scope = self._scope
        tx.overwrite_deleted()
        appended = append(tx, scope.stream, event, actor=scope.actor, origin=scope.origin, at_ms=at_ms)
        if forgetting is not None:
            self._store(tx, forgetting, WriteRecord(appended.seq, scope.actor, scope.origin, shown_reason, at_ms))
        for block_id in search.related:
            self._forget_related(tx, block_id, search, whole=whole, at_ms=at_ms)
        redact(tx, planned, audit_seq=appended.seq, at_ms=at_ms)
        mask_titles(tx, words.mask, audit_seq=appended.seq)
        messages = sum(_forget_message(tx, one, appended.seq) for one in planned)
        # Their events lost the words too, whosever blocks they are of.
        mask_reasons(tx, words.mask)
        mask_of_sessions(tx, words.mask, seq=appended.seq)
        drop_contents(tx, done.kept)
        forget_archived(tx, words, seq=appended.seq)
        mask_bound(tx, words.mask, seq=appended.seq)
        for elsewhere in (self._sources, self._tasks):
            if elsewhere is not None:
                elsewhere.forget(tx, words, at_ms)
        clean_indexes(tx)
        return done, messages

    def _forget_related(self, tx: Transaction, block_id: str, search: _Search, *, whole: bool, at_ms: int) -> None:
        """Forget in a copy of the block, or in what it is a copy of; the events are those of the block itself."""
        stored = stored_block(tx, block_id)
        if stored is None or stored.deleted == GONE:
            return
        reason, scope, key = "It was forked from the same block.", self._scope, stored.block.key
        if whole:
            drop_block(tx, stored, reason, at_ms, peer=scope.peer)
            return
        forgetting = propose_forgetting(tx, key, search.words, peer=scope.peer)
        event = BlockForgotten(
            block_id=block_id,
            scope=key.scope.value,
            owner=key.owner,
            label=key.label,
            reason=reason,
            whole=False,
            events=0,
            after_hash=forgetting.change.after_hash,
            redaction=digest_of(()),
            turn_id=self.turn_id,
            update_hash=forgetting.change.update_hash,
            facts_hash=forgetting.change.facts_hash,
        )
        appended = append(tx, scope.stream, event, actor=scope.actor, origin=scope.origin, at_ms=at_ms)
        self._store(tx, forgetting, WriteRecord(appended.seq, scope.actor, scope.origin, reason, at_ms))

    def _propose(self, tx: Transaction, search: _Search, *, whole: bool) -> ProposedForgetting | None:
        peer = self._scope.peer
        if whole:
            return propose_forgetting_all(tx, search.key, search.words, head=search.head, peer=peer)
        return propose_forgetting(tx, search.key, search.words, peer=peer) if search.in_block else None

    def _store(self, tx: Transaction, forgetting: ProposedForgetting, record: WriteRecord) -> None:
        store_forgetting(tx, forgetting, record)
        if forgetting.whole:
            remove_source(tx, forgetting.change.block.id)
        else:
            block = changed_block(forgetting.change, record.at_ms)
            index_block(tx, block, at_ms=record.at_ms, seq=record.seq)
            mask_passages(tx, block, forgetting.words.mask, seq=record.seq)

    async def _report(self, search: _Search, done: _Prepared, messages: int) -> ForgottenReport:
        try:
            clean = await self._database.rewrite()
        except DatabaseError:
            _LOGGER.warning("The constellation could not be rewritten after forgetting.", exc_info=True)
            clean = False
        words = search.words
        others = await self._blocks_with(words)
        left = await self._database.read(
            lambda tx: _places_with(tx, with_names(tx, words, self._parameters()), others.keys())
        )
        return ForgottenReport(
            taken=done.taken,
            before=words.mask(done.block.text),
            after=words.mask(done.after),
            messages=messages,
            others=tuple(others.values()),
            left=left,
            backups=copies_of(self._database.path),
            clean=clean,
        )

    async def _blocks_with(self, words: Forgotten) -> dict[str, str]:
        """The blocks of which a version holds the words, whosever they are, with what to call each."""
        found: dict[str, str] = {}
        for block, deleted in await self._database.read(every_block):
            holds = readable = words.holds(block.text)
            where = ""
            if not holds:
                with suppress(BlockError):
                    holds, readable = await run_on_history(self._database, block, look_through, words)
                if readable and not holds:
                    continue
                where = "in an older version" if holds else "maybe, its history is damaged"
            key = block.key
            label = key.label
            if (key.scope, key.owner) not in self._scope.owners and key.scope is not Scope.SHARED:
                label += f" of {key.scope.value} {key.owner}"
            notes = ", ".join(note for note in ("deleted" if deleted else "", where) if note)
            found[block.id] = f"{label} ({notes})" if notes else label
        return found


def begin_histories_anew(tx: Transaction, *, peer: int, at_ms: int) -> tuple[str, ...]:
    """Let the histories that cannot be read, of blocks whose text is sound, begin again with it; the blocks' labels."""
    lost = damaged_histories(tx, peer=peer)
    for opened, _ in lost:
        anew, block = propose_beginning_anew(opened, peer=peer), opened.block
        event = BlockForgotten(
            block_id=block.id,
            scope=block.key.scope.value,
            owner=block.key.owner,
            label=block.key.label,
            reason="Its history was damaged; it begins again with the text.",
            whole=False,
            events=0,
            after_hash=anew.change.after_hash,
            redaction=digest_of(()),
            update_hash=anew.change.update_hash,
            facts_hash=anew.change.facts_hash,
        )
        appended = append(tx, CONSTELLATION_STREAM, event, actor=Actor.SYSTEM, origin=Origin.MEMORY, at_ms=at_ms)
        record = WriteRecord(appended.seq, Actor.SYSTEM, Origin.MEMORY, event.reason, at_ms)
        store_forgetting(tx, anew, record)
    return tuple(opened.block.key.label for opened, _ in lost)


def _plan(tx: Transaction, search: _Search, block_id: str, parameters: frozenset[str]) -> tuple[PlannedRedaction, ...]:
    words = with_names(tx, search.words, parameters)
    newer = find_events(tx, words.is_in, after=search.newest)
    wide = {*search.events, *newer, *title_events(tx)}
    planned: list[PlannedRedaction] = []
    if search.nearby is not None:
        beside = events_of_block(tx, block_id)
        planned += plan_redaction(tx, beside, with_names(tx, search.nearby, parameters).mask_json)
        wide -= set(beside)
    planned += plan_redaction(tx, tuple(wide), words.mask_json)
    messages = [one.event.message.message_id for one in planned if isinstance(one.event, MessageRecorded)]
    partial = set(partial_events(tx, messages))
    # An unfinished message may end in the middle of the words, where nothing recognises them.
    planned = [one for one in planned if one.seq not in partial]
    planned += plan_redaction(tx, tuple(partial), lambda _, payload: {**payload, "text": MARK, "thinking": ""})
    return with_requests(tx, planned, words.mask_json)


def _uncounted(
    tx: Transaction, block_id: str, words: Forgotten, *, whole: bool, in_block: bool
) -> tuple[PlannedRedaction, ...]:
    """Plan the redaction of recall counts: for passages that go, and for passages that the block once had."""
    archived = archived_with(tx, words)
    stay = frozenset[Name]() if whole else names_without(tx, block_id, words)

    def is_forgotten(name: Name) -> bool:
        return name[0] in archived or (in_block and name[0] == block_id and name not in stay)

    return plan_uncounting(tx, is_forgotten)


def _said(block: Block, search: _Search) -> ForgottenWords:
    key, nearby = block.key, () if search.nearby is None else search.nearby.sources
    return ForgottenWords(block.id, key.scope.value, key.owner, search.nearby is not None, search.words.sources, nearby)


def _find_said(tx: Transaction, block_id: str) -> Block | None:
    """The block of an id, as far as its key means it; None when it is not here, or was forgotten."""
    stored = stored_block(tx, block_id)
    if stored is None:
        return None
    try:
        found = find_forgettable(tx, stored.block.key)
    except BlockMissingError:
        return None
    return found if found.id == block_id else None


def _words_of_whole(history: StoredHistory) -> tuple[Forgotten, Forgotten]:
    return words_of_block(history), words_of_block(history, _SHORTEST_NEARBY)


def _forget_message(tx: Transaction, redacted: PlannedRedaction, seq: int) -> bool:
    message: Message | None = None
    if isinstance(redacted.event, TurnStarted | MessageRecorded):
        message = redacted.event.message
    if message is None:
        return False
    return forget_message(tx, redacted.stream, message.message_id, message.searched, seq=seq)


_NAMES = frozenset(
    {"additional_directories", "cwd", "label", "name", "owner", "path", "persona", "project", "root", "server"}
)
"""Keys of events under which people's own names for things stay: other records point to things by them."""

_PLACES = {
    "archival_entries": "archived fact",
    "blocks": "description of a memory block",
    "definition_sources": "name in the stored source of a definition",
    "block_updates": "reason in the history of a block",
    "bound_entries": "pattern or reason of a trap",
    "folder_trust": "decision about a folder",
    "grants": "standing permission",
    "mcp_pins": "definition of a tool of an MCP server",
    "memory_files": "name of a memory file",
    "search_entries": "passage of the search index",
    "sessions": "row of a session, such as its title or folder",
    "task_files": "file of a task",
    "usage": "row of what requests cost",
}
"""Names for the rows of a table that may contain words; other tables go by their own name."""

_CLASSIFYING = frozenset(
    {
        *("actor", "origin", "operation", "kind", "scope", "status", "status_actor", "severity", "effect", "decision"),
        *(
            "permission",
            "tier",
            "schema",
            "mode",
            "thought_level",
            "encoding",
            "hash",
            "id",
            "source",
            "item",
            "prices",
        ),
    }
)
"""Columns that hold one of a fixed set of values, or an id: never anybody's words."""

_OF_BLOCKS = ("id", "block_id", "source")
"""Columns that say which block a row is of."""


def with_names(tx: Transaction, words: Forgotten, parameters: frozenset[str]) -> Forgotten:
    """The same words, which leave alone what names things: `parameters` of tools, and folders of sessions."""
    folders = session_folders(tx)
    # Files are recorded where links lead to.
    return replace(words, folders=tuple({*folders, *map(os.path.realpath, folders)}), parameters=parameters)


def _places_with(tx: Transaction, words: Forgotten, known: Set[str]) -> tuple[str, ...]:
    """List the places of `words`, a clause each, apart from histories and the rows of the blocks whose ids are `known`.

    Every table and every column that the schema has is looked at, so that a new one cannot be missed.
    """
    found: list[str] = []
    seqs = find_events(tx, words.is_in)
    if held := len(plan_redaction(tx, seqs, words.mask_json)):
        found.append(plural(held, "recorded event"))
    if named := len(find_events(tx, lambda payload: words.is_in(payload) and _names_something(payload, words))):
        found.append(f"{plural(named, 'recorded event')} that the name of a folder, file, block, tool or server is in")
    for table in tables_of_state(tx):
        columns = text_columns(tx, table)
        rows = (dict(zip(columns, row, strict=True)) for row in all_rows(tx, table, columns)) if columns else ()
        if count := sum(_row_holds(row, words) for row in rows if not known & {row.get(key) for key in _OF_BLOCKS}):
            found.append(plural(count, _PLACES.get(table, f"row of `{table}`")))
    return tuple(found)


def _row_holds(row: Mapping[str, SqlValue], words: Forgotten) -> bool:
    return any(
        isinstance(value, str) and name not in _CLASSIFYING and words.holds(value) for name, value in row.items()
    )


def _names_something(payload: str, words: Forgotten) -> bool:
    return any(key in _NAMES and words.holds(text) for key, text in _texts("", json.loads(payload)))


def _texts(key: str, value: Json) -> Iterator[tuple[str, str]]:
    """Every text of a value, with the key of the text or of its list."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for inner, item in value.items():
            yield from _texts(inner, item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _texts(key, item)
