"""File name patterns, and the rules of `.gitignore` made of them.

Owns: the meaning of `*`, `?`, `[…]`, `{a,b}` and `**` on names relative to a root, and which rule decides. A pattern
without a slash matches the last part of a name at any depth; `*` never crosses a slash. Must not know: which files
exist.

Every pattern matches in time that grows gently with the name: within one part of a name, the leftmost match of the text
after a star is always good enough, so that the matcher need not come back to it.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from pattern_acp.workspace.errors import PatternUnusableError
from pattern_acp.workspace.git import git_facts
from pattern_acp.workspace.paths import PLATFORM, Flavour, display_path

MAX_ALTERNATIVES = 200
"""Patterns that braces may stand for."""
MAX_DOUBLE_STARS = 6
"""Each `**` multiplies the work; nobody needs more."""


class Glob(Struct, frozen=True):
    """A compiled pattern. `text` is its plain form: relative, anchored by a slash or `**/` at the start."""

    text: str
    negated: bool
    regex: re.Pattern[str]

    def matches(self, name: str) -> bool:
        """Whether the pattern selects a name relative to the root, with forward slashes."""
        return (self.regex.fullmatch(name) is not None) != self.negated


def compile_glob(pattern: str, root: str, *, flavour: Flavour = PLATFORM) -> Glob:
    """Compile a pattern, which may also be an absolute path below `root`; a leading `!` turns it around.

    Raises:
        WorkspaceError: it is empty, or stands for too many patterns.
    """
    negated = pattern.startswith("!")
    text = _anchored(pattern.removeprefix("!"), root, flavour)
    if text.count("**") > MAX_DOUBLE_STARS:
        raise PatternUnusableError(f"The pattern has more than {MAX_DOUBLE_STARS} '**'; use fewer.")
    expressions = [glob_expression(one.removeprefix("/")) for one in _alternatives(text)]
    return Glob(text, negated, re.compile("|".join(expressions), re.DOTALL))


def _anchored(pattern: str, root: str, flavour: Flavour) -> str:
    text = pattern.strip()
    if flavour.windows:
        text = text.replace("\\", "/")
    fixed = re.split(r"[*?\[{]", text, maxsplit=1)[0].rpartition("/")[0]
    if len(fixed) > 1:
        native = fixed.replace("/", "\\") if flavour.windows else fixed
        below = display_path(native, root, flavour=flavour)
        if below != native:
            text = ("" if below == "." else "/" + below) + text[len(fixed) :]
    text = text.removeprefix("./")
    if not text.strip("/"):
        raise PatternUnusableError("The pattern is empty; give one such as '*.py' or 'src/**/*.ts'.")
    if text.endswith("/"):
        text += "**"
    text = re.sub(r"(?:\*\*/)+", "**/", text)
    if "/" not in text:
        return "**/" + text
    return text if text.startswith(("/", "**/")) else "/" + text


def _alternatives(text: str) -> list[str]:
    """The patterns that braces stand for; braces that do not pair up are plain text."""
    done: list[str] = []
    pending = [text]
    while pending:
        one = pending.pop()
        span = _first_braces(one)
        if span is None:
            done.append(one)
        else:
            start, end = span
            pending.extend(one[:start] + choice + one[end + 1 :] for choice in split_patterns(one[start + 1 : end]))
        if len(done) + len(pending) > MAX_ALTERNATIVES:
            raise PatternUnusableError(f"The braces stand for more than {MAX_ALTERNATIVES} patterns; use fewer.")
    return done


def _first_braces(text: str) -> tuple[int, int] | None:
    for start, character in enumerate(text):
        if character != "{":
            continue
        depth = 0
        for end in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if depth == 0:
                return start, end
    return None


def split_patterns(text: str) -> Iterator[str]:
    """What stands between the commas of `text` that are in no braces; braces that do not pair up are plain text."""
    opened: list[int] = []
    changes: dict[int, int] = {}
    for index, character in enumerate(text):
        if character == "{":
            opened.append(index)
        elif character == "}" and opened:
            changes[opened.pop()], changes[index] = 1, -1
    depth = start = 0
    for index, character in enumerate(text):
        depth += changes.get(index, 0)
        if character == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]


def glob_expression(text: str) -> str:
    """The regular expression that a whole relative name must match; braces are plain text here."""
    parts = text.split("/")
    out: list[str] = []
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            out.append(".+" if last else "(?:[^/]+/)*")
        else:
            out.append(_part_expression(part) + ("" if last else "/"))
    return "".join(out)


def _part_expression(part: str) -> str:
    pieces: list[list[str]] = [[]]
    index = 0
    while index < len(part):
        if part[index] == "*":
            pieces.append([])
            index += 1
        else:
            token, index = _token(part, index)
            pieces[-1].append(token)
    fixed = ["".join(piece) for piece in pieces]
    if len(fixed) == 1:
        return fixed[0]
    middle = "".join(f"(?>[^/]*?{piece})" for piece in fixed[1:-1] if piece)
    return f"{fixed[0]}{middle}[^/]*{fixed[-1]}"


def _token(part: str, index: int) -> tuple[str, int]:
    """The expression of one character or class at `index`, and where the next one starts."""
    character = part[index]
    if character == "?":
        return "[^/]", index + 1
    if character == "\\" and index + 1 < len(part):
        return re.escape(part[index + 1]), index + 2
    if character == "[":
        # The first character of a class may be `]` itself.
        start = index + 2 if part[index + 1 : index + 2] in {"!", "^"} else index + 1
        end = part.find("]", start + 1)
        if end != -1:
            return _class(part[start:end], negated=start == index + 2), end + 1
    return re.escape(character), index + 1


def _class(inside: str, *, negated: bool) -> str:
    members: list[str] = []
    index = 0
    while index < len(inside):
        if inside[index + 1 : index + 2] == "-" and index + 2 < len(inside):
            low, high = inside[index], inside[index + 2]
            if low <= high:
                members.append(f"{re.escape(low)}-{re.escape(high)}")
            index += 3
        else:
            members.append(re.escape(inside[index]))
            index += 1
    if not members:
        return "[^/]" if negated else "(?!)"
    return f"(?!/)[{'^' if negated else ''}{''.join(members)}]"


_RULES_BYTES = 1_000_000
"""A longer rules file is a mistake or an attack."""


_FLAGS = re.DOTALL if PLATFORM.case_sensitive else re.DOTALL | re.IGNORECASE


class _Rule(Struct, frozen=True):
    """One line of a rules file."""

    expression: str
    by_path: bool
    """Whether the whole path below the file's folder is matched, rather than the last part alone."""
    folders_only: bool
    negated: bool


class _Level(Struct, frozen=True):
    """The rules of one file, last first; `base` is where they apply, relative to the top, "" or with a final slash."""

    base: str
    rules: tuple[tuple[_Rule, re.Pattern[str]], ...]
    any_name: re.Pattern[str] | None
    """Matches when a rule by name may; most entries match no rule at all, and one expression says so quickly."""
    any_path: re.Pattern[str] | None

    def verdict(self, full: str, *, is_dir: bool) -> bool | None:
        """Whether the last rule that matches ignores; None when none matches."""
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
    """Where the walk's root lies below the repository's top, "" or with a final slash."""
    levels: tuple[_Level, ...] = ()
    inherits: bool = False
    """Whether rules from above the walk's root apply."""

    def ignores(self, name: str, *, is_dir: bool) -> bool:
        """Whether git leaves the entry out. Its folder must not be left out itself."""
        for level in reversed(self.levels):
            verdict = level.verdict(self.offset + name, is_dir=is_dir)
            if verdict is not None:
                return verdict
        return False

    def enter(self, folder: Path, name: str) -> "IgnoreRules":
        """The rules inside the sub-folder `name`, which lies at `folder`; a nested repository starts afresh."""
        base = f"{self.offset}{name}/"
        # A folder that may not be entered has none that we could see, where a Path would raise.
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
    """The rule of a line; None for a comment or a line that says nothing."""
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
