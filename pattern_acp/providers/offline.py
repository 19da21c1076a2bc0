"""The embedded default: no model and no network, yet real tool calls.

Owns: turning plain commands into calls, and results into words. It sees a `ProviderRequest` and nothing else, so a turn
with it goes through the same loop, policy and editor as a turn with a model. Must not know: the tools' code.

It keeps no state: each request is answered from the messages since the person's last one. The calls already made there
say which step is next.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import anyio.lowlevel
from msgspec import Struct

from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.messages import Message, ResourcePart, Role, TextPart, ToolResultPart
from pattern_acp.providers.base import (
    ProviderEvent,
    ProviderRequest,
    ProviderStop,
    Stopped,
    TextDelta,
    ToolCallBegun,
    ToolCallFragment,
)
from pattern_acp.providers.offline_answers import describe_result, describe_unavailable, has_been_told
from pattern_acp.providers.offline_steps import Call, Step, plan_steps

OFFLINE_MODEL = "offline"
"""The one model name of this provider."""


class _Turn(Struct, frozen=True):
    """The current turn as the messages tell it."""

    prompt_id: str
    steps: tuple[Step, ...]
    results: tuple[ToolResultPart | None, ...]
    """One for each call made so far, in order; None when no result is there."""
    told: bool
    """Whether an earlier turn told how to set up a model."""


class OfflineProvider:
    """`Provider` without a model."""

    @property
    def name(self) -> str:
        """See `Provider.name`."""
        return "offline"

    def stream(self, request: ProviderRequest) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """See `Provider.stream`; never raises."""
        return _streaming(answer(request))


@asynccontextmanager
async def _streaming(answered: tuple[ProviderEvent, ...]) -> AsyncGenerator[AsyncIterator[ProviderEvent], None]:
    async with aclosing(_events(answered)) as events:
        yield events


async def _events(answered: tuple[ProviderEvent, ...]) -> AsyncGenerator[ProviderEvent, None]:
    for event in answered:
        await anyio.lowlevel.checkpoint()
        yield event


def answer(request: ProviderRequest) -> tuple[ProviderEvent, ...]:
    """All events of the answer to `request`; a function of the request alone.

    Steps are taken one request at a time and in order, so that the person sees each result before the next call.
    Steps whose tool is not offered are reported and passed over.
    """
    turn = _read_turn(request.messages)
    offered = {tool.name for tool in request.tools}
    words: list[str] = []
    taken = 0
    for number, step in enumerate(turn.steps):
        calls = tuple(call for call in step.calls if call.tool in offered)
        if step.command is not None and not calls:
            words.append(describe_unavailable(step))
            continue
        if calls and taken >= len(turn.results):
            return (*_text(words), *_call_events(turn.prompt_id, number, calls))
        results = turn.results[taken : taken + len(calls)]
        taken += len(calls)
        # Whatever was said before this step's result went out with an earlier request.
        words = [describe_result(step, calls, results, told=turn.told)]
    return (*_text(words), Stopped(ProviderStop.END))


def _read_turn(messages: tuple[Message, ...]) -> _Turn:
    start = max((at for at, message in enumerate(messages) if message.role is Role.USER), default=-1)
    if start < 0:
        return _Turn("", plan_steps(""), (), told=False)
    prompt = messages[start]
    calls = [call for message in messages[start:] for call in message.tool_calls]
    results = {
        part.call_id: part for message in messages[start:] for part in message.parts if isinstance(part, ToolResultPart)
    }
    told = any(
        has_been_told(part.text) for message in messages[:start] for part in message.parts if isinstance(part, TextPart)
    )
    made = tuple(results.get(call.call_id) for call in calls)
    return _Turn(prompt.message_id, plan_steps(_words_of(prompt)), made, told)


def _words_of(prompt: Message) -> str:
    """What the user typed; a file that is mentioned in it gives its name only, since its content is data (invariant 8).

    A file that was attached, with no blank between it and the words in front of it, is no part of a command.
    """
    from pattern_acp.domain.typed_words import typed_parts

    words = ""
    for part in typed_parts(prompt.parts):
        if isinstance(part, TextPart):
            words += part.text
        elif isinstance(part, ResourcePart) and words[-1:].isspace():
            words += part.name
    return words


def _text(words: list[str]) -> tuple[ProviderEvent, ...]:
    return (TextDelta("\n\n".join(words)),) if words else ()


def _call_events(prompt_id: str, step: int, calls: tuple[Call, ...]) -> tuple[ProviderEvent, ...]:
    events: list[ProviderEvent] = []
    for index, call in enumerate(calls):
        # Derived from the prompt's id, so that it is unique in the session and the same on every replay.
        digest = sha256_hex(f"{prompt_id}/{step}/{index}".encode())[:24]
        events += (
            ToolCallBegun(index, f"offline_{digest}", call.tool),
            ToolCallFragment(index, json.dumps(call.arguments, ensure_ascii=False)),
        )
    return (*events, Stopped(ProviderStop.TOOL_CALLS))
