"""Offers of jobs in the middle of a turn: the model has planned, or delegates, more than `[jobs] ask_above`.

Owns: the estimate of the work ahead, and the one question about it. Must not know: how a job continues
(`session/agreed_jobs.py`). A turn asks once; what it used before the answer is none of the job's.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec.structs import replace

from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import TurnId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.messages import ToolCallPart
from pattern_acp.domain.paths import absolute_path
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.domain.tool_calls import Plan, PlanStatus
from pattern_acp.domain.usage import Allowance, parse_allowance
from pattern_acp.jobs import store
from pattern_acp.jobs.model import MOST_ROUNDS
from pattern_acp.jobs.quote import (
    LIKELY_FILES,
    VALID_MS,
    QuoteCandidate,
    Reach,
    added,
    hold_for,
    hold_text,
    is_above,
    plan_of,
    price_text,
    quotes_for,
    risks_of,
)
from pattern_acp.journal.events import JobQuoted
from pattern_acp.journal.job_events import JobQuote, JobTerms
from pattern_acp.journal.usage import last_used
from pattern_acp.policy.decision import Mode
from pattern_acp.session.agreed_jobs import UnderWay, agree, decline, work_on
from pattern_acp.session.budgets import spent_now
from pattern_acp.session.job_questions import JobQuestion, ask_about, reach_of, session_tokens
from pattern_acp.session.subagents.kinds import model_for
from pattern_acp.tools.base import SubagentKind
from pattern_acp.tools.delegate import DelegateArguments
from pattern_acp.tools.schema import parse_arguments
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.providers.base import ModelInfo
    from pattern_acp.session.session import Session
    from pattern_acp.session.turn_tools import TurnTools

WITHOUT, STOP = "Continue without a job", "Stop here"

_GOAL = 300


class JobOffers:
    """`turn.tool_runner.WorkAhead` of one turn."""

    def __init__(self, session: "Session", tools: "TurnTools") -> None:
        self._session = session
        self._tools = tools
        self._most = parse_allowance(session.state.settings.jobs.ask_above) or Allowance()
        self._was_asked = False
        self._steps: set[str] = set()
        """The steps of the plans before, which changes when one of them is done."""

    async def before(
        self,
        turn_id: TurnId,
        calls: Sequence[ToolCallPart],
        delegated: Sequence[JsonObject],
        plan: Plan | None,
    ) -> str:
        """See `WorkAhead.before`."""
        del calls
        state = self._session.state
        is_free = state.job is not None or state.policy.mode is Mode.PLAN
        if self._was_asked or is_free or not (delegated or plan) or not self._most.is_limited:
            return ""
        tasks = _tasks(delegated)
        steps = [one.content for one in plan.entries if one.status is not PlanStatus.COMPLETED] if plan else []
        if not tasks and self._steps.issuperset(steps):
            return ""
        self._steps.update(steps)
        await self._session.recorder.commit_waiting()
        terms = await anyio.to_thread.run_sync(self._terms, tasks, steps)
        job_id, number = self._session.constellation.ids.new("job"), 0
        for round_ in range(1, MOST_ROUNDS + 1):
            quoted = await self._quoted(turn_id, job_id, round_, terms, tasks, steps)
            if round_ == 1 and not is_above(quoted.quotes[0], self._most):
                return ""
            self._was_asked = True
            number = number or await self._session.constellation.database.read(store.next_number)
            quoted = replace(quoted, number=number)
            await self._session.recorder.record(NewEvent(quoted, Actor.SYSTEM, Origin.AGENT))
            async with self._tools.asking():
                answer = await ask_about(self._session.dialogue, self._question(quoted))
            if not isinstance(answer, JobTerms):
                return await self._answered(turn_id, quoted, answer)
            # The turn has its model already.
            terms = replace(answer, model="")
        return ""

    async def _answered(self, turn_id: TurnId, quoted: JobQuoted, answer: int | str) -> str:
        session, quote = self._session, quoted.quotes[0]
        ahead = f"The work ahead, estimated at about {price_text(quote)},"
        if isinstance(answer, str):
            await decline(session.dialogue, quoted.job_id)
            return "" if answer == WITHOUT else f"{ahead} was stopped before it began."
        spent = (await spent_now(session.constellation, session.session_id, turn_id)).turn
        since = UnderWay(spent, round(self._tools.seconds * 1000))
        # What was changed before is none of the job's, and /rewind goes back to here.
        await session.checkpoints.take("tool", f"before job {quoted.number}")
        if not await agree(session.dialogue, quoted, answer):
            return f"{ahead} was not begun: the offer of job {quoted.number} ended before you agreed."
        row = await session.constellation.database.read(lambda tx: store.job_numbered(tx, quoted.number))
        await work_on(session.dialogue, session.checkpoints, row, quoted, since)
        self._tools.follow_job()
        return ""

    def _question(self, quoted: JobQuoted) -> JobQuestion:
        quote, limit = quoted.quotes[0], hold_text(hold_for(quoted.terms, quoted.quotes[0]))
        about = f"about {price_text(quote)}"
        return JobQuestion(
            quoted,
            f"The work ahead is estimated at {about}: make it a job?",
            (f"Make it a job: {about}, at most {limit}",),
            (WITHOUT, STOP),
            takes_words=quoted.round < MOST_ROUNDS,
            why=f"The work ahead is estimated at {about}, {quote.tokens:,} tokens, which is above {self._most} "
            "(`[jobs] ask_above`). As a job it has a budget, and its checks and receipt prove what came of it.",
        )

    def _terms(self, tasks: Sequence[DelegateArguments], steps: Sequence[str]) -> JobTerms:
        """The goal in the user's words, with the paths and checks of workers where all have some."""
        session, running = self._session, self._session.running
        goal = one_line(running.text, _GOAL) if running is not None else ""
        workers = [task for task in tasks if task.kind is SubagentKind.WORKER]
        bounded = [path for task in workers for path in task.paths] if all(task.paths for task in workers) else []
        paths = [_glob(path, session.state.cwd, session.state.policy.roots[0]) for path in bounded]
        return JobTerms(
            goal or (steps[0] if steps else tasks[0].task),
            paths=tuple(dict.fromkeys(paths)) if all(paths) else (),
            checks=tuple(dict.fromkeys(line for task in workers for line in task.checks)),
            workers=len(workers),
        )

    async def _quoted(
        self,
        turn_id: TurnId,
        job_id: str,
        round_: int,
        terms: JobTerms,
        tasks: Sequence[DelegateArguments],
        steps: Sequence[str],
    ) -> JobQuoted:
        """The estimate: of each subagent, or of a conversation as long as this one that does the steps of a plan."""
        session = self._session
        shared, state, base = session.constellation, session.state, session_tokens(session.dialogue)
        parts: list[tuple[str, JobQuote, Reach]] = []
        for task in tasks:
            reach = await reach_of(session.dialogue, replace(terms, goal=task.task, paths=task.paths or terms.paths))
            model = shared.models.resolve(model_for(task.kind, state.settings.delegate, state.model.qualified))[1]
            own = replace(terms, checks=task.checks, workers=0)
            (quote,) = quotes_for(own, reach, [await self._as(model)], base_tokens=base)
            parts.append(
                (f"{task.kind.capitalize()} {task.name or task.kind}: about {price_text(quote)}.", quote, reach)
            )
        if not parts:
            last = await shared.database.read(lambda tx: last_used(tx, session.session_id, state.model.qualified))
            reach = await reach_of(session.dialogue, replace(terms, goal="\n".join((terms.goal, *steps))))
            reach, long = replace(reach, steps=len(steps)), last.context_tokens if last is not None else 0
            candidates = [await self._as(state.model)]
            (quote,) = quotes_for(terms, reach, candidates, base_tokens=max(base, long))
            parts.append((f"{plural(len(steps), 'step')} of the model's plan.", quote, reach))
        whole = replace(added([quote for _, quote, _ in parts]), model=state.model.qualified)
        reach = _together(await reach_of(session.dialogue, terms), [reach for *_, reach in parts])
        return JobQuoted(
            turn_id,
            job_id,
            0,
            round_,
            terms,
            (whole,),
            reach.files,
            reach.symbols,
            (*(line for line, *_ in parts), *plan_of(terms, reach, [whole])),
            risks_of(terms, reach, [whole]),
            shared.clock.now_ms() + VALID_MS,
        )

    async def _as(self, model: "ModelInfo") -> QuoteCandidate:
        persona = self._session.state.persona.name
        past = await self._session.constellation.database.read(lambda tx: store.past_jobs(tx, persona, model.qualified))
        return QuoteCandidate(persona, model, past)


def _tasks(delegated: Sequence[JsonObject]) -> list[DelegateArguments]:
    """The arguments that can be read; the others are answered with the reason when their calls run."""
    found: list[DelegateArguments] = []
    for arguments in delegated:
        try:
            found.append(parse_arguments(arguments, DelegateArguments))
        except PatternError:
            continue
    return found


def _glob(path: str, cwd: str, root: str) -> str:
    """A path of a worker as a pattern below the session's folder; empty where it is elsewhere."""
    place = Path(absolute_path(path, cwd))
    if not place.is_relative_to(root):
        return ""
    below = place.relative_to(root).as_posix()
    is_file = place.is_file() or (place.suffix and not place.is_dir())
    return below if is_file else "**" if below == "." else f"{below}/**"


def _together(whole: Reach, reaches: Sequence[Reach]) -> Reach:
    """The reach of all terms, with what its parts are likely about."""
    likely = tuple(dict.fromkeys(path for reach in reaches for path in reach.likely))
    return Reach(
        files=whole.files,
        likely=likely[:LIKELY_FILES],
        bytes=sum(reach.bytes for reach in reaches),
        symbols=sum(reach.symbols for reach in reaches),
        importers=max(reach.importers for reach in reaches),
        tests=whole.tests,
    )
