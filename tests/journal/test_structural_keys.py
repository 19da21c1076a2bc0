"""What forgetting and redacting take out of an event: every text but those that the program reads again.

A text is planted into every field that any event can have, found by the types of events, so that a new event or field
is tried without anybody having to think of it.
"""

import dataclasses
import enum
import types
import typing
from collections.abc import Iterator, Mapping
from typing import cast, get_args, get_origin

import pytest
from msgspec import Struct, structs

from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.structural_keys import TextRole, walk
from pattern_acp.journal.bundle import mask_texts, without_content
from pattern_acp.journal.codec import decode, encode
from pattern_acp.journal.events import Event, SessionTitled, SubagentRecorded
from pattern_acp.memory.forgotten import MARK, forget_passage

WORD = "wisteria"
PLANTED = f"a {WORD} here"
EVENT_TYPES: tuple[type[Event], ...] = get_args(Event)
UNIONS: tuple[object, ...] = (typing.Union, types.UnionType)

NAMED = """
Cost.currency
FileState.digest
ForkedBlock.block_id ForkedBlock.origin_id
MemoryForked.fork_id MemoryForkJoined.fork_id
MemoryForkEnded.fork_id MemoryForkEnded.outcome MemoryForkEnded.turn_id
ImageContent.media_type
ImagePart.media_type
MemoryPoint.block_id MemoryPoint.frontiers MemoryPoint.label
Message.message_id
NamedPassage.digest NamedPassage.source_id
OfferedTool.name
PinnedDefinition.identity PinnedDefinition.place PinnedDefinition.symbol PinnedDefinition.tier
PinnedTool.digest PinnedTool.name
ProjectPart.digest ProjectPart.name
RequestParts.thought_level RequestParts.tool_form
ResourcePart.media_type
ShownBlock.block_id ShownBlock.label ShownBlock.permission
TerminalContent.terminal_id
ThinkingPart.provider ThinkingPart.signature ThinkingPart.wire
ToolCallPart.call_id ToolCallPart.name
ToolCallView.call_id ToolCallView.name
ToolResultPart.call_id
BlockCommitted.after_hash BlockCommitted.before_hash BlockCommitted.block_id BlockCommitted.call_id
ArchiveImported.origins_hash ArchiveImported.root ArchiveImported.stores
BlockCommitted.frontiers_after BlockCommitted.frontiers_before BlockCommitted.label BlockCommitted.operation
BlockCommitted.owner BlockCommitted.scope BlockCommitted.turn_id BlockCommitted.update_hash
BlockCommitted.conflicts_hash BlockCommitted.facts_hash BlockCommitted.settings_hash EntryArchived.facts_hash
BlockDeleted.facts_hash BlockForgotten.facts_hash BlockForgotten.update_hash BlockRestored.facts_hash
BlockConfigured.after BlockConfigured.before BlockConfigured.block_id BlockConfigured.label BlockConfigured.owner
BlockConfigured.scope BlockConfigured.setting BlockConfigured.turn_id
BlockDeleted.block_id BlockDeleted.label BlockDeleted.owner BlockDeleted.scope BlockDeleted.text_hash
BlockDeleted.turn_id
BlockForgotten.after_hash BlockForgotten.block_id BlockForgotten.label BlockForgotten.owner BlockForgotten.redaction
BlockForgotten.scope BlockForgotten.turn_id
BlockHealed.block_id BlockHealed.label BlockHealed.owner BlockHealed.scope BlockHealed.text_hash
BlockRestored.block_id BlockRestored.label BlockRestored.owner BlockRestored.scope BlockRestored.text_hash
BlockRestored.turn_id
BlockShared.block_id BlockShared.label BlockShared.owner BlockShared.permission BlockShared.scope BlockShared.turn_id
BlockShared.with_owner BlockShared.with_scope
BudgetChanged.allowance BudgetChanged.by BudgetChanged.scope
CheckpointTaken.cause CheckpointTaken.checkpoint_id CheckpointTaken.state_hash CheckpointTaken.turn_id
ContextAdded.turn_id
ContextCompacted.note_id ContextCompacted.removed ContextCompacted.shortened ContextCompacted.strategy
ContextCompacted.trigger ContextCompacted.turn_id
EntryArchived.call_id EntryArchived.entry_id EntryArchived.host EntryArchived.kind EntryArchived.owner
EntryArchived.scope EntryArchived.severity EntryArchived.supersedes EntryArchived.text_hash EntryArchived.turn_id
EntryStatusChanged.call_id EntryStatusChanged.entry_id EntryStatusChanged.owner EntryStatusChanged.scope
EntryStatusChanged.status EntryStatusChanged.turn_id
EntryVerified.call_id EntryVerified.entry_id EntryVerified.owner EntryVerified.scope EntryVerified.turn_id
ErrorReported.code ErrorReported.kind ErrorReported.turn_id
EventsRedacted.cause EventsRedacted.redaction
FilesSaved.turn_id
FolderTrustDecided.decision FolderTrustDecided.digest FolderTrustDecided.root
GrantRevoked.effect GrantRevoked.kind GrantRevoked.lifetime GrantRevoked.persona GrantRevoked.project
GrantStored.call_id GrantStored.effect GrantStored.kind GrantStored.lifetime GrantStored.persona GrantStored.project
HandoffLeft.state HandoffLeft.turn_id
HistoryCleared.turn_id
DefinitionNoted.identity DefinitionNoted.symbol
DefinitionsFollowed.follow DefinitionsFollowed.project
InstructionsCompiled.identity InstructionsCompiled.predecessor InstructionsCompiled.symbol
WatchSwitched.call_id WatchSwitched.turn_id
SeenDefinition.identity SeenDefinition.symbol SeenDefinition.word
JobEnded.job_id JobEnded.outcome JobEnded.signal
JobReported.call_id JobReported.job_id
JobStarted.job_id
LandingEnded.landing_id LandingEnded.outcome LandingEnded.turn_id
LandingStarted.call_id LandingStarted.landing_id LandingStarted.turn_id WorkerReady.call_id WorkerReady.turn_id
MemoryRecalled.turn_id
MemoryShown.turn_id
MessagePartial.message_id MessagePartial.turn_id
MessagePinned.message_id MessagePinned.turn_id
MessageRecorded.turn_id
ModelRequested.digest ModelRequested.model ModelRequested.provider ModelRequested.turn_id
PermissionAnswered.answer PermissionAnswered.call_id PermissionAnswered.turn_id
PermissionAsked.call_id PermissionAsked.options PermissionAsked.turn_id
PermissionDecided.call_id PermissionDecided.layer PermissionDecided.policy PermissionDecided.rule
PermissionDecided.turn_id PermissionDecided.verdict
RecordedAccess.kind RecordedGrant.effect RecordedGrant.kind RecordedGrant.lifetime RecordedPolicy.mode
RecordedPolicy.release RecordedPolicy.sandbox RecordedRule.effect RecordedRule.kind RecordedRule.layer
PlanUpdated.turn_id
PromptRefused.turn_id
RewindStarted.blocks RewindStarted.parts RewindStarted.rewind_id RewindStarted.turn_id
ServerToolsPinned.identity ServerToolsPinned.server
SessionConfigured.by SessionConfigured.option SessionConfigured.value
SessionCreated.additional_directories SessionCreated.cwd SessionCreated.fork_hash SessionCreated.mode
SessionCreated.model SessionCreated.parent SessionCreated.persona SessionCreated.persona_identity
SessionOpened.additional_directories SessionOpened.cwd SessionOpened.how
SessionRewound.parts SessionRewound.rewind_id SessionRewound.turn_id
SubagentRecorded.call_id SubagentRecorded.thread_id SubagentRecorded.turn_id
JobCheck.output_hash JobFile.content_hash
JobMoved.by JobMoved.job_id JobMoved.state JobMoved.turn_id
JobQuote.model JobQuote.persona
JobQuoted.job_id JobQuoted.turn_id
JobSettled.agreed_by JobSettled.by JobSettled.job_id JobSettled.outcome JobSettled.turn_id
JobTerms.model JobTerms.most
JobUse.node
TasksChanged.call_id TasksChanged.list_id TasksChanged.operation TasksChanged.task_ids TasksChanged.turn_id
TasksChanged.update_hash
ToolCallFinished.call_id ToolCallFinished.failure ToolCallFinished.turn_id
ToolCallStarted.turn_id
ToolResultExtended.call_id ToolResultExtended.turn_id
TurnEnded.turn_id
TurnStarted.turn_id
UsageReported.model UsageReported.turn_id
"""
"""Every text of an event that stays: ids, hashes, names that other records point to by them, and fixed sets."""


@dataclasses.dataclass
class Planter:
    """Makes an event of which one text, the `at`-th that it could have, is `text`."""

    at: int
    text: str = PLANTED
    texts: int = 0
    where: str = ""

    def event(self, event_type: type[Event]) -> Event:
        return cast("Event", self._make(event_type))

    def _make(self, hint: object, name: str = "") -> object:
        if isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        if get_origin(hint) is not None:
            return self._composed(get_origin(hint), get_args(hint), name)
        if hint is str:
            return self._text(name)
        if hint == "Event":
            return SessionTitled(self._text("SubagentRecorded.event"))
        assert isinstance(hint, type)
        if issubclass(hint, enum.Enum):
            return next(iter(hint))
        return hint(1) if issubclass(hint, int) else self._object(cast("type[object]", hint))

    def _composed(self, origin: object, arguments: tuple[object, ...], name: str) -> object:
        if origin is typing.Literal:
            return arguments[0]
        if origin in UNIONS:
            return self._make(next(each for each in arguments if each is not type(None)), name)
        if origin is tuple:
            each = get_args(arguments[0]) if get_origin(arguments[0]) in UNIONS else arguments[:1]
            return tuple(self._make(one, name) for one in each)
        assert isinstance(origin, type)
        assert issubclass(origin, Mapping)
        return {self._text(f"{name} key"): [{"text": self._text(name)}]}

    def _object(self, kind: type[object]) -> object:
        made = {
            name: self._make(kind.__annotations__[name], f"{kind.__name__}.{name}")
            for name in cast("type[Struct]", kind).__struct_fields__
        }
        return kind(**made)

    def _text(self, name: str) -> str:
        self.texts += 1
        if self.texts - 1 != self.at:
            return "x"
        self.where = name
        return self.text


def planted(text: str = PLANTED) -> Iterator[tuple[str, Event]]:
    """An event for every text that any event can have, which is `text`, with the name of the field."""
    for event_type in EVENT_TYPES:
        for at in range(1000):
            planter = Planter(at, text)
            event = planter.event(event_type)
            if not planter.where:
                break
            yield planter.where, event


ALL = list(planted())


def masked(event: Event) -> JsonObject:
    stored = encode(event)
    return forget_passage(WORD).mask_json(stored.kind, stored.payload)


def test_only_what_names_or_classifies_stays_and_all_other_texts_of_all_events_lose_the_word():
    texts = {type(event) for _, event in ALL}
    # These have no text at all.
    assert {each.__name__ for each in EVENT_TYPES if each not in texts} == {
        "SessionArchived",
        "SessionClosed",
        "SessionDeleted",
        "SessionRestored",
    }
    left = {where for where, event in ALL if WORD in str(masked(event))}
    assert sorted(left) == sorted(NAMED.split())


@pytest.mark.parametrize("event_type", EVENT_TYPES, ids=lambda each: each.__name__)
def test_an_event_of_every_kind_can_be_read_when_all_its_words_are_gone(event_type: type[Event]):
    event = Planter(-1).event(event_type)
    stored = encode(event)
    words = forget_passage("x").mask_json(stored.kind, stored.payload)
    assert isinstance(decode(stored.kind, stored.version, words), event_type)
    blank = mask_texts(stored.kind, stored.payload, lambda _: "")
    for blanked in (blank, without_content(stored.kind, stored.payload)):
        assert isinstance(decode(stored.kind, stored.version, blanked), event_type)


def test_a_bundle_without_content_shows_no_text_of_any_event_but_ids_and_fixed_sets():
    shown = {where for where, event in ALL if WORD in str(without_content(*_stored(event)))}
    assert shown <= {*NAMED.split(), "ToolCallView.raw_input key"}
    assert not shown & {"TerminalContent.command", "CheckpointTaken.name", "ToolCallView.name", "SessionCreated.cwd"}


def _stored(event: Event) -> tuple[str, JsonObject]:
    stored = encode(event)
    return stored.kind, stored.payload


def test_the_event_of_a_subagent_is_masked_as_its_kind_is():
    inner = next(event for where, event in ALL if where == "SessionConfigured.value")
    thread = structs.replace(cast("SubagentRecorded", Planter(-1).event(SubagentRecorded)), event=inner)
    assert WORD in str(masked(thread))
    inner = next(event for where, event in ALL if where == "TerminalContent.command")
    assert WORD not in str(masked(structs.replace(thread, event=inner)))


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("session_configured", {"option": "tools", "value": "text", "by": "client"}),
        ("block_configured", {"setting": "permission", "before": "text", "after": "text"}),
        ("context_compacted", {"removed": ["msg_text", "turn_text_memory"], "shortened": ["call_text"]}),
        ("rewind_started", {"parts": ["text", "files"], "blocks": ["block_text"]}),
        ("model_requested", {"parts": {"thought_level": "text", "tool_form": "text"}}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_program_reads_again_stays(kind: str, payload: JsonObject):
    assert forget_passage("text").mask_json(kind, payload) == payload
    assert mask_texts(kind, payload, lambda _: "") == payload


def test_all_that_a_model_gave_a_tool_is_words():
    payload: JsonObject = {"raw_input": {"command": "echo text", "name": "text", "a": [{"label": "text"}]}}
    left: JsonObject = {"raw_input": {"command": f"echo {MARK}", "name": MARK, "a": [{"label": MARK}]}}
    assert forget_passage("text").mask_json("tool_call_started", payload) == left


def test_a_field_that_nobody_knows_yet_is_words():
    payload: JsonObject = {"command": "x", "state": {"mode": "x"}, "parts": ["x"], "turn_id": "x", "owner": "x"}
    seen: list[tuple[TextRole, str]] = []

    def leaf(role: TextRole, key: str, value: Json) -> Json:
        seen.append((role, key))
        return value

    assert walk("of_tomorrow", payload, leaf) == payload
    words = ("command", "mode", "parts", "owner")
    assert sorted(seen, key=str) == sorted(
        [*((TextRole.WORDS, key) for key in words), (TextRole.KIND, "turn_id")], key=str
    )
