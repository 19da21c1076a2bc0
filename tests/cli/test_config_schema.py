import json
import tomllib

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from pattern_acp.cli.config_schema import FORMS, config_model, config_schema
from pattern_acp.cli.main import run
from pattern_acp.config.keys import KEYS
from pattern_acp.config.programs import CHECK_KEYS, LSP_SERVER_KEYS, MCP_SERVER_KEYS

FULL = """
model = "anthropic/claude-sonnet-4-5"
mode = "plan"
fallback = ["openai/gpt-5"]
[turn]
max_model_requests = 5
[budget]
day = 5
turn = "10k tokens"
[backup]
segments = false
[memory]
embedder = "hash"
[providers.mine]
wire = "openai"
base_url = "http://localhost:1234/v1"
headers = {"X-A" = "b"}
[models."mine/large"]
context_window = 1000
input_price = 1.5
thinking = ["off", "high"]
[mcp_servers.files]
command = "serve"
args = ["."]
[checks.lint]
command = "ruff check {files}"
files = "*.py"
[lsp]
mode = "on"
[lsp.mine]
command = ["server"]
languages = ["python"]
[[hooks]]
event = "PreToolUse"
command = "./check.sh"
"""


def faults(text: str) -> int:
    """How many things the schema finds wrong in a file."""
    table = tomllib.loads(text)
    judge = Draft202012Validator(json.loads(json.dumps(config_schema())))
    return len(list(judge.iter_errors(table)))  # pyright: ignore[reportUnknownMemberType]


def test_a_file_with_all_kinds_of_settings_is_valid():
    assert faults(FULL) == 0
    config_model().model_validate(tomllib.loads(FULL))


@pytest.mark.parametrize(
    "text",
    [
        'mode = "everything"',
        'modle = "a/b"',
        "[turn]\nmax_model_requests = 0",
        "[turn]\nmax_model_requests = true",
        "[providers.mine]\nbase = 'x'",
        "[checks.a]\nkind = 'dance'",
        "[lsp.mine]\ncommand = 'server'",
        "[[hooks]]\nevent = 'Never'\ncommand = 'a'",
        "lsp = 'perhaps'",
    ],
)
def test_what_the_readers_refuse_is_a_fault_for_the_editor(text: str):
    assert faults(text)
    with pytest.raises(ValidationError):
        config_model().model_validate(tomllib.loads(text))


@pytest.mark.parametrize(
    "text",
    ['mode = "Plan"', 'mode = " ASK "', '[memory]\nisolation = "Core-Only"', '[models."a/b"]\nthinking_level = "HIGH"'],
)
def test_a_choice_is_valid_in_any_case_as_the_readers_take_it(text: str):
    assert faults(text) == 0
    config_model().model_validate(tomllib.loads(text))


def test_an_editor_completes_a_choice_by_its_words():
    choice = json.dumps(config_schema())
    assert '{"enum": ["ask", "edit", "plan", "auto"]}' in choice


def test_what_only_a_rule_can_tell_is_refused_by_the_model():
    with pytest.raises(ValidationError, match="it must be text of the form"):
        config_model().model_validate({"model": "a b c"})


def test_every_setting_is_in_the_schema_with_its_summary():
    model = config_model()
    assert {key.name.partition(".")[0] for key in KEYS} < set(model.model_fields)
    text = json.dumps(config_schema(), ensure_ascii=False)
    assert all(json.dumps(key.summary, ensure_ascii=False) in text for key in KEYS)


def test_forms_are_of_keys_that_the_readers_know():
    readers = {
        "mcp_servers": MCP_SERVER_KEYS,
        "checks": CHECK_KEYS,
        "lsp": LSP_SERVER_KEYS,
    }
    assert set(FORMS) == set(readers)
    assert all(set(FORMS[name]) <= set(keys) for name, keys in readers.items())


@pytest.mark.parametrize(
    "text",
    ['lsp = "off"', 'lsp = "Off"', "lsp = false", 'constellation = "a"', "[constellation]\nper_project = true", ""],
)
def test_short_forms_and_an_empty_file_are_valid(text: str):
    assert faults(text) == 0


def test_the_command_prints_the_schema(capfd: pytest.CaptureFixture[str]):
    assert run(["config", "schema"]) == 0
    assert json.loads(capfd.readouterr().out) == json.loads(json.dumps(config_schema()))
