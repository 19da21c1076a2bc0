"""Messages between the user, the model and the tools, independent of any wire.

Owns: them, and all that is known of the forms in which clients send prompts: earlier prompts and notes around the
words, the words themselves in tags, mentions of the agent. Must not know: any wire, or what the words mean. Pure.

The model always reads the prompt as it was sent; titles, slash commands and searches go by what the user typed.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from pattern_acp.domain.action_lines import split_action
from pattern_acp.domain.clock import MessageId, ToolCallId
from pattern_acp.domain.late_pattern import late_pattern


class Role(StrEnum):
    """The speaker of a message. Tool results travel in a message of role `TOOL`."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class TextPart(Struct, frozen=True, tag="text"):
    """Plain text."""

    text: str


class ThinkingPart(Struct, frozen=True, tag="thinking"):
    """A model's reasoning. `signature` and `redacted` go back to the same provider byte for byte."""

    text: str
    signature: str = ""
    redacted: str = ""
    """Opaque data of a reasoning block that the provider keeps hidden; empty otherwise."""
    provider: str = ""
    """`PROVIDER/MODEL` that made it; other wires, and models that bind thinking to themselves, leave it out."""
    wire: str = ""
    """The wire whose form `signature` and `redacted` have; no other wire reads or sends them. Empty in old journals."""


class ImagePart(Struct, frozen=True, tag="image"):
    """An image as base64 text with its media type, such as `image/png`.

    `workspace/images.py` makes one that models take. `width` and `height` are in pixels, 0 where they are not known.
    """

    media_type: str
    data: str
    name: str = ""
    width: int = 0
    height: int = 0

    @property
    def about(self) -> str:
        """Its name and size in words, such as `image diagram.png, 800x600`."""
        named = f"image {self.name}" if self.name else "image"
        return f"{named}, {self.width}x{self.height}" if self.width else named


class AttachmentKind(StrEnum):
    """The way a resource came with a prompt."""

    EMBEDDED = "embedded"
    """The client sent its text."""
    LINK = "link"
    """The client sent a link; the text, if any, is what we read there."""
    MENTION = "mention"
    """The user wrote `@path`; the text is what we read there, and the client sent nothing else."""


class ResourcePart(Struct, frozen=True, tag="resource"):
    """A file or link that the user attached. `text` is None when only the link is known."""

    uri: str
    name: str
    text: str | None = None
    media_type: str | None = None
    given: AttachmentKind = AttachmentKind.EMBEDDED
    lines: str = ""
    """The 1-based lines that `text` is of the whole, as `10-20`; empty for the whole."""
    note: str = ""
    """A note for the model, in a sentence: what was left out, why it was not read."""


class ToolCallPart(Struct, frozen=True, tag="tool_call"):
    """A call that the model asked for. `arguments` is the JSON text exactly as the model wrote it."""

    call_id: ToolCallId
    name: str
    arguments: str
    problem: str = ""
    """Why the call cannot be read, for one that was written as text and is none; `arguments` is that text then."""


class ToolResultPart(Struct, frozen=True, tag="tool_result"):
    """The result of one call, as the model reads it."""

    call_id: ToolCallId
    text: str
    is_error: bool = False
    images: tuple[ImagePart, ...] = ()


Part: TypeAlias = TextPart | ThinkingPart | ImagePart | ResourcePart | ToolCallPart | ToolResultPart


class Message(Struct, frozen=True):
    """One message: a role and its parts in order."""

    message_id: MessageId
    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All plain text of the message, in order."""
        first = self.parts[0] if len(self.parts) == 1 else None
        if isinstance(first, TextPart):
            return first.text
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def words(self) -> str:
        """The user's own text, without what a client put around it, and all of it when nothing is left."""
        return typed_words(self.parts)

    @property
    def typed_line(self) -> str:
        """The text of the prompt that may be a slash command."""
        return typed_line(self.parts)

    @property
    def searched(self) -> str:
        """The text that a search finds the message by: what the user typed, or all that the model wrote."""
        return self.words if self.role is Role.USER else self.text

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls the message asks for, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))


def begins_with(messages: Sequence[Message], before: Sequence[Message]) -> bool:
    """Return whether a conversation continues from `before` with the same messages.

    Messages never change and histories grow at their end, so what was worked out of `before` holds then.
    """
    # Tuples look for the first difference by identity, which takes a sixth of the time of a loop, and every request
    # asks several times. The beginning of a tuple is smaller than it; no copy of that beginning is made.
    try:
        return tuple(before) <= tuple(messages)
    except TypeError:
        # Two messages differ, and messages have no order.
        return False


_FRAME = late_pattern(r"\s*<([a-z][a-z0-9]*(?:_[a-z0-9]+)+|attachment|context|system-reminder)(?:\s[^<>]*)?>")
"""The opening tag of a block that a client put into tags. An element of HTML has no underscore in its name."""

_PREVIOUS = "previous_user_message"
"""avante sends the current prompt, and the ones before it, in these tags and nowhere else."""

_OLDEST_FIRST = late_pattern(r"\s*<system_context>Continuing from previous ACP session\b")
"""With this block avante lists the conversation in its order; otherwise the newest prompt is the first."""

_NOTE = late_pattern(
    r"\s*(?:IMPORTANT: Focus and respect the line numbers"  # agentic.nvim, in front of selected code
    r"|The user has (?:selected lines \d+-\d+ in|opened the note) )"  # Obsidian
)
"""The beginning of a block that is wholly a client's note."""

_SYSTEM_NOTE = late_pattern(r"\s*System note: ")
"""The beginning of the paragraph that Jupyter AI puts in front of a session's first prompt."""

_BLANK_LINE = late_pattern(r"\n[ \t\r]*\n")

_AFTER_HISTORY = "</conversation_history>\n\nCurrent user message:\n"
"""The text between an earlier conversation and the prompt when Jupyter AI begins a session again."""

_OPEN_NOTE = late_pattern(r"@\[\[[^\n]+?\]\](?::\d+-\d+)?\n(?=[^\n]|\n)")
"""The line with which Obsidian names the note that is open."""

_OUR_NAME = late_pattern(r"\s*@pattern(?:[-_]?acp)?[,:]?\s+(?=\S)", re.IGNORECASE)
_ANY_NAME = late_pattern(r"\s*@[\w-]+[,:]?\s+(?=\S)")
_NAME_AND_COMMAND = late_pattern(r"\s*@[\w-]+[,:]?\s+(?=/[^\s/]+(?:\s|\Z))")


_MAY_BE_FRAMED = late_pattern(r"\s*(?:[<@]|IMPORTANT: |The user has |System note: |\Z)")
"""The beginning of a text that may have something of a client in front of what the user typed."""


def typed_parts(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts with only what the user typed of their text; a text without any of it is left out.

    Of texts that follow one another directly, the last one with words is the user's: clients put notes, and prompts
    of before, in front of it. A text that continues behind a mentioned file is the user's like the one before it.
    """
    only = parts[0] if len(parts) == 1 else None
    if isinstance(only, TextPart) and not _MAY_BE_FRAMED.match(only.text) and _AFTER_HISTORY not in only.text:
        # Nearly every prompt.
        return (only,)
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    previous = _previous_prompt(texts)
    if previous is not None:
        others = tuple(part for part in parts if not isinstance(part, TextPart))
        return (*others, TextPart(previous))
    return _last_of_runs([_without_frames(part) for part in parts]) or _last_of_runs(parts)


def typed_words(parts: Sequence[Part]) -> str:
    """The user's own text, in one piece, with the names of what is mentioned in its middle (Zed)."""
    typed = typed_parts(parts)
    if len(typed) == 1 and isinstance(typed[0], TextPart):
        return typed[0].text
    words, mentioned = "", ""
    for part in typed:
        if isinstance(part, TextPart):
            words, mentioned = f"{words}{mentioned}{part.text}", ""
        elif words and isinstance(part, ResourcePart):
            mentioned += f"@{part.name}"
    return words


def typed_line(parts: Sequence[Part]) -> str:
    """The text that may be a slash command: the last one if it looks like one, else all that the user typed."""
    typed = typed_parts(parts)
    if len(typed) == 1 and isinstance(typed[0], TextPart):
        return typed[0].text
    texts = [part.text for part in typed if isinstance(part, TextPart)]
    if texts and split_action(texts[-1].strip()) is not None:
        return texts[-1]
    return "".join(texts)


def _previous_prompt(texts: Sequence[str]) -> str | None:
    """The current prompt where every text is in tags, and it is one of those that are called previous."""
    begun, ended = f"<{_PREVIOUS}>", f"</{_PREVIOUS}>"
    bare = [text.strip() for text in texts]
    if not all(_is_frame(text) for text in bare):
        return None
    found = [text[len(begun) : -len(ended)] for text in bare if text.startswith(begun)]
    if not found:
        return None
    return found[-1] if any(_OLDEST_FIRST.match(text) for text in bare) else found[0]


def _is_frame(text: str) -> bool:
    frame = _FRAME.match(text)
    return frame is not None and text.endswith(f"</{frame[1]}>")


def _last_of_runs(parts: Sequence[Part | None]) -> tuple[Part, ...]:
    """The parts without each text that has another one of the same run behind it; None was a text without words."""
    last: list[Part] = []
    in_run = False
    for part in parts:
        if isinstance(part, TextPart):
            if in_run:
                last.pop()
            last.append(part)
            in_run = True
        elif part is not None:
            last.append(part)
            in_run = False
    return tuple(last) if any(isinstance(part, TextPart) for part in last) else ()


def _without_frames(part: Part) -> Part | None:
    if not isinstance(part, TextPart):
        return part
    text = _typed(part.text)
    if text == part.text:
        return part
    return TextPart(text) if text.strip() else None


def _typed(text: str) -> str:
    if _NOTE.match(text):
        return ""
    if _AFTER_HISTORY in text:
        text = text.rpartition(_AFTER_HISTORY)[2]
    start = _end_of_frames(text)
    noted = _SYSTEM_NOTE.match(text, start) is not None
    if noted:
        ended = _BLANK_LINE.search(text, start)
        start = ended.end() if ended is not None else len(text)
    if start:
        text = text[start:].lstrip()
    names = (_ANY_NAME,) if noted else (_OUR_NAME, _NAME_AND_COMMAND)
    for pattern in (_OPEN_NOTE, *names):
        found = pattern.match(text)
        if found is not None:
            text = text[found.end() :]
    return text


def _end_of_frames(text: str) -> int:
    """The end of the tags that a text begins with."""
    end = 0
    while (frame := _FRAME.match(text, end)) is not None:
        closing = f"</{frame[1]}>"
        closed = text.find(closing, frame.end())
        if closed < 0:
            break
        end = closed + len(closing)
    return end


_ABOUT_USER = late_pattern(
    r"""
    (?:
      my\ (?:(?:full|first|last|preferred|native|mother)\ )?
      (?:name|names|nickname|pronouns?|birthday|age|wife|husband|partner|kids?|children|son|daughter|family|dog|cat
        |job|role|title|boss|manager|team|company|employer|home|city|country|time\ ?zone|language|tongue|hobby|hobbies
        |favou?rite|preferences?|preferred|taste|editor|keyboard|laptop|machine|eyes?|eyesight|health|diet|email|phone
        |github|account|handle|working\ hours|work\ hours|background|experience|style)\b
    # Somebody without a name who likes or lives: notes on a user are written so.
    | (?:(?:always|never|usually|really|also)\ )?
      (?:likes|loves|prefers|hates|dislikes|wants|enjoys|lives|speaks|works\ (?:as|at|for|from|in)|was\ born
        |is\ (?:from|allergic|left-handed|colou?r-?blind)|has\ a\ (?:dog|cat|son|daughter|child|wife|husband))\b
    | the\ (?:user|human|person)\b
    )
    """,
    flags=re.VERBOSE | re.IGNORECASE,
)
_FIRST_PERSON = late_pattern(
    r"\bi(?: am|['\u2019]m| (?:really |always |never |usually )*(?:prefer|like|love|hate|dislike|want|live|speak)"
    r"| work (?:as|at|for|from|in)|(?: would|['\u2019]d) (?:like|rather|prefer)"
    r"| (?:don['\u2019]t|do not) (?:like|want|speak|use)| always| never"
    r"| have (?:a|two|no) (?:dog|cat|son|daughter|child|children|kids|wife|husband))\b"
    r"|\b(?:call|address|speak to|talk to|remind) me\b|\bmy name is\b",
    flags=re.IGNORECASE,
)
"""The user speaks of themselves, wherever in the text."""


def is_about_user(text: str) -> bool:
    """True when a text tells of the user (“I like short answers”, “Lives in Lisbon”) rather than of the project."""
    return _ABOUT_USER.match(text.strip()) is not None or _FIRST_PERSON.search(text) is not None
