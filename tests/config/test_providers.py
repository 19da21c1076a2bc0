"""Built-in providers, their variables, and tables of named ones."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.config.load import Loaded, load
from pattern_acp.config.providers import BUILT_IN, normal_base_url, ollama_base_url, show_url
from pattern_acp.config.settings import Flags, ProviderSettings, Secret


def load_with(home: Path, user: str = "", **environ: str) -> Loaded:
    (home / "config.toml").write_text(user, encoding="utf-8")
    return load(Flags(), {"PATTERN_ACP_HOME": str(home), **environ}, project_dir=None)


def shown(loaded: Loaded, key: str) -> tuple[str, str]:
    return next((value.shown, value.source) for value in loaded.values if value.key == key)


def test_a_key_in_the_environment_sets_a_provider_up(tmp_path: Path):
    loaded = load_with(tmp_path, ANTHROPIC_API_KEY=" key-1 ", OPENAI_API_KEY="key-2")
    anthropic = loaded.settings.providers["anthropic"]
    assert anthropic.api_key == Secret("key-1", "$ANTHROPIC_API_KEY")
    assert anthropic.configured
    assert loaded.settings.providers["openai"].configured
    assert not loaded.settings.providers["ollama"].configured
    assert shown(loaded, "providers.anthropic.api_key") == ("••••", "$ANTHROPIC_API_KEY")


def test_a_base_url_in_the_environment_sets_a_provider_up_without_a_key(tmp_path: Path):
    loaded = load_with(
        tmp_path, OPENAI_BASE_URL="http://localhost:1234/v1/", ANTHROPIC_BASE_URL="https://proxy.example"
    )
    openai = loaded.settings.providers["openai"]
    assert (openai.base_url, openai.api_key, openai.configured) == ("http://localhost:1234/v1", None, True)
    assert loaded.settings.providers["anthropic"].base_url == "https://proxy.example"


def test_a_bad_base_url_in_the_environment_is_reported_and_not_used(tmp_path: Path):
    loaded = load_with(tmp_path, OPENAI_BASE_URL="localhost:1234")
    assert not loaded.settings.providers["openai"].configured
    assert [str(problem) for problem in loaded.problems] == [
        "$OPENAI_BASE_URL: providers.openai.base_url: it must be an http:// or https:// URL; "
        "openai is left out, so that nothing goes to another server."
    ]


def test_a_key_meant_for_a_server_with_a_bad_address_goes_to_no_other_server(tmp_path: Path):
    from_variable = load_with(tmp_path, OPENAI_BASE_URL="gateway.example", OPENAI_API_KEY="planted")
    from_table = load_with(tmp_path, '[providers.openai]\nbase_url = "gateway.example"\n', OPENAI_API_KEY="planted")
    for loaded in (from_variable, from_table):
        openai = loaded.settings.providers["openai"]
        assert (openai.api_key, openai.configured) == (None, False)
        assert len(loaded.problems) == 1


def test_a_script_sets_the_scripted_provider_up(tmp_path: Path):
    scripted = load_with(tmp_path, PATTERN_ACP_SCRIPT="demo.jsonl").settings.providers["scripted"]
    assert (scripted.script, scripted.configured) == ("demo.jsonl", True)


def test_a_table_names_a_provider(tmp_path: Path):
    loaded = load_with(
        tmp_path,
        """
[providers.lab]
wire = "anthropic"
base_url = "http://localhost:8080/"
api_key_env = "LAB_KEY"
headers = { "X-Team" = "blue" }
models = ["large", "org/small:8b"]
""",
        LAB_KEY="key-3",
    )
    assert loaded.problems == ()
    assert loaded.settings.providers["lab"] == ProviderSettings(
        name="lab",
        wire="anthropic",
        base_url="http://localhost:8080",
        api_key=Secret("key-3", "$LAB_KEY"),
        api_key_env="LAB_KEY",
        key_variable_named=True,
        headers={"X-Team": "blue"},
        models=("large", "org/small:8b"),
        configured=True,
    )
    assert shown(loaded, "providers.lab.headers")[0] == "X-Team: ••••"
    assert shown(loaded, "providers.lab.models")[0] == "large, org/small:8b"


def test_a_table_changes_a_built_in_provider_and_the_environment_beats_it(tmp_path: Path):
    user = '[providers.openai]\nbase_url = "http://localhost:1/v1"\nmodels = ["m"]\n'
    openai = load_with(tmp_path, user, OPENAI_API_KEY="key").settings.providers["openai"]
    assert (openai.base_url, openai.models, openai.wire) == ("http://localhost:1/v1", ("m",), "openai")
    assert openai.api_key == Secret("key", "$OPENAI_API_KEY")
    openai = load_with(tmp_path, user, OPENAI_BASE_URL="http://localhost:2/v1").settings.providers["openai"]
    assert openai.base_url == "http://localhost:2/v1"


def test_a_named_provider_speaks_openai_unless_it_says_otherwise(tmp_path: Path):
    loaded = load_with(tmp_path, '[providers.lab]\nbase_url = "http://localhost:1/v1"\n')
    assert loaded.settings.providers["lab"].wire == "openai"


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ('wire = "grpc"', "providers.lab.wire"),
        ("wire = 3", "providers.lab.wire"),
        ('models = "m"', "providers.lab.models"),
        ("models = [1]", "providers.lab.models"),
        ('headers = "X: y"', "providers.lab.headers"),
        ('headers = { "X-A" = 1 }', "providers.lab.headers"),
        ('headers = { "X A" = "b" }', "providers.lab.headers"),
        ('headers = { "X-A" = "b\\r\\nX-B: c" }', "providers.lab.headers"),
        ('api_key_env = "not-a-name"', "providers.lab.api_key_env"),
        ('api_key = "x"', "providers.lab.api_key"),
    ],
)
def test_a_bad_key_of_a_table_is_reported_and_the_provider_stays(tmp_path: Path, table: str, key: str):
    loaded = load_with(tmp_path, f'[providers.lab]\nbase_url = "http://localhost:1"\n{table}\n')
    assert [(problem.key, problem.line) for problem in loaded.problems] == [(key, 3)]
    assert loaded.settings.providers["lab"] == ProviderSettings("lab", "openai", "http://localhost:1", configured=True)


@pytest.mark.parametrize(
    "text",
    [
        "[providers.lab]\nmodels = []",
        '[providers.lab]\nbase_url = "ftp://localhost"',
        '[providers."a/b"]\nbase_url = "http://localhost:1"',
        "[providers]\nlab = 3",
        '[providers.offline]\nbase_url = "http://localhost:1"',
        "providers = 3",
    ],
)
def test_a_table_that_cannot_be_a_provider_is_left_out_and_reported(tmp_path: Path, text: str):
    loaded = load_with(tmp_path, text)
    assert loaded.problems
    assert set(loaded.settings.providers) == {each.name for each in BUILT_IN}
    assert loaded.settings.providers["offline"] == ProviderSettings("offline", "offline")


@pytest.mark.parametrize(
    ("raw", "url"),
    [
        ("localhost", "http://localhost:11434/v1"),
        ("box:1234", "http://box:1234/v1"),
        (":1234", "http://127.0.0.1:1234/v1"),
        ("[::]", "http://[::1]:11434/v1"),
        ("0.0.0.0:80", "http://127.0.0.1:80/v1"),
        ("[::]:1234", "http://[::1]:1234/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ("http://box", "http://box/v1"),
        ("https://box.example/ollama/", "https://box.example/ollama/v1"),
        ("http://box:1234/v1", "http://box:1234/v1"),
        ("box:port", None),
        ("ftp://box", None),
        ("two words", None),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(raw: str, url: str | None):
    assert ollama_base_url(raw) == url


def test_ollama_host_sets_ollama_up(tmp_path: Path):
    loaded = load_with(tmp_path, OLLAMA_HOST="box")
    ollama = loaded.settings.providers["ollama"]
    assert (ollama.base_url, ollama.configured) == ("http://box:11434/v1", True)
    assert load_with(tmp_path, OLLAMA_HOST="a b").problems


@pytest.mark.parametrize(
    "raw",
    ["", "localhost", "http://", "http://a b", "http://a\nb", "http://h:99999", "http://h?x=1", "http://h#x", 3, None],
)
def test_what_is_no_base_url_is_refused(raw: object):
    assert normal_base_url(raw) is None


def test_a_password_in_a_url_is_not_shown():
    assert show_url("http://me:secret@host:1/v1") == "http://••••@host:1/v1"
    assert show_url("http://host:1/v1") == "http://host:1/v1"


@given(st.text())
def test_any_text_is_a_url_or_refused(raw: str):
    url = ollama_base_url(raw)
    assert url is None or normal_base_url(url) == url
    again = normal_base_url(raw)
    assert again is None or normal_base_url(again) == again


@pytest.mark.parametrize(
    ("table", "is_used"),
    [
        ('token_url = "https://a/t"\nauthorization_url = "https://a/a"\nclient_id = "me"\nredirect_port = 4000', True),
        (
            'token_url = "http://localhost:1/t"\ndevice_url = "http://127.0.0.1:1/d"\nclient_id = "me"\nscope = "a b"',
            True,
        ),
        ('token_url = "http://a/t"\nauthorization_url = "https://a/a"\nclient_id = "me"', False),
        ('token_url = "https://a/t"\nauthorization_url = "https://a/a"', False),
        ('token_url = "https://a/t"\nclient_id = "me"', False),
        ('token_url = "https://a/t"\ndevice_url = "https://a/a"\nclient_id = "me"\nredirect_port = 70000', False),
        ('token_url = "https://a/t"\ndevice_url = "https://a/a"\nclient_id = "me"\nclient_secret = "no"', False),
    ],
)
def test_a_sign_in_is_used_when_it_is_whole_and_its_addresses_are_safe(tmp_path: Path, table: str, is_used: bool):
    loaded = load_with(
        tmp_path, f'[providers.lab]\nbase_url = "http://localhost:1/v1"\n[providers.lab.oauth]\n{table}\n'
    )
    assert (loaded.settings.providers["lab"].oauth is not None) == is_used
    assert bool(loaded.problems) != is_used


def test_the_public_sign_in_of_openrouter_is_built_in_and_its_addresses_can_be_changed(tmp_path: Path):
    built_in = load_with(tmp_path, "").settings.providers["openrouter"]
    assert built_in.oauth is not None
    assert built_in.oauth.gives_key
    changed = load_with(tmp_path, '[providers.openrouter.oauth]\ntoken_url = "http://localhost:1/keys"\n')
    oauth = changed.settings.providers["openrouter"].oauth
    assert oauth is not None
    assert (oauth.token_url, oauth.authorization_url) == ("http://localhost:1/keys", built_in.oauth.authorization_url)
