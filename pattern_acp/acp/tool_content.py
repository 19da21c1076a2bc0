"""Content of tool calls: domain to wire, kept small enough for one line."""

from collections.abc import Sequence

from pattern_acp.acp import schema
from pattern_acp.acp.line_budget import DIFF_BYTES, IMAGE_BYTES, clipped, fits, shortened, wire_size
from pattern_acp.domain.tool_calls import (
    DiffContent,
    ImageContent,
    LinkContent,
    Location,
    TerminalContent,
    TextContent,
    ToolContent,
)
from pattern_acp.tools.diff_regions import more_places, regions_within

CONTENT_BYTES = 650_000
"""Most bytes of the diffs and texts of one call together; with its arguments they stay below 1 MB."""

PATHS_NAMED = 20
"""Most paths that are named of changes that are not shown."""


def content_items(content: Sequence[ToolContent], *, live: bool, meta: bool) -> tuple[schema.ToolCallContent, ...]:
    """`content` for the wire. `live`: terminals of the client are shown by id; `meta`: so are ours.

    What does not fit into one line any more is named instead, so that nobody takes what is shown for all of it.
    """
    items: list[schema.ToolCallContent] = []
    left_out: list[str] = []
    room = CONTENT_BYTES
    for one in content:
        shown = _items(one, live=live, meta=meta)
        size = sum(wire_size(item) for item in shown) if len(content) > 1 else 0
        if size > room and isinstance(one, DiffContent):
            left_out.append(one.path)
            continue
        room -= size
        items += shown
    if left_out:
        more = f" and {len(left_out) - PATHS_NAMED:,} more" if len(left_out) > PATHS_NAMED else ""
        items.append(text_item(f"Too much to show here; also changed: {', '.join(left_out[:PATHS_NAMED])}{more}."))
    return tuple(items)


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
            return diff_items(content)
        case LinkContent(uri, name, description):
            return [schema.Content(content=schema.ResourceLink(uri=uri, name=name, description=description or None))]
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


def diff_items(content: DiffContent) -> list[schema.ToolCallContent]:
    """A diff; of a large file one for each changed place with its surroundings, as many as fit."""
    old, new = content.old_text, content.new_text
    if old is None or (fits(old, DIFF_BYTES) and fits(new, DIFF_BYTES)):
        shown = None if old is None else clipped(old)
        return [schema.Diff(path=content.path, old_text=shown, new_text=clipped(new))]
    regions, left_out = regions_within(old, new, DIFF_BYTES // 2)
    items: list[schema.ToolCallContent] = [
        schema.Diff(path=content.path, old_text=clipped(region.old), new_text=clipped(region.new)) for region in regions
    ]
    return [*items, text_item(more_places(left_out, content.path))] if left_out else items


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
