"""Transient output of a running turn, none of it durable on its own.

Durable events are `journal.events`; these are their live companions. A replay never has them.
"""

from typing import TypeAlias

from msgspec import Struct

from pattern_acp.domain.clock import MessageId, ToolCallId
from pattern_acp.domain.tool_calls import ToolContent
from pattern_acp.domain.usage import Cost


class TextStreamed(Struct, frozen=True):
    """More text of an assistant message."""

    message_id: MessageId
    text: str


class ThinkingStreamed(Struct, frozen=True):
    """More reasoning of an assistant message."""

    message_id: MessageId
    text: str


class ToolCallRunning(Struct, frozen=True):
    """An announced call was allowed and starts. `sandbox` is what confines it; `none` when it runs outside."""

    call_id: ToolCallId
    sandbox: str = ""


class ToolCallWaits(Struct, frozen=True):
    """A running call waits for the user: they are asked about something that it does."""

    call_id: ToolCallId


class ToolCallShows(Struct, frozen=True):
    """A running call replaces what it shows, and its title unless that is empty."""

    call_id: ToolCallId
    content: tuple[ToolContent, ...]
    title: str = ""


class TerminalStreamed(Struct, frozen=True):
    """More output of a terminal that we run ourselves."""

    call_id: ToolCallId
    terminal_id: str
    data: str


class TerminalEnded(Struct, frozen=True):
    """A terminal that we run ourselves ended."""

    call_id: ToolCallId
    terminal_id: str
    exit_code: int | None
    signal: str | None


class JobShown(Struct, frozen=True):
    """A command runs in the background from now on, beside the turns; `call_id` is the call that started it."""

    call_id: ToolCallId
    line: str
    cwd: str
    output: str
    """The output so far."""
    size: tuple[int, int] | None = None
    """Columns and rows of its terminal, where it has one."""


class JobStreamed(Struct, frozen=True):
    """More output of a background command, as it was written."""

    call_id: ToolCallId
    data: str


class JobOver(Struct, frozen=True):
    """A background command ended."""

    call_id: ToolCallId
    exit_code: int | None
    signal: str | None


class ContextChanged(Struct, frozen=True):
    """The conversation or the model is another one, and no request has counted it yet."""

    used: int
    """Tokens in context, by an estimate."""
    size: int
    """Tokens of the model's window."""
    cost: Cost | None
    """Cost of the session so far; None where no price is known."""


Transient: TypeAlias = (
    TextStreamed
    | ThinkingStreamed
    | ToolCallRunning
    | ToolCallWaits
    | ToolCallShows
    | TerminalStreamed
    | TerminalEnded
    | JobShown
    | JobStreamed
    | JobOver
    | ContextChanged
)
