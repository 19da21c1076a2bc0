"""Durable facts. One frozen struct a kind; `journal/codec.py` gives each its name, version and JSON form.

Events are what a replay shows and what the next request is built from, so each holds everything needed for both.
"""

from typing import TypeAlias

from msgspec import Struct

from pattern_acp.domain.ids import MessageId, SessionId, ToolCallId, TurnId
from pattern_acp.domain.messages import Message
from pattern_acp.domain.plan import Plan
from pattern_acp.domain.stop_reason import StopReason
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.folder_events import ContextAdded, FolderTrustDecided, InstructionsCompiled, PromptRefused
from pattern_acp.journal.memory_events import (
    BlockCommitted,
    BlockConfigured,
    BlockDeleted,
    BlockForgotten,
    BlockHealed,
    BlockRestored,
    BlockShared,
    EntryArchived,
    EntryStatusChanged,
    EntryVerified,
    MemoryRecalled,
)
from pattern_acp.journal.redaction_events import EventsRedacted
from pattern_acp.journal.rewind_events import CheckpointTaken, FilesSaved, RewindStarted, SessionRewound
from pattern_acp.journal.tool_call_events import (
    GrantStored,
    PermissionAnswered,
    PermissionAsked,
    PermissionDecided,
    ServerToolsPinned,
    ToolCallFinished,
    ToolCallStarted,
    ToolResultExtended,
)
from pattern_acp.journal.window_events import (
    ContextCompacted,
    HistoryCleared,
    MessagePinned,
    ModelRequested,
    ToolsOffered,
)


class BudgetChanged(Struct, frozen=True):
    """A budget took another value.

    `scope` is `turn`, `session` or `day`; `allowance` has the form of `domain.allowance`. `by` is `person` for /budget,
    which holds for the session, and `extended` for the answer to a question, which holds for this turn or day only
    where the scope is one.
    """

    scope: str
    allowance: str
    by: str


class SessionCreated(Struct, frozen=True):
    """A session began. `persona_identity` is the content hash of the persona it runs (rule R5).

    A fork names its `parent`, the number of the parent's event behind which it begins, and that event's hash: a parent
    that is changed later no longer fits.
    """

    cwd: str
    additional_directories: tuple[str, ...]
    persona: str
    persona_identity: str
    model: str
    mode: str
    parent: SessionId | None = None
    fork_seq: int | None = None
    fork_hash: str = ""
    thought_level: str = ""
    """Empty in what was recorded before there was a setting for it."""


class SessionOpened(Struct, frozen=True):
    """A session was loaded or resumed by a process. `how` is `load` or `resume`."""

    how: str
    cwd: str
    additional_directories: tuple[str, ...]


class SessionConfigured(Struct, frozen=True):
    """An option took a new value: `mode`, `model`, `thought_level` or `tools`. `by` is `client` or `agent`."""

    option: str
    value: str
    by: str


class SessionTitled(Struct, frozen=True):
    """The session has a title."""

    title: str


class SessionClosed(Struct, frozen=True):
    """The client closed the session; it can be loaded again."""


class HandoffLeft(Struct, frozen=True):
    """Where a session stood when it was left: put together from its own events, no model had a part in it.

    `state` is `finished`, `cancelled`, `limit` or `failed`, as its last turn ended. `files` are those that it changed,
    the newest first, as many as are named; `files_in_all` counts them. `commands` ran in the background and were ended.
    """

    turn_id: TurnId
    state: str
    request: str
    """The last prompt, on one line and cut."""
    steps: tuple[str, ...] = ()
    """Steps of the plan that are open."""
    files: tuple[str, ...] = ()
    files_in_all: int = 0
    commands: tuple[str, ...] = ()


class SessionDeleted(Struct, frozen=True):
    """The person deleted the session; it is no longer listed or loaded."""


class SessionRestored(Struct, frozen=True):
    """The person took the deletion back."""


class SessionArchived(Struct, frozen=True):
    """The person put the session away (`archived`) or back into the list."""

    archived: bool


class TurnStarted(Struct, frozen=True):
    """The person sent a prompt. `command` is the slash command's name when it is one (the model does not see those)."""

    turn_id: TurnId
    message: Message
    command: str = ""


class ShownBlock(Struct, frozen=True):
    """A memory block as the model was shown it. `version` is the number of its newest write then."""

    block_id: str
    label: str
    version: int
    about: str
    permission: str
    limit: int
    text: str
    is_shown: bool = True
    """False for a block of which only the head was shown."""


class MemoryShown(Struct, frozen=True):
    """The model was shown its whole memory, in the words of `text`, right before the turn's prompt.

    Later requests tell what changed since; so the text stays in the history, byte for byte.
    """

    turn_id: TurnId
    text: str
    blocks: tuple[ShownBlock, ...]


class MessagePartial(Struct, frozen=True):
    """What was added to an unfinished message, committed at least once a second (rule R2).

    The text begins behind the first `text_at` characters of what was committed of the message before, the thinking
    likewise; version 1 always held all of both. Superseded by its `MessageRecorded`.
    """

    turn_id: TurnId
    message_id: MessageId
    text: str
    thinking: str
    text_at: int = 0
    thinking_at: int = 0


class MessageRecorded(Struct, frozen=True):
    """An assistant message ended. `complete` is False when it was cut (cancel, broken stream)."""

    turn_id: TurnId
    message: Message
    complete: bool = True
    for_model: bool = True
    """False for what only the person sees (answers to slash commands, notices)."""


class PlanUpdated(Struct, frozen=True):
    """The plan was replaced."""

    turn_id: TurnId
    plan: Plan


class UsageReported(Struct, frozen=True):
    """Tokens of one model request, tokens now in context, the model's window, and the session's cost so far.

    `spent` is the cost of this request alone, reckoned with the price table `prices`; `model` is `PROVIDER/MODEL`.
    Journals of before have none of these three. `estimated` counts are ours: the request was cut before its provider
    told them.
    """

    turn_id: TurnId
    usage: Usage
    used: int
    size: int
    cost: Cost | None = None
    model: str = ""
    spent: Cost | None = None
    prices: str = ""
    estimated: bool = False


class ErrorReported(Struct, frozen=True):
    """A turn failed; the event behind it ends the turn. `kind` names the error class, `code` a row of failures.toml."""

    turn_id: TurnId | None
    kind: str
    sentence: str
    code: str = ""


class TurnEnded(Struct, frozen=True):
    """The turn is over; the last event of a turn."""

    turn_id: TurnId
    stop_reason: StopReason
    sentence: str = ""


class JobStarted(Struct, frozen=True):
    """A command runs in the background from now on, beside the turns of the session."""

    job_id: str
    line: str
    cwd: str


class JobEnded(Struct, frozen=True):
    """A background command ended. `outcome` is `exited`, `stopped` or `lost`: nobody saw how."""

    job_id: str
    outcome: str
    exit_code: int | None = None
    signal: str | None = None
    last_line: str = ""


class SubagentRecorded(Struct, frozen=True):
    """Something that happened in the thread of a subagent, which is beside the conversation of its session.

    `call_id` is the call that the subagent runs for, `name` what the person knows it by. Neither the model nor a replay
    reads a thread as part of the conversation; a grant that the person gave is recorded as the session's own.
    """

    turn_id: TurnId
    call_id: ToolCallId
    thread_id: str
    name: str
    event: "Event"


Event: TypeAlias = (
    SessionCreated
    | SessionOpened
    | SessionConfigured
    | SessionTitled
    | SessionClosed
    | SessionDeleted
    | SessionRestored
    | SessionArchived
    | InstructionsCompiled
    | TurnStarted
    | MemoryShown
    | ContextAdded
    | PromptRefused
    | ToolsOffered
    | ModelRequested
    | MessagePartial
    | MessageRecorded
    | ToolCallStarted
    | PermissionDecided
    | PermissionAsked
    | PermissionAnswered
    | ToolCallFinished
    | ToolResultExtended
    | PlanUpdated
    | UsageReported
    | ErrorReported
    | TurnEnded
    | BlockCommitted
    | BlockDeleted
    | BlockRestored
    | BlockForgotten
    | BlockHealed
    | BlockConfigured
    | BlockShared
    | EntryArchived
    | EntryVerified
    | EntryStatusChanged
    | GrantStored
    | ServerToolsPinned
    | FolderTrustDecided
    | JobStarted
    | JobEnded
    | HistoryCleared
    | FilesSaved
    | CheckpointTaken
    | RewindStarted
    | SessionRewound
    | SubagentRecorded
    | ContextCompacted
    | MessagePinned
    | EventsRedacted
    | BudgetChanged
    | HandoffLeft
    | MemoryRecalled
)
