"""What each schema takes, refuses and says."""

import pytest

from pattern_acp.memory.edits import (
    AddItem,
    AnyEdit,
    Append,
    InsertAfter,
    MoveItem,
    RemoveItem,
    Replace,
    Rewrite,
    RewriteFrom,
    SetField,
    Verify,
    Within,
)
from pattern_acp.memory.errors import PassageError
from pattern_acp.memory.schemas.forms import describe
from pattern_acp.memory.schemas.planning import changed_read_only
from pattern_acp.memory.schemas.types import (
    TEXT,
    TEXT_JSON,
    BlockSchema,
    CompositeSchema,
    ContentError,
    FieldKind,
    FieldSpec,
    ListSchema,
    ListState,
    LogSchema,
    LogState,
    MapSchema,
    MapState,
    Record,
    SchemaError,
    SectionSpec,
    TreeSchema,
    decode_schema,
    encode_schema,
    read_schema,
)
from tests.support.blocks import SchemaBlock

PROFILE = MapSchema(
    (
        FieldSpec("name", required=True),
        FieldSpec("age", FieldKind.NUMBER, minimum=0, maximum=150),
        FieldSpec("ok", FieldKind.BOOLEAN),
        FieldSpec("seen", FieldKind.TIMESTAMP, read_only=True),
        FieldSpec("tags", FieldKind.LIST, default=("new",)),
        FieldSpec("energy", FieldKind.COUNTER, default=5, minimum=0, maximum=10),
    )
)
NOTES = CompositeSchema(
    (SectionSpec("about", TEXT, "Who."), SectionSpec("todo", ListSchema()), SectionSpec("facts", PROFILE))
)


def refused(schema: BlockSchema, text: str, edit: AnyEdit) -> ContentError:
    with pytest.raises(ContentError) as caught:
        SchemaBlock(schema, text).edit(edit)
    return caught.value


def test_a_new_map_has_its_defaults_and_needs_what_is_required():
    assert SchemaBlock(PROFILE, "name: Ada").state == MapState({"name": "Ada", "tags": ("new",), "energy": 5})
    with pytest.raises(ContentError, match="`name` is required"):
        SchemaBlock(PROFILE)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("name", "", "is required"),
        ("age", "old", "must be a number"),
        ("age", "151", "must be at most 150"),
        ("age", "1e400", "below 2\\^53"),
        ("age", "nan", "below 2\\^53"),
        ("ok", "perhaps", "must be yes or no"),
        ("seen", "soon", "must be a date or time"),
        ("name", "x" * 4_001, "at most 4000 characters"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_field(field: str, value: str, problem: str):
    error = refused(PROFILE, "name: Ada", Within(field, SetField(value)))
    assert error.field == field
    with pytest.raises(ContentError, match=problem):
        raise error


def test_an_unknown_field_is_refused_with_those_there_are():
    with pytest.raises(ContentError, match="no field `nick`; the fields are name, age, ok, seen, tags, energy"):
        raise refused(PROFILE, "name: Ada", Within("nick", SetField("A")))


def test_a_counter_counts_within_its_bounds():
    block = SchemaBlock(PROFILE, "name: Ada")
    block.edit(Within("energy", AddItem("-2")))
    block.edit(Within("energy", AddItem("+1")))
    assert "energy: 4" in block.text
    with pytest.raises(ContentError, match="`energy` must be at most 10"):
        block.copy(1).edit(Within("energy", SetField("11")))


def test_counts_of_two_peers_add_up():
    left = SchemaBlock(PROFILE, "name: Ada")
    right = left.copy(2)
    to_left = right.edit(Within("energy", AddItem("1")))
    left.edit(Within("energy", AddItem("2")))
    left.document.merge(to_left)
    assert "energy: 8" in left.text


def test_a_list_field_is_edited_item_by_item():
    block = SchemaBlock(PROFILE, "name: Ada\ntags: a, b")
    block.edit(Within("tags", AddItem("c")))
    block.edit(Within("tags", MoveItem("c", "")))
    block.edit(Within("tags", Replace("a", "z")))
    block.edit(Within("tags", RemoveItem("b")))
    block.edit(Within("tags", InsertAfter("c", "- d\n- e")))
    assert "tags:\n- c\n- d\n- e\n- z\n" in block.text
    block.edit(Within("tags", SetField("")))
    assert "tags" not in block.text


def test_several_fields_are_set_at_once():
    block = SchemaBlock(PROFILE, "name: Ada")
    block.edit(SetField("age: 36\nok: yes"))
    assert block.text == "name: Ada\nage: 36\nok: yes\ntags:\n- new\nenergy: 5"


def test_text_that_no_field_takes_is_refused_with_its_line():
    with pytest.raises(ContentError, match="“hello” names none of the fields"):
        raise refused(PROFILE, "name: Ada", Rewrite("name: Ada\nhello"))


def test_a_read_only_field_is_found_to_have_changed():
    block = SchemaBlock(PROFILE, "name: Ada")
    before = block.state
    block.edit(Within("seen", SetField("2026-11-27")))
    assert changed_read_only(PROFILE, before, block.state) == "seen"
    assert changed_read_only(PROFILE, before, before) == ""


def test_items_are_found_by_text_by_a_part_or_by_number():
    block = SchemaBlock(ListSchema(), "- buy milk\n- buy bread\n- 7")
    block.edit(RemoveItem("milk"))
    assert block.state == ListState(("buy bread", "7"))
    block.edit(MoveItem("#2", ""))
    assert block.state == ListState(("7", "buy bread"))
    block.edit(RemoveItem("7"))
    assert block.state == ListState(("buy bread",))


def test_an_item_that_is_not_meant_clearly_is_refused():
    with pytest.raises(ContentError, match="2 of its items read like that"):
        raise refused(ListSchema(), "- buy milk\n- buy bread", RemoveItem("buy"))
    with pytest.raises(ContentError, match="no item that reads like that"):
        raise refused(ListSchema(), "- buy milk", RemoveItem("sell"))


def test_a_full_list_takes_no_more():
    with pytest.raises(ContentError, match="may have 2 items and would have 3"):
        raise refused(ListSchema(max_items=2), "- a\n- b", Append("c"))


def test_a_record_takes_fields_an_object_or_plain_text():
    schema = ListSchema((FieldSpec("title", required=True), FieldSpec("done", FieldKind.BOOLEAN, default=False)))
    block = SchemaBlock(schema)
    for text in ("title: one\ndone: yes", '{"title": "two", "done": true}', "three"):
        block.edit(Append(text))
    assert block.state == ListState(
        tuple(Record((("title", title), ("done", done))) for title, done in (("one", 1), ("two", 1), ("three", 0)))
    )
    assert block.text.startswith("- title: one\n  done: yes\n- title: two")
    with pytest.raises(ContentError, match="`title` is missing"):
        raise refused(schema, "", Append("done: yes"))


def test_a_log_keeps_its_entries_and_their_authors():
    block = SchemaBlock(LogSchema(shown=2))
    for number, text in enumerate(("one", "two", "three\nand more")):
        block.edit(Append(text), at=1_800_000_000 + number, by="ada")
    assert block.text == (
        "(1 older entry is not shown)\n- [2027-01-15 08:00:01 ada] two\n- [2027-01-15 08:00:02 ada] three\n  and more"
    )
    state = block.state
    assert isinstance(state, LogState)
    assert (state.older, [entry.body for entry in state.entries]) == (1, ["two", "three\nand more"])


@pytest.mark.parametrize("edit", [Replace("one", "two"), Rewrite(""), RemoveItem("one")])
def test_an_entry_of_a_log_is_changed_by_nobody_but_the_person(edit: AnyEdit):
    block = SchemaBlock(LogSchema())
    block.edit(Append("one"))
    with pytest.raises(ContentError, match="entries stay as they are; use append"):
        block.copy(1).edit(edit)
    block.edit(Replace("one", "two"), trusted=True)
    assert block.text.endswith("two")


def test_a_tree_is_edited_by_its_entries():
    block = SchemaBlock(TreeSchema(max_depth=3), "- a\n  - b\n- c")
    block.edit(AddItem("d", "b"))
    block.edit(InsertAfter("a", "a2"))
    block.edit(MoveItem("c", "1.1"))
    assert block.text == "- a\n  - b\n    - d\n    - c\n- a2"
    block.edit(RemoveItem("b"))
    assert block.text == "- a\n- a2"


def test_a_tree_refuses_what_is_none():
    with pytest.raises(ContentError, match="3 levels deep"):
        raise refused(TreeSchema(max_depth=3), "- a\n  - b\n    - c", AddItem("d", "c"))
    with pytest.raises(ContentError, match="below itself"):
        raise refused(TreeSchema(), "- a\n  - b", MoveItem("a", "b"))
    with pytest.raises(ContentError, match="two spaces deeper"):
        raise refused(TreeSchema(), "- a", Rewrite("- a\n      - b"))


def test_a_section_is_named_by_the_edit():
    block = SchemaBlock(NOTES, "## facts\nname: Ada")
    block.edit(Within("about", Append("first")))
    block.edit(Within("about", Append("second")))
    block.edit(Within("todo", AddItem("one")))
    block.edit(Within("facts.name", SetField("Eve")))
    block.edit(Replace("second", "last"))
    assert block.text.startswith("## about\nfirst\nlast\n\n## todo\n- one\n\n## facts\nname: Eve")
    with pytest.raises(ContentError, match="the sections are about, todo, facts"):
        raise refused(NOTES, "## facts\nname: Ada", Append("x"))
    with pytest.raises(ContentError, match=r"`facts\.age` must be a number"):
        raise refused(NOTES, "## facts\nname: Ada", Within("facts.age", SetField("x")))


def test_a_section_holds_no_heading_of_another():
    with pytest.raises(ContentError, match="begins another section"):
        raise refused(NOTES, "## facts\nname: Ada", Within("about", Append("## todo")))


def test_text_takes_lines_in_the_middle_and_gives_whole_lines_back():
    block = SchemaBlock(CompositeSchema((SectionSpec("a", TEXT),)), "## a\none\nthree")
    block.edit(Within("a", InsertAfter("one", "two")))
    assert block.text == "## a\none\ntwo\nthree"
    block.edit(RemoveItem("two"))
    assert block.text == "## a\none\nthree"
    with pytest.raises(PassageError):
        block.copy(1).edit(RemoveItem("four"))


def test_a_fact_is_marked_as_found_true():
    block = SchemaBlock(ListSchema(), "- the server is s2")
    block.edit(Verify("the server is s2", "ssh s2 true", 1_800_000_000_000))
    assert block.text == "- the server is s2 (checked 2027-01-15: `ssh s2 true`)"
    block.edit(Verify("the server is s2", "", 1_900_000_000_000))
    assert block.text == "- the server is s2 (checked 2030-03-17: `ssh s2 true`)"


def test_a_rewrite_of_an_older_text_keeps_what_came_since():
    block = SchemaBlock(ListSchema(), "- a\n- b")
    block.edit(Append("c"))
    block.edit(RewriteFrom("- a2\n- b", base="- a\n- b"))
    assert block.text == "- a2\n- b\n- c"


def test_a_schema_is_stored_and_read_back():
    for schema in (TEXT, PROFILE, NOTES, ListSchema(PROFILE.fields[:3]), LogSchema(shown=3), TreeSchema()):
        assert decode_schema(encode_schema(schema)) == schema
    assert encode_schema(TEXT) == TEXT_JSON
    with pytest.raises(SchemaError, match="no schema that this version knows"):
        decode_schema('{"kind":"graph"}')


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({"kind": "map", "fields": []}, "at least one field"),
        ({"kind": "map", "fields": [{"name": "A b"}]}, "must be a letter"),
        ({"kind": "map", "fields": [{"name": "a"}, {"name": "a"}]}, "there twice"),
        ({"kind": "map", "fields": [{"name": "a", "kind": "date"}]}, "date"),
        ({"kind": "map", "fields": [{"name": "a", "minimum": 1}]}, "is no number"),
        ({"kind": "map", "fields": [{"name": "a", "kind": "number", "minimum": 2, "maximum": 1}]}, "above its maximum"),
        ({"kind": "list", "fields": [{"name": "a", "kind": "list"}]}, "inside a record"),
        ({"kind": "log", "shown": 0}, "`shown` must be from 1 to 200"),
        ({"kind": "tree", "max_depth": 99}, "`max_depth`"),
        ({"kind": "composite", "sections": []}, "at least one section"),
        ({"kind": "list", "size": 3}, "size"),
    ],
)
def test_a_schema_that_contradicts_itself_is_refused_with_the_place(raw: object, problem: str):
    with pytest.raises(SchemaError, match=problem):
        read_schema(raw)


def test_a_schema_is_described_for_the_model():
    assert describe(TEXT) == ""
    assert describe(PROFILE).startswith("Fields: name (text, required), age (number, 0…150), ok (boolean), ")
    assert describe(NOTES).startswith("Sections: about: Who; todo: a list; facts: fields: name (text, required)")
    assert describe(LogSchema(shown=3)) == (
        "A log, its times in UTC; entries are only appended, and the last 3 are shown."
    )
    assert describe(MapSchema((FieldSpec("since", FieldKind.TIMESTAMP),))) == "Fields: since (timestamp in UTC)."
