"""Ctrl-C, and Ctrl-backslash (which Windows has not), which ends one subagent.

Owns: the signal handlers while a chat runs, and which Ctrl-C at the prompt leaves it. In the middle of drawing, an
exception would leave half a screen, so that Ctrl-C is only noted there; where something blocks, it is raised. Must not
know: what is interrupted.
"""

import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

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
