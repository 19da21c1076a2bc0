"""Rows that follow from a session's events, changed in the event's own transaction (rule R1)."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pattern_acp.context.recall_budget import CATCH_UP_CALL
from pattern_acp.db.connection import Transaction
from pattern_acp.definitions.skills import SKILL_TOOL, SkillDefinition, loaded_in
from pattern_acp.domain.clock import Clock, SessionId, ToolCallId
from pattern_acp.domain.messages import Message, TextPart
from pattern_acp.domain.tool_calls import ToolCallView
from pattern_acp.journal import sessions
from pattern_acp.journal.events import (
    BY_MODEL,
    ContextAdded,
    Event,
    FolderTrustDecided,
    GrantRevoked,
    GrantStored,
    InstructionsCompiled,
    JobMoved,
    JobQuoted,
    JobSettled,
    MessageRecorded,
    PlanUpdated,
    ServerToolsPinned,
    SessionConfigured,
    SessionTitled,
    SubagentRecorded,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from pattern_acp.journal.history import place_of_event
from pattern_acp.journal.usage import count_skill_use, note_usage
from pattern_acp.mcp_servers.catalogue import Pin, store_pin
from pattern_acp.memory.feed import move_cursor, note_activity
from pattern_acp.memory.indexing import index_deed, index_listed, index_steps, skills_source
from pattern_acp.memory.recall import MessageKind, index_message
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.policy.decision import Lifetime
from pattern_acp.policy.grants import Effect, Grant, GrantKind, GrantOwner, revoke_grant, store_grant
from pattern_acp.providers.history import CONTINUE_NOTES
from pattern_acp.tasks.presence import note_task_turn
from pattern_acp.trust import remove_agreement, store_agreement
from pattern_acp.turn.recorder import NewEvent

_Known: TypeAlias = tuple[
    tuple[str, ...] | None, set[ToolCallId], tuple[str, str], "WholeAnswers", dict[str, ToolCallView]
]


class SessionProjections:
    """Keeps the session row, the search index and the grants in step with the journal."""

    def __init__(
        self,
        session_id: SessionId,
        search_owner: str,
        clock: Clock,
        *,
        persona: str = "",
        memory: ConstellationMemory | None = None,
    ) -> None:
        """`search_owner` is the project's key; without a `persona`, nobody learns later what happened.

        What `memory` recalled in a turn is counted when the turn ends.
        """
        self.skills: Callable[[], Sequence[SkillDefinition]] = tuple
        """The skills that the session may use now: what is found of them is brought up to date when a turn ends."""
        self._found_skills: tuple[str, ...] | None = None
        self._skill_calls: set[ToolCallId] = set()
        self._job = ("", "")
        """The job that is worked on, and the turn whose requests draw on its hold."""
        self._answers = WholeAnswers()
        self._calls: dict[str, ToolCallView] = {}
        """Calls that have not ended."""
        self._memory = memory
        self._session_id = session_id
        self._persona = persona
        self._search_owner = search_owner
        self._clock = clock
        self._tx: Transaction | None = None
        self._newest = 0
        """The event that was followed last."""
        self._before = self._known()
        """State before the transaction of that event."""

    def remember_as(self, persona: str, memory: ConstellationMemory) -> None:
        """Continue with another persona and its memory."""
        self._persona, self._memory = persona, memory

    def apply(self, tx: Transaction, new: NewEvent, seq: int) -> None:
        """Change the rows that follow from `new`, whose event has the number `seq`."""
        self._forget_undone(tx, seq)
        now = self._clock.now_ms()
        answer = self._answers.follow(new.event)
        match new.event:
            case TurnStarted(message=message, command=command):
                sessions.note_prompt(tx, self._session_id, seq=seq, at_ms=now)
                if not command:
                    self._index(tx, "user", message, now, seq)
            case MessageRecorded():
                sessions.touch(tx, self._session_id, seq=seq, at_ms=now)
                if answer is not None:
                    self._index(tx, "assistant", answer, now, seq)
            case SessionTitled(title):
                sessions.set_title(tx, self._session_id, title, seq=seq, at_ms=now)
            case SessionConfigured():
                self._set_option(tx, new.event, now, seq)
            case GrantStored() | GrantRevoked():
                self._follow_grant(tx, new.event, now, seq)
            case ServerToolsPinned():
                _pin(tx, new.event, now, seq)
            case FolderTrustDecided():
                follow_trust(tx, new.event, at_ms=now, seq=seq)
            case event:
                self._follow(tx, event, now, seq)

    def _forget_undone(self, tx: Transaction, seq: int) -> None:
        """Go back to what was known before a transaction that was undone: its events come again, or never came."""
        if tx is not self._tx:
            if self._newest and (seq <= self._newest or not self._is_recorded(tx, self._newest)):
                self._found_skills, self._skill_calls, self._job, self._answers, self._calls = self._before
            self._tx, self._before = tx, self._known()
        self._newest = seq

    def _is_recorded(self, tx: Transaction, seq: int) -> bool:
        place = place_of_event(tx, seq)
        return place is not None and place.stream == self._session_id

    def _known(self) -> "_Known":
        calls, answers = dict(self._calls), self._answers.copy()
        return self._found_skills, set(self._skill_calls), self._job, answers, calls

    def _set_option(self, tx: Transaction, event: SessionConfigured, now: int, seq: int) -> None:
        sessions.set_option(tx, self._session_id, event.option, event.value, seq=seq, at_ms=now)
        if event.option == "thought_level" and event.by != BY_MODEL:
            sessions.remember_thinking(tx, self._session_id, event.value, seq=seq)

    def _follow_grant(self, tx: Transaction, event: GrantStored | GrantRevoked, now: int, seq: int) -> None:
        if isinstance(event, GrantRevoked):
            revoke_grant(tx, event.number, seq=seq, at_ms=now)
            return
        if event.lifetime == Lifetime.TURN:
            return
        grant = Grant(Effect(event.effect), GrantKind(event.kind), event.pattern, Lifetime(event.lifetime))
        owner = GrantOwner(event.project, event.persona)
        store_grant(tx, self._session_id, grant, owner, seq=seq, at_ms=now)

    def _follow_job(self, tx: Transaction, event: JobQuoted | JobMoved | JobSettled, now: int, seq: int) -> None:
        # Late: hardly a session has a job.
        from pattern_acp.jobs.store import follow_job

        row = follow_job(tx, self._session_id, event, seq=seq, at_ms=now)
        self._job = (row.id, row.turn_id) if row.state.is_agreed else ("", "")

    def _follow(self, tx: Transaction, event: Event, now: int, seq: int) -> None:
        if isinstance(event, InstructionsCompiled):
            sessions.set_persona_identity(tx, self._session_id, event.identity, seq=seq)
        if isinstance(event, PlanUpdated):
            index_steps(tx, self._session_id, self._search_owner, event.plan, at_ms=now, seq=seq)
        elif isinstance(event, JobQuoted | JobMoved | JobSettled):
            self._follow_job(tx, event, now, seq)
        else:
            self._count_skill(tx, event, now, seq)
            self._index_call(tx, event, now, seq)
            self._note_usage(tx, event, now, seq)
            self._move_cursor(tx, event, now, seq)

    def _index_skills(self, tx: Transaction, now: int, seq: int) -> None:
        skills = self.skills()
        known = tuple(f"{skill.name} {skill.digest}" for skill in skills)
        if known == self._found_skills:
            return
        for owner, of_project in ((self._search_owner, True), (self._persona, False)):
            texts = [
                (skill.name, f"{skill.name}: {skill.description}\n\n{skill.body}")
                for skill in skills
                if skill.of_project is of_project
            ]
            index_listed(tx, "skill", skills_source(owner), owner, texts, at_ms=now, seq=seq)
        # Were this transaction undone, they would be brought up to date at the next start.
        self._found_skills = known

    def _count_skill(self, tx: Transaction, event: Event, now: int, seq: int) -> None:
        inner = event.event if isinstance(event, SubagentRecorded) else event
        if isinstance(inner, ToolCallStarted) and inner.call.name == SKILL_TOOL:
            self._skill_calls.add(inner.call.call_id)
        elif isinstance(inner, ToolCallFinished) and inner.call_id in self._skill_calls:
            self._skill_calls.discard(inner.call_id)
            loaded = loaded_in(inner.result_text)
            if loaded is not None:
                count_skill_use(tx, loaded[1], loaded[0], at_ms=now, seq=seq)

    def _note_usage(self, tx: Transaction, event: Event, now: int, seq: int) -> None:
        name = event.name if isinstance(event, SubagentRecorded) else ""
        inner = event.event if isinstance(event, SubagentRecorded) else event
        if isinstance(inner, UsageReported):
            note_usage(tx, self._session_id, inner, seq=seq, at_ms=now, subagent=name)
            note_task_turn(tx, self._session_id, inner.turn_id, seq=seq)
            if self._job[0] and self._job[1] == inner.turn_id:
                from pattern_acp.jobs.store import JOB, draw_usage

                node = event.thread_id if isinstance(event, SubagentRecorded) else JOB
                draw_usage(tx, self._job[0], node, inner.usage, inner.spent, seq=seq)

    def _move_cursor(self, tx: Transaction, event: Event, now: int, seq: int) -> None:
        if isinstance(event, TurnEnded) and self._memory is not None:
            self._memory.store_recalls(tx, at_ms=now)
        if not self._persona:
            return
        if isinstance(event, TurnEnded):
            self._index_skills(tx, now, seq)
            note_activity(tx, self._persona, self._search_owner, at_ms=now, seq=seq)
        elif isinstance(event, ToolCallStarted) and event.call.name == CATCH_UP_CALL:
            move_cursor(tx, self._persona, self._search_owner, seq=seq)

    def _index_call(self, tx: Transaction, event: Event, now: int, seq: int) -> None:
        if isinstance(event, ToolCallStarted):
            self._calls[event.call.call_id] = event.call
        elif isinstance(event, ToolCallFinished) and event.call_id in self._calls:
            # Late: no call has ended before the first turn.
            from pattern_acp.session.searching import deed_of

            deed = deed_of(self._calls.pop(event.call_id), event)
            if deed.changes:
                index_deed(tx, self._session_id, self._search_owner, deed.searched, at_ms=now, seq=seq)

    def _index(self, tx: Transaction, kind: MessageKind, message: Message, now: int, seq: int) -> None:
        if message.searched.strip():
            index_message(
                tx,
                session_id=self._session_id,
                owner=self._search_owner,
                kind=kind,
                message_id=message.message_id,
                text=message.searched,
                at_ms=now,
                seq=seq,
            )


def _pin(tx: Transaction, event: ServerToolsPinned, now: int, seq: int) -> None:
    for tool in event.tools:
        pin = Pin(tool.name, tool.digest, tool.definition)
        store_pin(tx, event.server, event.identity, pin, seq=seq, at_ms=now)


def follow_trust(tx: Transaction, event: FolderTrustDecided, *, at_ms: int, seq: int) -> None:
    """Change the row that follows from a decision on a folder; what holds for one session only has none.

    Raises:
        DatabaseError: the file cannot be written.
    """
    if event.decision == "trusted":
        store_agreement(tx, event.root, event.digest, event.parts, seq=seq, at_ms=at_ms)
    elif event.decision == "revoked":
        remove_agreement(tx, event.root)


ANSWER_EVENTS = (TurnStarted, MessageRecorded, ContextAdded)
"""Kinds of events that `WholeAnswers` follows."""


class WholeAnswers:
    """The answers of one session, whose events it follows in order. Search has each of them once, and whole."""

    def __init__(self) -> None:
        self._answer: Message | None = None
        self._continues = False

    def copy(self) -> "WholeAnswers":
        """One that has followed the same events."""
        copied = WholeAnswers()
        copied._answer, copied._continues = self._answer, self._continues
        return copied

    def follow(self, event: Event) -> Message | None:
        """After an event with words for the model: the answer as far as it goes, with the id of its first part."""
        match event:
            case MessageRecorded(message=message, for_model=True):
                if self._continues and self._answer is not None:
                    text = self._answer.text + message.text
                    message = Message(self._answer.message_id, message.role, (TextPart(text),))
                self._answer, self._continues = message, False
                return message
            case ContextAdded(message=note) if note.text in CONTINUE_NOTES:
                self._continues = True
            case TurnStarted():
                self._answer, self._continues = None, False
            case _:
                pass
        return None
