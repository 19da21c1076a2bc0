"""Tasks of one session over the constellation.

Owns: whose tasks a session sees, who is said to have changed them, and which one it works on. Must not know: the model,
ACP, or how an answer reads.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.access import Actor, DataSource, Origin
from pattern_acp.domain.clock import Clock, IdFactory, SessionId, ToolCallId, TurnId
from pattern_acp.domain.tool_calls import Plan
from pattern_acp.journal.leases import Holder, held_elsewhere, lease_of, this_process
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.search_terms import TASK_ID
from pattern_acp.tasks import store
from pattern_acp.tasks.model import (
    GraphQuery,
    LinkKind,
    Task,
    TaskFilter,
    TaskGraph,
    TaskPatch,
    TaskRow,
    TaskStatus,
    TaskStep,
    TaskTakenError,
    patched,
    steps_of,
)

if TYPE_CHECKING:
    from pattern_acp.tasks.interchange import TaskDraft
    from pattern_acp.tasks.task_files import TaskText

T = TypeVar("T")


class TaskDesk(Struct, frozen=True):
    """Whose tasks are meant: `owners` in sight, new ones of the last of them, and the stream of the events."""

    owners: tuple[tuple[Scope, str], ...]
    stream: str
    session: str = ""
    """The session that works on tasks; empty for a command of the terminal."""
    author: str = "user"
    """The one who comments and takes tasks."""
    actor: Actor = Actor.HUMAN
    origin: Origin = Origin.PERSON
    holder: Holder | None = None
    """The process as leases know it; None for a command of the terminal."""


class ImportedTasks(Struct, frozen=True):
    """The outcome of an import: new tasks, changed ones, and how many entries changed nothing."""

    created: tuple[Task, ...] = ()
    changed: tuple[Task, ...] = ()
    same: int = 0


_IMPORTED_AT_ONCE = 50
"""Entries of one transaction: other processes wait for it, and importing the rest again finds these."""


class Tasks:
    """Tasks as a session or a command sees and changes them. Every change is one transaction with its event."""

    def __init__(self, database: Database, desk: TaskDesk, *, clock: Clock, ids: IdFactory, peer: int) -> None:
        """`peer` is the Loro peer of this process start."""
        self.turn_id: TurnId | None = None
        self.read: Callable[[], tuple[DataSource, ...]] = tuple
        """Returns the data of others that the turn has read so far."""
        self._database = database
        self._desk = desk
        self._clock = clock
        self._ids = ids
        self._peer = peer
        self._holder = desk.holder or this_process(desk.stream)

    async def list(self, asked: TaskFilter) -> tuple[TaskRow, ...]:
        """The tasks that fit, with what blocks them."""
        if asked.is_impossible:
            return ()
        return await self._database.read(lambda tx: store.list_tasks(tx, self._desk.owners, asked))

    async def get(self, ref: str) -> Task:
        """The task of a reference. Raises TaskNotFoundError where there is none in sight."""
        return await self._database.read(lambda tx: store.find_task(tx, self._desk.owners, ref))

    async def graph(self, asked: GraphQuery) -> TaskGraph:
        """The tasks around one. Raises TaskNotFoundError where there is none in sight."""
        return await self._database.read(lambda tx: store.walk(tx, self._desk.owners, asked))

    async def shown(self, ref: str) -> TaskGraph:
        """A task with what was measured of it, and the tasks that it links to or that link to it.

        Raises:
            TaskNotFoundError: there is none in sight.
        """

        def read(tx: Transaction) -> TaskGraph:
            graph = store.walk(tx, self._desk.owners, GraphQuery(ref, depth=1))
            task, *others = graph.nodes
            return replace(graph, nodes=(replace(task, actual=store.measured_effort(tx, task)), *others))

        return await self._database.read(read)

    async def active(self) -> Task | None:
        """The task that this session works on, or None."""
        session = self._desk.session
        return await self._database.read(lambda tx: store.active_task(tx, session)) if session else None

    async def create(
        self, title: str, patch: TaskPatch, *, scope: Scope = Scope.PROJECT, call_id: ToolCallId | None = None
    ) -> Task:
        """Add a task with the fields of `patch`. Raises TaskRefusedError where the title cannot be one."""
        return await self._write(lambda tx, writer: self._created(tx, title, patch, scope, writer), call_id)

    async def update(self, ref: str, patch: TaskPatch, *, call_id: ToolCallId | None = None) -> Task:
        """Change fields of a task. One that is begun belongs to this session from then on.

        Raises:
            TaskNotFoundError: there is none in sight.
            TaskRefusedError: nothing would change, or a rule is broken.
        """
        patch = self._owned(patch)
        return await self._write(
            lambda tx, writer: store.patch_task(tx, self._desk.owners, ref, patch, writer), call_id
        )

    async def link(
        self, source: str, kind: LinkKind, target: str, *, remove: bool = False, call_id: ToolCallId | None = None
    ) -> Task:
        """Add or remove a link; returns its source. Raises TaskNotFoundError where one of them is not in sight."""
        act = store.unlink_tasks if remove else store.link_tasks
        return await self._write(lambda tx, writer: act(tx, self._desk.owners, source, kind, target, writer), call_id)

    async def comment(self, ref: str, words: str, *, call_id: ToolCallId | None = None) -> Task:
        """Append a comment.

        Raises:
            TaskNotFoundError: there is none in sight.
            TaskRefusedError: it has no text.
        """
        return await self._write(
            lambda tx, writer: store.comment_task(tx, self._desk.owners, ref, self._desk.author, words, writer), call_id
        )

    async def edit(
        self,
        ref: str,
        base: "TaskText",
        edited: "TaskText",
        *,
        note: Callable[[Transaction], None] = lambda _tx: None,
    ) -> Task:
        """Take in what was edited in the file of a task since it was written of `base`.

        `note` is done in the same transaction.

        Raises:
            TaskNotFoundError: it, or the other end of a link, is not in sight.
            TaskRefusedError: a rule is broken.
        """

        def take(tx: Transaction, writer: store.TaskWriter) -> Task:
            task = self._edited(tx, ref, base, edited, writer)
            note(tx)
            return task

        return await self._write(take, None)

    async def import_drafts(self, drafts: "Sequence[TaskDraft]", *, scope: Scope = Scope.PROJECT) -> ImportedTasks:
        """Make tasks of the entries of a file, or change those that it made before.

        Raises:
            TaskRefusedError: a rule is broken.
        """
        done = ImportedTasks()
        for start in range(0, len(drafts), _IMPORTED_AT_ONCE):
            part = drafts[start : start + _IMPORTED_AT_ONCE]
            one = await self._write(lambda tx, writer, part=part: self._imported(tx, part, scope, writer), None)
            done = ImportedTasks((*done.created, *one.created), (*done.changed, *one.changed), done.same + one.same)
        return done

    async def is_own(self, task: Task) -> bool:
        """True if this session works, or worked last, on the task."""
        return bool(self._desk.session) and task.session == self._desk.session

    async def claim(self, ref: str, *, call_id: ToolCallId | None = None) -> Task:
        """Make a task that no other open session works on this session's own, and begin it.

        Raises:
            TaskNotFoundError: there is none in sight.
            TaskTakenError: another open session works on it.
        """

        def taken(tx: Transaction, writer: store.TaskWriter) -> Task:
            task = store.find_task(tx, self._desk.owners, ref)
            if task.session not in {None, self._desk.session} and task.status.is_open and self._is_open(tx, task):
                raise TaskTakenError(task.ref, task.owner or "Somebody")
            patch = TaskPatch(status=TaskStatus.IN_PROGRESS, session=self._desk.session, owner=self._desk.author)
            return store.patch_task(tx, self._desk.owners, task.id, patch, writer)

        return await self._write(taken, call_id)

    def _is_open(self, tx: Transaction, task: Task) -> bool:
        """True if the session that works on the task is open, in this process or another one."""
        session = SessionId(task.session or "")
        lease = lease_of(tx, session)
        if lease is None:
            return False
        return lease.holder == self._holder or (
            held_elsewhere(tx, session, self._holder, self._clock.now_ms()) is not None
        )

    async def show_plan(self, plan: Plan, title: str = "", *, call_id: ToolCallId | None = None) -> Task | None:
        """Make the steps of this session's task those of a plan; without a task, `title` becomes one if one is passed.

        A plan whose steps are all over ends its task. None: the session works on no task.

        Raises:
            TaskRefusedError: the title cannot be one.
        """
        steps = steps_of(plan)
        return await self._write(lambda tx, writer: self._planned(tx, steps, title, writer), call_id)

    def _planned(self, tx: Transaction, steps: Sequence[TaskStep], title: str, writer: store.TaskWriter) -> Task | None:
        over = bool(steps) and all(not step.status.is_open for step in steps)
        patch = TaskPatch(steps=tuple(steps), status=TaskStatus.DONE if over else TaskStatus.IN_PROGRESS)
        active = store.active_task(tx, self._desk.session)
        if active is not None:
            return store.patch_task(tx, self._desk.owners, active.id, patch, writer)
        if not steps or not title:
            return None
        begun = replace(patch, status=TaskStatus.IN_PROGRESS, session=self._desk.session, owner=self._desk.author)
        task = self._created(tx, title, begun, Scope.PROJECT, writer)
        return store.patch_task(tx, self._desk.owners, task.id, patch, writer) if over else task

    def _created(self, tx: Transaction, title: str, patch: TaskPatch, scope: Scope, writer: store.TaskWriter) -> Task:
        owner = next(owner for found, owner in self._desk.owners if found is scope)
        # Time first, so that ids sort by age.
        task_id = f"{TASK_ID}{writer.at_ms:012x}{self._ids.new('x')[-20:]}"
        task = Task(task_id, 0, title, created_ms=writer.at_ms, updated_ms=writer.at_ms)
        task = patched(task, self._owned(replace(patch, title=title)), writer.at_ms)
        return store.create_task(tx, scope, owner, task, writer, list_id=self._ids.new("tasklist"))

    def _edited(
        self, tx: Transaction, ref: str, base: "TaskText", edited: "TaskText", writer: store.TaskWriter
    ) -> Task:
        # Late, as all that only a user's own commands and files need.
        from pattern_acp.tasks.task_files import Reading, merge_task

        owners = self._desk.owners
        names = store.numbers_around(tx, owners, ref)
        read = Reading(
            self._desk.author,
            writer.at_ms,
            lambda task_id: names.get(task_id, task_id),
            lambda ref: ref if ref in names else store.find_task(tx, owners, ref).id,
        )
        return store.change_task(tx, owners, ref, "edit", lambda now: merge_task(base, edited, now, read), writer)

    def _imported(
        self, tx: Transaction, drafts: "Sequence[TaskDraft]", scope: Scope, writer: store.TaskWriter
    ) -> ImportedTasks:
        from pattern_acp.tasks.interchange import changes_of

        writer = replace(writer, actor=Actor.IMPORT, origin=Origin.WORKSPACE)
        known = store.imported_tasks(tx, self._desk.owners)
        created: list[Task] = []
        changed: list[Task] = []
        for draft in drafts:
            task = store.task_in_sight(tx, self._desk.owners, draft.task_id) or known.get(draft.source.key)
            patch = changes_of(draft, task)
            # An issue is what anybody wrote; a list is a file that the user chose.
            said = replace(writer, read=(f"the issue {draft.source.url}",)) if draft.source.url else writer
            if task is None:
                task = self._created(tx, str(patch.title), patch, scope, said)
                created.append(task)
            elif not patch.is_empty:
                task = store.patch_task(tx, self._desk.owners, task.id, patch, said)
                if patch != TaskPatch(source=patch.source):
                    changed.append(task)
            known[draft.source.key] = task
        return ImportedTasks(tuple(created), tuple(changed), len(drafts) - len(created) - len(changed))

    def _owned(self, patch: TaskPatch) -> TaskPatch:
        """The patch, which lets this session work on what it begins."""
        if patch.status is not TaskStatus.IN_PROGRESS or not self._desk.session:
            return patch
        patch = replace(patch, session=self._desk.session)
        return patch if isinstance(patch.owner, str) else replace(patch, owner=self._desk.author)

    async def _write(self, change: Callable[[Transaction, store.TaskWriter], T], call_id: ToolCallId | None) -> T:
        desk = self._desk
        # The project's own files are no data of others for its own tasks.
        read = [source for source in self.read() if not source.of_project]
        writer = store.TaskWriter(
            desk.stream,
            self._peer,
            self._clock.now_ms(),
            desk.actor,
            read[0].origin if read else desk.origin,
            self.turn_id,
            call_id,
            tuple(source.name for source in read),
        )
        return await self._database.write(lambda tx: change(tx, writer))
