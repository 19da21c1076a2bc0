"""The stages of one turn, from the prompt to its recorded end, in the order in which they run.

Receive (`answer_prompt`, `run_turn`), attach (`_answer`), prepare (`run_model_turn`, `_run_loop`), recall
(`_before_turn`), compose (`_build`), ask and run tools (`turn.loop`), check (`_until_all_agree`), end (`end_cancelled`
and what follows it).

Owns: that a turn which was begun is ended in the journal exactly once, with one failure where it failed, whatever goes
wrong on the way. Must not know: which turn waits for which (`session.session`).
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.commands.slash import COMMANDS, Typed, command_of
from pattern_acp.context.builder import MemoryView, build_request, note_section
from pattern_acp.context.memory_notices import known_memory
from pattern_acp.context.window import text_limit
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.errors import DatabaseError, PatternError, unwrap_exception_group
from pattern_acp.domain.ids import IdFactory, MessageId, TurnId
from pattern_acp.domain.messages import Message, Part, Role
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.stop_reason import StopReason
from pattern_acp.domain.tool_calls import ToolKind
from pattern_acp.domain.untrusted_blocks import NOTHING, Section
from pattern_acp.journal.errors import LeaseLostError
from pattern_acp.journal.events import SessionTitled, TurnEnded, TurnStarted
from pattern_acp.journal.turn_ends import InterruptedEnd, TurnFailure, close_interrupted, failure_of
from pattern_acp.mcp_servers.catalogue import ServerError
from pattern_acp.policy.decision import Mode
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.errors import ProviderAuthError
from pattern_acp.session.activity_summary import catch_up_at_start
from pattern_acp.session.attachments import given_files, with_files
from pattern_acp.session.budgets import BudgetGate
from pattern_acp.session.checks import (
    ChecksAndDiagnostics,
    checks_of,
    checks_want_more,
    diagnostics_want_more,
    servers_of,
)
from pattern_acp.session.code import code_of, may_read
from pattern_acp.session.commands import more_commands, refuse_unknown
from pattern_acp.session.constellation import AskGit
from pattern_acp.session.context_usage import offered_tools, skill_tools, stable_part
from pattern_acp.session.definitions import allowed_by_command, expand_command, fix_skills
from pattern_acp.session.errors import CredentialsError
from pattern_acp.session.history_cache import reload_history
from pattern_acp.session.hooks import MOST_CONTINUATIONS, SessionToolHooks, after_answer, before_prompt
from pattern_acp.session.injected_context import add_waiting
from pattern_acp.session.instructions import note_files_in_hand
from pattern_acp.session.jobs import ended_notices, job_notes
from pattern_acp.session.memory_context import (
    drop_forgotten,
    exchange_files,
    memory_changes,
    memory_of_request,
    recall_for,
    show_memory,
    tell_repeats,
)
from pattern_acp.session.options import thought_level_of
from pattern_acp.session.sandbox import note_sandbox, profile_of
from pattern_acp.session.searching import sessions_of
from pattern_acp.session.session import END_SECONDS, PromptTicket, Session
from pattern_acp.session.state import SessionState
from pattern_acp.session.subagents.delegation import Subagents
from pattern_acp.session.subagents.kinds import TurnParts
from pattern_acp.session.titles import title_of
from pattern_acp.session.truncated_text import whole_text
from pattern_acp.session.trust import ensure_trust
from pattern_acp.session.window import SessionWindow, tokens_in
from pattern_acp.tools.base import Tool, ToolContext
from pattern_acp.turn.budget import Budget, Limits, RepeatGuard, RepeatLimits, UserWaitTimer
from pattern_acp.turn.checks import ConfiguredChecks
from pattern_acp.turn.events import TextStreamed
from pattern_acp.turn.loop import BuildRequest, CallIds, ModelInUse, StreamRetries, TurnEnd, TurnLoop, show_sentence
from pattern_acp.turn.permissions import PermissionChecker
from pattern_acp.turn.recorder import SHOW_SECONDS, NewEvent, new_end_events
from pattern_acp.turn.tool_runner import ToolRunner
from pattern_acp.workspace.git_status import SECONDS as GIT_SECONDS
from pattern_acp.workspace.noted_files import ObservedFiles, TrackedFiles

if TYPE_CHECKING:
    from pattern_acp.mcp_servers.server import Server
    from pattern_acp.memory.service.undo import AgentHistory

logger = logging.getLogger(__name__)

UNFORESEEN = "The turn stopped because of a fault in pattern-acp; the log has details. Prompt again to go on."

CONTINUED = TurnFailure("turn.continued-too-often")


class Turn(Struct):
    """One turn, and which of its ends the journal has."""

    turn_id: TurnId
    message: Message
    command: Typed | None
    started: bool = False
    ended: bool = False
    insertion: "Insertion | None" = None


class Insertion(Struct, frozen=True):
    """Who waits until the conversation has the user's message. A prompt that is cancelled before leaves no trace."""

    key: str
    """The client's idempotency key; empty without one."""
    inserted: Callable[[Message], None]
    """Called once the journal has the message, also when a cancel kept it from being shown."""


async def answer_prompt(
    session: Session, ticket: PromptTicket, parts: Sequence[Part], first: Callable[[], Awaitable[None]] | None = None
) -> TurnEnd:
    """Run the prompt of `ticket` once the one before has ended; `first` is what comes before all else.

    Raises:
        CredentialsError: the provider's key is missing or was refused.
    """
    try:
        return await run_prompt(session, ticket, new_turn(session.constellation.ids, parts), first)
    finally:
        session.drop_prompt(ticket)


async def run_prompt(
    session: Session, ticket: PromptTicket, turn: Turn, first: Callable[[], Awaitable[None]] | None = None
) -> TurnEnd:
    """Run a turn like `answer_prompt`, and leave it to the caller to drop the ticket: until then the next one waits."""
    end = TurnEnd(StopReason.CANCELLED)
    try:
        with ticket.scope:
            await ticket.wait_for_earlier()
            if first is not None:
                await first()
            session.is_answering = True
            session.constellation.turn_began.set()
            end = await run_turn(session, turn)
        if ticket.scope.cancel_called:
            # Also when the cancel came too late to change anything: the client must hear `cancelled`.
            end = TurnEnd(StopReason.CANCELLED)
            await end_cancelled(session, turn, ticket.seconds_to_end)
    except anyio.get_cancelled_exc_class():
        # The connection is going down, not this prompt: its end is recorded all the same.
        await end_cancelled(session, turn, END_SECONDS)
        raise
    finally:
        session.is_answering = False
    return end


def new_turn(ids: IdFactory, parts: Sequence[Part]) -> Turn:
    """The turn for a prompt of these parts."""
    message = Message(MessageId(ids.new("msg")), Role.USER, tuple(parts))
    return Turn(TurnId(ids.new("turn")), message, command_of(message))


async def run_turn(session: Session, turn: Turn) -> TurnEnd:
    """Answer the prompt and record the end, good or bad.

    Raises:
        CredentialsError: the provider's key is missing or was refused; that is recorded, and nothing is shown.
    """
    session.recorder.begin(turn.turn_id)
    session.memory.turn_id = session.person_memory.turn_id = turn.turn_id
    refused: CredentialsError | None = None
    try:
        try:
            end = await _shown_answer(session, turn)
        except CredentialsError as error:
            refused, end = error, failed_end(error)
        turn.ended = True
        ended = new_end_events(turn.turn_id, end.stop_reason, end.sentence, end.failure)
        await session.recorder.record(*ended, behind=session.checkpoints.at_end(turn.turn_id))
        await session.checkpoints.close_turn()
    except (DatabaseError, LeaseLostError) as error:
        _log_unrecorded("a turn", error)
        refused, end = None, await _nothing_saved(session, error)
    except Exception as error:
        # Not even the failure could be shown. The next turn ends this one in the journal.
        session.state.unrecorded, session.state.unfinished = failed_end(error), True
        raise
    finally:
        # Also before an error: nothing may follow the answer.
        await session.view.settle()
    if refused is not None:
        await reload_history(session)
        raise refused
    return end


async def _shown_answer(session: Session, turn: Turn) -> TurnEnd:
    """The turn's end, when all but that is recorded and shown."""
    try:
        end = await _answer_committing(session, turn)
        if end.was_cut:
            await reload_history(session)
        if end.sentence:
            await show_sentence(session.recorder, turn.turn_id, session.constellation.ids, end.sentence)
        await exchange_files(session)
        await show_notices(session, turn.turn_id)
    except (DatabaseError, LeaseLostError, CredentialsError):
        raise
    except Exception as error:  # noqa: BLE001  the boundary: whatever happened, the turn gets its end
        end = failed_end(error)
        if not turn.started:
            await _record_start(session, turn)
        await reload_history(session)
        await show_sentence(session.recorder, turn.turn_id, session.constellation.ids, end.sentence)
    return end


async def _answer_committing(session: Session, turn: Turn) -> TurnEnd:
    """Answer while what waits for a commit gets one every second."""
    end = TurnEnd(StopReason.CANCELLED)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.recorder.commit_every_second)
            end = await _answer(session, turn)
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group_error:
        raise unwrap_exception_group(group_error) from group_error
    return end


async def _answer(session: Session, turn: Turn) -> TurnEnd:
    await _close_unfinished(session)
    if turn.command is not None:
        # The requests of a turn of the model see to it themselves.
        await drop_forgotten(session)
    # What a turn changed that was cut off belongs to it and not to this one.
    if session.checkpoints.rewinding:
        from pattern_acp.session.rewind_requests import finish_left_over

        await finish_left_over(session)
    await session.checkpoints.close_turn()
    refusal = await _expand(session, turn)
    if turn.command is None:
        turn.message = await with_files(session, turn.message)
    await _record_start(session, turn)
    if refusal is not None:
        return refusal
    if turn.command is not None:
        end = await run_command(session, turn.turn_id, turn.command)
        if not session.state.title and not session.checkpoints.is_clean:
            # Lists leave out what has no title, and this session has files to go back in.
            session.state.title = title_of(turn.message)
            await session.recorder.record(NewEvent(SessionTitled(session.state.title), Actor.SYSTEM, Origin.PERSON))
        return end
    session.state.history.append(turn.message)
    await note_files_in_hand(session, ToolKind.READ, given_files(session, turn.message), session.state)
    return await run_model_turn(session, turn.turn_id)


async def _close_unfinished(session: Session) -> None:
    """Complete in the journal the turn whose end could not be recorded, and go on from what the journal has.

    Raises:
        DatabaseError: the journal still cannot be written.
    """
    if not session.state.unfinished:
        return
    now = session.constellation.clock.now_ms()
    # Without an end that could not be recorded, it was a cancellation.
    end = session.state.unrecorded or TurnEnd(StopReason.CANCELLED)
    how = InterruptedEnd(end.stop_reason, end.sentence, end.failure)

    def close(tx: Transaction) -> None:
        for entry in close_interrupted(tx, session.session_id, at_ms=now, how=how):
            if isinstance(entry.event, TurnEnded):
                session.checkpoints.at_end(entry.event.turn_id)(tx)

    await session.constellation.database.write(close)
    session.state.unfinished, session.state.unrecorded = False, None
    await reload_history(session)


async def _expand(session: Session, turn: Turn) -> TurnEnd | None:
    """Fill in a prompt of an MCP server that the user chose; the turn's end when the server does not give it."""
    try:
        turn.message = await session.mcp.expanded(turn.message)
    except ServerError as error:
        # Recorded like a command of ours, which the model does not see.
        turn.command = Typed(turn.message.typed_line.split()[0].lstrip("/"), "")
        return TurnEnd(StopReason.END_TURN, error.sentence, failure=failure_of(error))
    return None


async def _record_start(session: Session, turn: Turn) -> None:
    turn.started = True
    name = turn.command.name if turn.command is not None else ""
    insertion = turn.insertion
    key = insertion.key if insertion is not None else ""
    events = [NewEvent(TurnStarted(turn.turn_id, turn.message, name, key), Actor.HUMAN, Origin.PERSON)]
    title = session.state.title or (title_of(turn.message) if turn.command is None else "")
    if title != session.state.title:
        events.append(NewEvent(SessionTitled(title), Actor.SYSTEM, Origin.PERSON))
    if turn.command is None and not session.state.settings.memory.files and insertion is None:
        # The first request to the model takes it along, or whatever is recorded before.
        await session.recorder.record_soon(*events)
    else:
        # Memory that the user changes must be found behind it.
        await session.recorder.record(*events)
    session.state.title = title
    if insertion is not None:
        insertion.inserted(turn.message)


async def run_command(session: Session, turn_id: TurnId, command: Typed) -> TurnEnd:
    """Answer a slash command with a message that the model does not see."""
    row = COMMANDS[command.name]
    try:
        if row.in_session:
            # Late: only some commands are read by their rows.
            from pattern_acp.commands.parameters import read_slash

            values = read_slash(row, command.argument, f"/{row.name}")
            answer = await row.run(resolve_name(row.in_session)(session), **values)
        else:
            answer = await row.run(session, command.argument)
    except (DatabaseError, LeaseLostError):
        raise
    except PatternError as error:
        return TurnEnd(StopReason.END_TURN, error.sentence, failure=failure_of(error))
    if not isinstance(answer, str):
        # Late: only some commands have a result of parts.
        from pattern_acp.commands.document import markdown

        answer = markdown(answer.document)
    await show_sentence(session.recorder, turn_id, session.constellation.ids, answer)
    return TurnEnd(StopReason.END_TURN)


async def run_model_turn(session: Session, turn_id: TurnId) -> TurnEnd:
    """Run the loop; a failure of the provider, or of ours, becomes a visible message and an ordinary end.

    Raises:
        CredentialsError: the key is missing or was refused; editors then offer to sign in.
    """
    await exchange_files(session)
    commands = more_commands(session)
    await ensure_trust(session, turn_id)
    if more_commands(session) != commands:
        await session.view.show_commands(more_commands(session))
    unknown = await refuse_unknown(session, turn_id)
    if unknown is not None:
        return unknown
    fix_skills(session)
    news = await session.mcp.get_ready(partial(_sign_in_at, session, turn_id))
    session.state.notices += [*news, *ended_notices(session.jobs), *_key_warnings(session)]
    await show_notices(session, turn_id)
    await session.constellation.models.learn(session.state.model.qualified)
    await note_sandbox(session)
    refused = await before_prompt(session, turn_id)
    if refused is not None:
        return refused
    try:
        return await _run_loop(session, turn_id)
    except ProviderAuthError as error:
        raise CredentialsError(error.sentence, failure_code=error.failure_code) from error
    except (DatabaseError, LeaseLostError):
        raise
    except Exception as error:  # noqa: BLE001  the boundary: it is logged, told and recorded
        end = failed_end(error)
        await reload_history(session)
        return end


async def _sign_in_at(session: Session, turn_id: TurnId, server: "Server") -> bool:
    from pattern_acp.session.mcp_sign_in import offer_sign_in

    return await offer_sign_in(session, turn_id, server)


def _key_warnings(session: Session) -> list[str]:
    """A sentence for each provider that this session's models may go to and whose key goes there unencrypted; once."""
    shared, settings = session.constellation, session.state.settings
    delegate = settings.delegate
    others = (delegate.model, delegate.explorer_model, delegate.worker_model, delegate.reviewer_model)
    names = (session.state.model.qualified, *settings.fallback, *others, settings.memory.embedder)
    new = dict.fromkeys(warning for name in names if (warning := shared.models.key_warning(name)))
    told = [warning for warning in new if warning not in shared.warned]
    shared.warned.update(told)
    return told


async def _run_loop(session: Session, turn_id: TurnId) -> TurnEnd:
    shared = session.constellation
    if missing := shared.models.missing_key(session.state.model.qualified):
        raise ProviderAuthError(missing)
    provider, info = shared.models.resolve(session.state.model.qualified)
    session.state.model = info
    budget = turn_budget(session.state, shared.clock)
    gate = BudgetGate(session, turn_id, budget.waits, may_switch=True)
    provider = shared.models.with_fallback(provider, info, tokens_in(session), gate.refusal)
    # All tools, also those that the mode does not offer: the mode may change meanwhile, and the gate refuses the rest.
    tools = (*shared.tools, *skill_tools(session), *session.mcp.toolbox.callable())
    refused = await expand_command(session, turn_id, lambda: runner_of(session, turn_id, tools, budget)[0])
    if refused is not None:
        return refused
    allowed = allowed_by_command(session, tuple(tool.spec.name for tool in tools))
    runner, checks = runner_of(session, turn_id, [tool for tool in tools if tool.spec.name in allowed], budget)
    runner.withheld = frozenset(tool.spec.name for tool in tools).difference(allowed)
    recalled = await _before_turn(session, turn_id)
    memory: Sequence[MemoryView] = ()
    # `offline` shows nothing of it to a model; all others are told with the first request of a turn.
    asks_repeats = session.state.model.provider != "offline"

    async def build(window: SessionWindow, _history: Sequence[Message]) -> ProviderRequest:
        nonlocal memory, recalled, asks_repeats
        read = await memory_of_request(session, turn_id, asks_repeats=asks_repeats)
        memory, asks_repeats = read.views, False
        if read.was_forgotten:
            # It was found before the words were forgotten, and may hold them.
            recalled = ()
        if read.repeats:
            recalled = (*recalled, await tell_repeats(session, turn_id, read.repeats))
        await add_waiting(session, turn_id)
        # What the editor could not do is told before the answer that builds on it.
        await show_notices(session, turn_id)
        return await window.fitted()

    def compose() -> Awaitable[ProviderRequest]:
        return _build(session, turn_id, memory, recalled)

    try:
        while True:
            model = ModelInUse(provider, info)
            window = SessionWindow(session, turn_id, model, compose, budget, gate)
            loop = _turn_loop(session, model, runner, budget, partial(build, window))
            loop.window, loop.gate = window, gate
            end = await _until_all_agree(session, turn_id, loop, checks)
            if not session.state.budgets.switched:
                break
            session.state.budgets.switched = False
            provider, info = shared.models.resolve(session.state.model.qualified)
            provider = shared.models.with_fallback(provider, info, tokens_in(session), gate.refusal)
        await window.after_turn()
        await gate.after_turn()
        return end
    finally:
        session.state.cost = budget.cost


def turn_budget(state: SessionState, clock: Clock) -> Budget:
    """Budget of one turn, its subagents included."""
    limits = state.settings.turn
    asked = Limits(limits.max_model_requests, limits.max_wall_seconds)
    return Budget(asked, clock, UserWaitTimer(clock), cost=state.cost)


def runner_of(
    session: Session, turn_id: TurnId, tools: Sequence[Tool], budget: Budget
) -> tuple[ToolRunner, ConfiguredChecks]:
    """Build the runner for calls of `tools` in this turn, with policy, checks and hooks; return these checks too."""
    shared = session.constellation
    permissions = PermissionChecker(
        session.state.policy, session.approver, session.recorder, clock=shared.clock, waits=budget.waits
    )
    context, hooks = tool_context(session, turn_id), SessionToolHooks(session)
    parts = TurnParts(turn_id, tuple(tools), partial(offered_tools, session), context, hooks, budget)
    subagents = Subagents(session, parts)
    context = replace(context, delegation=subagents)
    checks = subagents.checks = checks_of(session, permissions, context)
    runner = ToolRunner(
        tools,
        context,
        permissions,
        session.recorder,
        clock=shared.clock,
        after_edits=ChecksAndDiagnostics(session, checks, session.recorder),
        hooks=hooks,
        effects=session.checkpoints,
    )
    # Late: a session is there before it can edit anything.
    from pattern_acp.session.edit_warnings import EditWarnings

    runner.before_edits = EditWarnings(session, session.state)
    limits = session.state.settings.turn
    runner.repeats = RepeatGuard(RepeatLimits(limits.repeats_noted, limits.repeats_asked))
    return runner, checks


def tool_context(session: Session, turn_id: TurnId) -> ToolContext:
    """Context for the tools of this turn."""
    code, files = code_of(session), TrackedFiles(session.workbench.files, session.checkpoints)
    return ToolContext(
        session_id=session.session_id,
        turn_id=turn_id,
        cwd=session.state.cwd,
        roots=session.state.policy.roots,
        files=ObservedFiles(files, code.note_changed) if code is not None else files,
        terminal=session.workbench.terminal,
        limits=partial(profile_of, session),
        memory=session.memory,
        history=partial(_history, session, turn_id),
        read_fingerprints=session.state.fingerprints,
        jobs=session.jobs,
        command_seconds=session.state.settings.turn.command_timeout_seconds,
        keeps_slow_commands=session.state.settings.turn.slow_commands == "background",
        result_limit=text_limit(session.state.model, session.state.settings.turn.tool_result_chars),
        command_ended=code.note_command_ended if code is not None else lambda: None,
        code=code,
        languages=servers_of(session),
        sessions=sessions_of(session),
        may_read=lambda path: may_read(session, path),
        long_text=lambda text_id: whole_text(session.constellation.database, session.session_id, text_id),
    )


def _history(session: Session, turn_id: TurnId) -> "AgentHistory":
    from pattern_acp.session.history_scope import agent_history

    return agent_history(session, turn_id)


async def _before_turn(session: Session, turn_id: TurnId) -> tuple[Section, ...]:
    """Show the model its memory when that is due; what is told of memory with every request of this turn."""
    told: list[Section] = []
    git: list[Section] = []

    async def ask_git() -> None:
        git.append(await git_note(session.constellation.git_status, session.state.cwd))

    try:
        async with anyio.create_task_group() as tasks:
            # A process of its own, while memory is read.
            tasks.start_soon(ask_git)
            views = (await memory_of_request(session, turn_id)).views
            is_first, prompt = len(session.state.history) == 1, session.state.history[-1]
            await show_memory(session, turn_id, views)
            told.append(await catch_up_at_start(session, turn_id, views) if is_first else NOTHING)
            told.append(await recall_for(session, turn_id, prompt, views))
    except BaseExceptionGroup as group_error:
        raise unwrap_exception_group(group_error) from group_error
    return tuple(text for text in (*git, *told) if text)


async def git_note(ask: AskGit | None, cwd: str) -> Section:
    """The state of the repository for the requests of this turn; empty where there is none, or git is slow."""
    status = await ask(cwd, GIT_SECONDS) if ask is not None else None
    return note_section(f"Git when this turn began: {status.sentence()}.") if status is not None else NOTHING


async def _build(
    session: Session, turn_id: TurnId, memory: Sequence[MemoryView], recalled: Sequence[Section]
) -> ProviderRequest:
    history = session.state.history
    shown = known_memory(session.state.shown, history)
    changes = await memory_changes(session, shown, memory) if shown is not None else ()
    return build_request(
        session_id=session.session_id,
        stable=stable_part(session),
        model=session.state.model,
        thought_level=thought_level_of(session.state.model, session.state.thought_level),
        history=history,
        # All of it stands in the history, unless it could not be read when this turn began, or was left out since.
        memory=(*(memory if shown is None else ()), *changes, *recalled),
        notes=(
            *mode_notes(session.state.policy.mode),
            *session.mcp.toolbox.notes(),
            *(session.state.skill_tool.notes() if session.state.skill_tool is not None else ()),
            *await job_notes(session.jobs, turn_id),
        ),
        max_output_tokens=session.state.settings.turn.max_output_tokens,
    )


def mode_notes(mode: Mode) -> tuple[str, ...]:
    """Notes for the model about the mode."""
    if mode is Mode.PLAN:
        return ("Plan mode: read, search and think, then present a plan. Nothing that changes anything is available.",)
    return ()


def _turn_loop(
    session: Session, model: ModelInUse, runner: ToolRunner, budget: Budget, build: BuildRequest
) -> TurnLoop:
    loop = TurnLoop(
        model=model,
        build=build,
        runner=runner,
        recorder=session.recorder,
        ids=session.constellation.ids,
        call_ids=CallIds(session.state.used_calls),
        digests=session.state.digests,
        budget=budget,
    )
    loop.resumption = StreamRetries(session.state.settings.turn.stream_retries, session.constellation.pauses)
    return loop


async def _until_all_agree(session: Session, turn_id: TurnId, loop: TurnLoop, checks: ConfiguredChecks) -> TurnEnd:
    """Run the loop, and again when a check fails or a hook does not take the turn for finished; only so often."""
    for continued in range(MOST_CONTINUATIONS + 1):
        end = await loop.run(turn_id, session.state.history)
        is_answer = end.stop_reason is StopReason.END_TURN and not end.sentence
        if not is_answer:
            return end
        if await checks_want_more(session, turn_id, checks) or await diagnostics_want_more(session, turn_id):
            continue
        if not await after_answer(session, turn_id, active=continued > 0):
            return end
    session.state.waiting.clear()
    sentence = f"Checks, language servers and hooks let this turn go on {MOST_CONTINUATIONS} times; that is the limit."
    return TurnEnd(StopReason.END_TURN, sentence, failure=CONTINUED)


async def show_notices(session: Session, turn_id: TurnId) -> None:
    """Show sentences that wait for the user: settings that could not be used, fallbacks."""
    waiting = [*session.constellation.notices, *session.state.notices, *session.workbench.take_warnings()]
    session.constellation.notices.clear()
    session.state.notices.clear()
    if waiting:
        text = "\n".join(f"> {sentence}" for sentence in waiting) + "\n\n"
        await show_sentence(session.recorder, turn_id, session.constellation.ids, text)


async def end_cancelled(session: Session, turn: Turn, seconds: float) -> None:
    """Record that a turn was cancelled, unless it had ended, in at most so many seconds."""
    # Until the end is known to be recorded: another process may hold the lock for longer than the answer may take.
    before, session.state.unfinished = session.state.unfinished, True
    with anyio.CancelScope(shield=True), anyio.move_on_after(seconds):
        try:
            if not turn.started and turn.insertion is None:
                # The user sees their prompt in the editor, so a replay has to show it too.
                await _record_start(session, turn)
            if turn.started and turn.insertion is not None:
                turn.insertion.inserted(turn.message)
            if turn.started and not turn.ended:
                ended = TurnEnded(turn.turn_id, StopReason.CANCELLED)
                behind = session.checkpoints.at_end(turn.turn_id)
                await session.recorder.record(NewEvent(ended, Actor.HUMAN, Origin.PERSON), behind=behind)
            await reload_history(session)
            session.state.unfinished = before
        except PatternError as error:
            _log_unrecorded("the end of a cancelled turn", error)
    with anyio.CancelScope(shield=True), anyio.move_on_after(SHOW_SECONDS), suppress(PatternError):
        # What was recorded too late to be shown must not look as if it still ran.
        await session.view.close_calls()
        await session.view.settle()


def failed_end(error: Exception) -> TurnEnd:
    """End of a turn that this error stopped; the log leaves out its sentence, which may name files."""
    failure = failure_of(error)
    if isinstance(error, PatternError):
        logger.warning("a turn failed (%s): %s", failure.code, failure.kind)
        return TurnEnd(StopReason.END_TURN, error.sentence, failure=failure)
    logger.error("a turn failed (%s)", failure.code, exc_info=error)
    return TurnEnd(StopReason.END_TURN, UNFORESEEN, failure=failure)


async def _nothing_saved(session: Session, error: PatternError) -> TurnEnd:
    """Tell the user that the journal could not be written; the text is shown but cannot be recorded.

    The next turn closes this one in the journal, when that can be written again.
    """
    sentence = f"Nothing more was saved and the turn stopped: {error.sentence}"
    end = TurnEnd(StopReason.END_TURN, sentence, failure=failure_of(error))
    session.state.unrecorded, session.state.unfinished = end, True
    await session.view.close_calls()
    message_id = MessageId(session.constellation.ids.new("msg"))
    # Clients that join messages would otherwise glue it to the text before.
    shown = f"\n\n{sentence}" if session.recorder.follows_text else sentence
    await session.view.show(TextStreamed(message_id, shown))
    await session.view.settle()
    return end


def _log_unrecorded(what: str, error: PatternError) -> None:
    # The user chose in the other window to go on there: no fault that a traceback could explain.
    foreseen = isinstance(error, LeaseLostError)
    level = logging.WARNING if foreseen else logging.ERROR
    logger.log(level, "%s could not be recorded (%s)", what, error.failure_code, exc_info=not foreseen)
