"""The model's window: how much of it a request may fill, and when the conversation is compacted.

Owns: the numbers, and which tools a small window has room for. Must not know: how room is made. Pure.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.config.settings import CompactionSettings
from pattern_acp.context.estimate import stable_weight, tool_weight, weight_per_token
from pattern_acp.domain.errors import PatternError
from pattern_acp.providers.base import ModelInfo, ProviderRequest, ThoughtLevel, ToolSpec
from pattern_acp.providers.catalogue import USUAL_ANSWER_TOKENS, answer_beside, reserve_of

NEAR = 0.15
"""How near to a limit an estimate has to be for the provider to be asked for its count (issue 6, section 4)."""

ANSWER_SHARE = 4
"""One part in so many of a window is kept for the answer at most: small models state outputs as large as themselves."""

STABLE_SHARE = 2
"""One part in so many of what a request may fill is there for system prompt and tools, before tools are left out."""

FIRST_TOOLS = ("read_file", "edit_file", "apply_patch", "run_command", "write_file", "search_text", "list_directory")
"""What a small window keeps before all others, in this order."""


class ContextFullError(PatternError):
    """The request does not fit into the model's window whatever is left out."""

    failure_code = "context.full"


class WindowLimits(Struct, frozen=True):
    """Tokens of one model's window."""

    window: int
    """All of it."""
    usable: int
    """What a request may fill, so that the answer has room."""
    trigger: int
    """Where compaction begins."""
    target: int
    """What compaction leaves: well below the trigger, or it would begin anew with every step."""

    def is_near(self, tokens: int) -> bool:
        """Whether an estimate is so near to the trigger, or to the end, that an exact count decides."""
        return any(abs(tokens - limit) <= limit * NEAR for limit in (self.trigger, self.usable))


def output_limit(model: ModelInfo, wanted: int) -> int:
    """Tokens that an answer may have."""
    return max(min(wanted, model.max_output_tokens, model.context_window // ANSWER_SHARE), 1)


def _kept_for_answer(model: ModelInfo, wanted: int) -> int:
    return min(output_limit(model, wanted), USUAL_ANSWER_TOKENS)


def with_answer_in_window(request: ProviderRequest, model: ModelInfo, tokens: int) -> ProviderRequest:
    """A request of about so many tokens whose answer, with what is reasoned before it, fits beside it."""
    most = answer_beside(model, request.max_output_tokens, request.thought_level, tokens)
    return request if most == request.max_output_tokens else replace(request, max_output_tokens=most)


def limits_of(
    model: ModelInfo,
    settings: CompactionSettings,
    max_output_tokens: int,
    refused: int | None = None,
    thought_level: ThoughtLevel = ThoughtLevel.DEFAULT,
) -> WindowLimits:
    """The limits for requests to a model, whose answers may have so many tokens, beside what it reasons at its level.

    Of a long answer only the usual part is kept free: where less is left than it may have, it may have less.

    `refused` are the tokens, by our estimate, of a request that its provider called too long.
    """
    usable = model.context_window - reserve_of(model, _kept_for_answer(model, max_output_tokens), thought_level)
    if refused is not None:
        usable = min(usable, refused * 9 // 10)
    trigger = usable * settings.threshold_percent // 100
    target = min(usable * settings.target_percent // 100, trigger * 9 // 10)
    return WindowLimits(model.context_window, usable, trigger, target)


def text_limit(model: ModelInfo, wanted: int) -> int:
    """Characters that one text may have: in a small window fewer than `wanted`, about a quarter of it."""
    return max(min(wanted, model.context_window), 500)


def tools_with_room(tools: Sequence[ToolSpec], system: str, model: ModelInfo, max_output_tokens: int) -> frozenset[str]:
    """The names of the tools that the window has room for beside a conversation; in most windows all."""
    usable = model.context_window - _kept_for_answer(model, max_output_tokens)
    room = usable // STABLE_SHARE * weight_per_token(model.name) - stable_weight(system, ())
    if stable_weight("", tools) <= room:
        return frozenset(tool.name for tool in tools)
    order = {name: place for place, name in enumerate(FIRST_TOOLS)}
    kept: set[str] = set()
    for tool in sorted(tools, key=lambda tool: order.get(tool.name, len(order))):
        room -= tool_weight(tool)
        if room < 0:
            break
        kept.add(tool.name)
    return frozenset(kept)


def does_not_fit(model: ModelInfo, limits: WindowLimits, tokens: int, fixed: int) -> ContextFullError:
    """The error for a request that stays too long; `fixed` are the tokens of system prompt and tools."""
    if fixed >= limits.usable:
        return ContextFullError(
            f"System prompt and tools alone have about {fixed:,} tokens, and a request to {model.qualified} may have "
            f"{limits.usable:,} of its {limits.window:,}; choose a model with a larger window (/model)."
        )
    return ContextFullError(
        f"This request has about {tokens:,} tokens even with all left out that can be, and {model.qualified} takes "
        f"{limits.usable:,} beside its answer; send a shorter prompt, end pins (/pin off), or choose a model with "
        "a larger window (/model)."
    )
