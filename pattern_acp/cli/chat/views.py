"""The views of a turn: on a screen, or as JSON lines.

Owns: the port that turns.py draws through, and its two forms. Must not know: the connection.
"""

from typing import Protocol

import msgspec
from msgspec.structs import replace

from pattern_acp.acp import schema
from pattern_acp.cli.chat.asking import Asker, shows_at_length
from pattern_acp.cli.chat.events import PromptAnswered, Question, SessionInfo
from pattern_acp.cli.chat.transcript import Transcript
from pattern_acp.cli.output import write_json
from pattern_acp.domain.canonical import JsonObject


def read_update(update: JsonObject) -> schema.SessionUpdate | None:
    """The update; None for a variant that this client does not know, which the protocol says to ignore."""
    try:
        return msgspec.convert(update, type=schema.SessionUpdate)
    except msgspec.ValidationError:
        return None


def write_update(update: JsonObject) -> None:
    """One update. Raises OutputClosed where the reader went away."""
    write_json(update)


def write_end(end: PromptAnswered, *, refused: bool) -> None:
    """The last line of a turn (docs/reference/chat-lines.schema.json): how it ended, and in which session."""
    told = {
        "stopReason": end.stop_reason,
        "error": end.error,
        "failure": end.failure,
        "refused": refused,
        "sessionId": end.session_id,
    }
    write_json({name: value for name, value in told.items() if value})


SILENT = (
    schema.AvailableCommandsUpdate,
    schema.CurrentModeUpdate,
    schema.ConfigOptionUpdate,
    schema.SessionInfoUpdate,
    schema.UsageUpdate,
)
"""Updates that only change what is known."""


class ChatView(Protocol):
    """Shows a turn."""

    def begin(self) -> None:
        """A prompt was sent."""
        ...

    def update(self, update: JsonObject) -> None:
        """The agent sent an update."""
        ...

    def ask(self, question: Question) -> None:
        """Get a question answered. Raises KeyboardInterrupt where the user cancels."""
        ...

    def tick(self, *, cancelling: bool) -> None:
        """Time went by."""
        ...

    def end(self, end: PromptAnswered) -> None:
        """The turn ended."""
        ...


class ScreenView:
    """`ChatView` on a screen."""

    def __init__(self, transcript: Transcript, asker: Asker) -> None:
        self._transcript = transcript
        self._asker = asker

    def begin(self) -> None:
        """See `TurnView.begin`."""
        self._transcript.begin_turn()

    def update(self, update: JsonObject) -> None:
        """See `TurnView.update`."""
        read = read_update(update)
        if read is not None:
            self._transcript.show(read)

    def ask(self, question: Question) -> None:
        """See `TurnView.ask`."""
        self._transcript.pause()
        if question.takes_words and (diffs := self._transcript.diffs_of(question.call.tool_call_id)):
            # A form has words alone; what they are about is in its call.
            call = replace(question.call, content=(*(question.call.content or ()), *diffs))
            question = replace(question, call=call)
        self._asker.ask(question, self._transcript.known.cwd)
        if self._asker.asks and shows_at_length(question.call):
            self._transcript.has_shown(question.call.tool_call_id)

    def tick(self, *, cancelling: bool) -> None:
        """See `TurnView.tick`."""
        self._transcript.cancelling = cancelling
        self._transcript.tick()

    def end(self, end: PromptAnswered) -> None:
        """See `TurnView.end`. An error is for the one who runs the turn to say."""
        if end.error:
            self._transcript.settle()
        else:
            self._transcript.end_turn(end.stop_reason)


class JsonView:
    """`ChatView` as JSON lines on stdout: the updates as they are on the wire, then how it ended, nothing else."""

    def __init__(self, asker: Asker, cwd: str) -> None:
        self._asker = asker
        self._cwd = cwd

    def begin(self) -> None:
        """See `TurnView.begin`."""

    def update(self, update: JsonObject) -> None:
        """See `TurnView.update`."""
        write_update(update)

    def ask(self, question: Question) -> None:
        """See `TurnView.ask`."""
        self._asker.ask(question, self._cwd)

    def tick(self, *, cancelling: bool) -> None:
        """See `TurnView.tick`."""

    def end(self, end: PromptAnswered) -> None:
        """See `TurnView.end`."""
        write_end(end, refused=self._asker.has_refused)


def absorb(update: JsonObject, known: SessionInfo) -> bool:
    """Remember an update that shows nothing; False for one that has to be shown."""
    read = read_update(update)
    if read is None:
        return True
    if isinstance(read, SILENT):
        known.take(read)
        return True
    return False
