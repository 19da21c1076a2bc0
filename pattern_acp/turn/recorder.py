"""The recorder of a turn: journal first, user second.

`TurnRecorder` is the port that the loop writes to; `JournalRecorder` implements it over the journal and a `TurnView`.
A durable event is shown only after the commit that records it (rule R2); streamed text is shown at once and committed
when the message ends, on cancel, and at least once a second. What is shown and not durable on its own is defined here,
too: live companions of the events of the journal, which a replay never has.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import anyio
from msgspec import Struct, field

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import Clock, MessageId, SessionId, ToolCallId, TurnId
from pattern_acp.domain.tool_calls import StopReason, ToolContent
from pattern_acp.domain.usage import Cost
from pattern_acp.journal.events import Event, MessagePartial, MessageRecorded
from pattern_acp.journal.turn_ends import TurnFailure, end_events
from pattern_acp.journal.writer import append


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


CLEANUP_SECONDS = 1.0
"""Longest a cancelled call may take to record its end; a cancel is answered within 2 s (invariant 3)."""

PARTIAL_COMMIT_SECONDS = 1.0
"""Rule R2: a kill loses at most the last second of an unfinished message."""


SHOW_SECONDS = 0.5
"""Longest that showing recorded events may still take after a cancel, when the client does not read."""


class NewEvent(Struct, frozen=True):
    """An event with who caused it and where its content came from."""

    event: Event
    actor: Actor = Actor.PERSONA
    origin: Origin = Origin.MODEL


class TurnView(Protocol):
    """The user's view of a turn."""

    async def show(self, event: Event | Transient) -> None:
        """Show an event that is already durable, or a transient one.

        Waits while the client does not keep up; a call that ends by cancellation has shown nothing.
        """
        ...


def new_end_events(
    turn_id: TurnId, stop_reason: StopReason, sentence: str, failure: TurnFailure | None, *, handed_over: bool = False
) -> tuple[NewEvent, ...]:
    """Facts that end a turn, for one call of `TurnRecorder.record`."""
    ends = end_events(turn_id, stop_reason, sentence, failure, handed_over=handed_over)
    return tuple(NewEvent(event, Actor.SYSTEM) for event in ends)


class TurnRecorder(Protocol):
    """The port that a turn reports everything to."""

    @property
    def follows_text(self) -> bool:
        """True when text of this turn was shown, so that the next text has to begin a new paragraph."""
        ...

    async def record(self, *events: NewEvent) -> None:
        """Commit the events in one transaction, then show them in order.

        Raises:
            DatabaseError: nothing was saved and nothing was shown.
            LeaseLostError: nor here, since another window has the session now.
        """
        ...

    async def record_soon(self, *events: NewEvent) -> None:
        """Record the events with those that `record` is called for next, before them; after a second at the latest.

        For events that nobody waits to see: each commit costs a flush of the disk. Raises nothing.
        """
        ...

    async def show(self, event: Transient) -> None:
        """Show something that is not durable on its own."""
        ...


Projection = Callable[[Transaction, NewEvent, int], None]
"""Rows that must change in the same transaction as an event: (transaction, event with its cause, its seq)."""


class JournalRecorder:
    """`TurnRecorder` over the journal of one session.

    `projections` update the rows that follow from an event (session row, search index, grants), in its own transaction.
    """

    def __init__(
        self,
        database: Database,
        session_id: SessionId,
        view: TurnView,
        *,
        clock: Clock,
        projections: Sequence[Projection] = (),
        follow: Callable[[NewEvent], object] = lambda _: None,
        check: Callable[[Transaction], None] = lambda _: None,
        late_check: Callable[[Transaction], None] = lambda _: None,
    ) -> None:
        """`follow` is called with each event once it is committed; what is rolled back, it never hears of.

        `check` and, for `record_late`, `late_check` refuse inside the transaction what may not be recorded.
        """
        self._check = check
        self._late_check = late_check
        self._database = database
        self._session_id = session_id
        self._view = view
        self._clock = clock
        self._projections = tuple(projections)
        self._follow = follow
        self._turn_id = TurnId("")
        self._message_id: MessageId = MessageId("")
        self._text = _Streamed()
        self._thinking = _Streamed()
        self._dirty = False
        self._soon: list[NewEvent] = []
        self._tell_soon: list[Callable[[], None]] = []
        """Called once what waits is committed."""

    def begin(self, turn_id: TurnId) -> None:
        """Name the turn that streamed text belongs to. What the last one could not record is dropped with it."""
        self._turn_id = turn_id
        self._soon.clear()
        self._tell_soon.clear()
        self._forget_text(MessageId(""))

    @property
    def follows_text(self) -> bool:
        """See `TurnRecorder.follows_text`."""
        return bool(self._text.end) and not self._text.end.endswith("\n\n")

    async def record(self, *events: NewEvent, behind: Callable[[Transaction], object] = lambda _: None) -> None:
        """See `TurnRecorder.record`; `behind` may append, in the same transaction, what is recorded of the events."""
        await self._record(self._check, events, behind)

    async def record_soon(self, *events: NewEvent) -> None:
        """See `TurnRecorder.record_soon`."""
        self._soon += events

    def tell_when_recorded(self, tell: Callable[[], None]) -> None:
        """Call `tell` once what waits now is committed, before it is shown; never when that does not come about."""
        self._tell_soon.append(tell)

    async def record_late(self, new: NewEvent) -> None:
        """Record what ended on its own, also when the process already gave the session up because it ends.

        Raises:
            DatabaseError: nothing was saved and nothing was shown.
            LeaseHeldError: nor here, since another window has the session now.
        """
        await self._record(self._late_check, (new,), lambda _: None)

    async def _record(
        self, check: Callable[[Transaction], None], events: Sequence[NewEvent], behind: Callable[[Transaction], object]
    ) -> None:
        now = self._clock.now_ms()
        # Taken at once: calls that run side by side record side by side, and each event is recorded by one of them.
        waiting, self._soon = self._soon, []
        told, self._tell_soon = self._tell_soon, []
        events = (*waiting, *events)

        def commit(tx: Transaction) -> None:
            check(tx)
            for new in events:
                appended = append(tx, self._session_id, new.event, actor=new.actor, origin=new.origin, at_ms=now)
                for project in self._projections:
                    project(tx, new, appended.seq)
            behind(tx)

        try:
            await self._database.write(commit)
        except Exception:
            # Not after a cancellation, which a write does not hear.
            self._soon[:0] = waiting
            self._tell_soon[:0] = told
            raise
        for new in events:
            self._follow(new)
        for tell in told:
            tell()
        for new in events:
            if isinstance(new.event, MessageRecorded) and new.event.message.message_id == self._message_id:
                # A part behind the whole would come back as a second message after a crash.
                self._dirty = False
        await self._show_all(events)

    async def show(self, event: Transient) -> None:
        """See `TurnRecorder.show`."""
        if isinstance(event, TextStreamed | ThinkingStreamed):
            self._remember(event)
        await self._view.show(event)

    async def commit_every_second(self) -> None:
        """Commit all that waits, once a second, until cancelled.

        Raises:
            DatabaseError: a commit failed.
            LeaseLostError: another window has the session now.
        """
        while True:
            await anyio.sleep(PARTIAL_COMMIT_SECONDS)
            await self.commit_waiting()
            await self.commit_partial()

    async def commit_waiting(self) -> None:
        """Commit the events that wait for others, for a reader of the journal. Raises like `TurnRecorder.record`."""
        if self._soon:
            await self.record()

    async def commit_partial(self) -> None:
        """Commit streamed text that is not committed yet. Raises like `TurnRecorder.record`."""
        if not self._dirty:
            return
        self._dirty = False
        text, thinking = self._text, self._thinking
        count, thought_count = len(text.pieces), len(thinking.pieces)
        part = MessagePartial(
            self._turn_id, self._message_id, text.joined, thinking.joined, text.committed, thinking.committed
        )
        await self.record(NewEvent(part))
        # Only now: after a failure the next part begins where this one did, and takes its place if it is there.
        text.was_committed(count)
        thinking.was_committed(thought_count)

    async def _show_all(self, events: Sequence[NewEvent]) -> None:
        shown = 0
        try:
            for new in events:
                await self._view.show(new.event)
                shown += 1
        except anyio.get_cancelled_exc_class():
            # What is recorded must be shown, or the user would see a call that never ends.
            with anyio.move_on_after(SHOW_SECONDS, shield=True):
                for new in events[shown:]:
                    await self._view.show(new.event)
            raise

    def _forget_text(self, message_id: MessageId) -> None:
        self._message_id, self._text, self._thinking = message_id, _Streamed(), _Streamed()

    def _remember(self, event: TextStreamed | ThinkingStreamed) -> None:
        if event.message_id != self._message_id:
            self._forget_text(event.message_id)
        streamed = self._text if isinstance(event, TextStreamed) else self._thinking
        streamed.add(event.text)
        self._dirty = True


class _Streamed(Struct):
    """The text of a message as it comes, without what the journal has for certain."""

    pieces: list[str] = field(default_factory=list[str])
    committed: int = 0
    """Characters in the journal, before the first piece."""
    end: str = ""
    """Its last characters."""

    @property
    def joined(self) -> str:
        """The text that is not committed."""
        return "".join(self.pieces)

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.end = (self.end + text)[-2:]

    def was_committed(self, count: int) -> None:
        """Forget the first `count` pieces."""
        self.committed += sum(map(len, self.pieces[:count]))
        del self.pieces[:count]
