"""Lines of MCP servers that are not quite what the protocol asks for."""

import logging

import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from pattern_acp.mcp_servers.transports import parsed_line


def message(line: bytes) -> object:
    read = parsed_line(line)
    assert isinstance(read, SessionMessage)
    return read.message


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (b"cut here \\ud83d", "cut here \ufffd"),
        (b"\\udc00 first", "\ufffd first"),
        (b"whole \\ud83d\\ude00", "whole \U0001f600"),
        (b"caf\xe9", "caf\ufffd"),
    ],
)
def test_half_characters_and_foreign_bytes_do_not_cost_the_answer(text: bytes, read: str):
    got = message(b'{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"' + text + b'"}]}}')
    assert got == types.JSONRPCResponse(jsonrpc="2.0", id=3, result={"content": [{"type": "text", "text": read}]})


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":3}',
        b'{"jsonrpc":"2.0","id":3,"result":null}',
        b'{"id":3,"result":{}}',
        b'{"jsonrpc":"2.0","id":3,"error":"boom"}',
    ],
)
def test_an_answer_that_makes_no_sense_fails_what_it_answers(line: bytes):
    got = message(line)
    assert isinstance(got, types.JSONRPCError)
    assert (got.id, got.error.message) == (3, "its answer makes no sense")


@pytest.mark.parametrize("line", [b"Welcome!", b"", b"[]", b'{"method":1,"id":3}', b"[" * 100_000, b'{"id":null}'])
def test_noise_is_left_out_and_logged(line: bytes, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        assert isinstance(parsed_line(line), Exception)
    assert "a line that is no message" in caplog.text
