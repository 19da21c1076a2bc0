"""The consoles and alphabets of one chat.

Owns: what goes to stdout and what to stderr. On a terminal everything is drawn on stdout. Into a pipe or file only the
agent's text goes, as it is, so that it can be used; tools, plan and closing line go to stderr. With `--json`, stdout
holds JSON lines alone. Must not know: what is shown.
"""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TextIO

from rich.console import Console

from pattern_acp.cli.chat.answers import Answer, PlainAnswer, RenderedAnswer
from pattern_acp.cli.chat.asking import Asker, Keys
from pattern_acp.cli.chat.interrupts import Interrupts
from pattern_acp.cli.chat.keyboard import LineKeys, TerminalKeys, can_read_keys
from pattern_acp.cli.chat.marks import ASCII, Marks, marks_for
from pattern_acp.cli.chat.screen import Screen


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a chat is shown."""

    screen: Screen
    answer: Answer
    marks: Marks
    asker: Asker


def build_stage(answer: Literal["ask", "allow", "deny"], interrupts: Interrupts, *, json: bool) -> Stage:
    """The stage for this process's standard streams."""
    for stream in (sys.stdout, sys.stderr):
        forgive(stream)
    on_terminal = sys.stdout.isatty() and not json
    console = Console(stderr=not on_terminal)
    marks = marks_for(console.encoding)
    can_redraw = console.is_terminal and not console.is_dumb_terminal
    rendered = on_terminal and marks is not ASCII
    # A plain answer is written past the console, which would then redraw over it.
    live = can_redraw and not json and (rendered or not on_terminal)
    screen = Screen(console, live=live)
    shown: Answer = RenderedAnswer(screen) if rendered else PlainAnswer(sys.stdout, on_screen=on_terminal)
    return Stage(
        screen,
        shown,
        marks,
        Asker(screen, marks, answer, keys_of(sys.stdin, interrupts, write_hint, can_redraw=can_redraw)),
    )


def keys_of(stdin: TextIO, interrupts: Interrupts, write: Callable[[str], None], *, can_redraw: bool) -> Keys | None:
    """Where answers come from; None when nobody can be asked."""
    if not stdin.isatty():
        return None
    if can_redraw and can_read_keys(stdin):
        return TerminalKeys(stdin, interrupts)
    return LineKeys(stdin, write, interrupts)


def write_hint(text: str) -> None:
    """Ask for a line, on stderr: stdout may be a pipe."""
    sys.stderr.write(text)
    sys.stderr.flush()


def forgive(stream: TextIO) -> None:
    """Show `?` for a character that the terminal does not know, instead of failing."""
    if isinstance(stream, io.TextIOWrapper) and stream.errors in {"strict", "surrogateescape"}:
        stream.reconfigure(errors="replace")
