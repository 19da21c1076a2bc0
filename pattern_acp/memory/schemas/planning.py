"""From an edit, or two of one content, to the steps that carry it out.

Owns: what each edit means for each schema. Must not know: Loro, limits, permissions. Nothing is changed here; the steps
are done on a document that is thrown away when its content then turns out not to be valid.
"""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TypeAlias, TypeVar

from msgspec import Struct

from pattern_acp.memory import edits
from pattern_acp.memory.dates import marked
from pattern_acp.memory.diffs import Conflict, Merge, merge_texts
from pattern_acp.memory.edits import (
    AnyEdit,
    Append,
    Authoring,
    ContentEdit,
    InsertAfter,
    Operation,
    Patch,
    RemoveItem,
    Replace,
    Rewrite,
    RewriteFrom,
    Verify,
    Within,
    plan_edit,
    storable_text,
)
from pattern_acp.memory.errors import PassageError, UnusableEditError
from pattern_acp.memory.schemas import steps
from pattern_acp.memory.schemas.forms import in_section, read, show, steps_between
from pattern_acp.memory.schemas.item_forms import (
    NodePosition,
    field_of,
    list_steps,
    map_steps,
    new_item,
    read_bullets,
    read_fields,
    read_tree,
    show_item,
    walk,
)
from pattern_acp.memory.schemas.steps import MoveStep, Roots, Step
from pattern_acp.memory.schemas.types import (
    BlockSchema,
    CompositeSchema,
    CompositeState,
    ContentError,
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
    PlainSchema,
    PlainState,
    State,
    TextSchema,
    TreeSchema,
    TreeState,
    clean,
    read_text,
    read_value,
)

T = TypeVar("T")


def merge_contents(schema: BlockSchema, base: str, theirs: str, ours: str) -> Merge:
    """Merge `theirs` and `ours`, which were both made of the text `base` of a block.

    A text that is no content of the schema is merged by lines, for the one who reads the outcome to refuse.
    """
    if isinstance(schema, TextSchema) or theirs in {base, ours} or ours == base:
        return merge_texts(base, theirs, ours)
    conflicts: list[Conflict] = []
    try:
        merged = _merged(schema, read(schema, base), read(schema, theirs), read(schema, ours), conflicts)
    except ContentError:
        return merge_texts(base, theirs, ours)
    return Merge(show(schema, merged), tuple(conflicts))


def merge_items(base: Sequence[T], theirs: Sequence[T], ours: Sequence[T]) -> list[T]:
    """The items of `theirs` with what `ours` did to those of `base`: changed, taken out, and put behind others."""
    places: dict[int, int] = {}
    for at, there, size in SequenceMatcher(None, base, theirs, autojunk=False).get_matching_blocks():
        places |= {at + step: there + step for step in range(size)}
    kept: list[list[T]] = [[], *([item] for item in theirs)]
    added = [item for item in theirs if item not in base]
    for tag, start, end, from_, to in SequenceMatcher(None, base, ours, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        anchor = max((places[at] + 1 for at in range(start) if at in places), default=0)
        new = list(ours[from_:to])
        for at in range(start, end):
            if at in places:
                # Its successor takes its place; without one, it was taken out.
                anchor = places[at] + 1
                kept[anchor][:1] = new[:1]
                new = new[1:]
        kept[anchor] += [item for item in new if item not in added]
    return [item for group in kept for item in group]


def _merged(schema: BlockSchema, base: State, theirs: State, ours: State, conflicts: list[Conflict]) -> State:
    if theirs in (base, ours):
        return ours
    if ours == base:
        return theirs
    match schema, base, theirs, ours:
        case CompositeSchema(), CompositeState(), CompositeState(), CompositeState():
            sections: dict[str, PlainState] = {}
            for section in schema.sections:
                parts = [state.sections[section.name] for state in (base, theirs, ours)]
                merged = _merged(section.schema, parts[0], parts[1], parts[2], conflicts)
                if not isinstance(merged, CompositeState):
                    sections[section.name] = merged
            return CompositeState(sections)
        case MapSchema(), MapState(), MapState(), MapState():
            return _merged_map(schema, base, theirs, ours)
        case ListSchema(), ListState(), ListState(), ListState():
            return ListState(tuple(merge_items(base.items, theirs.items, ours.items)))
        case _:
            merge = merge_texts(show(schema, base), show(schema, theirs), show(schema, ours))
            conflicts += merge.conflicts
            return read(schema, merge.text)


def _merged_map(schema: MapSchema, base: MapState, theirs: MapState, ours: MapState) -> MapState:
    values: dict[str, FieldValue] = {}
    for field in schema.fields:
        old, stored, wanted = (state.values.get(field.name) for state in (base, theirs, ours))
        value = stored if wanted == old else wanted
        if stored not in (old, wanted) and wanted != old:
            match field.kind, old, stored, wanted:
                case FieldKind.LIST, tuple() | None, tuple(), tuple():
                    value = tuple(merge_items(old or (), stored, wanted))
                case FieldKind.COUNTER, int() | float() | None, int() | float(), int() | float():
                    value = stored + wanted - (old or 0)
                case _:
                    pass
        if value is not None:
            values[field.name] = value
    return MapState(values)


_Planned: TypeAlias = tuple[Operation, list[Step]]


class StepPlan(Struct, frozen=True):
    """The steps of an edit, what it is called in the history, and the conflicts it leaves."""

    operation: Operation
    steps: tuple[Step, ...]
    conflicts: tuple[Conflict, ...] = ()


def plan_steps(schema: BlockSchema, state: State, edit: AnyEdit, author: Authoring, *, label: str) -> StepPlan:
    """The steps that carry `edit` out on a block that holds `state`.

    Raises:
        ContentError: the edit is not one for this schema, or what it names is not there.
        BlockError: a passage is not there exactly once, or cannot be stored.
    """
    if isinstance(edit, Within):
        operation, done = _plan_within(schema, state, edit, author, label)
        return StepPlan(operation, tuple(done))
    if isinstance(schema, CompositeSchema):
        if isinstance(edit, Append | edits.AddItem | edits.SetField | edits.MoveItem):
            names = ", ".join(section.name for section in schema.sections)
            raise ContentError("", f"say in `field` which section is meant; the sections are {names}")
        return _plan_as_text(schema, state, edit, label)
    special = _plan_plain(schema, state, edit, author, Roots())
    if special is not None:
        return StepPlan(special[0], tuple(special[1]))
    return _plan_as_text(schema, state, edit, label)


def _plan_as_text(
    schema: BlockSchema, state: State, edit: ContentEdit, label: str, roots: Roots | None = None
) -> StepPlan:
    """Edit the text that a content reads as, and read the result back."""
    if isinstance(edit, edits.RewriteFrom):
        merge = merge_contents(schema, edit.base, show(schema, state), storable_text(edit.text, label=label))
        changed = PlannedText(Operation.REWRITE, merge.text, merge.conflicts)
    else:
        changed = edited_text(edit, show(schema, state), label=label)
    text = changed.text.strip("\n") if roots is not None else changed.text
    return StepPlan(
        changed.operation, tuple(steps_between(schema, state, read(schema, text), roots)), changed.conflicts
    )


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
            return Operation.REMOVE, [steps.RemoveStep(root, find_item(shown, item))]
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


def changed_read_only(schema: BlockSchema, before: State, after: State) -> str:
    """The first read-only field or section that differs; empty for none."""
    match schema, before, after:
        case CompositeSchema(), CompositeState(), CompositeState():
            for section in schema.sections:
                old, new = before.sections[section.name], after.sections[section.name]
                if section.read_only and old != new:
                    return section.name
                inner = changed_read_only(section.schema, old, new)
                if inner:
                    return f"{section.name}.{inner}"
        case MapSchema(), MapState(), MapState():
            for field in schema.fields:
                if field.read_only and before.values.get(field.name) != after.values.get(field.name):
                    return field.name
        case _:
            pass
    return ""


_NO_LIMIT = 10**9


class PlannedText(Struct, frozen=True):
    """The text afterwards, what the edit is called, and the conflicts it leaves."""

    operation: Operation
    text: str
    conflicts: tuple[Conflict, ...] = ()


def edited_text(edit: ContentEdit, before: str, *, label: str) -> PlannedText:
    """Return `before` with `edit` applied.

    Raises:
        PassageError: the passage is not there exactly once.
        UnusableEditError: there is nothing to do, or characters cannot be stored.
        ContentError: the edit is none for a text.
    """
    match edit:
        case RewriteFrom(text, base):
            merge = merge_texts(base, before, storable_text(text, label=label))
            return PlannedText(Operation.REWRITE, merge.text, merge.conflicts)
        case InsertAfter(passage, text):
            return PlannedText(Operation.INSERT, _with_lines_after(before, passage, text, label))
        case RemoveItem(item):
            return PlannedText(Operation.REMOVE, _without(before, item, label))
        case Verify(passage, command, now_ms):
            return PlannedText(Operation.VERIFY, _verified(before, passage, label, command, now_ms))
        case Append() | Replace() | Rewrite() | Patch():
            planned = plan_edit(edit, before, label=label, limit=_NO_LIMIT)
            return PlannedText(planned.operation, planned.text)
        case _:
            raise ContentError("", "it is free text; use append, replace, insert_after, remove or rewrite")


def _place(passage: str, before: str, label: str) -> tuple[int, int]:
    passage = storable_text(passage, label=label).strip("\n")
    if not passage:
        raise UnusableEditError(label, "say in `old_text` which passage is meant, exactly as it is there.")
    count = before.count(passage)
    if count != 1:
        raise PassageError(label, count=count)
    start = before.index(passage)
    return start, start + len(passage)


def _with_lines_after(before: str, passage: str, text: str, label: str) -> str:
    added = storable_text(text, label=label).strip("\n")
    if not added.strip():
        raise UnusableEditError(label, "there is no text to insert; give the lines to add.")
    _, end = _place(passage, before, label)
    line_end = before.find("\n", end)
    at = len(before) if line_end < 0 else line_end
    return f"{before[:at]}\n{added}{before[at:]}"


def _verified(before: str, passage: str, label: str, command: str, now_ms: int) -> str:
    _, end = _place(passage, before, label)
    start = before.rfind("\n", 0, end) + 1
    line_end = before.find("\n", end)
    line_end = len(before) if line_end < 0 else line_end
    return before[:start] + marked(before[start:line_end], command, now_ms=now_ms) + before[line_end:]


def _without(before: str, passage: str, label: str) -> str:
    start, end = _place(passage, before, label)
    starts_line = start == 0 or before[start - 1] == "\n"
    if starts_line and before[end : end + 1] == "\n":
        # Whole lines go with their line end, so that no empty line stays.
        return before[:start] + before[end + 1 :]
    if starts_line and end == len(before) and start > 0:
        return before[: start - 1]
    return before[:start] + before[end:]


def move_steps(root: str, shown: Sequence[str], item: str, to: str) -> list[Step]:
    """The step that moves an item behind another one, or to the beginning.

    Raises:
        ContentError: one of them is not there.
    """
    at = find_item(shown, item)
    if not to:
        target = 0
    else:
        behind = find_item(shown, to)
        target = behind if at <= behind else behind + 1
    return [] if target == at else [MoveStep(root, at, target)]


_NUMBER = re.compile(r"#?(\d+(?:\.\d+)*)\.?")


def find_item(shown: Sequence[str], wanted: str) -> int:
    """The place of the item that `wanted` names. Raises ContentError where none is meant, or more than one."""
    return _find(shown, [str(number) for number in range(1, len(shown) + 1)], wanted, "item")


def find_node(places: Sequence[NodePosition], wanted: str) -> NodePosition:
    """The node that `wanted` names; its number is that of an outline, such as 2.1.

    Raises:
        ContentError: none is meant, or more than one.
    """
    numbers: list[str] = []
    trail: list[int] = []
    for place in places:
        trail = [*trail[: place.depth - 1], place.at + 1]
        numbers.append(".".join(map(str, trail)))
    return places[_find([place.node.text for place in places], numbers, wanted, "entry")]


def _find(texts: Sequence[str], numbers: Sequence[str], wanted: str, what: str) -> int:
    cleaned = clean(wanted).removeprefix("- ")
    if not cleaned:
        raise ContentError("", f"say in `old_text` which {what} is meant")
    exact = [at for at, text in enumerate(texts) if text == cleaned]
    found = exact or [at for at, text in enumerate(texts) if cleaned in text]
    if len(found) == 1:
        return found[0]
    number = _NUMBER.fullmatch(cleaned)
    if number is not None and not exact and number[1] in numbers:
        return numbers.index(number[1])
    if not found:
        raise ContentError("", f"it has no {what} that reads like that; read the block and copy the {what}")
    which = ", ".join(f"#{numbers[at]}" for at in found[:10])
    raise ContentError("", f"{len(found)} of its {what}s read like that ({which}); give the number with its `#`")


def plan_field(field: FieldSpec, state: MapState, edit: ContentEdit, roots: Roots) -> _Planned:
    """The steps of an edit of one field. Raises ContentError where the field does not take such an edit or value."""
    if field.kind is FieldKind.LIST:
        return _plan_field_list(field, state, edit, roots.list_field(field.name))
    if field.kind is FieldKind.COUNTER:
        return _plan_counter(field, state, edit, roots)
    match edit:
        case edits.SetField(text) | Rewrite(text):
            value = read_value(field, text) if text.strip() else None
            return Operation.SET, [steps.SetValue(roots.fields, field.name, value)]
        case Replace(passage, text):
            before = state.values.get(field.name)
            if not isinstance(before, str) or before.count(passage) != 1 or not passage:
                raise ContentError(field.name, "must hold the passage to replace exactly once")
            after = before.replace(passage, text)
            return Operation.REPLACE, [steps.SetValue(roots.fields, field.name, read_text(field.name, after))]
        case _:
            raise _wrong_kind(field, "set")


def _plan_field_list(field: FieldSpec, state: MapState, edit: ContentEdit, root: str) -> _Planned:
    value = state.values.get(field.name)
    items = list(value) if isinstance(value, tuple) else []
    match edit:
        case Append(text) | edits.AddItem(text):
            at = len(items)
            return Operation.ADD, [
                steps.InsertItem(root, at + step, item) for step, item in enumerate(_items(field, text))
            ]
        case edits.InsertAfter(passage, text):
            at = find_item(items, passage) + 1
            return Operation.INSERT, [
                steps.InsertItem(root, at + step, item) for step, item in enumerate(_items(field, text))
            ]
        case edits.RemoveItem(item):
            return Operation.REMOVE, [steps.RemoveStep(root, find_item(items, item))]
        case edits.MoveItem(item, to):
            return Operation.MOVE, move_steps(root, items, item, to)
        case Replace(passage, text):
            return Operation.REPLACE, [steps.SetItem(root, find_item(items, passage), read_text(field.name, text))]
        case edits.SetField(text) | Rewrite(text):
            return Operation.SET, list_steps(root, items, _items(field, text) if text.strip() else ())
        case _:
            raise _wrong_kind(field, "add, remove, move, replace or set")


def _plan_counter(field: FieldSpec, state: MapState, edit: ContentEdit, roots: Roots) -> _Planned:
    root = roots.counter(field.name)
    before = state.values.get(field.name)
    now = float(before) if isinstance(before, int | float) else 0.0
    match edit:
        case Append(text) | edits.AddItem(text):
            amount = read_value(FieldSpec(field.name, FieldKind.NUMBER), text.strip().removeprefix("+"))
            return Operation.ADD, [steps.Count(root, float(amount))]
        case edits.SetField(text) | Rewrite(text):
            return Operation.SET, [steps.Count(root, float(read_value(field, text)) - now)]
        case _:
            raise _wrong_kind(field, "add with an amount such as 1 or -2, or set")


def _items(field: FieldSpec, text: str) -> tuple[str, ...]:
    """The items of a text: bullets, or one item."""
    if text.lstrip("\n").startswith("- "):
        value = read_fields((field,), f"{field.name}:\n" + text.strip("\n")).get(field.name, ())
        return value if isinstance(value, tuple) else ()
    return (read_text(field.name, text),)


def _wrong_kind(field: FieldSpec, use: str) -> ContentError:
    return ContentError(field.name, f"is a {field.kind}; use {use}")
