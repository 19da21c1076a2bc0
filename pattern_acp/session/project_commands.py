"""Slash commands about the project: /init writes AGENTS.md or memory into it, /review has changes judged, /code.

Owns: what they take and ask, what the model reads of a review, and the answers of /code as Markdown with links that an
editor opens. Must not know: how the code map is made or answers, or what is drafted from it (`codemap.brief`).
"""

import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec.structs import replace

from pattern_acp.codemap.brief import agents_file, overview
from pattern_acp.commands.document import Body, Paragraph, Part, Result, as_result
from pattern_acp.commands.parameters import CommandMisusedError, first_word
from pattern_acp.context.builder import add_context
from pattern_acp.context.instructions import role_of, with_memory
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import MessageId, ToolCallId
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.messages import Message, Role, TextPart, ToolCallPart
from pattern_acp.domain.paths import absolute_path, resolve_path
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.domain.tool_calls import Location, TextContent
from pattern_acp.journal.events import ContextAdded, SessionTitled
from pattern_acp.policy.decision import Mode
from pattern_acp.tools.base import CodeMapArguments, CodeOperation, PreparedCall, Progress, ToolContext, ToolOutcome
from pattern_acp.tools.code_map import CodeMap, require_query
from pattern_acp.tools.code_texts import TYPED
from pattern_acp.tools.edit_file import WriteFile
from pattern_acp.tools.schema import parse_arguments
from pattern_acp.turn.permissions import PermissionChecker
from pattern_acp.turn.recorder import NewEvent
from pattern_acp.turn.tool_runner import ToolRunner
from pattern_acp.workspace.errors import FileMissingError

if TYPE_CHECKING:
    from pattern_acp.codemap.model import IndexProgress
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.session import Session
    from pattern_acp.session.state import SessionState
    from pattern_acp.tools.base import CodeAccess
    from pattern_acp.tools.code_questions import Answered
    from pattern_acp.tools.code_texts import Line
    from pattern_acp.workspace.files import FileSystem, TextFile
    from pattern_acp.workspace.git import FileDiff


AGENTS_FILE = "AGENTS.md"

MEMORY_HEADING = "## What earlier sessions learned"

MANIFESTS = ("Makefile", "package.json", "pyproject.toml", "Cargo.toml", "go.mod")
"""Files of a project's root that say how it is built and tested."""

FILES_NAMED = 200
"""Changed files that a review has by name; the model finds the others with git."""

SOURCE = "review"
"""Source of what the model learns of a review."""


async def run_init(session: "Session", argument: str) -> Result:
    """Draft AGENTS.md from the code map, show it, and write it once the user agrees.

    Raises:
        PatternError: a sentence about why it cannot be written.
    """
    if argument.strip() == "--memory":
        return await _write_memory(session)
    if argument.strip() not in {"", "--overwrite"}:
        raise CommandMisusedError(
            "/init writes AGENTS.md; `/init --overwrite` replaces the one that there is, `/init --memory` writes the "
            "project's memory into it."
        )
    root, code = session.state.cwd, _code(session.constellation, session.state)
    path = absolute_path(AGENTS_FILE, root)
    before = await _read(session.workbench.files, path)
    if not argument.strip() and before is not None:
        return as_result(f"`{AGENTS_FILE}` is there already; `/init --overwrite` shows what would replace it.")
    found, _ = await code.ask(root, overview, on_progress=_wait)
    if found is None or not found.files:
        raise WorkspaceError("The code map has no files of this folder; write AGENTS.md by hand, or add code first.")
    manifests = {name: await _read(session.workbench.files, absolute_path(name, root)) for name in MANIFESTS}
    draft = agents_file(found, {name: file.text for name, file in manifests.items() if file is not None})
    if not await _write(session, path, draft, before):
        return as_result("Nothing was written.")
    return as_result(
        f"`{AGENTS_FILE}` is written, from {plural(found.files, 'file')} of the code map. It counts from your next "
        "prompt on. Correct it, and add what the code does not say: conventions, and what must not be touched."
    )


async def _write_memory(session: "Session") -> Result:
    """Write the project's memory into a part of AGENTS.md, for other agents that work there."""
    blocks = [each for each in await session.person_memory.blocks() if each.scope == "project" and each.text.strip()]
    if not blocks:
        return as_result("Nothing was written: there is no memory of this project yet.")
    path = absolute_path(AGENTS_FILE, session.state.cwd)
    before = await _read(session.workbench.files, path)
    memory = "\n\n".join((MEMORY_HEADING, *(f"### {each.label}\n\n{each.text.strip()}" for each in blocks)))
    if not await _write(session, path, with_memory(before.text if before is not None else "", memory), before):
        return as_result("Nothing was written.")
    return as_result(
        f"`{AGENTS_FILE}` has {plural(len(blocks), 'block')} of this project's memory, for other agents. I do not read "
        "that part back; the command brings it up to date."
    )


async def run_review(session: "Session", wish: str) -> Result | None:
    """Have the model review the changes since the last commit, as a reviewer; None when it has something to do.

    Raises:
        PatternError: git cannot say what has changed.
    """
    shared, state = session.constellation, session.state
    changed = await _code(shared, state).changed_files(state.cwd)
    if not changed:
        return as_result("There is nothing to review: no file differs from the last commit.")
    turn_id = session.turn_id
    message = Message(MessageId(shared.ids.new("msg")), Role.USER, (TextPart(review_text(changed, wish)),))
    events = [NewEvent(ContextAdded(turn_id, message, (SOURCE,)), Actor.HUMAN, Origin.PERSON)]
    if not state.title:
        state.title = f"Review of {plural(len(changed), 'changed file')}"
        events.append(NewEvent(SessionTitled(state.title), Actor.SYSTEM, Origin.PERSON))
    await session.recorder.record(*events)
    add_context(state.history, message)
    return None


def review_text(changed: "tuple[FileDiff, ...]", wish: str) -> str:
    """The request to the model: the reviewer's role, and the files that differ from the last commit."""
    named = "\n".join(f"- {one_line(file.path, 200)}{_how(file)}" for file in changed[:FILES_NAMED])
    more = f"\n- and {len(changed) - FILES_NAMED} more" if len(changed) > FILES_NAMED else ""
    only = f"\n\nLook for this above all: {wish.strip()}" if wish.strip() else ""
    return (
        "Review the changes of the work tree since the last commit. Change nothing.\n\n"
        f"{role_of('reviewer')}\n\n"
        f"Read each change with `git diff HEAD`, and new files whole. These files differ:\n{named}{more}\n\n"
        "Answer with the findings, the most serious first, each with its place as path:line, what goes wrong and for "
        f"which input; then what you could not check. Say so plainly when you find nothing.{only}"
    )


def _how(file: "FileDiff") -> str:
    return " (new)" if file.is_new else " (deleted)" if file.is_deleted else ""


def _code(shared: "Constellation", state: "SessionState") -> "CodeAccess":
    # Late: it knows every capability that a tool may use.
    from pattern_acp.session.state import code_of

    code = code_of(shared, state)
    if code is None:
        raise WorkspaceError("There is no code map here: open a session in the folder of a project.")
    return code


async def _wait(progress: "IndexProgress") -> None:
    """The answer tells how many files were read."""
    del progress


async def _read(files: "FileSystem", path: str) -> "TextFile | None":
    try:
        return await files.read_text_file(path)
    except FileMissingError:
        return None


async def _write(session: "Session", path: str, text: str, before: "TextFile | None") -> bool:
    """Write the file as a call that the user is asked about, whatever the mode lets run without a question."""
    # Late: only a session that runs turns needs it.
    from pattern_acp.session.turn_tools import tool_context

    shared, policy, turn_id = session.constellation, session.state.policy, session.turn_id
    if policy.mode is not Mode.PLAN:
        policy = replace(policy, mode=Mode.ASK)
    permissions = PermissionChecker(policy, session.approver, session.recorder, clock=shared.clock)
    context = tool_context(session, turn_id)
    if before is not None:
        # The user sees what is replaced; the model need not have read it.
        known = {**context.read_fingerprints, await anyio.to_thread.run_sync(resolve_path, path): before.fingerprint}
        context = replace(context, read_fingerprints=known)
    runner = ToolRunner(
        (WriteFile(),), context, permissions, session.recorder, clock=shared.clock, effects=session.checkpoints
    )
    arguments = json.dumps({"path": path, "content": text})
    (result,) = await runner.run(
        turn_id, (ToolCallPart(ToolCallId(shared.ids.new("call")), WriteFile.spec.name, arguments),)
    )
    return not result.is_error


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
    return CodeFound(tuple(found.lines), found.freshness) if found is not None else as_result(result.text)


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
