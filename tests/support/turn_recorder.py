"""`FakeRecorder`: what a turn reported, for tests of what reports.

Owns: the record. Must not know: a journal or an editor.
"""

from dataclasses import dataclass, field

from pattern_acp.journal.events import Event
from pattern_acp.turn.recorder import NewEvent, TextStreamed, Transient


@dataclass(slots=True)
class FakeRecorder:
    """`TurnRecorder` in memory. `transactions` holds the events that were recorded together."""

    transactions: list[tuple[NewEvent, ...]] = field(default_factory=list[tuple[NewEvent, ...]])
    order: list[Event | Transient] = field(default_factory=list[Event | Transient])
    """Everything, durable or not, in the order in which it was reported."""

    @property
    def events(self) -> list[Event]:
        """What was recorded, in order."""
        return [new.event for events in self.transactions for new in events]

    @property
    def follows_text(self) -> bool:
        """See `TurnRecorder.follows_text`."""
        return any(isinstance(event, TextStreamed) for event in self.order)

    async def record(self, *events: NewEvent) -> None:
        """See `TurnRecorder.record`."""
        self.transactions.append(events)
        self.order += [new.event for new in events]

    async def record_soon(self, *events: NewEvent) -> None:
        """See `TurnRecorder.record_soon`; there is nothing that a crash could lose."""
        await self.record(*events)

    async def show(self, event: Transient) -> None:
        """See `TurnRecorder.show`."""
        self.order.append(event)
