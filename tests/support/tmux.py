"""A terminal that a test looks at: `pattern-acp chat` in tmux, on a server of its own.

Owns: starting it, typing, and waiting for what the screen shows, woken by each byte of output. Must not know: the chat.
"""

import os
import select
import shlex
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SECONDS = 90.0
"""Longest wait for the screen; a machine may be busy."""


@dataclass(slots=True)
class TmuxScreen:
    """One window. `output` is readable whenever the program has written."""

    socket: Path
    output: int

    def run(self, *words: str, stdin: str | None = None) -> str:
        """Run tmux on this server; what it printed."""
        command = ["tmux", "-S", str(self.socket), "-f", os.devnull, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, input=stdin, timeout=SECONDS).stdout

    def keys(self, *keys: str) -> None:
        """Press keys by their names in tmux."""
        self.run("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type a text."""
        self.run("send-keys", "-l", text)

    def paste(self, text: str) -> None:
        """Paste a text as a terminal does."""
        self.run("load-buffer", "-", stdin=text)
        self.run("paste-buffer", "-p")

    def shown(self) -> str:
        """What is on the screen and above it, without the blanks behind lines."""
        return "\n".join(line.rstrip() for line in self.run("capture-pane", "-p", "-S", "-500").splitlines()).rstrip()

    def wait_for(self, text: str, *, gone: str = "") -> str:
        """The screen once it shows `text`, and `gone` no longer.

        Raises:
            AssertionError: that never came.
        """
        deadline = time.monotonic() + SECONDS
        while True:
            shown = self.shown()
            if text in shown and (not gone or gone not in shown):
                return shown
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} never came; the screen was:\n{shown}"
            # A look a second as well: what was drawn is on the screen a moment after it was written.
            if select.select([self.output], [], [], min(left, 1.0))[0]:
                os.read(self.output, 65536)


@contextmanager
def tmux_screen(
    folder: Path, command: tuple[str, ...], environment: Mapping[str, str], *, term: str = "screen-256color"
) -> Generator[TmuxScreen]:
    """A window of 80 columns and 30 rows in `folder` in which a command runs."""
    socket, pipe = folder / "tmux.sock", folder / "written"
    os.mkfifo(pipe)
    output = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    screen = TmuxScreen(socket, output)
    words = [f"{name}={value}" for name, value in {**environment, "TERM": term, "LANG": "C.UTF-8"}.items()]
    # The line waits until what it writes is heard of.
    line = shlex.join(["sh", "-c", 'read go && exec "$@"', "sh", "env", "-i", *words, *command])
    try:
        screen.run("new-session", "-d", "-x", "80", "-y", "30", "-c", str(folder / "project"), line)
        screen.run("pipe-pane", f"cat > {shlex.quote(str(pipe))}")
        screen.keys("Enter")
        yield screen
    finally:
        subprocess.run(["tmux", "-S", str(socket), "kill-server"], check=False, capture_output=True, timeout=SECONDS)
        os.close(output)
