"""The tool list_directory."""

from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from pattern_acp.domain.access import ReadPath
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.text_limits import cut_middle, plural
from pattern_acp.domain.tool_calls import Location, TextContent, ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import PreparedCall, Progress, TargetMissingError, ToolContext, ToolOutcome
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.tools.targets import CodeTarget, confirm_target, find_target, missing_sentence
from pattern_acp.workspace.errors import FileMissingError
from pattern_acp.workspace.walk import Entry, list_directory

ENTRIES_SHOWN = 500
"""Entries of one result; a folder with more is data, and find_files is the way into it."""


class ListDirectoryArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of list_directory."""

    path: Annotated[str, Meta(min_length=1)] = "."
    depth: Annotated[int, Meta(ge=1, le=6)] = 1


class ListDirectory:
    """Lists a folder, and the folders in it down to a depth."""

    spec = ToolSpec(
        "list_directory",
        "List a folder with sizes; depth 2 and more also lists the folders in it.",
        input_schema(ListDirectoryArguments),
    )
    kind = ToolKind.READ
    changes_things = False

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, ListDirectoryArguments)
        target = await find_target(asked.path, context)
        return PreparedCall(
            title=f"List {target.shown}",
            accesses=(ReadPath(target.resolved, is_folder=True),),
            run=partial(_run, asked, target, context),
            locations=(Location(target.path),),
        )


async def _run(
    asked: ListDirectoryArguments, target: CodeTarget, context: ToolContext, _progress: Progress
) -> ToolOutcome:
    await confirm_target(target)
    try:
        listing = await list_directory(target.path, limit=ENTRIES_SHOWN, depth=asked.depth)
    except FileMissingError as error:
        raise TargetMissingError(await missing_sentence(target)) from error
    counted = plural(listing.total, "entry", "entries")
    lines = [_line(entry) for entry in listing.entries] or ["(empty)"]
    if listing.total > len(listing.entries):
        lines.append(f"[{listing.total - len(listing.entries):,} more; list a folder below, or use find_files]")
    return ToolOutcome(
        cut_middle("\n".join(lines), context.result_limit).text,
        content=(TextContent(f"{counted}."),),
        locations=(Location(target.path),),
    )


def _line(entry: Entry) -> str:
    marks = {"directory": "/", "link": " (link)", "other": " (special)", "file": f" {entry.size}"}
    return f"{entry.name}{marks[entry.kind]}{' (ignored by git)' if entry.ignored else ''}"
