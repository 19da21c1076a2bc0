"""The tool find_files."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from pattern_acp.domain.access import ReadPath
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.paths import display_path
from pattern_acp.domain.text_limits import cut_middle, one_line, plural
from pattern_acp.domain.tool_calls import Location, TextContent, ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import PreparedCall, Progress, TargetMissingError, ToolContext, ToolOutcome
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.tools.targets import CodeTarget, confirm_target, find_target, missing_sentence
from pattern_acp.workspace.errors import FileMissingError

if TYPE_CHECKING:
    from pattern_acp.workspace.search import SearchHits

FILES_SHOWN = 200
"""Files of one result; the newest are the likeliest to matter."""

CUT_FOR_TIME = "the search was cut off for time, narrow it"

LOCATIONS_SHOWN = 20
"""Places that an editor is told of; it opens or marks each."""


class FindFilesArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of find_files."""

    pattern: Annotated[str, Meta(min_length=1)]
    path: Annotated[str, Meta(min_length=1)] = "."


class FindFiles:
    """Finds files by a glob on their names."""

    spec = ToolSpec(
        "find_files",
        "Find files by glob, newest first, without ignored ones. `*.py` matches at any depth.",
        input_schema(FindFilesArguments),
    )
    kind = ToolKind.SEARCH
    changes_things = False

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, FindFilesArguments)
        target = await find_target(asked.path, context)
        where = "" if target.path == context.cwd else f" in {target.shown}"
        return PreparedCall(
            title=f"Find {one_line(asked.pattern)}{where}",
            accesses=(ReadPath(target.resolved, is_folder=True),),
            run=partial(_run, asked, target, context),
        )


async def _run(asked: FindFilesArguments, target: CodeTarget, context: ToolContext, _progress: Progress) -> ToolOutcome:
    # Late: a start needs nothing of how files are searched.
    from pattern_acp.workspace.search import find_files

    await confirm_target(target)
    try:
        found = await find_files(target.path, asked.pattern, limit=FILES_SHOWN)
    except FileMissingError as error:
        raise TargetMissingError(await missing_sentence(target)) from error
    # The walk follows links to its root; people and editors know the files below the name that was asked for.
    paths = [str(Path(target.path, *file.name.split("/"))) for file in found.files]
    lines = [display_path(path, context.cwd) for path in paths]
    counted = counted_files(found)
    return ToolOutcome(
        cut_middle("\n".join([counted, *lines]), context.result_limit).text,
        content=(TextContent(counted),),
        locations=tuple(Location(path) for path in paths[:LOCATIONS_SHOWN]),
    )


def counted_files(found: "SearchHits") -> str:
    """How many files there are, in a line, and whether there may be more."""
    if not found.files:
        return f"No file matches, but {CUT_FOR_TIME}." if found.timed_out else "No file matches."
    more = "" if found.complete else "more than "
    shown = f"; the newest {len(found.files)}, narrow the pattern for others" if found.total > len(found.files) else ""
    cut = f"; {CUT_FOR_TIME}" if found.timed_out else ""
    return f"{more}{plural(found.total, 'file')}{shown}{cut}:"
