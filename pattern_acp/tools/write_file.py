"""The tool write_file."""

from typing import Annotated

from msgspec import Meta, Struct

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.text_limits import plural
from pattern_acp.domain.tool_calls import ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import NothingChangedError, PreparedCall, ToolContext
from pattern_acp.tools.edit_file import BYTE_ORDER_MARK, newline_of, with_newline
from pattern_acp.tools.file_changes import FileChange, changed_since, prepared_change, read_if_there
from pattern_acp.tools.read_file import text_lines
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.tools.targets import CodeTarget, find_target
from pattern_acp.workspace.files import TextFile


class WriteFileArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of write_file."""

    path: Annotated[str, Meta(min_length=1)]
    content: str


class WriteFile:
    """Writes a whole file. Overwrites only what the model has read as it is now."""

    spec = ToolSpec(
        "write_file",
        "Create a file, or replace the whole text of one that you have read. Edit instead to change a part.",
        input_schema(WriteFileArguments),
    )
    kind = ToolKind.EDIT
    changes_things = True

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, WriteFileArguments)
        target = await find_target(asked.path, context)
        change = await _plan(asked, target, context)
        return prepared_change(f"{'Create' if change.before is None else 'Write'} {target.shown}", change, context)


async def _plan(asked: WriteFileArguments, target: CodeTarget, context: ToolContext) -> FileChange:
    before = await read_if_there(target, context)
    lines = plural(len(text_lines(asked.content)), "line")
    if before is None:
        return FileChange(target, None, asked.content, f"Created {target.shown} ({lines}).", knows_text=True)
    _require_read(before, target, context)
    after = _in_form_of(before.text, asked.content)
    if after == before.text:
        raise NothingChangedError(f"{target.shown} already has exactly this text; nothing was written.")
    summary = f"Wrote {target.shown} ({lines}, {len(text_lines(before.text)):,} before)."
    return FileChange(target, before, after, summary, knows_text=True)


def _require_read(before: TextFile, target: CodeTarget, context: ToolContext) -> None:
    known = context.read_fingerprints.get(target.resolved)
    if known == before.fingerprint or not before.text:
        return
    happened = "exists, and you have not read it yet" if known is None else "was changed since you read it"
    raise changed_since(f"{target.shown} {happened}.", target, before, context)


def _in_form_of(before: str, content: str) -> str:
    """The content with the file's byte order mark and, where it has only Windows line endings, with those."""
    mark = BYTE_ORDER_MARK if before.startswith(BYTE_ORDER_MARK) else ""
    text = content.removeprefix(BYTE_ORDER_MARK) if mark else content
    return mark + (with_newline(text, "\r\n") if newline_of(before) == "\r\n" else text)
