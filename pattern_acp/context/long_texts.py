"""Texts of a prompt that are too long to be sent whole: large pastes and embedded files.

Owns: how much of each the model is sent, and the id by which it reads the rest. Must not know: the journal, which keeps
all of it. Pure, so that a longer history starts with the same bytes.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from pattern_acp.domain.messages import Message, Part, ResourcePart, Role, TextPart, begins_with

WHOLE_CHARACTERS = 60_000
"""Characters of one text that is sent whole, about 15,000 tokens."""

HEAD_SHARE, TAIL_SHARE = 2, 4
"""One part in so many of that is sent of a longer one, from its beginning and from its end."""


def with_shortened(messages: Sequence[Message], whole: int = WHOLE_CHARACTERS) -> tuple[Message, ...]:
    """The messages as they are sent: texts of the person's side above `whole` characters have their middle left out."""
    return tuple(_shortened(message, whole) if message.role is Role.USER else message for message in messages)


class ShortenedTexts:
    """`with_shortened` of one conversation, which looks at each message once as long as the conversation goes on.

    Messages that were shortened stay the same ones, so that whoever knows messages by their identity knows these too.
    """

    def __init__(self) -> None:
        self._messages: tuple[Message, ...] = ()
        self._shortened: tuple[Message, ...] = ()
        self._whole = 0

    def of(self, messages: Sequence[Message], whole: int = WHOLE_CHARACTERS) -> tuple[Message, ...]:
        """See `with_shortened`."""
        if whole != self._whole or not begins_with(messages, self._messages):
            self._messages, self._shortened, self._whole = (), (), whole
        new = with_shortened(messages[len(self._messages) :], whole)
        self._messages, self._shortened = tuple(messages), self._shortened + new
        return self._shortened


def long_text(messages: Iterable[Message], text_id: str) -> str | None:
    """The whole text that `text_id`, from a marker, stands for; None when there is none."""
    message_id, _, number = text_id.rpartition(".")
    for message in messages:
        if message.message_id == message_id and number.isdecimal() and int(number) < len(message.parts):
            return _text_of(message.parts[int(number)])
    return None


def _shortened(message: Message, whole: int) -> Message:
    # A plain loop: it sees every prompt of the session with every request.
    for part in message.parts:
        if isinstance(part, TextPart | ResourcePart) and len(part.text or "") > whole:
            break
    else:
        return message
    parts = tuple(_short(part, f"{message.message_id}.{number}", whole) for number, part in enumerate(message.parts))
    return replace(message, parts=parts)


def _short(part: Part, text_id: str, whole: int) -> Part:
    text = _text_of(part)
    if text is None or len(text) <= whole or not isinstance(part, TextPart | ResourcePart):
        return part
    head, tail = whole // HEAD_SHARE, whole // TAIL_SHARE
    left = len(text) - head - tail
    marker = (
        f"\n[... {left:,} characters left out here; read_attachment with id {text_id} and start {head} "
        "reads them ...]\n"
    )
    return replace(part, text=text[:head] + marker + text[-tail:])


def _text_of(part: Part) -> str | None:
    return part.text if isinstance(part, TextPart | ResourcePart) else None
