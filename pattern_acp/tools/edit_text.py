"""Replacing passages in a text. Pure.

Owns: where a passage is, what stands there afterwards, and the error that lets the model correct itself. Must not know:
files, permissions, the person.

A passage is looked for exactly. Only when it is nowhere, it is looked for line by line without regard to indentation,
trailing space and line endings, and the replacement is indented as the place it goes to; the result says so. Line
endings, a byte order mark and a missing final newline stay as they are in the file.
"""

import difflib
import re
from collections.abc import Sequence

from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.tools.base import NothingChangedError, ToolFailedError
from pattern_acp.tools.line_match import Place, find_lines, replaced_lines
from pattern_acp.tools.text_limits import cut_line, numbered

BYTE_ORDER_MARK = "\ufeff"

CANDIDATES_SHOWN = 10
"""Line numbers that an error lists for a passage that is not unique."""

CLOSEST_LINES = 12
"""Lines that an error shows near where the passage was probably meant."""

COMPARED_LINES = 5_000
"""Most different lines that are compared for likeness; comparing is slow and only feeds a hint."""

COMPARED_CHARS = 400
"""Characters of a line up to which it is compared; longer ones are data."""

_COPIED_NUMBER = re.compile(r"^\s*\d+\t")


@dataclass(frozen=True, slots=True)
class Replacement:
    """One replacement: `old_text` by `new_text`, once or everywhere."""

    old_text: str
    new_text: str
    replace_all: bool = False


@dataclass(frozen=True, slots=True)
class EditResult:
    """The text after all replacements, how many were made, the 1-based lines they start at, and what to know."""

    text: str
    count: int
    lines: tuple[int, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Step:
    text: str
    offsets: tuple[int, ...]
    note: str = ""


class PassageError(ToolFailedError):
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
    body = with_newline(text.removeprefix(mark), "\n") if newline else text.removeprefix(mark)
    count, lines, notes = 0, list[int](), list[str]()
    for index, replacement in enumerate(replacements):
        step = _apply_one(body, _in_newlines(replacement, newline, mark), f"edits[{index}]")
        body = step.text
        count += len(step.offsets)
        lines.extend(_line_numbers(body, step.offsets))
        notes.extend(filter(None, [step.note]))
    after = mark + (with_newline(body, newline) if newline else body)
    if after == text:
        raise NothingChangedError("The edits together leave the file as it is; nothing was changed.")
    return EditResult(after, count, tuple(lines), tuple(notes))


def newline_of(text: str) -> str:
    r"""The line ending that all lines of `text` share: `\n` or `\r\n`; "" when mixed or when there is none."""
    breaks = text.count("\n")
    if breaks == 0:
        return ""
    windows = text.count("\r\n")
    if windows == 0:
        return "\n"
    return "\r\n" if windows == breaks else ""


def with_newline(text: str, newline: str) -> str:
    """`text` with every line ended by `newline`."""
    unix = text.replace("\r\n", "\n")
    return unix if newline == "\n" else unix.replace("\n", newline)


def _in_newlines(replacement: Replacement, newline: str, mark: str) -> Replacement:
    old = replacement.old_text.removeprefix(mark)
    new = replacement.new_text.removeprefix(mark)
    if newline:
        old, new = with_newline(old, "\n"), with_newline(new, "\n")
    return Replacement(old, new, replacement.replace_all)


def _apply_one(text: str, replacement: Replacement, name: str) -> _Step:
    if not replacement.old_text:
        return _fill_empty(text, replacement, name)
    if replacement.old_text == replacement.new_text:
        sentence = f"`{name}` has the same old_text and new_text; leave it out or correct it."
        raise ToolFailedError(sentence)
    offsets = _offsets_of(text, replacement.old_text)
    if offsets:
        return _replace_at(text, replacement, offsets, name)
    for tried, note in _tolerant_tries(replacement, name):
        places = find_lines(text, tried.old_text)
        if places:
            return _replace_lines(text, tried, places, name, note)
    sentence = f"`{name}.old_text` is not in the file; nothing was changed. {_hint(text, replacement)}"
    raise PassageError(sentence)


def _fill_empty(text: str, replacement: Replacement, name: str) -> _Step:
    if text:
        sentence = f"`{name}.old_text` is empty; give the passage to replace, or write the whole file with write_file."
        raise ToolFailedError(sentence)
    return _Step(replacement.new_text, (0,))


def _offsets_of(text: str, passage: str) -> list[int]:
    offsets: list[int] = []
    at = text.find(passage)
    while at >= 0:
        offsets.append(at)
        # Overlapping places count too: which of them is meant cannot be told.
        at = text.find(passage, at + 1)
    return offsets


def _line_numbers(text: str, offsets: Sequence[int]) -> list[int]:
    """The 1-based line of each offset; the offsets ascend, so that the text is counted through once."""
    numbers: list[int] = []
    line, counted = 1, 0
    for offset in offsets:
        line += text.count("\n", counted, offset)
        counted = offset
        numbers.append(line)
    return numbers


def _replace_at(text: str, replacement: Replacement, offsets: list[int], name: str) -> _Step:
    if len(offsets) > 1 and not replacement.replace_all:
        raise _not_unique(name, _line_numbers(text, offsets))
    pieces: list[str] = []
    starts: list[int] = []
    length = end = 0
    for offset in offsets:
        if offset < end:
            continue
        pieces += [text[end:offset], replacement.new_text]
        length += offset - end
        starts.append(length)
        length += len(replacement.new_text)
        end = offset + len(replacement.old_text)
    pieces.append(text[end:])
    return _Step("".join(pieces), tuple(starts))


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


def _replace_lines(text: str, replacement: Replacement, places: list[Place], name: str, note: str) -> _Step:
    if len(places) > 1 and not replacement.replace_all:
        raise _not_unique(name, [place.line for place in places])
    pieces: list[str] = []
    starts: list[int] = []
    length = end = 0
    for place in places:
        if place.start < end:
            continue
        new = replaced_lines(text[place.start : place.end], replacement.old_text, replacement.new_text)
        pieces += [text[end : place.start], new]
        length += place.start - end
        starts.append(length)
        length += len(new)
        end = place.end
    pieces.append(text[end:])
    return _Step("".join(pieces), tuple(starts), note)


def _not_unique(name: str, lines: list[int]) -> PassageError:
    shown = ", ".join(str(line) for line in lines[:CANDIDATES_SHOWN])
    more = f" and {len(lines) - CANDIDATES_SHOWN} more" if len(lines) > CANDIDATES_SHOWN else ""
    return PassageError(
        f"`{name}.old_text` is in the file {len(lines)} times, at lines {shown}{more}; nothing was changed. "
        "Add neighbouring lines until it is unique, or set replace_all."
    )


def _hint(text: str, replacement: Replacement) -> str:
    if replacement.new_text.strip() and replacement.new_text in text:
        return "The new_text is already there, so this edit may have been made before."
    return closest_lines(text.replace("\r\n", "\n").split("\n"), replacement.old_text.splitlines())


def closest_lines(lines: list[str], passage: list[str]) -> str:
    """Sentences that show the numbered lines nearest to a passage that is not there, or say that none is like it."""
    wanted = [line.strip() for line in passage]
    at = _closest_line(lines, wanted)
    if at is None:
        return "No line is like it; read the file again."
    height = min(max(len(wanted) + 2, 3), CLOSEST_LINES)
    first = max(at - 1, 0)
    shown = [cut_line(line, 300) for line in lines[first : first + height]]
    return f"The closest lines are:\n{numbered(shown, first + 1)}"


def _closest_line(lines: list[str], wanted: list[str]) -> int | None:
    """Where the passage probably begins: by the longest of its lines that the text has, or has nearly."""
    stripped = [line.strip() for line in lines]
    present = set(stripped)
    for line in sorted(filter(None, wanted), key=len, reverse=True):
        if len(line) > 3 and line in present:
            return max(stripped.index(line) - wanted.index(line), 0)
    longest = max(wanted, key=len, default="")[:COMPARED_CHARS]
    candidates = [line for line in dict.fromkeys(stripped) if 0 < len(line) <= COMPARED_CHARS][:COMPARED_LINES]
    near = difflib.get_close_matches(longest, candidates, n=1, cutoff=0.5)
    return stripped.index(near[0]) if near else None
