"""The language servers of a session.

Owns: which server a file has, starting it, sending it files and questions, and reporting which errors are new since an
edit. Must not know: sessions, tools, or what is done with servers' answers.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from pattern_acp.config.settings import LspSettings
from pattern_acp.lsp.model import CodeLocation as FoundPlace
from pattern_acp.lsp.model import (
    FileEdits,
    FoundServer,
    Introduced,
    LanguageServerError,
    Span,
    configured_kind,
    find_server,
    kinds,
    language_of,
)
from pattern_acp.lsp.server import Connect, LanguageServer, ServerLocation, State, load_connect
from pattern_acp.processes.groups import ChildProgramPorts

CLOSE_SECONDS = 1.5
"""Longest that a session waits for its servers to end."""

TEXT_LIMIT = 2_000_000
"""Characters of a file sent to a server; larger ones are generated, and would keep it busy."""


class StartedServers:
    """The servers of one session, one a kind."""

    def __init__(
        self,
        tasks: TaskGroup,
        ports: ChildProgramPorts,
        settings: LspSettings,
        roots: tuple[str, ...],
        is_trusted: Callable[[], bool],
        load: Callable[[], Connect] = load_connect,
    ) -> None:
        self._tasks = tasks
        self._ports = ports
        self._settings = settings
        self._roots = roots
        self._is_trusted = is_trusted
        self._load = load
        self._kinds = kinds([configured_kind(each) for each in settings.servers])
        self._by_kind: dict[str, LanguageServer] = {}
        self._is_closed = False
        self._notices: dict[str, bool] = {}
        """Sentences for the user, and whether they were shown."""

    @property
    def all(self) -> tuple[LanguageServer, ...]:
        """All servers that were started, including those that ended since."""
        return tuple(self._by_kind.values())

    async def server_for(self, path: str, text: str) -> LanguageServer | None:
        """The server for a file with this text, started if necessary; None if the file has none."""
        if self._settings.mode == "off" or self._is_closed or len(text) > TEXT_LIMIT:
            return None
        if not Path(path).is_absolute() or not any(Path(path).is_relative_to(root) for root in self._roots):
            return None
        trusted = self._is_trusted()
        find = partial(find_server, self._kinds, language_of(path), self._roots[0], self._ports.environment)
        found = await to_thread.run_sync(partial(find, trusted=trusted))
        if found is None and not trusted:
            refused = await to_thread.run_sync(partial(find, trusted=True))
            if refused is not None:
                self._notices.setdefault(refused_sentence(refused), False)
        if found is None or self._is_closed:
            return None
        running = self._by_kind.get(found.kind.name)
        if running is not None and running.found != found:
            # The folder has become trusted, or no longer is.
            running.stop()
        if running is None or running.found != found or running.state is State.STOPPED:
            running = self._start(found, trusted=trusted)
        return None if running.state is State.FAILED else running

    def _start(self, found: FoundServer, *, trusted: bool) -> LanguageServer:
        configuration = {**(found.kind.sections or {}), **(python_settings(self._roots[0]) if trusted else {})}
        location = ServerLocation(self._roots, self._ports, self._settings.idle_minutes * 60.0, configuration)
        server = self._by_kind[found.kind.name] = LanguageServer(found, location, self._load)
        self._tasks.start_soon(server.run, name=f"language server {server.name}")
        return server

    def take_notices(self) -> tuple[str, ...]:
        """Sentences for the user about servers that are not used, each once."""
        for server in self.all:
            if server.state is State.FAILED:
                sentence = f"The language server {server.name} is not used any more: {server.problem}. See the log."
                self._notices.setdefault(sentence, False)
        notices = tuple(sentence for sentence, is_shown in self._notices.items() if not is_shown)
        self._notices.update(dict.fromkeys(notices, True))
        return notices

    def close(self) -> None:
        """End all servers with what they started. Idempotent, and does not wait."""
        self._is_closed = True
        for server in self.all:
            server.stop()

    async def wait_closed(self) -> None:
        """Wait, a bounded time, until the servers are gone."""
        with anyio.move_on_after(CLOSE_SECONDS):
            for server in self.all:
                await server.gone.wait()


def refused_sentence(found: FoundServer) -> str:
    """The reason why an installed server does not run in a folder that is not trusted."""
    what = found.kind.runs_project_code or "a program of the project"
    return f"The language server {found.kind.name} would run {what}, so it waits until you trust this folder: /trust."


def python_settings(root: str) -> Mapping[str, object]:
    """The interpreter of a project, for servers that ask; they run it to learn where packages are."""
    for relative in (".venv/bin/python", "venv/bin/python", ".venv/Scripts/python.exe", "venv/Scripts/python.exe"):
        if os.path.exists(Path(root, relative)):  # noqa: PTH110  a Path raises where it may not look
            return {"python": {"pythonPath": str(Path(root, relative))}}
    return {}


if TYPE_CHECKING:
    from pattern_acp.lsp.connection import ServerConnection

AnswerT = TypeVar("AnswerT")


class LanguageServers:
    """The servers of one session."""

    def __init__(
        self,
        tasks: TaskGroup,
        ports: ChildProgramPorts,
        settings: LspSettings,
        roots: tuple[str, ...],
        is_trusted: Callable[[], bool],
        load: Callable[[], Connect] = load_connect,
    ) -> None:
        self.started = StartedServers(tasks, ports, settings, roots, is_trusted, load)
        """All of them. The end of the session closes them."""
        self._settings = settings

    async def note_before(self, path: str, text: str | None) -> None:
        """Record the text before an edit; None: the file is new. Starts the file's server, and waits for none.

        Never fails: without a server nothing happens.
        """
        server = await self.started.server_for(path, text or "")
        if server is not None:
            server.synced.open(server.synced.files.note_before(path, language_of(path), text))

    async def introduced(self, changed: Mapping[str, str]) -> Introduced:
        """Return the errors that edits introduced: `changed` has each file's text now.

        Waits at most as long as the settings say.
        """
        for server in self.started.all:
            for path, text in changed.items():
                if server.synced.files.named(path) is not None:
                    server.synced.files.note_after(path, text)
        return await self.later()

    async def later(self) -> Introduced:
        """Return the new errors of earlier edits that were not compared in time; waits as `introduced` does."""
        servers = [server for server in self.started.all if server.synced.files.by_path]
        if any(server.synced.files.incomplete(anyio.current_time()) for server in servers):
            with anyio.move_on_after(self._settings.wait_seconds):
                async with anyio.create_task_group() as tasks:
                    for server in servers:
                        tasks.start_soon(server.synced.wait_complete, lambda server=server: server.is_alive)
        now = anyio.current_time()
        errors = [error for server in servers for error in server.synced.files.compare(now)]
        waiting = [server.name for server in servers if server.is_alive and server.synced.files.incomplete(now)]
        return Introduced(tuple(errors), tuple(waiting))

    async def definition(self, path: str, text: str, at: Span) -> tuple[FoundPlace, ...]:
        """Find the definition of the symbol at the beginning of `at`; `text` is the file's text as the user sees it.

        Raises:
            LanguageServerError: there is no server for the file, or it cannot say.
        """
        return await self._ask(path, text, lambda connection: connection.definition(path, at.line, at.unit))

    async def references(self, path: str, text: str, at: Span) -> tuple[FoundPlace, ...]:
        """Find the uses of the symbol at the beginning of `at`.

        Raises:
            LanguageServerError: there is no server for the file, or it cannot say.
        """
        return await self._ask(path, text, lambda connection: connection.references(path, at.line, at.unit))

    async def rename(self, path: str, text: str, at: Span, new_name: str) -> tuple[FileEdits, ...]:
        """Return the edits that rename the symbol at the beginning of `at` to `new_name`.

        Raises:
            LanguageServerError: there is no server for the file, or it refuses.
        """
        return await self._ask(path, text, lambda connection: connection.rename(path, at.line, at.unit, new_name))

    async def show(self, path: str, text: str) -> None:
        """Send the file's server the text of a file, which may not be on the disk yet."""
        server = await self.started.server_for(path, text)
        if server is not None:
            server.synced.open(server.synced.files.show(path, language_of(path), text))

    def note_gone(self, path: str) -> None:
        """Note that a file was deleted or renamed."""
        for server in self.started.all:
            server.synced.close((path,))

    async def _ask(self, path: str, text: str, question: "Callable[[ServerConnection], Awaitable[AnswerT]]") -> AnswerT:
        server = await self.started.server_for(path, text)
        if server is None:
            raise LanguageServerError(
                f"There is no language server for {Path(path).name}; find, callers and a text search work without one. "
                "docs/how-to/lsp.md says which servers are looked for."
            )
        server.synced.open(server.synced.files.show(path, language_of(path), text))
        return await server.ask(question)


def known_files(servers: LanguageServers, paths: Iterable[str]) -> tuple[str, ...]:
    """The files that a server has open, each once: the others need not be read for `introduced`."""
    opened = [server.synced.files for server in servers.started.all]
    return tuple(path for path in dict.fromkeys(paths) if any(files.named(path) is not None for files in opened))


def states_of(servers: LanguageServers) -> tuple[str, ...]:
    """The servers that were started, each with its state."""
    return tuple(f"{server.name} ({server.state.value})" for server in servers.started.all)
