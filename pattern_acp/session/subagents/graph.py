"""The subagents of one answer as a graph: who needs whose results.

Owns: names that tell them apart, what is wrong with a graph, the order in which their changes land, and what the end of
one means for the others. Must not know: how one runs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import anyio
import msgspec
from msgspec import Struct, field

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import Advised
from pattern_acp.rewind.landing import in_order
from pattern_acp.tools.delegate import NAME_CHARACTERS


class GraphNode(Struct, eq=False):
    """One subagent. `node_id` is its name, with a number behind it where an earlier one has the same."""

    node_id: str
    call_id: ToolCallId
    needs: tuple[str, ...] = ()
    lands: bool = False
    """True for one whose changes land at its end."""
    refusal: str = ""
    """The reason why it cannot run for what it needs; empty when it can."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    """Set once those that need it may start, or know that they cannot."""
    failure: str = ""
    """The reason why nothing can start from its result, in a sentence; empty when all can."""
    report: str = ""

    def end(self, *, reason: str = "", report: str = "") -> None:
        """Let those that need it continue, or know the `reason` why they cannot. What is said first counts."""
        if not self.ended.is_set():
            self.failure, self.report = reason, report
            self.ended.set()


class SubagentGraph:
    """The subagents of one turn: those of the answer that runs, and the names of earlier ones."""

    def __init__(self, *, lands: Callable[[str], bool]) -> None:
        """`lands` tells of a kind whether its changes land at the end of a subagent."""
        self._lands = lands
        self.nodes: dict[ToolCallId, GraphNode] = {}
        """Those of the answer that runs, in its order."""
        self._earlier: set[str] = set()

    def expect(self, calls: Mapping[ToolCallId, JsonObject]) -> None:
        """Take the calls of a new answer."""
        self._earlier |= {node.node_id for node in self.nodes.values()}
        self.nodes = {}
        for call_id, arguments in calls.items():
            if arguments.get("background") is not True:
                self._add(call_id, _name(arguments), str(arguments.get("kind")), _names(arguments.get("needs")))
        self._refuse_what_cannot_be()

    def node(self, call_id: ToolCallId, name: str, kind: str) -> GraphNode:
        """The node of a call, which is added where nobody expected it."""
        return self.nodes.get(call_id) or self._add(call_id, name, kind, ())

    def needed_by(self, node: GraphNode) -> list[GraphNode]:
        """The nodes of this answer that one needs itself."""
        return [each for each in self.nodes.values() if each.node_id in node.needs]

    def all_needed_by(self, node: GraphNode) -> list[GraphNode]:
        """Those, and all that they need, in the order in which they land."""
        found: dict[str, GraphNode] = {}
        left = self.needed_by(node)
        while left:
            each = left.pop()
            if each.node_id not in found:
                found[each.node_id] = each
                left += self.needed_by(each)
        return [each for each in self.in_order() if each.node_id in found]

    def affected_by(self, node: GraphNode) -> list[str]:
        """The ids of all that cannot run without a node, in their order."""
        return [each.node_id for each in self.in_order() if node in self.all_needed_by(each)]

    def in_order(self) -> list[GraphNode]:
        """All, each behind what it needs, and otherwise by their ids: never by who was ready first."""
        by_id = {node.node_id: node for node in self.nodes.values() if not node.refusal}
        return [by_id[name] for name in in_order({name: node.needs for name, node in by_id.items()})]

    def _add(self, call_id: ToolCallId, name: str, kind: str, needs: tuple[str, ...]) -> GraphNode:
        taken = {node.node_id for node in self.nodes.values()}
        numbered = (name if number == 1 else f"{name} {number}" for number in range(1, len(taken) + 2))
        node_id = next(each for each in numbered if each not in taken)
        self.nodes[call_id] = GraphNode(node_id, call_id, needs, self._lands(kind))
        return self.nodes[call_id]

    def _refuse_what_cannot_be(self) -> None:
        known = {node.node_id for node in self.nodes.values()}
        for node in self.nodes.values():
            unknown = [name for name in node.needs if name not in known and name not in self._earlier]
            if unknown:
                others = ", ".join(sorted(known - {node.node_id})) or "no other"
                node.refusal = f"{node.node_id} needs {unknown[0]}, which this answer does not have; it has {others}."
        while circle := circle_in({node.node_id: node.needs for node in self.nodes.values() if not node.refusal}):
            shown = " needs ".join((*circle, circle[0]))
            for node in self.nodes.values():
                if node.node_id in circle:
                    node.refusal = f"The subagents need each other in a circle: {shown}. Leave one of these needs out."
        for node in self.nodes.values():
            if node.refusal:
                node.end(reason=node.refusal)


def circle_in(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """The names of one circle, each before what it needs; empty when there is none."""
    ordered = set(in_order(needs))
    path = next((name for name in sorted(needs) if name not in ordered), None)
    seen: list[str] = []
    while path is not None and path not in seen:
        seen.append(path)
        # Each that is left waits for another that is left.
        path = next((name for name in needs[path] if name in needs and name not in ordered), None)
    return seen[seen.index(path) :] if path is not None else []


def failed_sentence(node: GraphNode, affected: Sequence[str]) -> str:
    """Consequences of the failure of a node for the others, and what can be done; empty when there are none."""
    if not affected:
        return ""
    return (
        f"{', '.join(affected)} {'needs' if len(affected) == 1 else 'need'} {node.node_id} and did not start. Delegate "
        f"{node.node_id} again with what was missing and then these, or give them a task without it."
    )


def not_started(node: GraphNode, failed: Iterable[GraphNode]) -> Advised:
    """Reasons why a node did not start, and what can be done."""
    causes = " ".join(f"{each.node_id} did not succeed: {one_line(each.failure, 300)}" for each in failed)
    advice = "Delegate what failed again first, or do this part without it."
    return Advised(f"{node.node_id} was not started. {causes}", advice)


def _name(arguments: JsonObject) -> str:
    name, kind = arguments.get("name"), arguments.get("kind")
    return one_line(name if isinstance(name, str) else "", NAME_CHARACTERS) or str(kind)


def _names(value: object) -> tuple[str, ...]:
    try:
        return tuple(one_line(each, NAME_CHARACTERS) for each in msgspec.convert(value, tuple[str, ...]))
    except msgspec.ValidationError:
        return ()
