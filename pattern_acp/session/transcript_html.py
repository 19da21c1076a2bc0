"""A conversation as one HTML page that needs nothing else, from its journal.

Owns: the form of the page. Must not know: where it is written. Everything that a user, a model or a tool wrote is
escaped; Markdown becomes tags through a parser that knows no HTML and refuses links that run anything; the page has no
script, loads nothing, and tells the browser to allow neither.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from msgspec import Struct, field

from pattern_acp.domain.messages import ImagePart, Message, ResourcePart, TextPart, ThinkingPart
from pattern_acp.domain.plan import Plan
from pattern_acp.domain.text_limits import cut_middle, one_line, plain_output, with_visible_controls
from pattern_acp.domain.tool_calls import (
    DiffContent,
    FilesChanged,
    ImageContent,
    LinkContent,
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

_IMAGES = re.compile(r"image/(?:png|jpeg|gif|webp)")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")

_CONTEXT = {
    HistoryCleared: "The model's context starts anew here.",
    ContextCompacted: "The conversation was compacted here: the model no longer saw all of it.",
}

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --dim: #59636e; --paper: #fff; --card: #f6f8fa; --line: #d1d9e0;
  --mine: #ddf4ff; --add: #116329; --add-paper: #dafbe1; --del: #a40e26; --del-paper: #ffebe9; --link: #0969da; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9198a1; --paper: #0d1117; --card: #161b22;
  --line: #3d444d; --mine: #12283f; --add: #7ee787; --add-paper: #12261e; --del: #ffa198; --del-paper: #301b1f;
  --link: #58a6ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 54rem; padding: 2rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .5rem; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1rem 1rem; color: var(--dim);
  font-size: .875rem; margin: 0 0 2rem; } dd { margin: 0; overflow-wrap: anywhere; } dt { font-weight: 600; }
.message { margin: 1rem 0; } .who { color: var(--dim); font-size: .8125rem; font-weight: 600; margin-bottom: .25rem; }
.you { background: var(--mine); border-radius: .5rem; padding: .75rem 1rem; margin-top: 2rem; }
.you .text { white-space: pre-wrap; }
.note { color: var(--dim); font-size: .8125rem; margin: .5rem 0; } hr { border: 0; border-top: 1px solid var(--line); }
details { border: 1px solid var(--line); border-radius: .5rem; margin: .5rem 0; background: var(--card); }
summary { cursor: pointer; padding: .4rem .75rem; font-size: .875rem; } details > div { padding: 0 .75rem .75rem; }
.failed > summary { color: var(--del); } .status { color: var(--dim); }
pre { background: var(--card); border: 1px solid var(--line); border-radius: .375rem; padding: .6rem .75rem;
  margin: .5rem 0; overflow-x: auto; font: 13px/1.45 ui-monospace, monospace; }
details pre { background: var(--paper); }
code { font: .875em ui-monospace, monospace; } :not(pre) > code { background: var(--card); padding: .1em .3em;
  border-radius: .25em; }
.add { color: var(--add); background: var(--add-paper); } .del { color: var(--del); background: var(--del-paper); }
.at { color: var(--dim); } pre span { display: block; width: max-content; min-width: 100%; }
img { max-width: 100%; } a { color: var(--link); }
table { border-collapse: collapse; display: block; max-width: 100%; overflow-x: auto; }
td, th { border: 1px solid var(--line); padding: .2rem .5rem; } td code { overflow-wrap: anywhere; }
thead:not(:has(th:not(:empty))) { display: none; } summary { overflow-wrap: anywhere; }
pre code { font-size: inherit; } .plan { list-style: "☐ "; font-size: .875rem; margin: .5rem 0; }
.plan .completed { list-style: "☑ "; color: var(--dim); } .plan .in_progress { list-style: "▸ "; font-weight: 600; }
blockquote { margin: .5rem 0; padding-left: 1rem; border-left: 3px solid var(--line); color: var(--dim); }
"""


class _Page(Struct):
    markdown: "MarkdownIt"
    so_far: SoFar = field(default_factory=SoFar)


def conversation_html(recorded: Iterable[Recorded], *, title: str, about: Iterable[tuple[str, str]]) -> str:
    """The whole conversation: prompts, answers, reasoning, tool calls with diffs and output, tokens and cost.

    `about` are names and values for the head.
    """
    page = _Page(_markdown())
    body = [part for entry in recorded for part in _parts(entry, page)]
    name = escape(one_line(title) or "Conversation")
    in_all = escape(usage_words(page.so_far.total, page.so_far.cost))
    facts = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in about)
    text = (
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="referrer" content="no-referrer">\n'
            f"<title>{name}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{name}</h1>\n<dl>{facts}</dl>\n"
            + "\n".join(body)
            + f'\n<hr>\n<p class="note">In all: {in_all}.</p>\n</body>\n</html>\n'
        )
        .encode("utf-8", "replace")
        .decode("utf-8")
    )
    return with_visible_controls(text)


def _markdown() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    # Images in answers would be fetched from wherever a model says.
    return MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table").disable("image")


def _parts(entry: Recorded, page: _Page) -> Iterator[str]:
    page.so_far.take(entry.event)
    match entry.event:
        case TurnStarted(command=command) if command == OWN_TURN:
            yield _message("you", f"By itself, {moment(entry.at_ms)}", "")
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
