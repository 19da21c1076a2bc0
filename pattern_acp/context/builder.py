"""Puts a provider request together, in three segments: stable, history, volatile."""

from collections.abc import Sequence

from pattern_acp.domain.ids import SessionId
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.domain.messages import Message
from pattern_acp.providers.base import ModelInfo, ProviderRequest, ThoughtLevel, ToolSpec


@dataclass(frozen=True, slots=True)
class MemoryView:
    """One memory block as the model is shown it."""

    label: str
    description: str
    text: str
    limit: int


@dataclass(frozen=True, slots=True)
class Stable:
    """What stays byte-identical for a session: system prompt and tools."""

    system: str
    tools: tuple[ToolSpec, ...]


def build_request(
    *,
    session_id: SessionId,
    stable: Stable,
    model: ModelInfo,
    thought_level: ThoughtLevel,
    history: Sequence[Message],
    memory: Sequence[MemoryView],
    notes: Sequence[str] = (),
    max_output_tokens: int,
) -> ProviderRequest:
    """One request. Memory and notes go last, so that their changes never break the cached prefix."""
    return ProviderRequest(
        model=model.name,
        system=stable.system,
        tools=stable.tools if model.calls_tools else (),
        messages=tuple(history),
        volatile=volatile_segment(memory, notes),
        max_output_tokens=min(max_output_tokens, model.max_output_tokens),
        thought_level=thought_level,
        cache_key=session_id,
    )


def volatile_segment(memory: Sequence[MemoryView], notes: Sequence[str]) -> str:
    """Current memory blocks and notes as text. Marked as data, since memory carries no authority (invariant 8)."""
    sections = [_block(view) for view in memory]
    if not sections and not notes:
        return ""
    lines = [
        "<current_state>",
        "This is the present state of your memory, refreshed with every request; it is not a message.",
    ]
    lines += sections
    lines += [f"<note>{note}</note>" for note in notes]
    lines.append("</current_state>")
    return "\n".join(lines)


def _block(view: MemoryView) -> str:
    head = f'<memory_block label="{view.label}" used="{len(view.text)}" limit="{view.limit}">'
    return f"{head}\n<about>{view.description}</about>\n{view.text or '(empty)'}\n</memory_block>"
