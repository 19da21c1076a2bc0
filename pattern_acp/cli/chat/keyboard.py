"""Keys of the user.

Owns: reading one key without Enter, a line where that cannot be done, keeping typed keys off the screen while a turn
runs, and whether more was typed or pasted than was read; all differences between platforms in this matter. Must not
know: what the keys mean.
"""

import contextlib
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TextIO

from pattern_acp.cli.chat.events import Question
from pattern_acp.cli.chat.interrupts import Interrupts

PASTE_SECONDS = 0.02
"""Longest wait for the next line of a paste; nobody types one that fast."""

LINE_BYTES = 4096
"""The longest line of a terminal on Linux."""

LOOK_SECONDS = 0.1
"""Interval between checks of an open question: the agent may withdraw it."""


def can_read_keys(stdin: TextIO) -> bool:
    """Tell whether single keys can be read from `stdin`."""
    return stdin.isatty() and _has_terminal_control()


class LineKeys:
    """`Keys` from lines: the first character of each counts. For terminals that give no single keys."""

    def __init__(self, stdin: TextIO, write: Callable[[str], None], interrupts: Interrupts) -> None:
        self._stdin = stdin
        self._write = write
        self._interrupts = interrupts

    def forget(self) -> None:
        """See `Keys.forget`; lines that came early cannot be told apart."""

    def read(self, question: Question, hint: str) -> str:
        """See `Keys.read`; an empty line asks again, the end of input means that nobody answers."""
        while question.is_open:
            self._write(f"  {hint} and Enter: ")
            with self._interrupts.raised():
                line = self._stdin.readline()
            if not line:
                return ""
            if line.strip():
                return line.strip()[0]
        return ""

    def read_line(self, question: Question) -> str | None:
        """See `Keys.read_line`."""
        del question
        with self._interrupts.raised():
            line = self._stdin.readline()
        return line.strip() if line else None


if sys.platform == "win32":
    import msvcrt
    import time

    def _has_terminal_control() -> bool:
        return True

    class TerminalKeys:
        """`Keys` from a console."""

        def __init__(self, stdin: TextIO, interrupts: Interrupts) -> None:
            self._stdin = stdin
            self._interrupts = interrupts

        def forget(self) -> None:
            """See `Keys.forget`."""
            while msvcrt.kbhit():
                msvcrt.getwch()

        def read(self, question: Question, hint: str) -> str:
            """See `Keys.read`."""
            del hint
            while question.is_open:
                self._interrupts.check()
                if msvcrt.kbhit():
                    key = msvcrt.getwch()
                    if key == "\x03":
                        raise KeyboardInterrupt
                    return key
                time.sleep(LOOK_SECONDS)
            return ""

        def read_line(self, question: Question) -> str | None:
            """See `Keys.read_line`."""
            del question
            with self._interrupts.raised():
                line = self._stdin.readline()
            return line.strip() if line else None

    def has_more(stdin: TextIO) -> bool:
        """Tell whether more input is ready: each line of a paste follows the last at once."""
        return stdin.isatty() and msvcrt.kbhit()

    @contextmanager
    def quiet_keys(stdin: TextIO, *, forgets: bool = False) -> Generator[None, None, None]:
        """A console shows a key only when it is read; `forgets` drops at the end what was not."""
        yield
        while forgets and stdin.isatty() and msvcrt.kbhit():
            msvcrt.getwch()

else:
    import os
    import select

    try:
        import termios
    except ImportError:
        termios = None

    def _has_terminal_control() -> bool:
        return termios is not None

    class TerminalKeys:
        """`Keys` from a terminal."""

        def __init__(self, stdin: TextIO, interrupts: Interrupts) -> None:
            self._stdin = stdin
            self._interrupts = interrupts

        def forget(self) -> None:
            """See `Keys.forget`."""
            if termios is not None:
                termios.tcflush(self._stdin.fileno(), termios.TCIFLUSH)

        def read(self, question: Question, hint: str) -> str:
            """See `Keys.read`."""
            del hint
            descriptor = self._stdin.fileno()
            with quiet_keys(self._stdin):
                while question.is_open:
                    self._interrupts.check()
                    ready, _, _ = select.select([descriptor], [], [], LOOK_SECONDS)
                    if ready:
                        return _key_of(os.read(descriptor, 32))
            return ""

        def read_line(self, question: Question) -> str | None:
            """See `Keys.read_line`. The terminal itself edits the line and shows it."""
            descriptor = self._stdin.fileno()
            with _edited_lines(self._stdin):
                while question.is_open:
                    self._interrupts.check()
                    if select.select([descriptor], [], [], LOOK_SECONDS)[0]:
                        data = os.read(descriptor, LINE_BYTES)
                        return data.decode("utf-8", "replace").strip() if data else None
            return None

    def _key_of(data: bytes) -> str:
        # An arrow or function key arrives as several bytes beginning with escape; it means nothing here.
        text = data.decode("utf-8", "replace")
        return "\x1b" if text.startswith("\x1b") else text[:1]

    def has_more(stdin: TextIO) -> bool:
        """Tell whether more input is ready: each line of a paste follows the last at once."""
        return stdin.isatty() and bool(select.select([stdin], [], [], PASTE_SECONDS)[0])

    @contextmanager
    def quiet_keys(stdin: TextIO, *, forgets: bool = False) -> Generator[None, None, None]:
        """Keys give themselves at once and do not show; Ctrl-C and Ctrl-Z work as ever.

        `forgets` drops at the end what nobody read, so that no shell runs it.
        """
        if termios is None or not stdin.isatty():
            yield
            return
        descriptor = stdin.fileno()
        before = termios.tcgetattr(descriptor)
        quiet = list(before)
        quiet[3] &= ~(termios.ICANON | termios.ECHO)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, quiet)
        try:
            yield
        finally:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(descriptor, termios.TCSAFLUSH if forgets else termios.TCSADRAIN, before)

    @contextmanager
    def _edited_lines(stdin: TextIO) -> Generator[None, None, None]:
        """The terminal gives whole lines and shows what is typed."""
        if termios is None:
            yield
            return
        descriptor = stdin.fileno()
        before = termios.tcgetattr(descriptor)
        edited = list(before)
        edited[3] |= termios.ICANON | termios.ECHO
        termios.tcsetattr(descriptor, termios.TCSADRAIN, edited)
        try:
            yield
        finally:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
