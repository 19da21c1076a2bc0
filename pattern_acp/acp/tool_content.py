"""Content of tool calls: domain to wire, kept small enough for one line."""

from collections.abc import Sequence

from pattern_acp.acp import schema
from pattern_acp.acp.line_budget import DIFF_BYTES, IMAGE_BYTES, clipped, fits, shortened
from pattern_acp.domain.tool_calls import (
    DiffContent,
    ImageContent,
    Location,
    TerminalContent,
    TextContent,
    ToolContent,
)

CONTEXT_LINES = 20


def content_items(content: Sequence[ToolContent], *, live: bool, meta: bool) -> tuple[schema.ToolCallContent, ...]:
    """`content` for the wire. `live`: terminals of the client are shown by id; `meta`: so are ours."""
    return tuple(item for one in content for item in _items(one, live=live, meta=meta))


def locations_of(locations: Sequence[Location]) -> tuple[schema.ToolCallLocation, ...]:
    """Locations for the wire."""
    return tuple(schema.ToolCallLocation(path=one.path, line=one.line) for one in locations)


def _items(content: ToolContent, *, live: bool, meta: bool) -> list[schema.ToolCallContent]:
    match content:
        case TextContent(text):
            return [text_item(text)]
        case ImageContent(media_type, data) if len(data) <= IMAGE_BYTES:
            return [schema.Content(content=schema.ImageContent(data=data, mime_type=media_type))]
        case ImageContent(media_type, data):
            return [text_item(f"An image ({media_type}, {len(data) * 3 // 4:,} bytes), too large to be shown here.")]
        case DiffContent():
            return [diff_item(content)]
        case TerminalContent():
            if (content.client_owned and live) or (not content.client_owned and meta):
                return [schema.Terminal(terminal_id=content.terminal_id)]
            return [text_item(terminal_text(content))]


def text_item(text: str) -> schema.Content:
    """Text, cut in the middle when it is long."""
    return schema.Content(content=schema.TextContent(text=shortened(text)))


def terminal_text(content: TerminalContent) -> str:
    """A terminal as a fenced text, for clients and replays that cannot show it live."""
    output = shortened(content.output.rstrip("\n"))
    longest = max((len(run) for run in _backtick_runs(output)), default=0)
    fence = "`" * max(3, longest + 1)
    command = " ".join(content.command.split())
    return f"{fence}console\n$ {command}\n{output}\n{fence}"


def diff_item(content: DiffContent) -> schema.Diff:
    """A diff; only the changed region with its surroundings when the file is large."""
    old, new = content.old_text, content.new_text
    if old is not None and not (fits(old, DIFF_BYTES) and fits(new, DIFF_BYTES)):
        old, new = changed_region(old, new)
    return schema.Diff(path=content.path, old_text=None if old is None else clipped(old), new_text=clipped(new))


def changed_region(old: str, new: str) -> tuple[str, str]:
    """Both texts without the lines they share at start and end, but for some lines of context."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    limit = min(len(before), len(after))
    start = 0
    while start < limit and before[start] == after[start]:
        start += 1
    end = 0
    while end < limit - start and before[-1 - end] == after[-1 - end]:
        end += 1
    first = max(0, start - CONTEXT_LINES)
    tail = max(0, end - CONTEXT_LINES)
    return "".join(before[first : len(before) - tail]), "".join(after[first : len(after) - tail])


def _backtick_runs(text: str) -> list[str]:
    runs: list[str] = []
    run = ""
    for character in text:
        if character == "`":
            run += character
        elif run:
            runs.append(run)
            run = ""
    return [*runs, run] if run else runs
