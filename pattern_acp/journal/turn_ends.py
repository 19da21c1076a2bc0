"""How a turn ends in the journal: one `TurnEnded`, and for a turn that failed one `ErrorReported` in front of it.

Owns: that both are appended together, so that no reader ever sees one without the other. Must not know: why a turn
ended, or who records it. A cancelled turn did not fail.
"""

from msgspec import Struct

from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.ids import TurnId
from pattern_acp.domain.stop_reason import StopReason
from pattern_acp.journal.events import ErrorReported, Event, TurnEnded


class TurnFailure(Struct, frozen=True):
    """Why a turn failed: a code of cli/failures.toml, and the class of the error where there was one."""

    code: str
    kind: str = ""


def failure_of(error: Exception) -> TurnFailure:
    """The failure that an error is; one that is not ours is a fault of ours."""
    code = error.failure_code if isinstance(error, PatternError) else PatternError.failure_code
    return TurnFailure(code, type(error).__name__)


def end_events(
    turn_id: TurnId, stop_reason: StopReason, sentence: str = "", failure: TurnFailure | None = None
) -> tuple[Event, ...]:
    """What ends a turn; to be appended in one transaction."""
    ended = TurnEnded(turn_id, stop_reason, sentence)
    if failure is None:
        return (ended,)
    return ErrorReported(turn_id, failure.kind, sentence, failure.code), ended
