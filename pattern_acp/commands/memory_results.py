"""Answers of the commands about memory.

Owns: the facts of each answer, which are its JSON, and how they are put into parts. Must not know: how memory is
stored, or where an answer is shown.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from pattern_acp.commands.document import (
    Body,
    Column,
    Diff,
    Heading,
    Paragraph,
    Part,
    Result,
    ResultRecord,
    Table,
    cell,
    columns,
    one_line,
)
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import local_minute
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.archive import ArchivalEntry, PathNote, Status, head_of, last_day
from pattern_acp.memory.blocks import Block, BlockKey, Isolation, Scope, isolation_sentence
from pattern_acp.memory.dates import is_stale, stale_sentence
from pattern_acp.memory.diffs import mark_words, unified_diff, word_diff
from pattern_acp.memory.history import Write
from pattern_acp.memory.schemas.forms import describe
from pattern_acp.memory.service.access import NO_GOOD_MATCH, MemoryHit
from pattern_acp.memory.service.forget import ForgettingPreview, ForgottenReport
from pattern_acp.memory.service.history import (
    ArchivedEntry,
    BlamedRange,
    BlockBlame,
    BlockCheck,
    BlockVersion,
    ListedBlock,
    VersionPair,
)
from pattern_acp.memory.service.search import repeats
from pattern_acp.memory.service.undo import HistoryChange

EXCERPT = 80
"""Characters of a block's text in the list."""

SHOWN_TITLE = 40
"""Characters of a session's title in a table."""

SHORT_DIGITS = 8
"""Digits of a session's short id: 32 bits, so that even thousands of sessions hardly ever share one."""

_WHO = {
    Actor.HUMAN: "you",
    Actor.PERSONA: "agent",
    Actor.TOOL: "a tool",
    Actor.SYSTEM: "pattern-acp",
    Actor.PROCESS: "another process",
    Actor.IMPORT: "an import",
}

_HAD_READ = {
    Origin.WEB: "a web page",
    Origin.MCP: "an MCP server",
    Origin.AGENT: "a subagent",
    Origin.COMMAND: "a command",
    Origin.WORKSPACE: "a file",
}


SHOWN_STORE = 12
"""Characters of what another constellation is called that a user reads."""


class WriteRow(Struct, frozen=True):
    """One write."""

    number: int
    at_ms: int
    actor: str
    origin: str
    operation: str
    reason: str
    event: int
    stream: str
    session_title: str
    target: int | None
    characters: int | None
    lines_added: int | None
    lines_removed: int | None
    store: str = ""
    store_event: int = 0

    @property
    def at(self) -> str:
        """The time, to the minute."""
        return local_minute(self.at_ms)

    @property
    def who(self) -> str:
        """Who wrote, in the user's words; behind the agent, what kind of data of others it had read."""
        read = _HAD_READ.get(Origin(self.origin)) if self.actor == Actor.PERSONA else None
        return f"{_WHO[Actor(self.actor)]}, after {read}" if read else _WHO[Actor(self.actor)]

    @property
    def what(self) -> str:
        """The change."""
        if self.target is None:
            return self.operation
        return f"{self.operation} {'to' if self.operation == 'rollback' else 'of'} {self.target}"

    @property
    def where(self) -> str:
        """The place of its event: its number, and the session by its title and the first digits of its id."""
        if self.store:
            return f"event {self.store_event} of {self.store[:SHOWN_STORE]}"
        if self.stream == CONSTELLATION_STREAM:
            return f"event {self.event}"
        title = f"“{cell(self.session_title, SHOWN_TITLE)}” " if self.session_title else ""
        return f"event {self.event}, {title}{short_id(self.stream)}"


def write_row(write: Write) -> WriteRow:
    """A write as answers have it."""
    return WriteRow(
        write.number,
        write.at_ms,
        write.actor.value,
        write.origin.value,
        write.operation,
        write.reason,
        write.seq,
        write.stream,
        write.title,
        write.target,
        write.size,
        write.lines_added,
        write.lines_removed,
        write.store,
        write.store_seq,
    )


def short_id(session_id: str) -> str:
    """Enough of a session's id to tell it from others; JSON has all of it."""
    prefix, underscore, digits = session_id.partition("_")
    return prefix + underscore + digits[:SHORT_DIGITS] if underscore else session_id[:SHORT_DIGITS]


class BlockRow(Struct, frozen=True):
    """A block of the list."""

    label: str
    scope: str
    owner: str
    shared_from: str
    description: str
    characters: int
    limit: int
    last_write: WriteRow
    begins: str


class DeletedRow(Struct, frozen=True):
    """A deleted block; `restore` is what to say behind that verb."""

    label: str
    at_ms: int
    characters: int
    restore: str
    begins: str


class Blocks(Result, frozen=True):
    """All blocks: those that can be restored, that were damaged and repaired, that cannot be read, shared ones too."""

    blocks: tuple[BlockRow, ...] = ()
    deleted: tuple[DeletedRow, ...] = ()
    healed: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    isolation: str = "none"
    not_attached: tuple[str, ...] = ()

    @property
    def document(self) -> Sequence[Part]:
        """Tables and what is to be said of them."""
        if not (self.blocks or self.deleted or self.not_attached or self.damaged):
            return (Paragraph("Nothing is remembered here yet."),)
        heads = columns(
            Column("Block", "cyan", code=True), "Of", "Characters", "Last change", Column("Begins", limit=80)
        )
        rows = tuple(
            (
                one.label,
                one.scope if one.scope == Scope.SHARED.value else one.shared_from or one.scope,
                f"{one.characters:,} of {one.limit:,}",
                f"{one.last_write.at} by {one.last_write.who}",
                one.begins,
            )
            for one in self.blocks
        )
        parts: list[Part] = [Table(heads, rows)]
        if sentence := isolation_sentence(Isolation(self.isolation)):
            parts.append(Paragraph(sentence, "note"))
        parts += [
            Paragraph(
                f"What was stored of `{label}` was damaged; it was repaired from its archive and its updates.", "note"
            )
            for label in self.healed
        ]
        parts += [Paragraph(sentence, "error") for sentence in self.damaged]
        if self.deleted:
            heads = columns(Column("Deleted", "red", code=True), "When", "Characters", Column("Begins", limit=80))
            gone = tuple(
                (one.restore, local_minute(one.at_ms), f"{one.characters:,}", one.begins) for one in self.deleted
            )
            parts += [Table(heads, gone), Paragraph("`/memory restore LABEL` brings a deleted one back.", "dim")]
        if self.not_attached:
            names = ", ".join(f"`{label}`" for label in self.not_attached)
            how = "`/memory share shared/LABEL project:.` attaches one"
            parts.append(Paragraph(f"Shared, but not attached here: {names}; {how}."))
        return (*parts, Paragraph("`/memory help` tells what else can be done.", "dim"))


def blocks_listed(
    blocks: Sequence[ListedBlock],
    deleted: Sequence[Block],
    healed: Sequence[str],
    elsewhere: Sequence[Block],
    damaged: Sequence[str],
    isolation: Isolation,
) -> Blocks:
    """The list of what a look at memory found."""
    return Blocks(
        tuple(
            BlockRow(
                one.label,
                one.block.key.scope.value,
                one.block.key.owner,
                one.shared_from,
                one.block.description,
                len(one.block.text),
                one.block.limit,
                write_row(one.write),
                one_line(one.block.text, EXCERPT),
            )
            for one in blocks
        ),
        tuple(
            DeletedRow(full_label(block), block.updated_ms, len(block.text), named, one_line(block.text, EXCERPT))
            for named, block in restorable(deleted)
        ),
        tuple(healed),
        tuple(damaged),
        isolation.value,
        tuple(full_label(block) for block in elsewhere),
    )


def full_label(block: Block) -> str:
    """The label that means a block everywhere: a shared one has its scope before it."""
    return f"shared/{block.key.label}" if block.key.scope is Scope.SHARED else block.key.label


def restorable(deleted: Sequence[Block]) -> tuple[tuple[str, Block], ...]:
    """Deleted blocks, deleted last first, with what to say behind `restore` to bring back each of them.

    A label alone means the one that was deleted last; `LABEL 2` is the one before. Where blocks of two scopes had one
    label, the scope stands before it.
    """
    scopes: dict[str, set[Scope]] = {}
    for block in deleted:
        scopes.setdefault(block.key.label, set()).add(block.key.scope)
    counts: Counter[BlockKey] = Counter()
    named: list[tuple[str, Block]] = []
    for block in deleted:
        counts[block.key] += 1
        key = block.key
        label = f"{key.scope.value}/{key.label}" if len(scopes[key.label]) > 1 else full_label(block)
        named.append((label if counts[key] == 1 else f"{label} {counts[key]}", block))
    return tuple(named)


class Shown(Result, frozen=True):
    """A block, or an older version of it."""

    label: str
    scope: str
    description: str
    form: str
    """Its content besides free text."""
    limit: int
    version: int
    newest: int
    text: str
    stale: str
    """The lines that were not checked for long; only of the newest version."""
    write: WriteRow

    @property
    def document(self) -> Sequence[Part]:
        """The text between what it is and who wrote it."""
        write = self.write
        because = f": {cell(write.reason, 200).rstrip('.')}" if write.reason else ""
        is_newest = self.version == self.newest
        return (
            Heading(self.label, f"{self.scope}, {len(self.text):,} of {self.limit:,} characters"),
            *((Paragraph(f"{self.description} {self.form}".strip(), "dim"),) if is_newest else ()),
            Body(self.text or "(empty)"),
            *((Paragraph(self.stale, "note"),) if self.stale else ()),
            Paragraph(f"Version {self.version} of {self.newest}, {write.at}, {write.what} by {write.who}{because}."),
        )


def version_shown(version: BlockVersion, *, now_ms: int) -> Shown:
    """A version with what is to be said of it."""
    block, write = version.block, version.write
    stale = stale_sentence(version.text, now_ms=now_ms) if write.number == block.head_update else ""
    return Shown(
        block.key.label,
        block.key.scope.value,
        block.description,
        describe(block.schema),
        block.limit,
        write.number,
        block.head_update,
        version.text,
        stale,
        write_row(write),
    )


class Log(Result, frozen=True):
    """The writes of a block, newest first."""

    label: str
    writes: tuple[WriteRow, ...]

    @property
    def value(self) -> object:
        """The writes alone."""
        return self.writes

    @property
    def document(self) -> Sequence[Part]:
        """A table of them."""
        heads = columns(
            Column("#", "bold"), Column("When", "dim"), "Who", Column("What", "cyan"), "Lines", "Size",
            Column("Why", limit=100), Column("Where", "dim"),
        )  # fmt: skip
        rows = tuple(
            (
                str(one.number),
                one.at,
                one.who,
                one.what,
                ""
                if one.lines_added is None or one.lines_removed is None
                else f"+{one.lines_added} -{one.lines_removed}",
                "" if one.characters is None else f"{one.characters:,}",
                one.reason,
                one.where,
            )
            for one in self.writes
        )
        oldest = self.writes[-1].number if self.writes else 1
        more = (Paragraph(f"Older ones: `/memory history {self.label} {oldest}`.", "dim"),) if oldest > 1 else ()
        return (Table(heads, rows), *more)


class Compared(Result, frozen=True):
    """Two versions of a block."""

    label: str
    old: int
    new: int
    diff: str
    before: str
    after: str
    words: bool = False

    @property
    def value(self) -> object:
        """The difference, without both texts."""
        return {"label": self.label, "old": self.old, "new": self.new, "diff": self.diff}

    @property
    def document(self) -> Sequence[Part]:
        """The difference."""
        name = f"{self.label}, version {self.old} → {self.new}"
        if self.before == self.after:
            return (Paragraph(f"{name}: they read the same."),)
        names = (f"{self.label} {self.old}", f"{self.label} {self.new}")
        return (Paragraph(name), Diff(self.before, self.after, names, self.words))


def versions_compared(versions: VersionPair, *, words: bool) -> Compared:
    """Two versions with their difference."""
    before, after = versions.before, versions.after
    by_lines = unified_diff(before, after, before_name=str(versions.old), after_name=str(versions.new))
    diff = mark_words(word_diff(before, after)) if words else by_lines
    return Compared(versions.label, versions.old, versions.new, diff, before, after, words)


class BlamedRow(Struct, frozen=True, omit_defaults=True):
    """A line, or the characters from `start` to before `end`, with the write that it came from."""

    text: str
    write: WriteRow
    line: int = -1
    start: int = -1
    end: int = -1


class Blame(Result, frozen=True):
    """Who wrote which lines or characters."""

    rows: tuple[BlamedRow, ...]
    is_range: bool = False

    @property
    def value(self) -> object:
        """The rows alone."""
        return self.rows

    @property
    def document(self) -> Sequence[Part]:
        """A table of them."""
        if not self.rows:
            nothing = "The block has no such characters; it is shorter." if self.is_range else "The block is empty."
            return (Paragraph(nothing),)
        what = Column("Characters" if self.is_range else "Line", "bold")
        heads = columns(
            what, "#", Column("When", "dim"), "Who", Column("Why", limit=80), Column("Where", "dim"),
            Column("Text", limit=120),
        )  # fmt: skip
        rows = tuple(
            (
                f"{one.start}-{one.end}" if self.is_range else str(one.line),
                str(one.write.number),
                one.write.at,
                one.write.who,
                one.write.reason,
                one.write.where,
                repr(one.text)[1:-1] if self.is_range else one.text,
            )
            for one in self.rows
        )
        return (Table(heads, rows),)


def lines_blamed(blamed: BlockBlame) -> Blame:
    """Who wrote each line."""
    return Blame(tuple(BlamedRow(one.text, write_row(blamed.writes[one.number]), one.line) for one in blamed.lines))


def range_blamed(spans: Sequence[BlamedRange]) -> Blame:
    """Who wrote which characters."""
    rows = tuple(BlamedRow(one.text, write_row(one.write), start=one.start, end=one.end) for one in spans)
    return Blame(rows, is_range=True)


class ConflictRow(Struct, frozen=True):
    """Lines that two edits changed."""

    theirs: str
    ours: str


class Changed(Result, frozen=True):
    """A block that was changed, and the write that it became; `target` is the write or version that is meant."""

    label: str
    operation: str
    write: int
    target: int | None
    before: str
    after: str
    conflicts: tuple[ConflictRow, ...]

    @property
    def document(self) -> Sequence[Part]:
        """The change, as a diff."""
        done = {
            "undo": f"Write {self.target} of `{self.label}` was taken back",
            "redo": f"Write {self.target} of `{self.label}`, an undo, was taken back",
            "rollback": f"`{self.label}` reads as in version {self.target} again",
        }.get(self.operation, f"`{self.label}` was changed")
        both = "Changed here and meanwhile elsewhere; both are in the text"
        return (
            Paragraph(f"{done}; it is write {self.write}, and `/memory undo {self.label}` takes it back."),
            Diff(self.before, self.after, (self.label, self.label)),
            *(
                Paragraph(f"{both}: “{one_line(one.theirs, 80)}” and “{one_line(one.ours, 80)}”.", "warning")
                for one in self.conflicts
            ),
        )


def block_changed(change: HistoryChange) -> Changed:
    """A change as answers have it."""
    conflicts = tuple(ConflictRow(one.theirs, one.ours) for one in change.conflicts)
    return Changed(
        change.label, change.operation.value, change.number, change.target, change.before, change.after, conflicts
    )


class Unchanged(Result, frozen=True):
    """An edit that changed nothing."""

    label: str
    changed: bool = False

    @property
    def document(self) -> Sequence[Part]:
        """The sentence."""
        return (Paragraph("Nothing was changed."),)


class EditRefused(Result, frozen=True):
    """An edited text that cannot be stored, and the file that holds it."""

    error: str
    file: str

    @property
    def document(self) -> Sequence[Part]:
        """Why, and where the text is."""
        where = "" if self.file == "-" else f" Your text is in {self.file}."
        return (Paragraph(f"{self.error}{where}", "error"),)

    @property
    def is_failure(self) -> bool:
        """It was not stored."""
        return True


class Deleted(Result, frozen=True):
    """A block that was deleted."""

    deleted: str

    @property
    def document(self) -> Sequence[Part]:
        """Ways to restore it, or to forget it for good."""
        label = self.deleted
        back = f"`/memory restore {label}` brings it back, `/memory forget {label} --all` ends it"
        return (Paragraph(f"`{label}` is deleted; {back}."),)


class Restored(Result, frozen=True):
    """A block that is there again."""

    restored: str
    characters: int

    @property
    def document(self) -> Sequence[Part]:
        """The restored block."""
        return (Paragraph(f"`{self.restored}` is back with {self.characters:,} characters and its whole history."),)


class Imported(Result, frozen=True, rename={"is_new": "new"}):
    """A file that was taken in: its block, whether that is new, its text before and after, and what was known."""

    label: str
    is_new: bool
    before: str
    after: str
    known: int

    @property
    def document(self) -> Sequence[Part]:
        """The new text, as a diff."""
        known = f" {self.known} passages were there already." if self.known else ""
        if self.before == self.after:
            return (Paragraph(f"Nothing is new in it; `{self.label}` is as it was.{known}"),)
        done = "is made" if self.is_new else "is changed"
        diff = Diff(self.before, self.after, (self.label, self.label))
        return (Paragraph(f"`{self.label}` {done}.{known}"), diff)


class Hit(Struct, frozen=True):
    """One thing that a search found; `guess` says that it is hardly an answer, `others` how many say the same."""

    source: str
    place: str
    at_ms: int
    text: str
    score: float
    words: tuple[str, ...]
    meaning: float | None
    why: str
    guess: bool
    others: int


class Hits(Result, frozen=True):
    """The results of a search, best first."""

    query: str
    hits: tuple[Hit, ...]
    narrowed: bool
    repeats: tuple[str, ...]

    @property
    def value(self) -> object:
        """The hits alone."""
        return self.hits

    @property
    def document(self) -> Sequence[Part]:
        """Each with where it is from, when it was written and why it was found."""
        if not self.hits:
            limits = " with these limits" if self.narrowed else ""
            return (Paragraph(f"Nothing in memory or past sessions matches “{self.query}”{limits}."),)
        found = tuple(
            ResultRecord(one.place or one.source, more, (local_minute(one.at_ms),), one.why, one.text)
            for one, more in zip(self.hits, self.repeats, strict=True)
        )
        return (Paragraph(NO_GOOD_MATCH), *found) if any(one.guess for one in self.hits) else found


def hits_found(query: str, hits: Sequence[MemoryHit], *, narrowed: bool) -> Hits:
    """Turn hits into an answer."""
    return Hits(
        query,
        tuple(
            Hit(
                one.source,
                one.place,
                one.at_ms,
                one.text,
                round(one.score, 4),
                tuple(one.words),
                one.meaning,
                one.why,
                one.is_guess,
                one.others,
            )
            for one in hits
        ),
        narrowed,
        tuple(repeats(one) for one in hits),
    )


class StatusChange(Struct, frozen=True):
    """Who said that an entry holds or not, when and why."""

    actor: str
    at_ms: int
    reason: str


class EntryRow(Struct, frozen=True):
    """An archival entry; what is a trap, constraint or decision has a kind and a status."""

    id: str
    scope: str
    owner: str
    text: str
    at_ms: int
    actor: str
    reason: str
    supersedes: str | None
    superseded_by: str | None
    verified_ms: int | None
    check_command: str
    recalled: int
    kind: str | None
    paths: tuple[str, ...]
    severity: str | None
    until: str | None
    status: str | None
    status_change: StatusChange | None
    head: str
    standing: str


def _entry_row(entry: ArchivalEntry, bound: PathNote | None, times: int, standing: str, now_ms: int) -> EntryRow:
    terms, changed = (None, None) if bound is None else (bound.terms, bound.changed)
    return EntryRow(
        entry.id,
        entry.scope.value,
        entry.owner,
        entry.text,
        entry.at_ms,
        entry.actor.value,
        entry.reason,
        entry.supersedes,
        entry.superseded_by,
        entry.verified_ms,
        entry.check_command,
        times,
        None if terms is None else terms.kind.value,
        () if terms is None else tuple(terms.paths),
        None if terms is None else terms.severity.value,
        None if terms is None or terms.until_ms is None else last_day(terms.until_ms),
        None if bound is None else bound.status(now_ms).value,
        None if changed is None else StatusChange(changed.actor.value, changed.at_ms, changed.reason),
        "" if bound is None else head_of(bound),
        standing,
    )


class Archive(Result, frozen=True):
    """The archival entries, newest first."""

    entries: tuple[EntryRow, ...]

    @property
    def value(self) -> object:
        """The entries alone."""
        return self.entries

    @property
    def document(self) -> Sequence[Part]:
        """A table of them."""
        if not self.entries:
            sentence = "Nothing is archived here yet; the agent archives facts that only search should find."
            return (Paragraph(sentence),)
        heads = columns(
            Column("Entry", code=True), "Of", "When", "Standing", Column("Recalled", form="recalled {} times"),
            Column("Fact", limit=200),
        )  # fmt: skip
        rows = tuple(
            (one.id, one.scope, local_minute(one.at_ms), one.standing, str(one.recalled), one.text)
            for one in self.entries
        )
        return (Table(heads, rows, "records"),)


def entries_archived(entries: Sequence[ArchivedEntry], *, now_ms: int) -> Archive:
    """Entries with how each stands."""
    rows = (_entry_row(one.entry, one.bound, one.times, _standing(one, now_ms=now_ms), now_ms) for one in entries)
    return Archive(tuple(rows))


def _standing(archived: ArchivedEntry, *, now_ms: int) -> str:
    """Describe whether an archival entry is in force, superseded by which other, or stale."""
    entry, bound = archived.entry, archived.bound
    if not entry.is_current:
        return f"superseded by {entry.superseded_by}"
    if bound is not None and (status := bound.status(now_ms)) != "active":
        return f"{bound.terms.kind}, {status}"
    if not is_stale(entry.verified_ms, now_ms=now_ms):
        return f"{bound.terms.kind}, active" if bound is not None else "in force"
    return f"not checked for long: `{entry.check_command}` tells" if entry.check_command else "not checked for long"


class Traps(Result, frozen=True):
    """Traps, constraints and decisions, what holds first; with a path only those about it."""

    path: str
    entries: tuple[EntryRow, ...]
    usage: str

    @property
    def value(self) -> object:
        """The entries alone."""
        return self.entries

    @property
    def document(self) -> Sequence[Part]:
        """A table of them."""
        if not self.entries:
            about = f" that holds is about {cell(self.path, 80)}" if self.path else " is noted here"
            return (Paragraph(f"No trap, constraint or decision{about}. `/memory trap {self.usage}` notes a trap."),)
        heads = columns(
            Column("Entry", code=True), Column("What", limit=120), "Standing", "By, when", Column("Text", limit=200)
        )
        rows = tuple(
            (one.id, one.head, one.standing, f"{one.actor}, {local_minute(one.at_ms)}", one.text)
            for one in self.entries
        )
        return (Table(heads, rows, "records"),)


def traps_noted(path: str, noted: Sequence[PathNote], usage: str, *, now_ms: int) -> Traps:
    """List the notes with the status of each."""
    rows = (_entry_row(one.entry, one, 0, _bound_standing(one, now_ms=now_ms), now_ms) for one in noted)
    return Traps(path, tuple(rows), usage)


def _bound_standing(bound: PathNote, *, now_ms: int) -> str:
    """Describe whether an entry is valid, or since when and why not, and whether a check is overdue."""
    status = bound.status(now_ms)
    if status is Status.EXPIRED and bound.terms.until_ms is not None:
        return f"expired after {last_day(bound.terms.until_ms)}"
    if status is Status.RESOLVED and bound.changed is not None:
        return f"resolved by {bound.changed.actor.value}: {cell(bound.changed.reason, 120)}"
    how = f": `{bound.entry.check_command}` tells" if bound.entry.check_command else ""
    return f"active, not checked for long{how}" if is_stale(bound.seen_ms, now_ms=now_ms) else status.value


class VerifiedBlocks(Result, frozen=True):
    """Blocks that were checked, each with what does not agree."""

    blocks: tuple[BlockCheck, ...]

    @property
    def value(self) -> object:
        """The blocks alone."""
        return self.blocks

    @property
    def is_failure(self) -> bool:
        """Something does not agree."""
        return any(one.problems for one in self.blocks)

    @property
    def document(self) -> Sequence[Part]:
        """A table of them."""
        heads = columns(Column("Block", code=True), "Writes", "What is stored")
        rows = tuple((one.label, f"{one.writes:,}", "; ".join(one.problems) or "sound") for one in self.blocks)
        mends = (
            "Listing the blocks repairs what other stored parts give. `pattern-acp doctor --verify --repair` begins a "
            "history again that none gives. `pattern-acp journal rebuild` makes rows again that are not what their "
            "events say."
        )
        return (Table(heads, rows), *((Paragraph(mends),) if self.is_failure else ()))


def taken_words(taken: ForgettingPreview) -> str:
    """List the places that forgetting takes the words out of, as the end of a sentence."""
    label = f"`{taken.label}`"
    places = [f"the text of {label}"] if taken.in_text and not taken.whole else []
    if taken.versions and not taken.whole:
        places.append(f"{_counted(taken.versions, 'stored version')} of its history")
    if taken.events:
        places.append(_counted(taken.events, "recorded event"))
    if taken.archived:
        places.append(_counted(taken.archived, "archived fact"))
    if taken.kept_files:
        places.append(f"{_counted(taken.kept_files, 'state')} of files saved for /rewind")
    if taken.tasks:
        places.append(_counted(taken.tasks, "task"))
    if taken.sources:
        places.append(f"{_counted(taken.sources, 'stored source')} of personas, skills, commands and instructions")
    return f"{', '.join(places[:-1])} and {places[-1]}" if places[1:] else "".join(places)


def forgetting_question(taken: ForgettingPreview) -> str:
    """Describe the effect of forgetting, to ask the user first."""
    what = f"The whole block `{taken.label}` would be gone" if taken.whole else "The words would be taken out"
    places = taken_words(taken)
    if places:
        what += f", with copies of its lines in {places}" if taken.whole else f" of {places}"
    return f"{what}. {_history_sentence(taken)} Nobody can take this back."


def _forgotten_sentence(taken: ForgettingPreview) -> str:
    places = taken_words(taken)
    if taken.whole:
        copies = f", and copies of its lines are gone from {places}" if places else ""
        return f"The whole block `{taken.label}` is forgotten with its history{copies}. {_history_sentence(taken)}"
    return f"The passage is forgotten: taken out of {places}. {_history_sentence(taken)}"


def _history_sentence(taken: ForgettingPreview) -> str:
    if not taken.versions:
        return f"No version of `{taken.label}` holds the words, so it and its history stay."
    return f"Older versions of `{taken.label}` cannot be shown afterwards; who wrote when is still known."


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


class ForgetResult(Result, frozen=True):
    """The forgotten words and the places where they are left. The words themselves are not repeated."""

    report: ForgottenReport

    @property
    def value(self) -> object:
        """The number of places that the words were taken out of, and the places where they are left."""
        report, taken = self.report, self.report.taken
        return {
            "label": taken.label,
            "whole": taken.whole,
            "in_text": taken.in_text,
            "versions": taken.versions,
            "events": taken.events,
            "messages": report.messages,
            "archived": taken.archived,
            "kept_files": taken.kept_files,
            "tasks": taken.tasks,
            "sources": taken.sources,
            "others": report.others,
            "left": report.left,
            "backups": [str(path) for path in report.backups],
            "clean": report.clean,
        }

    @property
    def document(self) -> Sequence[Part]:
        """A summary of what is gone, and what the user has to know about the rest."""
        report, taken = self.report, self.report.taken
        parts: list[Part] = [Paragraph(_forgotten_sentence(taken))]
        if report.before != report.after and not taken.whole:
            parts.append(Diff(report.before, report.after, (taken.label, taken.label)))
        if taken.kept_files:
            parts.append(Paragraph("/rewind leaves the files alone whose saved states are gone."))
        return (*parts, *(Paragraph(note, "warning") for note in _left_notes(report)))


def _left_notes(report: ForgottenReport) -> tuple[str, ...]:
    notes: list[str] = []
    if report.others:
        names = ", ".join(f"`{label}`" for label in report.others)
        notes.append(f"The words are in other blocks too, which were left alone: {names}.")
    if report.left:
        notes.append(f"They are still in: {'; '.join(report.left)}.")
    if not report.others and not report.left:
        notes.append("Everything that the constellation holds was looked through again: they are nowhere in it.")
    if report.backups:
        names = ", ".join(f"`{path}`" for path in report.backups)
        notes.append(f"Backups made before still hold what they held; delete them when you can: {names}.")
    if not report.clean:
        notes.append(
            "Another process is reading the constellation, so its write-ahead log may still hold the words; close the "
            "other editors, then forget once more."
        )
    return tuple(notes)


class NotForgotten(Result, frozen=True):
    """Words that are left, since nobody agreed."""

    label: str
    forgotten: bool = False

    @property
    def is_failure(self) -> bool:
        """It was not done."""
        return True

    @property
    def document(self) -> Sequence[Part]:
        """A sentence: nothing is gone."""
        return (Paragraph(f"Nothing was forgotten; `{self.label}` is as it was."),)
