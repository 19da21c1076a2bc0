"""One session: its state, and the single active turn."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
from msgspec import Struct, field

from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.ids import SessionId, ToolCallId
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.journal.events import SessionConfigured
from pattern_acp.policy.decision import Mode
from pattern_acp.providers.base import ModelInfo, ThoughtLevel
from pattern_acp.rewind.checkpoints import Checkpoints
from pattern_acp.session.constellation import Constellation
from pattern_acp.session.errors import OptionUnusableError
from pattern_acp.session.mcp import SessionMcp
from pattern_acp.session.options import (
    MODE_OPTION,
    MODEL_OPTION,
    THOUGHT_OPTION,
    Option,
    level_after,
    session_options,
)
from pattern_acp.session.ports import SessionPorts
from pattern_acp.session.state import FolderTrust, HookState, SessionMemory, SessionState
from pattern_acp.turn.recorder import JournalRecorder, NewEvent
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
    """Time of the first cancellation, by the event loop's clock."""

    def cancel(self) -> None:
        """Stop this prompt, whether it runs, waits or was only just received. Idempotent."""
        if self.cancelled_at is None:
            self.cancelled_at = anyio.current_time()
        self.scope.cancel()

    async def wait_for_earlier(self) -> None:
        """Wait for the prompts before this one, also when this one is cancelled: turns never interleave."""
        while (before := self.before) is not None:
            try:
                await before.done.wait()
                # asyncio may have woken us for the end although a cancel had come before.
                await anyio.lowlevel.checkpoint_if_cancelled()
            except anyio.get_cancelled_exc_class():
                with anyio.move_on_after(END_SECONDS, shield=True):
                    await before.done.wait()
                raise
            finally:
                if before.done.is_set():
                    # One that was withdrawn may have left before the one that it had to wait for.
                    self.before = before.before

    @property
    def seconds_to_end(self) -> float:
        """Seconds that recording the end may still take, when the answer is due soon."""
        passed = 0.0 if self.cancelled_at is None else anyio.current_time() - self.cancelled_at
        return max(END_SECONDS - passed, 0.0)


class SessionParts(Struct, frozen=True):
    """The capabilities that the opener hands to a session."""

    mcp: SessionMcp
    trust: FolderTrust
    jobs: Jobs | None
    checkpoints: Checkpoints


class Session:
    """One conversation. Independent of every other: own cwd, history, options and cancel state."""

    def __init__(
        self,
        constellation: Constellation,
        state: SessionState,
        ports: SessionPorts,
        memory: SessionMemory,
        recorder: JournalRecorder,
        parts: SessionParts,
    ) -> None:
        self.constellation = constellation
        self.state = state
        self.is_answering = False
        """True while a turn runs; false while a prompt only waits or asks where to go on."""
        self.memory = memory.persona
        self.person_memory = memory.person
        self.recorder = recorder
        self.mcp = parts.mcp
        self.trust = parts.trust
        self.jobs = parts.jobs
        self.checkpoints = parts.checkpoints
        self.hook_state = HookState()
        self.languages: LanguageServers | None = None
        self.subagents: dict[ToolCallId, Callable[[], None]] = {}
        """Functions that end running subagents, by the tool call that started each, in the order of their starts."""
        self.view = ports.view
        self.workbench = ports.workbench
        self.approver = ports.approver
        self._ticket: PromptTicket | None = None

    @property
    def session_id(self) -> SessionId:
        """The ACP session id."""
        return self.state.session_id

    @property
    def is_busy(self) -> bool:
        """True from the arrival of a prompt until its answer."""
        return self._ticket is not None

    def register_prompt(self) -> PromptTicket:
        """Take a prompt, in wire order and without waiting; one that runs is cancelled and will be waited for."""
        if self._ticket is not None:
            self._ticket.cancel()
        return self.queue_prompt()

    def queue_prompt(self) -> PromptTicket:
        """Take a prompt, in wire order and without waiting, that runs once those before it have ended."""
        self._ticket = PromptTicket(before=self._ticket)
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

    def options(self) -> tuple[Option, ...]:
        """The complete options with their current values."""
        models = self.constellation.models.available()
        return session_options(self.state.policy.mode, self.state.model, models, self.state.thought_level)

    async def set_option(self, option_id: str, value: str, *, by: str = "client") -> tuple[Option, ...]:
        """Set an option and return the complete list.

        Raises:
            InvalidRequestError: there is no such option, or it has no such value.
        """
        if option_id == THOUGHT_OPTION and value == "default":
            # The name of `auto` in earlier releases, which editors have saved.
            value = ThoughtLevel.AUTO
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
        await self.recorder.record(*(NewEvent(each, Actor.HUMAN, Origin.EDITOR) for each in configured))
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
