"""Trees: an outline of one-line entries.

Owns: how a tree reads, its checks and its steps. Must not know: who may change it.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from pattern_acp.memory.schemas.states import Node, TreeState
from pattern_acp.memory.schemas.steps import AddNode, RemoveNode, Step
from pattern_acp.memory.schemas.types import TreeSchema
from pattern_acp.memory.schemas.values import LONGEST_VALUE, ContentError


class Place(Struct, frozen=True):
    """Where a node is: its parent's id (empty at the top), its place among its siblings, and its depth from 1."""

    node: Node
    parent: str
    at: int
    depth: int


def show_tree(state: TreeState) -> str:
    """One bullet a node, two more spaces a level."""
    return "\n".join(f"{'  ' * (place.depth - 1)}- {place.node.text}" for place in walk(state))


def read_tree(text: str) -> TreeState:
    """The tree of an outline; its nodes have no ids.

    Raises:
        ContentError: a line is no bullet, or is indented more than one level below the line before.
    """
    rows: list[tuple[int, str]] = []
    for line in text.split("\n"):
        if line.strip():
            rows.append(_row(line, deepest=rows[-1][0] + 1 if rows else 0))
    nodes, _ = _nodes(rows, 0, 0)
    return TreeState(nodes)


def check_tree(schema: TreeSchema, state: TreeState) -> None:
    """Refuse a tree that is too deep.

    Raises:
        ContentError: names the depth.
    """
    if any(place.depth > schema.max_depth for place in walk(state)):
        raise ContentError("", f"its outline may be {schema.max_depth} levels deep")


def node_text(text: str) -> str:
    """The text of one node.

    Raises:
        ContentError: it is empty, too long, or more than a line.
    """
    cleaned = text.strip().removeprefix("- ").strip()
    if not cleaned or "\n" in cleaned:
        raise ContentError("", "an entry of an outline is one line of text")
    if len(cleaned) > LONGEST_VALUE:
        raise ContentError("", f"an entry must have at most {LONGEST_VALUE} characters")
    return cleaned


def walk(state: TreeState) -> list[Place]:
    """All nodes, each before those below it."""
    places: list[Place] = []
    _walk(state.nodes, "", 1, places)
    return places


def tree_steps(root: str, before: TreeState, after: TreeState) -> list[Step]:
    """The steps from one outline to another whose nodes have no ids; nodes that stay keep theirs."""
    return _sibling_steps(root, "", before.nodes, after.nodes)


def _walk(nodes: Sequence[Node], parent: str, depth: int, places: list[Place]) -> None:
    for at, node in enumerate(nodes):
        places.append(Place(node, parent, at, depth))
        _walk(node.children, node.id, depth + 1, places)


def _row(line: str, *, deepest: int) -> tuple[int, str]:
    indent = len(line) - len(line.lstrip(" "))
    level = indent // 2
    if not line.lstrip(" ").startswith("- ") or indent % 2 or level > deepest:
        shown = line.strip()[:60]
        raise ContentError("", f"the line “{shown}” is no entry; write `- text`, two spaces deeper for each level")
    return level, node_text(line)


def _nodes(rows: Sequence[tuple[int, str]], start: int, level: int) -> tuple[tuple[Node, ...], int]:
    nodes: list[Node] = []
    at = start
    while at < len(rows) and rows[at][0] == level:
        children, end = _nodes(rows, at + 1, level + 1)
        nodes.append(Node("", rows[at][1], children))
        at = end
    return tuple(nodes), at


def _sibling_steps(root: str, parent: str, before: Sequence[Node], after: Sequence[Node]) -> list[Step]:
    steps: list[Step] = []
    matcher = SequenceMatcher(a=[node.text for node in before], b=[node.text for node in after], autojunk=False)
    for tag, start, end, new_start, new_end in reversed(matcher.get_opcodes()):
        if tag == "equal":
            for old, new in zip(before[start:end], after[new_start:new_end], strict=True):
                steps += _sibling_steps(root, old.id, old.children, new.children)
            continue
        steps += [RemoveNode(root, node.id) for node in before[start:end]]
        steps += [AddNode(root, parent, start + step, node) for step, node in enumerate(after[new_start:new_end])]
    return steps
