"""What a person reads of a setting that cannot be used: what is wrong with it, and what is used instead."""

from pathlib import Path

import pytest

from pattern_acp.config.load import load
from pattern_acp.config.settings import Flags

SERVER = '[providers.lab]\nbase_url = "https://lab.example/v1"\n'
OAUTH = SERVER + '[providers.lab.oauth]\ntoken_url = "https://lab.example/token"\nclient_id = "us"\n'


def problems(home: Path, user: str) -> list[str]:
    (home / "config.toml").write_text(user, encoding="utf-8")
    loaded = load(Flags(), {"PATTERN_ACP_HOME": str(home)}, project_dir=None)
    return [str(problem).replace(f"{home}/", "") for problem in loaded.problems]


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        (
            SERVER + 'headers = {"a b" = "c"}',
            "config.toml:3: providers.lab.headers: a name in it is none that a header may have (letters, digits and -, "
            "no blanks); the default is used.",
        ),
        (
            SERVER + 'headers = {team = "blue\\nred"}',
            "config.toml:3: providers.lab.headers: the value of team must be text of printable ASCII characters in one "
            "line; the default is used.",
        ),
        (
            SERVER + "headers = 3",
            "config.toml:3: providers.lab.headers: it must be a table of text, printable and ASCII, not a number; "
            "the default is used.",
        ),
        (
            SERVER + 'models = [""]',
            "config.toml:3: providers.lab.models: it must be a list of text; the default is used.",
        ),
        (
            '[providers.lab]\nbase_url = "https://lab.example/v1?key=1"',
            "config.toml:2: providers.lab.base_url: it must be an http:// or https:// URL with a host, and without "
            "query and fragment; the provider is left out.",
        ),
        (
            OAUTH,
            "config.toml:3: providers.lab.oauth: it needs authorization_url or device_url; the default is used.",
        ),
        (
            OAUTH + 'secret = "x"',
            "config.toml:3: providers.lab.oauth: there is no key secret in it; allowed are authorization_url, "
            "token_url, device_url, client_id, scope, redirect_port; the default is used.",
        ),
        (
            OAUTH + 'authorization_url = "http://lab.example/a"',
            "config.toml:3: providers.lab.oauth: authorization_url in it must be an https:// URL, or an http:// one to "
            "this machine, without a fragment; the default is used.",
        ),
        (
            OAUTH + "redirect_port = 99999",
            "config.toml:3: providers.lab.oauth: redirect_port in it must be a whole number from 0 to 65535; the "
            "default is used.",
        ),
        (
            '[budget]\nday = "lots"',
            'config.toml:2: budget.day: it must be an amount such as "2.50 USD", "500k tokens" or both with a comma '
            "between; empty for no limit; no limit is used (default).",
        ),
        (
            SERVER + '[models."lab/m-1.5"]\ncontext_window = 0',
            'config.toml:4: models."lab/m-1.5".context_window: it must be a whole number from 1 to 100,000,000; it is '
            "not used.",
        ),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_what_is_wrong(tmp_path: Path, user: str, sentence: str):
    assert problems(tmp_path, user) == [sentence]


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        (
            'fallback = ["anthropic/a", "nope/x"]',
            "config.toml:1: fallback: nope/x is passed over, since there is no provider nope; set up [providers.nope].",
        ),
        (
            '[models."nope/x"]\ncontext_window = 1000',
            "config.toml:1: models.nope/x: there is no provider nope, so it says nothing; set up [providers.nope].",
        ),
        (
            "[compaction]\nthreshold_percent = 50\ntarget_percent = 60",
            "config.toml:3: compaction.target_percent: it must be below threshold_percent, which is 50; 45 is used.",
        ),
    ],
)
def test_what_does_not_go_together_is_said(tmp_path: Path, user: str, sentence: str):
    assert problems(tmp_path, user) == [sentence]


def test_a_model_of_a_preset_that_is_not_set_up_yet_is_no_contradiction(tmp_path: Path):
    assert problems(tmp_path, '[models."vllm/x"]\ncontext_window = 1000') == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("PATTERN_ACP_MODL", "there is no such variable; the nearest is PATTERN_ACP_MODEL. It is not used."),
        ("PATTERN_ACP_LOG_LEVLE", "there is no such variable; the nearest is PATTERN_ACP_LOG. It is not used."),
        (
            "PATTERN_ACP_PERSONA",
            "the setting persona is not read from the environment; use --persona or config.toml. It is not used.",
        ),
        (
            "PATTERN_ACP_TURN_SLOW_COMMANDS",
            "the setting turn.slow_commands is not read from the environment; use config.toml. It is not used.",
        ),
    ],
)
def test_a_variable_that_nothing_reads_is_told_of_with_what_was_perhaps_meant(tmp_path: Path, name: str, sentence: str):
    environ = {"PATTERN_ACP_HOME": str(tmp_path), "PATTERN_ACP_LOG": "debug", name: "hidden"}
    loaded = load(Flags(), environ, project_dir=None)
    assert [str(problem) for problem in loaded.problems] == [f"${name}: {sentence}"]


@pytest.mark.parametrize("name", ["PATTERN_ACP_PERSONA", "PATTERN_ACPX", "PATTERN_HOME"])
def test_variables_that_are_empty_or_not_named_as_ours_are_nobody_s_business(tmp_path: Path, name: str):
    value = "" if name == "PATTERN_ACP_PERSONA" else "x"
    assert not load(Flags(), {"PATTERN_ACP_HOME": str(tmp_path), name: value}, project_dir=None).problems
