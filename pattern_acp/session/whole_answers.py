"""Answers of the model that stopped in the middle and continued on their own, each put together again."""

from pattern_acp.domain.messages import Message, TextPart
from pattern_acp.journal.events import ContextAdded, Event, MessageRecorded, TurnStarted
from pattern_acp.providers.history import CONTINUE_NOTES

ANSWER_EVENTS = (TurnStarted, MessageRecorded, ContextAdded)
"""Kinds of events that `WholeAnswers` follows."""


class WholeAnswers:
    """The answers of one session, whose events it follows in order. Search has each of them once, and whole."""

    def __init__(self) -> None:
        self._answer: Message | None = None
        self._continues = False

    def follow(self, event: Event) -> Message | None:
        """After an event with words for the model: the answer as far as it goes, with the id of its first part."""
        match event:
            case MessageRecorded(message=message, for_model=True):
                if self._continues and self._answer is not None:
                    text = self._answer.text + message.text
                    message = Message(self._answer.message_id, message.role, (TextPart(text),))
                self._answer, self._continues = message, False
                return message
            case ContextAdded(message=note) if note.text in CONTINUE_NOTES:
                self._continues = True
            case TurnStarted():
                self._answer, self._continues = None, False
            case _:
                pass
        return None
