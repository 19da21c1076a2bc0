"""Printing above a region that is drawn again and again, and the signs that stand for states and kinds.

Owns: rich's console and the region at the bottom, which is redrawn in place and never grows beyond the screen; the two
alphabets of signs, which are one column wide, and words in their place. What is printed stays in the scrollback. Must
not know: what is drawn.
"""

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from msgspec import Struct, field
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.control import Control
from rich.segment import ControlType, Segment
from rich.text import Text

TEXT_COLUMNS = 110
"""Longest lines of running text; wider ones are hard to read."""


class Screen:
    """One console. `live` says whether it can redraw."""

    def __init__(self, console: Console, *, live: bool) -> None:
        self.console = console
        self.can_redraw = live
        self._region: RenderableType | None = None
        self._widths: list[int] = []
        """Columns of the lines of the region, as they were drawn."""

    def print(self, *renderables: RenderableType) -> None:
        """Print for good, above the region."""
        with self._without_region():
            self._print(renderables)

    def _print(self, renderables: tuple[RenderableType, ...]) -> None:
        for renderable in renderables:
            # In a group, since the console joins bare texts and forgets how they are to be wrapped.
            self.console.print(Group(renderable), markup=False, highlight=False)

    def print_text(self, renderable: RenderableType) -> None:
        """Print running text, in lines that can be read."""
        width = min(self.console.width, TEXT_COLUMNS)
        with self._without_region():
            self.console.print(renderable, markup=False, highlight=False, width=width)

    def draw(self, renderable: RenderableType) -> None:
        """Draw the region at the bottom."""
        if not self.can_redraw:
            return
        lines = self.console.render_lines(Bottom(renderable), pad=False)
        if self._region is None:
            self.console.show_cursor(show=False)
        # In one write, so that nothing flickers.
        with self.console:
            self._erase()
            self.console.print(Bottom(renderable), end="", markup=False, highlight=False)
        self._region = renderable
        self._widths = [Segment.get_line_length(line) for line in lines]

    def clear(self) -> None:
        """Remove the region: another part of the program writes now."""
        if self._region is None:
            return
        self._erase()
        self._region = None
        self.console.show_cursor(show=True)

    @contextmanager
    def _without_region(self) -> Generator[None]:
        region = self._region
        with self.console:
            self._erase()
            yield
            if region is not None:
                self.draw(region)

    def _erase(self) -> None:
        # A terminal that became narrower has wrapped the lines again, so that they take more rows now.
        columns = max(self.console.width, 1)
        rows = sum(wrapped_rows(width, columns) for width in self._widths)
        self._widths = []
        if rows:
            erased = (ControlType.ERASE_IN_LINE, 2)
            above = ((ControlType.CURSOR_UP, 1), erased) * (rows - 1)
            self.console.control(Control(ControlType.CARRIAGE_RETURN, erased, *above))


def wrapped_rows(width: int, columns: int) -> int:
    """Rows that a line of so many columns takes on a screen."""
    return max(1, -(-width // columns))


MOST_NARROW = 10
"""Columns that words need beside their margin; on a screen that is narrower they continue at the left."""


class Indented:
    """A renderable moved to the right. Unlike rich's padding it leaves no blanks behind the lines."""

    def __init__(self, inner: RenderableType, columns: int = 4) -> None:
        self._inner = inner
        self._columns = columns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rich's protocol."""
        narrower = options.update(width=max(1, options.max_width - self._columns), height=None)
        for line in console.render_lines(self._inner, narrower, pad=False):
            yield Segment(" " * self._columns)
            yield from line
            yield Segment.line()


class Hanging:
    """Text whose lines continue below their own words when they are too long, not below their signs and numbers.

    `margin` matches what is before the words of a line; a line without it continues at the left.
    """

    def __init__(self, text: Text, margin: re.Pattern[str]) -> None:
        self._text = text
        self._margin = margin

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rich's protocol."""
        for line in self._text.split("\n", allow_blank=True):
            found = self._margin.match(line.plain)
            columns = found.end() if found is not None else 0
            width = options.max_width - columns
            if width < MOST_NARROW or len(line) <= columns:
                yield line
                continue
            for number, part in enumerate(line[columns:].wrap(console, width, overflow="fold")):
                yield Text.assemble(line[:columns] if number == 0 else " " * columns, part)


class Trimmed:
    """A renderable without the empty lines above and below it, and without the blanks behind its lines."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rich's protocol."""
        lines = console.render_lines(self._inner, options.update(height=None), pad=False)
        full = [index for index, line in enumerate(lines) if any(segment.text.strip() for segment in line)]
        for line in lines[full[0] : full[-1] + 1] if full else ():
            yield from without_blanks_behind(line)
            yield Segment.line()


class Bottom:
    """The last lines of a renderable, as many as the screen has space for."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rich's protocol."""
        room = max(1, console.height - 2)
        lines = console.render_lines(self._inner, options.update(height=None), pad=False)
        for index, line in enumerate(lines[-room:]):
            if index:
                yield Segment.line()
            yield from line


def without_blanks_behind(line: list[Segment]) -> list[Segment]:
    """A line up to its last visible character; a coloured ground counts as visible."""
    kept = list(line)
    while kept:
        last = kept.pop()
        if last.style is not None and last.style.bgcolor is not None:
            return [*kept, last]
        text = last.text.rstrip(" ")
        if text:
            return [*kept, Segment(text, last.style, last.control)]
    return kept


_KINDS = {
    "read": "→",
    "edit": "✎",
    "delete": "✂",
    "move": "⇄",
    "search": "⌕",
    "execute": "$",
    "think": "∴",
    "fetch": "↓",
    "switch_mode": "⇆",
    "other": "•",
}

_ASCII_KINDS = {
    "read": ">",
    "edit": "~",
    "delete": "x",
    "move": "=",
    "search": "?",
    "execute": "$",
    "think": ":",
    "fetch": "v",
    "switch_mode": "%",
    "other": "*",
}


class Marks(Struct, frozen=True):
    """One alphabet."""

    done: str = "✓"
    failed: str = "✗"
    waiting: str = "○"
    current: str = "▸"
    dot: str = "·"
    dots: str = "…"
    prompt: str = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
    thought: str = "∴"
    question: str = "?"
    bar: str = "│"
    spinner: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
    kinds: Mapping[str, str] = field(default_factory=lambda: _KINDS)

    def kind(self, kind: str | None) -> str:
        """The sign of one of ACP's tool kinds."""
        return self.kinds.get(kind or "other", self.kinds["other"])


UNICODE = Marks()

ASCII = Marks(
    done="+",
    failed="x",
    waiting="o",
    current=">",
    dot="-",
    dots="...",
    prompt=">",
    thought=":",
    bar="|",
    spinner="|/-\\",
    kinds=_ASCII_KINDS,
)


WORDS = Marks(
    done="done:",
    failed="failed:",
    waiting="waiting:",
    current="chosen:",
    dot="-",
    dots="...",
    prompt=">",
    thought="thought:",
    question="question:",
    bar="|",
    spinner=" ",
    kinds=dict.fromkeys(_KINDS, "") | {"execute": "command"},
)
"""Words for a screen reader, which reads signs out by their names or not at all; titles say what a call does."""


def marks_for(encoding: str) -> Marks:
    """The alphabet that a stream in `encoding` can write."""
    return UNICODE if encoding.lower().replace("-", "").startswith("utf") else ASCII
