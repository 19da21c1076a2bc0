"""Domain errors to JSON-RPC errors, one table, used once, at the dispatcher's boundary; and what a client's say."""

import re
from enum import Enum, auto

from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.errors import ConfigError, DatabaseError, InvalidRequestError, JournalError, PatternError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.journal.codec import BadCursorError
from pattern_acp.journal.codec import MissingSessionError as UnknownRowError
from pattern_acp.jsonrpc.messages import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RESOURCE_NOT_FOUND,
    RemoteError,
    RpcError,
)
from pattern_acp.providers.http_errors import ProviderAuthError
from pattern_acp.session.ports import CredentialsError, UnknownSessionError

CODES: tuple[tuple[type[PatternError], int], ...] = (
    (UnknownSessionError, RESOURCE_NOT_FOUND),
    (UnknownRowError, RESOURCE_NOT_FOUND),
    (CredentialsError, AUTH_REQUIRED),
    (ProviderAuthError, AUTH_REQUIRED),
    (InvalidRequestError, INVALID_PARAMS),
    (CommandMisusedError, INVALID_PARAMS),
    (BadCursorError, INVALID_PARAMS),
    (DatabaseError, INTERNAL_ERROR),
    (JournalError, INTERNAL_ERROR),
    (ConfigError, INTERNAL_ERROR),
    (PatternError, INTERNAL_ERROR),
)
"""First match wins."""


def to_rpc_error(error: Exception) -> RpcError | None:
    """The JSON-RPC error for a domain error; None for anything unforeseen.

    The sentence is in `data.details` as well: Zed shows that for -32603, and avante looks there for
    "Session not found" (reference: interop rule 9). `data.shown` is true when it came as a message before.
    """
    for kind, code in CODES:
        if isinstance(error, kind):
            is_shown = isinstance(error, CredentialsError) and error.is_shown
            data: JsonObject = {"details": error.sentence, **({"shown": True} if is_shown else {})}
            return RpcError(code, error.sentence, data, failure_code=error.failure_code)
    return None


class ClientError(Enum):
    """The meaning of a client's error in answer to fs/* or terminal/create."""

    MISSING = auto()
    """There is no such file or program, as far as the client knows."""
    INCAPABLE = auto()
    """The client cannot do this; the one who asked may do it another way."""
    REFUSED = auto()
    """The client does not want it, or it cannot be seen in its answer."""


_REFUSES = late_pattern(
    r"permission|denied|denies|not (?:allow|permit|approv|authori)|disallow|forbid|reject|refus|declin|cancel"
    r"|unauthori|outside|restrict|block(?:ed|s) by|read[- ]?only|\bE(?:ACCES|PERM|ROFS)\b",
    re.IGNORECASE,
)
_IS_MISSING = late_pattern(
    r"not ?found|no such (?:file|dir|path|program|command)|not exist|doesn't exist|nonexist|cannot find|\bENOENT\b",
    re.IGNORECASE,
)
_IS_INCAPABLE = late_pattern(
    r"not (?:supported|implemented|available|open)|unsupported|unimplemented|unavailable|unknown method"
    r"|no (?:open |such )?(?:buffer|editor|document|window|terminal)|not (?:valid )?(?:utf-?8|text)|binary|codec"
    r"|\bspawn|\bpty\b|\battribute\b|\bargument|not a function|of undefined",
    re.IGNORECASE,
)
_NOT_UNDERSTOOD = frozenset({PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS})
_REASON_LENGTH = 200


def meaning_of(error: RemoteError) -> ClientError:
    """Return the meaning of a client's error for the requested file or command.

    Only what is known to be no refusal lets somebody else do it instead: acpx answers a refusal with -32603 "Internal
    error" and the reason in `data.details`, Zed a file outside its project with -32002.
    """
    if error.code == METHOD_NOT_FOUND:
        return ClientError.INCAPABLE
    if error.code == RESOURCE_NOT_FOUND:
        return ClientError.MISSING
    said = reason_of(error)
    if _REFUSES.search(said):
        return ClientError.REFUSED
    if _IS_INCAPABLE.search(said) or error.code in _NOT_UNDERSTOOD:
        return ClientError.INCAPABLE
    return ClientError.MISSING if _IS_MISSING.search(said) else ClientError.REFUSED


def reason_of(error: RemoteError) -> str:
    """A client's reason in one line without its last full stop: its message, and what `data` says more exactly."""
    data = error.data
    details: list[object] = [data]
    if isinstance(data, dict):
        details = [data.get(name) for name in ("details", "detail", "message", "reason", "error")]
    texts = [error.message, *(text for text in details if isinstance(text, str))]
    lines = [" ".join("".join(char if char.isprintable() else " " for char in text).split()) for text in texts]
    told = [line.rstrip(" .") for line in lines if line]
    distinct = [
        line for at, line in enumerate(told) if not any(line in other for other in (*told[:at], *told[at + 1 :]))
    ]
    return ": ".join(distinct or told[:1])[:_REASON_LENGTH].rstrip(" .") or "without a reason"
