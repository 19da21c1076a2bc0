"""Turns, as the terminal's thread sees them.

Owns: the loop over the inbox, and what Ctrl-C does: the first cancels the turn, the second leaves; Ctrl-backslash
ends the newest subagent alone. Must not know: how anything is shown.
"""

import queue
from collections.abc import Callable

from pattern_acp.cli.chat.events import AgentAsks, Happening, Inbox, PromptAnswered, Updated
from pattern_acp.cli.chat.interrupts import Interrupts
from pattern_acp.cli.chat.keyboard import TypedAhead
from pattern_acp.cli.chat.session_info import SessionInfo
from pattern_acp.cli.chat.views import ChatView, absorb

TICK_SECONDS = 0.1
"""Interval between redraws of the screen and checks for Ctrl-C while nothing arrives."""


class Turns:
    """Runs turns.

    `start` sends a prompt, `cancel` cancels it and `stop_subagent` ends the newest subagent of it, all on the loop's
    thread, without waiting.
    """

    def __init__(
        self,
        inbox: Inbox,
        view: ChatView,
        interrupts: Interrupts,
        start: Callable[[str], object],
        cancel: Callable[[], object],
        stop_subagent: Callable[[], object],
    ) -> None:
        self._inbox = inbox
        self._view = view
        self._interrupts = interrupts
        self._start = start
        self._cancel = cancel
        self._stop_subagent = stop_subagent
        self._late: list[Happening] = []
        self.typed: TypedAhead | None = None
        """Takes what is typed while a turn runs; None where keys are not taken one by one."""

    def run(self, text: str) -> PromptAnswered:
        """Run one turn to its end.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed a second time.
        """
        self._start(text)
        self._view.begin()
        cancelling = False
        while True:
            if self._interrupts.take():
                cancelling = self._interrupt(cancelling=cancelling)
            if self._interrupts.take_stop():
                self._stop_subagent()
            if self.typed is not None:
                self.typed.poll()
            happening = self._next(TICK_SECONDS)
            match happening:
                case PromptAnswered():
                    self._view.end(happening)
                    return happening
                case AgentAsks(question=question):
                    try:
                        self._view.ask(question)
                    except KeyboardInterrupt:
                        cancelling = self._interrupt(cancelling=cancelling)
                case Updated(update=update):
                    self._view.update(update)
                case None:
                    pass
            self._view.tick(cancelling=cancelling)

    def show_waiting(self) -> None:
        """Show what has arrived outside of a turn."""
        while (happening := self._next(0)) is not None:
            if isinstance(happening, Updated):
                self._view.update(happening.update)

    def absorb(self, known: SessionInfo) -> None:
        """Remember what has arrived, and keep for later what has to be shown: a line is being typed."""
        while True:
            try:
                happening = self._inbox.get_nowait()
            except queue.Empty:
                return
            if not isinstance(happening, Updated) or not absorb(happening.update, known):
                self._late.append(happening)

    def _next(self, seconds: float) -> Happening | None:
        if self._late:
            return self._late.pop(0)
        try:
            return self._inbox.get(timeout=seconds) if seconds else self._inbox.get_nowait()
        except queue.Empty:
            return None

    def _interrupt(self, *, cancelling: bool) -> bool:
        if cancelling:
            raise KeyboardInterrupt
        self._cancel()
        return True
