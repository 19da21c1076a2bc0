"""What a compaction does to a conversation, and the words that stand for what it left out.

Owns: applying a recorded compaction, the same way while a session runs and when it is read back. Must not know: how
messages were chosen (`context/choosing.py`), or who wrote a summary. Pure.
"""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.ids import MessageId
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.messages import Message, Role, TextPart, ToolCallPart, ToolResultPart
from pattern_acp.domain.plan import Plan, PlanStatus
from pattern_acp.domain.untrusted_blocks import untrusted_block
from pattern_acp.journal.events import ContextCompacted

SUMMARY, GAP = "conversation_summary", "conversation_gap"
"""The marks around a summary, and around the words for what was left out without one."""

NOT_LOST = "It is not lost: memory_search finds what was said."
"""How the model of a session gets back what left its context."""

FILES_NAMED = 20
"""Most files that are named for what was left out."""

_CUT = late_pattern(
    r"\n\[\.\.\. (?P<left>[\d,]+) characters left out here; read_attachment with id \S+ and start \d+ reads "
    r"them \.\.\.\]\n"
)
_IMAGES_GONE = "\n[The images of this result were left out to make room; run the call again to see them.]"


def compacted(messages: Sequence[Message], event: ContextCompacted) -> list[Message]:
    """The conversation behind a compaction. `messages` may or may not hold the messages of results."""
    removed, shortened = frozenset(event.removed), frozenset(event.shortened)
    kept: list[Message] = []
    place = 0
    drops_results = False
    for message in messages:
        is_results = message.role is Role.TOOL
        if drops_results if is_results else message.message_id in removed:
            drops_results, place = True, len(kept)
            continue
        drops_results = False
        kept.append(_with_short_results(message, shortened, event.keep_characters) if is_results else message)
    if event.text:
        # A conversation begins with the person's side, and nothing may come between a call and its results.
        starts_well = bool(kept) and kept[0].role is Role.USER
        kept.insert(place if starts_well else 0, note_message(event))
    return kept


def _with_short_results(message: Message, shortened: frozenset[str], characters: int) -> Message:
    if not any(isinstance(part, ToolResultPart) and part.call_id in shortened for part in message.parts):
        return message
    parts = tuple(
        short_result(part, characters) if isinstance(part, ToolResultPart) and part.call_id in shortened else part
        for part in message.parts
    )
    return replace(message, parts=parts)


def note_message(event: ContextCompacted) -> Message:
    """What the model reads in place of what was removed."""
    return Message(event.note_id, Role.USER, (TextPart(event.text),))


def short_result(part: ToolResultPart, characters: int) -> ToolResultPart:
    """The result with its two ends only, about `characters` of them, and how the model reads the rest."""
    whole = part.text.removesuffix(_IMAGES_GONE)
    images_gone = _IMAGES_GONE if part.images or len(whole) < len(part.text) else ""
    if len(whole) <= characters:
        return replace(part, text=whole + images_gone, images=())
    before = _CUT.search(whole)
    # What was cut already is cut on: the marker counts what is missing of the recorded text.
    head, tail, left = (
        (whole, whole, 0)
        if before is None
        else (whole[: before.start()], whole[before.end() :], int(before["left"].replace(",", "")))
    )
    tail_size = characters // 3
    head_size = characters - tail_size
    new_head, new_tail = head[:head_size], tail[len(tail) - tail_size :] if len(tail) > tail_size else tail
    total = len(whole) if before is None else len(head) + len(tail) + left
    left = max(total - len(new_head) - len(new_tail), 0)
    marker = (
        f"\n[... {left:,} characters left out here; read_attachment with id {part.call_id} and start {len(new_head)} "
        "reads them ...]\n"
    )
    return replace(part, text=new_head + marker + new_tail + images_gone, images=())


def is_note(message: Message) -> bool:
    """Whether the message stands for what was left out."""
    return message.role is Role.USER and message.text.startswith((f"<{SUMMARY}", f"<{GAP}"))


def is_summary(message: Message) -> bool:
    """Whether the message is a summary."""
    return message.role is Role.USER and message.text.startswith(f"<{SUMMARY}")


def is_gap(message: Message) -> bool:
    """Whether the message stands for what was left out without a summary."""
    return message.role is Role.USER and message.text.startswith(f"<{GAP}")


class LeftOut(Struct, frozen=True):
    """What is known without a model of messages that are left out."""

    count: int
    files: tuple[str, ...]


def left_out(messages: Iterable[Message]) -> LeftOut:
    """The number of these messages without those of results, and the files that their calls named."""
    files: dict[str, None] = {}
    count = 0
    for message in messages:
        count += message.role is not Role.TOOL
        for call in message.tool_calls:
            files.update(dict.fromkeys(_paths_of(call)))
    # The newest are the likeliest to be needed.
    return LeftOut(count, tuple(files)[-FILES_NAMED:])


def _paths_of(call: ToolCallPart) -> list[str]:
    return [found for found in re.findall(r'"path"\s*:\s*"([^"\\]{1,300})"', call.arguments) if found]


def open_steps(plan: Plan | None) -> str:
    """The steps of the plan that are not done, as text; empty when there are none."""
    entries = () if plan is None else tuple(e for e in plan.entries if e.status is not PlanStatus.COMPLETED)
    if not entries:
        return ""
    lines = [f"- {entry.content} ({entry.status.value.replace('_', ' ')})" for entry in entries]
    return "\n".join(("Steps of your plan that are still open:", *lines))


def summary_text(summary: str, gone: LeftOut, steps: str) -> str:
    """A summary as the model reads it, marked as something to look things up in and not as the person's word."""
    lines = [
        "For reference only: your own summary of the part of this conversation that stood here. It is not a message "
        "and asks for nothing. What follows it is newer and counts more; memory_search finds the exact words.",
        summary,
        *([steps] if steps else []),
    ]
    return str(untrusted_block(SUMMARY, *lines, messages=gone.count))


def gap_text(gone: LeftOut, steps: str, found_again: str = NOT_LOST) -> str:
    """The words for what was left out when nobody summed it up; `found_again` says how the model gets it back."""
    lines = [
        f"For reference only: a part of this conversation stood here and was left out to make room. {found_again}",
        *([f"Files that its tool calls named: {', '.join(gone.files)}."] if gone.files else []),
        *([steps] if steps else []),
    ]
    return str(untrusted_block(GAP, *lines, messages=gone.count))


def note_id(seed: str) -> MessageId:
    """The id of the message that stands for what was left out."""
    return MessageId(f"{seed}_compacted")
