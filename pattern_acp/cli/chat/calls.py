"""Tool calls and diffs on the screen.

Owns: the line of a call, and what is shown below it. Must not know: the order in which calls are printed.
"""

import difflib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Literal

from msgspec import Struct
from rich.console import RenderableType
from rich.text import Text

from pattern_acp.acp import schema
from pattern_acp.cli.chat.answers import rendered
from pattern_acp.cli.chat.screen import Indented, Marks
from pattern_acp.cli.output import printable
from pattern_acp.domain.text_limits import plural
from pattern_acp.domain.tool_calls import ToolCallStatus, ToolKind

CONTEXT = 3
"""Unchanged lines around a change."""

DIFF_MARGIN = re.compile(r" *\d+ [-+ ] ")
"""The margin before the words of a row."""

STYLES = {"-": "red", "+": "green", " ": "dim", "@": "dim cyan"}


class DiffRow(Struct, frozen=True):
    """One line. `number` is that of the new text, of the old one for a removed line; 0 between two places."""

    sign: Literal["-", "+", " ", "@"]
    number: int
    text: str


def diff_rows(old: str, new: str) -> list[DiffRow]:
    """The changed lines of a text with their surroundings, a row with the sign `@` between distant places."""
    before, after = old.splitlines(), new.splitlines()
    # The matcher takes quadratic time at worst, and most changes leave most of a file alone.
    start = _shared(before, after)
    end = _shared(before[start:][::-1], after[start:][::-1])
    first = max(0, start - CONTEXT)
    kept = max(0, end - CONTEXT)
    before, after = before[first : len(before) - kept], after[first : len(after) - kept]
    rows: list[DiffRow] = []
    groups = difflib.SequenceMatcher(None, before, after, autojunk=True).get_grouped_opcodes(CONTEXT)
    for group in groups:
        if rows:
            rows.append(DiffRow("@", 0, ""))
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                rows += _rows(" ", after[new_from:new_to], first + new_from)
                continue
            rows += _rows("-", before[old_from:old_to], first + old_from)
            rows += _rows("+", after[new_from:new_to], first + new_from)
    return rows


def diff_text(diff: schema.Diff, cwd: str, marks: Marks, *, limit: int, whole_lines: bool = False) -> Text:
    """A diff with at most `limit` rows, and how many more there are. `whole_lines` wraps long ones, else they are cut.

    Line numbers count from the start of what the agent sent, which is the whole file unless it is large.
    """
    rows = diff_rows(diff.old_text or "", diff.new_text)
    added, removed = (sum(row.sign == sign for row in rows) for sign in "+-")
    text = Text(no_wrap=not whole_lines, overflow="fold" if whole_lines else "ellipsis")
    text.append(printable(shown_path(diff.path, cwd)).replace("\n", " "), style="bold")
    text.append(
        f"  +{added} -{removed}"
        if diff.old_text is not None
        else f"  new file, {added} line{'' if added == 1 else 's'}",
        "dim",
    )
    width = len(str(max((row.number for row in rows), default=0)))
    for row in rows[:limit]:
        text.append("\n")
        text.append(_line(row, width, marks), style=STYLES[row.sign])
    if len(rows) > limit:
        text.append(f"\n{marks.dots} {plural(len(rows) - limit, 'more line')}", style="dim italic")
    if not rows:
        text.append("\nno line changes", style="dim")
    return text


def shown_path(path: str, cwd: str) -> str:
    """`path` relative to the session's folder when it is inside."""
    try:
        return str(PurePath(path).relative_to(cwd)) if cwd else path
    except ValueError:
        return path


def _line(row: DiffRow, width: int, marks: Marks) -> str:
    if row.sign == "@":
        return f"{' ' * width} {marks.dots}"
    return f"{row.number:>{width}} {row.sign} {printable(row.text).expandtabs(4)}"


def _rows(sign: Literal["-", "+", " "], lines: Sequence[str], index: int) -> Iterator[DiffRow]:
    return (DiffRow(sign, number, line) for number, line in enumerate(lines, index + 1))


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the lines that both start with."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


DIFF_ROWS = 24
"""Rows of a finished change; the user has the file."""

OUTPUT_LINES = 12
"""Last lines of a finished command."""

LIVE_LINES = 6
"""Last lines of a running command."""

NOTE_LINES = 4
"""First lines of what another call answers."""

ENDED = frozenset({ToolCallStatus.COMPLETED, ToolCallStatus.FAILED})

QUIET = frozenset({ToolKind.READ, ToolKind.SEARCH, ToolKind.EDIT})
"""Kinds whose text says nothing that their line and their diffs do not."""

Tail = Callable[[str], str]
"""The end of a terminal's output, by its id."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?<=>]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Colours, cursor movements and titles (ECMA-48), which commands write in spite of TERM=dumb."""

_FENCE = re.compile(r"\A\s*(`{3,})[^\n]*\n(.*?)\n?\1\s*\Z", re.DOTALL)

_TABLE = re.compile(r"^ {0,3}\|.*\n {0,3}\|[ :|-]+\|? *$", re.MULTILINE)

_FENCE_LINE = re.compile(r"\s{0,3}(`{3,})[^`]*\Z")

_BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")


class DisplayedCall(Struct, frozen=True):
    """A tool call as far as it is known."""

    call_id: str
    title: str = ""
    kind: ToolKind = ToolKind.OTHER
    status: ToolCallStatus = ToolCallStatus.PENDING
    content: tuple[schema.ToolCallContent, ...] = ()

    @property
    def has_ended(self) -> bool:
        """True when nothing more will come."""
        return self.status in ENDED

    def updated(self, update: schema.ToolCallStart | schema.ToolCallUpdate) -> "DisplayedCall":
        """The call with what `update` says; a member that it leaves out stays (ACP v1, tool calls)."""
        content = update.content
        if isinstance(update, schema.ToolCallStart):
            content = content or None
        return DisplayedCall(
            self.call_id,
            self.title if update.title is None else update.title,
            self.kind if update.kind is None else update.kind,
            self.status if update.status is None else update.status,
            self.content if content is None else content,
        )

    @property
    def diffs(self) -> tuple[schema.Diff, ...]:
        """The changes that it shows."""
        return tuple(item for item in self.content if isinstance(item, schema.Diff))


def call_line(call: DisplayedCall, marks: Marks, *, running: str = "") -> Text:
    """One line: state, kind and title. `running` replaces the state's sign while the call runs."""
    signs = {
        ToolCallStatus.COMPLETED: (marks.done, "green"),
        ToolCallStatus.FAILED: (marks.failed, "red"),
        ToolCallStatus.IN_PROGRESS: (running or marks.current, "yellow"),
        ToolCallStatus.PENDING: (marks.waiting, "dim"),
    }
    sign, style = signs[call.status]
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{sign} ", style=style)
    kind = marks.kind(call.kind)
    line.append(f"{kind} " if kind else "", style="cyan")
    line.append(one_line(call.title) or "tool call", style="red" if call.status is ToolCallStatus.FAILED else "")
    return line


def call_details(
    call: DisplayedCall, cwd: str, marks: Marks, tail: Tail, *, diffs: bool = True
) -> list[RenderableType]:
    """Render the details below the line of a finished call; `diffs` False omits changes and tables just seen.

    A change that failed was not made, so it is not shown either.
    """
    shown: list[Text] = []
    tables: list[RenderableType] = []
    for item in call.content:
        match item:
            case schema.Content(content=schema.TextContent(text=text)) if has_table(text, call.kind):
                tables += [Indented(rendered(printable(text)))] if diffs else []
            case schema.Diff() if diffs and call.status is not ToolCallStatus.FAILED:
                shown.append(diff_text(item, cwd, marks, limit=DIFF_ROWS))
            case schema.Terminal(terminal_id=terminal_id):
                shown.append(last_lines(tail(terminal_id), OUTPUT_LINES, marks))
            case schema.Content(content=schema.TextContent(text=text)):
                shown.append(_note(call, text, marks))
            case schema.Content(content=schema.ResourceLink(name=name, uri=uri, description=about)):
                link = f"{one_line(name)} ({one_line(uri)})\n  {one_line(about or '')}"
                shown.append(Text(link.rstrip(), style="dim"))
            case _:
                pass
    return [*tables, *(Indented(text) for text in shown if text.plain)]


def live_details(call: DisplayedCall, tail: Tail, marks: Marks) -> list[RenderableType]:
    """Render the details below the line of a running call: the end of its terminals and of its progress messages."""
    texts: list[Text] = []
    for item in call.content:
        match item:
            case schema.Terminal(terminal_id=terminal_id):
                texts.append(last_lines(tail(terminal_id), LIVE_LINES, marks))
            case schema.Content(content=schema.TextContent(text=text)) if _tells_progress(call):
                texts.append(last_lines(plain_text(text, call.kind), LIVE_LINES, marks))
            case _:
                pass
    return [Indented(text) for text in texts if text.plain]


def last_lines(output: str, limit: int, marks: Marks) -> Text:
    """The end of a command's output, and how many lines are left out above it."""
    lines = output_lines(output)
    text = Text(style="dim", no_wrap=True, overflow="ellipsis")
    if len(lines) > limit:
        text.append(f"{marks.dots} {len(lines) - limit} lines above\n", style="italic")
    text.append("\n".join(lines[-limit:]))
    return text


def output_lines(output: str) -> list[str]:
    """Output as lines that cannot steer the terminal; of a progress line that overwrites itself, the last state."""
    lines = _ESCAPES.sub("", output).replace("\r\n", "\n").rstrip().split("\n")
    return [printable(line.rstrip("\r").rsplit("\r", 1)[-1]).expandtabs(8) for line in lines if lines != [""]]


def has_table(text: str, kind: ToolKind | None) -> bool:
    """Tell whether a call's text is Markdown with a table, which lines of text would not show as one."""
    return kind is not ToolKind.EXECUTE and "|" in text and _FENCE.match(text) is None and bool(_TABLE.search(text))


def plain_text(text: str, kind: ToolKind | None) -> str:
    """Text of a call without the fence around it; of several, what they hold is indented.

    What a command printed is no Markdown, so nothing inside it is touched.
    """
    found = _FENCE.match(text)
    if found is not None and not _closes_early(found):
        return found.group(2)
    return text if kind is ToolKind.EXECUTE else _without_marks(text)


def _closes_early(found: re.Match[str]) -> bool:
    """Tell whether the fence that the text begins with ends before the text does."""
    return any(_ends(line, found.group(1)) for line in found.group(2).split("\n"))


def _without_marks(text: str) -> str:
    """Markdown with its code indented and no bold marks, which a terminal would show as they are."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        begun = _FENCE_LINE.match(line)
        if fence and _ends(line, fence):
            fence = ""
        elif fence:
            lines.append(f"  {line}")
        elif begun is not None:
            fence = begun.group(1)
        else:
            lines.append(_BOLD.sub(r"\1", line))
    return "\n".join(lines)


def _ends(line: str, fence: str) -> bool:
    """Tell whether `line` closes `fence` (CommonMark 4.5): as many backticks or more, and nothing else."""
    marks = line.strip()
    return len(marks) >= len(fence) and not marks.strip("`")


def one_line(text: str) -> str:
    """`text` as one line that cannot steer the terminal."""
    return " ".join(printable(text).split())


def _tells_progress(call: DisplayedCall) -> bool:
    """Tell whether the call's text reports progress, rather than previewing the call."""
    return call.status is ToolCallStatus.IN_PROGRESS and call.kind not in {*QUIET, ToolKind.EXECUTE}


def _note(call: DisplayedCall, text: str, marks: Marks) -> Text:
    if one_line(plain_text(text, call.kind)) == one_line(call.title):
        return Text()
    if call.kind is ToolKind.EXECUTE and call.status is ToolCallStatus.FAILED and "\n" not in text:
        return Text(one_line(text), style="red", overflow="fold")  # how it ended, or why it did not run: nothing is cut
    if call.kind is ToolKind.EXECUTE:
        return last_lines(plain_text(text, call.kind), OUTPUT_LINES, marks)
    if call.kind in QUIET and call.status is ToolCallStatus.COMPLETED:
        return Text()
    lines = output_lines(plain_text(text, call.kind))
    failed = call.status is ToolCallStatus.FAILED
    note = Text("\n".join(lines[:NOTE_LINES]), style="red" if failed else "dim", overflow="fold")
    if len(lines) > NOTE_LINES:
        note.append(f"\n{marks.dots} {plural(len(lines) - NOTE_LINES, 'more line')}", style="italic")
    return note
