"""Clouds in config.toml: region, project and address, and what is said of wrong ones."""

from pathlib import Path

import pytest

from pattern_acp.config.load import Loaded, load
from pattern_acp.config.settings import Flags
from pattern_acp.providers.choose import choose_model, usable_providers


def load_with(home: Path, user: str, **environ: str) -> Loaded:
    (home / "config.toml").write_text(user, encoding="utf-8")
    return load(Flags(), {"PATTERN_ACP_HOME": str(home), **environ}, project_dir=None)


@pytest.mark.parametrize(
    ("region", "address"),
    [
        ("global", "https://aiplatform.googleapis.com/v1"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com/v1"),
        ("europe-west1", "https://europe-west1-aiplatform.googleapis.com/v1"),
    ],
)
def test_a_region_of_google_says_where_it_is(tmp_path: Path, region: str, address: str):
    loaded = load_with(tmp_path, f'[providers.vertex]\nregion = "{region}"\nproject = "mine-1"\n')
    vertex = loaded.settings.providers["vertex"]
    assert (vertex.wire, vertex.host, vertex.base_url, vertex.project) == ("anthropic", "vertex", address, "mine-1")
    assert loaded.problems == ()


def test_an_empty_table_is_set_up_by_googles_own_variables_and_the_table_beats_them(tmp_path: Path):
    variables = {"GOOGLE_CLOUD_PROJECT": "from-env", "CLOUD_ML_REGION": "us-east5"}
    vertex = load_with(tmp_path, "[providers.vertex]\n", **variables).settings.providers["vertex"]
    assert (vertex.region, vertex.project) == ("us-east5", "from-env")
    table = '[providers.vertex]\nregion = "us"\nproject = "example.com:written"\n'
    vertex = load_with(tmp_path, table, **variables).settings.providers["vertex"]
    assert (vertex.region, vertex.project) == ("us", "example.com:written")


def test_without_a_table_googles_variables_set_nothing_up(tmp_path: Path):
    loaded = load_with(tmp_path, "", GOOGLE_CLOUD_PROJECT="other-things", CLOUD_ML_REGION="us-east5")
    assert "vertex" not in loaded.settings.providers


def test_a_cloud_needs_no_key_and_offers_the_models_by_their_vendors_names(tmp_path: Path):
    settings = load_with(tmp_path, "[providers.vertex]\n").settings
    assert [each.name for each in usable_providers(settings)] == ["vertex"]
    assert choose_model(settings, {}).qualified == "vertex/claude-sonnet-5-5"


def test_an_address_of_ones_own_stays(tmp_path: Path):
    loaded = load_with(tmp_path, '[providers.work]\nhost = "vertex"\nbase_url = "https://gate.example.com"\n')
    work = loaded.settings.providers["work"]
    assert (work.wire, work.base_url, work.region) == ("anthropic", "https://gate.example.com", "global")


@pytest.mark.parametrize(
    ("table", "environ", "said"),
    [
        ('host = "moon"', {}, "it must be one of vertex, bedrock"),
        ('host = "vertex"\nwire = "openai"', {}, "the wire can only be anthropic"),
        ('host = "vertex"', {"CLOUD_ML_REGION": "evil.example.com/x"}, "$CLOUD_ML_REGION holds no region"),
        ('host = "vertex"', {"GOOGLE_CLOUD_PROJECT": "a/b"}, "$GOOGLE_CLOUD_PROJECT holds no project"),
    ],
)
def test_a_wrong_place_leaves_the_provider_out_in_a_sentence(
    tmp_path: Path, table: str, environ: dict[str, str], said: str
):
    loaded = load_with(tmp_path, f"[providers.work]\n{table}\n", **environ)
    assert "work" not in loaded.settings.providers
    assert any(said in problem.sentence for problem in loaded.problems)


def test_a_wrong_region_in_the_table_is_said_and_the_usual_one_taken(tmp_path: Path):
    loaded = load_with(tmp_path, '[providers.vertex]\nregion = "Europe West"\n')
    assert loaded.settings.providers["vertex"].region == "global"
    assert "a region, such as europe-west1" in loaded.problems[0].sentence


def test_bedrock_is_in_the_region_of_the_table_or_of_amazons_variables_and_nowhere_without_one(tmp_path: Path):
    address = "https://bedrock-runtime.{}.amazonaws.com"
    table = load_with(tmp_path, '[providers.bedrock]\nregion = "eu-west-1"\n', AWS_REGION="us-east-1")
    assert table.settings.providers["bedrock"].base_url == address.format("eu-west-1")
    usual = load_with(tmp_path, "[providers.bedrock]\n", AWS_DEFAULT_REGION="us-east-1")
    assert usual.settings.providers["bedrock"].base_url == address.format("us-east-1")
    lost = load_with(tmp_path, "[providers.bedrock]\n", AWS_BEARER_TOKEN_BEDROCK="key-1")
    assert "bedrock" not in lost.settings.providers
    assert "it needs a region: set region in it, or $AWS_REGION" in lost.problems[0].sentence
