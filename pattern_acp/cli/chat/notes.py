"""The small lines around the conversation: plan, usage, times, headers."""

import re
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from pattern_acp.acp import schema
from pattern_acp.cli.chat.calls import one_line
from pattern_acp.cli.chat.known import Known
from pattern_acp.cli.chat.marks import Marks
from pattern_acp.cli.chat.screen import Hanging
from pattern_acp.domain.plan import PlanStatus
from pattern_acp.domain.usage import MICRO, amount_text

STOPS = {
    "cancelled": "cancelled",
    "refusal": "the model refused",
    "max_tokens": "the answer was cut: the model's output limit",
    "max_turn_requests": "stopped: the limit of model requests in one turn",
}
"""What a stop reason other than `end_turn` means for the person."""


PLAN_MARGIN = re.compile(r"  \S+ ")


def plan_text(entries: Sequence[schema.PlanEntry], marks: Marks) -> Hanging:
    """The plan as a checklist."""
    signs = {
        PlanStatus.COMPLETED: (marks.done, "green", "dim"),
        PlanStatus.IN_PROGRESS: (marks.current, "yellow", "bold"),
        PlanStatus.PENDING: (marks.waiting, "dim", ""),
    }
    lines: list[Text] = []
    for entry in entries:
        sign, sign_style, style = signs[entry.status]
        lines.append(Text.assemble((f"  {sign} ", sign_style), (one_line(entry.content), style)))
    return Hanging(Text("\n").join(lines), PLAN_MARGIN)


def usage_words(usage: schema.UsageUpdate | None) -> list[str]:
    """Tokens in the context, its size and the session's cost."""
    if usage is None:
        return []
    words = [f"{short_number(usage.used)} of {short_number(usage.size)} tokens"] if usage.size else []
    if usage.cost is not None and usage.cost.amount:
        words.append(amount_text(round(usage.cost.amount * MICRO), usage.cost.currency))
    return words


def closing_line(known: Known, stop_reason: str, seconds: float, marks: Marks) -> Text:
    """The last line of a turn: how it ended, what it used, how long it took."""
    words = [*usage_words(known.usage), duration(seconds)]
    line = Text(overflow="fold")
    if stop_reason != "end_turn":
        stop = STOPS.get(stop_reason, one_line(stop_reason))
        line.append(f"{stop} {marks.dot} ", style="yellow")
    line.append(f" {marks.dot} ".join(words), style="dim")
    return line


def header_line(known: Known, marks: Marks) -> Text:
    """Title, mode and model of the session, and how many background commands run."""
    jobs = jobs_line(known.background_jobs).plain if known.background_jobs else ""
    words = [one_line(known.title), f"mode {known.mode}" if known.mode else "", known.model, jobs]
    shown = f" {marks.dot} ".join(one_line(word) for word in words if word)
    return Text(shown, style="dim", no_wrap=True, overflow="ellipsis")


def jobs_line(running: int) -> Text:
    """How many background commands run."""
    words = f"{running} in the background (/jobs)" if running else "nothing in the background any more (/jobs)"
    return Text(words, style="dim", no_wrap=True, overflow="ellipsis")


def home_folder() -> str:
    """The person's home directory; empty where there is none."""
    try:
        return str(Path.home())
    except RuntimeError:  # no HOME, and the account has no entry
        return ""


def folder_words(folder: str, home: str) -> str:
    """A folder as people write it: `~` for the person's home directory."""
    path = one_line(folder)
    for separator in ("/", "\\"):
        if home.strip("/\\") and path.startswith(home.rstrip("/\\") + separator):
            return "~" + path[len(home.rstrip("/\\")) :]
    return path


def thought_line(characters: int, marks: Marks) -> Text:
    """Folded reasoning."""
    return Text(f"{marks.thought} thought, {characters:,} characters", style="dim italic")


def short_number(number: int) -> str:
    """A count in at most four characters or so: 980, 12.3k, 200k, 1.2M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            scaled = number / size
            return f"{scaled:.1f}".removesuffix(".0") + unit if scaled < 100 else f"{scaled:.0f}{unit}"
    return str(number)


def duration(seconds: float) -> str:
    """A length of time: 3.2 s, 1 min 05 s."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s"
