"""From an edit to the steps that carry it out.

Owns: what each edit means for each schema. Must not know: Loro, limits, permissions. Nothing is changed here; the steps
are done on a document that is thrown away when its content then turns out not to be valid.
"""

from typing import TypeAlias

from msgspec import Struct

from pattern_acp.memory.edits import Append, Operation, Patch, Rewrite, storable_text
from pattern_acp.memory.merging import Conflict
from pattern_acp.memory.schemas import edits, steps
from pattern_acp.memory.schemas.edits import AnyEdit, Authoring, ContentEdit, Within
from pattern_acp.memory.schemas.fields import plan_field
from pattern_acp.memory.schemas.finding import find_item, find_node
from pattern_acp.memory.schemas.forms import in_section, read, show, steps_between
from pattern_acp.memory.schemas.maps import field_of, map_steps
from pattern_acp.memory.schemas.moving import move_steps
from pattern_acp.memory.schemas.states import (
    CompositeState,
    Item,
    ListState,
    LogEntry,
    LogState,
    MapState,
    PlainState,
    State,
    TreeState,
)
from pattern_acp.memory.schemas.steps import Roots, Step
from pattern_acp.memory.schemas.text_edits import EditedText, edited_text
from pattern_acp.memory.schemas.text_forms import new_item, read_bullets, read_fields, show_item
from pattern_acp.memory.schemas.three_way import merge_contents
from pattern_acp.memory.schemas.trees import read_tree, walk
from pattern_acp.memory.schemas.types import (
    BlockSchema,
    CompositeSchema,
    ListSchema,
    LogSchema,
    MapSchema,
    PlainSchema,
    TextSchema,
    TreeSchema,
)
from pattern_acp.memory.schemas.values import ContentError

_Planned: TypeAlias = tuple[Operation, list[Step]]


class Plan(Struct, frozen=True):
    """The steps of an edit, what it is called in the history, and the conflicts it leaves."""

    operation: Operation
    steps: tuple[Step, ...]
    conflicts: tuple[Conflict, ...] = ()


def plan_steps(schema: BlockSchema, state: State, edit: AnyEdit, author: Authoring, *, label: str) -> Plan:
    """The steps that carry `edit` out on a block that holds `state`.

    Raises:
        ContentError: the edit is not one for this schema, or what it names is not there.
        BlockError: a passage is not there exactly once, or cannot be stored.
    """
    if isinstance(edit, Within):
        operation, done = _plan_within(schema, state, edit, author, label)
        return Plan(operation, tuple(done))
    if isinstance(schema, CompositeSchema):
        if isinstance(edit, Append | edits.AddItem | edits.SetField | edits.MoveItem):
            names = ", ".join(section.name for section in schema.sections)
            raise ContentError("", f"say in `field` which section is meant; the sections are {names}")
        return _plan_as_text(schema, state, edit, label)
    special = _plan_plain(schema, state, edit, author, Roots())
    if special is not None:
        return Plan(special[0], tuple(special[1]))
    return _plan_as_text(schema, state, edit, label)


def _plan_as_text(schema: BlockSchema, state: State, edit: ContentEdit, label: str, roots: Roots | None = None) -> Plan:
    """Edit the text that a content reads as, and read the result back."""
    if isinstance(edit, edits.RewriteFrom):
        merge = merge_contents(schema, edit.base, show(schema, state), storable_text(edit.text, label=label))
        changed = EditedText(Operation.REWRITE, merge.text, merge.conflicts)
    else:
        changed = edited_text(edit, show(schema, state), label=label)
    text = changed.text.strip("\n") if roots is not None else changed.text
    return Plan(changed.operation, tuple(steps_between(schema, state, read(schema, text), roots)), changed.conflicts)


def _plan_within(schema: BlockSchema, state: State, edit: Within, author: Authoring, label: str) -> _Planned:
    place, _, rest = edit.place.partition(".")
    match schema, state:
        case MapSchema(), MapState():
            if rest:
                raise ContentError(edit.place, "is not there; fields have no parts")
            return plan_field(field_of(schema, place), state, edit.edit, Roots())
        case CompositeSchema(), CompositeState():
            section = next((section for section in schema.sections if section.name == place), None)
            if section is None:
                names = ", ".join(section.name for section in schema.sections)
                raise ContentError("", f"there is no section `{place}`; the sections are {names}")
            part = state.sections[place]
            return in_section(place, lambda: _plan_in_section(section.schema, part, edit, rest, author, label))
        case _:
            raise ContentError("", f"it has no fields or sections, so leave out `field` (“{edit.place}”)")


def _plan_in_section(
    schema: PlainSchema, part: PlainState, edit: Within, rest: str, author: Authoring, label: str
) -> _Planned:
    roots = Roots(edit.place.partition(".")[0])
    if rest:
        if not isinstance(schema, MapSchema) or not isinstance(part, MapState):
            raise ContentError("", f"it has no field `{rest}`")
        return plan_field(field_of(schema, rest), part, edit.edit, roots)
    inner = edit.edit
    if isinstance(schema, TextSchema) and isinstance(inner, edits.SetField):
        inner = Rewrite(inner.text)
    special = _plan_plain(schema, part, inner, author, roots)
    if special is not None:
        return special
    plan = _plan_as_text(schema, part, inner, label, roots)
    return plan.operation, list(plan.steps)


def _plan_plain(
    schema: PlainSchema, state: State, edit: ContentEdit, author: Authoring, roots: Roots
) -> _Planned | None:
    """The steps of an edit that a schema has its own way for; None when it acts on the text form."""
    match schema, state:
        case MapSchema(), MapState():
            return _plan_map(schema, state, edit, roots)
        case ListSchema(), ListState():
            return _plan_list(schema, state, edit, roots)
        case LogSchema(), LogState():
            return _plan_log(schema, edit, author, roots)
        case TreeSchema(), TreeState():
            return _plan_tree(state, edit, roots)
        case _:
            if isinstance(edit, edits.SetField | edits.AddItem | edits.MoveItem):
                raise _wrong("it is free text", "append, replace, insert_after, remove or rewrite")
            return None


def _plan_map(schema: MapSchema, state: MapState, edit: ContentEdit, roots: Roots) -> _Planned | None:
    if isinstance(edit, edits.SetField):
        values = read_fields(schema.fields, edit.text)
        after = MapState({**state.values, **values})
        return Operation.SET, map_steps(schema, roots, state, after)
    if isinstance(edit, Append | edits.AddItem | edits.MoveItem | edits.InsertAfter):
        raise _wrong("it has named fields", "set, with `field`; add and remove work in a list field")
    return None


def _plan_list(schema: ListSchema, state: ListState, edit: ContentEdit, roots: Roots) -> _Planned | None:
    root, shown = roots.items, [show_item(item, schema.fields) for item in state.items]
    match edit:
        case Append(text) | edits.AddItem(text):
            at = len(state.items)
            added = _items_of(text, schema)
            return Operation.ADD, [steps.InsertItem(root, at + step, item) for step, item in enumerate(added)]
        case edits.InsertAfter(passage, text):
            at = find_item(shown, passage) + 1
            added = _items_of(text, schema)
            return Operation.INSERT, [steps.InsertItem(root, at + step, item) for step, item in enumerate(added)]
        case edits.RemoveItem(item):
            return Operation.REMOVE, [steps.RemoveItem(root, find_item(shown, item))]
        case edits.MoveItem(item, to):
            return Operation.MOVE, move_steps(root, shown, item, to)
        case edits.SetField():
            raise _wrong("it is a list", "add, remove, move, replace or rewrite")
        case _:
            return None


def _items_of(text: str, schema: ListSchema) -> list[Item]:
    many = text.lstrip("\n").startswith("- ")
    texts = read_bullets(text.strip("\n").split("\n")) if many else [text]
    return [new_item(item, schema.fields) for item in texts]


def _plan_log(schema: LogSchema, edit: ContentEdit, author: Authoring, roots: Roots) -> _Planned | None:
    if isinstance(edit, Append | edits.AddItem):
        entry = LogEntry(author.at, author.by, new_item(edit.text.removeprefix("- "), schema.fields))
        return Operation.APPEND, [steps.InsertEntry(roots.entries, 0, entry)]
    reverts = isinstance(edit, Patch) or (isinstance(edit, Rewrite) and edit.operation is not Operation.REWRITE)
    if not (reverts or author.trusted):
        raise _wrong("it is a log, whose entries stay as they are", "append")
    return None


def _plan_tree(state: TreeState, edit: ContentEdit, roots: Roots) -> _Planned | None:
    root, places = roots.tree, walk(state)
    match edit:
        case Append(text) | edits.AddItem(text, under=""):
            return Operation.ADD, _add_nodes(root, "", len(state.nodes), text)
        case edits.AddItem(text, under):
            parent = find_node(places, under).node
            return Operation.ADD, _add_nodes(root, parent.id, len(parent.children), text)
        case edits.InsertAfter(passage, text):
            behind = find_node(places, passage)
            return Operation.INSERT, _add_nodes(root, behind.parent, behind.at + 1, text)
        case edits.RemoveItem(item):
            return Operation.REMOVE, [steps.RemoveNode(root, find_node(places, item).node.id)]
        case edits.MoveItem(item, to):
            return Operation.MOVE, _move_node(root, state, item, to)
        case edits.SetField():
            raise _wrong("it is a tree", "add, move, remove, replace or rewrite")
        case _:
            return None


def _add_nodes(root: str, parent: str, at: int, text: str) -> list[Step]:
    outline = text.strip("\n") if text.lstrip("\n").startswith("- ") else f"- {text.strip()}"
    return [steps.AddNode(root, parent, at + step, node) for step, node in enumerate(read_tree(outline).nodes)]


def _move_node(root: str, state: TreeState, item: str, to: str) -> list[Step]:
    places = walk(state)
    moved = find_node(places, item)
    if not to:
        others = [node for node in state.nodes if node.id != moved.node.id]
        return [steps.MoveNode(root, moved.node.id, "", len(others))]
    target = find_node(places, to).node
    below = {place.node.id for place in walk(TreeState((moved.node,)))}
    if target.id in below:
        raise ContentError("", "an entry cannot be moved below itself")
    others = [node for node in target.children if node.id != moved.node.id]
    return [steps.MoveNode(root, moved.node.id, target.id, len(others))]


def _wrong(what: str, use: str) -> ContentError:
    return ContentError("", f"{what}; use {use}")
