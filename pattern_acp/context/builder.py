"""A provider request, put together in three segments (stable, history, volatile), from the journal and memory.

Owns: shortening texts of a prompt that are too long to be sent whole; the message list that a provider accepts; the
words for memory, whole once and after that only the changes, and when telling all again is better. Must not know:
sessions, how memory is stored, or when a turn begins.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat

from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.context.instructions import system_in_window
from pattern_acp.context.window import output_limit, text_limit
from pattern_acp.domain.clock import MessageId, SessionId, ToolCallId, TurnId, local_minute
from pattern_acp.domain.messages import Message, Part, ResourcePart, Role, TextPart, ToolResultPart, begins_with
from pattern_acp.domain.tool_calls import ToolCallStatus
from pattern_acp.domain.untrusted_blocks import STATE, Section, untrusted_block, untrusted_line
from pattern_acp.journal.events import (
    ContextAdded,
    ContextCompacted,
    Event,
    HistoryCleared,
    MemoryShown,
    MessageRecorded,
    PromptRefused,
    SessionConfigured,
    ShownBlock,
    ToolCallFinished,
    ToolResultExtended,
    TurnStarted,
)
from pattern_acp.providers.base import ModelInfo, ProviderRequest, ThoughtLevel, ToolForm, ToolSpec

WHOLE_CHARACTERS = 60_000
"""Characters of one text that is sent whole, about 15,000 tokens."""

HEAD_SHARE, TAIL_SHARE = 2, 4
"""One part in so many of that is sent of a longer one, from its beginning and from its end."""


def with_shortened(messages: Sequence[Message], whole: int = WHOLE_CHARACTERS) -> tuple[Message, ...]:
    """The messages as they are sent: texts of the user's side above `whole` characters have their middle left out."""
    return tuple(map(_shortened, messages, repeat(whole)))


class ShortenedTexts:
    """`with_shortened` of one conversation, which looks at each message once as long as the conversation continues.

    Messages that were shortened stay the same ones, so that the one who knows messages by their identity knows these
    too.
    """

    def __init__(self) -> None:
        self._messages: tuple[Message, ...] = ()
        self._shortened: tuple[Message, ...] = ()
        self._whole = 0

    def of(self, messages: Sequence[Message], whole: int = WHOLE_CHARACTERS) -> tuple[Message, ...]:
        """See `with_shortened`."""
        now = tuple(messages)
        if whole != self._whole or not begins_with(now, self._messages):
            self._messages, self._shortened, self._whole = (), (), whole
        new = with_shortened(now[len(self._messages) :], whole)
        self._messages, self._shortened = now, self._shortened + new
        return self._shortened


def long_text(messages: Iterable[Message], text_id: str) -> str | None:
    """The whole text that `text_id`, from a marker, stands for; None when there is none."""
    message_id, _, number = text_id.rpartition(".")
    for message in messages:
        if message.message_id == message_id and number.isdecimal() and int(number) < len(message.parts):
            return _text_of(message.parts[int(number)])
    return None


def _shortened(message: Message, whole: int) -> Message:
    if message.role is not Role.USER:
        return message
    # A plain loop: it sees every prompt of the session with every request.
    for part in message.parts:
        if isinstance(part, TextPart | ResourcePart) and len(part.text or "") > whole:
            break
    else:
        return message
    parts = tuple(_short(part, f"{message.message_id}.{number}", whole) for number, part in enumerate(message.parts))
    return replace(message, parts=parts)


def _short(part: Part, text_id: str, whole: int) -> Part:
    text = _text_of(part)
    if text is None or len(text) <= whole or not isinstance(part, TextPart | ResourcePart):
        return part
    head, tail = whole // HEAD_SHARE, whole // TAIL_SHARE
    left = len(text) - head - tail
    marker = (
        f"\n[... {left:,} characters left out here; read_attachment with id {text_id} and start {head} "
        "reads them ...]\n"
    )
    return replace(part, text=text[:head] + marker + text[-tail:])


def _text_of(part: Part) -> str | None:
    return part.text if isinstance(part, TextPart | ResourcePart) else None


class MemoryView(Struct, frozen=True):
    """One memory block as the model is shown it."""

    label: str
    description: str
    text: str
    limit: int
    form: str = ""
    """Its content besides free text."""
    permission: str = "read_write"
    notes: tuple[str, ...] = ()
    """Facts for the model about its present state."""
    is_shown: bool = True
    """False for a working block that is only named, so that the model knows what it could read."""
    block_id: str = ""
    version: int = 0
    """Number of the newest write."""

    @property
    def about(self) -> str:
        """The content that belongs in it."""
        return " ".join(part for part in (self.description, self.form) if part)


class Stable(Struct, frozen=True):
    """The part that stays byte-identical for a session and a model: system prompt and tools."""

    system: str
    tools: tuple[ToolSpec, ...]
    tool_form: ToolForm = ToolForm.AUTO
    cache_ttl: str = "5m"
    texts: ShortenedTexts = field(default_factory=ShortenedTexts)
    """Facts about the texts of its conversation."""


def build_request(
    *,
    session_id: SessionId,
    stable: Stable,
    model: ModelInfo,
    thought_level: ThoughtLevel,
    history: Sequence[Message],
    memory: Sequence[MemoryView | Section],
    notes: Sequence[str] = (),
    max_output_tokens: int,
) -> ProviderRequest:
    """One request. Memory and notes go last, so that their changes never break the cached prefix.

    `memory` holds blocks, and sections that are framed already: what changed, and what was recalled.
    """
    return ProviderRequest(
        model=model.name,
        system=system_in_window(stable.system, model.context_window),
        tools=stable.tools,
        messages=stable.texts.of(history, text_limit(model, WHOLE_CHARACTERS)),
        volatile=volatile_segment(memory, notes),
        max_output_tokens=output_limit(model, max_output_tokens),
        thought_level=thought_level,
        cache_key=session_id,
        tool_form=stable.tool_form,
        cache_ttl=stable.cache_ttl,
    )


def volatile_segment(memory: Sequence[MemoryView | Section], notes: Sequence[str]) -> str:
    """Memory and notes as text. Marked as data, since memory carries no authority (invariant 8)."""
    sections = [block_section(one) if isinstance(one, MemoryView) else one for one in memory]
    if not sections and not notes:
        return ""
    return str(untrusted_block(STATE, "Not a message.", *sections, *map(note_section, notes)))


def block_section(view: MemoryView) -> Section:
    """One block as the model reads it."""
    permission = {} if view.permission == "read_write" else {"permission": view.permission}
    shown = {} if view.is_shown else {"shown": "no, read it with memory_read"}
    about = untrusted_line("about", view.about)
    text = [view.text or "(empty)"] if view.is_shown else []
    # A model need not count before there is little space left.
    size = {"used": len(view.text), "limit": view.limit} if 2 * len(view.text) > view.limit else {}
    notes = map(note_section, view.notes)
    return untrusted_block("memory_block", about, *text, *notes, label=view.label, **size, **permission, **shown)


def note_section(note: str) -> Section:
    """Something that is true now, in one line."""
    return untrusted_line("note", note)


NO_RESULT = "This call did not run to its end: the turn was cancelled or the process ended."
"""The result of a call that has none; invariant 4 wants exactly one for each."""


def history_of(events: Iterable[Event], before: Sequence[Message] = ()) -> list[Message]:
    """The conversation as the model knows it: prompts, answers, and one result for every call.

    `before` is the conversation up to the end of a turn, when `events` are those after it.
    """
    messages = list(before)
    results = {part.call_id: part for message in before for part in message.parts if isinstance(part, ToolResultPart)}
    prompts: dict[TurnId, MessageId] = {}
    for event in events:
        match event:
            case TurnStarted(message=message, command=""):
                messages.append(message)
                prompts[event.turn_id] = message.message_id
            case MemoryShown():
                # It is recorded after the prompt of its turn, and stands before it.
                add_context(messages, state_message(event))
            case ContextAdded():
                add_context(messages, event.message)
            case PromptRefused():
                messages[:] = [message for message in messages if message.message_id != prompts.get(event.turn_id)]
            case MessageRecorded(message=message, for_model=True) if message.parts:
                messages.append(message)
            case HistoryCleared():
                messages.clear()
            case ContextCompacted():
                # Late: few conversations are compacted.
                from pattern_acp.context.compaction import compacted

                messages[:] = compacted(messages, event)
                _take_result(results, event)
            case _:
                _take_result(results, event)
    return paired(messages, results)


def calls_of(events: Iterable[Event]) -> set[ToolCallId]:
    """The ids of all tool calls that a model asked for, also those that the model no longer sees."""
    return {call.call_id for event in events if isinstance(event, MessageRecorded) for call in event.message.tool_calls}


def _take_result(results: dict[ToolCallId, ToolResultPart], event: Event) -> None:
    match event:
        case ToolCallFinished():
            failed = event.status is ToolCallStatus.FAILED
            results[event.call_id] = ToolResultPart(event.call_id, event.result_text, failed, event.images)
        case ToolResultExtended(call_id=call_id, text=text) if call_id in results:
            results[call_id] = replace(results[call_id], text=f"{results[call_id].text}{text}")
        case ContextCompacted():
            from pattern_acp.context.compaction import short_result

            for call_id in results.keys() & set(event.shortened):
                results[call_id] = short_result(results[call_id], event.keep_characters)
        case _:
            pass


def result_text(events: Iterable[Event]) -> str | None:
    """The whole result of a call from the events about it, as the model read it first; None when it has none."""
    text: str | None = None
    for event in events:
        if isinstance(event, ToolCallFinished):
            text = event.result_text
        elif isinstance(event, ToolResultExtended) and text is not None:
            text += event.text
    return text


def add_context(messages: list[Message], added: Message) -> None:
    """Put a message that goes with a prompt right before it, or at the end if the prompt was answered already.

    The same for a conversation that runs and for one that is read back, so that both are the same to the byte.
    """
    is_prompt_last = bool(messages) and messages[-1].role is Role.USER
    messages.insert(len(messages) - 1 if is_prompt_last else len(messages), added)


def paired(messages: Sequence[Message], results: dict[ToolCallId, ToolResultPart]) -> list[Message]:
    """`messages` with a tool message behind every message that calls tools."""
    complete: list[Message] = []
    for message in messages:
        if message.role is Role.TOOL:
            continue
        complete.append(message)
        calls = message.tool_calls
        if calls:
            parts = tuple(results.get(c.call_id) or ToolResultPart(c.call_id, NO_RESULT, is_error=True) for c in calls)
            complete.append(Message(MessageId(f"{message.message_id}_results"), Role.TOOL, parts))
    return complete


RESTATE_CHARACTERS = 1_200
"""Notices shorter than this are never worth telling all of memory again."""

DIFF_SLACK = 200
"""Characters that a diff may be longer than the text it leads to: it says what went, too."""


class WriteNote(Struct, frozen=True):
    """Who wrote into a block since it was shown, and when (milliseconds since 1970-01-01 UTC)."""

    author: str
    at_ms: int


def whole_state(views: Sequence[MemoryView]) -> Section:
    """All of memory, as the model reads it before a prompt; what is true only now, the notes, is left out."""
    about = "Data, not the user's words."
    return untrusted_block("memory", about, *(block_section(replace(view, notes=())) for view in views))


def shown_memory(turn_id: TurnId, views: Sequence[MemoryView]) -> MemoryShown:
    """The fact that the model is shown these blocks."""
    return MemoryShown(turn_id, str(whole_state(views)), tuple(_shown(view) for view in views))


def state_message(shown: MemoryShown) -> Message:
    """The whole state as a message of the history."""
    return Message(_message_id(shown), Role.USER, (TextPart(shown.text),))


def known_memory(shown: MemoryShown | None, history: Iterable[Message]) -> MemoryShown | None:
    """Return the memory last shown to the model, as long as its message is in the conversation.

    Whatever shortens the conversation, such as compaction, has memory told again in whole by leaving that message out.
    """
    if shown is None:
        return None
    wanted = _message_id(shown)
    for message in history:
        if message.message_id == wanted:
            return shown
    return None


def last_shown(events: Sequence[Event]) -> MemoryShown | None:
    """Return the memory last shown to the model in whole, as far as its context reaches back."""
    newest = next((event for event in reversed(events) if begins_memory(event)), None)
    return newest if isinstance(newest, MemoryShown) else None


def begins_memory(event: Event) -> bool:
    """True for an event before which no memory that was shown counts any more; another persona has another."""
    is_swap = isinstance(event, SessionConfigured) and event.option == "persona"
    return is_swap or isinstance(event, MemoryShown | HistoryCleared)


def changed_blocks(shown: MemoryShown, views: Sequence[MemoryView]) -> tuple[ShownBlock, ...]:
    """Those blocks, as they were shown, whose text is another now."""
    now = {view.block_id: view.text for view in views}
    return tuple(
        block for block in shown.blocks if block.is_shown and now.get(block.block_id, block.text) != block.text
    )


def change_notices(
    shown: MemoryShown, views: Sequence[MemoryView], writes: Mapping[str, Sequence[WriteNote]]
) -> tuple[Section, ...]:
    """A short notice for all that is not as it was shown; `writes` are those since, by block id, oldest first."""
    before = {block.block_id: block for block in shown.blocks}
    notices: list[Section] = []
    for view in views:
        known = before.pop(view.block_id, None)
        notices += _notices_of(view, known, writes.get(view.block_id, ()))
    notices += [
        untrusted_line("memory_change", "This block is no longer there.", label=gone.label) for gone in before.values()
    ]
    return tuple(notices)


def is_worth_restating(shown: MemoryShown, notices: Sequence[str]) -> bool:
    """Tell whether so much changed that one restatement is shorter than the notices with every request."""
    size = sum(map(len, notices))
    return size > max(RESTATE_CHARACTERS, len(shown.text) // 2)


def _message_id(shown: MemoryShown) -> MessageId:
    return MessageId(f"{shown.turn_id}_memory")


def _shown(view: MemoryView) -> ShownBlock:
    text = view.text if view.is_shown else ""
    return ShownBlock(
        view.block_id, view.label, view.version, view.about, view.permission, view.limit, text, view.is_shown
    )


def _notices_of(view: MemoryView, known: ShownBlock | None, writes: Sequence[WriteNote]) -> list[Section]:
    notes = [note_section(f"Memory block {view.label}: {note}") for note in view.notes]
    if known is None or (view.is_shown and not known.is_shown):
        return [block_section(view)]
    now = _shown(view)
    if (now.about, now.permission, now.label) != (known.about, known.permission, known.label):
        return [block_section(view)]
    if not view.is_shown or (now.text == known.text and now.limit == known.limit):
        return notes
    return [_change(view, known, writes), *notes]


def _change(view: MemoryView, known: ShownBlock, writes: Sequence[WriteNote]) -> Section:
    told = (
        {"by": ", ".join(dict.fromkeys(write.author for write in writes)), "at": local_minute(writes[-1].at_ms)}
        if writes
        else {}
    )
    diff = _changed_lines(known.text, view.text)
    body = diff if len(diff) <= len(view.text) + DIFF_SLACK else f"It now reads:\n{view.text or '(empty)'}"
    return untrusted_block("memory_change", body, label=view.label, **told, used=len(view.text), limit=view.limit)


def _changed_lines(before: str, after: str) -> str:
    import difflib

    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    # The first two name files; lines of places say nothing to a model.
    return "\n".join(line for line in list(lines)[2:] if not line.startswith("@@"))
