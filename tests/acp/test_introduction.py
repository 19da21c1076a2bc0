"""The early answer to initialize is the one that the agent gives, or there is none."""

import json
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.acp import schema
from pattern_acp.acp.agent import initialize_response
from pattern_acp.acp.initialize_response import answer_plainly
from pattern_acp.jsonrpc.messages import Request, encode_result, parse

FLAGS = st.sampled_from([True, False, None, "yes", 1])
PROMISES = st.fixed_dictionaries(
    {},
    optional={
        "auth": FLAGS | st.fixed_dictionaries({}, optional={"terminal": FLAGS}),
        "_meta": FLAGS | st.dictionaries(st.sampled_from(["terminal-auth", "terminal_output"]), FLAGS),
        "fs": FLAGS | st.fixed_dictionaries({}, optional={"readTextFile": FLAGS}),
        "terminal": FLAGS,
    },
)
PARAMS = st.fixed_dictionaries(
    {"protocolVersion": st.integers(-1, 70000) | st.sampled_from(["1", True, 1.0, None])},
    optional={"clientCapabilities": FLAGS | PROMISES, "clientInfo": FLAGS, "_meta": FLAGS},
)
REQUESTS = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", "1.0"]), "method": st.sampled_from(["initialize", "session/new"])},
    optional={"id": st.integers() | st.text() | st.none() | st.floats(), "params": PARAMS | st.none()},
)


def line_of(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", **members}).encode()


@given(REQUESTS)
def test_whoever_gets_an_early_answer_gets_the_same_as_later(request: dict[str, object]):
    line = json.dumps(request).encode()
    early = answer_plainly(line)
    if early is not None:
        message = parse(line)
        assert isinstance(message, Request)
        params = schema.read_params(message.params, schema.InitializeRequest)
        schema.parse_protocol_version(params.protocol_version)
        later = encode_result(message.id, initialize_response(params.client_capabilities))
        assert json.loads(early) == json.loads(later)
        assert early.endswith(b"\n")


@pytest.mark.parametrize("request_id", [1, 0, "a"])
@pytest.mark.parametrize("promises", [{}, {"fs": {"readTextFile": True}}, {"_meta": {"terminal-auth": True}}])
def test_what_editors_send_is_answered_early(request_id: int | str, promises: dict[str, object]):
    early = answer_plainly(line_of(id=request_id, params={"protocolVersion": 1, "clientCapabilities": promises}))
    assert early is not None
    answer = cast("dict[str, dict[str, list[object]]]", msgspec.json.decode(early))
    assert answer["id"] == request_id
    assert len(answer["result"]["authMethods"]) == (3 if "_meta" in promises else 1)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b'"initialize"',
        b"{",
        b"\xff",
        b"[" * 100_000,
        line_of(params={"protocolVersion": 1}).replace(b"1}", b"NaN}"),
        line_of(params={}),
        line_of(params=[1]),
        line_of(method="session/new", params={"protocolVersion": 1}),
        line_of(id=None, params={"protocolVersion": 1}),
        line_of(id=2**70, params={"protocolVersion": 1}),
        line_of(id="é", params={"protocolVersion": 1}),
        line_of(params={"protocolVersion": "2025-06-18"}),
        line_of(params={"protocolVersion": 1, "clientCapabilities": None}),
        line_of(params={"protocolVersion": 1, "clientCapabilities": {"auth": 1}}),
        line_of(params={"protocolVersion": 1, "clientCapabilities": {"auth": {"terminal": 1}}}),
    ],
)
def test_what_is_unusual_is_left_to_the_ordinary_way(line: bytes):
    assert answer_plainly(line) is None
