"""One session: its state, and the single active turn."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.lowlevel
from msgspec import Struct, field

from pattern_acp.commands.slash import COMMANDS, Typed, command_in
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId, ToolCallId, TurnId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.messages import Message, Part, typed_line, typed_words
from pattern_acp.journal.events import BY_MODEL, SessionConfigured
from pattern_acp.journal.sessions import remembered_thinking
from pattern_acp.policy.decision import Mode
from pattern_acp.providers.base import ModelInfo, ThoughtLevel
from pattern_acp.rewind.checkpoints import Checkpoints
from pattern_acp.session.constellation import Constellation
from pattern_acp.session.options import (
    MODE_OPTION,
    MODEL_OPTION,
    OVERLAP_OPTION,
    PERSONA_OPTION,
    THOUGHT_OPTION,
    Option,
    Overlap,
    level_after,
    session_options,
)
from pattern_acp.session.ports import ExtendedDialogue, OptionUnusableError, SessionPorts
from pattern_acp.turn.recorder import NewEvent
from pattern_acp.workspace.jobs import Jobs

if TYPE_CHECKING:
    from pattern_acp.lsp.servers import LanguageServers
    from pattern_acp.memory.service.session_memory import ConstellationMemory


AT_ONCE = 8
"""Most subagents of a session that work at once; a worker that waits for its own does not count."""

END_SECONDS = 1.5
"""Longest that recording a turn's end may take after a cancel; the answer is due within 2 s (invariant 3)."""


class PromptTicket(Struct):
    """A prompt that was received. Exists before its first await, so that a cancel in the next line finds it."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)
    before: "PromptTicket | None" = None
    cancelled_at: float | None = None
    """Time of the first cancellation, by the event loop's clock."""
    overlap: Overlap = Overlap.REPLACE
    """The treatment of this prompt where another runs."""
    parts: tuple[Part, ...] = ()
    """The prompt as it was sent."""
    edited: str | None = None
    """The text by which the user replaced the prompt's own while it waited."""
    is_ready: bool = False
    """True once nothing but the prompts before keeps it from running."""
    dropped: tuple[str, ...] = ()
    """The prompts that waited behind this one and were dropped with its cancellation."""
    last_words: str = ""
    """A sentence for the user that a cancelled turn shows before its answer, and records nowhere."""

    @property
    def text(self) -> str:
        """The words that the user typed."""
        return typed_words(self.parts) if self.edited is None else self.edited

    @property
    def steers(self) -> bool:
        """True when it may join the running turn between two tool calls. Commands of ours wait for its end."""
        line = typed_line(self.parts) if self.edited is None else self.edited
        return self.overlap is Overlap.STEER and self.is_ready and command_in(line) is None

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


class BackgroundWork(Protocol):
    """The subagents of a session that outlive the prompts which started them."""

    @property
    def results(self) -> tuple[str, ...]:
        """The names of those whose results wait for a turn."""
        ...

    async def settle(self, turn_id: TurnId, prompt: Message) -> None:
        """Ask about results that wait, land them, and let the model read their reports, in the turn that begins.

        `prompt` is what the user wrote: it goes to those that wait for words.

        Raises:
            DatabaseError: something could not be recorded.
        """
        ...

    async def turn_ends(self) -> None:
        """Show nothing more of those that work: their calls end with the turn.

        Raises:
            DatabaseError: something could not be recorded.
        """
        ...

    def close(self) -> None:
        """Tell all to end; does not wait."""
        ...

    async def wait_closed(self) -> None:
        """Wait until all have ended, or took too long."""
        ...


class LookingWork(Protocol):
    """The watches of a session that are on, which look between turns."""

    def close(self) -> None:
        """Look no more."""
        ...


class Session:
    """One conversation. Independent of every other: own cwd, history, options and cancel state."""

    def __init__(
        self, dialogue: ExtendedDialogue, ports: SessionPorts, jobs: Jobs | None, checkpoints: Checkpoints
    ) -> None:
        self.dialogue = dialogue
        self.constellation, self.state = dialogue.shared, dialogue.state
        self.running: PromptTicket | None = None
        """The prompt whose turn runs; None while a prompt only waits or asks where to continue."""
        self.change_persona: Callable[[str, str], Awaitable[None]] = _keep_persona
        """Continues as the persona of a name, on behalf of `client` or `agent`; its opener sets it."""
        self.recorder, self.approver = dialogue.recorder, dialogue.approver
        self.trust, self.mcp = dialogue.trust, dialogue.mcp
        self.jobs = jobs
        self.checkpoints = checkpoints
        self.languages: LanguageServers | None = None
        self.calls: dict[ToolCallId, Callable[[], None]] = {}
        """Functions that end running calls one by one."""
        self.wake: Callable[[Session], None] | None = None
        """Begins a turn of the agent's own; None where the protocol of the client has no form for one."""
        self.wakes = 0
        """Turns of the agent's own since the user's last prompt."""
        self.landing = anyio.Lock()
        """Held while changes of a worker land: each landing starts from what the one before left."""
        self.workers: BackgroundWork | None = None
        """Subagents in the background; None before the first."""
        self.watches: LookingWork | None = None
        """Looks for what watches of groups watch; None while none is on."""
        self.subagent_places = anyio.CapacityLimiter(AT_ONCE)
        """Places of the subagents that work at once."""
        self.subagents: dict[ToolCallId, Callable[[], None]] = {}
        """Functions that end running subagents, by the tool call that started each, in the order of their starts."""
        self.view = dialogue.view
        self.workbench = ports.workbench
        self.own_approver = ports.own_approver
        self.is_closed = False
        """True once it ends; nothing begins any more."""
        self._ticket: PromptTicket | None = None

    @property
    def session_id(self) -> SessionId:
        """The ACP session id."""
        return self.state.session_id

    @property
    def turn_id(self) -> TurnId:
        """The turn that runs, in which a command was typed; empty before the first."""
        return self.dialogue.turn_id

    @property
    def memory(self) -> "ConstellationMemory":
        """Memory as the agent writes to it."""
        return self.dialogue.memory.persona

    @property
    def person_memory(self) -> "ConstellationMemory":
        """Memory as the user writes to it."""
        return self.dialogue.memory.person

    @property
    def is_busy(self) -> bool:
        """True from the arrival of a prompt until its answer."""
        return self._ticket is not None

    @property
    def is_answering(self) -> bool:
        """True while a turn runs."""
        return self.running is not None

    def take_prompt(self, parts: Sequence[Part]) -> PromptTicket:
        """Take a prompt, in wire order and without waiting; what becomes of those before it is an option."""
        overlap = self.state.overlap
        if overlap is Overlap.REPLACE:
            return self._replace_prompts(tuple(parts))
        return self._queue_prompt(tuple(parts), overlap)

    def take_again(self, ticket: PromptTicket) -> PromptTicket:
        """Take a prompt that another session, in whose place this one is, had taken."""
        if ticket.overlap is Overlap.REPLACE:
            return self._replace_prompts(ticket.parts)
        return self._queue_prompt(ticket.parts, ticket.overlap)

    def register_prompt(self) -> PromptTicket:
        """Take a turn without a prompt; one that runs is cancelled and will be waited for."""
        return self._replace_prompts(())

    def _replace_prompts(self, parts: tuple[Part, ...]) -> PromptTicket:
        ticket = self._ticket
        while ticket is not None:
            ticket.cancel()
            ticket = ticket.before
        return self._queue_prompt(parts, Overlap.REPLACE)

    def _queue_prompt(self, parts: tuple[Part, ...], overlap: Overlap) -> PromptTicket:
        self._ticket = PromptTicket(before=self._ticket, overlap=overlap, parts=parts)
        return self._ticket

    @property
    def waiting(self) -> tuple[PromptTicket, ...]:
        """The prompts that wait for the one that runs, in the order in which they will."""
        found: list[PromptTicket] = []
        ticket = self._ticket
        while ticket is not None:
            is_open = ticket.cancelled_at is None and not ticket.done.is_set()
            if ticket is not self.running and is_open and ticket.parts:
                found.append(ticket)
            ticket = ticket.before
        return tuple(reversed(found))

    def command_beside(self, parts: Sequence[Part]) -> Typed | None:
        """The command of ours that a prompt is, where it is answered at once beside the turn that runs."""
        typed = (
            command_in(typed_line(parts))
            if self._ticket is not None and self.state.overlap is not Overlap.REPLACE
            else None
        )
        return typed if typed is not None and COMMANDS[typed.name].beside else None

    def take_own_turn(self) -> PromptTicket:
        """Take a turn of the agent's own."""
        self.wakes += 1
        return self._queue_prompt((), Overlap.QUEUE)

    def wake_if_due(self) -> None:
        """Begin a turn of the agent's own when background work has ended that nobody told the model of."""
        may_wake = self.wakes < self.state.settings.turn.wakes and not self.state.is_read and not self.is_closed
        if (
            self.wake is not None
            and may_wake
            and not self.is_busy
            and (
                (self.jobs is not None and self.jobs.untold_ends())
                or (self.workers is not None and self.workers.results)
            )
        ):
            self.wake(self)

    def is_steered(self) -> bool:
        """True when the next prompt waits to join the running turn."""
        waiting = self.waiting
        return bool(waiting) and waiting[0].steers

    def drop_prompt(self, ticket: PromptTicket) -> None:
        """Take back a prompt that will not be run, or that has ended."""
        if self._ticket is ticket:
            before = ticket.before
            self._ticket = before if before is not None and not before.done.is_set() else None
        ticket.done.set()
        self.wake_if_due()

    def cancel(self, last_words: str = "") -> None:
        """Cancel every prompt that is not answered; the turn names those that are dropped. No-op when idle.

        The turn shows `last_words` before it is answered: nothing of it may follow the answer.
        """
        if self.running is not None:
            self.running.last_words = last_words or self.running.last_words
            self.running.dropped = tuple(each.text for each in self.waiting if each.overlap is not Overlap.REPLACE)
        ticket = self._ticket
        while ticket is not None:
            ticket.cancel()
            ticket = ticket.before

    async def wait_until_idle(self) -> None:
        """Wait until no prompt is unanswered."""
        while self._ticket is not None:
            await self._ticket.done.wait()

    def options(self) -> tuple[Option, ...]:
        """The complete options with their current values, as the client shows them."""
        return self._options(shows_overlap=self.state.shows_overlap)

    def _options(self, *, shows_overlap: bool) -> tuple[Option, ...]:
        state, models = self.state, self.constellation.models.available()
        overlap = state.overlap if shows_overlap else None
        more = (overlap, state.persona.name, self.constellation.personas)
        return session_options(state.policy.mode, state.model, models, state.thought_level, *more)

    async def set_option(self, option_id: str, value: str, *, by: str = "client") -> tuple[Option, ...]:
        """Set an option and return the complete list.

        Raises:
            InvalidRequestError: there is no such option, or it has no such value.
        """
        if option_id == THOUGHT_OPTION and value == "default":
            # The name of `auto` in earlier releases, which editors have saved.
            value = ThoughtLevel.AUTO
        known_here = self._options(shows_overlap=True)
        chosen = next((option for option in known_here if option.option_id == option_id), None)
        if chosen is None:
            known = ", ".join(option.option_id for option in self.options())
            raise OptionUnusableError(f"There is no option {option_id!r}; this session has {known}.")
        model = _model_named(self.constellation, value) if option_id == MODEL_OPTION else None
        if model is None and value not in {choice.value for choice in chosen.choices}:
            allowed = ", ".join(choice.value for choice in chosen.choices)
            raise OptionUnusableError(f"The option {option_id!r} has no value {value!r}; choose one of {allowed}.")
        if option_id == PERSONA_OPTION:
            await self._change_persona(value, by)
            return self.options()
        await self._configure(option_id, value, model, by)
        return self.options()

    async def _change_persona(self, name: str, by: str) -> None:
        if self.is_busy and by == "client":
            raise OptionUnusableError("A turn runs; choose another persona once it has ended, or cancel it first.")
        await self.change_persona(name, by)

    async def _configure(self, option_id: str, value: str, model: ModelInfo | None, by: str) -> None:
        configured = [SessionConfigured(option_id, model.qualified if model is not None else value, by)]
        state = self.state
        level = state.thought_level
        if model is not None:
            name = model.qualified
            remembered = await self.constellation.database.read(lambda tx: remembered_thinking(tx, name))
            level = level_after(state.settings, level, state.model, model, remembered)
        if level is not state.thought_level:
            configured.append(SessionConfigured(THOUGHT_OPTION, level, BY_MODEL))
        await self.recorder.record(*(NewEvent(each, Actor.HUMAN, Origin.EDITOR) for each in configured))
        # Only now: what could not be recorded was not set (rule R1).
        if model is not None:
            self.state.model, self.state.thought_level = model, level
        elif option_id == MODE_OPTION:
            self.state.policy.mode = Mode(value)
        elif option_id == THOUGHT_OPTION:
            self.state.thought_level = ThoughtLevel(value)
        elif option_id == OVERLAP_OPTION:
            self.state.overlap = Overlap(value)


async def _keep_persona(name: str, by: str) -> None:
    del name, by


def _model_named(constellation: Constellation, value: str) -> ModelInfo:
    try:
        return constellation.models.resolve(value)[1]
    except PatternError as error:
        raise OptionUnusableError(error.sentence, failure_code=error.failure_code) from error
