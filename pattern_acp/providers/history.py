"""The conversation in the shape that both wires need.

Owns: invariant 4 (every call has exactly one result, right after the message that made it), ids that every vendor
accepts, and the words for what a wire or model cannot carry. Must not know: any wire's format.

Everything here depends on a message and those before it only, so that a longer history starts with the same bytes.
"""

from collections.abc import Callable, MutableMapping, Sequence
from operator import is_

from msgspec.structs import replace

from pattern_acp.domain.canonical import Json, sha256_hex
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.late_pattern import late_pattern
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
from pattern_acp.domain.untrusted_blocks import harmless_result, untrusted_block, untrusted_line
from pattern_acp.providers.base import ModelInfo

_CONTINUE = (
    "the user has read what you see of it. Continue exactly where it stops, in the middle of a word if need be: repeat "
    "nothing, and say nothing about the"
)

CONTINUE = (
    f"The connection broke in the middle of your last message; {_CONTINUE} break. A tool call that you had begun was "
    "not made; make it again."
)
"""Note to the model when part of its answer came."""

CONTINUE_CUT = f"The limit of tokens for one answer cut your last message; {_CONTINUE} limit."
"""Note to the model when its answer was longer than one may be."""

CONTINUE_NOTE, CONTINUE_CUT_NOTE = (str(untrusted_line("note", text)) for text in (CONTINUE, CONTINUE_CUT))
"""Both as they are in the conversation. A server that can continue with an answer gets the answer in their place."""

CONTINUE_NOTES = frozenset((CONTINUE_NOTE, CONTINUE_CUT_NOTE))

NO_RESULT = "No result was recorded for this call."
"""Fills a call that was cut short (cancel, crash): a request without the result would be refused by every vendor."""

_PLAIN_ID = late_pattern(r"[A-Za-z0-9_-]{1,40}")
"""Anthropic allows these characters; OpenAI allows 40 of them."""

_NOT_OF_NAMES = late_pattern(r"[^A-Za-z0-9_-]")

_FIRST_WIRES = frozenset({"anthropic", "openai"})

_NAME_CHARACTERS = 64
"""Longest tool name that OpenAI allows; Anthropic allows twice as many."""


def pair_calls(messages: Sequence[Message], used: MutableMapping[str, int] | None = None) -> tuple[Message, ...]:
    """The messages with one result message after each message with calls, results in the order of the calls.

    A missing result is filled with `NO_RESULT`, a second or stray one is left out, and an id that is not usable or
    was used before is replaced, in the call and in its result alike. A tool name that a model made up is put into the
    characters that vendors allow, since they refuse the whole request for it, now and in every later turn.
    `used` are the ids of calls before these messages, each with the number that its next repetition gets; those of
    these are added to it.
    """
    paired: list[Message] = []
    used = {} if used is None else used
    position = 0
    while position < len(messages):
        message = messages[position]
        position += 1
        if message.role is Role.TOOL:
            continue
        following: list[Message] = []
        while position < len(messages) and messages[position].role is Role.TOOL:
            following.append(messages[position])
            position += 1
        calls = message.tool_calls
        paired += _with_results(message, calls, following, used) if calls else [message]
    return tuple(paired)


def _with_results(
    message: Message, calls: Sequence[ToolCallPart], following: Sequence[Message], used: MutableMapping[str, int]
) -> list[Message]:
    recorded: dict[ToolCallId, ToolResultPart] = {}
    for part in (part for other in following for part in other.parts):
        if isinstance(part, ToolResultPart):
            recorded.setdefault(part.call_id, part)
    named: list[ToolCallPart] = []
    results: list[ToolResultPart] = []
    for call in calls:
        call_id = _fresh_id(call.call_id, used)
        named.append(_named(call, call_id))
        # Popped, so that two calls with one id do not both get the first one's result.
        result = recorded.pop(call.call_id, None) or ToolResultPart(call_id, NO_RESULT, is_error=True)
        text = harmless_result(result.text)
        is_same = result.call_id == call_id and text == result.text
        results.append(result if is_same else replace(result, call_id=call_id, text=text))
    # Nearly every message is as it should be, and a long history is gone through for every request.
    if not all(map(is_, named, calls)):
        rest = iter(named)
        parts = tuple(next(rest) if isinstance(part, ToolCallPart) else part for part in message.parts)
        message = replace(message, parts=parts)
    if len(following) == 1 and len(following[0].parts) == len(results) and all(map(is_, following[0].parts, results)):
        return [message, following[0]]
    result_id = following[0].message_id if following else message.message_id
    return [message, Message(result_id, Role.TOOL, tuple(results))]


def _named(call: ToolCallPart, call_id: ToolCallId) -> ToolCallPart:
    name = _NOT_OF_NAMES.sub("_", call.name)[:_NAME_CHARACTERS] or "unnamed"
    is_same = call.call_id == call_id and call.name == name
    return call if is_same else replace(call, call_id=call_id, name=name)


def _fresh_id(call_id: str, used: MutableMapping[str, int]) -> ToolCallId:
    plain = call_id if _PLAIN_ID.fullmatch(call_id) else f"call_{sha256_hex(call_id.encode('utf-8', 'replace'))[:24]}"
    # Some servers call every call of a long conversation `call_0`, so the numbers before this one are not tried again.
    unique, number = plain, used.get(plain, 2)
    while unique in used:
        unique = f"{plain[:34]}_{number}"
        number += 1
    used[plain] = number
    used.setdefault(unique, 2)
    return ToolCallId(unique)


def begun_answer(messages: Sequence[Message]) -> tuple[int, str]:
    """The text of an answer that stopped in the middle and is to continue, and the messages before it.

    Empty text when the conversation does not end so, and when the answer was more than text. An answer that stopped
    several times is one text.
    """
    at, text = len(messages), ""
    while at > 2 and messages[at - 1].text in CONTINUE_NOTES and messages[at - 1].role is Role.USER:
        broken = messages[at - 2]
        if broken.role is not Role.ASSISTANT or not all(isinstance(part, TextPart) for part in broken.parts):
            break
        at, text = at - 2, broken.text + text
    return (at, text) if text.strip() and messages[at - 1].role is not Role.ASSISTANT else (len(messages), "")


def is_own_thinking(part: ThinkingPart, provider: str, model: str, wire: str) -> bool:
    """Return whether a reasoning block may go back: the wire, the provider and the model, if known, are the same.

    `ThinkingPart.provider` is the provider's name, or `PROVIDER/MODEL`: newer models refuse reasoning of another model.
    A block without a wire is of a journal from before there were more than two.
    """
    is_of_wire = part.wire == wire if part.wire else wire in _FIRST_WIRES
    return is_of_wire and part.provider in {provider, f"{provider}/{model}"}


def resource_text(part: ResourcePart) -> str:
    """An attachment as text. Its content is between marks: it is data, not the user's words (invariant 8)."""
    if part.text is None:
        note = f": {part.note}" if part.note else ""
        return f"[Attached link: {part.name} ({part.uri}){note}]"
    lines = {"lines": part.lines} if part.lines else {}
    note = f"\n[{part.note}]" if part.note else ""
    name, uri = (" ".join(value.split()) for value in (part.name, part.uri))
    return untrusted_block("attachment", part.text, name=name, uri=uri, **lines) + note


def unseen_image(part: ImagePart) -> str:
    """Text instead of an image that the model cannot see."""
    return f"[{part.about}, not shown: this model takes no images]"


def is_blank(part: TextPart) -> bool:
    """Return whether a text is blank; vendors refuse such blocks."""
    return not part.text.strip()


def shown_parts(
    parts: Sequence[Part], info: ModelInfo, text: Callable[[str], Json], image: Callable[[ImagePart], Json]
) -> list[Json]:
    """Encode the user's parts for a wire with texts and images; `text` and `image` encode one of each.

    Images that the model cannot see are mentioned in their place.
    """
    content: list[Json] = []
    for part in parts:
        match part:
            case TextPart() if not is_blank(part):
                content.append(text(part.text))
            case ResourcePart():
                content.append(text(resource_text(part)))
            case ImagePart():
                content.append(image(part) if info.sees_images else text(unseen_image(part)))
            case _:
                pass
    return content
