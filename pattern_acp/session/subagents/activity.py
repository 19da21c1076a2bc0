"""What the person sees of a subagent while it runs: in the call that it runs for.

Owns: the title and content of that call. Must not know: where events are recorded.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from msgspec import Struct

from pattern_acp.domain.clock import Clock
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.domain.tool_calls import TextContent, ToolCallStatus
from pattern_acp.journal.events import Event, ToolCallFinished, ToolCallStarted
from pattern_acp.tools.base import Progress

SHOWN_CALLS = 5
"""Newest calls that are named."""

CALL_CHARACTERS = 100
"""Of a call's title among them."""

TITLE_CHARACTERS = 60
"""Of what it does now, in the title."""


class _Line(Struct):
    title: str
    state: str


class Activity:
    """Follows one subagent. `title` is the call's own."""

    def __init__(self, title: str, progress: Progress, clock: Clock) -> None:
        self._title = title
        self._progress = progress
        self._clock = clock
        self._began = clock.monotonic()
        self._is_interrupted = False
        self._calls: dict[ToolCallId, _Line] = {}

    @property
    def summary(self) -> str:
        """How much it has done so far."""
        seconds = round(self._clock.monotonic() - self._began)
        return f"{plural(len(self._calls), 'call')}, {seconds} s"

    @property
    def final_title(self) -> str:
        """The call's title once it has ended."""
        return f"{self._title} ({self.summary})"

    async def follow(self, event: Event) -> None:
        """Show what an event changes."""
        if isinstance(event, ToolCallStarted):
            self._calls[event.call.call_id] = _Line(one_line(event.call.title, CALL_CHARACTERS), " …")
        elif isinstance(event, ToolCallFinished) and event.call_id in self._calls:
            failed = event.shown_status is ToolCallStatus.FAILED
            self._calls[event.call_id].state = ": failed" if failed else ""
        else:
            return
        await self.show()

    @asynccontextmanager
    async def interrupted(self) -> AsyncGenerator[None, None]:
        """Something else is shown in the call until this context ends, such as a question."""
        self._is_interrupted = True
        try:
            yield
        finally:
            self._is_interrupted = False
        await self.show()

    async def show(self) -> None:
        """Show what it does now, how much it has done, and for how long."""
        if self._is_interrupted:
            return
        running = [line.title for line in self._calls.values() if line.state == " …"]
        now = one_line(running[-1], TITLE_CHARACTERS) if running else "thinking"
        newest = list(self._calls.values())[-SHOWN_CALLS:]
        lines = [f"{self.summary}", *(f"- {line.title}{line.state}" for line in newest)]
        content = (TextContent("\n".join(lines)),)
        await self._progress.show(content, title=f"{self._title} · {now} ({self.summary})")
