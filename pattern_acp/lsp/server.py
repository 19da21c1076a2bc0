"""One language server of one session.

Owns: its start with the first file, its deadlines, its one restart, its end when nobody needs it, the texts sent to it,
and which of its errors are new. Must not know: the protocol (connection.py), nor which server is for what.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import anyio
from anyio import to_thread
from msgspec import Struct, field

from pattern_acp.lsp.model import Diagnostic, FoundServer, LanguageServerError, NewError, column_of, split_lines
from pattern_acp.processes.groups import ChildProgram, ChildProgramPorts, running_program

if TYPE_CHECKING:
    from pattern_acp.lsp.connection import ServerConnection


class SyncedFiles:
    """The files of one server, over all of its starts. `used` is called whenever it has work."""

    def __init__(self, used: Callable[[], None]) -> None:
        self.files = OpenFiles(self._tell_change)
        self._used = used
        self._connection: ServerConnection | None = None
        self._wanted = anyio.Event()
        """Set when there is something to ask."""

    def connect(self, connection: "ServerConnection") -> None:
        """Send all files to a server that has just started; its earlier answers are gone."""
        self._connection = connection
        self.files.forget_answers()
        for file in tuple(self.files.by_path.values()):
            self.open(file)

    def disconnect(self) -> None:
        """Drop the connection: the server is gone, or is about to end."""
        self._connection = None

    def open(self, file: "OpenFile | None") -> None:
        """Open a file on the server, at once or when it is ready; nothing for None."""
        self._used()
        if file is None:
            return
        self.close(self.files.superfluous())
        if self._connection is not None:
            self._connection.open(file.path, file.language, file.version, file.text)
            self._wanted.set()

    def close(self, paths: Sequence[str]) -> None:
        """Close files that are gone."""
        for path in self.files.drop(paths):
            if self._connection is not None:
                self._connection.close(path)

    def take(self, path: str, version: int | None, found: tuple[Diagnostic, ...]) -> None:
        """Receive the diagnostics of a file."""
        self.files.note_found(path, version, found, anyio.current_time())

    async def wait_complete(self, is_alive: Callable[[], bool]) -> None:
        """Wait until the diagnostics of every edited file are complete, or never will be; sets no time limit."""
        self._used()
        while is_alive():
            news = self.files.news
            if not self.files.incomplete(anyio.current_time()):
                return
            with anyio.move_on_after(0.05):
                # Diagnostics count as complete only after a quiet moment.
                await news.wait()

    async def keep_advancing(self) -> None:
        """Send the texts that wait for the diagnostics of the text before."""
        while True:
            news = self.files.news
            due = self.files.advance(anyio.current_time())
            with anyio.move_on_after(due):
                await news.wait()

    async def keep_asking(self, connection: "ServerConnection", seconds: float) -> None:
        """Request the diagnostics of every file, again after each change; returns when the server hangs."""
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

    def _tell_change(self, file: "OpenFile") -> None:
        self._used()
        if self._connection is not None:
            self._connection.change(file.path, file.version, file.text)
            self._wanted.set()


def introduced(
    path: str, before: Sequence[Diagnostic], text_before: str, after: Sequence[Diagnostic], text_after: str
) -> list[NewError]:
    """The errors of `after` that `before` does not account for, in the order of the text.

    An old error accounts for one new one with the same message: first for one on a line with the same text, wherever
    that is now, then for any other.
    """
    old_lines, new_lines = split_lines(text_before), split_lines(text_after)
    known = [(_key(each), _line(old_lines, each)) for each in before if each.is_error]
    on_line = Counter(known)
    unplaced: list[Diagnostic] = []
    for each in after:
        if not each.is_error:
            continue
        key = (_key(each), _line(new_lines, each))
        if on_line[key] > 0:
            on_line[key] -= 1
        else:
            unplaced.append(each)
    by_words = Counter[tuple[str, str, str]]()
    for (key, _), count in on_line.items():
        by_words[key] += count
    fresh: list[NewError] = []
    for each in unplaced:
        if by_words[_key(each)] > 0:
            by_words[_key(each)] -= 1
            continue
        line = each.span.line
        column = column_of(new_lines[line], each.span.unit) if line < len(new_lines) else 0
        fresh.append(NewError(path, line + 1, column + 1, each.message, each.code, each.source))
    return sorted(fresh, key=lambda error: (error.line, error.column))


def _key(diagnostic: Diagnostic) -> tuple[str, str, str]:
    return (diagnostic.source, diagnostic.code, diagnostic.message)


def _line(lines: Sequence[str], diagnostic: Diagnostic) -> str:
    return lines[diagnostic.span.line].strip() if diagnostic.span.line < len(lines) else ""


QUIET_SECONDS = 0.1
"""Time without further diagnostics on a file after which those of this version count as complete."""

QUIET_SECONDS_WITHOUT_VERSION = 0.4
"""The same for a server that does not name the version, and may send one kind of errors after another."""


MOST_FILES = 100
"""Limit on files that a server has open at a time."""


class OpenFile(Struct):
    """One file."""

    path: str
    language: str
    text: str
    """The text that the server has."""
    version: int = 1
    found: tuple[Diagnostic, ...] | None = None
    """Diagnostics of `text`; None until the server has sent them."""
    complete_at: float = 0.0
    """Time from which `found` counts as complete."""
    base: tuple[Diagnostic, ...] | None = None
    """Diagnostics of `base_text`; None until they are known."""
    base_text: str = ""
    next_text: str | None = None
    """The text to send once the diagnostics of the text before are known."""
    is_edited: bool = False
    """True during an edit that was not compared yet."""

    def is_complete(self, now: float) -> bool:
        """Return whether all diagnostics of the file's newest text are known."""
        return self.next_text is None and self.found is not None and now >= self.complete_at


Tell = Callable[[OpenFile], None]
"""Sends the file's text with its version."""


class OpenFiles(Struct):
    """All files of one server. `changed` is called when a file has a new text for the server."""

    changed: Tell
    by_path: dict[str, OpenFile] = field(default_factory=dict[str, OpenFile])
    news: anyio.Event = field(default_factory=anyio.Event)
    """Set, and replaced, whenever the server sent something."""

    def named(self, path: str) -> OpenFile | None:
        """The file, if the server has it."""
        return self.by_path.get(path)

    def note_before(self, path: str, language: str, text: str | None) -> OpenFile | None:
        """Record the text before an edit (None: the file is new); return the file if the server has to open it.

        The diagnostics before are taken at the first edit of several that are compared together.
        """
        file = self.by_path.get(path)
        if file is None:
            # A new file had no errors.
            base = () if text is None else None
            file = self.by_path[path] = OpenFile(path, language, text or "", base=base, is_edited=True)
            return file
        if not file.is_edited:
            file.is_edited = True
            if file.text != (text or ""):
                file.base = None
                self._change(file, text or "")
        return None

    def note_after(self, path: str, text: str) -> None:
        """Record the text after an edit."""
        file = self.by_path[path]
        if file.base is None:
            file.next_text = text
        elif file.text != text:
            self._change(file, text)

    def show(self, path: str, language: str, text: str) -> OpenFile | None:
        """Record a text that a question is about; return the file if the server has to open it."""
        file = self.by_path.get(path)
        if file is None:
            file = self.by_path[path] = OpenFile(path, language, text)
            return file
        if file.text != text:
            if not file.is_edited:
                file.base = None
            file.next_text = None
            self._change(file, text)
        return None

    def forget_answers(self) -> None:
        """Forget the answers of a server that was restarted: it has to send them again."""
        for file in self.by_path.values():
            file.found = None

    def note_found(self, path: str, version: int | None, found: tuple[Diagnostic, ...], now: float) -> None:
        """Record the diagnostics of a file; those of an older text are dropped."""
        file = self.by_path.get(path)
        if file is None or (version is not None and version != file.version):
            return
        file.found = found
        file.complete_at = now + (QUIET_SECONDS if version is not None else QUIET_SECONDS_WITHOUT_VERSION)
        self._tell_news()

    def advance(self, now: float) -> float | None:
        """Continue to the newest text if the diagnostics before are known; return the seconds until the next try.

        None if only a message of the server can change anything.
        """
        due: float | None = None
        for file in self.by_path.values():
            if file.base is not None or file.found is None:
                continue
            if now < file.complete_at:
                left = file.complete_at - now
                due = left if due is None else min(due, left)
                continue
            file.base, file.base_text = file.found, file.text
            if file.next_text is not None:
                following, file.next_text = file.next_text, None
                if following != file.text:
                    self._change(file, following)
        return due

    def incomplete(self, now: float) -> list[OpenFile]:
        """The edited files whose diagnostics are incomplete."""
        return [file for file in self.by_path.values() if file.is_edited and not file.is_complete(now)]

    def compare(self, now: float) -> list[NewError]:
        """The errors that are new since the last comparison, in every file with complete diagnostics."""
        errors: list[NewError] = []
        for file in self.by_path.values():
            if file.base is None or file.found is None or not file.is_complete(now):
                continue
            errors += introduced(file.path, file.base, file.base_text, file.found, file.text)
            file.base, file.base_text, file.is_edited = file.found, file.text, False
        return errors

    def superfluous(self) -> list[str]:
        """The files that were opened first, beyond the limit of a server, without those being edited."""
        unused = [path for path, file in self.by_path.items() if not file.is_edited]
        return unused[: max(len(self.by_path) - MOST_FILES, 0)]

    def drop(self, paths: Iterable[str]) -> list[str]:
        """Remove files that are gone; return those that the server had open."""
        return [path for path in paths if self.by_path.pop(path, None) is not None]

    def _change(self, file: OpenFile, text: str) -> None:
        file.text, file.version, file.found = text, file.version + 1, None
        self.changed(file)

    def _tell_news(self) -> None:
        news, self.news = self.news, anyio.Event()
        news.set()


if TYPE_CHECKING:
    from pattern_acp.lsp.connection import OnDiagnostics, ServerConnection

logger = logging.getLogger(__name__)

START_SECONDS = 60.0
"""Limit for the answer to `initialize`; a server that needs longer counts as hanging."""

ANSWER_SECONDS = 30.0
"""Limit for any other answer. Servers that read a large project answer late; one that needs longer counts as
hanging."""

RESTARTS = 1

AnswerT = TypeVar("AnswerT")
Connect: TypeAlias = "Callable[[str, ChildProgram, OnDiagnostics, Mapping[str, object]], ServerConnection]"


def load_connect() -> Connect:
    """Import the protocol; takes a second, so it runs in a thread."""
    from pattern_acp.lsp.connection import ServerConnection

    return ServerConnection


class State(StrEnum):
    """Activity of a server."""

    STARTING = "starting"
    READY = "ready"
    STOPPED = "stopped"
    FAILED = "failed"


class ServerLocation(Struct, frozen=True):
    """The command and folder of one server."""

    roots: tuple[str, ...]
    ports: ChildProgramPorts
    idle_seconds: float
    configuration: Mapping[str, object]
    """The answers to its requests for settings, by section."""
    start_seconds: float = START_SECONDS
    answer_seconds: float = ANSWER_SECONDS


class LanguageServer:
    """One server. `run` owns its process; everything else may be called from any task."""

    def __init__(
        self, found: FoundServer, location: ServerLocation, load: Callable[[], Connect] = load_connect
    ) -> None:
        self.found = found
        self.state = State.STARTING
        self.problem = ""
        self.synced = SyncedFiles(self.touch)
        self.gone = anyio.Event()
        """Set once its process is gone for good."""
        self._scope = anyio.CancelScope()
        self._location = location
        self._load = load
        self._connection: ServerConnection | None = None
        self._settled = anyio.Event()
        """Set while it is ready, and once it will never be."""
        self._hangs = anyio.Event()
        self._used_at = 0.0

    @property
    def is_alive(self) -> bool:
        """Return whether it may still answer."""
        return self.state in {State.STARTING, State.READY}

    @property
    def name(self) -> str:
        """The name as shown."""
        return self.found.kind.name

    def stop(self) -> None:
        """End it with what it started. Idempotent, and does not wait."""
        self._scope.cancel()

    async def run(self) -> None:
        """Run the server until it is idle, has failed for good, or is stopped."""
        self.touch()
        try:
            with self._scope:
                await self._run_until_unused()
        except Exception:
            logger.exception("The language server %s could not be run.", self.name)
            self.state, self.problem = State.FAILED, "of a fault in pattern-acp"
        finally:
            if self.is_alive:
                self.state = State.STOPPED
            self._settled.set()
            self.gone.set()

    async def _run_until_unused(self) -> None:
        for again in range(RESTARTS + 1):
            problem = await self._run_once()
            if not problem:
                self.state = State.STOPPED
                return
            logger.warning("The language server %s stopped: %s", self.name, problem)
            self.problem = problem
            if again < RESTARTS:
                self._unsettle()
                self.state = State.STARTING
        self.state = State.FAILED

    def touch(self) -> None:
        """Note that it is needed now."""
        self._used_at = anyio.current_time()

    async def ask(self, question: "Callable[[ServerConnection], Awaitable[AnswerT]]") -> AnswerT:
        """Ask a question once the server is ready.

        Raises:
            LanguageServerError: it failed, refused, or did not answer in time, in which case it is ended.
        """
        self.touch()
        with anyio.move_on_after(self._location.start_seconds):
            await self._settled.wait()
        if self._connection is None:
            raise LanguageServerError(f"The language server {self.name} cannot be asked: {self.problem or 'it ended'}.")
        try:
            with anyio.fail_after(self._location.answer_seconds):
                return await question(self._connection)
        except TimeoutError:
            self._give_up()
            raise LanguageServerError(
                f"The language server {self.name} did not answer in {self._location.answer_seconds:.0f} s "
                "and was ended."
            ) from None
        finally:
            self.touch()

    def _give_up(self) -> None:
        """End a server that hangs; callers wait for its next start."""
        self._connection = None
        self.synced.disconnect()
        self._unsettle()
        self._hangs.set()

    def _unsettle(self) -> None:
        if self._settled.is_set():
            self._settled = anyio.Event()

    async def _run_once(self) -> str:
        """Run the program once; return why it ended, empty when nobody needed it any more."""
        ended = ""
        try:
            connect = await to_thread.run_sync(self._load)
            command, cwd, ports = self.found.command, self._location.roots[0], self._location.ports
            async with running_program(command, cwd, ports, LanguageServerError) as program:
                connection = connect(self.name, program, self.synced.take, self._location.configuration)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(connection.channel.run)
                    ended = await self._serve(connection)
                    tasks.cancel_scope.cancel()
                if ended and program.last_line:
                    ended = f"{ended} ({program.last_line})"
        except LanguageServerError as error:
            return error.sentence
        finally:
            self._connection = None
            self.synced.disconnect()
        return ended

    async def _serve(self, connection: "ServerConnection") -> str:
        try:
            with anyio.fail_after(self._location.start_seconds):
                abilities = await connection.initialize(self._location.roots, self.found.kind.options)
        except TimeoutError:
            return f"it did not start within {self._location.start_seconds:.0f} s"
        except LanguageServerError as error:
            return error.sentence
        self._connection, self._hangs = connection, anyio.Event()
        self.synced.connect(connection)
        self.state = State.READY
        self._settled.set()
        ended = ""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.synced.keep_advancing)
            if abilities.gives_diagnostics:
                tasks.start_soon(self._ask_for_diagnostics, connection)
            ended = await first_of(
                {connection.channel.ended: "it ended", self._hangs: "it did not answer"}, self._wait_idle
            )
            tasks.cancel_scope.cancel()
        return ended

    async def _ask_for_diagnostics(self, connection: "ServerConnection") -> None:
        await self.synced.keep_asking(connection, self._location.answer_seconds)
        self._give_up()

    async def _wait_idle(self) -> None:
        # Not an event: another use only moves the time.
        while (left := self._used_at + self._location.idle_seconds - anyio.current_time()) > 0:  # noqa: ASYNC110
            await anyio.sleep(left)


async def first_of(events: Mapping[anyio.Event, str], otherwise: Callable[[], Awaitable[None]]) -> str:
    """Wait for the first of `events` and return its value; empty when `otherwise` returns before any is set."""
    happened: list[str] = []

    async def wait(event: anyio.Event, meaning: str) -> None:
        await event.wait()
        happened.append(meaning)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for event, meaning in events.items():
            tasks.start_soon(wait, event, meaning)
        await otherwise()
        tasks.cancel_scope.cancel()
    return happened[0] if happened else ""
