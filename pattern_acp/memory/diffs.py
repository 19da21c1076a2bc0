"""Two versions of a text compared, by lines and by words.

Owns: the form of a comparison. Must not know: blocks, colours, Markdown.
"""

import difflib
import re
from enum import StrEnum
from itertools import accumulate

from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.memory.edits import Splice

_WORD = re.compile(r"\w+|\s+|[^\w\s]")

_LONGEST_BY_WORD = 4_000
"""Words of a changed passage up to which it is compared word by word: beyond, that takes seconds."""


class Change(StrEnum):
    """What became of a part of a text."""

    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"


@dataclass(frozen=True, slots=True)
class DiffPart:
    """A part of the comparison."""

    change: Change
    text: str


def unified_diff(before: str, after: str, *, before_name: str, after_name: str, context: int = 3) -> str:
    """The lines that changed, in the unified format, without a line end at the end; empty when nothing did."""
    old, new = (text.split("\n") if text else [] for text in (before, after))
    lines = difflib.unified_diff(old, new, before_name, after_name, n=context, lineterm="")
    return "\n".join(lines)


def line_splices(before: str, after: str) -> tuple[Splice, ...]:
    """The lines that changed as splices of `before`."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = [0, *accumulate(len(line) for line in old)]
    return tuple(
        Splice(starts[old_start], starts[old_end] - starts[old_start], "".join(new[new_start:new_end]))
        for tag, old_start, old_end, new_start, new_end in _opcodes(old, new)
        if tag != "equal"
    )


def word_diff(before: str, after: str) -> tuple[DiffPart, ...]:
    """Both texts as one: what stayed, what went, what came, in words and white space.

    Lines are compared first, so that a long text costs little when few of its lines changed.
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    parts: list[DiffPart] = []
    for tag, old_start, old_end, new_start, new_end in _opcodes(old, new):
        gone, come = "".join(old[old_start:old_end]), "".join(new[new_start:new_end])
        if tag == "equal":
            parts.append(DiffPart(Change.SAME, gone))
        else:
            parts += _by_words(gone, come)
    return _joined(parts)


def mark_words(parts: tuple[DiffPart, ...]) -> str:
    """A comparison by words as plain text, in git's form: `[-gone-]` and `{+come+}`."""
    forms = {Change.SAME: "{}", Change.REMOVED: "[-{}-]", Change.ADDED: "{{+{}+}}"}
    return "".join(forms[part.change].format(part.text) for part in parts)


def _by_words(gone: str, come: str) -> list[DiffPart]:
    old, new = _WORD.findall(gone), _WORD.findall(come)
    if max(len(old), len(new)) > _LONGEST_BY_WORD:
        return [DiffPart(Change.REMOVED, gone), DiffPart(Change.ADDED, come)]
    parts: list[DiffPart] = []
    for tag, old_start, old_end, new_start, new_end in _opcodes(old, new):
        if tag == "equal":
            parts.append(DiffPart(Change.SAME, "".join(old[old_start:old_end])))
        else:
            parts.append(DiffPart(Change.REMOVED, "".join(old[old_start:old_end])))
            parts.append(DiffPart(Change.ADDED, "".join(new[new_start:new_end])))
    return parts


def _opcodes(old: list[str], new: list[str]) -> list[tuple[str, int, int, int, int]]:
    return list(difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes())


def _joined(parts: list[DiffPart]) -> tuple[DiffPart, ...]:
    joined: list[DiffPart] = []
    for part in parts:
        if not part.text:
            continue
        if joined and joined[-1].change is part.change:
            joined[-1] = DiffPart(part.change, joined[-1].text + part.text)
        else:
            joined.append(part)
    return tuple(joined)
