"""Finding Markdown files below a folder, safely, reading their front matter, and what they include.

Owns: how deep and how much is looked at, that no link leads out, the part of YAML that front matter may use, and the
text that files named by `include` add. Must not know: what the files mean.
"""

import os
import re
import stat
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.definitions.identity import DefinitionSource
from pattern_acp.domain.late_pattern import late_pattern

Value: TypeAlias = str | tuple[str, ...]

HEAD_CHARACTERS = 16_000
"""A longer head is taken for a mistake: nothing of it could be shown in one line."""

_KEY = late_pattern(r"(?P<key>[A-Za-z][A-Za-z0-9_-]*)[ \t]*:(?:[ \t]+(?P<value>.*))?")
_BLOCK = late_pattern(r"[|>][+-]?\d?")
_NOT_PLAIN = late_pattern(r"""^["'\[|>]|\s#|[\n\r\t]|\s\s""")


class Document(Struct, frozen=True):
    """A file's head and the text below it.

    `problem` says what is wrong with the head, as a sentence without its end; `line` and `column`, from 1, say where.
    """

    head: Mapping[str, Value] = field(default_factory=dict[str, Value])
    body: str = ""
    problem: str = ""
    line: int = 1
    column: int = 1
    entries: Mapping[str, "Entry"] = field(default_factory=dict[str, "Entry"])

    def text(self, key: str) -> str:
        """The value of `key` on one line; empty when there is none."""
        value = self.head.get(key, "")
        if not value:
            return ""
        return " ".join((value if isinstance(value, str) else ", ".join(value)).split())

    def items(self, key: str) -> tuple[str, ...]:
        """The value of `key` as a list; text is split at commas outside brackets."""
        value = self.head.get(key, "")
        if not value or not isinstance(value, str):
            return value or ()
        return tuple(item.strip() for item in re.split(r",(?![^()]*\))", value) if item.strip())

    def table(self, key: str) -> "Document":
        """The keys below `key`, such as those of `metadata`; empty where its value is text or a list."""
        entry = self.entries.get(key)
        if entry is None or entry.begins or not entry.below:
            return Document()
        return _read_head(textwrap.dedent("\n".join(entry.below)).split("\n"), "", entry.line + 1)

    def place_in(self, path: Path) -> str:
        """The place of the problem, in the form in which editors and terminals open it."""
        return f"{path}:{self.line}:{self.column}"

    def with_problem(self, key: str, problem: str) -> "Document":
        """The same with a problem of the value of `key`."""
        entry = self.entries.get(key)
        line, column = (entry.line, entry.column) if entry is not None else (1, 1)
        return replace(self, problem=problem, line=line, column=column)


class Entry(Struct, frozen=True):
    """A key of a head as the file has it: the line and column of its value, and the lines below its own."""

    line: int
    column: int
    begins: str = ""
    below: tuple[str, ...] = ()


def read_document(text: str) -> Document:
    """Split a file into head and body. Never fails: a head that cannot be read is empty and says why."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return Document(body=text.strip())
    end = _end_of_head(lines)
    if not end:
        return Document(problem="the head that begins here has no closing line ---")
    head_lines, body = lines[1:end], "\n".join(lines[end + 1 :]).strip()
    if sum(map(len, head_lines)) > HEAD_CHARACTERS:
        return Document(body=body, problem=f"the head is longer than {HEAD_CHARACTERS} characters")
    return _read_head(head_lines, body, 2)


def with_values(text: str, values: Mapping[str, str], body: str | None = None) -> str:
    """The text of a file with other values in its head, and another body unless that is None.

    Everything else stays as it is, to the byte: unknown keys, nested tables, comments, the ends of lines.
    """
    newline = "\r\n" if text.split("\n", 1)[0].endswith("\r") else "\n"
    lines = text.split("\n")
    end = _end_of_head(lines) if lines[0].removeprefix("\ufeff").rstrip() == "---" else 0
    if not end:
        lines, end = ["---" + newline[:-1], "---" + newline[:-1], text], 1
    head, rest = lines[1:end], lines[end:]
    for key, value in values.items():
        written = f"{key}: {quoted(value)}{newline[:-1]}"
        places = [
            at for at, line in enumerate(head) if (match := _KEY.fullmatch(line.rstrip())) and match["key"] == key
        ]
        if not places:
            head.append(written)
            continue
        past = places[0] + 1
        while past < len(head) and _goes_on(head[past]):
            past += 1
        # Blank lines before the next key belong to nobody.
        while past > places[0] + 1 and not head[past - 1].strip():
            past -= 1
        head[places[0] : past] = [written]
    if body is not None:
        rest = [rest[0] if rest[0].endswith("\r") or newline == "\n" else f"{rest[0]}\r", *body.split("\n")]
    return "\n".join((lines[0], *head, *rest))


def quoted(text: str) -> str:
    """`text` as the value of a key, on one line, as plain text where that reads the same."""
    flat = text.strip()
    if flat == text and text and not _NOT_PLAIN.search(text):
        return text
    written = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{written}"'


def _end_of_head(lines: list[str]) -> int:
    return next((number for number, line in enumerate(lines[1:], start=1) if line.rstrip() in {"---", "..."}), 0)


def _goes_on(line: str) -> bool:
    """Tell whether a line belongs to the key above; a list may stand as far left as its key."""
    return not line.strip() or line[0] in " \t-"


def _read_head(lines: list[str], body: str, first: int) -> Document:
    """Read the lines of a head, of which the file has the first at line `first`."""
    head: dict[str, Value] = {}
    entries: dict[str, Entry] = {}
    position = 0
    while position < len(lines):
        line, number = lines[position], first + position
        position += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _KEY.fullmatch(line.rstrip())
        if match is None:
            column = len(line) - len(line.lstrip()) + 1
            return Document(body=body, problem="this line of the head is not `key: value`", line=number, column=column)
        key, begins = match["key"], (match["value"] or "").strip()
        if key in head:
            return Document(body=body, problem=f"the head has the key `{key}` twice", line=number)
        below: list[str] = []
        while position < len(lines) and _goes_on(lines[position]):
            below.append(lines[position])
            position += 1
        entry = Entry(number, (match.start("value") if begins else len(line.rstrip())) + 1, begins, tuple(below))
        problem = _problem_of(begins, below)
        if problem:
            return Document(body=body, problem=problem, line=number, column=entry.column)
        head[key], entries[key] = _value(begins, below), entry
    return Document(head, body, entries=entries)


def _problem_of(raw: str, below: list[str]) -> str:
    whole = " ".join((raw, *below))
    for mark, name in (('"', "quoted text"), ("'", "quoted text")):
        if raw.startswith(mark) and mark not in re.sub(r"\\.", "", whole[1:]):
            return f"the {name} that begins here has no closing {mark}"
    return "the list that begins here has no closing ]" if raw.startswith("[") and "]" not in whole else ""


def _value(raw: str, below: list[str]) -> Value:
    if _BLOCK.fullmatch(raw):
        return _block(below, folded=raw[0] == ">")
    items = [line.strip() for line in below if line.strip()]
    whole = " ".join((raw, *items)).strip()
    if whole.startswith("[") and whole.endswith("]"):
        return tuple(_unquoted(item) for item in whole[1:-1].split(",") if item.strip())
    if not raw and items and all(item == "-" or item.startswith("- ") for item in items):
        return tuple(_unquoted(item[1:].strip()) for item in items)
    return _unquoted(whole)


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
    return re.sub(r"\s+#.*$", "", text) if "#" in text else text


MOST_FILES = 200
MOST_LEVELS = 5
MOST_LISTED = 4_000
"""Folders whose entries are remembered."""
FILE_BYTES = 200_000
"""Largest file that is read; a prompt of this size fills a small model."""


class DefinitionFiles(Struct):
    """Reading of definition files, with the problems found: sentences for the user."""

    problems: list[str] = field(default_factory=list[str])


def files_below(folder: Path, boundary: Path, reading: DefinitionFiles, *, most: int = MOST_FILES) -> Iterator[Path]:
    """Every file below `folder`, in the order of their names; those that a link leads to outside `boundary` are not.

    Blocks while it looks at the disk; what cannot be looked at is left out.
    """
    return map(Path, names_below(str(folder), boundary, reading, most=most))


def names_below(folder: str, boundary: Path, reading: DefinitionFiles, *, most: int) -> Iterator[str]:
    """The same as texts: every turn looks here, and a `Path` takes longer to make than a file to be found."""
    first = _children(folder)
    if not first:
        # Nearly always: most folders bring nothing.
        return
    inside = os.path.join(os.path.realpath(boundary), "")  # noqa: PTH118
    # Below a folder that is inside, only a link leads out; Windows has further kinds of them.
    checks_all = os.name == "nt" or not _is_inside(folder, inside)
    found = 0
    waiting = [(first, 1)]
    while waiting:
        entries, level = waiting.pop(0)
        for entry in entries:
            if found >= most:
                reading.problems.append(f"{folder} holds more than {most} files; the rest is not looked at.")
                return
            if (checks_all or entry.is_symlink()) and not _is_inside(entry.path, inside):
                reading.problems.append(f"{entry.path} is a link that leads out of {boundary}, so it is not used.")
            elif _is(entry.is_dir):
                if level < MOST_LEVELS:
                    waiting.append((_children(entry.path), level + 1))
            elif _is(entry.is_file):
                found += 1
                yield entry.path


def read_text(path: Path, reading: DefinitionFiles) -> str | None:
    """The text of a file; None, with a sentence, when it cannot be used."""
    try:
        facts = path.stat()
        # Reading a named pipe waits until something is written into it.
        content = path.read_bytes() if stat.S_ISREG(facts.st_mode) and facts.st_size <= FILE_BYTES else None
        content = bytes(FILE_BYTES + 1) if facts.st_size > FILE_BYTES else content
    except OSError:
        content = None
    return as_text(path, content, reading)


def is_inside(path: Path, folder: Path) -> bool:
    """Return whether a path leads to a place below a folder, its links followed. A circle of links leads nowhere."""
    # Path.resolve fails in a circle before Python 3.13.
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def as_text(path: Path, content: bytes | None, reading: DefinitionFiles) -> str | None:
    """The text of a file whose bytes were read; None, with a sentence, when it cannot be used."""
    if content is not None and len(content) > FILE_BYTES:
        reading.problems.append(f"{path} is larger than {FILE_BYTES // 1000} kB, so it is not used.")
        return None
    try:
        return content.decode("utf-8") if content is not None else _unreadable(path, reading)
    except UnicodeDecodeError:
        return _unreadable(path, reading)


def _unreadable(path: Path, reading: DefinitionFiles) -> None:
    reading.problems.append(f"{path} cannot be read as text, so it is not used.")


SETTLED_NS = 2_000_000_000
"""Age at which a folder's time of change tells its contents: some file systems count in steps of two seconds."""

_listed: "dict[str, tuple[int, list[os.DirEntry[str]]]]" = {}
"""The entries of folders by their times of change, which a new, a removed and a renamed entry change."""


def _children(folder: str) -> "list[os.DirEntry[str]]":
    try:
        changed = os.stat(folder).st_mtime_ns  # noqa: PTH116  200 skills at each prompt
        known = _listed.get(folder)
        if known is not None and known[0] == changed:
            return known[1]
        with os.scandir(folder) as entries:
            found = sorted((one for one in entries if not one.name.startswith(".")), key=lambda one: one.name)
    except OSError:
        return []
    # An entry knows the target of a link as it was.
    if time.time_ns() - changed > SETTLED_NS and not any(one.is_symlink() for one in found):
        if len(_listed) >= MOST_LISTED:
            _listed.clear()
        _listed[folder] = changed, found
    return found


def _is(asked: Callable[[], bool]) -> bool:
    try:
        return asked()
    except OSError:
        return False


def _is_inside(path: str, inside: str) -> bool:
    """Tell whether a path leads to a place in a folder, which is resolved and ends with a separator."""
    try:
        return os.path.join(os.path.realpath(path), "").startswith(inside)  # noqa: PTH118
    except (OSError, ValueError):
        return False


MOST_INCLUDED = 50
"""Definitions that one may include, those of its includes with them."""

_MAIN = "SKILL.md"


def included_sources(
    entry: DefinitionSource, root: Path, boundary: Path, reading: DefinitionFiles
) -> tuple[DefinitionSource, ...]:
    """`entry`, and all that it includes: Markdown files and folders of skills, by their paths from `root`.

    Each is there once, no matter who includes it and how often; what cannot be read is reported and left out.
    """
    found = {entry.symbol: entry}
    waiting = list(entry.includes)
    while waiting:
        name = waiting.pop(0)
        if name in found:
            continue
        if len(found) > MOST_INCLUDED:
            reading.problems.append(f"{root} has more than {MOST_INCLUDED} included files; the rest is left out.")
            break
        source = _read(name, root, boundary, reading)
        if source is not None:
            found[name] = source
            waiting += source.includes
    return tuple(found.values())


def bodies_of(closure: Sequence[DefinitionSource], entry: str) -> tuple[str, ...]:
    """The texts that included definitions add, each once, in the order in which they are named."""
    sources = {each.symbol: each for each in closure}
    order = [entry]
    # The list grows while it is gone through.
    for symbol in order:
        order += [name for name in sources[symbol].includes if name in sources and name not in order]
    return tuple(read_document(_main(sources[name]).decode("utf-8", "replace")).body for name in order[1:])


def is_whole(closure: Sequence[DefinitionSource], entry: str) -> bool:
    """False where the text of something that `entry` includes was not stored, or was forgotten."""
    names = {each.symbol: {_MAIN, PurePosixPath(each.symbol).name} for each in closure if each.symbol != entry}
    return all(names[each.symbol] & each.files.keys() for each in closure if each.symbol in names)


def _main(source: DefinitionSource) -> bytes:
    return source.files.get(_MAIN) or source.files.get(PurePosixPath(source.symbol).name) or b""


def _read(name: str, root: Path, boundary: Path, reading: DefinitionFiles) -> DefinitionSource | None:
    plain = PurePosixPath(name)
    if plain.is_absolute() or ".." in plain.parts or str(plain) != name:
        reading.problems.append(f"{name} cannot be included: name a file by its path from {root}.")
        return None
    place = root / name
    if not is_inside(place, boundary):
        reading.problems.append(f"{place} is a link that leads out of {boundary}, so it is not included.")
        return None
    main = place / _MAIN if place.is_dir() else place
    text = read_text(main, reading)
    if text is None:
        return None
    files = {main.name: text.encode("utf-8")}
    if place.is_dir():
        for path in files_below(place, boundary, reading):
            files.setdefault(path.relative_to(place).as_posix(), _bytes(path))
    return DefinitionSource(name, files, read_document(text).items("include"))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
