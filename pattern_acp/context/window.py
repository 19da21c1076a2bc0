"""The model's window: how many tokens a request has, how many it may have, and when the conversation is compacted.

Owns: the estimate of tokens before anybody counted them, the limits, which tools a small window has space for, and what
broke the prefix that a provider serves from its cache. Must not know: how a conversation is compacted, or where a wire
puts its cache marks (each encoder does). Pure.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.config.settings import CompactionSettings
from pattern_acp.context.instructions import SMALL_WINDOW, system_in_window
from pattern_acp.domain.canonical import canonical_json
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.messages import (
    ImagePart,
    Message,
    Part,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    begins_with,
)
from pattern_acp.domain.usage import Usage
from pattern_acp.providers.base import ModelInfo, ProviderRequest, ThoughtLevel, ToolForm, ToolSpec
from pattern_acp.providers.catalogue import USUAL_ANSWER_TOKENS, answer_beside, reserve_of

WEIGHT_PER_TOKEN: tuple[tuple[str, float], ...] = ((r"claude", 4.3), (r"gpt|o\d|codex", 5.0))
"""Weight a token by family, fitted to six tokenizers over prose, code, JSON and output (benchmarks.md)."""

OTHER_WEIGHT_PER_TOKEN = 4.7

MARK_WEIGHT = 3
"""The weight of a digit or a punctuation mark, where any other byte of UTF-8 weighs one: numbers and marks are cut into
tokens of a character or two, words are not. Without this JSON counted half of what it is."""

USUAL_WEIGHT = 1.25
"""The weight of a byte, in the usual mix of conversations."""

_LIGHT = bytes(byte for byte in range(256) if byte >= 128 or chr(byte).isalpha() or chr(byte).isspace())

MESSAGE_TOKENS = 4
"""Tokens of every message and part for its marks."""

IMAGE_TOKENS = 1_600
"""Tokens of an image of unknown size; vendors scale larger ones down to about this."""

PIXELS_PER_TOKEN = 750
"""Anthropic's rule for images; that of others is of the same order."""

LEARNING = 0.4
"""Share that a new count has in what is known."""

LEAST_RATIO, MOST_RATIO = 0.4, 3.0
"""No tokenizer is further from the estimate; a count beyond that is of something else."""

LEAST_TOKENS = 200
"""Requests smaller than this teach nothing: what a vendor adds outweighs them."""


_MOST_TOOLS = 1_000
"""Tools whose size is remembered; more than several sessions have."""

_tools: dict[int, tuple[ToolSpec, int]] = {}

_all_tools: list[tuple[tuple[ToolSpec, ...], int]] = []
"""Those of the requests that were looked at last and their weight together: each request of a turn has the same."""

_MOST_REQUESTS = 4
"""Stored there: a session and its subagents take turns."""


@cache
def weight_per_token(model: str) -> float:
    """The weight (`text_weight`) that a token of this model has on average."""
    name = model.rsplit("/", 1)[-1].lower()
    return next((weight for pattern, weight in WEIGHT_PER_TOKEN if re.match(pattern, name)), OTHER_WEIGHT_PER_TOKEN)


def text_weight(text: str) -> int:
    """The bytes of a text in UTF-8, digits and marks more than once."""
    data = text.encode("utf-8", "surrogatepass")
    # Deleting runs through the bytes at the speed of memory: every request looks at what is new of its conversation.
    return len(data) + (MARK_WEIGHT - 1) * len(data.translate(None, _LIGHT))


def request_tokens(request: ProviderRequest, known: "MessageTokens | None" = None) -> int:
    """Tokens of a whole request as it is composed: system prompt, tools, messages, state.

    `known` is what is known of the messages of its session, which saves looking at a long conversation again.
    """
    per_token = weight_per_token(request.model)
    fixed = stable_weight(request.system, request.tools) + text_weight(request.volatile)
    messages = known.of(request.messages, request.model) if known else messages_tokens(request.messages, request.model)
    return round(fixed / per_token) + messages


def stable_weight(system: str, tools: Iterable[ToolSpec]) -> int:
    """Weight of the system prompt and the tools."""
    return text_weight(system) + _weight_together(tuple(tools))


def _weight_together(tools: tuple[ToolSpec, ...]) -> int:
    for known, weight in _all_tools:
        # Goes through them by identity first, so it takes no time where they are the same.
        if known == tools:
            return weight
    weight = sum(tool_weight(tool) for tool in tools)
    _all_tools[:] = [(tools, weight), *_all_tools[: _MOST_REQUESTS - 1]]
    return weight


def tool_weight(tool: ToolSpec) -> int:
    """Weight of one tool as the model reads it."""
    found = _tools.get(id(tool))
    if found is None:
        if len(_tools) >= _MOST_TOOLS:
            _tools.clear()
        schema = canonical_json(tool.input_schema).decode()
        size = text_weight(tool.name) + text_weight(tool.description) + text_weight(schema)
        # Stored with its size, so that no other one can get its identity.
        found = _tools[id(tool)] = (tool, size)
    return found[1]


def messages_tokens(messages: Iterable[Message], model: str) -> int:
    """Tokens of messages alone."""
    per_token = weight_per_token(model)
    return sum(_message_tokens(message, per_token) for message in messages)


def _message_tokens(message: Message, per_token: float) -> int:
    tokens = MESSAGE_TOKENS
    for part in message.parts:
        tokens += _part_tokens(part, per_token)
    return tokens


def _part_tokens(part: Part, per_token: float) -> int:
    match part:
        case ImagePart():
            return _image_tokens(part)
        case TextPart(text):
            size = text_weight(text)
        case ThinkingPart():
            size = text_weight(part.text) + len(part.signature) // 2 + len(part.redacted) // 2
        case ResourcePart():
            size = (
                text_weight(part.text or "")
                + text_weight(part.uri)
                + text_weight(part.name)
                + text_weight(part.note)
                + 40
            )
        case ToolCallPart():
            size = text_weight(part.arguments) + len(part.name) + len(part.call_id)
        case ToolResultPart():
            images = sum(_image_tokens(image) for image in part.images)
            return MESSAGE_TOKENS + images + round((text_weight(part.text) + len(part.call_id)) / per_token)
    return MESSAGE_TOKENS + round(size / per_token)


def _image_tokens(image: ImagePart) -> int:
    if not image.width or not image.height:
        return IMAGE_TOKENS
    return min(max(image.width * image.height // PIXELS_PER_TOKEN, 80), IMAGE_TOKENS)


class MessageTokens:
    """Tokens of the messages of one session, each looked at once as long as the conversation holds it.

    Messages never change, so one that was seen is known by its identity.
    """

    def __init__(self) -> None:
        self._messages: Sequence[Message] = ()
        self._tokens: list[int] = []
        self._per_token = 0.0
        self._total = 0

    def of(self, messages: Sequence[Message], model: str) -> int:
        """Tokens of messages alone, as `messages_tokens` has them."""
        per_token = weight_per_token(model)
        before: dict[int, int] = {}
        if per_token != self._per_token:
            self._tokens, self._total = [], 0
        elif not begins_with(messages, self._messages):
            # Only those that are still there: what left the conversation does not stay for its sake.
            before = {id(message): tokens for message, tokens in zip(self._messages, self._tokens, strict=True)}
            self._tokens, self._total = [], 0
        for message in messages[len(self._tokens) :]:
            tokens = before.get(id(message)) or _message_tokens(message, per_token)
            self._tokens.append(tokens)
            self._total += tokens
        self._messages, self._per_token = tuple(messages), per_token
        return self._total


class Calibration(Struct):
    """Calibration of the estimate by the counts that came back with answers, a model each."""

    ratios: dict[str, float] = field(default_factory=dict[str, float])

    def tokens(self, model: str, estimate: int) -> int:
        """The estimate as experience corrects it."""
        return round(estimate * self.ratios.get(model, 1.0))

    def learn(self, model: str, estimate: int, counted: int) -> None:
        """Take in that a request estimated at so many tokens was counted to have `counted`."""
        if estimate < LEAST_TOKENS or counted <= 0:
            return
        ratio = min(max(counted / estimate, LEAST_RATIO), MOST_RATIO)
        known = self.ratios.get(model)
        self.ratios[model] = ratio if known is None else known + LEARNING * (ratio - known)

    def known(self) -> Mapping[str, float]:
        """The factor of each model that answered."""
        return dict(self.ratios)


def prompt_tokens(usage: Usage) -> int:
    """Return the provider's count of the request itself."""
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens


NEAR = 0.15
"""The distance to a limit at which the provider is asked for its count (issue 6, section 4)."""

ANSWER_SHARE = 4
"""One part in so many of a window is reserved for an answer at most: small models claim ones as large as themselves."""

STABLE_SHARE = 2
"""One part in so many of what a request may fill is there for system prompt and tools, before tools are left out."""

FURTHER_SHARE = 3
"""The same in a small window for tools beyond the first ones, so that most of it is there for work."""

FIRST_TOOLS = ("read_file", "edit_file", "apply_patch", "run_command", "write_file", "search_text", "list_directory")
"""The tools that a small window offers before all others, in this order."""


class ContextFullError(PatternError):
    """The request does not fit into the model's window whatever is left out."""

    failure_code = "context.full"


class WindowLimits(Struct, frozen=True):
    """Tokens of one model's window."""

    window: int
    """All of it."""
    usable: int
    """The most tokens of a request, so that the answer fits."""
    trigger: int
    """The tokens at which compaction begins."""
    target: int
    """The tokens that compaction leaves: well below the trigger, or it would begin again with every step."""

    def is_near(self, tokens: int) -> bool:
        """Tell whether an estimate is so near to the trigger, or to the end, that an exact count decides."""
        near_end = abs(tokens - self.usable) <= self.usable * NEAR
        return near_end or abs(tokens - self.trigger) <= self.trigger * NEAR


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
    thought_level: ThoughtLevel = ThoughtLevel.AUTO,
) -> WindowLimits:
    """The limits for requests to a model, whose answers may have so many tokens, beside what it reasons at its level.

    Of a long answer only the usual part is reserved: where less is left than it may have, it may have less.

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
    """The names of the tools that fit into the window beside a conversation; in most windows all."""
    usable = model.context_window - _kept_for_answer(model, max_output_tokens)
    most = usable * weight_per_token(model.name)
    further_share = FURTHER_SHARE if model.context_window <= SMALL_WINDOW else STABLE_SHARE
    weight = text_weight(system_in_window(system, model.context_window))
    if weight + stable_weight("", tools) <= most / further_share:
        return frozenset(tool.name for tool in tools)
    order = {name: place for place, name in enumerate(FIRST_TOOLS)}
    chosen: set[str] = set()
    for tool in sorted(tools, key=lambda tool: order.get(tool.name, len(order))):
        weight += tool_weight(tool)
        if weight > most / (STABLE_SHARE if tool.name in order else further_share):
            break
        chosen.add(tool.name)
    return frozenset(chosen)


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


class BreakDetector(Struct):
    """Watches the requests of one session."""

    requests: int = 0
    """Those that were seen."""
    breaks: int = 0
    """Those that did not begin with the one before."""
    last: str = ""
    """The change at the newest break, in words."""
    since: int = 0
    """Requests behind it."""
    _before: ProviderRequest | None = None
    _expected: str = field(default="")

    def expect(self, reason: str) -> None:
        """Say why the history of the next request will not continue from the one before."""
        self._expected = reason

    def saw(self, request: ProviderRequest, *, calls_tools: bool = True) -> str:
        """Take in a request that is sent; what changed at its beginning, or nothing.

        `calls_tools` says of its model whether it has native calls, so what a form of tools left to it comes to.
        """
        before, self._before = self._before, request
        reason, self._expected = self._expected, ""
        self.requests += 1
        changed = changes(before, request, calls_tools=calls_tools) if before is not None else ()
        if not changed:
            self.since += 1
            return ""
        named = ", ".join(f"history ({reason})" if part == "history" and reason else part for part in changed)
        self.breaks, self.last, self.since = self.breaks + 1, named, 0
        return named

    def summary(self) -> str:
        """For /status: how well the prefix holds; empty before there is anything to compare."""
        if self.requests < 2:
            return ""
        if not self.breaks:
            return f"every one of {self.requests:,} requests began with the one before"
        times = "once" if self.breaks == 1 else f"{self.breaks:,} times"
        ago = {0: "in the last one", 1: "one request ago"}.get(self.since, f"{self.since:,} requests ago")
        return f"broken {times} in {self.requests:,} requests, {ago}: {self.last}"


def changes(before: ProviderRequest, now: ProviderRequest, *, calls_tools: bool = True) -> tuple[str, ...]:
    """List the changed parts of the prefix: `model`, `tools`, `system`, `history`, in the order caches are built in."""
    changed: list[str] = []
    if now.model != before.model:
        changed.append("model")
    if now.tools != before.tools:
        changed.append(f"tools ({_tool_changes(before.tools, now.tools)})")
    elif now.tool_form is not before.tool_form and (
        (as_text := _as_text(now, calls_tools)) is not _as_text(before, calls_tools)
    ):
        changed.append("tools (now as text)" if as_text else "tools (now native)")
    if now.system != before.system:
        changed.append("system")
    if not _begins_with(now.messages, before.messages):
        changed.append("history")
    return tuple(changed)


def _as_text(request: ProviderRequest, calls_tools: bool) -> bool:  # noqa: FBT001 - what is known, not a switch
    return request.tool_form is ToolForm.TEXT or (request.tool_form is ToolForm.AUTO and not calls_tools)


def _begins_with(now: tuple[Message, ...], before: tuple[Message, ...]) -> bool:
    if begins_with(now, before):
        return True
    if len(now) < len(before):
        return False
    # Ids are ours: a conversation that is read back has others for results, and the same content.
    return all(
        one is other or (one.role, one.parts) == (other.role, other.parts)
        for one, other in zip(now, before, strict=False)
    )


def _tool_changes(before: tuple[ToolSpec, ...], now: tuple[ToolSpec, ...]) -> str:
    was, names = {tool.name for tool in before}, {tool.name for tool in now}
    parts = [f"+{name}" for name in sorted(names - was)] + [f"-{name}" for name in sorted(was - names)]
    if not parts:
        was_specs = {tool.name: tool for tool in before}
        parts = [tool.name for tool in now if was_specs[tool.name] != tool]
    return " ".join(parts[:6]) + (" ..." if len(parts) > 6 else "") if parts else "order"
