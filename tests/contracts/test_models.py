"""What every `Models` does. A new implementation adds its factory to `MODELS`."""

from collections.abc import Callable

import pytest

from pattern_acp.config.settings import ProviderSettings, Settings
from pattern_acp.domain.errors import ProviderError
from pattern_acp.providers.registry import Providers
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.constellation import Models
from tests.support.models import FakeModels

Factory = Callable[[], Models]
"""A factory's models are of at least two providers, of which `mine` is one and `nobody` is none."""


def fake() -> Models:
    return FakeModels({"mine": ScriptedProvider([]), "other": ScriptedProvider([], name="other")})


def registry() -> Models:
    nowhere = "http://127.0.0.1:1/v1"
    mine = ProviderSettings("mine", "openai", nowhere, models=("one", "two"), configured=True)
    return Providers(Settings(providers={"mine": mine}))


MODELS: dict[str, Factory] = {"fake": fake, "registry": registry}


@pytest.fixture(params=list(MODELS))
def models(request: pytest.FixtureRequest) -> Models:
    return MODELS[request.param]()


def test_what_is_available_can_be_resolved_to_itself(models: Models):
    available = models.available()
    assert len({model.provider for model in available}) >= 2
    for model in available:
        _, info = models.resolve(model.qualified)
        assert info == model


def test_names_are_listed_once_and_can_be_written_as_an_option(models: Models):
    names = [model.qualified for model in models.available()]
    assert len(set(names)) == len(names)
    assert all(name.count("/") >= 1 and not name.startswith("/") and not name.endswith("/") for name in names)


def test_windows_and_limits_are_usable_numbers(models: Models):
    for model in models.available():
        assert 0 < model.max_output_tokens <= model.context_window


def test_a_provider_is_built_once(models: Models):
    name = models.available()[0].qualified
    assert models.resolve(name)[0] is models.resolve(name)[0]


@pytest.mark.parametrize("qualified", ["nobody/model", "nobody", "", "/"])
def test_a_provider_that_is_not_there_is_named_in_a_sentence(models: Models, qualified: str):
    with pytest.raises(ProviderError) as caught:
        models.resolve(qualified)
    assert repr(qualified.partition("/")[0]) in caught.value.sentence
    assert caught.value.sentence.endswith(".")


def test_no_key_is_missing_where_none_is_needed(models: Models):
    for model in models.available():
        assert models.missing_key(model.qualified) == ""


def test_a_provider_that_is_not_there_misses_no_key(models: Models):
    assert models.missing_key("nobody/model") == ""
