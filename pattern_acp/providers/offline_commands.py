"""The plain commands that the `offline` provider understands.

Owns: which there are; how a line is read is the grammar of domain/action_lines.py. A command stands at the start of a
line, in any case, with or without a slash before it:

    read PATH · list [PATH] · find TEXT · run COMMAND · replace [all] "A" with "B" in PATH · remember [LABEL:] TEXT
    · recall QUERY

A path is one word or is quoted; a line that does not fit the grammar is no command but part of a question ("read the
manual and tell me" has too many words for a path). Must not know: tools or providers.
"""

import re
from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from pattern_acp.domain.action_lines import Form, Verbs, read_form, unquote_text


class ReadFile(Struct, frozen=True):
    """`read PATH`."""

    path: str


class ListDirectory(Struct, frozen=True):
    """`list [PATH]`."""

    path: str


class FindText(Struct, frozen=True):
    """`find TEXT`, taken literally."""

    text: str


class RunCommand(Struct, frozen=True):
    """`run COMMAND`; the rest of the line as it is."""

    command: str


class ReplaceText(Struct, frozen=True):
    """`replace [all] "A" with "B" in PATH`."""

    old_text: str
    new_text: str
    path: str
    is_everywhere: bool = False


class Remember(Struct, frozen=True):
    """`remember [LABEL:] TEXT`; without a label the text goes to `human`, the block about the person."""

    text: str
    label: str = "human"


class Recall(Struct, frozen=True):
    """`recall QUERY`."""

    query: str


Command: TypeAlias = ReadFile | ListDirectory | FindText | RunCommand | ReplaceText | Remember | Recall

_FORMS = Verbs(
    (
        Form("read", "path:word"),
        Form("list", "path:word?"),
        Form("find", "text:rest"),
        Form("run", "command:line"),
        Form("replace", "all:flag old:quoted with new:quoted in path:word"),
        Form("remember", "text:line"),
        Form("recall", "text:rest"),
    )
)
_LABELLED = re.compile(r"(human|project|persona):\s*(?=\S)", re.IGNORECASE)


def parse_commands(text: str) -> tuple[Command, ...]:
    """The commands of a prompt, one for each line that is one, in order."""
    found = (parse_command(line) for line in text.splitlines())
    return tuple(command for command in found if command is not None)


def parse_command(line: str) -> Command | None:
    """The command that a line is, or None."""
    found = read_form(line, _FORMS)
    return None if found is None else _build(*found)


def _build(name: str, slots: Mapping[str, str]) -> Command | None:
    if name == "read":
        return ReadFile(slots["path"])
    if name == "list":
        return ListDirectory(slots.get("path", "."))
    if name == "find":
        return FindText(slots["text"])
    if name == "run":
        return RunCommand(slots["command"])
    if name == "replace":
        # An empty passage is everywhere and nowhere; such a line is left to be answered in words.
        return ReplaceText(slots["old"], slots["new"], slots["path"], "all" in slots) if slots["old"] else None
    if name == "remember":
        labelled = _LABELLED.match(slots["text"])
        text = slots["text"][labelled.end() :] if labelled else slots["text"]
        return Remember(unquote_text(text), labelled[1].lower() if labelled else "human")
    return Recall(slots["text"])
