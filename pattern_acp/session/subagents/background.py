"""Subagents in the background: they continue after their prompt, and the next one settles what they found.

Owns: the background subagents of one session, their records, what becomes of a result at the next prompt, and /workers.
Must not know: how a subagent runs. Between prompts nothing of the user's changes and nobody is asked: a result waits.
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.commands.document import ItemList, Result, as_result
from pattern_acp.commands.parameters import CommandMisusedError, first_word
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.errors import DatabaseError, PatternError, WorkspaceError
from pattern_acp.domain.messages import Message
from pattern_acp.domain.paths import display_path
from pattern_acp.domain.text_limits import one_line, plural, short_diff
from pattern_acp.domain.tool_calls import TextContent, ToolCallStatus, ToolCallView, ToolContent, ToolKind
from pattern_acp.journal.contents import read_content
from pattern_acp.journal.events import JobEnded, JobReported, JobStarted, ToolCallFinished, ToolCallStarted
from pattern_acp.policy.decision import ApprovalRequest, PermissionAnswer
from pattern_acp.rewind.landing import NotLandedError, record_with_contents
from pattern_acp.session.state import Addition
from pattern_acp.session.subagents.graph import SubagentGraph
from pattern_acp.session.subagents.kinds import TurnParts, give_back, own_budget
from pattern_acp.session.subagents.memory import shown_memory
from pattern_acp.session.subagents.subagent import Subagent
from pattern_acp.session.subagents.worker import Landings
from pattern_acp.session.subagents.worker_result import asked_for
from pattern_acp.tools.base import DELEGATE, DelegatedTask, NotAvailableError, SubagentKind, ToolOutcome
from pattern_acp.turn.recorder import CLEANUP_SECONDS, NewEvent
from pattern_acp.turn.tool_runner import CallProgress
from pattern_acp.workspace.jobs import JobState
from pattern_acp.workspace.overlay import NO_FILE, Content, OverlayChange, content_hash, content_of

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

logger = logging.getLogger(__name__)

NONE = "No subagent works in the background of this session."

ID = "worker"
"""Beginning of the ids: they are recorded as background work, beside commands."""

SOURCE = "worker"
"""Source of what the model learns of them."""

SHOWN_TASK = 160
"""Characters of a task, and of the last words, in a line."""

SHOWN_FILES = 20
"""Files whose diffs /workers shows."""

CLOSE_SECONDS = 2.5
"""Longest wait for the end of those that were asked to end."""

WAITS = "has finished, and waits for your next prompt"

HELP = "`/workers NAME` shows one, `/workers stop NAME` ends it."


UNASKED = (
    "You work in the background: nobody can be asked, so a call that needs the user's leave is refused. Say in your "
    "report what was left for that reason."
)
"""Addition to the task."""


class ShownInTurns:
    """`tools.base.Progress` of work that outlives turns: each turn has a call of its own for it."""

    def __init__(self) -> None:
        self.call: CallProgress | None = None
        """None between turns, when clients are shown nothing."""
        self.view: ToolCallView | None = None
        self.turn_id = TurnId("")
        self._last: tuple[tuple[ToolContent, ...], str] | None = None

    def note(self, text: str) -> None:
        """See `Progress.note`."""

    async def show(self, content: tuple[ToolContent, ...], *, title: str = "") -> None:
        """See `Progress.show`."""
        self._last = content, title
        if self.call is not None:
            await self.call.show(content, title=title)

    async def begin(self, turn_id: TurnId, view: ToolCallView, call: CallProgress) -> None:
        """Show in this call what comes, and what came last."""
        self.turn_id, self.view, self.call = turn_id, view, call
        if self._last is not None:
            content, title = self._last
            await call.show(content, title=title)

    async def terminal_output(self, terminal_id: str, data: str) -> None:
        """See `Progress.terminal_output`."""

    async def terminal_exit(self, terminal_id: str, exit_code: int | None, signal: str | None) -> None:
        """See `Progress.terminal_exit`."""


class NobodyAsked:
    """`Approver` between turns, when clients show no questions."""

    async def ask(self, request: ApprovalRequest) -> PermissionAnswer:
        """See `Approver.ask`."""
        del request
        return PermissionAnswer.CANCELLED


class BackgroundSubagent(Struct, eq=False):
    """One subagent in the background."""

    worker_id: str
    task: DelegatedTask
    call_id: ToolCallId
    subagent: Subagent
    graph: SubagentGraph
    progress: ShownInTurns
    words: str = ""
    """Words with which it continues; empty for its beginning."""
    has_result: bool = False
    """True once it waits for the next prompt."""
    outcome: str = ""
    """`exited` or `stopped` once it is over."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)

    @property
    def wants_words(self) -> bool:
        """True while it waits for what the user wants changed."""
        result = self.subagent.result
        return self.has_result and result is not None and result.wants_words

    @property
    def state(self) -> str:
        """Its state in words."""
        if self.wants_words:
            return "waits for your words"
        if self.outcome:
            return "has ended" if self.outcome == JobState.EXITED else "was stopped"
        return WAITS if self.has_result else "works"

    @property
    def line(self) -> str:
        """One line about it."""
        return line_about(self.task.name, self.worker_id, self.state, self.task.task)


class BackgroundSubagents:
    """The background subagents of one session, by id."""

    def __init__(self, session: "Session", tasks: TaskGroup) -> None:
        self._session, self._tasks = session, tasks
        self._all: dict[str, BackgroundSubagent] = {}

    def all(self) -> tuple[BackgroundSubagent, ...]:
        """Every one of this process, oldest first."""
        return tuple(self._all.values())

    def named(self, name: str) -> BackgroundSubagent:
        """The newest of a name or an id.

        Raises:
            CommandMisusedError: there is none.
        """
        found = [each for each in self._all.values() if name in {each.worker_id, each.task.name}]
        if not found:
            known = ", ".join(each.task.name for each in self._all.values()) or "none"
            raise CommandMisusedError(f"There is no worker {one_line(name, 40)!r} in the background; there is {known}.")
        return found[-1]

    async def start(self, parts: TurnParts, task: DelegatedTask, call_id: ToolCallId) -> ToolOutcome:
        """Start one, and return what its call is answered with.

        Raises:
            DatabaseError: it could not be recorded.
        """
        worker = await self.begin(parts, task, call_id)
        await self._follow(worker, parts.turn_id)
        said = f"{task.name} works in the background ({worker.worker_id})."
        return ToolOutcome(f"{said} You read its report with a later prompt; continue.", origin=Origin.AGENT)

    async def begin(self, parts: TurnParts, task: DelegatedTask, call_id: ToolCallId) -> BackgroundSubagent:
        """Start one that no turn shows yet.

        Raises:
            DatabaseError: it could not be recorded.
        """
        worker = self._new(parts, task, call_id, self._next_id())
        await self._began(worker)
        self._tasks.start_soon(self._run, worker)
        return worker

    async def await_words(self, parts: TurnParts, task: DelegatedTask, call_id: ToolCallId, done: Subagent) -> None:
        """Let one that has finished in a turn wait for what the user wants changed: their next message.

        Raises:
            DatabaseError: it could not be recorded.
        """
        worker = self._new(parts, task, call_id, self._next_id())
        await self._began(worker)
        await self._report(worker, done)
        changes = done.result.files.changes() if done.result is not None else ()
        await worker.subagent.restore(done.reported(worker.worker_id), changes)
        worker.has_result = True
        worker.done.set()

    def _next_id(self) -> str:
        known = self._session.jobs.all() if self._session.jobs is not None else ()
        earlier = sum(job.job_id.startswith(ID) for job in known)
        return f"{ID}{earlier + len(self._all) + 1}"

    async def _began(self, worker: BackgroundSubagent) -> None:
        session, task = self._session, worker.task
        line = f"{task.kind} {task.name}: {one_line(task.task, SHOWN_TASK)}"
        await session.recorder.record(NewEvent(JobStarted(worker.worker_id, line, session.state.cwd), Actor.TOOL))
        self._all[worker.worker_id] = worker

    def _new(self, parts: TurnParts, task: DelegatedTask, call_id: ToolCallId, worker_id: str) -> BackgroundSubagent:
        session = self._session
        own = replace(parts, budget=own_budget(session.dialogue), approver=NobodyAsked())
        base = None if task.kind.only_reads else session.workbench.files
        graph = SubagentGraph(lands=lambda _: base is not None)
        graph.node(call_id, task.name, task.kind)
        told = replace(task, task=f"{task.task}\n\n{UNASKED}")
        progress = ShownInTurns()
        subagent = Subagent(session, own, told, call_id, progress, base)
        if subagent.result is not None:
            subagent.result.asks_later = True
        return BackgroundSubagent(worker_id, task, call_id, subagent, graph, progress)

    async def restore(self, parts: TurnParts | None) -> None:
        """Take over results that waited when an earlier process ended.

        Raises:
            DatabaseError: they cannot be read.
        """
        session, shared = self._session, self._session.constellation
        while session.state.reported and parts is not None:
            one = session.state.reported[0]
            kind = SubagentKind(one.kind)
            task = DelegatedTask(kind, one.task, one.name, paths=one.paths, checks=one.checks, background=True)
            worker = self._new(parts, task, one.call_id, one.job_id)
            try:
                changes = await shared.database.read(partial(_changes_of, reported=one))
                await worker.subagent.restore(one, changes)
            except WorkspaceError as error:
                await worker.subagent.restore(replace(one, lands=False, failed=True, problem=error.sentence), ())
            worker.has_result = True
            worker.done.set()
            self._all[one.job_id] = worker
            session.state.reported.pop(0)

    async def _follow(self, worker: BackgroundSubagent, turn_id: TurnId) -> None:
        """Show in a call of this turn what one does."""
        session = self._session
        call_id = ToolCallId(session.constellation.ids.new("call"))
        title = f"{worker.task.kind.capitalize()}: {worker.task.name} (in the background)"
        view = ToolCallView(call_id, DELEGATE, title, ToolKind.THINK, {"worker": worker.worker_id})
        await session.recorder.record(NewEvent(ToolCallStarted(turn_id, view), Actor.SYSTEM, Origin.AGENT))
        await worker.progress.begin(turn_id, view, CallProgress(call_id, session.recorder))

    async def _unfollow(self, worker: BackgroundSubagent) -> None:
        progress, state = worker.progress, f"{worker.task.name} {worker.state}."
        view, call, progress.view, progress.call = progress.view, progress.call, None, None
        if view is not None and call is not None:
            shown = (*call.content, TextContent(state))
            status = ToolCallStatus.COMPLETED
            ended = ToolCallFinished(progress.turn_id, view.call_id, status, state, shown)
            await self._session.recorder.record(NewEvent(ended, Actor.SYSTEM, Origin.AGENT))

    async def turn_ends(self) -> None:
        """See `BackgroundWork.turn_ends`."""
        for worker in self.all():
            await self._unfollow(worker)

    async def stop(self, worker: BackgroundSubagent) -> None:
        """End one; nothing of it lands."""
        worker.scope.cancel()
        await worker.done.wait()
        if not worker.outcome:
            await self._over(worker, JobState.STOPPED)

    def close(self) -> None:
        """Tell all to end; does not wait."""
        for worker in self._all.values():
            worker.scope.cancel()

    async def wait_closed(self) -> None:
        """Wait until all have ended, or took too long."""
        with anyio.move_on_after(CLOSE_SECONDS):
            for worker in self._all.values():
                await worker.done.wait()

    async def settle(self, turn_id: TurnId, prompt: Message) -> None:
        """Ask about results that wait, land them, and let the model read their reports, in the turn that begins.

        Raises:
            DatabaseError: something could not be recorded.
        """
        for worker in self.all():
            if worker.outcome:
                continue
            result = worker.subagent.result
            if result is not None and worker.wants_words and prompt.text.strip():
                result.wants_words = False
                self._goes_on(worker, asked_for(prompt.text))
                told = "The user's message says what it is to change. It continues with that in the background."
                self._session.state.waiting.append(Addition(SOURCE, f"{worker.task.name} continues", told, SOURCE))
            elif worker.wants_words:
                continue
            await (self._settle if worker.has_result else self._follow)(worker, turn_id)

    async def _settle(self, worker: BackgroundSubagent, turn_id: TurnId) -> None:
        session, result, kind = self._session, worker.subagent.result, worker.task.kind
        call_id = ToolCallId(session.constellation.ids.new("call"))
        title = f"{kind.capitalize()}: {worker.task.name} (in the background)"
        view = ToolCallView(call_id, DELEGATE, title, ToolKind.THINK, {"worker": worker.worker_id})
        await session.recorder.record(NewEvent(ToolCallStarted(turn_id, view), Actor.SYSTEM, Origin.AGENT))
        text, content, failed = "The turn ended first; it waits for the next prompt.", (), True
        try:
            words = ""
            if result is not None and result.is_settled:
                result.shown_in(CallProgress(call_id, session.recorder), turn_id, call_id)
                words = await result.ask()
                if result.wants_words:
                    text, failed = f"{worker.task.name} waits for your words: write what it is to change.", False
                    return None
            if words:
                text, failed = "It continues in the background with your words.", False
                return self._goes_on(worker, words)
            outcome = worker.subagent.outcome(
                await land_alone(session, worker.graph, worker.subagent, turn_id, call_id)
            )
            text, content, failed = outcome.text, outcome.content, outcome.is_error
            await self._over(worker, JobState.EXITED)
            waiting = Addition(SOURCE, f"{worker.task.name} has finished in the background", text, SOURCE)
            session.state.waiting.append(waiting)
        finally:
            status = ToolCallStatus.FAILED if failed else ToolCallStatus.COMPLETED
            ended = ToolCallFinished(turn_id, call_id, status, text, content or (TextContent(text),))
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
                await session.recorder.record(NewEvent(ended, Actor.TOOL, Origin.AGENT))

    def _goes_on(self, worker: BackgroundSubagent, words: str) -> None:
        worker.words, worker.has_result = words, False
        worker.scope, worker.done = anyio.CancelScope(), anyio.Event()
        self._tasks.start_soon(self._run, worker)

    async def _run(self, worker: BackgroundSubagent) -> None:
        session = self._session
        session.subagents[worker.call_id] = worker.scope.cancel
        try:
            with worker.scope:
                places = session.subagent_places
                await places.acquire_on_behalf_of(worker.call_id)
                try:
                    await (worker.subagent.go_on(worker.words) if worker.words else worker.subagent.run())
                finally:
                    give_back(places, worker.call_id)
                await self._report(worker, worker.subagent)
                worker.has_result = True
                await self._unfollow(worker)
        except DatabaseError:
            # What it did so far is recorded; the log says what is wrong.
            logger.exception("a subagent in the background ended")
        except PatternError as error:
            logger.warning("a subagent in the background ended: %s", error.sentence)
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_SECONDS):
                await worker.subagent.close()
                if not worker.has_result:
                    await self._over(worker, JobState.STOPPED)
            session.subagents.pop(worker.call_id, None)
            worker.done.set()
            session.wake_if_due()

    @property
    def results(self) -> tuple[str, ...]:
        """See `BackgroundWork.results`."""
        return tuple(one.task.name for one in self.all() if one.has_result and not one.outcome and not one.wants_words)

    async def _report(self, worker: BackgroundSubagent, done: Subagent) -> None:
        """Record the result before it is needed: it outlives this process."""
        result = done.result
        contents = [
            (content_hash(content), content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
            for change in (result.waiting_changes if result is not None else ())
            for content in (change.before, change.after)
            if content is not None
        ]
        reported = replace(done.reported(worker.worker_id), task=worker.task.task)
        await record_with_contents(self._session.checkpoints.scope, reported, contents)

    async def _over(self, worker: BackgroundSubagent, state: JobState) -> None:
        worker.outcome = state.value
        await worker.subagent.memory.drop()
        last = one_line(worker.subagent.last_words, SHOWN_TASK)
        code = 0 if state is JobState.EXITED else None
        try:
            ended = JobEnded(worker.worker_id, state.value, code, None, last)
            await self._session.recorder.record_late(NewEvent(ended, Actor.PROCESS, Origin.AGENT))
        except PatternError:
            logger.warning("the end of a subagent in the background could not be recorded", exc_info=True)


async def land_alone(
    session: "Session", graph: SubagentGraph, subagent: Subagent, turn_id: TurnId, call_id: ToolCallId
) -> str:
    """Land what the only worker of a graph changed, once it is settled; a sentence about it, empty where it is not.

    Raises:
        DatabaseError: it could not be recorded.
    """
    (node,), landings = graph.nodes.values(), Landings(session, graph, turn_id, None)
    if subagent.result is not None and subagent.result.is_settled:
        await landings.settled(node, call_id, subagent.result)
    node.end()
    return await subagent.land(landings, node, call_id)


def _changes_of(tx: Transaction, *, reported: JobReported) -> list[OverlayChange]:
    """The changes of a recorded result.

    Raises:
        NotLandedError: a content of them is gone.
        JournalError: one is damaged.
    """
    return [
        OverlayChange(one.path, _stored(tx, one.path, one.before), _stored(tx, one.path, one.after), one.mode)
        for one in reported.files
    ]


def _stored(tx: Transaction, path: str, digest: str) -> Content:
    if digest == NO_FILE:
        return None
    data = read_content(tx, digest)
    if data is None:
        raise NotLandedError(f"What it wrote in {path} is no longer stored, so nothing of it can land.")
    content = content_of(data)
    return content if content_hash(content) == digest else data.decode("utf-8", "surrogatepass")


def line_about(name: str, worker_id: str, state: str, task: str) -> str:
    """One line about a subagent in the background."""
    return f"**{name}** ({worker_id}) {state}: {one_line(task, SHOWN_TASK)}"


async def run_workers(session: "Session", argument: str) -> Result:
    """List subagents in the background, show one with its changes, or stop one.

    Raises:
        CommandMisusedError: there is no such one.
    """
    workers = session.workers
    if session.state.reported:
        lines = tuple(line_about(one.name, one.job_id, WAITS, one.task) for one in session.state.reported)
        return as_result(ItemList(lines))
    if not isinstance(workers, BackgroundSubagents) or not workers.all():
        return as_result(NONE)
    verb, rest = first_word(argument)
    if not verb:
        return as_result(ItemList(tuple(worker.line for worker in workers.all())), HELP)
    worker = workers.named(rest.strip() if verb == "stop" and rest.strip() else argument.strip())
    if verb == "stop" and rest.strip():
        if worker.outcome:
            return as_result(worker.line, "There is nothing to stop.")
        await workers.stop(worker)
        return as_result(worker.line)
    return as_result(worker.line, *await _shown_result(worker, session.state.cwd))


async def _shown_result(worker: BackgroundSubagent, cwd: str) -> Sequence[str]:
    """The paragraphs about what one has done: its report, the diffs of what is to land, and what it learned."""
    report, result = worker.subagent.last_words, worker.subagent.result
    changes = result.files.changes() if result is not None else ()
    # Late: it is imported with the first fork.
    from pattern_acp.memory.service.forking import ForkInUseError

    try:
        learned = shown_memory(await worker.subagent.memory.learned())
    except ForkInUseError:
        learned = ("Memory: one below it has learned something that has not landed yet; look again later.",)
    return (*([report] if report else []), *shown_changes(changes, cwd), *learned)


def shown_changes(changes: Sequence[OverlayChange], cwd: str) -> Sequence[str]:
    """The paragraphs about changes that are to land."""
    shown: list[str] = []
    if changes:
        shown.append(f"{plural(len(changes), 'changed file')}:")
    for change in changes[:SHOWN_FILES]:
        name = display_path(change.path, cwd)
        if isinstance(change.before, bytes) or isinstance(change.after, bytes):
            shown.append(f"{name} (binary)")
        else:
            shown.append(f"```diff\n--- {name}\n{short_diff(change.before or '', change.after or '')}\n```")
    return shown


def background_of(session: "Session") -> BackgroundSubagents:
    """The background subagents of a session.

    Raises:
        NotAvailableError: this process runs nothing behind a prompt.
    """
    if isinstance(session.workers, BackgroundSubagents):
        return session.workers
    tasks = session.constellation.background
    if tasks is None:
        raise NotAvailableError("Nothing runs in the background here; delegate without background.")
    session.workers = workers = BackgroundSubagents(session, tasks)
    return workers
