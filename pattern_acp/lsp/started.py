"""The language servers that a session has started.

Owns: which server a file has, starting it with the first file, what the person is told of those that do not run, and
the end of all of them. Must not know: what servers are asked (`lsp/servers.py`).
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from pattern_acp.config.settings import LspSettings
from pattern_acp.lsp.finding import FoundServer, configured_kind, find_server, kinds
from pattern_acp.lsp.languages import language_of
from pattern_acp.lsp.server import Connect, LanguageServer, Place, State, load_connect
from pattern_acp.processes.child_program import Means

CLOSE_SECONDS = 1.5
"""Longest that a session waits for its servers to end."""

TEXT_LIMIT = 2_000_000
"""Characters of a file that a server is told; larger ones are generated, and would keep it busy."""


class StartedServers:
    """The servers of one session, one a kind."""

    def __init__(
        self,
        tasks: TaskGroup,
        means: Means,
        settings: LspSettings,
        roots: tuple[str, ...],
        is_trusted: Callable[[], bool],
        load: Callable[[], Connect] = load_connect,
    ) -> None:
        self._tasks = tasks
        self._means = means
        self._settings = settings
        self._roots = roots
        self._is_trusted = is_trusted
        self._load = load
        self._kinds = kinds([configured_kind(each) for each in settings.servers])
        self._by_kind: dict[str, LanguageServer] = {}
        self._is_closed = False
        self._told: dict[str, bool] = {}
        """Sentences for the person, and whether they were told."""

    @property
    def all(self) -> tuple[LanguageServer, ...]:
        """Those that were started, also those that ended since."""
        return tuple(self._by_kind.values())

    async def server_for(self, path: str, text: str) -> LanguageServer | None:
        """The server of a file with this text, started when there is none yet; None where the file has none."""
        if self._settings.mode == "off" or self._is_closed or len(text) > TEXT_LIMIT:
            return None
        if not Path(path).is_absolute() or not any(Path(path).is_relative_to(root) for root in self._roots):
            return None
        trusted = self._is_trusted()
        find = partial(find_server, self._kinds, language_of(path), self._roots[0], self._means.environment)
        found = await to_thread.run_sync(partial(find, trusted=trusted))
        if found is None and not trusted:
            refused = await to_thread.run_sync(partial(find, trusted=True))
            if refused is not None:
                self._told.setdefault(refused_sentence(refused), False)
        if found is None or self._is_closed:
            return None
        running = self._by_kind.get(found.kind.name)
        if running is not None and running.found != found:
            # The folder is trusted since, or no longer.
            running.stop()
        if running is None or running.found != found or running.state is State.STOPPED:
            running = self._start(found, trusted=trusted)
        return None if running.state is State.FAILED else running

    def _start(self, found: FoundServer, *, trusted: bool) -> LanguageServer:
        configuration = {**(found.kind.sections or {}), **(python_settings(self._roots[0]) if trusted else {})}
        place = Place(self._roots, self._means, self._settings.idle_minutes * 60.0, configuration)
        server = self._by_kind[found.kind.name] = LanguageServer(found, place, self._load)
        self._tasks.start_soon(server.run, name=f"language server {server.name}")
        return server

    def take_notices(self) -> tuple[str, ...]:
        """Sentences for the person about servers that are not used, each once."""
        for server in self.all:
            if server.state is State.FAILED:
                sentence = f"The language server {server.name} is not used any more: {server.problem}. See the log."
                self._told.setdefault(sentence, False)
        notices = tuple(sentence for sentence, is_told in self._told.items() if not is_told)
        self._told.update(dict.fromkeys(notices, True))
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
    """Why a server that is installed does not run in a folder that is not trusted."""
    what = found.kind.runs_project_code or "a program of the project"
    return f"The language server {found.kind.name} would run {what}, so it waits until you trust this folder: /trust."


def python_settings(root: str) -> Mapping[str, object]:
    """Which interpreter a project has, for servers that ask; they run it to learn where packages are."""
    for relative in (".venv/bin/python", "venv/bin/python", ".venv/Scripts/python.exe", "venv/Scripts/python.exe"):
        if os.path.exists(Path(root, relative)):  # noqa: PTH110  a Path raises where it may not look
            return {"python": {"pythonPath": str(Path(root, relative))}}
    return {}
