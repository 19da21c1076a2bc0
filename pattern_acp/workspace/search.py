"""Finding files by name and text by regular expression.

Owns: what a search means and how it is bounded; `ripgrep` and `line_search` are two ways to the same lines. The meaning
is that of Python's `re` on one line at a time; ripgrep only does the patterns that mean the same to both. Must not
know: how results are shown.
"""

import re
import stat
import threading
import time
import warnings
from collections.abc import Callable

import anyio
import anyio.to_thread
from msgspec import Struct

from pattern_acp.workspace.errors import PatternUnusableError
from pattern_acp.workspace.globs import compile_glob
from pattern_acp.workspace.line_search import search_lines
from pattern_acp.workspace.matches import MatchCollector, Matches, TextQuery
from pattern_acp.workspace.ripgrep import find_ripgrep, note_left_out, search_with_ripgrep
from pattern_acp.workspace.walk import in_thread, look_at, require_folder, walk_files

MAX_FOUND = 100_000
"""Matching files after which finding stops."""

SEARCH_SECONDS = 20.0
"""Long enough for a large repository, short enough that a person does not think it hangs."""

LISTING_SECONDS = 5.0
"""Longest that listing the files which a search left out may take."""

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
"""Anything that might mean something else to ripgrep; too careful costs only speed."""


class FoundFile(Struct, frozen=True):
    """A file below the root; `name` is relative with forward slashes, `path` absolute, `mtime_ns` since 1970."""

    path: str
    name: str
    mtime_ns: int


class Found(Struct, frozen=True):
    """The newest files that match, and how many there are in all; `complete` is False when counting stopped early.

    `timed_out` says that it stopped for time.
    """

    root: str
    files: tuple[FoundFile, ...]
    total: int
    complete: bool = True
    timed_out: bool = False


async def find_files(root: str, pattern: str, *, limit: int, time_limit: float = SEARCH_SECONDS) -> Found:
    """Files below `root` whose relative name matches a glob, newest first; ignored files and `.git` are left out.

    After `time_limit` seconds, what was found so far is the answer: below `/` there may be millions.

    Raises:
        FileMissingError: there is no such folder.
        WorkspaceError: `root` is a file, or the pattern cannot be used.
    """
    glob = compile_glob(pattern, root)

    def work(stop: threading.Event) -> Found:
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
        return Found(root, tuple(found[:limit]), len(found), len(found) < MAX_FOUND and not timed_out, timed_out)

    return await in_thread(work)


def any_file(_path: str) -> bool:
    """What lets every file be searched."""
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
    """Lines of text files below `root` (or of the one file `root`) that a regular expression matches.

    Ignored files, binary files, links and files over 10 MB are left out. `context` is lines shown around a match,
    `limit` the number of matching lines; `Matches.stopped` says when there may be more. `time_limit` is in seconds.
    Files below a folder that `may_read` says no to are left out before anything is counted, so that nothing in the
    answer depends on what they hold; `Matches.left_out` names them.

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
