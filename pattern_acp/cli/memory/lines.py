"""Lines with styles, for a terminal or a pipe.

Owns: how styled lines become text. Must not know: what they say. Rich is only loaded for a terminal.
"""

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from pattern_acp.cli.output import printable
from pattern_acp.cli.tables import lay_out

Span: TypeAlias = tuple[str, str]
"""A piece of a line and its style, in rich's words; empty for none."""

Line: TypeAlias = tuple[Span, ...]


class Table(Struct, frozen=True):
    """Left-aligned columns two blanks apart, laid out once it is known how wide they may be."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Span, ...], ...]
    """Line ends in cells become blanks."""


Part: TypeAlias = Line | Table
"""What a page is made of."""


def line(*spans: Span | str) -> Line:
    """A line of spans; a bare text has no style."""
    return tuple((span, "") if isinstance(span, str) else span for span in spans)


def text_lines(text: str, style: str = "") -> list[Line]:
    """The lines of a text, in one style."""
    return [line((part, style)) for part in text.split("\n")]


def laid_out(parts: Sequence[Part], width: int | None = None) -> list[Line]:
    """The lines of a page; with a `width` in cells, tables are folded to it."""
    lines: list[Line] = []
    for part in parts:
        lines += _table_lines(part, width) if isinstance(part, Table) else [part]
    return lines


def diff_lines(diff: str) -> list[Line]:
    """A unified diff in its usual colours."""
    styles = {"+": "green", "-": "red", "@": "cyan"}
    lines: list[Line] = []
    for part in diff.split("\n"):
        heading = part.startswith(("+++", "---"))
        lines.append(line((part, "bold" if heading else styles.get(part[:1], ""))))
    return lines


def plain(parts: Sequence[Part]) -> str:
    """The page without styles and without trailing blanks."""
    return "\n".join(printable("".join(text for text, _ in each)).rstrip() for each in laid_out(parts))


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


def _table_lines(table: Table, width: int | None) -> list[Line]:
    rows = [tuple((name, "bold") for name in table.headings), *table.rows]
    cells = [[_cell(text) for text, _ in row] for row in rows]
    return [
        tuple((text, style) for text, (_, style) in zip(folded, row, strict=True))
        for row, lines in zip(rows, lay_out(cells, width), strict=True)
        for folded in lines
    ]


def _cell(text: str) -> str:
    return printable(" ".join(text.split()))
