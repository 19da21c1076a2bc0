"""The language servers of a session, and what is told of errors that an edit introduced.

Owns: that they are compared once behind each batch of edits, after checks, and once more before the turn ends; that new
errors are recorded and shown as a call of their own. Must not know: how servers are run, or what they speak.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.ids import ToolCallId, TurnId
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.paths import display_path
from pattern_acp.domain.text_limits import cut_line, plural
from pattern_acp.domain.tool_calls import Location, TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import ToolCallFinished, ToolCallStarted
from pattern_acp.session.code import code_of
from pattern_acp.session.state import Addition
from pattern_acp.turn.checks import ConfiguredChecks
from pattern_acp.turn.sink import Fact, TurnSink

if TYPE_CHECKING:
    from pattern_acp.config.settings import LspSettings
    from pattern_acp.lsp.model import CodeLocation, FileEdits, Introduced, NewError, Span
    from pattern_acp.lsp.servers import LanguageServers
    from pattern_acp.session.session import Session

MakeServers = Callable[["LspSettings", tuple[str, ...], Callable[[], bool]], "LanguageServers"]
"""Makes the servers of a session: the settings, its folders, and whether its project is trusted."""

DIAGNOSTICS_CALL = "diagnostics"
"""Name of the calls that show new errors."""

MOST_ERRORS = 20
"""Errors that are told at once; the first ones are what can be mended."""

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
    return ServersWhenAsked(session, make) if make is not None and code_of(session) is not None else None


class ChecksAndDiagnostics:
    """`turn.tool_hooks.AfterEdits`: first the checks that are configured, then what language servers find."""

    def __init__(self, session: "Session", checks: ConfiguredChecks, sink: TurnSink) -> None:
        self._session = session
        self._checks = checks
        self._sink = sink

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
        return await _tell(self._session, self._sink, turn_id, found, "Since the last edits")


async def diagnostics_want_more(session: "Session", turn_id: TurnId) -> bool:
    """Look once more for errors of edits that servers had not judged in time; whether the model should mend some.

    Raises:
        DatabaseError: the errors could not be recorded; the turn stops.
    """
    if session.languages is None:
        return False
    found = await session.languages.later()
    title = "Language servers found errors in what was edited"
    text = await _tell(session, session.sink, turn_id, found, title)
    if found.errors:
        session.state.waiting.append(Addition("diagnostics", title, text, "language server"))
    return bool(found.errors)


async def _tell(session: "Session", sink: TurnSink, turn_id: TurnId, found: "Introduced", when: str) -> str:
    """The errors for the model, recorded and shown to the person; empty when there are none."""
    if not found.errors:
        return ""
    cwd = session.state.cwd
    lines = [_line(error, cwd) for error in found.errors[:MOST_ERRORS]]
    if len(found.errors) > MOST_ERRORS:
        lines.append(f"and {len(found.errors) - MOST_ERRORS:,} more")
    counted = plural(len(found.errors), "new error")
    text = "\n".join([f"{when}, {counted} by the language server:", *lines])
    call_id = ToolCallId(session.constellation.ids.new("call"))
    locations = tuple(dict.fromkeys(Location(error.path, error.line) for error in found.errors[:MOST_ERRORS]))
    view = ToolCallView(call_id, DIAGNOSTICS_CALL, counted[0].upper() + counted[1:], ToolKind.OTHER, {}, locations)
    finished = ToolCallFinished(
        turn_id, call_id, ToolCallStatus.COMPLETED, text, (TextContent("\n".join(lines)),), locations
    )
    await sink.record(Fact(ToolCallStarted(turn_id, view), Actor.SYSTEM), Fact(finished, Actor.TOOL, Origin.WORKSPACE))
    return text


def _line(error: "NewError", cwd: str) -> str:
    message = cut_line(" ".join(error.message.split()), MESSAGE_CHARACTERS)
    by = " ".join(part for part in (error.source, error.code) if part)
    return f"{display_path(error.path, cwd)}:{error.line}:{error.column} {message}{f' ({by})' if by else ''}"
