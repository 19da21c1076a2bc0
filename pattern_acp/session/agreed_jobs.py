"""Jobs that were agreed to: /job and /jobs, the question about quotes, the work within its terms, and the receipt.

Owns: when a job moves, and what the model reads of it. Must not know: what an estimate is made of (`jobs/quote.py`), or
how holds are counted (`jobs/store.py`). A job is worked on in a turn of its session; a turn that ends early, or a
process that is killed, leaves it where it is, and `/job resume N` continues.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.commands.document import Result, as_result, markdown
from pattern_acp.commands.jobs import JobView, jobs_of_session, newest_jobs, view_job
from pattern_acp.commands.parameters import first_word
from pattern_acp.context.builder import add_context
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin, RunCommand
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import MessageId, ToolCallId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.domain.tool_calls import StopReason, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.domain.usage import Allowance
from pattern_acp.jobs import store
from pattern_acp.jobs.model import MOST_ROUNDS, JobMoveError, JobOutcome, JobRow, JobStage, JobTermsError
from pattern_acp.jobs.quote import (
    MOST_QUOTES,
    USAGE,
    VALID_MS,
    QuoteCandidate,
    hold_for,
    hold_text,
    parse_terms,
    plan_of,
    quotes_for,
    risks_of,
)
from pattern_acp.jobs.store import JOB, Meter
from pattern_acp.journal.events import (
    CheckpointTaken,
    ContextAdded,
    GrantStored,
    JobMoved,
    JobQuoted,
    JobSettled,
    PermissionAnswered,
    PermissionAsked,
    SessionTitled,
    ToolCallFinished,
    ToolCallStarted,
)
from pattern_acp.journal.job_events import JobCheck, JobFile, JobHold, JobTerms, JobUse
from pattern_acp.journal.reader import read_stream
from pattern_acp.journal.usage import Spent, usage_of_session
from pattern_acp.policy.decision import ApprovalOption, ApprovalRequest, Lifetime, PermissionAnswer
from pattern_acp.policy.grant_matching import exact_pattern
from pattern_acp.policy.grants import Effect, Grant, GrantKind
from pattern_acp.policy.layers import SubagentLimits, globs_below
from pattern_acp.providers.base import ModelInfo
from pattern_acp.session.budgets import USED_UP, cheaper_model
from pattern_acp.session.changed_files import net_changes
from pattern_acp.session.job_questions import (
    DECLINE,
    JOB_CALL,
    NARROW,
    JobQuestion,
    ask_about,
    label_of,
    reach_of,
    session_tokens,
)
from pattern_acp.session.ports import OptionUnusableError
from pattern_acp.session.state import Addition, RunningJob
from pattern_acp.tasks.claims import ClaimKind, ClaimTarget, release_claims, take_claims
from pattern_acp.turn.budget import Budget, Limits
from pattern_acp.turn.loop import LIMIT_REACHED, TurnEnd
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.rewind.checkpoints import Checkpoints
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.ports import Dialogue, ExtendedDialogue
    from pattern_acp.session.session import Session
    from pattern_acp.session.state import SessionState
    from pattern_acp.session.turn_tools import TurnTools
    from pattern_acp.workspace.jobs import Jobs

SOURCE = "job"
"""Source of what the model learns of a job."""

MOST_FAILED_ROUNDS = 3
"""Times that a check may fail behind an answer before the job ends with it."""

MOVED = "Background commands are under `/background`; `/jobs` lists the work that you agreed to with `/job`."

HELP = (
    f"`/job {USAGE}` asks for an estimate. `/job N` shows one, `/job resume N` continues one that was interrupted, "
    "`/job stop N` ends it with what exists, or `/job review N` has another persona judge one that is over."
)


async def run_job(session: "Session", argument: str) -> Result | TurnEnd | None:
    """Answer /job; None when the turn continues to work on a job.

    Raises:
        PatternError: a sentence about what is wrong.
    """
    verb, rest = first_word(argument)
    if not verb:
        listed = await session.constellation.database.read(lambda tx: jobs_of_session(tx, session.session_id))
        return as_result(*listed.document, HELP, facts=listed.value)
    if verb.isdecimal() and not rest:
        return await _show(session.dialogue, int(verb))
    if verb in {"resume", "stop"} and rest.strip().isdecimal():
        row = await _row(session.dialogue, int(rest))
        if row.session_id != session.session_id:
            raise JobTermsError(f"Job {row.number} is of another session; open that one to continue it.")
        resumes = verb == "resume"
        return await (_resume(session, row) if resumes else _stop(session.dialogue, session.checkpoints, row))
    if verb == "review" and rest.strip():
        # Late: hardly a job is reviewed.
        from pattern_acp.session.job_review import review_job

        number, persona = first_word(rest)
        if number.isdecimal():
            row = await _row(session.dialogue, int(number))
            return as_result(await review_job(session, row, persona.strip(), session.turn_id))
    return await _offer(session.dialogue, session.checkpoints, parse_terms(argument))


async def run_jobs(jobs: "Jobs | None", shared: "Constellation", argument: str) -> Result:
    """List the jobs of all sessions.

    Raises:
        CommandMisusedError: something else is asked for.
    """
    if argument.strip():
        # What this command was for once; the user's hands know it.
        from pattern_acp.session.jobs import run_background

        return as_result(*(await run_background(jobs, shared, argument)).document, MOVED)
    return await shared.database.read(newest_jobs)


async def _row(dialogue: "Dialogue", number: int) -> JobRow:
    return await dialogue.shared.database.read(lambda tx: store.job_numbered(tx, number))


async def _show(dialogue: "Dialogue", number: int) -> JobView:
    return await dialogue.shared.database.read(lambda tx: view_job(tx, number, dialogue.state.policy.roots[0]))


async def _offer(
    dialogue: "ExtendedDialogue", checkpoints: "Checkpoints", terms: JobTerms, row: JobRow | None = None
) -> Result | None:
    """Quote terms, and ask the user, who may narrow them; None when they agree. `row` is the job, if there is one."""
    shared = dialogue.shared
    job_id = row.id if row is not None else shared.ids.new("job")
    number = row.number if row is not None else await shared.database.read(store.next_number)
    first = row.round + 1 if row is not None else 1
    if first > MOST_ROUNDS:
        raise JobTermsError(f"Job {number} was quoted {MOST_ROUNDS} times; ask for a new one with `/job`.")
    for round_ in range(first, MOST_ROUNDS + 1):
        quoted = await quote(dialogue, terms, job_id, number, round_)
        await dialogue.recorder.record(NewEvent(quoted, Actor.SYSTEM, Origin.AGENT))
        labels = tuple(label_of(quoted.terms, each) for each in quoted.quotes)
        title = f"Agree to job {number}? {one_line(terms.goal, 80)}"
        may_narrow = round_ < MOST_ROUNDS
        question = JobQuestion(quoted, title, labels, (DECLINE,), narrow=NARROW if may_narrow else "")
        answer = await ask_about(dialogue, question)
        if isinstance(answer, JobTerms):
            terms = answer
            continue
        if isinstance(answer, str):
            await decline(dialogue, job_id)
            return as_result(f"Job {number} was not agreed. Nothing was done, and nothing spent.")
        if not await agree(dialogue, quoted, answer):
            return as_result(
                f"The offer of job {number} ended before you agreed. `/job` with the same words asks again."
            )
        row = await _row(dialogue, number)
        return await work_on(dialogue, checkpoints, row, quoted)
    return None


async def decline(dialogue: "Dialogue", job_id: str) -> None:
    """End a job that the user did not agree to."""
    settled = JobSettled(dialogue.turn_id, job_id, JobOutcome.DECLINED.value, "person")
    await dialogue.recorder.record(NewEvent(settled, Actor.HUMAN, Origin.PERSON))


async def quote(dialogue: "ExtendedDialogue", terms: JobTerms, job_id: str, number: int, round_: int) -> JobQuoted:
    """Estimate a job by the code map, past jobs and prices.

    Raises:
        JobTermsError: the model that the terms name cannot be used.
    """
    base = session_tokens(dialogue)
    candidates = await _candidates(dialogue, _models(dialogue, terms, base))
    reach = await reach_of(dialogue, terms)
    quotes = quotes_for(terms, reach, candidates, base_tokens=base)
    return JobQuoted(
        dialogue.turn_id,
        job_id,
        number,
        round_,
        terms,
        quotes,
        reach.files,
        reach.symbols,
        plan_of(terms, reach, quotes),
        risks_of(terms, reach, quotes),
        dialogue.shared.clock.now_ms() + VALID_MS,
    )


async def _candidates(dialogue: "Dialogue", models: Sequence[ModelInfo]) -> list[QuoteCandidate]:
    """The session's persona with each model, and of those others that have finished jobs the one that used least."""
    own, known = dialogue.state.persona.name, dialogue.shared.personas
    # The session comes back to its own persona, which a typed one could not be found for.
    others = sorted(known.keys() - {own}) if own in known else []

    def read(tx: Transaction) -> list[QuoteCandidate]:
        return [
            QuoteCandidate(name, model, store.past_jobs(tx, name, model.qualified), name != own)
            for name in (own, *others)
            for model in models
        ]

    found = await dialogue.shared.database.read(read)
    tried = [one for one in found if one.is_other and one.past]
    best = sorted(tried, key=lambda one: (one.percent, one.persona, one.model.qualified))[:1]
    return [*found[: min(len(models), MOST_QUOTES - len(best))], *best]


def _models(dialogue: "Dialogue", terms: JobTerms, tokens: int) -> list[ModelInfo]:
    """The session's model or the one that is asked for, a cheaper one, and that of workers."""
    shared, state = dialogue.shared, dialogue.state
    names = [terms.model or state.model.qualified]
    if missing := shared.models.missing_key(names[0]):
        raise JobTermsError(missing)
    first = shared.models.resolve(names[0])[1]
    cheaper = cheaper_model(shared, state, first, 4 * tokens)
    others = (cheaper.qualified if cheaper is not None else "", state.settings.delegate.worker_model)
    names += [name for name in others if name and not shared.models.missing_key(name)]
    return [shared.models.resolve(name)[1] for name in dict.fromkeys(names)]


async def agree(dialogue: "Dialogue", quoted: JobQuoted, index: int) -> bool:
    """Set the hold aside and claim the paths, in the transaction of the event; False where the offer has ended."""
    now_ms, quote_ = dialogue.shared.clock.now_ms(), quoted.quotes[index]
    hold = hold_for(quoted.terms, quote_)
    agreed = JobMoved(dialogue.turn_id, quoted.job_id, JobStage.AGREED.value, "person", hold, index)
    events = [NewEvent(agreed, Actor.HUMAN, Origin.PERSON)]
    if not dialogue.state.title:
        title = one_line(quoted.terms.goal, 80)
        events.append(NewEvent(SessionTitled(title), Actor.SYSTEM, Origin.PERSON))
    claimed = claims_of(dialogue.state.policy.roots[0], quoted.terms)
    try:
        await dialogue.recorder.record(
            *events, behind=lambda tx: take_claims(tx, dialogue.session_id, claimed, now_ms=now_ms)
        )
    except JobMoveError:
        settled = JobSettled(dialogue.turn_id, quoted.job_id, JobOutcome.EXPIRED.value, "engine")
        await dialogue.recorder.record(NewEvent(settled, Actor.SYSTEM, Origin.AGENT))
        return False
    dialogue.state.title = dialogue.state.title or one_line(quoted.terms.goal, 80)
    return True


def claims_of(root: str, terms: JobTerms) -> tuple[ClaimTarget, ...]:
    """The folders and patterns that a job claims; none where all of the folder is in reach."""
    below = globs_below(root, terms.paths)
    return tuple(
        ClaimTarget(path.removesuffix("/**"), ClaimKind.FOLDER)
        if path.endswith("/**") and not set(path.removesuffix("/**")) & set("*?[{")
        else ClaimTarget(path, ClaimKind.GLOB)
        for path in below
    )


class UnderWay(Struct, frozen=True):
    """The use of a turn before it begins to work on a job: none of it is the job's."""

    spent: Spent = Spent()
    milliseconds: int = 0


async def work_on(
    dialogue: "Dialogue", checkpoints: "Checkpoints", row: JobRow, quoted: JobQuoted, since: UnderWay | None = None
) -> None:
    """Begin, or continue with, the work in this turn: what follows of it is the job's.

    `since` is the use so far of a turn that is under way, whose model reads of the job with its next request.
    """
    shared, state, turn_id = dialogue.shared, dialogue.state, dialogue.turn_id
    own = state.persona.name
    await _answer_as(dialogue, row.persona)
    if since is None:
        # What was changed before is none of the job's, and /rewind goes back to here.
        await checkpoints.take("tool", f"before job {row.number}")
    apart = since or UnderWay()
    terms, root = quoted.terms, state.policy.roots[0]
    holds = await shared.database.read(lambda tx: _job_holds(tx, row.id))
    hold = JobHold(*(holds[meter].granted for meter in Meter))
    before = Spent(
        holds[Meter.TOKENS].spent + holds[Meter.TOKENS].over - apart.spent.tokens,
        holds[Meter.MONEY].spent + holds[Meter.MONEY].over - apart.spent.micro_units,
    )
    used_ms = holds[Meter.TIME].spent + holds[Meter.TIME].over - apart.milliseconds
    limits = SubagentLimits(job=row.number, globs=globs_below(root, terms.paths))
    grants = [
        Grant(Effect.ALLOW, GrantKind.EXACT_COMMAND, exact_pattern(RunCommand(line, root)), Lifetime.TURN)
        for line in terms.checks
    ]
    text = _told(row, terms, hold, resumed=row.state is not JobStage.AGREED)
    message = Message(MessageId(shared.ids.new("msg")), Role.USER, (TextPart(text),))
    events = [
        NewEvent(JobMoved(turn_id, row.id, JobStage.WORKING.value, "engine"), Actor.SYSTEM, Origin.AGENT),
        *(
            NewEvent(
                GrantStored(one.effect, one.kind, one.pattern, one.lifetime, ToolCallId(row.id)),
                Actor.HUMAN,
                Origin.PERSON,
            )
            for one in grants
        ),
    ]
    if since is None:
        events.append(NewEvent(ContextAdded(turn_id, message, (SOURCE,)), Actor.HUMAN, Origin.PERSON))
    await dialogue.recorder.record(*events)
    if since is None:
        add_context(state.history, message)
    else:
        state.waiting.append(Addition(SOURCE, f"Job {row.number} begins", text, SOURCE))
    state.job = RunningJob(row.id, row.number, terms, hold, before, used_ms, limits, state.model, own, tuple(grants))
    state.job.recorded_ms = apart.milliseconds
    state.budgets.extended["job", row.id] = Allowance(hold.micro_units, hold.tokens)
    state.model = shared.models.resolve(row.model)[1]


async def _answer_as(dialogue: "Dialogue", name: str) -> None:
    """Continue as the persona of a job, or as the session's own behind it; the models stay.

    Raises:
        OptionUnusableError: its file cannot be read.
    """
    if name != dialogue.state.persona.name:
        # Late: hardly a job is another persona's.
        from pattern_acp.session.definitions import become_named

        await become_named(dialogue, name, by="agent")


async def leave_job(dialogue: "Dialogue", job: RunningJob) -> None:
    """Have the session's own persona answer again, at the end of a turn that worked on a job."""
    try:
        await _answer_as(dialogue, job.persona)
    except OptionUnusableError as error:
        dialogue.state.notices.append(error.sentence)


def _job_holds(tx: Transaction, job_id: str) -> dict[Meter, store.HoldRow]:
    return {hold.meter: hold for hold in store.read_holds(tx, job_id) if hold.node == JOB}


def _told(row: JobRow, terms: JobTerms, hold: JobHold, *, resumed: bool) -> str:
    paths = ", ".join(f"`{path}`" for path in terms.paths)
    checks = ", ".join(f"`{check}`" for check in terms.checks)
    lines = [
        f"{'Continue with' if resumed else 'Do'} job {row.number}, to which I agreed: {terms.goal}",
        *((f"Write only in {paths}; other writes are refused.",) if paths else ()),
        *((f"It is done when these exit with 0, which is checked when you end: {checks}.",) if checks else ()),
        f"Budget: {hold_text(hold)}. Stay below it, and end as soon as the job is done.",
        *((f"Delegate parts to at most {plural(terms.workers, 'worker')}.",) if terms.workers else ()),
    ]
    return "\n".join(lines)


async def gets_more_time(dialogue: "Dialogue", turn_id: TurnId, end: TurnEnd, budget: Budget) -> bool:
    """Ask the user for more time where the job's is over; True when the turn continues."""
    job = dialogue.state.job
    if job is None or end.failure != LIMIT_REACHED or job.hold.milliseconds is None:
        return False
    now_ms = job.used_ms + round(budget.seconds * 1000)
    limits = dialogue.state.settings.turn
    if now_ms < job.hold.milliseconds or budget.seconds >= limits.max_wall_seconds or not job.hold.milliseconds:
        return False
    step = job.hold.milliseconds
    longer = replace(job.hold, milliseconds=step * (now_ms // step + 1))
    more = hold_text(JobHold(milliseconds=(longer.milliseconds or 0) - step))
    in_all = hold_text(JobHold(milliseconds=longer.milliseconds))
    title = f"The time of job {job.number} is over: continue?"
    call = ToolCallView(ToolCallId(dialogue.shared.ids.new("call")), JOB_CALL, title, ToolKind.OTHER, {})
    options = (
        ApprovalOption(PermissionAnswer.ALLOW_ONCE, f"Continue, with {more} more ({in_all} in all)"),
        ApprovalOption(PermissionAnswer.REJECT_ONCE, "Stop here"),
    )
    asked = PermissionAsked(turn_id, call.call_id, title, tuple(one.answer.value for one in options))
    await dialogue.recorder.record(
        NewEvent(ToolCallStarted(turn_id, call), Actor.SYSTEM), NewEvent(asked, Actor.SYSTEM)
    )
    with budget.waits.waiting():
        answer = await dialogue.approver.ask(ApprovalRequest(call, title, options))
    status = ToolCallStatus.COMPLETED if answer.allows else ToolCallStatus.FAILED
    said = options[0 if answer.allows else 1].name
    events = [
        NewEvent(PermissionAnswered(turn_id, call.call_id, answer.value), Actor.HUMAN, Origin.PERSON),
        NewEvent(ToolCallFinished(turn_id, call.call_id, status, said), Actor.SYSTEM),
    ]
    if answer.allows:
        moved = JobMoved(turn_id, job.job_id, JobStage.WORKING.value, "person", longer)
        events.append(NewEvent(moved, Actor.HUMAN, Origin.PERSON))
    await dialogue.recorder.record(*events)
    if answer.allows:
        job.hold = longer
        budget.limits = job.limiting(Limits(limits.max_model_requests, limits.max_wall_seconds))
    return answer.allows


async def job_wants_more(dialogue: "Dialogue", turn_id: TurnId, tools: "TurnTools") -> bool:
    """Run the checks behind an answer; True when one failed and the model is to continue.

    Raises:
        DatabaseError: a check could not be recorded; the turn stops.
    """
    job = dialogue.state.job
    if job is None or not job.terms.checks:
        return False
    told = await _run_checks(dialogue, turn_id, tools, job)
    if not told or job.failed_rounds >= MOST_FAILED_ROUNDS:
        return False
    dialogue.state.waiting.append(Addition("check", f"Checks of job {job.number} failed", told, "check"))
    moved = JobMoved(turn_id, job.job_id, JobStage.WORKING.value, "engine")
    await dialogue.recorder.record(NewEvent(moved, Actor.SYSTEM, Origin.AGENT))
    job.checks = ()
    return True


async def _run_checks(dialogue: "Dialogue", turn_id: TurnId, tools: "TurnTools", job: RunningJob) -> str:
    """Settle as far as the checks: run all; what the model should read of those that failed."""
    moved = JobMoved(turn_id, job.job_id, JobStage.SETTLING.value, "engine", spent_ms=_since(job, tools.seconds))
    await dialogue.recorder.record(NewEvent(moved, Actor.SYSTEM, Origin.AGENT))
    await tools.runner()
    results: list[JobCheck] = []
    told: list[str] = []
    for number, line in enumerate(job.terms.checks, 1):
        if tools.checks is None:
            break
        outcome, text = await tools.checks.run_line(turn_id, f"{number} of job {job.number}", line)
        code = outcome.raw_output.get("exit_code")
        passed = code == 0 and not outcome.is_error
        exit_code = code if isinstance(code, int) else None
        results.append(JobCheck(line, exit_code, sha256_hex((outcome.full_output or outcome.text).encode())))
        if not passed:
            told.append(text or f"The check `{line}` failed.")
    job.checks = tuple(results)
    job.failed_rounds += bool(told)
    return "\n".join(told)


def _since(job: RunningJob, seconds: float) -> int:
    """The time of the turn that is not recorded yet, which counts as recorded from here on."""
    now = round(seconds * 1000)
    spent, job.recorded_ms = max(now - job.recorded_ms, 0), now
    return spent


async def after_work(
    dialogue: "Dialogue", checkpoints: "Checkpoints", turn_id: TurnId, end: TurnEnd, tools: "TurnTools"
) -> TurnEnd:
    """Settle the job behind the last answer, or say how it can continue; the end of the turn.

    Raises:
        DatabaseError: it could not be recorded.
    """
    job = dialogue.state.job
    if job is None:
        return end
    is_over_time = job.hold.milliseconds is not None and (
        job.used_ms + round(tools.seconds * 1000) >= job.hold.milliseconds
    )
    exhausted = end.failure == USED_UP or (end.failure == LIMIT_REACHED and is_over_time)
    if not exhausted and (end.stop_reason is not StopReason.END_TURN or end.failure is not None or end.handed_over):
        paused = (
            f"Job {job.number} is not done: `/job resume {job.number}` continues it, `/job stop {job.number}` ends it."
        )
        return replace(end, sentence=" ".join(part for part in (end.sentence, paused) if part))
    if not job.checks:
        await _run_checks(dialogue, turn_id, tools, job)
    passed = all(check.exit_code == 0 for check in job.checks)
    outcome = JobOutcome.COMPLETED if passed else JobOutcome.CHECKS_FAILED
    outcome = JobOutcome.BUDGET_EXHAUSTED if exhausted else outcome
    settled = await _settle(dialogue, checkpoints, turn_id, job, outcome, "engine", tools)
    return replace(end, sentence=markdown(as_result(end.sentence, *settled.document).document))


async def _settle(
    dialogue: "Dialogue",
    checkpoints: "Checkpoints",
    turn_id: TurnId,
    job: RunningJob,
    outcome: JobOutcome,
    by: str,
    tools: "TurnTools | None",
) -> JobView:
    """Write the receipt, release the hold and the claims; the job with its receipt."""
    await checkpoints.take("tool", f"after job {job.number}")
    await dialogue.recorder.commit_waiting()
    database = dialogue.shared.database
    spent_ms = _since(job, tools.seconds) if tools is not None else 0
    settled = await database.read(partial(receipt_of, job_id=job.job_id, checks=job.checks))
    if settled.used is not None:
        used = replace(settled.used, milliseconds=settled.used.milliseconds + spent_ms)
        settled = replace(settled, used=used)
    settled = replace(settled, turn_id=turn_id, outcome=outcome.value, by=by, spent_ms=spent_ms)
    claimed, now_ms = claims_of(dialogue.state.policy.roots[0], job.terms), dialogue.shared.clock.now_ms()

    def release(tx: Transaction) -> None:
        for target in claimed:
            release_claims(tx, dialogue.session_id, target.path, now_ms=now_ms)

    await dialogue.recorder.record(NewEvent(settled, Actor.SYSTEM, Origin.AGENT), behind=release)
    return await _show(dialogue, job.number)


class _Agreed(Struct, frozen=True):
    by: str
    at_ms: int
    seq: int


def receipt_of(tx: Transaction, *, job_id: str, checks: tuple[JobCheck, ...]) -> JobSettled:
    """The receipt of a job by what is recorded of it: all but its outcome, and the time since its last move.

    Raises:
        JobMoveError: there is no such job.
        JournalError: an event cannot be understood.
    """
    row = store.read_job(tx, job_id)
    if row is None:
        raise JobMoveError(0, "", JobStage.COMPLETED)
    events = store.events_of_job(tx, row)
    moves = [(entry, entry.event) for entry in events if isinstance(entry.event, JobMoved)]
    agreed = next((_Agreed(move.by, at.at_ms, at.session_seq) for at, move in moves if move.quote is not None), None)
    turns = {move.turn_id for _, move in moves}
    after = agreed.seq if agreed is not None else 0
    # What a turn used before its user agreed is none of the job's.
    requests = [
        used
        for used in usage_of_session(tx, row.session_id)
        if used.turn_id in turns and used.seq > (row.agreed_seq or 0)
    ]
    parts = {used.subagent: JobUse(used.subagent, 0, 0, 0) for used in requests if used.subagent}
    total = JobUse(JOB, 0, 0, 0)
    for used in requests:
        tokens, money = used.usage.context_tokens, used.micro_units or 0
        total = JobUse(JOB, total.requests + 1, total.tokens + tokens, total.micro_units + money)
        if used.subagent:
            part = parts[used.subagent]
            parts[used.subagent] = JobUse(part.node, part.requests + 1, part.tokens + tokens, part.micro_units + money)
    holds = _job_holds(tx, job_id)
    taken = read_stream(tx, row.session_id, after=after, kinds=(CheckpointTaken,))
    changes = net_changes(
        one.event for one in taken if isinstance(one.event, CheckpointTaken) and one.event.turn_id in turns
    )
    return JobSettled(
        TurnId(row.turn_id),
        job_id,
        "",
        "",
        agreed_by=agreed.by if agreed is not None else "",
        agreed_ms=agreed.at_ms if agreed is not None else 0,
        used=replace(total, milliseconds=holds[Meter.TIME].spent + holds[Meter.TIME].over),
        parts=tuple(parts[name] for name in sorted(parts)),
        released=JobHold(*(holds[meter].left for meter in Meter)),
        over=JobHold(*(holds[meter].over or None for meter in Meter)),
        checks=checks,
        files=tuple(
            JobFile(path, change.after.digest)
            for path, change in sorted(changes.items())
            if change.before != change.after
        ),
    )


async def _resume(session: "Session", row: JobRow) -> Result | TurnEnd | None:
    """Continue with a job whose turn ended early, or whose process did."""
    quoted = await session.constellation.database.read(lambda tx: store.quoted_of(tx, row))
    match row.state:
        case JobStage.AGREED | JobStage.WORKING:
            await work_on(session.dialogue, session.checkpoints, row, quoted)
            return None
        case JobStage.SETTLING:
            return await _settle_again(session, row, quoted)
        case JobStage.QUOTED:
            return await _offer(session.dialogue, session.checkpoints, quoted.terms, row)
        case _:
            raise JobMoveError(row.number, row.state, JobStage.WORKING)


async def _settle_again(session: "Session", row: JobRow, quoted: JobQuoted) -> TurnEnd:
    """Run the checks again for a job that was being settled, and write its receipt."""
    # Late: only what calls tools needs them.
    from pattern_acp.session.turn_tools import own_tools

    turn_id = session.turn_id
    job = session.state.job = _idle(session.state, row, quoted)
    tools = await own_tools(session, turn_id)
    return (
        await after_work(session.dialogue, session.checkpoints, turn_id, TurnEnd(StopReason.END_TURN), tools)
        if job
        else TurnEnd(StopReason.END_TURN)
    )


def _idle(state: "SessionState", row: JobRow, quoted: JobQuoted) -> RunningJob:
    limits = SubagentLimits(job=row.number)
    return RunningJob(row.id, row.number, quoted.terms, JobHold(), Spent(), 0, limits, state.model, state.persona.name)


async def _stop(dialogue: "Dialogue", checkpoints: "Checkpoints", row: JobRow) -> Result:
    """End a job with what exists, without its checks."""
    turn_id = dialogue.turn_id
    quoted = await dialogue.shared.database.read(lambda tx: store.quoted_of(tx, row))
    if row.state is JobStage.QUOTED:
        settled = JobSettled(turn_id, row.id, JobOutcome.DECLINED.value, "person")
        await dialogue.recorder.record(NewEvent(settled, Actor.HUMAN, Origin.PERSON))
        return await _show(dialogue, row.number)
    if row.state.is_over:
        raise JobMoveError(row.number, row.state, JobOutcome.STOPPED.value)
    if row.state is JobStage.WORKING:
        moved = JobMoved(turn_id, row.id, JobStage.SETTLING.value, "person")
        await dialogue.recorder.record(NewEvent(moved, Actor.HUMAN, Origin.PERSON))
    return await _settle(
        dialogue, checkpoints, turn_id, _idle(dialogue.state, row, quoted), JobOutcome.STOPPED, "person", None
    )
