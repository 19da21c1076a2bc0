"""Schemas in words, for the model.

Owns: how a schema is described. Must not know: contents.
"""

from typing import assert_never

from pattern_acp.memory.schemas.types import (
    BlockSchema,
    CompositeSchema,
    FieldSpec,
    ListSchema,
    LogSchema,
    MapSchema,
    SectionSpec,
    TextSchema,
    TreeSchema,
)
from pattern_acp.memory.schemas.values import show_number


def describe(schema: BlockSchema) -> str:
    """What a block of this schema holds, in one line; empty for free text."""
    match schema:
        case TextSchema():
            return ""
        case MapSchema(fields=fields):
            return f"Fields: {_fields(fields)}."
        case ListSchema(fields=fields, max_items=most):
            limit = f" of at most {most} items" if most is not None else ""
            return f"A list{limit}{_records(fields)}."
        case LogSchema(fields=fields, shown=shown):
            return f"A log; entries are only appended, and the last {shown} are shown{_records(fields)}."
        case TreeSchema():
            return "An outline."
        case CompositeSchema(sections=sections):
            return "Sections: " + "; ".join(_section(section) for section in sections) + "."
        case _:
            assert_never(schema)


def _section(section: SectionSpec) -> str:
    inner = describe(section.schema).rstrip(".")
    parts = [part for part in (section.description.rstrip("."), inner[:1].lower() + inner[1:]) if part]
    mark = " [read-only]" if section.read_only else ""
    return f"{section.name}{mark}{': ' if parts else ''}{', '.join(parts)}"


def _records(fields: tuple[FieldSpec, ...]) -> str:
    return f", each with {_fields(fields)}" if fields else ""


def _fields(fields: tuple[FieldSpec, ...]) -> str:
    return ", ".join(_field(field) for field in fields)


def _field(field: FieldSpec) -> str:
    words = [field.kind.value]
    if field.required:
        words.append("required")
    if field.read_only:
        words.append("read-only")
    if field.minimum is not None or field.maximum is not None:
        low = "" if field.minimum is None else show_number(field.minimum)
        high = "" if field.maximum is None else show_number(field.maximum)
        words.append(f"{low}…{high}")
    about = f": {field.description.rstrip('.')}" if field.description else ""
    return f"{field.name} ({', '.join(words)}{about})"
