"""What comes from the agent for the person.

Owns: the way into the inbox, and the questions that are still open. Must not know: connections, screens.
"""

from pattern_acp.cli.chat.events import Asked, Inbox, Updated
from pattern_acp.cli.chat.questions import Question
from pattern_acp.cli.chat.transport import Message


class Incoming:
    """Hands updates and questions to the terminal's thread."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self._open: list[Question] = []

    def ask(self, question: Question) -> None:
        """Hand a question to the person."""
        self._open = [one for one in self._open if one.is_open]
        self._open.append(question)
        self.inbox.put(Asked(question))

    def look(self, message: Message) -> bool:
        """See `PipeTransport`: updates go on as they are; the SDK does not know `$/cancel_request`."""
        if message.get("method") == "$/cancel_request":
            # The only requests that an agent waits for long are questions.
            self.withdraw()
            return False
        params = message.get("params")
        if message.get("method") == "session/update" and isinstance(params, dict):
            update = params.get("update")
            if isinstance(update, dict):
                self.inbox.put(Updated(update))
        return True

    def withdraw(self) -> None:
        """Answer open questions with `cancelled` (ACP v1, cancellation)."""
        for question in self._open:
            question.reply(None)
        self._open = []
