"""Conversations as Markdown, and as one HTML page that needs nothing else, from their journal.

Owns: what a form has to remember while it goes through a journal, the words that all forms use, and the parts of the
page, of which each turn can be folded. Must not know: where a page is written, or its frame (commands/pages.py).
Everything that a user, a model or a tool wrote is escaped; Markdown becomes tags through a parser that knows no HTML
and refuses links that run anything.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

from msgspec import Struct, field

from pattern_acp.commands.pages import page_html
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.messages import ImagePart, Message, ResourcePart, TextPart, ThinkingPart
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
    FilesChanged,
    ImageContent,
    LinkContent,
    Plan,
    TerminalContent,
    TextContent,
    ToolCallStatus,
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
    PlanUpdated,
    SubagentRecorded,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from pattern_acp.journal.reader import Recorded

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markupsafe import Markup


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


TITLE = 80
"""Characters of a prompt that name its turn."""

_IMAGES = re.compile(r"image/(?:png|jpeg|gif|webp)")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")

_CONTEXT = {
    HistoryCleared: "The model's context was cleared here.",
    ContextCompacted: "The conversation was compacted here: the model no longer saw all of it.",
}


class _Turn(Struct, frozen=True):
    """A turn of the page; without a title it does not fold."""

    title: str
    parts: "list[Markup]" = field(default_factory=list["Markup"])


class _Page(Struct):
    markdown: "MarkdownIt"
    so_far: SoFar = field(default_factory=SoFar)


def conversation_html(recorded: Iterable[Recorded], *, title: str, about: Iterable[tuple[str, str]]) -> str:
    """The whole conversation: prompts, answers, reasoning, tool calls with diffs and output, tokens and cost.

    `about` are names and values for the head.
    """
    # Late: only pages need it.
    from markupsafe import Markup

    page, turns = _Page(_markdown()), [_Turn("")]
    for entry in recorded:
        if isinstance(entry.event, TurnStarted):
            words = one_line(entry.event.message.words, TITLE)
            turns.append(_Turn(f"Turn {len(turns)}, {moment(entry.at_ms)}{f': {words}' if words else ''}"))
        # Escaped, each of them, by what makes it.
        turns[-1].parts.extend(Markup(part) for part in _parts(entry, page))  # noqa: S704
    in_all = usage_words(page.so_far.total, page.so_far.cost)
    name = one_line(title) or "Conversation"
    return page_html("conversation.html", name, tuple(about), turns=turns, in_all=in_all)


def _markdown() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    # Images in answers would be fetched from wherever a model says.
    return MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table").disable("image")


def _parts(entry: Recorded, page: _Page) -> Iterator[str]:
    page.so_far.take(entry.event)
    match entry.event:
        case TurnStarted(command=command) if command == OWN_TURN:
            yield _message("you", f"Without a prompt, {moment(entry.at_ms)}", "")
        case TurnStarted(message=message):
            yield _message("you", f"You, {moment(entry.at_ms)}", "".join(_prompt(message)))
        case MessageRecorded(message=message):
            yield from _answer(message, page)
        case ToolCallFinished() as finished:
            yield _call_html(finished, page.so_far.calls.get(finished.call_id))
        case PlanUpdated(plan=plan):
            yield _plan(plan)
        case HistoryCleared() | ContextCompacted() as event:
            yield f'<hr><p class="note">{_CONTEXT[type(event)]}</p>'
        case ErrorReported(sentence=sentence, code=code):
            shown = f" <code>{escape(code)}</code>" if code else ""
            yield f'<p class="note del">{escape(sentence)}{shown}</p>'
        case TurnEnded() if page.so_far.turn != Usage():
            yield f'<p class="note">{escape(usage_words(page.so_far.turn, None))}</p>'
        case _:
            pass


def _message(kind: str, who: str, inner: str) -> str:
    return f'<section class="message {kind}"><div class="who">{escape(who)}</div>{inner}</section>'


def _prompt(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case TextPart(text) if text.strip():
                yield f'<div class="text">{escape(text.strip())}</div>'
            case ResourcePart(uri=uri, name=name):
                yield f'<p class="note">Attached: {escape(one_line(name or uri))}</p>'
            case ImagePart():
                yield _image(part.media_type, part.data, part.about)
            case _:
                pass


def _answer(message: Message, page: _Page) -> Iterator[str]:
    for part in message.parts:
        match part:
            case ThinkingPart(text=text) if text.strip():
                yield f"<details><summary>Reasoning</summary><div>{page.markdown.render(text)}</div></details>"
            case TextPart(text) if text.strip():
                yield _message("agent", "Agent", page.markdown.render(text))
            case _:
                pass


def _call_html(finished: ToolCallFinished, call: ToolCallView | None) -> str:
    title = one_line(finished.title or (call.title if call is not None else "Tool call"))
    content = finished.content or (call.content if call is not None else ())
    shown = "".join(_content_html(item) for item in content) or _pre(finished.result_text)
    failed = finished.shown_status is ToolCallStatus.FAILED
    marks = ' class="failed"' if failed else ""
    is_open = " open" if any(isinstance(item, DiffContent) for item in content) else ""
    status = f'<span class="status">({escape(finished.shown_status.value)})</span>'
    return f"<details{marks}{is_open}><summary>{escape(title)} {status}</summary><div>{shown}</div></details>"


def _plan(plan: Plan) -> str:
    steps = "".join(f'<li class="{entry.status.value}">{escape(entry.content)}</li>' for entry in plan.entries)
    return f'<ul class="plan">{steps}</ul>'


def _content_html(item: ToolContent) -> str:
    match item:
        case TextContent(text):
            return _pre(text)
        case FilesChanged():
            return ""
        case DiffContent():
            return _diff_html(item)
        case TerminalContent():
            return _pre(f"$ {item.command}\n{plain_output(item.output)}".rstrip())
        case ImageContent():
            return '<p class="note">An image.</p>'
        case LinkContent(uri, name, description):
            # As text: what a tool links to is not for a page that is read elsewhere to open.
            return f'<p class="note">{escape(name)} ({escape(uri)}) {escape(description)}</p>'


def _diff_html(item: DiffContent) -> str:
    lines = diff_lines(item)
    if lines is None:
        return f'<p class="note">{escape(item.path)} was changed; it is too long to compare.</p>'
    return f"<pre>{''.join(_marked(lines))}</pre>"


def _marked(lines: Sequence[str]) -> Iterator[str]:
    kinds = {"+": "add", "-": "del", "@": "at"}
    for at, line in enumerate(lines):
        kind = "at" if at < 2 else kinds.get(line[:1], "")
        yield f'<span class="{kind}">{escape(line) or " "}</span>'


def _image(media_type: str, data: str, about: str) -> str:
    if not _IMAGES.fullmatch(media_type) or not _BASE64.fullmatch(data):
        return f'<p class="note">Attached: {escape(about)}</p>'
    return f'<img alt="{escape(about)}" src="data:{media_type};base64,{data}">'


def _pre(text: str) -> str:
    return f"<pre>{escape(cut_middle(plain_output(text), SHOWN_OUTPUT).text)}</pre>"
