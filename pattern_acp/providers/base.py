"""The `Provider` port: a request in, a stream of events out."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.messages import Message
from pattern_acp.domain.usage import Cost, Usage


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it. `input_schema` is a JSON Schema object."""

    name: str
    description: str
    input_schema: JsonObject
    free_form: str = ""
    """The one argument of a tool that takes plain text: a wire that can, lets the model write it without JSON."""


class ThoughtLevel(StrEnum):
    """Amount of thinking to ask of a model that can think, from the least to the most."""

    AUTO = "auto"
    """As much as its vendor lets it on its own, and a medium amount if that is nothing."""
    OFF = "off"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    MAX = "max"

    @classmethod
    def _missing_(cls, value: object) -> "ThoughtLevel | None":
        # The name of AUTO in journals of earlier releases.
        return cls.AUTO if value == "default" else None


def nearest_level(wanted: ThoughtLevel, known: Sequence[ThoughtLevel]) -> ThoughtLevel:
    """The level at which a model that has the `known` ones works: the wanted one, or the nearest below, or its least.

    A model that has none is asked for nothing.
    """
    if wanted is ThoughtLevel.AUTO or not known:
        return ThoughtLevel.AUTO
    order = tuple(ThoughtLevel)
    below = [level for level in known if order.index(level) <= order.index(wanted)]
    return below[-1] if below else known[0]


class ToolForm(StrEnum):
    """Form in which a model gets and calls tools."""

    AUTO = "auto"
    """Natively where the model can, as text otherwise."""
    NATIVE = "native"
    TEXT = "text"
    """Actions that it writes as text (providers/text_tools.py)."""


class ProviderRequest(Struct, frozen=True):
    """One request, in three segments (architecture.md, the way of a prompt, step 5).

    `system` and `tools` are byte-stable for a session; `messages` only ever grows; `volatile` is current memory and
    other state, sent last so that its changes never break the cached prefix.
    """

    model: str
    """The provider's own name of the model, without the provider."""
    system: str
    tools: tuple[ToolSpec, ...]
    messages: tuple[Message, ...]
    volatile: str = ""
    max_output_tokens: int = 8192
    thought_level: ThoughtLevel = ThoughtLevel.AUTO
    cache_key: str = ""
    """Names the conversation, for wires that route caches by a key."""
    patience_ms: int = 300_000
    """Longest wait for a rate limit that is waited for; a longer one is an error at once."""
    tool_form: ToolForm = ToolForm.AUTO
    cache_ttl: str = "5m"
    """Time for which a provider caches the prefix, if it lets us choose: `5m` or `1h`."""


class TextDelta(Struct, frozen=True):
    """More text of the answer."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """More reasoning."""

    text: str


class ThinkingEnded(Struct, frozen=True):
    """The end of one reasoning block, with what must go back unchanged, in the form of `wire`."""

    signature: str = ""
    redacted: str = ""
    wire: str = ""


class ToolCallBegun(Struct, frozen=True):
    """A call starts; its arguments follow as fragments. `index` distinguishes parallel calls."""

    index: int
    call_id: str
    name: str


class ToolCallFragment(Struct, frozen=True):
    """More of a call's argument text."""

    index: int
    text: str


class ToolCallEnded(Struct, frozen=True):
    """The wire says that a call is complete. Not every wire does; a call followed by another one is complete too."""

    index: int


class MalformedToolCall(Struct, frozen=True):
    """An unreadable call, with the reason in `problem`: it does not run, and the reason is its result."""

    index: int
    problem: str


class UsageKnown(Struct, frozen=True):
    """Token counts of this request so far; the last one counts."""

    usage: Usage
    cost: Cost | None = None


class UsageMissing(Struct, frozen=True):
    """A complete answer without credible token counts: they have to be estimated."""


WINDOW_FULL = "The conversation filled the model's context window."
"""Detail of an answer for which the window, and not the limit of answers, was too small."""


class ProviderStop(StrEnum):
    """Reason why the model stopped."""

    END = "end"
    TOOL_CALLS = "tool_calls"
    MAX_TOKENS = "max_tokens"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    INTERRUPTED = "interrupted"
    """The stream was cut after content had come; that content stays and is marked."""


class Stopped(Struct, frozen=True):
    """The last event of every stream. `detail` is an optional sentence."""

    reason: ProviderStop
    detail: str = ""
    is_final: bool = False
    """True if an answer that was interrupted would be again: its provider refused to continue."""
    attempts: int | None = None
    """Most interruptions in a row for this reason; None for as many as the settings allow."""


class Retrying(Struct, frozen=True):
    """The request failed before any content and is tried again after `delay_ms`."""

    attempt: int
    delay_ms: int
    sentence: str


class RateLimitWait(Struct, frozen=True):
    """The request waits for a rate limit before it is sent."""

    delay_ms: int
    sentence: str


class ModelSwitched(Struct, frozen=True):
    """Another model answers this request. `sentence` says why; empty if the user already knows."""

    qualified: str
    """`PROVIDER/MODEL` that answers from here on."""
    sentence: str = ""
    info: "ModelInfo | None" = None
    """Facts about it, its prices above all; None where a recorded answer is read again."""


class ProviderNotice(Struct, frozen=True):
    """A sentence for the user: something learned about the model or the provider on the way."""

    sentence: str


ProviderEvent: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | ThinkingEnded
    | ToolCallBegun
    | ToolCallFragment
    | ToolCallEnded
    | MalformedToolCall
    | UsageKnown
    | UsageMissing
    | Retrying
    | RateLimitWait
    | ModelSwitched
    | ProviderNotice
    | Stopped
)


class ModelProperty(StrEnum):
    """Property of a model that is known or assumed (providers/catalogue.py)."""

    WINDOW = "context window"
    OUTPUT = "longest answer"
    TOOLS = "tool calls"
    IMAGES = "images"
    THINKING = "thinking"
    PRICES = "prices"


class ModelInfo(Struct, frozen=True):
    """Facts about one model.

    `context_window` in tokens; prices in micro-units a million tokens, 0 when unknown. Some models cost more when the
    prompt is longer than `long_prompt_tokens` (0: they do not); the percentages are relative to the plain price.
    """

    provider: str
    name: str
    context_window: int = 128_000
    max_output_tokens: int = 8192
    sees_images: bool = False
    thought_levels: tuple[ThoughtLevel, ...] = ()
    """Levels that can be asked for, beside its vendor's default; empty if it does not think."""
    auto_level: ThoughtLevel = ThoughtLevel.AUTO
    """The level to ask for where the user leaves it to us: `medium` if it does not think unasked."""
    input_price: int = 0
    output_price: int = 0
    cache_read_price: int = 0
    cache_write_price: int = 0
    calls_tools: bool = True
    writes_patches: bool = False
    """True if it was trained on the tools of Codex: update_plan, and the patch format of apply_patch."""
    long_prompt_tokens: int = 0
    long_input_percent: int = 100
    long_output_percent: int = 100
    prices: str = ""
    """The price table that the prices are from; empty when none are known."""
    is_free: bool = False
    """True if it is known to cost nothing: it runs on this machine."""
    sources: Mapping[ModelProperty, str] = field(default_factory=dict[ModelProperty, str])
    """Source of each property; missing ones are assumed."""

    @property
    def qualified(self) -> str:
        """`PROVIDER/MODEL`, as `--model` takes it."""
        return f"{self.provider}/{self.name}"


class Route(Struct, frozen=True):
    """The way to a provider: its wire, the cloud that hosts it, and its address; empty where it is not used."""

    name: str
    wire: str
    host: str
    base_url: str


class Provider(Protocol):
    """Streams one model request."""

    @property
    def name(self) -> str:
        """The provider's name in configuration and in `PROVIDER/MODEL`."""
        ...

    def stream(self, request: ProviderRequest) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """Open the request; iterate its events; leaving the context cuts the connection.

        Iterating raises:
            ProviderError: a branch of it (providers/http_errors.py) when nothing usable came.
        """
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """A provider that can count the tokens of a request before it is sent."""

    async def count_tokens(self, request: ProviderRequest) -> int | None:
        """The tokens of `request` as this provider counts them; None when it counts none for this model or wire.

        Raises:
            ProviderError: it could not be asked.
        """
        ...
