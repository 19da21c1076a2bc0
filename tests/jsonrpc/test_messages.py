import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.jsonrpc.messages import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorBody,
    Invalid,
    Notification,
    Request,
    RequestId,
    Response,
    RpcError,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    parse,
)

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
IDS = st.none() | st.integers(-(2**63), 2**63 - 1) | st.text()


@pytest.mark.parametrize("request_id", [0, 7, -1, 2**53, "a", "7", "", None])
def test_ids_are_kept_as_they_are(request_id: RequestId):
    message = parse(encode_request(request_id, "m", {}))
    assert isinstance(message, Request)
    assert message.id == request_id
    assert type(message.id) is type(request_id)


def test_unknown_keys_are_accepted():
    message = parse(b'{"type":"request","jsonrpc":"2.0","id":1,"method":"m","params":{"a":1},"x":[]}')
    assert isinstance(message, Request)
    assert json.loads(bytes(message.params)) == {"a": 1}


def test_a_message_without_an_id_is_a_notification():
    assert isinstance(parse(b'{"jsonrpc":"2.0","method":"m"}'), Notification)


def test_an_error_with_a_null_id_is_an_answer():
    message = parse(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no","data":[1]}}')
    assert isinstance(message, Response)
    assert message.error == ErrorBody(-32602, "no", [1])


def test_a_null_result_is_an_answer():
    message = parse(b'{"jsonrpc":"2.0","id":3,"result":null}')
    assert isinstance(message, Response)
    assert (message.error, bytes(message.result)) == (None, b"null")


def test_an_answer_with_a_null_error_beside_its_result_succeeded():
    message = parse(b'{"jsonrpc":"2.0","id":3,"result":{},"error":null}')
    assert isinstance(message, Response)
    assert message.error is None


def test_an_error_of_an_odd_form_is_still_an_error():
    message = parse(b'{"jsonrpc":"2.0","id":3,"error":"boom"}')
    assert isinstance(message, Response)
    assert message.error is not None


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b'{"jsonrpc":"2.0","id":1,"method":"m"',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\xff"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":NaN}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + b"[" * 200_000,
        b"\x00",
    ],
    ids=["word", "cut", "not UTF-8", "not a number", "deep", "null byte"],
)
def test_what_is_not_json_is_a_parse_error_without_an_id(line: bytes):
    message = parse(line)
    assert isinstance(message, Invalid)
    assert (message.error.code, message.id) == (PARSE_ERROR, None)


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b"42",
        b'"text"',
        b"null",
        b"{}",
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"m"}',
        b'{"jsonrpc":"2.0","id":{},"method":"m"}',
        b'[{"jsonrpc":"2.0","id":1,"method":"m"}]',
    ],
)
def test_json_that_is_no_message_is_an_invalid_request_without_an_id(line: bytes):
    message = parse(line)
    assert isinstance(message, Invalid)
    assert (message.error.code, message.id) == (INVALID_REQUEST, None)


@pytest.mark.parametrize("line", [b'{"jsonrpc":"2.0","id":"q","method":5}', b'{"jsonrpc":"1.0","id":"q","method":"m"}'])
def test_a_malformed_request_is_refused_under_its_id(line: bytes):
    message = parse(line)
    assert isinstance(message, Invalid)
    assert (message.error.code, message.id) == (INVALID_REQUEST, "q")


def test_half_a_surrogate_pair_in_what_comes_in_is_read_as_a_replacement_character():
    message = parse(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"text":"a\\ud83d b \\ud83d\\ude00"}}')
    assert isinstance(message, Request)
    assert msgspec.json.decode(message.params) == {"text": "a\N{REPLACEMENT CHARACTER} b \N{GRINNING FACE}"}


def test_half_a_surrogate_pair_in_what_goes_out_is_written_as_a_replacement_character():
    line = encode_notification("m", {"text": "a\ud83d b \N{GRINNING FACE}"})
    assert json.loads(line)["params"] == {"text": "a\N{REPLACEMENT CHARACTER} b \N{GRINNING FACE}"}


def test_half_a_surrogate_pair_deep_in_a_struct_is_replaced_too():
    class Item(msgspec.Struct):
        text: str

    class Items(msgspec.Struct):
        items: tuple[Item, ...]

    line = encode_notification("m", Items((Item("a\ud83d"),)))
    assert json.loads(line)["params"] == {"items": [{"text": "a\N{REPLACEMENT CHARACTER}"}]}


def test_a_result_of_none_is_written_as_an_empty_object():
    assert json.loads(encode_result(1, None)) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_an_error_carries_the_code_of_its_failure_beside_its_data():
    error = json.loads(encode_error(None, RpcError(-32601, "There is no such method.")))
    expected = {"code": -32601, "message": "There is no such method.", "data": {"code": "protocol.method-unknown"}}
    assert error == {"jsonrpc": "2.0", "id": None, "error": expected}
    given = RpcError(-32602, "No.", {"details": "No."}, failure_code="session.busy")
    data = json.loads(encode_error(1, given))["error"]["data"]
    assert data == {"details": "No.", "code": "session.busy"}
    assert json.loads(encode_error(1, RpcError(-32602, "No.", [1])))["error"]["data"] == [1]


def test_a_result_that_json_cannot_hold_is_refused():
    with pytest.raises(TypeError):
        encode_result(1, object())


@pytest.mark.slow
@given(IDS, st.text(), st.dictionaries(st.text(), JSON_VALUES))
def test_a_request_comes_back_as_it_was_written(request_id: RequestId, method: str, params: dict[str, object]):
    line = encode_request(request_id, method, params)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    message = parse(line)
    assert isinstance(message, Request)
    assert (message.id, message.method) == (request_id, method)
    assert msgspec.json.decode(message.params) == params


@given(st.text(st.characters(codec=None)))
def test_any_text_can_be_written(text: str):
    line = encode_result("id", {"text": text})
    assert line.count(b"\n") == 1
    assert isinstance(parse(line), Response)


@given(st.binary())
def test_any_bytes_can_be_read(line: bytes):
    assert parse(line) is not None
