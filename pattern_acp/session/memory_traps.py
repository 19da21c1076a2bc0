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
from pattern_acp.workspace.globs import split_patterns
from pattern_acp.workspace.paths import absolute_path, resolve_path

HINT = "TEXT --paths GLOB[,GLOB] [--severity high|medium|low] [--until DAY] [--check COMMAND] [--reason TEXT]"

_OPTION = re.compile(
    r'(?:^|\s)--(paths|severity|until|check|reason|scope)(?:[ =]\s*)(?:"((?:[^"\\]|\\.)*)"|(\S+))', re.DOTALL
)
_QUOTED = re.compile(r'\s*"((?:[^"\\]|\\.)*)"(?=\s+--|\s*$)', re.DOTALL)
"""A text in quotes, in which nothing is an option."""
_ESCAPE = re.compile(r'\\(["\\])')

Verb = Callable[[SetupPlace, str], Awaitable[str]]


def note_as(kind: BoundKind) -> Verb:
    """The verb that notes a trap, a constraint or a decision."""

    async def note(place: SetupPlace, argument: str) -> str:
        whole = _QUOTED.match(argument)
        rest = argument if whole is None else argument[whole.end() :]
        given = {name: _ESCAPE.sub(r"\1", quoted) or plain for name, quoted, plain in _OPTION.findall(rest)}
        text = _OPTION.sub("", rest).strip() if whole is None else _ESCAPE.sub(r"\1", whole[1]).strip()
        if not text:
            raise CommandMisusedError(f"Say what it is: /memory {kind} {HINT}.")
        severity, scope = given.get("severity", ""), given.get("scope", "")
        if severity not in {"", *Severity}:
            raise CommandMisusedError(f"A severity is one of {', '.join(Severity)}.")
        if scope not in {"", Scope.PERSONA, Scope.PROJECT}:
            raise CommandMisusedError("A scope is persona or project.")
        paths = tuple(path.strip() for path in split_patterns(given.get("paths", "")) if path.strip())
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
        if kind is not BoundKind.DECISION and len(change.notes) == 1:
            return f"{change.notes[0]} The agent is told before it edits these files."
        return " ".join(change.notes)

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
    return traps_table(await noted_about(place, argument), argument, now_ms=place.setup.now_ms())


async def noted_about(place: SetupPlace, argument: str) -> tuple[BoundEntry, ...]:
    """All that was noted, what holds first; or, with a path, what the agent is told before it edits that file.

    Raises:
        CommandMisusedError: the path cannot be one.
        DatabaseError: the constellation cannot be read.
    """
    bound, now_ms = await place.setup.bound(), place.setup.now_ms()
    path = _path(argument)
    if path:
        heard = [one for one in bound if not (place.isolated and one.entry.scope is Scope.PERSONA)]
        bound = await anyio.to_thread.run_sync(_about, heard, path, place.cwd, now_ms)
    return tuple(sorted(bound, key=lambda one: one.status(now_ms) is not Status.ACTIVE))


def traps_table(noted: Sequence[BoundEntry], argument: str, *, now_ms: int) -> str:
    """What `noted_about` found for an argument, in Markdown."""
    path = _path(argument)
    rows = [
        (
            f"`{one.entry.id}`",
            cell(head_of(one), 120),
            standing(one, now_ms=now_ms),
            f"{one.entry.actor.value}, {local_minute(one.entry.at_ms)}",
            cell(one.entry.text, 200),
        )
        for one in noted
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


def _path(argument: str) -> str:
    return argument.strip().strip('"')


def _about(bound: Sequence[BoundEntry], path: str, cwd: str, now_ms: int) -> tuple[BoundEntry, ...]:
    root = project_root(cwd)
    try:
        names = relative_names([resolve_path(absolute_path(path, cwd))], root)
    except PatternError as error:
        raise CommandMisusedError(error.sentence) from error
    active = [one for one in bound if one.status(now_ms) is Status.ACTIVE]
    return tuple(meant.bound for meant in entries_about(active, names, root))
