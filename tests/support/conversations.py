"""Conversations that hold everything a wire has to carry, for tests of encoders.

Owns: examples only.
"""

from pattern_acp.domain.clock import MessageId, ToolCallId
from pattern_acp.domain.messages import (
    ImagePart,
    Message,
    Part,
    ResourcePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from pattern_acp.providers.base import ProviderRequest, ThoughtLevel, ToolSpec

PIXEL = ImagePart("image/png", "iVBORw0KGgo=")

READ_FILE = ToolSpec(
    "read_file",
    "Read a file.",
    {"type": "object", "properties": {"path": {"type": "string"}, "line": {"type": "integer"}}, "required": ["path"]},
)
RUN_COMMAND = ToolSpec(
    "run_command", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}}
)


def user(*parts: Part | str, number: int = 1) -> Message:
    """A message of the person."""
    return Message(MessageId(f"user_{number}"), Role.USER, _parts(parts))


def assistant(*parts: Part | str, number: int = 1) -> Message:
    """A message of the model."""
    return Message(MessageId(f"assistant_{number}"), Role.ASSISTANT, _parts(parts))


def results(*parts: ToolResultPart, number: int = 1) -> Message:
    """A message of results."""
    return Message(MessageId(f"tool_{number}"), Role.TOOL, parts)


def call(call_id: str, name: str = "read_file", arguments: str = '{"path":"a"}') -> ToolCallPart:
    """A call."""
    return ToolCallPart(ToolCallId(call_id), name, arguments)


def result(
    call_id: str, text: str = "done", *, is_error: bool = False, images: tuple[ImagePart, ...] = ()
) -> ToolResultPart:
    """A result."""
    return ToolResultPart(ToolCallId(call_id), text, is_error, images)


def request(
    *messages: Message, model: str = "m", level: ThoughtLevel = ThoughtLevel.OFF, volatile: str = "now"
) -> ProviderRequest:
    """A request with two tools."""
    return ProviderRequest(
        model, "You are helpful.", (READ_FILE, RUN_COMMAND), messages, volatile, thought_level=level, cache_key="s1"
    )


def everything(provider: str) -> tuple[Message, ...]:
    """A conversation with every kind of part in it, also those that a wire has to leave out or put into words."""
    return (
        user("Look ", PIXEL, ResourcePart("file:///a.py", "a.py", "print(1)"), ResourcePart("file:///b", "b")),
        assistant(
            ThinkingPart("Hm.", signature="c2ln", provider=provider),
            ThinkingPart("", redacted="cmVk", provider=provider),
            ThinkingPart("Another wire's.", signature="x", provider="elsewhere"),
            ThinkingPart("Cut before its signature.", provider=provider),
            "I read both. ",
            call("call_1"),
            call("call_2", "run_command", '{"command": "ls"}'),
        ),
        results(result("call_2", "exit 1", is_error=True), result("call_1", "shown", images=(PIXEL,))),
        assistant("  ", call("bad id!", arguments="{broken"), number=2),
        user("Stop that.", number=2),
        assistant("Stopped.", number=3),
        user("Again.", number=3),
    )


def _parts(parts: tuple[Part | str, ...]) -> tuple[Part, ...]:
    return tuple(TextPart(part) if isinstance(part, str) else part for part in parts)
