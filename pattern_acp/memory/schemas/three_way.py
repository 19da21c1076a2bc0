"""Two changes of one content put together: by sections, fields and items, where lines would mix them up.

Owns: what is kept where both changed the same. Must not know: who they are, versions, storage. A text is merged by
lines (`memory/merging.py`), and so is an outline; of a field that both set, ours counts.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TypeVar

from pattern_acp.memory.merging import Conflict, Merge, merge_texts
from pattern_acp.memory.schemas.forms import read, show
from pattern_acp.memory.schemas.types import (
    BlockSchema,
    CompositeSchema,
    FieldKind,
    FieldValue,
    ListSchema,
    MapSchema,
    TextSchema,
)
from pattern_acp.memory.schemas.values import CompositeState, ContentError, ListState, MapState, PlainState, State

T = TypeVar("T")


def merge_contents(schema: BlockSchema, base: str, theirs: str, ours: str) -> Merge:
    """Merge `theirs` and `ours`, which were both made of the text `base` of a block.

    A text that is no content of the schema is merged by lines, for whoever reads the outcome to refuse.
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
                # Its successor stands in its place; without one, it was taken out.
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
            merge = merge_texts(*(show(schema, state) for state in (base, theirs, ours)))
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
