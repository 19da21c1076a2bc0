"""`/group`, and watches: a persona that works in the background once what it watches has changed.

Owns: what was typed, the list of groups, looking for changes between turns, and the bounds: how often an hour, how much
in all, one at a time, and only while the folder is trusted as it is. Must not know: how a group runs, or how a subagent
works in the background (`session/subagents/background.py`), which also says what becomes of its report: the next turn
reads it, the user's or one of the agent's own.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from pattern_acp.commands.document import Column, ItemList, Paragraph, Result, Table, as_result, columns
from pattern_acp.commands.parameters import CommandMisusedError, first_word
from pattern_acp.db.connection import Transaction
from pattern_acp.definitions.groups import GROUPS_FILE, GroupDefinition
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.globs import compile_glob
from pattern_acp.domain.tool_calls import TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.domain.untrusted_blocks import untrusted_block
from pattern_acp.journal.events import JobStarted, ToolCallFinished, ToolCallStarted, WatchSwitched
from pattern_acp.journal.reader import read_stream
from pattern_acp.session.groups import (
    groups_of,
    limit_turn,
    look_at_groups,
    named_group,
    run_goal,
    task_of,
    unknown_persona,
    usable_group,
)
from pattern_acp.session.subagents.background import background_of
from pattern_acp.session.subagents.delegation import lands_whole
from pattern_acp.session.task_commands import tasks_of_user
from pattern_acp.session.turn_tools import own_tools
from pattern_acp.tasks.model import TaskFilter
from pattern_acp.tools.base import DELEGATE, NotAvailableError
from pattern_acp.turn.recorder import NewEvent
from pattern_acp.workspace.walk import in_thread, walk_files

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from pattern_acp.session.ports import Dialogue, ExtendedDialogue
    from pattern_acp.session.session import Session
    from pattern_acp.session.state import SessionState


logger = logging.getLogger(__name__)

HOUR_MS = 3_600_000

MOST_FILES = 20_000
"""Files of a folder that are looked at; what lies beyond wakes nobody."""

MOST_NAMED = 100
"""Changes that are named; the others are counted."""

MOST_TASKS = 1_000

ON = (
    "It looks between turns, and works in the background once something has changed: its report comes with your next "
    "prompt, or in a turn of the agent's own where your editor has such turns. `/workers` shows it, `/group watch {} "
    "off` switches it off."
)


async def switch_watch(session: "Session", argument: str) -> Result:
    """Switch a watch on or off.

    Raises:
        CommandMisusedError: there is no such watch, or another word is behind it.
        PatternError: it cannot be used here.
    """
    name, word = first_word(argument)
    word = word.strip()
    if not name or word not in {"on", "off"}:
        raise CommandMisusedError("Say which watch, and on or off: `/group watch NAME on`.")
    if word == "off":
        known = session.state.watches.get(name)
        if known is None:
            raise CommandMisusedError(f"No watch {name[:40]!r} is on.")
        await _switch_off(session.dialogue, known, Actor.HUMAN, Origin.PERSON)
        return as_result(f"The watch {name} is off.")
    group = await usable_group(session.dialogue, name)
    if group.kind != "watch":
        raise CommandMisusedError(f'{name} is a {group.kind}; `/group {name} "GOAL"` runs it.')
    background_of(session)
    if group.members[0].writes and not lands_whole(session.dialogue):
        raise NotAvailableError(
            f'The watch {name} wakes a worker, which needs the setting worker_changes = "whole" in [delegate].'
        )
    labels = {block.label for block in await session.memory.blocks()}
    missing = next((label for label in group.blocks if label not in labels), "")
    if missing:
        there = ", ".join(sorted(labels))
        raise NotAvailableError(f"The watch {name} names the block {missing}, which is not there; there are {there}.")
    await _switch_on(session, group)
    return as_result(f"The watch {name} is on: {group.summary}, and {group.max} in all. {ON.format(name)}")


async def _switch_on(session: "Session", group: GroupDefinition) -> None:
    turn_id, call_id = session.turn_id, ToolCallId(session.constellation.ids.new("call"))
    # All of its wakes run for this call, and clients know by it that they outlive the turn.
    about = {"kind": group.members[0].kind, "name": group.name, "group": group.name, "background": True}
    view = ToolCallView(call_id, DELEGATE, f"Watch: {group.name}", ToolKind.THINK, {**about})
    switched, text = WatchSwitched(turn_id, group.name, call_id, on=True), f"{group.summary}; {group.max} in all."
    ended = ToolCallFinished(turn_id, call_id, ToolCallStatus.COMPLETED, text, (TextContent(text),))
    await session.recorder.record(
        NewEvent(ToolCallStarted(turn_id, view), Actor.SYSTEM, Origin.AGENT),
        NewEvent(switched, Actor.HUMAN, Origin.PERSON),
        NewEvent(ended, Actor.SYSTEM, Origin.WORKSPACE),
    )
    session.state.watches[group.name] = switched
    if session.watches is None:
        begin_watches(session)
    if isinstance(session.watches, GroupWatches):
        await session.watches.begin(group)


async def _switch_off(dialogue: "Dialogue", known: WatchSwitched, actor: Actor, origin: Origin) -> None:
    await dialogue.recorder.record(NewEvent(replace(known, turn_id=dialogue.turn_id, on=False), actor, origin))
    dialogue.state.watches.pop(known.name, None)


def begin_watches(session: "Session") -> None:
    """Look from now on for what the watches of a session that are on watch."""
    tasks = session.constellation.background
    if tasks is not None:
        session.watches = watches = GroupWatches(session)
        tasks.start_soon(watches.run)


class GroupWatches:
    """The watches of one session that are on."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._known: dict[str, Mapping[str, str]] = {}
        """The state that each knows, from its last wake or from when it was switched on."""
        self._pending: dict[str, Mapping[str, str]] = {}
        """The state at the last look, where that was another."""
        self._changing: set[str] = set()
        """Those whose worker may have changed what they watch since."""

        self._scope = anyio.CancelScope()

    def close(self) -> None:
        """Look no more."""
        self._scope.cancel()

    async def begin(self, group: GroupDefinition) -> None:
        """Take the state of now for what a watch knows."""
        self._known[group.name] = await self._seen(group)
        self._pending.pop(group.name, None)

    async def run(self) -> None:
        """Look until none is on, or the session ends or is another window's."""
        session = self._session
        try:
            with self._scope:
                while session.state.watches and not session.state.is_read:
                    await session.constellation.pause_of_watches()
                    for switched in list(session.state.watches.values()):
                        # What a turn changes is seen at its end.
                        if not session.is_busy:
                            await self._look(switched)
        except PatternError as error:
            logger.warning("the watches of a session ended: %s", error.sentence)
        finally:
            session.watches = None if session.watches is self else session.watches

    async def _look(self, switched: WatchSwitched) -> None:
        group = groups_of(self._session.trust).named(switched.name)
        if group is None:
            await self._end(switched, "it is not there any more")
            return
        begun = (one for one in background_of(self._session).all() if one.call_id == switched.call_id)
        # Also one that has finished, until its report was read: the next one would not know of it.
        running = next((one for one in begun if not one.outcome), None)
        if running is not None:
            if running.subagent.is_over_budget:
                await self._end(switched, "what it may cost is used up")
            return
        seen = await self._seen(group)
        if switched.name not in self._known or switched.name in self._changing:
            # What it changed itself, and what changed before anybody looked, wakes nobody.
            self._changing.discard(switched.name)
            self._known[switched.name] = seen
        if seen == self._known[switched.name]:
            return
        # A look later nothing else may have changed: who is in the middle of it is not done yet.
        if self._pending.get(switched.name) != seen:
            self._pending[switched.name] = seen
            return
        await self._wake(switched, group, seen)

    async def _wake(self, switched: WatchSwitched, group: GroupDefinition, seen: Mapping[str, str]) -> None:
        session, shared = self._session, self._session.constellation
        since = shared.clock.now_ms() - HOUR_MS
        begun = await shared.database.read(
            partial(_wakes_since, session_id=session.session_id, name=group.name, since=since)
        )
        if begun >= group.per_hour:
            return
        await look_at_groups(session.dialogue)
        if not session.trust.granted or groups_of(session.trust).named(group.name) != group:
            await self._end(switched, "what this folder brings has changed")
            return
        changes = _changes(self._known[switched.name], seen)
        parts = (await own_tools(session, switched.turn_id)).parts
        if parts is None or session.is_busy:
            return
        limit_turn(session.state, switched.turn_id, group)
        named = untrusted_block("changes", "\n".join(changes))
        text = (
            f"{_begins(group.name)}, since what it watches has changed. Look at it, and report what matters.\n\n{named}"
        )
        task = await task_of(session.dialogue, parts, group.members[0], text, {})
        task = replace(task, name=group.name, background=True)
        self._known[switched.name] = seen
        self._pending.pop(switched.name, None)
        if group.members[0].writes:
            self._changing.add(switched.name)
        await background_of(session).begin(parts, task, switched.call_id)

    async def _end(self, switched: WatchSwitched, why: str) -> None:
        await _switch_off(self._session.dialogue, switched, Actor.SYSTEM, Origin.AGENT)
        self._session.state.notices.append(
            f"The watch {switched.name} is off, since {why}; `/group watch {switched.name} on` switches it on again."
        )

    async def _seen(self, group: GroupDefinition) -> dict[str, str]:
        """The state of now: each thing that is watched by its name, with what differs once it has changed."""
        session, seen = self._session, dict[str, str]()
        if group.files:
            seen |= await in_thread(partial(_files, session.state.cwd, group.files))
        if group.blocks:
            blocks = {block.label: block.text for block in await session.memory.blocks()}
            seen |= {f"memory block {label}": _hash(blocks[label]) for label in group.blocks if label in blocks}
        if group.tasks:
            rows = await tasks_of_user(session.dialogue).list(TaskFilter(limit=MOST_TASKS))
            seen |= {
                f"task {row.task.number}: {row.task.title}": f"{row.task.status} {row.task.updated_ms}" for row in rows
            }
        return seen


def _hash(text: str) -> str:
    return sha256_hex(text.encode("utf-8", "surrogatepass"))


def _begins(name: str) -> str:
    return f"The watch {name} of this project wakes you"


def _wakes_since(tx: Transaction, *, session_id: str, name: str, since: int) -> int:
    recorded = read_stream(tx, session_id, kinds=(JobStarted,))
    begun = (entry.event.line for entry in recorded if entry.at_ms >= since and isinstance(entry.event, JobStarted))
    return sum(f"{name}: {_begins(name)}" in line for line in begun)


def _files(cwd: str, patterns: "Sequence[str]", stop: "threading.Event") -> dict[str, str]:
    globs = [compile_glob(pattern, cwd) for pattern in patterns]
    wanted, unwanted = [one for one in globs if not one.negated], [one for one in globs if one.negated]
    seen: dict[str, str] = {}
    for count, walked in enumerate(walk_files(cwd, stop)):
        if count >= MOST_FILES:
            break
        if any(one.matches(walked.name) for one in wanted) and all(one.matches(walked.name) for one in unwanted):
            try:
                facts = walked.entry.stat(follow_symlinks=False)
            except OSError:
                continue
            seen[f"file {walked.name}"] = f"{facts.st_mtime_ns} {facts.st_size}"
    return seen


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    words = {name: "new" if name not in before else "changed" for name in now if before.get(name) != now[name]}
    words |= {name: "gone" for name in before if name not in now}
    lines = [f"{name} ({word})" for name, word in sorted(words.items())]
    more = len(lines) - MOST_NAMED
    return [*lines[:MOST_NAMED], *([f"and {more} more"] if more > 0 else [])]


USAGE = '`/group NAME "GOAL"` runs one, `/group NAME` shows it, `/group watch NAME on` or `off` switches a watch.'

NO_GROUPS = (
    f"This project has no groups. `{'/'.join(GROUPS_FILE)}` names some: a pipeline of personas, a panel, or a watch "
    "(docs/how-to/groups.md)."
)


async def run_group(session: "Session", argument: str) -> Result:
    """List the groups, show one, run one, or switch a watch.

    Raises:
        PatternError: a sentence about what is wrong.
    """
    name, rest = first_word(argument)
    if not name:
        return await _listed(session.dialogue)
    if name == "watch":
        return await switch_watch(session, rest)
    goal = rest.strip()
    if len(goal) > 1 and goal[0] == goal[-1] and goal[0] in "\"'" and goal[0] not in goal[1:-1]:
        goal = goal[1:-1].strip()
    if not goal:
        await look_at_groups(session.dialogue)
        return _shown(session.dialogue, named_group(session.trust, name))
    group = await usable_group(session.dialogue, name)
    if group.kind == "watch":
        raise CommandMisusedError(f"{name} is a watch; `/group watch {name} on` switches it on.")
    return as_result(await run_goal(session, group, goal))


async def _listed(dialogue: "ExtendedDialogue") -> Result:
    await look_at_groups(dialogue)
    groups = groups_of(dialogue.trust)
    if not groups.usable and not groups.problems:
        return as_result(NO_GROUPS)
    trusted = "" if dialogue.trust.granted else " (not trusted: /trust)"
    rows = tuple(
        (each.name, f"{each.kind}{_is_on(dialogue.state, each)}{trusted}", each.summary, each.max or "no limit")
        for each in groups.usable
    )
    heads = columns(Column("Group", code=True), "Kind", Column("Personas", limit=300), "At most")
    problems = [*groups.problems, *(unknown_persona(dialogue, each) for each in groups.usable)]
    warnings = (Paragraph(sentence, "warning") for sentence in problems if sentence)
    return as_result(*((Table(heads, rows),) if rows else ()), *warnings, USAGE)


def _is_on(state: "SessionState", group: GroupDefinition) -> str:
    return ", on" if group.name in state.watches else ""


def _shown(dialogue: "Dialogue", group: GroupDefinition) -> Result:
    head = f"**{group.name}** ({group.kind}{_is_on(dialogue.state, group)}): {group.description or group.summary}"
    about = [each.line for each in group.members]
    about += [f"decides: {group.decides.line}"] if group.decides is not None else []
    about += [f"at most {group.max}"] if group.max else []
    missing = unknown_persona(dialogue, group)
    return as_result(head, ItemList(tuple(about)), *((Paragraph(missing, "warning"),) if missing else ()))
