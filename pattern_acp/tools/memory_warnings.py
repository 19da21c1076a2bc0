"""What memory holds about files: which traps, constraints and decisions are meant by a path, and how they are told.

Owns: the meaning of their patterns, which of several come first, and the words. Must not know: when anybody is told, or
what they were told before (`session/edit_warnings.py`). No model and no embedder is asked.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import PurePath

from msgspec import Struct

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.globs import Glob, compile_glob
from pattern_acp.domain.origin import Actor
from pattern_acp.domain.text_limits import cut_middle, one_line, plural
from pattern_acp.memory.freshness import is_stale
from pattern_acp.memory.path_notes import WARNING_KINDS, PathNote, Severity, head_of

MOST_TOLD = 6
"""Entries that are told in full; of the others only the ids are."""

MOST_CHARACTERS = 1_200
"""Of the text of one entry, which `memory_search` has in full."""

_AUTHORS = {Actor.HUMAN: "the person", Actor.PERSONA: "the agent", Actor.IMPORT: "an import"}


class Meant(Struct, frozen=True):
    """An entry and the files, relative to the project, that its patterns mean."""

    bound: PathNote
    files: tuple[str, ...]


def relative_names(paths: Iterable[str], root: str) -> tuple[str, ...]:
    """The names below the project's `root` of those absolute paths that lie there, with forward slashes."""
    names: list[str] = []
    for path in paths:
        try:
            names.append(PurePath(path).relative_to(root).as_posix())
        except ValueError:
            continue
    return tuple(dict.fromkeys(names))


def entries_about(entries: Sequence[PathNote], names: Sequence[str], root: str) -> tuple[Meant, ...]:
    """The entries that mean one of the names, the worst first and among equals the newest."""
    found = [Meant(bound, files) for bound in entries if (files := _files_meant(bound, names, root))]
    ranks = tuple(Severity)
    return tuple(sorted(found, key=lambda meant: (ranks.index(meant.bound.terms.severity), -meant.bound.entry.at_ms)))


def warning_text(unknown: Sequence[Meant], decisions: Sequence[Meant], *, now_ms: int) -> str:
    """What the model reads in the place of the effect: what memory holds about the files, and how to go on."""
    told = unknown[:MOST_TOLD]
    things = plural(len(unknown), "thing")
    count = things if len(told) == len(unknown) else f"{len(told)} of {things}"
    lines = [f"Not done yet, nothing was changed. Memory has {count} to heed about what this call would change:"]
    lines += [f"{number}. {_told(meant, now_ms)}" for number, meant in enumerate(told, 1)]
    if len(told) < len(unknown):
        rest = ", ".join(meant.bound.entry.id for meant in unknown[MOST_TOLD:])
        lines.append(f"Less severe, or older, and not shown here (memory_search finds them): {rest}.")
    lines += [f"Decided about these files: {_told(meant, now_ms)}" for meant in decisions[:MOST_TOLD]]
    if len(decisions) > MOST_TOLD:
        lines.append(f"({MOST_TOLD} of {len(decisions)} decisions.)")
    lines.append(
        "Change the call if it goes against one of these; the same call once more is done. What does not hold any "
        "more, resolve: memory_write with operation resolve, its id as old_text, and the reason."
    )
    return "\n".join(lines)


def again_text(held: Sequence[Meant]) -> str:
    """What the model reads of a second call of one message, whose warning it has had no time to read."""
    ids = ", ".join(meant.bound.entry.id for meant in held)
    return f"Not done yet either, nothing was changed: {ids}, told above, is about this call too. Send it once more."


def unknown_of(meant: Sequence[Meant], known: Collection[str]) -> tuple[Meant, ...]:
    """Those that have to be told before an edit and are not among the known ids."""
    return tuple(one for one in meant if one.bound.terms.kind in WARNING_KINDS and one.bound.entry.id not in known)


def _told(meant: Meant, now_ms: int) -> str:
    entry = meant.bound.entry
    day = datetime.fromtimestamp(entry.at_ms / 1000, UTC).date().isoformat()
    author = _AUTHORS.get(entry.actor, entry.actor.value)
    files = ", ".join(meant.files[:3]) + (f" and {len(meant.files) - 3} more" if len(meant.files) > 3 else "")
    lines = [
        f"[{head_of(meant.bound)}; {author}, {day}; archival entry {entry.id}; because of {files}]",
        cut_middle(entry.text, MOST_CHARACTERS).text,
    ]
    if entry.reason:
        lines.append(f"Why it was noted: {one_line(entry.reason, 300)}")
    if is_stale(entry.verified_ms, now_ms=now_ms):
        how = f"; `{entry.check_command}` tells" if entry.check_command else ""
        lines.append(f"(not checked for long, so find out whether it still holds{how})")
    return "\n".join(lines)


def _files_meant(bound: PathNote, names: Sequence[str], root: str) -> tuple[str, ...]:
    globs = [glob for pattern in bound.terms.paths if (glob := _glob(pattern, root)) is not None]
    return tuple(name for name in names if _means(globs, name))


def _glob(pattern: str, root: str) -> Glob | None:
    # As in `.gitignore`, a slash at the end alone binds a pattern to no folder.
    plain = pattern.removeprefix("!")
    if plain.endswith("/") and "/" not in plain[:-1]:
        pattern = f"{'!' if plain != pattern else ''}**/{plain}"
    try:
        return compile_glob(pattern, root)
    except WorkspaceError:
        # Refused when it was written; words that were forgotten may have made it another one since.
        return None


def _means(globs: Sequence[Glob], name: str) -> bool:
    """Whether the last pattern that says anything of the name, or of a folder above it, means it."""
    parts = name.split("/")
    candidates = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
    for glob in reversed(globs):
        if any(glob.regex.fullmatch(candidate) for candidate in candidates):
            return not glob.negated
    return False
