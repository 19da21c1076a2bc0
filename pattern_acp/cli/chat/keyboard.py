"""Keys of the user, Ctrl-C and Ctrl-backslash (which Windows has not) among them.

Owns: reading one key without Enter, a line where that cannot be done, hiding typed keys while a turn runs, and
collecting them; all differences between platforms in this matter; the signal handlers while a chat runs, and which
Ctrl-C at the prompt leaves it. In the middle of drawing, an exception would leave half a screen, so that Ctrl-C is only
noted there; where something blocks, it is raised. Must not know: what is done with keys.
"""

import contextlib
import re
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TextIO

from pattern_acp.cli.chat.events import Question

TERMINATED = 143
"""128 + SIGTERM, as shells have it."""


LEAVING_SECONDS = 3.0
"""Longest time between two Ctrl-C at the prompt that together leave the chat."""


class SecondPress:
    """The Ctrl-C at the prompt that leaves: the second of two close together, with nothing typed in between."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._first: float | None = None

    def leaves(self, line: str) -> bool:
        """Ctrl-C was pressed with `line` typed: whether it leaves."""
        now = self._clock()
        first, self._first = self._first, now
        return first is not None and not line and now - first <= LEAVING_SECONDS

    def forget(self) -> None:
        """A prompt was sent."""
        self._first = None


class Interrupts:
    """Counts Ctrl-C, or raises it, and counts Ctrl-backslash."""

    def __init__(self) -> None:
        self._noted = 0
        self._stops = 0
        self._raises = False

    def take(self) -> bool:
        """Tell whether Ctrl-C was pressed; each press is reported once."""
        noted = self._noted > 0
        self._noted -= noted
        return noted

    def take_stop(self) -> bool:
        """Tell whether Ctrl-backslash was pressed; each press is reported once."""
        noted = self._stops > 0
        self._stops -= noted
        return noted

    def check(self) -> None:
        """Raise what was noted.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        if self.take():
            raise KeyboardInterrupt

    @contextmanager
    def raised(self) -> Generator[None, None, None]:
        """Raise Ctrl-C at once, also one that was noted before."""
        self.check()
        before, self._raises = self._raises, True
        try:
            yield
        finally:
            self._raises = before

    @contextmanager
    def installed(self) -> Generator[None, None, None]:
        """Take the signals over; being asked to end is an exit in order, so that the agent and its commands end too."""
        wanted = {signal.SIGINT: self._interrupt, signal.SIGTERM: _terminate}
        if sys.platform != "win32":
            wanted |= {signal.SIGHUP: _terminate, signal.SIGQUIT: self._stop}
        before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._raises:
            raise KeyboardInterrupt
        self._noted += 1

    def _stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._stops += 1


def _terminate(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise SystemExit(TERMINATED)


LINE_BYTES = 4096
"""The longest line of a terminal on Linux."""

LOOK_SECONDS = 0.1
"""Interval between checks of an open question: the agent may withdraw it."""


def can_read_keys(stdin: TextIO) -> bool:
    """Tell whether single keys can be read from `stdin`."""
    return stdin.isatty() and _has_terminal_control()


class _Input:
    def __init__(self, stdin: TextIO, interrupts: Interrupts) -> None:
        self._stdin = stdin
        self._interrupts = interrupts

    def read_line(self, question: Question) -> str | None:
        """See `Keys.read_line`."""
        del question
        with self._interrupts.raised():
            line = self._stdin.readline()
        return line.strip() if line else None


class LineKeys(_Input):
    """`Keys` from lines: the first character of each counts. For terminals that give no single keys."""

    def __init__(self, stdin: TextIO, write: Callable[[str], None], interrupts: Interrupts) -> None:
        super().__init__(stdin, interrupts)
        self._write = write

    def forget(self) -> None:
        """See `Keys.forget`; lines that came early cannot be distinguished."""

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


if sys.platform == "win32":
    import msvcrt
    import time

    def _has_terminal_control() -> bool:
        return True

    class TerminalKeys(_Input):
        """`Keys` from a console."""

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

    def _ready_keys(stdin: TextIO) -> bytes:
        keys = ""
        while stdin.isatty() and msvcrt.kbhit():
            keys += msvcrt.getwch()
        return keys.encode("utf-8", "replace")

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

    class TerminalKeys(_Input):
        """`Keys` from a terminal."""

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
            """See `Keys.read_line`. The terminal itself edits the line and shows it, unless there is one to change."""
            if question.text:
                # Late: few questions come with a text.
                from pattern_acp.cli.chat.line_prompt import edited_text

                return edited_text(question)
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

    def _ready_keys(stdin: TextIO) -> bytes:
        descriptor = stdin.fileno()
        keys = b""
        while select.select([descriptor], [], [], 0)[0] and (data := os.read(descriptor, LINE_BYTES)):
            keys += data
        return keys

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


_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?")


class TypedAhead:
    """Text that is typed while a turn runs. Enter ends a prompt, which waits for the turn; what is pasted is one."""

    def __init__(self, stdin: TextIO) -> None:
        self._stdin = stdin
        self._partial = b""
        self.text = ""
        """The text behind the last Enter."""
        self.lines: list[str] = []
        """The prompts that wait."""

    def poll(self) -> None:
        """Take the keys that were pressed."""
        self.take(_ready_keys(self._stdin))

    def take(self, keys: bytes) -> None:
        """Take keys, as a terminal sends them; those that move the cursor mean nothing here."""
        if not keys:
            return
        data = _ESCAPES.sub(b"", self._partial + keys).replace(b"\r", b"\n")
        # A character of several bytes may be cut.
        whole = data.decode("utf-8", "ignore").encode()
        self._partial = data[len(whole) :] if data.startswith(whole) and len(data) - len(whole) < 4 else b""
        text = whole.decode()
        *ended, last = text.rsplit("\n", 1) if len(text) > 1 else text.split("\n")
        for piece in ended:
            self._edit(piece)
            if self.text.strip():
                self.lines.append(self.text)
            self.text = ""
        self._edit(last)

    def take_line(self) -> str | None:
        """The next prompt that waits; None when none does."""
        return self.lines.pop(0) if self.lines else None

    def take_text(self) -> str:
        """The text that no Enter has ended."""
        text, self.text = self.text, ""
        return text

    def hold(self) -> None:
        """Make one text of all prompts that wait, for the user to look at."""
        self.text = "\n".join(one for one in (*self.lines, self.text) if one)
        self.lines = []

    def _edit(self, keys: str) -> None:
        for key in keys:
            if key in "\x7f\b":
                self.text = self.text[:-1]
            elif key == "\x15":
                self.text = ""
            elif key.isprintable() or key == "\n":
                self.text += key
