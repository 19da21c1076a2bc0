"""A conversation as one HTML page that needs nothing else, from its journal.

Owns: the parts of the page, of which each turn can be folded. Must not know: where it is written, or its frame
(commands/pages.py). Everything that a user, a model or a tool wrote is escaped; Markdown becomes tags through a parser
that knows no HTML and refuses links that run anything.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from msgspec import Struct, field

from pattern_acp.commands.pages import page_html
from pattern_acp.domain.messages import ImagePart, Message, ResourcePart, TextPart, ThinkingPart
from pattern_acp.domain.text_limits import cut_middle, one_line, plain_output
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
from pattern_acp.domain.usage import Usage
from pattern_acp.journal.events import (
    OWN_TURN,
    ContextCompacted,
    ErrorReported,
    HistoryCleared,
    MessageRecorded,
    PlanUpdated,
    ToolCallFinished,
    TurnEnded,
    TurnStarted,
)
from pattern_acp.journal.reader import Recorded
from pattern_acp.session.transcript import SHOWN_OUTPUT, SoFar, diff_lines, moment, usage_words

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markupsafe import Markup

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
            yield _call(finished, page.so_far.calls.get(finished.call_id))
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


def _call(finished: ToolCallFinished, call: ToolCallView | None) -> str:
    title = one_line(finished.title or (call.title if call is not None else "Tool call"))
    content = finished.content or (call.content if call is not None else ())
    shown = "".join(_content(item) for item in content) or _pre(finished.result_text)
    failed = finished.shown_status is ToolCallStatus.FAILED
    marks = ' class="failed"' if failed else ""
    is_open = " open" if any(isinstance(item, DiffContent) for item in content) else ""
    status = f'<span class="status">({escape(finished.shown_status.value)})</span>'
    return f"<details{marks}{is_open}><summary>{escape(title)} {status}</summary><div>{shown}</div></details>"


def _plan(plan: Plan) -> str:
    steps = "".join(f'<li class="{entry.status.value}">{escape(entry.content)}</li>' for entry in plan.entries)
    return f'<ul class="plan">{steps}</ul>'


def _content(item: ToolContent) -> str:
    match item:
        case TextContent(text):
            return _pre(text)
        case FilesChanged():
            return ""
        case DiffContent():
            return _diff(item)
        case TerminalContent():
            return _pre(f"$ {item.command}\n{plain_output(item.output)}".rstrip())
        case ImageContent():
            return '<p class="note">An image.</p>'
        case LinkContent(uri, name, description):
            # As text: what a tool links to is not for a page that is read elsewhere to open.
            return f'<p class="note">{escape(name)} ({escape(uri)}) {escape(description)}</p>'


def _diff(item: DiffContent) -> str:
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
