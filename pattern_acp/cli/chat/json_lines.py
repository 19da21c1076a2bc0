"""`--json`: updates as they are on the wire, a line each."""

from pattern_acp.cli.output import write_json
from pattern_acp.domain.canonical import JsonObject


def write_update(update: JsonObject) -> None:
    """One update.

    Raises:
        OutputClosed: the reader went away.
    """
    write_json(update)


def write_stop(stop_reason: str) -> None:
    """The last line of a turn.

    Raises:
        OutputClosed: the reader went away.
    """
    write_json({"stopReason": stop_reason})
