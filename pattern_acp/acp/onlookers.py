"""Windows that look on at a session which another connection of this process steers, and questions that all are asked.

Owns: who looks on at what, and that a question has one answer. Must not know: how a window is asked (`acp.client`), or
what it is shown (`acp.feeds`).
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TypeVar

import anyio

from pattern_acp.domain.clock import SessionId
from pattern_acp.policy.decision import ApprovalRequest, PermissionAnswer, UserContact, UserQuestion

T = TypeVar("T")


class Onlooker(UserContact, Protocol):
    """The user of a window that looks on."""

    async def choose(self, request: ApprovalRequest) -> PermissionAnswer | None:
        """Return the answer; None where there is none that can be read, which is no refusal here."""
        ...


class Onlookers:
    """Windows that look on, for all connections of a process."""

    def __init__(self) -> None:
        self._windows: dict[SessionId, list[Onlooker]] = {}
        self._changed = anyio.Event()

    @contextmanager
    def looking_on(self, session_id: SessionId, window: Onlooker) -> Generator[None]:
        """Have a window asked what the session asks, also what is open now, until the context ends."""
        windows = self._windows.setdefault(session_id, [])
        windows.append(window)
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
        try:
            yield
        finally:
            windows.remove(window)
            if not windows:
                self._windows.pop(session_id, None)

    def of(self, session_id: SessionId) -> tuple[Onlooker, ...]:
        """Return the windows that look on at a session."""
        return tuple(self._windows.get(session_id, ()))

    async def wait_for_another(self) -> None:
        """Wait until one more window looks on at something."""
        await self._changed.wait()


class SharedQuestions:
    """A `UserContact` that asks the window that steers and all that look on: the first answer counts.

    The others are withdrawn. What a window that looks on dismisses, cannot show or does not understand decides nothing;
    from the one that steers it means what it means without onlookers.
    """

    def __init__(self, own: UserContact, session_id: SessionId, onlookers: Onlookers) -> None:
        self._own = own
        self._session_id = session_id
        self._onlookers = onlookers

    async def ask(self, request: ApprovalRequest) -> PermissionAnswer:
        """See `Approver.ask`."""

        async def choose(window: Onlooker) -> PermissionAnswer | None:
            chosen = await window.choose(request)
            return None if chosen is PermissionAnswer.CANCELLED else chosen

        return await self._first(partial(self._own.ask, request), choose)

    async def put(self, question: UserQuestion) -> str | None:
        """See `UserContact.put`."""

        async def say(window: Onlooker) -> str | None:
            return await window.put(question) or None

        return await self._first(partial(self._own.put, question), say)

    async def _first(self, own: Callable[[], Awaitable[T]], other: Callable[[Onlooker], Awaitable[T | None]]) -> T:
        answers: list[T] = []
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:

            def take(answer: T) -> None:
                answers.append(answer)
                tasks.cancel_scope.cancel()

            async def ask_own() -> None:
                nonlocal failure
                try:
                    take(await own())
                except Exception as error:  # noqa: BLE001  raised behind the group, which would make one of a group of it
                    failure = error
                    tasks.cancel_scope.cancel()

            async def ask_other(window: Onlooker) -> None:
                answer = await other(window)
                if answer is not None:
                    take(answer)

            tasks.start_soon(ask_own)
            asked: list[Onlooker] = []
            while True:
                for window in self._onlookers.of(self._session_id):
                    if window not in asked:
                        asked.append(window)
                        tasks.start_soon(ask_other, window)
                await self._onlookers.wait_for_another()
        if failure is not None:
            raise failure
        return answers[0]
