"""Every schema against a plain model, its text form, and two peers at once."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from pattern_acp.memory.edits import (
    AddItem,
    AnyEdit,
    Append,
    InsertAfter,
    MoveItem,
    RemoveItem,
    Rewrite,
    SetField,
    Within,
)
from pattern_acp.memory.errors import PassageError, UnusableEditError
from pattern_acp.memory.schemas.forms import read, show
from pattern_acp.memory.schemas.types import (
    TEXT,
    BlockSchema,
    CompositeSchema,
    CompositeState,
    ContentError,
    FieldKind,
    FieldSpec,
    Item,
    ListSchema,
    ListState,
    LogSchema,
    LogState,
    MapSchema,
    MapState,
    Node,
    Record,
    SectionSpec,
    State,
    TextState,
    TreeSchema,
    TreeState,
)
from tests.support.blocks import SchemaBlock

ODD = st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n -:|#ab")
WORDS = st.sampled_from(
    ["alpha", "beta", "name: x", "- dash", "## about", "|", "two\nlines", "three\n\n  lines", "é 👩‍🚀"]
)
VALUES = (WORDS | st.text(ODD, min_size=1, max_size=20)).filter(lambda text: text.strip() != "")
LINES = VALUES.map(lambda text: " ".join(text.split())).filter(lambda text: text.removeprefix("- ").strip() != "")

FIELDS = (
    FieldSpec("name"),
    FieldSpec("age", FieldKind.NUMBER),
    FieldSpec("ok", FieldKind.BOOLEAN),
    FieldSpec("seen", FieldKind.TIMESTAMP),
    FieldSpec("tags", FieldKind.LIST),
    FieldSpec("count", FieldKind.COUNTER),
)
MAP = MapSchema(FIELDS)
RECORDS = ListSchema((FieldSpec("title", required=True), FieldSpec("done", FieldKind.BOOLEAN)))
COMPOSITE = CompositeSchema(
    (
        SectionSpec("about", TEXT),
        SectionSpec("items", ListSchema()),
        SectionSpec("facts", MAP),
        SectionSpec("log", LogSchema(shown=3)),
        SectionSpec("plan", TreeSchema()),
    )
)

NUMBERS = st.integers(1, 6).map(lambda at: f"#{at}")


def move(at: str, to: str) -> AnyEdit:
    return MoveItem(at, to)


def insert(at: str, text: str) -> AnyEdit:
    return InsertAfter(at, text)


def add_under(text: str, at: str) -> AnyEdit:
    return AddItem(text, at)


MAP_EDITS: st.SearchStrategy[AnyEdit] = st.one_of(
    st.builds(Within, st.just("name"), VALUES.map(SetField) | st.just(SetField(""))),
    st.builds(Within, st.just("age"), st.integers(-9, 9).map(str).map(SetField)),
    st.builds(Within, st.just("ok"), st.sampled_from(["yes", "no", "TRUE", ""]).map(SetField)),
    st.builds(Within, st.just("seen"), st.just(SetField("2026-11-27 14:05"))),
    st.builds(Within, st.just("tags"), VALUES.map(AddItem)),
    st.builds(Within, st.just("count"), st.integers(-5, 5).map(str).map(AddItem)),
)
LIST_EDITS: st.SearchStrategy[AnyEdit] = st.one_of(
    LINES.map(AddItem),
    NUMBERS.map(RemoveItem),
    st.builds(move, NUMBERS, NUMBERS | st.just("")),
    st.builds(insert, NUMBERS, LINES),
)
TREE_EDITS: st.SearchStrategy[AnyEdit] = st.one_of(
    LINES.map(AddItem),
    st.builds(add_under, LINES, NUMBERS),
    st.builds(move, NUMBERS, NUMBERS | st.just("")),
    NUMBERS.map(RemoveItem),
)
LOG_EDITS: st.SearchStrategy[AnyEdit] = VALUES.map(Append)
TEXT_EDITS: st.SearchStrategy[AnyEdit] = st.one_of(LINES.map(Append), LINES.map(RemoveItem), VALUES.map(Rewrite))


def within(place: str) -> Callable[[AnyEdit], AnyEdit]:
    def wrap(edit: AnyEdit) -> AnyEdit:
        return Within(f"{place}.{edit.place}", edit.edit) if isinstance(edit, Within) else Within(place, edit)

    return wrap


COMPOSITE_EDITS = st.one_of(
    TEXT_EDITS.map(within("about")),
    LIST_EDITS.map(within("items")),
    MAP_EDITS.map(within("facts")),
    LOG_EDITS.map(within("log")),
    TREE_EDITS.map(within("plan")),
)

SCHEMAS: tuple[tuple[BlockSchema, st.SearchStrategy[AnyEdit]], ...] = (
    (MAP, MAP_EDITS),
    (ListSchema(), LIST_EDITS),
    (RECORDS, LIST_EDITS),
    (LogSchema(shown=3), LOG_EDITS),
    (TreeSchema(), TREE_EDITS),
    (COMPOSITE, COMPOSITE_EDITS),
)
ANY_SCHEMA = st.sampled_from(SCHEMAS)


def attempt(block: SchemaBlock, edit: AnyEdit, *, peer: int = 1) -> tuple[SchemaBlock, bytes | None]:
    """The block after the edit, and its update; the block as it was when the edit is refused."""
    tried = block.copy(peer)
    try:
        return tried, tried.edit(edit)
    except (ContentError, PassageError, UnusableEditError):
        return block, None


def without_ids(state: State) -> State:
    def bare(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(Node("", node.text, bare(node.children)) for node in nodes)

    match state:
        case TreeState(nodes):
            return TreeState(bare(nodes))
        case CompositeState(sections):
            parts = {name: without_ids(part) for name, part in sections.items()}
            return CompositeState({name: part for name, part in parts.items() if not isinstance(part, CompositeState)})
        case _:
            return state


@settings(max_examples=60)
@given(st.data())
def test_what_is_shown_is_read_back_as_the_same_content(data: st.DataObject):
    schema, edits = data.draw(ANY_SCHEMA)
    block = SchemaBlock(schema)
    for edit in data.draw(st.lists(edits, max_size=8)):
        block, _ = attempt(block, edit)
    again = read(schema, block.text)
    assert without_ids(again) == without_ids(block.state)
    assert show(schema, again) == block.text


@settings(max_examples=60)
@given(st.data())
def test_a_text_that_reads_differently_is_reached_step_by_step(data: st.DataObject):
    schema, edits = data.draw(ANY_SCHEMA.filter(lambda pair: not isinstance(pair[0], LogSchema)))
    before, after = SchemaBlock(schema), SchemaBlock(schema)
    for edit in data.draw(st.lists(edits, max_size=6)):
        before, _ = attempt(before, edit)
    for edit in data.draw(st.lists(edits, max_size=6)):
        after, _ = attempt(after, edit)
    if before.text != after.text:
        before.edit(Rewrite(after.text), trusted=True)
        if not has_log(schema):
            assert before.text == after.text


def has_log(schema: BlockSchema) -> bool:
    return isinstance(schema, CompositeSchema)


@settings(max_examples=60)
@given(st.data())
def test_edits_of_two_peers_converge(data: st.DataObject):
    schema, edits = data.draw(ANY_SCHEMA)
    base = SchemaBlock(schema)
    for edit in data.draw(st.lists(edits, max_size=4)):
        base, _ = attempt(base, edit)
    left, right = base.copy(2), base.copy(3)
    updates: dict[int, list[bytes]] = {2: [], 3: []}
    for peer in (2, 3):
        block = left if peer == 2 else right
        for edit in data.draw(st.lists(edits, max_size=4)):
            block, update = attempt(block, edit, peer=peer)
            if update is not None:
                updates[peer].append(update)
        left, right = (block, right) if peer == 2 else (left, block)
    for update in updates[3]:
        left.document.merge(update)
    for update in updates[2]:
        right.document.merge(update)
    assert left.text == right.text
    assert left.document.frontiers == right.document.frontiers


# Models: plain Python that says what each edit means.


def list_model(items: list[str], edit: AnyEdit) -> list[str]:
    match edit:
        case AddItem(text):
            return [*items, text.strip()]
        case RemoveItem(item):
            at = place(items, item)
            return items[:at] + items[at + 1 :]
        case InsertAfter(passage, text):
            at = place(items, passage) + 1
            return [*items[:at], text.strip(), *items[at:]]
        case MoveItem(item, to):
            at = place(items, item)
            moved, rest = items[at], items[:at] + items[at + 1 :]
            if not to:
                return [moved, *rest]
            behind = place(items, to)
            after = behind if behind >= at else behind + 1
            return [*rest[:after], moved, *rest[after:]]
        case _:
            raise AssertionError


def place(items: list[str], number: str) -> int:
    at = int(number.removeprefix("#")) - 1
    if at >= len(items):
        raise ContentError("", "no such item")
    return at


@given(st.lists(LIST_EDITS.filter(lambda edit: "#" not in getattr(edit, "text", "")), max_size=12))
def test_a_list_equals_a_plain_list(edits: list[AnyEdit]):
    block, model = SchemaBlock(ListSchema()), list[str]()
    for edit in edits:
        if isinstance(edit, AddItem | InsertAfter) and edit.text.startswith("- "):
            continue
        block, update = attempt(block, edit)
        try:
            model = list_model(model, edit)
        except ContentError:
            assert update is None
    assert block.state == ListState(tuple[Item, ...](model))


@given(st.lists(VALUES, max_size=12), st.integers(1, 5))
def test_a_log_keeps_all_and_shows_the_last(texts: list[str], shown: int):
    block = SchemaBlock(LogSchema(shown=shown))
    kept: list[str] = []
    for number, text in enumerate(texts):
        try:
            block.edit(Append(text), at=number)
        except ContentError:
            continue
        kept.append(text)
    state = block.state
    assert isinstance(state, LogState)
    assert state.older == max(0, len(kept) - shown)
    assert len(state.entries) == min(len(kept), shown)
    stored = read(LogSchema(shown=200), SchemaBlock(LogSchema(shown=200)).text)
    assert stored == LogState(())


@given(st.lists(st.tuples(st.sampled_from(["name", "tags", "count"]), VALUES, st.integers(-9, 9)), max_size=12))
def test_a_map_equals_a_plain_dict(edits: list[tuple[str, str, int]]):
    block = SchemaBlock(MAP)
    name: str | None = None
    tags: list[str] = []
    count = 0
    for field, text, amount in edits:
        single = " ".join(text.split()).removeprefix("- ") or "x"
        match field:
            case "name":
                name = single
                block.edit(Within("name", SetField(single)))
            case "tags":
                tags.append(single)
                block.edit(Within("tags", AddItem(f"- {single}")))
            case _:
                count += amount
                block.edit(Within("count", AddItem(str(amount))))
    values = {"name": name, "tags": tuple(tags), "count": count}
    assert block.state == MapState({key: value for key, value in values.items() if value not in (None, ())})


@given(st.lists(st.tuples(LINES, st.integers(0, 5), st.sampled_from(["add", "move", "remove"])), max_size=14))
def test_a_tree_equals_a_plain_tree(edits: list[tuple[str, int, str]]):
    block = SchemaBlock(TreeSchema(max_depth=20))
    model: list[tuple[str, str]] = []  # label and parent's label, in the order of siblings
    for number, (_, target, action) in enumerate(edits):
        label = f"n{number}."
        names = [name for name, _ in model]
        other = names[target % len(names)] if names and target else ""
        if action == "add":
            block.edit(AddItem(label, other))
            model.append((label, other))
        elif names and action == "move":
            moved = names[(target * 7) % len(names)]
            if other and other in subtree(model, moved):
                continue
            block.edit(MoveItem(moved, other))
            model = [*(pair for pair in model if pair[0] != moved), (moved, other)]
        elif names and action == "remove" and other:
            gone = subtree(model, other)
            block.edit(RemoveItem(other))
            model = [pair for pair in model if pair[0] not in gone]
    assert block.text == outline(model, "", 0).strip("\n")


def subtree(model: list[tuple[str, str]], top: str) -> set[str]:
    below = {top}
    for _ in model:
        below |= {name for name, parent in model if parent in below}
    return below


def outline(model: list[tuple[str, str]], parent: str, depth: int) -> str:
    rows = ("  " * depth + f"- {name}\n" + outline(model, name, depth + 1) for name, over in model if over == parent)
    return "".join(rows)


def test_a_record_is_compared_by_its_values():
    assert Record((("title", "a"),)) == Record((("title", "a"),))
    assert isinstance(SchemaBlock(COMPOSITE).state, CompositeState)
    assert SchemaBlock(TEXT, "x").state == TextState("x")
