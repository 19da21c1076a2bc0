"""The question whether to sign in at an MCP server that wants a login, and the sign-in in the user's browser.

Owns: how it is asked, shown and recorded. The address to sign in at is shown and never recorded, as the login is not.
Must not know: OAuth.
"""

from typing import TYPE_CHECKING

import anyio

from pattern_acp.config.providers import show_url
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.errors import SignInError
from pattern_acp.domain.tool_calls import TextContent, ToolCallView, ToolKind
from pattern_acp.mcp_servers.server import Server
from pattern_acp.policy.decision import ApprovalOption, PermissionAnswer
from pattern_acp.session.ports import recorded_question
from pattern_acp.turn.recorder import ToolCallShows

if TYPE_CHECKING:
    from pattern_acp.session.ports import Dialogue
    from pattern_acp.turn.recorder import TurnRecorder

SIGN_IN_CALL = "mcp_login"
"""Name of the call that shows the question."""

OPTIONS = (
    ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Sign in in the browser"),
    ApprovalOption(PermissionAnswer.REJECT_ONCE, "Continue without this server"),
)

START_SECONDS = 20.0
"""Longest that the turn waits for a server after the user signed in."""


async def offer_sign_in(dialogue: "Dialogue", turn_id: TurnId, server: Server) -> bool:
    """Ask whether to sign in at a server, and do it; whether the user is signed in.

    Raises:
        DatabaseError: the question could not be recorded; the turn stops.
    """
    where = show_url(server.settings.url.partition("?")[0])
    reason = f"The MCP server {server.name} ({where}) wants a login. Its tools are missing until you sign in."
    call = ToolCallView(
        ToolCallId(dialogue.shared.ids.new("call")),
        SIGN_IN_CALL,
        f"Sign in at the MCP server {server.name}?",
        ToolKind.OTHER,
        {"server": server.name, "url": where},
        content=(TextContent(f"{reason} Your browser opens for it, and the login is stored with your other keys."),),
    )
    async with recorded_question(dialogue, turn_id, call, reason, OPTIONS) as question:
        question.told, question.done = "The sign-in was cancelled.", False
        try:
            if (await question.put()).allows:
                question.told = await _sign_in(dialogue.recorder, call, server)
            else:
                question.told = f"Not signed in. `pattern-acp mcp login {server.name}` in a terminal does it later."
        except SignInError as error:
            question.told, question.failure = error.sentence, error.failure_code
        finally:
            question.done = question.answer.allows and not server.wants_login
    return bool(question.done)


async def _sign_in(recorder: "TurnRecorder", call: ToolCallView, server: Server) -> str:
    async def show(url: str) -> None:
        link = TextContent(f"If no browser opens on this machine, open this address in one:\n\n{url}")
        await recorder.show(ToolCallShows(call.call_id, (*call.content, link)))

    await server.sign_in(show)
    with anyio.move_on_after(START_SECONDS):
        await server.settled.wait()
    return f"Signed in at {server.name}."
