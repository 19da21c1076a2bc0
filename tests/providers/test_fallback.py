from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings, Settings
from pattern_acp.domain.clock import MessageId, ToolCallId
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.messages import ImagePart, Message, Part, Role, ToolResultPart
from pattern_acp.providers.base import (
    ModelInfo,
    ModelSwitched,
    Provider,
    ProviderEvent,
    ProviderRequest,
    ProviderStop,
    Stopped,
    TextDelta,
    ThoughtLevel,
    TokenCounter,
)
from pattern_acp.providers.fallback import FallbackProvider
from pattern_acp.providers.http_errors import (
    ContentFilteredError,
    ContextTooLongError,
    EmptyAnswerError,
    NoModelLeftError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRequestError,
    ProviderStalledError,
    ProviderTooSlowError,
)
from pattern_acp.providers.registry import Providers
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.conversations import request, user
from tests.support.scripts import Turn, says
from tests.support.window_model import WindowModel

OUT = ProviderOverloadedError("main is out.")
END = Stopped(ProviderStop.END)


def size_of(asked: ProviderRequest) -> int:
    return sum(len(message.text) for message in asked.messages)


@dataclass(slots=True)
class Chain:
    """A chosen model with scripts of those that stand in for it, by name."""

    first: Sequence[Turn]
    others: dict[str, ScriptedProvider] = field(default_factory=dict[str, ScriptedProvider])
    main: ScriptedProvider = field(init=False)
    provider: FallbackProvider = field(init=False)

    def __post_init__(self) -> None:
        self.main = ScriptedProvider(self.first, name="main")
        self.provider = FallbackProvider(self.main, [f"{name}/m" for name in self.others], self.resolve, size_of, 1_000)

    def resolve(self, qualified: str) -> tuple[Provider, ModelInfo]:
        name = qualified.partition("/")[0]
        if name == "gone":
            raise ProviderRequestError("There is no gone.")
        return self.others[name], ModelInfo(name, "m", 1_000, max_output_tokens=100, sees_images=name != "blind")

    async def ask(self, asked: ProviderRequest | None = None) -> list[ProviderEvent]:
        async with self.provider.stream(asked or request(user("Hi"))) as events:
            # What is known of the other model is not what these tests are about.
            return [replace(one, info=None) if isinstance(one, ModelSwitched) else one async for one in events]


def scripted(*turns: Turn) -> ScriptedProvider:
    return ScriptedProvider(turns)


@pytest.mark.parametrize("error", [OUT, ProviderConnectionError("main is out."), ProviderStalledError("main is out.")])
async def test_when_the_chosen_model_is_out_the_next_one_answers_and_the_person_is_told(error: ProviderError):
    chain = Chain([(error,)], {"spare": scripted(says("Here."))})
    assert await chain.ask() == [
        ModelSwitched("spare/m", "main is out. spare/m continues this turn."),
        TextDelta("Here."),
        END,
    ]
    assert chain.provider.name == "main"


@pytest.mark.parametrize(
    "error",
    [
        ProviderAuthError("No."),
        ProviderRequestError("No."),
        ContentFilteredError("No."),
        ContextTooLongError("No."),
        ProviderProtocolError("No."),
        EmptyAnswerError("No."),
        ProviderTooSlowError("No."),
    ],
)
async def test_a_wrong_key_or_request_and_a_refusal_are_no_reason_to_ask_another_model(error: ProviderError):
    chain = Chain([(error,)], {"spare": scripted(says("Here."))})
    with pytest.raises(type(error)):
        await chain.ask()
    assert chain.others["spare"].requests == []


async def test_the_model_that_took_over_answers_the_rest_of_the_turn():
    chain = Chain([(OUT,), says("Back.")], {"spare": scripted(says("One."), says("Two."))})
    await chain.ask()
    assert await chain.ask() == [ModelSwitched("spare/m"), TextDelta("Two."), END]


async def test_once_content_has_come_nobody_takes_over():
    chain = Chain([(TextDelta("One"), OUT)], {"spare": scripted(says("Here."))})
    with pytest.raises(ProviderOverloadedError):
        await chain.ask()


async def test_one_that_cannot_take_over_is_passed_over_with_its_reason():
    others = {"gone": scripted(), "keyless": scripted((ProviderAuthError("No key."),)), "last": scripted(says("Here."))}
    chain = Chain([(OUT,)], others)
    switches = [event for event in await chain.ask() if isinstance(event, ModelSwitched)]
    assert [switch.qualified for switch in switches] == ["keyless/m", "last/m"]
    assert switches[0].sentence == "main is out. There is no gone. keyless/m continues this turn."
    assert switches[-1].sentence == "No key. last/m continues this turn."


@pytest.mark.parametrize(
    "image",
    [ImagePart("image/png", "eA=="), ToolResultPart(ToolCallId("c"), "", images=(ImagePart("image/png", "eA=="),))],
)
async def test_a_model_that_sees_no_images_is_passed_over_when_there_are_some(image: Part):
    others = {"blind": scripted(says("Never.")), "last": scripted(says("Here."))}
    seen = Message(MessageId("m"), Role.USER, (image,))
    (switch, *_) = await Chain([(OUT,)], others).ask(request(seen))
    assert isinstance(switch, ModelSwitched)
    assert switch.sentence == (
        "main is out. blind/m cannot continue: it sees no images, and there are some in this conversation. "
        "last/m continues this turn."
    )
    assert others["blind"].requests == []
    assert isinstance((await Chain([(OUT,)], others).ask())[0], ModelSwitched)
    assert len(others["blind"].requests) == 1


async def test_a_model_whose_window_is_too_small_is_passed_over():
    chain = Chain([(OUT,)], {"spare": scripted(says("Never."))})
    with pytest.raises(NoModelLeftError, match=r"window of 1,000 tokens is too small for this conversation of 950\.$"):
        await chain.ask(request(user("x" * 950)))


async def test_when_none_is_left_the_reason_of_each_is_told():
    chain = Chain([(OUT,)], {"spare": scripted((ContextTooLongError("Too long for spare."),))})
    with pytest.raises(NoModelLeftError, match=r"^main is out\. Too long for spare\.$"):
        await chain.ask()


async def test_a_request_is_cut_to_what_the_other_model_takes():
    chain = Chain([(OUT,)], {"spare": scripted(says("Here."))})
    asked = request(user("Hi"))
    await chain.ask(replace(asked, max_output_tokens=5_000, thought_level=ThoughtLevel.HIGH))
    (sent,) = chain.others["spare"].requests
    assert (sent.model, sent.max_output_tokens, sent.thought_level) == ("m", 100, ThoughtLevel.AUTO)
    assert sent.messages == asked.messages


async def test_a_long_answer_of_the_other_model_keeps_no_conversation_from_it_and_fits_beside_it():
    spare = ScriptedProvider([says("Here.")])
    wide = ModelInfo("spare", "m", 64_000, max_output_tokens=64_000)
    chain = FallbackProvider(ScriptedProvider([(OUT,)]), ["spare/m"], lambda _: (spare, wide), size_of, 1_000)
    asked = replace(request(user("x" * 40_000)), max_output_tokens=32_000)
    async with chain.stream(asked) as events:
        assert [event async for event in events][-1] == END
    assert spare.requests[0].max_output_tokens == 64_000 - 46_000


async def test_a_long_rate_limit_is_waited_for_only_by_the_last_model():
    chain = Chain([(OUT,)], {"spare": scripted(says("Here."))})
    await chain.ask()
    assert chain.main.requests[0].patience_ms == 1_000
    assert chain.others["spare"].requests[0].patience_ms == 300_000


async def test_tokens_are_counted_by_the_model_that_answers():
    asked = request(user("Hi"))
    assert await Chain([]).provider.count_tokens(asked) is None
    model = WindowModel(1_000, lambda _: says("Here."), counts=True)
    assert isinstance(model, TokenCounter)
    wrapped = FallbackProvider(model, [], Chain([]).resolve, size_of, 0)
    assert await wrapped.count_tokens(asked) == await model.count_tokens(asked)


def test_without_others_than_the_chosen_model_the_provider_is_itself():
    spare = ProviderSettings("spare", "openai", "http://127.0.0.1:1", configured=True)
    providers = Providers(Settings(fallback=("spare/m",), providers={"spare": spare}))
    provider, info = providers.resolve("spare/m")
    assert providers.with_fallback(provider, info, size_of) is provider
    offline, offline_info = providers.resolve("offline")
    assert isinstance(providers.with_fallback(offline, offline_info, size_of), FallbackProvider)
