"""The agent's text as it arrives.

Owns: two ways to show it: as rendered Markdown on a terminal, and as it is for a pipe. Must not know: calls, plans.
"""

from typing import ClassVar, Protocol, TextIO

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Markdown, MarkdownElement, TableElement
from rich.table import Table

from pattern_acp.cli.chat.file_links import shortened_links
from pattern_acp.cli.chat.markdown_blocks import MarkdownBlocks, visible_tail
from pattern_acp.cli.chat.screen import Screen, Trimmed
from pattern_acp.cli.output import OutputClosed, printable

CODE_THEME = "ansi_dark"
"""The terminal's own colours, so that code is readable on light and dark grounds."""


class Answer(Protocol):
    """Shows one message after another."""

    @property
    def on_screen(self) -> bool:
        """Whether it is printed among the rest."""
        ...

    def feed(self, text: str) -> None:
        """More of the message."""
        ...

    def finish(self) -> None:
        """The message is over; harmless when there is none."""
        ...

    def unfinished(self) -> RenderableType | None:
        """What is not printed yet, for the region at the bottom."""
        ...


class RenderedAnswer:
    """`Answer` as Markdown. A block is printed when nothing can change it any more."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._blocks = MarkdownBlocks()
        self._printed = False

    @property
    def on_screen(self) -> bool:
        """See `Answer.on_screen`."""
        return True

    def feed(self, text: str) -> None:
        """See `Answer.feed`."""
        for block in self._blocks.feed(printable(text)):
            self._print(block)

    def finish(self) -> None:
        """See `Answer.finish`."""
        self._print(self._blocks.finish())
        self._printed = False

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
    """`Answer` as it is: for pipes, and for terminals whose alphabet is too small for rendered Markdown."""

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
        """See `Answer.feed`.

        Raises:
            OutputClosed: the reader went away.
        """
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

    def finish(self) -> None:
        """See `Answer.finish`."""
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


class _FoldedTable(TableElement):
    """A table that loses nothing: rich would cut a long path, where it can be folded."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            if isinstance(part, Table):
                for column in part.columns:
                    column.overflow = "fold"
            yield part


class _WholeMarkdown(Markdown):
    """Subclassed since that is how rich takes an element of one's own."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "table_open": _FoldedTable}


def rendered(markdown: str) -> Trimmed:
    """Markdown that hides nothing: links show where they lead, and long words in tables are folded."""
    return Trimmed(_WholeMarkdown(shortened_links(markdown), hyperlinks=False, code_theme=CODE_THEME))
