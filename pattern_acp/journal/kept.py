"""Which events of a session still make up its conversation.

Owns: reading a stream backwards through the places where the person went back. Must not know: what the events mean.

A `SessionRewound` with `back_to` N makes the conversation what it was behind event N. What lies between stays in the
stream as a branch: the conversation behind any event can be had with `upto`, also one that was dropped later, which is
how a rewind is undone and how a dropped branch is opened.
"""

from collections.abc import Sequence

from pattern_acp.journal.events import SessionRewound
from pattern_acp.journal.reader import Recorded


def kept_events(recorded: Sequence[Recorded], *, upto: int | None = None) -> list[Recorded]:
    """The events of the conversation, in order.

    `recorded` is a stream from its beginning. `upto` is the `session_seq` of the event behind which the conversation is
    wanted; None for the newest.
    """
    kept: list[Recorded] = []
    limit = upto
    for entry in reversed(recorded):
        if limit is not None and entry.session_seq > limit:
            continue
        kept.append(entry)
        if isinstance(entry.event, SessionRewound) and entry.event.back_to is not None:
            limit = entry.event.back_to
    kept.reverse()
    return kept


def went_back(recorded: Sequence[Recorded]) -> bool:
    """Whether one of these events changes which of the events before it count."""
    return any(isinstance(entry.event, SessionRewound) and entry.event.back_to is not None for entry in recorded)
