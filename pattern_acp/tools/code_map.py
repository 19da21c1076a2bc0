"""The tool code_map.

Owns: the table of its operations and their titles for the user. Must not know: how a question
is answered (`code_questions.py`, which is imported with the first call, as is everything of `codemap`).
"""

from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Struct

from pattern_acp.domain.access import Access, ReadMemory, ReadPath
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    CodeMapArguments,
    CodeOperation,
    PreparedCall,
    Progress,
    ToolContext,
    ToolInputError,
    ToolOutcome,
    find_target,
)
from pattern_acp.tools.schema import input_schema, parse_arguments


class CodeMapOperation(Struct, frozen=True):
    """One operation: the title of a call, and what makes the call ready to run."""

    title: str
    """Up to the query."""
    prepare: Callable[[CodeMapArguments, str, ToolContext], Awaitable[PreparedCall]]
    """Is handed the whole title."""
    without_query: str = ""
    """The words in the title instead of an omitted query; empty where a query is required."""


class CodeMap:
    """Answers questions about the code of the workspace from an index."""

    spec = ToolSpec(
        "code_map",
        "Ask the code index. brief: files for a topic; impact: what a change of query or git diff reaches.",
        input_schema(CodeMapArguments, unlisted=("depth", "limit")),
    )
    kind = ToolKind.SEARCH
    changes_things = False

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, CodeMapArguments)
        require_query(asked)
        operation = OPERATIONS[asked.operation]
        title = f"{operation.title} {one_line(asked.query) or operation.without_query}"
        return await operation.prepare(asked, title, context)


def require_query(asked: CodeMapArguments) -> None:
    """Check that there is a query where one is needed. Raises ToolInputError where there is none."""
    if not OPERATIONS[asked.operation].without_query and not asked.query.strip():
        raise ToolInputError(f"`query` is empty; {asked.operation} needs a name, a path or a topic.")


async def _prepare_indexed(asked: CodeMapArguments, title: str, context: ToolContext) -> PreparedCall:
    accesses: tuple[Access, ...] = tuple(ReadPath(root, is_folder=True) for root in context.roots)
    if asked.operation is CodeOperation.OUTLINE:
        # Which file it is is said outright, so policy decides on that very file.
        accesses = (ReadPath((await find_target(asked.query or ".", context)).resolved),)
    elif asked.operation is CodeOperation.BRIEF:
        accesses = (*accesses, ReadMemory())
    return PreparedCall(title, accesses, partial(_run_indexed, asked, context))


async def _run_indexed(asked: CodeMapArguments, context: ToolContext, progress: Progress) -> ToolOutcome:
    from pattern_acp.tools.code_questions import answer

    return await answer(asked, context, progress)


async def _prepare_asked(asked: CodeMapArguments, title: str, context: ToolContext) -> PreparedCall:
    from pattern_acp.tools.code_language import accesses_of

    return PreparedCall(title, await accesses_of(asked, context), partial(_run_indexed, asked, context))


async def _prepare_rename(asked: CodeMapArguments, title: str, context: ToolContext) -> PreparedCall:
    from pattern_acp.tools.code_language import prepare_rename

    return await prepare_rename(asked, title, context)


OPERATIONS: dict[CodeOperation, CodeMapOperation] = {
    CodeOperation.FIND: CodeMapOperation("Find in code:", _prepare_indexed),
    CodeOperation.OUTLINE: CodeMapOperation("Outline of", _prepare_indexed, "the workspace"),
    CodeOperation.BRIEF: CodeMapOperation("Code about:", _prepare_indexed),
    CodeOperation.CALLERS: CodeMapOperation("Callers of", _prepare_indexed),
    CodeOperation.IMPORTERS: CodeMapOperation("Importers of", _prepare_indexed),
    CodeOperation.IMPACT: CodeMapOperation("Impact of", _prepare_indexed, "what is not committed"),
    CodeOperation.DEFINITION: CodeMapOperation("Definition of", _prepare_asked),
    CodeOperation.REFERENCES: CodeMapOperation("References to", _prepare_asked),
    CodeOperation.RENAME: CodeMapOperation("Rename", _prepare_rename),
}
"""Every operation of `CodeOperation`. One that asks a language server instead has a `prepare` of its own."""
