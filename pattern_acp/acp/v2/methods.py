"""The methods of ACP v2 that need sessions, and those of its unstable part.

Owns: when a prompt is answered, which of two prompts with one key runs, and the state that a client is shown at the end
of a turn. Must not know: what a turn does. What both versions do alike is `acp.session_methods`.
"""

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from urllib.parse import urlsplit

import anyio
from msgspec import Struct, field
from msgspec.structs import asdict

from pattern_acp.acp import schema as v1
from pattern_acp.acp import schema_extensions as extensions
from pattern_acp.acp.content import parts_of, with_checked_images
from pattern_acp.acp.session_methods import SERVERS_SECONDS, SessionMethods, asks_for_archived, opening_of, session_info
from pattern_acp.acp.v2 import schema
from pattern_acp.acp.v2.client import SecondFaces, SecondView
from pattern_acp.acp.v2.updates import available_commands, config_options
from pattern_acp.commands.slash import Typed
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.clock import SessionId, ToolCallId
from pattern_acp.domain.errors import PatternError, ProviderError
from pattern_acp.domain.messages import Message, Part
from pattern_acp.domain.tool_calls import StopReason
from pattern_acp.journal import leases
from pattern_acp.journal.events import TurnStarted
from pattern_acp.journal.reader import read_stream
from pattern_acp.jsonrpc.dispatcher import Answer, RequestContext
from pattern_acp.jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, REQUEST_CANCELLED, RpcError
from pattern_acp.providers.base import Route
from pattern_acp.session.commands import more_commands
from pattern_acp.session.constellation import Constellation
from pattern_acp.session.options import MODEL_OPTION
from pattern_acp.session.session import PromptTicket, Session
from pattern_acp.session.session_conflict import Claimed, claim, say
from pattern_acp.session.turn_stages import Insertion, Turn, answer_beside, new_own_turn, new_turn, run_prompt
from pattern_acp.turn.loop import TurnEnd

logger = logging.getLogger(__name__)

UNFORESEEN = "The turn stopped because of a fault in pattern-acp; the log has details. Prompt again to continue."

NOT_INSERTED = "The prompt was withdrawn before it became part of the conversation."


class _Prompt(Struct, eq=False):
    """One prompt from its line to its answer; everyone who sent it with the same key waits for the same answer."""

    session: Session
    ticket: PromptTicket
    key: str
    message: Message | None = None
    error: RpcError | None = None
    settled: anyio.Event = field(default_factory=anyio.Event)

    def insert(self, message: Message) -> None:
        self.message = message
        self.settled.set()

    def refuse(self, error: RpcError) -> None:
        if self.message is None and self.error is None:
            self.error = error
        self.settled.set()

    def withdraw(self) -> None:
        """Cancel what waits; a prompt that is part of the conversation continues."""
        if self.message is None:
            self.ticket.cancel()

    async def answer(self) -> schema.PromptResponse:
        await self.settled.wait()
        if self.message is not None:
            return schema.PromptResponse(message_id=self.message.message_id)
        raise self.error or RpcError(REQUEST_CANCELLED, NOT_INSERTED)


ARCHIVED: Mapping[str, bool | None] = {"exclude": False, "include": None, "only": True}
"""The sessions that session/list returns, by its filter."""


class SecondMethods:
    """The methods of sessions in version 2, over those of version 1 where both are alike."""

    def __init__(self, first: SessionMethods, explain: Callable[[Exception], RpcError | None]) -> None:
        self.first = first
        self.sessions = first.sessions
        self.client = first.client
        self.client.faces = SecondFaces(self.client)
        self._explain = explain
        self._keyed: dict[tuple[SessionId, str], _Prompt] = {}

    async def new(self, request: v1.NewSessionRequest, context: RequestContext, /) -> schema.NewSessionResponse:
        """session/new."""
        session = await self.sessions.create(opening_of(request))
        self.follow(session, context)
        return opened_session(session, session.session_id)

    async def resume(
        self, request: schema.ResumeSessionRequest, context: RequestContext, /
    ) -> schema.OpenedSessionResponse:
        """session/resume: the replay, if it is wanted, and the state go out before the answer.

        Raises:
            RpcError: the replay is to begin at a place that we do not know.
        """
        start = request.replay_from
        if start is not None and start.type != "start":
            raise RpcError(INVALID_PARAMS, "A replay begins at the start: send `replayFrom` with the type `start`.")
        open_it = self.sessions.resume if start is None else self.sessions.load
        session = await open_it(request.session_id, opening_of(request))
        await self.first.say_only_read(session)
        await view_of(session).show_state("idle")
        if start is not None:
            self.first.follow_if_asked(session, request.meta)
        self.follow(session, context)
        return opened(session)

    async def set_config_option(
        self, request: schema.SetConfigOptionRequest, context: RequestContext, /
    ) -> schema.SetConfigOptionResponse:
        """session/set_config_option: always the complete list."""
        session = self.sessions.get(request.session_id)
        if request.type != "id" or not isinstance(request.value, str):
            raise RpcError(INVALID_PARAMS, "The options of this session have values of type `id`; send one as a text.")
        options = await session.set_option(request.config_id, request.value)
        if request.config_id == MODEL_OPTION and session.state.history:
            from pattern_acp.session.context_usage import show_context

            context.after_response(lambda: show_context(session.dialogue))
        return schema.SetConfigOptionResponse(config_options=config_options(options))

    async def cancel_call(self, request: schema.CancelToolCallRequest, _context: RequestContext, /) -> v1.EmptyResponse:
        """tool_call/cancel: ends a call that runs; its turn continues, with what a subagent had found."""
        session, call_id = self.sessions.get(request.session_id), ToolCallId(request.tool_call_id)
        end = session.subagents.get(call_id) or session.calls.get(call_id)
        if end is None:
            raise RpcError(INVALID_PARAMS, "This call does not run, or cannot be cancelled alone; cancel the turn.")
        end()
        return v1.EmptyResponse()

    def cancel_subagent(self, session_id: str) -> bool:
        """session/cancel of a subagent: end it alone, and leave the turn to continue; False if it does not run."""
        for session in self.sessions.with_subagents:
            call_id = view_of(session).subagents.calls.get(session_id)
            end = None if call_id is None else session.subagents.get(call_id)
            if end is not None:
                end()
                return True
        return False

    async def cancel_terminal(self, request: v1.TerminalRequest, context: RequestContext, /) -> v1.EmptyResponse:
        """terminal/cancel: ends a background command; its end is shown once it has come."""
        jobs = self.sessions.get(request.session_id).jobs
        started = [job for job in (jobs.all() if jobs is not None else ()) if job.call_id == request.terminal_id]
        running = [job for job in started if job.is_running]
        if jobs is None or not running:
            raise RpcError(INVALID_PARAMS, "This terminal has no command that runs in the background.")
        context.after_response(partial(jobs.stop, running[0]))
        return v1.EmptyResponse()

    def register_prompt(self, request: schema.PromptRequest, context: RequestContext) -> Answer:
        """Give the prompt its place behind those that came before, and let it run; the answer is its insertion."""
        session = self.sessions.get(request.session_id)
        parts = parts_of(request.prompt)
        key = request.idempotency_key or ""
        known = self._keyed.get((session.session_id, key)) if key else None
        if known is not None and known.error is None:
            return known.answer
        beside = session.command_beside(parts)
        prompt = _Prompt(session, PromptTicket() if beside is not None else session.take_prompt(parts), key)
        if key:
            self._keyed[session.session_id, key] = prompt
        if beside is not None:
            return partial(self._answer_beside, prompt, parts, beside)
        context.on_cancel(prompt.withdraw)
        background = self.sessions.constellation.background
        if background is None:
            session.drop_prompt(prompt.ticket)
            raise RpcError(INTERNAL_ERROR, "Prompts cannot run here; the agent is shutting down.")
        background.start_soon(partial(self._serve, prompt, parts), name="prompt")
        return prompt.answer

    def _wake(self, session: Session) -> None:
        """Let the agent begin a turn of its own."""
        background = self.sessions.constellation.background
        if background is not None:
            background.start_soon(partial(self._serve_own, session, session.take_own_turn()), name="own turn")

    async def _serve_own(self, session: Session, ticket: PromptTicket) -> None:
        """Run a turn that nobody prompted, unless another window has the session."""
        shared = self.sessions.constellation
        try:
            await shared.database.read(lambda tx: leases.require(tx, session.session_id, shared.holder))
        except PatternError as error:
            logger.info("no turn was begun behind background work: %s", error.sentence)
            session.drop_prompt(ticket)
        else:
            await self._run_turn(session, ticket, new_own_turn(shared.ids))

    async def prompt(self, request: schema.PromptRequest, context: RequestContext, /) -> object:
        """session/prompt, when it could not be registered in wire order."""
        return await self.register_prompt(request, context)()

    async def _answer_beside(self, prompt: _Prompt, parts: tuple[Part, ...], command: Typed) -> schema.PromptResponse:
        """Answer a command beside the turn that runs; it becomes no part of what a replay shows."""
        session = prompt.session
        message = new_turn(session.constellation.ids, parts).message
        await view_of(session).show_beside(message)
        prompt.insert(message)
        await say(session, await answer_beside(session, command))
        return await prompt.answer()

    async def _serve(self, prompt: _Prompt, parts: tuple[Part, ...]) -> None:
        """Run the prompt; whatever happens, it is answered and the session is free."""
        try:
            if not await self._was_inserted(prompt):
                await self._run(prompt, await with_checked_images(parts))
        except Exception as error:  # noqa: BLE001  the boundary: whatever happened, the prompt gets its answer
            prompt.refuse(self._explained(error))
        finally:
            prompt.session.drop_prompt(prompt.ticket)
            prompt.refuse(RpcError(REQUEST_CANCELLED, NOT_INSERTED))

    async def _was_inserted(self, prompt: _Prompt) -> bool:
        """Tell whether the journal has a prompt with this key: of this process, or of one that was killed."""
        if not prompt.key:
            return False

        def find(tx: Transaction) -> Message | None:
            recorded = read_stream(tx, prompt.session.session_id, kinds=(TurnStarted,))
            started = (one.event for one in recorded)
            return next((e.message for e in started if isinstance(e, TurnStarted) and e.prompt_key == prompt.key), None)

        found = await self.sessions.constellation.database.read(find)
        if found is not None:
            prompt.insert(found)
        return found is not None

    async def _run(self, prompt: _Prompt, parts: tuple[Part, ...]) -> None:
        held = await claim(self.sessions, prompt.session, prompt.ticket)
        if not isinstance(held, Claimed):
            await view_of(prompt.session).show_state("idle")
            return
        session, ticket = held.session, held.ticket
        prompt.ticket = ticket
        session.wake = self._wake
        turn = new_turn(session.constellation.ids, parts)
        turn.insertion = Insertion(prompt.key, prompt.insert)
        await self._run_turn(session, ticket, turn, prompt)

    async def _run_turn(
        self, session: Session, ticket: PromptTicket, turn: Turn, prompt: _Prompt | None = None
    ) -> None:
        """Run a turn and show the state at its end; whatever happens, the session is free behind it."""
        view = view_of(session)
        stop_reason, failed, handed_over = StopReason.CANCELLED.value, None, False
        try:
            try:
                end = await run_prompt(session, ticket, turn)
                stop_reason, failed, handed_over = end.stop_reason.value, _error_of(end), end.handed_over
            except Exception as error:  # noqa: BLE001  the boundary: a turn that began gets its end
                failed = self._explained(error)
            if failed is not None:
                # Heard where the message never became part of the conversation.
                if prompt is not None:
                    prompt.refuse(failed)
                stop_reason = "error"
            if prompt is None or prompt.message is not None:
                if prompt is not None and prompt.message is not None:
                    await view.show_message(prompt.message)
                if not handed_over and turn.started:
                    shown = None if failed is None else _shown_error(failed)
                    await view.show_state("idle", stop_reason, shown)
        finally:
            # Only now: the next prompt begins behind the end of this one.
            session.drop_prompt(ticket)
        if not session.is_busy and view.state != "idle":
            # The prompt for which a turn was ended was withdrawn before its own began.
            await view.show_state("idle", StopReason.END_TURN.value)

    def _explained(self, error: Exception) -> RpcError:
        found = self._explain(error)
        if found is None:
            logger.error("A prompt failed.", exc_info=error)
        return found or RpcError(INTERNAL_ERROR, UNFORESEEN)

    def follow(self, session: Session, context: RequestContext) -> None:
        """Show the commands again once MCP servers have named theirs, and let background work wake the session."""
        session.wake = self._wake

        async def follow() -> None:
            self.first.answered.set()
            before = more_commands(session.trust, session.mcp)
            await session.mcp.servers.wait_settled(SERVERS_SECONDS)
            is_open = self.sessions.find(session.state.client_id) is session
            if is_open and more_commands(session.trust, session.mcp) != before:
                await session.view.show_commands(more_commands(session.trust, session.mcp))

        context.after_response(follow)

    async def fork(
        self, request: extensions.ForkSessionRequest, context: RequestContext, /
    ) -> schema.NewSessionResponse:
        """session/fork."""
        return self._elsewhere(await self.first.forked(request), context)

    async def open(
        self, request: extensions.OpenSessionRequest, context: RequestContext, /
    ) -> schema.NewSessionResponse:
        """_pattern/session/open: the replay and the state go out before the answer."""
        session = await self.first.opened_as_asked(request)
        await view_of(session).show_state("idle")
        return self._elsewhere(session, context)

    async def list(self, request: schema.ListSessionsRequest, _context: RequestContext, /) -> object:
        """session/list. Raises RpcError where the filter is none that we know."""
        if request.archived not in {None, *ARCHIVED}:
            raise RpcError(INVALID_PARAMS, f"`archived` takes one of {', '.join(ARCHIVED)}.")
        archived = asks_for_archived(request) if request.archived is None else ARCHIVED[request.archived]
        page = await self.sessions.list(request.cwd, request.cursor, archived=archived)
        return schema.ListSessionsResponse(
            sessions=tuple(
                schema.SessionInfo(**asdict(session_info(one)), archived=one.row.archived) for one in page.rows
            ),
            next_cursor=page.next_cursor,
        )

    async def archive(self, request: v1.SessionRequest, _context: RequestContext, /) -> v1.EmptyResponse:
        """session/archive: the session is closed first."""
        await self.sessions.archive(request.session_id, archived=True)
        self.first.forget(request)
        return v1.EmptyResponse()

    async def unarchive(self, request: v1.SessionRequest, _context: RequestContext, /) -> v1.EmptyResponse:
        """session/unarchive."""
        await self.sessions.archive(request.session_id, archived=False)
        return v1.EmptyResponse()

    async def status(self, request: v1.SessionRequest, _context: RequestContext, /) -> schema.SessionStatusResponse:
        """session/status: nothing is opened or changed."""
        session = self.sessions.find(request.session_id)
        if session is None:
            listed = await self.sessions.described(request.session_id)
            return schema.SessionStatusResponse(status="saved", meta={"pattern": {"status": listed.status.value}})
        return schema.SessionStatusResponse(status="open", state=view_of(session).foreground())

    async def set_title(
        self, request: schema.SetSessionTitleRequest, _context: RequestContext, /
    ) -> schema.SetSessionTitleResponse:
        """session/set_title."""
        return schema.SetSessionTitleResponse(title=await self.sessions.rename(request.session_id, request.title))

    async def list_providers(self, _request: v1.MetaWire, _context: RequestContext, /) -> schema.ListProvidersResponse:
        """providers/list."""
        return schema.ListProvidersResponse(providers=tuple(map(_provider, self.shared.models.routes())))

    async def set_provider(self, request: schema.SetProviderRequest, _context: RequestContext, /) -> v1.EmptyResponse:
        """providers/set: until the process ends; nothing is stored, and none of the user's keys goes there.

        Raises:
            RpcError: the provider does not speak this protocol, or the address is none.
        """
        route = next((one for one in self.shared.models.routes() if one.name == request.provider_id), None)
        if route is not None and protocol_of(route) != request.api_type:
            raise RpcError(INVALID_PARAMS, f"{route.name} speaks {protocol_of(route)}; send that as `apiType`.")
        if not is_address(request.base_url):
            raise RpcError(INVALID_PARAMS, "`baseUrl` is no http:// or https:// address.")
        with _as_invalid():
            await self.shared.models.set_route(request.provider_id, request.base_url, request.headers)
        self.shared.default_model = self.shared.models.default()
        return v1.EmptyResponse()

    async def disable_provider(
        self, request: schema.ProviderRequestById, _context: RequestContext, /
    ) -> v1.EmptyResponse:
        """providers/disable: until the process ends, or it is set again."""
        with _as_invalid():
            self.shared.models.disable(request.provider_id)
        self.shared.default_model = self.shared.models.default()
        return v1.EmptyResponse()

    async def auth_status(self, _request: v1.MetaWire, _context: RequestContext, /) -> schema.AuthStatusResponse:
        """auth/status, of a client that is not signed out: whether new sessions have a key where they need one."""
        model = self.shared.default_model.qualified
        if key := self.shared.models.key_in_use(model):
            account = schema.AuthAccount(label=f"{model.partition('/')[0]}: {key}", active=True)
            return schema.AuthStatusResponse(state="authenticated", accounts=(account,))
        is_missing = self.shared.models.missing_key(model) or model == OFFLINE_MODEL
        return schema.AuthStatusResponse(state="unauthenticated" if is_missing else "not_required")

    @property
    def shared(self) -> Constellation:
        """The constellation that all sessions share."""
        return self.sessions.constellation

    def _elsewhere(self, session: Session, context: RequestContext) -> schema.NewSessionResponse:
        self.follow(session, context)
        return opened_session(session, session.state.client_id)


def view_of(session: Session) -> SecondView:
    """The view of a session of a connection of version 2."""
    view = session.view
    if not isinstance(view, SecondView):
        raise TypeError("A connection has views of one version.")
    view.cwd = session.state.cwd
    return view


def opened(session: Session) -> schema.OpenedSessionResponse:
    """The options and commands of a session that was opened."""
    return schema.OpenedSessionResponse(
        config_options=config_options(session.options()),
        available_commands=available_commands(more_commands(session.trust, session.mcp)),
    )


def opened_session(session: Session, session_id: SessionId) -> schema.NewSessionResponse:
    """The same with the id that the client has to use for it from now on."""
    about = opened(session)
    return schema.NewSessionResponse(
        session_id=session_id, config_options=about.config_options, available_commands=about.available_commands
    )


def _error_of(end: TurnEnd) -> RpcError | None:
    """The error that ended the turn, with the code of failures.md; None where it ended as a turn should."""
    if end.failure is None or end.stop_reason is not StopReason.END_TURN:
        return None
    sentence = end.sentence or "The turn stopped because something failed."
    return RpcError(INTERNAL_ERROR, sentence, {"failure": end.failure.code})


def _shown_error(error: RpcError) -> schema.RpcErrorObject:
    return schema.RpcErrorObject(code=error.code, message=error.message, data=error.data)


PROTOCOLS: Mapping[str, str] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "responses": "openai",
    "gemini": "_gemini",
    "vertex": "vertex",
    "bedrock": "bedrock",
}
"""The protocol's names of the APIs that we speak, by our wires and the clouds that host them."""

OFFLINE_MODEL = "offline/offline"
"""The model of sessions that have none."""


def protocol_of(route: Route) -> str:
    """The API of a provider, as the protocol names it."""
    return PROTOCOLS.get(route.host) or PROTOCOLS.get(route.wire) or f"_{route.wire}"


def is_address(url: str) -> bool:
    """Tell whether requests can be sent to a URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def _provider(route: Route) -> schema.ProviderInfo:
    api = protocol_of(route)
    current = schema.ProviderConfig(api_type=api, base_url=route.base_url) if route.base_url else None
    return schema.ProviderInfo(provider_id=route.name, supported=(api,), required=False, current=current)


@contextmanager
def _as_invalid() -> Generator[None]:
    """Refuse the parameters that name a provider which is not there."""
    try:
        yield
    except ProviderError as error:
        raise RpcError(INVALID_PARAMS, error.sentence) from error
