"""Text search by ripgrep, where it is installed.

Owns: asking ripgrep for exactly what `line_search` would find, and reading its JSON. Must not know: how results are cut
or shown.
"""

import base64
import shutil
from pathlib import Path

import msgspec

from pattern_acp.workspace.flavour import PLATFORM
from pattern_acp.workspace.ignore import rules_for
from pattern_acp.workspace.matches import MAX_SEARCHED_BYTES, MatchCollector, RawLine, TextQuery
from pattern_acp.workspace.search_process import run_lines
from pattern_acp.workspace.text_codec import is_western
from pattern_acp.workspace.walk import in_thread


class _Text(msgspec.Struct):
    """ripgrep's text: plain, or base64 where it is not UTF-8."""

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
    """Where ripgrep is, if it is installed."""
    return shutil.which("rg")


async def search_with_ripgrep(program: str, query: TextQuery, collector: MatchCollector) -> bool:
    """Search the folder `query.root`; False when ripgrep does not understand the query and another way is needed."""
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
    """Let the collector know the files that the search passes over: ripgrep tells only of files with matches."""
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
    """What says which files are looked at."""
    # A glob that selects files would bring ignored ones back, so the query's own glob is applied to what comes out.
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
