"""Slash commands from Markdown files.

Owns: their names, their heads, and what their text becomes with arguments. Must not know: who runs the commands that
are in it, or what is built in.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from pattern_acp.definitions.files import DefinitionFiles, Document, files_below, read_document, read_text
from pattern_acp.definitions.identity import DefinitionSource, identity_of
from pattern_acp.domain.access import TrustTier
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.late_pattern import late_pattern

COMMAND_FILE = "command.md"
"""Name of a command's file inside its definition: the name that is typed is that of the definition."""

_NAME = late_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}(?::[A-Za-z0-9][A-Za-z0-9_-]{0,63}){0,4}")
_PLACE = late_pattern(r"\$(?:ARGUMENTS\b|([1-9])(?![0-9]))")
_INLINE = late_pattern(r"!`([^`\n]+)`")


class CommandDefinition(Struct, frozen=True):
    """A command as its file has it. `name` holds a colon for each folder it lies in."""

    name: str
    description: str
    hint: str
    body: str
    path: str
    tier: TrustTier = TrustTier.USER
    tools: tuple[str, ...] = ()
    """The only tools that its turn may use; none: all of them."""
    text: str = ""
    """Its file, whole."""

    @property
    def symbol(self) -> str:
        """Its canonical name."""
        return f"command/{self.name}"

    @property
    def source(self) -> DefinitionSource:
        """The definition of which its identity is."""
        return DefinitionSource(self.symbol, {COMMAND_FILE: self.text.encode("utf-8", "surrogatepass")})

    @property
    def part_digest(self) -> str:
        """The digest by which its folder is trusted."""
        return sha256_hex(self.body.encode("utf-8", "surrogatepass"))

    @property
    def identity(self) -> str:
        """Its identity (definitions/identity.py)."""
        return identity_of(self.source)

    @property
    def of_project(self) -> bool:
        """True for a command that the project brings."""
        return self.tier is TrustTier.PROJECT


def find_commands(
    folder: Path, boundary: Path, reading: DefinitionFiles, *, tier: TrustTier = TrustTier.USER, narrows: bool = True
) -> Iterator[CommandDefinition]:
    """The commands below `folder`; what cannot be used is reported.

    With `narrows` false, `allowed-tools` is left out: where Claude Code reads the file it grants, which nothing here
    does.
    """
    for path in files_below(folder, boundary, reading):
        if path.suffix != ".md":
            continue
        text = read_text(path, reading)
        name = ":".join(path.relative_to(folder).with_suffix("").parts)
        if text is None:
            continue
        if not _NAME.fullmatch(name):
            reading.problems.append(f"{path} cannot be a command: use letters, digits, - and _ in its name.")
            continue
        command, document = _command_of(name, text, str(path), tier, narrows=narrows)
        if document.problem:
            reading.problems.append(f"{document.place_in(path)}: {document.problem}; the command is there without it.")
        yield command


def kept_command(name: str, text: str, path: str, tier: TrustTier, *, narrows: bool) -> CommandDefinition:
    """A command from the stored text of its file."""
    return _command_of(name, text, path, tier, narrows=narrows)[0]


def _command_of(
    name: str, text: str, path: str, tier: TrustTier, *, narrows: bool
) -> tuple[CommandDefinition, Document]:
    document = read_document(text)
    first = next((line.lstrip("# ") for line in document.body.splitlines() if line.strip()), "")
    command = CommandDefinition(
        name,
        (document.text("description") or first or name)[:200],
        (document.text("argument-hint") or ("ARGUMENTS" if _PLACE.search(document.body) else ""))[:100],
        document.body,
        path,
        tier,
        document.items("allowed-tools") if narrows else (),
        text,
    )
    return command, document


def inline_commands(body: str, typed: str = "") -> dict[str, str]:
    """The shell lines that are in a text as !`line`, each with what was typed filled in."""
    return {match.strip(): _filled(match.strip(), typed) for match in _INLINE.findall(body)}


def expanded(body: str, typed: str, outputs: Mapping[str, str]) -> str:
    """The text with `$ARGUMENTS` and `$1` to `$9` filled in; without such a place, what was typed stands at the end.

    Each !`line` is replaced by its output in `outputs`, by the line as the file has it. What was typed, and what a line
    printed, is put in once and is not looked at again: it can neither name a place nor become a line.
    """
    pieces = _INLINE.split(body)
    lines = [outputs.get(line.strip(), "") for line in pieces[1::2]]
    texts = [_filled(text, typed) for text in pieces[::2]]
    text = "".join(text + line for text, line in zip(texts, [*lines, ""], strict=True))
    return f"{text}\n\nArguments: {typed}" if typed and not _PLACE.search(body) else text


def _filled(text: str, typed: str) -> str:
    words = _words(typed)

    def fill(match: re.Match[str]) -> str:
        if match[1] is None:
            return typed
        return words[int(match[1]) - 1] if int(match[1]) <= len(words) else ""

    return _PLACE.sub(fill, text)


def _words(typed: str) -> list[str]:
    try:
        return shlex.split(typed)
    except ValueError:
        return typed.split()
