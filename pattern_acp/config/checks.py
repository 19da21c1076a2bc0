"""The tables `[checks.NAME]`: commands that run after edits.

Owns: their keys. Must not know: when a check runs, what it finds, or who trusts a project's.
"""

from collections.abc import Mapping
from typing import cast

from msgspec import Struct, field

from pattern_acp.config.settings import CheckSettings
from pattern_acp.config.toml_file import EffectiveValue, Problem, TomlFile, is_table
from pattern_acp.config.values import describe_type

DEFAULT_SECONDS = 60

MOST_SECONDS = 1_800
"""Longest time limit of a check, which is that of a command."""

CHECK_KEYS = {
    "command": "text: a shell line; {files} in it stands for the changed files",
    "files": "a pattern or a list of patterns, such as *.py",
    "kind": "one of formatter, linter, test",
    "when": "one of after_edit, on_stop",
    "feed": "one of on_failure, always",
    "timeout_seconds": f"a whole number from 1 to {MOST_SECONDS}",
}

_NO_PLACES = ("{file}", "{path}", "{paths}", "{filename}")
"""Placeholders of other tools for a file's name; no shell gives these words a meaning of its own."""


class _Read(Struct):
    checks: list[CheckSettings] = field(default_factory=list[CheckSettings])
    problems: list[Problem] = field(default_factory=list[Problem])
    values: list[EffectiveValue] = field(default_factory=list[EffectiveValue])


def read_checks(
    file: TomlFile,
) -> tuple[tuple[CheckSettings, ...], tuple[Problem, ...], tuple[EffectiveValue, ...]]:
    """The checks in the file's order. One with a key that cannot be used is left out and reported."""
    read = _Read()
    raw = file.table.get("checks", {})
    if not is_table(raw):
        return (), (file.problem("checks", "it must be tables [checks.NAME], so it is not used."),), ()
    for name, table in raw.items():
        _read_check(read, file, name, table)
    return tuple(read.checks), tuple(read.problems), tuple(read.values)


def _read_check(read: _Read, file: TomlFile, name: str, table: object) -> None:
    key = f"checks.{name}"
    if not is_table(table) or not name.strip():
        read.problems.append(file.problem(key, "a check is a table [checks.NAME]; it is left out."))
        return
    for field_name, raw in table.items():
        if not _is_usable(field_name, raw):
            read.problems.append(file.problem(f"{key}.{field_name}", _refusal(field_name, raw)))
            return
    command = table.get("command")
    if command is None:
        read.problems.append(file.problem(key, "it needs a command, so the check is left out."))
        return
    for place in _NO_PLACES:
        if place in str(command):
            said = f"{place} stands for nothing; {{files}} stands for the changed files. The check runs as it is."
            read.problems.append(file.problem(f"{key}.command", said))
    check = _check(name, table, file.path)
    read.checks.append(check)
    line = file.line_of(key)
    read.values.append(EffectiveValue(key, check.command, file.path if line is None else f"{file.path}:{line}"))


def _check(name: str, table: Mapping[str, object], source: str) -> CheckSettings:
    files = table.get("files", ())
    patterns = (files,) if isinstance(files, str) else tuple(cast("list[str]", files))
    return CheckSettings(
        name,
        str(table["command"]),
        patterns,
        "formatter" if table.get("kind") == "formatter" else "test" if table.get("kind") == "test" else "linter",
        "on_stop" if table.get("when") == "on_stop" else "after_edit",
        "always" if table.get("feed") == "always" else "on_failure",
        cast("int", table.get("timeout_seconds", DEFAULT_SECONDS)),
        source,
    )


def _is_usable(field_name: str, raw: object) -> bool:
    match field_name:
        case "command":
            return isinstance(raw, str) and bool(raw.strip())
        case "files":
            patterns = cast("list[object]", raw) if isinstance(raw, list) else [raw]
            return bool(patterns) and all(isinstance(one, str) and one.strip() for one in patterns)
        case "kind":
            return raw in ("formatter", "linter", "test")
        case "when":
            return raw in ("after_edit", "on_stop")
        case "feed":
            return raw in ("on_failure", "always")
        case "timeout_seconds":
            return isinstance(raw, int) and not isinstance(raw, bool) and 1 <= raw <= MOST_SECONDS
        case _:
            return False


def _refusal(field_name: str, raw: object) -> str:
    allowed = CHECK_KEYS.get(field_name)
    if allowed is None:
        return f"there is no such key; allowed are {', '.join(CHECK_KEYS)}. The check is left out."
    written = "" if isinstance(raw, str) else f", not {describe_type(raw)}"
    return f"it must be {allowed}{written}; the check is left out."
