"""Edits of one field of a map.

Owns: what each edit means for each kind of field. Must not know: the other fields.
"""

from typing import TypeAlias

from pattern_acp.memory.edits import Append, Operation, Replace, Rewrite
from pattern_acp.memory.schemas import edits, steps
from pattern_acp.memory.schemas.edits import ContentEdit
from pattern_acp.memory.schemas.finding import find_item
from pattern_acp.memory.schemas.lists import list_steps
from pattern_acp.memory.schemas.moving import move_steps
from pattern_acp.memory.schemas.states import MapState
from pattern_acp.memory.schemas.steps import Roots, Step
from pattern_acp.memory.schemas.text_forms import read_fields
from pattern_acp.memory.schemas.types import FieldKind, FieldSpec
from pattern_acp.memory.schemas.values import ContentError, read_text, read_value

_Planned: TypeAlias = tuple[Operation, list[Step]]


def plan_field(field: FieldSpec, state: MapState, edit: ContentEdit, roots: Roots) -> _Planned:
    """The steps of an edit of one field.

    Raises:
        ContentError: the field does not take such an edit or value.
    """
    if field.kind is FieldKind.LIST:
        return _plan_list(field, state, edit, roots.list_field(field.name))
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
            raise _wrong(field, "set")


def _plan_list(field: FieldSpec, state: MapState, edit: ContentEdit, root: str) -> _Planned:
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
            return Operation.REMOVE, [steps.RemoveItem(root, find_item(items, item))]
        case edits.MoveItem(item, to):
            return Operation.MOVE, move_steps(root, items, item, to)
        case Replace(passage, text):
            return Operation.REPLACE, [steps.SetItem(root, find_item(items, passage), read_text(field.name, text))]
        case edits.SetField(text) | Rewrite(text):
            return Operation.SET, list_steps(root, items, _items(field, text) if text.strip() else ())
        case _:
            raise _wrong(field, "add, remove, move, replace or set")


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
            raise _wrong(field, "add with an amount such as 1 or -2, or set")


def _items(field: FieldSpec, text: str) -> tuple[str, ...]:
    """The items of a text: bullets, or one item."""
    if text.lstrip("\n").startswith("- "):
        value = read_fields((field,), f"{field.name}:\n" + text.strip("\n")).get(field.name, ())
        return value if isinstance(value, tuple) else ()
    return (read_text(field.name, text),)


def _wrong(field: FieldSpec, use: str) -> ContentError:
    return ContentError(field.name, f"is a {field.kind}; use {use}")
