"""Our own text search, for machines without ripgrep and for expressions that ripgrep reads differently.

Owns: handing files to `line_worker`, which runs in a process of its own: Python's `re` may take years over one line,
holds the interpreter while it does, and can only be stopped from outside. Must not know: how results are cut or shown.
"""

import json
import os
import sys
import threading
from pathlib import Path
from typing import TypeGuard

from pattern_acp.workspace.errors import PatternUnusableError, SearchFailedError
from pattern_acp.workspace.matches import MAX_SEARCHED_BYTES, MatchCollector, RawLine, TextQuery
from pattern_acp.workspace.search_process import run_lines
from pattern_acp.workspace.walk import in_thread, walk_files

MAX_FILES = 200_000
"""Files searched at most; their names travel to the worker in one piece."""

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

    # -I and -S: neither the person's environment nor their site-packages change the search, and it starts faster.
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
    """The worker is our own code, so that its list of two is what it says."""
    return isinstance(record, list)
