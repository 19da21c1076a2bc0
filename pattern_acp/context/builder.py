"""A provider request, put together in three segments: stable, history, volatile.

Owns: shortening texts of a prompt that are too long to be sent whole. Must not know: sessions.
"""

from collections.abc import Iterable, Sequence
from itertools import repeat

from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.context.instructions import system_in_window
from pattern_acp.context.window import output_limit, text_limit
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.messages import Message, Part, ResourcePart, Role, TextPart, begins_with
from pattern_acp.domain.untrusted_blocks import STATE, Section, untrusted_block, untrusted_line
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
    return str(untrusted_block(STATE, "The present state, not a message.", *sections, *map(note_section, notes)))


def block_section(view: MemoryView) -> Section:
    """One block as the model reads it."""
    permission = {} if view.permission == "read_write" else {"permission": view.permission}
    shown = {} if view.is_shown else {"shown": "no, read it with memory_read"}
    about = untrusted_line("about", view.about)
    text = [view.text or "(empty)"] if view.is_shown else []
    size = {"used": len(view.text), "limit": view.limit}
    notes = map(note_section, view.notes)
    return untrusted_block("memory_block", about, *text, *notes, label=view.label, **size, **permission, **shown)


def note_section(note: str) -> Section:
    """Something that is true now, in one line."""
    return untrusted_line("note", note)
