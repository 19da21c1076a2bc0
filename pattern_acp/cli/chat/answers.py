"""The agent's text as it arrives.

Owns: two ways to show it: as rendered Markdown on a terminal, and as it is for a pipe. Must not know: calls, plans.
"""

import itertools
import re
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Protocol, TextIO
from urllib.parse import unquote

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

if TYPE_CHECKING:
    from rich.markdown import Markdown

from pattern_acp.cli.chat.screen import Screen, Trimmed
from pattern_acp.cli.output import OutputClosed, printable

TAIL_LINES = 60
"""Lines of an unfinished block that are drawn; no screen shows more, and drawing is paid ten times a second."""


class MarkdownBlocks:
    """Takes a text in pieces and gives its blocks as soon as nothing can change them."""

    def __init__(self) -> None:
        self._pending = ""

    @property
    def pending(self) -> str:
        """The text of the block that is not final."""
        return self._pending

    def feed(self, text: str) -> list[str]:
        """The blocks that `text` made final, with the blank lines behind them."""
        self._pending += text
        if "\n" not in text:
            return []
        cuts = block_starts(self._pending[: self._pending.rfind("\n") + 1])
        blocks = [self._pending[start:end] for start, end in itertools.pairwise(cuts)]
        if blocks:
            self._pending = self._pending[cuts[-1] :]
        return blocks

    def finish(self) -> str:
        """The last block; the text is over."""
        last, self._pending = self._pending, ""
        return last


def block_starts(text: str) -> list[int]:
    """Offsets at which the top-level blocks of `text` begin; the first is 0."""
    # Late, as in `_whole_markdown`.
    from rich.markdown import Markdown

    offsets = [0, *itertools.accumulate(len(line) + 1 for line in text.split("\n"))]
    starts = [
        offsets[token.map[0]]
        for token in Markdown(text).parsed
        if token.level == 0 and token.map is not None and token.nesting >= 0 and token.map[0] < len(offsets)
    ]
    return [0, *(start for start in starts[1:] if start > 0)]


def visible_tail(block: str, lines: int = TAIL_LINES) -> str:
    """The end of an unfinished block, still inside its fence when it has one."""
    found = block.split("\n")
    if len(found) <= lines:
        return block
    opener = found[0].lstrip()
    fence = [found[0]] if opener.startswith(("```", "~~~")) else []
    return "\n".join([*fence, *found[-lines:]])


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[^\n]*\n")


def open_fence(block: str) -> str:
    """The line that opens the fence of a block of code; empty where the block is another, or is closed."""
    opener = _FENCE.match(block)
    last = block.rstrip().rpartition("\n")[2].strip()
    is_closed = opener is not None and last.startswith(opener[1]) and not last.strip(opener[1][0])
    return "" if opener is None or is_closed else opener[0]


_LINK = re.compile(r"\[((?:[^\]\\\n]|\\.)+)\]\(file://(/[^)\s#]*)(?:#L(\d+))?\)")
_ESCAPE = re.compile(r"\\(.)")


def shortened_links(markdown: str) -> str:
    """The text with each link to a file's place replaced by its own words, where these name that place."""
    return _LINK.sub(_shortened, markdown) if "](file://" in markdown else markdown


def _shortened(link: re.Match[str]) -> str:
    words, path, line = _ESCAPE.sub(r"\1", link[1]), unquote(link[2]), link[3]
    name, _, number = words.rpartition(":")
    if not number.isdecimal():
        name, number = words, line or ""
    is_span = re.fullmatch(r"\d+(?:-\d+)?", words) is not None and words.partition("-")[0] == line
    says_it = f"{path}".endswith(f"/{name.lstrip('/')}") and number == (line or "")
    return link[1] if is_span or says_it else link[0]


CODE_THEME = "ansi_dark"
"""The terminal's own colours, so that code is readable on light and dark grounds."""


class AnswerView(Protocol):
    """Shows one message after another."""

    @property
    def on_screen(self) -> bool:
        """True when it is printed among the rest."""
        ...

    def feed(self, text: str) -> None:
        """More of the message."""
        ...

    def finish(self, *, goes_on: bool = False) -> None:
        """The message is over; harmless when there is none. With `goes_on`, the next one begins in the middle of it."""
        ...

    def unfinished(self) -> RenderableType | None:
        """The part that is not printed yet, for the region at the bottom."""
        ...


class RenderedAnswer:
    """`AnswerView` as Markdown. A block is printed when nothing can change it any more."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._blocks = MarkdownBlocks()
        self._printed = False
        self._reopened = ""

    @property
    def on_screen(self) -> bool:
        """See `Answer.on_screen`."""
        return True

    def feed(self, text: str) -> None:
        """See `Answer.feed`."""
        for block in self._blocks.feed(printable(text)):
            self._print(block)

    def finish(self, *, goes_on: bool = False) -> None:
        """See `Answer.finish`."""
        last = self._blocks.finish()
        self._print("" if last == self._reopened else last)
        self._printed = False
        self._reopened = open_fence(last) if goes_on else ""
        self._blocks.feed(self._reopened)

    def unfinished(self) -> RenderableType | None:
        """See `Answer.unfinished`."""
        pending = self._blocks.pending
        return rendered(visible_tail(pending)) if pending.strip() else None

    def _print(self, block: str) -> None:
        if not block.strip():
            return
        if self._printed:
            self._screen.print("")
        self._screen.print_text(rendered(block))
        self._printed = True


class PlainAnswer:
    """`AnswerView` as it is: for pipes, and for terminals whose alphabet is too small for rendered Markdown."""

    def __init__(self, stream: TextIO, *, on_screen: bool) -> None:
        self._stream = stream
        self._on_screen = on_screen
        self._message_open = self._line_ended = False
        self._line_ends = ""
        self._messages = 0

    @property
    def on_screen(self) -> bool:
        """See `Answer.on_screen`."""
        return self._on_screen

    def feed(self, text: str) -> None:
        """See `Answer.feed`. Raises OutputClosed where the reader went away."""
        arrived = self._line_ends + printable(text)
        shown = arrived.rstrip("\n")
        if not shown and not self._message_open:
            return
        # The end of a line goes out at once: a pipe may be read by lines. Blank lines wait for more text, as those at
        # the end of a message are left out; the section has its own.
        at_once = 0 if self._line_ended and not shown else 1
        ends = arrived[len(shown) :]
        shown, self._line_ends = shown + ends[:at_once], ends[at_once:]
        if not shown:
            return
        # Among other things on a screen, the sections are set apart already.
        between = "\n" if self._messages and not self._message_open and not self._on_screen else ""
        self._messages += not self._message_open
        self._write(between + shown)
        self._message_open = True
        self._line_ended = shown.endswith("\n")

    def finish(self, *, goes_on: bool = False) -> None:
        """See `Answer.finish`."""
        if goes_on and not self._on_screen:
            return
        if self._message_open and not self._line_ended:
            self._write("\n")
        self._message_open = self._line_ended = False
        self._line_ends = ""

    def unfinished(self) -> RenderableType | None:
        """See `Answer.unfinished`."""
        return None

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (BrokenPipeError, ValueError) as error:
            raise OutputClosed from error


@cache
def _whole_markdown() -> "type[Markdown]":
    """Markdown whose tables lose nothing. Its import is a fifth of a chat's start, and the first answer needs it."""
    from rich.markdown import Markdown, MarkdownElement, TableElement
    from rich.table import Table

    class FoldedTable(TableElement):
        """A table with folded columns: rich would cut a long path."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for part in super().__rich_console__(console, options):
                if isinstance(part, Table):
                    for column in part.columns:
                        column.overflow = "fold"
                yield part

    class WholeMarkdown(Markdown):
        """Subclassed since that is how rich takes an element of one's own."""

        elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "table_open": FoldedTable}

    return WholeMarkdown


def rendered(markdown: str) -> Trimmed:
    """Markdown that hides nothing: links show where they lead, and long words in tables are folded."""
    return Trimmed(_whole_markdown()(shortened_links(markdown), hyperlinks=False, code_theme=CODE_THEME))
