"""Updates as the wire has them, to our own structs."""

import msgspec

from pattern_acp.acp import schema
from pattern_acp.domain.canonical import JsonObject


def read_update(update: JsonObject) -> schema.SessionUpdate | None:
    """The update; None for a variant that this client does not know, which the protocol says to ignore."""
    try:
        return msgspec.convert(update, type=schema.SessionUpdate)
    except msgspec.ValidationError:
        return None
