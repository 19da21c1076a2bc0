"""What an editor was told is durable, and what of it a journal lacks after a crash.

Owns: reading acknowledgements out of session updates. Must not know: how the agent was ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from pattern_acp.journal.events import (
    Event,
    MessagePartial,
    MessageRecorded,
    PlanUpdated,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from tests.support.editor import JsonDict


@dataclass(slots=True)
class Acknowledged:
    """What the client was told."""

    started: set[str] = field(default_factory=set[str])
    finished: dict[str, str] = field(default_factory=dict[str, str])
    facts: set[str] = field(default_factory=set[str])
    messages: dict[str, str] = field(default_factory=dict[str, str])
    """Text that was followed by something durable, or is old enough, by message id."""
    prompts: int = 0
    ended: int = 0
    plans: int = 0

    def note(self, updates: Iterable[JsonDict], old_text: Mapping[str, str] | None = None) -> None:
        """Take in what the editor was shown by an agent, from its start on."""
        texts: dict[str, str] = {}
        for update in updates:
            match update["sessionUpdate"]:
                case "agent_message_chunk":
                    message_id = str(update["messageId"])
                    texts[message_id] = texts.get(message_id, "") + str(update["content"]["text"])
                    continue
                case "tool_call":
                    self.started.add(str(update["toolCallId"]))
                case "tool_call_update" if update.get("status") in {"completed", "failed"}:
                    self.finished[str(update["toolCallId"])] = str(update["status"])
                    self.facts |= _facts_in(update) if update["status"] == "completed" else set()
                case "plan":
                    self.plans += 1
                case _:
                    continue
            # A durable update is shown after the message before it was recorded.
            self.messages |= texts
        self.messages |= old_text or {}

    def missing(self, events: Sequence[Event], memory: Iterable[str]) -> list[str]:
        """What the journal of the session, or the lines of its memory, lack; empty when nothing was lost."""
        started = {event.call.call_id for event in events if isinstance(event, ToolCallStarted)}
        finished = {str(event.call_id): str(event.status) for event in events if isinstance(event, ToolCallFinished)}
        texts = recorded_texts(events)
        counts = {
            TurnStarted: self.prompts,
            TurnEnded: self.ended,
            PlanUpdated: self.plans,
        }
        return [
            *(f"call {each} has not started" for each in self.started - started),
            *(f"call {each} is not {status}" for each, status in self.finished.items() if finished.get(each) != status),
            *(f"no text {text!r}" for each, text in self.messages.items() if text not in texts.get(each, "")),
            *(f"no fact {fact!r}" for fact in self.facts - set(memory)),
            *(
                f"fewer than {told} {kind.__name__}"
                for kind, told in counts.items()
                if sum(isinstance(event, kind) for event in events) < told
            ),
        ]


def _facts_in(update: JsonDict) -> set[str]:
    """The facts that a completed memory write shows as new in its diff: lines that begin with `fact `."""
    diffs = (item for item in cast("list[JsonDict]", update.get("content", [])) if item["type"] == "diff")
    return {line for diff in diffs for line in str(diff["newText"]).splitlines() if line.startswith("fact ")}


def recorded_texts(events: Iterable[Event]) -> dict[str, str]:
    """The text of each message, whole or as far as it was kept, by message id."""
    texts: dict[str, str] = {}
    for event in events:
        if isinstance(event, MessagePartial):
            texts[event.message_id] = texts.get(event.message_id, "")[: event.text_at] + event.text
        elif isinstance(event, MessageRecorded):
            texts[event.message.message_id] = event.message.text
    return texts
