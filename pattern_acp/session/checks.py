"""The checks of a session: those of the person, and those of the project while it is trusted.

Owns: which are in force, and that what they find at the end of a turn lets it go on. Must not know: how a check runs
(`turn/checks.py`).
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pattern_acp.config.settings import CheckSettings
from pattern_acp.domain.access import RunCommand
from pattern_acp.domain.ids import TurnId
from pattern_acp.rewind.checkpoints import Checkpoints
from pattern_acp.session.state import Addition
from pattern_acp.session.trust import confirm_trust
from pattern_acp.tools.base import ToolContext
from pattern_acp.turn.checks import ConfiguredChecks
from pattern_acp.turn.gate import Gate
from pattern_acp.turn.sink import TurnSink
from pattern_acp.workspace.terminal import CommandRequest, RunningCommand, Terminal

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


def checks_in_force(session: "Session") -> tuple[CheckSettings, ...]:
    """The person's checks, and those of a project they trust; of two by one name the person's."""
    own = session.state.settings.checks
    names = {check.name for check in own}
    return (*own, *(check for check in session.trust.in_force.checks if check.name not in names))


def checks_of(session: "Session", gate: Gate, context: ToolContext, sink: TurnSink | None = None) -> ConfiguredChecks:
    """The checks of one turn; `sink` is where they are recorded, the session's own unless it is given."""
    shared, sink = session.constellation, sink or session.sink

    async def confirm() -> tuple[CheckSettings, ...]:
        if session.trust.in_force.checks:
            await confirm_trust(session)
        return checks_in_force(session)

    found = checks_in_force(session)
    # A check may format what was edited; that belongs to the turn's changes.
    terminal = WatchedTerminal(context.terminal, session.checkpoints, context.turn_id)
    context = replace(context, terminal=terminal)
    return ConfiguredChecks(found, context, gate, sink, clock=shared.clock, ids=shared.ids, confirm=confirm)


async def checks_want_more(session: "Session", turn_id: TurnId, checks: ConfiguredChecks) -> bool:
    """Run the checks of the turn's end; whether one failed, so that the model should go on with what it found.

    Raises:
        DatabaseError: a check could not be recorded; the turn stops.
    """
    found = await checks.on_stop(turn_id)
    if found.text:
        title = "Checks failed after the last answer" if found.failed else "What checks found after the last answer"
        session.state.waiting.append(Addition("check", title, found.text, "check"))
    return found.failed
