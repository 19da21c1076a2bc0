"""The part of a block that is in the search index, and counts of recalls of what is in it.

Owns: which passages a block has, bringing its rows of `search_entries` in step, the rows of `recalls`, and how a
passage is named where the ids of its row may be others. Must not know: who searches, recalled or wrote, or for what.
Logs, whole blocks or sections, show their newest entries alone. The older ones stay findable, so that rows are only
ever added, and a write looks at the newest of them alone, however long the log is. A passage that stays as it is keeps
its row and its count through every rewrite of its block; one that is changed begins again.
"""

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.tool_calls import Plan
from pattern_acp.memory.block_loader import whole_block
from pattern_acp.memory.blocks import Block
from pattern_acp.memory.errors import BlockCorruptError
from pattern_acp.memory.recall import has_archival, index_archival, insert_passage, remove_source
from pattern_acp.memory.schemas.forms import section_texts
from pattern_acp.memory.schemas.item_forms import without_count
from pattern_acp.memory.schemas.types import BlockSchema, CompositeSchema, LogSchema
from pattern_acp.memory.search_terms import block_passages, common_last_passages, common_passages, message_passages

if TYPE_CHECKING:
    from pattern_acp.memory.forgotten import Forgotten


_QUERIES = load_queries("pattern_acp.memory")

PASSAGES_OF_ENTRY = 12
"""Passages that the longest entry of a log can have: 4,000 characters, and one more for every cut."""

_SECTION = "log{}/"
"""Before the items of a log section, by its place among the sections. All others are numbers, which sort before it."""

_AFTER_NUMBERS = ":"
_DIGITS = 12


class _Log(Struct, frozen=True):
    """The entries that a log shows, how many that are at most, and what its items begin with where it is a section."""

    text: str
    shown: int
    prefix: str = ""


class _Changed(Struct, frozen=True):
    """Rows of the index that may be wrong, the passages that are right, and how many stand before them."""

    rows: Sequence[Row]
    passages: Sequence[str]
    first: int


def index_block(tx: Transaction, block: Block, *, at_ms: int, seq: int, before: str = "") -> None:
    """Index the paragraphs of a block as it reads now. Paragraphs that stayed keep the time they were written.

    `before` is what it read when it was indexed last, so that what both texts begin with is not looked at again.
    Entries of a log that are shown no longer stay findable, also those of a section.
    """
    text, logs = _parts(block.schema, block.text)
    if text is not None:
        known = _parts(block.schema, before)[0] or "" if before else ""
        changed = _changed(tx, block, text, known, seq)
        _index_passages(tx, block, changed, at_ms, seq)
    for log in logs:
        _index_log(tx, block, log, at_ms, seq)


def mask_passages(tx: Transaction, block: Block, mask: Callable[[str], str], *, seq: int) -> None:
    """Mask words in all that is indexed of a block, also in entries of logs that it shows no longer."""
    for row in tx.all(_QUERIES["read_all_entries"], {"source": block.id}):
        text = columns.text(row[2])
        masked = mask(text)
        if masked == text:
            continue
        entry, item = columns.integer(row[0]), columns.text(row[1])
        at_ms = columns.integer(row[3])
        tx.execute(_QUERIES["delete_entry"], {"id": entry})
        insert_passage(tx, "block", block.id, block.key.owner, item, masked, at_ms, seq)


def _parts(schema: BlockSchema, text: str) -> tuple[str | None, Sequence[_Log]]:
    """Text that is indexed as a whole, None for a log, and the logs."""
    if isinstance(schema, LogSchema):
        return None, (_Log(without_count(text), schema.shown),)
    if not isinstance(schema, CompositeSchema):
        return text, ()
    logs: list[_Log] = []
    rest: list[str] = []
    for number, (section, heading, body) in enumerate(section_texts(schema, text)):
        if isinstance(section.schema, LogSchema):
            logs.append(_Log(without_count(body), section.schema.shown, _SECTION.format(number)))
        else:
            rest.append(f"{heading}\n{body}".strip())
    return "\n\n".join(rest), logs


def _changed(tx: Transaction, block: Block, text: str, before: str, seq: int) -> _Changed:
    """Part of the index that may be wrong now; passages behind that are renumbered."""
    asked: dict[str, SqlValue] = {"source": block.id, "upto": _AFTER_NUMBERS}
    start = common_passages(before, text)
    ending = common_last_passages(before[start:], text[start:])
    if start or ending:
        old, new = (block_passages(one[start : len(one) - ending]) for one in (before, text))
        first = _passages_before(tx, block, before, start, ending, len(old))
        # By their numbers, since a range of them is none of the index, in which "10" comes before "9".
        numbers = json.dumps([str(number) for number in range(first + 1, first + len(old) + 1)])
        rows = tx.all(_QUERIES["read_entries_of"], {"source": block.id, "items": numbers}) if old else ()
        if first >= 0 and [columns.text(row[2]) for row in rows] == list(old):
            if ending and len(new) != len(old):
                moved = {**asked, "after": first + len(old), "by": len(new) - len(old), "seq": seq}
                tx.execute(_QUERIES["renumber_entries"], moved)
            return _Changed(rows, new, first)
    # All of it, also when the index holds another text than it should.
    rows = tx.all(_QUERIES["read_entries"], asked)
    return _Changed(rows, block_passages(text), 0)


def _passages_before(tx: Transaction, block: Block, before: str, start: int, ending: int, between: int) -> int:
    """Number of passages before those that changed: counted from the end that is nearer."""
    if start <= ending:
        return len(block_passages(before[:start]))
    count = tx.one(_QUERIES["count_entries"], {"source": block.id, "upto": _AFTER_NUMBERS})
    behind = len(block_passages(before[len(before) - ending :])) if ending else 0
    return (columns.integer(count[0]) if count else 0) - behind - between


def _index_passages(tx: Transaction, block: Block, changed: _Changed, at_ms: int, seq: int) -> None:
    """Let the new passages take the place of the rows."""
    kept = _by_text(changed.rows)
    for number, text in enumerate(changed.passages, start=changed.first + 1):
        item = str(number)
        if same := kept.get(text):
            entry, stored_item = same.pop()
            if stored_item != item:
                tx.execute(_QUERIES["renumber_entry"], {"id": entry, "item": item, "seq": seq})
        else:
            insert_passage(tx, "block", block.id, block.key.owner, item, text, at_ms, seq)
    for leftovers in kept.values():
        for entry, _ in leftovers:
            tx.execute(_QUERIES["delete_entry"], {"id": entry})


def _index_log(tx: Transaction, block: Block, log: _Log, at_ms: int, seq: int) -> None:
    """A log grows without bound, and only its newest entries can change."""
    kept = _by_text(_newest(tx, block, log))
    oldest_shown = 0
    for number, text in enumerate(block_passages(log.text), start=1):
        if same := kept.get(text):
            entry, _ = same.pop()
            oldest_shown = oldest_shown or entry
        else:
            # What is shown moves on with every entry, so its passages keep the number they were born with; those of a
            # section are of one width, so that the newest are found by the order of the index.
            item = f"{log.prefix}{seq:0{_DIGITS}}.{number:04}" if log.prefix else f"{seq}.{number}"
            insert_passage(tx, "block", block.id, block.key.owner, item, text, at_ms, seq)
    for leftovers in kept.values():
        for entry, _ in leftovers:
            if entry > oldest_shown > 0:
                tx.execute(_QUERIES["delete_entry"], {"id": entry})


def _newest(tx: Transaction, block: Block, log: _Log) -> Sequence[Row]:
    limit = log.shown * PASSAGES_OF_ENTRY
    if not log.prefix:
        newest: dict[str, SqlValue] = {"owner": block.key.owner, "source": block.id, "limit": limit}
        return tx.all(_QUERIES["read_newest_entries"], newest)
    upto = log.prefix[:-1] + chr(ord(log.prefix[-1]) + 1)
    asked: dict[str, SqlValue] = {"source": block.id, "first": log.prefix, "upto": upto, "limit": limit}
    return tx.all(_QUERIES["read_newest_of_section"], asked)


def _by_text(rows: Sequence[Row]) -> dict[str, list[tuple[int, str]]]:
    kept: dict[str, list[tuple[int, str]]] = {}
    for row in rows:
        kept.setdefault(columns.text(row[2]), []).append((columns.integer(row[0]), columns.text(row[1])))
    return kept


_LOGGER = logging.getLogger(__name__)


def index_memory(tx: Transaction) -> None:
    """Make every block and archival entry findable; what the index has of them already stays as it is.

    A block of which nothing is sound stays out.
    """
    owners = [[row[0], row[1]] for row in tx.all(_QUERIES["block_owners"])]
    for row in tx.all(_QUERIES["list_blocks"], {"owners": json.dumps(owners)}):
        try:
            block = whole_block(tx, row)
        except BlockCorruptError as error:
            _LOGGER.warning("A memory block cannot be searched. %s", error.sentence)
            continue
        changed = tx.one(_QUERIES["seq_of_block"], {"block_id": block.id})
        if changed is not None:
            index_block(tx, block, at_ms=block.updated_ms, seq=columns.integer(changed[0]))
    for entry_id, owner, text, at_ms, seq, superseded in tx.all(_QUERIES["every_archival"]):
        source, entry, last = columns.text(entry_id), columns.text(text), columns.integer(seq)
        if has_archival(tx, source, entry):
            continue
        remove_source(tx, source)
        index_archival(
            tx,
            entry_id=source,
            owner=columns.text(owner),
            text=entry,
            at_ms=columns.integer(at_ms),
            seq=last,
        )
        if superseded:
            tx.execute(_QUERIES["supersede_entries"], {"source": source, "seq": last})


def count_blocks(tx: Transaction) -> int:
    """Number of blocks that were not deleted."""
    row = tx.one(_QUERIES["count_blocks"])
    return 0 if row is None else columns.integer(row[0])


ListedKind: TypeAlias = Literal["task", "skill"]


def skills_source(owner: str) -> str:
    """The source of the skills of a persona or project, whose items are their names."""
    return f"skills:{owner}"


def index_listed(
    tx: Transaction,
    kind: ListedKind,
    source: str,
    owner: str,
    listed: Iterable[tuple[str, str]],
    *,
    at_ms: int,
    seq: int,
) -> None:
    """Let `listed`, each an item with its text, be all that is indexed of this kind and source."""
    kept: dict[str, list[tuple[int, str]]] = {}
    for row in tx.all(_QUERIES["read_listed"], {"source": source, "kind": kind}):
        kept.setdefault(columns.text(row[2]), []).append((columns.integer(row[0]), columns.text(row[1])))
    for item, text in listed:
        for passage in message_passages(storable(text)):
            if same := kept.get(passage):
                entry, stored = same.pop(0)
                if stored != item:
                    tx.execute(_QUERIES["renumber_entry"], {"id": entry, "item": item, "seq": seq})
            else:
                insert_passage(tx, kind, source, owner, item, passage, at_ms, seq)
    for leftovers in kept.values():
        for entry, _ in leftovers:
            tx.execute(_QUERIES["delete_entry"], {"id": entry})


def index_steps(tx: Transaction, session_id: str, owner: str, plan: Plan, *, at_ms: int, seq: int) -> None:
    """Let the steps of `plan` be what is indexed of a session's plan."""
    steps = ((f"{at}.{step.status}", step.content) for at, step in enumerate(plan.entries, 1))
    index_listed(tx, "task", session_id, owner, steps, at_ms=at_ms, seq=seq)


LONGEST_DEED = 400
"""Characters that are indexed of what a tool call did."""


def deed_item(deed: str) -> str:
    """The item of what a tool call did: the same for the same call, however it ended."""
    text = storable(deed)[:LONGEST_DEED]
    return f"call {sha256_hex(text.partition('`: ')[0].encode())[:16]}"


def lacks_deed(tx: Transaction, session_id: str) -> Callable[[int], bool]:
    """Tells of the number of an event whether the index lacks what that tool call did.

    Where words of one were forgotten, none is said to be missing: a masked one has the number of the forgetting.
    """
    from pattern_acp.memory.forgotten import MARKS

    rows = [(row[0], columns.text(row[1])) for row in tx.all(_QUERIES["indexed_calls"], {"source": session_id})]
    if any(mark in text for _, text in rows for mark in MARKS):
        return lambda _: False
    known = {seq for seq, _ in rows}
    return lambda seq: seq not in known


def index_deed(tx: Transaction, session_id: str, owner: str, deed: str, *, at_ms: int, seq: int) -> None:
    """Index what a tool call did. The same once more in a session takes its place: tests run a hundred times a day."""
    text = storable(deed)[:LONGEST_DEED]
    item = deed_item(text)
    tx.execute(_QUERIES["delete_item"], {"source": session_id, "item": item})
    insert_passage(tx, "call", session_id, owner, item, text, at_ms, seq)


def mask_of_sessions(tx: Transaction, mask: Callable[[str], str], *, seq: int) -> None:
    """Mask words in every plan step and tool call that is indexed."""
    for row in tx.all(_QUERIES["read_of_sessions"]):
        source, owner, item, text = (columns.text(value) for value in row[1:5])
        masked = mask(text)
        if masked != text:
            tx.execute(_QUERIES["delete_entry"], {"id": row[0]})
            kind = "call" if row[6] == "call" else "task"
            insert_passage(tx, kind, source, owner, item, masked, columns.integer(row[5]), seq)


Name: TypeAlias = tuple[str, str]
"""The block or archival entry of a passage, and the beginning of the SHA-256 of its text."""

DIGEST_DIGITS = 16
"""Hexadecimal digits: 64 bits tell the passages of one block apart."""

WEEK_MS = 7 * 24 * 3_600_000
"""By how much each recall makes a passage count as younger when the least needed ones are looked for."""


class Seldom(Struct, frozen=True):
    """A passage of a block that may be dropped: when it was written (milliseconds), and how often it was recalled."""

    text: str
    at_ms: int
    times: int


def count_recalls(tx: Transaction, times: Mapping[int, int], *, at_ms: int, seq: int) -> None:
    """Count passages, by the ids of their index entries, as recalled; `seq` is the event of the turn that did it.

    Only facts are counted, blocks and archival entries; what is gone meanwhile is left out.
    """
    for entry, count in times.items():
        tx.execute(_QUERIES["count_recall"], {"entry": entry, "times": count, "at_ms": at_ms, "seq": seq})


def name_of(source: str, text: str) -> Name:
    """The name of a passage in events."""
    return source, sha256_hex(text.encode("utf-8", "surrogatepass"))[:DIGEST_DIGITS]


def names_of(tx: Transaction, entries: Collection[int]) -> dict[int, Name]:
    """The names of the facts among entries of the index."""
    rows = tx.all(_QUERIES["facts_of_entries"], {"entries": json.dumps(sorted(entries))})
    return {columns.integer(row[0]): name_of(columns.text(row[1]), columns.text(row[2])) for row in rows}


def entries_of(tx: Transaction, sources: Collection[str]) -> dict[Name, int]:
    """The passages of blocks and archival entries by their names; of several that read the same the first."""
    found: dict[Name, int] = {}
    for entry, source, text in tx.all(_QUERIES["facts_of_sources"], {"sources": json.dumps(sorted(sources))}):
        found.setdefault(name_of(columns.text(source), columns.text(text)), columns.integer(entry))
    return found


def names_without(tx: Transaction, source: str, words: "Forgotten") -> frozenset[Name]:
    """The names of the passages of a block that do not hold the words."""
    rows = tx.all(_QUERIES["facts_of_sources"], {"sources": json.dumps([source])})
    texts = (columns.text(row[2]) for row in rows)
    return frozenset(name_of(source, text) for text in texts if not words.holds(text))


def times_recalled(tx: Transaction, sources: list[str]) -> dict[str, int]:
    """Number of recalls of any passage of each block or archival entry; those never recalled are left out."""
    rows = tx.all(_QUERIES["recalls_of"], {"sources": json.dumps(sources)})
    return {columns.text(row[0]): columns.integer(row[1]) for row in rows}


def least_needed(tx: Transaction, source: str, limit: int) -> tuple[Seldom, ...]:
    """The passages of a block that are oldest and least recalled, the first of them first."""
    rows = tx.all(_QUERIES["least_needed"], {"source": source, "week_ms": WEEK_MS, "limit": limit})
    return tuple(Seldom(columns.text(row[0]), columns.integer(row[1]), columns.integer(row[2])) for row in rows)
