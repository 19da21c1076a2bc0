"""The user's own memory in the constellations of projects, put together: which files, which key, and when.

Owns: replicating while a project's constellation is open, and the key of what is still to be forgotten. Must not know:
what goes, or in which form (sync/replica.py). The user's file may be locked or damaged: work in a project continues
without it, and what was written meanwhile is carried over once it can be used.
"""

import logging
import os
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from pattern_acp.bootstrap.constellation_choice import is_per_project, is_replica, project_constellations
from pattern_acp.bootstrap.process import Process
from pattern_acp.config.paths import make_private_directory
from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.db.driver import sync_folder
from pattern_acp.domain.clock import RandomIds, SessionId, SystemClock
from pattern_acp.domain.errors import DatabaseError, PatternError
from pattern_acp.journal.reader import newest_event
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.service.commit import create_defaults
from pattern_acp.memory.service.forget import Tell, Telling, UntoldError
from pattern_acp.memory.service.scope import PROGRAM, MemoryRules, MemoryScope, WriteContext
from pattern_acp.memory.store import missing_blocks
from pattern_acp.memory.templates import NO_TEMPLATES
from pattern_acp.session.constellation import Constellation
from pattern_acp.sync.replica import (
    DEVICES,
    ReplicaForgetting,
    Side,
    is_due,
    is_to_be_forgotten,
    replicate,
    unreadable_forgettings,
)
from pattern_acp.sync.segments import KEY_BYTES

_LOGGER = logging.getLogger(__name__)

LOOK_SECONDS = 0.4
"""Between two looks while this process writes."""

QUIET_SECONDS = 120.0
"""Between two looks while it does not: each wakes an idle agent. A turn begins with a look of its own."""

CATCH_UP_SECONDS = 1.0
"""Longest that a turn waits for what is new in the user's file."""

FIRST_SECONDS = 1.0
"""Longest that the first session, or a command, waits for the user's memory; it comes later, then."""

LAST_SECONDS = 0.5
"""Longest that the last look may hold up the end of the process."""

LONGEST_PAUSE_SECONDS = 60.0
"""Between two attempts where the user's file cannot be used."""

BUSY_SECONDS = 2.0
"""Longest wait for the lock of another file: the user hears soon that it cannot be used, and the others do not wait."""

KEY_FILE = "replica.key"

_KEY_LOOKS, _KEY_PAUSE_SECONDS = 5, 0.02
"""Looks at a key that another process may be writing, and the pause between them."""


def telling_of(process: Process) -> Telling | None:
    """Prepares the noting of what is forgotten for the other constellations, and for the user's other devices.

    None where there are none. What it returns raises a `PatternError` where there is no key, or it is not available: an
    `UntoldError` where that is the key of other devices alone, which hear of it when it is there.
    """
    others = is_per_project(process.loaded)
    devices: Telling | None = None
    if process.loaded.settings.sync.url and not is_replica(process):
        # Late: most users have no other devices.
        from pattern_acp.bootstrap.syncing import telling_of as of_devices

        devices = of_devices(process)
    if not others:
        return devices

    async def prepare() -> Tell:
        also: Tell | None = None
        problem: PatternError | None = None
        try:
            also = None if devices is None else await devices()
        except PatternError as error:
            problem = error
        forgetting = await _forgetting_of(process)
        followers = await anyio.to_thread.run_sync(_followers, process, process.constellation)
        tell = forgetting.telling(followers, also, waits=problem is not None)
        if problem is not None:
            raise UntoldError(problem, tell)
        return tell

    return prepare


async def keep_users_memory(process: Process, shared: Constellation, tasks: TaskGroup) -> None:
    """Have the user's memory of an open constellation the same in all of them, in `tasks`.

    Waits a bounded time for what is new in the user's one, which the first session then begins with.
    """
    shared.tell_forgetting = telling_of(process)
    if not is_replica(process):
        tell_user = shared.notices.append
        tasks.start_soon(keep_forgetting, process, shared.database, tell_user, name="forgetting in projects")
        return
    first = anyio.Event()

    async def begin(user: Database) -> None:
        # One block of each label for all projects, before two of them make one each.
        owner = MemoryScope(shared.persona.name, "", SessionId(CONSTELLATION_STREAM))
        now_ms, peer = shared.clock.now_ms(), shared.ids.peer()
        writing = WriteContext(owner, PROGRAM, MemoryRules(), shared.ids, peer, now_ms, NO_TEMPLATES)
        if await user.read(lambda tx: missing_blocks(tx, writing.rules.defaults(owner))):
            await user.write(lambda tx: create_defaults(tx, writing))

    replica = Replica(process, shared.database)
    shared.before_turn = replica.catch_up
    tasks.start_soon(replica.keep, first, shared.notices.append, begin, name="user's memory")
    with anyio.move_on_after(FIRST_SECONDS):
        await first.wait()


async def tell_projects(process: Process) -> Tell:
    """Notes for the projects' constellations that are there now what the user's one forgets for another device.

    Raises:
        DatabaseError: there is no key, or the folder of constellations cannot be looked at.
    """
    forgetting = await _forgetting_of(process)
    user = process.loaded.settings.constellation.name
    return forgetting.telling(await anyio.to_thread.run_sync(_followers, process, user))


async def exchange_once(process: Process, database: Database, seconds: float) -> None:
    """Bring the user's memory up to date for a command, and forget in the others what it forgot, in so many seconds.

    What cannot be done now is logged, and done with the next session or command.
    """
    try:
        with anyio.move_on_after(seconds):
            if not is_replica(process):
                await follow_forgettings(process, database)
                return
            async with _open_user(process) as user:
                await exchange(process, database, user)
                # What the project told the user's one, that one tells the others.
                await follow_forgettings(process, user)
    except (PatternError, OSError) as error:
        _LOGGER.warning("Your own memory is not exchanged with this project's: %s", _sentence(error))


class Replica:
    """The user's memory in the constellation of a project, while that is open."""

    def __init__(self, process: Process, database: Database) -> None:
        self._process = process
        self._database = database
        self._user: Database | None = None
        self._one_at_a_time = anyio.Lock()
        self._seen = (-1, -1)
        self._stamp = _NO_FILE
        """The state of the user's file before the newest look."""
        self._news: _News | None = None

    async def keep(
        self,
        first: anyio.Event,
        tell_user: Callable[[str], None],
        begin: Callable[[Database], Awaitable[None]],
    ) -> None:
        """Replicate whenever something is new in either file, until cancelled; `first` is set after the first attempt.

        `begin` makes what the user's file lacks of the blocks that every persona begins with.
        """
        pause, said, self._news = 1.0, "", _News(tell_user)
        while True:
            try:
                async with _open_user(self._process) as user:
                    self._seen = (-1, -1)
                    try:
                        await begin(user)
                        self._user = user
                        while True:
                            writes = self._database.writes
                            await self._look(user)
                            first.set()
                            pause, said = 1.0, ""
                            await self._until_news(user, writes)
                    except anyio.get_cancelled_exc_class():
                        await self._look_last(user)
                        raise
                    finally:
                        self._user = None
            except (PatternError, OSError) as error:
                sentence = _sentence(error)
                if sentence != said:
                    _LOGGER.warning("Your own memory is not exchanged with this project's: %s", sentence)
                if not said:
                    tell_user(
                        "Your own memory cannot be read or written now, so this project works with its copy; what is "
                        f"new is exchanged later. {sentence}"
                    )
                said = sentence
            finally:
                first.set()
            await anyio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def catch_up(self) -> None:
        """Replicate before a turn where another process has written the user's file since the newest look.

        Bounded; what fails is left to `keep`, which meets it again.
        """
        user = self._user
        if user is None or _stamp_of(user.path) == self._stamp:
            return
        with anyio.move_on_after(CATCH_UP_SECONDS):
            try:
                await self._look(user)
            except (PatternError, OSError) as error:
                _LOGGER.warning("A turn begins without what is new in your own memory: %s", _sentence(error))

    async def _look(self, user: Database) -> None:
        async with self._one_at_a_time:
            stamp = _stamp_of(user.path)
            self._seen = await exchange(self._process, self._database, user, self._news)
            self._stamp = stamp

    async def _look_last(self, user: Database) -> None:
        with anyio.CancelScope(shield=True), anyio.move_on_after(LAST_SECONDS):
            try:
                is_told = _stamp_of(user.path) != self._stamp
                if is_told or await self._database.read(newest_event) != self._seen[0]:
                    await self._look(user)
            except (PatternError, OSError) as error:
                _LOGGER.warning("Your own memory is not exchanged with this project's: %s", _sentence(error))

    async def _until_news(self, user: Database, writes: int) -> None:
        """Wait until something is new since the newest look, before which this process had written so often.

        What could not be forgotten in a third file is news, too.
        """
        while True:
            await anyio.sleep(LOOK_SECONDS)
            with anyio.move_on_after(QUIET_SECONDS):
                await self._database.next_write(writes)
            writes = self._database.writes
            look = partial(_newest_and_due, self._process)
            ours, due = await self._database.read(look)
            theirs, due_there = await user.read(look)
            if (ours, theirs) != self._seen or due or due_there:
                return


def _newest_and_due(process: Process, tx: Transaction) -> tuple[int, bool]:
    return newest_event(tx), is_due(tx, partial(key_of_machine, process.loaded.paths.data))


_Stamp = tuple[tuple[int, int], ...]
_NO_FILE: _Stamp = ()


def _stamp_of(path: Path) -> _Stamp:
    """Times of the last change, in nanoseconds, and sizes of a database file and of its log."""
    found: list[tuple[int, int]] = []
    for name in (path, f"{path}-wal"):
        try:
            status = os.stat(name)  # noqa: PTH116  at each prompt: a Path costs more than the look
        except OSError:
            found.append((0, 0))
        else:
            found.append((status.st_mtime_ns, status.st_size))
    return tuple(found)


async def keep_forgetting(process: Process, database: Database, tell_user: Callable[[str], None]) -> None:
    """Forget in the projects' constellations what the user's one forgot, until cancelled."""
    news = _News(tell_user)
    while True:
        writes = database.writes
        try:
            news.tell(await follow_forgettings(process, database))
        except PatternError as error:
            news.tell(f"What was forgotten is not forgotten in all projects yet: {error.sentence}")
        with suppress(PatternError):
            await _until_due(process, database, writes)


async def _until_due(process: Process, database: Database, writes: int) -> None:
    """Wait until something can be forgotten elsewhere; what could not be is tried again without news.

    `writes`: how often this process had written before the newest look.
    """
    key = partial(key_of_machine, process.loaded.paths.data)
    await anyio.sleep(LOOK_SECONDS)
    with anyio.move_on_after(QUIET_SECONDS):
        while True:
            await database.next_write(writes)
            writes = database.writes
            if await database.read(lambda tx: is_due(tx, key)):
                return
            await anyio.sleep(LOOK_SECONDS)


class _News:
    """Sentences for the user, each of them once."""

    def __init__(self, tell_user: Callable[[str], None]) -> None:
        self._tell_user = tell_user
        self._said: set[str] = set()

    def tell(self, sentence: str) -> None:
        if sentence and sentence not in self._said:
            self._said.add(sentence)
            _LOGGER.warning("%s", sentence)
            self._tell_user(sentence)


async def exchange(process: Process, database: Database, user: Database, news: _News | None = None) -> tuple[int, int]:
    """Replicate once; the newest events of both before. `news` tells what cannot be forgotten.

    Raises:
        PatternError: one of them cannot be read or written.
    """
    seen = await database.read(newest_event), await user.read(newest_event)
    names = process.constellation, process.loaded.settings.constellation.name
    # Before anything goes: words that one has forgotten must not come back from the other.
    for one in (database, user):
        unread = await follow_forgettings(process, one)
        if news is not None:
            news.tell(unread)
    await replicate(Side(names[0], database), Side(names[1], user), SystemClock())
    return seen


async def follow_forgettings(process: Process, database: Database) -> str:
    """Forget in the other constellations what one has forgotten since; a sentence where that cannot be read."""
    if not await database.read(is_to_be_forgotten):
        return ""
    forgetting = await _forgetting_of(process)
    name = process.loaded.settings.constellation.name

    def others(follower: str) -> Sequence[str]:
        return _followers(process, follower) if follower == name else ()

    devices = await _of_devices(process)
    waits = devices is None and bool(process.loaded.settings.sync.url)
    return unread_sentence(process, await forgetting.run(database, others, devices, waits=waits))


def _followers(process: Process, constellation: str) -> Sequence[str]:
    """The constellations that hear of what one forgets: the user's of a project, and all projects of the user's.

    Raises:
        DatabaseError: the folder of constellations cannot be looked at.
    """
    name = process.loaded.settings.constellation.name
    if constellation != name:
        return (name,)
    try:
        return project_constellations(process.loaded)
    except OSError as error:
        folder = process.loaded.paths.data / "constellations"
        raise DatabaseError(f"{folder} cannot be read ({error.strerror}); give yourself the right to it.") from error


async def _of_devices(process: Process) -> Tell | None:
    """Notes for other devices what the user's file follows; None without sync, or while its key is not available."""
    if not process.loaded.settings.sync.url:
        return None
    from pattern_acp.bootstrap.syncing import telling_of as of_devices

    telling = of_devices(process)
    try:
        return None if telling is None else await telling()
    except PatternError as error:
        _LOGGER.info("Other devices hear of what a project forgets once they can: %s", error.sentence)
        return None


async def _forgetting_of(process: Process) -> ReplicaForgetting:
    key = await anyio.to_thread.run_sync(key_of_machine, process.loaded.paths.data)

    def reach(name: str) -> AbstractAsyncContextManager[Database] | None:
        path = process.loaded.paths.constellation_path(name)
        return open_database(path, clock=SystemClock(), busy_seconds=BUSY_SECONDS) if path.exists() else None

    return ReplicaForgetting(key, reach, SystemClock(), RandomIds())


@asynccontextmanager
async def _open_user(process: Process) -> AsyncGenerator[Database, None]:
    path = process.using(process.loaded.settings.constellation.name).constellation_path
    async with open_database(path, clock=SystemClock(), busy_seconds=BUSY_SECONDS) as user:
        yield user


def key_of_machine(folder: Path, link: Callable[[Path, Path], None] = os.link) -> bytes:
    """The key of what is still to be forgotten, made with the first one. It never leaves this machine. Blocking.

    `link` makes a hard link; where the file system has none, the file is made in its place.

    Raises:
        DatabaseError: the file cannot be read or made, or is damaged.
    """
    path = folder / KEY_FILE
    try:
        make_private_directory(folder)
        if not path.exists():
            _make_key(path, link)
        key = _read_key(path)
    except OSError as error:
        raise DatabaseError(f"{path} cannot be used ({error.strerror}); give yourself the right to it.") from error
    if len(key) != KEY_BYTES:
        raise DatabaseError(
            f"{path} is damaged, so what was forgotten cannot be forgotten in all constellations. Restore that "
            "file from a backup, or remove it: a new one is made, and `pattern-acp doctor` names the constellations "
            "where you have to forget it again."
        )
    return key


def _make_key(path: Path, link: Callable[[Path, Path], None]) -> None:
    key = secrets.token_bytes(KEY_BYTES)
    made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    _write_new(made, key)
    try:
        # Of two processes that make one, the first counts.
        link(made, path)
    except FileExistsError:
        pass
    except OSError:
        with suppress(FileExistsError):
            _write_new(path, key)
    finally:
        made.unlink()
    sync_folder(path.parent)


def _write_new(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _read_key(path: Path) -> bytes:
    for _ in range(_KEY_LOOKS):
        if len(key := path.read_bytes()) >= KEY_BYTES:
            return key
        # Another process may be writing it.
        time.sleep(_KEY_PAUSE_SECONDS)
    return path.read_bytes()


def unread_forgettings(process: Process, tx: Transaction) -> str:
    """Say for doctor what of a constellation's forgettings cannot be read; empty for nothing.

    Raises:
        DatabaseError: the key is damaged.
    """
    if not is_to_be_forgotten(tx):
        return ""
    return unread_sentence(process, unreadable_forgettings(tx, key_of_machine(process.loaded.paths.data)))


def unread_sentence(process: Process, targets: Sequence[str]) -> str:
    """Say that what was forgotten cannot be read in some constellations' stead; empty for none of them."""
    if not targets:
        return ""
    path = process.loaded.paths.data / KEY_FILE
    names = ", ".join(one if one != DEVICES else "your other devices" for one in targets)
    return (
        f"Something that you forgot is not forgotten in {names}: it was noted with another key than {path} has now. "
        "Restore that file from a backup within 30 days, or forget it there again: "
        "`pattern-acp --constellation NAME memory forget`."
    )


def _sentence(error: PatternError | OSError) -> str:
    return error.sentence if isinstance(error, PatternError) else f"Its file cannot be used ({error.strerror})."
