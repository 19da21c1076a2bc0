"""Hooks, as config.toml and Claude Code's settings.json write them.

Owns: their keys in both forms. Must not know: when they run, or what a command answers. The forms:

    [[hooks]]                                   {"hooks": {"PreToolUse": [
    event = "PreToolUse"                            {"matcher": "Bash", "hooks": [
    matcher = "Bash"                                    {"type": "command", "command": "./check.sh", "timeout": 10}]}]}}
    command = "./check.sh"
    timeout = 10
"""

import re
from collections.abc import Iterator, Mapping
from typing import cast

from msgspec import Struct, field

from pattern_acp.config.settings import HookSettings
from pattern_acp.config.toml_file import is_table

EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SubagentStop", "PreCompact")
"""Events that a hook can run at, in Claude Code's words."""

ELSEWHERE = frozenset({"SessionEnd", "SubagentStart", "Notification", "PermissionRequest"})
"""Events of Claude Code that do not happen here; a settings.json that has them is no mistake."""

MOST_SECONDS = 600
_KEYS = frozenset({"event", "matcher", "command", "timeout", "type"})


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
                known = {key: value for key, value in entry.items() if key in _KEYS}
                yield place, {"matcher": group.get("matcher", ""), **known, "event": event}
            else:
                read.problems.append((place, "a hook is a table with a command; it is left out."))


def _read_one(read: ReadHooks, place: str, entry: Mapping[str, object], source: str) -> None:
    problem = _problem_of(entry)
    if problem:
        read.problems.append((place, f"{problem}; the hook is left out."))
        return
    matcher = str(entry.get("matcher") or "")
    timeout = entry.get("timeout", 60)
    seconds = min(MOST_SECONDS, max(1, round(timeout))) if isinstance(timeout, int | float) else 60
    read.hooks.append(
        HookSettings(str(entry["event"]), str(entry["command"]), "" if matcher == "*" else matcher, seconds, source)
    )


def _problem_of(entry: Mapping[str, object]) -> str:
    """Why a hook cannot be used; empty when it can."""
    unknown = [key for key in entry if key not in _KEYS]
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
