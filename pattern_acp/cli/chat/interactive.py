"""Prompt after prompt, and the turns that they begin, as the terminal's thread sees them.

Owns: the banner, the commands of the chat itself, prompts that wait for the running turn, and what an error means here;
the loop over the inbox, and what Ctrl-C does: the first cancels the turn, the second leaves; Ctrl-backslash ends the
newest subagent alone. Must not know: the connection, or how a turn is shown.
"""

import queue
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Protocol

from rich.text import Text

from pattern_acp import __version__
from pattern_acp.cli.arguments import EXIT_CANCELLED, EXIT_ERROR, EXIT_OK
from pattern_acp.cli.chat.agent_process import ChatError
from pattern_acp.cli.chat.calls import one_line
from pattern_acp.cli.chat.events import AgentAsks, Happening, Inbox, OpenedSession, PromptAnswered, SessionInfo, Updated
from pattern_acp.cli.chat.keyboard import Interrupts, SecondPress, TypedAhead, quiet_keys
from pattern_acp.cli.chat.line_prompt import LinePrompt, PromptCompleter
from pattern_acp.cli.chat.output import Stage
from pattern_acp.cli.chat.transcript import Transcript, folder_words, header_line, home_folder
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


WITHOUT_MODEL = "offline/offline"
"""The model of a session that has none."""

NO_MODEL = "No model is set up, so only plain commands such as “find TEXT” are understood; “help” tells more."

KEPT = "The up arrow brings the line back. "

LEAVE = frozenset({"/quit", "/exit"})

MODES = ("ask", "edit", "plan", "auto")


LONG_TURN_SECONDS = 30.0
"""A turn that took longer ends with the terminal's bell: the user may look elsewhere."""

LISTED_SESSIONS = 15


class SessionSwitch(Protocol):
    """Changes the session of the chat, and its mode. Each raises `ChatError` when the agent refuses."""

    def begin(self) -> OpenedSession:
        """A new session in the same folder."""
        ...

    def resume(self, session_id: str) -> OpenedSession:
        """Load a session; its past is in the inbox then."""
        ...

    def sessions(self) -> Sequence[tuple[str, str, str]]:
        """Id, title and day of the newest sessions of the folder, the newest first."""
        ...

    def set_mode(self, mode: str) -> None:
        """Choose a mode."""
        ...


class Interactive:
    """One interactive chat."""

    def __init__(
        self,
        stage: Stage,
        turns: Turns,
        transcript: Transcript,
        interrupts: Interrupts,
        switch: SessionSwitch,
        state_folder: Path,
        at_end: ExitStack,
    ) -> None:
        """`at_end` is closed when all else has ended: what is typed until then is neither shown nor left to a shell."""
        self._stage = stage
        self._at_end = at_end
        self._turns = turns
        self._transcript = transcript
        self._known = transcript.known
        self._interrupts = interrupts
        self._switch = switch
        completer = PromptCompleter(self._commands, lambda: self._known.cwd)
        console = stage.screen.console
        self._prompt = LinePrompt(
            state_folder, completer, self._status, colours=not console.no_color, light=stage.light
        )
        self._typed = TypedAhead(sys.stdin) if stage.screen.can_redraw else None
        turns.typed = transcript.typed = self._typed
        self._own = {"/new": self._begin, "/resume": self._resume, "/mode": self._mode}

    def run(self) -> int:
        """Ask for prompts until the user leaves; the exit code.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed a second time during a turn.
        """
        self._greet()
        self._show_past()
        if sys.stdin.isatty() and self._stage.screen.can_redraw:
            self._prompt.open()
        try:
            # Also between prompts: what is typed then shows in the next one, once.
            with quiet_keys(sys.stdin) if self._prompt.edits else nullcontext():
                return self._converse()
        finally:
            self._at_end.enter_context(quiet_keys(sys.stdin, forgets=True))

    def _converse(self) -> int:
        second = SecondPress(time.monotonic)
        begun = ""
        while True:
            self._turns.absorb(self._known)
            queued = self._typed.take_line() if self._typed is not None else None
            if queued is None and self._typed is not None:
                begun = begun or self._typed.take_text()
            self._stage.screen.print("", *([] if self._prompt.edits else [Text(self._status(), style="dim")]))
            try:
                with self._interrupts.raised():
                    text = queued if queued is not None else self._prompt.read(self._stage.marks.prompt, begun)
            except KeyboardInterrupt:
                line = self._prompt.given_up().strip()
                begun = ""
                if second.leaves(line):
                    self._say("")
                    return EXIT_CANCELLED
                self._say(f"{KEPT if line else ''}Ctrl-C again, Ctrl-D or /quit leaves.")
                continue
            second.forget()
            begun = ""
            if queued is not None:
                self._stage.screen.print(Text(f"{self._stage.marks.prompt} {queued}", style="bold cyan"))
            if text is None:
                self._stage.screen.print("")  # Ctrl-D leaves the cursor behind the prompt's sign
                return EXIT_OK
            if text.strip() in LEAVE:
                return EXIT_OK
            if text.strip() and not self._act(text):
                return EXIT_ERROR

    def _act(self, text: str) -> bool:
        """Carry out a command of the chat, or run a turn; whether the chat can continue."""
        name, _, rest = text.strip().partition(" ")
        own = self._own.get(name)
        if own is None:
            return self._turn(text)
        try:
            own(rest.strip())
        except ChatError as error:
            self._stage.screen.print(Text(one_line(error.sentence), style="red"))
        return True

    def _turn(self, text: str) -> bool:
        """Run a turn; whether the chat can continue."""
        begun = time.monotonic()
        with quiet_keys(sys.stdin):
            end = self._turns.run(text)
        self._prompt.forget(text)
        self._known.background_jobs = end.background_jobs
        if end.error and not end.is_shown:
            self._stage.screen.print(Text(one_line(end.error), style="red"))
        if end.failure:
            self._stage.screen.print(Text(f"[{end.failure}]", style="dim"))
        if self._typed is not None and (end.stop_reason == "cancelled" or end.error):
            # What waited for a turn that went wrong is for the user to look at again.
            self._typed.hold()
        if time.monotonic() - begun > LONG_TURN_SECONDS and self._stage.screen.can_redraw:
            self._stage.screen.console.bell()
        return not end.agent_gone

    def _begin(self, rest: str) -> None:
        del rest
        self._take(self._switch.begin())
        self._say("A new session.")

    def _resume(self, words: str) -> None:
        found = [one for one in self._switch.sessions() if words.casefold() in one[1].casefold() or words in one[0]]
        if not found:
            fitting = f" with “{words}” in its title" if words else ""
            self._say(f"There is no other session{fitting} in this folder.")
            return
        chosen = found[0] if words and len(found) == 1 else self._choose(found[:LISTED_SESSIONS])
        if chosen is not None:
            self._take(self._switch.resume(chosen[0]))
            self._show_past()

    def _choose(self, sessions: Sequence[tuple[str, str, str]]) -> tuple[str, str, str] | None:
        for number, (_, title, day) in enumerate(sessions, 1):
            line = Text(f"{number:>4}  {one_line(title) or '(untitled)'}", no_wrap=True, overflow="ellipsis")
            self._stage.screen.print(line.append(f"  {day}", style="dim"))
        self._say("The number of a session, or Enter for none.")
        try:
            with self._interrupts.raised():
                answer = (self._prompt.read(self._stage.marks.question) or "").strip()
        except KeyboardInterrupt:
            return None
        return sessions[int(answer) - 1] if answer.isdecimal() and 0 < int(answer) <= len(sessions) else None

    def _mode(self, mode: str) -> None:
        if mode not in MODES:
            self._say(f"The mode is {self._known.mode}; /mode takes {', '.join(MODES[:-1])} or {MODES[-1]}.")
            return
        self._switch.set_mode(mode)
        self._known.mode = mode
        self._say(f"Mode {mode}.")

    def _take(self, opened: OpenedSession) -> None:
        """Show another session from now on."""
        self._transcript.settle()
        self._known.begin(opened)

    def _status(self) -> str:
        self._turns.absorb(self._known)
        return header_line(self._known, self._stage.marks).plain

    def _greet(self) -> None:
        marks = self._stage.marks
        banner = Text(f"pattern-acp {__version__}", style="bold")
        folder = folder_words(self._known.cwd, home_folder())
        banner.append(f" {marks.dot} {folder}", style="dim")
        keys = f"Alt-Enter begins a line {marks.dot} Tab completes {marks.dot} Ctrl-D leaves"
        hint = Text(f"/help lists commands {marks.dot} {keys}", style="dim")
        self._stage.screen.print(banner, hint)
        if self._known.model == WITHOUT_MODEL:
            self._stage.screen.print(Text(NO_MODEL, style="yellow"))

    def _show_past(self) -> None:
        """Show the past of a loaded session, its calls in one line each."""
        self._transcript.compact = True
        self._turns.show_waiting()
        self._transcript.settle()
        self._transcript.compact = False

    def _say(self, sentence: str) -> None:
        self._stage.screen.print(Text(f"\n{sentence}", style="dim"))

    def _commands(self) -> Mapping[str, str]:
        self._turns.absorb(self._known)
        return {command.name: command.description for command in self._known.commands}
