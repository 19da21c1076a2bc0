import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import ModelSettings, ProviderSettings, Secret, Settings
from pattern_acp.domain.clock import MessageId
from pattern_acp.domain.errors import ConfigError
from pattern_acp.domain.messages import ImagePart, Message, Role, TextPart
from pattern_acp.providers.base import (
    ModelProperty,
    ProviderEvent,
    ProviderNotice,
    ProviderRequest,
    ProviderStop,
    Stopped,
    TextDelta,
)
from pattern_acp.providers.catalogue import ListedModel, Source, describe
from pattern_acp.providers.http import HttpClient
from pattern_acp.providers.http_errors import ModelMismatchError, ProviderAuthError, ProviderRequestError
from pattern_acp.providers.known_models import FILE_NAME, FRESH_MS, ModelLists
from pattern_acp.providers.rate_limiter import RateLimiters
from pattern_acp.providers.registry import Providers, build_wire
from pattern_acp.providers.retry import RetryPolicy
from pattern_acp.providers.scripted import ScriptStep
from pattern_acp.providers.streaming import WireProvider
from tests.support.constellation import FakeClock
from tests.support.conversations import request, user
from tests.support.fault_server import http_answer, serve_faults
from tests.support.model_server import serve_models
from tests.support.wires import stream_of

ANTHROPIC = ProviderSettings("anthropic", "anthropic", "https://api.anthropic.com", api_key_env="ANTHROPIC_API_KEY")
KEYED = ProviderSettings(
    "anthropic", "anthropic", "https://api.anthropic.com", Secret("k", "$ANTHROPIC_API_KEY"), configured=True
)
NOWHERE = ProviderSettings("mine", "openai", "http://127.0.0.1:1/v1", configured=True)


def settings(*providers: ProviderSettings, model: str = "") -> Settings:
    return Settings(model=model, providers={provider.name: provider for provider in providers})


def mine(url: str, *models: str) -> ProviderSettings:
    return ProviderSettings("mine", "openai", f"{url}/v1", models=models, configured=True)


def test_importing_and_resolving_need_no_httpx():
    code = (
        "import sys; from pattern_acp.providers.registry import Providers; from pattern_acp.config.settings import *;"
        "made = Providers(Settings(providers={'x': ProviderSettings('x', 'openai', 'http://127.0.0.1:1/v1')}));"
        "made.available(); made.choice();"
        "assert not {'httpx', 'ssl', 'pattern_acp.providers.openai'} & sys.modules.keys();"
        "made.resolve('x/y');"
        "assert not {'httpx', 'ssl', 'pattern_acp.providers.anthropic', 'pydantic'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr


def test_offline_is_always_there():
    provider, info = Providers(settings()).resolve("offline/offline")
    assert provider.name == "offline"
    assert [model.qualified for model in Providers(settings()).available()] == ["offline/offline"]
    assert info.qualified == "offline/offline"


def test_an_unknown_provider_is_refused_with_the_known_ones():
    with pytest.raises(ProviderRequestError, match=r"There is no provider 'x' .*anthropic.*ollama"):
        Providers(settings(ANTHROPIC)).resolve("x/y")


@pytest.mark.parametrize("qualified", ["anthropic", "anthropic/"])
def test_a_provider_without_a_model_is_refused(qualified: str):
    with pytest.raises(ProviderRequestError, match="names no model"):
        Providers(settings(ANTHROPIC)).resolve(qualified)


def test_a_model_name_may_hold_slashes():
    provider, info = Providers(settings(NOWHERE)).resolve("mine/vendor/model:free")
    assert (provider.name, info.name) == ("mine", "vendor/model:free")


def test_what_is_set_up_is_offered_and_nothing_else():
    names = [model.qualified for model in Providers(settings(KEYED, mine("http://x", "a", "b"))).available()]
    assert names[0] == "anthropic/claude-sonnet-5-5"
    assert names[-3:] == ["mine/a", "mine/b", "offline/offline"]
    assert [model.provider for model in Providers(settings(ANTHROPIC)).available()] == ["offline"]


async def test_a_missing_key_is_named_without_asking_anyone():
    provider, info = Providers(settings(ANTHROPIC)).resolve("anthropic/claude-sonnet-5-5")
    with pytest.raises(ProviderAuthError, match="set ANTHROPIC_API_KEY"):
        async with provider.stream(request(user("a"), model=info.name)) as events:
            await anext(events)


def test_a_key_that_goes_out_unencrypted_is_warned_of_and_nothing_is_where_there_is_none():
    open_server = ProviderSettings("lab", "openai", "http://models.example.com/v1", configured=True)
    keyed = replace(open_server, api_key=Secret("k-1234", "$LAB_KEY"))
    assert "http://" in Providers(settings(keyed)).key_warning("lab/m")
    assert "http://" in Providers(settings(replace(open_server, headers={"x-key": "k"}))).key_warning("lab/m")
    for without in (open_server, KEYED):
        assert Providers(settings(without)).key_warning(f"{without.name}/m") == ""
    assert Providers(settings(keyed)).key_warning("nobody/m") == ""


async def test_a_scripted_provider_plays_its_file_on(tmp_path: Path):
    script = tmp_path / "script.json"
    script.write_text('[[{"text":"one"}],[{"text":"two"}]]')
    providers = Providers(settings(ProviderSettings("scripted", "scripted", configured=True, script=str(script))))
    assert providers.choice().qualified == "scripted/scripted"
    for word in ("one", "two"):
        async with providers.resolve("scripted/scripted")[0].stream(request()) as events:
            assert [event async for event in events] == [TextDelta(word), Stopped(ProviderStop.END)]


def test_a_scripted_provider_without_a_usable_script_is_refused(tmp_path: Path):
    with pytest.raises(ProviderRequestError, match="PATTERN_ACP_SCRIPT"):
        Providers(settings(ProviderSettings("scripted", "scripted"))).resolve("scripted/scripted")
    missing = ProviderSettings("scripted", "scripted", script=str(tmp_path / "gone"))
    with pytest.raises(ConfigError):
        Providers(settings(missing)).resolve("scripted/scripted")


async def test_a_list_is_fetched_once_a_day_and_kept_in_a_file(tmp_path: Path):
    clock = FakeClock()
    with anyio.fail_after(30):
        async with serve_models([], models=("a", "text-embedding-3")) as server:
            first = Providers(settings(mine(server.url)), tmp_path, clock)
            await first.refresh()
            await first.aclose()
            assert [model.qualified for model in first.available()] == ["mine/a", "offline/offline"]
            server.models = ("b",)
            second = Providers(settings(mine(server.url)), tmp_path, clock)
            await second.refresh()
            assert second.available()[0].name == "a"
            clock.advance(FRESH_MS)
            await second.refresh()
            await second.aclose()
            assert second.available()[0].name == "b"


async def test_the_list_of_the_model_in_use_is_learned_where_none_was_ever_seen(tmp_path: Path):
    clock = FakeClock()
    with anyio.fail_after(30):
        async with serve_models([], models=("a",)) as server:
            providers = Providers(settings(mine(server.url)), tmp_path, clock)
            await providers.refresh("another/model")
            assert [model.name for model in providers.available()] == ["offline"]
            await providers.refresh("mine/a")
            assert providers.available()[0].name == "a"
            server.models = ("b",)
            clock.advance(FRESH_MS)
            await providers.refresh("mine/a")
            await providers.aclose()
            assert providers.available()[0].name == "a"


async def test_a_list_that_would_tell_no_window_takes_no_time_from_the_first_turn():
    with anyio.fail_after(30):
        async with serve_models([], models=("a",)) as server:
            own = {"mine/a": ModelSettings(context_window=9_000)}
            providers = Providers(replace(settings(mine(server.url)), models=own))
            await providers.refresh("mine/a")
            await providers.learn("mine/a")
            assert server.lists == 0
            await providers.refresh()
            await providers.aclose()
            assert server.lists == 1


async def test_a_model_that_nobody_knows_is_learned_of_its_providers_list_before_the_first_request():
    with anyio.fail_after(30):
        async with serve_models([], models=("m",), window=4_096) as server:
            for named in ((), ("m",)):
                providers = Providers(settings(mine(server.url, *named)))
                assert providers.resolve("mine/m")[1].context_window > 4_096
                async with anyio.create_task_group() as tasks:
                    for _ in range(3):
                        tasks.start_soon(providers.learn, "mine/m")
                await providers.learn("nobody/m")
                await providers.aclose()
                assert providers.resolve("mine/m")[1].context_window == 4_096
            assert server.lists == 2


async def test_a_list_that_cannot_be_had_is_waited_for_once():
    with anyio.fail_after(30):
        async with serve_models([], window=4_096) as server:
            address = server.url
        providers = Providers(settings(mine(address)))
        await providers.learn("mine/m")
        async with serve_models([], port=server.port) as again:
            await providers.learn("mine/m")
            assert again.lists == 0
        await providers.aclose()


async def test_an_unreachable_provider_keeps_its_old_list(tmp_path: Path):
    with anyio.fail_after(30):
        lists = ModelLists(tmp_path, FakeClock(0))
        lists.put(NOWHERE, (ListedModel("old"),))
        lists.save()
        providers = Providers(settings(NOWHERE), tmp_path)
        await providers.refresh()
        await providers.aclose()
    assert providers.available()[0].qualified == "mine/old"


async def test_choosing_asks_for_a_list_when_nothing_is_known():
    with anyio.fail_after(30):
        async with serve_models([], models=("a",)) as server:
            providers = Providers(settings(mine(server.url)))
            assert providers.choice().provider == "offline"
            choice = await providers.choose()
            await providers.aclose()
    assert choice.qualified == "mine/a"


async def test_choosing_finds_a_local_server():
    with anyio.fail_after(30):
        async with serve_models([], models=("qwen3:8b",)) as server:
            ollama = ProviderSettings("ollama", "openai", f"{server.url}/v1")
            others = [
                ProviderSettings(name, "openai", "http://127.0.0.1:1/v1") for name in ("lmstudio", "llama-server")
            ]
            providers = Providers(settings(ollama, *others))
            choice = await providers.choose()
            while choice.provider == "offline":
                # The 0.3 s that it may take are over sooner than a busy machine answers.
                choice = await providers.choose()
            await providers.aclose()
    assert choice.qualified == "ollama/qwen3:8b"
    assert providers.available()[0].qualified == "ollama/qwen3:8b"


@pytest.mark.parametrize("model", ["mine/x", "offline"])
async def test_choosing_asks_nobody_when_the_person_named_a_model(model: str):
    with anyio.fail_after(30):
        async with serve_models([], models=("a",)) as server:
            providers = Providers(settings(mine(server.url), model=model))
            assert (await providers.choose()).qualified == (model if "/" in model else "offline/offline")
            await providers.aclose()
    assert server.lists == 0


@pytest.mark.parametrize("content", ["", "{", "[]", '{"lists":{"mine":1}}'])
def test_a_broken_cache_counts_as_empty(tmp_path: Path, content: str):
    (tmp_path / FILE_NAME).write_text(content)
    assert ModelLists(tmp_path, FakeClock()).models(NOWHERE) == ()


def test_a_list_belongs_to_its_address(tmp_path: Path):
    lists = ModelLists(tmp_path, FakeClock())
    lists.put(NOWHERE, (ListedModel("a"),))
    assert lists.models(mine("http://elsewhere")) == ()


def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path: Path):
    (tmp_path / "file").write_text("")
    lists = ModelLists(tmp_path / "file" / "below", FakeClock())
    lists.put(NOWHERE, (ListedModel("a"),))
    lists.save()
    assert lists.models(NOWHERE) == (ListedModel("a"),)


def test_warming_builds_the_client():
    Providers(settings(ANTHROPIC)).warm("anthropic/any")


def test_a_missing_key_is_told_before_anything_is_sent():
    providers = Providers(settings(ANTHROPIC, NOWHERE))
    assert "ANTHROPIC_API_KEY" in providers.missing_key("anthropic/x")
    assert not providers.missing_key("mine/x")
    assert not providers.missing_key("offline/offline")
    assert not Providers(settings(KEYED)).missing_key("anthropic/x")


async def test_a_model_of_another_vendor_is_refused_before_anything_is_sent():
    async def no_http() -> HttpClient:
        raise AssertionError("the network was asked")

    official = ProviderSettings("openai", "openai", "https://api.openai.com/v1", Secret("k-123456"), configured=True)
    wire = build_wire(official, lambda model: describe("openai", model, is_openai=True))
    provider = WireProvider(official, wire, no_http, RetryPolicy(), RateLimiters(FakeClock()), needs_key=True)
    with pytest.raises(ModelMismatchError, match=r"name anthropic/claude-opus-5-5"):
        async with provider.stream(request(user("Hi"), model="claude-opus-5-5")) as events:
            await anext(aiter(events))


SIGHT = Message(MessageId("m"), Role.USER, (TextPart("Look."), ImagePart("image/png", "aGk=")))


async def asked_about_an_image(providers: Providers, model: str = "mine/unknown") -> list[ProviderEvent]:
    return await asked(providers, (SIGHT,), model)


async def asked(
    providers: Providers, messages: tuple[Message, ...], model: str = "mine/unknown"
) -> list[ProviderEvent]:
    provider, info = providers.resolve(model)
    async with provider.stream(ProviderRequest(info.name, "", (), messages)) as events:
        return [event async for event in events]


def sent_image(body: bytes) -> bool:
    return b"aGk=" in body


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
        (404, "No endpoints found that support image input"),
        (400, "unknown model does not support image input."),
        (400, "Input content is of a kind that nobody foresaw."),
    ],
)
async def test_a_model_that_nobody_knows_is_sent_images_until_it_refuses_them(
    tmp_path: Path, status: int, sentence: str
):
    refusal = json.dumps({"error": {"message": sentence}}).encode()
    answer = http_answer(stream_of("openai", [ScriptStep(text="I read.")]))
    async with serve_faults() as server:
        means = settings(mine(server.url))
        server.then = [(answer,)]
        server.pieces = (http_answer(refusal, status=status, content_type="application/json"),)
        first = Providers(means, tmp_path)
        events = await asked_about_an_image(first)
        told = "mine/unknown takes no images; it reads a description instead."
        assert [event for event in events if isinstance(event, ProviderNotice)] == [ProviderNotice(told)]
        assert TextDelta("I read.") in events
        await first.aclose()
        # Kept for the next process, too.
        later = Providers(means, tmp_path)
        assert TextDelta("I read.") in await asked_about_an_image(later)
        await later.aclose()
        assert [sent_image(body) for _, body in server.requests] == [True, False, False]
        assert later.resolve("mine/unknown")[1].sources[ModelProperty.IMAGES] == Source.ANSWER


async def test_an_image_that_comes_late_in_a_conversation_is_sent_on_trial_as_well(tmp_path: Path):
    words = Message(MessageId("w"), Role.USER, (TextPart("Hi."),))
    refusal = json.dumps({"error": {"message": "No image input."}}).encode()
    answer = http_answer(stream_of("openai", [ScriptStep(text="I read.")]))
    async with serve_faults() as server:
        server.pieces = (answer,)
        server.then = [(http_answer(refusal, status=400, content_type="application/json"),), (answer,)]
        providers = Providers(settings(mine(server.url)), tmp_path)
        await asked(providers, (words,))
        events = await asked(providers, (words, SIGHT))
        await providers.aclose()
        assert [sent_image(body) for _, body in server.requests] == [False, True, False]
        assert TextDelta("I read.") in events


async def test_a_request_that_is_refused_without_images_as_well_was_not_refused_for_them(tmp_path: Path):
    async with serve_faults() as server:
        means = settings(mine(server.url))
        refusal = b'{"error":{"message":"No such model."}}'
        server.pieces = (http_answer(refusal, status=400, content_type="application/json"),)
        providers = Providers(means, tmp_path)
        for _ in range(2):
            with pytest.raises(ProviderRequestError, match="No such model"):
                await asked_about_an_image(providers)
        await providers.aclose()
        assert [sent_image(body) for _, body in server.requests] == [True, False] * 2
