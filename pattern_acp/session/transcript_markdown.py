"""A conversation as Markdown, from its journal.

Owns: the form of an export. Must not know: where it is written, or how it is shown in an editor.
"""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import field
from datetime import UTC, datetime

from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.domain.messages import ImagePart, Message, ResourcePart, TextPart
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
    ContextCompacted,
    ErrorReported,
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
from pattern_acp.tools.text_limits import (
    DIFFED_LINES,
    cut_middle,
    fenced,
    one_line,
    plain_output,
    with_visible_controls,
)

SHOWN_OUTPUT = 20_000
"""Characters of one tool's output in an export."""


@dataclass(slots=True)
class _Export:
    calls: dict[ToolCallId, ToolCallView] = field(default_factory=dict[ToolCallId, ToolCallView])
    turn: Usage = field(default_factory=Usage)
    total: Usage = field(default_factory=Usage)
    cost: Cost | None = None


def conversation_markdown(recorded: Iterable[Recorded], *, title: str, about: Iterable[tuple[str, str]]) -> str:
    """The whole conversation: prompts, answers, tool calls with diffs and output, tokens and cost.

    `about` are names and values for the head.
    """
    export = _Export()
    sections = [f"# {one_line(title) or 'Conversation'}", "\n".join(f"- {name}: {value}" for name, value in about)]
    for entry in recorded:
        sections += _sections(entry, export)
    sections.append(f"---\n\nIn all: {usage_words(export.total, export.cost)}.")
    return with_visible_controls("\n\n".join(section for section in sections if section)) + "\n"


def usage_words(usage: Usage, cost: Cost | None) -> str:
    """Tokens, and money where it is known."""
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    cached = f" ({usage.cache_read_tokens:,} from the cache)" if usage.cache_read_tokens else ""
    words = f"{read:,} tokens in{cached}, {usage.output_tokens:,} out"
    return words if cost is None else f"{words}, {amount_text(cost.micro_units, cost.currency)}"


def _sections(entry: Recorded, export: _Export) -> Iterator[str]:
    match entry.event:
        case TurnStarted(message=message):
            export.turn = Usage()
            yield f"## You, {moment(entry.at_ms)}"
            yield _message_text(message)
        case MessageRecorded(message=message) if message.text.strip():
            yield "## Agent"
            yield message.text.strip()
        case ToolCallStarted(call=call):
            export.calls[call.call_id] = call
        case ToolCallFinished() as finished:
            yield from _call(finished, export.calls.get(finished.call_id))
        case UsageReported(usage=usage, cost=cost):
            export.turn, export.total = export.turn + usage, export.total + usage
            export.cost = cost or export.cost
        case HistoryCleared():
            yield "---\n\n*The model's context starts anew here.*"
        case SubagentRecorded(event=UsageReported(usage=usage, cost=cost)):
            export.turn, export.total = export.turn + usage, export.total + usage
            export.cost = cost or export.cost
        case ContextCompacted():
            yield "---\n\n*The conversation was compacted here: the model no longer saw all of it.*"
        case ErrorReported() | TurnEnded() as end:
            yield from _end(end, export)
        case _:
            pass


def _end(event: ErrorReported | TurnEnded, export: _Export) -> Iterator[str]:
    if isinstance(event, ErrorReported):
        if event.code:
            yield f"*Failed: `{event.code}`*"
    elif export.turn != Usage():
        yield f"*{usage_words(export.turn, None)}*"


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
    yield f"### {title.replace('`', chr(39))} ({finished.status.value}{failed})"
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
    old, new = (item.old_text or "").splitlines(), item.new_text.splitlines()
    if len(old) + len(new) > DIFFED_LINES:
        return f"*{item.path} was changed; it is too long to compare.*"
    name_before = "/dev/null" if item.old_text is None else item.path
    return fenced(_cut("\n".join(difflib.unified_diff(old, new, name_before, item.path, lineterm=""))), "diff")


def _cut(text: str) -> str:
    return cut_middle(text, SHOWN_OUTPUT).text


def moment(at_ms: int) -> str:
    """A moment to the minute, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
