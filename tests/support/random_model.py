"""`RandomModel`: a provider that does what a model may do, by chance.

Owns: the steps of an answer: texts, thoughts, calls of what is offered and of what is not, odd ids and stops. Must not
know: tools, sessions.
"""

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from pattern_acp.domain.usage import Usage
from pattern_acp.providers.base import (
    MalformedToolCall,
    ProviderEvent,
    ProviderRequest,
    ProviderStop,
    Stopped,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ToolCallBegun,
    ToolCallFragment,
    UsageKnown,
    UsageMissing,
)
from pattern_acp.providers.scripted import ERRORS, ScriptedProvider, Step
from tests.support.odd_arguments import TEXTS, OddArguments

NOT_THERE: Final = (
    "", "no_such_tool", "Read_File", "functions.read_file", "read-file", "👍", "\0", "\ud800", "x" * 5000, "a b",
    "usual__nope",
)  # fmt: skip
"""Names of tools that a model makes up, some near enough to be understood."""

IDS: Final = ("", "same", "call_1", "x" * 3000, "👍", "\0", "\ud800", "a b", "../x")
"""Ids of calls that are odd, or come more than once."""

FAILURES: Final = ("connection", "stalled", "overloaded", "request", "protocol", "empty")


class RandomModel:
    """`Provider` that answers by chance, `most_requests` times after each `begin`, and then with a word.

    `leaves` says of a tool whether paths for it may lead out of the session's folder. `never` are tools that are not
    called, such as one that never ends.
    """

    def __init__(self, draw: random.Random, *, leaves: Callable[[str], bool], never: Sequence[str] = ()) -> None:
        self._draw = draw
        self._arguments = OddArguments(draw)
        self._leaves = leaves
        self._never = never
        self._left = 0
        self._calls = 0
        self.requests: list[ProviderRequest] = []
        """Every request so far."""

    @property
    def name(self) -> str:
        """See `Provider.name`."""
        return "scripted"

    def begin(self, most_requests: int) -> None:
        """A new prompt comes."""
        self._left = most_requests

    def stream(self, request: ProviderRequest) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """See `Provider.stream`."""
        self.requests.append(request)
        self._left -= 1
        turn = self._turn(request) if self._left >= 0 else [TextDelta("Done.")]
        return ScriptedProvider([turn]).stream(request)

    def _turn(self, request: ProviderRequest) -> list[Step]:
        draw = self._draw
        steps: list[Step] = []
        index = 0
        for _ in range(draw.choice((0, 1, 1, 2, 3))):
            steps += self._said()
            for _ in range(draw.choice((0, 1, 1, 2, 4, 8))):
                steps += self._call(request, index)
                index += 1
        return [*steps, *self._said(), *self._end()]

    def _end(self) -> list[Step]:
        draw = self._draw
        counts = [UsageKnown(Usage(*(draw.choice((0, 1, 500, 10**6)) for _ in range(5))))]
        match draw.randrange(12):
            case 0:
                return [ERRORS[draw.choice(FAILURES)]("The script says so.")]
            case 1:
                # What a stream's end tells when nothing before it did.
                return [UsageMissing()]
            case 2 | 3:
                return [*counts, Stopped(draw.choice(list(ProviderStop)), draw.choice(("", "x", "\ud800")))]
            case 4 | 5 | 6:
                return [*counts]
            case _:
                return []

    def _said(self) -> list[Step]:
        draw = self._draw
        text = draw.choice(TEXTS)
        match draw.randrange(8):
            case 0:
                return [TextDelta(text)]
            case 1:
                return [ThinkingDelta(text), ThinkingEnded(draw.choice(("", "sig")), draw.choice(("", "hidden")))]
            case 2:
                return [ThinkingEnded("sig")]
            case _:
                return []

    def _call(self, request: ProviderRequest, index: int) -> list[Step]:
        draw = self._draw
        tools = [tool for tool in request.tools if tool.name not in self._never]
        call_id = f"call_{self._calls}" if draw.random() < 0.9 else draw.choice(IDS)
        self._calls += 1
        if not tools or draw.random() < 0.04:
            return [ToolCallBegun(index, call_id, draw.choice(NOT_THERE)), ToolCallFragment(index, "{}")]
        tool = draw.choice(tools)
        text = self._arguments.text_for(tool.name, tool.input_schema, leaves=self._leaves(tool.name))
        half = draw.randrange(len(text) + 1)
        pieces = [ToolCallFragment(index, piece) for piece in (text[:half], text[half:])]
        unread = [MalformedToolCall(index, "It is in no form that can be read.")] if draw.random() < 0.01 else []
        return [ToolCallBegun(index, call_id, tool.name), *pieces, *unread]
