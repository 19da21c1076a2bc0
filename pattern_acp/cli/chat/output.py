"""The consoles and alphabets of one chat.

Owns: what goes to stdout and what to stderr. On a terminal everything is drawn on stdout. Into a pipe or file only the
agent's text goes, as it is, so that it can be used; tools, plan and closing line go to stderr. With `--json`, stdout
holds JSON lines alone. Must not know: what is shown.
"""

import io
import sys
from collections.abc import Mapping
from typing import TextIO

from msgspec import Struct
from rich.console import Console
from rich.theme import Theme

from pattern_acp.cli.chat.answers import AnswerView, PlainAnswer, RenderedAnswer
from pattern_acp.cli.chat.asking import Keys
from pattern_acp.cli.chat.keyboard import Interrupts, LineKeys, TerminalKeys, can_read_keys
from pattern_acp.cli.chat.screen import ASCII, WORDS, Marks, Screen, marks_for
from pattern_acp.config.settings import ThemeSetting

LIGHT = {
    "yellow": "color(130)",
    "bold yellow": "bold color(130)",
    "cyan": "color(24)",
    "bold cyan": "bold color(24)",
    "green": "color(28)",
    "dim": "color(240)",
    "dim italic": "italic color(240)",
    "markdown.code": "bold color(24)",
}
"""The styles of the chat that are hard to read on a light ground, and what they are there."""


class Stage(Struct, frozen=True):
    """The place where a chat is shown."""

    screen: Screen
    answer: AnswerView
    marks: Marks
    light: bool = False
    """True if the ground is light."""


def is_light(theme: ThemeSetting, environ: Mapping[str, str]) -> bool:
    """Tell whether colours are for a light ground; `auto` goes by what the terminal says in COLORFGBG."""
    ground = environ.get("COLORFGBG", "").rpartition(";")[2]
    return theme == "light" or (theme == "auto" and ground in {"7", "15"})


def chat_stage(*, json: bool, plain: bool = False, light: bool = False) -> Stage:
    """The stage of a chat on this process's standard streams; `plain` for a screen reader."""
    for stream in (sys.stdout, sys.stderr):
        forgive(stream)
    on_terminal = sys.stdout.isatty() and not json
    theme = Theme(LIGHT) if light else None
    console = Console(stderr=not on_terminal, no_color=True if plain else None, theme=theme)
    marks = WORDS if plain else marks_for(console.encoding)
    can_redraw = console.is_terminal and not console.is_dumb_terminal and not json and not plain
    if on_terminal and marks is not ASCII and not plain:
        screen = Screen(console, live=can_redraw)
        return Stage(screen, RenderedAnswer(screen), marks, light)
    # A plain answer is written past the console, which must not redraw over it.
    screen = Screen(console, live=can_redraw and not on_terminal)
    return Stage(screen, PlainAnswer(sys.stdout, on_screen=on_terminal), marks, light)


def reading_stage() -> Stage:
    """The stage of a finished session: everything goes to stdout, and nothing is redrawn."""
    forgive(sys.stdout)
    console = Console()
    marks = marks_for(console.encoding)
    screen = Screen(console, live=False)
    rendered = console.is_terminal and marks is not ASCII
    return Stage(screen, RenderedAnswer(screen) if rendered else PlainAnswer(sys.stdout, on_screen=True), marks)


def keys_of_person(stage: Stage, interrupts: Interrupts) -> Keys | None:
    """Return the source of answers; None when nobody can be asked."""
    if not sys.stdin.isatty():
        return None
    console = stage.screen.console
    if console.is_terminal and not console.is_dumb_terminal and can_read_keys(sys.stdin):
        return TerminalKeys(sys.stdin, interrupts)
    return LineKeys(sys.stdin, write_hint, interrupts)


def write_hint(text: str) -> None:
    """Ask for a line, on stderr: stdout may be a pipe."""
    sys.stderr.write(text)
    sys.stderr.flush()


def forgive(stream: TextIO) -> None:
    """Show `?` for a character that the terminal does not know, instead of failing."""
    if isinstance(stream, io.TextIOWrapper) and stream.errors in {"strict", "surrogateescape"}:
        stream.reconfigure(errors="replace")
