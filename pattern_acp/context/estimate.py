"""How many tokens a request has, before anybody counted it.

Owns: the estimate, and what the counts of providers teach about it. Must not know: who sends the request. Pure but for
`Calibration`, which learns, and `MessageTokens`, which remembers.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from pattern_acp.domain.canonical import canonical_json
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.domain.messages import (
    ImagePart,
    Message,
    Part,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from pattern_acp.domain.usage import Usage
from pattern_acp.providers.base import ProviderRequest, ToolSpec

BYTES_PER_TOKEN: tuple[tuple[str, float], ...] = ((r"claude", 3.4), (r"gpt|o\d|codex", 4.2))
"""UTF-8 bytes a token by family, for the mix of prose and code that agents see (docs/context.md)."""

OTHER_BYTES_PER_TOKEN = 3.8

MESSAGE_TOKENS = 4
"""What every message and part costs for its marks."""

IMAGE_TOKENS = 1_600
"""Of an image of unknown size; vendors scale larger ones down to about this."""

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


def bytes_per_token(model: str) -> float:
    """The bytes that a token of this model has on average."""
    name = model.rsplit("/", 1)[-1].lower()
    return next((size for pattern, size in BYTES_PER_TOKEN if re.match(pattern, name)), OTHER_BYTES_PER_TOKEN)


def request_tokens(request: ProviderRequest, known: "MessageTokens | None" = None) -> int:
    """Tokens of a whole request as it is composed: system prompt, tools, messages, state.

    `known` is what is known of the messages of its session, which saves looking at a long conversation again.
    """
    per_token = bytes_per_token(request.model)
    fixed = stable_bytes(request.system, request.tools) + _size(request.volatile)
    messages = known.of(request.messages, request.model) if known else messages_tokens(request.messages, request.model)
    return round(fixed / per_token) + messages


def stable_bytes(system: str, tools: Iterable[ToolSpec]) -> int:
    """Bytes of the system prompt and the tools."""
    return _size(system) + sum(tool_bytes(tool) for tool in tools)


def tool_bytes(tool: ToolSpec) -> int:
    """Bytes of one tool as the model reads it."""
    found = _tools.get(id(tool))
    if found is None:
        if len(_tools) >= _MOST_TOOLS:
            _tools.clear()
        size = _size(tool.name) + _size(tool.description) + len(canonical_json(tool.input_schema))
        # Kept with its size, so that no other one can get its identity.
        found = _tools[id(tool)] = (tool, size)
    return found[1]


def messages_tokens(messages: Iterable[Message], model: str) -> int:
    """Tokens of messages alone."""
    per_token = bytes_per_token(model)
    return sum(_message_tokens(message, per_token) for message in messages)


def _message_tokens(message: Message, per_token: float) -> int:
    return MESSAGE_TOKENS + sum(_part_tokens(part, per_token) for part in message.parts)


def _part_tokens(part: Part, per_token: float) -> int:
    match part:
        case ImagePart():
            return _image_tokens(part)
        case TextPart(text):
            size = _size(text)
        case ThinkingPart():
            size = _size(part.text) + len(part.signature) // 2 + len(part.redacted) // 2
        case ResourcePart():
            size = _size(part.text or "") + _size(part.uri) + _size(part.name) + _size(part.note) + 40
        case ToolCallPart():
            size = _size(part.arguments) + len(part.name) + len(part.call_id)
        case ToolResultPart():
            images = sum(_image_tokens(image) for image in part.images)
            return MESSAGE_TOKENS + images + round((_size(part.text) + len(part.call_id)) / per_token)
    return MESSAGE_TOKENS + round(size / per_token)


def _image_tokens(image: ImagePart) -> int:
    if not image.width or not image.height:
        return IMAGE_TOKENS
    return min(max(image.width * image.height // PIXELS_PER_TOKEN, 80), IMAGE_TOKENS)


def _size(text: str) -> int:
    # Without encoding where it can be avoided: every request looks at the whole conversation.
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class MessageTokens:
    """Tokens of the messages of one session, each looked at once as long as the conversation holds it.

    Messages never change, so one that was seen is known by its identity.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Message, float, int]] = {}

    def of(self, messages: Sequence[Message], model: str) -> int:
        """Tokens of messages alone, as `messages_tokens` has them."""
        per_token = bytes_per_token(model)
        before = self._known
        # Only these: what left the conversation is not kept for its sake.
        self._known = {}
        total = 0
        for message in messages:
            found = before.get(id(message))
            if found is None or found[1] != per_token:
                found = (message, per_token, _message_tokens(message, per_token))
            self._known[id(message)] = found
            total += found[2]
        return total


@dataclass(slots=True)
class Calibration:
    """What the counts that came back with answers say about the estimate, a model each."""

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
    """What the provider counted of the request itself."""
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
