"""The rules of `.gitignore`.

Owns: reading them for a folder, and which rule decides on a name. Must not know: which files exist.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from pattern_acp.domain.globs import glob_expression
from pattern_acp.domain.paths import PLATFORM
from pattern_acp.workspace.git import git_facts

_RULES_BYTES = 1_000_000
"""A longer rules file is a mistake or an attack."""


_FLAGS = re.DOTALL if PLATFORM.case_sensitive else re.DOTALL | re.IGNORECASE


class _Rule(Struct, frozen=True):
    """One line of a rules file."""

    expression: str
    by_path: bool
    """True to match the whole path below the file's folder, rather than the last part alone."""
    folders_only: bool
    negated: bool


class _Level(Struct, frozen=True):
    """The rules of one file, last first; `base` is their folder, relative to the top, "" or with a final slash."""

    base: str
    rules: tuple[tuple[_Rule, re.Pattern[str]], ...]
    any_name: re.Pattern[str] | None
    """Matches when a rule by name may; most entries match no rule at all, and one expression rules them out quickly."""
    any_path: re.Pattern[str] | None

    def verdict(self, full: str, *, is_dir: bool) -> bool | None:
        """Return whether the last rule that matches ignores; None when none matches."""
        path = full[len(self.base) :]
        name = path.rpartition("/")[2]
        by_name = self.any_name is not None and self.any_name.fullmatch(name) is not None
        by_path = self.any_path is not None and self.any_path.fullmatch(path) is not None
        if not by_name and not by_path:
            return None
        for rule, pattern in self.rules:
            if (is_dir or not rule.folders_only) and pattern.fullmatch(path if rule.by_path else name):
                return not rule.negated
        return None


class IgnoreRules(Struct, frozen=True):
    """The rules in force in one folder. Names are relative to the walk's root, with forward slashes."""

    offset: str
    """Path of the walk's root below the repository's top, "" or with a final slash."""
    levels: tuple[_Level, ...] = ()
    inherits: bool = False
    """True if rules from above the walk's root apply."""

    def ignores(self, name: str, *, is_dir: bool) -> bool:
        """Return whether git leaves the entry out. Its folder must not be left out itself."""
        for level in reversed(self.levels):
            verdict = level.verdict(self.offset + name, is_dir=is_dir)
            if verdict is not None:
                return verdict
        return False

    def enter(self, folder: Path, name: str) -> "IgnoreRules":
        """The rules inside the sub-folder `name`, which lies at `folder`; a nested repository starts afresh."""
        base = f"{self.offset}{name}/"
        # A folder that may not be entered has no rules that we could see, and a Path would raise.
        if os.path.exists(folder / ".git"):  # noqa: PTH110
            return IgnoreRules(self.offset, _levels((base, _exclude_file(folder)), (base, folder / ".gitignore")))
        return IgnoreRules(self.offset, self.levels + _levels((base, folder / ".gitignore")), self.inherits)


def rules_for(root: Path) -> IgnoreRules:
    """The rules at the root of a walk: those of its repository from the top down to it, or only its own.

    A root that is itself ignored was asked for by name, so the rules that hide it do not count below it.
    """
    top = git_facts(str(root)).root
    own = IgnoreRules("", _levels(("", root / ".gitignore")))
    if not top or not root.is_relative_to(top):
        return own
    rules = IgnoreRules("", _levels(("", _exclude_file(Path(top))), ("", Path(top) / ".gitignore")))
    below = root.relative_to(top).parts
    for depth in range(len(below)):
        name = "/".join(below[: depth + 1])
        if rules.ignores(name, is_dir=True):
            return own
        rules = rules.enter(Path(top, *below[: depth + 1]), name)
    return IgnoreRules("".join(f"{part}/" for part in below), rules.levels, inherits=True)


def _exclude_file(top: Path) -> Path:
    return Path(git_facts(str(top)).common_dir) / "info" / "exclude"


def _levels(*files: tuple[str, Path]) -> tuple[_Level, ...]:
    found = ((base, [rule for line in _lines(path) if (rule := _rule(line)) is not None]) for base, path in files)
    return tuple(_level(base, rules) for base, rules in found if rules)


def _level(base: str, rules: Sequence[_Rule]) -> _Level:
    return _Level(
        base,
        tuple((rule, re.compile(rule.expression, _FLAGS)) for rule in reversed(rules)),
        _any_of([rule.expression for rule in rules if not rule.by_path]),
        _any_of([rule.expression for rule in rules if rule.by_path]),
    )


def _any_of(expressions: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(expressions), _FLAGS) if expressions else None


def _lines(path: Path) -> list[str]:
    try:
        if not path.is_file():
            return []
        with path.open("rb") as file:
            text = file.read(_RULES_BYTES).decode("utf-8-sig", "replace")
    except OSError:
        return []
    return [line.removesuffix("\r") for line in text.split("\n")]


def _rule(line: str) -> _Rule | None:
    """Parse a rule; None for a comment or an empty line."""
    if line.startswith("#"):
        return None
    text = re.sub(r"(?<!\\) +$", "", line)
    negated = text.startswith("!")
    text = text.removeprefix("!")
    folders_only = text.endswith("/")
    text = text.removesuffix("/")
    by_path = "/" in text
    text = text.removeprefix("/")
    if not text:
        return None
    # Without a slash, `**` is a star like any other.
    expression = glob_expression(text if by_path else text.replace("**", "*"))
    return _Rule(expression, by_path, folders_only, negated)
