"""One turn, from top to bottom: the stages that a prompt goes through, each a function, in `_run_stages`.

`run_prompt` receives a prompt and `run_turn` ends it. Between them the stages run one after the other; the first that
returns the turn's end is the last. In `_ask` memory is recalled, requests are composed, the model
answers and tools run (`turn.loop`), and checks have their say.

Owns: that a turn which was begun is ended in the journal exactly once, with one failure where it failed, whatever goes
wrong on the way. Must not know: which turn waits for which (`session.session`), what calls find (`session.turn_tools`).
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.commands.document import Result, markdown
from pattern_acp.commands.parameters import read_slash
from pattern_acp.commands.slash import COMMANDS, Typed, command_of
from pattern_acp.context.builder import MemoryView, add_context, build_request, known_memory, note_section
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import IdFactory, MessageId, TurnId, local_moment
from pattern_acp.domain.errors import DatabaseError, PatternError, unwrap_exception_group
from pattern_acp.domain.messages import Message, Part, Role, TextPart, typed_parts
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import StopReason, ToolKind
from pattern_acp.domain.untrusted_blocks import NOTHING, Section, untrusted_line
from pattern_acp.journal.codec import LeaseLostError
from pattern_acp.journal.events import OWN_TURN, ContextAdded, DriftTold, SessionTitled, TurnEnded, TurnStarted
from pattern_acp.journal.turn_ends import InterruptedEnd, TurnFailure, close_interrupted, failure_of
from pattern_acp.mcp_servers.catalogue import ServerError
from pattern_acp.policy.decision import Mode
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.http_errors import ProviderAuthError
from pattern_acp.rewind.checkpoints import Checkpoints
from pattern_acp.session.activity_summary import catch_up_at_start
from pattern_acp.session.attachments import given_files, with_files
from pattern_acp.session.budgets import BudgetGate
from pattern_acp.session.commands import more_commands, refuse_unknown, title_of
from pattern_acp.session.constellation import Constellation
from pattern_acp.session.context_usage import skill_tools, stable_part
from pattern_acp.session.definition_pins import follow_used, tell_drift
from pattern_acp.session.definitions import (
    allowed_by_command,
    expand_command,
    fix_skills,
    names_written,
    tools_of_persona,
)
from pattern_acp.session.hooks import MOST_CONTINUATIONS, after_answer, before_prompt
from pattern_acp.session.instructions import add_waiting, note_changed_files, note_files_in_hand
from pattern_acp.session.jobs import ended_notices, job_notes
from pattern_acp.session.mcp import SessionMcp
from pattern_acp.session.memory_context import (
    PromptRecall,
    RequestMemory,
    drop_forgotten,
    exchange_files,
    memory_changes,
    memory_of_request,
    reload_history,
    show_memory,
    tell_repeats,
)
from pattern_acp.session.opening import look_at_grants, refresh_grants
from pattern_acp.session.options import Overlap, thought_level_of
from pattern_acp.session.ports import CredentialsError, Dialogue, ExtendedDialogue, Workbench
from pattern_acp.session.session import END_SECONDS, BackgroundWork, PromptTicket, Session
from pattern_acp.session.state import SessionState
from pattern_acp.session.trust import ensure_trust
from pattern_acp.session.turn_tools import TurnTools, own_tools
from pattern_acp.session.window import SessionWindow, tokens_in
from pattern_acp.turn.budget import Budget, Limits, UserWaitTimer
from pattern_acp.turn.loop import CallIds, ModelInUse, StreamRetries, TurnEnd, TurnLoop, show_sentence
from pattern_acp.turn.recorder import SHOW_SECONDS, JournalRecorder, NewEvent, TextStreamed, new_end_events
from pattern_acp.workspace.git import SECONDS as GIT_SECONDS
from pattern_acp.workspace.jobs import Jobs, job_sentence

if TYPE_CHECKING:
    from pattern_acp.mcp_servers.server import Server
    from pattern_acp.turn.checks import ConfiguredChecks

logger = logging.getLogger(__name__)

UNFORESEEN = "The turn stopped because of a fault in pattern-acp; the log has details. Prompt again to continue."

WOKEN = (
    "The user has not written since. Look at what it wrote if that matters, and continue with what you had planned for "
    "its end; if there is nothing to do, say so in one sentence."
)
"""Note to the model at the beginning of a turn of its own."""

CLIENT_GONE = "editor.gone"
"""The code of the failure of a connection that ended while the turn used it."""

BACKGROUND_WORK = "background work"
"""The source of that note."""

HOW_TO_ADOPT = "/definitions diff compares with today's definitions, /definitions adopt takes them."

SHOWN_PROMPT = 80
"""Characters of a prompt that a sentence names."""

CONTINUED_TOO_OFTEN = TurnEnd(
    StopReason.END_TURN,
    f"Checks, language servers and hooks let this turn continue {MOST_CONTINUATIONS} times; that is the limit.",
    failure=TurnFailure("turn.continued-too-often"),
)


class Turn(Struct):
    """One turn, and which of its ends the journal has."""

    turn_id: TurnId
    message: Message
    command: Typed | None
    """The command of ours that the prompt is."""
    begun: bool = False
    """True once it is the turn that runs."""
    started: bool = False
    ended: bool = False
    refusal: TurnEnd | None = None
    """The end of a turn whose prompt could not be completed; it is recorded first."""
    insertion: "Insertion | None" = None

    @property
    def is_own(self) -> bool:
        """True for a turn that the agent begins itself."""
        return self.command is not None and self.command.name == OWN_TURN

    def retype(self, text: str) -> None:
        """Replace the words of the prompt; what was attached to it stays."""
        typed = typed_parts(self.message.parts)
        attached = (part for part in self.message.parts if part not in typed)
        self.message = replace(self.message, parts=(TextPart(text), *attached))
        self.command = command_of(self.message)


class Insertion(Struct, frozen=True):
    """Who waits until the conversation has the user's message. A prompt that is cancelled before leaves no trace."""

    key: str
    """The client's idempotency key; empty without one."""
    inserted: Callable[[Message], None]
    """Called once the journal has the message, also when a cancel prevented it from being shown."""


async def run_prompt(
    session: Session, ticket: PromptTicket, turn: Turn, first: Callable[[], Awaitable[None]] | None = None
) -> TurnEnd:
    """Run the turn of `ticket` once the one before has ended; `first` is what comes before all else.

    The caller drops the ticket: until then the next prompt waits.

    Raises:
        CredentialsError: the provider's key is missing or was refused.
    """
    end = TurnEnd(StopReason.CANCELLED)
    try:
        with ticket.scope:
            ticket.is_ready = True
            if ticket.before is not None:
                await ticket.wait_for_earlier()
            if ticket.edited is not None:
                turn.retype(ticket.edited)
            if first is not None:
                await first()
            session.running, turn.begun = ticket, True
            session.wakes = session.wakes if turn.is_own else 0
            session.constellation.turn_began.set()
            end = await run_turn(session, turn)
        if ticket.scope.cancel_called:
            # Also when the cancel came too late to change anything: the client must hear `cancelled`.
            end = TurnEnd(StopReason.CANCELLED)
            # Who cancels wants quiet: nothing begins on its own until the next prompt.
            session.wakes = session.state.settings.turn.wakes
            await end_cancelled(session.dialogue, session.checkpoints, turn, ticket.seconds_to_end, ticket)
    except anyio.get_cancelled_exc_class():
        # The connection is going down, not this prompt: its end is recorded all the same.
        await end_cancelled(session.dialogue, session.checkpoints, turn, END_SECONDS, ticket)
        raise
    finally:
        if session.running is ticket:
            session.running = None
    return end


def new_turn(ids: IdFactory, parts: Sequence[Part]) -> Turn:
    """The turn for a prompt of these parts."""
    message = Message(MessageId(ids.new("msg")), Role.USER, tuple(parts))
    return Turn(TurnId(ids.new("turn")), message, command_of(message))


def new_own_turn(ids: IdFactory) -> Turn:
    """The turn that the agent begins when background work has ended; it has no prompt."""
    return Turn(TurnId(ids.new("turn")), Message(MessageId(ids.new("msg")), Role.USER, ()), Typed(OWN_TURN, ""))


async def run_turn(session: Session, turn: Turn) -> TurnEnd:
    """Answer the prompt and record the end, good or bad.

    Raises:
        CredentialsError: the provider's key is missing or was refused; that is recorded and shown.
    """
    session.recorder.begin(turn.turn_id)
    session.dialogue.memory.begin(turn.turn_id)
    refused: CredentialsError | None = None
    try:
        try:
            if session.state.memory_fork is not None:
                # Late: most conversations have no fork of memory.
                from pattern_acp.session.session_commands import leave_ended_fork

                await leave_ended_fork(session)
            end = await _answer(session, turn)
        except CredentialsError as error:
            refused, end = error, failed_end(error)
        if session.workers is not None:
            await session.workers.turn_ends()
        if (job := session.state.job) is not None:
            # Late: hardly a session has a job.
            from pattern_acp.session.agreed_jobs import leave_job

            await leave_job(session.dialogue, job)
        turn.ended = True
        ended = new_end_events(turn.turn_id, end.stop_reason, end.sentence, end.failure, handed_over=end.handed_over)
        await session.recorder.record(*ended, behind=session.checkpoints.at_end(turn.turn_id))
        await session.checkpoints.close_turn()
    except (DatabaseError, LeaseLostError) as error:
        _log_unrecorded("a turn", error)
        refused, end = None, await _nothing_saved(session.dialogue, error)
    except Exception as error:
        # Not even the failure could be shown. The next turn ends this one in the journal.
        session.state.unrecorded, session.state.unfinished = failed_end(error), True
        raise
    finally:
        if session.state.job is not None:
            session.state.model, session.state.job = session.state.job.model, None
        # Also before an error: nothing may follow the answer.
        await session.view.settle()
    if refused is not None:
        await reload_history(session.dialogue)
        raise refused
    return end


async def _answer(session: Session, turn: Turn) -> TurnEnd:
    """Run the stages, and show all but the turn's end, which it returns."""
    workbench, shows_none = session.workbench, session.workbench.show_warnings
    workbench.show_warnings = partial(_show_warnings, session.dialogue, session.workbench, turn)
    try:
        async with _committing(session.recorder):
            end = await _run_stages(session, turn)
        if end.was_cut:
            await reload_history(session.dialogue)
        if end.sentence:
            await show_sentence(session.recorder, turn.turn_id, session.constellation.ids, end.sentence)
        await _exchange_files(session.dialogue)
        await show_notices(session.dialogue, session.workbench, turn.turn_id)
    except CredentialsError as error:
        # Some editors show another page instead of the chat, or nothing, for this error.
        await show_sentence(session.recorder, turn.turn_id, session.constellation.ids, error.sentence)
        error.is_shown = True
        raise
    except (DatabaseError, LeaseLostError):
        raise
    except Exception as error:  # noqa: BLE001  the boundary: whatever happened, the turn gets its end
        end = failed_end(error)
        if not turn.started:
            await _record_start(session.state, session.recorder, turn)
        await reload_history(session.dialogue)
        if end.sentence:
            await show_sentence(session.recorder, turn.turn_id, session.constellation.ids, end.sentence)
    finally:
        workbench.show_warnings = shows_none
    return end


async def _run_stages(session: Session, turn: Turn) -> TurnEnd:
    """The stages of a turn between its receipt and its end, from top to bottom; the first that returns an end is last.

    A turn that the agent begins itself has no prompt to attach files to, to answer as a command, or to run hooks for.
    """
    dialogue = session.dialogue
    await _settle_earlier(session.dialogue, session.checkpoints, turn)
    if turn.is_own:
        end = await _record_own(dialogue, session.jobs, session.workers, turn)
    else:
        await _attach(dialogue, session.workbench, turn)
        end = await _record_prompt(dialogue, turn)
        end = end or await _run_own_command(session, turn)
        end = end or await _check_folder(session.dialogue, turn)
    if end is None:
        await _show_news(session, turn)
        if not turn.is_own:
            end = await before_prompt(dialogue, turn.turn_id)
    return end or await _ask(session, turn)


@asynccontextmanager
async def _committing(recorder: JournalRecorder) -> AsyncGenerator[None, None]:
    """Commit what waits for a commit every second."""
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(recorder.commit_every_second)
            yield
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group_error:
        raise unwrap_exception_group(group_error) from group_error


async def _settle_earlier(dialogue: ExtendedDialogue, checkpoints: Checkpoints, turn: Turn) -> None:
    """Finish what an earlier turn, or going back, left unfinished: this turn continues from what the journal has.

    Raises:
        DatabaseError: the journal still cannot be written.
    """
    if dialogue.state.unfinished:
        await _close_unfinished(dialogue, checkpoints)
    if dialogue.shared.before_turn is not None:
        await dialogue.shared.before_turn()
    if turn.command is not None:
        # The requests of a turn of the model see to it themselves.
        await drop_forgotten(dialogue)
    if checkpoints.rewinding:
        from pattern_acp.session.rewind_requests import finish_left_over

        await finish_left_over(dialogue, checkpoints)
    # What a turn changed that was cut off belongs to it and not to this one.
    await checkpoints.close_turn()


async def _close_unfinished(dialogue: Dialogue, checkpoints: Checkpoints) -> None:
    """Complete in the journal the turn whose end could not be recorded."""
    now = dialogue.shared.clock.now_ms()
    # Without an end that could not be recorded, it was a cancellation.
    end = dialogue.state.unrecorded or TurnEnd(StopReason.CANCELLED)
    how = InterruptedEnd(end.stop_reason, end.sentence, end.failure)

    def close(tx: Transaction) -> None:
        for entry in close_interrupted(tx, dialogue.session_id, at_ms=now, how=how):
            if isinstance(entry.event, TurnEnded):
                checkpoints.at_end(entry.event.turn_id)(tx)

    await dialogue.shared.database.write(close)
    dialogue.state.unfinished, dialogue.state.unrecorded = False, None
    await reload_history(dialogue)


async def _attach(dialogue: ExtendedDialogue, workbench: Workbench, turn: Turn) -> None:
    """Fill in a prompt of an MCP server that the user chose, and the files that the prompt names."""
    try:
        if dialogue.mcp.servers.servers:
            await _use_file_server(workbench, dialogue.mcp, may_wait=turn.command is None)
            turn.message = await dialogue.mcp.expanded(turn.message)
    except ServerError as error:
        # Recorded like a command of ours, which the model does not see.
        turn.command = Typed(turn.message.typed_line.split()[0].lstrip("/"), "")
        turn.refusal = TurnEnd(StopReason.END_TURN, error.sentence, failure=failure_of(error))
    if turn.command is None:
        turn.message = await with_files(dialogue.state, workbench, turn.message)


async def _use_file_server(workbench: Workbench, mcp: SessionMcp, *, may_wait: bool) -> None:
    """Read and write files through an MCP server of the client, where it brings one and serves none itself."""
    if not workbench.has_editor_files:
        found = await mcp.file_server(may_wait=may_wait)
        if found is not None:
            workbench.use_server(*found)


async def _record_prompt(dialogue: Dialogue, turn: Turn) -> TurnEnd | None:
    """Record that the turn has begun, and add the prompt to the conversation."""
    await _record_start(dialogue.state, dialogue.recorder, turn)
    if turn.command is None:
        dialogue.state.history.append(turn.message)
        files = given_files(dialogue.state, turn.message)
        if files and dialogue.shared.elsewhere is None:
            await note_files_in_hand(dialogue.state, ToolKind.READ, files, dialogue.state)
    return turn.refusal


async def _record_own(
    dialogue: Dialogue, jobs: Jobs | None, workers: BackgroundWork | None, turn: Turn
) -> TurnEnd | None:
    """Record that the agent begins a turn, and tell the model why."""
    turn.started = True
    ended = [f"Background job {job_sentence(job)}" for job in jobs.untold_ends()] if jobs is not None else []
    ended += [f"{name} has finished in the background." for name in workers.results] if workers is not None else []
    if not ended:
        # A prompt that came before has heard of them.
        await _record_start(dialogue.state, dialogue.recorder, turn)
        return TurnEnd(StopReason.END_TURN)
    note = str(untrusted_line("note", " ".join([*ended, WOKEN])))
    told = Message(MessageId(dialogue.shared.ids.new("msg")), Role.USER, (TextPart(note),))
    started = NewEvent(TurnStarted(turn.turn_id, turn.message, OWN_TURN), Actor.SYSTEM, Origin.AGENT)
    added = NewEvent(ContextAdded(turn.turn_id, told, (BACKGROUND_WORK,)), Actor.SYSTEM, Origin.AGENT)
    await dialogue.recorder.record(started, added)
    add_context(dialogue.state.history, told)
    return None


async def _record_start(state: SessionState, recorder: JournalRecorder, turn: Turn) -> None:
    turn.started = True
    name = turn.command.name if turn.command is not None else ""
    insertion = turn.insertion
    key = insertion.key if insertion is not None else ""
    events = [NewEvent(TurnStarted(turn.turn_id, turn.message, name, key), Actor.HUMAN, Origin.PERSON)]
    title = state.title or (title_of(turn.message) if turn.command is None else "")
    if title != state.title:
        events.append(NewEvent(SessionTitled(title), Actor.SYSTEM, Origin.PERSON))
    if insertion is not None:
        recorder.tell_when_recorded(lambda: insertion.inserted(turn.message))
    if turn.command is None and not _keeps_files(state):
        # The first request to the model takes it along, or whatever is recorded before.
        await recorder.record_soon(*events)
    else:
        # Memory that the user changes must be found behind it.
        await recorder.record(*events)
    state.title = title


async def _run_own_command(session: Session, turn: Turn) -> TurnEnd | None:
    """Answer a slash command of ours, which ends the turn."""
    if turn.command is None:
        return None
    if session.state.settings.tasks.files:
        # The answer has what was edited in a file just before.
        await _exchange_files(session.dialogue)
    end = await run_command(session, turn.turn_id, turn.command)
    if not session.state.title and not session.checkpoints.is_clean:
        # Lists leave out what has no title, and this session has files to go back in.
        session.state.title = title_of(turn.message)
        await session.recorder.record(NewEvent(SessionTitled(session.state.title), Actor.SYSTEM, Origin.PERSON))
    return end


async def run_command(session: Session, turn_id: TurnId, command: Typed) -> TurnEnd | None:
    """Answer a slash command with a message that the model does not see; None where the model is to work on it."""
    answer = await _answer_of(session, command)
    if answer is None or isinstance(answer, TurnEnd):
        return answer
    sentence = markdown(answer.document)
    await show_sentence(session.recorder, turn_id, session.constellation.ids, sentence)
    return TurnEnd(StopReason.END_TURN)


async def answer_beside(session: Session, command: Typed) -> str:
    """The answer of a slash command beside the turn that runs, to be shown at once and recorded nowhere.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    answer = await _answer_of(session, command)
    # Clients join the text of messages that follow each other.
    text = answer.sentence if isinstance(answer, TurnEnd) else markdown(answer.document) if answer is not None else ""
    return f"\n\n{text}\n\n"


async def _answer_of(session: Session, command: Typed) -> Result | TurnEnd | None:
    """The answer of a slash command; the end of its turn where it cannot be carried out, None where work follows."""
    row = COMMANDS[command.name]
    try:
        values = read_slash(row, command.argument, f"/{row.name}")
        if row.in_session:
            return await row.run(resolve_name(row.in_session)(session), **values)
        return await row.run(*(getattr(session, part) for part in row.parts) if row.parts else (session,), **values)
    except (DatabaseError, LeaseLostError):
        raise
    except PatternError as error:
        return TurnEnd(StopReason.END_TURN, error.sentence, failure=failure_of(error))


def _keeps_files(state: SessionState) -> bool:
    return state.settings.memory.files or state.settings.tasks.files


async def _exchange_files(dialogue: Dialogue) -> None:
    """Take in what was edited in files of memory and tasks, and bring them up to date."""
    await exchange_files(dialogue)
    if dialogue.state.settings.tasks.files:
        # Late: most users keep no files.
        from pattern_acp.session.task_commands import exchange_task_files

        await exchange_task_files(dialogue)


async def _check_folder(dialogue: ExtendedDialogue, turn: Turn) -> TurnEnd | None:
    """Bring in what changed outside: files of memory, and what the folder offers, about which the user is asked."""
    if _keeps_files(dialogue.state):
        await _exchange_files(dialogue)
    await note_changed_files(dialogue.shared, dialogue.state)
    commands = more_commands(dialogue.trust, dialogue.mcp)
    await ensure_trust(dialogue, turn.turn_id)
    if more_commands(dialogue.trust, dialogue.mcp) != commands:
        await dialogue.view.show_commands(more_commands(dialogue.trust, dialogue.mcp))
    unknown = await refuse_unknown(dialogue, turn.turn_id)
    if unknown is None:
        fix_skills(dialogue)
    return unknown


async def _show_news(session: Session, turn: Turn) -> None:
    """Tell the user what they should know before the model answers: servers, commands that ended, keys."""
    if session.state.claims:
        # Late: most turns begin without claims.
        from pattern_acp.session.edit_warnings import renew_claims

        await renew_claims(session.dialogue)
    news = await session.mcp.get_ready(partial(_sign_in_at, session.dialogue, turn.turn_id))
    tell_drift(session.state, await follow_used(session.dialogue))
    if session.state.untold_drift and not turn.is_own:
        # Late: most turns begin without.
        from pattern_acp.session.adoption import ask_about_drift

        await ask_about_drift(session.dialogue, turn.turn_id)
    session.state.notices += [*news, *ended_notices(session.jobs), *_key_warnings(session.constellation, session.state)]
    await show_notices(session.dialogue, session.workbench, turn.turn_id)
    if session.state.reported and session.constellation.background is not None:
        # Late: hardly a session was cut off with results that wait.
        from pattern_acp.session.subagents.background import background_of

        await background_of(session).restore((await own_tools(session, turn.turn_id)).parts)
    if session.state.watches and session.watches is None:
        # Late: hardly a session watches anything.
        from pattern_acp.session.group_watches import begin_watches

        begin_watches(session)
    if session.workers is not None:
        await session.workers.settle(turn.turn_id, turn.message)
    await session.constellation.models.learn(session.state.model.qualified)


async def _sign_in_at(dialogue: Dialogue, turn_id: TurnId, server: "Server") -> bool:
    from pattern_acp.session.mcp_sign_in import offer_sign_in

    return await offer_sign_in(dialogue, turn_id, server)


def _key_warnings(shared: Constellation, state: SessionState) -> list[str]:
    """A sentence for each provider that this session's models may go to and whose key goes there unencrypted; once."""
    settings = state.settings
    delegate = settings.delegate
    others = (delegate.model, delegate.explorer_model, delegate.worker_model, delegate.reviewer_model)
    names = (state.model.qualified, *settings.fallback, *others, settings.memory.embedder)
    warnings: list[str] = []
    for name in names:
        warning = shared.models.key_warning(name)
        if warning and warning not in shared.warned:
            shared.warned.add(warning)
            warnings.append(warning)
    return warnings


async def _ask(session: Session, turn: Turn) -> TurnEnd:
    """Ask the model until it, the checks and the hooks are done; a failure becomes an ordinary end.

    Raises:
        CredentialsError: the key is missing or was refused; editors then offer to sign in.
    """
    shared, state, limits = session.constellation, session.state, session.state.settings.turn
    # Of the whole turn, its subagents included.
    asked = Limits(limits.max_model_requests, limits.max_wall_seconds)
    asked = asked if state.job is None else state.job.limiting(asked)
    budget = Budget(asked, shared.clock, UserWaitTimer(shared.clock), cost=state.cost)
    try:
        may_switch = state.job is None
        gate = BudgetGate(session, turn.turn_id, budget.waits, may_switch=may_switch, asks=not turn.is_own)
        model = _model_in_use(session.dialogue, gate)
        tools = await _tools_of(session, turn, budget)
        if isinstance(tools, TurnEnd):
            return tools
        if state.settings.jobs.ask_above and not turn.is_own:
            # Late: most users have no such limit.
            from pattern_acp.session.job_offers import JobOffers

            tools.work_ahead = JobOffers(session, tools)
        composer = _Composer(session.dialogue, session.workbench, session.jobs, turn)
        await composer.recall()
        while True:
            window = composer.window = SessionWindow(
                session.dialogue, turn.turn_id, model, composer.compose, budget, gate
            )
            loop = TurnLoop(
                model=model,
                build=composer.build,
                new_runner=tools.runner,
                recorder=session.recorder,
                ids=shared.ids,
                call_ids=CallIds(state.used_calls),
                digests=state.digests,
                budget=budget,
            )
            loop.window, loop.gate, loop.hands_over = window, gate, session.is_steered
            loop.resumption = StreamRetries(state.settings.turn.stream_retries, shared.pauses)
            for continued in range(MOST_CONTINUATIONS + 1):
                end = await loop.run(turn.turn_id, state.history)
                if not await _goes_on(session, turn.turn_id, end, tools, active=continued > 0):
                    break
            else:
                state.waiting.clear()
                end = CONTINUED_TOO_OFTEN
            if not state.budgets.switched and not (
                state.job and await _gets_more_time(session.dialogue, turn, end, budget)
            ):
                break
            state.budgets.switched = False
            model = _model_in_use(session.dialogue, gate)
        await window.after_turn()
        await gate.after_turn()
        end = end if state.job is None else await _settle_job(session.dialogue, session.checkpoints, turn, end, tools)
    except ProviderAuthError as error:
        raise CredentialsError(error.sentence, failure_code=error.failure_code) from error
    except (DatabaseError, LeaseLostError):
        raise
    except Exception as error:  # noqa: BLE001  the boundary: it is logged, told and recorded
        end = failed_end(error)
        await reload_history(session.dialogue)
    finally:
        state.cost = budget.cost
    return end


async def _gets_more_time(dialogue: Dialogue, turn: Turn, end: TurnEnd, budget: Budget) -> bool:
    # Late: hardly a session has a job.
    from pattern_acp.session.agreed_jobs import gets_more_time

    return await gets_more_time(dialogue, turn.turn_id, end, budget)


async def _settle_job(
    dialogue: Dialogue, checkpoints: Checkpoints, turn: Turn, end: TurnEnd, tools: TurnTools
) -> TurnEnd:
    # Late, as above.
    from pattern_acp.session.agreed_jobs import after_work

    return await after_work(dialogue, checkpoints, turn.turn_id, end, tools)


def _model_in_use(dialogue: Dialogue, gate: BudgetGate) -> ModelInUse:
    """The session's model, with those that replace it."""
    models = dialogue.shared.models
    if missing := models.missing_key(dialogue.state.model.qualified):
        raise ProviderAuthError(missing)
    provider, info = models.resolve(dialogue.state.model.qualified)
    dialogue.state.model = info
    return ModelInUse(models.with_fallback(provider, info, tokens_in(dialogue.state), gate.refusal), info)


async def _tools_of(session: Session, turn: Turn, budget: Budget) -> TurnTools | TurnEnd:
    """The tools of this turn, or its end where a written command was typed that may not be used."""
    # All tools, also those that the mode does not offer: the mode may change meanwhile, and policy refuses the rest.
    known = (*session.constellation.tools, *skill_tools(session.state), *session.mcp.toolbox.callable())
    tools = tools_of_persona(session.state.persona, known)
    definitions = session.trust.definitions
    if not (definitions.commands or definitions.skills):
        return TurnTools(session, turn.turn_id, tools, budget)
    if names_written(session.trust, session.state.history[-1]):
        # The lines of a command run before memory is read, and grants with it.
        await refresh_grants(session.constellation, session.state, session.trust)
    refused = await expand_command(
        session.dialogue, session.workbench, turn.turn_id, TurnTools(session, turn.turn_id, tools, budget).runner
    )
    if refused is not None:
        return refused
    names = tuple(tool.spec.name for tool in tools)
    withheld = frozenset(names).difference(allowed_by_command(session.state, session.trust, names))
    return TurnTools(session, turn.turn_id, tools, budget, withheld)


async def _goes_on(session: Session, turn_id: TurnId, end: TurnEnd, tools: TurnTools, *, active: bool) -> bool:
    """Check an answer: True when a check failed or a hook does not take the turn for finished."""
    if end.stop_reason is not StopReason.END_TURN or end.sentence or end.handed_over:
        return False
    has_more = tools.checks is not None or session.languages is not None
    if has_more and await _finds_more(session, turn_id, tools.checks):
        return True
    if await after_answer(session.dialogue, turn_id, active=active):
        return True
    if session.state.job is None:
        return False
    from pattern_acp.session.agreed_jobs import job_wants_more

    return await job_wants_more(session.dialogue, turn_id, tools)


async def _finds_more(session: Session, turn_id: TurnId, checks: "ConfiguredChecks | None") -> bool:
    # Late: both come with the first call of a tool.
    from pattern_acp.session.checks import checks_want_more, diagnostics_want_more

    if checks is not None and await checks_want_more(session.state, turn_id, checks):
        return True
    return await diagnostics_want_more(session, turn_id)


class _Composer:
    """Builds the requests of one turn from the conversation, and from memory as it is when each leaves."""

    def __init__(self, dialogue: ExtendedDialogue, workbench: Workbench, jobs: Jobs | None, turn: Turn) -> None:
        self._dialogue = dialogue
        self._workbench = workbench
        self._jobs = jobs
        self._turn_id = turn.turn_id
        self._is_own = turn.is_own
        self._recalled: tuple[Section, ...] = ()
        """Sections that every request of this turn has."""
        self._memory: tuple[MemoryView, ...] = ()
        self._read: RequestMemory | None = None
        """Memory as it was read at the beginning, until the first request is built."""
        # `offline` shows nothing of it to a model; all others are reported with the first request of a turn.
        self._asks_repeats = dialogue.state.model.provider != "offline"
        self.window: SessionWindow | None = None
        """The window of the model in use, which compacts the conversation when it is full."""

    async def recall(self) -> None:
        """Show the model its memory when that is due, and find what is reported with the requests of this turn.

        Not for a turn of the agent's own, which has no prompt.
        """
        if self._is_own:
            return
        dialogue, turn_id, state = self._dialogue, self._turn_id, self._dialogue.state
        told: list[Section] = []
        git: list[str] = []

        async def ask_git() -> None:
            ask = dialogue.shared.git_status
            status = await ask(state.cwd, GIT_SECONDS) if ask is not None else None
            if status is not None:
                git.append(f"; git: {status.sentence()}")

        try:
            async with anyio.create_task_group() as tasks:
                if state.repository != "":
                    # A process of its own, while memory is read.
                    tasks.start_soon(ask_git)
                recall = PromptRecall(dialogue, state.history[-1])
                recall.begin(tasks)
                # Another window or a terminal may have allowed something, or taken it back.
                beside = partial(look_at_grants, state=state, trust=dialogue.trust)
                read = await memory_of_request(dialogue, turn_id, asks_repeats=self._asks_repeats, beside=beside)
                self._read = read
                is_first, prompt = len(state.history) == 1, state.history[-1]
                await show_memory(dialogue, turn_id, read.views)
                told.append(await catch_up_at_start(dialogue, turn_id, read.views) if is_first else NOTHING)
                told.append(await recall.show(turn_id, prompt, read.views))
        except BaseExceptionGroup as group_error:
            raise unwrap_exception_group(group_error) from group_error
        # As it was when the turn began, so that the requests of one turn end alike.
        now = local_moment(dialogue.shared.clock.now_ms())
        began = note_section(f"This turn began on {now}{''.join(git)}.")
        self._recalled = tuple(filter(None, (began, *told)))

    async def build(self, _history: Sequence[Message]) -> ProviderRequest:
        """Read memory and what waits for the model, and build the request that fits the window."""
        dialogue, turn_id = self._dialogue, self._turn_id
        before, self._read = self._read, None
        asks, self._asks_repeats = self._asks_repeats, False
        read = await memory_of_request(dialogue, turn_id, asks_repeats=asks, before=before)
        self._memory = read.views
        if read.was_forgotten:
            # It was found before the words were forgotten, and may hold them.
            self._recalled = ()
        if asks and (repeats := dialogue.memory.persona.repeats.telling(read.untold)):
            self._recalled = (*self._recalled, await tell_repeats(dialogue, turn_id, repeats))
        if dialogue.state.waiting:
            await add_waiting(dialogue, turn_id)
        # What the editor could not do is reported before the answer that builds on it.
        await show_notices(dialogue, self._workbench, turn_id)
        return await self.window.fitted() if self.window is not None else await self.compose()

    async def compose(self) -> ProviderRequest:
        """The request as the conversation is now."""
        dialogue, state = self._dialogue, self._dialogue.state
        shown = known_memory(state.shown, state.history)
        changes = await memory_changes(dialogue, shown, self._memory) if shown is not None else ()
        return build_request(
            session_id=state.session_id,
            stable=stable_part(dialogue),
            model=state.model,
            thought_level=thought_level_of(state.model, state.thought_level),
            history=state.history,
            # All of it is in the history, unless it could not be read when this turn began, or was left out since.
            memory=(*(self._memory if shown is None else ()), *changes, *self._recalled),
            notes=(
                *mode_notes(state.policy.mode),
                *dialogue.mcp.toolbox.notes(),
                *(state.skill_tool.notes() if state.skill_tool is not None else ()),
                *await job_notes(self._jobs, self._turn_id),
            ),
            max_output_tokens=state.settings.turn.max_output_tokens,
        )


def mode_notes(mode: Mode) -> tuple[str, ...]:
    """Notes for the model about the mode."""
    if mode is Mode.PLAN:
        return ("Plan mode: read, search and think, then present a plan. Nothing that changes anything is available.",)
    return ()


async def _show_warnings(dialogue: Dialogue, workbench: Workbench, turn: Turn) -> None:
    # What the prompt itself names is read before the turn is recorded; such a sentence follows right behind that.
    if turn.started:
        await show_notices(dialogue, workbench, turn.turn_id)


async def show_notices(dialogue: Dialogue, workbench: Workbench, turn_id: TurnId) -> None:
    """Show sentences that wait for the user: settings that could not be used, fallbacks."""
    drift, dialogue.state.untold_drift = dialogue.state.untold_drift, []
    told = [*(each.sentence for each in drift), *([HOW_TO_ADOPT] if drift else [])]
    waiting = [*dialogue.shared.notices, *told, *dialogue.state.notices, *workbench.take_warnings()]
    dialogue.shared.notices.clear()
    dialogue.state.notices.clear()
    if waiting and not await dialogue.view.show_notices(waiting):
        text = "\n".join(f"> {sentence}" for sentence in waiting) + "\n\n"
        await show_sentence(dialogue.recorder, turn_id, dialogue.shared.ids, text)
    if drift:
        seen = DriftTold(tuple(each.seen for each in drift))
        await dialogue.recorder.record_soon(NewEvent(seen, Actor.SYSTEM, Origin.WORKSPACE))


async def end_cancelled(
    dialogue: Dialogue, checkpoints: Checkpoints, turn: Turn, seconds: float, ticket: PromptTicket
) -> None:
    """Record that a turn was cancelled, unless it had ended, in at most so many seconds.

    A prompt that was dropped while it waited leaves no trace, but one that was replaced does.
    """
    is_waiting = not turn.begun and ticket.overlap is not Overlap.REPLACE
    # Until the end is known to be recorded: another process may hold the lock for longer than the answer may take.
    before, dialogue.state.unfinished = dialogue.state.unfinished, True
    with anyio.CancelScope(shield=True), anyio.move_on_after(seconds):
        try:
            if not turn.started and turn.insertion is None and not is_waiting:
                # The user sees their prompt in the editor, so a replay has to show it too.
                await _record_start(dialogue.state, dialogue.recorder, turn)
            if turn.started and ticket.dropped:
                named = not_sent(ticket.dropped)
                if not await dialogue.view.show_notices((named,)):
                    await show_sentence(dialogue.recorder, turn.turn_id, dialogue.shared.ids, named)
            if turn.started and not turn.ended:
                ended = TurnEnded(turn.turn_id, StopReason.CANCELLED)
                behind = checkpoints.at_end(turn.turn_id)
                await dialogue.recorder.record(NewEvent(ended, Actor.HUMAN, Origin.PERSON), behind=behind)
            if turn.started and turn.insertion is not None:
                # The cancel may have met the commit, which it does not stop.
                turn.insertion.inserted(turn.message)
            await reload_history(dialogue)
            dialogue.state.unfinished = before
        except PatternError as error:
            _log_unrecorded("the end of a cancelled turn", error)
    with anyio.CancelScope(shield=True), anyio.move_on_after(SHOW_SECONDS), suppress(PatternError):
        # What was recorded too late to be shown must not look as if it still ran.
        await dialogue.view.close_calls()
        if ticket.last_words:
            await dialogue.view.show(TextStreamed(MessageId(dialogue.shared.ids.new("msg")), ticket.last_words))
        await dialogue.view.settle()


def not_sent(prompts: Sequence[str]) -> str:
    """The sentence that names prompts which a cancel dropped."""
    return f"Not sent, as you cancelled: {', '.join(f'“{one_line(text, SHOWN_PROMPT)}”' for text in prompts)}."


def failed_end(error: Exception) -> TurnEnd:
    """End of a turn that this error stopped; the log leaves out its sentence, which may name files."""
    failure = failure_of(error)
    if isinstance(error, PatternError):
        logger.warning("a turn failed (%s): %s", failure.code, failure.kind)
        if failure.code == CLIENT_GONE:
            # As when the end of the connection cancels it first: a sentence would be shown with the session ever after.
            return TurnEnd(StopReason.CANCELLED)
        return TurnEnd(StopReason.END_TURN, error.sentence, failure=failure)
    logger.error("a turn failed (%s)", failure.code, exc_info=error)
    return TurnEnd(StopReason.END_TURN, UNFORESEEN, failure=failure)


async def _nothing_saved(dialogue: Dialogue, error: PatternError) -> TurnEnd:
    """Tell the user that the journal could not be written; the text is shown but cannot be recorded.

    The next turn closes this one in the journal, when that can be written again.
    """
    sentence = f"Nothing more was saved and the turn stopped: {error.sentence}"
    end = TurnEnd(StopReason.END_TURN, sentence, failure=failure_of(error))
    dialogue.state.unrecorded, dialogue.state.unfinished = end, True
    await dialogue.view.close_calls()
    message_id = MessageId(dialogue.shared.ids.new("msg"))
    # Clients that join messages would otherwise glue it to the text before.
    shown = f"\n\n{sentence}" if dialogue.recorder.follows_text else sentence
    await dialogue.view.show(TextStreamed(message_id, shown))
    await dialogue.view.settle()
    return end


def _log_unrecorded(what: str, error: PatternError) -> None:
    # The user chose in the other window to continue there: no fault that a traceback could explain.
    foreseen = isinstance(error, LeaseLostError)
    level = logging.WARNING if foreseen else logging.ERROR
    logger.log(level, "%s could not be recorded (%s)", what, error.failure_code, exc_info=not foreseen)
