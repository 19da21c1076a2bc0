"""The table `[lsp]` and the tables `[lsp.NAME]`: language servers.

Owns: the short form `lsp = "off"`, and the keys of a server. Must not know: which servers are known or installed. The
keys of `[lsp]` itself are described in config/keys.py.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from pattern_acp.config.keys import KEYS
from pattern_acp.config.settings import LspServerSettings
from pattern_acp.config.toml_file import EffectiveValue, Problem, TomlFile, is_table
from pattern_acp.config.values import describe_type

TABLE = "lsp"

PROGRAMS = (
    "basedpyright-langserver",
    "pyright-langserver",
    "tsc",
    "typescript-language-server",
    "gopls",
    "rust-analyzer",
    "clangd",
)
"""Programs that are looked for in a project's own folders."""

_COMES_WITH = {"tsc": "../lib/getExePath.js"}
"""A file that lies beside a program when that is a version that serves: TypeScript does since version 7."""

PROJECT_FOLDERS = (".venv/bin", ".venv/Scripts", "venv/bin", "venv/Scripts", "node_modules/.bin")
"""Folders for a project's own programs."""

LSP_SERVER_KEYS = {
    "command": "a list of texts: the program and its arguments",
    "languages": 'a list of language names, such as "python"',
}


def with_long_form(file: TomlFile) -> TomlFile:
    """The file with `lsp = "off"` (or `false`) written as the table that it stands for."""
    raw = file.table.get(TABLE)
    if isinstance(raw, bool):
        raw = "on" if raw else "off"
    if not isinstance(raw, str):
        return file
    lines = dict(file.lines)
    if TABLE in lines:
        lines[f"{TABLE}.mode"] = lines[TABLE]
    return replace(file, table={**file.table, TABLE: {"mode": raw}}, lines=lines)


def server_tables(file: TomlFile) -> Mapping[str, object]:
    """Tables of `[lsp]` beside its own keys."""
    own = {key.name.partition(".")[2] for key in KEYS if key.name.startswith(f"{TABLE}.")}
    raw = file.table.get(TABLE, {})
    return {name: value for name, value in raw.items() if name not in own} if is_table(raw) else {}


def read_lsp_servers(
    file: TomlFile,
) -> tuple[tuple[LspServerSettings, ...], tuple[Problem, ...], tuple[EffectiveValue, ...]]:
    """The servers in the file's order. One with a key that cannot be used is left out and reported."""
    servers: list[LspServerSettings] = []
    problems: list[Problem] = []
    values: list[EffectiveValue] = []
    for name, table in server_tables(file).items():
        key = f"{TABLE}.{name}"
        if not is_table(table):
            problems.append(file.problem(key, f"there is no such key; allowed are {', '.join(_own_keys())}."))
            continue
        found = list(_problems(file, key, table))
        if found:
            problems += found
            continue
        command = tuple(cast("list[str]", table["command"]))
        servers.append(LspServerSettings(name, command, tuple(cast("list[str]", table.get("languages", [])))))
        line = file.line_of(key)
        values.append(EffectiveValue(key, " ".join(command), file.path if line is None else f"{file.path}:{line}"))
    return tuple(servers), tuple(problems), tuple(values)


def _own_keys() -> Iterator[str]:
    yield from (key.name.partition(".")[2] for key in KEYS if key.name.startswith(f"{TABLE}."))
    yield "[lsp.NAME]"


def _problems(file: TomlFile, key: str, table: Mapping[str, object]) -> Iterator[Problem]:
    for name, raw in table.items():
        if name not in LSP_SERVER_KEYS:
            sentence = f"there is no such key; allowed are {', '.join(LSP_SERVER_KEYS)}. The server is left out."
            yield file.problem(f"{key}.{name}", sentence)
        elif not _is_texts(raw) or (name == "command" and not raw):
            sentence = f"it must be {LSP_SERVER_KEYS[name]}, not {describe_type(raw)}; the server is left out."
            yield file.problem(f"{key}.{name}", sentence)
    if "command" not in table:
        yield file.problem(key, "it needs a command, so the server is left out.")


def _is_texts(raw: object) -> bool:
    return isinstance(raw, list) and all(isinstance(one, str) and one.strip() for one in cast("list[object]", raw))


def can_serve(program: Path) -> bool:
    """Return whether a program of `PROGRAMS` is of a version that serves; True for any other."""
    needed = _COMES_WITH.get(program.stem.lower())
    try:
        return needed is None or program.resolve().parent.joinpath(needed).exists()
    except (OSError, RuntimeError):
        return False
