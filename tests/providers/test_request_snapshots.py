"""One whole request on each wire. A change here is a change of what models see, and of what is cached."""

import json

from inline_snapshot import snapshot

from pattern_acp.providers import anthropic as anthropic_wire
from pattern_acp.providers import openai as openai_wire
from pattern_acp.providers.base import ProviderRequest, ThoughtLevel
from pattern_acp.providers.catalogue import describe
from tests.support.conversations import everything, request
from tests.support.wires import body_for


def asked(provider: str) -> ProviderRequest:
    return request(
        *everything(provider), model="test-model", level=ThoughtLevel.HIGH, volatile="Memory: the port is 8080."
    )


def test_a_request_to_anthropic_looks_like_this():
    body = anthropic_wire.encode_body(asked("anthropic"), describe("anthropic", "claude-sonnet-5-5"), "anthropic")
    assert json.loads(body) == snapshot(
        {
            "model": "test-model",
            "max_tokens": 32768,
            "stream": True,
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": "high"},
            "tools": [
                {
                    "name": "read_file",
                    "description": "Read a file.",
                    "input_schema": {
                        "properties": {"line": {"type": "integer"}, "path": {"type": "string"}},
                        "required": ["path"],
                        "type": "object",
                    },
                },
                {
                    "name": "run_command",
                    "description": "Run a command.",
                    "input_schema": {"properties": {"command": {"type": "string"}}, "type": "object"},
                    "cache_control": {"type": "ephemeral"},
                },
            ],
            "system": [{"type": "text", "text": "You are helpful.", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Look "},
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
                        },
                        {
                            "type": "text",
                            "text": """\
<attachment name="a.py" uri="file:///a.py">
print(1)
</attachment>\
""",
                        },
                        {"type": "text", "text": "[Attached link: b (file:///b)]"},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                        {"type": "redacted_thinking", "data": "cmVk"},
                        {"type": "text", "text": "I read both. "},
                        {"type": "tool_use", "id": "call_1", "name": "read_file", "input": {"path": "a"}},
                        {"type": "tool_use", "id": "call_2", "name": "run_command", "input": {"command": "ls"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "call_1",
                            "content": [
                                {"type": "text", "text": "shown"},
                                {
                                    "type": "image",
                                    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
                                },
                            ],
                        },
                        {
                            "type": "tool_result",
                            "tool_use_id": "call_2",
                            "content": [{"type": "text", "text": "exit 1"}],
                            "is_error": True,
                        },
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {
                            "type": "tool_use",
                            "id": "call_64535bcebbddcc858cb433fe",
                            "name": "read_file",
                            "input": {"invalid_json": "{broken"},
                        }
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "call_64535bcebbddcc858cb433fe",
                            "content": [{"type": "text", "text": "No result was recorded for this call."}],
                            "is_error": True,
                        }
                    ],
                },
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Stop that.", "cache_control": {"type": "ephemeral"}}],
                },
                {"role": "assistant", "content": [{"type": "text", "text": "Stopped."}]},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Again.", "cache_control": {"type": "ephemeral"}},
                        {"type": "text", "text": "Memory: the port is 8080."},
                    ],
                },
            ],
        }
    )


def test_a_request_to_openai_looks_like_this():
    facts = describe("openai", "gpt-6.1-terra", is_openai=True)
    body = openai_wire.encode_body(asked("openai"), facts, "openai", is_openai=True)
    assert json.loads(body) == snapshot(
        {
            "model": "test-model",
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_completion_tokens": 32768,
            "reasoning_effort": "high",
            "prompt_cache_key": "s1",
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "read_file",
                        "description": "Read a file.",
                        "parameters": {
                            "properties": {"line": {"type": "integer"}, "path": {"type": "string"}},
                            "required": ["path"],
                            "type": "object",
                        },
                    },
                },
                {
                    "type": "function",
                    "function": {
                        "name": "run_command",
                        "description": "Run a command.",
                        "parameters": {"properties": {"command": {"type": "string"}}, "type": "object"},
                    },
                },
            ],
            "messages": [
                {"role": "system", "content": "You are helpful."},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Look "},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                        {
                            "type": "text",
                            "text": """\
<attachment name="a.py" uri="file:///a.py">
print(1)
</attachment>\
""",
                        },
                        {"type": "text", "text": "[Attached link: b (file:///b)]"},
                    ],
                },
                {
                    "role": "assistant",
                    "content": "I read both. ",
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "read_file", "arguments": '{"path":"a"}'},
                        },
                        {
                            "id": "call_2",
                            "type": "function",
                            "function": {"name": "run_command", "arguments": '{"command": "ls"}'},
                        },
                    ],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": "shown"},
                {"role": "tool", "tool_call_id": "call_2", "content": "Error: exit 1"},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Images from the tool results above:"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                    ],
                },
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "call_64535bcebbddcc858cb433fe",
                            "type": "function",
                            "function": {"name": "read_file", "arguments": '{"invalid_json": "{broken"}'},
                        }
                    ],
                },
                {
                    "role": "tool",
                    "tool_call_id": "call_64535bcebbddcc858cb433fe",
                    "content": "Error: No result was recorded for this call.",
                },
                {"role": "user", "content": "Stop that."},
                {"role": "assistant", "content": "Stopped."},
                {
                    "role": "user",
                    "content": """\
Again.

Memory: the port is 8080.\
""",
                },
            ],
        }
    )


def test_a_request_to_a_server_like_openais_looks_like_this():
    body = openai_wire.encode_body(asked("local"), describe("local", "some-model"), "local", is_openai=False)
    assert json.loads(body) == snapshot(
        {
            "model": "test-model",
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 8192,
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "read_file",
                        "description": "Read a file.",
                        "parameters": {
                            "properties": {"line": {"type": "integer"}, "path": {"type": "string"}},
                            "required": ["path"],
                            "type": "object",
                        },
                    },
                },
                {
                    "type": "function",
                    "function": {
                        "name": "run_command",
                        "description": "Run a command.",
                        "parameters": {"properties": {"command": {"type": "string"}}, "type": "object"},
                    },
                },
            ],
            "messages": [
                {"role": "system", "content": "You are helpful."},
                {
                    "role": "user",
                    "content": """\
Look \n\

[image, not shown: this model takes no images]

<attachment name="a.py" uri="file:///a.py">
print(1)
</attachment>

[Attached link: b (file:///b)]\
""",
                },
                {
                    "role": "assistant",
                    "content": "I read both. ",
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "read_file", "arguments": '{"path":"a"}'},
                        },
                        {
                            "id": "call_2",
                            "type": "function",
                            "function": {"name": "run_command", "arguments": '{"command": "ls"}'},
                        },
                    ],
                },
                {
                    "role": "tool",
                    "tool_call_id": "call_1",
                    "content": """\
shown
[image, not shown: this model takes no images]\
""",
                },
                {"role": "tool", "tool_call_id": "call_2", "content": "Error: exit 1"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "call_64535bcebbddcc858cb433fe",
                            "type": "function",
                            "function": {"name": "read_file", "arguments": '{"invalid_json": "{broken"}'},
                        }
                    ],
                },
                {
                    "role": "tool",
                    "tool_call_id": "call_64535bcebbddcc858cb433fe",
                    "content": "Error: No result was recorded for this call.",
                },
                {"role": "user", "content": "Stop that."},
                {"role": "assistant", "content": "Stopped."},
                {
                    "role": "user",
                    "content": """\
Again.

Memory: the port is 8080.\
""",
                },
            ],
        }
    )


def test_a_request_to_openais_responses_looks_like_this():
    assert json.loads(body_for("responses", asked("mine"))) == snapshot(
        {
            "model": "gpt-6.1-terra",
            "stream": True,
            "store": False,
            "max_output_tokens": 32768,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "high", "summary": "auto"},
            "prompt_cache_key": "s1",
            "instructions": "You are helpful.",
            "tools": [
                {
                    "type": "function",
                    "name": "read_file",
                    "description": "Read a file.",
                    "parameters": {
                        "properties": {"line": {"type": "integer"}, "path": {"type": "string"}},
                        "required": ["path"],
                        "type": "object",
                    },
                    "strict": False,
                },
                {
                    "type": "function",
                    "name": "run_command",
                    "description": "Run a command.",
                    "parameters": {"properties": {"command": {"type": "string"}}, "type": "object"},
                    "strict": False,
                },
            ],
            "input": [
                {
                    "type": "message",
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "Look "},
                        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw0KGgo="},
                        {
                            "type": "input_text",
                            "text": """\
<attachment name="a.py" uri="file:///a.py">
print(1)
</attachment>\
""",
                        },
                        {"type": "input_text", "text": "[Attached link: b (file:///b)]"},
                    ],
                },
                {"type": "message", "role": "assistant", "content": "I read both. "},
                {"type": "function_call", "call_id": "call_1", "name": "read_file", "arguments": '{"path":"a"}'},
                {"type": "function_call", "call_id": "call_2", "name": "run_command", "arguments": '{"command": "ls"}'},
                {
                    "type": "function_call_output",
                    "call_id": "call_1",
                    "output": [
                        {"type": "input_text", "text": "shown"},
                        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw0KGgo="},
                    ],
                },
                {"type": "function_call_output", "call_id": "call_2", "output": "Error: exit 1"},
                {
                    "type": "function_call",
                    "call_id": "call_64535bcebbddcc858cb433fe",
                    "name": "read_file",
                    "arguments": '{"invalid_json": "{broken"}',
                },
                {
                    "type": "function_call_output",
                    "call_id": "call_64535bcebbddcc858cb433fe",
                    "output": "Error: No result was recorded for this call.",
                },
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Stop that."}]},
                {"type": "message", "role": "assistant", "content": "Stopped."},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Again."}]},
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "Memory: the port is 8080."}],
                },
            ],
        }
    )


def test_a_request_to_gemini_looks_like_this():
    assert json.loads(body_for("gemini", asked("mine"))) == snapshot(
        {
            "generationConfig": {
                "maxOutputTokens": 32768,
                "thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": True},
            },
            "systemInstruction": {"parts": [{"text": "You are helpful."}]},
            "tools": [
                {
                    "functionDeclarations": [
                        {
                            "name": "read_file",
                            "description": "Read a file.",
                            "parameters": {
                                "type": "object",
                                "properties": {"line": {"type": "integer"}, "path": {"type": "string"}},
                                "required": ["path"],
                            },
                        },
                        {
                            "name": "run_command",
                            "description": "Run a command.",
                            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
                        },
                    ]
                }
            ],
            "contents": [
                {
                    "role": "user",
                    "parts": [
                        {"text": "Look "},
                        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
                        {
                            "text": """\
<attachment name="a.py" uri="file:///a.py">
print(1)
</attachment>\
"""
                        },
                        {"text": "[Attached link: b (file:///b)]"},
                    ],
                },
                {
                    "role": "model",
                    "parts": [
                        {"text": "I read both. "},
                        {
                            "functionCall": {"id": "call_1", "name": "read_file", "args": {"path": "a"}},
                            "thoughtSignature": "skip_thought_signature_validator",
                        },
                        {"functionCall": {"id": "call_2", "name": "run_command", "args": {"command": "ls"}}},
                    ],
                },
                {
                    "role": "user",
                    "parts": [
                        {
                            "functionResponse": {
                                "id": "call_1",
                                "name": "read_file",
                                "response": {"output": "shown"},
                                "parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}],
                            }
                        },
                        {"functionResponse": {"id": "call_2", "name": "run_command", "response": {"error": "exit 1"}}},
                    ],
                },
                {
                    "role": "model",
                    "parts": [
                        {
                            "functionCall": {
                                "id": "call_64535bcebbddcc858cb433fe",
                                "name": "read_file",
                                "args": {"invalid_json": "{broken"},
                            },
                            "thoughtSignature": "skip_thought_signature_validator",
                        }
                    ],
                },
                {
                    "role": "user",
                    "parts": [
                        {
                            "functionResponse": {
                                "id": "call_64535bcebbddcc858cb433fe",
                                "name": "read_file",
                                "response": {"error": "No result was recorded for this call."},
                            }
                        }
                    ],
                },
                {"role": "user", "parts": [{"text": "Stop that."}]},
                {"role": "model", "parts": [{"text": "Stopped."}]},
                {"role": "user", "parts": [{"text": "Again."}, {"text": "Memory: the port is 8080."}]},
            ],
        }
    )
