"""The tool apply_patch: one patch over any number of files, all of them or none.

Owns: what each section of a patch means for the files as they are, and where a hunk fits. Must not know: the grammar
(patch_format.py), how changes are written (file_changes.py).
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio.to_thread
from msgspec import Meta, Struct
from msgspec.structs import replace

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.tool_calls import ToolKind
from pattern_acp.domain.untrusted_blocks import as_stored
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    NothingChangedError,
    PreparedCall,
    TargetMissingError,
    ToolContext,
    ToolFailedError,
    WrongTargetError,
)
from pattern_acp.tools.edit_file import BYTE_ORDER_MARK, CANDIDATES_SHOWN, PassageError, closest_lines
from pattern_acp.tools.file_changes import FileChange, prepared_changes, read_if_there, require_current
from pattern_acp.tools.line_match import indent_map, indented
from pattern_acp.tools.patch_format import AddFile, DeleteFile, Hunk, Section, UpdateFile, parse_patch
from pattern_acp.tools.read_file import text_lines
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.tools.targets import CodeTarget, find_target, missing_sentence
from pattern_acp.tools.text_limits import cut_line, one_line, plural
from pattern_acp.workspace.files import TextFile

_NOTES = (
    "",
    "matched only without regard to white space at the ends of lines",
    "matched only without regard to indentation; what was added is indented like the file",
)


class PatchedText(Struct, frozen=True):
    """The text after all hunks, the 1-based line at which each begins in it, and what to know."""

    text: str
    lines: tuple[int, ...]
    notes: tuple[str, ...] = ()


class _Place(Struct, frozen=True):
    start: int
    end: int
    tolerance: int = 0


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> PatchedText:
    """The text with every hunk applied, in their order, which must be the order of the file.

    Raises:
        PassageError: a hunk or an anchor is not there or not unique; the sentence shows the closest lines.
        ToolFailedError: the hunks together change nothing.
    """
    mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
    lines = _Lines(text.removeprefix(mark))
    result: list[str] = []
    starts: list[int] = []
    notes: list[str] = []
    done = 0
    for number, given in enumerate(hunks, 1):
        name = f"Hunk {number} (line {given.line} of the patch)"
        hunk, place = _find_as_shown(lines, given, done, name)
        result += lines.raw[done : place.start]
        starts.append(len(result) + 1)
        result += _replacement(lines, hunk, place)
        done = place.end
        if place.tolerance:
            notes.append(f"Hunk {number} {_NOTES[place.tolerance]}.")
    result += lines.raw[done:]
    after = mark + _joined(result, lines)
    if after == text:
        raise NothingChangedError("The hunks together leave the file as it is; nothing was changed.")
    return PatchedText(after, tuple(starts), tuple(notes))


class _Lines:
    """The lines of a file, and where each stands: found at once, however many hunks there are."""

    def __init__(self, text: str) -> None:
        # str.splitlines also splits at form feeds and Unicode separators, which are text inside a line of code.
        self.raw = [f"{line}\n" for line in text.split("\n")]
        last = self.raw.pop().removesuffix("\n")
        self.ends_open = bool(last)
        if last:
            self.raw.append(last)
        self.texts = text.split("\n")
        if not last:
            self.texts.pop()
        if "\r" in text:
            self.texts = [line.removesuffix("\r") for line in self.texts]
        self.newline = "\r\n" if self.raw and self.raw[0].endswith("\r\n") else "\n"
        self._first: dict[str, int] = {}
        self._again: dict[str, list[int]] = {}
        """Places of lines behind their first one; most lines of most files are there once."""
        for at, line in enumerate(self.texts):
            stripped = line.strip()
            if self._first.setdefault(stripped, at) != at:
                self._again.setdefault(stripped, []).append(at)

    def _places(self, stripped: str) -> list[int]:
        first = self._first.get(stripped)
        return [] if first is None else [first, *self._again.get(stripped, ())]

    def find(self, wanted: Sequence[str], start: int) -> tuple[int, list[int]]:
        """The least tolerance with which `wanted` stands somewhere from `start` on, and all such places."""
        stripped = [line.strip() for line in wanted]
        rarest = min(range(len(wanted)), key=lambda at: len(self._places(stripped[at])))
        places = self._places(stripped[rarest])
        last = len(self.texts) - len(wanted)
        near = [at - rarest for at in places[bisect_left(places, start + rarest) :] if at - rarest <= last]
        for tolerance, form in enumerate((str, str.rstrip, str.strip)):
            target = [form(line) for line in wanted]
            found = [at for at in near if [form(line) for line in self.texts[at : at + len(wanted)]] == target]
            if found:
                return tolerance, found
        return 0, []


def _find_as_shown(lines: _Lines, hunk: Hunk, done: int, name: str) -> tuple[Hunk, _Place]:
    try:
        return hunk, _find(lines, hunk, done, name)
    except PassageError:
        # Requests show our own marks in files with a backslash.
        stored = _as_stored(hunk, "\n".join(lines.texts))
        if stored == hunk:
            raise
    return stored, _find(lines, stored, done, name)


def _as_stored(hunk: Hunk, text: str) -> Hunk:
    return replace(
        hunk,
        anchors=tuple(as_stored(anchor, text) for anchor in hunk.anchors),
        lines=tuple((sign, as_stored(line, text)) for sign, line in hunk.lines),
    )


def _find(lines: _Lines, hunk: Hunk, done: int, name: str) -> _Place:
    start = done
    for anchor in hunk.anchors:
        _, found = lines.find([anchor], start)
        if not found:
            raise PassageError(f"{name}: {_missing(lines, [anchor], done, f'the anchor `@@ {cut_line(anchor, 120)}`')}")
        start = found[0] + 1
    old = hunk.old
    if not old:
        return _insertion(lines, hunk, start, name)
    tolerance, found = lines.find(old, start)
    if not found and hunk.anchors:
        # Models sometimes repeat the anchor as the first kept line.
        tolerance, found = lines.find(old, start - 1)
        found = [at for at in found if at == start - 1]
    if hunk.at_end:
        found = [at for at in found if at + len(old) == len(lines.texts)]
        if not found:
            raise PassageError(f"{name}: {_missing(lines, old, done, 'the passage at the end of the file')}")
    if not found:
        raise PassageError(f"{name}: {_missing(lines, old, done, 'the passage')}")
    if len(found) > 1 and not hunk.anchors:
        raise _not_unique(name, [at + 1 for at in found])
    return _Place(found[0], found[0] + len(old), tolerance)


def _insertion(lines: _Lines, hunk: Hunk, start: int, name: str) -> _Place:
    if hunk.at_end or not lines.texts:
        return _Place(len(lines.texts), len(lines.texts))
    if hunk.anchors:
        return _Place(start, start)
    raise PassageError(
        f"{name} only adds lines and does not say where; add kept lines, an `@@ LINE` above it, or `*** End of File` "
        "below it. Nothing was changed."
    )


def _missing(lines: _Lines, wanted: list[str], done: int, what: str) -> str:
    _, anywhere = lines.find(wanted, 0)
    if anywhere and anywhere[0] < done:
        return (
            f"{what} is at line {anywhere[0] + 1}, before the end of the hunk above it; give the hunks in the order of "
            "the file. Nothing was changed."
        )
    if anywhere:
        return f"{what} is at line {anywhere[0] + 1}, which is not where the hunk says; nothing was changed."
    return f"{what} is not in the file; nothing was changed. {closest_lines(lines.texts, wanted)}"


def _not_unique(name: str, numbers: list[int]) -> PassageError:
    shown = ", ".join(str(number) for number in numbers[:CANDIDATES_SHOWN])
    more = f" and {len(numbers) - CANDIDATES_SHOWN} more" if len(numbers) > CANDIDATES_SHOWN else ""
    return PassageError(
        f"{name} fits in {len(numbers)} places, at lines {shown}{more}; nothing was changed. Add kept lines until it "
        "fits in one, or a line `@@ LINE` with a line that stands above the place."
    )


def _replacement(lines: _Lines, hunk: Hunk, place: _Place) -> list[str]:
    found = lines.texts[place.start : place.end]
    indents = indent_map(hunk.old, found) if place.tolerance == 2 else {}
    result: list[str] = []
    removed: list[int] = []
    at = place.start
    for sign, text in hunk.lines:
        if sign == "+":
            # A line that takes the place of another one ends as that one did.
            near = removed[0] if removed else at
            removed = removed[1:] or removed
            result.append((indented(text, indents) if indents else text) + _newline_near(lines, near))
            continue
        if sign == " ":
            result.append(lines.raw[at])
        removed = [*removed, at] if sign == "-" else []
        at += 1
    return result


def _newline_near(lines: _Lines, at: int) -> str:
    """The ending of line `at`, or of the last line, for one that is added there: files may mix them."""
    near = lines.raw[min(at, len(lines.raw) - 1)] if lines.raw else ""
    if near.endswith("\n"):
        return "\r\n" if near.endswith("\r\n") else "\n"
    return lines.newline


def _joined(result: list[str], lines: _Lines) -> str:
    """The lines as one text, with the final newline of the file, or without one as the file."""
    whole = [line if line.endswith("\n") else line + lines.newline for line in result]
    if whole and lines.ends_open:
        whole[-1] = whole[-1].removesuffix("\n").removesuffix("\r")
    return "".join(whole)


LINES_NAMED = 10
"""Line numbers that a result lists for one file."""


class ApplyPatchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of apply_patch."""

    input: Annotated[str, Meta(min_length=1, description="The whole patch, from *** Begin Patch to *** End Patch.")]


class ApplyPatch:
    """Applies a patch, all of its files or none."""

    spec = ToolSpec(
        "apply_patch",
        "Edit, add, move and delete files with a patch. When one hunk does not fit exactly, nothing is changed.",
        input_schema(ApplyPatchArguments),
        free_form="input",
    )
    kind = ToolKind.EDIT
    changes_things = True

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        return await prepare_patch(parse_arguments(arguments, ApplyPatchArguments).input, context)


async def prepare_patch(patch: str, context: ToolContext) -> PreparedCall:
    """The call that applies the patch text, with the diffs of all its files as the preview.

    Raises:
        PatchSyntaxError: the text is no patch.
        ToolFailedError: it does not fit the files as they are.
        WorkspaceError: a file could not be read.
    """
    sections = parse_patch(patch)
    named = [(section, *await _targets_of(section, context)) for section in sections]
    targets = [target for _, target, to in named for target in (target, to) if target is not None]
    title = one_line(", ".join(_title(section, target, to) for section, target, to in named))
    _require_distinct(targets)
    changes = [await _plan(section, target, to, context) for section, target, to in named]
    return prepared_changes(title, changes, context)


async def _targets_of(section: Section, context: ToolContext) -> tuple[CodeTarget, CodeTarget | None]:
    target = await find_target(section.path, context)
    move_to = section.move_to if isinstance(section, UpdateFile) else ""
    if not move_to:
        return target, None
    to = await find_target(move_to, context)
    return target, None if to.path == target.path else to


def _title(section: Section, target: CodeTarget, to: CodeTarget | None) -> str:
    match section:
        case AddFile():
            return f"Create {target.shown}"
        case DeleteFile():
            return f"Delete {target.shown}"
        case UpdateFile():
            return f"Edit {target.shown}" if to is None else f"Move {target.shown} to {to.shown}"


def _require_distinct(targets: list[CodeTarget]) -> None:
    seen: set[str] = set()
    for target in targets:
        if target.resolved in seen:
            raise ToolFailedError(
                f"The patch names {target.shown} more than once; put all its hunks into one section. "
                "Nothing was changed."
            )
        seen.add(target.resolved)


async def _plan(section: Section, target: CodeTarget, to: CodeTarget | None, context: ToolContext) -> FileChange:
    before = await read_if_there(target, context)
    if isinstance(section, AddFile):
        return _addition(section, target, before)
    if before is None:
        raise TargetMissingError(f"{await missing_sentence(target)} Nothing was changed.")
    is_known = require_current(target, before, context)
    if isinstance(section, DeleteFile) or to is not None:
        await _require_no_link(target)
    if isinstance(section, DeleteFile):
        return FileChange(target, before, None, f"Deleted {target.shown}.")
    if to is not None and await _exists(to):
        raise WrongTargetError(f"{to.shown} exists already, so nothing is moved there. Nothing was changed.")
    patched = await _patched(section, target, before)
    summary = _summary(target, to, patched)
    line = patched.lines[0] if patched.lines else 1
    return FileChange(target, before, patched.text, summary, line, is_known, to)


def _addition(section: AddFile, target: CodeTarget, before: TextFile | None) -> FileChange:
    if before is not None:
        raise WrongTargetError(
            f"{target.shown} exists already; change it with `*** Update File: {target.shown}`. Nothing was changed."
        )
    lines = plural(len(text_lines(section.text)), "line")
    return FileChange(target, None, section.text, f"Created {target.shown} ({lines}).", knows_text=True)


async def _patched(section: UpdateFile, target: CodeTarget, before: TextFile) -> PatchedText:
    if not section.hunks:
        return PatchedText(before.text, ())
    try:
        return await anyio.to_thread.run_sync(partial(apply_hunks, before.text, section.hunks))
    except PatternError as error:
        raise ToolFailedError(f"{target.shown}: {error.sentence}", failure_code=error.failure_code) from error


async def _require_no_link(target: CodeTarget) -> None:
    if await anyio.to_thread.run_sync(Path(target.path).is_symlink):
        raise WrongTargetError(
            f"{target.shown} is a symbolic link; name the file that it leads to, or use a command. Nothing was changed."
        )


async def _exists(target: CodeTarget) -> bool:
    return await anyio.to_thread.run_sync(Path(target.path).exists)


def _summary(target: CodeTarget, to: CodeTarget | None, patched: PatchedText) -> str:
    sentences: list[str] = []
    if to is not None:
        sentences.append(f"Moved {target.shown} to {to.shown}.")
    if patched.lines:
        lines = ", ".join(str(line) for line in patched.lines[:LINES_NAMED])
        more = ", ..." if len(patched.lines) > LINES_NAMED else ""
        where = f"{'line' if len(patched.lines) == 1 else 'lines'} {lines}{more}"
        sentences.append(f"Edited {(to or target).shown}: {plural(len(patched.lines), 'hunk')} at {where}.")
    return " ".join([*sentences, *patched.notes])
