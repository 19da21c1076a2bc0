"""JSON-RPC 2.0 messages: one line of bytes to a message and back; and the errors between two peers, with their codes.

Owns: the shape of requests, notifications and responses, and what is forgiven when parameters are read. Must not know:
any method. Parameters and results stay raw JSON until someone who knows their type decodes them. They are msgspec
structs, not dataclasses, because this module is imported before the first answer, and a dataclass costs ten times as
much to define.

    ProtocolError
    ├── RpcError               we answer a request with an error
    ├── RemoteError            the peer answered our request with an error
    ├── InvalidResultError     the peer's result is not what the method promises
    └── ConnectionClosedError  the peer is gone
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar, cast

import msgspec

from pattern_acp.domain.canonical import Json
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.late_pattern import late_pattern

PARSE_ERROR = -32700
"""The line is not JSON (JSON-RPC 2.0, section 5.1)."""
INVALID_REQUEST = -32600
"""The JSON is not a JSON-RPC message (JSON-RPC 2.0, section 5.1)."""
METHOD_NOT_FOUND = -32601
"""There is no such method (JSON-RPC 2.0, section 5.1)."""
INVALID_PARAMS = -32602
"""The parameters do not fit the method (JSON-RPC 2.0, section 5.1)."""
INTERNAL_ERROR = -32603
"""The answering side failed (JSON-RPC 2.0, section 5.1)."""
REQUEST_CANCELLED = -32800
"""The asking side withdrew the request (ACP v1, cancellation)."""
AUTH_REQUIRED = -32000
"""Credentials are missing or refused (ACP v1, errors)."""
RESOURCE_NOT_FOUND = -32002
"""A session or file is not there (ACP v1, errors)."""
UNSUPPORTED_VERSION = -32022
"""No version at or below the one that the client asks for is served (ACP v2, initialization)."""

_FAILURES = {
    PARSE_ERROR: "protocol.not-json",
    INVALID_REQUEST: "protocol.message-invalid",
    METHOD_NOT_FOUND: "protocol.method-unknown",
    INVALID_PARAMS: "protocol.params-invalid",
    REQUEST_CANCELLED: "protocol.request-cancelled",
    AUTH_REQUIRED: "auth.required",
    UNSUPPORTED_VERSION: "protocol.params-invalid",
}
"""The failure that a JSON-RPC code stands for when nothing more exact is known; others are faults of ours."""


class ProtocolError(PatternError):
    """Root of everything that can go wrong between two peers."""


class RpcError(ProtocolError):
    """A request that is answered with this error: code, sentence, and data for programs."""

    def __init__(self, code: int, message: str, data: Json = None, *, failure_code: str = "") -> None:
        super().__init__(message, failure_code=failure_code or _FAILURES.get(code, ""))
        self.code = code
        self.message = message
        self.data = data


class RemoteError(ProtocolError):
    """The error that the peer answered one of our requests with."""

    failure_code = "editor.refused"

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class InvalidResultError(ProtocolError):
    """The peer answered our request with a result that the method does not allow."""

    failure_code = "editor.answer-invalid"


class ConnectionClosedError(ProtocolError):
    """The peer is gone: nothing can be sent to it and no answer will come."""

    failure_code = "editor.gone"


RequestId: TypeAlias = int | str | None
"""The id of a request; ACP allows null as well (schema v1, `RequestId`)."""

NO_PARAMS = msgspec.Raw(b"")
"""Stands for parameters that are absent."""


class Request(msgspec.Struct, frozen=True):
    """The peer asks, and gets exactly one answer."""

    id: RequestId
    method: str
    params: msgspec.Raw


class Notification(msgspec.Struct, frozen=True):
    """The peer tells, and gets no answer."""

    method: str
    params: msgspec.Raw


class ErrorBody(msgspec.Struct, frozen=True):
    """The error of a response. `data` is absent (None) or any JSON."""

    code: int
    message: str
    data: Json = None


class Response(msgspec.Struct, frozen=True):
    """The peer answers: `error` is None exactly when it succeeded."""

    id: RequestId
    result: msgspec.Raw
    error: ErrorBody | None


class Invalid(msgspec.Struct, frozen=True):
    """A line that is no message, and the error and id to answer it with."""

    error: RpcError
    id: RequestId = None


Incoming: TypeAlias = Request | Notification | Response | Invalid


class _Envelope(msgspec.Struct):
    jsonrpc: object = "2.0"
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw = NO_PARAMS
    result: msgspec.Raw = NO_PARAMS
    error: msgspec.Raw = NO_PARAMS


class _IdOfRequest(msgspec.Struct):
    id: int | str | None
    method: object


class _Error(msgspec.Struct, omit_defaults=True):
    code: int
    message: str = ""
    data: object = None


class _RequestLine(msgspec.Struct):
    jsonrpc: str
    id: RequestId
    method: str
    params: object


class _NotificationLine(msgspec.Struct):
    jsonrpc: str
    method: str
    params: object


class _ResultLine(msgspec.Struct):
    jsonrpc: str
    id: RequestId
    result: object


class _ErrorLine(msgspec.Struct):
    jsonrpc: str
    id: RequestId
    error: _Error


_envelopes = msgspec.json.Decoder(_Envelope)
_encoder = msgspec.json.Encoder()


def parse(line: bytes) -> Incoming:
    """The message of one line. Unknown keys are accepted (JetBrains adds a `type` key)."""
    try:
        if not line.isascii():
            line.decode("utf-8")  # raw parameters are not looked into, so their text is checked here
        return _classify(_envelopes.decode(line))
    except msgspec.ValidationError:
        return _explain_misfit(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _parse_leniently(line)


def encode_request(request_id: RequestId, method: str, params: object) -> bytes:
    """The line of a request."""
    return _encode_line(_RequestLine("2.0", request_id, method, params))


def encode_notification(method: str, params: object) -> bytes:
    """The line of a notification."""
    return _encode_line(_NotificationLine("2.0", method, params))


def encode_result(request_id: RequestId, result: object) -> bytes:
    """The line of a successful answer. None becomes `{}`: strict clients refuse a null result (CodeCompanion).

    Raises:
        TypeError: the result is not something that JSON can hold.
    """
    return _encode_line(_ResultLine("2.0", request_id, {} if result is None else result))


def encode_error(request_id: RequestId, error: RpcError) -> bytes:
    """The line of an answer that is an error; `data.code` names the failure, where `data` is an object or nothing."""
    data = error.data
    if data is None or isinstance(data, Mapping):
        data = {**(data or {}), "code": error.failure_code}
    return _encode_line(_ErrorLine("2.0", request_id, _Error(error.code, error.message, data)))


def _classify(envelope: _Envelope) -> Incoming:
    request_id, method = envelope.id, envelope.method
    if isinstance(method, msgspec.UnsetType):
        return _classify_response(envelope)
    if envelope.jsonrpc != "2.0":
        invalid_id = None if isinstance(request_id, msgspec.UnsetType) else request_id
        return _invalid("The member `jsonrpc` must be the string 2.0.", invalid_id)
    if isinstance(request_id, msgspec.UnsetType):
        return Notification(method, envelope.params)
    return Request(request_id, method, envelope.params)


def _classify_response(envelope: _Envelope) -> Incoming:
    # Malformed answers are refused with a null id: their id names a request of ours, not of the peer.
    if isinstance(envelope.id, msgspec.UnsetType):
        return _invalid("The message has neither a method nor an id.")
    error = bytes(envelope.error)
    if error not in (b"", b"null"):
        return Response(envelope.id, NO_PARAMS, _read_error(error))
    if bytes(envelope.result):
        return Response(envelope.id, envelope.result, None)
    return _invalid("The message has neither a method, a result nor an error.")


def _read_error(error: bytes) -> ErrorBody:
    try:
        body = msgspec.json.decode(error, type=_Error)
    except msgspec.ValidationError:
        return ErrorBody(INVALID_REQUEST, "The peer answered with an error that is not in JSON-RPC's form.")
    return ErrorBody(body.code, body.message, cast("Json", body.data))


def _explain_misfit(line: bytes) -> Invalid:
    try:
        request = msgspec.json.decode(line, type=_IdOfRequest)
    except msgspec.ValidationError:
        return _invalid("The line is not a JSON-RPC message.")
    return _invalid("The request does not have JSON-RPC's form.", request.id)


def _invalid(message: str, request_id: RequestId = None) -> Invalid:
    return Invalid(RpcError(INVALID_REQUEST, message), request_id)


def _parse_leniently(line: bytes) -> Incoming:
    """Text with half a surrogate pair is JSON that JavaScript writes and msgspec refuses; read it all the same."""
    import json

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        value = cast("object", json.loads(line.decode("utf-8"), parse_constant=refuse))
        return _classify(_envelopes.decode(_encoder.encode(_mend_text(value))))
    except msgspec.ValidationError:
        return _invalid("The line is not a JSON-RPC message.")
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return Invalid(RpcError(PARSE_ERROR, "The line is not valid JSON in UTF-8."))


def _encode_line(message: msgspec.Struct) -> bytes:
    try:
        return _encoder.encode(message) + b"\n"
    except UnicodeEncodeError:
        # A model or a file name can give half a surrogate pair. It has no UTF-8 form, and strict clients refuse an
        # escaped one together with the whole line.
        return _encoder.encode(_mend_text(msgspec.to_builtins(message))) + b"\n"


def _mend_text(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        members = cast("dict[object, object]", value)
        return {_mend_text(key): _mend_text(item) for key, item in members.items()}
    if isinstance(value, list | tuple):
        return [_mend_text(item) for item in cast("Sequence[object]", value)]
    return value


T = TypeVar("T")

Repair: TypeAlias = Callable[[str, object], object]
"""Given the path of a misfit (`prompt[].type`) and its value: `KEEP`, `DROP`, or what to put in its place."""

KEEP = object()
"""The value stays, and with it the error."""
DROP = object()
"""The key is taken for absent."""

REPAIR_LIMIT = 20
"""Misfits that are repaired in one value; a limit so that a hostile message costs little."""

_WHERE = late_pattern(r"^(?P<what>.*?)(?: - at (?:`key` in )?`(?P<path>[^`]*)`)?$", re.DOTALL)
_EXPECTED = late_pattern(r"^Expected (?P<expected>.+?)(?:, got `(?P<got>[a-z]+)`)?$")
_MISSING = late_pattern(r"^Object missing required field `(?P<field>[^`]*)`$")
_NAMES = {
    "array": "an array",
    "object": "an object",
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "null": "null",
}


def keep_misfits(path: str, value: object) -> object:
    """The repair that repairs nothing."""
    del path, value
    return KEEP


def decode_params(raw: msgspec.Raw, kind: type[T], *, repair: Repair = keep_misfits) -> T:
    """The parameters as `kind`; absent and null parameters count as `{}`.

    Raises:
        RpcError: `INVALID_PARAMS`, with one sentence that names the parameter and what was expected.
    """
    try:
        return decode(raw, kind, repair=repair)
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_PARAMS, describe_misfit(error)) from None


def decode(raw: msgspec.Raw, kind: type[T], *, repair: Repair = keep_misfits) -> T:
    """The JSON value as `kind`; an absent or null value counts as `{}`.

    Raises:
        msgspec.ValidationError: the value does not fit, and nothing of it is forgiven.
    """
    data = bytes(raw).strip()
    if data in (b"", b"null"):
        data = b"{}"
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        return _decode_forgiving(msgspec.json.decode(data), kind, repair)


def describe_misfit(error: msgspec.ValidationError) -> str:
    """One sentence that names the parameter and what was expected of it, without the value."""
    what, steps = _split(error)
    name = _spell(steps)
    subject = f"The parameter `{name}`" if name else "The parameters"
    if missing := _MISSING.match(what):
        field = missing["field"]
        return f"The parameter `{f'{name}.{field}' if name else field}` is missing."
    if expected := _EXPECTED.match(what):
        got = f", not {_NAMES.get(expected['got'], expected['got'])}" if expected["got"] else ""
        return f"{subject} must be {_name_types(expected['expected'])}{got}."
    return f"{subject} must hold one of the values that the protocol allows."


def _decode_forgiving(value: object, kind: type[T], repair: Repair) -> T:
    # A box, so that the whole value can be replaced like any part of it.
    box: dict[str, object] = {"$": value}
    for _ in range(REPAIR_LIMIT):
        try:
            return _convert(box["$"], kind)
        except msgspec.ValidationError as error:
            if not _mend(box, error, repair):
                raise
    return _convert(box["$"], kind)


def _convert(value: object, kind: type[T]) -> T:
    # Through JSON, since msgspec.convert cannot give the raw members that some types have.
    return msgspec.json.decode(msgspec.json.encode(value), type=kind)


def _mend(box: dict[str, object], error: msgspec.ValidationError, repair: Repair) -> bool:
    what, steps = _split(error)
    # An error names one element; what is forgiven in it is forgiven in all, so that one pass repairs them all.
    steps = ["[]" if step.startswith("[") else step for step in steps]
    mended = False
    for holder, key in list(_places(box, ["$", *steps])):
        path, value = _spell(steps), _get(holder, key)
        substitute = _substitute(what, path, value, repair)
        if substitute is DROP and isinstance(key, int):
            # An element cannot be left out; it can only be replaced.
            substitute = repair(path, value)
        mended = _put(holder, key, substitute) or mended
    return mended


def _substitute(what: str, path: str, value: object, repair: Repair) -> object:
    if value is None and ", got `null`" in what:
        return DROP
    if value == [] and what.startswith("Expected `object"):
        return dict[str, object]()
    if value == {} and what.startswith("Expected `array"):
        return list[object]()
    return repair(path, value)


def _get(holder: object, key: str | int) -> object:
    if isinstance(holder, dict):
        return cast("dict[str, object]", holder).get(str(key))
    return cast("list[object]", holder)[int(key)]


def _put(holder: object, key: str | int, substitute: object) -> bool:
    if substitute is KEEP:
        return False
    if isinstance(holder, dict):
        members = cast("dict[str, object]", holder)
        if substitute is DROP:
            return members.pop(str(key), KEEP) is not KEEP
        members[str(key)] = substitute
        return True
    if substitute is DROP:
        return False
    cast("list[object]", holder)[int(key)] = substitute
    return True


def _places(holder: object, steps: list[str]) -> Iterator[tuple[object, str | int]]:
    """Every place that the path means."""
    for key in _keys(holder, steps[0]):
        if len(steps) == 1:
            yield holder, key
        else:
            yield from _places(_get(holder, key), steps[1:])


def _keys(holder: object, step: str) -> list[str | int]:
    if isinstance(holder, dict):
        members = cast("dict[str, object]", holder)
        return list(members) if step == "[]" else [step] * (step in members)
    if isinstance(holder, list) and step == "[]":
        return list(range(len(cast("list[object]", holder))))
    return []


def _split(error: msgspec.ValidationError) -> tuple[str, list[str]]:
    match = _WHERE.match(str(error))
    if match is None:
        return str(error), []
    path = (match["path"] or "$").removeprefix("$").replace("[...]", "[]").replace("[", ".[")
    return match["what"], [step for step in path.split(".") if step]


def _spell(steps: list[str]) -> str:
    return ".".join(steps).replace(".[", "[")


def _name_types(expected: str) -> str:
    names = re.sub(r"`([^`]*)`", lambda match: match[1], expected).split(" | ")
    return " or ".join(_NAMES.get(name, name) for name in names)
