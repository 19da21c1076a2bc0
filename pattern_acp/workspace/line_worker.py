"""The process that matches lines for `search`.

Owns: reading one request from stdin and writing one JSON line a file with matches to its own stdout. Must not import
anything outside the standard library and `text_codec`, and must not know about ignore rules or limits of display.
"""

import json
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict, cast

from pattern_acp.workspace.text_codec import bom_encoding, is_western


class LineRequest(TypedDict):
    """A search; `limit` is matching lines a file, `names` are relative to `root`, "" being root itself."""

    pattern: str
    ignore_case: bool
    context: int
    limit: int
    max_bytes: int
    root: str
    names: list[str]


def main() -> int:
    """Serve one request; the exit code is 0 unless something unforeseen happened."""
    request = cast("LineRequest", json.load(sys.stdin.buffer))
    out = sys.stdout.buffer
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expression = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    except (re.error, OverflowError, RecursionError) as error:
        out.write(json.dumps(str(error)).encode() + b"\n")
        return 0
    for index, name in enumerate(request["names"]):
        text = read_text(Path(request["root"]) / name, request["max_bytes"])
        found = list(matching_lines(text, expression, request["context"], request["limit"]))
        if found:
            out.write(json.dumps([index, found]).encode() + b"\n")
            out.flush()
    return 0


def read_text(path: Path, max_bytes: int) -> str:
    """The text of a file, "" for one that is binary, too large or unreadable. Foreign bytes become U+FFFD."""
    try:
        if not path.is_file() or path.stat().st_size > max_bytes:
            return ""
        data = path.read_bytes()
    except OSError:
        return ""
    encoding = bom_encoding(data)
    if encoding in {"utf-16-le", "utf-16-be"}:
        return data[2:].decode(encoding, "replace")
    if b"\0" in data:
        return ""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252" if is_western(data) else "utf-8-sig", "replace")


def matching_lines(
    text: str, expression: re.Pattern[str], context: int, limit: int
) -> Iterator[tuple[int, str, int | None]]:
    """Matching lines (number, text, start of the match) with the lines around them, each line once."""
    if not text:
        return
    lines = text.removesuffix("\n").split("\n")
    shown = 0
    context_until = 0
    for number, raw in enumerate(lines, 1):
        line = raw.removesuffix("\r")
        match = expression.search(line) if limit else None
        if match is not None:
            for before in range(max(shown + 1, number - context), number):
                yield before, lines[before - 1].removesuffix("\r"), None
            yield number, line, match.start()
            shown, context_until, limit = number, number + context, limit - 1
        elif number <= context_until:
            yield number, line, None
            shown = number
