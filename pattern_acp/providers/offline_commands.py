"""The plain commands that the `offline` provider understands, and how a line is read as one.

Owns: the grammar. A command stands at the start of a line, in any case:

    read PATH · list [PATH] · find TEXT · run COMMAND · replace [all] "A" with "B" in PATH · remember [LABEL:] TEXT
    · recall QUERY

A path is one word or is quoted; a line that does not fit the grammar is no command but part of a question ("read the
manual and tell me" has too many words for a path). Must not know: tools or providers.
"""

import re
from typing import TypeAlias

from pattern_acp.domain.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ReadFile:
    """`read PATH`."""

    path: str


@dataclass(frozen=True, slots=True)
class ListDirectory:
    """`list [PATH]`."""

    path: str


@dataclass(frozen=True, slots=True)
class FindText:
    """`find TEXT`, taken literally."""

    text: str


@dataclass(frozen=True, slots=True)
class RunCommand:
    """`run COMMAND`; the rest of the line as it is."""

    command: str


@dataclass(frozen=True, slots=True)
class ReplaceText:
    """`replace [all] "A" with "B" in PATH`."""

    old_text: str
    new_text: str
    path: str
    is_everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Remember:
    """`remember [LABEL:] TEXT`; without a label the text goes to `human`, the block about the person."""

    text: str
    label: str = "human"


@dataclass(frozen=True, slots=True)
class Recall:
    """`recall QUERY`."""

    query: str


Command: TypeAlias = ReadFile | ListDirectory | FindText | RunCommand | ReplaceText | Remember | Recall

_QUOTED = r'"(?:[^"\\]|\\.)*"|\'[^\']*\''
_WORD = r"(?:\\.|[^\s\"'])+"
_PATH = rf"(?P<path>{_QUOTED}|{_WORD})"
_TEXT_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}

_FORMS = (
    ("read", re.compile(rf"read\s+{_PATH}\s*", re.IGNORECASE)),
    ("list", re.compile(rf"list(?:\s+{_PATH})?\s*", re.IGNORECASE)),
    ("find", re.compile(r"find\s+(?P<rest>\S.*)", re.IGNORECASE)),
    ("run", re.compile(r"run\s+(?P<rest>\S.*)", re.IGNORECASE)),
    (
        "replace",
        re.compile(
            rf"replace\s+(?P<all>all\s+)?(?P<old>{_QUOTED})\s+with\s+(?P<new>{_QUOTED})\s+in\s+{_PATH}\s*",
            re.IGNORECASE,
        ),
    ),
    ("remember", re.compile(r"remember\s+(?:(?P<label>human|project|persona):\s*)?(?P<rest>\S.*)", re.IGNORECASE)),
    ("recall", re.compile(r"recall\s+(?P<rest>\S.*)", re.IGNORECASE)),
)


def parse_commands(text: str) -> tuple[Command, ...]:
    """The commands of a prompt, one for each line that is one, in order."""
    found = (parse_command(line) for line in text.splitlines())
    return tuple(command for command in found if command is not None)


def parse_command(line: str) -> Command | None:
    """The command that a line is, or None."""
    stripped = line.strip()
    for name, form in _FORMS:
        match = form.fullmatch(stripped)
        if match is not None:
            return _build(name, match)
    return None


def _build(name: str, match: re.Match[str]) -> Command | None:
    groups = match.groupdict()
    if name == "read":
        return ReadFile(unquote_path(groups["path"]))
    if name == "list":
        return ListDirectory(unquote_path(groups["path"] or "."))
    if name == "find":
        return FindText(unquote_text(groups["rest"]))
    if name == "run":
        return RunCommand(groups["rest"])
    if name == "replace":
        old, new = unquote_text(groups["old"]), unquote_text(groups["new"])
        # An empty passage is everywhere and nowhere; such a line is left to be answered in words.
        return ReplaceText(old, new, unquote_path(groups["path"]), bool(groups["all"])) if old else None
    if name == "remember":
        return Remember(unquote_text(groups["rest"]), (groups["label"] or "human").lower())
    return Recall(unquote_text(groups["rest"]))


def unquote_text(text: str) -> str:
    r"""Text without its quotes: `\n`, `\t`, `\r`, `\"` and `\\` count in double quotes, nothing in single ones."""
    if len(text) < 2 or text[0] != text[-1] or re.fullmatch(_QUOTED, text) is None:
        return text
    if text[0] == "'":
        return text[1:-1]
    return re.sub(r"\\(.)", lambda match: _TEXT_ESCAPES.get(match[1], match[0]), text[1:-1])


def unquote_path(text: str) -> str:
    r"""A path without its quotes. Only a quote, and outside quotes a space, is escaped: `C:\new\file` stays."""
    if text[:1] == "'":
        return text[1:-1]
    if text[:1] == '"':
        return text[1:-1].replace('\\"', '"')
    return re.sub(r"\\([\s\"'])", r"\1", text)
