"""The event about words that were taken out of other events.

Owns: this kind; `journal.events` has them all.
"""

from msgspec import Struct

RETENTION = "retention"
"""The cause of a redaction that makes room: nobody wanted any words forgotten."""


class EventsRedacted(Struct, frozen=True):
    """The person had words of the session taken out of its journal, for good; they are not repeated here.

    `events` counts the events that lost words, `files` the kept contents of files that are gone. `redaction` is
    `journal.reader.redaction_digest` of the events, so that nobody can add one later.
    """

    reason: str
    events: int
    files: int
    redaction: str
    cause: str = ""
    """`retention` when what was deleted long ago is no longer kept; empty when the person wanted words gone."""
