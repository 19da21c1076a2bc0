"""The tables `[models."PROVIDER/MODEL"]`."""

from pathlib import Path

import pytest

from pattern_acp.config.load import load
from pattern_acp.config.providers import read_models
from pattern_acp.config.settings import Flags, ModelSettings
from pattern_acp.config.toml_file import parse_toml


def read(text: str):
    return read_models(parse_toml("config.toml", text)[0])


def test_a_table_says_what_a_model_can_do_and_costs():
    models, problems, values = read(
        '[models."lab/llama 4"]\ncontext_window = 1\n'
        '[models."lab/org/llama:8b"]\ncontext_window = 32768\nmax_output_tokens = 4096\ntools = false\nimages = true\n'
        'thinking = ["high", "off"]\ninput_price = 0.1\noutput_price = 2\ncached_price = "0.01"\n'
        "cache_write_price = 0\n"
    )
    assert models == {
        "lab/org/llama:8b": ModelSettings(
            32_768, 4_096, tools=False, images=True, thinking=("off", "high"), input_price=100_000,
            output_price=2_000_000, cached_price=10_000, cache_write_price=0,
        )
    }  # fmt: skip
    assert [str(problem) for problem in problems] == [
        'config.toml:1: models.lab/llama 4: a model is a table [models."PROVIDER/MODEL"], with quotes around its name; '
        "it is left out."
    ]
    assert [(value.key, value.shown, value.source) for value in values][2:4] == [
        ('models."lab/org/llama:8b".tools', "false", "config.toml:6"),
        ('models."lab/org/llama:8b".images', "true", "config.toml:7"),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("context_window = 0", "a whole number from 1"),
        ("context_window = true", "a whole number from 1 to 100,000,000, not a boolean"),
        ("max_output_tokens = 1.5", "a whole number"),
        ('tools = "no"', "true or false"),
        ("images = 1", "true or false, not a number"),
        ('thinking = "high"', "a list of off, low, medium, high"),
        ('thinking = ["much"]', "a list of off, low, medium, high"),
        ("input_price = -1", "a number of US dollars from 0 on"),
        ("output_price = nan", "a number of US dollars"),
        ('cached_price = "free"', "a number of US dollars"),
        ("cache_write_price = true", "a number of US dollars"),
        ("window = 5", "there is no such key; allowed are context_window"),
    ],
)
def test_a_key_that_cannot_be_used_is_named_and_the_others_hold(line: str, words: str):
    models, (problem,), _ = read(f'[models."lab/m"]\n{line}\n[models."lab/n"]\nimages = false\n')
    assert words in problem.sentence
    assert models == {"lab/m": ModelSettings(), "lab/n": ModelSettings(images=False)}


def test_the_table_of_tables_must_be_one():
    assert 'must be tables [models."PROVIDER/MODEL"]' in read('models = ["a"]')[1][0].sentence


def test_settings_have_the_models_of_the_person_and_none_of_a_project(tmp_path: Path):
    home, project = tmp_path / "home", tmp_path / "project"
    (project / ".pattern").mkdir(parents=True)
    home.mkdir()
    (home / "config.toml").write_text('[models."openai/m"]\ntools = false\n', encoding="utf-8")
    (project / ".pattern" / "config.toml").write_text('[models."openai/m"]\ninput_price = 0\n', encoding="utf-8")
    loaded = load(Flags(), {"PATTERN_ACP_HOME": str(home)}, project_dir=str(project))
    assert loaded.settings.models == {"openai/m": ModelSettings(tools=False)}
    (problem,) = loaded.problems
    assert "a project may not say what models can do or cost" in problem.sentence
