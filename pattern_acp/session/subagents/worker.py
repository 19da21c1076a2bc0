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

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.paths import is_within
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.events import WorkerFile, WorkerReady
from pattern_acp.journal.processes import host_name, own_start_mark
from pattern_acp.rewind.landing import WorkerChanges, land, plan_landing
from pattern_acp.session.sandbox import profile_of
from pattern_acp.tools.base import ToolContext
from pattern_acp.turn.recorder import NewEvent
from pattern_acp.workspace.overlay import OverlayFileSystem
from pattern_acp.workspace.terminal import CommandOutput, CommandRequest, ExitStatus, InputStream, RunningCommand
from pattern_acp.workspace.worker_tree import TreeOwner, WorkerTree

if TYPE_CHECKING:
    from pattern_acp.processes.confinement import Profile
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

    def __init__(self, session: "Session", context: ToolContext, name: str, call_id: ToolCallId) -> None:
        self._session, self._context, self._name, self._call_id = session, context, name, call_id
        shared = session.constellation
        self._environment: Mapping[str, str] = shared.sandboxing.environment if shared.sandboxing is not None else {}
        base = session.workbench.files
        self.files = OverlayFileSystem(base)
        owner = TreeOwner(os.getpid(), own_start_mark(), host_name())
        known = tuple(session.state.fingerprints)
        self._root = context.roots[0]
        self._tree = WorkerTree(self._root, self.files, base, self._environment, owner, known=known)

    @property
    def context(self) -> ToolContext:
        """The session's, with this view in place of its files and commands."""
        return replace(self._context, files=self.files, terminal=self, languages=None, limits=self._limits)

    @asynccontextmanager
    async def start(self, request: CommandRequest) -> AsyncGenerator[RunningCommand, None]:
        """See `Terminal.start`."""
        if not is_within(request.cwd, [self._root]):
            raise WorkspaceError(f"A worker runs commands in {self._root} only.")
        tree = await self._tree.bring_in()
        # Sources in the tree come before those that an editable install points to.
        sources = os.pathsep.join((tree, f"{tree}/src"))
        mapped = replace(
            request,
            line=request.line.replace(self._root, tree),
            cwd=self._tree.inside(request.cwd),
            env={**request.env, "PYTHONPATH": sources},
        )
        async with self._context.terminal.start(mapped) as command:
            yield _Shown(command, tree, self._root)
        await self._tree.bring_out()

    async def land(self) -> str:
        """Make the changes the user's, all of them; a sentence about it, empty where there are none.

        Raises:
            NotLandedError: nothing was changed, and why.
            DatabaseError: it could not be recorded.
        """
        changes, session = self.files.changes(), self._session
        files = tuple(WorkerFile(one.path, one.before_hash, one.after_hash) for one in changes)
        ready = WorkerReady(self._context.turn_id, self._call_id, self._name, self.files.tree_hash(), files)
        await session.recorder.record(NewEvent(ready, Actor.SYSTEM, Origin.AGENT))
        if not changes:
            return ""
        async with session.landing:
            workers = [WorkerChanges(self._name, changes)]
            plan = await plan_landing(session.workbench.files, workers, environment=self._environment)
            await land(session.checkpoints, session.workbench.files, plan, self._call_id)
        merged = f", {len(plan.merged)} merged with what changed meanwhile" if plan.merged else ""
        return f"Landed: {plural(len(changes), 'file')}{merged}."

    async def close(self) -> None:
        """Take away what its commands ran in."""
        with anyio.CancelScope(shield=True):
            await self._tree.close()

    async def _limits(self) -> "Profile":
        """The limits of a command in the sandbox: it writes in the tree, and nothing in the session's folder."""
        tree = await self._tree.bring_in()
        return await profile_of(self._session.constellation, self._session.state, roots=(tree,))
