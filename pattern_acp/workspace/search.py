"""Finding files by name and text by regular expression.

Owns: what a search means, how it is bounded and shared among processes. The meaning is that of Python's `re` on one
line at a time. Our own processes match the lines (`line_worker`) and there is no second engine, so that an answer is
the same everywhere: `git grep` takes as much processor time for 100,000 files (benchmarks.md).
Must not know: how results are shown.
"""

import itertools
import json
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, cast

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream
from msgspec import Struct

from pattern_acp.domain.errors import PatternUnusableError, unwrap_exception_group
from pattern_acp.domain.globs import Glob, compile_glob
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.workspace.errors import SearchFailedError
from pattern_acp.workspace.git import run_lines
from pattern_acp.workspace.line_worker import LineRequest, Skipped
from pattern_acp.workspace.walk import in_thread, look_at, require_folder, walk_files

MAX_LINE_CHARS = 400
"""Characters shown of one line; a minified file has lines of megabytes."""

WHOLE_BYTES = 10_000_000
"""Larger files are searched in portions, which takes longer and as little memory as a small one."""

WORKERS = min(4, os.cpu_count() or 1)
"""Processes that a search is shared among; a small one starts one alone."""

PORTION_FILES = 2_000
"""Files that a process is handed at a time; they take about 20 ms."""


class TextQuery(Struct, frozen=True):
    """One search; `root` is absolute, and so are the paths for `may_read`. See `search.search_text`."""

    root: str
    pattern: str
    glob: Glob | None
    case_sensitive: bool
    context: int
    limit: int
    may_read: Callable[[str], bool]
    may_show: Callable[[str], bool]
    text: str | None = None
    """Text of `root`, where it is a file that is not read from the disk."""
    file_limit: int = 0
    """Matching lines of one file; 0 for as many as `limit`."""

    @property
    def spans_lines(self) -> bool:
        """True if the expression names the end of a line, and so may match several."""
        return spans_lines(self.pattern)

    def is_meant(self, name: str) -> bool:
        """Return whether the file of this name below the root, with forward slashes, is one of those to search."""
        return self.glob is None or self.glob.matches(name)

    def is_readable(self, name: str) -> bool:
        """Return whether the file of this name below the root may be searched."""
        return self.may_read is any_file or self.may_read(os.path.join(self.root, name))  # noqa: PTH118  for each file


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
    start: int = 0
    """The place of the match in `text`; 0 in a line that was cut."""


class SkippedFile(Struct, frozen=True):
    """A file or folder that was not searched, and why.

    `name` is relative to the root with forward slashes, "" for the root itself.
    """

    name: str
    reason: Skipped


class Matches(Struct, frozen=True):
    """The matching lines, by file and line.

    `stopped` is "limit" when more lines match, "time" when the search was cut off, "" when this is all. `left_out` are
    the names of the selected files that may not be read, whether or not a line of them would match.
    """

    root: str
    lines: tuple[MatchedLine, ...]
    stopped: Literal["", "limit", "time"] = ""
    left_out: tuple[str, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    """Files and folders that could not be searched."""

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
        self.skipped: list[SkippedFile] = []
        """See `Matches.skipped`."""
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
            text = shortened(line.text, line.match_start)
            start = line.match_start or 0 if len(line.text) <= MAX_LINE_CHARS else 0
            self._lines.append(MatchedLine(path, name, line.number, text, is_match, start))
        return True

    def result(self, *, timed_out: bool) -> Matches:
        """Return the collected lines."""
        stopped: Literal["", "limit", "time"] = "limit" if self._full else "time" if timed_out else ""
        skipped = tuple(sorted(self.skipped, key=lambda file: (file.reason, file.name)))
        return Matches(self._query.root, tuple(self._lines), stopped, tuple(sorted(self.left_out)), skipped)

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


_TOKEN = late_pattern(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{[^}]*\}?|.", re.DOTALL)
"""A part of an expression: an escape, a set, a number of repeats, or one character."""

_UNREAD = late_pattern(r"\(\?(?!:)|\\[xuUN0-9]")
"""Flags, look-around and escapes of characters by number, of whose expressions nothing is known."""

_UNLIKE_ITSELF = frozenset("iksIKS")
"""Letters that other characters than ASCII's are equal to where case does not count."""


def required_text(pattern: str, *, ignore_case: bool) -> str:
    """Return the longest text of ASCII that each line has in it which the valid expression `pattern` matches; often "".

    Too careful costs only time: files without this text are not decoded.
    """
    if _UNREAD.search(pattern):
        return ""
    texts, text, depth = [""], "", 0
    for part in _TOKEN.findall(pattern):
        if part == "|" and not depth:
            return ""
        depth += (part == "(") - (part == ")")
        if not depth and _is_itself(part) and not (ignore_case and part[-1] in _UNLIKE_ITSELF):
            text += part[-1]
            continue
        texts.append(text[:-1] if part[0] in "?*{" else text)
        text = ""
    return max(*texts, text, key=len)


def _is_itself(part: str) -> bool:
    """Return whether the part of an expression matches nothing but its last character, which is of ASCII."""
    if len(part) == 1:
        return part.isascii() and part not in "?*+{}.^$()|[]\\"
    return part[0] == "\\" and part[1].isascii() and not part[1].isalnum()


_PACKAGE_PARENT = str(Path(__file__).parents[2])
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from pattern_acp.workspace.line_worker import main; sys.exit(main())"
)


class _Portion(Struct):
    """Files that one process searches, and what was found in them so far: lines or a reason by place in `names`."""

    names: list[str]
    found: list[tuple[int, list[tuple[int, str, int | None]] | Skipped]] = []
    is_done: bool = False


class _LineSearch:
    """One search, shared among processes; files come to the collector in order whichever is done first."""

    def __init__(self, query: TextQuery, collector: MatchCollector) -> None:
        self._query = query
        self._collector = collector
        self._portions: dict[int, _Portion] = {}
        """Those that are not wholly collected, by number."""
        self._next = 0
        """The portion that is collected now."""
        self._scope = anyio.CancelScope()
        self._failure = ""
        self._ended_badly = False

    async def run(self) -> None:
        """Search all files that the query selects until the collector has enough.

        Raises:
            WorkspaceError: a process failed.
        """
        send, receive = anyio.create_memory_object_stream[int](16)
        try:
            with self._scope:
                async with anyio.create_task_group() as processes:
                    with send, receive:
                        async for names in self._portions_of_names():
                            number = len(self._portions) + self._next
                            self._portions[number] = _Portion(names)
                            if number < WORKERS:
                                processes.start_soon(self._process, receive.clone())
                            await send.send(number)
        except BaseExceptionGroup as errors:
            raise unwrap_exception_group(errors) from errors
        if self._failure:
            raise PatternUnusableError(
                f"The regular expression is not valid: {self._failure}. Escape special characters."
            )
        if self._ended_badly:
            raise SearchFailedError("The search ended unexpectedly; try a simpler pattern or a smaller folder.")

    async def _portions_of_names(self) -> AsyncGenerator[list[str], None]:
        query, stop = self._query, threading.Event()
        if query.text is not None or await anyio.to_thread.run_sync(os.path.isfile, query.root):
            yield [""]
            return
        files = self._names(stop)
        try:
            while names := await in_thread(lambda _stop: list(itertools.islice(files, PORTION_FILES))):
                yield names
        finally:
            stop.set()

    def _names(self, stop: threading.Event) -> Iterator[str]:
        """The files to search. Runs in a worker thread."""
        query, collector = self._query, self._collector

        def note(name: str) -> None:
            collector.skipped.append(SkippedFile(name, "unreadable"))

        for walked in walk_files(query.root, stop, note):
            if walked.is_link or not query.is_meant(walked.name):
                continue
            if not query.is_readable(walked.name):
                collector.left_out.append(walked.name)
            elif walked.entry.is_file(follow_symlinks=False):
                yield walked.name
            else:
                note(walked.name)

    async def _process(self, numbers: MemoryObjectReceiveStream[int]) -> None:
        # -I and -S: neither the user's environment nor their site-packages change the search, and it starts faster.
        command = [sys.executable, "-I", "-S", "-c", _START, _PACKAGE_PARENT]
        with numbers:
            end = await run_lines(command, self._query.root, self._requests(numbers), self._take)
        if end.exit_code not in {0, None}:
            self._ended_badly = True
        if end.exit_code != 0:
            self._scope.cancel()

    async def _requests(self, numbers: MemoryObjectReceiveStream[int]) -> AsyncGenerator[bytes, None]:
        query = self._query
        request = LineRequest(
            pattern=query.pattern,
            ignore_case=not query.case_sensitive,
            literal=required_text(query.pattern.replace("\n", r"\n"), ignore_case=not query.case_sensitive),
            context=query.context,
            limit=min(query.file_limit or query.limit, query.limit) + 1,
            whole_bytes=WHOLE_BYTES,
            root=query.root,
            spans_lines=query.spans_lines,
        )
        yield json.dumps(request).encode() + b"\n"
        async for number in numbers:
            portion: list[object] = [number, self._portions[number].names]
            yield json.dumps(portion if query.text is None else [*portion, query.text]).encode() + b"\n"

    def _take(self, line: bytes) -> bool:
        if not line:
            return True
        record = json.loads(line)
        if isinstance(record, str):
            self._failure = record
            return False
        # The worker is our own code, so that its lists are what it says.
        number, *rest = cast("tuple[int, int, list[tuple[int, str, int | None]] | Skipped]", record)
        portion = self._portions[number]
        if rest:
            portion.found.append(cast("tuple[int, list[tuple[int, str, int | None]] | Skipped]", tuple(rest)))
        else:
            portion.is_done = True
        while (portion := self._portions.get(self._next)) is not None:
            if not all(self._collect(portion.names[index], found) for index, found in portion.found):
                return False
            portion.found.clear()
            if not portion.is_done:
                break
            del self._portions[self._next]
            self._next += 1
        return True

    def _collect(self, name: str, found: "list[tuple[int, str, int | None]] | Skipped") -> bool:
        if isinstance(found, str):
            self._collector.skipped.append(SkippedFile(name, found))
            return True
        if found and not self._query.may_show(os.path.join(self._query.root, name)):  # noqa: PTH118  for each file
            return True
        return self._collector.add_file(name, [RawLine(*fields) for fields in found])


MAX_FOUND = 100_000
"""Matching files after which finding stops."""

SEARCH_SECONDS = 20.0
"""Long enough for a large repository, short enough not to look like a hang."""


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
    time_limit: float = SEARCH_SECONDS,
    may_read: Callable[[str], bool] = any_file,
    may_show: Callable[[str], bool] = any_file,
    text: str | None = None,
    file_limit: int = 0,
) -> Matches:
    """Find lines of text files below `root` (or of the one file `root`) that a regular expression matches.

    One that names the end of a line is matched with whole texts; every line of a match then counts.
    `file_limit` is the number of matching lines of one file, 0 for as many as there may be in all.
    Ignored files and links are left out; `Matches.skipped` names what cannot be searched, such as binary files.
    `context` is lines shown around a match, `limit` the number of matching lines; `Matches.stopped` says when there may
    be more. `time_limit` is in seconds. `text` stands for what the one file `root` has on the disk.
    Files below a folder that `may_read` says no to are left out before anything is counted, so that nothing in the
    answer depends on what they hold; `Matches.left_out` names them.
    `may_show` is asked about files with matches alone, and what it says no to counts as if nothing matched: it may look
    at the file, which takes too long for each that is searched. It is called on the event loop.

    Raises:
        FileMissingError: there is no such file or folder.
        WorkspaceError: the expression or the glob cannot be used.
    """
    _check_expression(pattern)
    selection = compile_glob(glob, root) if glob else None
    query = TextQuery(root, pattern, selection, case_sensitive, context, limit, may_read, may_show, text, file_limit)
    if text is None:
        await anyio.to_thread.run_sync(look_at, root)
    collector = MatchCollector(query)
    with anyio.move_on_after(time_limit) as scope:
        await _LineSearch(query, collector).run()
    return collector.result(timed_out=scope.cancelled_caught)


_LINE_END = late_pattern(r"(?<!\\)(?:\\\\)*\\n|\n")


def spans_lines(pattern: str) -> bool:
    """Tell whether an expression names the end of a line."""
    return _LINE_END.search(pattern) is not None


def _check_expression(pattern: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternUnusableError(
            f"The regular expression is not valid: {error}. Escape special characters."
        ) from error
