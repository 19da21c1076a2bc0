"""Which read-only parts two contents differ in.

Owns: where `read_only` stands in a schema. Must not know: who may write such a part all the same.
"""

from pattern_acp.memory.schemas.states import CompositeState, MapState, State
from pattern_acp.memory.schemas.types import BlockSchema, CompositeSchema, MapSchema


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
