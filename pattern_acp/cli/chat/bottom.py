"""The region at the bottom while a turn runs: unfinished text, running calls, plan, and what is going on."""

import sys
from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from pattern_acp.acp import schema
from pattern_acp.cli.chat.calls import Call, Tail, call_line, live_details, one_line
from pattern_acp.cli.chat.marks import Marks
from pattern_acp.cli.chat.notes import duration, plan_text

FRAMES_A_SECOND = 10

PLAN_ROWS = 8
"""Steps of a plan that are drawn live; the whole is printed when the turn ends."""


TITLE_COLUMNS = 40
"""What of a call's title leaves room for the time beside it; its own line has the whole."""


def bottom_region(
    unfinished: RenderableType | None,
    calls: Iterable[Call],
    plan: tuple[schema.PlanEntry, ...],
    status: Text,
    tail: Tail,
    marks: Marks,
    frame: str,
) -> Group:
    """All of it, the least important first: a screen that is too low loses its upper lines."""
    parts: list[RenderableType] = []
    if unfinished is not None:
        parts += [unfinished, ""]
    for call in calls:
        parts += [call_line(call, marks, running=frame), *live_details(call, tail, marks)]
    if plan:
        parts.append(plan_text(plan[:PLAN_ROWS], marks))
    return Group(*parts, status)


def spinner_frame(seconds: float, marks: Marks) -> str:
    """The sign that turns."""
    return marks.spinner[int(seconds * FRAMES_A_SECOND) % len(marks.spinner)]


def status_line(doing: str, seconds: float, marks: Marks, frame: str, *, delegates: bool = False) -> Text:
    """What is going on, for how long, and how to stop it; `delegates` while a subagent may run."""
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{frame} ", style="yellow")
    line.append(one_line(doing))
    line.append(f" {marks.dot} {duration(seconds)} {marks.dot} Ctrl-C cancels", style="dim")
    if delegates and sys.platform != "win32":
        line.append(f" {marks.dot} Ctrl-\\ ends the subagent", style="dim")
    return line


def doing(calls: Iterable[Call], thought: int, *, answering: bool, cancelling: bool) -> str:
    """What the agent does at the moment."""
    if cancelling:
        return "cancelling"
    running = list(calls)
    if len(running) > 1:
        return f"running {len(running)} tools"
    if running:
        # The title of a subagent says what it does behind this dot; its call says that above.
        title = one_line(running[0].title.partition(" · ")[0]) or "a tool"
        return f"running {title if len(title) <= TITLE_COLUMNS else title[:TITLE_COLUMNS].rstrip() + '…'}"
    if thought:
        return f"thinking, {thought:,} characters"
    return "answering" if answering else "waiting for the model"
