"""The variants of session/update that we send (ACP v1, prompt turn)."""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from pattern_acp.acp.schema_session import (
    ConfigOption,
    ContentBlock,
    MetaWire,
    ToolCallContent,
    ToolCallLocation,
    ToolCallUpdate,
    Wire,
)
from pattern_acp.domain.plan import PlanPriority, PlanStatus
from pattern_acp.domain.tool_calls import ToolCallStatus, ToolKind


class UserMessageChunk(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="user_message_chunk"):
    """Part of a user's message, in a replay."""

    content: ContentBlock
    message_id: str | None = None


class AgentMessageChunk(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="agent_message_chunk"):
    """Part of the answer; a new `message_id` starts a new message."""

    content: ContentBlock
    message_id: str | None = None


class AgentThoughtChunk(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    """Part of the model's reasoning."""

    content: ContentBlock
    message_id: str | None = None


class ToolCallStart(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call"):
    """A call that the client does not know yet."""

    tool_call_id: str
    title: str
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    name: str | None = None
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: object = msgspec.UNSET
    raw_output: object = msgspec.UNSET


class ToolCallProgress(ToolCallUpdate, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"):
    """The changed parts of a known call."""


class PlanEntry(MetaWire, frozen=True, kw_only=True):
    """One step of a plan."""

    content: str
    priority: PlanPriority
    status: PlanStatus


class PlanUpdate(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="plan"):
    """The whole plan."""

    entries: tuple[PlanEntry, ...]


class CommandInput(MetaWire, frozen=True, kw_only=True):
    """The input that may follow a command's name."""

    hint: str


class AvailableCommand(MetaWire, frozen=True, kw_only=True):
    """A slash command, named without the slash."""

    name: str
    description: str
    input: CommandInput | None = None


class AvailableCommandsUpdate(
    MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="available_commands_update"
):
    """All commands of the session."""

    available_commands: tuple[AvailableCommand, ...]


class CurrentModeUpdate(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="current_mode_update"):
    """The mode changed."""

    current_mode_id: str


class ConfigOptionUpdate(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="config_option_update"):
    """Options changed: always the complete list."""

    config_options: tuple[ConfigOption, ...]


class SessionInfoUpdate(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="session_info_update"):
    """Title or time changed; None clears, `msgspec.UNSET` leaves as it is. `updated_at` is ISO 8601."""

    title: str | msgspec.UnsetType | None = msgspec.UNSET
    updated_at: str | msgspec.UnsetType | None = msgspec.UNSET


class Cost(Wire, frozen=True, kw_only=True):
    """The cost of the session so far, in units of an ISO 4217 currency."""

    amount: float
    currency: str


class UsageUpdate(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="usage_update"):
    """Tokens that are in the context now (not a running total), and the model's window."""

    used: int
    size: int
    cost: Cost | None = None


class CompactionStatus(StrEnum):
    """The progress of a compaction."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class CompactionUpdate(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="compaction_update"):
    """A compaction of the model's context, new or changed; only for clients that advertise `session.compaction`.

    What is `msgspec.UNSET` stays as it is.
    """

    compaction_id: str
    status: CompactionStatus
    summary: tuple[ContentBlock, ...] | msgspec.UnsetType = msgspec.UNSET
    error: str | msgspec.UnsetType = msgspec.UNSET


class Notice(MetaWire, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="notice"):
    """A message beside the conversation, with a title; only for clients that advertise `session.notices`."""

    severity: str
    title: str
    description: str | None = None


SessionUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCallStart
    | ToolCallProgress
    | PlanUpdate
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | CompactionUpdate
    | Notice
)


class SessionNotification(MetaWire, frozen=True, kw_only=True):
    """The parameters of session/update."""

    session_id: str
    update: SessionUpdate
