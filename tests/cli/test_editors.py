"""What `pattern-acp setup` writes into the configuration of editors, and what it leaves alone."""

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.cli.setup import EDITORS, EditorConfigError, block_of, edited, find_editors, places, with_entry
from pattern_acp.domain.canonical import Json

COMMAND = ("/opt/pattern/bin/pattern-acp", "acp")
ZED = next(one for one in EDITORS if one.name == "Zed")
JETBRAINS = next(one for one in EDITORS if one.folder == "jetbrains")
EMACS = next(one for one in EDITORS if one.form == "elisp")


def found_in(home: Path, platform: str = "linux", **environ: str) -> dict[str, str | None]:
    found = find_editors(places(environ, platform, home), lambda _: None)
    return {editor.name: file.relative_to(home).as_posix() if file else None for editor, file in found}


def test_comments_and_layout_of_zeds_settings_stay_to_the_character():
    servers = '    "agent_servers": {\n        "Other": {"command": "x"},\n    },\n'
    text = f'// mine\n{{\n    "theme": "One", // nice\n{servers}}}\n'
    after = edited(ZED, text, COMMAND)
    added = (
        '        "Pattern": {\n            "type": "custom",\n            "command": "/opt/pattern/bin/pattern-acp",\n'
        '            "args": ["acp"],\n            "env": {}\n        },\n'
    )
    assert after.replace(added, "") == text
    assert added in after


@pytest.mark.parametrize("text", ["", "\n", "{}", "{ }", "{\n}\n", '{"a": 1}', '{"agent_servers": {}}', "// new\n{}"])
def test_the_block_comes_into_settings_of_any_size_and_only_once(text: str):
    after = edited(ZED, text, COMMAND)
    settings = json.loads(re.sub(r"^//.*$", "", after, flags=re.MULTILINE))
    assert settings["agent_servers"]["Pattern"]["command"] == COMMAND[0]
    assert settings.get("a", 1) == 1
    assert edited(ZED, after, COMMAND) == after


def test_a_command_that_moved_is_replaced_where_it_stands():
    before = edited(ZED, '{"agent_servers": {"A": {"command": "a"}}}', ("/old/pattern-acp", "acp"))
    after = edited(ZED, before, COMMAND)
    assert after == before.replace("/old/pattern-acp", COMMAND[0])


def test_what_the_user_added_to_the_block_stays_when_the_command_moves():
    before = (
        '{"agent_servers": {"Pattern": {"command": "/old/pattern-acp", "args": ["acp", "--x"], '
        '"env": {"ANTHROPIC_API_KEY": "k"}, /* mine */ "x": 1}}}'
    )
    after = edited(ZED, before, COMMAND)
    assert after == before.replace("/old/pattern-acp", COMMAND[0]).replace('["acp", "--x"]', '["acp"]')


def test_what_else_a_block_sets_never_replaces_the_users_choice():
    assert '"default_mcp_settings": {"x": 1}' in edited(JETBRAINS, '{"default_mcp_settings": {"x": 1}}', COMMAND)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "Line 1 is not JSON."),
        ('{\n  "a": ]\n}', "Line 2 is not JSON."),
        ('{"a": "never ends\n}', "Line 1 is not JSON."),
        ("{} {}", "Line 1 is not JSON."),
        ("[1]", "The file is not an object in braces."),
        ('{"agent_servers": 3}', "agent_servers is not an object in braces."),
    ],
)
def test_what_is_no_configuration_is_refused_with_its_line(text: str, sentence: str):
    with pytest.raises(EditorConfigError) as caught:
        edited(ZED, text, COMMAND)
    assert caught.value.sentence == sentence


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=6), VALUES, max_size=4),
    st.lists(st.text(max_size=6), min_size=1, max_size=3).map(tuple),
    VALUES,
    st.sampled_from([None, 1, 4, "\t"]),
)
def test_any_entry_of_any_object_is_set_and_no_other_changes(
    settings: dict[str, object], path: tuple[str, ...], value: Json, indent: int | str | None
):
    text = json.dumps(settings, indent=indent)
    expected = json.loads(text)
    here = expected
    for name in path[:-1]:
        inner = here.setdefault(name, {})
        if not isinstance(inner, dict):
            with pytest.raises(EditorConfigError):
                with_entry(text, path, value)
            return
        here = cast("dict[str, Any]", inner)
    here[path[-1]] = value
    assert json.loads(with_entry(text, path, value)) == expected


def test_emacs_gets_the_block_behind_its_own_lines_and_only_once():
    after = edited(EMACS, "(setq x 1)\n", COMMAND)
    assert after.startswith("(setq x 1)\n\n(with-eval-after-load 'agent-shell\n  (add-to-list\n")
    assert f':command "{COMMAND[0]}"' in after
    assert after.count("(") == after.count(")")
    assert edited(EMACS, after, COMMAND) == after


def test_every_block_names_the_command_and_every_example_exists():
    for editor in EDITORS:
        assert "pattern-acp" in block_of(editor, COMMAND)


def test_editors_are_found_by_their_folders(tmp_path: Path):
    assert found_in(tmp_path) == {}
    for folder in (".config/zed", ".config/JetBrains", ".config/Code/User", ".emacs.d"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".local/share/nvim/lazy/codecompanion.nvim").mkdir(parents=True)
    (tmp_path / ".local/share/nvim/site/pack/x/start/avante.nvim").mkdir(parents=True)
    assert found_in(tmp_path) == {
        "Zed": ".config/zed/settings.json",
        "JetBrains IDEs": ".jetbrains/acp.json",
        "VS Code": ".config/Code/User/settings.json",
        "Emacs agent-shell": ".emacs.d/init.el",
        "Neovim codecompanion.nvim": None,
        "Neovim avante.nvim": None,
    }


def test_the_configuration_that_exists_wins_and_folders_are_the_platforms_own(tmp_path: Path):
    (tmp_path / ".emacs").write_text("", encoding="utf-8")
    (tmp_path / ".emacs.d").mkdir()
    (tmp_path / "Library/Application Support/Code/User").mkdir(parents=True)
    assert found_in(tmp_path, "darwin") == {
        "VS Code": "Library/Application Support/Code/User/settings.json",
        "Emacs agent-shell": ".emacs",
    }
    (tmp_path / "Roaming/Zed").mkdir(parents=True)
    assert found_in(tmp_path, "win32", APPDATA=str(tmp_path / "Roaming"))["Zed"] == "Roaming/Zed/settings.json"
