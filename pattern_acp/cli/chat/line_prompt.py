"""The line that a person types a prompt into.

Owns: editing, history and completion, through readline where Python has it. Must not know: what becomes of the prompt.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.cells import cell_len

from pattern_acp.cli.chat.keyboard import has_more
from pattern_acp.cli.chat.line_above import looking
from pattern_acp.config.paths import make_private_directory, open_private_append

if sys.platform == "win32":  # where the console itself edits lines
    readline = None
else:
    try:
        import readline
    except ImportError:
        readline = None

HISTORY_FILE = "chat_history"
"""Beside the log. Prompts are in the constellation as well; deleting the file only forgets the arrow-up lines."""

HISTORY_LINES = 1_000


class LinePrompt:
    """Asks for prompts. `commands` gives the slash commands to complete, without the slash."""

    def __init__(
        self, folder: Path, commands: Callable[[], Sequence[str]], news: Callable[[int], None] | None = None
    ) -> None:
        """`news` is called again and again while the first line is typed, with the columns that it takes."""
        self._file = folder / HISTORY_FILE
        self._commands = commands
        self._news = news
        self._lines: list[str] = []
        """The lines that the prompt has so far."""

    def open(self) -> None:
        """Load the history, set up completion, and have the terminal say what is pasted, which libedit cannot."""
        if readline is None:
            return
        with contextlib.suppress(OSError):
            readline.read_history_file(self._file)
        readline.set_history_length(HISTORY_LINES)
        readline.set_completer(self._complete)
        readline.set_completer_delims("\n")
        libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
        if not libedit:
            readline.parse_and_bind("set enable-bracketed-paste on")  # Python switches it off

    def close(self) -> None:
        """Save the history, readable by the person alone."""
        if readline is None:
            return
        with contextlib.suppress(OSError):
            make_private_directory(self._file.parent)
            os.close(open_private_append(str(self._file), os.O_WRONLY | os.O_CREAT | os.O_APPEND))
            readline.write_history_file(self._file)

    def read(self, sign: str) -> str | None:
        """The next prompt; None at the end of input.

        A line that ends with a backslash goes on in the next one, and lines that are pasted are one prompt.

        Raises:
            KeyboardInterrupt: the user gave the line up; `given_up` has it.
        """
        lines = self._lines = []
        while True:
            try:
                line = input("  ") if lines else self._first_line(f"{sign} ")
            except EOFError:
                return "\n".join(lines) if lines else None
            if has_more(sys.stdin):  # a terminal that does not say what is pasted
                lines.append(line)
            elif line.endswith("\\"):
                lines.append(line[:-1])
            else:
                return "\n".join([*lines, line]).rstrip("\n")

    def given_up(self) -> str:
        """What was typed when Ctrl-C was pressed; where there is a history, it has the line from now on."""
        line = readline.get_line_buffer() if readline is not None else ""
        if readline is not None and line.strip():
            readline.add_history(line)
        return "\n".join([*self._lines, line])

    def _first_line(self, sign: str) -> str:
        news = self._news
        if news is None or readline is None or not sys.stdin.isatty():
            return input(sign)
        edited = readline
        with looking(lambda: news(cell_len(sign + edited.get_line_buffer()))):
            return input(sign)

    def _complete(self, text: str, state: int) -> str | None:
        found = completions(text, self._commands())
        return found[state] if state < len(found) else None


def completions(text: str, commands: Sequence[str]) -> list[str]:
    """The commands that a line may become, with the blank behind them; only a line that begins with a slash is one."""
    if not text.startswith("/"):
        return []
    return [f"/{name} " for name in sorted({"quit", *commands}) if f"/{name}".startswith(text)]
