"""`pattern-acp models` says what is known of each model, and what is not."""

import json
from pathlib import Path

import pytest

from pattern_acp.bootstrap.process import start_process
from pattern_acp.cli.arguments import ModelsWanted
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.models import parts_of_all, run_models
from pattern_acp.cli.rendering import plain
from pattern_acp.config.settings import Flags
from pattern_acp.providers.base import ModelProperty
from pattern_acp.providers.catalogue import describe


def test_models_of_providers_that_are_set_up_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    home = tmp_path / "home"
    home.mkdir()
    table = '[providers.lab]\nbase_url = "http://127.0.0.1:9/v1"\nmodels = ["llama"]\n'
    (home / "config.toml").write_text(table, encoding="utf-8")
    process = start_process(Flags(), {"PATTERN_ACP_HOME": str(home)})
    assert run_models(ModelsWanted(json=True), process) == 0
    lab, offline = json.loads(capsys.readouterr().out)
    assert (lab["model"], lab["is_free"], lab["usd_per_million"]["input"]) == ("lab/llama", True, "0")
    assert lab["sources"]["prices"] == "assumed"
    assert offline["model"] == "offline/offline"
    assert offline["sources"]["prices"] == "it runs on this machine"
    assert run_models(ModelsWanted(), process) == 0
    _, shown, at_home = capsys.readouterr().out.splitlines()
    assert shown.split()[3:6] == ["0?", "0?", "0?"]
    assert shown.endswith("this machine, assumed")
    assert at_home.split()[3:6] == ["0", "0", "0"]
    assert run_models(ModelsWanted(model="lab/llama"), process) == 0
    assert "no cost, since its server is on this machine" in capsys.readouterr().out


def test_what_is_not_known_is_a_question_mark():
    parts = parts_of_all([describe("p", "new").info, describe("deepseek", "deepseek-v4-pro").info])
    _, new, known = plain(parts).splitlines()
    assert new.split()[:6] == ["p/new", "128,000?", "8,192?", "?", "?", "?"]
    assert new.endswith("not known")
    assert known.endswith("genai-prices 0.2.3")


def test_one_model_is_shown_with_who_says_each_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    home = tmp_path / "home"
    home.mkdir()
    tables = (
        '[providers.lab]\nbase_url = "http://models.invalid/v1"\nmodels = ["llama"]\n'
        '[models."lab/llama"]\ncontext_window = 4096\ntools = false\n'
    )
    (home / "config.toml").write_text(tables, encoding="utf-8")
    process = start_process(Flags(), {"PATTERN_ACP_HOME": str(home)})
    assert run_models(ModelsWanted(model="lab/llama"), process) == 0
    name, _, *rows, last = capsys.readouterr().out.splitlines()
    assert name == "lab/llama"
    assert [row.split("  ")[0] for row in rows] == [figure.value for figure in ModelProperty]
    assert rows[0].split() == ["context", "window", "4,096", "tokens", "config.toml"]
    assert rows[2].endswith("written as text  config.toml")
    assert rows[3].split() == ["images", "yes", "assumed"]
    assert rows[5].endswith("not known")
    assert '[models."lab/llama"] in config.toml says better' in last
    assert run_models(ModelsWanted(model="nobody/x"), process) == 1
    refused = capsys.readouterr().err
    assert "There is no provider 'nobody'" in refused
    assert "[config.unusable]" in refused


def test_the_command_line_is_understood():
    assert parse_arguments(["models", "--json"]) == ModelsWanted(Flags(), json=True)
    assert parse_arguments(["models", "p/m"]) == ModelsWanted(Flags(), model="p/m")
