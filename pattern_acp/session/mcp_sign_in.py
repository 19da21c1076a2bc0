"""The question whether to sign in at an MCP server that wants a login, and the sign-in in the user's browser.

Owns: how it is asked, shown and recorded. The address to sign in at is shown and never recorded, as the login is not.
Must not know: OAuth.
"""

from typing import TYPE_CHECKING

import anyio

from pattern_acp.config.providers import show_url
from pattern_acp.domain.errors import SignInError
from pattern_acp.domain.ids import ToolCallId, TurnId
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.tool_calls import TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import PermissionAnswered, PermissionAsked, ToolCallFinished, ToolCallStarted
from pattern_acp.mcp_servers.server import Server
from pattern_acp.policy.approver import ApprovalOption, ApprovalRequest, PermissionAnswer
from pattern_acp.turn.events import ToolCallShows
from pattern_acp.turn.recorder import NewEvent
from pattern_acp.turn.tool_runner import CLEANUP_SECONDS

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

SIGN_IN_CALL = "mcp_login"
"""Name of the call that shows the question."""

OPTIONS = (
    ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Sign in in the browser"),
    ApprovalOption(PermissionAnswer.REJECT_ONCE, "Continue without this server"),
)

START_SECONDS = 20.0
"""Longest that the turn waits for a server after the user signed in."""


async def offer_sign_in(session: "Session", turn_id: TurnId, server: Server) -> bool:
    """Ask whether to sign in at a server, and do it; whether the user is signed in.

    Raises:
        DatabaseError: the question could not be recorded; the turn stops.
    """
    where = show_url(server.settings.url.partition("?")[0])
    reason = f"The MCP server {server.name} ({where}) wants a login. Its tools are missing until you sign in."
    call = ToolCallView(
        ToolCallId(session.constellation.ids.new("call")),
        SIGN_IN_CALL,
        f"Sign in at the MCP server {server.name}?",
        ToolKind.OTHER,
        {"server": server.name, "url": where},
        content=(TextContent(f"{reason} Your browser opens for it, and the login is stored with your other keys."),),
    )
    asked = PermissionAsked(turn_id, call.call_id, reason, tuple(option.answer.value for option in OPTIONS))
    await session.recorder.record(NewEvent(ToolCallStarted(turn_id, call), Actor.SYSTEM), NewEvent(asked, Actor.SYSTEM))
    answer, told, failure = PermissionAnswer.CANCELLED, "The sign-in was cancelled.", ""
    try:
        answer = await session.approver.ask(ApprovalRequest(call, reason, OPTIONS))
        if answer.allows:
            told = await _sign_in(session, call, server)
        else:
            told = f"Not signed in. `pattern-acp mcp login {server.name}` in a terminal does it later."
    except SignInError as error:
        told, failure = error.sentence, error.failure_code
    finally:
        is_done = answer.allows and not server.wants_login
        status = ToolCallStatus.COMPLETED if is_done else ToolCallStatus.FAILED
        shown = (*call.content, TextContent(told))
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
            await session.recorder.record(
                NewEvent(PermissionAnswered(turn_id, call.call_id, answer.value), Actor.HUMAN, Origin.PERSON),
                NewEvent(
                    ToolCallFinished(turn_id, call.call_id, status, told, content=shown, failure=failure), Actor.SYSTEM
                ),
            )
    return is_done


async def _sign_in(session: "Session", call: ToolCallView, server: Server) -> str:
    async def show(url: str) -> None:
        link = TextContent(f"If no browser opens on this machine, open this address in one:\n\n{url}")
        await session.recorder.show(ToolCallShows(call.call_id, (*call.content, link)))

    await server.sign_in(show)
    with anyio.move_on_after(START_SECONDS):
        await server.settled.wait()
    return f"Signed in at {server.name}."
