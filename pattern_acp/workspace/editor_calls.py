"""Asking the editor, with patience that ends.

Owns: the deadline of one call, and leaving a mute editor alone for a while. Must not know: what is asked, nor what is
done instead.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from pattern_acp.workspace.errors import EditorUnavailableError

T = TypeVar("T")

MUTE_CALLS = 2
"""Calls in a row without an answer after which the editor is left alone; each costs the person a whole deadline."""

PAUSE_SECONDS = 60.0
"""How long it is left alone. A busy editor (start-up, a modal question) is back by then."""

_NEARLY = 0.9
"""An adapter with the same deadline gives up first and says only that the editor is unavailable."""


class EditorCalls:
    """Calls to one editor; `deadline` is in seconds."""

    def __init__(self, deadline: float, on_warning: Callable[[str], None]) -> None:
        self._deadline = deadline
        self._on_warning = on_warning
        self._mute_calls = 0
        self._paused_until = 0.0

    @property
    def paused(self) -> bool:
        """Whether the editor is being left alone."""
        return anyio.current_time() < self._paused_until

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """The answer of `call`, and whatever it raises.

        Raises:
            EditorUnavailableError: no answer in time.
        """
        began = anyio.current_time()
        try:
            with anyio.fail_after(self._deadline):
                answer = await call()
        except TimeoutError as error:
            self._note_mute()
            message = f"The editor did not answer within {self._deadline:g} s."
            raise EditorUnavailableError(message) from error
        except EditorUnavailableError:
            if anyio.current_time() - began >= self._deadline * _NEARLY:
                self._note_mute()
            else:
                self._mute_calls = 0
            raise
        self._mute_calls = 0
        return answer

    def _note_mute(self) -> None:
        self._mute_calls += 1
        if self._mute_calls >= MUTE_CALLS:
            self._mute_calls = 0
            self._paused_until = anyio.current_time() + PAUSE_SECONDS
            self._on_warning(
                f"The editor did not answer {MUTE_CALLS} times in a row; "
                f"files are read and written on the disk for the next {PAUSE_SECONDS:g} s."
            )
