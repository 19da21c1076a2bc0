"""The tool read_file."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio.to_thread
from msgspec import Meta, Struct

from pattern_acp.domain.access import NoEffect, ReadPath
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.text_limits import cut_line, cut_middle, one_line, plural
from pattern_acp.domain.tool_calls import ImageContent, Location, TextContent, ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    BeyondEndError,
    CodeTarget,
    PreparedCall,
    Progress,
    TargetMissingError,
    ToolContext,
    ToolInputError,
    ToolOutcome,
    WrongTargetError,
    confirmed,
    find_target,
    missing_target,
)
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.workspace.errors import FileMissingError
from pattern_acp.workspace.files import LineWindow
from pattern_acp.workspace.images import GIVEN_BYTES, image_of
from pattern_acp.workspace.kinds import PathFacts, inspect_path
from pattern_acp.workspace.local_files import MAX_TEXT_BYTES

if TYPE_CHECKING:
    from pattern_acp.workspace.pdfs import PdfPages

LINE_LIMIT = 2_000
"""Characters of one line; longer ones are minified or data."""

FOOTER_ROOM = 200
"""Characters reserved for saying what is left."""


class ReadFileArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of read_file."""

    path: Annotated[str, Meta(min_length=1)]
    start_line: Annotated[int, Meta(ge=1)] = 1
    line_count: Annotated[int, Meta(ge=1)] | None = None
    pages: Annotated[str, Meta(description="PDF: 2-5.")] = ""


class ReadFileTool:
    """Reads a window of a text file or pages of a PDF, or shows an image."""

    spec = ToolSpec(
        "read_file",
        "Read a file with line numbers, up to 25,000 tokens or 1/4 window; images; PDFs.",
        input_schema(ReadFileArguments),
    )
    kind = ToolKind.READ
    changes_things = False

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`. Looks at nothing: what lies outside the roots may only be seen once it was allowed."""
        asked = parse_arguments(arguments, ReadFileArguments)
        target = await find_target(asked.path, context)
        return PreparedCall(
            title=_title(target, asked),
            accesses=(ReadPath(target.resolved),),
            run=partial(_run, asked, target, context),
            locations=(Location(target.path, asked.start_line),),
        )


def _title(target: CodeTarget, asked: ReadFileArguments) -> str:
    if asked.pages:
        return f"Read {target.shown} (pages {one_line(asked.pages, 20)})"
    if asked.line_count is not None:
        return f"Read {target.shown} (lines {asked.start_line}-{asked.start_line + asked.line_count - 1})"
    return f"Read {target.shown}" + (f" (from line {asked.start_line})" if asked.start_line > 1 else "")


async def _run(asked: ReadFileArguments, target: CodeTarget, context: ToolContext, _progress: Progress) -> ToolOutcome:
    if target.is_elsewhere:
        return await _text(asked, target, context)
    facts = await confirmed(target, inspect_path)
    if facts.kind == "directory":
        raise WrongTargetError(f"{target.shown} is a folder", advice="use list_directory.")
    if facts.kind == "image":
        return await _image(target, facts)
    if facts.media_type == "application/pdf":
        return await _pdf(target, asked.pages, context)
    if facts.kind == "binary":
        return _binary(target, facts)
    if facts.size > MAX_TEXT_BYTES:
        return await _large(asked, target, context)
    return await _text(asked, target, context)


async def _image(target: CodeTarget, facts: PathFacts) -> ToolOutcome:
    if facts.size > GIVEN_BYTES:
        raise WrongTargetError(
            f"{target.shown} is an image of {facts.size:,} bytes; at most {GIVEN_BYTES:,} can be looked at."
        )
    image = await image_of(await anyio.to_thread.run_sync(Path(target.path).read_bytes), target.shown)
    return ToolOutcome(
        f"{target.shown} is an image ({facts.media_type}, {facts.size:,} bytes); it is attached, "
        f"{image.width:,} x {image.height:,} pixels.",
        content=(ImageContent(image.media_type, image.data),),
        images=(image,),
    )


def _binary(target: CodeTarget, facts: PathFacts) -> ToolOutcome:
    sentence = f"{target.shown} is not text ({facts.media_type}, {facts.size:,} bytes); its content is not shown."
    return ToolOutcome(sentence, content=(TextContent(sentence),))


async def _text(asked: ReadFileArguments, target: CodeTarget, context: ToolContext) -> ToolOutcome:
    try:
        file = await context.files.read_text_file(target.path)
    except FileMissingError as error:
        raise await missing_target(target) from error
    lines = text_lines(file.text)
    if lines and asked.start_line > len(lines):
        raise BeyondEndError(
            f"{target.shown} has only {plural(len(lines), 'line')}", advice="choose a smaller start_line."
        )
    shown = _window(lines, asked, context.read_limit)
    context.read_fingerprints[target.resolved] = file.fingerprint
    last = asked.start_line + len(shown) - 1
    summary = f"Lines {asked.start_line}-{last} of {len(lines):,}." if lines else "The file is empty."
    return ToolOutcome(
        "\n".join([*shown, *_footer(last, len(lines))]) if lines else summary,
        content=(TextContent(f"{summary} {file.warning}".rstrip()),),
        locations=(Location(target.path, asked.start_line),),
    )


async def _large(asked: ReadFileArguments, target: CodeTarget, context: ToolContext) -> ToolOutcome:
    """A window of a file that is not read whole, and so cannot be edited with our tools."""
    # A line takes a character at least, so that more of them than characters are never shown.
    count = asked.line_count or context.read_limit
    window = LineWindow(asked.start_line, count, LINE_LIMIT, context.read_limit)
    try:
        found = await context.files.read_lines(target.path, window)
    except FileMissingError as error:
        raise await missing_target(target) from error
    if not found.lines:
        known = f" only {plural(found.total, 'line')}" if found.total is not None else " fewer lines"
        raise BeyondEndError(f"{target.shown} has{known}", advice="choose a smaller start_line.")
    shown = _numbered(found.lines, asked.start_line, context.read_limit)
    last = asked.start_line + len(shown) - 1
    summary = f"Lines {asked.start_line}-{last} of {'more' if found.total is None else f'{found.total:,}'}."
    footer = [f"[continue with start_line={last + 1}]"] if found.total is None else _footer(last, found.total)
    return ToolOutcome(
        "\n".join([*shown, *footer]),
        content=(TextContent(f"{summary} {found.warning}".rstrip()),),
        locations=(Location(target.path, asked.start_line),),
    )


def text_lines(text: str) -> list[str]:
    """The lines of a file without their endings, as editors count them."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _window(lines: list[str], asked: ReadFileArguments, limit: int) -> list[str]:
    start = asked.start_line - 1
    end = None if asked.line_count is None else start + asked.line_count
    cut = [cut_line(line, LINE_LIMIT) for line in lines[start:end]]
    return _numbered(cut, asked.start_line, limit)


def _numbered(lines: Sequence[str], start: int, limit: int) -> list[str]:
    shown: list[str] = []
    room = limit - FOOTER_ROOM
    for number, line in enumerate(lines, start):
        text = f"{number}\t{line}"
        room -= len(text) + 1
        if room < 0 and shown:
            break
        shown.append(text)
    return shown


def _footer(last: int, total: int) -> list[str]:
    left = total - last
    return [f"[{plural(left, 'line')} left; continue with start_line={last + 1}]"] if left > 0 else []


WINDOW_PAGES = 20
"""Pages of one read when the model asks for no others, and the most of one read."""

_RANGE = re.compile(r"\s*(\d{1,6})\s*(?:(-)\s*(\d{1,6})?)?\s*")


def pages_asked(pages: str) -> tuple[int, int]:
    """First and last page of `3`, `2-5`, `4-` or nothing, at most `WINDOW_PAGES` of them.

    Raises:
        ToolInputError: it is no range.
    """
    if not pages.strip():
        return 1, WINDOW_PAGES
    found = _RANGE.fullmatch(pages)
    first = int(found[1]) if found else 0
    last = 0 if not found else first if not found[2] else int(found[3] or first + WINDOW_PAGES - 1)
    if first < 1 or last < first:
        raise ToolInputError('`pages` must be a page or a range of pages of a PDF, such as "3" or "2-5".')
    return first, min(last, first + WINDOW_PAGES - 1)


async def _pdf(target: CodeTarget, pages: str, context: ToolContext) -> ToolOutcome:
    # Late: PDFs are seldom read.
    from pattern_acp.workspace.pdfs import read_pdf

    first, last = pages_asked(pages)
    found = await read_pdf(target.path, first, last)
    if not found.texts:
        raise BeyondEndError(f"{target.shown} has only {plural(found.count, 'page')}", advice="choose others.")
    shown = _within(found.texts, first, context.result_limit - FOOTER_ROOM)
    end = first + len(shown) - 1
    summary = f"Pages {first}-{end} of {found.count:,}."
    return ToolOutcome(
        "\n".join([summary, *shown, *_pdf_footer(found, end)]),
        content=(TextContent(summary),),
    )


def _within(texts: Sequence[str], first: int, room: int) -> list[str]:
    shown: list[str] = []
    for number, text in enumerate(texts, first):
        body = text.strip() or "(no text on this page; it may be a picture or a scan)"
        page = f"[page {number}]\n{body}"
        if len(page) > room and shown:
            break
        shown.append(cut_middle(page, max(room, 0)).text)
        room -= len(page) + 1
    return shown


def _pdf_footer(found: "PdfPages", end: int) -> list[str]:
    left = found.count - end
    return [f'[{plural(left, "page")} left; continue with pages="{end + 1}-"]'] if left > 0 else []


class ReadAttachmentArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of read_attachment."""

    id: Annotated[str, Meta(min_length=1)]
    start: Annotated[int, Meta(ge=0)] = 0


class ReadAttachment:
    """Reads on in a text of which the conversation shows only the ends: the user's, or a tool's result."""

    spec = ToolSpec(
        "read_attachment",
        "Read on in a shortened text.",
        input_schema(ReadAttachmentArguments),
    )
    kind = ToolKind.READ
    changes_things = False

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`. The text is part of the conversation, so nothing has to be allowed."""
        asked = parse_arguments(arguments, ReadAttachmentArguments)
        title = f"Read what was left out, from character {asked.start:,}"
        return PreparedCall(title, (NoEffect(),), partial(_read_attachment, asked, context))


async def _read_attachment(asked: ReadAttachmentArguments, context: ToolContext, _progress: Progress) -> ToolOutcome:
    text = await context.long_text(asked.id)
    if text is None:
        raise TargetMissingError(
            f"There is no text {asked.id!r} here", advice="take the id from the marker in the message."
        )
    if asked.start >= len(text):
        raise BeyondEndError(f"The text has only {len(text):,} characters", advice="choose a smaller start.")
    end = asked.start + max(context.result_limit - 100, 1)
    footer = f"\n[{len(text) - end:,} characters more; start={end} reads on]" if end < len(text) else ""
    summary = f"Characters {asked.start:,} to {min(end, len(text)):,} of {len(text):,}."
    return ToolOutcome(text[asked.start : end] + footer, content=(TextContent(summary),))
