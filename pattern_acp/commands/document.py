"""Answers of commands, in a form that is neither Markdown nor a terminal's.

Owns: the few forms there are, and writing them as Markdown. Must not know: commands. A terminal's form of the same
parts is cli/rendering.py's, and JSON is the result itself.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, field

from pattern_acp.domain.text_limits import fenced, with_visible_characters
from pattern_acp.memory.diffs import mark_words, unified_diff, word_diff

SHOWN_TEXT = 240
"""Characters of what was found that Markdown shows."""


class Paragraph(Struct, frozen=True):
    """A sentence or more; `code` is in backticks. The style is empty, `note`, `warning`, `error` or `dim`."""

    text: str
    style: str = ""


class Heading(Struct, frozen=True):
    """The subject of the answer, and some words about it."""

    text: str
    about: str = ""


class Body(Struct, frozen=True):
    """A stored text as it is."""

    text: str


class Fence(Struct, frozen=True):
    """A text in a fixed form."""

    text: str
    language: str = ""


class Diff(Struct, frozen=True):
    """Two texts compared by lines, or by words."""

    before: str
    after: str
    names: tuple[str, str] = ("", "")
    words: bool = False


class Column(Struct, frozen=True):
    """A column of a table, with its style in a terminal and how much of a cell Markdown shows."""

    title: str
    style: str = ""
    code: bool = False
    """Something to copy: Markdown has it in backticks, and a terminal never cuts it where it has its own line."""
    limit: int = 0
    form: str = "{}"
    """The format in a record or line, which has no headings."""
    right: bool = False
    """Numbers, which stand at the right in Markdown."""
    link: bool = False
    """It leads to what the table links to."""
    heads: bool = False
    """Lines of a terminal that have it in common stand below it."""
    usual: str = ""
    """A cell that lines leave out."""
    below: bool = False
    """Lines of a terminal have it below their other cells."""
    styles: dict[str, str] = field(default_factory=dict[str, str])
    """The styles of cells by their text, where they have their own."""
    lines: bool = False
    """A terminal shows each line of the cell on a line of its own."""


class Table(Struct, frozen=True):
    """Rows of cells.

    As records, a terminal gives each row's last cell lines of its own: ids leave it no width. As lines, a terminal
    shows a row without headings and cut to its width, and Markdown as an item of a list. A pipe gets a table of both.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    form: Literal["table", "records", "lines"] = "table"
    links: tuple[str, ...] = ()
    """The links of the rows."""


class Bars(Struct, frozen=True):
    """A table of names and numbers, in a terminal with a bar for each row; the last row is their sum."""

    table: Table
    sizes: tuple[int, ...]


class ResultRecord(Struct, frozen=True):
    """One thing that was found: where, what is known of it, and its text."""

    head: str
    more: str
    about: tuple[str, ...]
    why: str
    text: str


class ItemList(Struct, frozen=True):
    """Names or sentences, one below the other; numbered where their order counts."""

    items: tuple[str, ...]
    numbered: bool = False

    @property
    def lines(self) -> tuple[str, ...]:
        """Each behind its mark."""
        return tuple(f"{number}. {item}" if self.numbered else f"- {item}" for number, item in enumerate(self.items, 1))


Part: TypeAlias = Paragraph | Heading | Body | Fence | Diff | Table | Bars | ResultRecord | ItemList


def columns(*each: str | Column) -> tuple[Column, ...]:
    """Columns, of which a bare title has no style."""
    return tuple(Column(one) if isinstance(one, str) else one for one in each)


class Result(Struct, frozen=True):
    """The result of a command. Its fields are its JSON."""

    @property
    def document(self) -> Sequence[Part]:
        """The answer as parts."""
        raise NotImplementedError

    @property
    def value(self) -> object:
        """The value that JSON shows; a list where that is all there is."""
        return self

    @property
    def is_failure(self) -> bool:
        """True when the exit code reports a failure."""
        return False


class PartsResult(Result, frozen=True):
    """An answer that is no more than its parts; `facts` are its JSON, and its words where it has none."""

    parts: tuple[Part, ...]
    facts: object = None

    @property
    def value(self) -> object:
        """The facts alone."""
        return self.facts

    @property
    def document(self) -> Sequence[Part]:
        """The parts."""
        return self.parts


def as_result(*parts: Part | str, facts: object = None) -> PartsResult:
    """A result of sentences and other parts, without those that are empty."""
    return PartsResult(tuple(Paragraph(part) if isinstance(part, str) else part for part in parts if part), facts)


class HtmlPage(Result, frozen=True):
    """A page, and the name of the file that it goes into unless the user names one."""

    html: str
    name: str

    @property
    def document(self) -> Sequence[Part]:
        """The text of the page."""
        return (Paragraph(self.html),)


def markdown(parts: Sequence[Part]) -> str:
    """The parts as Markdown."""
    texts: list[str] = []
    for before, part in zip((None, *parts), parts, strict=False):
        joint = "\n" if isinstance(before, ResultRecord) and isinstance(part, ResultRecord) else "\n\n"
        texts += [joint if texts else "", _markdown(part)]
    return "".join(texts)


def _markdown(part: Part) -> str:
    match part:
        case Paragraph(text, style):
            return f"*{text}*" if style == "dim" else f"> {text}" if style else text
        case Heading(text, about):
            return f"### {text} ({about})" if about else f"### {text}"
        case Body(text):
            return text
        case Fence(text, language):
            return fenced(text, language)
        case Diff(before, after, names, words):
            if words:
                text, language = mark_words(word_diff(before, after)), ""
            else:
                text, language = unified_diff(before, after, before_name=names[0], after_name=names[1]), "diff"
            return fenced(text, language)
        case ItemList():
            return "\n".join(part.lines)
        case ResultRecord(head, more, about, why, text):
            reason = f" *({why})*" if why else ""
            return f"- **{head}**{more} ({', '.join(about)}): {one_line(text, SHOWN_TEXT)}{reason}"
        case Bars() | Table():
            return _markdown_table(part.table if isinstance(part, Bars) else part)


def _markdown_table(part: Table) -> str:
    heads, rows = part.columns, part.rows
    if part.form == "lines":
        links = part.links or ("",) * len(rows)
        return "\n".join(_item(heads, row, link) for row, link in zip(rows, links, strict=True))
    lines = [
        [one.title for one in heads],
        ["---:" if one.right else "---" for one in heads],
        *([_cell(one, text) for one, text in zip(heads, row, strict=True)] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _item(heads: Sequence[Column], row: Sequence[str], link: str) -> str:
    cells = [
        f"[{text}]({link})" if one.link and link else f"`{text}`" if one.code else one.form.format(text)
        for one, text in zip(heads, row, strict=True)
        if text != one.usual
    ]
    return f"- {', '.join(cells[:-1])}: {cells[-1]}"


def _cell(column: Column, text: str) -> str:
    if not column.code:
        return cell(text, column.limit) if column.limit else text
    # A bar would end the cell, even in code, and a backtick the code.
    shown = one_line(text, column.limit) if column.limit else text
    return "`" + shown.replace("`", "'").replace("|", r"\|") + "`" if shown else ""


def cell(text: str, limit: int) -> str:
    """A text as one cell of a table."""
    flat = one_line(text, limit * 2).replace("\\", "\\\\").replace("|", "\\|")
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def one_line(text: str, limit: int) -> str:
    """A text on one line, cut to a number of characters."""
    flat = with_visible_characters(" ".join(text.split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
