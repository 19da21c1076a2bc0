"""What a text search asks and gives.

Owns: the query, the lines found, and cutting both long lines and long results the same way for every engine. Must not
know: how lines are found.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from pattern_acp.workspace.globs import Glob

MAX_LINE_CHARS = 400
"""Characters shown of one line; a minified file has lines of megabytes."""

MAX_SEARCHED_BYTES = 10_000_000
"""Larger files are data, not text that a person wrote."""


class TextQuery(Struct, frozen=True):
    """One search; `root` is absolute, and so are the paths that `may_read` is asked for. See `search.search_text`."""

    root: str
    pattern: str
    glob: Glob | None
    case_sensitive: bool
    context: int
    limit: int
    may_read: Callable[[str], bool]

    def is_meant(self, name: str) -> bool:
        """Whether the file of this name below the root, with forward slashes, is one of those to search."""
        return self.glob is None or self.glob.matches(name)

    def is_readable(self, name: str) -> bool:
        """Whether the file of this name below the root may be searched."""
        return self.may_read(str(Path(self.root, name)))


class RawLine(Struct, frozen=True):
    """A line as an engine found it: 1-based number, whole text without its end, and where the first match starts."""

    number: int
    text: str
    match_start: int | None = None


class MatchedLine(Struct, frozen=True):
    """A line to show. `name` is relative to the root with forward slashes, `path` absolute, `line` 1-based.

    Lines of context have `is_match` False. `text` is cut around the match and marked with `…` when it was long.
    """

    path: str
    name: str
    line: int
    text: str
    is_match: bool


class Matches(Struct, frozen=True):
    """The lines found, by file and line.

    `stopped` is "limit" when more lines match, "time" when the search was cut off, "" when this is all. `left_out` are
    the names of the files that were to be searched and may not be read, whether or not a line of them would match.
    """

    root: str
    lines: tuple[MatchedLine, ...]
    stopped: Literal["", "limit", "time"] = ""
    left_out: tuple[str, ...] = ()

    @property
    def match_count(self) -> int:
        """How many of the lines match."""
        return sum(line.is_match for line in self.lines)

    @property
    def file_count(self) -> int:
        """How many files they are in."""
        return len({line.name for line in self.lines})


class MatchCollector:
    """Gathers lines, file by file, until the limit is passed."""

    def __init__(self, query: TextQuery) -> None:
        self.left_out: list[str] = []
        """See `Matches.left_out`."""
        self._query = query
        self._lines: list[MatchedLine] = []
        self._matches = 0
        self._full = False

    def add_file(self, name: str, lines: Sequence[RawLine]) -> bool:
        """Take the lines of one file, in order; False when no more are wanted. `name` is "" for the root itself."""
        root = Path(self._query.root)
        path, name = (str(root / name), name) if name else (str(root), root.name)
        last_match = 0
        for line in lines:
            is_match = line.match_start is not None
            if is_match and self._matches == self._query.limit:
                self._full = True
                self._drop_context_after(name, last_match)
                return False
            if is_match:
                self._matches += 1
                last_match = line.number
            self._lines.append(MatchedLine(path, name, line.number, shortened(line.text, line.match_start), is_match))
        return True

    def result(self, *, timed_out: bool) -> Matches:
        """What was gathered."""
        stopped: Literal["", "limit", "time"] = "limit" if self._full else "time" if timed_out else ""
        return Matches(self._query.root, tuple(self._lines), stopped, tuple(sorted(self.left_out)))

    def _drop_context_after(self, name: str, last_match: int) -> None:
        """Lines before the match that was one too many belong to it, unless they follow the last match closely."""
        end = last_match + self._query.context if last_match else 0
        while self._lines and self._lines[-1].name == name and self._lines[-1].line > end:
            self._lines.pop()


def shortened(text: str, match_start: int | None) -> str:
    """At most `MAX_LINE_CHARS` of a line, with the start of the match in view."""
    if len(text) <= MAX_LINE_CHARS:
        return text
    start = max(0, min((match_start or 0) - MAX_LINE_CHARS // 4, len(text) - MAX_LINE_CHARS))
    cut = text[start : start + MAX_LINE_CHARS]
    return f"{'…' if start else ''}{cut}{'…' if start + MAX_LINE_CHARS < len(text) else ''}"
