"""What `pattern-acp memory` shows a person, as styled lines.

Owns: the layout. Must not know: terminals, or where anything comes from.
"""

from collections.abc import Sequence

from pattern_acp.cli.memory.importing import Imported
from pattern_acp.cli.memory.lines import Part, Span, Table, diff_lines, line, text_lines
from pattern_acp.domain.clock import local_minute
from pattern_acp.memory.archive import ArchivalEntry
from pattern_acp.memory.blocks import Block
from pattern_acp.memory.bound import BoundEntry, head_of
from pattern_acp.memory.diffs import Change, unified_diff, word_diff
from pattern_acp.memory.freshness import stale_sentence
from pattern_acp.memory.history import Write
from pattern_acp.session.memory_markdown import (
    archive_table,
    forgotten_notes,
    forgotten_sentence,
    full_label,
    healed_note,
    line_counts,
    operation,
    place,
    restorable,
    standing,
    who,
    whose,
)
from pattern_acp.session.memory_traps import standing as bound_standing
from pattern_acp.tools.base import NO_GOOD_MATCH, MemoryHit
from pattern_acp.tools.memory_forgetting import ForgottenReport
from pattern_acp.tools.memory_history import Archived, Blamed, BlamedRange, Listed, Version, Versions
from pattern_acp.tools.memory_reverts import HistoryChange
from pattern_acp.tools.memory_search import repeats

_EXCERPT = 60

_WORD_STYLES = {Change.SAME: "", Change.REMOVED: "red", Change.ADDED: "green"}

_WORD_MARKS = {Change.SAME: "{}", Change.REMOVED: "[-{}-]", Change.ADDED: "{{+{}+}}"}
"""Git's marks: a pipe and a terminal without colours have to tell the words apart too."""


def list_page(
    blocks: Sequence[Listed],
    deleted: Sequence[Block],
    healed: Sequence[str] = (),
    elsewhere: Sequence[Block] = (),
    damaged: Sequence[str] = (),
    isolation: str = "",
) -> list[Part]:
    """All blocks, those that can be restored, those that were damaged and mended, and shared ones not attached here.

    `damaged` are sentences about those that cannot be read; `isolation` says how far the project is kept apart.
    """
    if not (blocks or deleted or elsewhere or damaged):
        return [line("Nothing is remembered here yet.")]
    rows = [
        (
            (one.label, "cyan"),
            (whose(one), ""),
            (f"{len(one.block.text):,}/{one.block.limit:,}", _fill_style(one.block)),
            (local_minute(one.write.at_ms), "dim"),
            (who(one.write), ""),
            (_short(one.block.text), ""),
        )
        for one in blocks
    ]
    lines: list[Part] = [Table(("BLOCK", "OF", "SIZE", "CHANGED", "BY", "BEGINS"), tuple(rows))]
    lines += [line((isolation, "yellow"))] if isolation else []
    lines += [line((healed_note(label).replace("`", ""), "yellow")) for label in healed]
    lines += [line((sentence, "red")) for sentence in damaged]
    for named, block in restorable(deleted):
        size = f"{len(block.text):,} characters"
        begin = f": {_short(block.text)}" if block.text.strip() else ""
        lines.append(line(("deleted ", "red"), (named, "cyan"), f", {local_minute(block.updated_ms)}, {size}{begin}"))
    if deleted:
        lines.append(line(("pattern-acp memory restore, with the words behind “deleted”, brings one back.", "dim")))
    lines += [line(("not attached here ", "dim"), (full_label(block), "cyan")) for block in elsewhere]
    return lines


def markdown_page(text: str) -> list[Part]:
    """An answer in Markdown: its tables as columns, the rest without code marks."""
    lines: list[Part] = []
    rows: list[list[str]] = []
    for part in (*text.replace("`", "").split("\n"), ""):
        if part.startswith("| "):
            # Only the outer bars go: a cell at either end may be empty, such as a label of nothing but code marks.
            rows.append(part.removeprefix("| ").removesuffix(" |").split(" | "))
            continue
        if rows:
            head, _, *body = rows
            cells = (tuple((cell, "") for cell in row) for row in body)
            lines.append(Table(tuple(name.upper() for name in head), tuple(cells)))
            rows = []
        lines.append(line(part))
    return lines[:-1]


def version_page(version: Version, *, now_ms: int) -> list[Part]:
    """A block, or an older version of it; of the newest also which lines were not checked for long."""
    block, write = version.block, version.write
    at = local_minute(write.at_ms)
    about = f"version {write.number} of {block.head_update}, {at}, {operation(write)} by {who(write)}"
    head = line((block.key.label, "bold cyan"), f"  {len(version.text):,} of {block.limit:,} characters, {about}")
    stale = stale_sentence(version.text, now_ms=now_ms) if write.number == block.head_update else ""
    told = [line(""), line((stale, "yellow"))] if stale else []
    return [head, line((block.description, "dim")), line(""), *text_lines(version.text or "(empty)"), *told]


def log_page(writes: Sequence[Write]) -> list[Part]:
    """The writes of a block, newest first."""
    rows = [
        (
            (str(write.number), "bold"),
            (local_minute(write.at_ms), "dim"),
            (who(write), ""),
            (operation(write), "cyan"),
            (line_counts(write), ""),
            ("" if write.size is None else f"{write.size:,}", ""),
            (place(write), "dim"),
            (write.reason, ""),
        )
        for write in writes
    ]
    return [Table(("#", "WHEN", "WHO", "WHAT", "LINES", "SIZE", "WHERE", "WHY"), tuple(rows))]


def diff_page(versions: Versions, *, words: bool) -> list[Part]:
    """Two versions compared."""
    if versions.before == versions.after:
        return [line(f"Versions {versions.old} and {versions.new} of {versions.label} read the same.")]
    if words:
        return _word_lines(versions.before, versions.after)
    names = f"{versions.label} {versions.old}", f"{versions.label} {versions.new}"
    return [*diff_lines(unified_diff(versions.before, versions.after, before_name=names[0], after_name=names[1]))]


def blame_page(blamed: Blamed) -> list[Part]:
    """Who wrote each line."""
    if not blamed.lines:
        return [line("The block is empty.")]
    rows = [(*_blame_cells(blamed.writes[one.number]), (str(one.line), "bold"), (one.text, "")) for one in blamed.lines]
    return [Table(("#", "WHEN", "WHO", "WHERE", "LINE", "TEXT"), tuple(rows))]


def range_page(spans: Sequence[BlamedRange]) -> list[Part]:
    """Who wrote which characters."""
    rows = [
        (*_blame_cells(span.write), (f"{span.start}-{span.end}", "bold"), (repr(span.text)[1:-1], "")) for span in spans
    ]
    return [Table(("#", "WHEN", "WHO", "WHERE", "CHARACTERS", "TEXT"), tuple(rows))]


def change_page(change: HistoryChange) -> list[Part]:
    """What was done, as a diff."""
    target = "" if change.target is None else f" ({change.operation} of {change.target})"
    diff = unified_diff(change.before, change.after, before_name=change.label, after_name=change.label)
    lines: list[Part] = [
        line((change.label, "bold cyan"), f" is changed: write {change.number}{target}."),
        *diff_lines(diff),
    ]
    for conflict in change.conflicts:
        lines.append(line(("Changed here and meanwhile elsewhere; both are in the text:", "yellow")))
        lines += text_lines(f"{conflict.theirs}\n{conflict.ours}", "yellow")
    return lines


def imported_page(imported: Imported) -> list[Part]:
    """What a file brought, as a diff."""
    known = f" {imported.known} passages were there already." if imported.known else ""
    if imported.before == imported.after:
        return [line("Nothing is new in it;", (f" {imported.label}", "bold cyan"), f" is as it was.{known}")]
    done = "is made" if imported.is_new else "is changed"
    diff = unified_diff(imported.before, imported.after, before_name=imported.label, after_name=imported.label)
    return [line((imported.label, "bold cyan"), f" {done}.{known}"), *diff_lines(diff)]


def hits_page(query: str, hits: Sequence[MemoryHit]) -> list[Part]:
    """What a search found, best first, each with where it is from, when it was written and why it was found."""
    if not hits:
        return [line(f"Nothing in memory or past sessions matches “{query}”.")]
    lines: list[Part] = [line((NO_GOOD_MATCH, "yellow")), line("")] if any(hit.is_guess for hit in hits) else []
    for hit in hits:
        why = f"  {hit.why}" if hit.why else ""
        lines.append(
            line((hit.place or hit.source, "bold cyan"), repeats(hit), (f"  {local_minute(hit.at_ms)}{why}", "dim"))
        )
        lines += [line(f"  {text}") for text in hit.text.split("\n")]
    return lines


def archive_page(entries: Sequence[Archived], *, now_ms: int) -> list[Part]:
    """The archival entries, newest first."""
    lines: list[Part] = []
    for one in entries:
        recalled = f"recalled {one.times} {'time' if one.times == 1 else 'times'}"
        head = f"{standing(one, now_ms=now_ms)}; {one.entry.scope}, {local_minute(one.entry.at_ms)}, {recalled}"
        lines += _entry_lines(one.entry, head.replace("`", ""))
    return lines or markdown_page(archive_table((), now_ms=now_ms))


def traps_page(noted: Sequence[BoundEntry], *, now_ms: int) -> list[Part]:
    """Traps, constraints and decisions with whether each holds."""
    lines: list[Part] = []
    for one in noted:
        entry = one.entry
        head = f"{bound_standing(one, now_ms=now_ms)}; {entry.scope}, {entry.actor}, {local_minute(entry.at_ms)}"
        lines += [*_entry_lines(entry, head), line((f"  {head_of(one)}", "dim"))]
    return lines


def _entry_lines(entry: ArchivalEntry, head: str) -> list[Part]:
    # The id takes half of a narrow terminal, which would leave a table's text no room.
    return [
        line((entry.id, "bold cyan"), (f"  {head}", "dim")),
        *(line(f"  {text}") for text in entry.text.split("\n")),
    ]


def forgotten_page(report: ForgottenReport) -> list[Part]:
    """What was forgotten and what is left, without the words themselves."""
    lines = [line(forgotten_sentence(report.taken).replace("`", ""))]
    if not report.taken.whole:
        label = report.taken.label
        lines += diff_lines(unified_diff(report.before, report.after, before_name=label, after_name=label))
    if report.taken.kept_files:
        lines.append(line("/rewind leaves the files alone whose kept states are gone."))
    return [*lines, *(line((note.replace("`", ""), "yellow")) for note in forgotten_notes(report))]


def _word_lines(before: str, after: str) -> list[Part]:
    lines: list[Part] = []
    spans: list[Span] = []
    for part in word_diff(before, after):
        style, mark = _WORD_STYLES[part.change], _WORD_MARKS[part.change]
        marked = [mark.format(text) if text else "" for text in part.text.split("\n")]
        if part.change is not Change.SAME and not part.text.strip("\n"):
            # A line end alone would not be seen.
            marked = [mark.format("↵" * part.text.count("\n")), *[""] * part.text.count("\n")]
        spans.append((marked[0], style))
        for text in marked[1:]:
            lines.append(tuple(spans))
            spans = [(text, style)]
    return [*lines, tuple(spans)]


def _blame_cells(write: Write) -> tuple[Span, Span, Span, Span]:
    return (str(write.number), "bold"), (local_minute(write.at_ms), "dim"), (who(write), ""), (place(write), "dim")


def _fill_style(block: Block) -> str:
    share = len(block.text) / block.limit
    return "red" if share > 0.95 else "yellow" if share > 0.8 else ""


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _EXCERPT else flat[: _EXCERPT - 1] + "…"
