"""The client of one ACP connection as the session sees it: its abilities, its answers, and its view of a turn.

Owns: `session.ports.Client`, the `Approver` over session/request_permission, the view that shows a turn, and sending
its pieces of text together. Must not know: sessions.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Protocol, TypeVar, cast

import anyio
import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.acp import schema
from pattern_acp.acp import schema_extensions as extensions
from pattern_acp.acp.content import CHUNK_CHARACTERS, IMAGE_BYTES, pieces, shown_input
from pattern_acp.acp.editor_ports import EditorPorts, LocalMeans, offered_at_client
from pattern_acp.acp.onlookers import Onlooker, Onlookers, SharedQuestions
from pattern_acp.acp.updates import (
    Compactions,
    EditorAbilities,
    FollowedUpdates,
    beginning_updates,
    config_options,
    content_items,
    live_updates,
    locations_of,
    replay_updates,
    terminal_updates,
    thought_id,
    tool_call_shows,
    usage_update,
)
from pattern_acp.commands.slash import COMMANDS
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.clock import Clock, SessionId, ToolCallId
from pattern_acp.domain.messages import ImagePart
from pattern_acp.domain.text_limits import one_line, with_visible_characters
from pattern_acp.domain.tool_calls import ImageContent, TerminalContent, TextContent, ToolCallStatus
from pattern_acp.journal.events import Event, ToolCallFinished, ToolCallStarted, TurnStarted
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.jsonrpc.messages import ConnectionClosedError, InvalidResultError, ProtocolError, RemoteError
from pattern_acp.mcp_servers.catalogue import Heard, ServerError
from pattern_acp.policy.decision import ApprovalRequest, PermissionAnswer, UserContact, UserQuestion
from pattern_acp.session.mcp import ServerCommand
from pattern_acp.session.options import MODE_OPTION, Option
from pattern_acp.session.ports import ClientDescription
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
from pattern_acp.workspace.errors import ImageError
from pattern_acp.workspace.git import GitStatus
from pattern_acp.workspace.images import preview_of

FLUSH_SECONDS = 0.04
FLUSH_CHARACTERS = 400

AWAY_SECONDS = 0.8
"""Longest that the way to a client's machine and back may take beside what is asked of it there."""


class Chunk(Struct, frozen=True):
    """Text of one message; `thought` tells reasoning from answer."""

    message_id: str
    text: str
    thought: bool


class FlushTimer(Struct):
    """One task a connection that sends waiting text when its time has come."""

    _due: "list[ChunkBatch]" = field(default_factory=list["ChunkBatch"])
    _wake: anyio.Event = field(default_factory=anyio.Event)

    def schedule(self, batch: "ChunkBatch") -> None:
        """Send what `batch` holds in 40 ms, unless something else does before."""
        if batch not in self._due:
            self._due.append(batch)
        self._wake.set()

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            await self._wake.wait()
            await anyio.sleep(FLUSH_SECONDS)
            self._wake = anyio.Event()
            due, self._due = self._due, []
            try:
                for batch in due:
                    await batch.flush()
            except ConnectionClosedError:
                return


class ChunkBatch:
    """Waiting text of one session, in order with everything else the session shows."""

    def __init__(self, send: Callable[[Chunk], Awaitable[None]], timer: FlushTimer, clock: Clock) -> None:
        self._send = send
        self._timer = timer
        self._clock = clock
        self._lock = anyio.Lock(fast_acquire=True)
        self._waiting: list[Chunk] = []
        self._size = 0
        self._sent_at = float("-inf")

    async def add(self, chunk: Chunk) -> None:
        """Take more text; a call that ends by cancellation has taken all of it or none."""
        if len(chunk.text) <= CHUNK_CHARACTERS:
            self._waiting.append(chunk)
        else:
            self._waiting += [Chunk(chunk.message_id, piece, chunk.thought) for piece in pieces(chunk.text)]
        self._size += len(chunk.text)
        quiet = self._clock.monotonic() - self._sent_at >= FLUSH_SECONDS
        if quiet or self._size >= FLUSH_CHARACTERS:
            await self.then()
        else:
            self._timer.schedule(self)

    async def flush(self) -> None:
        """Send all waiting text now."""
        await self.then()

    async def then(self, act: Callable[[], Awaitable[None]] | None = None) -> None:
        """Send waiting text, then `act`, with nothing in between."""
        async with self._lock:
            while self._waiting:
                chunk, count = self._joined() if len(self._waiting) > 1 else (self._waiting[0], 1)
                await self._send(chunk)
                del self._waiting[:count]
                self._size -= len(chunk.text)
                self._sent_at = self._clock.monotonic()
            if act is not None:
                await act()

    def _joined(self) -> tuple[Chunk, int]:
        first = self._waiting[0]
        count, size = 0, 0
        for chunk in self._waiting:
            size += len(chunk.text)
            is_same = (chunk.message_id, chunk.thought) == (first.message_id, first.thought)
            if count and (not is_same or size > CHUNK_CHARACTERS):
                break
            count += 1
        text = "".join(chunk.text for chunk in self._waiting[:count])
        return Chunk(first.message_id, text, first.thought), count


T = TypeVar("T")

PORTION = 100
"""Updates of a replay that go out with nothing in between; others need not wait until a whole session is reported."""


def portions(updates: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the updates of a replay in portions, in their order."""
    return (updates[begin : begin + PORTION] for begin in range(0, len(updates), PORTION))


async def with_previews(event: Event) -> Event:
    """The event as it can be shown; the same one when nothing in it is too large."""
    match event:
        case TurnStarted(message=message):
            parts = [await _shown(part) for part in message.parts] if _has_large(message.parts) else message.parts
            return event if parts is message.parts else replace(event, message=replace(message, parts=tuple(parts)))
        case ToolCallFinished(content=content) if _has_large(content):
            return replace(event, content=tuple([await _shown(item) for item in content]))
        case _:
            return event


def _has_large(items: Sequence[object]) -> bool:
    return any(isinstance(item, ImagePart | ImageContent) and len(item.data) > IMAGE_BYTES for item in items)


async def _shown(item: T) -> T:
    if not isinstance(item, ImagePart | ImageContent) or len(item.data) <= IMAGE_BYTES:
        return item
    try:
        preview = await preview_of(ImagePart(item.media_type, item.data))
    except ImageError:
        # It is named in words instead.
        return item
    return replace(item, media_type=preview.media_type, data=preview.data)


class EditorView:
    """One session in the editor. Everything goes out in the order in which it was shown."""

    def __init__(
        self, session_id: SessionId, dispatcher: Dispatcher, abilities: EditorAbilities, timer: FlushTimer, clock: Clock
    ) -> None:
        self._session_id = session_id
        self._dispatcher = dispatcher
        self._abilities = abilities
        self._batch = ChunkBatch(self._send_chunk, timer, clock)
        self._known_terminals: set[str] = set()
        self._open_calls: set[ToolCallId] = set()
        self._compactions = Compactions() if abilities.compactions else None

    async def show(self, event: Event | Transient) -> None:
        """See `SessionView.show`."""
        if isinstance(event, ToolCallStarted):
            self._open_calls.add(event.call.call_id)
        elif isinstance(event, ToolCallFinished):
            self._open_calls.discard(event.call_id)
        match event:
            case TextStreamed(message_id, text):
                await self._batch.add(Chunk(message_id, text, thought=False))
            case ThinkingStreamed(message_id, text):
                await self._batch.add(Chunk(thought_id(message_id), text, thought=True))
            case ToolCallRunning(call_id, sandbox):
                about: dict[str, object] | None = {"pattern": {"sandbox": sandbox}} if sandbox else None
                await self._send(
                    schema.ToolCallProgress(tool_call_id=call_id, status=ToolCallStatus.IN_PROGRESS, meta=about)
                )
            case ToolCallWaits(call_id):
                await self._send(schema.ToolCallProgress(tool_call_id=call_id, status=ToolCallStatus.PENDING))
            case ToolCallShows(call_id, content, title):
                await self._send(
                    tool_call_shows(call_id, content, self._abilities, title), self._terminal_meta(call_id, content)
                )
            case JobShown() | JobStreamed() | JobOver():
                # Version 1 has no word for what runs beside a turn; calls, /background and the next prompt tell of it.
                pass
            case _:
                for update in await _updates_of(event, self._abilities, self._compactions):
                    await self._send(update)

    async def replay_beginning(self, events: Sequence[Event]) -> int:
        """See `SessionView.replay_beginning`."""
        previewed = [await with_previews(event) for event in events]
        updates = beginning_updates(previewed, compactions=self._abilities.compactions)
        await self._send_all(updates)
        return len(updates)

    async def replay(self, events: Sequence[Event], *, shown: int = 0) -> None:
        """See `SessionView.replay`."""
        previewed = [await with_previews(event) for event in events]
        await self._send_all(replay_updates(previewed, compactions=self._abilities.compactions)[shown:])

    async def show_notices(self, sentences: Sequence[str]) -> bool:
        """See `SessionView.show_notices`: version 1 has none that every client shows."""
        del sentences
        return False

    def follower(self) -> Callable[[Event], Awaitable[None]]:
        """Return what shows, from now on, each event that another window records of the session."""
        followed = FollowedUpdates()

        async def show(event: Event) -> None:
            for update in followed.updates_of(event):
                await self._send(update)

        return show

    async def close_calls(self) -> None:
        """See `SessionView.close_calls`."""
        for call_id in tuple(self._open_calls):
            compaction = self._compactions.given_up(call_id) if self._compactions is not None else None
            failed = schema.ToolCallProgress(tool_call_id=call_id, status=ToolCallStatus.FAILED)
            await self._send(compaction or failed)
            # Only now: what a cancel prevented from being sent is sent by the next call.
            self._open_calls.discard(call_id)

    async def show_options(self, options: Sequence[Option]) -> None:
        """See `SessionView.show_options`."""
        await self.show_mode(options)
        await self.show_config(options)

    async def show_mode(self, options: Sequence[Option]) -> None:
        """Tell the mode, for clients that read modes."""
        mode = next(option.current for option in options if option.option_id == MODE_OPTION)
        await self._send(schema.CurrentModeUpdate(current_mode_id=mode))

    async def show_config(self, options: Sequence[Option]) -> None:
        """Tell the complete options, for clients that read those."""
        await self._send(schema.ConfigOptionUpdate(config_options=config_options(options)))

    async def show_commands(self, more: Sequence[ServerCommand] = ()) -> None:
        """Tell the slash commands, and with them the prompts of MCP servers."""
        await self._send(schema.AvailableCommandsUpdate(available_commands=available_commands(more)))

    async def show_jobs(self, running: int) -> None:
        """See `SessionView.show_jobs`. ACP has no update for it; this one changes nothing where it is not known."""
        await self._send(schema.SessionInfoUpdate(meta={"pattern": {"backgroundJobs": running}}))

    async def settle(self) -> None:
        """See `SessionView.settle`."""
        await self._batch.flush()

    def asking(self, call_id: ToolCallId) -> AbstractAsyncContextManager[None]:
        """Ask the user about a call in a block; version 1 has no update for it."""
        del call_id
        return nullcontext()

    def _terminal_meta(self, call_id: ToolCallId, content: Sequence[object]) -> dict[str, object] | None:
        """Return the metadata that announces a terminal of ours to the client before its first output."""
        if not self._abilities.terminal_meta or call_id in self._known_terminals:
            return None
        for item in content:
            if isinstance(item, TerminalContent) and not item.client_owned:
                self._known_terminals.add(call_id)
                return {"terminal_info": {"terminal_id": call_id, "cwd": item.cwd}}
        return None

    async def _send(self, update: schema.SessionUpdate, meta: dict[str, object] | None = None) -> None:
        if meta is not None and isinstance(update, schema.ToolCallProgress):
            update = schema.ToolCallProgress(
                tool_call_id=update.tool_call_id,
                status=update.status,
                content=update.content,
                title=update.title,
                meta=meta,
            )
        await self._batch.then(lambda: self._notify(update))

    async def _send_all(self, updates: Sequence[schema.SessionUpdate]) -> None:
        for portion in portions(updates):
            await self._batch.then(partial(self._notify_all, portion))

    async def _notify_all(self, updates: Sequence[schema.SessionUpdate]) -> None:
        session_id = self._session_id
        notifications = (schema.SessionNotification(session_id=session_id, update=update) for update in updates)
        await self._dispatcher.notify_all("session/update", notifications)

    async def _send_chunk(self, chunk: Chunk) -> None:
        kind = schema.AgentThoughtChunk if chunk.thought else schema.AgentMessageChunk
        update = kind(content=schema.TextContent(text=chunk.text), message_id=chunk.message_id)
        # As `_notify` does, without a frame more for each piece of text.
        await self._dispatcher.notify(
            "session/update", schema.SessionNotification(session_id=self._session_id, update=update)
        )

    async def _notify(self, update: schema.SessionUpdate) -> None:
        await self._dispatcher.notify(
            "session/update", schema.SessionNotification(session_id=self._session_id, update=update)
        )


async def _updates_of(
    event: Event | TerminalStreamed | TerminalEnded | ContextChanged,
    abilities: EditorAbilities,
    compactions: Compactions | None,
) -> Sequence[schema.SessionUpdate]:
    if isinstance(event, TerminalStreamed | TerminalEnded):
        return terminal_updates(event, abilities)
    if isinstance(event, ContextChanged):
        return [usage_update(event)]
    compaction = compactions.update_of(event) if compactions is not None else None
    return [compaction] if compaction is not None else live_updates(await with_previews(event), abilities)


def available_commands(more: Sequence[ServerCommand] = ()) -> tuple[schema.AvailableCommand, ...]:
    """The slash commands for the wire."""
    return tuple(
        schema.AvailableCommand(
            name=one_line(spec.name),
            description=one_line(spec.description),
            input=schema.CommandInput(hint=one_line(spec.usage)) if spec.usage else None,
        )
        for spec in (*COMMANDS.values(), *more)
    )


MOST_WORDS = 2000
"""Characters that are taken of what a user writes beside a refusal."""

CANCEL_SECONDS = 0.5
"""Longest wait of a withdrawn question for the cancel that clients send after it: VS Code and Zed answer what is open
first. Meanwhile no other question may come up and no model be asked. Without one it is a refusal like any other."""


class EditorApprover:
    """Asks through the editor.

    There is no deadline: a user may take their time, and nothing is ever allowed by waiting. A cancelled turn
    cancels the question, whether or not the client answers it (CodeCompanion, avante and Qt Creator do not).
    """

    def __init__(
        self, session_id: SessionId, dispatcher: Dispatcher, abilities: EditorAbilities, view: EditorView
    ) -> None:
        self._session_id = session_id
        self._dispatcher = dispatcher
        self._abilities = abilities
        self._view = view

    async def ask(self, request: ApprovalRequest) -> PermissionAnswer:
        """See `Approver.ask`. An option that was not offered is a refusal (opensumi#4707)."""
        return await self.choose(request) or PermissionAnswer.REJECT_ONCE

    async def choose(self, request: ApprovalRequest) -> PermissionAnswer | None:
        """See `Onlooker.choose`."""
        options = tuple(one for one in request.options if self._abilities.forms or not one.answer.takes_text)
        request = replace(request, options=options)
        chosen = await self._chosen(request.call.call_id, self._params(request), request.hear)
        if chosen is None:
            return PermissionAnswer.CANCELLED
        answer = {option.answer.value: option.answer for option in request.options}.get(chosen)
        return await self._with_text(request, answer) if answer is not None and answer.takes_text else answer

    async def _with_text(self, request: ApprovalRequest, answer: PermissionAnswer) -> PermissionAnswer:
        """The answer, with what the user writes in a form; a refusal where a text to allow does not come."""
        edits = answer is PermissionAnswer.ALLOW_EDITED
        message = "The text as it should be saved" if edits else "Why not? The agent reads your answer"
        text = await self._filled(UserQuestion(request.call, message, ()), request.text if edits else "")
        if text:
            request.hear(text)
            return answer
        return PermissionAnswer.REJECT_ONCE

    async def put(self, question: UserQuestion) -> str | None:
        """See `UserContact.put`."""
        if self._abilities.forms:
            return await self._filled(question)
        if self._abilities.one_of_a_kind or not question.options:
            return None
        chosen = await self._chosen(question.call.call_id, self._question(question))
        return "" if chosen is None else chosen_option(question, chosen)

    async def _chosen(
        self, call_id: ToolCallId, params: schema.Wire, hear: Callable[[str], None] = lambda _: None
    ) -> str | None:
        """The id of the chosen option, empty without a readable one; None for a question that was withdrawn.

        `hear` takes the words that the client sends beside it.
        """
        try:
            response = await self._answer(call_id, "session/request_permission", params, schema.PermissionResponse)
        except ConnectionClosedError:
            return None
        if response is None:
            return ""
        if response.outcome.outcome == "cancelled":
            await anyio.sleep(CANCEL_SECONDS)
            return None
        if words := _words_of(response.meta) or _words_of(response.outcome.meta):
            hear(words)
        return (response.outcome.option_id or "") if response.outcome.outcome == "selected" else ""

    async def _filled(self, question: UserQuestion, text: str = "") -> str | None:
        """The answer to a form with a choice and a field for own words, which begins with `text`."""
        params = schema.ElicitationRequest(
            session_id=self._session_id,
            tool_call_id=question.call.call_id,
            message=with_visible_characters(question.text),
            requested_schema=form_of(question, text),
            mode="form",
            meta={"pattern": {"closed": True}} if question.is_closed else None,
        )
        try:
            response = await self._answer(
                question.call.call_id, "elicitation/create", params, schema.ElicitationResponse
            )
        except ConnectionClosedError:
            return ""
        if response is None:
            return None
        if response.action != "accept":
            if response.action == "cancel":
                await anyio.sleep(CANCEL_SECONDS)
            return ""
        fields = [response.content.get(name) for name in ("answer", "own_words")] if response.content else []
        return ". ".join(text.strip() for text in fields if isinstance(text, str) and text.strip())

    async def _answer(self, call_id: ToolCallId, method: str, params: schema.Wire, kind: type[T]) -> T | None:
        """The client's answer to a question about a call; None where it gives none that can be read.

        Raises:
            ConnectionClosedError: the connection ended first.
        """
        await self._view.settle()
        async with self._view.asking(call_id):
            try:
                return await self._dispatcher.request(method, params, kind, deadline=None, repair=schema.repair)
            except (RemoteError, InvalidResultError):
                return None

    def _question(self, question: UserQuestion) -> schema.Wire:
        call = question.call
        return schema.PermissionRequest(
            session_id=self._session_id,
            tool_call=schema.ToolCallUpdate(
                tool_call_id=call.call_id,
                title=one_line(call.title),
                kind=call.kind,
                status=ToolCallStatus.PENDING,
                content=content_items(call.content, live=False, meta=False),
                raw_input=shown_input(call.raw_input),
            ),
            options=answer_options(question),
        )

    def _params(self, request: ApprovalRequest) -> schema.Wire:
        call = request.call
        # The preview comes first: CodeCompanion shows a diff only when it is content[0].
        content = (*call.content, TextContent(with_visible_characters(request.reason)))
        return schema.PermissionRequest(
            session_id=self._session_id,
            tool_call=schema.ToolCallUpdate(
                tool_call_id=call.call_id,
                title=one_line(call.title),
                kind=call.kind,
                status=ToolCallStatus.PENDING,
                content=content_items(
                    content, live=self._abilities.embeds_terminals, meta=self._abilities.terminal_meta
                ),
                locations=locations_of(call.locations),
                raw_input=shown_input(call.raw_input),
            ),
            options=tuple(
                schema.PermissionOption(option_id=option.answer, name=one_line(option.name), kind=option.answer.kind)
                for option in (request.first_of_each_kind if self._abilities.one_of_a_kind else request.options)
            ),
        )


def answer_options(question: UserQuestion) -> tuple[schema.PermissionOption, ...]:
    """The answers to a question as buttons, for a client without forms.

    The id of the first option of a kind is the kind (interop rule 1).
    """
    once, refused = PermissionAnswer.ALLOW_ONCE.value, PermissionAnswer.REJECT_ONCE.value
    answers = tuple(
        schema.PermissionOption(option_id=each, name=one_line(name), kind=refused if each == refused else once)
        for each, name in _answers(question)
    )
    if question.is_closed:
        return answers
    return (*answers, schema.PermissionOption(option_id=refused, name="Answer in my own words", kind=refused))


def _words_of(meta: dict[str, object] | None) -> str:
    """Words of the user beside the option that they chose (docs/reference/extensions.md)."""
    ours = meta.get("pattern") if meta else None
    words = cast("dict[str, object]", ours).get("words") if isinstance(ours, dict) else None
    return words.strip()[:MOST_WORDS] if isinstance(words, str) else ""


def chosen_option(question: UserQuestion, option_id: str) -> str | None:
    """The answer behind a button; None for the one that lets the user write."""
    return dict(_answers(question)).get(option_id)


def _answers(question: UserQuestion) -> list[tuple[str, str]]:
    once = PermissionAnswer.ALLOW_ONCE.value
    ids = [once, *(f"{once}_{number}" for number in range(2, len(question.options) + 1))]
    if question.is_closed:
        ids[-1] = PermissionAnswer.REJECT_ONCE.value
    return list(zip(ids, question.options, strict=False))


def form_of(question: UserQuestion, text: str = "") -> JsonObject:
    """The form for a question, with what its field for own words begins with."""
    own: JsonObject = {"type": "string", "title": "In your own words" if question.options else "Your answer"}
    own = {**own, "default": text} if text else own
    if not question.options:
        return {"type": "object", "properties": {"own_words": own}, "required": ["own_words"]}
    choice: JsonObject = {
        "type": "string",
        "title": "Answer",
        "enum": [one_line(option) for option in question.options],
    }
    return {"type": "object", "properties": {"answer": choice, "own_words": own}}


def abilities_of(client: schema.ClientCapabilities, info: schema.Implementation | None = None) -> EditorAbilities:
    """Return the client's abilities to show things.

    agent-shell merges options of the same kind (PR598). avante, which takes every id but a kind's for a refusal, is one
    of the clients that do not say who they are.
    """
    # With terminals of its own a client never sees ours, except as a fall-back, which text shows well enough.
    follows_ours = client.has_meta("terminal_output") and not client.terminal
    compactions = client.session.compaction is not None
    return EditorAbilities(
        terminal_meta=follows_ours,
        embeds_terminals=client.terminal,
        compactions=compactions,
        one_of_a_kind=info is None or info.name in {"", "agent-shell"},
        forms=client.shows_forms,
    )


def description_of(client: schema.ClientCapabilities, info: schema.Implementation | None) -> ClientDescription:
    """Describe the client for the model."""
    files = "The editor reads and writes files, with unsaved changes."
    commands = "Commands run in the editor's terminal."
    notes: list[str] = []
    if client.fs.read_text_file or client.fs.write_text_file:
        notes.append(files)
    if client.terminal:
        notes.append(commands)
    name = (info.title or info.name) if info is not None else ""
    return ClientDescription(name[:60], tuple(notes))


class Faces(Protocol):
    """Makes what a connection of another version shows and asks with; `acp.v2` has the one that there is."""

    def view(self, session_id: SessionId, clock: Clock) -> EditorView:
        """Return a new view of a session."""
        ...

    def described(self, client: ClientDescription) -> ClientDescription:
        """Return the description of the client with the customs of this version."""
        ...

    def approver(self, session_id: SessionId, view: EditorView) -> Onlooker:
        """Return a new approver, which asks after what `view` has shown."""
        ...


class McpNote(schema.Wire, frozen=True, kw_only=True):
    """A notification of an MCP server of the client, which belongs to a request."""

    server_id: str
    request_id: str
    method: str
    params: dict[str, object] | None = None


class ClientServers:
    """Requests to the MCP servers that the client offers over its own connection (`mcp/message`)."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._last_id = 0
        self._heard: dict[tuple[str, str], Heard] = {}

    async def ask(self, server_id: str, method: str, params: JsonObject, heard: Heard, /) -> JsonObject:
        """See `mcp_servers.catalogue.AskClient`."""
        self._last_id += 1
        request_id = str(self._last_id)
        asked = {"serverId": server_id, "requestId": request_id, "method": method, "params": params}
        self._heard[server_id, request_id] = heard
        try:
            answer = await self._dispatcher.request(schema.MCP_MESSAGE, asked, dict[str, Json], deadline=None)
        except ProtocolError as error:
            raise ServerError(f"the client did not pass it on: {error.sentence}") from error
        finally:
            del self._heard[server_id, request_id]
        if "result" in answer:
            return {"result": answer["result"]}
        if "error" in answer:
            return {"error": answer["error"]}
        raise ServerError("the client's answer has neither a result nor an error")

    def hear(self, raw: msgspec.Raw) -> None:
        """Take a notification; one that belongs to no request is dropped."""
        note = schema.read_params(raw, McpNote)
        heard = self._heard.get((note.server_id, note.request_id))
        if heard is not None:
            heard(note.method, cast("JsonObject", note.params or {}))


class EditorClient:
    """The editor, as sessions need it. What it can do is known once initialize was answered."""

    def __init__(self, dispatcher: Dispatcher, means: LocalMeans, clock: Clock) -> None:
        self._dispatcher = dispatcher
        self._means = means
        self._clock = clock
        self._capabilities = schema.ClientCapabilities()
        self._info: schema.Implementation | None = None
        self._views: dict[SessionId, EditorView] = {}
        self.faces: Faces | None = None
        """Set where the connection speaks another version of the protocol than the first."""
        self.onlookers: Onlookers | None = None
        """Set where the process has other connections, which may look on at sessions of this one."""
        self.timer = FlushTimer()
        self.servers = ClientServers(dispatcher)

    @property
    def dispatcher(self) -> Dispatcher:
        """The connection."""
        return self._dispatcher

    def introduce(self, capabilities: schema.ClientCapabilities, info: schema.Implementation | None) -> None:
        """Take what the client said of itself."""
        self._capabilities = capabilities
        self._info = info

    @property
    def _abilities(self) -> EditorAbilities:
        return abilities_of(self._capabilities, self._info)

    @property
    def shows_forms(self) -> bool:
        """True if it serves elicitation/create with forms."""
        return self._capabilities.shows_forms

    @property
    def is_searched(self) -> bool:
        """See `Client.is_searched`."""
        return self._means.is_elsewhere and "search_text" in offered_at_client(self._capabilities)

    async def git_status(self, cwd: str, seconds: float) -> GitStatus | None:
        """The state of a working tree on the client's machine; None where it does not say within the time."""
        if "git_status" not in offered_at_client(self._capabilities):
            return None
        try:
            answer = await self._dispatcher.request(
                extensions.GIT_STATUS,
                extensions.GitStatusRequest(cwd=cwd),
                extensions.GitStatusResponse,
                deadline=seconds + AWAY_SECONDS,
            )
            return None if answer.status is None else msgspec.convert(answer.status, GitStatus)
        except (TimeoutError, ProtocolError, msgspec.ValidationError):
            return None

    @property
    def description(self) -> ClientDescription:
        """See `Client.description`."""
        described = description_of(self._capabilities, self._info)
        if self._means.is_elsewhere:
            how = "the tools for it" if self.is_searched else "commands such as ls, find and rg"
            where = f"They are on the user's machine, not on yours: look for files with {how}."
            described = replace(described, capabilities=(*described.capabilities, where))
        return self.faces.described(described) if self.faces is not None else described

    def view(self, session_id: SessionId) -> EditorView:
        """See `Client.view`. One view a session, since order holds inside it."""
        view = self._views.get(session_id)
        if view is None:
            abilities = self._abilities
            if self.faces is not None:
                view = self.faces.view(session_id, self._clock)
            else:
                view = EditorView(session_id, self._dispatcher, abilities, self.timer, self._clock)
            self._views[session_id] = view
        return view

    def approver(self, session_id: SessionId) -> Onlooker:
        """See `Client.approver`."""
        if self.faces is not None:
            return self.faces.approver(session_id, self.view(session_id))
        return EditorApprover(session_id, self._dispatcher, self._abilities, self.view(session_id))

    def asking_all(self, own: UserContact, session_id: SessionId) -> UserContact:
        """See `Client.asking_all`."""
        return own if self.onlookers is None else SharedQuestions(own, session_id, self.onlookers)

    def workbench(self, session_id: SessionId) -> EditorPorts:
        """See `Client.workbench`."""
        return EditorPorts(session_id, self._dispatcher, self._capabilities, self._means)

    def forget(self, session_id: SessionId) -> None:
        """Drop the view of a closed session."""
        self._views.pop(session_id, None)
