"""Durable facts about memory. `journal/events.py` joins them to the other events.

Each names the block or entry, who may be asked about it, and hashes of texts instead of the texts, which are in memory.
"""

from msgspec import Struct

from pattern_acp.domain.clock import ToolCallId, TurnId


class BlockCommitted(Struct, frozen=True):
    """A memory block was created or changed.

    Hashes are SHA-256 of the rendered text; `peer_version` is Loro's frontier, hex.
    """

    block_id: str
    scope: str
    owner: str
    label: str
    operation: str
    reason: str
    before_hash: str
    after_hash: str
    frontiers_before: str
    frontiers_after: str
    turn_id: TurnId | None = None
    call_id: ToolCallId | None = None
    target: int | None = None
    """The write that an undo or redo takes back, or the version that a rollback goes back to."""
    update_hash: str = ""
    """SHA-256 of the Loro update that the write is; journals of before have none."""
    facts_hash: str = ""
    """SHA-256 of what else the row of the write says (memory/store.py); journals of before have none."""
    conflicts_hash: str = ""
    """SHA-256 of the double changes that nobody has repaired yet; empty without any, and in journals of before."""
    settings_hash: str = ""
    """SHA-256 of the settings that a block is created with; empty for other writes, and in journals of before."""


class NamedPassage(Struct, frozen=True):
    """A passage by what it is in, a block or archival entry, and the beginning of the SHA-256 of its text.

    The ids of the search index are others when that is made again.
    """

    source_id: str
    digest: str


class CountedPassage(Struct, frozen=True):
    """A passage that a turn recalled, and how often."""

    passage: NamedPassage
    times: int


class ShownRepeat(Struct, frozen=True):
    """Two passages that say nearly the same; `likeness` is their cosine in thousandths."""

    one: NamedPassage
    other: NamedPassage
    likeness: int


class MemoryRecalled(Struct, frozen=True):
    """A turn recalled memory; `told` are the repeats that it named to the model.

    Forgetting takes passages out of it.
    """

    turn_id: TurnId | None
    recalled: tuple[CountedPassage, ...]
    told: tuple[ShownRepeat, ...] = ()
    left_out_meaning: bool = False
    """The embedder was too slow, so that words alone decided; events of before 2026-11-29 do not say."""


class BlockDeleted(Struct, frozen=True):
    """A memory block was deleted; it can be restored, unless it is `discarded`. `text_hash` is that of its text."""

    block_id: str
    scope: str
    owner: str
    label: str
    reason: str
    text_hash: str
    turn_id: TurnId | None = None
    facts_hash: str = ""
    """SHA-256 of what else the row of the write says (memory/store.py); journals of before have none."""
    discarded: bool = False


class BlockRestored(Struct, frozen=True):
    """A deleted memory block is back as it was."""

    block_id: str
    scope: str
    owner: str
    label: str
    reason: str
    text_hash: str
    turn_id: TurnId | None = None
    facts_hash: str = ""
    """SHA-256 of what else the row of the write says (memory/store.py); journals of before have none."""


class BlockForgotten(Struct, frozen=True):
    """Words were taken out of a memory block, its history, the search index and the journal, for good.

    `whole` tells that nothing of the block is left; otherwise it was a passage, which is not repeated here. `events`
    counts those whose words were replaced by a mark. `after_hash` is the SHA-256 of the text that is left.
    """

    block_id: str
    scope: str
    owner: str
    label: str
    reason: str
    whole: bool
    events: int
    after_hash: str
    redaction: str
    """`journal.reader.redaction_digest` of the events that lost words, so that nobody can add one later."""
    turn_id: TurnId | None = None
    update_hash: str = ""
    """SHA-256 of the document that the history begins again with; empty where it stays, and in journals of before."""
    facts_hash: str = ""
    """SHA-256 of what else the row of the write says (memory/store.py); journals of before have none."""


class BlockConfigured(Struct, frozen=True):
    """A setting of a memory block was changed: its description, limit, permission, tier, or whether it is pinned."""

    block_id: str
    scope: str
    owner: str
    label: str
    setting: str
    before: str
    after: str
    turn_id: TurnId | None = None


class BlockShared(Struct, frozen=True):
    """A memory block was attached to a persona or project; an empty permission means that it is no longer."""

    block_id: str
    scope: str
    owner: str
    label: str
    with_scope: str
    with_owner: str
    permission: str
    turn_id: TurnId | None = None


class EntryArchived(Struct, frozen=True):
    """A fact was put into the archive. `text_hash` is the SHA-256 of its text, `supersedes` the entry it replaces.

    `kind` is that of a note, such as `trap`, and empty for a plain fact, which has no `paths` or `severity` either.
    """

    entry_id: str
    scope: str
    owner: str
    text_hash: str
    reason: str
    supersedes: str = ""
    turn_id: TurnId | None = None
    call_id: ToolCallId | None = None
    kind: str = ""
    paths: tuple[str, ...] = ()
    severity: str = ""
    until_ms: int | None = None
    facts_hash: str = ""
    """SHA-256 of the text as it is stored, and of how it is checked; journals of before have none."""
    host: str = ""
    """The machine that it is about; empty for any."""


class EntryStatusChanged(Struct, frozen=True):
    """A trap, constraint or decision holds no longer (`resolved`), or does again (`active`)."""

    entry_id: str
    scope: str
    owner: str
    status: str
    reason: str
    turn_id: TurnId | None = None
    call_id: ToolCallId | None = None


class EntryVerified(Struct, frozen=True):
    """A fact in the archive was found to be still true."""

    entry_id: str
    scope: str
    owner: str
    turn_id: TurnId | None = None
    call_id: ToolCallId | None = None


class ArchiveImported(Struct, frozen=True):
    """The user took over memory and sessions of other constellations from an archive (docs/how-to/carry.md).

    `root` is the CID of the archive, `stores` are the constellations that its events were recorded in. `origins_hash`
    is the SHA-256 of where each event came from: its number here, its hash, its constellation and its number there.
    """

    root: str
    stores: tuple[str, ...]
    blocks: int
    facts: int
    sessions: int
    origins_hash: str


class ForkedBlock(Struct, frozen=True):
    """A copy that forked memory began with: of which block, and up to which of its writes."""

    block_id: str
    origin_id: str
    version: int


class MemoryForked(Struct, frozen=True):
    """Memory was forked with a conversation, or more of it was: for a persona that the conversation continued with."""

    fork_id: str
    blocks: tuple[ForkedBlock, ...]


class MemoryForkJoined(Struct, frozen=True):
    """A session uses the forked memory of the one that it was forked from."""

    fork_id: str


class MemoryForkEnded(Struct, frozen=True):
    """Forked memory was `merged` or `discarded`, as `outcome` says; its copies and facts are gone.

    `accepted` counts the blocks that it changed, `facts` those that it brought.
    """

    fork_id: str
    outcome: str
    accepted: int = 0
    facts: int = 0
    turn_id: TurnId | None = None


class BlockHealed(Struct, frozen=True):
    """The stored parts of a memory block were damaged, and were written again from the sound ones."""

    block_id: str
    scope: str
    owner: str
    label: str
    text_hash: str
