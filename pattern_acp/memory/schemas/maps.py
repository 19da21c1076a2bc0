"""Maps: named, typed fields.

Owns: how a map reads, its checks and its steps. Must not know: who may change it.
"""

from pattern_acp.memory.schemas.lists import list_steps
from pattern_acp.memory.schemas.states import MapState
from pattern_acp.memory.schemas.steps import Count, Roots, SetValue, Step
from pattern_acp.memory.schemas.text_forms import read_fields, show_fields
from pattern_acp.memory.schemas.types import FieldKind, FieldSpec, FieldValue, MapSchema
from pattern_acp.memory.schemas.values import ContentError, check_bounds, default_value


def show_map(schema: MapSchema, state: MapState) -> str:
    """The fields that are set."""
    return show_fields(schema.fields, state.values)


def read_map(schema: MapSchema, text: str) -> MapState:
    """The map of a text. A counter that the text leaves out counts from zero.

    Raises:
        ContentError: see `text_forms.read_fields`.
    """
    values = read_fields(schema.fields, text)
    for field in schema.fields:
        if field.kind is FieldKind.COUNTER:
            values.setdefault(field.name, 0)
    return MapState(values)


def new_map(schema: MapSchema, text: str) -> MapState:
    """The first content of a block: what the text sets, and the defaults of the rest.

    Raises:
        ContentError: the text or a default is wrong.
    """
    values = read_fields(schema.fields, text)
    for field in schema.fields:
        if field.name not in values:
            default = default_value(field)
            if default is not None:
                values[field.name] = default
            elif field.kind is FieldKind.COUNTER:
                values[field.name] = 0
    return MapState(values)


def check_map(schema: MapSchema, state: MapState) -> None:
    """Refuse a map without a required field, or with a counter out of its bounds.

    Raises:
        ContentError: names the field.
    """
    for field in schema.fields:
        value = state.values.get(field.name)
        if field.required and value in (None, (), ""):
            raise ContentError(field.name, f"is required; give it as `{field.name}: …`")
        if isinstance(value, int | float) and not isinstance(value, bool):
            check_bounds(field, value)


def map_steps(schema: MapSchema, roots: Roots, before: MapState, after: MapState) -> list[Step]:
    """The steps from one content to another: only fields that differ, counters by their difference."""
    steps: list[Step] = []
    for field in schema.fields:
        old, new = before.values.get(field.name), after.values.get(field.name)
        if old != new or isinstance(old, bool) != isinstance(new, bool):
            steps += _field_steps(field, roots, old, new)
    return steps


def field_of(schema: MapSchema, name: str) -> FieldSpec:
    """The field of this name.

    Raises:
        ContentError: there is none; names those there are.
    """
    for field in schema.fields:
        if field.name == name:
            return field
    names = ", ".join(field.name for field in schema.fields)
    raise ContentError("", f"there is no field `{name}`; the fields are {names}")


def _field_steps(field: FieldSpec, roots: Roots, old: FieldValue | None, new: FieldValue | None) -> list[Step]:
    if field.kind is FieldKind.LIST:
        return list_steps(roots.list_field(field.name), _items(old), _items(new))
    if field.kind is FieldKind.COUNTER:
        return [Count(roots.counter(field.name), _amount(new) - _amount(old))]
    return [SetValue(roots.fields, field.name, None if isinstance(new, tuple) else new)]


def _items(value: FieldValue | None) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _amount(value: FieldValue | None) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
