"""`--json`: updates as they are on the wire, a line each."""

from pattern_acp.cli.output import write_json
from pattern_acp.domain.canonical import JsonObject


def write_update(update: JsonObject) -> None:
    """One update.

    Raises:
        OutputClosed: the reader went away.
    """
    write_json(update)


def write_stop(stop_reason: str, failure: str, error: str) -> None:
    """The last line of a turn: its stop reason, with the code of what failed, or the sentence of an error.

    Raises:
        OutputClosed: the reader went away.
    """
    told = {"stopReason": stop_reason, "error": error, "failure": failure}
    write_json({name: value for name, value in told.items() if value})
