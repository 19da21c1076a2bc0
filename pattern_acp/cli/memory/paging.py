"""Showing lines: in a pager when they are many and a terminal reads them, else at once.

Owns: finding and running the pager. Must not know: what is shown.
"""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

from pattern_acp.cli.memory.lines import Part, coloured, laid_out, plain
from pattern_acp.cli.output import write_line


def show_lines(parts: Sequence[Part], environ: Mapping[str, str], *, pager: bool) -> None:
    """Write a page to stdout; with colours, and maybe through a pager, when it is a terminal.

    Raises:
        OutputClosed: the reader went away.
    """
    if not sys.stdout.isatty():
        write_line(plain(parts))
        return
    size = shutil.get_terminal_size()
    lines = laid_out(parts, size.columns)
    text = coloured(lines, size.columns)
    command = pager_command(environ) if pager and len(lines) >= size.lines else None
    if command is None or not _page(text, command):
        write_line(text)


def pager_command(environ: Mapping[str, str]) -> list[str] | None:
    """The person's pager (`PAGER`), else `less` when it is there; None for no pager."""
    chosen = environ.get("PAGER")
    if chosen is not None:
        words = shlex.split(chosen, posix=sys.platform != "win32") if chosen.strip() else []
        return None if not words or words == ["cat"] else words
    less = shutil.which("less", path=environ.get("PATH"))
    # -R keeps colours, -F leaves at once when it fits, -X leaves the text on the screen.
    return [less, "-RFX"] if less is not None else None


def _page(text: str, command: Sequence[str]) -> bool:
    try:
        subprocess.run(command, input=text.encode("utf-8", "replace"), check=False)  # noqa: S603  # the person's own pager
    except OSError:
        return False
    return True
