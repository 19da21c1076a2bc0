"""Events to the session updates of ACP v2, for live turns and for replays, with changes of files as patches. Pure.

Beside `acp.updates`, which does the same for version 1; what has one form in both is taken from there.
"""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from difflib import unified_diff
from typing import TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.acp import schema as v1
from pattern_acp.acp.content import (
    CHUNK_CHARACTERS,
    DIFF_BYTES,
    blocks_of,
    fits,
    pieces,
    shortened,
    shown_input,
    wire_size,
)
from pattern_acp.acp.updates import (
    CONTENT_BYTES,
    PATHS_NAMED,
    PLAN_CHARACTERS,
    Compactions,
    content_items,
    locations_of,
    raw_output,
    text_item,
    thought_id,
    usage_update,
)
from pattern_acp.acp.v2 import schema
from pattern_acp.commands.slash import COMMANDS
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.messages import Message, TextPart, ThinkingPart
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.domain.tool_calls import (
    ChangedPath,
    DiffContent,
    FilesChanged,
    FileSide,
    Plan,
    StopReason,
    TerminalContent,
    ToolCallView,
    ToolContent,
)
from pattern_acp.domain.usage import Usage
from pattern_acp.journal.events import (
    ContextAdded,
    Event,
    MessageRecorded,
    PlanUpdated,
    SessionTitled,
    SubagentRecorded,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from pattern_acp.session.mcp import ServerCommand
from pattern_acp.session.options import Option
from pattern_acp.tools.base import DELEGATE
from pattern_acp.turn.recorder import JobOver, JobShown, JobStreamed, TerminalEnded, TerminalStreamed, ToolCallShows

PLAN_ID = "plan"
"""A session has one plan."""

MESSAGE_BYTES = 600_000
"""Most bytes of a message that is shown whole; the rest of a longer one follows in chunks."""

CANCELLED = ("tool.cancelled", "tool.superseded")
"""Failures of calls that the user ended or came before."""


class OfSubagent(Struct, frozen=True):
    """An update of the session of a subagent."""

    session_id: str
    update: schema.SessionUpdate


Shown: TypeAlias = schema.SessionUpdate | OfSubagent
"""An update of the session itself, or of one of its subagents."""


class SubagentSessions(Struct):
    """The sessions of subagents that run, each with the call that it works for and its own open calls."""

    parent: str = ""
    """The session that they belong to."""
    is_live: bool = False
    """True while they can be cancelled; else they are replayed."""
    calls: dict[str, ToolCallId] = field(default_factory=dict[str, ToolCallId])
    _open: dict[str, set[ToolCallId]] = field(default_factory=dict[str, set[ToolCallId]])
    _outliving: set[ToolCallId] = field(default_factory=set[ToolCallId])
    """Calls that end before the subagents which they start in the background."""

    @property
    def background(self) -> tuple[str, ...]:
        """Those that run beside the foreground, the oldest first."""
        beside = self._outliving
        return tuple([child for child, call_id in self.calls.items() if call_id in beside]) if beside else ()

    def note(self, call: ToolCallView) -> None:
        """Note a call that may start one."""
        if call.name == DELEGATE and isinstance(call.raw_input, dict) and call.raw_input.get("background") is True:
            self._outliving.add(call.call_id)

    def updates_of(self, recorded: SubagentRecorded) -> list[Shown]:
        """Return the updates for what happened in a subagent; it is announced before anything else of it."""
        child = recorded.thread_id
        match recorded.event:
            case TurnStarted(message=message) | ContextAdded(message=message, sources=("result",)) if (
                child not in self.calls
            ):
                # It begins, or continues behind its report with words of the user.
                self.calls[child], self._open[child] = recorded.call_id, set()
                cancel = schema.Controls(cancel=v1.Flag()) if self.is_live else msgspec.UNSET
                announced = schema.SubagentUpdate(
                    session_id=child,
                    title=one_line(recorded.name),
                    capabilities=cancel,
                    state=schema.ForegroundState(state="running", background=()),
                )
                begun: list[Shown] = [announced, *self._of(child, self._task(child, message))]
                if self.is_live:
                    begun.append(OfSubagent(child, schema.StateUpdate(state="running", background=())))
                return begun
            case MessageRecorded(message=message):
                return self._of(child, agent_messages(message))
            case ToolCallStarted(call=call):
                self._open.setdefault(child, set()).add(call.call_id)
                return self._of(child, [tool_call(call)])
            case ToolCallFinished() as finished:
                self._open.setdefault(child, set()).discard(finished.call_id)
                return self._of(child, [*ended_terminals(finished), tool_call_end(finished)])
            case TurnEnded(stop_reason=stop_reason):
                return self._ended(child, stop_reason.value)
            case _:
                return []

    def given_up(self, call_id: ToolCallId | None = None, *, of_all: bool = False) -> list[Shown]:
        """Return the ends of those that did not record their own, of one call or every call of the foreground.

        With `of_all`, also of those that run beside the foreground.
        """
        over = set[ToolCallId]() if of_all else self._outliving
        children = [child for child, call in self.calls.items() if call_id in (None, call) and call not in over]
        return [update for child in children for update in self._ended(child, StopReason.CANCELLED.value)]

    def _ended(self, child: str, stop_reason: str) -> list[Shown]:
        if self.calls.pop(child, None) is None:
            return []
        failed = [
            schema.ToolCallUpdate(tool_call_id=call, status=schema.ToolCallStatus.FAILED)
            for call in sorted(self._open.pop(child, set()))
        ]
        if not self.is_live:
            idle = schema.ForegroundState(state="idle", background=())
            return [*self._of(child, failed), schema.SubagentUpdate(session_id=child, state=idle)]
        ended = schema.StateUpdate(state="idle", stop_reason=stop_reason, background=())
        mirrored = schema.ForegroundState(state="idle", stop_reason=stop_reason, background=())
        over = schema.SubagentUpdate(session_id=child, capabilities=None, state=mirrored)
        return [*self._of(child, [*failed, ended]), over]

    def _task(self, child: str, message: Message) -> list[schema.SessionUpdate]:
        blocks = [block for part in message.parts for block in blocks_of(part, CHUNK_CHARACTERS)]
        sent = tuple(blocks[: _fitting(blocks)])
        sender = self.parent or None
        message_id = message.message_id
        return [
            schema.SessionMessage(
                message_id=message_id, sender_session_id=sender, recipient_session_id=child, content=sent
            )
        ]

    def _of(self, child: str, updates: Sequence[schema.SessionUpdate]) -> list[Shown]:
        return [OfSubagent(child, update) for update in updates]


def live_updates(event: Event, compactions: Compactions, subagents: SubagentSessions) -> list[Shown]:
    """Return the updates for a durable event while a turn runs. Text of the agent was streamed already."""
    compaction = compactions.update_of(event)
    updates: list[Shown] = [] if compaction is None else [compaction]
    match event:
        case _ if updates:
            pass
        case SubagentRecorded():
            updates = subagents.updates_of(event)
        case TurnStarted(message=message):
            updates += user_message(message)
        case ToolCallStarted(call=call):
            subagents.note(call)
            updates.append(tool_call(call))
        case ToolCallFinished():
            updates = [*subagents.given_up(event.call_id), tool_call_end(event)]
        case PlanUpdated(plan=plan):
            updates.append(plan_update(plan))
        case UsageReported():
            updates.append(usage_update(event))
        case SessionTitled(title):
            updates.append(v1.SessionInfoUpdate(title=one_line(title)))
        case _:
            pass
    return updates


class _Replay(Struct):
    compactions: Compactions
    subagents: SubagentSessions
    updates: list[Shown] = field(default_factory=list[Shown])
    plan: Plan | None = None
    usage: UsageReported | None = None
    title: str = ""
    open_calls: dict[ToolCallId, ToolCallView] = field(default_factory=dict[ToolCallId, ToolCallView])


def replay_updates(events: Iterable[Event], session_id: str = "") -> list[Shown]:
    """Return the updates of a session, in order: messages whole; last plan, usage and title once, at the end."""
    replay = _replayed(events, session_id)
    replay.updates += replay.subagents.given_up(of_all=True)
    for call_id in replay.open_calls:
        replay.updates.append(schema.ToolCallUpdate(tool_call_id=call_id, status=schema.ToolCallStatus.FAILED))
    given_up = map(replay.compactions.given_up, replay.compactions.unfinished)
    replay.updates.extend(update for update in given_up if update is not None)
    if replay.plan is not None and replay.plan.entries:
        replay.updates.append(plan_update(replay.plan))
    if replay.usage is not None:
        replay.updates.append(usage_update(replay.usage))
    if replay.title:
        replay.updates.append(v1.SessionInfoUpdate(title=one_line(replay.title)))
    return replay.updates


def beginning_updates(events: Iterable[Event], session_id: str = "") -> list[Shown]:
    """Return the first of `replay_updates` for a history that begins with these events, of whole turns."""
    return _replayed(events, session_id).updates


def _replayed(events: Iterable[Event], session_id: str) -> _Replay:
    replay = _Replay(Compactions(), SubagentSessions(session_id))
    for event in events:
        update = replay.compactions.update_of(event)
        if update is not None:
            replay.updates.append(update)
        else:
            _replay_one(replay, event)
    return replay


def _replay_one(replay: _Replay, event: Event) -> None:
    match event:
        case TurnStarted(message=message):
            replay.updates += user_message(message)
        case MessageRecorded(message=message):
            replay.updates += agent_messages(message)
        case ToolCallStarted(call=call):
            replay.subagents.note(call)
            replay.updates.append(tool_call(call))
            replay.open_calls[call.call_id] = call
        case SubagentRecorded():
            replay.updates += replay.subagents.updates_of(event)
        case ToolCallFinished():
            replay.updates += replay.subagents.given_up(event.call_id)
            replay.updates += [*ended_terminals(event), tool_call_end(event)]
            replay.open_calls.pop(event.call_id, None)
        case PlanUpdated(plan=plan):
            replay.plan = plan
        case UsageReported():
            replay.usage = event
        case SessionTitled(title):
            replay.title = title
        case _:
            pass


def user_message(message: Message) -> list[schema.SessionUpdate]:
    """The user's message: whole, and in chunks what does not fit into one line; none of a turn of the agent's own."""
    blocks = [block for part in message.parts for block in blocks_of(part, CHUNK_CHARACTERS)]
    if not blocks:
        return []
    first = _fitting(blocks)
    rest = [v1.UserMessageChunk(content=block, message_id=message.message_id) for block in blocks[first:]]
    return [schema.UserMessage(message_id=message.message_id, content=tuple(blocks[:first])), *rest]


def agent_messages(message: Message) -> list[schema.SessionUpdate]:
    """The agent's reasoning and text, each whole, and in chunks what does not fit into one line."""
    texts = [
        block for part in message.parts if isinstance(part, TextPart) for block in blocks_of(part, CHUNK_CHARACTERS)
    ]
    thoughts = [
        block
        for part in message.parts
        if isinstance(part, ThinkingPart) and part.text
        for block in blocks_of(TextPart(part.text), CHUNK_CHARACTERS)
    ]
    shown_thoughts, shown_texts = list[schema.SessionUpdate](), list[schema.SessionUpdate]()
    if thoughts:
        first, thought = _fitting(thoughts), thought_id(message.message_id)
        shown_thoughts.append(schema.AgentThought(message_id=thought, content=tuple(thoughts[:first])))
        shown_thoughts += [v1.AgentThoughtChunk(content=block, message_id=thought) for block in thoughts[first:]]
    if texts:
        first = _fitting(texts)
        shown_texts.append(schema.AgentMessage(message_id=message.message_id, content=tuple(texts[:first])))
        shown_texts += [v1.AgentMessageChunk(content=block, message_id=message.message_id) for block in texts[first:]]
    # Where they alternate, both have the places in which they began.
    begins = next((part for part in message.parts if isinstance(part, TextPart | ThinkingPart) and part.text), None)
    return [*shown_texts, *shown_thoughts] if isinstance(begins, TextPart) else [*shown_thoughts, *shown_texts]


def _fitting(blocks: Sequence[v1.ContentBlock]) -> int:
    """Return the number of first blocks that fit into one line together."""
    size = 0
    for count, block in enumerate(blocks):
        size += wire_size(block)
        if size > MESSAGE_BYTES:
            return count
    return len(blocks)


def tool_call(call: ToolCallView) -> schema.ToolCallUpdate:
    """A call as it is announced."""
    return schema.ToolCallUpdate(
        tool_call_id=call.call_id,
        title=one_line(call.title),
        kind=call.kind,
        status=schema.ToolCallStatus.PENDING,
        name=call.name,
        content=tool_content(call.content, call.call_id) or None,
        locations=locations_of(call.locations) or None,
        raw_input=shown_input(call.raw_input),
    )


def running_call(call_id: ToolCallId, sandbox: str, *, is_cancellable: bool) -> schema.ToolCallUpdate:
    """A call that runs from now on, in a sandbox or not, and that its user may be able to cancel."""
    can = schema.Controls(cancel=v1.Flag()) if is_cancellable else msgspec.UNSET
    about: dict[str, object] | None = {"pattern": {"sandbox": sandbox}} if sandbox else None
    running = schema.ToolCallStatus.IN_PROGRESS
    return schema.ToolCallUpdate(tool_call_id=call_id, status=running, capabilities=can, meta=about)


def tool_call_shows(event: ToolCallShows) -> schema.ToolCallUpdate:
    """New content of a running call."""
    return schema.ToolCallUpdate(
        tool_call_id=event.call_id,
        status=schema.ToolCallStatus.IN_PROGRESS,
        content=tool_content(event.content, event.call_id),
        title=one_line(event.title) or None,
    )


def tool_call_end(event: ToolCallFinished) -> schema.ToolCallUpdate:
    """A call's final state; one whose end nobody saw was cancelled."""
    seen = schema.ToolCallStatus(event.shown_status.value)
    about: dict[str, object] = {"durationMs": event.duration_ms}
    if event.failure:
        about["failure"] = event.failure
    if event.sandbox:
        about["sandbox"] = event.sandbox
    shown = content_items(event.content, live=False, meta=False)
    return schema.ToolCallUpdate(
        tool_call_id=event.call_id,
        status=schema.ToolCallStatus.CANCELLED if event.interrupted or event.failure in CANCELLED else seen,
        title=one_line(event.title) or None,
        content=tool_content(event.content, event.call_id) or None,
        locations=locations_of(event.locations) or None,
        raw_output=raw_output(event.content, shown) or msgspec.UNSET,
        meta={"pattern": about},
    )


def tool_content(content: Sequence[ToolContent], call_id: ToolCallId) -> tuple[schema.ToolCallContent, ...]:
    """Content of a call for the wire; its terminal has its name. What does not fit into one line is named instead."""
    items: list[schema.ToolCallContent] = []
    left_out: list[str] = []
    room = CONTENT_BYTES
    paths = paths_of(content)
    for place, one in enumerate(content):
        shown = _items(one, call_id, paths.get(place))
        size = sum(wire_size(item) for item in shown)
        if size > room and isinstance(one, DiffContent):
            left_out.append(one.path)
            continue
        room -= size
        items += shown
    if left_out:
        more = f" and {len(left_out) - PATHS_NAMED:,} more" if len(left_out) > PATHS_NAMED else ""
        items.append(text_item(f"Too much to show here; also changed: {', '.join(left_out[:PATHS_NAMED])}{more}."))
    return tuple(items)


def _items(content: ToolContent, call_id: ToolCallId, changed: ChangedPath | None) -> list[schema.ToolCallContent]:
    match content:
        case DiffContent():
            return [diff((changed,))] if changed is not None else []
        case FilesChanged(files=files, left_out=left_out):
            more = [text_item(f"{plural(left_out, 'more file')} changed.")] if left_out else []
            return [diff(files), *more]
        case TerminalContent():
            return [v1.Terminal(terminal_id=call_id)]
        case _:
            shown = content_items((content,), live=False, meta=False)
            return [item for item in shown if isinstance(item, v1.Content)]


def new_terminal(content: TerminalContent, call_id: ToolCallId) -> schema.TerminalUpdate:
    """A terminal of ours as it is announced; it has the name of its call."""
    return schema.TerminalUpdate(terminal_id=call_id, command=content.command, cwd=content.cwd or None)


def no_longer_cancellable(update: Shown) -> Shown:
    """The end of a call that its user could cancel."""
    return replace(update, capabilities=None) if isinstance(update, schema.ToolCallUpdate) else update


def terminal_left(call_id: ToolCallId) -> schema.TerminalUpdate:
    """A terminal that ended with its call, nobody saw how."""
    return schema.TerminalUpdate(terminal_id=call_id, exit_status=v1.TerminalExitStatus())


def background_terminal(event: JobShown, *, is_known: bool) -> schema.TerminalUpdate:
    """The terminal of a command that continues beside the foreground; its user can end it."""
    so_far = shortened(event.output) if event.output and not is_known else ""
    return schema.TerminalUpdate(
        terminal_id=event.call_id,
        command=event.line,
        cwd=event.cwd or None,
        output=schema.TerminalOutput(data=_base64(so_far)) if so_far else None,
        size=schema.TerminalSize(cols=event.size[0], rows=event.size[1]) if event.size is not None else None,
        capabilities=schema.Controls(cancel=v1.Flag()),
    )


def background_end(event: JobOver) -> schema.TerminalUpdate:
    """The end of such a command."""
    ended = v1.TerminalExitStatus(exit_code=event.exit_code, signal=event.signal)
    return schema.TerminalUpdate(terminal_id=event.call_id, exit_status=ended, capabilities=None)


def ended_terminals(event: ToolCallFinished) -> list[schema.SessionUpdate]:
    """The terminal of a call that ended, with all of its output."""
    terminals = [item for item in event.content if isinstance(item, TerminalContent)]
    return [
        schema.TerminalUpdate(
            terminal_id=event.call_id,
            command=item.command,
            cwd=item.cwd or None,
            output=schema.TerminalOutput(data=_base64(shortened(item.output))),
            exit_status=v1.TerminalExitStatus(),
        )
        for item in terminals[:1]
    ]


def terminal_updates(event: TerminalStreamed | TerminalEnded | JobStreamed) -> list[schema.SessionUpdate]:
    """Return the updates of a terminal of ours while it runs and at its end."""
    if isinstance(event, TerminalStreamed | JobStreamed):
        return [
            schema.TerminalOutputChunk(terminal_id=event.call_id, data=_base64(piece)) for piece in pieces(event.data)
        ]
    ended = v1.TerminalExitStatus(exit_code=event.exit_code, signal=event.signal)
    return [schema.TerminalUpdate(terminal_id=event.call_id, exit_status=ended)]


def _base64(text: str) -> str:
    return b64encode(text.encode("utf-8", "replace")).decode("ascii")


def usage_of(used: Usage) -> schema.Usage:
    """Tokens of a turn for the wire."""
    return schema.Usage(
        total_tokens=used.context_tokens,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens - used.thinking_tokens,
        thought_tokens=used.thinking_tokens or None,
        cached_read_tokens=used.cache_read_tokens or None,
        cached_write_tokens=used.cache_write_tokens or None,
    )


def plan_update(plan: Plan) -> schema.PlanUpdate | schema.PlanRemoved:
    """The whole plan; one without entries is removed."""
    if not plan.entries:
        return schema.PlanRemoved(plan_id=PLAN_ID)
    entries = tuple(
        v1.PlanEntry(content=one_line(entry.content, PLAN_CHARACTERS), priority=entry.priority, status=entry.status)
        for entry in plan.entries
    )
    return schema.PlanUpdate(plan=schema.PlanItems(plan_id=PLAN_ID, entries=entries))


def config_options(options: Sequence[Option]) -> tuple[schema.ConfigOption, ...]:
    """The complete config options; the mode is one of them."""
    return tuple(
        schema.ConfigOption(
            config_id=option.option_id,
            name=one_line(option.name),
            current_value=option.current,
            description=one_line(option.description) or None,
            category=option.category or f"_{option.option_id}",
            options=tuple(
                v1.SelectOption(value=c.value, name=one_line(c.name), description=one_line(c.description) or None)
                for c in option.choices
            ),
        )
        for option in options
        if option.choices
    )


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


PATCH_LINES = 1_500
"""Most lines between the first and the last change that are compared; beyond, they are replaced as a whole."""

AROUND = 3
"""Unchanged lines that a patch shows on either side."""

EXECUTABLE = 0o100
"""The permission bit by which git tells programs from other files."""


def paths_of(content: Sequence[ToolContent]) -> dict[int, ChangedPath]:
    """The changes that diffs among the content show, by their places in it; a moved file is one change."""
    diffs = {place: item for place, item in enumerate(content) if isinstance(item, DiffContent)}
    gone = {item.path: item for item in diffs.values() if item.is_gone}
    moved = {item.moved_from for item in diffs.values() if item.moved_from in gone}
    return {
        place: _changed(item, gone.get(item.moved_from))
        for place, item in diffs.items()
        if not (item.is_gone and item.path in moved)
    }


def _changed(item: DiffContent, before: DiffContent | None) -> ChangedPath:
    old = before.old_text if before is not None else item.old_text
    return ChangedPath(
        item.path,
        FileSide("missing") if old is None else FileSide("file", old),
        FileSide("missing") if item.is_gone else FileSide("file", item.new_text),
        before.path if before is not None else "",
    )


def diff(files: Sequence[ChangedPath]) -> schema.Diff:
    """The changes of files; with a patch of those whose texts are small enough to be whole here."""
    text = "".join(git_patch(file) for file in files if _is_whole(file.before) and _is_whole(file.after))
    return schema.Diff(
        changes=tuple(_change(file) for file in files),
        patch=schema.DiffPatch(format="git_patch", text=text) if text else None,
    )


def _is_whole(side: FileSide) -> bool:
    if side.text is None:
        return side.is_binary or side.kind == "missing"
    return fits(side.text, DIFF_BYTES)


def _change(file: ChangedPath) -> schema.DiffChange:
    side = file.before if file.after.kind == "missing" else file.after
    operation = "modify"
    if file.moved_from:
        operation = "move"
    elif file.after.kind == "missing":
        operation = "delete"
    elif file.before.kind == "missing":
        operation = "add"
    kind = "symlink" if side.kind == "link" else "binary" if side.is_binary else "text"
    return schema.DiffChange(operation=operation, path=file.path, old_path=file.moved_from or None, file_type=kind)


def git_patch(file: ChangedPath) -> str:
    """The change of a file in git's form, with absolute paths; empty where nothing changed."""
    before, after = file.before, file.after
    new_name = _quoted(file.path)
    old_name = _quoted(file.moved_from) if file.moved_from else new_name
    header = [f"diff --git {old_name} {new_name}\n", *_modes(before, after)]
    if file.moved_from:
        header += [f"rename from {old_name}\n", f"rename to {new_name}\n"]
    shown_old = "/dev/null" if before.kind == "missing" else old_name
    shown_new = "/dev/null" if after.kind == "missing" else new_name
    if before.is_binary or after.is_binary:
        return "".join([*header, f"Binary files {shown_old} and {shown_new} differ\n"])
    hunks = list(_hunks(before.text or "", after.text or ""))
    if not hunks:
        return "".join(header) if len(header) > 1 else ""
    return "".join([*header, f"--- {shown_old}\n", f"+++ {shown_new}\n", *hunks])


def _modes(before: FileSide, after: FileSide) -> list[str]:
    if before.kind == "missing":
        return [f"new file mode {_mode(after)}\n"]
    if after.kind == "missing":
        return [f"deleted file mode {_mode(before)}\n"]
    if _mode(before) == _mode(after) or not (before.mode and after.mode):
        return []
    return [f"old mode {_mode(before)}\n", f"new mode {_mode(after)}\n"]


def _mode(side: FileSide) -> str:
    if side.kind == "link":
        return "120000"
    return "100755" if side.mode & EXECUTABLE else "100644"


def _hunks(old: str, new: str) -> Iterable[str]:
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    # Only line feeds end a line for git; others stay inside it.
    before, after = _by_line_feed(before), _by_line_feed(after)
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    same_end = 0
    while same_end < min(len(before), len(after)) - same and before[-1 - same_end] == after[-1 - same_end]:
        same_end += 1
    if len(before) - same - same_end <= PATCH_LINES and len(after) - same - same_end <= PATCH_LINES:
        start, end = max(same - AROUND, 0), max(same_end - AROUND, 0)
        lines = unified_diff(before[start : len(before) - end], after[start : len(after) - end], n=AROUND)
        for number, line in enumerate(lines):
            if number >= 2:
                yield _moved(line, start) if line.startswith("@@") else _ended(line)
        return
    yield f"@@ -{_span(same, len(before) - same - same_end)} +{_span(same, len(after) - same - same_end)} @@\n"
    for line in before[same : len(before) - same_end]:
        yield _ended(f"-{line}")
    for line in after[same : len(after) - same_end]:
        yield _ended(f"+{line}")


def _by_line_feed(lines: Sequence[str]) -> list[str]:
    text = "".join(lines)
    return [f"{line}\n" for line in text.split("\n")[:-1]] + ([last] if (last := text.rpartition("\n")[2]) else [])


def _span(before: int, count: int) -> str:
    """A range of a hunk: one without lines is behind the line before it."""
    return f"{before + 1 if count else before},{count}"


def _moved(header: str, lines: int) -> str:
    """The header of a hunk, of which the texts began so many lines further down."""
    _, old, new, _ = header.split(" ", 3)
    return f"@@ -{_shifted(old[1:], lines)} +{_shifted(new[1:], lines)} @@\n"


def _shifted(span: str, lines: int) -> str:
    start, comma, count = span.partition(",")
    return f"{int(start) + lines}{comma}{count}"


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def _quoted(path: str) -> str:
    """A path as git writes it: quoted when it has unusual characters, its bytes in octal."""
    if path.isascii() and path.isprintable() and '"' not in path and "\\" not in path:
        return path
    written = (
        _ESCAPES.get(one)
        or (one if " " <= one <= "~" else "".join(f"\\{byte:03o}" for byte in one.encode("utf-8", "replace")))
        for one in path
    )
    return f'"{"".join(written)}"'
