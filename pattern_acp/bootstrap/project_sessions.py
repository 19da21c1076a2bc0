"""Sessions of one connection where each project has a constellation: which one a request is for, and opening it.

Owns: the constellations that are open, each in a task of its own, until the connection ends. Must not know: what a
request does. Those with a folder choose by it. Those of a session go where it is open. One that is not open is looked
for where its folder says, and then in the user's constellation: it has the sessions from before each project had one.
"""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec import Struct, field

from pattern_acp.acp import schema
from pattern_acp.acp.session_methods import SessionMethods
from pattern_acp.bootstrap.constellation_choice import constellation_of_folder, project_constellations
from pattern_acp.bootstrap.opening import open_file
from pattern_acp.bootstrap.process import Process
from pattern_acp.bootstrap.sessions import (
    Common,
    OpenSessions,
    beside_sessions,
    keeping_file,
    open_client,
    open_common,
    open_root,
)
from pattern_acp.db.connection import Database, Transaction, open_for_reading
from pattern_acp.domain.clock import SessionId, SystemClock
from pattern_acp.domain.errors import PatternError
from pattern_acp.journal.sessions import PageWanted, SessionPage, get_session, read_page
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.jsonrpc.messages import ConnectionClosedError
from pattern_acp.session.ports import FolderUnusableError

_LOGGER = logging.getLogger(__name__)

MOST_FILES = 200
"""Most constellations that a list or a search for a session looks into: those that were used last."""

LOOK_SECONDS = 5.0
"""Longest that such a look takes; what was not reached by then is left out."""

FILE_SECONDS = 1.0
"""Longest that it takes for one constellation, so that one which is locked does not hide the others."""

AGAIN_SECONDS = 60.0
"""Between two attempts to look after a user's file that cannot be opened."""

Promises = tuple[schema.ClientCapabilities, schema.Implementation | None]


class _Opening(Struct, eq=False):
    """One try to open a constellation; everyone who waits shares its end."""

    done: anyio.Event = field(default_factory=anyio.Event)
    serving: OpenSessions | None = None
    error: PatternError | None = None


class OpenProjects:
    """The open constellations of one connection."""

    def __init__(self, process: Process, dispatcher: Dispatcher, common: Common, tasks: TaskGroup) -> None:
        self._process = process
        self._dispatcher = dispatcher
        self._common = common
        self._tasks = tasks
        self._openings: dict[str, _Opening] = {}
        self._promises: Promises = (schema.ClientCapabilities(), None)

    def introduce(self, client: schema.ClientCapabilities, info: schema.Implementation | None) -> None:
        """Take the client's promises, for all that is open and all that will be."""
        self._promises = (client, info)
        for serving in self._ready().values():
            serving.introduce(client, info)

    async def methods(self, request: object) -> SessionMethods:
        """The methods that serve a request, in the constellation that it is for.

        Raises:
            PatternError: the constellation cannot be opened; the next request tries again.
        """
        opening = self._begin(await self._constellation_of(request))
        await opening.done.wait()
        if opening.error is not None:
            raise opening.error
        if opening.serving is None:
            raise ConnectionClosedError("The agent is shutting down.")
        return opening.serving.methods

    def methods_if_ready(self, request: object) -> SessionMethods | None:
        """The methods of the constellation in which the session of a request is open; None: it is open in none."""
        name = self._open_in(request)
        return None if name is None else self._ready()[name].methods

    def all_ready(self) -> Sequence[SessionMethods]:
        """The methods of all open constellations."""
        return tuple(serving.methods for serving in self._ready().values())

    @property
    def _user(self) -> str:
        return self._process.loaded.settings.constellation.name

    def _ready(self) -> dict[str, OpenSessions]:
        return {name: one.serving for name, one in self._openings.items() if one.serving is not None}

    def _begin(self, name: str) -> _Opening:
        known = self._openings.get(name)
        if known is None or known.error is not None:
            known = self._openings[name] = _Opening()
            self._tasks.start_soon(self._own, name, known, name=f"constellation {name}")
        return known

    async def _own(self, name: str, opening: _Opening) -> None:
        """Have a constellation open until the connection ends."""
        try:
            process = self._process.using(name)
            async with (
                open_file(process) as opened,
                open_root(process, opened, self._common) as root,
                open_client(root, root.shared, self._dispatcher) as serving,
            ):
                root.shared.pages_elsewhere = partial(self._pages_elsewhere, name)
                serving.introduce(*self._promises)
                opening.serving = serving
                opening.done.set()
                await anyio.sleep_forever()
        except PatternError as error:
            _LOGGER.warning("The constellation %s could not be opened: %s", name, error)
            opening.error = error
        except OSError as error:
            _LOGGER.exception("The constellation %s could not be opened.", name)
            opening.error = PatternError(f"The agent's files cannot be used: {error.strerror or 'unknown error'}.")
        except Exception:
            # The boundary of one constellation: the others are served, and the next request tries again.
            _LOGGER.exception("Sessions of the constellation %s could not be served.", name)
            opening.error = PatternError("Sessions could not be served; the log has details, and another try may help.")
        finally:
            opening.serving = None
            opening.done.set()

    def _open_in(self, request: object) -> str | None:
        """The constellation in which the session, or the subscription, of a request is open."""
        session_id, subscription = _text_of(request, "session_id"), _text_of(request, "subscription_id")
        for name, serving in self._ready().items():
            ours = serving.methods
            if session_id and ours.sessions.find(session_id) is not None:
                return name
            if subscription and (ours.memory_events.has(subscription) or ours.session_feed.has(subscription)):
                return name
        return None

    async def _constellation_of(self, request: object) -> str:
        session_id, cwd = _text_of(request, "session_id"), _text_of(request, "cwd")
        found, own = self._open_in(request), None
        if cwd and "\0" not in cwd and Path(cwd).is_absolute():
            own = await anyio.to_thread.run_sync(constellation_of_folder, self._process.loaded, cwd)
            if not await anyio.Path(cwd).is_dir() and not await self._is_made(own):
                # Nothing can be opened there, and no file is to be made for it; the answer says so.
                own = None
        open_now = tuple(self._ready())
        if session_id and found is None:
            first = () if own is None else (own,)
            with anyio.move_on_after(LOOK_SECONDS):
                for name in dict.fromkeys((*first, self._user, *open_now, *await self._projects())):
                    if await self._has(name, session_id):
                        found = name
                        break
        if found is not None and own is not None and found not in {own, self._user}:
            raise FolderUnusableError(
                f"The session {session_id[:80]} is of another project than this folder, in the constellation {found}; "
                "open it in a folder of that project."
            )
        return found or own or next(iter(open_now), self._user)

    async def _is_made(self, name: str) -> bool:
        return await anyio.Path(self._process.using(name).constellation_path).exists()

    async def _has(self, name: str, session_id: str) -> bool:
        def read(tx: Transaction) -> bool:
            return get_session(tx, SessionId(session_id)) is not None

        try:
            with anyio.fail_after(FILE_SECONDS):
                async with self._reading(name) as database:
                    return database is not None and await database.read(read)
        except (PatternError, OSError) as error:
            _LOGGER.warning("The constellation %s could not be searched for a session: %s", name, _reason(error))
            return False

    @asynccontextmanager
    async def _reading(self, name: str) -> AsyncGenerator[Database | None, None]:
        """The constellation, open already or to be read for a moment; None where there is none."""
        serving = self._ready().get(name)
        path = self._process.using(name).constellation_path
        if serving is not None:
            yield serving.sessions.constellation.database
        elif await self._is_made(name):
            async with open_for_reading(path, clock=SystemClock()) as database:
                yield database
        else:
            yield None

    async def _projects(self) -> tuple[str, ...]:
        """The constellations of projects, those first that were used last."""

        def find() -> tuple[str, ...]:
            def used(name: str) -> float:
                path = self._process.using(name).constellation_path
                files = (file for file in (path, path.with_name(f"{path.name}-wal")) if file.exists())
                return max((file.stat().st_mtime for file in files), default=0.0)

            return tuple(sorted(project_constellations(self._process.loaded), key=used, reverse=True)[:MOST_FILES])

        return await anyio.to_thread.run_sync(find)

    async def _pages_elsewhere(self, here: str, wanted: PageWanted) -> Sequence[SessionPage]:
        """The same page of the other constellations: of a folder, those that its sessions may be in."""
        names = (self._user,) if wanted.cwd is not None else (self._user, *await self._projects())
        pages: list[SessionPage] = []
        with anyio.move_on_after(LOOK_SECONDS) as scope:
            for name in names:
                if name == here:
                    continue
                try:
                    with anyio.fail_after(FILE_SECONDS):
                        async with self._reading(name) as database:
                            if database is not None:
                                pages.append(await database.read(partial(read_page, wanted=wanted)))
                except (PatternError, OSError) as error:
                    _LOGGER.warning("Sessions of the constellation %s are not in the list: %s", name, _reason(error))
        if scope.cancelled_caught:
            _LOGGER.warning("Sessions of some constellations are not in the list, which took too long.")
        return pages

    async def keep_users_file(self) -> None:
        """Look after the file of the user's own memory while any project is open."""
        process = self._process.using(self._user)
        while True:
            try:
                async with open_file(process) as opened, keeping_file(process, opened.database, self._common.answered):
                    await anyio.sleep_forever()
            except (PatternError, OSError) as error:
                _LOGGER.warning("The user's constellation is not looked after now: %s", error)
            await anyio.sleep(AGAIN_SECONDS)


@asynccontextmanager
async def open_projects(process: Process, dispatcher: Dispatcher) -> AsyncGenerator[OpenProjects, None]:
    """Serve sessions of one connection, each project's in its constellation, until the context ends."""
    async with open_common(process) as common, anyio.create_task_group() as tasks:
        projects = OpenProjects(process, dispatcher, common, tasks)

        async def keep() -> None:
            await common.answered.wait()
            await beside_sessions("user's constellation", projects.keep_users_file)

        tasks.start_soon(keep, name="user's constellation")
        try:
            yield projects
        finally:
            tasks.cancel_scope.cancel()


def _reason(error: PatternError | OSError) -> str:
    return "It is locked, or too slow now." if isinstance(error, TimeoutError) else str(error)


def _text_of(request: object, name: str) -> str:
    value = getattr(request, name, None)
    return value if isinstance(value, str) else ""
