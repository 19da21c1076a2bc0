"""The slash command /code.

Owns: what may be typed behind it, and its answer as Markdown with links that an editor opens. Must not know: how a
question is answered.
"""

import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pattern_acp.commands.document import Body, Paragraph, Part, Result, Said
from pattern_acp.commands.parameters import CommandMisusedError, first_word
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.messages import ToolCallPart
from pattern_acp.domain.text_limits import plural
from pattern_acp.domain.tool_calls import Location, TextContent
from pattern_acp.tools.base import CodeMapArguments, CodeOperation, PreparedCall, Progress, ToolContext, ToolOutcome
from pattern_acp.tools.code_map import CodeMap, require_query
from pattern_acp.tools.code_texts import TYPED
from pattern_acp.tools.schema import parse_arguments
from pattern_acp.turn.permissions import PermissionChecker
from pattern_acp.turn.tool_runner import ToolRunner

if TYPE_CHECKING:
    from pattern_acp.session.session import Session
    from pattern_acp.tools.code_questions import Answered
    from pattern_acp.tools.code_texts import Line

LINES_SHOWN = 80
"""Lines of an answer; a user reads no more in a chat."""

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


class _Question:
    """The tool code_map, which keeps its answer for the message that follows the call.

    The call is there for its locations and progress: every client shows those, and few open links in a message.
    """

    spec = CodeMap.spec
    kind = CodeMap.kind
    changes_things = False

    def __init__(self) -> None:
        self.answer: Answered | None = None

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, CodeMapArguments)
        prepared = await CodeMap().prepare(arguments, call_id, context)
        if asked.operation is CodeOperation.RENAME:
            return prepared
        return replace(prepared, run=partial(self._run, asked, context))

    async def _run(self, asked: CodeMapArguments, context: ToolContext, progress: Progress) -> ToolOutcome:
        from pattern_acp.tools.code_questions import answered, outcome_of

        self.answer = await answered(asked, context, progress)
        return replace(outcome_of(self.answer, context), content=(TextContent(self.answer.freshness),))


class CodeFound(Result, frozen=True):
    """The answer to a question about code: its lines, and how fresh the map is."""

    lines: "tuple[Line, ...]"
    freshness: str

    @property
    def document(self) -> Sequence[Part]:
        """The lines that a user reads, as a list with links that an editor opens."""
        lines = [_markdown(line) for line in self.lines[:LINES_SHOWN]]
        if len(self.lines) > LINES_SHOWN:
            lines.append(f"- {plural(len(self.lines) - LINES_SHOWN, 'more line')}; ask more narrowly")
        return Body(as_typed("\n".join(lines))), Paragraph(as_typed(_escaped(self.freshness)), "dim")


async def run_code(session: "Session", argument: str) -> Result:
    """Ask the code map; the first word may be an operation, otherwise it is find.

    Raises:
        InvalidRequestError: nothing was asked.
        PatternError: the answer is a sentence about what is wrong with the question.
    """
    # Late: only a session that runs turns needs it.
    from pattern_acp.session.turn_tools import tool_context

    turn_id = session.turn_id
    context = tool_context(session, turn_id)
    if context.code is None:
        raise WorkspaceError("There is no code map here: open a session in the folder of a project.")
    question, shared = _Question(), session.constellation
    permissions = PermissionChecker(session.state.policy, session.approver, session.recorder, clock=shared.clock)
    runner = ToolRunner((question,), context, permissions, session.recorder, clock=shared.clock)
    call = ToolCallPart(ToolCallId(shared.ids.new("call")), question.spec.name, arguments_of(argument))
    (result,) = await runner.run(turn_id, (call,))
    found = question.answer
    return CodeFound(tuple(found.lines), found.freshness) if found is not None else Said(result.text)


def as_typed(answer: str) -> str:
    """The answer with what the user can type instead of what the model can call."""
    for called, typed in TYPED.items():
        answer = answer.replace(_escaped(called), typed)
    return answer


def arguments_of(argument: str) -> str:
    """Parse `/code ARGUMENT` into the arguments of the tool.

    Raises:
        InvalidRequestError: nothing was asked.
        ToolInputError: the operation needs a query and has none.
    """
    first, rest = first_word(argument)
    if not first:
        words = ", ".join(CodeOperation)
        raise CommandMisusedError(
            f"Say what to look for: /code NAME, or one of {words} in front, as in /code brief TOPIC."
        )
    operation = CodeOperation(first) if first in set(CodeOperation) else CodeOperation.FIND
    asked = CodeMapArguments(operation, rest.strip() if first == operation else argument)
    require_query(asked)
    if asked.operation is CodeOperation.RENAME:
        query, _, new_name = asked.query.rpartition(" ")
        return json.dumps({"operation": asked.operation, "query": query, "new_name": new_name})
    return json.dumps({"operation": asked.operation, "query": asked.query})


def _markdown(line: "Line") -> str:
    indent = "  " * line.depth
    if line.place is None or not line.head:
        return f"\n{_escaped(line.whole)}\n" if not line.depth else f"{indent}- {_escaped(line.text)}"
    return f"{indent}- [{_escaped(line.head)}]({_uri(line.place)}){_escaped(line.text)}"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _uri(place: Location) -> str:
    """A link that Zed and VS Code open at its line; brackets in it would end the link."""
    uri = Path(place.path).as_uri().replace("(", "%28").replace(")", "%29")
    return uri if place.line is None else f"{uri}#L{place.line}"
