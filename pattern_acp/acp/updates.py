"""Events to session updates, for live turns and for replays. Pure.

Live, the text of messages was streamed already, so `MessageRecorded` shows nothing; a replay shows it whole. A replay
shows terminals as text, since clients drop updates that name a dead terminal (zed#64538).
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.acp import schema
from pattern_acp.acp.content import (
    CHUNK_CHARACTERS,
    DIFF_BYTES,
    IMAGE_BYTES,
    blocks_of,
    clipped,
    fits,
    pieces,
    shortened,
    shown_input,
    wire_size,
)
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.messages import Message, TextPart, ThinkingPart
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import (
    COMPACT_CALL,
    DiffContent,
    FilesChanged,
    ImageContent,
    LinkContent,
    Location,
    Plan,
    TerminalContent,
    TextContent,
    ToolCallStatus,
    ToolCallView,
    ToolContent,
    ToolKind,
)
from pattern_acp.journal.events import (
    Event,
    MessagePartial,
    MessageRecorded,
    PlanUpdated,
    SessionTitled,
    ToolCallFinished,
    ToolCallStarted,
    TurnStarted,
    UsageReported,
)
from pattern_acp.session.options import MODE_OPTION, MODES, Option
from pattern_acp.turn.recorder import ContextChanged, TerminalEnded, TerminalStreamed, TextStreamed, ThinkingStreamed

CONTENT_BYTES = 650_000
"""Most bytes of the diffs and texts of one call together; with its arguments they stay below 1 MB."""

RAW_OUTPUT_BYTES = 32_000
"""Most bytes of `rawOutput`, which repeats what the content shows."""

PLAN_CHARACTERS = 4_000
"""Most characters of one step of a plan."""

PATHS_NAMED = 20
"""Most paths that are named of changes that are not shown."""


def content_items(content: Sequence[ToolContent], *, live: bool, meta: bool) -> tuple[schema.ToolCallContent, ...]:
    """`content` for the wire. `live`: terminals of the client are shown by id; `meta`: so are ours.

    What does not fit into one line any more is named instead, so that nobody takes what is shown for all of it.
    """
    items: list[schema.ToolCallContent] = []
    left_out: list[str] = []
    room = CONTENT_BYTES
    for one in content:
        shown = _items(one, live=live, meta=meta)
        size = sum(wire_size(item) for item in shown) if len(content) > 1 else 0
        if size > room and isinstance(one, DiffContent):
            left_out.append(one.path)
            continue
        room -= size
        items += shown
    if left_out:
        more = f" and {len(left_out) - PATHS_NAMED:,} more" if len(left_out) > PATHS_NAMED else ""
        items.append(text_item(f"Too much to show here; also changed: {', '.join(left_out[:PATHS_NAMED])}{more}."))
    return tuple(items)


def locations_of(locations: Sequence[Location]) -> tuple[schema.ToolCallLocation, ...]:
    """Locations for the wire."""
    return tuple(schema.ToolCallLocation(path=one.path, line=one.line) for one in locations)


def _items(content: ToolContent, *, live: bool, meta: bool) -> list[schema.ToolCallContent]:
    match content:
        case TextContent(text):
            return [text_item(text)]
        case ImageContent(media_type, data) if len(data) <= IMAGE_BYTES:
            return [schema.Content(content=schema.ImageContent(data=data, mime_type=media_type))]
        case ImageContent(media_type, data):
            return [text_item(f"An image ({media_type}, {len(data) * 3 // 4:,} bytes), too large to be shown here.")]
        case DiffContent():
            return diff_items(content)
        case FilesChanged():
            return []
        case LinkContent(uri, name, description):
            return [
                schema.Content(
                    content=schema.ResourceLink(uri=uri, name=one_line(name), description=one_line(description) or None)
                )
            ]
        case TerminalContent():
            if (content.client_owned and live) or (not content.client_owned and meta):
                return [schema.Terminal(terminal_id=content.terminal_id)]
            return [text_item(terminal_text(content))]


def text_item(text: str) -> schema.Content:
    """Text, cut in the middle when it is long."""
    return schema.Content(content=schema.TextContent(text=shortened(text)))


def terminal_text(content: TerminalContent) -> str:
    """A terminal as a fenced text, for clients and replays that cannot show it live."""
    output = shortened(content.output.rstrip("\n"))
    longest = max((len(run) for run in _backtick_runs(output)), default=0)
    fence = "`" * max(3, longest + 1)
    command = " ".join(content.command.split())
    return f"{fence}console\n$ {command}\n{output}\n{fence}"


def diff_items(content: DiffContent) -> list[schema.ToolCallContent]:
    """A diff; of a large file one for each changed place with its surroundings, as many as fit."""
    old, new = content.old_text, content.new_text
    if old is None or (fits(old, DIFF_BYTES) and fits(new, DIFF_BYTES)):
        shown = None if old is None else clipped(old)
        return [schema.Diff(path=content.path, old_text=shown, new_text=clipped(new))]
    # Late: few diffs are that large.
    from pattern_acp.tools.file_changes import more_places, regions_within

    regions, left_out = regions_within(old, new, DIFF_BYTES // 2)
    items: list[schema.ToolCallContent] = [
        schema.Diff(path=content.path, old_text=clipped(region.old), new_text=clipped(region.new)) for region in regions
    ]
    return [*items, text_item(more_places(left_out, content.path))] if left_out else items


def _backtick_runs(text: str) -> list[str]:
    runs: list[str] = []
    run = ""
    for character in text:
        if character == "`":
            run += character
        elif run:
            runs.append(run)
            run = ""
    return [*runs, run] if run else runs


class Compactions:
    """The compactions of one session that began and did not end yet."""

    def __init__(self) -> None:
        self._open: set[ToolCallId] = set()

    def update_of(self, event: Event) -> schema.CompactionUpdate | None:
        """Return the update for an event of a compaction; None for any other event."""
        if isinstance(event, ToolCallStarted) and event.call.name == COMPACT_CALL:
            self._open.add(event.call.call_id)
            return schema.CompactionUpdate(compaction_id=event.call.call_id, status=schema.CompactionStatus.IN_PROGRESS)
        if isinstance(event, ToolCallFinished) and event.call_id in self._open:
            self._open.discard(event.call_id)
            return _end(event)
        return None

    @property
    def unfinished(self) -> tuple[ToolCallId, ...]:
        """Those that began and did not end."""
        return tuple(self._open)

    def given_up(self, call_id: ToolCallId) -> schema.CompactionUpdate | None:
        """Return the update for a compaction that never recorded its end; None when the call is none, or ended."""
        if call_id not in self._open:
            return None
        self._open.discard(call_id)
        return schema.CompactionUpdate(compaction_id=call_id, status=schema.CompactionStatus.FAILED)


def _end(event: ToolCallFinished) -> schema.CompactionUpdate:
    text = "\n\n".join(item.text for item in event.content if isinstance(item, TextContent))
    if event.status is ToolCallStatus.COMPLETED:
        summary = tuple(blocks_of(TextPart(text), CHUNK_CHARACTERS))
        return schema.CompactionUpdate(
            compaction_id=event.call_id, status=schema.CompactionStatus.COMPLETED, summary=summary
        )
    status = schema.CompactionStatus.CANCELLED if event.interrupted else schema.CompactionStatus.FAILED
    return schema.CompactionUpdate(compaction_id=event.call_id, status=status, error=text or msgspec.UNSET)


MICRO = 1_000_000


class EditorAbilities(Struct, frozen=True):
    """The client's abilities to show things."""

    terminal_meta: bool = False
    """It follows `_meta` terminal keys (Zed's way to show a terminal that the agent runs)."""
    embeds_terminals: bool = False
    """It serves terminal/*."""
    compactions: bool = False
    """It has updates of compactions."""
    one_of_a_kind: bool = False
    """It shows, or understands, only one option of each kind in a question."""
    forms: bool = False
    """It serves elicitation/create with forms."""


def live_updates(event: Event, abilities: EditorAbilities) -> list[schema.SessionUpdate]:
    """Return the updates for a durable event while a turn runs."""
    match event:
        case ToolCallStarted(call=call):
            return [tool_call(call, abilities)]
        case ToolCallFinished():
            return [tool_call_end(event, abilities, replay=False)]
        case PlanUpdated(plan=plan):
            return [plan_update(plan)]
        case UsageReported():
            return [usage_update(event)]
        case SessionTitled(title):
            return [schema.SessionInfoUpdate(title=one_line(title))]
        case _:
            return []


def terminal_updates(event: TerminalStreamed | TerminalEnded, abilities: EditorAbilities) -> list[schema.SessionUpdate]:
    """Return the updates of a terminal of ours while it runs and at its end, for clients that follow it."""
    if not abilities.terminal_meta:
        return []
    if isinstance(event, TerminalStreamed):
        metas: list[dict[str, object]] = [
            {"terminal_output": {"terminal_id": event.call_id, "data": piece}} for piece in pieces(event.data)
        ]
    else:
        ended = {"terminal_id": event.call_id, "exit_code": event.exit_code, "signal": event.signal}
        metas = [{"terminal_exit": ended}]
    return [schema.ToolCallProgress(tool_call_id=event.call_id, meta=meta) for meta in metas]


class _Replay(Struct):
    updates: list[schema.SessionUpdate] = field(default_factory=list[schema.SessionUpdate])
    plan: Plan | None = None
    usage: UsageReported | None = None
    title: str = ""
    open_calls: dict[ToolCallId, ToolCallView] = field(default_factory=dict[ToolCallId, ToolCallView])
    compactions: Compactions | None = None


def replay_updates(events: Iterable[Event], *, compactions: bool = False) -> list[schema.SessionUpdate]:
    """Return the updates of a session, in order: one chunk a message; last plan, usage and title once, at the end.

    With `compactions` they are updates of their own, not tool calls.
    """
    replay = _replayed(events, compactions=compactions)
    for call in replay.open_calls.values():
        replay.updates.append(schema.ToolCallProgress(tool_call_id=call.call_id, status=ToolCallStatus.FAILED))
    if replay.compactions is not None:
        given_up = map(replay.compactions.given_up, replay.compactions.unfinished)
        replay.updates.extend(update for update in given_up if update is not None)
    if replay.plan is not None:
        replay.updates.append(plan_update(replay.plan))
    if replay.usage is not None:
        replay.updates.append(usage_update(replay.usage))
    if replay.title:
        replay.updates.append(schema.SessionInfoUpdate(title=one_line(replay.title)))
    return replay.updates


def beginning_updates(events: Iterable[Event], *, compactions: bool = False) -> list[schema.SessionUpdate]:
    """Return the first of `replay_updates` for a history that begins with these events, of whole turns."""
    return _replayed(events, compactions=compactions).updates


def _replayed(events: Iterable[Event], *, compactions: bool) -> _Replay:
    replay = _Replay(compactions=Compactions() if compactions else None)
    for event in events:
        update = replay.compactions.update_of(event) if replay.compactions is not None else None
        if update is not None:
            replay.updates.append(update)
        else:
            _replay_one(replay, event)
    return replay


def _replay_one(replay: _Replay, event: Event) -> None:
    match event:
        case TurnStarted(message=message):
            replay.updates.extend(user_chunks(message))
        case MessageRecorded(message=message):
            replay.updates.extend(agent_chunks(message))
        case ToolCallStarted(call=call):
            replay.updates.append(tool_call(call, EditorAbilities()))
            replay.open_calls[call.call_id] = call
        case ToolCallFinished():
            replay.updates.append(tool_call_end(event, EditorAbilities(), replay=True))
            replay.open_calls.pop(event.call_id, None)
        case PlanUpdated(plan=plan):
            replay.plan = plan
        case UsageReported():
            replay.usage = event
        case SessionTitled(title):
            replay.title = title
        case _:
            pass


class FollowedTexts(Struct):
    """Messages that are read while another process records them: each piece of text once, as it is committed."""

    _shown: dict[str, int] = field(default_factory=dict[str, int])
    """Characters of each unfinished message, or its reasoning, that were shown."""

    def pieces_of(self, event: MessagePartial | MessageRecorded) -> list[TextStreamed | ThinkingStreamed]:
        """Return the reasoning and the text of an event that were not shown yet."""
        if isinstance(event, MessagePartial):
            message_id = event.message_id
            thought = self._rest(thought_id(message_id), event.thinking, event.thinking_at)
            text = self._rest(message_id, event.text, event.text_at)
        else:
            message_id, parts = event.message.message_id, event.message.parts
            thinking = "".join(part.text for part in parts if isinstance(part, ThinkingPart))
            thought = self._rest(thought_id(message_id), thinking, 0)
            text = self._rest(message_id, "".join(part.text for part in parts if isinstance(part, TextPart)), 0)
        pieces = (ThinkingStreamed(message_id, thought), TextStreamed(message_id, text))
        return [piece for piece in pieces if piece.text]

    def _rest(self, message_id: str, text: str, begins_at: int) -> str:
        """The part of a text that was not shown yet."""
        shown = self._shown.get(message_id, 0)
        self._shown[message_id] = max(shown, begins_at + len(text))
        return text[max(shown - begins_at, 0) :]


class FollowedUpdates(Struct):
    """The updates for events that are read while another process records them: text as far as it was committed."""

    _texts: FollowedTexts = field(default_factory=FollowedTexts)

    def updates_of(self, event: Event) -> list[schema.SessionUpdate]:
        """Return the updates for the next event."""
        match event:
            case TurnStarted(message=message):
                return user_chunks(message)
            case MessagePartial() | MessageRecorded():
                return [chunk for piece in self._texts.pieces_of(event) for chunk in _chunks(piece)]
            case _:
                return live_updates(event, EditorAbilities())


def _chunks(piece: TextStreamed | ThinkingStreamed) -> list[schema.SessionUpdate]:
    blocks = blocks_of(TextPart(piece.text), CHUNK_CHARACTERS)
    if isinstance(piece, ThinkingStreamed):
        shown_id = thought_id(piece.message_id)
        return [schema.AgentThoughtChunk(content=block, message_id=shown_id) for block in blocks]
    return [schema.AgentMessageChunk(content=block, message_id=piece.message_id) for block in blocks]


def user_chunks(message: Message) -> list[schema.SessionUpdate]:
    """The user's message as the client sent it."""
    return [
        schema.UserMessageChunk(content=block, message_id=message.message_id)
        for part in message.parts
        for block in blocks_of(part, CHUNK_CHARACTERS)
    ]


def agent_chunks(message: Message) -> list[schema.SessionUpdate]:
    """The agent's text and reasoning, in large chunks."""
    chunks: list[schema.SessionUpdate] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            chunks += [
                schema.AgentMessageChunk(content=block, message_id=message.message_id)
                for block in blocks_of(part, CHUNK_CHARACTERS)
            ]
        elif isinstance(part, ThinkingPart) and part.text:
            chunks += [
                schema.AgentThoughtChunk(content=block, message_id=thought_id(message.message_id))
                for block in blocks_of(TextPart(part.text), CHUNK_CHARACTERS)
            ]
    return chunks


def thought_id(message_id: str) -> str:
    """The id of a message's reasoning, which is a message of its own to the client."""
    return f"{message_id}_thought"


def tool_call(call: ToolCallView, abilities: EditorAbilities) -> schema.ToolCallStart:
    """A call as it is announced."""
    return schema.ToolCallStart(
        tool_call_id=call.call_id,
        title=one_line(call.title),
        kind=call.kind,
        status=ToolCallStatus.PENDING,
        name=call.name,
        content=content_items(call.content, live=abilities.embeds_terminals, meta=abilities.terminal_meta),
        locations=locations_of(call.locations),
        raw_input=shown_input(call.raw_input),
        meta=_terminal_to_come(call, abilities),
    )


def _terminal_to_come(call: ToolCallView, abilities: EditorAbilities) -> dict[str, object] | None:
    """Names the terminal that a command of ours will write to; Zed takes it from the announcement only."""
    if not abilities.terminal_meta or call.kind is not ToolKind.EXECUTE:
        return None
    return {"terminal_info": {"terminal_id": call.call_id}}


def named_by_call(content: Sequence[ToolContent], call_id: ToolCallId) -> tuple[ToolContent, ...]:
    """Terminals of ours take the name of their call, which is known when the call is announced."""
    return tuple(
        replace(item, terminal_id=call_id) if isinstance(item, TerminalContent) and not item.client_owned else item
        for item in content
    )


def tool_call_shows(
    call_id: ToolCallId, content: Sequence[ToolContent], abilities: EditorAbilities, title: str = ""
) -> schema.ToolCallProgress:
    """New content of a running call."""
    items = content_items(
        named_by_call(content, call_id), live=abilities.embeds_terminals, meta=abilities.terminal_meta
    )
    return schema.ToolCallProgress(
        tool_call_id=call_id, status=ToolCallStatus.IN_PROGRESS, content=items, title=one_line(title) or None
    )


def tool_call_end(event: ToolCallFinished, abilities: EditorAbilities, *, replay: bool) -> schema.ToolCallProgress:
    """A call's final state."""
    shown = EditorAbilities() if replay else abilities
    named = named_by_call(event.content, event.call_id)
    content = content_items(named, live=shown.embeds_terminals, meta=shown.terminal_meta)
    about: dict[str, object] = {"durationMs": event.duration_ms}
    if event.failure:
        about["failure"] = event.failure
    if event.sandbox:
        about["sandbox"] = event.sandbox
    return schema.ToolCallProgress(
        tool_call_id=event.call_id,
        status=event.shown_status,
        title=one_line(event.title) or None,
        content=content or None,
        locations=locations_of(event.locations) or None,
        raw_output=raw_output(named, content) or msgspec.UNSET,
        meta={"pattern": about},
    )


def raw_output(content: Sequence[ToolContent], shown: Sequence[schema.ToolCallContent]) -> str:
    """The text that a call came to; empty for one that shows diffs and images alone.

    Jupyter AI shows nothing else of a call. acpx shows it in front of the content unless the two are the same, so it
    is the text of what is `shown`; only a terminal that the client draws is replaced by its output.
    """
    outputs = {one.terminal_id: one.output for one in content if isinstance(one, TerminalContent)}
    texts: list[str] = []
    for item in shown:
        match item:
            case schema.Content(content=schema.TextContent(text=text)):
                texts.append(text)
            case schema.Terminal(terminal_id=terminal_id):
                texts.append(outputs.get(terminal_id, "").rstrip("\n"))
            case _:
                pass
    return shortened("\n".join(text for text in texts if text), RAW_OUTPUT_BYTES)


def plan_update(plan: Plan) -> schema.PlanUpdate:
    """The whole plan."""
    return schema.PlanUpdate(
        entries=tuple(
            schema.PlanEntry(
                content=one_line(entry.content, PLAN_CHARACTERS), priority=entry.priority, status=entry.status
            )
            for entry in plan.entries
        )
    )


def usage_update(event: UsageReported | ContextChanged) -> schema.UsageUpdate:
    """Tokens in context now, the window, and the session's cost."""
    cost = event.cost
    shown = schema.Cost(amount=cost.micro_units / MICRO, currency=cost.currency) if cost is not None else None
    return schema.UsageUpdate(used=event.used, size=event.size, cost=shown)


def mode_state(options: Sequence[Option]) -> schema.SessionModeState:
    """The modes for clients that do not read config options."""
    current = next(option.current for option in options if option.option_id == MODE_OPTION)
    modes = tuple(schema.SessionMode(id=m.value, name=m.name, description=m.description) for m in MODES)
    return schema.SessionModeState(current_mode_id=current, available_modes=modes)


def config_options(options: Sequence[Option]) -> tuple[schema.ConfigOption, ...]:
    """The complete config options."""
    return tuple(
        schema.SelectConfigOption(
            id=option.option_id,
            name=one_line(option.name),
            current_value=option.current,
            description=one_line(option.description) or None,
            category=option.category or None,
            options=tuple(
                schema.SelectOption(value=c.value, name=one_line(c.name), description=one_line(c.description) or None)
                for c in option.choices
            ),
        )
        for option in options
    )


def iso_time(at_ms: int) -> str:
    """A moment as ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
