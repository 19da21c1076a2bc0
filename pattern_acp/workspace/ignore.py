"""Which files git would leave out.

Owns: reading `.gitignore` at every level and `.git/info/exclude`, with git's precedence. The person's global excludes
are left out: what is found must not depend on whose machine it is. Must not know: who walks, nor what is searched.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from pattern_acp.workspace.git import git_facts

_RULES_BYTES = 1_000_000
"""A longer rules file is a mistake or an attack."""


@dataclass(frozen=True, slots=True)
class _Level:
    """The rules of one file; `base` is where they apply, relative to the top, "" or with a final slash."""

    base: str
    spec: GitIgnoreSpec


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules in force in one folder. Names are relative to the walk's root, with forward slashes."""

    offset: str
    """Where the walk's root lies below the repository's top, "" or with a final slash."""
    levels: tuple[_Level, ...] = ()
    inherits: bool = False
    """Whether rules from above the walk's root apply."""

    def ignores(self, name: str, *, is_dir: bool) -> bool:
        """Whether git leaves the entry out. Its folder must not be left out itself."""
        full = f"{self.offset}{name}/" if is_dir else f"{self.offset}{name}"
        for level in reversed(self.levels):
            verdict = level.spec.check_file(full[len(level.base) :]).include
            if verdict is not None:
                return verdict
        return False

    def enter(self, folder: Path, name: str) -> "IgnoreRules":
        """The rules inside the sub-folder `name`, which lies at `folder`; a nested repository starts afresh."""
        base = f"{self.offset}{name}/"
        if (folder / ".git").exists():
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
    levels: list[_Level] = []
    for base, path in files:
        lines = _lines(path)
        if lines:
            levels.append(_Level(base, _spec(lines)))
    return tuple(levels)


def _lines(path: Path) -> list[str]:
    try:
        if not path.is_file():
            return []
        with path.open("rb") as file:
            text = file.read(_RULES_BYTES).decode("utf-8-sig", "replace")
    except OSError:
        return []
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return [line for line in lines if line.strip() and not line.startswith("#")]


def _spec(lines: Sequence[str]) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        # One bad rule does not switch off the others; git skips it as well.
        return GitIgnoreSpec.from_lines([line for line in lines if _is_rule(line)])


def _is_rule(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
