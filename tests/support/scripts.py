"""Short ways to write the turns of a `ScriptedProvider` in tests.

Owns: constructors only; a turn is a tuple of steps, so turns are joined with `+`.
"""

import json

import anyio

from pattern_acp.domain.canonical import Json
from pattern_acp.domain.usage import Usage
from pattern_acp.providers.base import (
    ProviderStop,
    Stopped,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ToolCallBegun,
    ToolCallFragment,
    UsageKnown,
)
from pattern_acp.providers.scripted import ScriptGate, ScriptStep, Step

Turn = tuple[Step | ScriptStep, ...]
"""The steps of one model request."""


def says(*texts: str) -> Turn:
    """Answer text, one delta for each argument."""
    return tuple(TextDelta(text) for text in texts)


def thinks(text: str, *, signature: str = "", redacted: str = "") -> Turn:
    """One reasoning block."""
    return (*((ThinkingDelta(text),) if text else ()), ThinkingEnded(signature, redacted))


def calls(tool: str, **arguments: Json) -> Turn:
    """One tool call; several in a turn are joined with `+` and get their indexes and ids when played."""
    return (ScriptStep(tool=tool, arguments=json.dumps(arguments)),)


def calls_raw(tool: str, argument_text: str, *, index: int = 0, call_id: str = "call_raw") -> Turn:
    """One tool call whose argument text is given as it is, to be sent in one fragment."""
    return (ToolCallBegun(index, call_id, tool), ToolCallFragment(index, argument_text))


def uses(input_tokens: int = 0, output_tokens: int = 0, *, cache_read: int = 0, cache_write: int = 0) -> Turn:
    """Token counts."""
    return (UsageKnown(Usage(input_tokens, output_tokens, cache_read, cache_write)),)


def stops(reason: ProviderStop, detail: str = "") -> Turn:
    """An explicit stop."""
    return (Stopped(reason, detail),)


def gate() -> ScriptGate:
    """A step that waits: put it into a turn, wait for `reached`, set `opened` to let the script go on."""
    return ScriptGate(anyio.Event(), anyio.Event())
