"""The vendors' own types as judges of requests.

Owns: which types of which SDK read the body of each wire. Must not know: how bodies are made.
"""

import json

import anthropic.types
import openai.types.chat
import openai.types.responses
from google.genai import types as google
from pydantic import BaseModel, TypeAdapter
from pydantic.alias_generators import to_camel

from pattern_acp.config.settings import Wire

ANTHROPIC = TypeAdapter(anthropic.types.message_create_params.MessageCreateParamsStreaming)
CHAT = TypeAdapter(openai.types.chat.completion_create_params.CompletionCreateParamsStreaming)
RESPONSES = TypeAdapter(openai.types.responses.response_create_params.ResponseCreateParamsStreaming)


class GoogleRequest(BaseModel, extra="forbid", alias_generator=to_camel):
    """The body of generateContent, of the SDK's own types, which forbid what they do not know."""

    generation_config: google.GenerationConfig
    system_instruction: google.Content | None = None
    tools: list[google.Tool] = []
    contents: list[google.Content]


def judge_body(wire: Wire, body: bytes) -> None:
    """Let the vendor's types read a body.

    Raises:
        pydantic.ValidationError: it is none.
    """
    value = json.loads(body)
    match wire:
        case "anthropic":
            ANTHROPIC.validate_python(value, extra="forbid")
        case "responses":
            RESPONSES.validate_python(value, extra="forbid")
        case "gemini":
            GoogleRequest.model_validate(value)
        case _:
            CHAT.validate_python(value, extra="forbid")
