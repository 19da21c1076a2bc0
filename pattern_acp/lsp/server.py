"""One language server of one session.

Owns: its start with the first file, its deadline for starting and answering, its one restart, its end when nobody needs
it. Must not know: the protocol (connection.py), nor which server is for what.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import anyio
from anyio import to_thread
from msgspec import Struct

from pattern_acp.lsp.finding import FoundServer
from pattern_acp.lsp.model import LanguageServerError
from pattern_acp.lsp.telling import ToldFiles
from pattern_acp.processes.child_program import ChildProgram, Means, running_program

if TYPE_CHECKING:
    from pattern_acp.lsp.connection import Connection, OnDiagnostics

logger = logging.getLogger(__name__)

START_SECONDS = 60.0
"""For the answer to `initialize`; a server that needs longer is taken for hanging."""

ANSWER_SECONDS = 30.0
"""For any other answer. Servers that read a large project answer late; one that needs longer is taken for hanging."""

RESTARTS = 1

AnswerT = TypeVar("AnswerT")
Connect: TypeAlias = "Callable[[str, ChildProgram, OnDiagnostics, Mapping[str, object]], Connection]"


def load_connect() -> Connect:
    """Import what speaks the protocol; takes a second, so it runs in a thread."""
    from pattern_acp.lsp.connection import Connection

    return Connection


class State(StrEnum):
    """What a server is doing."""

    STARTING = "starting"
    READY = "ready"
    STOPPED = "stopped"
    FAILED = "failed"


class Place(Struct, frozen=True):
    """Where and how one server runs."""

    roots: tuple[str, ...]
    means: Means
    idle_seconds: float
    configuration: Mapping[str, object]
    """What it is answered when it asks for its settings, by section."""
    start_seconds: float = START_SECONDS
    answer_seconds: float = ANSWER_SECONDS


class LanguageServer:
    """One server. `run` owns its process; everything else may be called from any task."""

    def __init__(self, found: FoundServer, place: Place, load: Callable[[], Connect] = load_connect) -> None:
        self.found = found
        self.state = State.STARTING
        self.problem = ""
        self.told = ToldFiles(self.touch)
        self.gone = anyio.Event()
        """Set once its process is gone for good."""
        self._scope = anyio.CancelScope()
        self._place = place
        self._load = load
        self._connection: Connection | None = None
        self._settled = anyio.Event()
        """Set while it is ready, and once it will never be."""
        self._hangs = anyio.Event()
        self._used_at = 0.0

    @property
    def is_alive(self) -> bool:
        """Whether it may still say something."""
        return self.state in {State.STARTING, State.READY}

    @property
    def name(self) -> str:
        """As it is shown."""
        return self.found.kind.name

    def stop(self) -> None:
        """End it with what it started. Idempotent, and does not wait."""
        self._scope.cancel()

    async def run(self) -> None:
        """Keep the server until it is idle, has failed for good, or is stopped."""
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

    async def ask(self, question: "Callable[[Connection], Awaitable[AnswerT]]") -> AnswerT:
        """The answer to a question, once the server is ready.

        Raises:
            LanguageServerError: it failed, refused, or did not answer in time, in which case it is ended.
        """
        self.touch()
        with anyio.move_on_after(self._place.start_seconds):
            await self._settled.wait()
        if self._connection is None:
            raise LanguageServerError(f"The language server {self.name} cannot be asked: {self.problem or 'it ended'}.")
        try:
            with anyio.fail_after(self._place.answer_seconds):
                return await question(self._connection)
        except TimeoutError:
            self._give_up()
            raise LanguageServerError(
                f"The language server {self.name} did not answer in {self._place.answer_seconds:.0f} s and was ended."
            ) from None
        finally:
            self.touch()

    def _give_up(self) -> None:
        """It hangs: it is ended, and whoever asks now waits for its next start."""
        self._connection = None
        self.told.disconnect()
        self._unsettle()
        self._hangs.set()

    def _unsettle(self) -> None:
        if self._settled.is_set():
            self._settled = anyio.Event()

    async def _run_once(self) -> str:
        """Run the program once; why it ended, empty when nobody needed it any more."""
        ended = ""
        try:
            connect = await to_thread.run_sync(self._load)
            command, cwd, means = self.found.command, self._place.roots[0], self._place.means
            async with running_program(command, cwd, means, LanguageServerError) as program:
                connection = connect(self.name, program, self.told.take, self._place.configuration)
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
            self.told.disconnect()
        return ended

    async def _serve(self, connection: "Connection") -> str:
        try:
            with anyio.fail_after(self._place.start_seconds):
                abilities = await connection.initialize(self._place.roots, self.found.kind.options)
        except TimeoutError:
            return f"it did not start within {self._place.start_seconds:.0f} s"
        except LanguageServerError as error:
            return error.sentence
        self._connection, self._hangs = connection, anyio.Event()
        self.told.connect(connection)
        self.state = State.READY
        self._settled.set()
        ended = ""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.told.keep_advancing)
            if abilities.gives_diagnostics:
                tasks.start_soon(self._ask_for_diagnostics, connection)
            ended = await first_of(
                {connection.channel.ended: "it ended", self._hangs: "it did not answer"}, self._wait_idle
            )
            tasks.cancel_scope.cancel()
        return ended

    async def _ask_for_diagnostics(self, connection: "Connection") -> None:
        await self.told.keep_asking(connection, self._place.answer_seconds)
        self._give_up()

    async def _wait_idle(self) -> None:
        # Not an event: being used again only moves the time.
        while (left := self._used_at + self._place.idle_seconds - anyio.current_time()) > 0:  # noqa: ASYNC110
            await anyio.sleep(left)


async def first_of(events: Mapping[anyio.Event, str], otherwise: Callable[[], Awaitable[None]]) -> str:
    """What stands for the first of `events` to be set; empty when `otherwise` returns before any is."""
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
