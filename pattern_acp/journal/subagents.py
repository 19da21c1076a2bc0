"""The threads of subagents in the stream of their session.

Owns: reading them. Must not know: who runs a subagent, or what is shown of it.
"""

from collections.abc import Iterable, Iterator

from pattern_acp.journal.events import Event, SubagentRecorded


def with_threads(events: Iterable[Event]) -> Iterator[Event]:
    """The events of a session with those of its subagents among them, each in its place."""
    for event in events:
        yield event.event if isinstance(event, SubagentRecorded) else event
