"""The methods that need sessions: each translates, calls the session layer, and translates back."""

import anyio

from pattern_acp.acp import schema
from pattern_acp.acp.client import EditorClient
from pattern_acp.acp.content import checked_parts, parts_of
from pattern_acp.acp.memory_feed import MemoryEvents
from pattern_acp.acp.rewind_methods import RewindMethods
from pattern_acp.acp.session_extensions import SessionExtensions
from pattern_acp.acp.session_wire import asked_of, opened, opening_of, servers_of, session_info
from pattern_acp.acp.updates import config_options, mode_state
from pattern_acp.domain.ids import SessionId
from pattern_acp.jsonrpc.dispatcher import RequestContext
from pattern_acp.jsonrpc.messages import RequestId
from pattern_acp.session.commands import more_commands
from pattern_acp.session.holding import Held, hold, say
from pattern_acp.session.jobs import running_jobs
from pattern_acp.session.opening import Opening
from pattern_acp.session.options import MODE_OPTION, MODEL_OPTION
from pattern_acp.session.registry import Sessions, unknown_session
from pattern_acp.session.session import PromptTicket, Session
from pattern_acp.session.turn_stages import answer_prompt
from pattern_acp.turn.loop import TurnEnd

COMMANDS_DELAY = 0.075
"""Seconds between the answer to session/new and the commands: Zed drops updates of a session it has not registered."""

ONLY_READ_SENTENCE = (
    "*Another window has this session open. You see its history; your next prompt asks whether to go on here in a "
    "fork, to take the session over, or to only read.*"
)

ONLY_READABLE = "*You see what can still be read of this session; nothing can be sent.*"

SERVERS_SECONDS = 90.0
"""Longest that a session's commands wait for the prompts of its MCP servers."""


class SessionMethods:
    """session/* over `session.registry.Sessions`."""

    def __init__(self, sessions: Sessions, client: EditorClient) -> None:
        self._sessions = sessions
        self._client = client
        self._tickets: dict[RequestId, tuple[Session, PromptTicket]] = {}
        self._announced: set[SessionId] = set()
        self.memory_events = MemoryEvents(sessions, client.dispatcher)
        self.rewinds = RewindMethods(sessions)
        self.more = SessionExtensions(sessions, self._announce_later)
        self.answered = anyio.Event()
        """Set once the first session was opened and the client has its answer: from then on the agent has time."""

    async def new(self, request: schema.NewSessionRequest, context: RequestContext, /) -> schema.NewSessionResponse:
        """session/new. Nothing is sent about the session before its answer."""
        opening = Opening(request.cwd, request.additional_directories, servers_of(request.mcp_servers))
        session = await self._sessions.create(opening)
        self._announce_later(session, context)
        options = session.options()
        return schema.NewSessionResponse(
            session_id=session.session_id, modes=mode_state(options), config_options=config_options(options)
        )

    async def load(
        self, request: schema.LoadSessionRequest, context: RequestContext, /
    ) -> schema.OpenedSessionResponse:
        """session/load: the whole replay goes out before the answer."""
        session = await self._sessions.load(request.session_id, opening_of(request))
        if session.state.is_read:
            damage = self._sessions.constellation.database.damage
            await say(session, f"{ONLY_READABLE} {damage}" if damage else ONLY_READ_SENTENCE)
        self._announce_later(session, context)
        return opened(session)

    async def resume(
        self, request: schema.ResumeSessionRequest, context: RequestContext, /
    ) -> schema.OpenedSessionResponse:
        """session/resume: no replay."""
        session = await self._sessions.resume(request.session_id, opening_of(request))
        self._announce_later(session, context)
        return opened(session)

    async def list(
        self, request: schema.ListSessionsRequest, _context: RequestContext, /
    ) -> schema.ListSessionsResponse:
        """session/list."""
        archived = asked_of(request.meta).get("archived") is True
        page = await self._sessions.list(request.cwd, request.cursor, archived=archived)
        return schema.ListSessionsResponse(
            sessions=tuple(session_info(listed) for listed in page.rows), next_cursor=page.next_cursor
        )

    async def close(self, request: schema.SessionRequest, _context: RequestContext, /) -> schema.EmptyResponse:
        """session/close."""
        await self._sessions.close(request.session_id)
        self._forget(request)
        return schema.EmptyResponse()

    async def delete(self, request: schema.SessionRequest, _context: RequestContext, /) -> schema.EmptyResponse:
        """session/delete."""
        await self._sessions.delete(request.session_id)
        self._forget(request)
        return schema.EmptyResponse()

    async def set_mode(self, request: schema.SetModeRequest, context: RequestContext, /) -> schema.EmptyResponse:
        """session/set_mode; who shows options instead of modes is told as well."""
        options = await self._sessions.get(request.session_id).set_option(MODE_OPTION, request.mode_id)
        view = self._client.view(SessionId(request.session_id))
        context.after_response(lambda: view.show_config(options))
        return schema.EmptyResponse()

    async def set_config_option(
        self, request: schema.SetConfigOptionRequest, context: RequestContext, /
    ) -> schema.SetConfigOptionResponse:
        """session/set_config_option: always the complete list; who shows modes is told of a changed one."""
        session = self._sessions.get(request.session_id)
        value = request.value if isinstance(request.value, str) else str(request.value).lower()
        options = await session.set_option(request.config_id, value)
        if request.config_id == MODE_OPTION:
            view = self._client.view(session.state.client_id)
            context.after_response(lambda: view.show_mode(options))
        elif request.config_id == MODEL_OPTION and session.state.history:
            from pattern_acp.session.context_figure import show_context

            context.after_response(lambda: show_context(session))
        return schema.SetConfigOptionResponse(config_options=config_options(options))

    def register_prompt(self, request: schema.PromptRequest, context: RequestContext) -> None:
        """Register the turn before the next line is read, so that a cancel in that line finds it."""
        session = self._sessions.get(request.session_id)
        parts_of(request.prompt)
        ticket = session.register_prompt()
        self._tickets[context.request_id] = (session, ticket)
        context.on_cancel(ticket.cancel)

    async def prompt(self, request: schema.PromptRequest, context: RequestContext, /) -> schema.PromptResponse:
        """session/prompt: every update of the turn goes out before this answer."""
        registered = self._tickets.pop(context.request_id, None)
        if registered is None:
            raise unknown_session(request.session_id)
        session, ticket = registered
        try:
            parts = await checked_parts(request.prompt)
            held = await hold(self._sessions, session, ticket)
        except BaseException:
            # A prompt that never ran must not keep the session busy.
            session.drop_prompt(ticket)
            raise
        if not isinstance(held, Held):
            return schema.PromptResponse(stop_reason=held.stop_reason)
        context.on_cancel(held.ticket.cancel)

        async def announce() -> None:
            if session.state.client_id not in self._announced:
                await self._client.view(session.state.client_id).show_commands(more_commands(session))
                self._announced.add(session.state.client_id)

        # Within the prompt, so that a cancel also ends the wait for a client that does not read.
        end = await answer_prompt(held.session, held.ticket, parts, announce)
        return schema.PromptResponse(stop_reason=end.stop_reason, meta=_told_of(end, running_jobs(held.session.jobs)))

    def cancel(self, request: schema.SessionRequest) -> None:
        """session/cancel: at once; a no-op for an idle or unknown session."""
        session = self._sessions.find(request.session_id)
        if session is not None:
            session.cancel()

    def _announce_later(self, session: Session, context: RequestContext) -> None:
        async def announce() -> None:
            self.answered.set()
            await anyio.sleep(COMMANDS_DELAY)
            await self._show_commands(session)
            await session.mcp.servers.wait_settled(SERVERS_SECONDS)
            if session.mcp.commands():
                await self._show_commands(session)

        context.after_response(announce)

    async def _show_commands(self, session: Session) -> None:
        if self._sessions.find(session.state.client_id) is session:
            await self._client.view(session.state.client_id).show_commands(more_commands(session))

    def _forget(self, request: schema.SessionRequest) -> None:
        session_id = SessionId(request.session_id)
        self._announced.discard(session_id)
        self.memory_events.end_of(session_id)
        self._client.forget(session_id)


def _told_of(end: TurnEnd, running: int) -> "dict[str, object] | None":
    """`_meta` of an answer: the background commands that run, and the code of what failed (docs/failures.md)."""
    told: dict[str, object] = {}
    if running:
        told["backgroundJobs"] = running
    if end.failure is not None:
        told["failure"] = end.failure.code
    return {"pattern": told} if told else None
