"""Hooks in config.toml and in Claude Code's settings.json."""

from pathlib import Path

import pytest

from pattern_acp.config.load import load
from pattern_acp.config.programs import read_hooks
from pattern_acp.config.settings import Flags, HookSettings


def test_flat_tables_are_read():
    read = read_hooks([{"event": "PreToolUse", "matcher": "Bash", "command": "./check", "timeout": 5}], "config.toml")
    assert read.hooks == [HookSettings("PreToolUse", "./check", "Bash", 5, "config.toml")]
    assert read.problems == []


def test_the_nested_form_of_claude_code_is_read():
    raw = {
        "PreToolUse": [{"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "a", "statusMessage": "x"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "b", "timeout": 9999}]}],
        "PostToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "c"}]}],
        "Notification": [{"hooks": [{"type": "command", "command": "d"}]}],
    }
    read = read_hooks(raw, "s")
    assert read.hooks == [
        HookSettings("PreToolUse", "a", "Edit|Write", 60, "s"),
        HookSettings("Stop", "b", "", 600, "s"),
        HookSettings("PostToolUse", "c", "", 60, "s"),
    ]
    assert read.problems == []


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (5, "hooks are tables"),
        ([5], "a hook is a table"),
        ([{"event": "Stop", "command": "x", "shell": "zsh"}], "there is no key 'shell'"),
        ([{"event": "Stop", "command": "x", "type": "prompt"}], "only hooks of the type command"),
        ([{"event": "Later", "command": "x"}], "event must be one of SessionStart"),
        ([{"event": "Stop"}], "it needs a command"),
        ([{"event": "Stop", "command": "x", "timeout": "5"}], "timeout must be a number"),
        ([{"event": "Stop", "command": "x", "matcher": "("}], "matcher is no regular expression"),
        ([{"event": "Stop", "command": "x", "matcher": 5}], "matcher must be text"),
        ({"Stop": 5}, "it must be a list of tables"),
        ({"Stop": [{"hooks": [5]}]}, "a hook is a table with a command"),
    ],
)
def test_a_hook_that_cannot_be_used_is_left_out_and_said(raw: object, words: str):
    read = read_hooks(raw, "s")
    assert read.hooks == []
    ((_, sentence),) = read.problems
    assert words in sentence


def test_the_persons_hooks_count_and_a_projects_are_an_offer(tmp_path: Path):
    home, project = tmp_path / "home", tmp_path / "project"
    for place, command in ((home / "config.toml", "own"), (project / ".pattern" / "config.toml", "theirs")):
        place.parent.mkdir(parents=True)
        place.write_text(f'[[hooks]]\nevent = "Stop"\ncommand = "{command}"\n', encoding="utf-8")
    (project / ".claude").mkdir()
    (project / ".claude" / "settings.json").write_text("{broken", encoding="utf-8")
    environment = {"PATTERN_ACP_HOME": str(home)}
    config = load(Flags(), environment, project_dir=None).paths.config_file
    if config != home / "config.toml":
        config.parent.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").rename(config)
    loaded = load(Flags(), environment, project_dir=str(project))
    assert [hook.command for hook in loaded.settings.hooks] == ["own"]
    assert [hook.command for hook in loaded.offer.hooks] == ["theirs"]
    assert [str(problem).rpartition(": ")[2] for problem in loaded.problems] == [
        "it is not valid JSON, so no hook of it is used."
    ]
