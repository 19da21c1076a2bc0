"""What an event is about.

Owns: the `item` of every kind, by which `read_item` finds the events of one call, message, turn or block. Must not
know: SQL.
"""

from typing import TypeAlias

from pattern_acp.journal import events
from pattern_acp.journal.events import Event

CHECKPOINTS = "checkpoints"
"""What every event about checkpoints and rewinds is about: all of a session are read together."""

HANDOFFS = "handoffs"
"""What a session's handoffs are about, so that the last one is found without reading the rest."""

_ABOUT_CHECKPOINTS = (events.FilesSaved, events.CheckpointTaken, events.RewindStarted, events.SessionRewound)


def item_of(event: Event) -> str:  # noqa: PLR0911  one for each group
    """The id of the call, message, block or else turn that `event` is about; empty when it is about its session."""
    match event:
        case (
            events.ToolCallFinished()
            | events.ToolResultExtended()
            | events.PermissionDecided()
            | events.PermissionAsked()
            | events.PermissionAnswered()
            | events.GrantStored()
        ):
            return event.call_id or ""
        case events.ToolCallStarted():
            return event.call.call_id
        case events.MessagePartial() | events.MessagePinned():
            return event.message_id
        case events.MessageRecorded():
            return event.message.message_id
        case (
            events.TurnStarted()
            | events.TurnEnded()
            | events.MemoryShown()
            | events.ContextAdded()
            | events.PromptRefused()
            | events.ModelRequested()
            | events.PlanUpdated()
            | events.UsageReported()
            | events.ErrorReported()
            | events.HistoryCleared()
            | events.ContextCompacted()
            | events.MemoryRecalled()
        ):
            return event.turn_id or ""
        case (
            events.BlockCommitted()
            | events.BlockDeleted()
            | events.BlockRestored()
            | events.BlockForgotten()
            | events.BlockHealed()
            | events.BlockConfigured()
            | events.BlockShared()
        ):
            return event.block_id
        case events.SubagentRecorded():
            return item_of(event.event)
        case events.EntryArchived() | events.EntryVerified() | events.EntryStatusChanged():
            return event.entry_id
        case events.HandoffLeft():
            return HANDOFFS
        case _:
            return CHECKPOINTS if isinstance(event, _ABOUT_CHECKPOINTS) else _of_session(event)


_Rest: TypeAlias = (
    events.SessionCreated
    | events.SessionOpened
    | events.SessionConfigured
    | events.SessionTitled
    | events.SessionClosed
    | events.SessionDeleted
    | events.SessionRestored
    | events.SessionArchived
    | events.InstructionsCompiled
    | events.ToolsOffered
    | events.ServerToolsPinned
    | events.FolderTrustDecided
    | events.JobStarted
    | events.JobEnded
    | events.EventsRedacted
    | events.BudgetChanged
)


def _of_session(event: _Rest) -> str:
    """What is about its session as a whole; a new kind of event has to be put somewhere by hand."""
    del event
    return ""
