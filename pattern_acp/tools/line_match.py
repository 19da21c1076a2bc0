"""Finding and replacing whole lines without regard to white space at their ends. Pure.

Owns: what counts as the same line, and how a replacement is indented. Must not know: why
the exact passage was not found.
"""

from difflib import SequenceMatcher
from itertools import accumulate

from msgspec import Struct

LOOKED_FOR_FIRST = 4
"""Lines of a passage, the longest, that are looked for in the text before it is split."""


class MatchedLines(Struct, frozen=True):
    """A run of whole lines: character offsets (the end is after the last line's ending) and the 1-based first line."""

    start: int
    end: int
    line: int


def find_lines(text: str, passage: str) -> list[MatchedLines]:
    """Where the lines of `passage` stand in `text` when indentation, trailing space and line endings do not count.

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
    """What stands in place of the lines `found` when `old` was meant and `new` is wanted.

    A line that is the same in `old` and `new` stays as it is in the file; any other is indented as the file indents
    what `old` has at the same depth. The line ending of the file's lines is kept, a missing last one too.
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
    """How the file (`kept`) indents what `old_lines` has at each depth; the lists are equally long."""
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
