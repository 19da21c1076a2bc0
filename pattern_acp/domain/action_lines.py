r"""One grammar for actions that are written as text: what a line is one, and the words and quotes behind its verb.

Owns: lines and forms. It serves three: models without native tool calls (domain/action_runs.py), the user who writes
to the `offline` provider, and slash commands of editors and the terminal client. Must not know: tools, wires, sessions.

    action = "/" VERB [blank REST]

at the first column of a line. VERB is a word that the reader knows: `/usr/bin` and `/etc` are no actions. A reader may
let the user leave the slash out; a model may not. What REST is follows from the form of the verb, a row of slots:

    path:word      one word or quoted; a blank is escaped with a backslash      path:word?   the same, or nothing
    text:rest      the rest of the line, without quotes around all of it        command:line the rest as it is
    old:quoted     text in quotes                                               all:flag     the word itself, or nothing
    with           this very word
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from pattern_acp.domain.argument_repair import meant_name
from pattern_acp.domain.late_pattern import late_pattern


class Named(Protocol):
    """The owner of the name that an action begins with."""

    @property
    def name(self) -> str:
        """The verb, without the slash."""
        ...


VerbT = TypeVar("VerbT", bound=Named)

_FIRST = late_pattern(r"/([^\s/]+)(?=\s|$)")
_QUOTED = r'"(?:[^"\\]|\\.)*"|\'[^\']*\''
_WORD = r"(?:\\.|[^\s\"'])+"
_SLOTS: Mapping[str, str] = {
    "word": rf"\s+(?P<{{name}}>{_QUOTED}|{_WORD})",
    "word?": rf"(?:\s+(?P<{{name}}>{_QUOTED}|{_WORD}))?",
    "quoted": rf"\s+(?P<{{name}}>{_QUOTED})",
    "rest": r"\s+(?P<{name}>\S.*)",
    "line": r"\s+(?P<{name}>\S.*)",
    "flag": r"(?:\s+(?P<{name}>{name}))?",
}
_TEXT_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


class Verbs(Generic[VerbT]):
    """The verbs that a reader knows, by name.

    Raises:
        ValueError: two of them differ in case or separators only, so that one could be taken for the other.
    """

    def __init__(self, verbs: Iterable[VerbT]) -> None:
        self._verbs: dict[str, VerbT] = {}
        for verb in verbs:
            if verb.name in self._verbs or meant_name(verb.name, self._verbs):
                raise ValueError(f"The verb {verb.name!r} is there twice.")
            self._verbs[verb.name] = verb

    def find(self, name: str) -> VerbT | None:
        """The verb of a name, also of one in another case or with other separators."""
        return self._verbs.get(name) or self._verbs.get(meant_name(name, self._verbs))

    def names(self) -> tuple[str, ...]:
        """All names, in their order."""
        return tuple(self._verbs)


class Form(Struct, frozen=True):
    """A verb of a user with the slots behind it, such as `replace` with `old:quoted with new:quoted in path:word`."""

    name: str
    slots: str


def split_action(text: str) -> tuple[str, str] | None:
    """The word behind the slash that `text` begins with, and what follows it, without blanks around; else None."""
    found = _FIRST.match(text)
    return (found[1], text[found.end() :].strip()) if found else None


def read_form(line: str, forms: Verbs[Form]) -> tuple[str, Mapping[str, str]] | None:
    """The verb of a user's line, with or without its slash, and what fills its slots; None for any other line.

    A slot that may be left out and is, is not there. Quotes are removed, except from a slot `line`.
    """
    words = line.strip().removeprefix("/").split(None, 1)
    form = forms.find(words[0]) if words and words[0].isalpha() else None
    if form is None:
        return None
    pattern, kinds = _compiled(form.slots)
    found = pattern.fullmatch(line.strip().removeprefix("/")[len(words[0]) :])
    if found is None:
        return None
    return form.name, {name: _plain(text, kinds[name]) for name, text in found.groupdict().items() if text is not None}


@cache
def _compiled(slots: str) -> tuple[re.Pattern[str], Mapping[str, str]]:
    pattern = ""
    kinds: dict[str, str] = {}
    for slot in slots.split():
        name, _, kind = slot.partition(":")
        if kind:
            kinds[name] = kind
        pattern += _SLOTS[kind].format(name=name) if kind else rf"\s+{re.escape(name)}"
    return re.compile(pattern + r"\s*", re.IGNORECASE), kinds


def _plain(text: str, kind: str) -> str:
    if kind.startswith("word"):
        return _unquote_path(text)
    return text if kind in {"line", "flag"} else unquote_text(text)


def unquote_text(text: str) -> str:
    r"""Text without its quotes: `\n`, `\t`, `\r`, `\"` and `\\` count in double quotes, nothing in single ones."""
    if len(text) < 2 or text[0] != text[-1] or re.fullmatch(_QUOTED, text) is None:
        return text
    if text[0] == "'":
        return text[1:-1]
    return re.sub(r"\\(.)", lambda match: _TEXT_ESCAPES.get(match[1], match[0]), text[1:-1])


def _unquote_path(text: str) -> str:
    r"""A path without its quotes. Only a quote, and outside quotes a space, is escaped: `C:\new\file` stays."""
    if text[:1] == "'":
        return text[1:-1]
    if text[:1] == '"':
        return text[1:-1].replace('\\"', '"')
    return re.sub(r"\\([\s\"'])", r"\1", text)
