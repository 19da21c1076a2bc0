"""File name patterns.

Owns: the meaning of `*`, `?`, `[…]`, `{a,b}` and `**` on names relative to a root. A pattern without a slash matches
the last part of a name at any depth; `*` never crosses a slash. Must not know: which files exist.

Every pattern matches in time that grows gently with the name: within one part of a name, the leftmost match of the text
after a star is always good enough, so that the matcher need not come back to it.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from pattern_acp.domain.errors import PatternUnusableError
from pattern_acp.domain.paths import PLATFORM, Flavour, display_path

_MAX_ALTERNATIVES = 200
"""Patterns that braces may stand for."""
_MAX_DOUBLE_STARS = 6
"""Each `**` multiplies the work; nobody needs more."""


class Glob(Struct, frozen=True):
    """A compiled pattern. `text` is its plain form: relative, anchored by a slash or `**/` at the start."""

    text: str
    negated: bool
    regex: re.Pattern[str]

    def matches(self, name: str) -> bool:
        """Return whether the pattern selects a name relative to the root, with forward slashes."""
        return (self.regex.fullmatch(name) is not None) != self.negated


def compile_glob(pattern: str, root: str, *, flavour: Flavour = PLATFORM) -> Glob:
    """Compile a pattern, which may also be an absolute path below `root`; a leading `!` turns it around.

    Raises:
        WorkspaceError: it is empty, or stands for too many patterns.
    """
    negated = pattern.startswith("!")
    text = _anchored(pattern.removeprefix("!"), root, flavour)
    if text.count("**") > _MAX_DOUBLE_STARS:
        raise PatternUnusableError(f"The pattern has more than {_MAX_DOUBLE_STARS} '**'; use fewer.")
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
        if len(done) + len(pending) > _MAX_ALTERNATIVES:
            raise PatternUnusableError(f"The braces stand for more than {_MAX_ALTERNATIVES} patterns; use fewer.")
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
    """The parts between the commas of `text` that are in no braces; braces that do not pair up are plain text."""
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
