"""Rules on what the agent may do, as users write them: their grammar, and the lists of `[policy]`.

Owns: the form of a rule, and which file may hold which list. Must not know: what a rule covers (policy/rules.py).
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from pattern_acp.config.settings import PolicyRule, RuleCondition, RuleEffect, RuleFact, RuleKind
from pattern_acp.config.toml_file import Problem, TomlFile, is_table
from pattern_acp.domain.late_pattern import late_pattern

EFFECTS: tuple[RuleEffect, ...] = ("allow", "ask", "deny")
KINDS: tuple[RuleKind, ...] = ("run", "edit", "read", "fetch", "mcp")
MOST_RULES = 500
"""Most rules of one list; each is held against every call."""

_WORD = late_pattern(r"\s*(\S+)\s*")
_WHEN = late_pattern(r"\s+when(?:\s+|\Z)")
_AND = late_pattern(r"\s+and\s+")
_HOURS = late_pattern(r"hour (?:(not) )?(\d{1,2}-\d{1,2})")
_BRANCH = late_pattern(r"branch (?:(not) )?(\S+)")
_LEFT = late_pattern(r"(requests|minutes) ?([<>]) ?(\d{1,9})")
_REASON = late_pattern(r"\s+#\s+(.*)\Z", re.DOTALL)
_HOST = late_pattern(r"(?:\*\.)?[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*(?::\d+)?|\*|\[[0-9a-fA-F:]+\](?::\d+)?")
_SERVER = late_pattern(r"[^/\s]+/[^/\s]+")


class RuleError(ValueError):
    """A rule that cannot be read: the column, from 1, and a sentence."""

    def __init__(self, column: int, sentence: str) -> None:
        super().__init__(sentence)
        self.column = column
        self.sentence = sentence


def parse_rule(effect: RuleEffect, text: str) -> PolicyRule:
    """Read one rule: a kind, a pattern, perhaps ` when ` with conditions, and perhaps ` # ` with a reason.

    Raises:
        RuleError: it is none.
    """
    found = _REASON.search(text)
    body, reason = (text[: found.start()], found[1].strip()) if found else (text, "")
    first = _WORD.match(body)
    if first is None:
        raise RuleError(1, "a rule is a kind and a pattern, such as `run npm test -- *`")
    if first[1] not in KINDS:
        raise RuleError(first.start(1) + 1, f"`{first[1]}` is no kind of rule; it is one of {', '.join(KINDS)}")
    kind, column = cast("RuleKind", first[1]), first.end() + 1
    when = _WHEN.search(body, first.end())
    pattern = body[first.end() : when.start() if when else None].strip()
    if not pattern:
        raise RuleError(len(body.rstrip()) + 1, f"`{kind}` needs a pattern behind it")
    if any(not char.isprintable() for char in pattern):
        raise RuleError(column, "a pattern has no control or invisible characters")
    sentence = _wrong_pattern(kind, pattern)
    if sentence:
        raise RuleError(column, sentence)
    conditions = parse_conditions(body[when.end() :], when.end() + 1) if when else ()
    return PolicyRule(effect, kind, pattern, reason, conditions=conditions)


def parse_conditions(text: str, column: int = 1) -> tuple[RuleCondition, ...]:
    """Read the conditions of a rule, which `and` joins; `column` is that of the first character.

    Raises:
        RuleError: one of them is none.
    """
    found: list[RuleCondition] = []
    begin = 0
    for end in (*(match.span() for match in _AND.finditer(text)), (len(text), len(text))):
        words = " ".join(text[begin : end[0]].split())
        condition = _condition(words)
        if condition is None:
            sentence = (
                f"`{words}` is no condition; it is one of `hour 22-6`, `hour not 9-17`, `branch main`, "
                "`branch not release/*`, `requests < 10` and `minutes > 5`"
            )
            raise RuleError(column + begin, sentence)
        found.append(condition)
        begin = end[1]
    return tuple(found)


def _condition(words: str) -> RuleCondition | None:
    if hours := _HOURS.fullmatch(words):
        first, last = map(int, hours[2].split("-"))
        is_part = first != last and first < 24 and last <= 24
        return RuleCondition("hour", "not" if hours[1] else "", hours[2]) if is_part else None
    if branch := _BRANCH.fullmatch(words):
        return RuleCondition("branch", "not" if branch[1] else "", branch[2])
    if left := _LEFT.fullmatch(words):
        return RuleCondition(cast("RuleFact", left[1]), "<" if left[2] == "<" else ">", left[3])
    return None


def _wrong_pattern(kind: RuleKind, pattern: str) -> str:
    if kind == "run":
        try:
            words = shlex.split(pattern)
        except ValueError:
            return "the command has a quote that does not end"
        if not words or words[0] in {"*", "**"}:
            return "a command begins with the name of a program; the modes are for all programs"
        return "" if "**" not in words else "`*` stands for any further words; commands have no `**`"
    if kind in {"edit", "read"}:
        return "a path has no `..`" if ".." in re.split(r"[/\\]", pattern) else ""
    if kind == "fetch":
        return "" if _HOST.fullmatch(pattern) else "a host is a name such as `docs.python.org` or `*.python.org`"
    return "" if _SERVER.fullmatch(pattern) else "a tool of an MCP server is written SERVER/TOOL, such as `tracker/*`"


def read_policy_rules(user: TomlFile, project: TomlFile, home: str) -> tuple[tuple[PolicyRule, ...], list[Problem]]:
    """The rules of both files, without those that cannot be used, each of which is a problem.

    A project may only make decisions stricter, so its `allow` is refused as a whole.
    """
    problems: list[Problem] = []
    rules = [*_rules_of(user, home, problems), *_rules_of(project, home, problems, of_project=True)]
    return tuple(rules), problems


def _rules_of(file: TomlFile, home: str, problems: list[Problem], *, of_project: bool = False) -> Iterator[PolicyRule]:
    table = file.table.get("policy")
    for effect in EFFECTS if is_table(table) else ():
        texts, key = cast("dict[str, object]", table).get(effect), f"policy.{effect}"
        if texts is None:
            continue
        if of_project and effect == "allow":
            problems.append(file.problem(key, "a project may only add rules to `ask` and `deny`; it is not used."))
            continue
        if not isinstance(texts, list) or len(cast("list[object]", texts)) > MOST_RULES:
            problems.append(file.problem(key, f"it must be a list of at most {MOST_RULES} rules; it is not used."))
            continue
        for text in cast("list[object]", texts):
            line, start = _place(file, effect, text if isinstance(text, str) else "")
            try:
                rule = parse_rule(effect, text if isinstance(text, str) else "")
            except RuleError as error:
                where = f"column {start + error.column}: " if line else ""
                # A rule that denies and cannot be read must not be lost without a word.
                problems.append(Problem(file.path, line, key, f"{where}{error.sentence}. The rule is not used."))
                continue
            pattern = rule.pattern
            if rule.kind in {"edit", "read"} and pattern.startswith("~/") and home:
                pattern = f"{home.rstrip('/')}{pattern[1:]}"
            place = f"{file.path}:{line}" if line else file.path
            yield replace(rule, pattern=pattern, layer="project" if of_project else "user", place=place)


def _place(file: TomlFile, effect: str, text: str) -> tuple[int | None, int]:
    """The line of a rule in its file and the column before it, found by its text; tomllib tells neither."""
    try:
        lines = Path(file.path).read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        return file.line_of(f"policy.{effect}"), 0
    begin = (file.line_of(f"policy.{effect}") or 1) - 1
    for index, line in enumerate(lines[begin:], begin + 1):
        column = max(line.find(f'"{text}"'), line.find(f"'{text}'"))
        if text and column >= 0:
            return index, column + 1
    return begin + 1, 0
