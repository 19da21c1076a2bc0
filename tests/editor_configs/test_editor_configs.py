"""Every editor's configuration parses, names our command, and the command starts."""

import ast
import configparser
import json
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TypeAlias

import msgspec
import pytest

from pattern_acp import __version__
from pattern_acp.cli.arguments import Serve
from pattern_acp.cli.argv import parse_arguments

ROOT = Path(__file__).parents[2] / "editor-configs"

Sexp: TypeAlias = "str | list[Sexp]"

LUA = re.compile(r'(?P<comment>--[^\n]*)|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<word>[\w.]+)|(?P<mark>[{}()\[\],=:])|\s+')
LUA_PAIRS = {"}": "{", ")": "(", "]": "["}
ELISP = re.compile(r"""(?P<string>"(?:[^"\\]|\\.)*")|(?P<mark>[()'])|(?P<atom>[^\s()'";]+)|;[^\n]*|\s+""")


def tokens(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """The tokens of `text`; anything between them that is not blank or a comment is a fault."""
    end = 0
    for match in pattern.finditer(text):
        assert match.start() == end, f"not understood: {text[end : match.start()]!r}"
        end = match.end()
        if match.lastgroup not in (None, "comment"):
            yield match.group()
    assert end == len(text)


def lua_tokens(text: str) -> list[str]:
    found = list(tokens(LUA, text))
    opened: list[str] = []
    for token in found:
        if token in LUA_PAIRS.values():
            opened.append(token)
        elif token in LUA_PAIRS:
            assert opened.pop() == LUA_PAIRS[token]
    assert opened == []
    return found


def lua_value(found: list[str], name: str) -> list[str]:
    """The string, or the strings of the table, that `name` is set to."""
    start = next(i for i, token in enumerate(found) if token == name and found[i + 1] == "=") + 2
    if found[start] != "{":
        return [found[start].strip('"')]
    return [token.strip('"') for token in found[start + 1 : found.index("}", start)] if token != ","]


def read_elisp(text: str) -> list[Sexp]:
    stack: list[list[Sexp]] = [[]]
    for token in tokens(ELISP, text):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        elif token != "'":
            stack[-1].append(token.strip('"'))
    assert len(stack) == 1
    return stack[0]


def after(sexp: Sexp, keyword: str) -> "Sexp | None":
    """What follows `keyword` anywhere in the tree."""
    if isinstance(sexp, str):
        return None
    for index, item in enumerate(sexp):
        if item == keyword:
            return sexp[index + 1]
        found = after(item, keyword)
        if found is not None:
            return found
    return None


class Server(msgspec.Struct):
    """An agent as most editors write it."""

    command: str
    args: list[str]
    env: object


def server_of(table: Mapping[str, object]) -> list[str]:
    server = msgspec.convert(table["Pattern"], Server)
    return [server.command, *server.args]


def zed(text: str) -> list[str]:
    assert json.loads(text)["agent_servers"]["Pattern"]["type"] == "custom"
    return server_of(json.loads(text)["agent_servers"])


def jetbrains(text: str) -> list[str]:
    command = server_of(json.loads(text)["agent_servers"])
    assert PurePosixPath(command[0]).is_absolute(), "JetBrains does not search a PATH"
    return command


def vscode(text: str) -> list[str]:
    return server_of(json.loads(text)["acp.agents"])


def obsidian(text: str) -> list[str]:
    (server,) = json.loads(text)["customAgents"]
    return [server["command"], *server["args"]]


def codecompanion(text: str) -> list[str]:
    return lua_value(lua_tokens(text), "default")


def lua_server(text: str) -> list[str]:
    found = lua_tokens(text)
    (provider,) = lua_value(found, "provider")
    assert f'"{provider}"' in found[found.index("acp_providers") :]
    return [*lua_value(found, "command"), *lua_value(found, "args")]


def agent_shell(text: str) -> list[str]:
    tree: Sexp = list(read_elisp(text))
    command, parameters = after(tree, ":command"), after(tree, ":command-params")
    assert isinstance(command, str)
    assert isinstance(parameters, list)
    return [command, *(item for item in parameters if isinstance(item, str))]


def qt_creator(text: str) -> list[str]:
    parser = configparser.ConfigParser()
    parser.read_string(text)
    server = parser["ACP Server"]
    return [server["Executable"], *shlex.split(server["Arguments"])]


def shell_argument(text: str) -> list[str]:
    """The agent's command, which the last line hands to another program as one quoted argument."""
    words = shlex.split(text.splitlines()[-1])
    return shlex.split(next(word for word in words if word.startswith("pattern-acp")))


def persona(text: str) -> list[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.keyword) and node.arg == "executable":
            return ast.literal_eval(node.value)
    raise AssertionError("no executable is named")


EDITORS: Mapping[str, tuple[str, Callable[[str], list[str]]]] = {
    "zed": ("settings.json", zed),
    "jetbrains": ("acp.json", jetbrains),
    "neovim-codecompanion": ("pattern.lua", codecompanion),
    "neovim-avante": ("pattern.lua", lua_server),
    "neovim-agentic": ("pattern.lua", lua_server),
    "emacs-agent-shell": ("pattern.el", agent_shell),
    "vscode": ("settings.json", vscode),
    "qt-creator": ("server.ini", qt_creator),
    "toad": ("pattern.sh", shell_argument),
    "jupyter-ai": ("pattern_persona.py", persona),
    "marimo": ("bridge.sh", shell_argument),
    "obsidian": ("data.json", obsidian),
}

each_editor = pytest.mark.parametrize("editor", EDITORS)


def command_of(editor: str) -> list[str]:
    name, read = EDITORS[editor]
    return read((ROOT / editor / name).read_text(encoding="utf-8"))


def test_every_directory_is_tested_and_listed():
    directories = {path.name for path in ROOT.iterdir() if path.is_dir()}
    assert directories == set(EDITORS)
    overview = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"({name})" in overview for name in directories)


@each_editor
def test_an_editor_has_three_steps_that_name_its_files(editor: str):
    text = (ROOT / editor / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^(\d+)\. ", text, re.MULTILINE) == ["1", "2", "3"]
    for path in (ROOT / editor).iterdir():
        assert path.name == "README.md" or f"({path.name})" in text


@each_editor
def test_an_editor_starts_the_agent_serving_acp(editor: str):
    command, *arguments = command_of(editor)
    assert PurePosixPath(command).name == "pattern-acp"
    assert parse_arguments(arguments) == Serve()


@each_editor
def test_a_configuration_holds_no_key(editor: str):
    for path in (ROOT / editor).iterdir():
        assert not re.search(r"sk-[a-z0-9]|KEY=[A-Za-z0-9]{6}", path.read_text(encoding="utf-8"))


def test_marimo_switches_its_agents_on():
    table = tomllib.loads((ROOT / "marimo" / "marimo.toml").read_text(encoding="utf-8"))
    assert table == {"experimental": {"external_agents": True}}


@pytest.mark.e2e
def test_the_command_that_editors_name_starts():
    suffix = ".exe" if sys.platform == "win32" else ""
    installed = Path(sysconfig.get_path("scripts")) / f"pattern-acp{suffix}"
    for arguments in {tuple(command_of(editor)[1:]) for editor in EDITORS}:
        done = subprocess.run(
            [installed, *arguments, "--version"], capture_output=True, text=True, check=True, timeout=50
        )
        assert done.stdout == f"pattern-acp {__version__}\n"
