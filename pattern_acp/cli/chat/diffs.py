"""Diffs as rows and as coloured text.

Owns: which lines of a change are shown, with their numbers. Must not know: where the change came from.
"""

import difflib
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from rich.text import Text

from pattern_acp.acp import schema
from pattern_acp.cli.chat.marks import Marks
from pattern_acp.cli.output import printable

CONTEXT = 3
"""Unchanged lines around a change."""

DIFF_MARGIN = re.compile(r" *\d+ [-+ ] ")
"""What stands before the words of a row."""

STYLES = {"-": "red", "+": "green", " ": "dim", "@": "dim cyan"}


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One line. `number` is that of the new text, of the old one for a removed line; 0 between two places."""

    sign: Literal["-", "+", " ", "@"]
    number: int
    text: str


def diff_rows(old: str, new: str) -> list[DiffRow]:
    """The changed lines of a text with their surroundings, a row with the sign `@` between distant places."""
    before, after = old.splitlines(), new.splitlines()
    # The matcher takes quadratic time at worst, and most changes leave most of a file alone.
    start = _shared(before, after)
    end = _shared(before[start:][::-1], after[start:][::-1])
    first = max(0, start - CONTEXT)
    kept = max(0, end - CONTEXT)
    before, after = before[first : len(before) - kept], after[first : len(after) - kept]
    rows: list[DiffRow] = []
    groups = difflib.SequenceMatcher(None, before, after, autojunk=True).get_grouped_opcodes(CONTEXT)
    for group in groups:
        if rows:
            rows.append(DiffRow("@", 0, ""))
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                rows += _rows(" ", after[new_from:new_to], first + new_from)
                continue
            rows += _rows("-", before[old_from:old_to], first + old_from)
            rows += _rows("+", after[new_from:new_to], first + new_from)
    return rows


def diff_text(diff: schema.Diff, cwd: str, marks: Marks, *, limit: int, whole_lines: bool = False) -> Text:
    """A diff with at most `limit` rows, and how many more there are. `whole_lines` wraps long ones, else they are cut.

    Line numbers count from the start of what the agent sent, which is the whole file unless it is large.
    """
    rows = diff_rows(diff.old_text or "", diff.new_text)
    added, removed = (sum(row.sign == sign for row in rows) for sign in "+-")
    text = Text(no_wrap=not whole_lines, overflow="fold" if whole_lines else "ellipsis")
    text.append(printable(shown_path(diff.path, cwd)).replace("\n", " "), style="bold")
    text.append(
        f"  +{added} -{removed}"
        if diff.old_text is not None
        else f"  new file, {added} line{'' if added == 1 else 's'}",
        "dim",
    )
    width = len(str(max((row.number for row in rows), default=0)))
    for row in rows[:limit]:
        text.append("\n")
        text.append(_line(row, width, marks), style=STYLES[row.sign])
    if len(rows) > limit:
        text.append(f"\n{marks.dots} {len(rows) - limit} more lines", style="dim italic")
    if not rows:
        text.append("\nno line changes", style="dim")
    return text


def shown_path(path: str, cwd: str) -> str:
    """`path` relative to the session's folder when it is inside."""
    try:
        return str(PurePath(path).relative_to(cwd)) if cwd else path
    except ValueError:
        return path


def _line(row: DiffRow, width: int, marks: Marks) -> str:
    if row.sign == "@":
        return f"{' ' * width} {marks.dots}"
    return f"{row.number:>{width}} {row.sign} {printable(row.text).expandtabs(4)}"


def _rows(sign: Literal["-", "+", " "], lines: Sequence[str], index: int) -> Iterator[DiffRow]:
    return (DiffRow(sign, number, line) for number, line in enumerate(lines, index + 1))


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines both start with."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
