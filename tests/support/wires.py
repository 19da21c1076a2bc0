"""What every wire must do, told the same way for all of them.

Owns: a request's body and a recorded stream for each wire, so that one suite of tests judges them all. Must not know:
sockets.
"""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings, Wire
from pattern_acp.providers.base import ProviderEvent, ProviderRequest
from pattern_acp.providers.catalogue import describe
from pattern_acp.providers.event_streams import SseParser
from pattern_acp.providers.registry import build_wire
from pattern_acp.providers.scripted import Pause, ScriptStep
from pattern_acp.providers.streaming import Decoder, feed_all
from pattern_acp.providers.streaming import ProviderWire as WireFormat
from tests.support.model_streams import CallIds, anthropic_frames, openai_frames
from tests.support.newer_model_streams import gemini_frames, responses_frames

WIRES: tuple[Wire, ...] = ("anthropic", "openai", "responses", "gemini")

MODELS: dict[Wire, str] = {
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-4.1",
    "responses": "gpt-6.1-terra",
    "gemini": "gemini-3-pro-preview",
}
"""A model of each wire's vendor that sees images; all but that of Chat Completions reason."""


def wire_of(wire: Wire, provider: str = "mine", *, is_openai: bool = True) -> WireFormat:
    """A wire as it is built for a provider, whose models are described as the vendor's own unless `is_openai` is no."""
    settings = ProviderSettings(provider, wire, "http://127.0.0.1:1")
    return build_wire(settings, partial(describe, provider, is_openai=is_openai and wire == "responses"))


def body_for(wire: Wire, request: ProviderRequest, provider: str = "mine", model: str = "") -> bytes:
    """The body in which a wire sends `request` to `model`, or to its vendor's usual one."""
    return wire_of(wire, provider).encode(replace(request, model=model or MODELS[wire])).body


def stream_of(wire: Wire, steps: Sequence[ScriptStep], chunk: int = 0, plain: Sequence[str] = ()) -> bytes:
    """A whole answer as the vendor streams it. Calls of the tools in `plain` are written as text where it can."""
    match wire:
        case "anthropic":
            frames = anthropic_frames(steps, "m", CallIds(), chunk)
        case "responses":
            frames = responses_frames(steps, "m", CallIds(), chunk, plain)
        case "gemini":
            frames = gemini_frames(steps, "m", CallIds(), chunk)
        case _:
            frames = openai_frames(steps, "m", CallIds(), chunk)
    return b"".join(frame for frame in frames if not isinstance(frame, Pause))


def decoder_for(wire: Wire, request: ProviderRequest) -> Decoder:
    """A decoder for the answer to `request` of the wire's usual model."""
    return wire_of(wire).new_decoder(replace(request, model=MODELS[wire]))


def read(decoder: Decoder, stream: bytes, size: int = 0) -> list[ProviderEvent]:
    """The events of a stream that comes in pieces of `size` bytes (0: at once), without its end."""
    parser = SseParser()
    events: list[ProviderEvent] = []
    for start in range(0, len(stream), size or max(1, len(stream))):
        events += feed_all(decoder, parser.feed(stream[start : start + (size or len(stream))]))
    return [*events, *feed_all(decoder, parser.end())]
