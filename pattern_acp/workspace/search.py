"""Finding files by name and text by regular expression.

Owns: the meaning and the bounds of a search; ripgrep and our own search are two ways to the same lines. The meaning is
that of Python's `re` on one line at a time; ripgrep only gets the patterns with the same meaning in both. Must not
know: how results are shown.
"""

import base64
import json
import os
import re
import shutil
import stat
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeGuard

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from pattern_acp.domain.errors import PatternUnusableError
from pattern_acp.domain.globs import Glob, compile_glob
from pattern_acp.domain.paths import PLATFORM
from pattern_acp.workspace.errors import SearchFailedError
from pattern_acp.workspace.ignore_rules import rules_for
from pattern_acp.workspace.search_process import run_lines
from pattern_acp.workspace.text_codec import is_western
from pattern_acp.workspace.walk import in_thread, look_at, require_folder, walk_files

MAX_LINE_CHARS = 400
"""Characters shown of one line; a minified file has lines of megabytes."""

MAX_SEARCHED_BYTES = 10_000_000
"""Larger files are data, not text that people wrote."""


class TextQuery(Struct, frozen=True):
    """One search; `root` is absolute, and so are the paths for `may_read`. See `search.search_text`."""

    root: str
    pattern: str
    glob: Glob | None
    case_sensitive: bool
    context: int
    limit: int
    may_read: Callable[[str], bool]

    def is_meant(self, name: str) -> bool:
        """Return whether the file of this name below the root, with forward slashes, is one of those to search."""
        return self.glob is None or self.glob.matches(name)

    def is_readable(self, name: str) -> bool:
        """Return whether the file of this name below the root may be searched."""
        return self.may_read(str(Path(self.root, name)))


class RawLine(Struct, frozen=True):
    """A line from an engine: 1-based number, whole text without its end, and the start of the first match."""

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
    """The matching lines, by file and line.

    `stopped` is "limit" when more lines match, "time" when the search was cut off, "" when this is all. `left_out` are
    the names of the selected files that may not be read, whether or not a line of them would match.
    """

    root: str
    lines: tuple[MatchedLine, ...]
    stopped: Literal["", "limit", "time"] = ""
    left_out: tuple[str, ...] = ()

    @property
    def match_count(self) -> int:
        """Number of matching lines."""
        return sum(line.is_match for line in self.lines)

    @property
    def file_count(self) -> int:
        """Number of files with matches."""
        return len({line.name for line in self.lines})


class MatchCollector:
    """Collects lines, file by file, until the limit is passed."""

    def __init__(self, query: TextQuery) -> None:
        self.left_out: list[str] = []
        """See `Matches.left_out`."""
        self._query = query
        self._lines: list[MatchedLine] = []
        self._matches = 0
        self._full = False

    def add_file(self, name: str, lines: Sequence[RawLine]) -> bool:
        """Add the lines of one file, in order; return False when no more are needed. `name` is "" for the root."""
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
        """Return the collected lines."""
        stopped: Literal["", "limit", "time"] = "limit" if self._full else "time" if timed_out else ""
        return Matches(self._query.root, tuple(self._lines), stopped, tuple(sorted(self.left_out)))

    def _drop_context_after(self, name: str, last_match: int) -> None:
        """Drop lines before the match that was one too many, unless they follow the last match closely."""
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


class _Text(msgspec.Struct):
    """ripgrep's text: plain, or base64 if it is not UTF-8."""

    text: str | None = None
    base64: str | None = msgspec.field(name="bytes", default=None)


def _plain(text: _Text | None) -> bytes:
    if text is None:
        return b""
    return text.text.encode() if text.text is not None else base64.b64decode(text.base64 or "")


class _Submatch(msgspec.Struct):
    start: int


class _Data(msgspec.Struct):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None
    submatches: list[_Submatch] = []
    binary_offset: int | None = None


class _Record(msgspec.Struct):
    type: str
    data: _Data


_decoder = msgspec.json.Decoder(_Record)


def find_ripgrep() -> str | None:
    """Path of ripgrep, if it is installed."""
    return shutil.which("rg")


async def search_with_ripgrep(program: str, query: TextQuery, collector: MatchCollector) -> bool:
    """Search the folder `query.root`; return False when ripgrep does not understand the query."""
    rules = await in_thread(lambda _stop: rules_for(Path(query.root).resolve()))
    command = [program, *_arguments(query, inherits=rules.inherits)]
    reader = _Reader(query, collector)
    try:
        end = await run_lines(command, query.root, None, reader.take)
    except msgspec.DecodeError:
        return False
    # Code 2 with nothing on stderr means that some file could not be opened, which we pass over as well.
    return end.exit_code in {0, 1, None} or (end.exit_code == 2 and not end.stderr.strip())


async def note_left_out(program: str, query: TextQuery, collector: MatchCollector) -> None:
    """Tell the collector which files the search skips: ripgrep reports only files with matches."""
    rules = await in_thread(lambda _stop: rules_for(Path(query.root).resolve()))
    names: list[bytes] = []

    def take(line: bytes) -> bool:
        names.append(line)
        return True

    await run_lines([program, "--files", *_files(inherits=rules.inherits), "--", "./"], query.root, None, take)
    collector.left_out = await in_thread(
        lambda _stop: [name for name in map(_shown, names) if _is_left_out(name, query)]
    )


def _shown(line: bytes) -> str:
    return _below_root(line.rstrip(b"\r\n").decode("utf-8", "surrogateescape"))


def _is_left_out(name: str, query: TextQuery) -> bool:
    return bool(name) and query.is_meant(name) and not query.is_readable(name)


def _files(*, inherits: bool) -> list[str]:
    """Options that select the files."""
    # A glob that selects files would bring ignored ones back, so the query's own glob is applied to the output.
    arguments = ["--no-config", "--no-messages", "--hidden", "--glob", "!.git", "--no-ignore-dot", "--no-ignore-global"]
    arguments += ["--max-filesize", str(MAX_SEARCHED_BYTES)]
    return arguments if inherits else [*arguments, "--no-ignore-parent", "--no-require-git"]


def _arguments(query: TextQuery, *, inherits: bool) -> list[str]:
    arguments = ["--json", "--sort", "path", "--crlf", *_files(inherits=inherits)]
    arguments += ["--max-count", str(query.limit + 1), "--context", str(query.context)]
    if not query.case_sensitive:
        arguments.append("--ignore-case")
    return [*arguments, "--regexp", query.pattern, "--", "./"]


class _Reader:
    """Collects the lines of one file and passes them on at its end, when it is known whether the file is binary."""

    def __init__(self, query: TextQuery, collector: MatchCollector) -> None:
        self._collector = collector
        self._query = query
        self._name = ""
        self._is_selected = False
        self._lines: list[RawLine] = []

    def take(self, line: bytes) -> bool:
        if not line:
            return True
        record = _decoder.decode(line)
        data = record.data
        if record.type == "begin" and data.path is not None:
            self._name, self._lines = _name(data.path), []
            self._is_selected = self._query.is_meant(self._name) and self._query.is_readable(self._name)
        elif record.type in {"match", "context"} and self._is_selected:
            self._lines.append(_raw_line(data))
        elif record.type == "end" and data.binary_offset is None and self._lines:
            return self._collector.add_file(self._name, self._lines)
        return True


def _name(path: _Text) -> str:
    return _below_root(_plain(path).decode("utf-8", "surrogateescape"))


def _below_root(name: str) -> str:
    return (name.replace("\\", "/") if PLATFORM.windows else name).removeprefix("./")


def _raw_line(data: _Data) -> RawLine:
    line = _plain(data.lines)
    encoding = "cp1252" if is_western(line) else "utf-8"
    text = line.removesuffix(b"\n").removesuffix(b"\r").decode(encoding, "replace")
    start = len(line[: data.submatches[0].start].decode(encoding, "replace")) if data.submatches else None
    return RawLine(data.line_number or 0, text, start)


MAX_FILES = 200_000
"""Limit on searched files; their names go to the worker in one piece."""

_PACKAGE_PARENT = str(Path(__file__).parents[2])
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from pattern_acp.workspace.line_worker import main; sys.exit(main())"
)


async def search_lines(query: TextQuery, collector: MatchCollector) -> None:
    """Search all files that the query selects, in order, until the collector has enough.

    Raises:
        WorkspaceError: the worker failed.
    """
    names, collector.left_out = await in_thread(lambda stop: _names(query, stop))
    if not names:
        return
    request = {
        "pattern": query.pattern,
        "ignore_case": not query.case_sensitive,
        "context": query.context,
        "limit": query.limit + 1,
        "max_bytes": MAX_SEARCHED_BYTES,
        "root": query.root,
        "names": names,
    }
    failure = ""

    def take(line: bytes) -> bool:
        nonlocal failure
        record: object = json.loads(line)
        if isinstance(record, str):
            failure = record
            return False
        if not _is_file_record(record):
            return True
        index, lines = record
        return collector.add_file(names[index], [RawLine(*fields) for fields in lines])

    # -I and -S: neither the user's environment nor their site-packages change the search, and it starts faster.
    command = [sys.executable, "-I", "-S", "-c", _START, _PACKAGE_PARENT]
    end = await run_lines(command, query.root, json.dumps(request).encode(), take)
    if failure:
        raise PatternUnusableError(f"The regular expression is not valid: {failure}. Escape special characters.")
    if end.exit_code not in {0, None}:
        raise SearchFailedError("The search ended unexpectedly; try a simpler pattern or a smaller folder.")


def _names(query: TextQuery, stop: threading.Event) -> tuple[list[str], list[str]]:
    """The files to search, and those that may not be read."""
    if os.path.isfile(query.root):  # noqa: PTH113  a Path raises where it may not look
        return [""], []
    names: list[str] = []
    left_out: list[str] = []
    for walked in walk_files(query.root, stop):
        if walked.is_link or not query.is_meant(walked.name):
            continue
        (names if query.is_readable(walked.name) else left_out).append(walked.name)
        if len(names) == MAX_FILES:
            break
    return names, left_out


def _is_file_record(record: object) -> TypeGuard[tuple[int, list[tuple[int, str, int | None]]]]:
    """Check a record's form roughly: the worker is our own code."""
    return isinstance(record, list)


MAX_FOUND = 100_000
"""Matching files after which finding stops."""

SEARCH_SECONDS = 20.0
"""Long enough for a large repository, short enough not to look like a hang."""

LISTING_SECONDS = 5.0
"""Longest time to list the files that a search left out."""

_NOT_PORTABLE = re.compile(
    r"""
      \\[^dDsSwWbBnrt.*+?()\[\]{}|^$/\\-]   # escapes that differ, back-references among them
    | \[[^\]]*[\[&~]                        # nested classes and set operations, only ripgrep has them
    | \[[^\]]*--
    | \(\?(?![:i])                          # look-around, names, comments, conditions
    | \{,                                   # an open lower bound
    | [*+?}]\+                              # possessive repeats
    | [^\x00-\x7f]
    """,
    re.VERBOSE,
)
"""Syntax that may have another meaning in ripgrep; too strict costs only speed."""


class FoundFile(Struct, frozen=True):
    """A file below the root; `name` is relative with forward slashes, `path` absolute, `mtime_ns` since 1970."""

    path: str
    name: str
    mtime_ns: int


class SearchHits(Struct, frozen=True):
    """The newest matching files, and the number of all; `complete` is False when counting stopped early.

    `timed_out` marks a stop by the clock.
    """

    root: str
    files: tuple[FoundFile, ...]
    total: int
    complete: bool = True
    timed_out: bool = False


async def find_files(root: str, pattern: str, *, limit: int, time_limit: float = SEARCH_SECONDS) -> SearchHits:
    """Find files below `root` whose relative name matches a glob, newest first, without ignored files and `.git`.

    After `time_limit` seconds, the matches so far are the answer: below `/` there may be millions.

    Raises:
        FileMissingError: there is no such folder.
        WorkspaceError: `root` is a file, or the pattern cannot be used.
    """
    glob = compile_glob(pattern, root)

    def work(stop: threading.Event) -> SearchHits:
        require_folder(root)
        found: list[FoundFile] = []
        ends, timed_out = time.monotonic() + time_limit, False
        for walked in walk_files(root, stop):
            if timed_out := time.monotonic() >= ends:
                break
            if not glob.matches(walked.name):
                continue
            try:
                mtime_ns = walked.entry.stat(follow_symlinks=False).st_mtime_ns
            except OSError:
                continue
            found.append(FoundFile(walked.entry.path, walked.name, mtime_ns))
            if len(found) == MAX_FOUND:
                break
        found.sort(key=lambda file: (-file.mtime_ns, file.name))
        return SearchHits(root, tuple(found[:limit]), len(found), len(found) < MAX_FOUND and not timed_out, timed_out)

    return await in_thread(work)


def any_file(_path: str) -> bool:
    """Accept every file."""
    return True


async def search_text(  # noqa: PLR0913  # each is a filter of its own, most at their defaults
    root: str,
    pattern: str,
    *,
    glob: str | None = None,
    case_sensitive: bool = True,
    context: int = 0,
    limit: int = 200,
    use_ripgrep: bool = True,
    time_limit: float = SEARCH_SECONDS,
    may_read: Callable[[str], bool] = any_file,
) -> Matches:
    """Find lines of text files below `root` (or of the one file `root`) that a regular expression matches.

    Ignored files, binary files, links and files over 10 MB are left out. `context` is lines shown around a match,
    `limit` the number of matching lines; `Matches.stopped` marks an incomplete answer. `time_limit` is in seconds.
    Files below a folder that `may_read` rejects are left out before anything is counted, so that the answer does not
    depend on their contents; `Matches.left_out` names them.

    Raises:
        FileMissingError: there is no such file or folder.
        WorkspaceError: the expression or the glob cannot be used.
    """
    _check_expression(pattern)
    selection = compile_glob(glob, root) if glob else None
    query = TextQuery(root, pattern, selection, case_sensitive, context, limit, may_read)
    found = await anyio.to_thread.run_sync(look_at, root)
    ripgrep = find_ripgrep() if use_ripgrep and _NOT_PORTABLE.search(pattern) is None else None
    collector = MatchCollector(query)
    done = False
    with anyio.move_on_after(time_limit) as scope:
        if ripgrep and stat.S_ISDIR(found.st_mode):
            done = await search_with_ripgrep(ripgrep, query, collector)
        if not done:
            collector = MatchCollector(query)
            await search_lines(query, collector)
    if ripgrep and done and may_read is not any_file:
        with anyio.move_on_after(LISTING_SECONDS):
            await note_left_out(ripgrep, query, collector)
    return collector.result(timed_out=scope.cancelled_caught)


def _check_expression(pattern: str) -> None:
    if "\n" in pattern:
        raise PatternUnusableError("The pattern holds a line break, but lines are searched one by one; give one line.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternUnusableError(
            f"The regular expression is not valid: {error}. Escape special characters."
        ) from error
