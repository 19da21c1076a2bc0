"""One TOML file, with the line of every key, and the problems that settings have.

Owns: reading and parsing, and finding lines, which `tomllib` does not report. Must not know: which keys exist.
"""

import stat
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TypeGuard

from msgspec import Struct, field

from pattern_acp.domain.late_pattern import late_pattern


class Problem(Struct, frozen=True):
    """A setting that was not used as written. The agent runs all the same (issue 2, section 2)."""

    place: str
    """The file, `$VARIABLE` or `--flag` that holds it."""
    line: int | None
    """1-based line in the file; None outside files or where it is not known."""
    key: str
    """The dotted key, such as `turn.max_wall_seconds`; empty when the whole file is meant."""
    sentence: str
    """A sentence that says what is wrong, what is allowed, and what is used instead. Never a key's secret value."""

    def __str__(self) -> str:
        """One line: place, line, key and sentence."""
        where = self.place if self.line is None else f"{self.place}:{self.line}"
        key = f"{self.key[:80]}: " if self.key else ""
        # A quoted key may hold anything, and a path too; neither may break the line or steer a terminal.
        return "".join(each if each.isprintable() else "?" for each in f"{where}: {key}{self.sentence}")


class EffectiveValue(Struct, frozen=True):
    """One setting as it is in force."""

    key: str
    shown: str
    """The value for a user; secrets are masked."""
    source: str
    """`default`, `$VARIABLE`, `--flag`, or `FILE:LINE`."""


MAX_BYTES = 256 * 1024
"""A larger file is not a configuration; a project's file is read unasked, so its size is not ours to trust."""

_HEADER = late_pattern(r"\s*\[\[?\s*(?P<path>[^\[\]]+?)\s*\]\]?\s*(?:#.*)?")
_ASSIGNMENT = late_pattern(r"""\s*(?P<path>(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')(?:\s*\.\s*[^\s=.]+)*)\s*=""")
_PART = late_pattern(r"""[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*'""")
_ERROR_PLACE = late_pattern(r"\s*\(at (?:line (?P<line>\d+), column \d+|end of document)\)$")


class TomlFile(Struct, frozen=True):
    """A parsed file; empty when there is none or it is broken."""

    path: str
    table: Mapping[str, object] = field(default_factory=dict[str, object])
    lines: Mapping[str, int] = field(default_factory=dict[str, int])

    def line_of(self, key: str) -> int | None:
        """The 1-based line of a dotted key, or of the nearest table or inline table around it."""
        while key:
            if key in self.lines:
                return self.lines[key]
            key = key.rpartition(".")[0]
        return None

    def place_of(self, key: str) -> str:
        """The file, with the line of a dotted key where it is known."""
        line = self.line_of(key)
        return self.path if line is None else f"{self.path}:{line}"

    def problem(self, key: str, sentence: str) -> Problem:
        """A problem at the line of `key`."""
        return Problem(self.path, self.line_of(key), key, sentence)


def read_toml(path: Path) -> tuple[TomlFile, tuple[Problem, ...]]:
    """Read `path`; a missing file is empty, a broken one is empty and one problem."""
    empty = TomlFile(str(path))
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            return empty, (Problem(empty.path, None, "", "it is not a regular file, so it is not read."),)
        if facts.st_size > MAX_BYTES:
            return empty, (
                Problem(empty.path, None, "", f"it is larger than {MAX_BYTES // 1024} kB, so it is not read."),
            )
        text = path.read_bytes().decode("utf-8-sig")  # Windows editors like to add the mark that TOML forbids
    except (FileNotFoundError, NotADirectoryError):
        return empty, ()
    except UnicodeDecodeError:
        return empty, (Problem(empty.path, None, "", "it is not UTF-8 text, so none of it is used."),)
    except OSError as error:
        return empty, (Problem(empty.path, None, "", f"it cannot be read ({error.strerror}), so none of it is used."),)
    return _parsed(str(path), text)


@lru_cache(maxsize=4)
def _parsed(path: str, text: str) -> "tuple[TomlFile, tuple[Problem, ...]]":
    """Every turn reads the user's file and the project's, and both hardly ever change."""
    return parse_toml(path, text)


def parse_toml(path: str, text: str) -> tuple[TomlFile, tuple[Problem, ...]]:
    """Parse `text` as the content of `path`; broken text gives an empty table and one problem with its line."""
    # Late: most people have no file at all, and the import costs 3 to 15 ms.
    import tomllib

    try:
        table: Mapping[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _ERROR_PLACE.search(message)
        said = message[: place.start()] if place else message
        line = int(place["line"]) if place and place["line"] else len(text.splitlines())
        sentence = f"it is not valid TOML ({said}), so none of it is used; correct the line."
        return TomlFile(path), (Problem(path, line, "", sentence),)
    except (ValueError, RecursionError):
        # A number of thousands of digits, or thousands of brackets; a project's file is written by strangers.
        return TomlFile(path), (Problem(path, None, "", "it holds a value that is too large, so none of it is used."),)
    return TomlFile(path, table, dict(find_lines(text))), ()


def is_table(value: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether a parsed value is a TOML table, whose keys are always text."""
    return isinstance(value, dict)


def find_lines(text: str) -> Iterator[tuple[str, int]]:
    """Dotted keys and tables of valid TOML with their 1-based lines, in order.

    Keys inside inline tables are not listed; their line is that of the key that holds the table.
    """
    table: tuple[str, ...] = ()
    closing = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if closing:
            closing = "" if closing in line else closing
            continue
        header = _HEADER.fullmatch(line)
        assignment = None if header else _ASSIGNMENT.match(line)
        if header:
            table = _split(header["path"])
            yield ".".join(table), number
        elif assignment:
            yield ".".join((*table, *_split(assignment["path"]))), number
            closing = _opened_string(line[assignment.end() :])


def _split(path: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(path))


def _opened_string(rest: str) -> str:
    """The closing mark when a multi-line string starts on this line and does not end on it."""
    for mark in ('"""', "'''"):
        if rest.lstrip().startswith(mark) and rest.count(mark) % 2:
            return mark
    return ""
