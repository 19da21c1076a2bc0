"""The language servers of a session.

Owns: what they are told and asked, and which errors are new since an edit. Must not know: sessions, tools, or what is
done with what servers say. Which server a file has is `lsp/started.py`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio.abc import TaskGroup

from pattern_acp.config.settings import LspSettings
from pattern_acp.lsp.languages import language_of
from pattern_acp.lsp.model import FileEdits, Introduced, LanguageServerError, Span
from pattern_acp.lsp.model import Place as FoundPlace
from pattern_acp.lsp.server import Connect, load_connect
from pattern_acp.lsp.started import StartedServers
from pattern_acp.processes.child_program import Means

if TYPE_CHECKING:
    from pattern_acp.lsp.connection import Connection

AnswerT = TypeVar("AnswerT")


class LanguageServers:
    """The servers of one session."""

    def __init__(
        self,
        tasks: TaskGroup,
        means: Means,
        settings: LspSettings,
        roots: tuple[str, ...],
        is_trusted: Callable[[], bool],
        load: Callable[[], Connect] = load_connect,
    ) -> None:
        self.started = StartedServers(tasks, means, settings, roots, is_trusted, load)
        """Which there are. Whoever ends the session closes them."""
        self._settings = settings

    async def note_before(self, path: str, text: str | None) -> None:
        """Note the text that an edit starts from; None: the file is new. Starts the file's server, and waits for none.

        Never fails: without a server nothing happens.
        """
        server = await self.started.server_for(path, text or "")
        if server is not None:
            server.told.open(server.told.files.note_before(path, language_of(path), text))

    async def introduced(self, changed: Mapping[str, str]) -> Introduced:
        """What became wrong by edits: `changed` has each file's text now.

        Waits at most as long as the settings say.
        """
        for server in self.started.all:
            for path, text in changed.items():
                if server.told.files.named(path) is not None:
                    server.told.files.note_after(path, text)
        return await self.later()

    async def later(self) -> Introduced:
        """What became wrong by edits that were noted before and not compared in time; waits as `introduced` does."""
        servers = [server for server in self.started.all if server.told.files.by_path]
        if any(server.told.files.incomplete(anyio.current_time()) for server in servers):
            with anyio.move_on_after(self._settings.wait_seconds):
                async with anyio.create_task_group() as tasks:
                    for server in servers:
                        tasks.start_soon(server.told.wait_complete, lambda server=server: server.is_alive)
        now = anyio.current_time()
        errors = [error for server in servers for error in server.told.files.compare(now)]
        waiting = [server.name for server in servers if server.is_alive and server.told.files.incomplete(now)]
        return Introduced(tuple(errors), tuple(waiting))

    async def definition(self, path: str, text: str, at: Span) -> tuple[FoundPlace, ...]:
        """Where what stands at the beginning of `at` is defined; `text` is the file's text as the person sees it.

        Raises:
            LanguageServerError: there is no server for the file, or it cannot say.
        """
        return await self._ask(path, text, lambda connection: connection.definition(path, at.line, at.unit))

    async def references(self, path: str, text: str, at: Span) -> tuple[FoundPlace, ...]:
        """Where what stands at the beginning of `at` is used.

        Raises:
            LanguageServerError: there is no server for the file, or it cannot say.
        """
        return await self._ask(path, text, lambda connection: connection.references(path, at.line, at.unit))

    async def rename(self, path: str, text: str, at: Span, new_name: str) -> tuple[FileEdits, ...]:
        """What has to change for what stands at the beginning of `at` to be called `new_name`.

        Raises:
            LanguageServerError: there is no server for the file, or it refuses.
        """
        return await self._ask(path, text, lambda connection: connection.rename(path, at.line, at.unit, new_name))

    async def show(self, path: str, text: str) -> None:
        """Tell the file's server the text of a file, which may not be on the disk yet."""
        server = await self.started.server_for(path, text)
        if server is not None:
            server.told.open(server.told.files.show(path, language_of(path), text))

    def note_gone(self, path: str) -> None:
        """Note that a file was deleted or got another name."""
        for server in self.started.all:
            server.told.close((path,))

    async def _ask(self, path: str, text: str, question: "Callable[[Connection], Awaitable[AnswerT]]") -> AnswerT:
        server = await self.started.server_for(path, text)
        if server is None:
            raise LanguageServerError(
                f"There is no language server for {Path(path).name}; use find, callers and search_text instead. "
                "docs/lsp.md says which servers are looked for."
            )
        server.told.open(server.told.files.show(path, language_of(path), text))
        return await server.ask(question)


def known_files(servers: LanguageServers, paths: Iterable[str]) -> tuple[str, ...]:
    """Those of the files that a server was told of, each once: the others need not be read for `introduced`."""
    told = [server.told.files for server in servers.started.all]
    return tuple(path for path in dict.fromkeys(paths) if any(files.named(path) is not None for files in told))


def states_of(servers: LanguageServers) -> tuple[str, ...]:
    """The servers that were started, each with what it is doing."""
    return tuple(f"{server.name} ({server.state.value})" for server in servers.started.all)
