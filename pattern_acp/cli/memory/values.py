"""What `pattern-acp memory --json` prints.

Owns: the form of each answer. Must not know: how it is printed.
"""

from collections.abc import Sequence

from pattern_acp.cli.memory.importing import Imported
from pattern_acp.domain.canonical import Json
from pattern_acp.memory.archive import ArchivalEntry
from pattern_acp.memory.blocks import Block
from pattern_acp.memory.bound import BoundEntry, last_day
from pattern_acp.memory.diffs import mark_words, unified_diff, word_diff
from pattern_acp.memory.history import Write
from pattern_acp.session.memory_markdown import full_label, restorable
from pattern_acp.tools.base import MemoryHit
from pattern_acp.tools.memory_forgetting import ForgottenReport
from pattern_acp.tools.memory_history import Archived, Blamed, BlamedRange, Listed, Verified, Version, Versions
from pattern_acp.tools.memory_reverts import HistoryChange


def hits_value(hits: Sequence[MemoryHit]) -> Json:
    """What a search found, best first.

    `guess` says that none of it is likely an answer, `others` how many older ones of the same text one stands for.
    """
    return [
        {
            "source": hit.source,
            "at_ms": hit.at_ms,
            "text": hit.text,
            "score": round(hit.score, 4),
            "words": list(hit.words),
            "meaning": hit.meaning,
            "why": hit.why,
            "guess": hit.is_guess,
            "others": hit.others,
        }
        for hit in hits
    ]


def list_value(
    blocks: Sequence[Listed],
    deleted: Sequence[Block],
    healed: Sequence[str] = (),
    elsewhere: Sequence[Block] = (),
    damaged: Sequence[str] = (),
    isolation: str = "none",
) -> Json:
    """`blocks`, `deleted`, the labels of those that were damaged and mended, and shared ones not attached here.

    `damaged` are sentences about those that cannot be read; `isolation` is the setting.
    """
    return {
        "blocks": [
            {
                "label": one.label,
                "scope": one.block.key.scope.value,
                "owner": one.block.key.owner,
                "shared_from": one.shared_from,
                "description": one.block.description,
                "characters": len(one.block.text),
                "limit": one.block.limit,
                "last_write": write_value(one.write),
            }
            for one in blocks
        ],
        "deleted": [
            {
                "label": full_label(block),
                "at_ms": block.updated_ms,
                "characters": len(block.text),
                "restore": named,
            }
            for named, block in restorable(deleted)
        ],
        "healed": list(healed),
        "damaged": list(damaged),
        "isolation": isolation,
        "not_attached": [full_label(block) for block in elsewhere],
    }


def archive_value(entries: Sequence[Archived], *, now_ms: int) -> Json:
    """The archival entries, newest first."""
    return [
        {**_entry_value(one.entry), "recalled": one.times, **_terms_value(one.bound, now_ms=now_ms)} for one in entries
    ]


def traps_value(noted: Sequence[BoundEntry], *, now_ms: int) -> Json:
    """Traps, constraints and decisions, what holds first."""
    return [{**_entry_value(one.entry), **_terms_value(one, now_ms=now_ms)} for one in noted]


def _entry_value(entry: ArchivalEntry) -> dict[str, Json]:
    return {
        "id": entry.id,
        "scope": entry.scope.value,
        "owner": entry.owner,
        "text": entry.text,
        "at_ms": entry.at_ms,
        "actor": entry.actor.value,
        "reason": entry.reason,
        "supersedes": entry.supersedes,
        "superseded_by": entry.superseded_by,
        "verified_ms": entry.verified_ms,
        "check_command": entry.check_command,
    }


def _terms_value(bound: BoundEntry | None, *, now_ms: int) -> dict[str, Json]:
    """What an entry is beside its text, whether it holds now, and who said so; null of each for a plain fact."""
    if bound is None:
        return {"kind": None, "paths": [], "severity": None, "until": None, "status": None, "status_change": None}
    terms, changed = bound.terms, bound.changed
    said: Json = None
    if changed is not None:
        said = {"actor": changed.actor.value, "at_ms": changed.at_ms, "reason": changed.reason}
    return {
        "kind": terms.kind.value,
        "paths": list(terms.paths),
        "severity": terms.severity.value,
        "until": None if terms.until_ms is None else last_day(terms.until_ms),
        "status": bound.status(now_ms).value,
        "status_change": said,
    }


def verified_value(checked: Sequence[Verified]) -> Json:
    """The blocks that were checked."""
    return [{"label": one.label, "writes": one.writes, "problems": list(one.problems)} for one in checked]


def version_value(version: Version) -> Json:
    """One version with its text."""
    return {
        "label": version.block.key.label,
        "version": version.write.number,
        "newest": version.block.head_update,
        "text": version.text,
        "write": write_value(version.write),
    }


def log_value(writes: Sequence[Write]) -> Json:
    """A list of writes, newest first."""
    return [write_value(write) for write in writes]


def write_value(write: Write) -> Json:
    """One write."""
    return {
        "number": write.number,
        "at_ms": write.at_ms,
        "actor": write.actor.value,
        "origin": write.origin.value,
        "operation": write.operation,
        "reason": write.reason,
        "event": write.seq,
        "stream": write.stream,
        "session_title": write.title,
        "target": write.target,
        "characters": write.size,
        "lines_added": write.lines_added,
        "lines_removed": write.lines_removed,
    }


def diff_value(versions: Versions, *, words: bool) -> Json:
    """Both versions and the difference."""
    before, after = versions.before, versions.after
    by_lines = unified_diff(before, after, before_name=str(versions.old), after_name=str(versions.new))
    diff = mark_words(word_diff(before, after)) if words else by_lines
    return {"label": versions.label, "old": versions.old, "new": versions.new, "diff": diff}


def blame_value(blamed: Blamed) -> Json:
    """The lines, each with its write."""
    return [
        {"line": line.line, "text": line.text, "write": write_value(blamed.writes[line.number])}
        for line in blamed.lines
    ]


def range_value(spans: Sequence[BlamedRange]) -> Json:
    """The spans, each with its write."""
    return [
        {"start": span.start, "end": span.end, "text": span.text, "write": write_value(span.write)} for span in spans
    ]


def change_value(change: HistoryChange) -> Json:
    """What was done."""
    return {
        "label": change.label,
        "operation": change.operation.value,
        "write": change.number,
        "target": change.target,
        "before": change.before,
        "after": change.after,
        "conflicts": [{"theirs": one.theirs, "ours": one.ours} for one in change.conflicts],
    }


def imported_value(imported: Imported) -> Json:
    """What a file brought."""
    return {
        "label": imported.label,
        "new": imported.is_new,
        "before": imported.before,
        "after": imported.after,
        "known": imported.known,
    }


def forgotten_value(report: ForgottenReport) -> Json:
    """What was forgotten, and what is left. The words are not repeated."""
    return {
        "label": report.taken.label,
        "whole": report.taken.whole,
        "in_text": report.taken.in_text,
        "versions": report.taken.versions,
        "events": report.taken.events,
        "messages": report.messages,
        "archived": report.taken.archived,
        "kept_files": report.taken.kept_files,
        "others": list(report.others),
        "left": list(report.left),
        "backups": [str(path) for path in report.backups],
        "clean": report.clean,
    }
