"""What we read and write, one fact each; `test_schema_judged` asks the judges."""

import json

import msgspec
import pytest

from pattern_acp.acp import schema
from pattern_acp.domain.tool_calls import StopReason
from pattern_acp.jsonrpc.messages import INVALID_PARAMS, RpcError


def initialize(text: bytes) -> schema.InitializeRequest:
    return schema.read_params(msgspec.Raw(text), schema.InitializeRequest)


def prompt(text: bytes) -> schema.PromptRequest:
    return schema.read_params(msgspec.Raw(text), schema.PromptRequest)


def new_session(text: bytes) -> schema.NewSessionRequest:
    return schema.read_params(msgspec.Raw(text), schema.NewSessionRequest)


def written(value: object) -> object:
    return json.loads(msgspec.json.encode(value))


@pytest.mark.parametrize(
    "text",
    [
        b'{"protocolVersion":1}',
        b'{"protocolVersion":1,"capabilities":{}}',
        b'{"protocolVersion":1,"clientCapabilities":null,"clientInfo":null}',
        b'{"protocolVersion":1,"clientCapabilities":[],"clientInfo":"editor"}',
        b'{"protocolVersion":1,"clientCapabilities":{"clientInfo":{"name":"agentic"},"fs":7}}',
    ],
)
def test_missing_and_odd_capabilities_count_as_none(text: bytes):
    # Interop rule 7: acpc sends nothing but a version, chuk-acp a wrong key, agentic its name in the wrong place.
    request = initialize(text)
    assert (request.client_capabilities, request.client_info) == (schema.ClientCapabilities(), None)


def test_a_client_may_name_itself_without_a_version():
    request = initialize(b'{"protocolVersion":1,"clientInfo":{"name":"editor"}}')
    assert request.client_info == schema.Implementation(name="editor", version="")


def test_one_odd_flag_costs_only_itself():
    capabilities = initialize(
        b'{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":"yes"},"terminal":true}}'
    ).client_capabilities
    assert (capabilities.fs.read_text_file, capabilities.fs.write_text_file, capabilities.terminal) == (
        True,
        False,
        True,
    )


def test_nested_flags_and_extensions_are_read():
    capabilities = initialize(
        b'{"protocolVersion":1,"clientCapabilities":{"auth":{"terminal":true},"session":{"configOptions":{"boolean":{}},'
        b'"notices":{}},"_meta":{"terminal_output":true,"other":1}}}'
    ).client_capabilities
    assert capabilities.auth.terminal
    assert capabilities.session.config_options == schema.ConfigOptionCapabilities(boolean=schema.Flag())
    assert capabilities.session.notices == schema.Flag()
    assert capabilities.has_meta("terminal_output")
    assert not capabilities.has_meta("other")


@pytest.mark.parametrize(("raw", "version"), [(b"1", 1), (b"2", 2), (b"99", 99), (b'"1"', 1), (b"0", 0)])
def test_a_version_is_an_integer_or_spells_one(raw: bytes, version: int):
    assert schema.parse_protocol_version(msgspec.Raw(raw)) == version


@pytest.mark.parametrize(
    "raw", [b'"2024-11-05"', b"true", b"1.5", b"null", b"-1", b"70000", b'""', b'"one"', b"{}", '"²"'.encode()]
)
def test_anything_else_is_no_version(raw: bytes):
    with pytest.raises(RpcError) as caught:
        schema.parse_protocol_version(msgspec.Raw(raw))
    assert caught.value.code == INVALID_PARAMS


def test_a_missing_version_is_named():
    with pytest.raises(RpcError, match="`protocolVersion` is missing"):
        initialize(b"{}")


def test_meta_never_mixes_with_the_parameters():
    # SDK fault 5: `_meta.session_id` replaced the real session id.
    text = b'{"sessionId":"real","_meta":{"session_id":"evil","sessionId":"evil","self":1},"prompt":[]}'
    request = prompt(text)
    assert request.session_id == "real"
    assert request.meta == {"session_id": "evil", "sessionId": "evil", "self": 1}


@pytest.mark.parametrize("meta", [b"5", b"[]", b'"x"', b"null", b"[1]"])
def test_meta_of_a_wrong_type_is_dropped(meta: bytes):
    text = b'{"sessionId":"s","_meta":' + meta + b',"prompt":[{"type":"text","text":"a","_meta":' + meta + b"}]}"
    assert prompt(text).prompt[0] in (schema.TextContent(text="a"), schema.TextContent(text="a", meta={}))


def test_all_five_blocks_are_read_and_unknown_ones_kept_apart():
    text = json.dumps(
        {
            "sessionId": "s",
            "prompt": [
                {"type": "text", "text": "a", "annotations": {"audience": 5}},
                {"type": "video", "data": "x"},
                {"type": "image", "data": "aGk=", "mimeType": "image/png"},
                {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
                {"type": "resource_link", "uri": "/a/b", "name": "b", "size": 3},
                {"type": "resource", "resource": {"uri": "file:///a", "text": "x", "mimeType": None}},
                {"type": "hologram"},
            ],
        }
    ).encode()
    assert prompt(text).prompt == (
        schema.TextContent(text="a"),
        schema.UnsupportedBlock(),
        schema.ImageContent(data="aGk=", mime_type="image/png"),
        schema.AudioContent(data="aGk=", mime_type="audio/wav"),
        schema.ResourceLink(uri="/a/b", name="b", size=3),
        schema.EmbeddedResource(resource=schema.ResourceContents(uri="file:///a", text="x")),
        schema.UnsupportedBlock(),
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b'{"prompt":[]}', "The parameter `sessionId` is missing."),
        (b'{"sessionId":"s"}', "The parameter `prompt` is missing."),
        (b'{"sessionId":"s","prompt":"hi"}', "The parameter `prompt` must be an array, not a string."),
        (b'{"sessionId":"s","prompt":[{"type":"text"}]}', "The parameter `prompt[0].text` is missing."),
        (b'{"sessionId":"s","prompt":[{"text":"x"}]}', "The parameter `prompt[0].type` is missing."),
        (
            b'{"sessionId":"s","prompt":[{"type":"text","text":"x"},7]}',
            "The parameter `prompt[1]` must be an object, not an integer.",
        ),
    ],
)
def test_what_is_wrong_with_a_prompt_is_named(text: bytes, sentence: str):
    with pytest.raises(RpcError) as caught:
        prompt(text)
    assert caught.value.message == sentence


def test_mcp_servers_of_every_kind_are_read():
    request = new_session(
        json.dumps(
            {
                "cwd": "/p",
                "mcpServers": [
                    {"name": "a", "command": "/bin/a", "args": ["-x"], "env": [{"name": "K", "value": "v"}]},
                    {"type": "http", "name": "b", "url": "http://localhost", "headers": [{"name": "H", "value": "v"}]},
                    {"type": "sse", "name": "c", "url": "http://localhost", "headers": []},
                    {"type": "acp", "name": "d", "id": "x"},
                    {"name": "e", "command": "e", "args": {}, "env": {}},
                ],
            }
        ).encode()
    )
    assert [(server.type, server.name) for server in request.mcp_servers] == [
        ("stdio", "a"),
        ("http", "b"),
        ("sse", "c"),
        ("acp", "d"),
        ("stdio", "e"),
    ]
    assert request.mcp_servers[0].env == (schema.EnvVariable(name="K", value="v"),)
    assert request.mcp_servers[1].headers == (schema.HttpHeader(name="H", value="v"),)


def test_a_config_value_may_be_a_boolean_and_stays_one():
    read = schema.read_params(
        msgspec.Raw(b'{"sessionId":"s","configId":"c","type":"boolean","value":true}'), schema.SetConfigOptionRequest
    )
    assert read.value is True


def test_absent_members_are_left_out_and_null_is_sent_where_it_clears():
    assert written(schema.SessionInfoUpdate(title="t")) == {"sessionUpdate": "session_info_update", "title": "t"}
    assert written(schema.SessionInfoUpdate(title=None)) == {"sessionUpdate": "session_info_update", "title": None}
    assert written(schema.PromptResponse(stop_reason=StopReason.CANCELLED)) == {"stopReason": "cancelled"}
    assert written(schema.EmptyResponse()) == {}


def test_empty_content_clears_and_is_therefore_sent():
    update = schema.ToolCallProgress(tool_call_id="c", content=(), meta={"terminal_output": {"terminal_id": "t"}})
    assert written(update) == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c",
        "content": [],
        "_meta": {"terminal_output": {"terminal_id": "t"}},
    }


def test_a_permission_request_names_the_call_without_the_tag_of_an_update():
    request = schema.PermissionRequest(
        session_id="s",
        tool_call=schema.ToolCallUpdate(tool_call_id="c", title="ls", raw_input={"command": "ls"}),
        options=(schema.PermissionOption(option_id="allow_once", name="Allow", kind="allow_once"),),
    )
    assert written(request) == {
        "sessionId": "s",
        "toolCall": {"toolCallId": "c", "title": "ls", "rawInput": {"command": "ls"}},
        "options": [{"optionId": "allow_once", "name": "Allow", "kind": "allow_once"}],
    }
