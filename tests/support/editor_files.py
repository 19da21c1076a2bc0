"""The files of `FakeEditor`: open buffers over the disk, and the bad habits of real editors.

Owns: fs/read_text_file and fs/write_text_file. Must not know: who asks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec

from pattern_acp.jsonrpc.dispatcher import RequestContext, RequestHandler
from pattern_acp.jsonrpc.messages import RpcError

JsonDict = dict[str, Any]
"""A JSON object as tests read and write it."""


@dataclass(slots=True)
class FileHabits:
    """What this editor does wrong or on its own; a test may change it at any time."""

    mute: bool = False
    """Never answers fs requests."""
    error: RpcError | None = None
    """Answers every fs request with this."""
    write_error: RpcError | None = None
    """Answers every write with this."""
    hold: anyio.Event | None = None
    """Answers no fs request before this is set."""
    missing_as_empty: bool = False
    """Answers "" for a file that does not exist (CodeCompanion, Toad)."""
    drops_newline: bool = False
    """Leaves the final newline out of what is read (avante, agentic, Toad)."""
    formatter: Callable[[str], str] = str
    """What it makes of a text that is written."""
    saves: bool = True
    """Whether a write reaches the disk or stays in the buffer."""
    before_read: Callable[[str], None] = lambda _path: None
    """Called with the path before a read is answered; a person may be typing."""


class FakeEditorFiles:
    """Open buffers by absolute path; what is not open is read from the disk. A write is saved at once."""

    def __init__(self, params: Callable[[str, msgspec.Raw], JsonDict], buffers: Mapping[str, str] | None) -> None:
        self._params = params
        self.buffers = dict(buffers or {})
        self.habits = FileHabits()

    def handlers(self) -> dict[str, RequestHandler]:
        """The fs/* methods."""
        return {"fs/read_text_file": self._read, "fs/write_text_file": self._write}

    async def _read(self, raw: msgspec.Raw, context: RequestContext) -> JsonDict:
        asked = await self._begin(raw, context)
        path: str = asked["path"]
        self.habits.before_read(path)
        if path in self.buffers:
            return {"content": self._told(_window(self.buffers[path], asked))}
        file = anyio.Path(path)
        if await file.is_file():
            return {"content": self._told(_window((await file.read_bytes()).decode("utf-8"), asked))}
        if self.habits.missing_as_empty:
            return {"content": ""}
        raise RpcError(-32002, "Resource not found", {"uri": path})

    async def _write(self, raw: msgspec.Raw, context: RequestContext) -> None:
        asked = await self._begin(raw, context)
        path: str = asked["path"]
        text = self.habits.formatter(asked["content"])
        self.buffers[path] = text
        if self.habits.saves:
            file = anyio.Path(path)
            await file.parent.mkdir(parents=True, exist_ok=True)
            await file.write_bytes(text.encode("utf-8"))

    def _told(self, text: str) -> str:
        return text.removesuffix("\n") if self.habits.drops_newline else text

    async def _begin(self, raw: msgspec.Raw, context: RequestContext) -> JsonDict:
        asked = self._params(context.method, raw)
        if self.habits.mute:
            await anyio.sleep_forever()
        if self.habits.hold is not None:
            await self.habits.hold.wait()
        error = self.habits.error or (self.habits.write_error if context.method == "fs/write_text_file" else None)
        if error is not None:
            raise error
        return asked


def _window(text: str, asked: JsonDict) -> str:
    """The lines from `line`, which counts from 1, `limit` of them at most."""
    start = (asked.get("line") or 1) - 1
    limit = asked.get("limit")
    return "".join(text.splitlines(keepends=True)[start : None if limit is None else start + limit])
