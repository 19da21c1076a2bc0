"""The client of a connection that speaks ACP v2, as the session sees it: its view of a turn, and its answers.

Owns: the order of updates, the state of the foreground, and the `Approver` of version 2. Must not know: sessions.
Batching and previews are those of `acp.client`.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import PurePath

from msgspec.structs import replace

from pattern_acp.acp import schema as v1
from pattern_acp.acp.client import (
    Chunk,
    EditorApprover,
    EditorClient,
    EditorView,
    FlushTimer,
    answer_options,
    portions,
    with_previews,
)
from pattern_acp.acp.content import shown_input
from pattern_acp.acp.updates import Compactions, EditorAbilities, FollowedTexts, locations_of, thought_id, usage_update
from pattern_acp.acp.v2 import schema
from pattern_acp.acp.v2.updates import (
    OfSubagent,
    Shown,
    SubagentSessions,
    available_commands,
    background_end,
    background_terminal,
    beginning_updates,
    config_options,
    ended_terminals,
    live_updates,
    new_terminal,
    no_longer_cancellable,
    replay_updates,
    running_call,
    terminal_left,
    terminal_updates,
    tool_call_shows,
    tool_content,
    usage_of,
    user_message,
)
from pattern_acp.domain.clock import Clock, SessionId, ToolCallId
from pattern_acp.domain.messages import Message
from pattern_acp.domain.text_limits import one_line, with_visible_characters
from pattern_acp.domain.tool_calls import TerminalContent, ToolCallView, ToolKind
from pattern_acp.domain.usage import Usage
from pattern_acp.journal.events import (
    Event,
    MessagePartial,
    MessageRecorded,
    ModelRequested,
    SubagentRecorded,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.policy.decision import ApprovalRequest, UserQuestion
from pattern_acp.session.mcp import ServerCommand
from pattern_acp.session.options import Option, Overlap
from pattern_acp.session.ports import ClientDescription
from pattern_acp.tools.base import DELEGATE
from pattern_acp.turn.recorder import (
    ContextChanged,
    JobOver,
    JobShown,
    JobStreamed,
    TerminalEnded,
    TerminalStreamed,
    TextStreamed,
    ThinkingStreamed,
    ToolCallRunning,
    ToolCallShows,
    ToolCallWaits,
    Transient,
)

SHOWN_OTHERWISE = (ModelRequested, MessageRecorded, TurnEnded)
"""Events of nearly every turn: words were streamed, and the state at the end of a turn follows behind it."""

LONG_KINDS = (ToolKind.EXECUTE, ToolKind.FETCH, ToolKind.OTHER)
"""Kinds of calls that may take long: commands, pages, and tools of servers."""


class SecondView(EditorView):
    """One session in a client of version 2. Everything goes out in the order in which it was shown."""

    def __init__(self, session_id: SessionId, dispatcher: Dispatcher, timer: FlushTimer, clock: Clock) -> None:
        super().__init__(session_id, dispatcher, EditorAbilities(compactions=True), timer, clock)
        self.cwd = ""
        """The session's folder, in which a command runs that names none."""
        self._begun = Compactions()
        self.subagents = SubagentSessions(session_id, is_live=True)
        self._terminals: dict[ToolCallId, TerminalContent] = {}
        """Terminals of ours that the client learned of, by the call that each has its name from."""
        self._open_terminals: set[ToolCallId] = set()
        self._background: list[ToolCallId] = []
        """Terminals whose commands run beside the foreground, the oldest first."""
        self._calls: set[ToolCallId] = set()
        self._cancellable: set[ToolCallId] = set()
        """Open calls that are worth cancelling on their own, since they may take long."""
        self._working: set[ToolCallId] = set()
        """Calls of the foreground that run and do not wait for the user."""
        self._shown_message = ""
        self._asking: list[ToolCallId] = []
        """The calls about which the user is asked."""
        self.state = "idle"
        """The state of the foreground as it was shown last."""
        self.used = Usage()
        """Tokens of the turn so far, with those of its subagents."""
        self._waiting: tuple[Shown, ...] = ()
        """Usage of a request of the turn, which goes out with what follows it: a call, or the turn's end."""

    async def show(self, event: Event | Transient) -> None:
        """See `SessionView.show`."""
        if self.state == "requires_action" and not self._asking:
            # Its question was withdrawn with the part of the turn that asked it, and the rest continues.
            await self.show_state("running")
        match event:
            case TextStreamed(message_id, text):
                await self._batch.add(Chunk(message_id, text, thought=False))
            case ThinkingStreamed(message_id, text):
                await self._batch.add(Chunk(thought_id(message_id), text, thought=True))
            case ToolCallRunning(call_id, sandbox):
                self._working.add(call_id)
                await self._put(running_call(call_id, sandbox, is_cancellable=call_id in self._cancellable))
                await self._show_blocked()
            case ToolCallWaits(call_id):
                self._working.discard(call_id)
                await self._put(schema.ToolCallUpdate(tool_call_id=call_id, status=schema.ToolCallStatus.PENDING))
                await self._show_blocked()
            case ToolCallShows():
                await self._announce_terminal(event)
                await self._put(tool_call_shows(event))
            case TerminalStreamed() | TerminalEnded() | JobShown() | JobStreamed() | JobOver():
                await self._show_terminal(event)
            case ContextChanged() | UsageReported():
                await self._show_usage(event)
            case _ if not isinstance(event, SHOWN_OTHERWISE):
                await self._show_durable(event)
            case _:
                pass

    async def show_message(self, message: Message) -> None:
        """Show a message of the user that a cancel prevented from being shown when it was recorded."""
        if message.message_id != self._shown_message:
            await self._put(*user_message(message))
            await self.show_state("running")
            self._shown_message = message.message_id

    async def show_beside(self, message: Message) -> None:
        """Show a message of the user that is answered beside the turn that runs."""
        await self._put(*user_message(message))

    async def show_state(
        self, state: str, stop_reason: str | None = None, error: schema.RpcErrorObject | None = None
    ) -> None:
        """Show the state of the foreground, after all that led to it."""
        used = None if stop_reason is None or self.used == Usage() else usage_of(self.used)
        self.state = state
        background = self.foreground().background
        await self._put(
            schema.StateUpdate(state=state, stop_reason=stop_reason, error=error, usage=used, background=background)
        )

    def foreground(self) -> schema.ForegroundState:
        """The state of the foreground, and all that runs beside it."""
        terminals = (schema.BackgroundTerminal(terminal_id=call_id) for call_id in self._background)
        subagents = (schema.BackgroundSubagent(session_id=child) for child in self.subagents.background)
        return schema.ForegroundState(state=self.state, background=(*terminals, *subagents))

    @asynccontextmanager
    async def asking(self, call_id: ToolCallId) -> AsyncGenerator[None]:
        """Show that the foreground waits for the user, unless other calls continue, and that it continues behind it."""
        self._asking.append(call_id)
        try:
            await self._show_blocked()
            yield
        finally:
            # All that is left of a question that is withdrawn with the work that asked it.
            self._asking.remove(call_id)
        if self._asking:
            await self._show_blocked()
        elif self.state == "requires_action":
            await self.show_state("running")

    async def _show_blocked(self) -> None:
        """Show that the foreground waits for the user when all of it does, and runs when some of it continues."""
        if self._asking:
            state = "running" if self._working.difference(self._asking) else "requires_action"
            if state != self.state:
                if self.state == "idle":
                    # Where a prompt is to continue is asked before it is part of the conversation.
                    await self.show_state("running")
                if state != self.state:
                    await self.show_state(state)

    async def replay_beginning(self, events: Sequence[Event]) -> int:
        """See `SessionView.replay_beginning`."""
        updates = beginning_updates([await with_previews(event) for event in events], self._session_id)
        await self._put(*updates)
        return len(updates)

    async def replay(self, events: Sequence[Event], *, shown: int = 0) -> None:
        """See `SessionView.replay`."""
        previewed = [await with_previews(event) for event in events]
        for portion in portions(replay_updates(previewed, self._session_id)[shown:]):
            await self._put(*portion)

    def follower(self) -> Callable[[Event], Awaitable[None]]:
        """See `EditorView.follower`; the state is that of the window that steers."""
        texts = FollowedTexts()

        async def show(event: Event) -> None:
            match event:
                case MessagePartial() | MessageRecorded():
                    for piece in texts.pieces_of(event):
                        await self.show(piece)
                case TurnEnded(handed_over=handed_over, stop_reason=stop_reason):
                    if not handed_over:
                        await self.show_state("idle", stop_reason.value)
                case _:
                    await self.show(event)

        return show

    async def show_notices(self, sentences: Sequence[str]) -> bool:
        """See `SessionView.show_notices`."""
        await self._put(*(v1.Notice(severity="info", title=sentence) for sentence in sentences))
        return True

    async def close_calls(self) -> None:
        """See `SessionView.close_calls`."""
        await self._put(*self.subagents.given_up())
        for call_id in tuple(self._calls):
            failed = schema.ToolCallUpdate(tool_call_id=call_id, status=schema.ToolCallStatus.FAILED)
            await self._put(self._begun.given_up(call_id) or failed)
            # Only now: what a cancel prevented from being sent is sent by the next call.
            self._calls.discard(call_id)

    async def show_options(self, options: Sequence[Option]) -> None:
        """See `SessionView.show_options`."""
        await self.show_config(options)

    async def show_mode(self, options: Sequence[Option]) -> None:
        """Show nothing: the mode is one of the options."""

    async def show_config(self, options: Sequence[Option]) -> None:
        """Tell the complete options."""
        await self._put(schema.ConfigOptionUpdate(config_options=config_options(options)))

    async def show_commands(self, more: Sequence[ServerCommand] = ()) -> None:
        """See `SessionView.show_commands`."""
        await self._put(schema.AvailableCommandsUpdate(available_commands=available_commands(more)))

    async def show_jobs(self, running: int) -> None:
        """See `SessionView.show_jobs`."""
        await self._put(v1.SessionInfoUpdate(meta={"pattern": {"backgroundJobs": running}}))

    async def _show_usage(self, event: ContextChanged | UsageReported) -> None:
        if isinstance(event, UsageReported):
            self.used += event.usage
        if self.state == "idle":
            await self._put(usage_update(event))
        else:
            self._waiting = (usage_update(event),)

    async def _show_durable(self, event: Event) -> None:
        if isinstance(event, SubagentRecorded) and isinstance(event.event, UsageReported):
            self.used += event.event.usage
        if isinstance(event, TurnStarted):
            self.used = Usage()
            self._working.clear()
        elif isinstance(event, ToolCallStarted):
            self._calls.add(event.call.call_id)
            if event.call.name == DELEGATE or event.call.kind in LONG_KINDS:
                self._cancellable.add(event.call.call_id)
        elif isinstance(event, ToolCallFinished):
            self._calls.discard(event.call_id)
            self._working.discard(event.call_id)
            event = await self._end_terminal(event)
        beside = self.subagents.background
        updates = live_updates(await with_previews(event), self._begun, self.subagents)
        is_turn = isinstance(event, TurnStarted)
        if is_turn or self.subagents.background != beside:
            state = "running" if is_turn else self.state
            updates.append(schema.StateUpdate(state=state, background=self.foreground().background))
        if isinstance(event, ToolCallFinished) and event.call_id in self._cancellable:
            self._cancellable.discard(event.call_id)
            updates = [no_longer_cancellable(update) for update in updates]
        await self._put(*updates)
        if isinstance(event, TurnStarted):
            # Only now: what a cancel prevented from being sent is sent by `show_message`.
            self._shown_message, self.state = event.message.message_id, "running"
        if isinstance(event, ToolCallFinished):
            await self._show_blocked()

    async def _end_terminal(self, event: ToolCallFinished) -> ToolCallFinished:
        """End the terminal of a call, unless its command continues; the call to be shown, with its terminal."""
        call_id = event.call_id
        if call_id not in self._terminals:
            await self._put(*ended_terminals(event))
            return event
        if call_id in self._open_terminals and call_id not in self._background:
            self._open_terminals.discard(call_id)
            await self._put(terminal_left(call_id))
        if any(isinstance(item, TerminalContent) for item in event.content):
            return event
        return replace(event, content=(self._terminals[call_id], *event.content))

    async def _show_terminal(self, event: TerminalStreamed | TerminalEnded | JobShown | JobStreamed | JobOver) -> None:
        match event:
            case JobShown():
                await self._show_job(event)
            case JobOver(call_id):
                await self._put(background_end(event))
                self._open_terminals.discard(call_id)
                self._background.remove(call_id)
                await self.show_state(self.state)
            case TerminalEnded(call_id):
                self._open_terminals.discard(call_id)
                await self._put(*terminal_updates(event))
            case TerminalStreamed() | JobStreamed():
                await self._put(*terminal_updates(event))

    async def _show_job(self, event: JobShown) -> None:
        """Announce the terminal of a command that continues in the background, and list it."""
        call_id = event.call_id
        await self._put(background_terminal(event, is_known=call_id in self._terminals))
        self._terminals.setdefault(call_id, TerminalContent(call_id, event.line, event.cwd))
        self._open_terminals.add(call_id)
        self._background.append(call_id)
        await self.show_state(self.state)

    async def _announce_terminal(self, event: ToolCallShows) -> None:
        """Announce the terminal of a call before the first update that names it."""
        terminal = next((item for item in event.content if isinstance(item, TerminalContent)), None)
        if terminal is not None and event.call_id not in self._terminals:
            await self._put(new_terminal(terminal, event.call_id))
            self._terminals[event.call_id] = terminal
            self._open_terminals.add(event.call_id)

    async def _put(self, *updates: Shown) -> None:
        if updates:
            waiting = self._waiting
            await self._batch.then(partial(self._write, (*waiting, *updates)))
            if self._waiting is waiting:
                # Only now: what a cancel prevented from being sent goes with the next.
                self._waiting = ()

    async def _write(self, updates: Sequence[Shown]) -> None:
        await self._dispatcher.notify_all("session/update", map(self._notification, updates))

    def _notification(self, shown: Shown) -> schema.SessionNotification:
        if isinstance(shown, OfSubagent):
            return schema.SessionNotification(session_id=shown.session_id, update=shown.update)
        return schema.SessionNotification(session_id=self._session_id, update=shown)


class SecondApprover(EditorApprover):
    """Asks through a client of version 2."""

    def __init__(self, session_id: SessionId, dispatcher: Dispatcher, view: SecondView, *, forms: bool) -> None:
        """`forms`: the client serves elicitation/create with forms."""
        super().__init__(session_id, dispatcher, EditorAbilities(forms=forms), view)
        self._second = view

    def _question(self, question: UserQuestion) -> schema.PermissionRequest:
        return schema.PermissionRequest(
            session_id=self._session_id,
            title=one_line(question.call.title),
            description=with_visible_characters(question.text),
            subject=_subject_of(question.call),
            options=answer_options(question),
        )

    def _params(self, request: ApprovalRequest) -> schema.PermissionRequest:
        return permission_request(self._session_id, request, self._second.cwd)


def permission_request(session_id: SessionId, request: ApprovalRequest, cwd: str) -> schema.PermissionRequest:
    """The question for the wire: about a command, which runs in `cwd` unless it names a folder, or about a call."""
    call = request.call
    options = tuple(
        v1.PermissionOption(option_id=option.answer, name=one_line(option.name), kind=option.answer.kind)
        for option in request.options
    )
    return schema.PermissionRequest(
        session_id=session_id,
        title=one_line(call.title),
        description=with_visible_characters(request.reason) or None,
        subject=_command_of(request, cwd) or _subject_of(call),
        options=options,
    )


def _subject_of(call: ToolCallView) -> schema.ToolCallSubject:
    return schema.ToolCallSubject(
        tool_call=schema.ToolCall(
            tool_call_id=call.call_id,
            title=one_line(call.title),
            kind=call.kind,
            status=schema.ToolCallStatus.PENDING,
            content=tool_content(call.content, call.call_id) or None,
            locations=locations_of(call.locations) or None,
            raw_input=shown_input(call.raw_input),
        )
    )


def _command_of(request: ApprovalRequest, cwd: str) -> schema.CommandSubject | None:
    """The command that the question is about; None for any other call."""
    call = request.call
    command, folder = call.raw_input.get("command"), call.raw_input.get("cwd")
    if call.kind is not ToolKind.EXECUTE or not isinstance(command, str) or not cwd:
        return None
    runs_in = str(PurePath(cwd, folder)) if isinstance(folder, str) else cwd
    return schema.CommandSubject(command=command, cwd=runs_in, tool_call_id=call.call_id)


class SecondFaces:
    """Makes the views and approvers of a connection of version 2 (see `acp.client.EditorClient.faces`)."""

    def __init__(self, client: EditorClient) -> None:
        self._client = client

    def view(self, session_id: SessionId, clock: Clock) -> SecondView:
        """A new view."""
        return SecondView(session_id, self._client.dispatcher, self._client.timer, clock)

    def described(self, client: ClientDescription) -> ClientDescription:
        """Prompts of version 2 do not own the turn, so that one which comes while it runs belongs to it."""
        return replace(client, overlap=Overlap.STEER, has_overlap_option=True)

    def approver(self, session_id: SessionId, view: EditorView) -> SecondApprover:
        """A new approver, which asks after what `view` has shown."""
        if not isinstance(view, SecondView):
            raise TypeError("A connection has views of one version.")
        return SecondApprover(session_id, self._client.dispatcher, view, forms=self._client.shows_forms)
