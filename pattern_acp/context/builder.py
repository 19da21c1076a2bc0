"""Puts a provider request together, in three segments: stable, history, volatile."""

from collections.abc import Sequence

from msgspec import Struct, field

from pattern_acp.context.long_texts import WHOLE_CHARACTERS, ShortenedTexts
from pattern_acp.context.window import output_limit, text_limit
from pattern_acp.domain.ids import SessionId
from pattern_acp.domain.messages import Message
from pattern_acp.domain.untrusted_blocks import STATE, Section, framed_line, untrusted_block
from pattern_acp.providers.base import ModelInfo, ProviderRequest, ThoughtLevel, ToolForm, ToolSpec


class MemoryView(Struct, frozen=True):
    """One memory block as the model is shown it."""

    label: str
    description: str
    text: str
    limit: int
    form: str = ""
    """What it holds besides free text."""
    permission: str = "read_write"
    notes: tuple[str, ...] = ()
    """What the model should know of it now."""
    is_shown: bool = True
    """False for a working block that is only named, so that the model knows what it could read."""
    block_id: str = ""
    version: int = 0
    """Number of the newest write."""

    @property
    def about(self) -> str:
        """What belongs into it."""
        return " ".join(part for part in (self.description, self.form) if part)


class Stable(Struct, frozen=True):
    """What stays byte-identical for a session: system prompt and tools."""

    system: str
    tools: tuple[ToolSpec, ...]
    tool_form: ToolForm = ToolForm.AUTO
    cache_ttl: str = "5m"
    texts: ShortenedTexts = field(default_factory=ShortenedTexts)
    """What is known of the texts of its conversation."""


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
        system=stable.system,
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
    about = "This is the present state of things, refreshed with every request; it is not a message."
    return str(untrusted_block(STATE, about, *sections, *map(note_section, notes)))


def block_section(view: MemoryView) -> Section:
    """One block as the model reads it."""
    permission = {} if view.permission == "read_write" else {"permission": view.permission}
    shown = {} if view.is_shown else {"shown": "no, read it with memory_read"}
    about = framed_line("about", view.about)
    text = [view.text or "(empty)"] if view.is_shown else []
    size = {"used": len(view.text), "limit": view.limit}
    notes = map(note_section, view.notes)
    return untrusted_block("memory_block", about, *text, *notes, label=view.label, **size, **permission, **shown)


def note_section(note: str) -> Section:
    """Something that is true now, in one line."""
    return framed_line("note", note)
