"""The view that a worker has of the session's folder, and its landing.

Owns: what a worker reads, writes and runs commands on, until all of it lands or none does. Must not know: how a worker
runs.
"""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.errors import BlockError, PatternError, WorkspaceError
from pattern_acp.domain.paths import is_within
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.events import WorkerFile, WorkerReady
from pattern_acp.journal.leases import host_name, own_start_mark
from pattern_acp.processes.confinement import Profile
from pattern_acp.rewind.landing import LandingPlan, NotLandedError, WorkerChanges, land, land_in_overlay, plan_landing
from pattern_acp.session.memory_context import write_files
from pattern_acp.session.state import profile_of
from pattern_acp.session.subagents.graph import GraphNode, SubagentGraph
from pattern_acp.session.subagents.memory import SubagentMemory, merged_sentence
from pattern_acp.session.subagents.worker_result import WorkerResult
from pattern_acp.tools.base import ToolContext
from pattern_acp.turn.recorder import NewEvent
from pattern_acp.workspace.files import FileSystem
from pattern_acp.workspace.overlay import OverlayFileSystem
from pattern_acp.workspace.terminal import CommandOutput, CommandRequest, ExitStatus, InputStream, RunningCommand
from pattern_acp.workspace.worker_tree import TreeOwner, WorkerTree

if TYPE_CHECKING:
    from pattern_acp.memory.service.forking import MergeResult
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.session import Session


class _Shown:
    """A command in a tree, whose output names the session's folder and not the tree."""

    def __init__(self, inner: RunningCommand, tree: str, root: str) -> None:
        self._inner, self._tree, self._root = inner, tree, root

    @property
    def terminal_id(self) -> str:
        """See `RunningCommand.terminal_id`."""
        return self._inner.terminal_id

    @property
    def client_owned(self) -> bool:
        """See `RunningCommand.client_owned`."""
        return self._inner.client_owned

    @property
    def input(self) -> InputStream | None:
        """See `RunningCommand.input`."""
        return self._inner.input

    @property
    def size(self) -> tuple[int, int] | None:
        """See `RunningCommand.size`."""
        return self._inner.size

    async def next_output(self) -> str:
        """See `RunningCommand.next_output`."""
        return (await self._inner.next_output()).replace(self._tree, self._root)

    async def wait_for_exit(self) -> ExitStatus:
        """See `RunningCommand.wait_for_exit`."""
        return await self._inner.wait_for_exit()

    async def output(self) -> CommandOutput:
        """See `RunningCommand.output`."""
        output = await self._inner.output()
        return replace(output, text=output.text.replace(self._tree, self._root))

    async def kill(self) -> None:
        """See `RunningCommand.kill`."""
        await self._inner.kill()


class WorkerView:
    """`Terminal` of one worker, and its files."""

    def __init__(self, session: "Session", context: ToolContext, base: FileSystem) -> None:
        """`context` is the session's; `base` is what the worker's changes are made of."""
        self._session, self._context = session, context
        self.files = OverlayFileSystem(base)
        owner = TreeOwner(os.getpid(), own_start_mark(), host_name())
        known = tuple(session.state.fingerprints)
        self._root = context.roots[0]
        sandboxing = session.constellation.sandboxing
        self._tree = WorkerTree(
            self._root,
            self.files,
            session.workbench.files,
            environment_of(session.constellation),
            owner,
            known=known,
            confinement=sandboxing.confinement if sandboxing is not None else None,
        )
        self._running = anyio.Lock()

    @property
    def context(self) -> ToolContext:
        """The session's, with this view instead of its files and commands."""
        return replace(self._context, files=self.files, terminal=self, languages=None, limits=self._limits)

    @asynccontextmanager
    async def start(self, request: CommandRequest) -> AsyncGenerator[RunningCommand, None]:
        """See `Terminal.start`."""
        if not is_within(request.cwd, [self._root]):
            raise WorkspaceError(f"A worker runs commands in {self._root} only.")
        # One at a time: two mounts of one tree do not see each other's files.
        async with self._running:
            tree = await self._tree.bring_in()
            async with self._context.terminal.start(self._mapped(request, tree)) as command:
                yield _Shown(command, tree, self._root)
            await self._tree.bring_out()

    def _mapped(self, request: CommandRequest, tree: str) -> CommandRequest:
        if self._tree.layers is not None:
            profile = request.profile or Profile(confines=False, network=True)
            return replace(request, profile=replace(profile, layers=self._tree.layers))
        # Sources in the tree come before those that an editable install points to.
        sources = os.pathsep.join((tree, f"{tree}/src"))
        return replace(
            request,
            line=request.line.replace(self._root, tree),
            cwd=self._tree.inside(request.cwd),
            env={**request.env, "PYTHONPATH": sources},
        )

    async def close(self) -> None:
        """Remove what its commands ran in."""
        with anyio.CancelScope(shield=True):
            await self._tree.close()

    async def _limits(self) -> "Profile":
        """The limits of a command in the sandbox: it writes in the tree, and nothing in the session's folder."""
        tree = await self._tree.bring_in()
        return await profile_of(self._session.constellation, self._session.state, roots=(tree,))


class Landings:
    """The landing of the workers of one answer: once all have ended, what is settled of them lands in one go."""

    def __init__(
        self, session: "Session", graph: SubagentGraph, turn_id: TurnId, into: OverlayFileSystem | None
    ) -> None:
        """`into` is the view of the worker that delegated to them; None for the user's files."""
        self._session, self._graph, self._turn_id, self._into = session, graph, turn_id, into
        self._ready: dict[str, WorkerChanges] = {}
        self._memories: dict[str, SubagentMemory] = {}
        self._told: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        self._lock = anyio.Lock()

    @property
    def _files(self) -> FileSystem:
        return self._into if self._into is not None else self._session.workbench.files

    async def base_for(self, node: GraphNode) -> FileSystem:
        """The files that a worker starts from: the user's, with the changes of those that it needs.

        Raises:
            NotLandedError: these do not fit together.
        """
        needed = [self._ready[each.node_id] for each in self._graph.all_needed_by(node) if each.node_id in self._ready]
        if not any(worker.changes for worker in needed):
            return self._files
        base = OverlayFileSystem(self._files)
        plan = await plan_landing(self._files, needed, environment=environment_of(self._session.constellation))
        if plan.conflicts:
            sentences = " ".join(conflict.sentence for conflict in plan.conflicts)
            raise NotLandedError(f"{node.node_id} was not started: what it needs does not fit together. {sentences}")
        await land_in_overlay(base, plan)
        return base

    async def settled(self, node: GraphNode, call_id: ToolCallId, result: WorkerResult) -> None:
        """Take the changes of a worker, and what it learned, which wait for the others.

        Raises:
            DatabaseError: it could not be recorded.
        """
        files, report = result.files, result.report
        changes = files.changes()
        named = tuple(WorkerFile(one.path, one.before_hash, one.after_hash) for one in changes)
        ready = WorkerReady(
            self._turn_id,
            call_id,
            node.node_id,
            files.tree_hash(),
            named,
            "; ".join(report.lines),
            report.exit_code,
            report.output,
        )
        await self._session.recorder.record(NewEvent(ready, Actor.SYSTEM, Origin.AGENT))
        self._ready[node.node_id] = WorkerChanges(node.node_id, changes, node.needs)
        if result.takes_memory and result.memory.fork_id:
            self._memories[node.node_id] = result.memory

    async def land(self, node: GraphNode, call_id: ToolCallId) -> str:
        """Land with all others once they have ended; a sentence about this worker's changes, empty where it has none.

        Raises:
            NotLandedError: nothing of this worker was changed, and why.
            DatabaseError: it could not be recorded.
        """
        try:
            for other in self._graph.nodes.values():
                if other.lands:
                    await other.ended.wait()
        except anyio.get_cancelled_exc_class():
            self._ready.pop(node.node_id, None)
            raise
        with anyio.CancelScope(shield=True):
            async with self._lock, self._session.landing:
                if node.node_id in self._ready:
                    left, self._ready = self._ready, {}
                    try:
                        await self._land_all(left, call_id)
                    except PatternError as error:
                        # The others of the answer wait for the same landing.
                        self._refused |= {name: error.sentence for name in left if name not in self._told}
                        if not isinstance(error, WorkspaceError | BlockError):
                            raise
        if node.node_id in self._refused:
            raise NotLandedError(self._refused[node.node_id])
        return self._told[node.node_id]

    async def _land_all(self, left: dict[str, WorkerChanges], call_id: ToolCallId) -> None:
        """Land what fits together; `left` loses the workers that do not.

        Raises:
            PatternError: nothing of those in `left` landed, unless a sentence about them is in `_told`.
        """
        while True:
            self._refuse_dependents(left)
            workers = list(left.values())
            plan = await plan_landing(self._files, workers, environment=environment_of(self._session.constellation))
            if not plan.conflicts:
                break
            for conflict in plan.conflicts:
                # The one that comes later in their order; what was there before it can land.
                if left.pop(conflict.workers[-1], None) is not None:
                    self._refused[conflict.workers[-1]] = conflict.sentence
        learned = await self._carry_out(plan, call_id)
        for name, worker in left.items():
            merged = sum(change.path in plan.merged for change in worker.changes)
            others = [each.name for each in workers if each.changes and each is not worker and each.name in left]
            together = f", together with {', '.join(sorted(others))}" if others else ""
            also = f", {merged} merged with what changed meanwhile" if merged else ""
            files = f"Landed: {plural(len(worker.changes), 'file')}{also}{together}." if worker.changes else ""
            self._told[name] = " ".join(filter(None, (files, merged_sentence(learned.get(name)))))
        if learned and self._into is None:
            await write_files(self._session.dialogue)

    async def _carry_out(self, plan: LandingPlan, call_id: ToolCallId) -> "dict[str, MergeResult | None]":
        """Write the files, and bring back what the workers learned; that, by their names.

        Raises:
            WorkspaceError: a file cannot be written; nothing was changed.
            BlockError: what one learned cannot be brought back; nothing was changed.
            DatabaseError: it could not be recorded.
        """
        memories = {name: self._memories[name] for name in plan.workers if name in self._memories}
        learned: dict[str, MergeResult | None] = {}

        def merge(tx: Transaction) -> None:
            for name, memory in memories.items():
                learned[name] = memory.merge(tx, self._turn_id)

        async def merge_alone() -> None:
            if memories:
                await self._session.constellation.database.write(merge)

        if self._into is not None:
            await land_in_overlay(self._into, plan, merge_alone)
        elif plan.writes or memories:
            await land(self._session.checkpoints, self._files, plan, call_id, merge)
        for name, memory in memories.items():
            memory.merged(learned[name])
        return learned

    def _refuse_dependents(self, left: dict[str, WorkerChanges]) -> None:
        for node in self._graph.in_order():
            gone = [each.node_id for each in self._graph.needed_by(node) if each.lands and each.node_id not in left]
            if gone and left.pop(node.node_id, None) is not None:
                self._refused[node.node_id] = (
                    f"It needs {', '.join(gone)}, whose changes did not land, so nothing landed."
                )


def environment_of(shared: "Constellation") -> Mapping[str, str]:
    """The environment of git where it runs for workers."""
    sandboxing = shared.sandboxing
    return sandboxing.environment if sandboxing is not None else {}
