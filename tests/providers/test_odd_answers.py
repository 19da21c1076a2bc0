"""Odd answers of each wire over HTTP, in one piece and cut anywhere, each with the one outcome that it should have."""

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise

import anyio
import pytest

from pattern_acp.config.settings import Wire
from pattern_acp.domain.argument_repair import meant_name, read_object
from pattern_acp.domain.clock import MessageId
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.messages import ThinkingPart
from pattern_acp.providers.base import ProviderStop, Retrying, UsageKnown
from pattern_acp.providers.scripted import Pause
from pattern_acp.turn.stream_reader import MessageAssembly
from tests.providers.odd_answers import Odd, anthropic_messages, gemini_content, openai_chat, openai_responses
from tests.support.conversations import READ_FILE, RUN_COMMAND, request, user
from tests.support.fault_server import Piece, http_answer
from tests.support.faulty_provider import FaultyLine, faulty_line
from tests.support.wires import MODELS

CORPUS: Mapping[Wire, Mapping[str, Odd]] = {
    "openai": openai_chat.ODD,
    "anthropic": anthropic_messages.ODD,
    "responses": openai_responses.ODD,
    "gemini": gemini_content.ODD,
}
FEWEST = 60
TOOLS = (READ_FILE.name, RUN_COMMAND.name, "apply_patch")


async def outcome(line: FaultyLine, wire: Wire, pieces: Sequence[Piece]) -> Odd:
    """What a request comes to, in the form of an entry."""
    line.server.pieces = pieces
    assembly = MessageAssembly(MessageId("m"), "mine/m")
    failed = ""
    usage: tuple[int, int] | None = None
    try:
        async with line.provider.stream(request(user("Hi"), model=MODELS[wire])) as events:
            async for event in events:
                assembly.take(event)
                if isinstance(event, UsageKnown):
                    usage = (event.usage.input_tokens, event.usage.output_tokens)
                assert not isinstance(event, Retrying) or not assembly.parts
    except ProviderError as error:
        failed = type(error).__name__
    # As the loop of a turn takes them.
    message = assembly.message(with_calls=not failed and assembly.stop in {ProviderStop.END, ProviderStop.TOOL_CALLS})
    calls = tuple(
        (call.name if call.name in TOOLS else meant_name(call.name, TOOLS), read_object(call.arguments).value)
        for call in message.tool_calls
    )
    thought = "".join(part.text for part in message.parts if isinstance(part, ThinkingPart))
    stop = "" if failed else assembly.stop.value
    return Odd("", message.text, thought, calls, stop, failed, usage=usage)


def cut(answer: bytes, seed: str) -> list[Piece]:
    """The answer in pieces of random sizes, which the network brings one by one."""
    chance = random.Random(seed)
    places = sorted({0, len(answer), *(chance.randrange(len(answer) + 1) for _ in range(chance.randint(1, 8)))})
    pieces: list[Piece] = []
    for start, end in pairwise(places):
        pieces += [answer[start:end], Pause(1)]
    return pieces


def expected(odd: Odd) -> Odd:
    stop = "" if odd.failed else odd.stop
    return Odd("", odd.text, odd.thought, odd.calls, stop, odd.failed, usage=odd.usage)


@pytest.mark.parametrize("wire", CORPUS)
async def test_each_odd_answer_has_its_outcome_however_the_network_cuts_it(wire: Wire):
    wrong: dict[str, tuple[Odd, Odd]] = {}
    with anyio.fail_after(120):
        async with faulty_line(wire) as line:
            for name, odd in CORPUS[wire].items():
                answer = http_answer(
                    odd.body.encode("utf-8", "surrogatepass"), status=odd.status, content_type=odd.content_type
                )
                wanted = expected(odd)
                for pieces in ([answer], cut(answer, name)):
                    got = await outcome(line, wire, pieces)
                    if odd.usage is None:
                        got = Odd("", got.text, got.thought, got.calls, got.stop, got.failed)
                    if got != wanted:
                        wrong[f"{name}{' (cut)' if len(pieces) > 1 else ''}"] = (got, wanted)
    if wrong:
        pytest.fail("\n".join(f"{name}:\n  came {got}\n  not  {wanted}" for name, (got, wanted) in wrong.items()))


@pytest.mark.parametrize("wire", CORPUS)
def test_the_corpus_of_each_wire_is_large_enough(wire: Wire):
    assert len(CORPUS[wire]) >= FEWEST
