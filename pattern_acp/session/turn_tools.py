"""The tools of one turn: what a call finds around it, built when the model makes its first call.

Owns: policy, checks, hooks and the ports for calls. Must not know: when they are made (`session.turn_stages`).
"""

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pattern_acp.context.builder import long_text, result_text
from pattern_acp.context.window import text_limit
from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.clock import SessionId, TurnId
from pattern_acp.journal.events import TurnStarted
from pattern_acp.journal.history import ancestors, read_history
from pattern_acp.journal.reader import Recorded, read_item
from pattern_acp.session.context_usage import offered_tools, skill_tools
from pattern_acp.session.hooks import SessionToolHooks
from pattern_acp.session.memory_context import agent_history
from pattern_acp.session.session import Session
from pattern_acp.session.state import code_of, may_read, note_sandbox, profile_of
from pattern_acp.tools.base import Tool, ToolContext
from pattern_acp.turn.budget import Budget, Limits, RepeatGuard, RepeatLimits

if TYPE_CHECKING:
    from pattern_acp.policy.decision import UserQuestion
    from pattern_acp.session.ports import Dialogue
    from pattern_acp.session.subagents.kinds import TurnParts
    from pattern_acp.tasks.service import Tasks
    from pattern_acp.turn.checks import ConfiguredChecks
    from pattern_acp.turn.permissions import PermissionChecker
    from pattern_acp.turn.tool_runner import ToolRunner, WorkAhead


class TurnTools:
    """The tools that one turn may call, and their runner."""

    def __init__(
        self,
        session: Session,
        turn_id: TurnId,
        tools: Sequence[Tool],
        budget: Budget,
        withheld: Collection[str] = (),
    ) -> None:
        """`withheld` are the names of those that the model knows and that this turn's command does not allow."""
        self._session = session
        self._turn_id = turn_id
        self._tools = tools
        self._budget = budget
        self._withheld = withheld
        self._runner: ToolRunner | None = None
        self._permissions: PermissionChecker | None = None
        self.parts: TurnParts | None = None
        """The parts that subagents of the turn share; None before the first call."""
        self.work_ahead: WorkAhead | None = None
        """Asks the user about much work before it is done; set before the first call."""
        self.checks: ConfiguredChecks | None = None
        """The checks of what calls edit; None before the first call."""

    @property
    def seconds(self) -> float:
        """Seconds that the turn took so far, without those of the user."""
        return self._budget.seconds

    async def runner(self) -> "ToolRunner":
        """Return the runner of the turn's calls, with policy, checks and hooks; the same one every time.

        The first call waits until it is known what confines commands here.
        """
        if self._runner is not None:
            return self._runner
        await note_sandbox(self._session.constellation, self._session.state)
        # Late, as all that only calls need: the first request leaves before there is one.
        from pattern_acp.session.checks import ChecksAndDiagnostics, checks_of
        from pattern_acp.session.edit_warnings import EditWarnings
        from pattern_acp.session.subagents.delegation import Subagents
        from pattern_acp.session.subagents.kinds import TurnParts
        from pattern_acp.turn.permissions import PermissionChecker, circumstances_of
        from pattern_acp.turn.tool_runner import ToolRunner

        session, clock = self._session, self._session.constellation.clock
        tools = [tool for tool in self._tools if tool.spec.name not in self._withheld]
        permissions = self._permissions = PermissionChecker(
            session.state.policy,
            session.approver,
            session.recorder,
            clock=clock,
            waits=self._budget.waits,
            circumstances=partial(circumstances_of, self._budget, session.state.cwd, clock),
        )
        context, hooks = tool_context(session, self._turn_id), SessionToolHooks(session.dialogue)
        offered = partial(offered_tools, session.dialogue)
        below = partial(Subagents, session)
        parts = self.parts = TurnParts(self._turn_id, tuple(tools), offered, context, hooks, self._budget, below)
        subagents = Subagents(session, parts)
        context = replace(context, delegation=subagents, put_question=self._put_question)
        self.checks = subagents.checks = checks_of(session.dialogue, session.checkpoints, permissions, context)
        self._runner = ToolRunner(
            tools,
            context,
            permissions,
            session.recorder,
            clock=clock,
            after_edits=ChecksAndDiagnostics(session, self.checks, session.recorder),
            hooks=hooks,
            effects=session.checkpoints,
        )
        self._runner.before_edits = EditWarnings(session.dialogue, session.state)
        self._runner.work_ahead = self.work_ahead
        self.follow_job()
        self._runner.withheld = self._withheld
        self._runner.offered = lambda: [tool.spec.name for tool in offered_tools(session.dialogue)]
        self._runner.running = session.calls
        self._runner.hands_over = lambda _: session.is_steered()
        limits = session.state.settings.turn
        self._runner.repeats = RepeatGuard(RepeatLimits(limits.repeats_noted, limits.repeats_asked))
        return self._runner

    def follow_job(self) -> None:
        """Hold the calls, and the time, to the job that the turn works on, where there is one."""
        job, limits = self._session.state.job, self._session.state.settings.turn
        if job is None or self._permissions is None:
            return
        self._session.state.policy.grants += job.grants
        self._permissions.narrow(job.limits)
        self._budget.limits = job.limiting(Limits(limits.max_model_requests, limits.max_wall_seconds))

    @asynccontextmanager
    async def asking(self) -> AsyncGenerator[None, None]:
        """The user is asked, once no other question is open; the time counts for no limit."""
        with self._budget.waits.waiting():
            async with self._session.state.policy.asking:
                yield

    async def _put_question(self, question: "UserQuestion") -> str | None:
        async with self.asking():
            return await self._session.approver.put(question)


async def own_tools(session: Session, turn_id: TurnId) -> TurnTools:
    """Tools for what a turn does beside its loop, with its own limits: the parts and the runner are there."""
    from pattern_acp.session.subagents.kinds import own_budget

    known = (*session.constellation.tools, *skill_tools(session.state), *session.mcp.toolbox.callable())
    tools = TurnTools(session, turn_id, known, own_budget(session.dialogue))
    await tools.runner()
    return tools


def tool_context(session: Session, turn_id: TurnId) -> ToolContext:
    """Context for the tools of this turn."""
    from pattern_acp.session.checks import servers_of
    from pattern_acp.session.searching import sessions_of
    from pattern_acp.workspace.snapshots import ObservedFiles, TrackedFiles

    code, files = code_of(session.constellation, session.state), session.workbench.files
    is_elsewhere = session.constellation.elsewhere is not None
    if not is_elsewhere:
        files = TrackedFiles(files, session.checkpoints)
    characters = session.state.settings.turn.tool_result_chars
    return ToolContext(
        session_id=session.session_id,
        turn_id=turn_id,
        cwd=session.state.cwd,
        roots=session.state.policy.roots,
        files=ObservedFiles(files, code.note_changed) if code is not None else files,
        is_elsewhere=is_elsewhere,
        at_client=session.workbench.at_client,
        terminal=session.workbench.terminal,
        limits=partial(profile_of, session.constellation, session.state),
        memory=session.memory,
        read_before=session.state.policy.read_before,
        history=partial(agent_history, session.constellation, session.state, turn_id),
        read_fingerprints=session.state.fingerprints,
        jobs=session.jobs,
        command_seconds=session.state.settings.turn.command_timeout_seconds,
        keeps_slow_commands=session.state.settings.turn.slow_commands == "background",
        result_limit=text_limit(session.state.model, characters),
        # A file is what was asked for: reading half of it costs another request and no fewer tokens.
        read_limit=text_limit(session.state.model, characters * 5 // 2),
        command_ended=code.note_command_ended if code is not None else lambda: None,
        code=code,
        languages=servers_of(session),
        sessions=sessions_of(session.constellation, session.state),
        tasks=partial(_tasks, session.dialogue, turn_id) if session.state.has_tasks else None,
        may_read=lambda path: may_read(session.state, path),
        long_text=lambda text_id: whole_text(session.constellation.database, session.session_id, text_id),
    )


def _tasks(dialogue: "Dialogue", turn_id: TurnId) -> "Tasks":
    from pattern_acp.session.task_commands import tasks_of_agent

    return tasks_of_agent(dialogue, turn_id)


async def whole_text(database: Database, session_id: SessionId, text_id: str) -> str | None:
    """The text behind the id of a marker: of a tool call or a part of a prompt; None when there is none.

    From the journal, since a compacted conversation no longer has every message.

    Raises:
        DatabaseError: the constellation cannot be read.
    """

    def read(tx: Transaction) -> tuple[list[Recorded], list[Recorded]]:
        streams = (session_id, *(one.session_id for one in ancestors(tx, session_id)))
        of_call = next((found for stream in streams if (found := read_item(tx, stream, text_id))), list[Recorded]())
        return of_call, [] if of_call else read_history(tx, session_id)

    of_call, stream = await database.read(read)
    if of_call:
        return result_text([item.event for item in of_call])
    return long_text((item.event.message for item in stream if isinstance(item.event, TurnStarted)), text_id)
