"""Finding Markdown files below a folder, safely, and reading their front matter.

Owns: how deep and how much is looked at, that no link leads out, and the part of YAML that front matter may use. Must
not know: what the files mean.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from pattern_acp.domain.late_pattern import late_pattern

Value: TypeAlias = str | tuple[str, ...]

HEAD_CHARACTERS = 16_000
"""A longer head is taken for a mistake: nothing of it could be shown in one line."""

_KEY = late_pattern(r"(?P<key>[A-Za-z][A-Za-z0-9_-]*)[ \t]*:(?:[ \t]+(?P<value>.*))?")
_BLOCK = late_pattern(r"[|>][+-]?\d?")


class Document(Struct, frozen=True):
    """A file's head and the text below it; `problem` says what is wrong with the head, as the end of a sentence."""

    head: Mapping[str, Value] = field(default_factory=dict[str, Value])
    body: str = ""
    problem: str = ""

    def text(self, key: str) -> str:
        """The value of `key` on one line; empty when there is none."""
        value = self.head.get(key, "")
        return " ".join((value if isinstance(value, str) else ", ".join(value)).split())

    def items(self, key: str) -> tuple[str, ...]:
        """The value of `key` as a list; text is split at commas outside brackets."""
        value = self.head.get(key, "")
        if not isinstance(value, str):
            return value
        return tuple(item.strip() for item in re.split(r",(?![^()]*\))", value) if item.strip())


def read_document(text: str) -> Document:
    """Split a file into head and body. Never fails: a head that cannot be read is empty and says why."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return Document(body=text.strip())
    end = next((number for number, line in enumerate(lines[1:], start=1) if line.rstrip() in {"---", "..."}), 0)
    if not end:
        return Document(problem="its head has no closing line ---")
    head_lines, body = lines[1:end], "\n".join(lines[end + 1 :]).strip()
    if sum(map(len, head_lines)) > HEAD_CHARACTERS:
        return Document(body=body, problem=f"its head is longer than {HEAD_CHARACTERS} characters")
    return _read_head(head_lines, body)


def _read_head(lines: list[str], body: str) -> Document:
    head: dict[str, Value] = {}
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _KEY.fullmatch(line.rstrip())
        if match is None:
            return Document(body=body, problem=f"line {position + 1} of its head is not `key: value`")
        below: list[str] = []
        # A list may stand as far left as its key.
        while position < len(lines) and (not lines[position].strip() or lines[position][0] in " \t-"):
            below.append(lines[position])
            position += 1
        head[match["key"]] = _value((match["value"] or "").strip(), below)
    return Document(head, body)


def _value(raw: str, below: list[str]) -> Value:
    if _BLOCK.fullmatch(raw):
        return _block(below, folded=raw[0] == ">")
    if raw.startswith("[") and raw.endswith("]"):
        return tuple(_unquoted(item) for item in raw[1:-1].split(",") if item.strip())
    items = [line.strip() for line in below if line.strip()]
    if not raw and items and all(item == "-" or item.startswith("- ") for item in items):
        return tuple(_unquoted(item[1:].strip()) for item in items)
    return _unquoted(" ".join((raw, *items)).strip())


def _block(lines: list[str], *, folded: bool) -> str:
    margins = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    margin = min(margins, default=0)
    text = "\n".join(line[margin:].rstrip() for line in lines).strip("\n")
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text) if folded else text


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text[1:-1])
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return re.sub(r"\s+#.*$", "", text)


MOST_FILES = 200
MOST_LEVELS = 5
FILE_BYTES = 200_000
"""Largest file that is read; a prompt of this size fills a small model."""


class DefinitionFiles(Struct):
    """Reading of definition files, with the problems found: sentences for the user."""

    problems: list[str] = field(default_factory=list[str])


def files_below(folder: Path, boundary: Path, reading: DefinitionFiles) -> Iterator[Path]:
    """Every file below `folder`, in the order of their names; those that a link leads to outside `boundary` are not.

    Blocks while it looks at the disk; what cannot be looked at is left out.
    """
    found = 0
    waiting = [(folder, 1)]
    while waiting:
        place, level = waiting.pop(0)
        for path in _children(place):
            if found >= MOST_FILES:
                reading.problems.append(f"{folder} holds more than {MOST_FILES} files; the rest is not looked at.")
                return
            if not _is_inside(path, boundary):
                reading.problems.append(f"{path} is a link that leads out of {boundary}, so it is not used.")
            elif os.path.isdir(path):  # noqa: PTH112  a Path raises where it may not look
                if level < MOST_LEVELS:
                    waiting.append((path, level + 1))
            else:
                found += 1
                yield path


def read_text(path: Path, reading: DefinitionFiles) -> str | None:
    """The text of a file; None, with a sentence, when it cannot be used."""
    try:
        if path.stat().st_size > FILE_BYTES:
            reading.problems.append(f"{path} is larger than {FILE_BYTES // 1000} kB, so it is not used.")
            return None
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        reading.problems.append(f"{path} cannot be read as text, so it is not used.")
        return None


def _children(folder: Path) -> list[Path]:
    # Every turn looks here: names are told apart before they are made paths.
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if not name.startswith(".")]  # noqa: PTH208
    except OSError:
        return []


def _is_inside(path: Path, boundary: Path) -> bool:
    try:
        return path.resolve().is_relative_to(boundary.resolve())
    except (OSError, RuntimeError):
        return False
