"""The slash command /code.

Owns: what may be typed behind it, and its answer as Markdown with links that an editor opens. Must not know: how a
question is answered.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.ids import TurnId
from pattern_acp.domain.tool_calls import Location, ToolContent
from pattern_acp.session.errors import InvalidRequestError
from pattern_acp.tools.code_map import CodeMapArguments, CodeOperation, require_query

if TYPE_CHECKING:
    from pattern_acp.session.session import Session
    from pattern_acp.tools.code_texts import Line

LINES_SHOWN = 80
"""Lines of an answer; a person reads no more in a chat."""

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


class _Unseen:
    """`Progress` of a command, which has no call to show it in."""

    async def show(self, content: tuple[ToolContent, ...]) -> None:
        """See `Progress.show`."""

    async def terminal_output(self, terminal_id: str, data: str) -> None:
        """See `Progress.terminal_output`."""

    async def terminal_exit(self, terminal_id: str, exit_code: int | None, signal: str | None) -> None:
        """See `Progress.terminal_exit`."""


async def run_code(session: "Session", argument: str) -> str:
    """Ask the code map; the first word may be an operation, otherwise it is find.

    Raises:
        InvalidRequestError: nothing was asked.
        PatternError: the answer is a sentence about what is wrong with the question.
    """
    from pattern_acp.session.prompting import tool_context
    from pattern_acp.tools.code_questions import answered

    context = tool_context(session, TurnId(""))
    if context.code is None:
        raise WorkspaceError("There is no code map here: open a session in the folder of a project.")
    asked = arguments_of(argument)
    found = await answered(asked, context, _Unseen())
    lines = [_markdown(line) for line in found.lines[:LINES_SHOWN]]
    if len(found.lines) > LINES_SHOWN:
        lines.append(f"- {len(found.lines) - LINES_SHOWN:,} more lines; ask more narrowly")
    return "\n".join([*lines, "", f"*{_escaped(found.freshness)}*"])


def arguments_of(argument: str) -> CodeMapArguments:
    """What `/code ARGUMENT` asks.

    Raises:
        InvalidRequestError: nothing was asked.
        ToolInputError: the operation needs a query and has none.
    """
    first, _, rest = argument.partition(" ")
    if not first:
        words = ", ".join(CodeOperation)
        raise InvalidRequestError(
            f"Say what to look for: /code NAME, or one of {words} in front, as in /code brief TOPIC."
        )
    if first in set(CodeOperation):
        asked = CodeMapArguments(CodeOperation(first), rest.strip())
        require_query(asked)
        return asked
    return CodeMapArguments(CodeOperation.FIND, argument)


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
