"""What a running server is told of files, and what it says of them.

Owns: sending each text once the server may have it, and asking servers that speak only when asked. Must not know: how
the server is started or ended.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio

from pattern_acp.lsp.model import Diagnostic, LanguageServerError
from pattern_acp.lsp.server import OpenFile, OpenFiles

if TYPE_CHECKING:
    from pattern_acp.lsp.connection import Connection

logger = logging.getLogger(__name__)


class ToldFiles:
    """The files of one server, over all of its starts. `used` is called whenever it has something to do."""

    def __init__(self, used: Callable[[], None]) -> None:
        self.files = OpenFiles(self._tell_change)
        self._used = used
        self._connection: Connection | None = None
        self._wanted = anyio.Event()
        """Set when there is something to ask."""

    def connect(self, connection: "Connection") -> None:
        """Tell a server that has just started all files; what it does not say of them now nobody knows."""
        self._connection = connection
        self.files.forget_answers()
        for file in tuple(self.files.by_path.values()):
            self.open(file)

    def disconnect(self) -> None:
        """The server is gone, or is to be."""
        self._connection = None

    def open(self, file: OpenFile | None) -> None:
        """Tell of a file, at once or when the server is ready; nothing for None."""
        self._used()
        if file is None:
            return
        self.close(self.files.superfluous())
        if self._connection is not None:
            self._connection.open(file.path, file.language, file.version, file.text)
            self._wanted.set()

    def close(self, paths: Sequence[str]) -> None:
        """Forget files that are gone."""
        for path in self.files.drop(paths):
            if self._connection is not None:
                self._connection.close(path)

    def take(self, path: str, version: int | None, found: tuple[Diagnostic, ...]) -> None:
        """What the server finds wrong in a file."""
        self.files.note_found(path, version, found, anyio.current_time())

    async def wait_complete(self, is_alive: Callable[[], bool]) -> None:
        """Wait until all is known of every edited file, or never will be; the caller sets the limit of time."""
        self._used()
        while is_alive():
            news = self.files.news
            if not self.files.incomplete(anyio.current_time()):
                return
            with anyio.move_on_after(0.05):
                # What was said counts as all of it only after a moment without another word.
                await news.wait()

    async def keep_advancing(self) -> None:
        """Tell the texts that wait for the server's word on the text before."""
        while True:
            news = self.files.news
            due = self.files.advance(anyio.current_time())
            with anyio.move_on_after(due):
                await news.wait()

    async def keep_asking(self, connection: "Connection", seconds: float) -> None:
        """Ask for what is wrong in every file, again after each change; returns when the server hangs."""
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            for file in tuple(self.files.by_path.values()):
                version = file.version
                try:
                    with anyio.fail_after(seconds):
                        found = await connection.diagnostics(file.path)
                except TimeoutError:
                    return
                except LanguageServerError as error:
                    logger.info("No diagnostics: %s", error.sentence)
                    continue
                if found is not None:
                    self.take(file.path, version, found)

    def _tell_change(self, file: OpenFile) -> None:
        self._used()
        if self._connection is not None:
            self._connection.change(file.path, file.version, file.text)
            self._wanted.set()
