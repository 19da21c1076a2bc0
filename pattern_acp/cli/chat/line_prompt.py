"""The line, or lines, that a user types a prompt into.

Owns: editing with prompt_toolkit (ADR 35), the history, and completion of slash commands and `@paths`. A terminal that
cannot move its cursor, and a pipe, get plain lines. Must not know: what is done with a prompt.
"""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import Application, PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth, get_term_environment_variable

from pattern_acp.cli.chat.events import Question
from pattern_acp.cli.chat.screen import wrapped_rows
from pattern_acp.config.paths import make_private_directory, open_private_append

if TYPE_CHECKING:
    from prompt_toolkit.input import Input

HISTORY_FILE = "chat_prompts"
"""Beside the log. Prompts are in the constellation as well; deleting the file only forgets the arrow-up lines."""

HISTORY_BYTES = 512 * 1024
"""The size at which the older half of the history goes."""

OWN_COMMANDS = {
    "new": "begin a new session here",
    "resume": "continue another session of this folder",
    "mode": "choose what runs without a question: ask, edit, plan or auto",
    "quit": "leave",
}
"""Commands of the chat itself, with what they do; the agent's come beside them."""

CONTINUED = "  "
"""Before the second line of a prompt, and those that follow."""

PATHS = 200
"""Completions of a path that are offered at most."""

_FORGETTING = re.compile(r"/memory\s+forget\s+(?:--yes\s+)?\S+\s+(?:--yes\s+)?(?!--all\s*$)(.+)", re.DOTALL)

_DARK = Style.from_dict({"status": "#888888", "sign": "bold ansicyan"})
_LIGHT = Style.from_dict({"status": "#585858", "sign": "bold #005f87"})


class PromptCompleter(Completer):
    """Completes the slash command that a prompt begins with, and a path behind an `@`."""

    def __init__(self, commands: Callable[[], Mapping[str, str]], folder: Callable[[], str]) -> None:
        self._commands = commands
        self._folder = folder

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """See `Completer`."""
        del complete_event
        typed = document.text_before_cursor
        if typed.startswith("/") and " " not in typed and "\n" not in typed:
            yield from self._of_command(typed)
        elif (word := typed.rpartition(" ")[2].rpartition("\n")[2]).startswith("@"):
            yield from self._of_path(word[1:])

    def _of_command(self, typed: str) -> Iterable[Completion]:
        offered = {**self._commands(), **OWN_COMMANDS}
        for name in sorted(offered):
            if f"/{name}".startswith(typed):
                yield Completion(f"/{name} ", -len(typed), display=f"/{name}", display_meta=offered[name])

    def _of_path(self, typed: str) -> Iterable[Completion]:
        above, _, beginning = typed.rpartition("/")
        folder = Path(self._folder(), Path(above).expanduser() if above else "")
        entries: list[tuple[str, bool]] = []
        with contextlib.suppress(OSError, ValueError, RuntimeError), os.scandir(folder) as found:
            entries = sorted((entry.name, entry.is_dir()) for entry in found)
        wanted = beginning.casefold()
        fitting = [one for one in entries if one[0].casefold().startswith(wanted)]
        # Hidden files only when they are asked for.
        shown = [one for one in fitting if beginning.startswith(".") or not one[0].startswith(".")]
        for name, is_folder in shown[:PATHS]:
            ending = "/" if is_folder else " "
            yield Completion(f"{name}{ending}", -len(beginning), display=f"{name}{'/' if is_folder else ''}")


class LinePrompt:
    """Asks for prompts. `status` gives the line above; it is read again every second while the user types."""

    def __init__(
        self,
        folder: Path,
        completer: Completer,
        status: Callable[[], str],
        *,
        colours: bool = True,
        light: bool = False,
    ) -> None:
        self._file = folder / HISTORY_FILE
        self._colours = colours
        self._style = _LIGHT if light else _DARK
        self._completer = completer
        self._status = status
        self._session: PromptSession[str] | None = None
        self._given_up = ""
        self._drawn_head = ""

    def open(self, keys: "Input | None" = None, screen: Output | None = None) -> None:
        """Load the history and edit prompts from now on; `keys` and `screen` are another terminal than ours."""
        self._session = PromptSession(
            history=self._history(),
            completer=self._completer,
            complete_while_typing=True,
            multiline=True,
            key_bindings=self._keys(),
            prompt_continuation=CONTINUED,
            refresh_interval=1.0,
            style=self._style,
            input=keys,
            output=screen or _output(self._above_cursor),
            color_depth=None if self._colours else ColorDepth.DEPTH_1_BIT,
        )

    @property
    def edits(self) -> bool:
        """True where the user can move within the text, and the status is above it."""
        return self._session is not None

    def read(self, sign: str, text: str = "") -> str | None:
        """The next prompt, which begins as `text`; None at the end of input.

        A line that ends with a backslash continues in the next one, and lines that are pasted are one prompt.

        Raises:
            KeyboardInterrupt: the user gave the text up; `given_up` has it.
        """
        self._given_up = ""
        if self._session is None:
            return _plain_lines(sign)
        try:
            read = self._session.prompt(lambda: self._head(sign), default=text, handle_sigint=False)
        except EOFError:
            return None
        except KeyboardInterrupt:
            buffer = self._session.default_buffer
            self._given_up = buffer.text
            if buffer.text.strip():
                buffer.append_to_history()
            raise
        return read.rstrip("\n")

    def forget(self, command: str) -> None:
        """Drop the prompts that have what `/memory forget LABEL PASSAGE` forgets, the command among them."""
        found = _FORGETTING.match(command)
        if self._session is None or found is None:
            return
        from pattern_acp.memory.forgotten import forget_passage

        forgotten = forget_passage(found[1])
        newest_first = self._session.history.load_history_strings()
        left = [one for one in newest_first if not forgotten.holds(one)]
        self._file.write_bytes(b"")
        history = self._history()
        for one in reversed(left):
            history.store_string(one)
        self._session.history = self._session.default_buffer.history = history

    def given_up(self) -> str:
        """Return the text that Ctrl-C interrupted; the history has it."""
        return self._given_up

    def _head(self, sign: str) -> FormattedText:
        # Below the prompt it would need the cursor's place; above it is read again just as often.
        status = self._status()
        self._drawn_head = f"{status}\n{sign} "
        return FormattedText([("class:status", f"{status}\n"), ("class:sign", f"{sign} ")])

    def _above_cursor(self) -> str:
        typed = self._session.default_buffer.document.text_before_cursor if self._session is not None else ""
        return self._drawn_head + typed.replace("\n", f"\n{CONTINUED}")

    def _history(self) -> History:
        with contextlib.suppress(OSError):
            make_private_directory(self._file.parent)
            os.close(open_private_append(str(self._file), os.O_WRONLY | os.O_CREAT | os.O_APPEND))
            if self._file.stat().st_size > HISTORY_BYTES:
                kept = self._file.read_bytes()[-HISTORY_BYTES // 2 :]
                self._file.write_bytes(kept[kept.find(b"\n# ") + 1 :])
            return FileHistory(str(self._file))
        return InMemoryHistory()

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        def enter(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            state = buffer.complete_state
            if state is not None and state.current_completion is not None:
                buffer.complete_state = None
            elif buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        def newline(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        def give_up(event: KeyPressEvent) -> None:
            event.app.exit(exception=KeyboardInterrupt)

        def leave(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                event.current_buffer.delete()
            else:
                event.app.exit(exception=EOFError)

        keys.add("enter")(enter)
        # A key that came before we took them over is a line feed.
        keys.add("c-j")(enter)
        keys.add("escape", "enter")(newline)
        keys.add("c-c")(give_up)
        keys.add("c-d")(leave)
        return keys


def edited_text(question: Question, keys: "Input | None" = None, screen: Output | None = None) -> str | None:
    """The text of a question as the user changed it; None when the question is no longer open, or at the end of input.

    Raises:
        KeyboardInterrupt: the user cancels.
    """
    session: PromptSession[str | None] = PromptSession(
        input=keys,
        output=screen or _output(lambda: f"  {session.default_buffer.document.text_before_cursor}"),
        refresh_interval=0.2,
    )

    def leave_when_closed(app: Application[str | None]) -> None:
        if not question.is_open and not app.is_done:
            app.exit(result=None)

    session.app.before_render += leave_when_closed
    try:
        read = session.prompt("  ", default=question.text, handle_sigint=False)
    except EOFError:
        return None
    return None if read is None else read.strip()


class WrappingOutput(Vt100_Output):
    """A terminal that wraps its lines again when its width changes, which moves the first of those drawn.

    prompt_toolkit goes up as many rows as it drew, and would leave a part of a line that has more rows now.
    """

    above_cursor: Callable[[], str] = staticmethod(lambda: "")
    """Gives what is drawn, from the first line, which is cut at the edge, to the cursor."""
    _columns = 0
    """Columns of the screen when it was drawn."""

    def flush(self) -> None:
        """See `Output.flush`."""
        super().flush()
        self._columns = self.get_size().columns

    def cursor_up(self, amount: int) -> None:
        """See `Output.cursor_up`."""
        columns = self.get_size().columns
        if self._columns not in {0, columns}:
            first, *others = map(get_cwidth, self.above_cursor().split("\n"))
            amount = sum(self._rows(width, columns) for width in (min(first, self._columns), *others)) - 1
            # What follows before the next flush is drawn for this width.
            self._columns = columns
        super().cursor_up(amount)

    def _rows(self, width: int, columns: int) -> int:
        """The rows that a line takes now, whose rows were lines of their own when it was drawn."""
        full, rest = divmod(width, self._columns)
        whole = full * wrapped_rows(self._columns, columns)
        return whole + (wrapped_rows(rest, columns) if rest or not full else 0)


def _output(above_cursor: Callable[[], str]) -> Output:
    output = create_output()
    if isinstance(output, Vt100_Output):
        output = WrappingOutput.from_pty(sys.stdout, term=get_term_environment_variable())
        # No questions about the cursor's place: over a slow line the answers show as text, and nothing here needs them.
        output.enable_cpr = False
        if isinstance(output, WrappingOutput):
            output.above_cursor = above_cursor
    return output


def _plain_lines(sign: str) -> str | None:
    lines: list[str] = []
    while True:
        try:
            line = input("  " if lines else f"{sign} ")
        except EOFError:
            return "\n".join(lines) if lines else None
        if not line.endswith("\\"):
            return "\n".join([*lines, line]).rstrip("\n")
        lines.append(line[:-1])
