"""Prompt after prompt.

Owns: the banner, the prompt line, `/quit`, and what an error means here. Must not know: the connection.
"""

import sys
import time
from contextlib import ExitStack
from pathlib import Path

from rich.text import Text

from pattern_acp import __version__
from pattern_acp.cli.arguments import EXIT_CANCELLED, EXIT_ERROR, EXIT_OK
from pattern_acp.cli.chat.calls import one_line
from pattern_acp.cli.chat.interrupts import Interrupts, SecondPress
from pattern_acp.cli.chat.keyboard import quiet_keys
from pattern_acp.cli.chat.line_above import INSERTED
from pattern_acp.cli.chat.line_prompt import LinePrompt
from pattern_acp.cli.chat.notes import folder_words, header_line, home_folder, jobs_line
from pattern_acp.cli.chat.stage import Stage
from pattern_acp.cli.chat.transcript import Transcript
from pattern_acp.cli.chat.turns import Turns

WITHOUT_MODEL = "offline/offline"
"""The model of a session that has none."""

NO_MODEL = "No model is set up, so only plain commands such as “find TEXT” are understood; “help” tells more."

KEPT = "The up arrow brings the line back. "

LEAVE = frozenset({"/quit", "/exit"})


class Interactive:
    """One interactive chat."""

    def __init__(
        self,
        stage: Stage,
        turns: Turns,
        transcript: Transcript,
        interrupts: Interrupts,
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
        news = self._show_jobs if stage.screen.can_redraw else None
        self._prompt = LinePrompt(state_folder, self._command_names, news)
        self._shown_jobs = 0

    def run(self) -> int:
        """Ask for prompts until the person leaves; the exit code.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed a second time during a turn.
        """
        self._greet()
        self._show_past()
        self._prompt.open()
        try:
            return self._converse()
        finally:
            self._prompt.close()
            self._at_end.enter_context(quiet_keys(sys.stdin, forgets=True))

    def _converse(self) -> int:
        second = SecondPress(time.monotonic)
        while True:
            self._turns.absorb(self._known)
            self._shown_jobs = self._known.background_jobs
            self._stage.screen.print("", header_line(self._known, self._stage.marks))
            try:
                with self._interrupts.raised():
                    text = self._prompt.read(self._stage.marks.prompt)
            except KeyboardInterrupt:
                line = self._prompt.given_up().strip()
                if second.leaves(line):
                    self._say("")
                    return EXIT_CANCELLED
                self._say(f"{KEPT if line else ''}Ctrl-C again, Ctrl-D or /quit leaves.")
                continue
            second.forget()
            if text is None:
                self._stage.screen.print("")  # Ctrl-D leaves the cursor behind the prompt's sign
                return EXIT_OK
            if text.strip() in LEAVE:
                return EXIT_OK
            if text.strip() and not self._turn(text):
                return EXIT_ERROR

    def _turn(self, text: str) -> bool:
        """Run a turn; whether the chat can go on."""
        with quiet_keys(sys.stdin):
            end = self._turns.run(text)
        self._known.background_jobs = end.background_jobs
        if end.error:
            self._stage.screen.print(Text(one_line(end.error), style="red"))
        if end.failure:
            self._stage.screen.print(Text(f"[{end.failure}]", style="dim"))
        return not end.agent_gone

    def _show_jobs(self, columns: int) -> None:
        """Say above the line that is typed, which takes so many columns, that another number of commands runs now."""
        self._turns.absorb(self._known)
        jobs = self._known.background_jobs
        console = self._stage.screen.console
        # A line that goes on in a second row may have the cursor in either; the next look may find it shorter.
        if jobs == self._shown_jobs or columns >= console.width:
            return
        self._shown_jobs = jobs
        with console.capture() as captured:
            console.print(jobs_line(jobs), end="")
        console.file.write(INSERTED.format(line=captured.get()))
        console.file.flush()

    def _greet(self) -> None:
        marks = self._stage.marks
        banner = Text(f"pattern-acp {__version__}", style="bold")
        folder = folder_words(self._known.cwd, home_folder())
        banner.append(f" {marks.dot} {folder}", style="dim")
        hint = Text(f"/help lists commands {marks.dot} Tab completes {marks.dot} Ctrl-D leaves", style="dim")
        self._stage.screen.print(banner, hint)
        if self._known.model == WITHOUT_MODEL:
            self._stage.screen.print(Text(NO_MODEL, style="yellow"))

    def _show_past(self) -> None:
        """What a loaded session said before: its calls in one line each."""
        self._transcript.compact = True
        self._turns.show_waiting()
        self._transcript.settle()
        self._transcript.compact = False

    def _say(self, sentence: str) -> None:
        self._stage.screen.print(Text(f"\n{sentence}", style="dim"))

    def _command_names(self) -> list[str]:
        self._turns.absorb(self._known)
        return [command.name for command in self._known.commands]
