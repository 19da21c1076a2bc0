"""The tool apply_patch: one patch over any number of files, all of them or none.

Owns: the grammar of the envelope that OpenAI models write, what each section means for the files as they are, and where
a hunk fits. Must not know: how changes are written (file_changes.py).
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TypeAlias

import anyio.to_thread
from msgspec import Meta, Struct
from msgspec.structs import replace

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.text_limits import cut_line, one_line, plural
from pattern_acp.domain.tool_calls import ToolKind
from pattern_acp.domain.untrusted_blocks import as_stored
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    CodeTarget,
    NothingChangedError,
    PreparedCall,
    ToolContext,
    ToolFailedError,
    ToolInputError,
    WrongTargetError,
    find_target,
    missing_target,
)
from pattern_acp.tools.edit_file import (
    BYTE_ORDER_MARK,
    CANDIDATES_SHOWN,
    EditPassageError,
    closest_lines,
    indent_map,
    indented,
)
from pattern_acp.tools.file_changes import PlannedFileChange, prepared_changes, read_if_there, require_current
from pattern_acp.tools.read_file import text_lines
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.workspace.files import TextFile

BEGIN = "*** Begin Patch"
END = "*** End Patch"
ADD = "*** Add File:"
DELETE = "*** Delete File:"
UPDATE = "*** Update File:"
MOVE = "*** Move to:"
AT_END = "*** End of File"

_UNIFIED = late_pattern(r"@@ -\d+(,\d+)? \+\d+(,\d+)? @@")
"""The header of a unified diff. Its numbers are no part of this format and are passed over: lines say where it fits."""

_OPENS = late_pattern(r"(apply_patch\s+)?<<-?\s*['\"]?\w+['\"]?\s*|```\w*\s*")
_CLOSES = late_pattern(r"\w+\s*|```\s*")
"""The first and last line of a here-document or a code fence around a patch."""


class PatchSyntaxError(ToolInputError):
    """The text is no patch of this format: which line is wrong, and what was expected there."""

    failure_code = "tool.patch-malformed"


class Hunk(Struct, frozen=True):
    """Neighbouring lines of a file as (sign, text), the sign one of space, - and +.

    `anchors` are lines that stand above, from the outermost inwards; `line` is the hunk's 1-based line in the patch.
    """

    anchors: tuple[str, ...]
    lines: tuple[tuple[str, str], ...]
    at_end: bool = False
    line: int = 0

    @property
    def old(self) -> list[str]:
        """The lines that the file must have."""
        return [text for sign, text in self.lines if sign != "+"]


class AddFile(Struct, frozen=True):
    """A new file with its whole text."""

    path: str
    text: str


class DeleteFile(Struct, frozen=True):
    """A file to delete."""

    path: str


class UpdateFile(Struct, frozen=True):
    """Hunks for one file, in the order of the file, and its new name when it gets one. A move may have no hunks."""

    path: str
    hunks: tuple[Hunk, ...]
    move_to: str = ""


Section: TypeAlias = AddFile | DeleteFile | UpdateFile


def parse_patch(text: str) -> tuple[Section, ...]:
    """The sections of a patch, at least one; those that change one file without moving it are one.

    Raises:
        PatchSyntaxError: the text breaks the grammar.
    """
    return _joined_sections(_Parser(text).sections())


def _joined_sections(sections: tuple[Section, ...]) -> tuple[Section, ...]:
    joined: list[Section] = []
    edited: dict[str, int] = {}
    for section in sections:
        if isinstance(section, UpdateFile) and not section.move_to:
            at = edited.setdefault(section.path, len(joined))
            if at < len(joined):
                joined[at] = UpdateFile(section.path, _hunks(joined[at]) + section.hunks)
                continue
        joined.append(section)
    return tuple(joined)


def _hunks(section: Section) -> tuple[Hunk, ...]:
    return section.hunks if isinstance(section, UpdateFile) else ()


class _Parser:
    def __init__(self, text: str) -> None:
        stripped = text.strip("\r\n")
        lines = stripped.split("\n")
        if lines[0].endswith("\r"):
            lines = [line.removesuffix("\r") for line in lines]
        self._first = len(text[: len(text) - len(text.lstrip("\r\n"))].split("\n"))
        if _OPENS.fullmatch(lines[0]) and len(lines) > 2 and _CLOSES.fullmatch(lines[-1]):
            # Models that know the patch as a shell command leave the command's own quoting around it.
            lines = lines[1:-1]
            self._first += 1
        self._lines = lines
        self._at = 0

    def sections(self) -> tuple[Section, ...]:
        if self._lines[0].strip() != BEGIN:
            raise PatchSyntaxError(
                f"A patch starts with the line `{BEGIN}` and ends with `{END}`", advice="send all of it."
            )
        if self._lines[-1].strip() != END:
            raise PatchSyntaxError(
                f"The patch does not end with the line `{END}`", advice="send the whole patch again."
            )
        self._lines.pop()
        self._at = 1
        found: list[Section] = []
        while self._at < len(self._lines):
            if self._lines[self._at].strip():
                found.append(self._section())
            else:
                self._at += 1
        if not found:
            raise PatchSyntaxError("The patch is empty", advice=f"add a section such as `{UPDATE} PATH`.")
        return tuple(found)

    def _section(self) -> Section:
        line = self._lines[self._at].strip()
        for head, read in ((ADD, self._add), (DELETE, self._delete), (UPDATE, self._update)):
            if line.startswith(head):
                path = line.removeprefix(head).strip()
                if not path:
                    raise self._error(f"`{head}` needs a path behind it.")
                self._at += 1
                return read(path)
        raise self._error(f"a section starts with `{ADD} PATH`, `{DELETE} PATH` or `{UPDATE} PATH`")

    def _add(self, path: str) -> AddFile:
        added: list[str] = []
        while self._at < len(self._lines) and not self._lines[self._at].startswith("*** "):
            line = self._lines[self._at]
            if not line.startswith("+"):
                if self._only_blank_until_section():
                    break
                raise self._error(f"every line of `{ADD} {path}` starts with +, empty ones too")
            added.append(line[1:])
            self._at += 1
        return AddFile(path, "".join(f"{line}\n" for line in added))

    def _delete(self, path: str) -> DeleteFile:
        return DeleteFile(path)

    def _update(self, path: str) -> UpdateFile:
        move_to = ""
        if self._at < len(self._lines) and self._lines[self._at].startswith(MOVE):
            move_to = self._lines[self._at].removeprefix(MOVE).strip()
            if not move_to:
                raise self._error(f"`{MOVE}` needs a path behind it")
            self._at += 1
        hunks: list[Hunk] = []
        while self._at < len(self._lines) and not self._starts_section():
            if self._only_blank_until_section():
                break
            hunks.append(self._hunk(path))
        if not hunks and not move_to:
            raise self._error(f"`{UPDATE} {path}` has no hunk of unchanged, removed and added lines", behind=True)
        return UpdateFile(path, tuple(hunks), move_to)

    def _hunk(self, path: str) -> Hunk:
        begins = self._at
        anchors = self._anchors()
        lines: list[tuple[str, str]] = []
        at_end = False
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() == AT_END:
                at_end = True
                self._at += 1
                break
            if line.startswith("@@") or self._starts_section() or self._only_blank_until_section():
                break
            if line[:1] not in {"", " ", "-", "+"}:
                raise self._error(
                    "a line of a hunk starts with a space (unchanged), - (removed) or + (added), and a hunk with @@"
                )
            lines.append((line[:1] or " ", line[1:]))
            self._at += 1
        if not any(sign != " " for sign, _ in lines):
            raise self._error(f"the hunk of {path} that ends here removes and adds nothing", behind=True)
        return Hunk(anchors, tuple(lines), at_end, begins + self._first)

    def _anchors(self) -> tuple[str, ...]:
        anchors: list[str] = []
        while self._at < len(self._lines) and self._lines[self._at].startswith("@@"):
            line = self._lines[self._at]
            if line.startswith("@@") and not line.startswith("@@ ") and line.strip() != "@@":
                raise self._error("`@@` is followed by a space and a line of the file, or by nothing")
            anchor = "" if _UNIFIED.match(line) else line[3:]
            if anchor.strip():
                anchors.append(anchor)
            self._at += 1
        return tuple(anchors)

    def _starts_section(self) -> bool:
        return self._lines[self._at].startswith((ADD, DELETE, UPDATE))

    def _only_blank_until_section(self) -> bool:
        """Tell whether only empty lines, which separate sections, come before the next section or the end."""
        at = self._at
        while at < len(self._lines) and not self._lines[at]:
            at += 1
        is_section = at == len(self._lines) or self._lines[at].startswith((ADD, DELETE, UPDATE))
        return at > self._at and is_section

    def _error(self, sentence: str, *, behind: bool = False) -> PatchSyntaxError:
        at = min(self._at, len(self._lines)) - 1 if behind else self._at
        shown = cut_line(self._lines[max(at, 0)], 120)
        return PatchSyntaxError(f"Line {max(at, 0) + self._first} of the patch (`{shown}`): {sentence.rstrip('.')}.")


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
    except EditPassageError:
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
            raise EditPassageError(
                f"{name}: {_missing(lines, [anchor], done, f'the anchor `@@ {cut_line(anchor, 120)}`')}"
            )
        start = found[0] + 1
    old = hunk.old
    if not old:
        return _insertion(lines, hunk, start, name)
    tolerance, found = lines.find(old, start)
    if not found and hunk.anchors:
        # Models sometimes repeat the anchor as the first unchanged line.
        tolerance, found = lines.find(old, start - 1)
        found = [at for at in found if at == start - 1]
    if hunk.at_end:
        found = [at for at in found if at + len(old) == len(lines.texts)]
        if not found:
            raise EditPassageError(f"{name}: {_missing(lines, old, done, 'the passage at the end of the file')}")
    if not found:
        raise EditPassageError(f"{name}: {_missing(lines, old, done, 'the passage')}")
    if len(found) > 1 and not hunk.anchors:
        raise _not_unique(name, [at + 1 for at in found])
    return _Place(found[0], found[0] + len(old), tolerance)


def _insertion(lines: _Lines, hunk: Hunk, start: int, name: str) -> _Place:
    if hunk.at_end or not lines.texts:
        return _Place(len(lines.texts), len(lines.texts))
    if hunk.anchors:
        return _Place(start, start)
    raise EditPassageError(
        f"{name} only adds lines and does not say where; add unchanged lines, an `@@ LINE` above it, or "
        "`*** End of File` below it. Nothing was changed."
    )


def _missing(lines: _Lines, wanted: list[str], done: int, what: str) -> str:
    _, anywhere = lines.find(wanted, 0)
    if anywhere and anywhere[0] < done:
        return (
            f"{what} is at line {anywhere[0] + 1}, before the end of the hunk above it. The hunks of a file are in its "
            "order. Nothing was changed."
        )
    if anywhere:
        return f"{what} is at line {anywhere[0] + 1}, which is not where the hunk says; nothing was changed."
    return f"{what} is not in the file; nothing was changed. {closest_lines(lines.texts, wanted)}"


def _not_unique(name: str, numbers: list[int]) -> EditPassageError:
    shown = ", ".join(str(number) for number in numbers[:CANDIDATES_SHOWN])
    more = f" and {len(numbers) - CANDIDATES_SHOWN} more" if len(numbers) > CANDIDATES_SHOWN else ""
    return EditPassageError(
        f"{name} fits in {len(numbers)} places, at lines {shown}{more}; nothing was changed.",
        advice="Add unchanged lines until it fits in one, or a line `@@ LINE` with a line above the place.",
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

    input: Annotated[str, Meta(min_length=1, description="From *** Begin Patch to *** End Patch.")]


class ApplyPatch:
    """Applies a patch, all of its files or none."""

    spec = ToolSpec(
        "apply_patch",
        "Edit, add, move or delete files by a patch; all or none.",
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
                f"The patch names {target.shown} more than once. Nothing was changed.",
                advice="Put all its hunks into one section.",
            )
        seen.add(target.resolved)


async def _plan(section: Section, target: CodeTarget, to: CodeTarget | None, context: ToolContext) -> PlannedFileChange:
    before = await read_if_there(target, context)
    if isinstance(section, AddFile):
        return _addition(section, target, before)
    if before is None:
        raise await missing_target(target, "Nothing was changed.")
    is_known = require_current(target, before, context)
    if isinstance(section, DeleteFile) or to is not None:
        await _require_no_link(target)
    if isinstance(section, DeleteFile):
        return PlannedFileChange(target, before, None, f"Deleted {target.shown}.")
    if to is not None and await _exists(to):
        raise WrongTargetError(f"{to.shown} exists already, so nothing is moved there. Nothing was changed.")
    patched = await _patched(section, target, before)
    summary = _summary(target, to, patched)
    line = patched.lines[0] if patched.lines else 1
    return PlannedFileChange(target, before, patched.text, summary, line, is_known, to)


def _addition(section: AddFile, target: CodeTarget, before: TextFile | None) -> PlannedFileChange:
    if before is not None:
        raise WrongTargetError(
            f"{target.shown} exists already. Nothing was changed.",
            advice=f"Change it with `*** Update File: {target.shown}`.",
        )
    lines = plural(len(text_lines(section.text)), "line")
    return PlannedFileChange(target, None, section.text, f"Created {target.shown} ({lines}).", knows_text=True)


async def _patched(section: UpdateFile, target: CodeTarget, before: TextFile) -> PatchedText:
    if not section.hunks:
        return PatchedText(before.text, ())
    try:
        return await anyio.to_thread.run_sync(partial(apply_hunks, before.text, section.hunks))
    except PatternError as error:
        raise ToolFailedError(
            f"{target.shown}: {error.sentence}", advice=error.advice, failure_code=error.failure_code
        ) from error


async def _require_no_link(target: CodeTarget) -> None:
    if await anyio.to_thread.run_sync(Path(target.path).is_symlink):
        raise WrongTargetError(
            f"{target.shown} is a symbolic link. Nothing was changed.",
            advice="Name the file that it leads to, or use a command.",
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
