"""Offers of a project to run MCP servers, hooks, checks, language servers. They count only in a trusted folder.

Owns: reading them from `.pattern/config.toml` and `.claude/settings.json`, and stating each as a part that can be shown
and compared. Must not know: who trusts what. A new table that can run something is added here: its parsed form to
`ProjectOffer`, and a part for each entry to `parts`.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from pattern_acp.config.programs import (
    LSP_PROGRAMS,
    PROJECT_FOLDERS,
    can_serve,
    read_checks,
    read_hooks,
    read_mcp_servers,
)
from pattern_acp.config.providers import show_url
from pattern_acp.config.settings import CheckSettings, HookSettings, McpOAuthSettings, McpServerSettings
from pattern_acp.config.toml_file import MAX_BYTES, Problem, TomlFile, is_table
from pattern_acp.domain.canonical import Json, canonical_json, sha256_hex
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.project_parts import PartKind, ProjectPart

_CLAUDE_SETTINGS = (".claude", "settings.json")

_SCRIPT_BYTES = 1_000_000
"""Largest script of which the content is part of what is trusted."""


class ProjectOffer(Struct, frozen=True):
    """The programs that a project would run, parsed, and the same as parts for the user."""

    mcp_servers: Mapping[str, McpServerSettings] = field(default_factory=dict[str, McpServerSettings])
    hooks: tuple[HookSettings, ...] = ()
    checks: tuple[CheckSettings, ...] = ()
    parts: tuple[ProjectPart, ...] = ()


NOTHING = ProjectOffer()
"""A project that would run nothing."""


def read_offer(
    project: TomlFile, folder: str, *, with_language_servers: bool = True
) -> tuple[ProjectOffer, tuple[Problem, ...]]:
    """The offer of the project in `folder`, with problems; `project` is its `.pattern/config.toml`."""
    servers, problems, _ = read_mcp_servers(project)
    hooks, hook_problems = _hooks(project, folder)
    checks, check_problems, _ = read_checks(project)
    parts = (
        *server_parts(servers, folder),
        *hook_parts(hooks, folder),
        *_check_parts(checks, folder),
        *(_languageserver_parts(Path(folder)) if with_language_servers else ()),
    )
    return ProjectOffer(servers, hooks, checks, parts), (*problems, *hook_problems, *check_problems)


def _hooks(project: TomlFile, folder: str) -> tuple[tuple[HookSettings, ...], tuple[Problem, ...]]:
    own = read_hooks(project.table.get("hooks", []), project.path)
    problems = [project.problem(key, sentence) for key, sentence in own.problems]
    path = Path(folder, *_CLAUDE_SETTINGS)
    table = _read_json(path, problems)
    others = read_hooks(table.get("hooks", []), str(path))
    problems += [Problem(str(path), None, key, sentence) for key, sentence in others.problems]
    return (*own.hooks, *others.hooks), tuple(problems)


def _read_json(path: Path, problems: list[Problem]) -> Mapping[str, object]:
    # Late: on the way to the answer to initialize, nothing needs it.
    import json

    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return {}
        table: object = json.loads(path.read_bytes())
    except OSError:
        return {}
    except (ValueError, RecursionError):
        problems.append(Problem(str(path), None, "", "it is not valid JSON, so no hook of it is used."))
        return {}
    return table if is_table(table) else {}


def server_parts(servers: Mapping[str, McpServerSettings], folder: str) -> Iterator[ProjectPart]:
    """Yield a part for each server; scripts of `folder` that its command names count."""
    for server in servers.values():
        target = " ".join((server.command, *server.args)) if server.command else show_url(server.url.partition("?")[0])
        # A value may be a key: it is part of the hash and is never shown or stored.
        names = ", ".join((*server.env, *server.headers))
        text = f"{target}\nwith values for {names}" if names else target
        whole: list[Json] = [server.transport, server.command, list(server.args), dict(server.env), server.url]
        if server.oauth != McpOAuthSettings():
            whole.append([server.oauth.client_id, server.oauth.client_secret, server.oauth.redirect_port])
        scripts = _scripts(" ".join((server.command, *server.args)), folder)
        digest = sha256_hex(canonical_json([*whole, dict(server.headers), scripts]))
        yield ProjectPart(PartKind.SERVER, server.name, text, digest)


def hook_parts(hooks: tuple[HookSettings, ...], folder: str) -> Iterator[ProjectPart]:
    """Yield a part for each hook; scripts of `folder` that its command names count."""
    seen: dict[str, int] = {}
    for hook in hooks:
        name = f"{hook.event}({hook.matcher})" if hook.matcher else hook.event
        seen[name] = number = seen.get(name, 0) + 1
        whole = [hook.event, hook.matcher, hook.command, hook.timeout_seconds, _scripts_of_line(hook.command, folder)]
        shown = name if number == 1 else f"{name} {number}"
        yield ProjectPart(PartKind.HOOK, shown, hook.command, sha256_hex(canonical_json(whole)))


def _check_parts(checks: tuple[CheckSettings, ...], folder: str) -> Iterator[ProjectPart]:
    for check in checks:
        text = f"{check.command}\nafter a change of {', '.join(check.files) or 'any file'}"
        whole = [
            check.name,
            check.command,
            list(check.files),
            check.kind,
            check.when,
            check.feed,
            check.timeout_seconds,
        ]
        digest = sha256_hex(canonical_json([*whole, _scripts_of_line(check.command, folder)]))
        yield ProjectPart(PartKind.CHECK, check.name, text, digest)


def _languageserver_parts(root: Path) -> Iterator[ProjectPart]:
    """The servers that the project brings along, and what of it installed ones would run."""
    for folder in PROJECT_FOLDERS:
        if not os.path.isdir(root / folder):  # noqa: PTH112  a Path raises where it may not look
            continue
        for program in LSP_PROGRAMS:
            content = _content(root / folder / program)
            if content is not None and can_serve(root / folder / program):
                yield ProjectPart(PartKind.LANGUAGE_SERVER, f"{folder}/{program}", f"{folder}/{program}", content)
    for program, needed, deciding, text in _RUN_BY_SERVERS:
        if _content(root / needed) is not None:
            digest = sha256_hex(canonical_json([_content(root / name) or "" for name in deciding]))
            yield ProjectPart(PartKind.LANGUAGE_SERVER, program, text, digest)


_RUN_BY_SERVERS = (
    ("rust-analyzer", "Cargo.toml", ("build.rs",), "when it is installed, runs build scripts and macros of its crates"),
    (
        "typescript-language-server",
        "node_modules/typescript/package.json",
        ("node_modules/typescript/package.json", "tsconfig.json"),
        "when it is installed, runs the project's node_modules/typescript and plugins that tsconfig.json names",
    ),
)
"""Server, the file that shows that it concerns the project, the files that decide what it runs, and that in words."""


def _content(path: Path) -> str | None:
    """The SHA-256 of a file, of one that is too large to look at that of its size; None where there is none."""
    try:
        size = path.stat().st_size if path.is_file() else None
        if size is None:
            return None
        return sha256_hex(path.read_bytes() if size <= _SCRIPT_BYTES else str(size).encode())
    except OSError:
        return None


_WRITTEN = late_pattern(r"""(?<![<>])>{1,2}\|?\s*(?:"[^"`$\n]*"|'[^'\n]*'|[^\s'"`;|&()<>$]+)(?=[\s;|&)]|$)""")
"""An output redirection of a shell with a plain file name behind it; `<>` reads as well."""


def _scripts_of_line(line: str, folder: str) -> list[list[str]]:
    """The same for a line of a shell: a file that it only writes, as in `>> hooks.log`, would ask at every prompt."""
    return _scripts(_WRITTEN.sub(" ", line), folder)


def _scripts(command: str, folder: str) -> list[list[str]]:
    """The files of the project that a command names, each with its hash, so that a changed script asks again too."""
    root = Path(folder)
    expanded = re.sub(r"\$\{?(?:(?:CLAUDE|PATTERN)_PROJECT|PATTERN_BUNDLE)_DIR\}?", ".", command)
    found: list[list[str]] = []
    for word in re.split(r"[\s'\";|&()<>=`]+", expanded):
        path = root / word
        try:
            inside = bool(word) and path.resolve().is_relative_to(root.resolve())
            if inside and path.is_file() and path.stat().st_size <= _SCRIPT_BYTES:
                found.append([word, sha256_hex(path.read_bytes())])
        except (OSError, ValueError, RuntimeError):
            continue
    return found
