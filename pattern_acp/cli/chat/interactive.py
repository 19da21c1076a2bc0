"""Prompt after prompt.

Owns: the banner, the prompt line and what is printed above it, `/quit`, and what an error means here. Must not know:
the connection.
"""

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from rich.cells import cell_len
from rich.text import Text

from pattern_acp import __version__
from pattern_acp.cli.arguments import EXIT_CANCELLED, EXIT_ERROR, EXIT_OK
from pattern_acp.cli.chat.calls import one_line
from pattern_acp.cli.chat.interrupts import Interrupts, SecondPress
from pattern_acp.cli.chat.keyboard import has_more, quiet_keys
from pattern_acp.cli.chat.output import Stage
from pattern_acp.cli.chat.transcript import Transcript, folder_words, header_line, home_folder, jobs_line
from pattern_acp.cli.chat.turns import Turns
from pattern_acp.config.paths import make_private_directory, open_private_append

if sys.platform == "win32":  # where the console itself edits lines
    readline = None
else:
    try:
        import readline
    except ImportError:
        readline = None

HISTORY_FILE = "chat_history"
"""Beside the log. Prompts are in the constellation as well; deleting the file only forgets the arrow-up lines."""

HISTORY_LINES = 1_000


class LinePrompt:
    """Asks for prompts. `commands` gives the slash commands to complete, without the slash."""

    def __init__(
        self, folder: Path, commands: Callable[[], Sequence[str]], news: Callable[[int], None] | None = None
    ) -> None:
        """`news` is called again and again while the first line is typed, with the columns that it takes."""
        self._file = folder / HISTORY_FILE
        self._commands = commands
        self._news = news
        self._lines: list[str] = []
        """The lines that the prompt has so far."""

    def open(self) -> None:
        """Load the history, set up completion, and have the terminal say what is pasted, which libedit cannot."""
        if readline is None:
            return
        with contextlib.suppress(OSError):
            readline.read_history_file(self._file)
        readline.set_history_length(HISTORY_LINES)
        readline.set_completer(self._complete)
        readline.set_completer_delims("\n")
        libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
        if not libedit:
            readline.parse_and_bind("set enable-bracketed-paste on")  # Python switches it off

    def close(self) -> None:
        """Save the history, readable by the user alone."""
        if readline is None:
            return
        with contextlib.suppress(OSError):
            make_private_directory(self._file.parent)
            os.close(open_private_append(str(self._file), os.O_WRONLY | os.O_CREAT | os.O_APPEND))
            readline.write_history_file(self._file)

    def forget(self, command: str) -> None:
        """Drop the lines that hold what `/memory forget LABEL PASSAGE` forgets, the command among them."""
        found = _FORGETTING.match(command)
        if readline is None or found is None:
            return
        from pattern_acp.memory.forgotten import forget_passage

        forgotten = forget_passage(found[1])
        for number in range(readline.get_current_history_length(), 0, -1):
            if forgotten.holds(readline.get_history_item(number) or ""):
                readline.remove_history_item(number - 1)
        self.close()

    def read(self, sign: str) -> str | None:
        """The next prompt; None at the end of input.

        A line that ends with a backslash goes on in the next one, and lines that are pasted are one prompt.

        Raises:
            KeyboardInterrupt: the user gave the line up; `given_up` has it.
        """
        lines = self._lines = []
        while True:
            try:
                line = input("  ") if lines else self._first_line(f"{sign} ")
            except EOFError:
                return "\n".join(lines) if lines else None
            if has_more(sys.stdin):  # a terminal that does not say what is pasted
                lines.append(line)
            elif line.endswith("\\"):
                lines.append(line[:-1])
            else:
                return "\n".join([*lines, line]).rstrip("\n")

    def given_up(self) -> str:
        """Return the line that Ctrl-C interrupted, and add it to the history where there is one."""
        line = readline.get_line_buffer() if readline is not None else ""
        if readline is not None and line.strip():
            readline.add_history(line)
        return "\n".join([*self._lines, line])

    def _first_line(self, sign: str) -> str:
        news = self._news
        if news is None or readline is None or not sys.stdin.isatty():
            return input(sign)
        edited = readline
        with looking(lambda: news(cell_len(sign + edited.get_line_buffer()))):
            return input(sign)

    def _complete(self, text: str, state: int) -> str | None:
        found = completions(text, self._commands())
        return found[state] if state < len(found) else None


def completions(text: str, commands: Sequence[str]) -> list[str]:
    """The commands that a line may become, with the blank behind them; only a line that begins with a slash is one."""
    if not text.startswith("/"):
        return []
    return [f"/{name} " for name in sorted({"quit", *commands}) if f"/{name}".startswith(text)]


LOOK_SECONDS = 0.5

INSERTED = "\x1bD\x1b[A\x1b7\r\x1b[L{line}\x1b8\x1b[B"
"""Make sure of a row below (IND, CUU), keep the place (DECSC), push the row down (IL), write, and go back to the place
in its new row (DECRC, CUD). Whoever edits the line need not know: it stands as it stood."""


@contextmanager
def looking(look: Callable[[], None]) -> Generator[None, None, None]:
    """Call `look` twice a second while the main thread waits for a line; never on Windows.

    It comes between two keys: readline lets signals in there alone, so that its line is whole when it is looked at.
    """
    if sys.platform == "win32":
        yield
        return

    def tick(number: int, frame: FrameType | None) -> None:
        del number, frame
        try:
            look()
        except SystemError as error:
            # `input` looks for signals once more when Ctrl-C has ended it: what is called then finds an exception set.
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise

    before = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


WITHOUT_MODEL = "offline/offline"
"""The model of a session that has none."""

NO_MODEL = "No model is set up, so only plain commands such as “find TEXT” are understood; “help” tells more."

KEPT = "The up arrow brings the line back. "

_FORGETTING = re.compile(r"/memory\s+forget\s+(?:--yes\s+)?\S+\s+(?:--yes\s+)?(?!--all\s*$)(.+)", re.DOTALL)

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
        """Ask for prompts until the user leaves; the exit code.

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
        self._prompt.forget(text)
        self._known.background_jobs = end.background_jobs
        if end.error and not end.is_shown:
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
        """Show the past of a loaded session, its calls in one line each."""
        self._transcript.compact = True
        self._turns.show_waiting()
        self._transcript.settle()
        self._transcript.compact = False

    def _say(self, sentence: str) -> None:
        self._stage.screen.print(Text(f"\n{sentence}", style="dim"))

    def _command_names(self) -> list[str]:
        self._turns.absorb(self._known)
        return [command.name for command in self._known.commands]
