"""Showing a result: as styled lines in a terminal, maybe through a pager, as plain lines in a pipe, or as JSON.

Owns: the look of each part, and finding the pager. Must not know: commands. Rich is only loaded for a terminal.
"""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pattern_acp.cli.output import GAP, cells_of, fold, lay_out, printable, write_line
from pattern_acp.commands.document import (
    Bars,
    Body,
    Diff,
    Fence,
    Heading,
    ItemList,
    Paragraph,
    Part,
    ResultRecord,
    Table,
)
from pattern_acp.memory.diffs import TextChange, unified_diff, word_diff

Span: TypeAlias = tuple[str, str]
"""A piece of a line and its style, in rich's words; empty for none."""

Line: TypeAlias = tuple[Span, ...]

BAR = 24
"""Cells of the longest bar, where there is space."""

LEAST_BAR = 6
"""Cells of the longest bar in a narrow terminal, where names are cut instead."""

_STYLES = {"note": "yellow", "warning": "yellow", "error": "red"}
_WORD_STYLES = {TextChange.SAME: "", TextChange.REMOVED: "red", TextChange.ADDED: "green"}
_WORD_MARKS = {TextChange.SAME: "{}", TextChange.REMOVED: "[-{}-]", TextChange.ADDED: "{{+{}+}}"}
"""Git's marks: a pipe and a terminal without colours have to tell the words apart too."""


_TYPED = (
    ("/memory help", "memory --help"),
    ("/memory ", "memory "),
    ("/tasks ", "tasks "),
    ("/undelete ", "sessions undelete "),
    ("/trust", "trust"),
)
"""Slash commands that answers name, with the terminal's form of each."""


def show_parts(parts: Sequence[Part], environ: Mapping[str, str], *, pager: bool) -> None:
    """Write an answer to stdout; with colours, and maybe through a pager, when it is a terminal.

    Raises:
        OutputClosed: the reader went away.
    """
    if not sys.stdout.isatty():
        write_line(plain(parts))
        return
    size = shutil.get_terminal_size()
    lines = lines_of(parts, size.columns)
    text = coloured(lines, size.columns)
    command = pager_command(environ) if pager and len(lines) >= size.lines else None
    if command is None or not _page(text, command):
        write_line(text)


def plain(parts: Sequence[Part]) -> str:
    """The answer without styles and without trailing blanks."""
    return "\n".join(printable("".join(text for text, _ in each)).rstrip() for each in lines_of(parts))


def lines_of(parts: Sequence[Part], width: int | None = None) -> list[Line]:
    """The lines of an answer; with a `width` in cells, tables are folded to it."""
    lines: list[Line] = []
    for part in parts:
        lines += _lines(part, width)
    return lines


def _lines(part: Part, width: int | None) -> list[Line]:
    match part:
        case Paragraph(text, style):
            return _paragraph_lines(text, _STYLES.get(style, style), width)
        case Heading(text, about):
            return [((text, "bold cyan"), (f"  {about}", ""))]
        case Body(text):
            return [(), *_text_lines(text), ()]
        case Fence(text):
            return _text_lines(text)
        case Diff(before, after, names, words):
            by_lines = unified_diff(before, after, before_name=names[0], after_name=names[1])
            return _word_lines(before, after) if words else _diff_lines(by_lines)
        case ItemList():
            return [line for item in part.lines for line in _paragraph_lines(item, "", width)]
        case ResultRecord():
            known = "  ".join(("", *part.about, *((part.why,) if part.why else ())))
            head: Line = ((part.head, "bold cyan"), (part.more, ""), (known, "dim"))
            return [head, *_text_lines(part.text, indent="  ")]
        case Bars() | Table():
            return _lines_of_table(part, width)


def _lines_of_table(part: Table | Bars, width: int | None) -> list[Line]:
    if isinstance(part, Bars):
        return _table_lines(part.table, None) if width is None else _bar_lines(part.table, part.sizes, width)
    if part.form == "records":
        return _record_lines(part)
    if part.form == "lines" and width is not None:
        return _entry_lines(part, width)
    return _table_lines(part, width)


def _paragraph_lines(text: str, style: str, width: int | None) -> list[Line]:
    for slash, line in _TYPED:
        text = text.replace(f"`{slash}", f"`pattern-acp {line}")
    lines = printable(text.replace("`", "")).split("\n")
    if width is not None:
        lines = [each for line in lines for each in fold(line, width)]
    return [((line, style),) for line in lines]


def _text_lines(text: str, style: str = "", *, indent: str = "") -> list[Line]:
    return [((f"{indent}{line}", style),) for line in text.split("\n")]


def _record_lines(table: Table) -> list[Line]:
    lines: list[Line] = []
    for first, *about, last in table.rows:
        forms = [one.form.format(cell) for one, cell in zip(table.columns[1:], about, strict=False)]
        lines.append(((first, "bold cyan"), (f"  {'; '.join(forms)}".replace("`", ""), "dim")))
        lines += _text_lines(last, indent="  ")
    return lines


def _table_lines(table: Table, width: int | None) -> list[Line]:
    heads = tuple((one.title.upper(), "bold") for one in table.columns)
    body = (
        tuple(
            (
                cell if one.lines and width is not None else " ".join(cell.split()),
                one.styles.get(cell, one.style),
            )
            for cell, one in zip(row, table.columns, strict=True)
        )
        for row in table.rows
    )
    rows = [heads, *body]
    cells = [[printable(text.replace("`", "")) for text, _ in row] for row in rows]
    return [
        tuple((text, style) for text, (_, style) in zip(folded, row, strict=True))
        for row, lines in zip(rows, lay_out(cells, width), strict=True)
        for folded in lines
    ]


def _entry_lines(table: Table, width: int) -> list[Line]:
    lines: list[Line] = []
    head = ""
    for row in table.rows:
        line: list[Span] = []
        below: list[Line] = []
        for column, cell in zip(table.columns, row, strict=True):
            text = " ".join(printable(column.form.format(cell)).replace("`", "").split())
            if column.heads and text != head:
                lines += [*([()] if head else []), _cut(((text, "bold"),), width)]
                head = text
            elif column.below:
                whole: Line = ((f"    {text}", column.style),)
                below.append(whole if column.code else _cut(whole, width))
            elif cell != column.usual and not column.heads:
                line += [("  ", "")] * bool(line) + [(text, column.style)]
        lines += [_cut(tuple(line), width), *below]
    return lines


def _cut(line: Line, width: int) -> Line:
    """A line of at most `width` cells."""
    text = "".join(each for each, _ in line)
    if cells_of(text) <= width:
        return line
    left, spans = width - 1, list[Span]()
    for each, style in line:
        fits = each
        while cells_of(fits) > left:
            fits = fits[:-1]
        spans.append((fits, style))
        left -= cells_of(fits)
        if fits != each:
            break
    return (*spans, ("…", ""))


def _bar_lines(table: Table, sizes: Sequence[int], width: int) -> list[Line]:
    """The rows of a table with a bar behind each name, as long as its size; names are cut where bars need the width."""
    full = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
    titles = [one.title for one in table.columns]
    counts = [max(cells_of(row[place]) for row in (titles, *table.rows)) for place in range(1, len(titles))]
    names = max(cells_of(row[0]) for row in (titles, *table.rows))
    left = width - sum(counts) - GAP * (len(counts) + 1)
    bar = min(BAR, max(LEAST_BAR, left - names))
    names = max(min(names, left - bar), 1)
    longest = max(*sizes, 1)

    def line(row: Sequence[str], length: int, style: str) -> Line:
        ((name, _), *more) = _cut(((printable(row[0]), ""),), names)
        name += "".join(text for text, _ in more)
        padded = (" " * (GAP + count - cells_of(text)) + text for text, count in zip(row[1:], counts, strict=True))
        drawn = full * length
        return (
            (name + " " * (names - cells_of(name) + GAP), style),
            (drawn, "cyan"),
            (" " * (bar - length), ""),
            ("".join(padded), style),
        )

    bars = [max(round(bar * size / longest), 1 if size else 0) for size in sizes]
    lines = [line(titles, 0, "bold"), *map(line, table.rows, [*bars, 0], [*("" for _ in bars), "bold"])]
    return [_cut(each, width) for each in lines]


def _diff_lines(diff: str) -> list[Line]:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    return [
        ((line, "bold" if line.startswith(("+++", "---")) else styles.get(line[:1], "")),) for line in diff.split("\n")
    ]


def _word_lines(before: str, after: str) -> list[Line]:
    lines: list[Line] = []
    spans: list[Span] = []
    for part in word_diff(before, after):
        style, mark = _WORD_STYLES[part.change], _WORD_MARKS[part.change]
        marked = [mark.format(text) if text else "" for text in part.text.split("\n")]
        if part.change is not TextChange.SAME and not part.text.strip("\n"):
            # A line end alone would not be seen.
            marked = [mark.format("↵" * part.text.count("\n")), *[""] * part.text.count("\n")]
        spans.append((marked[0], style))
        for text in marked[1:]:
            lines.append(tuple(spans))
            spans = [(text, style)]
    return [*lines, tuple(spans)]


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


def pager_command(environ: Mapping[str, str]) -> list[str] | None:
    """The user's pager (`PAGER`), else `less` when it is there; None for no pager."""
    chosen = environ.get("PAGER")
    if chosen is not None:
        words = shlex.split(chosen, posix=sys.platform != "win32") if chosen.strip() else []
        return None if not words or words == ["cat"] else words
    less = shutil.which("less", path=environ.get("PATH"))
    # -R keeps colours, -F leaves at once when it fits, -X leaves the text on the screen.
    return [less, "-RFX"] if less is not None else None


def _page(text: str, command: Sequence[str]) -> bool:
    try:
        subprocess.run(command, input=text.encode("utf-8", "replace"), check=False)  # noqa: S603  # the user's own pager
    except OSError:
        return False
    return True
