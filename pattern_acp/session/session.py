"""One session: its state, and the single active turn."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
from msgspec import Struct, field

from pattern_acp.config.settings import Settings
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.ids import SessionId, ToolCallId
from pattern_acp.domain.messages import Message
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.usage import Cost
from pattern_acp.journal.events import MemoryShown, SessionConfigured
from pattern_acp.policy.decision import Mode
from pattern_acp.providers.base import ModelInfo, ThoughtLevel, ToolForm
from pattern_acp.session.added_context import Addition
from pattern_acp.session.budgets import BudgetState
from pattern_acp.session.checkpoints import Checkpoints
from pattern_acp.session.constellation import Constellation
from pattern_acp.session.errors import OptionUnusableError
from pattern_acp.session.hooks import HookState
from pattern_acp.session.mcp import SessionMcp
from pattern_acp.session.options import (
    MODE_OPTION,
    MODEL_OPTION,
    THOUGHT_OPTION,
    Option,
    level_after,
    session_options,
)
from pattern_acp.session.ports import Client, SessionView, Workbench
from pattern_acp.session.recorded import Conversation, read_conversation
from pattern_acp.session.trust import FolderTrust
from pattern_acp.session.window import WindowState
from pattern_acp.tools.memory_access import ConstellationMemory
from pattern_acp.tools.skill import LoadSkill
from pattern_acp.turn.digests import RequestDigests
from pattern_acp.turn.gate import PolicyState
from pattern_acp.turn.loop import TurnEnd
from pattern_acp.turn.sink import Fact, JournalSink
from pattern_acp.workspace.jobs import Jobs

if TYPE_CHECKING:
    from pattern_acp.lsp.servers import LanguageServers


END_SECONDS = 1.5
"""Longest that recording a turn's end may take after a cancel; the answer is due within 2 s (invariant 3)."""


class PromptTicket(Struct):
    """A prompt that was received. Exists before its first await, so that a cancel in the next line finds it."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)
    before: "PromptTicket | None" = None
    cancelled_at: float | None = None
    """When it was first cancelled, by the event loop's clock."""

    def cancel(self) -> None:
        """Stop this prompt, whether it runs, waits or was only just received. Idempotent."""
        if self.cancelled_at is None:
            self.cancelled_at = anyio.current_time()
        self.scope.cancel()

    async def wait_for_earlier(self) -> None:
        """Wait for the prompt that this one replaced, also when this one is cancelled: turns never interleave."""
        if self.before is None:
            return
        try:
            await self.before.done.wait()
            # asyncio may have woken us for the end although a cancel had come before.
            await anyio.lowlevel.checkpoint_if_cancelled()
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(END_SECONDS, shield=True):
                await self.before.done.wait()
            raise
        finally:
            self.before = None

    @property
    def seconds_to_end(self) -> float:
        """How long recording the end may still take, when the answer is due soon."""
        passed = 0.0 if self.cancelled_at is None else anyio.current_time() - self.cancelled_at
        return max(END_SECONDS - passed, 0.0)


class SessionState(Struct):
    """What a session knows of itself."""

    session_id: SessionId
    client_id: SessionId
    """The id by which the client names it: that of the session which it was forked from while the client went on."""
    cwd: str
    additional_directories: tuple[str, ...]
    project_key: str
    title: str
    model: ModelInfo
    thought_level: ThoughtLevel
    policy: PolicyState
    system: str
    settings: Settings
    tool_form: ToolForm = ToolForm.AUTO
    instructions: tuple[tuple[str, int], ...] = ()
    """Files whose instructions are part of `system`, with their bytes."""
    history: list[Message] = field(default_factory=list[Message])
    used_calls: set[ToolCallId] = field(default_factory=set[ToolCallId])
    """Ids of all tool calls of the session, also of those that left the history: each is given once."""
    digests: RequestDigests = field(default_factory=RequestDigests)
    fingerprints: dict[str, str] = field(default_factory=dict[str, str])
    cost: Cost | None = None
    notices: list[str] = field(default_factory=list[str])
    waiting: list[Addition] = field(default_factory=list[Addition])
    """What the model is told with the next request (session/added_context.py)."""
    skill_tool: LoadSkill | None = None
    """The tool that loads skills, once a prompt has fixed what it lists."""
    unfinished: bool = False
    """Whether a turn's end could not be recorded."""
    unrecorded: TurnEnd | None = None
    """That end; None where it was a cancellation."""
    shown: MemoryShown | None = None
    """The memory that the model was last shown in whole."""
    redacted_seq: int = 0
    """The event of the newest forgetting that took words out of this conversation, as far as `history` knows."""
    settled: Conversation = field(default_factory=Conversation)
    """The conversation that was read from the journal last, up to the end of a turn."""
    reported_files: set[str] = field(default_factory=set[str])
    """Files of memory, in the state they were in, that the person was told about."""
    window: WindowState = field(default_factory=WindowState)
    """What is known of the model's window: token counts, and how well caches hold."""
    budgets: BudgetState = field(default_factory=BudgetState)
    """What may be spent, beside the settings."""
    told_of_memory: set[str] = field(default_factory=set[str])
    """Sentences on what of memory cannot be read that the person was told."""
    is_read: bool = False
    """Whether it is only shown, since another window has it."""


class SessionMemory(Struct, frozen=True):
    """The same memory twice: as the agent writes to it, and as the person does."""

    persona: ConstellationMemory
    person: ConstellationMemory


class Session:
    """One conversation. Independent of every other: own cwd, history, options and cancel state."""

    def __init__(
        self,
        constellation: Constellation,
        state: SessionState,
        client: Client,
        memory: SessionMemory,
        sink: JournalSink,
        mcp: SessionMcp,
        trust: FolderTrust,
    ) -> None:
        self.constellation = constellation
        self.state = state
        self.is_answering = False
        """Whether a turn runs, not only a prompt waits or asks where to go on."""
        self.memory = memory.persona
        self.person_memory = memory.person
        self.sink = sink
        self.mcp = mcp
        self.trust = trust
        self.hook_state = HookState()
        self.languages: LanguageServers | None = None
        self.subagents: dict[ToolCallId, Callable[[], None]] = {}
        """How to end each subagent that runs, by the tool call that it runs for, in the order of their starts."""
        self.checkpoints = Checkpoints(self)
        self.view: SessionView = client.view(state.client_id)
        self.workbench: Workbench = client.workbench(state.client_id)
        self.approver = client.approver(state.client_id)
        self.jobs: Jobs | None = None
        """What runs in the background; the opener sets it where anything can."""
        self._ticket: PromptTicket | None = None

    @property
    def session_id(self) -> SessionId:
        """The ACP session id."""
        return self.state.session_id

    @property
    def is_busy(self) -> bool:
        """Whether a prompt was received and is not answered."""
        return self._ticket is not None

    def register_prompt(self) -> PromptTicket:
        """Take a prompt, in wire order and without waiting; one that runs is cancelled and will be waited for."""
        before = self._ticket
        if before is not None:
            before.cancel()
        self._ticket = PromptTicket(before=before)
        return self._ticket

    def drop_prompt(self, ticket: PromptTicket) -> None:
        """Take back a prompt that will not be run, or that has ended."""
        if self._ticket is ticket:
            before = ticket.before
            self._ticket = before if before is not None and not before.done.is_set() else None
        ticket.done.set()

    def cancel(self) -> None:
        """Cancel every prompt that is not answered. No-op when idle."""
        ticket = self._ticket
        while ticket is not None:
            ticket.cancel()
            ticket = ticket.before

    async def wait_until_idle(self) -> None:
        """Wait until no prompt is unanswered."""
        while self._ticket is not None:
            await self._ticket.done.wait()

    async def reload_history(self) -> None:
        """Take the conversation afresh from the journal: a turn did not end by itself, or words were forgotten."""
        await read_conversation(self)

    def options(self) -> tuple[Option, ...]:
        """The complete options with their current values."""
        models = self.constellation.models.available()
        return session_options(self.state.policy.mode, self.state.model, models, self.state.thought_level)

    async def set_option(self, option_id: str, value: str, *, by: str = "client") -> tuple[Option, ...]:
        """Set an option and return the complete list.

        Raises:
            InvalidRequestError: there is no such option, or it has no such value.
        """
        chosen = next((option for option in self.options() if option.option_id == option_id), None)
        if chosen is None:
            known = ", ".join(option.option_id for option in self.options())
            raise OptionUnusableError(f"There is no option {option_id!r}; this session has {known}.")
        model = _model_named(self.constellation, value) if option_id == MODEL_OPTION else None
        if model is None and value not in {choice.value for choice in chosen.choices}:
            allowed = ", ".join(choice.value for choice in chosen.choices)
            raise OptionUnusableError(f"The option {option_id!r} has no value {value!r}; choose one of {allowed}.")
        configured = [SessionConfigured(option_id, model.qualified if model is not None else value, by)]
        state = self.state
        level = (
            state.thought_level
            if model is None
            else level_after(state.settings, state.thought_level, state.model, model)
        )
        if level is not state.thought_level:
            configured.append(SessionConfigured(THOUGHT_OPTION, level, by))
        await self.sink.record(*(Fact(each, Actor.HUMAN, Origin.EDITOR) for each in configured))
        # Only now: what could not be recorded was not set (rule R1).
        if model is not None:
            self.state.model, self.state.thought_level = model, level
        elif option_id == MODE_OPTION:
            self.state.policy.mode = Mode(value)
        elif option_id == THOUGHT_OPTION:
            self.state.thought_level = ThoughtLevel(value)
        return self.options()


def _model_named(constellation: Constellation, value: str) -> ModelInfo:
    try:
        return constellation.models.resolve(value)[1]
    except PatternError as error:
        raise OptionUnusableError(error.sentence, failure_code=error.failure_code) from error
