"""Printing in sections.

Owns: the empty lines between parts of different kinds. Must not know: what the parts are.
"""

from typing import Literal

from rich.console import RenderableType

from pattern_acp.cli.chat.screen import Screen

Section = Literal["", "answer", "calls", "note", "plan", "user"]


class Sections:
    """Prints above the region at the bottom; an empty line sets a section apart from the one before."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._current: Section = ""

    def begin(self, section: Section, *, anew: bool = False) -> None:
        """What is printed next belongs to `section`, or to another one of its kind; "" has nothing above."""
        if section and self._current and (section != self._current or anew):
            self._screen.print("")
        self._current = section

    def print(self, section: Section, *renderables: RenderableType) -> None:
        """Print a part of `section`."""
        self.begin(section)
        self._screen.print(*renderables)
