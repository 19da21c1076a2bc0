"""Contents of a block in the containers of a Loro document.

Owns: reading a content from its containers, and carrying out steps on them. Must not know: rules of schemas, bytes,
versions. Called by `memory/document.py` alone, which converts what loro raises.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, assert_never, cast

from pattern_acp.memory.schemas import steps
from pattern_acp.memory.schemas.steps import Roots, Step
from pattern_acp.memory.schemas.types import (
    BlockSchema,
    CompositeSchema,
    CompositeState,
    FieldKind,
    FieldSpec,
    FieldValue,
    Item,
    ListSchema,
    ListState,
    LogEntry,
    LogSchema,
    LogState,
    MapSchema,
    MapState,
    Node,
    PlainSchema,
    PlainState,
    Record,
    Scalar,
    State,
    TextSchema,
    TextState,
    TreeSchema,
    TreeState,
)

if TYPE_CHECKING:
    import loro

_Stored: TypeAlias = "str | int | float | bool | dict[str, _Stored] | list[_Stored] | None"

_AT, _BY, _BODY, _NODE_TEXT = "at", "by", "body", "text"
"""Keys of a log's entry, and of a tree's node."""


def read_content(document: "loro.LoroDoc", schema: BlockSchema) -> State:
    """The content of the document. Values that the schema does not know, as a later version could write, stay out."""
    if isinstance(schema, CompositeSchema):
        return CompositeState(
            {section.name: _read(document, section.schema, Roots(section.name)) for section in schema.sections}
        )
    return _read(document, schema, Roots())


def set_lines(stored: "loro.LoroText", text: str) -> None:
    """Make a text read as `text`: lines that stay are not touched. The caller commits.

    `update_by_line` takes a line for another one when it gains or loses its line end, so what is put behind the last
    line, or taken from there, would count as a change of that line. So both get a line end while they are compared.
    """
    last = stored.to_string().rpartition("\n")[2]
    if last == text.rpartition("\n")[2]:
        stored.update_by_line(text)
        return
    stored.insert(stored.len_unicode, "\n")
    stored.update_by_line(f"{text}\n")
    stored.delete(stored.len_unicode - 1, 1)


def perform(document: "loro.LoroDoc", done: Sequence[Step]) -> None:
    """Carry out steps in their order; the caller commits."""
    for step in done:
        match step:
            case steps.SetLines(root, text):
                set_lines(document.get_text(root), text)
            case steps.Count(root, amount):
                document.get_counter(root).increment(amount)
            case steps.SetValue(root, key, value):
                _set_value(document.get_map(root), key, value)
            case steps.InsertEntry(root, from_end, entry):
                entries = document.get_list(root)
                entries.insert(len(entries) - from_end, {_AT: entry.at, _BY: entry.by, _BODY: _stored_item(entry.body)})
            case steps.RemoveEntry(root, from_end):
                entries = document.get_list(root)
                entries.delete(len(entries) - 1 - from_end, 1)
            case steps.InsertItem() | steps.SetItem() | steps.MoveStep() | steps.RemoveStep():
                _change_list(document.get_movable_list(step.root), step)
            case steps.AddNode() | steps.MoveNode() | steps.RemoveNode():
                _change_tree(document.get_tree(step.root), step)
            case _:
                assert_never(step)


def _read(document: "loro.LoroDoc", schema: PlainSchema, roots: Roots) -> PlainState:
    match schema:
        case TextSchema():
            return TextState(document.get_text(roots.text).to_string())
        case MapSchema(fields=fields):
            return _read_map(document, fields, roots)
        case ListSchema(fields=fields):
            stored = document.get_movable_list(roots.items).get_value()
            return ListState(tuple(_item(value, fields) for value in _as_list(stored)))
        case LogSchema():
            return _read_log(document.get_list(roots.entries), schema)
        case TreeSchema():
            return TreeState(_nodes(document.get_tree(roots.tree).get_value_with_meta()))
        case _:
            assert_never(schema)


def _read_map(document: "loro.LoroDoc", fields: Sequence[FieldSpec], roots: Roots) -> MapState:
    stored = _as_dict(document.get_map(roots.fields).get_value())
    values: dict[str, FieldValue] = {}
    for field in fields:
        match field.kind:
            case FieldKind.COUNTER:
                values[field.name] = _whole(document.get_counter(roots.counter(field.name)).value)
            case FieldKind.LIST:
                items = _as_list(document.get_movable_list(roots.list_field(field.name)).get_value())
                if items:
                    values[field.name] = tuple(str(item) for item in items)
            case _:
                value = _scalar(stored.get(field.name))
                if value is not None:
                    values[field.name] = value
    return MapState(values)


def _read_log(entries: "loro.LoroList", schema: LogSchema) -> LogState:
    # Only what is shown: a log grows without bound, and every write reads it.
    import loro

    count = len(entries)
    first = max(0, count - schema.shown)
    shown: list[LogEntry] = []
    for at in range(first, count):
        found = entries.get(at)
        if isinstance(found, loro.ValueOrContainer.Value):
            shown.append(_entry(_as_dict(found.value), schema))
    return LogState(tuple(shown), first)


def _entry(stored: Mapping[str, _Stored], schema: LogSchema) -> LogEntry:
    at = stored.get(_AT)
    body = _item(stored.get(_BODY), schema.fields)
    return LogEntry(int(at) if isinstance(at, int | float) else 0, str(stored.get(_BY)), body)


def _item(stored: object, fields: Sequence[FieldSpec]) -> Item:
    if isinstance(stored, str) or not fields:
        return str(stored)
    values = _as_dict(stored)
    known = [(field.name, _scalar(values.get(field.name))) for field in fields]
    return Record(tuple((name, value) for name, value in known if value is not None))


def _stored_item(item: Item) -> "loro.LoroValue":
    if isinstance(item, str):
        return item
    stored: dict[str, loro.LoroValue] = dict(item.values)
    return stored


def _set_value(fields: "loro.LoroMap", key: str, value: Scalar | None) -> None:
    if value is not None:
        fields.insert(key, value)
    elif key in fields:
        fields.delete(key)


def _change_list(
    items: "loro.LoroMovableList", step: steps.InsertItem | steps.SetItem | steps.MoveStep | steps.RemoveStep
) -> None:
    match step:
        case steps.InsertItem(_, at, item):
            items.insert(at, _stored_item(item))
        case steps.SetItem(_, at, item):
            items.set(at, _stored_item(item))
        case steps.MoveStep(_, at, to):
            items.mov(at, to)
        case steps.RemoveStep(_, at):
            items.delete(at, 1)


def _change_tree(tree: "loro.LoroTree", step: steps.AddNode | steps.MoveNode | steps.RemoveNode) -> None:
    match step:
        case steps.AddNode(_, parent, at, node):
            _add_node(tree, _node_id(parent), at, node)
        case steps.MoveNode(_, moved, parent, at):
            target = _node_id(moved)
            if target is not None:
                tree.mov_to(target, at, _node_id(parent))
        case steps.RemoveNode(_, removed):
            target = _node_id(removed)
            if target is not None:
                tree.delete(target)


def _add_node(tree: "loro.LoroTree", parent: "loro.TreeID | None", at: int, node: Node) -> None:
    made = tree.create_at(at, parent)
    tree.get_meta(made).insert(_NODE_TEXT, node.text)
    for place, child in enumerate(node.children):
        _add_node(tree, made, place, child)


def _nodes(stored: object) -> tuple[Node, ...]:
    return tuple(_node(_as_dict(node)) for node in _as_list(stored))


def _node(stored: Mapping[str, _Stored]) -> Node:
    text = _as_dict(stored.get("meta")).get(_NODE_TEXT)
    return Node(str(stored.get("id")), str(text), _nodes(stored.get("children")))


def _node_id(node: str) -> "loro.TreeID | None":
    """The id of a node as loro prints it, `counter@peer`; None for the top."""
    import loro

    counter, _, peer = node.partition("@")
    return loro.TreeID(int(peer), int(counter)) if peer else None


def _scalar(stored: object) -> Scalar | None:
    return stored if isinstance(stored, str | int | float | bool) else None


def _whole(number: float) -> int | float:
    return int(number) if number.is_integer() else number


def _as_dict(stored: object) -> dict[str, _Stored]:
    return cast("dict[str, _Stored]", stored) if isinstance(stored, dict) else {}


def _as_list(stored: object) -> list[_Stored]:
    return cast("list[_Stored]", stored) if isinstance(stored, list) else []
