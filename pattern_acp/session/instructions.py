"""Instructions of the folders in hand, and which are in force.

Owns: when a nested or a changed file joins the conversation. Must not know: which file counts
(`context/instructions.py`).
"""

import os
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from pattern_acp.context.instructions import (
    NAMES,
    ProjectInstruction,
    nested_instructions,
    own_instructions,
    project_instructions,
    within_total,
)
from pattern_acp.domain.messages import TextPart
from pattern_acp.domain.paths import display_path, resolve_path
from pattern_acp.domain.text_limits import plural
from pattern_acp.domain.tool_calls import Location, ToolKind
from pattern_acp.domain.untrusted_blocks import attribute
from pattern_acp.journal.events import InstructionFile
from pattern_acp.session.state import Addition
from pattern_acp.workspace.git import git_facts

if TYPE_CHECKING:
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.state import InjectionQueue, SessionState

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


async def note_changed_files(shared: "Constellation", state: "SessionState") -> None:
    """Have the next request tell the instruction files that changed since the conversation last had them."""
    if shared.elsewhere is not None:
        return
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
        shown = display_path(path, state.cwd)
        text = f"The file {path} is gone. The project instructions from it do not count any more."
        state.waiting.append(Addition("instructions", f"Instructions of {shown}", text, source_of(path), path))
        state.notices.append(f"{shown} is gone, and its instructions do not count any more.")
    state.instructions = tuple(
        InstructionFile(each.path, each.size, each.identity, each.definition) for each in found.values()
    )


def differs(then: InstructionFile, now: ProjectInstruction) -> bool:
    """True when a file says something else than it did; earlier releases recorded sizes alone."""
    return then.identity not in {"", now.identity}


_GONE = (0, 0)


def _stamps(files: Sequence[InstructionFile], expected: str) -> tuple[tuple[int, int], ...]:
    """Times of the last change, in nanoseconds, and sizes; zeros for a file that is not there."""
    stamps: dict[str, tuple[int, int]] = {}
    for path in (*map(attrgetter("path"), files), expected):
        try:
            seen = os.stat(path)  # noqa: PTH116  some at each prompt: a Path costs more than the look
        except OSError:
            stamps[path] = _GONE
        else:
            stamps[path] = seen.st_mtime_ns, seen.st_size
    return tuple(stamps.values())


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
    """The nested files that the conversation holds, by source as its mark has it, with the size of what was told."""
    mark = '<context source="instructions '
    texts = [
        part.text
        for message in queue.history
        for part in message.parts
        if isinstance(part, TextPart) and part.text.startswith(mark) and '">' in part.text
    ]
    return {text[len('<context source="') : text.index('">')]: len(text.encode("utf-8", "replace")) for text in texts}


def instructions_summary(state: "SessionState") -> str:
    """The files in force with their sizes, for /status; empty when there are none."""
    sizes = {file.path: file.size for file in state.instructions}
    sizes |= {source.partition(" ")[2]: size for source, size in _told(state).items()}
    shown = [f"`{path}` ({size:,} bytes)" for path, size in sizes.items()]
    return f"{plural(len(shown), 'file')}: {', '.join(shown)}" if shown else ""
