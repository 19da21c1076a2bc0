"""Parts of a project in words: what there is, and what is new since the person agreed.

Owns: the sentences and lists. Must not know: where they are shown.
"""

import difflib
from collections.abc import Iterable, Sequence

from pattern_acp.domain.project_parts import PartKind, ProjectPart

SHOWN_LINES = 40
"""Lines of one part that a question shows."""


def count_parts(parts: Iterable[ProjectPart]) -> str:
    """`2 hooks and 1 MCP server`."""
    kinds = [part.kind for part in parts]
    counted = [(kinds.count(kind), kind) for kind in PartKind if kind in kinds]
    words = [f"{count} {kind}{'' if count == 1 else 's'}" for count, kind in counted]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "nothing"


def describe_parts(parts: Iterable[ProjectPart]) -> str:
    """Every part with its text, as Markdown."""
    return "\n".join(f"{_heading(part)}\n{_fenced(part.text.splitlines())}" for part in parts)


def describe_changes(before: Sequence[ProjectPart], now: Sequence[ProjectPart]) -> str:
    """What was added, changed and removed since, with the differing lines, as Markdown; empty when nothing was."""
    old = {(part.kind, part.name): part for part in before}
    new = {(part.kind, part.name): part for part in now}
    lines: list[str] = []
    for key, part in new.items():
        if key not in old:
            lines.append(f"{_heading(part)} is new\n{_fenced(part.text.splitlines())}")
        elif old[key] != part:
            lines.append(f"{_heading(part)} has changed\n{_difference(old[key], part)}")
    lines += [f"{_heading(part)} is gone" for key, part in old.items() if key not in new]
    return "\n".join(lines)


def _heading(part: ProjectPart) -> str:
    return f"**{part.kind} {_one_line(part.name)}**"


def _difference(old: ProjectPart, new: ProjectPart) -> str:
    if old.text == new.text:
        return "What it shows is the same; a file or a value behind it is not."
    compared = difflib.unified_diff(old.text.splitlines(), new.text.splitlines(), lineterm="", n=1)
    return _fenced([line for line in compared if not line.startswith(("---", "+++", "@@"))], "diff")


def _fenced(lines: Sequence[str], language: str = "") -> str:
    shown = [_one_line(line) for line in lines[:SHOWN_LINES]]
    if len(lines) > SHOWN_LINES:
        shown.append(f"… and {len(lines) - SHOWN_LINES} more lines")
    fence = "```"
    while any(fence in line for line in shown):
        fence += "`"
    return "\n".join((fence + language, *shown, fence))


def _one_line(text: str) -> str:
    # Nothing that a project wrote may steer a terminal or pretend to be something else.
    return "".join(char if char.isprintable() else "?" for char in text)[:500]
