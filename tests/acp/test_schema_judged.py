"""Our wire structs against the SDK's models and the official schema, both ways."""

import functools
import json
import types
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import acp.schema as sdk
import annotated_types
import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from pattern_acp.acp import schema
from pattern_acp.acp.client import form_of
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.tool_calls import ToolCallView, ToolKind
from pattern_acp.jsonrpc.messages import decode, encode_notification, encode_request, encode_result
from pattern_acp.policy.decision import UserQuestion
from tests.support.wire import WireJudge

Values = st.SearchStrategy[Any]

SDK_REQUESTS: list[tuple[str, type[BaseModel]]] = [
    ("initialize", sdk.InitializeRequest),
    ("authenticate", sdk.AuthenticateRequest),
    ("logout", sdk.LogoutRequest),
    ("session/new", sdk.NewSessionRequest),
    ("session/load", sdk.LoadSessionRequest),
    ("session/resume", sdk.ResumeSessionRequest),
    ("session/list", sdk.ListSessionsRequest),
    ("session/close", sdk.CloseSessionRequest),
    ("session/delete", sdk.DeleteSessionRequest),
    ("session/set_mode", sdk.SetSessionModeRequest),
    ("session/set_config_option", sdk.SetSessionConfigOptionSelectRequest),
    ("session/set_config_option", sdk.SetSessionConfigOptionBooleanRequest),
    ("session/prompt", sdk.PromptRequest),
    ("session/cancel", sdk.CancelNotification),
]

SDK_RESULTS: list[tuple[str, type[BaseModel]]] = [
    ("session/request_permission", sdk.RequestPermissionResponse),
    ("elicitation/create", sdk.AcceptElicitationResponse),
    ("elicitation/create", sdk.DeclineElicitationResponse),
    ("elicitation/create", sdk.CancelElicitationResponse),
    ("fs/read_text_file", sdk.ReadTextFileResponse),
    ("fs/write_text_file", sdk.WriteTextFileResponse),
    ("terminal/create", sdk.CreateTerminalResponse),
    ("terminal/output", sdk.TerminalOutputResponse),
    ("terminal/wait_for_exit", sdk.WaitForTerminalExitResponse),
    ("terminal/kill", sdk.KillTerminalResponse),
    ("terminal/release", sdk.ReleaseTerminalResponse),
]

UPDATES = cast("tuple[type[schema.Wire], ...]", get_args(schema.SessionUpdate))

TEXT = st.text(max_size=8)
JSON_OBJECTS = st.dictionaries(TEXT, TEXT | st.integers(-(2**53), 2**53) | st.none() | st.booleans(), max_size=2)
VALUES_OF: dict[object, Values] = {
    str: TEXT,
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    int: st.integers(0, 2**31),
    object: JSON_OBJECTS,
    Any: JSON_OBJECTS,
    type(None): st.none(),
}
VALUES_OF[schema.AuthMethod] = st.builds(schema.AuthMethod, id=TEXT, name=TEXT, description=TEXT) | st.builds(
    schema.AuthMethod,
    id=TEXT,
    name=TEXT,
    type=st.just("terminal"),
    args=st.lists(TEXT, max_size=2).map(tuple),
    env=st.dictionaries(TEXT, TEXT, max_size=2),
)
CATEGORIES = st.sampled_from(["mode", "model", "model_config", "thought_level"])
ASKING = ToolCallView(ToolCallId("c"), "ask_user", "Question", ToolKind.OTHER, {})
FORMS = st.builds(
    form_of,
    st.builds(UserQuestion, st.just(ASKING), TEXT, st.lists(TEXT, max_size=3).map(tuple)),
)
NAMED_VALUES: dict[tuple[type, str], Values] = {
    (schema.PermissionOption, "kind"): st.sampled_from(["allow_once", "allow_always", "reject_once", "reject_always"]),
    (schema.ElicitationRequest, "requested_schema"): FORMS,
    (schema.ElicitationRequest, "mode"): st.just("form"),
    (schema.SelectConfigOption, "category"): CATEGORIES,
    (schema.BooleanConfigOption, "category"): CATEGORIES,
    (schema.Notice, "title"): st.text(min_size=1, max_size=8),
    (schema.ResourceContents, "text"): TEXT,
    (schema.ResourceContents, "blob"): st.none(),
    (schema.InitializeResponse, "protocol_version"): st.just(1),
}
"""What a type alone does not say; the schema's own words are in the judge."""

CAREFUL = settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    deadline=None,
)
"""Building the values of deep models costs more than judging them."""


def values_of(annotation: object) -> Values:
    """Values of a type hint, of either our structs or the SDK's models."""
    if annotation in VALUES_OF:
        return VALUES_OF[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return bounded(arguments[0], arguments[1:])
    if origin is Union or isinstance(annotation, types.UnionType):
        return st.one_of([values_of(argument) for argument in arguments if argument is not msgspec.UnsetType])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (list, tuple):
        items = st.lists(values_of(arguments[0]), max_size=2)
        return items if origin is list else items.map(tuple)
    if origin is dict:
        return st.dictionaries(TEXT, values_of(arguments[1]), max_size=2)
    assert isinstance(annotation, type), annotation
    return values_of_class(annotation)


def values_of_class(kind: type) -> Values:
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    if issubclass(kind, msgspec.Struct):
        return structs_of(kind)
    assert issubclass(kind, BaseModel)
    return members_of(kind)


def bounded(annotation: object, metadata: tuple[object, ...]) -> Values:
    nested = [item for field in metadata if isinstance(field, FieldInfo) for item in field.metadata]
    limits = [item for item in (*metadata, *nested) if isinstance(item, annotated_types.Le)]
    return st.integers(0, cast("int", limits[0].le)) if limits else values_of(annotation)


@st.composite
def structs_of(draw: st.DrawFn, kind: type[msgspec.Struct]) -> msgspec.Struct:
    return kind(**draw(struct_members(kind)))


@functools.cache
def struct_members(kind: type[msgspec.Struct]) -> st.SearchStrategy[dict[str, Any]]:
    required: dict[str, Values] = {}
    optional: dict[str, Values] = {}
    for field in msgspec.structs.fields(kind):
        if (named := NAMED_VALUES.get((kind, field.name))) is not None:
            required[field.name] = named
        else:
            (required if field.required else optional)[field.name] = values_of(field.type)
    return st.fixed_dictionaries(required, optional=optional)


@st.composite
def members_of(draw: st.DrawFn, model: type[BaseModel]) -> dict[str, Any]:
    """Members of an SDK model under their names on the wire."""
    return draw(model_members(model))


@functools.cache
def model_members(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    required: dict[str, Values] = {}
    optional: dict[str, Values] = {}
    for name, field in model.model_fields.items():
        values = bounded(field.annotation, tuple(field.metadata))
        (required if field.is_required() else optional)[field.alias or name] = values
    return st.fixed_dictionaries(required, optional=optional)


def as_client_writes(model: type[BaseModel], members: object, *, nulls: bool) -> bytes:
    try:
        value = model.model_validate(members)
    except ValidationError:
        assume(False)
        raise
    return value.model_dump_json(by_alias=True, exclude_none=not nulls, exclude_unset=True).encode()


def assert_kept(ours: object, sent: object) -> None:
    """Whatever we read is what was sent; what we do not read is left out."""
    if isinstance(ours, dict) and isinstance(sent, dict):
        for key, value in cast("Mapping[str, object]", ours).items():
            assert_kept(value, cast("Mapping[str, object]", sent)[key])
    elif isinstance(ours, list) and isinstance(sent, list):
        for one, other in zip(cast("list[object]", ours), cast("list[object]", sent), strict=True):
            assert_kept(one, other)
    else:
        assert ours == sent


def encoded(value: object) -> object:
    return json.loads(msgspec.json.encode(value))


@pytest.mark.parametrize(("method", "model"), SDK_REQUESTS, ids=lambda value: getattr(value, "__name__", value))
@CAREFUL
@given(data=st.data(), nulls=st.booleans())
def test_every_request_that_the_sdk_can_make_is_read(
    method: str, model: type[BaseModel], data: st.DataObject, *, nulls: bool
):
    line = as_client_writes(model, data.draw(members_of(model)), nulls=nulls)
    params = schema.read_params(msgspec.Raw(line), schema.AGENT_METHODS[method].params)
    assert_kept(encoded(params), json.loads(line))


@pytest.mark.parametrize(("method", "model"), SDK_RESULTS, ids=lambda value: getattr(value, "__name__", value))
@CAREFUL
@given(data=st.data(), nulls=st.booleans())
def test_every_result_that_the_sdk_can_make_is_read(
    method: str, model: type[BaseModel], data: st.DataObject, *, nulls: bool
):
    line = as_client_writes(model, data.draw(members_of(model)), nulls=nulls)
    kind = schema.CLIENT_METHODS[method].result
    assert kind is not None
    assert_kept(encoded(decode(msgspec.Raw(line), kind, repair=schema.repair)), json.loads(line))


def judge_in_session(official: JsonObject | None) -> WireJudge:
    judge = WireJudge(official)
    judge.client_wrote(b'{"jsonrpc":"2.0","id":0,"method":"session/load","params":{"sessionId":"s"}}')
    return judge


def judge_update(update: schema.Wire, official: JsonObject | None) -> None:
    params = schema.SessionNotification(session_id="s", update=cast("schema.SessionUpdate", update))
    judge_in_session(official).agent_wrote(encode_notification("session/update", params))


def judge_request(method: str, params: schema.Wire, official: JsonObject | None) -> None:
    judge_in_session(official).agent_wrote(encode_request(1, method, msgspec.structs.replace(params, session_id="s")))


def judge_result(method: str, result: schema.Wire, official: JsonObject | None) -> None:
    judge = WireJudge(official)
    judge.client_wrote(encode_request("r", method, {}))
    judge.agent_wrote(encode_result("r", result))
    assert judge.unanswered == []


REQUEST_METHODS = [method for method, entry in schema.CLIENT_METHODS.items() if entry.result is not None]
RESULT_METHODS = [method for method, entry in schema.AGENT_METHODS.items() if entry.result is not None]


@pytest.mark.parametrize("kind", UPDATES, ids=lambda kind: kind.__name__)
@CAREFUL
@given(st.data())
def test_the_sdk_reads_every_update_that_we_write(kind: type[schema.Wire], data: st.DataObject):
    judge_update(cast("schema.Wire", data.draw(structs_of(kind))), None)


@pytest.mark.parametrize("kind", UPDATES, ids=lambda kind: kind.__name__)
@CAREFUL
@given(st.data())
def test_the_official_schema_allows_every_update_that_we_write(
    official: JsonObject, kind: type[schema.Wire], data: st.DataObject
):
    judge_update(cast("schema.Wire", data.draw(structs_of(kind))), official)


@pytest.mark.parametrize("method", REQUEST_METHODS)
@CAREFUL
@given(st.data())
def test_the_sdk_reads_every_request_that_we_make(method: str, data: st.DataObject):
    judge_request(method, cast("schema.Wire", data.draw(structs_of(schema.CLIENT_METHODS[method].params))), None)


@pytest.mark.parametrize("method", REQUEST_METHODS)
@CAREFUL
@given(st.data())
def test_the_official_schema_allows_every_request_that_we_make(official: JsonObject, method: str, data: st.DataObject):
    judge_request(method, cast("schema.Wire", data.draw(structs_of(schema.CLIENT_METHODS[method].params))), official)


@pytest.mark.parametrize("method", RESULT_METHODS)
@CAREFUL
@given(st.data())
def test_the_sdk_reads_every_result_that_we_answer(method: str, data: st.DataObject):
    kind = schema.AGENT_METHODS[method].result
    assert kind is not None
    judge_result(method, cast("schema.Wire", data.draw(structs_of(kind))), None)


@pytest.mark.parametrize("method", RESULT_METHODS)
@CAREFUL
@given(st.data())
def test_the_official_schema_allows_every_result_that_we_answer(official: JsonObject, method: str, data: st.DataObject):
    kind = schema.AGENT_METHODS[method].result
    assert kind is not None
    judge_result(method, cast("schema.Wire", data.draw(structs_of(kind))), official)
