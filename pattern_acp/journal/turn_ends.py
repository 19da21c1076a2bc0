"""Ends of turns and of background commands, also of those that nobody ended because their process died.

Owns: one `TurnEnded`, and for a turn that failed one `ErrorReported` in front of it, appended together so that no
reader sees one without the other; what is missing from an interrupted turn, and the events that complete it, so that
every announced call reaches a final status exactly once; which background commands were started, and how they ended.
Must not know: why a turn ended, how commands run, what a replay shows, or who calls it; the caller has the session's
lease. A cancelled turn did not fail.
"""

from collections.abc import Iterable, Iterator
from typing import cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.db.columns import integer
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import MessageId, ToolCallId, TurnId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.messages import Message, Part, Role, TextPart, ThinkingPart, ToolCallPart
from pattern_acp.domain.tool_calls import StopReason, TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.codec import item_of
from pattern_acp.journal.events import (
    ErrorReported,
    Event,
    JobEnded,
    JobReported,
    JobStarted,
    MessagePartial,
    MessageRecorded,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from pattern_acp.journal.reader import Recorded, read_stream
from pattern_acp.journal.writer import Appended, append


class TurnFailure(Struct, frozen=True):
    """Why a turn failed: a code of cli/failures.toml, and the class of the error where there was one."""

    code: str
    kind: str = ""


def failure_of(error: Exception) -> TurnFailure:
    """The failure that an error is; one that is not ours is a fault of ours."""
    code = error.failure_code if isinstance(error, PatternError) else PatternError.failure_code
    return TurnFailure(code, type(error).__name__)


def end_events(
    turn_id: TurnId,
    stop_reason: StopReason,
    sentence: str = "",
    failure: TurnFailure | None = None,
    *,
    handed_over: bool = False,
) -> tuple[Event, ...]:
    """The events that end a turn; to be appended in one transaction."""
    ended = TurnEnded(turn_id, stop_reason, sentence, handed_over)
    if failure is None:
        return (ended,)
    return ErrorReported(turn_id, failure.kind, sentence, failure.code), ended


QUERIES = load_queries("pattern_acp.journal")

_INTERRUPTED_RESULT = "interrupted"
"""The result of a call whose end nobody saw, as the model reads it."""

_INTERRUPTED_SENTENCE = "The process ended during this turn."


class InterruptedEnd(Struct, frozen=True):
    """The end of an interrupted turn, as far as it is known."""

    stop_reason: StopReason
    sentence: str = ""
    failure: TurnFailure | None = None


PROCESS_ENDED = InterruptedEnd(StopReason.CANCELLED, _INTERRUPTED_SENTENCE, TurnFailure("turn.interrupted"))
"""The end of a turn that another process finds."""


class InterruptedTurn(Struct, frozen=True):
    """A turn without its end, with what it left open, in order.

    `partials` are all that was committed of each unfinished message, `open_calls` the calls that were announced and
    have no result, `unannounced` those that the model asked for and that were not even announced.
    """

    turn_id: TurnId
    partials: tuple[MessagePartial, ...] = ()
    open_calls: tuple[ToolCallStarted, ...] = ()
    unannounced: tuple[ToolCallPart, ...] = ()


class _OpenTurn(Struct):
    partials: dict[MessageId, MessagePartial] = field(default_factory=dict[MessageId, MessagePartial])
    calls: dict[ToolCallId, ToolCallStarted] = field(default_factory=dict[ToolCallId, ToolCallStarted])
    asked: dict[ToolCallId, ToolCallPart] = field(default_factory=dict[ToolCallId, ToolCallPart])


def find_interrupted(recorded: Iterable[Recorded]) -> tuple[InterruptedTurn, ...]:
    """The turns of a stream that have no TurnEnded, oldest first."""
    turns: dict[TurnId, _OpenTurn] = {}
    for entry in recorded:
        _follow(entry.event, turns)
    return tuple(
        InterruptedTurn(turn_id, tuple(turn.partials.values()), tuple(turn.calls.values()), tuple(turn.asked.values()))
        for turn_id, turn in turns.items()
    )


def put_together(before: MessagePartial | None, added: MessagePartial) -> MessagePartial:
    """All that is committed of a message, `before` being all that was until `added`."""
    text, thinking = ("", "") if before is None else (before.text, before.thinking)
    return MessagePartial(
        added.turn_id,
        added.message_id,
        text[: added.text_at] + added.text,
        thinking[: added.thinking_at] + added.thinking,
    )


def close_interrupted(
    tx: Transaction, stream: str, *, at_ms: int, how: InterruptedEnd = PROCESS_ENDED
) -> tuple[Recorded, ...]:
    """Append what an interrupted turn at the end of `stream` lacks, and return that; `how` says why it ended.

    A session has one active turn and is closed like this before it gets another, so only what follows the newest end
    of a turn is read.

    Raises:
        DatabaseError: an event could not be stored.
    """
    last_end = tx.one(QUERIES["last_turn_end"], {"stream": stream})
    closed: list[Recorded] = []
    for turn in find_interrupted(read_stream(tx, stream, after=integer(last_end[0]) if last_end else 0)):
        for event, origin in _closing_events(turn, how):
            appended = append(tx, stream, event, actor=Actor.PROCESS, origin=origin, at_ms=at_ms)
            closed.append(_as_recorded(appended, event, origin))
    return tuple(closed)


def _follow(event: Event, turns: dict[TurnId, _OpenTurn]) -> None:
    match event:
        case TurnStarted():
            turns[event.turn_id] = _OpenTurn()
        case TurnEnded():
            turns.pop(event.turn_id, None)
        case MessagePartial() | MessageRecorded() | ToolCallStarted() | ToolCallFinished():
            turn = turns.get(event.turn_id)
            if turn is not None:
                _follow_in_turn(event, turn)
        case _:
            pass


def _follow_in_turn(
    event: MessagePartial | MessageRecorded | ToolCallStarted | ToolCallFinished, turn: _OpenTurn
) -> None:
    match event:
        case MessagePartial():
            turn.partials[event.message_id] = put_together(turn.partials.get(event.message_id), event)
        case MessageRecorded():
            # A turn streams one message at a time, so whatever was unfinished before is part of this one.
            turn.partials.clear()
            turn.asked.update((call.call_id, call) for call in event.message.tool_calls)
        case ToolCallStarted():
            turn.asked.pop(event.call.call_id, None)
            turn.calls[event.call.call_id] = event
        case ToolCallFinished():
            turn.asked.pop(event.call_id, None)
            turn.calls.pop(event.call_id, None)


def _closing_events(turn: InterruptedTurn, how: InterruptedEnd) -> Iterator[tuple[Event, Origin]]:
    for partial in turn.partials:
        parts = _parts(partial)
        if parts:
            message = Message(partial.message_id, Role.ASSISTANT, parts)
            yield MessageRecorded(turn.turn_id, message, complete=False), Origin.MODEL
    for call in turn.open_calls:
        yield _failed(turn.turn_id, call.call), Origin.WORKSPACE
    for asked in turn.unannounced:
        announced = _announcement(turn.turn_id, asked)
        yield announced, Origin.MODEL
        yield _failed(turn.turn_id, announced.call), Origin.WORKSPACE
    for event in end_events(turn.turn_id, how.stop_reason, how.sentence, how.failure):
        yield event, Origin.WORKSPACE


def _parts(partial: MessagePartial) -> tuple[Part, ...]:
    thinking: tuple[Part, ...] = (ThinkingPart(partial.thinking),) if partial.thinking else ()
    text: tuple[Part, ...] = (TextPart(partial.text),) if partial.text else ()
    return thinking + text


def _announcement(turn_id: TurnId, asked: ToolCallPart) -> ToolCallStarted:
    """A call that died before it was prepared, as the user sees it: its name and arguments."""
    try:
        arguments = msgspec.json.decode(asked.arguments, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        arguments: dict[str, object] = {}
    raw_input = cast("JsonObject", arguments)
    return ToolCallStarted(turn_id, ToolCallView(asked.call_id, asked.name, asked.name, ToolKind.OTHER, raw_input))


def _failed(turn_id: TurnId, call: ToolCallView) -> ToolCallFinished:
    """The end of a call that nobody saw. Content replaces what was shown, so what was announced stays in it."""
    content = (*call.content, TextContent(_INTERRUPTED_RESULT))
    return ToolCallFinished(
        turn_id,
        call.call_id,
        ToolCallStatus.FAILED,
        _INTERRUPTED_RESULT,
        content=content,
        interrupted=True,
        failure="tool.interrupted",
    )


def _as_recorded(appended: Appended, event: Event, origin: Origin) -> Recorded:
    return Recorded(
        appended.seq, appended.session_seq, appended.at_ms, Actor.PROCESS, origin, storable(item_of(event)), event
    )


LOST = "lost"
"""The outcome of a command whose agent died: it was ended with it, as far as the platform lets, and nobody saw how."""


class RecordedJob(Struct, frozen=True):
    """One background command or subagent; `ended` is None while no end is recorded. Times are milliseconds UTC.

    `reported` is the result of a subagent that waits for a prompt.
    """

    started: JobStarted
    started_at_ms: int
    ended: JobEnded | None = None
    ended_at_ms: int | None = None
    reported: JobReported | None = None

    @property
    def is_lost(self) -> bool:
        """True for one that ended with its process, and left nothing."""
        return self.ended is None and self.reported is None


def recorded_jobs(recorded: Iterable[Recorded]) -> tuple[RecordedJob, ...]:
    """The background commands of a stream, oldest first."""
    jobs: dict[str, RecordedJob] = {}
    for entry in recorded:
        match entry.event:
            case JobStarted() as started:
                jobs[started.job_id] = RecordedJob(started, entry.at_ms)
            case JobEnded() as ended if ended.job_id in jobs:
                job = jobs[ended.job_id]
                jobs[ended.job_id] = RecordedJob(job.started, job.started_at_ms, ended, entry.at_ms)
            case JobReported() as reported if reported.job_id in jobs:
                jobs[reported.job_id] = replace(jobs[reported.job_id], reported=reported)
            case _:
                pass
    return tuple(jobs.values())


def close_lost_jobs(
    tx: Transaction, stream: str, recorded: Iterable[Recorded], *, at_ms: int
) -> tuple[RecordedJob, ...]:
    """Record the end of what has none, since its process died; all of the stream afterwards.

    Raises:
        DatabaseError: an event could not be stored.
    """
    jobs: list[RecordedJob] = []
    for job in recorded_jobs(recorded):
        if job.is_lost:
            ended = JobEnded(job.started.job_id, LOST)
            append(tx, stream, ended, actor=Actor.PROCESS, origin=Origin.COMMAND, at_ms=at_ms)
            jobs.append(RecordedJob(job.started, job.started_at_ms, ended, at_ms))
        else:
            jobs.append(job)
    return tuple(jobs)
