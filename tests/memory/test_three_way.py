"""Two changes of one content, put together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.memory.diffs import Conflict, merge_texts
from pattern_acp.memory.schemas.planning import merge_contents, merge_items
from pattern_acp.memory.schemas.types import (
    TEXT,
    CompositeSchema,
    FieldKind,
    FieldSpec,
    ListSchema,
    LogSchema,
    MapSchema,
    SectionSpec,
    TreeSchema,
)

MAP = MapSchema((FieldSpec("name"), FieldSpec("port", FieldKind.NUMBER)))
COUNTED = MapSchema((FieldSpec("name"), FieldSpec("hits", FieldKind.COUNTER), FieldSpec("tags", FieldKind.LIST)))
RECORDS = ListSchema((FieldSpec("title", required=True), FieldSpec("owner")))
BLOCK = CompositeSchema(
    (
        SectionSpec("facts", MAP),
        SectionSpec("todo", ListSchema()),
        SectionSpec("log", LogSchema()),
        SectionSpec("plan", TreeSchema()),
        SectionSpec("notes", TEXT),
    )
)
ITEMS = st.lists(st.sampled_from("abcdefgh"), max_size=6, unique=True)


def test_fields_beside_each_other_are_both_changed():
    merge = merge_contents(MAP, "name: a\nport: 1", "name: b\nport: 1", "name: a\nport: 2")
    assert merge.text == "name: b\nport: 2"


def test_of_a_field_that_both_set_ours_counts_and_counters_and_lists_take_both():
    base = "name: a\nhits: 5\ntags:\n- x\n- y"
    theirs = "name: b\nhits: 15\ntags:\n- y\n- their"
    ours = "name: c\nhits: 7\ntags:\n- x\n- Y\n- our"
    assert merge_contents(COUNTED, base, theirs, ours).text == "name: c\nhits: 17\ntags:\n- Y\n- our\n- their"


def test_a_field_that_one_unset_and_nobody_else_changed_is_gone():
    assert merge_contents(MAP, "name: a\nport: 1", "name: b\nport: 1", "name: a").text == "name: b"


def test_records_beside_each_other_are_both_changed():
    base = "- title: t1\n- title: t2\n- title: t3"
    theirs = "- title: t2\n- title: t3\n- title: t4"
    ours = "- title: t1\n- title: T2\n  owner: me\n- title: t3"
    merge = merge_contents(RECORDS, base, theirs, ours)
    assert merge.text == "- title: T2\n  owner: me\n- title: t3\n- title: t4"


def test_sections_are_merged_each_in_its_way():
    log = "- [2026-11-28 10:00:00 ada] one"
    base = f"## facts\nname: a\n\n## todo\n- t\n\n## log\n{log}\n\n## plan\n- root\n\n## notes\nend"
    theirs = base.replace("name: a", "name: b").replace("- root", "- root\n  - their").replace("end", "their end")
    theirs = theirs.replace(log, f"{log}\n- [2026-11-28 11:00:00 ada] two")
    ours = base.replace("- t\n", "- T\n").replace("- root", "- root\n- our").replace("end", "our end")
    merge = merge_contents(BLOCK, base, theirs, ours)
    assert "name: b" in merge.text
    assert "- T\n" in merge.text
    assert "ada] two" in merge.text
    assert "  - their\n- our" in merge.text
    assert merge.conflicts == (Conflict("their end", "our end"),)


@pytest.mark.parametrize("ours", ["name: a\nname: b", "nothing: here"])
def test_what_is_no_content_is_merged_by_lines(ours: str):
    texts = ("name: a", "name: a\nport: 1", ours)
    assert merge_contents(MAP, *texts) == merge_texts(*texts)


@given(ITEMS, ITEMS)
def test_items_that_only_one_changed_are_as_that_one_left_them(base: list[str], changed: list[str]):
    assert merge_items(base, base, changed) == changed
    assert merge_items(base, changed, base) == changed


@given(ITEMS, ITEMS, ITEMS)
def test_no_item_that_anybody_brought_is_lost_or_doubled(base: list[str], theirs: list[str], ours: list[str]):
    theirs, ours = [f"{item}1" for item in theirs], [f"{item}2" for item in ours]
    before = [f"{item}{index % 2 + 1}" for index, item in enumerate(base)]
    merged = merge_items(before, theirs, ours)
    assert {item for item in ours if item not in before} <= set(merged)
    assert len(merged) == len(set(merged))
