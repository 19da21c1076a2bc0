"""Tables that name programs: checks, MCP servers, language servers, and hooks.

Owns: their keys, and hooks in both forms in which they are written. Must not know: when any of them runs, or who trusts
a project's (config/project_offer.py): opening a cloned repository must not run its programs. Hooks as config.toml and
Claude Code's settings.json write them:

    [[hooks]]                                   {"hooks": {"PreToolUse": [
    event = "PreToolUse"                            {"matcher": "Bash", "hooks": [
    matcher = "Bash"                                    {"type": "command", "command": "./check.sh", "timeout": 10}]}]}}
    command = "./check.sh"
    timeout = 10
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from pattern_acp.config.keys import KEYS
from pattern_acp.config.providers import normal_base_url, show_url, wrong_header
from pattern_acp.config.settings import (
    CheckSettings,
    HookSettings,
    LspServerSettings,
    McpOAuthSettings,
    McpServerSettings,
)
from pattern_acp.config.toml_file import EffectiveValue, Problem, TomlFile, describe_type, is_table

T = TypeVar("T")

Read: TypeAlias = tuple[tuple[T, ...], tuple[Problem, ...], tuple[EffectiveValue, ...]]
"""Entries of one kind that can be used, problems with the others, and what is in force."""

_Text = Annotated[str, Meta(pattern=r"\S")]
"""A text that says something."""


def _fits(raw: object, form: object) -> bool:
    try:
        msgspec.convert(raw, form)
    except msgspec.ValidationError:
        return False
    return True


def _read_tables(
    file: TomlFile,
    table: str,
    what: str,
    keys: Mapping[str, str],
    wrong: Callable[[str, object], str],
    make: Callable[[str, Mapping[str, object]], tuple[T | None, str]],
) -> Read[T]:
    """Read `[table.NAME]` in the file's order; a `what` that cannot be used is left out and reported.

    `wrong` completes a sentence about a key; `make` gives the result with the words for `doctor`, or what is missing.
    """
    made: list[T] = []
    problems: list[Problem] = []
    values: list[EffectiveValue] = []
    raw = file.table.get(table, {})
    if not is_table(raw):
        return (), (file.problem(table, f"it must be tables [{table}.NAME], so it is not used."),), ()
    for name, entry in raw.items():
        key = f"{table}.{name}"
        if not is_table(entry) or not name.strip():
            problems.append(file.problem(key, f"a {what} is a table [{table}.NAME]; it is left out."))
            continue
        refused = _refused_key(entry, what, keys, wrong)
        if refused:
            problems.append(file.problem(f"{key}.{refused[0]}", refused[1]))
            continue
        one, shown = make(name, entry)
        if one is None:
            problems.append(file.problem(key, f"it needs a {shown}, so the {what} is left out."))
            continue
        made.append(one)
        values.append(EffectiveValue(key, shown, file.place_of(key)))
    return tuple(made), tuple(problems), tuple(values)


def _refused_key(
    entry: Mapping[str, object], what: str, keys: Mapping[str, str], wrong: Callable[[str, object], str]
) -> tuple[str, str] | None:
    for name, value in entry.items():
        if name not in keys:
            return name, f"there is no such key; allowed are {', '.join(keys)}. The {what} is left out."
        if why := wrong(name, value):
            return name, f"{why}; the {what} is left out."
    return None


def _misfit(name: str, raw: object, keys: Mapping[str, str], forms: Mapping[str, object]) -> str:
    """Describe what is wrong with a key; empty when nothing is."""
    if _fits(raw, forms[name]):
        return ""
    return f"it must be {keys[name]}" + ("" if isinstance(raw, str) else f", not {describe_type(raw)}")


MOST_CHECK_SECONDS = 1_800
"""Longest time limit of a check, which is that of a command."""

CHECK_KEYS = {
    "command": "text: a shell line; {files} in it stands for the changed files",
    "files": "a pattern or a list of patterns, such as *.py",
    "kind": "one of formatter, linter, test",
    "when": "one of after_edit, on_stop",
    "feed": "one of on_failure, always",
    "timeout_seconds": f"a whole number from 1 to {MOST_CHECK_SECONDS}",
}

_CHECK_FORMS: Mapping[str, object] = {
    "command": _Text,
    "files": Annotated[list[_Text], Meta(min_length=1)],
    "kind": Literal["formatter", "linter", "test"],
    "when": Literal["after_edit", "on_stop"],
    "feed": Literal["on_failure", "always"],
    "timeout_seconds": Annotated[int, Meta(ge=1, le=MOST_CHECK_SECONDS)],
}

_NO_PLACES = ("{file}", "{path}", "{paths}", "{filename}")
"""Placeholders of other tools for a file's name; no shell gives these words a meaning of its own."""


def _wrong_in_check(name: str, raw: object) -> str:
    if name == "files" and isinstance(raw, str):
        return "" if raw.strip() else f"it must be {CHECK_KEYS[name]}"
    return _misfit(name, raw, CHECK_KEYS, _CHECK_FORMS)


def read_checks(file: TomlFile) -> Read[CheckSettings]:
    """The checks in the file's order. One with a key that cannot be used is left out and reported."""

    def make(name: str, table: Mapping[str, object]) -> tuple[CheckSettings | None, str]:
        if "command" not in table:
            return None, "command"
        files = table.get("files", ())
        facts = {**table, "name": name, "files": (files,) if isinstance(files, str) else files, "source": file.path}
        check = msgspec.convert(facts, CheckSettings)
        return check, check.command

    checks, problems, values = _read_tables(file, "checks", "check", CHECK_KEYS, _wrong_in_check, make)
    strange = [
        file.problem(
            f"checks.{check.name}.command",
            f"{place} stands for nothing; {{files}} stands for the changed files. The check runs as it is.",
        )
        for check in checks
        for place in _NO_PLACES
        if place in check.command
    ]
    return checks, (*problems, *strange), values


MCP_SERVER_KEYS = {
    "command": "text: a program",
    "args": "a list of text",
    "env": "a table of text",
    "url": "an http:// or https:// URL",
    "transport": "one of stdio, http, sse",
    "headers": "a table of text",
    "oauth": "a table with client_id, client_secret and redirect_port",
}

_MCP_SERVER_FORMS: Mapping[str, object] = {
    "command": _Text,
    "args": list[str],
    "env": dict[str, str],
    "url": str,
    "transport": Literal["stdio", "http", "sse"],
    "headers": dict[str, str],
    "oauth": McpOAuthSettings,
}


def read_mcp_servers(
    file: TomlFile,
) -> tuple[Mapping[str, McpServerSettings], tuple[Problem, ...], tuple[EffectiveValue, ...]]:
    """The servers by name, in the file's order. A server with a key that cannot be used is left out and reported."""
    servers, problems, values = _read_tables(
        file, "mcp_servers", "server", MCP_SERVER_KEYS, _wrong_in_server, _mcp_server
    )
    return {server.name: server for server in servers}, problems, values


def _wrong_in_server(name: str, raw: object) -> str:
    misfit = _misfit(name, raw, MCP_SERVER_KEYS, _MCP_SERVER_FORMS)
    if name == "headers":
        return wrong_header(raw) or misfit
    if not misfit and name == "url":
        is_url = normal_base_url(str(raw).partition("?")[0]) is not None
        return "" if is_url else f"it must be {MCP_SERVER_KEYS[name]}"
    if not misfit and name == "oauth":
        oauth = msgspec.convert(raw, McpOAuthSettings)
        is_sound = (oauth.client_id + oauth.client_secret).isprintable() and 0 <= oauth.redirect_port < 65536
        return "" if is_sound else f"it must be {MCP_SERVER_KEYS[name]}, not {describe_type(raw)}"
    return misfit


def _mcp_server(name: str, table: Mapping[str, object]) -> tuple[McpServerSettings | None, str]:
    transport = table.get("transport", "http" if "url" in table else "stdio")
    server = msgspec.convert({**table, "name": name, "transport": transport}, McpServerSettings)
    if not (server.command if transport == "stdio" else server.url):
        return None, "command" if transport == "stdio" else "url"
    # A key may be in the query; what comes before it tells enough.
    return server, server.command or show_url(server.url.partition("?")[0])


LSP_TABLE = "lsp"

CONSTELLATION_TABLE = "constellation"

LSP_PROGRAMS = (
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
    """The file with `lsp = "off"` (or `false`) and `constellation = "NAME"` written as the tables they stand for."""
    raw = file.table.get(LSP_TABLE)
    if isinstance(raw, bool):
        raw = "on" if raw else "off"
    if isinstance(raw, str):
        file = _as_table(file, LSP_TABLE, "mode", raw)
    name = file.table.get(CONSTELLATION_TABLE)
    return file if name is None or is_table(name) else _as_table(file, CONSTELLATION_TABLE, "name", name)


def _as_table(file: TomlFile, table: str, key: str, value: object) -> TomlFile:
    lines = dict(file.lines)
    if table in lines:
        lines[f"{table}.{key}"] = lines[table]
    return replace(file, table={**file.table, table: {key: value}}, lines=lines)


def server_tables(file: TomlFile) -> Mapping[str, object]:
    """Tables of `[lsp]` beside its own keys."""
    own = {key.name.partition(".")[2] for key in KEYS if key.name.startswith(f"{LSP_TABLE}.")}
    raw = file.table.get(LSP_TABLE, {})
    return {name: value for name, value in raw.items() if name not in own} if is_table(raw) else {}


def read_lsp_servers(file: TomlFile) -> Read[LspServerSettings]:
    """The servers in the file's order. One with a key that cannot be used is left out and reported."""
    servers: list[LspServerSettings] = []
    problems: list[Problem] = []
    values: list[EffectiveValue] = []
    for name, table in server_tables(file).items():
        key = f"{LSP_TABLE}.{name}"
        if not is_table(table):
            problems.append(file.problem(key, f"there is no such key; allowed are {', '.join(_own_keys())}."))
            continue
        found = list(_lsp_problems(file, key, table))
        if found:
            problems += found
            continue
        servers.append(msgspec.convert({**table, "name": name}, LspServerSettings))
        values.append(EffectiveValue(key, " ".join(servers[-1].command), file.place_of(key)))
    return tuple(servers), tuple(problems), tuple(values)


def _own_keys() -> Iterator[str]:
    yield from (key.name.partition(".")[2] for key in KEYS if key.name.startswith(f"{LSP_TABLE}."))
    yield "[lsp.NAME]"


def _lsp_problems(file: TomlFile, key: str, table: Mapping[str, object]) -> Iterator[Problem]:
    for name, raw in table.items():
        if name not in LSP_SERVER_KEYS:
            sentence = f"there is no such key; allowed are {', '.join(LSP_SERVER_KEYS)}. The server is left out."
            yield file.problem(f"{key}.{name}", sentence)
        elif not _fits(raw, list[_Text]) or (name == "command" and not raw):
            sentence = f"it must be {LSP_SERVER_KEYS[name]}, not {describe_type(raw)}; the server is left out."
            yield file.problem(f"{key}.{name}", sentence)
    if "command" not in table:
        yield file.problem(key, "it needs a command, so the server is left out.")


def can_serve(program: Path) -> bool:
    """Return whether a program of `LSP_PROGRAMS` is of a version that serves; True for any other."""
    needed = _COMES_WITH.get(program.stem.lower())
    try:
        return needed is None or program.resolve().parent.joinpath(needed).exists()
    except (OSError, RuntimeError):
        return False


EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SubagentStop", "PreCompact")
"""Events that a hook can run at, in Claude Code's words."""

ELSEWHERE = frozenset({"SessionEnd", "SubagentStart", "Notification", "PermissionRequest"})
"""Events of Claude Code that do not happen here; a settings.json that has them is no mistake."""

MOST_HOOK_SECONDS = 600
_HOOK_KEYS = frozenset({"event", "matcher", "command", "timeout", "type"})


class ReadHooks(Struct):
    """The hooks that could be read, and what is wrong with the others: the key and the end of a sentence."""

    hooks: list[HookSettings] = field(default_factory=list[HookSettings])
    problems: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def read_hooks(raw: object, source: str) -> ReadHooks:
    """The hooks in a parsed value of either form. One that cannot be used is left out and reported."""
    read = ReadHooks()
    for place, entry in _flattened(raw, read):
        _read_one(read, place, entry, source)
    return read


def _flattened(raw: object, read: ReadHooks) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Each hook as a flat table, whichever form it was written in."""
    if isinstance(raw, list):
        for number, entry in enumerate(cast("list[object]", raw), start=1):
            if is_table(entry):
                yield f"hooks[{number}]", entry
            else:
                read.problems.append((f"hooks[{number}]", "a hook is a table [[hooks]]; it is left out."))
    elif is_table(raw):
        for event, groups in raw.items():
            if event not in ELSEWHERE:
                yield from _of_event(event, groups, read)
    else:
        read.problems.append(("hooks", "hooks are tables [[hooks]]; none is used."))


def _of_event(event: str, groups: object, read: ReadHooks) -> Iterator[tuple[str, Mapping[str, object]]]:
    place = f"hooks.{event}"
    for group in cast("list[object]", groups) if isinstance(groups, list) else [groups]:
        inner = group.get("hooks") if is_table(group) else None
        if not is_table(group) or not isinstance(inner, list):
            read.problems.append((place, "it must be a list of tables with a list `hooks`; it is left out."))
            continue
        for entry in cast("list[object]", inner):
            if is_table(entry):
                # What else Claude Code knows of a hook concerns only how it shows it.
                known = {key: value for key, value in entry.items() if key in _HOOK_KEYS}
                yield place, {"matcher": group.get("matcher", ""), **known, "event": event}
            else:
                read.problems.append((place, "a hook is a table with a command; it is left out."))


def _read_one(read: ReadHooks, place: str, entry: Mapping[str, object], source: str) -> None:
    problem = _hook_problem(entry)
    if problem:
        read.problems.append((place, f"{problem}; the hook is left out."))
        return
    matcher = str(entry.get("matcher") or "")
    timeout = entry.get("timeout", 60)
    seconds = min(MOST_HOOK_SECONDS, max(1, round(timeout))) if isinstance(timeout, int | float) else 60
    read.hooks.append(
        HookSettings(str(entry["event"]), str(entry["command"]), "" if matcher == "*" else matcher, seconds, source)
    )


def _hook_problem(entry: Mapping[str, object]) -> str:
    """Why a hook cannot be used; empty when it can."""
    unknown = [key for key in entry if key not in _HOOK_KEYS]
    timeout = entry.get("timeout", 60)
    if unknown:
        return f"there is no key {unknown[0]!r}; allowed are event, matcher, command, timeout"
    if entry.get("type", "command") != "command":
        return "only hooks of the type command run here"
    if entry.get("event") not in EVENTS:
        return f"event must be one of {', '.join(EVENTS)}"
    if not isinstance(entry.get("command"), str) or not str(entry["command"]).strip():
        return "it needs a command"
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        return "timeout must be a number of seconds"
    return _matcher_problem(entry.get("matcher") or "")


def _matcher_problem(matcher: object) -> str:
    if not isinstance(matcher, str):
        return "matcher must be text"
    try:
        re.compile("" if matcher == "*" else matcher)
    except re.error as error:
        return f"matcher is no regular expression ({error})"
    return ""
