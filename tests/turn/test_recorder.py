"""Journal first, user second."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import anyio
import anyio.lowlevel
import pytest

from pattern_acp.domain.clock import MessageId, SessionId, TurnId
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.domain.tool_calls import StopReason
from pattern_acp.journal.events import Event, MessagePartial, MessageRecorded, SessionTitled, TurnEnded
from pattern_acp.journal.reader import read_stream
from pattern_acp.journal.turn_ends import put_together
from pattern_acp.turn.recorder import (
    PARTIAL_COMMIT_SECONDS,
    JournalRecorder,
    NewEvent,
    Projection,
    TextStreamed,
    ThinkingStreamed,
    Transient,
)
from tests.support.constellation import Constellation, temporary_constellation
from tests.support.passing_time import let_pass

SESSION = SessionId("ses_1")
TURN = TurnId("turn_1")
MESSAGE = MessageId("msg_1")


@dataclass(slots=True)
class LookingView:
    """A view that looks into the journal whenever something is shown."""

    constellation: Constellation
    shown: list[tuple[Event | Transient, list[Event]]] = field(
        default_factory=list[tuple[Event | Transient, list[Event]]]
    )

    async def show(self, event: Event | Transient) -> None:
        self.shown.append((event, await journal(self.constellation)))


async def journal(constellation: Constellation) -> list[Event]:
    return [item.event for item in await constellation.database.read(lambda tx: read_stream(tx, SESSION))]


@dataclass(slots=True)
class Bench:
    constellation: Constellation
    view: LookingView
    recorder: JournalRecorder
    followed: list[Event]


@asynccontextmanager
async def bench(*projections: Projection) -> AsyncGenerator[Bench, None]:
    async with temporary_constellation() as constellation:
        view = LookingView(constellation)
        followed: list[Event] = []
        recorder = JournalRecorder(
            constellation.database,
            SESSION,
            view,
            clock=constellation.clock,
            projections=projections,
            follow=lambda new: followed.append(new.event),
        )
        recorder.begin(TURN)
        yield Bench(constellation, view, recorder, followed)


def message(text: str) -> MessageRecorded:
    return MessageRecorded(TURN, Message(MESSAGE, Role.ASSISTANT, (TextPart(text),)))


async def test_every_event_is_in_the_journal_before_it_is_shown():
    events: list[Event] = [SessionTitled("A title"), message("Hello."), TurnEnded(TURN, StopReason.END_TURN)]
    async with bench() as it:
        await it.recorder.record(*(NewEvent(event) for event in events))
        assert [event for event, _ in it.view.shown] == events
        assert all(recorded == events for _, recorded in it.view.shown)


async def test_a_failing_projection_leaves_nothing_in_the_journal_and_shows_nothing():
    def fail(*_: object) -> None:
        raise DatabaseError("The disk is full; free some space.")

    async with bench(fail) as it:
        with pytest.raises(DatabaseError):
            await it.recorder.record(NewEvent(message("Hello.")))
        assert await journal(it.constellation) == []
        assert it.view.shown == []


async def test_facts_that_can_wait_are_recorded_and_shown_before_the_next_one_in_its_transaction():
    title, hello, end = SessionTitled("A title"), message("Hello."), TurnEnded(TURN, StopReason.END_TURN)
    async with bench() as it:
        await it.recorder.record_soon(NewEvent(title))
        await it.recorder.record_soon(NewEvent(hello))
        assert (await journal(it.constellation), it.view.shown) == ([], [])
        await it.recorder.record(NewEvent(end))
        assert it.view.shown == [(event, [title, hello, end]) for event in (title, hello, end)]


async def test_facts_that_can_wait_are_recorded_alone_for_whoever_reads_the_journal():
    async with bench() as it:
        await it.recorder.commit_waiting()
        assert await journal(it.constellation) == []
        await it.recorder.record_soon(NewEvent(message("Hello.")))
        await it.recorder.commit_waiting()
        await it.recorder.commit_waiting()
        assert await journal(it.constellation) == [message("Hello.")]


async def test_facts_that_could_not_be_recorded_wait_for_the_next_attempt():
    broken = [True]

    def fail_once(*_: object) -> None:
        if broken:
            broken.clear()
            raise DatabaseError("The disk is full; free some space.")

    async with bench(fail_once) as it:
        await it.recorder.record_soon(NewEvent(message("Hello.")))
        with pytest.raises(DatabaseError):
            await it.recorder.commit_waiting()
        await it.recorder.record(NewEvent(TurnEnded(TURN, StopReason.END_TURN)))
        assert await journal(it.constellation) == [message("Hello."), TurnEnded(TURN, StopReason.END_TURN)]


async def test_who_follows_the_facts_hears_of_each_once_and_of_none_that_was_rolled_back():
    broken = [True]

    def fail_once(*_: object) -> None:
        if broken:
            broken.clear()
            raise DatabaseError("The disk is full; free some space.")

    async with bench(fail_once) as it:
        with pytest.raises(DatabaseError):
            await it.recorder.record(NewEvent(SessionTitled("One")))
        assert it.followed == []
        await it.recorder.record(NewEvent(SessionTitled("Two")), NewEvent(message("Hello.")))
        assert it.followed == [SessionTitled("Two"), message("Hello.")]


async def test_who_waits_for_a_fact_is_told_once_after_its_commit_and_not_after_one_that_failed():
    broken = [True]

    def fail_once(*_: object) -> None:
        if broken:
            broken.clear()
            raise DatabaseError("The disk is full; free some space.")

    async with bench(fail_once) as it:
        told: list[int] = []
        await it.recorder.record_soon(NewEvent(message("Hello.")))
        it.recorder.tell_when_recorded(lambda: told.append(len(it.view.shown)))
        with pytest.raises(DatabaseError):
            await it.recorder.commit_waiting()
        assert told == []
        for title in ("One", "Two"):
            await it.recorder.record(NewEvent(SessionTitled(title)))
        assert told == [0]
        assert len(await journal(it.constellation)) == 3


async def test_facts_that_can_wait_are_recorded_once_when_two_others_are_recorded_side_by_side():
    async with bench() as it:
        await it.recorder.record_soon(NewEvent(message("Hello.")))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.recorder.record, NewEvent(SessionTitled("One")))
            tasks.start_soon(it.recorder.record, NewEvent(SessionTitled("Two")))
        assert await journal(it.constellation) == [message("Hello."), SessionTitled("One"), SessionTitled("Two")]


async def test_what_waits_is_committed_every_second():
    async with bench() as it, anyio.create_task_group() as tasks:
        await it.recorder.record_soon(NewEvent(SessionTitled("A title")))
        await it.recorder.show(TextStreamed(MESSAGE, "One"))
        tasks.start_soon(it.recorder.commit_every_second)
        await anyio.wait_all_tasks_blocked()
        let_pass(PARTIAL_COMMIT_SECONDS)
        with anyio.fail_after(30):
            while len(it.view.shown) < 3:
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert [event for event, _ in it.view.shown[1:]] == [
        SessionTitled("A title"),
        MessagePartial(TURN, MESSAGE, "One", ""),
    ]


async def test_streamed_text_is_committed_when_its_time_has_come():
    async with bench() as it:
        await it.recorder.show(TextStreamed(MESSAGE, "One"))
        await it.recorder.show(ThinkingStreamed(MESSAGE, "Hm"))
        await it.recorder.commit_partial()
        assert await journal(it.constellation) == [MessagePartial(TURN, MESSAGE, "One", "Hm")]


async def test_a_message_that_is_whole_in_the_journal_is_not_committed_in_part_behind_it():
    async with bench() as it:
        await it.recorder.show(TextStreamed(MESSAGE, "One"))
        await it.recorder.record(NewEvent(message("One")))
        await it.recorder.commit_partial()
        assert await journal(it.constellation) == [message("One")]


async def test_text_that_was_committed_is_not_committed_again():
    async with bench() as it:
        await it.recorder.show(TextStreamed(MESSAGE, "One"))
        for _ in range(3):
            await it.recorder.commit_partial()
        await it.recorder.show(TextStreamed(MESSAGE, " two"))
        await it.recorder.commit_partial()
        texts = [cast("MessagePartial", event).text for event in await journal(it.constellation)]
        assert texts == ["One", " two"]


async def test_parts_of_a_message_add_up_to_what_was_said_and_thought():
    async with bench() as it:
        for event in (
            ThinkingStreamed(MESSAGE, "Let me"),
            ThinkingStreamed(MESSAGE, " think."),
            TextStreamed(MESSAGE, "One"),
            TextStreamed(MESSAGE, " two."),
        ):
            await it.recorder.show(event)
            await it.recorder.commit_partial()
        whole: MessagePartial | None = None
        for event in await journal(it.constellation):
            whole = put_together(whole, cast("MessagePartial", event))
        assert whole == MessagePartial(TURN, MESSAGE, "One two.", "Let me think.")


async def test_a_part_that_could_not_be_committed_is_in_the_next_one():
    failing = [True]

    def fail_once(*_: object) -> None:
        if failing.pop():
            raise DatabaseError("The disk is full; free some space.")

    async with bench(fail_once) as it:
        await it.recorder.show(TextStreamed(MESSAGE, "One"))
        with pytest.raises(DatabaseError):
            await it.recorder.commit_partial()
        failing.append(False)
        await it.recorder.show(TextStreamed(MESSAGE, " two"))
        await it.recorder.commit_partial()
        assert await journal(it.constellation) == [MessagePartial(TURN, MESSAGE, "One two", "")]


async def test_a_new_message_starts_with_nothing():
    async with bench() as it:
        await it.recorder.show(TextStreamed(MESSAGE, "One"))
        await it.recorder.show(TextStreamed(MessageId("msg_2"), "Two"))
        await it.recorder.commit_partial()
        assert await journal(it.constellation) == [MessagePartial(TURN, MessageId("msg_2"), "Two", "")]


class SlowView:
    """A client that does not read until it is let."""

    def __init__(self) -> None:
        self.shown: list[Event | Transient] = []
        self.blocked = anyio.Event()
        self.free = anyio.Event()

    async def show(self, event: Event | Transient) -> None:
        self.blocked.set()
        await self.free.wait()
        self.shown.append(event)


async def test_what_was_recorded_is_still_shown_when_the_turn_is_cancelled_meanwhile():
    async with temporary_constellation() as constellation:
        view = SlowView()
        recorder = JournalRecorder(constellation.database, SESSION, view, clock=constellation.clock)
        events = [NewEvent(message("Hello.")), NewEvent(TurnEnded(TURN, StopReason.CANCELLED))]
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(recorder.record, *events)
                await view.blocked.wait()
                tasks.cancel_scope.cancel()
                view.free.set()
        assert view.shown == [new.event for new in events]


async def test_a_client_that_never_reads_does_not_hold_up_a_cancel():
    async with temporary_constellation() as constellation:
        view = SlowView()
        recorder = JournalRecorder(constellation.database, SESSION, view, clock=constellation.clock)
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(recorder.record, NewEvent(message("Hello.")))
                await view.blocked.wait()
                tasks.cancel_scope.cancel()
        assert await journal(constellation) == [message("Hello.")]
