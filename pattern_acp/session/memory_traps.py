"""Verbs about traps, constraints and decisions, in /memory and in `pattern-acp memory`.

Owns: what is typed behind them and what they answer, in Markdown. Must not know: how anything is stored, or when the
model is told.
"""

import re
from collections.abc import Awaitable, Callable, Sequence

import anyio.to_thread

from pattern_acp.domain.clock import local_minute
from pattern_acp.domain.errors import PatternError
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.bound import BoundEntry, BoundKind, Severity, Status, head_of, last_day
from pattern_acp.memory.freshness import is_stale
from pattern_acp.session.edit_warnings import project_root
from pattern_acp.session.errors import CommandMisusedError
from pattern_acp.session.memory_markdown import cell, table
from pattern_acp.session.memory_setup import SetupPlace, take_word
from pattern_acp.tools.base import MemoryEdit
from pattern_acp.tools.memory_edits import ARCHIVE
from pattern_acp.tools.memory_terms import GivenTerms
from pattern_acp.tools.memory_warnings import entries_about, relative_names
from pattern_acp.workspace.paths import absolute_path, resolve_path

HINT = "TEXT --paths GLOB[,GLOB] [--severity high|medium|low] [--until DAY] [--check COMMAND] [--reason TEXT]"

_OPTION = re.compile(
    r'(?:^|\s)--(paths|severity|until|check|reason|scope)(?:[ =]\s*)(?:"((?:[^"\\]|\\.)*)"|(\S+))', re.DOTALL
)

Verb = Callable[[SetupPlace, str], Awaitable[str]]


def note_as(kind: BoundKind) -> Verb:
    """The verb that notes a trap, a constraint or a decision."""

    async def note(place: SetupPlace, argument: str) -> str:
        given = {name: quoted.replace('\\"', '"') or plain for name, quoted, plain in _OPTION.findall(argument)}
        text = _OPTION.sub("", argument).strip()
        if not text:
            raise CommandMisusedError(f"Say what it is: /memory {kind} {HINT}.")
        severity, scope = given.get("severity", ""), given.get("scope", "")
        if severity not in {"", *Severity}:
            raise CommandMisusedError(f"A severity is one of {', '.join(Severity)}.")
        if scope not in {"", Scope.PERSONA, Scope.PROJECT}:
            raise CommandMisusedError("A scope is persona or project.")
        paths = tuple(path.strip() for path in given.get("paths", "").split(",") if path.strip())
        edit = MemoryEdit(
            ARCHIVE,
            "append",
            text,
            reason=given.get("reason", ""),
            check=given.get("check", ""),
            scope=scope,
            terms=GivenTerms(kind.value, paths, severity, given.get("until", "")),
        )
        change = await place.memory.commit(edit, None)
        told = " The agent is told before it edits these files." if kind is not BoundKind.DECISION else ""
        return f"{change.notes[0]}{told}"

    return note


def set_status_to(operation: str) -> Verb:
    """The verb that resolves an entry, or opens it again."""

    async def change_status(place: SetupPlace, argument: str) -> str:
        entry, reason = take_word(argument)
        if not entry:
            raise CommandMisusedError(f"Say which entry: /memory {operation} ENTRY [REASON]; /memory traps lists them.")
        why = reason.strip() or "The person said so."
        change = await place.memory.commit(MemoryEdit(ARCHIVE, operation, "", old_text=entry, reason=why), None)
        return change.notes[0]

    return change_status


async def list_traps(place: SetupPlace, argument: str) -> str:
    """What was noted, or, with a path, what the agent is told before it edits that file.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    bound, now_ms = await place.setup.bound(), place.setup.now_ms()
    path = argument.strip().strip('"')
    if path:
        bound = await anyio.to_thread.run_sync(_about, bound, path, place.cwd, now_ms)
    rows = [
        (
            f"`{one.entry.id}`",
            cell(head_of(one), 120),
            standing(one, now_ms=now_ms),
            f"{one.entry.actor.value}, {local_minute(one.entry.at_ms)}",
            cell(one.entry.text, 200),
        )
        for one in sorted(bound, key=lambda one: one.status(now_ms) is not Status.ACTIVE)
    ]
    if not rows:
        about = f" that holds is about {cell(path, 80)}" if path else " is noted here"
        return f"No trap, constraint or decision{about}. `/memory trap {HINT}` notes a trap."
    return table(("Entry", "What", "Standing", "By, when", "Text"), rows)


def standing(bound: BoundEntry, *, now_ms: int) -> str:
    """Whether an entry holds, since when not and why, and whether it was not checked for long."""
    status = bound.status(now_ms)
    if status is Status.EXPIRED and bound.terms.until_ms is not None:
        return f"expired after {last_day(bound.terms.until_ms)}"
    if status is Status.RESOLVED and bound.changed is not None:
        return f"resolved by {bound.changed.actor.value}: {cell(bound.changed.reason, 120)}"
    return "active, not checked for long" if is_stale(bound.entry.verified_ms, now_ms=now_ms) else status.value


def _about(bound: Sequence[BoundEntry], path: str, cwd: str, now_ms: int) -> tuple[BoundEntry, ...]:
    root = project_root(cwd)
    try:
        names = relative_names([resolve_path(absolute_path(path, cwd))], root)
    except PatternError as error:
        raise CommandMisusedError(error.sentence) from error
    active = [one for one in bound if one.status(now_ms) is Status.ACTIVE]
    return tuple(meant.bound for meant in entries_about(active, names, root))
