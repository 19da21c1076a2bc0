"""The conversation on the screen, with its plan, usage and times.

Owns: the order of what is printed, what stays in the region at the bottom meanwhile, and what is folded. Takes the wire
structs of session/update, live or from a replay. Must not know: the connection, keys, or where updates come from.
"""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from rich.console import Group, RenderableType
from rich.text import Text

from pattern_acp.acp import schema
from pattern_acp.cli.chat.answers import AnswerView
from pattern_acp.cli.chat.calls import DisplayedCall, Tail, call_details, call_line, live_details, one_line
from pattern_acp.cli.chat.events import SessionInfo
from pattern_acp.cli.chat.keyboard import TypedAhead
from pattern_acp.cli.chat.screen import Hanging, Marks, Screen
from pattern_acp.cli.output import printable
from pattern_acp.domain.tool_calls import PlanStatus, ToolKind
from pattern_acp.domain.usage import MICRO, amount_text

STOPS = {
    "cancelled": "cancelled",
    "refusal": "the model refused",
    "max_tokens": "the answer was cut: the model's output limit",
    "max_turn_requests": "stopped: the limit of model requests in one turn",
}
"""Explanations of stop reasons other than `end_turn` for the user."""


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


def closing_line(known: SessionInfo, stop_reason: str, seconds: float, marks: Marks) -> Text:
    """The last line of a turn: how it ended, what it used, how long it took."""
    words = [*usage_words(known.usage), duration(seconds)]
    line = Text(overflow="fold")
    if stop_reason != "end_turn":
        stop = STOPS.get(stop_reason, one_line(stop_reason))
        line.append(f"{stop} {marks.dot} ", style="yellow")
    line.append(f" {marks.dot} ".join(words), style="dim")
    return line


def header_line(known: SessionInfo, marks: Marks) -> Text:
    """Title, mode and model of the session, and how many background commands run."""
    jobs = jobs_line(known.background_jobs).plain if known.background_jobs else ""
    words = [one_line(known.title), f"mode {known.mode}" if known.mode else "", known.model, jobs]
    shown = f" {marks.dot} ".join(one_line(word) for word in words if word)
    return Text(shown, style="dim", no_wrap=True, overflow="ellipsis")


def jobs_line(running: int) -> Text:
    """Render the number of running background commands."""
    words = (
        f"{running} in the background (/background)" if running else "nothing in the background any more (/background)"
    )
    return Text(words, style="dim", no_wrap=True, overflow="ellipsis")


def home_folder() -> str:
    """The user's home directory; empty where there is none."""
    try:
        return str(Path.home())
    except RuntimeError:  # no HOME, and the account has no entry
        return ""


def folder_words(folder: str, home: str) -> str:
    """A folder as people write it: `~` for the user's home directory."""
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


Section = Literal["", "answer", "calls", "note", "plan", "user"]


class Sections:
    """Prints above the region at the bottom; an empty line sets a section apart from the one before."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._current: Section = ""

    def begin(self, section: Section, *, anew: bool = False) -> None:
        """Start `section`, or with `anew` another one of its kind; an empty line separates it from the last."""
        if section and self._current and (section != self._current or anew):
            self._screen.print("")
        self._current = section

    def print(self, section: Section, *renderables: RenderableType) -> None:
        """Print a part of `section`."""
        self.begin(section)
        self._screen.print(*renderables)


FRAMES_A_SECOND = 10

PLAN_ROWS = 8
"""Steps of a plan that are drawn live; the whole is printed when the turn ends."""


TITLE_COLUMNS = 40
"""Columns of a call's title that leave space for the time beside it; its own line has the whole title."""


def bottom_region(
    unfinished: RenderableType | None,
    calls: Iterable[DisplayedCall],
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


def typed_lines(typed: TypedAhead, marks: Marks) -> list[Text]:
    """The prompts that wait for the turn, and the text behind them."""
    waiting = [Text(f"{marks.waiting} {one_line(line)}", style="dim") for line in typed.lines]
    if typed.text:
        line = Text(f"{marks.prompt} {one_line(typed.text)}").append("  Enter queues it", style="dim")
        waiting.append(line)
    for line in waiting:
        line.no_wrap, line.overflow = True, "ellipsis"
    return waiting


def spinner_frame(seconds: float, marks: Marks) -> str:
    """The sign that turns."""
    return marks.spinner[int(seconds * FRAMES_A_SECOND) % len(marks.spinner)]


def status_line(doing: str, seconds: float, marks: Marks, frame: str, *, delegates: bool = False) -> Text:
    """Render the current activity, its duration and how to stop it; `delegates` while a subagent may run."""
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{frame} ", style="yellow")
    line.append(one_line(doing))
    line.append(f" {marks.dot} {duration(seconds)} {marks.dot} Ctrl-C cancels", style="dim")
    if delegates and sys.platform != "win32":
        line.append(f" {marks.dot} Ctrl-\\ ends the subagent", style="dim")
    return line


def doing(calls: Iterable[DisplayedCall], thought: int, *, answering: bool, cancelling: bool) -> str:
    """Name the agent's current activity."""
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


OWN_THOUGHT = "_told"
"""Part of the id of a thought that is the agent's own word, not the model's: that a request is made again, and why."""

GOES_ON = "_told_again_thought"
"""Suffix of such a thought's id when the next message continues where the last one broke off."""


class Transcript:
    """Shows one session. Texts of models and files are stripped of characters that steer a terminal."""

    def __init__(
        self,
        screen: Screen,
        answer: AnswerView,
        marks: Marks,
        known: SessionInfo,
        tail: Tail,
        clock: Callable[[], float],
    ) -> None:
        self.known = known
        self.compact = False
        """Show calls as one line each: for a replay."""
        self.cancelling = False
        self.typed: TypedAhead | None = None
        """Text that is typed while the turn runs."""
        self._screen = screen
        self._sections = Sections(screen)
        self._answer = answer
        self._marks = marks
        self._tail = tail
        self._clock = clock
        self._calls: dict[str, DisplayedCall] = {}
        self._thought = 0
        self._message_id: str | None = None
        self._goes_on = False
        """True when the next words continue those before them."""
        self._seen_diffs: dict[str, tuple[schema.Diff, ...]] = {}
        self._printed_plan: tuple[schema.PlanEntry, ...] = ()
        self._started = clock()

    def begin_turn(self) -> None:
        """A prompt was sent."""
        self._started = self._clock()
        self.cancelling = False
        self._sections.begin("")
        self.tick()

    def show(self, update: schema.SessionUpdate) -> None:
        """Show an update."""
        self.known.take(update)
        match update:
            case schema.AgentMessageChunk(content=schema.TextContent(text=text), message_id=message_id):
                self._end_thought()
                self._say(text, message_id)
            case schema.AgentThoughtChunk(content=schema.TextContent(text=text), message_id=message_id) if (
                message_id is not None and OWN_THOUGHT in message_id
            ):
                self._end_thought()
                if message_id.endswith(GOES_ON):
                    self._answer.finish(goes_on=True)
                    self._goes_on = True
                self._end_answer()
                self._sections.print("note", Text(one_line(text), style="dim"))
            case schema.AgentThoughtChunk(content=schema.TextContent(text=text)):
                self._end_answer()
                self._thought += len(text)
            case schema.UserMessageChunk(content=content):
                self.settle()
                self._sections.print("user", user_text(content, self._marks))
            case schema.ToolCallStart() | schema.ToolCallProgress():
                self._goes_on = False
                self._end_thought()
                self._end_answer()
                self._take_call(update)
            case schema.PlanUpdate(entries=entries) if not self._screen.can_redraw and not self._printed_plan:
                self._end_thought()
                self._end_answer()
                self._print_plan(entries)
            case schema.Notice(title=title):
                self._sections.print("note", Text(one_line(title), style="yellow"))
            case _:
                pass

    def tick(self) -> None:
        """Redraw the region at the bottom; to be called several times a second while a turn runs."""
        if not self._screen.can_redraw:
            return
        seconds = self._clock() - self._started
        frame = spinner_frame(seconds, self._marks)
        unfinished = self._answer.unfinished()
        calls = self._calls.values()
        activity = doing(calls, self._thought, answering=unfinished is not None, cancelling=self.cancelling)
        delegates = any(call.kind is ToolKind.THINK for call in calls)
        status = status_line(activity, seconds, self._marks, frame, delegates=delegates)
        plan = self.known.plan if self.known.plan != self._printed_plan else ()
        region = bottom_region(unfinished, calls, plan, status, self._tail, self._marks, frame)
        self._screen.draw(region if self.typed is None else Group(region, *typed_lines(self.typed, self._marks)))

    def pause(self) -> None:
        """Print what can be printed and take the region away: somebody else writes now."""
        self._end_thought()
        self._end_answer()
        self._screen.clear()
        self._sections.begin("note")

    def diffs_of(self, call_id: str) -> tuple[schema.Diff, ...]:
        """The changes that a running call shows, and that no question has shown yet."""
        diffs = self._calls[call_id].diffs if call_id in self._calls else ()
        return () if self._seen_diffs.get(call_id) == diffs else diffs

    def has_shown(self, call_id: str) -> None:
        """The user saw the changes or the tables of a call in a question; they are not repeated."""
        self._seen_diffs[call_id] = self._calls[call_id].diffs if call_id in self._calls else ()

    def settle(self) -> None:
        """Print all that is unfinished as it is: the turn, or the replay of one, is over."""
        self._goes_on = False
        self._end_thought()
        self._end_answer()
        for call in self._calls.values():
            self._print_call(call)
        self._calls.clear()
        if self.known.plan and self.known.plan != self._printed_plan:
            self._print_plan(self.known.plan)
        self._screen.clear()

    def end_turn(self, stop_reason: str) -> None:
        """The turn ended."""
        self.settle()
        line = closing_line(self.known, stop_reason, self._clock() - self._started, self._marks)
        self._sections.print("note", line)

    def _say(self, text: str, message_id: str | None) -> None:
        new = message_id != self._message_id
        if new and not self._goes_on:
            self._answer.finish()
        self._message_id, self._goes_on = message_id, False
        if self._answer.on_screen:
            self._sections.begin("answer", anew=new)
        self._answer.feed(text)

    def _end_answer(self) -> None:
        if self._goes_on:
            return
        self._answer.finish()
        self._message_id = None

    def _end_thought(self) -> None:
        if self._thought:
            self._sections.print("calls", thought_line(self._thought, self._marks))
            self._thought = 0

    def _take_call(self, update: schema.ToolCallStart | schema.ToolCallProgress) -> None:
        call = self._calls.get(update.tool_call_id, DisplayedCall(update.tool_call_id)).updated(update)
        self._calls[call.call_id] = call
        if call.has_ended:
            del self._calls[call.call_id]
            self._print_call(call)

    def _print_call(self, call: DisplayedCall) -> None:
        line = call_line(call, self._marks)
        diffs = call.call_id not in self._seen_diffs
        self._seen_diffs.pop(call.call_id, None)
        below = [] if self.compact else call_details(call, self.known.cwd, self._marks, self._tail, diffs=diffs)
        self._sections.print("calls", line, *below)

    def _print_plan(self, entries: Sequence[schema.PlanEntry]) -> None:
        self._printed_plan = tuple(entries)
        self._sections.print("plan", Text("Plan", style="bold"), plan_text(entries, self._marks))


def user_text(content: schema.ContentBlock, marks: Marks) -> Text:
    """Render the user's message, as a replay shows it."""
    match content:
        case schema.TextContent(text=text):
            shown = printable(text).strip()
        case schema.ResourceLink(name=name):
            shown = f"@{one_line(name)}"
        case schema.EmbeddedResource(resource=resource):
            shown = f"@{one_line(unquote(resource.uri).removeprefix('stdin:///'))}"
        case _:
            shown = f"({content.__struct_config__.tag})"
    return Text(f"{marks.prompt} {shown}", style="bold cyan", overflow="fold")
