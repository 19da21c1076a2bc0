"""Conversations as Markdown, and what all written forms of a conversation have in common.

Owns: what a form has to remember while it goes through a journal, and words that all forms use. Must not know: HTML
(`transcript_html`).
"""

import difflib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from msgspec import Struct, field

from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.messages import ImagePart, Message, ResourcePart, TextPart
from pattern_acp.domain.text_limits import (
    DIFFED_LINES,
    cut_middle,
    fenced,
    one_line,
    plain_output,
    with_visible_controls,
)
from pattern_acp.domain.tool_calls import (
    DiffContent,
    LinkContent,
    TerminalContent,
    TextContent,
    ToolCallView,
    ToolContent,
)
from pattern_acp.domain.usage import Cost, Usage, amount_text
from pattern_acp.journal.events import (
    OWN_TURN,
    ContextCompacted,
    ErrorReported,
    Event,
    HistoryCleared,
    MessageRecorded,
    SubagentRecorded,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from pattern_acp.journal.reader import Recorded

SHOWN_OUTPUT = 20_000
"""Characters of one tool's output in an export."""


class SoFar(Struct):
    """Calls and totals from the events that were read so far."""

    calls: dict[ToolCallId, ToolCallView] = field(default_factory=dict[ToolCallId, ToolCallView])
    turn: Usage = field(default_factory=Usage)
    """Usage of the last turn that began."""
    total: Usage = field(default_factory=Usage)
    cost: Cost | None = None
    """Cost of the session so far, as last reported."""

    def take(self, event: Event) -> None:
        """Remember the call that an event begins, and count the tokens that it tells, a subagent's too."""
        match event:
            case TurnStarted():
                self.turn = Usage()
            case ToolCallStarted(call=call):
                self.calls[call.call_id] = call
            case UsageReported(usage=usage, cost=cost) | SubagentRecorded(event=UsageReported(usage=usage, cost=cost)):
                self.turn, self.total, self.cost = self.turn + usage, self.total + usage, cost or self.cost
            case _:
                pass


def usage_words(usage: Usage, cost: Cost | None) -> str:
    """Tokens, and money where it is known."""
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    cached = f" ({usage.cache_read_tokens:,} from the cache)" if usage.cache_read_tokens else ""
    words = f"{read:,} tokens in{cached}, {usage.output_tokens:,} out"
    return words if cost is None else f"{words}, {amount_text(cost.micro_units, cost.currency)}"


def moment(at_ms: int) -> str:
    """A moment to the minute, in the user's time zone, which it names: a transcript is read elsewhere, too."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M %Z")


def diff_lines(item: DiffContent) -> list[str] | None:
    """A change as a unified diff, None where the texts are too long to compare."""
    old, new = (item.old_text or "").splitlines(), item.new_text.splitlines()
    if len(old) + len(new) > DIFFED_LINES:
        return None
    name_before = "/dev/null" if item.old_text is None else item.path
    return list(difflib.unified_diff(old, new, name_before, item.path, lineterm=""))


def conversation_markdown(recorded: Iterable[Recorded], *, title: str, about: Iterable[tuple[str, str]]) -> str:
    """The whole conversation: prompts, answers, tool calls with diffs and output, tokens and cost.

    `about` are names and values for the head.
    """
    so_far = SoFar()
    sections = [f"# {one_line(title) or 'Conversation'}", "\n".join(f"- {name}: {value}" for name, value in about)]
    for entry in recorded:
        sections += _sections(entry, so_far)
    sections.append(f"---\n\nIn all: {usage_words(so_far.total, so_far.cost)}.")
    return with_visible_controls("\n\n".join(section for section in sections if section)) + "\n"


def _sections(entry: Recorded, so_far: SoFar) -> Iterator[str]:
    so_far.take(entry.event)
    match entry.event:
        case TurnStarted(command=command) if command == OWN_TURN:
            yield f"## Without a prompt, {moment(entry.at_ms)}"
        case TurnStarted(message=message):
            yield f"## You, {moment(entry.at_ms)}"
            yield _message_text(message)
        case MessageRecorded(message=message) if message.text.strip():
            yield "## Agent"
            yield message.text.strip()
        case ToolCallFinished() as finished:
            yield from _call(finished, so_far.calls.get(finished.call_id))
        case HistoryCleared():
            yield "---\n\n*The model's context was cleared here.*"
        case ContextCompacted():
            yield "---\n\n*The conversation was compacted here: the model no longer saw all of it.*"
        case ErrorReported(code=code) if code:
            yield f"*Failed: `{code}`*"
        case TurnEnded() if so_far.turn != Usage():
            yield f"*{usage_words(so_far.turn, None)}*"
        case _:
            pass


def _message_text(message: Message) -> str:
    parts: list[str] = []
    for part in message.parts:
        match part:
            case TextPart(text):
                parts.append(text.strip())
            case ResourcePart(uri=uri, name=name):
                parts.append(f"*Attached: {one_line(name or uri)}*")
            case ImagePart():
                parts.append(f"*Attached: {part.about}*")
            case _:
                pass
    return "\n\n".join(part for part in parts if part)


def _call(finished: ToolCallFinished, call: ToolCallView | None) -> Iterator[str]:
    title = one_line(call.title) if call is not None else "Tool call"
    failed = f": `{finished.failure}`" if finished.failure else ""
    yield f"### {title.replace('`', chr(39))} ({finished.shown_status.value}{failed})"
    shown = [text for text in (_content(item) for item in finished.content) if text]
    yield from shown or [fenced(_cut(finished.result_text))]


def _content(item: ToolContent) -> str:
    match item:
        case TextContent(text):
            return _cut(text)
        case DiffContent():
            return _diff(item)
        case TerminalContent():
            return fenced(f"$ {item.command}\n{_cut(plain_output(item.output)).rstrip()}", "console")
        case LinkContent(uri, name, description):
            return f"- [{one_line(name)}](<{uri}>) {one_line(description)}".rstrip()
        case _:
            return "*An image.*"


def _diff(item: DiffContent) -> str:
    lines = diff_lines(item)
    if lines is None:
        return f"*{item.path} was changed; it is too long to compare.*"
    return fenced(_cut("\n".join(lines)), "diff")


def _cut(text: str) -> str:
    return cut_middle(text, SHOWN_OUTPUT).text
