"""Lines with styles, for a terminal or a pipe.

Owns: how styled lines become text. Must not know: what they say. Rich is only loaded for a terminal.
"""

from collections.abc import Sequence
from typing import TypeAlias

from pattern_acp.cli.output import printable

Span: TypeAlias = tuple[str, str]
"""A piece of a line and its style, in rich's words; empty for none."""

Line: TypeAlias = tuple[Span, ...]


def line(*spans: Span | str) -> Line:
    """A line of spans; a bare text has no style."""
    return tuple((span, "") if isinstance(span, str) else span for span in spans)


def text_lines(text: str, style: str = "") -> list[Line]:
    """The lines of a text, in one style."""
    return [line((part, style)) for part in text.split("\n")]


def table_lines(headings: Sequence[str], rows: Sequence[Sequence[Span]]) -> list[Line]:
    """Left-aligned columns two blanks apart. Line ends in cells become blanks."""
    cells = [
        tuple((name, "bold") for name in headings),
        *([(_cell(text), style) for text, style in row] for row in rows),
    ]
    widths = [max((len(row[column][0]) for row in cells), default=0) for column in range(len(headings))]
    lines: list[Line] = []
    for row in cells:
        spans: list[Span] = []
        for column, (text, style) in enumerate(row):
            last = column == len(row) - 1
            spans.append((text if last else text.ljust(widths[column] + 2), style))
        lines.append(tuple(spans))
    return lines


def diff_lines(diff: str) -> list[Line]:
    """A unified diff in its usual colours."""
    styles = {"+": "green", "-": "red", "@": "cyan"}
    lines: list[Line] = []
    for part in diff.split("\n"):
        heading = part.startswith(("+++", "---"))
        lines.append(line((part, "bold" if heading else styles.get(part[:1], ""))))
    return lines


def plain(lines: Sequence[Line]) -> str:
    """The lines without styles and without trailing blanks."""
    return "\n".join(printable("".join(text for text, _ in each)).rstrip() for each in lines)


def coloured(lines: Sequence[Line], width: int) -> str:
    """The lines with the terminal's codes for their styles, unless colours are unwanted (NO_COLOR)."""
    from io import StringIO

    from rich.console import Console
    from rich.text import Text

    out = StringIO()
    console = Console(file=out, force_terminal=True, width=max(20, width), highlight=False)
    for each in lines:
        console.print(Text.assemble(*((printable(text), style) for text, style in each)), soft_wrap=True)
    return out.getvalue().rstrip("\n")


def _cell(text: str) -> str:
    return printable(" ".join(text.split()))
