"""Instructions of the folders in hand, and which are in force; and other context that is added beside the user's words.

Owns: when a nested or a changed file joins the conversation; that added context waits for the next request, is recorded
first, and is visible to the user. Must not know: which file counts (`context/instructions.py`), or what hooks say.
"""

import os
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from pattern_acp.context.builder import add_context
from pattern_acp.context.instructions import (
    NAMES,
    ProjectInstruction,
    instructions_at,
    nested_instructions,
    own_instructions,
    project_instructions,
    within_total,
)
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId, ToolCallId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.domain.paths import display_path, resolve_path
from pattern_acp.domain.text_limits import plural
from pattern_acp.domain.tool_calls import Location, TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.domain.untrusted_blocks import attribute, untrusted_block
from pattern_acp.journal.events import ContextAdded, InstructionFile, ToolCallFinished, ToolCallStarted
from pattern_acp.session.state import Addition, InjectionQueue
from pattern_acp.turn.recorder import NewEvent, TurnRecorder
from pattern_acp.workspace.git import git_facts

if TYPE_CHECKING:
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.ports import Dialogue
    from pattern_acp.session.state import SessionState


IN_HAND = frozenset({ToolKind.READ, ToolKind.EDIT, ToolKind.DELETE, ToolKind.MOVE})
"""Kinds of calls that take a file in hand."""


async def note_files_in_hand(
    state: "SessionState", kind: ToolKind, locations: Sequence[Location], queue: "InjectionQueue | SessionState"
) -> None:
    """Have the next request of a conversation tell the instructions of these files' folders that it does not have."""
    if kind not in IN_HAND or not locations:
        return
    cwd, roots = state.policy.roots[0], state.policy.roots

    def look() -> list[ProjectInstruction]:
        paths = dict.fromkeys(resolve_path(location.path) for location in locations)
        return [found for path in paths for found in nested_instructions(path, cwd, roots)]

    for found in await anyio.to_thread.run_sync(look):
        addition = addition_of(found, state.cwd)
        if not found.problem and not _is_known(queue, addition):
            queue.waiting.append(addition)
            if queue is state and state.nested_instructions is not None:
                state.nested_instructions[found.path] = _UNSEEN


async def note_changed_files(shared: "Constellation", state: "SessionState") -> None:
    """Have the next request tell the instruction files that changed since the conversation last had them."""
    if shared.elsewhere is not None:
        return
    await _note_nested_files(state)
    stamps = _stamps(state.instructions, str(Path(state.cwd, NAMES[0])))
    if stamps == state.instruction_stamps or (not state.instructions and stamps == (_GONE,)):
        return
    before = {file.path: file for file in state.instructions}
    own = shared.own_instructions

    def look() -> dict[str, ProjectInstruction]:
        files = (*project_instructions(state.cwd, git_facts(state.cwd).root), *own_instructions(own))
        return {each.path: each for each in within_total(files) if each.text}

    found = await anyio.to_thread.run_sync(look)
    state.instruction_stamps = stamps
    if state.settings.definitions.follow == "keep":
        changed = any(path not in before or differs(before[path], each) for path, each in found.items())
        if changed or before.keys() - found.keys():
            state.notices.append(
                "Instruction files have changed, and this session continues with what it has: /definitions diff "
                "compares them, /definitions adopt takes today's."
            )
        return
    for path, each in found.items():
        if path not in before or differs(before[path], each):
            state.waiting.append(addition_of(each, state.cwd))
            state.notices.append(f"{display_path(path, state.cwd)} has changed, and its text counts from now on.")
    for path in before.keys() - found.keys():
        state.waiting.append(_gone_addition(path, state.cwd))
        state.notices.append(f"{display_path(path, state.cwd)} is gone, and its instructions do not count any more.")
    state.instructions = tuple(
        InstructionFile(each.path, each.size, each.identity, each.definition) for each in found.values()
    )


async def _note_nested_files(state: "SessionState") -> None:
    """The same for files of deeper folders that joined the conversation."""
    known = state.nested_instructions
    if known is None:
        own = {file.path for file in state.instructions}
        known = dict.fromkeys((path for path in _told_texts(state) if path not in own), _UNSEEN)
        state.nested_instructions = known
    changed = {path: stamp for path, seen in known.items() if (stamp := _stamp(path)) != seen}
    if not changed:
        return
    told = _told_texts(state)

    def look() -> dict[str, ProjectInstruction | None]:
        return {path: instructions_at(path, state.policy.roots) for path in changed}

    for path, found in (await anyio.to_thread.run_sync(look)).items():
        known[path] = changed[path]
        addition = addition_of(found, state.cwd) if found is not None else _gone_addition(path, state.cwd)
        # What `/clear` took out of the conversation joins it again with the next file below its folder.
        if path not in told or told[path] == text_of(addition).text:
            continue
        shown = display_path(path, state.cwd)
        if state.settings.definitions.follow == "keep":
            state.notices.append(f"{shown} has changed, and this session continues with what it has.")
            continue
        state.waiting.append(addition)
        verb = "has changed, and its text counts from now on" if found is not None else "is gone, and counts no more"
        state.notices.append(f"{shown} {verb}.")


def _told_texts(state: "InjectionQueue | SessionState") -> dict[str, str]:
    """The newest text of each instruction file that the conversation holds, by path."""
    mark = '<context source="instructions '
    return {
        part.text[len(mark) : part.text.index('">')]: part.text
        for message in state.history
        for part in message.parts
        if isinstance(part, TextPart) and part.text.startswith(mark) and '">' in part.text
    }


def _gone_addition(path: str, cwd: str) -> Addition:
    text = f"The file {path} is gone. The project instructions from it do not count any more."
    return Addition("instructions", f"Instructions of {display_path(path, cwd)}", text, source_of(path), path)


def differs(then: InstructionFile, now: ProjectInstruction) -> bool:
    """True when a file says something else than it did; earlier releases recorded sizes alone."""
    return then.identity not in {"", now.identity}


_GONE = (0, 0)
_UNSEEN: tuple[int, int] = (-1, -1)
"""Instead of the time of change and the size of a file that joined the conversation since it was looked at."""


def _stamps(files: Sequence[InstructionFile], expected: str) -> tuple[tuple[int, int], ...]:
    """Times of the last change, in nanoseconds, and sizes; zeros for a file that is not there."""
    return tuple({path: _stamp(path) for path in (*map(attrgetter("path"), files), expected)}.values())


def _stamp(path: str) -> tuple[int, int]:
    try:
        seen = os.stat(path)  # noqa: PTH116  some at each prompt: a Path costs more than the look
    except OSError:
        return _GONE
    return seen.st_mtime_ns, seen.st_size


def addition_of(found: ProjectInstruction, cwd: str) -> Addition:
    """Addition to the conversation for a nested file."""
    shown = display_path(found.path, cwd)
    head = f"Project instructions from {found.path}, for the files below its folder (nearer files win over farther)"
    if found.of_person:
        head = f"Instructions of the user from {found.path}, for every project (the project's win over them)"
    text = "\n".join((head, found.text, *found.notes))
    return Addition("instructions", f"Instructions of {shown}", text, source_of(found.path), found.path)


def source_of(path: str) -> str:
    """Name of a nested file beside its text in the conversation."""
    return f"instructions {path}"


def _is_known(queue: "InjectionQueue | SessionState", addition: Addition) -> bool:
    """True while the conversation has the text; once it was cleared, it is added again."""
    waits = any(each.source == addition.source for each in queue.waiting)
    return waits or attribute(addition.source) in _told(queue)


def _told(queue: "InjectionQueue | SessionState") -> dict[str, int]:
    """The nested files that the conversation holds, by source as its mark has it, with the size of their text."""
    return {f"instructions {path}": len(text.encode("utf-8", "replace")) for path, text in _told_texts(queue).items()}


def instructions_summary(state: "SessionState") -> str:
    """The files in force with their sizes, for /status; empty when there are none."""
    sizes = {file.path: file.size for file in state.instructions}
    sizes |= {source.partition(" ")[2]: size for source, size in _told(state).items()}
    shown = [f"`{path}` ({size:,} bytes)" for path, size in sizes.items()]
    return f"{plural(len(shown), 'file')}: {', '.join(shown)}" if shown else ""


async def add_waiting(
    dialogue: "Dialogue",
    turn_id: TurnId,
    queue: "InjectionQueue | SessionState | None" = None,
    recorder: TurnRecorder | None = None,
) -> None:
    """Put what waits into a conversation, before the request that is about to be built.

    It is the session's own, recorded as such, unless `queue` and `recorder` name another.

    Raises:
        DatabaseError: it could not be recorded; the turn stops.
    """
    queue, recorder = queue or dialogue.state, recorder or dialogue.recorder
    waiting = list(queue.waiting)
    queue.waiting.clear()
    if not waiting:
        return
    ids = dialogue.shared.ids
    parts = tuple(part for addition in waiting for part in (text_of(addition), *addition.parts))
    message = Message(MessageId(ids.new("msg")), Role.USER, parts)
    events = [new for addition in waiting for new in _shown(turn_id, ToolCallId(ids.new("call")), addition)]
    added = ContextAdded(turn_id, message, tuple(addition.source for addition in waiting))
    await recorder.record(*events, NewEvent(added, Actor.SYSTEM, Origin.WORKSPACE))
    add_context(queue.history, message)


def text_of(addition: Addition) -> TextPart:
    """Return the text of an addition as the conversation has it."""
    return TextPart(f"{untrusted_block('context', addition.text, source=addition.source)}\n")


def _shown(turn_id: TurnId, call_id: ToolCallId, addition: Addition) -> tuple[NewEvent, NewEvent]:
    locations = (Location(addition.path),) if addition.path else ()
    call = ToolCallView(call_id, addition.name, addition.title, ToolKind.READ, {}, locations)
    content = (TextContent(addition.text),)
    ended = ToolCallFinished(turn_id, call_id, ToolCallStatus.COMPLETED, addition.text, content=content)
    return (
        NewEvent(ToolCallStarted(turn_id, call), Actor.SYSTEM, Origin.WORKSPACE),
        NewEvent(ended, Actor.SYSTEM, Origin.WORKSPACE),
    )
