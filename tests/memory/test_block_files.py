"""Typed blocks as TOML: what is written is read back, and what is wrong is named with its line."""

from typing import TypeAlias, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.memory.block_files import MARKDOWN, TOML, editable_text, text_of_edited
from pattern_acp.memory.errors import ContentRefusedError
from pattern_acp.memory.schemas.forms import check, read, show
from pattern_acp.memory.schemas.types import (
    TEXT,
    BlockSchema,
    CompositeSchema,
    CompositeState,
    ContentError,
    FieldKind,
    FieldSpec,
    ListSchema,
    ListState,
    LogEntry,
    LogSchema,
    LogState,
    MapSchema,
    MapState,
    PlainState,
    Record,
    Scalar,
    SectionSpec,
    State,
    TextState,
    TreeSchema,
    TreeState,
    clean,
)

MAP = MapSchema(
    (
        FieldSpec("name", description="How they want\nto be called.", required=True),
        FieldSpec("age", FieldKind.NUMBER, minimum=0),
        FieldSpec("ok", FieldKind.BOOLEAN),
        FieldSpec("seen", FieldKind.TIMESTAMP, read_only=True),
        FieldSpec("tags", FieldKind.LIST),
        FieldSpec("count", FieldKind.COUNTER),
    )
)
RECORDS = ListSchema(
    (
        FieldSpec("title", required=True),
        FieldSpec("done", FieldKind.BOOLEAN),
        FieldSpec("at", FieldKind.TIMESTAMP),
        FieldSpec("size", FieldKind.NUMBER),
    )
)
COMPOSITE = CompositeSchema(
    (
        SectionSpec("facts", MAP),
        SectionSpec("about", TEXT, "What it is."),
        SectionSpec("items", ListSchema()),
        SectionSpec("open", RECORDS),
        SectionSpec("log", LogSchema(shown=3), read_only=True),
        SectionSpec("plan", TreeSchema()),
    )
)
FACTS = "name: Ada\nage: 36\nok: yes\nseen: 2026-11-27 14:05:00\ntags:\n- maths\n- looms\ncount: 2"

ODD = st.characters(exclude_categories=["Cs"]) | st.sampled_from("\n\t\"'\\#=[]{}")
TEXTS = st.text(ODD, min_size=1, max_size=30).map(clean).filter(bool)
SECONDS = st.integers(-2_000_000_000, 4_000_000_000)
MAPS = st.fixed_dictionaries(
    {"name": TEXTS, "count": st.integers(-9, 9)},
    optional={
        "age": st.integers(0, 120) | st.floats(0.5, 1e6).filter(lambda number: not number.is_integer()),
        "ok": st.booleans(),
        "seen": SECONDS,
        "tags": st.lists(TEXTS, min_size=1, max_size=3).map(tuple),
    },
).map(MapState)


def record(title: str, at: int, *, done: bool | None) -> Record:
    flag: tuple[tuple[str, Scalar], ...] = () if done is None else (("done", done),)
    return Record((("title", title), *flag, ("at", at)))


ITEMS = st.lists(st.builds(record, TEXTS, SECONDS, done=st.none() | st.booleans()), max_size=3).map(
    lambda items: ListState(tuple(items))
)


@st.composite
def composites(draw: st.DrawFn) -> CompositeState:
    parts: dict[str, PlainState] = {
        "facts": draw(MAPS),
        "about": TextState(draw(TEXTS)),
        "items": ListState(tuple(draw(st.lists(TEXTS, max_size=3)))),
        "open": draw(ITEMS),
        "log": LogState((LogEntry(draw(SECONDS), "agent", draw(TEXTS)),), older=2),
        "plan": cast("TreeState", read(TreeSchema(), "- one\n  - two\n- three")),
    }
    return CompositeState(parts)


Case: TypeAlias = tuple[BlockSchema, State]
CASES: st.SearchStrategy[Case] = st.one_of(
    st.tuples(st.just(MAP), MAPS), st.tuples(st.just(RECORDS), ITEMS), st.tuples(st.just(COMPOSITE), composites())
)


def is_readable(schema: BlockSchema, state: State) -> bool:
    """Whether the text form itself takes the content: odd line ends and headings inside texts are its own matter."""
    try:
        check(schema, state)
        return read(schema, show(schema, state)) == state
    except ContentError:
        return False


@given(CASES.filter(lambda case: is_readable(*case)))
def test_what_is_opened_as_toml_reads_the_same_when_nothing_was_changed(case: Case):
    schema, state = case
    text = show(schema, state)
    opened = editable_text(schema, text)
    assert opened.suffix == TOML
    assert text_of_edited("b", schema, opened.text, text) == text
    assert text_of_edited("b", schema, opened.text.replace("\n", "\r\n"), text) == text


def test_fields_are_typed_and_say_what_belongs_there():
    assert editable_text(MAP, FACTS).text == (
        '# How they want to be called. (required)\nname = "Ada"\nage = 36\nok = true\n'
        "# (read-only for the agent)\nseen = 2026-11-27T14:05:00Z\n"
        'tags = [\n  "maths",\n  "looms",\n]\ncount = 2\n'
    )
    assert "# tags = []" in editable_text(MAP, "name: Ada").text


def test_only_typed_fields_make_toml():
    for schema in (TEXT, ListSchema(), LogSchema(), TreeSchema(), CompositeSchema((SectionSpec("a", TEXT),))):
        opened = editable_text(schema, "")
        assert (opened.suffix, opened.text) == (MARKDOWN, "")
    assert editable_text(MAP, "no field") == editable_text(TEXT, "no field")


def test_a_file_may_hold_the_form_that_a_block_reads_in():
    assert text_of_edited("b", MAP, "name: Grace", FACTS) == "name: Grace"
    assert text_of_edited("b", TEXT, 'name = "x"', "") == 'name = "x"'
    assert text_of_edited("b", COMPOSITE, "## about\nx", "") == "## about\nx"
    assert text_of_edited("b", MAP, "", FACTS) == ""
    with pytest.raises(ContentRefusedError, match=r"no TOML .*line 1"):
        text_of_edited("b", MAP, "name: Ada", FACTS, TOML)


def test_what_is_read_only_for_the_agent_stays_when_it_is_left_out_and_the_person_may_change_it():
    assert text_of_edited("b", MAP, 'name = "Ada"', FACTS) == "name: Ada\nseen: 2026-11-27 14:05:00\ncount: 0"
    changed = text_of_edited("b", MAP, 'name = "Ada"\nseen = 2026-12-01', FACTS)
    assert "seen: 2026-12-01 00:00:00" in changed
    before = f"## facts\n{FACTS}\n\n## about\nold\n\n## items\n\n## open\n\n## log\n- [2026-11-27 14:05:33 agent] kept"
    after = text_of_edited("b", COMPOSITE, 'about = "new"\nitems = ["x"]\n[facts]\nname = "Ada"', before)
    assert "## about\nnew" in after
    assert "- x" in after
    assert "agent] kept" in after
    assert "seen: 2026-11-27" in after


def test_a_text_or_list_that_is_emptied_is_unset():
    assert text_of_edited("b", MAP, 'name = "Ada"\nseen = "2026-11-27"\ntags = []', FACTS).endswith(
        "name: Ada\nseen: 2026-11-27 00:00:00\ncount: 0"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('name = "Ada"\nage = = 3', r"no TOML .*line 2"),
        ('name = "Ada"\nage = "36"', r"`age` must be a number, without quotes \(line 2\)"),
        ('name = "Ada"\nage = -1', r"`age` must be at least 0 \(line 2\)"),
        ('name = "Ada"\nage = inf', r"`age` must be a number below"),
        ('name = "Ada"\n\nok = "yes"', r"`ok` must be true or false, without quotes \(line 3\)"),
        ('name = "Ada"\nseen = 12:30:00', r"`seen` must be a date or time .*line 2"),
        ('name = "Ada"\nseen = "soon"', r"`seen` must be a date or time .*line 2"),
        ('name = "Ada"\ntags = "x"', r"`tags` must be a list in brackets \(line 2\)"),
        ('name = "Ada"\ntags = [1]', r"`tags` must hold texts in quotes only \(line 2\)"),
        ('name = "Ada"\ntags = [" "]', r"`tags` must not be empty \(line 2\)"),
        ('name = """\nx = 1\nage = 2\n"""\nage = true', r"`age` must be a number, without quotes \(line 5\)"),
        ("name = 3", r"`name` must be a text in quotes \(line 1\)"),
        ('name = "Ada"\nnick = "A"', r"no field `nick` \(line 2\); those there are: name, age"),
        ("age = 3", r"`name` is required"),
        ("[name]", r"`name` must be a text in quotes \(line 1\)"),
    ],
)
def test_what_a_map_does_not_take_is_refused_with_line_and_reason(text: str, problem: str):
    with pytest.raises(ContentRefusedError, match=problem):
        text_of_edited("b", MAP, text, FACTS)


@pytest.mark.parametrize(
    ("schema", "text", "problem"),
    [
        (RECORDS, '[[items]]\ntitle = "a"\n[[items]]\ndone = true', r"`title` is missing.*\(line 3\)"),
        (RECORDS, '[[items]]\ntitle = "a"\n[[items]]\ntitle = "b"\ndone = 1', r"`done` must be true .*\(line 5\)"),
        (RECORDS, '[[items]]\ntitle = "a"\nwhy = 1', r"no field `why` \(line 3\)"),
        (RECORDS, 'items = ["a"]', r"must have `\[\[items\]\]` before each item \(line 1\)"),
        (RECORDS, "items = 3", r"must be `\[\[items\]\]` before each item \(line 1\)"),
        (RECORDS, "[[facts]]", r"no table `facts` \(line 1\)"),
        (COMPOSITE, 'about = 1\n[facts]\nname = "a"', r"`about` must be a text in quotes \(line 1\)"),
        (COMPOSITE, "facts = 1", r"`facts` must be a table, begun with `\[facts\]` \(line 1\)"),
        (COMPOSITE, '[facts]\nname = "a"\nage = "b"', r"`facts.age` must be a number, without quotes \(line 3\)"),
        (COMPOSITE, 'items = "a"\n[facts]\nname = "a"', r"`items` must be a list in brackets \(line 1\)"),
        (COMPOSITE, '[facts]\nname = "a"\n[[open]]\ndone = true', r"`open.title` is missing.*\(line 3\)"),
        (COMPOSITE, 'plan = "one"\n[facts]\nname = "a"', r"in the section `plan`: .*“one” is no entry.*\(line 1\)"),
        (COMPOSITE, 'log = "- x"\n[facts]\nname = "a"', r"in the section `log`: an entry .*\(line 1\)"),
        (COMPOSITE, 'about = "x"', r"`facts.name` is required"),
        (COMPOSITE, "[later]", r"no section `later` \(line 1\); those there are: facts, about"),
    ],
)
def test_what_items_and_sections_do_not_take_is_refused_with_line_and_reason(
    schema: BlockSchema, text: str, problem: str
):
    with pytest.raises(ContentRefusedError, match=problem):
        text_of_edited("b", schema, text, "")
