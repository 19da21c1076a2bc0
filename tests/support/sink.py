"""`RecordingSink`: what a turn reported, for tests of what reports.

Owns: the record. Must not know: a journal or an editor.
"""

from dataclasses import dataclass, field

from pattern_acp.journal.events import Event
from pattern_acp.turn.events import TextStreamed, Transient
from pattern_acp.turn.sink import Fact


@dataclass(slots=True)
class RecordingSink:
    """`TurnSink` in memory. `transactions` holds the facts that were recorded together."""

    transactions: list[tuple[Fact, ...]] = field(default_factory=list[tuple[Fact, ...]])
    order: list[Event | Transient] = field(default_factory=list[Event | Transient])
    """Everything, durable or not, in the order in which it was reported."""

    @property
    def events(self) -> list[Event]:
        """What was recorded, in order."""
        return [fact.event for facts in self.transactions for fact in facts]

    @property
    def follows_text(self) -> bool:
        """See `TurnSink.follows_text`."""
        return any(isinstance(event, TextStreamed) for event in self.order)

    async def record(self, *facts: Fact) -> None:
        """See `TurnSink.record`."""
        self.transactions.append(facts)
        self.order += [fact.event for fact in facts]

    async def record_soon(self, *facts: Fact) -> None:
        """See `TurnSink.record_soon`; there is nothing that a crash could lose."""
        await self.record(*facts)

    async def show(self, event: Transient) -> None:
        """See `TurnSink.show`."""
        self.order.append(event)
