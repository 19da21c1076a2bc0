"""The tool edit_file."""

from functools import partial
from typing import Annotated

import anyio.to_thread
from msgspec import Meta, Struct

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.tool_calls import ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import PreparedCall, TargetMissingError, ToolContext
from pattern_acp.tools.edit_text import EditResult, Replacement, apply_replacements
from pattern_acp.tools.file_changes import FileChange, prepared_change, read_if_there, require_current
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.tools.targets import Target, find_target, missing_sentence
from pattern_acp.tools.text_limits import plural

LINES_NAMED = 10
"""Line numbers that a result lists."""


class Edit(Struct, frozen=True, forbid_unknown_fields=True):
    """One replacement."""

    old_text: Annotated[
        str, Meta(description="Exact text without line numbers, unique in the file unless replace_all.")
    ]
    new_text: str
    replace_all: bool = False


class EditFileArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of edit_file."""

    path: Annotated[str, Meta(min_length=1)]
    edits: Annotated[tuple[Edit, ...], Meta(min_length=1)]


class EditFile:
    """Replaces passages of a file, all or none of them."""

    spec = ToolSpec(
        "edit_file",
        "Replace exact passages of a file. Edits apply in order; when one fails, none is made.",
        input_schema(EditFileArguments),
    )
    kind = ToolKind.EDIT
    changes_things = True

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, EditFileArguments)
        target = await find_target(asked.path, context)
        return prepared_change(f"Edit {target.shown}", await _plan(asked, target, context), context)


async def _plan(asked: EditFileArguments, target: Target, context: ToolContext) -> FileChange:
    before = await read_if_there(target, context)
    if before is None:
        raise TargetMissingError(f"{await missing_sentence(target)} A new file is made with write_file.")
    is_known = require_current(target, before, context)
    replacements = [Replacement(edit.old_text, edit.new_text, edit.replace_all) for edit in asked.edits]
    result = await anyio.to_thread.run_sync(partial(apply_replacements, before.text, replacements))
    summary = _summary(target, result)
    return FileChange(target, before, result.text, summary, result.lines[0], is_known)


def _summary(target: Target, result: EditResult) -> str:
    lines = ", ".join(str(line) for line in result.lines[:LINES_NAMED])
    more = ", ..." if len(result.lines) > LINES_NAMED else ""
    where = f"{'line' if len(result.lines) == 1 else 'lines'} {lines}{more}"
    sentences = [f"Edited {target.shown}: {plural(result.count, 'replacement')} at {where}.", *result.notes]
    return " ".join(sentences)
