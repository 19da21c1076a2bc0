"""Notes and handoffs as files beside those of memory, for a team that shares them in git.

Owns: what is in `notes.md` and `handoffs.md`. Must not know: when files are written (`memory_files.py`). Both are
projections (rule R3) that nobody reads back: an edit of them is written over, and says so at their top.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.clock import day_of, local_minute
from pattern_acp.domain.text_limits import one_line
from pattern_acp.journal.handoffs import STATES, Handoff, handoffs_since
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.path_notes import OF_MACHINE, NoteKind, PathNote, Status, bound_entries, last_day

NOTES, HANDOFFS = "notes.md", "handoffs.md"

SHOWN = 5
"""Handoffs that /handoff and the file show."""

_HEADS = {
    NOTES: "<!-- pattern-acp writes this file from its memory; `/memory traps` lists its notes. -->",
    HANDOFFS: "<!-- pattern-acp writes this file from its journal; `/handoff` leaves one. -->",
}

_SECTIONS = {
    NoteKind.TRAP: "Traps",
    NoteKind.CONSTRAINT: "Constraints",
    NoteKind.DECISION: "Decisions",
}


def note_files(tx: Transaction, *, project: str, persona: str, cwd: str, now_ms: int) -> dict[str, str]:
    """The files by name; an empty text for one that has nothing to say.

    Raises:
        JournalError: an event cannot be understood.
        DatabaseError: the constellation cannot be read.
    """
    notes = bound_entries(tx, ((Scope.PROJECT, project),))
    return {
        NOTES: notes_text([one for one in notes if one.status(now_ms) is Status.ACTIVE]),
        HANDOFFS: handoffs_text(handoffs_since(tx, persona, cwd, 0, limit=SHOWN)),
    }


def notes_text(notes: Sequence[PathNote]) -> str:
    """The notes of a project that hold, by kind; what is about one machine is nothing for the others."""
    parts = [_HEADS[NOTES]]
    for kind, title in _SECTIONS.items():
        lines = [_note(one) for one in notes if one.terms.kind is kind and one.terms.kind not in OF_MACHINE]
        parts += [f"# {title}\n\n" + "\n".join(lines)] if lines else []
    return "\n\n".join(parts) + "\n" if parts[1:] else ""


def handoffs_text(handoffs: Sequence[Handoff]) -> str:
    """The last handoffs of a folder, the newest first."""
    return "\n\n".join([_HEADS[HANDOFFS], *map(handoff_text, handoffs)]) + "\n" if handoffs else ""


def write_note_files(folder: Path, files: Mapping[str, str]) -> tuple[str, ...]:
    """Bring the files up to date; the names of those in the way, which this program did not write. Blocks."""
    strange: list[str] = []
    for name, text in files.items():
        path, content = folder / name, text.encode("utf-8", "replace")
        there = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        if there == content or (there is None and not text and not path.is_symlink()):
            continue
        if path.is_symlink() or (there is not None and not there.startswith(_HEADS[name].encode())):
            strange += [name] if text else []
        elif text:
            folder.mkdir(parents=True, exist_ok=True)
            part = folder / f".{name}.part"
            part.write_bytes(content)
            part.replace(path)
        else:
            path.unlink()
    return tuple(strange)


def _note(note: PathNote) -> str:
    entry, terms = note.entry, note.terms
    facts = [", ".join(f"`{path}`" for path in terms.paths)] if terms.paths else []
    facts += [f"{terms.severity} severity"] if terms.kind is not NoteKind.DECISION else []
    facts += [f"until {last_day(terms.until_ms)}"] if terms.until_ms is not None else []
    facts += [f"check: `{one_line(entry.check_command, 200)}`"] if entry.check_command else []
    facts += [f"verified {day_of(entry.verified_ms)}"] if entry.verified_ms is not None else []
    facts.append(f"{entry.actor.value}, {day_of(entry.at_ms)}, {entry.id}")
    text = "\n  ".join(entry.text.splitlines())
    why = f"\n  Why: {one_line(entry.reason, 300)}" if entry.reason else ""
    return f"- {text}\n  ({'; '.join(facts)}){why}"


def handoff_text(handoff: Handoff) -> str:
    """A handoff as Markdown."""
    left = handoff.left
    lines = [
        f"**{handoff.title or 'A session'}** ({local_minute(handoff.at_ms)}, {STATES.get(left.state, left.state)})"
    ]
    lines.append(f"- Last asked: {left.request}")
    lines += [f"- Open: {step}" for step in left.steps]
    if left.files:
        more = f" ({len(left.files)} of {left.files_in_all})" if left.files_in_all > len(left.files) else ""
        lines.append(f"- Changed: {', '.join(f'`{path}`' for path in left.files)}{more}")
    lines += [f"- Ended with it: `{line}`" for line in left.commands]
    return "\n".join((lines[0], "", *lines[1:]))
