"""The methods that need sessions: each translates, calls the session layer, and translates back."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import anyio

from pattern_acp.acp import schema
from pattern_acp.acp import schema_extensions as extensions
from pattern_acp.acp.client import EditorClient
from pattern_acp.acp.content import parts_of, with_checked_images
from pattern_acp.acp.feeds import MemoryEvents, SessionFeed
from pattern_acp.acp.updates import config_options, iso_time, mode_state
from pattern_acp.commands.slash import Typed
from pattern_acp.config.settings import McpServerSettings
from pattern_acp.domain.clock import SessionId, ToolCallId
from pattern_acp.domain.errors import InvalidRequestError
from pattern_acp.domain.messages import Part
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import FileChange, StopReason
from pattern_acp.journal.sessions import ListedSession
from pattern_acp.jsonrpc.dispatcher import Answer, RequestContext
from pattern_acp.rewind.checkpoints import RewindScope
from pattern_acp.session.commands import more_commands
from pattern_acp.session.jobs import running_jobs
from pattern_acp.session.opening import Opening, Reopening
from pattern_acp.session.options import MODE_OPTION, MODEL_OPTION
from pattern_acp.session.registry import Sessions
from pattern_acp.session.session import PromptTicket, Session
from pattern_acp.session.session_conflict import Claimed, claim, say
from pattern_acp.session.turn_stages import answer_beside, new_turn, run_prompt
from pattern_acp.turn.loop import TurnEnd

if TYPE_CHECKING:
    from pattern_acp.rewind.plan import PlannedFile

OPEN_MODES = ("read", "take_over")

MOST_TEXTS = 50
"""Most files of which a preview brings the texts; a line to the client must stay small."""

COMMANDS_DELAY = 0.075
"""Seconds between the answer to session/new and the commands: Zed drops updates of a session it has not registered."""

ONLY_READ_SENTENCE = (
    "*Another window has this session open. You see its history; your next prompt asks whether to continue here in a "
    "fork, to take the session over, or to only read.*"
)

ONLY_READABLE = "*You see what can still be read of this session; nothing can be sent.*"

SERVERS_SECONDS = 90.0
"""Longest that a session's commands wait for the prompts of its MCP servers."""


class SessionMethods:
    """session/* and what ACP v1 has no method for (`_pattern/*`), over `session.registry.Sessions`."""

    def __init__(self, sessions: Sessions, client: EditorClient, answered: anyio.Event | None = None) -> None:
        self.sessions = sessions
        self.client = client
        self._announced: set[SessionId] = set()
        self.memory_events = MemoryEvents(sessions, client.dispatcher)
        self.session_feed = SessionFeed(sessions, client)
        self.answered = answered or anyio.Event()
        """Set once the first session was opened and the client has its answer: from then on the agent has time."""

    async def new(self, request: schema.NewSessionRequest, context: RequestContext, /) -> schema.NewSessionResponse:
        """session/new. Nothing is sent about the session before its answer."""
        session = await self.sessions.create(opening_of(request))
        self._announce_later(session, context)
        options = session.options()
        return schema.NewSessionResponse(
            session_id=session.session_id, modes=mode_state(options), config_options=config_options(options)
        )

    async def load(
        self, request: schema.LoadSessionRequest, context: RequestContext, /
    ) -> schema.OpenedSessionResponse:
        """session/load: the whole replay goes out before the answer."""
        session = await self.sessions.load(request.session_id, opening_of(request))
        await self.say_only_read(session)
        self.follow_if_asked(session, request.meta)
        self._announce_later(session, context)
        return _opened(session)

    async def resume(
        self, request: schema.ResumeSessionRequest, context: RequestContext, /
    ) -> schema.OpenedSessionResponse:
        """session/resume: no replay."""
        session = await self.sessions.resume(request.session_id, opening_of(request))
        self._announce_later(session, context)
        return _opened(session)

    async def list(
        self, request: schema.ListSessionsRequest, _context: RequestContext, /
    ) -> schema.ListSessionsResponse:
        """session/list."""
        page = await self.sessions.list(request.cwd, request.cursor, archived=asks_for_archived(request))
        return schema.ListSessionsResponse(
            sessions=tuple(session_info(listed) for listed in page.rows), next_cursor=page.next_cursor
        )

    async def close(self, request: schema.SessionRequest, _context: RequestContext, /) -> schema.EmptyResponse:
        """session/close."""
        await self.sessions.close(request.session_id)
        self.forget(request)
        return schema.EmptyResponse()

    async def delete(self, request: schema.SessionRequest, _context: RequestContext, /) -> schema.EmptyResponse:
        """session/delete."""
        await self.sessions.delete(request.session_id)
        self.forget(request)
        return schema.EmptyResponse()

    async def set_mode(self, request: schema.SetModeRequest, context: RequestContext, /) -> schema.EmptyResponse:
        """session/set_mode; a client that shows options instead of modes learns of it as well."""
        options = await self.sessions.get(request.session_id).set_option(MODE_OPTION, request.mode_id)
        view = self.client.view(SessionId(request.session_id))
        context.after_response(lambda: view.show_config(options))
        return schema.EmptyResponse()

    async def set_config_option(
        self, request: schema.SetConfigOptionRequest, context: RequestContext, /
    ) -> schema.SetConfigOptionResponse:
        """session/set_config_option: always the complete list; a client that shows modes learns of a changed one."""
        session = self.sessions.get(request.session_id)
        value = request.value if isinstance(request.value, str) else str(request.value).lower()
        options = await session.set_option(request.config_id, value)
        if request.config_id == MODE_OPTION:
            view = self.client.view(session.state.client_id)
            context.after_response(lambda: view.show_mode(options))
        elif request.config_id == MODEL_OPTION and session.state.history:
            from pattern_acp.session.context_usage import show_context

            context.after_response(lambda: show_context(session.dialogue))
        return schema.SetConfigOptionResponse(config_options=config_options(options))

    def register_prompt(self, request: schema.PromptRequest, context: RequestContext) -> Answer:
        """Register the turn before the next line is read, so that a cancel in that line finds it; the turn to run."""
        session = self.sessions.get(request.session_id)
        parts = parts_of(request.prompt)
        beside = session.command_beside(parts)
        if beside is not None:
            return partial(self._answer_beside, session, beside)
        ticket = session.take_prompt(parts)
        context.on_cancel(ticket.cancel)
        return partial(self._answer_prompt, session, ticket, parts, context)

    async def prompt(self, request: schema.PromptRequest, context: RequestContext, /) -> object:
        """session/prompt, when it could not be registered in wire order."""
        return await self.register_prompt(request, context)()

    def cancel(self, request: schema.SessionRequest) -> None:
        """session/cancel: at once; a no-op for an idle or unknown session."""
        session = self.sessions.find(request.session_id)
        if session is not None:
            session.cancel()

    async def fork(
        self, request: extensions.ForkSessionRequest, context: RequestContext, /
    ) -> extensions.ForkSessionResponse:
        """session/fork and _pattern/session/fork."""
        return self._opened_elsewhere(await self.forked(request), context)

    async def open(
        self, request: extensions.OpenSessionRequest, context: RequestContext, /
    ) -> extensions.ForkSessionResponse:
        """_pattern/session/open: the whole replay goes out before the answer. To continue in a fork, fork it."""
        return self._opened_elsewhere(await self.opened_as_asked(request), context)

    async def stop_subagent(
        self, request: extensions.StopSubagentRequest, context: RequestContext, /
    ) -> extensions.StopSubagentResponse:
        """_pattern/subagent/stop: its turn continues with what it had found, and reads that the user ended it."""
        del context
        running = self.sessions.get(request.session_id).subagents
        call_id = ToolCallId(request.tool_call_id or next(reversed(running), ""))
        if call_id not in running:
            return extensions.StopSubagentResponse(tool_call_id="")
        running[call_id]()
        return extensions.StopSubagentResponse(tool_call_id=call_id)

    async def board(self, _request: extensions.BoardRequest, _context: RequestContext, /) -> object:
        """`_pattern/board`: every process on the constellation."""
        # Late: most clients never ask.
        from pattern_acp.tasks.claims import read_board

        shared = self.sessions.constellation
        now_ms, budget = shared.clock.now_ms(), shared.settings.budget.session
        rows = await shared.database.read(lambda tx: read_board(tx, now_ms=now_ms, budget=budget))
        return extensions.BoardResponse(
            sessions=tuple(
                extensions.BoardSession(
                    session_id=row.session_id,
                    title=row.title,
                    cwd=row.cwd,
                    editor=row.editor or None,
                    persona=row.persona,
                    model=row.model,
                    alive=row.alive,
                    task=row.task or None,
                    step=row.step or None,
                    at=iso_time(row.step_ms),
                    waits_for=row.waits_for,
                    used_tokens=row.used_tokens,
                    used_micro_units=row.used_micro_units,
                    budget=row.budget or None,
                    claims=tuple(
                        extensions.BoardClaim(
                            path=claim.target.path,
                            kind=claim.target.kind.value,
                            state=claim.state,
                            since=iso_time(claim.made_ms),
                            agent=claim.agent or None,
                            wanted_by=claim.wanted or None,
                        )
                        for claim in row.claims
                    ),
                )
                for row in rows
            )
        )

    async def list_checkpoints(self, request: extensions.ListCheckpointsRequest, _context: RequestContext, /) -> object:
        """`_pattern/checkpoint/list`."""
        from pattern_acp.session.rewind_requests import points_of

        points = await points_of(self.sessions.get(request.session_id).checkpoints)
        return extensions.ListCheckpointsResponse(
            points=tuple(
                extensions.RewindPoint(
                    key=point.key,
                    kind=point.kind,
                    text=point.text,
                    at=iso_time(point.at_ms),
                    files=point.files,
                    message_id=point.message_id or None,
                    checkpoint_id=point.checkpoint_id or None,
                )
                for point in points
            )
        )

    async def preview_rewind(self, request: extensions.RewindRequest, _context: RequestContext, /) -> object:
        """`_pattern/checkpoint/preview`: nothing is changed."""
        from pattern_acp.session.rewind_requests import preview_rewind

        session = self.sessions.get(request.session_id)
        plan = await preview_rewind(session, request.to)
        return extensions.PreviewResponse(
            words=plan.target.words,
            lost=plan.lost,
            regained=plan.regained,
            files=tuple(
                [
                    await _file(session.checkpoints.scope, file, texts=at < MOST_TEXTS)
                    for at, file in enumerate(plan.files)
                ]
            ),
            blocks=tuple(extensions.RewindBlock(label=block.label, text=block.sentence) for block in plan.blocks),
            not_kept=plan.left_out,
            fork_behind=plan.target.fork_behind,
        )

    async def restore(self, request: extensions.RewindRequest, _context: RequestContext, /) -> object:
        """`_pattern/checkpoint/restore`: everything, unless parts are named."""
        return await self._rewind(request, ())

    async def rewind(self, request: extensions.RewindRequest, _context: RequestContext, /) -> object:
        """`_pattern/session/rewind`: the conversation, unless parts are named."""
        from pattern_acp.rewind.plan import PARTS

        return await self._rewind(request, PARTS[:1])

    async def forked(self, request: extensions.ForkSessionRequest) -> Session:
        """Return a new session with the history of another one, up to the turn that was asked for."""
        from pattern_acp.rewind.forks import fork_session

        turn = request.turn if request.turn is not None else _asked_of(request.meta).get("turn", "")
        shared = self.sessions.constellation
        fork = await fork_session(shared.database, request.session_id, str(turn), clock=shared.clock, ids=shared.ids)
        return await self.sessions.resume(fork.session_id, opening_of(request))

    async def opened_as_asked(self, request: extensions.OpenSessionRequest) -> Session:
        """Open a session to read it, or to take it over, and replay it.

        Raises:
            InvalidRequestError: it was asked for neither.
        """
        if request.mode not in OPEN_MODES:
            raise InvalidRequestError(f"`mode` is {request.mode[:40]!r}; send one of {', '.join(OPEN_MODES)}.")
        how = Reopening(request.mode, SessionId(request.session_id), take_over=request.mode == "take_over")
        only_read = request.mode == "read"
        return await self.sessions.open(request.session_id, opening_of(request), how, only_read=only_read)

    async def say_only_read(self, session: Session) -> None:
        """Tell the user why a session that was opened takes no prompt, where that is so."""
        if session.state.is_read:
            damage = self.sessions.constellation.database.damage
            await say(session, f"{ONLY_READABLE} {damage}" if damage else ONLY_READ_SENTENCE)

    def follow_if_asked(self, session: Session, meta: dict[str, object] | None) -> None:
        """Show live what another window does with a session that was opened here to be read, where that was asked."""
        is_sound = session.state.is_read and not self.sessions.constellation.database.damage
        if is_sound and _asked_of(meta).get("live") is True:
            self.session_feed.show_live(session)

    async def _answer_prompt(
        self, session: Session, ticket: PromptTicket, parts: tuple[Part, ...], context: RequestContext
    ) -> schema.PromptResponse:
        """Every update of the turn goes out before this answer."""
        try:
            parts = await with_checked_images(parts)
            held = await claim(self.sessions, session, ticket)
        except BaseException:
            # A prompt that never ran must not keep the session busy.
            session.drop_prompt(ticket)
            raise
        if not isinstance(held, Claimed):
            return schema.PromptResponse(stop_reason=held.stop_reason)
        context.on_cancel(held.ticket.cancel)
        # Within the prompt, so that a cancel also ends the wait for a client that does not read.
        turn = new_turn(held.session.constellation.ids, parts)
        try:
            end = await run_prompt(held.session, held.ticket, turn, partial(self._announce_first, session))
        finally:
            held.session.drop_prompt(held.ticket)
        return schema.PromptResponse(stop_reason=end.stop_reason, meta=_meta_of(end, running_jobs(held.session.jobs)))

    async def _answer_beside(self, session: Session, command: Typed) -> schema.PromptResponse:
        await say(session, await answer_beside(session, command))
        return schema.PromptResponse(stop_reason=StopReason.END_TURN)

    async def _announce_first(self, session: Session) -> None:
        if session.state.client_id not in self._announced:
            await self.client.view(session.state.client_id).show_commands(more_commands(session.trust, session.mcp))
            self._announced.add(session.state.client_id)

    def _opened_elsewhere(self, session: Session, context: RequestContext) -> extensions.ForkSessionResponse:
        self._announce_later(session, context)
        options = session.options()
        return extensions.ForkSessionResponse(
            session_id=session.state.client_id, modes=mode_state(options), config_options=config_options(options)
        )

    async def _rewind(self, request: extensions.RewindRequest, parts: tuple[str, ...]) -> extensions.RewindResponse:
        from pattern_acp.session.rewind_requests import refused, rewind_for_client

        session = self.sessions.get(request.session_id)
        if request.parts == ():
            raise InvalidRequestError("`parts` is empty, so that nothing would go back; name a part, or leave it out.")
        wanted = request.parts or (() if request.to == "undo" else parts)
        plan, done, fork = await rewind_for_client(session, request.to, wanted, overwrite=request.overwrite)
        parts_gone = wanted or plan.target.parts
        has_files = "files" in parts_gone
        return extensions.RewindResponse(
            words=plan.target.words,
            lost=plan.lost,
            regained=plan.regained,
            files=done.files,
            kept=tuple(file.path for file in plan.conflicts) if has_files and not request.overwrite else (),
            blocks=done.blocks,
            problems=(*done.problems, *refused(plan, parts_gone)),
            fork_session_id=fork.session_id if fork is not None else None,
        )

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
        if self.sessions.find(session.state.client_id) is session:
            await self.client.view(session.state.client_id).show_commands(more_commands(session.trust, session.mcp))

    def forget(self, request: schema.SessionRequest) -> None:
        """Drop what belongs to a session that was closed."""
        session_id = SessionId(request.session_id)
        self._announced.discard(session_id)
        self.memory_events.end_of(session_id)
        self.client.forget(session_id)


def _asked_of(meta: dict[str, object] | None) -> dict[str, object]:
    """Return the wishes in `_meta.pattern` of a client that knows us."""
    pattern = (meta or {}).get("pattern")
    return cast("dict[str, object]", pattern) if isinstance(pattern, dict) else {}


def asks_for_archived(request: schema.ListSessionsRequest) -> bool:
    """Tell whether a client that knows us asks for the sessions that were archived."""
    return _asked_of(request.meta).get("archived") is True


def session_info(listed: ListedSession) -> schema.SessionInfo:
    """One session of the list; what ACP has no field for is in `_meta.pattern`."""
    row = listed.row
    more: dict[str, object] = {
        "status": listed.status.value,
        "preview": one_line(listed.preview),
        "messages": row.message_count,
        "archived": row.archived,
        "persona": row.persona,
    }
    if row.parent is not None:
        more["parent"] = row.parent
    return schema.SessionInfo(
        session_id=row.session_id,
        cwd=row.cwd,
        title=one_line(row.title) or None,
        updated_at=iso_time(row.updated_ms),
        additional_directories=row.additional_directories,
        meta={"pattern": more},
    )


def opening_of(request: schema.NewSessionRequest) -> Opening:
    """Return the client's parameters for opening a session, new or recorded."""
    return Opening(request.cwd, request.additional_directories, servers_of(request.mcp_servers))


def _opened(session: Session) -> schema.OpenedSessionResponse:
    """Modes and options, as session/new returns them."""
    options = session.options()
    return schema.OpenedSessionResponse(modes=mode_state(options), config_options=config_options(options))


def servers_of(servers: Sequence[schema.McpServer]) -> tuple[McpServerSettings, ...]:
    """The MCP servers that the client passed, also those that cannot work: the session reports them."""
    return tuple(
        McpServerSettings(
            server.name,
            server.type,
            server.command,
            server.args,
            {item.name: item.value for item in server.env if item.name},
            server.url,
            {item.name: item.value for item in server.headers if item.name},
            server.server_id,
        )
        for server in servers
    )


async def _file(scope: RewindScope, file: "PlannedFile", *, texts: bool) -> extensions.RewindFile:
    from pattern_acp.rewind.plan import diff_of

    shows_texts = texts and not file.problem
    diff = await diff_of(scope, FileChange(file.path, file.now, file.then)) if shows_texts else None
    return extensions.RewindFile(
        path=file.path,
        kind=file.kind,
        conflict=file.conflict or None,
        problem=file.problem or None,
        old_text=diff.old_text if diff is not None else None,
        new_text=diff.new_text if diff is not None else None,
    )


def _meta_of(end: TurnEnd, running: int) -> "dict[str, object] | None":
    """`_meta` of an answer: the background commands that run, and the code of what failed (failures.md)."""
    meta: dict[str, object] = {}
    if running:
        meta["backgroundJobs"] = running
    if end.failure is not None:
        meta["failure"] = end.failure.code
    return {"pattern": meta} if meta else None
