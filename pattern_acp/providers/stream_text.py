"""Text of an answer that servers cut or mark in ways of their own, read over the bounds of events.

Owns: emoji in two halves, thoughts that come as text between `<think>` and `</think>`, and what an answer repeats that
goes on with another. The stages take our own events, so they serve every wire. Must not know: any wire.
"""

import re
from collections.abc import Iterator
from typing import TypeAlias

from msgspec.structs import replace

from pattern_acp.providers.base import (
    ProviderEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ToolCallBegun,
    ToolCallFragment,
    UsageKnown,
)

_TEXTS = (TextDelta, ThinkingDelta, ToolCallFragment)
_Texts: TypeAlias = TextDelta | ThinkingDelta | ToolCallFragment


class HalvesJoiner:
    """Joins the halves of surrogate pairs that come in two events, as an emoji of servers that cut by UTF-16 units.

    A half that stays alone becomes a replacement character, as do bytes that are no UTF-8.
    """

    def __init__(self) -> None:
        self._half: _Texts | None = None

    def take(self, event: ProviderEvent) -> Iterator[ProviderEvent]:
        """Yield what is whole with this event."""
        if not isinstance(event, _TEXTS):
            if not isinstance(event, UsageKnown):
                yield from self.end()
            if isinstance(event, ToolCallBegun):
                event = replace(event, call_id=_whole_characters(event.call_id), name=_whole_characters(event.name))
            yield event
            return
        held, self._half = self._half, None
        if held is not None:
            if _is_same_text(held, event):
                event = replace(event, text=held.text + event.text)
            else:
                yield _with_whole_characters(held)
        if event.text[-1:] and "\ud800" <= event.text[-1] <= "\udbff":
            self._half = replace(event, text=event.text[-1])
            event = replace(event, text=event.text[:-1])
        if event.text:
            yield _with_whole_characters(event)

    def end(self) -> Iterator[ProviderEvent]:
        """Yield the half that stays alone, if there is one."""
        held, self._half = self._half, None
        if held is not None:
            yield _with_whole_characters(held)


def _is_same_text(first: _Texts, second: _Texts) -> bool:
    if isinstance(first, ToolCallFragment):
        return isinstance(second, ToolCallFragment) and first.index == second.index
    return type(first) is type(second)


def _with_whole_characters(event: _Texts) -> _Texts:
    text = _whole_characters(event.text)
    return event if text is event.text else replace(event, text=text)


def _whole_characters(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "[THINK]": "[/THINK]",
    "<seed:think>": "</seed:think>",
}
"""Marks of thoughts in the templates of Qwen, DeepSeek, MiniMax and others, of Magistral, and of Seed."""

_OPENS = re.compile("|".join(map(re.escape, _TAGS)))
_LONE = re.compile(r"</think>\s*")
_MAY_OPEN = frozenset(tag[:length] for tag in (*_TAGS, "</think>") for length in range(1, len(tag)))


class ThoughtTags:
    """Takes the thoughts out of the text of an answer that begins with them.

    Only at the head of the text are such marks those of a template: an answer that mentions them later means them.
    """

    def __init__(self, wire: str) -> None:
        self._wire = wire
        self._held = ""
        self._closing = ""
        """The mark that ends the thought in which the text is; empty outside one."""
        self._is_fresh = False
        """True while nothing of that thought has come."""
        self._is_over = False
        """True once the answer itself has begun."""
        self.has_thoughts = False
        self.has_text = False

    def take(self, event: ProviderEvent) -> Iterator[ProviderEvent]:
        """Yield what is known with this event."""
        if not isinstance(event, TextDelta):
            if not isinstance(event, UsageKnown | ThinkingDelta | ThinkingEnded):
                yield from self.end()
            # The text behind a call begins anew.
            self._is_over = self._is_over and not isinstance(event, ToolCallBegun)
            yield event
        elif self._is_over:
            self.has_text = self.has_text or bool(event.text.strip())
            yield event
        else:
            self._held += event.text
            yield from self._read()

    def end(self) -> Iterator[ProviderEvent]:
        """Yield what was held back, at the end of the text."""
        held, self._held = self._held, ""
        if self._closing:
            self._closing = ""
            yield from self._thought(held)
            yield ThinkingEnded(wire=self._wire)
        elif held.strip() or (held and not self.has_thoughts):
            yield from self._text(held)

    def _read(self) -> Iterator[ProviderEvent]:
        while self._held and not self._is_over:
            if self._closing:
                yield from self._inside()
                if self._closing:
                    return
            blanks = len(self._held) - len(self._held.lstrip())
            opens = _OPENS.match(self._held, blanks)
            if opens is not None:
                self._closing, self._held = _TAGS[opens[0]], self._held[opens.end() :]
                self._is_fresh = True
                continue
            lone = _LONE.match(self._held, blanks)
            if lone is not None and not self.has_thoughts:
                # The template itself wrote the mark that opens, and the server has shown the thought as such.
                self._held = self._held[lone.end() :]
                continue
            rest = self._held[blanks:]
            if rest and rest not in _MAY_OPEN:
                held, self._held, self._is_over = self._held, "", True
                yield from self._text(held.lstrip("\r\n") if self.has_thoughts else held)
            return

    def _inside(self) -> Iterator[ProviderEvent]:
        self._held = self._held.lstrip() if self._is_fresh else self._held
        place = self._held.find(self._closing)
        if place >= 0:
            thought, self._held = self._held[:place], self._held[place + len(self._closing) :]
            self._closing = ""
            yield from self._thought(thought.rstrip())
            yield ThinkingEnded(wire=self._wire)
            return
        # What may be the beginning of the mark waits, and the blanks before it do.
        cut = next((n for n in range(len(self._closing) - 1, 0, -1) if self._held.endswith(self._closing[:n])), 0)
        sure = self._held[: len(self._held) - cut].rstrip()
        self._held = self._held[len(sure) :]
        yield from self._thought(sure)

    def _thought(self, text: str) -> Iterator[ProviderEvent]:
        self.has_thoughts = True
        if text:
            self._is_fresh = False
            yield ThinkingDelta(text)

    def _text(self, text: str) -> Iterator[ProviderEvent]:
        self.has_text = self.has_text or bool(text.strip())
        if text:
            yield TextDelta(text)


class ContinuedText:
    """Takes out of the text that continues an answer what the answer already has.

    Some servers send its beginning once more (Mistral), and blanks at its end are not sent to the server.
    """

    def __init__(self, begun: str) -> None:
        self._begun = begun.rstrip()
        self._blanks = begun[len(self._begun) :]
        self._held = ""
        self._is_over = not begun

    def take(self, event: ProviderEvent) -> Iterator[ProviderEvent]:
        """Yield what is new with this event."""
        if self._is_over:
            yield event
        elif isinstance(event, TextDelta):
            self._held += event.text
            if len(self._held) >= len(self._begun) or not self._begun.startswith(self._held):
                yield from self._new()
        else:
            if not isinstance(event, UsageKnown):
                yield from self.end()
            yield event

    def end(self) -> Iterator[ProviderEvent]:
        """Yield what was held back, at the end of the text."""
        yield from self._new()
        self._is_over = True

    def _new(self) -> Iterator[ProviderEvent]:
        text, self._held = self._held.removeprefix(self._begun) if self._begun else self._held, ""
        self._begun = ""
        while text and self._blanks and text[0] == self._blanks[0]:
            text, self._blanks = text[1:], self._blanks[1:]
        if text:
            self._is_over = True
            yield TextDelta(text)
