"""Delegation from a turn to subagents, and from a worker to those below it.

Owns: starting a subagent by a call once what it needs has ended, how many work at once, and what the end of one means
for others. Must not know: how one runs, which is imported with the first call.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.tool_calls import TextContent
from pattern_acp.policy.paths import is_inside_any
from pattern_acp.session.subagents.kinds import TurnParts, give_back, tools_for
from pattern_acp.tools.base import DelegatedTask, Progress, SubagentKind, ToolInputError, ToolOutcome
from pattern_acp.turn.checks import ConfiguredChecks

if TYPE_CHECKING:
    from pattern_acp.session.ports import Dialogue
    from pattern_acp.session.session import Session
    from pattern_acp.session.subagents.graph import GraphNode, SubagentGraph
    from pattern_acp.session.subagents.subagent import Subagent
    from pattern_acp.session.subagents.worker import Landings
    from pattern_acp.workspace.files import FileSystem


class Subagents:
    """`tools.delegation.Delegation` of one turn, or of one worker in it."""

    def __init__(self, session: "Session", parts: TurnParts) -> None:
        self._session = session
        self._parts = parts
        self.checks: ConfiguredChecks | None = None
        """Those of the turn: what subagents edit counts for the checks at its end."""
        self._graph: SubagentGraph | None = None
        self._landings: Landings | None = None
        self._inside = 0

    def tool_names(self, kind: SubagentKind) -> tuple[str, ...]:
        """See `Delegation.tool_names`."""
        return tuple(tool.spec.name for tool in tools_for(kind, self._parts))

    def expect(self, calls: Mapping[ToolCallId, JsonObject]) -> None:
        """See `Delegation.expect`."""
        self._landings = None
        self._known().expect(calls)

    def background_refusal(self, kind: SubagentKind) -> str:
        """See `Delegation.background_refusal`."""
        if self._parts.nest is not None:
            return "Only the agent itself has subagents in the background; leave background out."
        if not kind.only_reads and not lands_whole(self._session.dialogue):
            return (
                'Workers in the background need the setting worker_changes = "whole" in [delegate], so that nothing '
                "changes between prompts; leave background out."
            )
        return ""

    def refusal(self, call_id: ToolCallId) -> str:
        """See `Delegation.refusal`."""
        node = self._known().nodes.get(call_id)
        return node.refusal if node is not None else ""

    async def run(self, task: DelegatedTask, call_id: ToolCallId, progress: Progress) -> ToolOutcome:
        """See `Delegation.run`."""
        from pattern_acp.session.subagents.graph import failed_sentence, not_started

        task, graph = self._narrowed(task), self._known()
        if task.background:
            from pattern_acp.session.subagents.background import background_of

            return await background_of(self._session).start(self._parts, task, call_id)
        node = graph.node(call_id, task.name, task.kind)
        try:
            needed = graph.needed_by(node)
            for other in needed:
                await other.ended.wait()
            if failed := [other for other in needed if other.failure]:
                why = not_started(node, failed)
                node.end(reason=why.shown)
                return ToolOutcome(why.for_model, is_error=True, content=(TextContent(why.shown),))
            outcome = await self._run(node, task, call_id, progress)
        except PatternError as error:
            node.end(reason=error.sentence)
            raise
        finally:
            node.end(reason="It was stopped.")
        affected = failed_sentence(node, graph.affected_by(node)) if node.failure else ""
        return replace(outcome, text="\n\n".join(part for part in (outcome.text, affected) if part))

    def node_of(self, call_id: ToolCallId) -> "GraphNode":
        """The node of a call that ran: its report, and why it failed."""
        return self._known().nodes[call_id]

    async def _run(
        self, node: "GraphNode", task: DelegatedTask, call_id: ToolCallId, progress: Progress
    ) -> ToolOutcome:
        from pattern_acp.session.subagents.subagent import Subagent

        landings, subagent, waits = self._landings_of_answer() if node.lands else None, None, False
        try:
            async with self._place(call_id):
                base: FileSystem | None = await landings.base_for(node) if landings is not None else None
                subagent = Subagent(self._session, self._parts, task, call_id, progress, base)
                await self._to_its_end(node, subagent, landings)
            if subagent.result is not None and subagent.result.wants_words and self._parts.nest is None:
                from pattern_acp.session.subagents.background import background_of

                await background_of(self._session).await_words(self._parts, task, call_id, subagent)
                waits = True
            landed = await subagent.land(landings, node, call_id) if landings is not None else ""
            if self.checks is not None and (landings is None or subagent.has_landed):
                self.checks.note_edited(subagent.edited)
            return subagent.outcome(landed)
        finally:
            if subagent is not None and not waits:
                await subagent.memory.drop()

    async def _to_its_end(self, node: "GraphNode", subagent: "Subagent", landings: "Landings | None") -> None:
        """Run a subagent to its end; its changes wait for those of the others."""
        call_id, reports = node.call_id, {each.node_id: each.report for each in self._known().needed_by(node)}
        subagent.reports = {**subagent.reports, **reports}
        if self._parts.nest is None:
            self._session.subagents[call_id] = subagent.scope.cancel
        try:
            await subagent.run()
        finally:
            self._session.subagents.pop(call_id, None)
            await subagent.close()
            # A hook that wants the turn to end wants all of it to.
            self._parts.hooks.stop = self._parts.hooks.stop or subagent.hooks.stop
        if landings is not None and subagent.result is not None and subagent.result.is_settled:
            await landings.settled(node, call_id, subagent.result)
        node.end(reason=subagent.failure, report=subagent.last_words)

    def _narrowed(self, task: DelegatedTask) -> DelegatedTask:
        """The task within the paths of the worker that delegates it."""
        nest = self._parts.nest
        if nest is None:
            return task
        outside = [path for path in task.paths if nest.paths and not is_inside_any(path, nest.paths)]
        if outside:
            raise ToolInputError(f"{nest.name} may not write in {outside[0]}, so a subagent of it may not either.")
        paths = task.paths if task.kind.only_reads else task.paths or nest.paths
        return replace(task, name=f"{nest.name}/{task.name}", paths=paths)

    def _known(self) -> "SubagentGraph":
        if self._graph is None:
            from pattern_acp.session.subagents.graph import SubagentGraph

            self._graph = SubagentGraph(lands=self._lands)
        return self._graph

    def _lands(self, kind: str) -> bool:
        return kind == SubagentKind.WORKER and lands_whole(self._session.dialogue)

    def _landings_of_answer(self) -> "Landings":
        if self._landings is None:
            from pattern_acp.session.subagents.worker import Landings

            nest = self._parts.nest
            into = nest.files if nest is not None else None
            self._landings = Landings(self._session, self._known(), self._parts.turn_id, into)
        return self._landings

    @asynccontextmanager
    async def _place(self, call_id: ToolCallId) -> AsyncGenerator[None, None]:
        """One of the places for those that work at once; a worker that waits for its own gives its place to them."""
        places, nest = self._session.subagent_places, self._parts.nest
        if nest is not None:
            self._inside += 1
            if self._inside == 1:
                give_back(places, nest.holder)
        await places.acquire_on_behalf_of(call_id)
        try:
            yield
        finally:
            give_back(places, call_id)
        if nest is not None:
            self._inside -= 1
            if self._inside == 0:
                await places.acquire_on_behalf_of(nest.holder)


def lands_whole(dialogue: "Dialogue") -> bool:
    """Tell whether workers of a session write into views that land: where its files are on this machine."""
    return dialogue.state.settings.delegate.worker_changes == "whole" and dialogue.shared.elsewhere is None
