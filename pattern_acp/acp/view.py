"""`SessionView` over session/update, with small pictures in place of images that are too large for one line."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from pattern_acp.acp import schema
from pattern_acp.acp.batching import Chunk, ChunkBatch, FlushTimer
from pattern_acp.acp.compactions import Compactions
from pattern_acp.acp.line_budget import IMAGE_BYTES
from pattern_acp.acp.updates import (
    Abilities,
    beginning_updates,
    config_options,
    live_updates,
    replay_updates,
    terminal_updates,
    thought_id,
    tool_call_shows,
    usage_update,
)
from pattern_acp.commands.slash import COMMANDS
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.ids import SessionId, ToolCallId
from pattern_acp.domain.messages import ImagePart
from pattern_acp.domain.tool_calls import ImageContent, TerminalContent, ToolCallStatus
from pattern_acp.journal.events import Event, ToolCallFinished, ToolCallStarted, TurnStarted
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.session.mcp import ServerCommand
from pattern_acp.session.options import MODE_OPTION, Option
from pattern_acp.turn.events import (
    ContextChanged,
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
from pattern_acp.workspace.images import preview_of

T = TypeVar("T")


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
        self, session_id: SessionId, dispatcher: Dispatcher, abilities: Abilities, timer: FlushTimer, clock: Clock
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
            case ToolCallRunning(call_id):
                await self._send(schema.ToolCallProgress(tool_call_id=call_id, status=ToolCallStatus.IN_PROGRESS))
            case ToolCallWaits(call_id):
                await self._send(schema.ToolCallProgress(tool_call_id=call_id, status=ToolCallStatus.PENDING))
            case ToolCallShows(call_id, content, title):
                await self._send(
                    tool_call_shows(call_id, content, self._abilities, title), self._terminal_meta(call_id, content)
                )
            case _:
                for update in await _updates_of(event, self._abilities, self._compactions):
                    await self._send(update)

    async def replay_beginning(self, events: Sequence[Event]) -> int:
        """See `SessionView.replay_beginning`."""
        previewed = [await with_previews(event) for event in events]
        updates = beginning_updates(previewed, compactions=self._abilities.compactions)
        for update in updates:
            await self._send(update)
        return len(updates)

    async def replay(self, events: Sequence[Event], *, shown: int = 0) -> None:
        """See `SessionView.replay`."""
        previewed = [await with_previews(event) for event in events]
        for update in replay_updates(previewed, compactions=self._abilities.compactions)[shown:]:
            await self._send(update)

    async def close_calls(self) -> None:
        """See `SessionView.close_calls`."""
        for call_id in tuple(self._open_calls):
            compaction = self._compactions.given_up(call_id) if self._compactions is not None else None
            failed = schema.ToolCallProgress(tool_call_id=call_id, status=ToolCallStatus.FAILED)
            await self._send(compaction or failed)
            # Only now: what a cancel kept from being sent is sent by the next call.
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

    def _terminal_meta(self, call_id: ToolCallId, content: Sequence[object]) -> dict[str, object] | None:
        """What tells the client of a terminal of ours before its first output."""
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

    async def _send_chunk(self, chunk: Chunk) -> None:
        content = schema.TextContent(text=chunk.text)
        if chunk.thought:
            await self._notify(schema.AgentThoughtChunk(content=content, message_id=chunk.message_id))
        else:
            await self._notify(schema.AgentMessageChunk(content=content, message_id=chunk.message_id))

    async def _notify(self, update: schema.SessionUpdate) -> None:
        await self._dispatcher.notify(
            "session/update", schema.SessionNotification(session_id=self._session_id, update=update)
        )


async def _updates_of(
    event: Event | TerminalStreamed | TerminalEnded | ContextChanged,
    abilities: Abilities,
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
            name=spec.name,
            description=spec.description,
            input=schema.CommandInput(hint=spec.hint) if spec.hint else None,
        )
        for spec in (*COMMANDS.values(), *more)
    )
