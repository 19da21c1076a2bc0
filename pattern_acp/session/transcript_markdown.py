"""A conversation as Markdown, from its journal.

Owns: the form of an export. Must not know: where it is written, or how it is shown in an editor.
"""

from collections.abc import Iterable, Iterator

from pattern_acp.domain.messages import ImagePart, Message, ResourcePart, TextPart
from pattern_acp.domain.text_limits import (
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
from pattern_acp.domain.usage import Usage
from pattern_acp.journal.events import (
    ContextCompacted,
    ErrorReported,
    HistoryCleared,
    MessageRecorded,
    ToolCallFinished,
    TurnEnded,
    TurnStarted,
)
from pattern_acp.journal.reader import Recorded
from pattern_acp.session.transcript import SHOWN_OUTPUT, SoFar, diff_lines, moment, usage_words


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
        case TurnStarted(message=message):
            yield f"## You, {moment(entry.at_ms)}"
            yield _message_text(message)
        case MessageRecorded(message=message) if message.text.strip():
            yield "## Agent"
            yield message.text.strip()
        case ToolCallFinished() as finished:
            yield from _call(finished, so_far.calls.get(finished.call_id))
        case HistoryCleared():
            yield "---\n\n*The model's context starts anew here.*"
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
