"""Forks, sessions that another window has, subagents: translates, calls the session layer, translates back."""

from collections.abc import Callable

from pattern_acp.acp.schema_extensions import (
    ForkSessionRequest,
    ForkSessionResponse,
    OpenSessionRequest,
    StopSubagentRequest,
    StopSubagentResponse,
)
from pattern_acp.acp.session_wire import asked_of, opening_of, servers_of
from pattern_acp.acp.updates import config_options, mode_state
from pattern_acp.domain.ids import SessionId, ToolCallId
from pattern_acp.jsonrpc.dispatcher import RequestContext
from pattern_acp.session.errors import InvalidRequestError
from pattern_acp.session.opening import Opening
from pattern_acp.session.registry import Sessions
from pattern_acp.session.reopening import Reopening
from pattern_acp.session.session import Session

MODES = ("read", "take_over")


class SessionExtensions:
    """What ACP v1 has no method for."""

    def __init__(self, sessions: Sessions, announce_later: Callable[[Session, RequestContext], None]) -> None:
        """`announce_later` shows the slash commands once the answer is out."""
        self._sessions = sessions
        self._announce_later = announce_later

    async def fork(self, request: ForkSessionRequest, context: RequestContext, /) -> ForkSessionResponse:
        """session/fork and _pattern/session/fork."""
        from pattern_acp.session.forking import fork_session

        turn = request.turn if request.turn is not None else asked_of(request.meta).get("turn", "")
        shared = self._sessions.constellation
        opening = Opening(request.cwd, request.additional_directories, servers_of(request.mcp_servers))
        fork = await fork_session(shared.database, request.session_id, str(turn), clock=shared.clock, ids=shared.ids)
        session = await self._sessions.resume(fork.session_id, opening)
        return self._answer(session, context)

    async def open(self, request: OpenSessionRequest, context: RequestContext, /) -> ForkSessionResponse:
        """_pattern/session/open: the whole replay goes out before the answer. To go on in a fork, fork it."""
        if request.mode not in MODES:
            raise InvalidRequestError(f"`mode` is {request.mode[:40]!r}; send one of {', '.join(MODES)}.")
        how = Reopening(request.mode, SessionId(request.session_id), take_over=request.mode == "take_over")
        only_read = request.mode == "read"
        session = await self._sessions.open(request.session_id, opening_of(request), how, only_read=only_read)
        return self._answer(session, context)

    async def stop_subagent(self, request: StopSubagentRequest, context: RequestContext, /) -> StopSubagentResponse:
        """_pattern/subagent/stop: its turn goes on with what it had found, and reads that the person ended it."""
        del context
        running = self._sessions.get(request.session_id).subagents
        call_id = ToolCallId(request.tool_call_id or next(reversed(running), ""))
        if call_id not in running:
            return StopSubagentResponse(tool_call_id="")
        running[call_id]()
        return StopSubagentResponse(tool_call_id=call_id)

    def _answer(self, session: Session, context: RequestContext) -> ForkSessionResponse:
        self._announce_later(session, context)
        options = session.options()
        return ForkSessionResponse(
            session_id=session.state.client_id, modes=mode_state(options), config_options=config_options(options)
        )
