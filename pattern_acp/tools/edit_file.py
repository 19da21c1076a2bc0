"""The tool edit_file: exact replacement, and finding the text that is to be replaced.

Owns: what counts as a match, and the sentences about texts that do not match. Must not know: how changes are written
(file_changes.py).
"""

import difflib
import heapq
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import partial
from itertools import accumulate
from typing import Annotated

import anyio.to_thread
from msgspec import Meta, Struct

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.text_limits import cut_line, numbered, plural
from pattern_acp.domain.tool_calls import ToolKind
from pattern_acp.domain.untrusted_blocks import as_stored
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    CodeTarget,
    NothingChangedError,
    PreparedCall,
    ToolContext,
    ToolFailedError,
    find_target,
    missing_target,
)
from pattern_acp.tools.file_changes import (
    PlannedFileChange,
    changed_since,
    prepared_change,
    read_if_there,
    require_current,
)
from pattern_acp.tools.read_file import text_lines
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.workspace.files import TextFile

BYTE_ORDER_MARK = "\ufeff"

CANDIDATES_SHOWN = 10
"""Line numbers that an error lists for a passage that is not unique."""

CLOSEST_LINES = 12
"""Lines that an error shows near where the passage was probably meant."""

COMPARED_LINES = 40
"""Most different lines that are compared for likeness, those that share most pieces; comparing is slow and only feeds a
hint."""

COMPARED_PIECES = 24
"""Pieces of three characters of the line that is looked for, by which the lines to compare are chosen."""

COMPARED_CHARS = 400
"""Characters of a line up to which it is compared; longer ones are data."""

TELLING_CHARACTERS = 80
"""Characters from which a single line hardly is in a file by chance."""

CLOSEST_LIKENESS = 0.5
"""From which likeness a line is shown as the closest one."""

REMOVED_LIKENESS = 0.6
"""From which likeness a line may be the one that an edit removes."""

_COPIED_NUMBER = re.compile(r"^\s*\d+\t")


class MatchedLines(Struct, frozen=True):
    """A run of whole lines: character offsets (the end is after the last line's ending) and the 1-based first line."""

    start: int
    end: int
    line: int


class Replacement(Struct, frozen=True):
    """One replacement: `old_text` by `new_text`, once or everywhere."""

    old_text: str
    new_text: str
    replace_all: bool = False


class EditResult(Struct, frozen=True):
    """The text after all replacements, where it is other text now, and notes for the model."""

    text: str
    places: tuple[tuple[int, int], ...]
    """For each replacement the 1-based line where it starts in the text, and the number of its lines."""
    notes: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Number of replacements."""
        return len(self.places)

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines where replacements start."""
        return tuple(line for line, _ in self.places)


class EditPassageError(ToolFailedError):
    """A passage is missing or not unique: the text may differ from what the model believes."""

    failure_code = "tool.passage-not-unique"


def apply_replacements(text: str, replacements: Sequence[Replacement]) -> EditResult:
    """Apply the replacements in order, each on the result of the one before.

    Raises:
        PassageError: a passage is not there or not unique; shows the closest lines or the candidates.
        ToolFailedError: a replacement is empty or changes nothing.
    """
    mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
    newline = newline_of(text)
    body = _Body(with_newline(text.removeprefix(mark), "\n") if newline else text.removeprefix(mark))
    for index, replacement in enumerate(replacements):
        _apply_one(body, _in_newlines(replacement, newline, mark), f"edits[{index}]")
    after = mark + (with_newline(body.text, newline) if newline else body.text)
    if after == text:
        raise NothingChangedError("The edits together leave the file as it is; nothing was changed.")
    return EditResult(after, tuple(body.places), tuple(body.notes))


class _Body:
    """A text that is replaced in place: a large one is not copied for every edit.

    It is stored as UTF-8, in which a passage begins and ends only where characters do; offsets count bytes.
    """

    def __init__(self, text: str) -> None:
        self.places: list[tuple[int, int]] = []
        """See `EditResult.places`."""
        self.notes: list[str] = []
        self._bytes = bytearray(_encoded(text))
        self._counted = (0, 1)
        """An offset and the line that it is on, as counted last; what is before it has not changed since."""

    @property
    def text(self) -> str:
        """The text as it is now."""
        return self._bytes.decode("utf-8", "surrogatepass")

    def __bool__(self) -> bool:
        return bool(self._bytes)

    def offsets_of(self, passage: str) -> list[int]:
        """Find the passage. Overlapping places count too: nothing shows which of them is meant."""
        wanted = _encoded(passage)
        offsets: list[int] = []
        at = self._bytes.find(wanted)
        while at >= 0:
            offsets.append(at)
            at = self._bytes.find(wanted, at + 1)
        return offsets

    def line_at(self, offset: int) -> int:
        """The 1-based line of an offset; quick when offsets come in their order."""
        counted, line = self._counted if offset >= self._counted[0] else (0, 1)
        line += self._bytes.count(b"\n", counted, offset)
        self._counted = (offset, line)
        return line

    def replace(self, offset: int, end: int, new: str) -> int:
        """Put `new` instead of the bytes from `offset` to `end`, and give where it ends."""
        line, encoded = self.line_at(offset), _encoded(new)
        added = encoded.count(b"\n") - self._bytes.count(b"\n", offset, end)
        if added:
            self.places = [(at + added if at > line else at, height) for at, height in self.places]
        self.places.append((line, new.count("\n") + (not new.endswith("\n"))))
        self._bytes[offset:end] = encoded
        return offset + len(encoded)

    def replace_all(self, offsets: Sequence[int], old: str, new: str) -> None:
        """Put `new` instead of `old` at the ascending offsets, those that overlap the one before left out."""
        length, encoded = len(_encoded(old)), _encoded(new)
        pieces: list[bytes | bytearray] = []
        starts: list[int] = []
        made = end = 0
        for offset in offsets:
            if offset < end:
                continue
            pieces += [self._bytes[end:offset], encoded]
            starts.append(made + offset - end)
            made = starts[-1] + len(encoded)
            end = offset + length
        pieces.append(self._bytes[end:])
        self._bytes = bytearray().join(pieces)
        self._counted = (0, 1)
        height = new.count("\n") + (not new.endswith("\n"))
        places = [(self.line_at(start), height) for start in starts]
        # Where the text before them has other lines now.
        added = new.count("\n") - old.count("\n")
        before = [line - added * number for number, (line, _) in enumerate(places)]
        self.places = [(at + added * bisect_left(before, at), tall) for at, tall in self.places] + places


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def newline_of(text: str) -> str:
    r"""The line ending that all lines of `text` share: `\n` or `\r\n`; "" when mixed or when there is none."""
    if "\n" not in text:
        return ""
    # Most texts have no carriage return at all, and that one is nowhere is seen much faster than pairs are counted.
    windows = text.count("\r\n") if "\r" in text else 0
    if windows == 0:
        return "\n"
    return "\r\n" if windows == text.count("\n") else ""


def with_newline(text: str, newline: str) -> str:
    """`text` with every line ended by `newline`."""
    unix = text.replace("\r\n", "\n") if "\r" in text else text
    return unix if newline == "\n" else unix.replace("\n", newline)


def _in_newlines(replacement: Replacement, newline: str, mark: str) -> Replacement:
    old = replacement.old_text.removeprefix(mark)
    new = replacement.new_text.removeprefix(mark)
    if newline:
        old, new = with_newline(old, "\n"), with_newline(new, "\n")
    return Replacement(old, new, replacement.replace_all)


def _apply_one(body: _Body, replacement: Replacement, name: str) -> None:
    if not replacement.old_text:
        _fill_empty(body, replacement, name)
        return
    if replacement.old_text == replacement.new_text:
        raise ToolFailedError(f"`{name}` has the same old_text and new_text", advice="leave it out or correct it.")
    offsets = body.offsets_of(replacement.old_text)
    if not offsets and "<\\" in replacement.old_text:
        # Requests show our own marks in files with a backslash.
        old, new = (as_stored(text, body.text) for text in (replacement.old_text, replacement.new_text))
        replacement = Replacement(old, new, replacement.replace_all)
        offsets = body.offsets_of(old)
    if len(offsets) > 1 and not replacement.replace_all:
        raise _not_unique(name, [body.line_at(offset) for offset in offsets])
    if len(offsets) == 1:
        body.replace(offsets[0], offsets[0] + len(_encoded(replacement.old_text)), replacement.new_text)
        return
    if offsets:
        body.replace_all(offsets, replacement.old_text, replacement.new_text)
        return
    text = body.text
    for tried, note in _tolerant_tries(replacement, name):
        places = find_lines(text, tried.old_text)
        if places:
            _replace_lines(body, text, tried, places, name)
            body.notes.append(note)
            return
    hint = _hint(text, replacement)
    sentence = f"`{name}.old_text` is not in the file; nothing was changed. {hint}"
    raise EditPassageError(sentence, advice=READ_AGAIN if hint.endswith(NO_LINE_LIKE_IT) else "")


def _fill_empty(body: _Body, replacement: Replacement, name: str) -> None:
    if body:
        advice = "give the passage to replace, or write the whole file with write_file."
        raise ToolFailedError(f"`{name}.old_text` is empty", advice=advice)
    body.replace(0, 0, replacement.new_text)


def _tolerant_tries(replacement: Replacement, name: str) -> list[tuple[Replacement, str]]:
    note = f"`{name}` matched only without regard to white space; the replacement was indented like the file."
    tries = [(replacement, note)]
    old = _without_numbers(replacement.old_text)
    if old is not None:
        new = _without_numbers(replacement.new_text)
        plain = Replacement(old, replacement.new_text if new is None else new, replacement.replace_all)
        tries.append((plain, f"`{name}` held line numbers copied from read_file; they were left out."))
    return tries


def _without_numbers(text: str) -> str | None:
    lines = text.split("\n")
    if not all(_COPIED_NUMBER.match(line) for line in lines if line.strip()) or not text.strip():
        return None
    return "\n".join(_COPIED_NUMBER.sub("", line) for line in lines)


def _replace_lines(body: _Body, text: str, replacement: Replacement, places: list[MatchedLines], name: str) -> None:
    if len(places) > 1 and not replacement.replace_all:
        raise _not_unique(name, [place.line for place in places])
    # From one end of a place to the next, in characters of the old text and bytes of the new one.
    read = written = 0
    for place in places:
        if place.start < read:
            continue
        found = text[place.start : place.end]
        start = written + len(_encoded(text[read : place.start]))
        new = replaced_lines(found, replacement.old_text, replacement.new_text)
        written = body.replace(start, start + len(_encoded(found)), new)
        read = place.end


def _not_unique(name: str, lines: list[int]) -> EditPassageError:
    shown = ", ".join(str(line) for line in lines[:CANDIDATES_SHOWN])
    more = f" and {len(lines) - CANDIDATES_SHOWN} more" if len(lines) > CANDIDATES_SHOWN else ""
    return EditPassageError(
        f"`{name}.old_text` is in the file {len(lines)} times, at lines {shown}{more}; nothing was changed.",
        advice="Add neighbouring lines until it is unique, or set replace_all.",
    )


def _hint(text: str, replacement: Replacement) -> str:
    lines = text.replace("\r\n", "\n").split("\n")
    closest = closest_lines(lines, replacement.old_text.splitlines())
    made_at = _made_at(text, lines, replacement)
    if made_at is None:
        return closest
    return f"The new_text is already at line {made_at}, so this edit may have been made before. {closest}"


def _made_at(text: str, lines: list[str], replacement: Replacement) -> int | None:
    """The line at which new_text stands as the edit would have left it; None where it may be there by chance.

    A short line is in many places. And as long as the text has a line like one that the edit removes, the edit
    has not been made.
    """
    old, new = (
        [line.strip() for line in passage.splitlines() if line.strip()]
        for passage in (replacement.old_text, replacement.new_text)
    )
    offset = text.find(replacement.new_text)
    if offset < 0 or (len(new) < 2 and len("".join(new)) < TELLING_CHARACTERS):
        return None
    removed = [line for line in old if line not in new]
    if len(removed) == len(old) and text.find(replacement.new_text, offset + 1) >= 0:
        # No neighbour says which of the places it would be.
        return None
    others = {line.strip() for line in lines}.difference(new)
    if removed and _most_alike(max(removed, key=len), others, REMOVED_LIKENESS):
        return None
    return text.count("\n", 0, offset) + 1


NO_LINE_LIKE_IT = "No line is like it."
READ_AGAIN = "Read the file again."


def closest_lines(lines: list[str], passage: list[str]) -> str:
    """Sentences that show the numbered lines nearest to a passage that is not there, or say that none is like it."""
    wanted = [line.strip() for line in passage]
    at = _closest_line(lines, wanted)
    if at is None:
        return NO_LINE_LIKE_IT
    height = min(max(len(wanted) + 2, 3), CLOSEST_LINES)
    first = max(at - 1, 0)
    shown = [cut_line(line, 300) for line in lines[first : first + height]]
    return f"The closest lines are:\n{numbered(shown, first + 1)}"


def _closest_line(lines: list[str], wanted: list[str]) -> int | None:
    """Find the probable beginning of the passage: by the longest of its lines that the text has, or has nearly."""
    stripped = [line.strip() for line in lines]
    counts = Counter(stripped)
    longest = max(wanted, key=len, default="")
    there = [line for line in sorted(wanted, key=len, reverse=True) if len(line) > 3 and line in counts]
    # A line that is in several places says less than one that is nearly there.
    found = next((line for line in there if counts[line] == 1), "")
    if found:
        return max(stripped.index(found) - wanted.index(found), 0)
    near = _most_alike(longest, counts, CLOSEST_LIKENESS)
    if near:
        return max(stripped.index(near) - wanted.index(longest), 0)
    return max(stripped.index(there[0]) - wanted.index(there[0]), 0) if there else None


def _most_alike(wanted: str, lines: Iterable[str], likeness: float) -> str:
    """The line that is most like the wanted one; "" when none is like it."""
    wanted = wanted[:COMPARED_CHARS]
    candidates = [line for line in lines if 0 < len(line) <= COMPARED_CHARS]
    near = difflib.get_close_matches(wanted, _sharing_most(candidates, wanted), n=1, cutoff=likeness)
    return near[0] if near else ""


def _sharing_most(candidates: list[str], wanted: str) -> list[str]:
    """The lines that have most pieces of the wanted one, in time that grows with their number only."""
    if len(candidates) <= COMPARED_LINES:
        return candidates
    pieces = list(dict.fromkeys(wanted[at : at + 3] for at in range(max(len(wanted) - 2, 1))))
    step = -(-len(pieces) // COMPARED_PIECES)
    looked_for = pieces[::step]
    return heapq.nlargest(COMPARED_LINES, candidates, key=lambda line: sum(map(line.__contains__, looked_for)))


LINES_NAMED = 10
"""Line numbers that a result lists."""


class Edit(Struct, frozen=True, forbid_unknown_fields=True):
    """One replacement."""

    old_text: Annotated[str, Meta(description="Exact, no line numbers; unique unless replace_all.")]
    new_text: str
    replace_all: bool = False


class EditFileArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of edit_file."""

    path: Annotated[str, Meta(min_length=1)]
    edits: Annotated[tuple[Edit, ...], Meta(min_length=1)]


class EditFile:
    """Replaces passages of a file, all or none of them."""

    spec = ToolSpec(
        "edit_file",
        "Replace passages of a file, in order; all or none.",
        input_schema(EditFileArguments),
    )
    kind = ToolKind.EDIT
    changes_things = True

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, EditFileArguments)
        target = await find_target(asked.path, context)
        return prepared_change(f"Edit {target.shown}", await _plan(asked, target, context), context)


async def _plan(asked: EditFileArguments, target: CodeTarget, context: ToolContext) -> PlannedFileChange:
    before = await read_if_there(target, context)
    if before is None:
        raise await missing_target(target, advice="A new file is made with write_file.")
    is_known = require_current(target, before, context)
    replacements = [Replacement(edit.old_text, edit.new_text, edit.replace_all) for edit in asked.edits]
    result = await anyio.to_thread.run_sync(partial(apply_replacements, before.text, replacements))
    summary = _summary(target, result)
    if is_known or context.may_read(target.resolved):
        # The neighbours of a replacement are the file's, which policy may not let the model read.
        summary = f"{summary}\n{await anyio.to_thread.run_sync(resulting_lines, result)}"
    return PlannedFileChange(target, before, result.text, summary, result.lines[0], is_known)


def _summary(target: CodeTarget, result: EditResult) -> str:
    lines = ", ".join(str(line) for line in result.lines[:LINES_NAMED])
    more = ", ..." if len(result.lines) > LINES_NAMED else ""
    where = f"{'line' if len(result.lines) == 1 else 'lines'} {lines}{more}"
    sentences = [f"Edited {target.shown}: {plural(result.count, 'replacement')} at {where}.", *result.notes]
    return " ".join(sentences)


PLACES_SHOWN = 4
"""Places of an edit whose lines a result shows."""

LINES_OF_PLACE = 16
"""Lines that a result shows of one place, from its two ends."""


def resulting_lines(result: EditResult) -> str:
    """The numbered lines that the edit left, each place with a line before and behind it; the ends of a long one."""
    lines = text_lines(result.text)
    shown: list[str] = []
    reached = 0
    places = sorted(result.places)
    for line, height in places[:PLACES_SHOWN]:
        first, last = max(line - 1, reached + 1, 1), min(line + height, len(lines))
        if first > last:
            continue
        if reached and first > reached + 1:
            shown.append("...")
        reached, half = last, LINES_OF_PLACE // 2
        cut = [cut_line(text, 300) for text in lines[first - 1 : last]]
        if len(cut) <= LINES_OF_PLACE:
            shown.append(numbered(cut, first))
        else:
            shown += [numbered(cut[:half], first), "...", numbered(cut[-half:], last - half + 1)]
    more = len(places) - PLACES_SHOWN
    return "\n".join([*shown, *([f"[{plural(more, 'place')} more]"] if more > 0 else [])])


LOOKED_FOR_FIRST = 4
"""Lines of a passage, the longest, that are looked for in the text before it is split."""


def find_lines(text: str, passage: str) -> list[MatchedLines]:
    """Find the lines of `passage` in `text`, ignoring indentation, trailing space and line endings.

    Blank lines at either end of the passage are left out; a passage of blank lines is nowhere.
    """
    wanted = [line.strip() for line in passage.split("\n")]
    while wanted and not wanted[0]:
        wanted.pop(0)
    while wanted and not wanted[-1]:
        wanted.pop()
    # Splitting a large text takes many times as long as seeing that a line is nowhere in it.
    if not wanted or any(line not in text for line in sorted(wanted, key=len)[-LOOKED_FOR_FIRST:]):
        return []
    lines = split_lines(text)
    stripped = [line.strip() for line in lines]
    offsets = _offsets(lines)
    height = len(wanted)
    return [
        MatchedLines(offsets[at], offsets[at + height], at + 1)
        for at in range(len(lines) - height + 1)
        if stripped[at] == wanted[0] and stripped[at : at + height] == wanted
    ]


def replaced_lines(found: str, old: str, new: str) -> str:
    """Return the replacement of the lines `found` when `old` was meant and `new` is wanted.

    A line that is the same in `old` and `new` stays as it is in the file; any other is indented as the file indents
    what `old` has at the same depth. The line ending of the file's lines stays, a missing last one too.
    """
    kept = split_lines(found)
    old_lines = _trimmed(old)
    new_lines = _trimmed(new)
    if not new_lines:
        return ""
    ending = _ending(kept[0]) or "\n"
    indents = indent_map(old_lines, kept)
    result: list[str] = []
    matcher = SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if tag == "equal":
            result += [_without_ending(line) for line in kept[old_from:old_to]]
        else:
            result += [indented(line, indents) for line in new_lines[new_from:new_to]]
    return ending.join(result) + _ending(kept[-1])


def split_lines(text: str) -> list[str]:
    """The lines of a file with their ends; the last one may have none."""
    # str.splitlines also splits at form feeds and Unicode separators, which are text inside a line of code.
    pieces = text.split("\n")
    lines = [f"{piece}\n" for piece in pieces[:-1]]
    return [*lines, pieces[-1]] if pieces[-1] else lines


def _offsets(lines: list[str]) -> list[int]:
    return list(accumulate(map(len, lines), initial=0))


def _trimmed(text: str) -> list[str]:
    lines = [_without_ending(line) for line in text.split("\n")]
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _ending(line: str) -> str:
    if line.endswith("\r\n"):
        return "\r\n"
    return "\n" if line.endswith("\n") else ""


def _without_ending(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def indent_map(old_lines: list[str], kept: list[str]) -> dict[str, str]:
    """Map each depth of `old_lines` to the indentation in the file (`kept`); the lists are equally long."""
    indents: dict[str, str] = {}
    for old, file in zip(old_lines, kept, strict=True):
        if old.strip():
            indents.setdefault(_indent(old), _indent(_without_ending(file)))
    return indents


def indented(line: str, indents: dict[str, str]) -> str:
    """A new line indented as the file indents that depth; `indents` from `indent_map`, not empty."""
    if not line.strip():
        return ""
    indent = _indent(line)
    text = line[len(indent) :]
    if indent in indents:
        return indents[indent] + text
    outer = [known for known in indents if indent.startswith(known)]
    if outer:
        nearest = max(outer, key=len)
        return indents[nearest] + indent[len(nearest) :] + text
    shallowest = min(indents, key=len)
    file_indent = indents[shallowest]
    less = len(shallowest) - len(indent)
    return file_indent[: max(len(file_indent) - less, 0)] + text


class WriteFileArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of write_file."""

    path: Annotated[str, Meta(min_length=1)]
    content: str


class WriteFile:
    """Writes a whole file. Overwrites only what the model has read as it is now."""

    spec = ToolSpec(
        "write_file",
        "Create a file, or replace one you have read.",
        input_schema(WriteFileArguments),
    )
    kind = ToolKind.EDIT
    changes_things = True

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, WriteFileArguments)
        target = await find_target(asked.path, context)
        change = await _plan_whole(asked, target, context)
        return prepared_change(f"{'Create' if change.before is None else 'Write'} {target.shown}", change, context)


async def _plan_whole(asked: WriteFileArguments, target: CodeTarget, context: ToolContext) -> PlannedFileChange:
    before = await read_if_there(target, context)
    lines = plural(len(text_lines(asked.content)), "line")
    if before is None:
        return PlannedFileChange(target, None, asked.content, f"Created {target.shown} ({lines}).", knows_text=True)
    _require_read(before, target, context)
    after = _in_form_of(before.text, asked.content)
    if after == before.text:
        raise NothingChangedError(f"{target.shown} already has exactly this text; nothing was written.")
    summary = f"Wrote {target.shown} ({lines}, {len(text_lines(before.text)):,} before)."
    return PlannedFileChange(target, before, after, summary, knows_text=True)


def _require_read(before: TextFile, target: CodeTarget, context: ToolContext) -> None:
    known = context.read_fingerprints.get(target.resolved)
    if known == before.fingerprint or not before.text:
        return
    happened = "exists, and has not been read yet" if known is None else "was changed since it was read"
    raise changed_since(f"{target.shown} {happened}.", target, before, context)


def _in_form_of(before: str, content: str) -> str:
    """The content with the file's byte order mark and, where it has only Windows line endings, with those."""
    mark = BYTE_ORDER_MARK if before.startswith(BYTE_ORDER_MARK) else ""
    text = content.removeprefix(BYTE_ORDER_MARK) if mark else content
    return mark + (with_newline(text, "\r\n") if newline_of(before) == "\r\n" else text)
