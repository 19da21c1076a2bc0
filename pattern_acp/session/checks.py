"""Checks of a session after edits: the user's and, while it is trusted, the project's, and its language servers.

Owns: which are in force, and that what they find at the end of a turn lets it continue. Must not know: how a check runs
(`turn/checks.py`), or how a language server is spoken to.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pattern_acp.config.settings import CheckSettings
from pattern_acp.domain.access import Actor, Origin, RunCommand
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.paths import display_path
from pattern_acp.domain.text_limits import cut_line, plural
from pattern_acp.domain.tool_calls import Location, TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import ToolCallFinished, ToolCallStarted
from pattern_acp.rewind.checkpoints import Checkpoints
from pattern_acp.session.state import Addition, code_of
from pattern_acp.session.trust import confirm_trust
from pattern_acp.tools.base import ToolContext
from pattern_acp.turn.checks import ConfiguredChecks
from pattern_acp.turn.permissions import PermissionChecker
from pattern_acp.turn.recorder import NewEvent, TurnRecorder
from pattern_acp.workspace.terminal import CommandRequest, RunningCommand, Terminal

if TYPE_CHECKING:
    from pattern_acp.config.settings import LspSettings
    from pattern_acp.lsp.model import CodeLocation, FileEdits, Introduced, NewError, Span
    from pattern_acp.lsp.servers import LanguageServers
    from pattern_acp.session.ports import Dialogue, ExtendedDialogue
    from pattern_acp.session.session import Session
    from pattern_acp.session.state import FolderTrust, SessionState

if TYPE_CHECKING:
    from pattern_acp.session.session import Session


class WatchedTerminal:
    """`Terminal` over another one, for commands that no tool call runs; what they change in files is found as well."""

    def __init__(self, inner: Terminal, checkpoints: Checkpoints, turn_id: TurnId) -> None:
        self._inner = inner
        self._checkpoints = checkpoints
        self._turn_id = turn_id

    @asynccontextmanager
    async def start(self, request: CommandRequest) -> AsyncGenerator[RunningCommand, None]:
        """See `Terminal.start`."""
        access = RunCommand(request.line, request.cwd)
        async with self._checkpoints.around(self._turn_id, (access,)), self._inner.start(request) as command:
            yield command


def checks_in_force(state: "SessionState", trust: "FolderTrust") -> tuple[CheckSettings, ...]:
    """The user's checks, and those of a project they trust; of two by one name the user's."""
    own = state.settings.checks
    names = {check.name for check in own}
    return (*own, *(check for check in trust.in_force.checks if check.name not in names))


def checks_of(
    dialogue: "ExtendedDialogue",
    checkpoints: "Checkpoints",
    permissions: PermissionChecker,
    context: ToolContext,
    recorder: TurnRecorder | None = None,
) -> ConfiguredChecks:
    """The checks of one turn; `recorder` is where they are recorded, the session's own unless one is passed."""
    shared, recorder = dialogue.shared, recorder or dialogue.recorder

    async def confirm() -> tuple[CheckSettings, ...]:
        if dialogue.trust.in_force.checks:
            await confirm_trust(dialogue)
        return checks_in_force(dialogue.state, dialogue.trust)

    found = checks_in_force(dialogue.state, dialogue.trust)
    # A check may format what was edited; that belongs to the turn's changes.
    terminal = WatchedTerminal(context.terminal, checkpoints, context.turn_id)
    context = replace(context, terminal=terminal)
    return ConfiguredChecks(found, context, permissions, recorder, clock=shared.clock, ids=shared.ids, confirm=confirm)


async def checks_want_more(state: "SessionState", turn_id: TurnId, checks: ConfiguredChecks) -> bool:
    """Run the checks of the turn's end; whether one failed, so that the model should continue with what it found.

    Raises:
        DatabaseError: a check could not be recorded; the turn stops.
    """
    found = await checks.on_stop(turn_id)
    if found.text:
        title = "Checks failed after the last answer" if found.failed else "What checks found after the last answer"
        state.waiting.append(Addition("check", title, found.text, "check"))
    return found.failed


MakeServers = Callable[["LspSettings", tuple[str, ...], Callable[[], bool]], "LanguageServers"]
"""Makes the servers of a session: the settings, its folders, and whether its project is trusted."""

DIAGNOSTICS_CALL = "diagnostics"
"""Name of the calls that show new errors."""

MOST_ERRORS = 20
"""Errors that are reported at once; the first ones are what can be repaired."""

MESSAGE_CHARACTERS = 400


class ServersWhenAsked:
    """`tools.language_access.LanguageAccess` of a session; servers are made, and imported, with the first question."""

    def __init__(self, session: "Session", make: "MakeServers") -> None:
        self._session = session
        self._make = make

    async def note_before(self, path: str, text: str | None) -> None:
        """See `LanguageAccess.note_before`."""
        await self._servers().note_before(path, text)

    def note_gone(self, path: str) -> None:
        """See `LanguageAccess.note_gone`."""
        if self._session.languages is not None:
            self._session.languages.note_gone(path)

    async def definition(self, path: str, text: str, at: "Span") -> "tuple[CodeLocation, ...]":
        """See `LanguageAccess.definition`."""
        return await self._servers().definition(path, text, at)

    async def references(self, path: str, text: str, at: "Span") -> "tuple[CodeLocation, ...]":
        """See `LanguageAccess.references`."""
        return await self._servers().references(path, text, at)

    async def rename(self, path: str, text: str, at: "Span", new_name: str) -> "tuple[FileEdits, ...]":
        """See `LanguageAccess.rename`."""
        return await self._servers().rename(path, text, at, new_name)

    async def show(self, path: str, text: str) -> None:
        """See `LanguageAccess.show`."""
        await self._servers().show(path, text)

    def _servers(self) -> "LanguageServers":
        session, state = self._session, self._session.state
        if session.languages is None:
            session.languages = self._make(state.settings.lsp, state.policy.roots, lambda: session.trust.granted)
        return session.languages


def servers_of(session: "Session") -> ServersWhenAsked | None:
    """The session's language servers; None where the session is in no workspace."""
    make = session.constellation.languages
    return (
        ServersWhenAsked(session, make)
        if make is not None and code_of(session.constellation, session.state) is not None
        else None
    )


class ChecksAndDiagnostics:
    """`turn.tool_runner.AfterEdits`: first the checks that are configured, then what language servers find."""

    def __init__(self, session: "Session", checks: ConfiguredChecks, recorder: TurnRecorder) -> None:
        self._session = session
        self._checks = checks
        self._recorder = recorder

    async def after_edits(self, turn_id: TurnId, changed: Sequence[str]) -> str:
        """See `AfterEdits.after_edits`. A formatter among the checks has its say before servers see the files."""
        text = await self._checks.after_edits(turn_id, changed)
        found = await self._introduced(turn_id, changed)
        return "\n".join(part for part in (text, found) if part)

    async def _introduced(self, turn_id: TurnId, changed: Sequence[str]) -> str:
        servers = self._session.languages
        if servers is None:
            return ""
        from pattern_acp.lsp.servers import known_files

        texts: dict[str, str] = {}
        for path in known_files(servers, changed):
            try:
                texts[path] = (await self._session.workbench.files.read_text_file(path)).text
            except PatternError:
                continue
        found = await servers.introduced(texts)
        self._session.state.notices.extend(servers.started.take_notices())
        return await _tell(self._session.dialogue, self._recorder, turn_id, found, "Since the last edits")


async def diagnostics_want_more(session: "Session", turn_id: TurnId) -> bool:
    """Look once more for errors of edits that servers had not judged in time; whether the model should repair some.

    Raises:
        DatabaseError: the errors could not be recorded; the turn stops.
    """
    if session.languages is None:
        return False
    found = await session.languages.later()
    title = "Language servers found errors in what was edited"
    text = await _tell(session.dialogue, session.recorder, turn_id, found, title)
    if found.errors:
        session.state.waiting.append(Addition("diagnostics", title, text, "language server"))
    return bool(found.errors)


async def _tell(dialogue: "Dialogue", recorder: TurnRecorder, turn_id: TurnId, found: "Introduced", when: str) -> str:
    """The errors for the model, recorded and shown to the user; empty when there are none."""
    if not found.errors:
        return ""
    cwd = dialogue.state.cwd
    lines = [_line(error, cwd) for error in found.errors[:MOST_ERRORS]]
    if len(found.errors) > MOST_ERRORS:
        lines.append(f"and {len(found.errors) - MOST_ERRORS:,} more")
    counted = plural(len(found.errors), "new error")
    text = "\n".join([f"{when}, {counted} by the language server:", *lines])
    call_id = ToolCallId(dialogue.shared.ids.new("call"))
    locations = tuple(dict.fromkeys(Location(error.path, error.line) for error in found.errors[:MOST_ERRORS]))
    view = ToolCallView(call_id, DIAGNOSTICS_CALL, counted[0].upper() + counted[1:], ToolKind.OTHER, {}, locations)
    finished = ToolCallFinished(
        turn_id, call_id, ToolCallStatus.COMPLETED, text, (TextContent("\n".join(lines)),), locations
    )
    await recorder.record(
        NewEvent(ToolCallStarted(turn_id, view), Actor.SYSTEM), NewEvent(finished, Actor.TOOL, Origin.WORKSPACE)
    )
    return text


def _line(error: "NewError", cwd: str) -> str:
    message = cut_line(" ".join(error.message.split()), MESSAGE_CHARACTERS)
    by = " ".join(part for part in (error.source, error.code) if part)
    return f"{display_path(error.path, cwd)}:{error.line}:{error.column} {message}{f' ({by})' if by else ''}"
