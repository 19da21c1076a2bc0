"""What /memory answers, in Markdown.

Owns: its tables and fences. Must not know: sessions, or how memory is stored.
"""

import re
from collections import Counter
from collections.abc import Sequence

from pattern_acp.domain.clock import local_minute
from pattern_acp.domain.origin import Actor
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.blocks import Block, BlockKey, Scope
from pattern_acp.memory.diffs import mark_words, unified_diff, word_diff
from pattern_acp.memory.freshness import is_stale, stale_sentence
from pattern_acp.memory.history import Write
from pattern_acp.tools.memory_forgetting import ForgettingPreview, ForgottenReport
from pattern_acp.tools.memory_history import Archived, Blamed, BlamedRange, Listed, Verified, Version, Versions
from pattern_acp.tools.memory_reverts import HistoryChange

EXCERPT = 80
"""Characters of a block's text in the list."""

SHOWN_TITLE = 40
"""Characters of a session's title in a table."""

SHORT_DIGITS = 8
"""Of a session's id: 32 bits, of which thousands of sessions hardly ever share all."""

_WHO = {
    Actor.HUMAN: "you",
    Actor.PERSONA: "agent",
    Actor.TOOL: "a tool",
    Actor.SYSTEM: "pattern-acp",
    Actor.PROCESS: "another process",
    Actor.IMPORT: "an import",
}


def list_table(
    blocks: Sequence[Listed],
    deleted: Sequence[Block],
    healed: Sequence[str] = (),
    elsewhere: Sequence[Block] = (),
    damaged: Sequence[str] = (),
    isolation: str = "",
) -> str:
    """All blocks with size, limit, last change, and how each begins; and those that were damaged and mended.

    `elsewhere` are shared blocks that are not attached here, `damaged` sentences about those that cannot be read;
    `isolation` says how far the project is kept apart.
    """
    rows = [
        (
            f"`{one.label}`",
            whose(one),
            f"{len(one.block.text):,} of {one.block.limit:,}",
            f"{local_minute(one.write.at_ms)} by {who(one.write)}",
            cell(one.block.text, EXCERPT) or "*(empty)*",
        )
        for one in blocks
    ]
    parts = [table(("Block", "Of", "Characters", "Last change", "Begins"), rows)]
    parts += [f"> {isolation}"] if isolation else []
    parts += [f"> {healed_note(label)}" for label in healed]
    parts += [f"> {sentence}" for sentence in damaged]
    if deleted:
        names = ", ".join(
            f"`{named}` ({local_minute(block.updated_ms)}, {len(block.text):,} characters)"
            for named, block in restorable(deleted)
        )
        parts.append(f"Deleted, to be had back with `/memory restore LABEL`: {names}.")
    if elsewhere:
        names = ", ".join(f"`{full_label(block)}`" for block in elsewhere)
        parts.append(f"Shared, but not attached here: {names}; `/memory share shared/LABEL project:.` attaches one.")
    parts.append("`/memory help` tells what else can be done.")
    return "\n\n".join(parts)


def archive_table(entries: Sequence[Archived], *, now_ms: int) -> str:
    """The archival entries, newest first."""
    rows = [
        (
            f"`{one.entry.id}`",
            one.entry.scope.value,
            local_minute(one.entry.at_ms),
            standing(one, now_ms=now_ms),
            str(one.times),
            cell(one.entry.text, 200),
        )
        for one in entries
    ]
    if not rows:
        return "Nothing is archived here yet; the agent archives facts that only search should find."
    return table(("Entry", "Of", "When", "Standing", "Recalled", "Fact"), rows)


def standing(archived: Archived, *, now_ms: int) -> str:
    """Whether an archival entry is in force, superseded by which other, or stale."""
    entry = archived.entry
    if not entry.is_current:
        return f"superseded by {entry.superseded_by}"
    if archived.bound is not None and (status := archived.bound.status(now_ms)) != "active":
        return f"{archived.bound.terms.kind}, {status}"
    if not is_stale(entry.verified_ms, now_ms=now_ms):
        return f"{archived.bound.terms.kind}, active" if archived.bound is not None else "in force"
    return f"not checked for long: `{entry.check_command}` tells" if entry.check_command else "not checked for long"


def verified_table(checked: Sequence[Verified]) -> str:
    """The blocks that were checked, with what does not agree."""
    rows = [(f"`{one.label}`", f"{one.writes:,}", "; ".join(one.problems) or "sound") for one in checked]
    told = table(("Block", "Writes", "What is stored"), rows)
    if any(one.problems for one in checked):
        told += "\n\nListing the blocks mends a text from the parts that are sound; later writes make an archive anew."
    return told


def whose(listed: Listed) -> str:
    """What a block belongs to, or whose it is when it is attached."""
    scope = listed.block.key.scope
    return scope.value if scope is Scope.SHARED else listed.shared_from or scope.value


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


def version_text(version: Version, *, now_ms: int) -> str:
    """A block, or an older version of it; of the newest also which lines were not checked for long."""
    block, write = version.block, version.write
    head = f"### {block.key.label} ({block.key.scope}, {len(version.text):,} of {block.limit:,} characters)"
    if write.number == block.head_update:
        head += f"\n\n*{block.description}*"
    at = local_minute(write.at_ms)
    about = f"Version {write.number} of {block.head_update}, {at}, {operation(write)} by {who(write)}"
    text = version.text or "(empty)"
    stale = stale_sentence(text, now_ms=now_ms) if write.number == block.head_update else ""
    return "\n\n".join([head, text, *([f"> {stale}"] if stale else []), f"{about}{because(write)}."])


def log_table(label: str, writes: Sequence[Write]) -> str:
    """The writes of a block, newest first."""
    rows = [
        (
            str(write.number),
            local_minute(write.at_ms),
            who(write),
            operation(write),
            line_counts(write),
            "" if write.size is None else f"{write.size:,}",
            cell(write.reason, 100),
            place(write),
        )
        for write in writes
    ]
    told = table(("#", "When", "Who", "What", "Lines", "Size", "Why", "Where"), rows)
    if writes and writes[-1].number > 1:
        told += f"\n\nOlder ones: `/memory history {label} {writes[-1].number}`."
    return told


def versions_diff(versions: Versions, *, words: bool) -> str:
    """Two versions compared by lines, or by words."""
    name = f"{versions.label}, version {versions.old} → {versions.new}"
    if versions.before == versions.after:
        return f"{name}: they read the same."
    if words:
        return f"{name}\n\n{fence(mark_words(word_diff(versions.before, versions.after)))}"
    names = (f"{versions.label} {versions.old}", f"{versions.label} {versions.new}")
    return f"{name}\n\n{diff_fence(versions.before, versions.after, names)}"


def blame_table(blamed: Blamed) -> str:
    """Who wrote each line."""
    rows = [(str(line.line), *_blame_cells(blamed.writes[line.number]), cell(line.text, 120)) for line in blamed.lines]
    return table(("Line", "#", "When", "Who", "Why", "Where", "Text"), rows) if rows else "The block is empty."


def range_table(spans: Sequence[BlamedRange]) -> str:
    """Who wrote which characters."""
    rows = [(f"{span.start}-{span.end}", *_blame_cells(span.write), cell(repr(span.text)[1:-1], 120)) for span in spans]
    if not rows:
        return "The block has no such characters; it is shorter."
    return table(("Characters", "#", "When", "Who", "Why", "Where", "Text"), rows)


def change_text(change: HistoryChange) -> str:
    """What an undo, redo, rollback or edit did."""
    done = {
        "undo": f"Write {change.target} of `{change.label}` was taken back",
        "redo": f"Write {change.target} of `{change.label}`, an undo, was taken back",
        "rollback": f"`{change.label}` reads as in version {change.target} again",
    }.get(change.operation.value, f"`{change.label}` was changed")
    parts = [f"{done}; it is write {change.number}, and `/memory undo {change.label}` takes it back."]
    parts.append(diff_fence(change.before, change.after, (change.label, change.label)))
    parts += [
        f"> Changed here and meanwhile elsewhere; both are in the text: “{cell(one.theirs, 80)}” and "
        f"“{cell(one.ours, 80)}”."
        for one in change.conflicts
    ]
    return "\n\n".join(parts)


def taken_words(taken: ForgettingPreview) -> str:
    """What forgetting takes the words out of, as the end of a sentence."""
    label = f"`{taken.label}`"
    places = [f"the text of {label}"] if taken.in_text and not taken.whole else []
    if taken.versions and not taken.whole:
        places.append(f"{_counted(taken.versions, 'stored version')} of its history")
    if taken.events:
        places.append(_counted(taken.events, "recorded event"))
    if taken.archived:
        places.append(_counted(taken.archived, "archived fact"))
    if taken.kept_files:
        places.append(f"{_counted(taken.kept_files, 'state')} of files kept for /rewind")
    return f"{', '.join(places[:-1])} and {places[-1]}" if places[1:] else "".join(places)


def forgetting_question(taken: ForgettingPreview) -> str:
    """What forgetting would do, to ask the user before."""
    what = f"The whole block `{taken.label}` would be gone" if taken.whole else "The words would be taken out"
    places = taken_words(taken)
    if places:
        what += f", with copies of its lines in {places}" if taken.whole else f" of {places}"
    return f"{what}. {_history_sentence(taken)} Nobody can take this back."


def forgotten_sentence(taken: ForgettingPreview) -> str:
    """What was forgotten. The words themselves are not repeated."""
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


def forgotten_text(report: ForgottenReport) -> str:
    """What was forgotten, and what is left. The words themselves are not repeated."""
    parts, label = [forgotten_sentence(report.taken)], report.taken.label
    if report.before != report.after:
        parts.append(diff_fence(report.before, report.after, (label, label)))
    if report.taken.kept_files:
        parts.append("/rewind leaves the files alone whose kept states are gone.")
    parts += [f"> {note}" for note in forgotten_notes(report)]
    return "\n\n".join(parts)


def forgotten_notes(report: ForgottenReport) -> tuple[str, ...]:
    """What the user has to know about what is left."""
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


def healed_note(label: str) -> str:
    """That a block was damaged and mended."""
    return f"What was stored of `{label}` was damaged; it was mended from its archive and its updates."


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def diff_fence(before: str, after: str, names: tuple[str, str]) -> str:
    """The lines that changed, as a diff."""
    return fence(unified_diff(before, after, before_name=names[0], after_name=names[1]), "diff")


def fence(text: str, language: str = "") -> str:
    """A fenced block, whose fence is longer than any in the text."""
    marks = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{marks}{language}\n{text}\n{marks}"


def cell(text: str, limit: int) -> str:
    """A text as one cell of a table."""
    flat = " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def who(write: Write) -> str:
    """Who wrote, in a person's words."""
    return _WHO[write.actor]


def operation(write: Write) -> str:
    """What was done."""
    if write.target is None:
        return write.operation
    return f"{write.operation} {'to' if write.operation == 'rollback' else 'of'} {write.target}"


def line_counts(write: Write) -> str:
    """Lines that came and went."""
    if write.lines_added is None or write.lines_removed is None:
        return ""
    return f"+{write.lines_added} -{write.lines_removed}"


def place(write: Write) -> str:
    """Where the event of a write is recorded: its number, and the session by its title and the first of its id."""
    if write.stream == CONSTELLATION_STREAM:
        return f"event {write.seq}"
    title = f"“{cell(write.title, SHOWN_TITLE)}” " if write.title else ""
    return f"event {write.seq}, {title}{short_id(write.stream)}"


def short_id(session_id: str) -> str:
    """Enough of a session's id to tell it from others; `--json` gives all of it."""
    prefix, underscore, digits = session_id.partition("_")
    return prefix + underscore + digits[:SHORT_DIGITS] if underscore else session_id[:SHORT_DIGITS]


def because(write: Write) -> str:
    """Why, as the end of a sentence."""
    return f": {cell(write.reason, 200).rstrip('.')}" if write.reason else ""


def _blame_cells(write: Write) -> tuple[str, str, str, str, str]:
    return str(write.number), local_minute(write.at_ms), who(write), cell(write.reason, 80), place(write)
