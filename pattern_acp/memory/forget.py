"""Forgetting: taking words out of a block and of everything that was stored of it.

Owns: the rows of the block itself, and of the index of messages. Must not know: the journal, whose events a caller
redacts in the same transaction, and the free pages of the file, which a caller has rewritten afterwards.

What goes is every stored update, snapshot and archive, since the words may be in any of them; who wrote when and why
stays in the log, with the words taken out of the reasons. The block continues from one document, in which the changes
of before have no words to show (`BlockDocument.without_words`). All keep their ids: so blame still knows who wrote the
characters that stay, and what another device wrote meanwhile, or writes before it hears of this, still merges.
"""

import logging
from collections.abc import Callable, Container, Iterable, Set
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.errors import BlockError, DatabaseError
from pattern_acp.memory.archive import forget_entry
from pattern_acp.memory.block_loader import OpenBlock, load_history, open_block, read_row
from pattern_acp.memory.blocks import Block, BlockKey, peer_in
from pattern_acp.memory.document import BlockDocument
from pattern_acp.memory.edits import Authoring, Operation, PlannedEdit, Rewrite, Splice, storable_text
from pattern_acp.memory.errors import (
    BlockMissingError,
    ContentRefusedError,
    DocumentError,
    StaleProposalError,
    UnusableEditError,
)
from pattern_acp.memory.forgotten import (
    MARK,
    Forgotten,
    folded_length,
    forget_lines,
    forget_passage,
    unquoted,
)
from pattern_acp.memory.history import StoredHistory, archived_document, texts_of_all_versions
from pattern_acp.memory.recall import index_message
from pattern_acp.memory.schemas.types import unfolded
from pattern_acp.memory.store import NewBase, ProposedChange, WriteRecord, change_document, insert_write
from pattern_acp.memory.vectors import drop_stale_codes

_QUERIES = load_queries("pattern_acp.memory")
_LOGGER = logging.getLogger(__name__)

SHORTEST_PASSAGE = 4
"""Characters of a passage that can be forgotten: a shorter one is part of too many words."""

_LEFT_OVER = " \t-*+•#>|.,;:!?\"'`“”\u2018\u2019«»"
"""Characters that are removed too when nothing else remains of a line."""

_SHORTEST_OF_WHOLE = 12
"""Characters of a line that is looked for elsewhere when a whole block is forgotten: shorter ones are in too many texts
that have nothing to do with it."""


class ProposedForgetting(Struct, frozen=True):
    """The proposed result of forgetting.

    `change` leads to the text that is left; its update is a whole document without the words. `words` recognises copies
    elsewhere. `whole` takes the block away altogether.
    """

    change: ProposedChange
    words: Forgotten
    whole: bool


def words_of_block(history: StoredHistory, shortest: int = _SHORTEST_OF_WHOLE) -> Forgotten:
    """Patterns that recognise copies of every line of `shortest` characters that a block ever had.

    Of a damaged history, only the present text counts.
    """
    texts = [history.text]
    try:
        texts += texts_of_all_versions(history)
    except BlockError:
        _LOGGER.warning("The history of a memory block is damaged; only copies of its present text are recognised.")
    return forget_lines(texts, shortest=shortest)


def look_through(history: StoredHistory, words: Forgotten) -> tuple[bool, bool]:
    """Search the readable versions for the words. Returns two facts: found, and all versions readable."""
    if words.holds(history.text):
        return True, True
    seen = 0
    try:
        for text in texts_of_all_versions(history):
            seen += 1
            if words.holds(text):
                return True, True
    except BlockError:
        with suppress(BlockError):
            # What the updates do not give, the archive may.
            archived = archived_document(history)
            later = history.writes[history.history_from - 1 + seen :]
            return any(words.holds(archived.text_at(write.frontiers)) for write in later), True
        return False, False
    return False, True


def holds_words(history: StoredHistory, words: Forgotten) -> bool:
    """True when a version of the block that can be read holds the words."""
    return look_through(history, words)[0]


def words_of_passage(passage: str, label: str) -> Forgotten:
    """Patterns that recognise copies of a passage.

    Raises:
        UnusableEditError: it holds characters that cannot be stored, or is too short to be distinguished from other
        text.
    """
    bare = unquoted(storable_text(passage, label=label))
    if folded_length(bare) < SHORTEST_PASSAGE:
        problem = f"a passage to forget has at least {SHORTEST_PASSAGE} characters, so that nothing else is hit."
        raise UnusableEditError(label, problem)
    return forget_passage(bare)


def find_forgettable(tx: Transaction, key: BlockKey) -> Block:
    """The block of this key, or the one that was deleted last, as it is stored.

    Raises:
        BlockMissingError: there is neither.
    """
    return read_row(_find(tx, key))[0]


def every_block(tx: Transaction) -> tuple[tuple[Block, bool], ...]:
    """All blocks, whosever they are, as they are stored; and whether each was deleted, forgotten or discarded."""
    rows = tx.all(_QUERIES["every_block"])
    return tuple((read_row(row)[0], row[17] != 0) for row in rows)


def propose_forgetting(tx: Transaction, key: BlockKey, words: Forgotten, *, peer: int) -> ProposedForgetting:
    """Propose forgetting `words`. Deleted blocks are searched too.

    Raises:
        BlockMissingError: there is no such block.
        UnusableEditError: the block would still hold them.
        ContentRefusedError: the block's schema does not allow it to be without the passage.
    """
    peer = peer_in(key.owner, peer)
    opened = open_block(tx, _find(tx, key), peer=peer)
    document = _with_history(tx, opened, peer)
    before = document.frontiers
    # Entries of a log that it shows no longer hold words, too.
    schema = unfolded(opened.block.schema)
    document.schema = schema
    every = document.text
    if words.holds(every):
        block = replace(opened.block, schema=schema, text=every, limit=len(every) * (1 + len(MARK)))
        try:
            _cut_out(document, block, every, words)
        except ContentRefusedError:
            # All that a required field said is to be forgotten: something has to be there.
            _rewrite(document, block, words.mask(every))
        if words.holds(document.text):
            problem = "the words are part of its form; edit the block, or forget it as a whole."
            raise UnusableEditError(key.label, problem)
    document.schema = opened.block.schema
    document = _without_history_of(tx, opened.block, document, words)
    return ProposedForgetting(_change(opened.block, document, before, peer), words, whole=False)


def propose_forgetting_all(
    tx: Transaction, key: BlockKey, words: Forgotten, *, head: int, peer: int
) -> ProposedForgetting:
    """Propose forgetting the whole block; `words` are those of its history up to write `head`.

    Raises:
        BlockMissingError: there is no such block.
        StaleProposalError: there are writes after `head`.
    """
    block, frontiers = read_row(_find(tx, key))
    if block.head_update != head:
        raise StaleProposalError(key.label)
    empty = BlockDocument(key.label, peer, block.schema)
    return ProposedForgetting(_change(block, empty, frontiers, peer), words, whole=True)


def propose_dropping(block: Block, frontiers: bytes, *, peer: int) -> ProposedForgetting:
    """Propose taking a block away with all that is stored of it, as it is stored; no word is looked for elsewhere."""
    empty = BlockDocument(block.key.label, peer, block.schema)
    return ProposedForgetting(_change(block, empty, frontiers, peer), Forgotten((), ()), whole=True)


def propose_beginning_anew(opened: OpenBlock, *, peer: int) -> ProposedForgetting:
    """Propose a new history, from the block's text, for an unreadable one: no word is forgotten."""
    document = opened.document
    return ProposedForgetting(_change(opened.block, document, document.frontiers, peer), Forgotten((), ()), whole=False)


def store_forgetting(tx: Transaction, forgetting: ProposedForgetting, record: WriteRecord) -> None:
    """Write a proposed forgetting, whose event is `record.seq`."""
    change, words = forgetting.change, forgetting.words
    block = change.block
    for number, reason in tx.all(_QUERIES["read_reasons"], {"block_id": block.id}):
        masked = "" if forgetting.whole else words.mask(columns.text(reason))
        tx.execute(_QUERIES["empty_write"], {"block_id": block.id, "number": number, "reason": masked})
    changed = tx.execute(
        _QUERIES["forget_block"],
        {
            "block_id": block.id,
            "text": change.text,
            "text_hash": change.after_hash,
            "base": change.update if change.new_base is None else change.new_base.snapshot,
            "number": change.number,
            "frontiers": change.frontiers_after,
            "forgotten": int(forgetting.whole),
            "at_ms": record.at_ms,
            "seq": record.seq,
        },
    )
    if changed != 1:
        raise StaleProposalError(block.key.label)
    insert_write(tx, change, record)
    store = {"block_id": block.id, "upto": change.number, "snapshot": change.update, "seq": record.seq}
    tx.execute(_QUERIES["store_archive"], store)


def forget_message(tx: Transaction, session_id: str, message_id: str, text: str, *, seq: int) -> bool:
    """Index a message again as it reads without the words, if it was indexed."""
    row = tx.one(_QUERIES["find_indexed_item"], {"source": session_id, "item": message_id})
    if row is None:
        return False
    index_message(
        tx,
        session_id=session_id,
        owner=columns.text(row[1]),
        kind="user" if row[0] == "user" else "assistant",
        message_id=message_id,
        text=text,
        at_ms=columns.integer(row[2]),
        seq=seq,
    )
    return True


def labels_of_blocks(tx: Transaction) -> dict[str, str]:
    """The labels of all blocks that there ever were, by their ids."""
    return {columns.text(row[0]): columns.text(row[1]) for row in tx.all(_QUERIES["every_label"])}


def is_in_word_index(tx: Transaction, text: str) -> bool:
    """True when the word index of the search still finds a text in passages that are gone."""
    phrase = '"' + text.replace('"', '""') + '"'
    row = tx.one(_QUERIES["indexed_without_text"], {"match": phrase})
    return row is not None and columns.integer(row[0]) > 0


def mask_reasons(tx: Transaction, mask: Callable[[str], str], *, stream: str = "") -> int:
    """Mask words in the reasons of the writes whose events are in a stream, or of all writes; how many had any."""
    changed = 0
    for block_id, number, reason in tx.all(_QUERIES["reasons_of_stream"], {"stream": stream}):
        masked = mask(columns.text(reason))
        if masked != reason:
            tx.execute(_QUERIES["replace_reason"], {"block_id": block_id, "number": number, "reason": masked})
            changed += 1
    return changed


def forget_archived(tx: Transaction, words: Forgotten, *, seq: int) -> int:
    """Delete the archival entries that hold a copy of the words, and say how many."""
    found = archived_with(tx, words)
    for entry_id in found:
        forget_entry(tx, entry_id, seq=seq)
    return len(found)


def archived_with(tx: Transaction, words: Forgotten) -> list[str]:
    """The ids of the archival entries that hold a copy of the words."""
    rows = tx.all(_QUERIES["read_archival_texts"])
    return [columns.text(row[0]) for row in rows if words.holds(columns.text(row[1]))]


def clean_indexes(tx: Transaction) -> None:
    """Take what was deleted out of the inner parts of the search indexes too.

    The codes of vectors are made again from the vectors that are left.
    """
    from pattern_acp.db.table_rows import drop_old_indexes

    tx.execute(_QUERIES["optimize_search"])
    drop_stale_codes(tx)
    with suppress(DatabaseError):
        # Without sqlite-vec there is nothing that could read its tables either.
        drop_old_indexes(tx)


def _cut_out(document: BlockDocument, block: Block, text: str, words: Forgotten) -> None:
    """Take the words out of a document, and nothing else of a text: so devices that do it at once take out the same."""
    if not document.is_text:
        _rewrite(document, block, _without(text, words))
        return
    splices = _splices(text, words)
    for splice in reversed(splices):
        text = text[: splice.at] + splice.inserted + text[splice.at + splice.removed :]
    document.apply(PlannedEdit(Operation.FORGET, text, splices))


def _rewrite(document: BlockDocument, block: Block, text: str) -> None:
    change_document(document, block, Rewrite(text, Operation.FORGET), Authoring(trusted=True))


def _with_history(tx: Transaction, opened: OpenBlock, peer: int) -> BlockDocument:
    """The block's document with all its history, where that can be read and is of the same version."""
    try:
        document = load_history(tx, opened.block, peer=peer)
    except BlockError:
        return opened.document
    return document if document.frontiers == opened.document.frontiers else opened.document


def _without_history_of(tx: Transaction, block: Block, document: BlockDocument, words: Forgotten) -> BlockDocument:
    """A document whose history has no words; one without history where that cannot be."""
    versions = [columns.data(row[0]) for row in tx.all(_QUERIES["versions_of_block"], {"block_id": block.id})]
    try:
        without = document.without_words(versions, words.spans, words.mask)
    except DocumentError:
        _LOGGER.warning("The history of a memory block is damaged; the block begins again without one.")
        without = None
    if without is not None:
        return without
    return BlockDocument.load(block.key.label, [document.shallow_snapshot()], peer=document.peer, schema=block.schema)


def _change(block: Block, document: BlockDocument, before: bytes, peer: int) -> ProposedChange:
    return ProposedChange(
        block=block,
        operation=Operation.FORGET,
        text=document.text,
        update=document.full_snapshot(),
        peer=peer,
        frontiers_before=before,
        frontiers_after=document.frontiers,
        new_base=NewBase(document.shallow_snapshot(), None),
    )


def _find(tx: Transaction, key: BlockKey) -> Row:
    named = {"scope": key.scope.value, "owner": key.owner, "label": storable(key.label)}
    row = tx.one(_QUERIES["find_block"], named) or tx.one(_QUERIES["find_deleted_block"], {**named, "skip": 0})
    if row is None:
        raise BlockMissingError(key.label)
    return row


def _without(text: str, words: Forgotten) -> str:
    """`text` without the words, and without the lines of which nothing but a list mark is left."""
    for splice in reversed(_splices(text, words)):
        text = text[: splice.at] + splice.inserted + text[splice.at + splice.removed :]
    return text


def _splices(text: str, words: Forgotten) -> tuple[Splice, ...]:
    """The places of the words, one of two blanks around them, and lines of which nothing but a list mark is left."""
    gone, marks = set[int](), dict[int, str]()
    for start, end in words.spans(text):
        gone.update(range(start, end))
        if not words.is_whole(text[start:end]):
            marks[start] = MARK
        elif text[start - 1 : start] == " " and text[end : end + 1] == " " and start - 1 not in gone:
            gone.add(end)
    for start, end in _lines_without(text, gone):
        gone.update(_rest_of_line(text, start, end, gone, marks))
    splices: list[Splice] = []
    for at in sorted(gone):
        if splices and splices[-1].at + splices[-1].removed == at and at not in marks:
            splices[-1] = replace(splices[-1], removed=splices[-1].removed + 1)
        else:
            splices.append(Splice(at, 1, marks.get(at, "")))
    return tuple(splices)


def _lines_without(text: str, gone: Set[int]) -> list[tuple[int, int]]:
    """Starts and ends of the lines; a line end that is gone parts none."""
    ends = [at for at, sign in enumerate(text) if sign == "\n" and at not in gone]
    return list(zip((0, *(end + 1 for end in ends)), (*ends, len(text)), strict=True))


def _rest_of_line(text: str, start: int, end: int, gone: Set[int], marks: Container[int]) -> Iterable[int]:
    """Places that go too with those of a line: blanks at its end, or all of it with a line end if nothing is left."""
    left = [at for at in range(start, end) if at not in gone or at in marks]
    if len(left) == end - start:
        return ()
    if any(at in marks or text[at] not in _LEFT_OVER for at in left):
        last = next(number for number, at in enumerate(reversed(left)) if at in marks or not text[at].isspace())
        return left[len(left) - last :]
    line_end = (end,) if end < len(text) else (start - 1,) if start and start - 1 not in gone else ()
    return (*left, *line_end)
