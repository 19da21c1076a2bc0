"""A line that comes in above the one that is being typed.

Owns: looking again and again while a line is typed, and the terminal's sequences that push the typed line down. Must
not know: what the line says.
"""

import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

LOOK_SECONDS = 0.5

INSERTED = "\x1bD\x1b[A\x1b7\r\x1b[L{line}\x1b8\x1b[B"
"""Make sure of a row below (IND, CUU), keep the place (DECSC), push the row down (IL), write, and go back to the place
in its new row (DECRC, CUD). Whoever edits the line need not know: it stands as it stood."""


@contextmanager
def looking(look: Callable[[], None]) -> Generator[None, None, None]:
    """Call `look` twice a second while the main thread waits for a line; never on Windows.

    It comes between two keys: readline lets signals in there alone, so that its line is whole when it is looked at.
    """
    if sys.platform == "win32":
        yield
        return

    def tick(number: int, frame: FrameType | None) -> None:
        del number, frame
        try:
            look()
        except SystemError as error:
            # `input` looks for signals once more when Ctrl-C has ended it: what is called then finds an exception set.
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise

    before = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
