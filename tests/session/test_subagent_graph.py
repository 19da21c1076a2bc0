"""Subagents that need each other's results: order, circles, and what a failure affects."""

import random

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.rewind.landing import in_order
from pattern_acp.session.subagents.graph import GraphNode, SubagentGraph, circle_in, failed_sentence

NAMES = "abcdefgh"


def graph_of(**needs: list[str]) -> SubagentGraph:
    graph = SubagentGraph(lands=lambda kind: kind == "worker")
    graph.expect({ToolCallId(name): call(name, *needed) for name, needed in needs.items()})
    return graph


def call(name: str, *needs: str) -> JsonObject:
    return {"kind": "worker", "name": name, "task": "Do it.", "needs": list(needs)}


def ids(nodes: list[GraphNode]) -> list[str]:
    return [node.node_id for node in nodes]


@given(st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=3)), st.randoms())
def test_the_order_is_the_same_however_they_come_and_puts_each_behind_what_it_needs(
    needs: dict[str, list[str]], chance: random.Random
):
    shuffled = list(needs.items())
    chance.shuffle(shuffled)
    ordered = in_order(needs)
    assert in_order(dict(shuffled)) == ordered
    for position, name in enumerate(ordered):
        assert {each for each in needs[name] if each in needs} <= set(ordered[:position])
    circle = circle_in(needs)
    assert bool(circle) is (len(ordered) < len(needs))
    for name, needed in zip(circle, [*circle[1:], *circle[:1]], strict=True):
        assert needed in needs[name]


def test_names_that_are_there_twice_are_told_apart_by_numbers():
    graph = SubagentGraph(lands=lambda _: True)
    graph.expect({ToolCallId(str(number)): {"kind": "worker", "task": "Do it."} for number in range(3)})
    assert ids(list(graph.nodes.values())) == ["worker", "worker 2", "worker 3"]


def test_what_a_failure_affects_is_all_that_stands_on_it():
    graph = graph_of(d=["c"], c=["a"], b=[], a=[])
    node = graph.nodes[ToolCallId("a")]
    assert graph.affected_by(node) == ["c", "d"]
    assert ids(graph.all_needed_by(graph.nodes[ToolCallId("d")])) == ["a", "c"]
    assert failed_sentence(node, []) == ""
    assert failed_sentence(node, ["c"]).startswith("c needs a and did not start.")


def test_what_an_earlier_answer_had_is_there_already():
    graph = graph_of(a=[])
    graph.expect({ToolCallId("b"): call("b", "a")})
    node = graph.nodes[ToolCallId("b")]
    assert (node.refusal, graph.needed_by(node)) == ("", [])


def test_needs_that_are_no_names_are_none():
    graph = SubagentGraph(lands=lambda _: False)
    graph.expect({ToolCallId("a"): {"kind": "explorer", "name": 3, "needs": "b"}})
    (node,) = graph.nodes.values()
    assert (node.node_id, node.needs, node.refusal) == ("explorer", (), "")
    assert graph.node(ToolCallId("late"), "explorer", "explorer").node_id == "explorer 2"
