"""Every schema by one name each: show, read, check, steps.

Owns: the dispatch, and composite blocks. Must not know: the rules of a single schema.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar, assert_never

from pattern_acp.memory.schemas.item_forms import (
    check_list,
    check_map,
    check_tree,
    list_steps,
    log_steps,
    map_steps,
    new_map,
    read_list,
    read_log,
    read_map,
    read_tree,
    show_list,
    show_log,
    show_map,
    show_tree,
    shown_part,
    tree_steps,
)
from pattern_acp.memory.schemas.steps import Roots, SetLines, Step
from pattern_acp.memory.schemas.types import (
    BlockSchema,
    CompositeSchema,
    CompositeState,
    ContentError,
    FieldKind,
    FieldSpec,
    ListSchema,
    ListState,
    LogSchema,
    LogState,
    MapSchema,
    MapState,
    PlainSchema,
    PlainState,
    SectionSpec,
    State,
    TextSchema,
    TextState,
    TreeSchema,
    TreeState,
    show_number,
)

_HEADING = "## "

T = TypeVar("T")


def show(schema: BlockSchema, state: State) -> str:
    """Write a content as text. `read` gives the same content back."""
    if isinstance(schema, CompositeSchema):
        parts = [_section(name, show(_plain(schema, name), part)) for name, part in _sections(state).items()]
        return "\n\n".join(parts)
    return _show_plain(schema, state)


def read(schema: BlockSchema, text: str) -> State:
    """The content of a text.

    Raises:
        ContentError: the text is not one of this schema; says where and why.
    """
    if isinstance(schema, CompositeSchema):
        bodies = _bodies(schema, text)
        return _composite(schema, bodies, read_plain)
    return read_plain(schema, text)


def read_plain(schema: PlainSchema, text: str) -> PlainState:
    """`read` for a schema that can be a section."""
    match schema:
        case TextSchema():
            return TextState(text)
        case MapSchema():
            return read_map(schema, text)
        case ListSchema():
            return read_list(schema, text)
        case LogSchema():
            return read_log(schema, text)
        case TreeSchema():
            return read_tree(text)
        case _:
            assert_never(schema)


def first_content(schema: BlockSchema, text: str) -> State:
    """The content of a new block: what `text` sets, and the defaults of the rest.

    Raises:
        ContentError: the text or a default is wrong, or a required field is missing.
    """
    if isinstance(schema, CompositeSchema):
        bodies = _bodies(schema, text)
        state: State = _composite(schema, bodies, _first)
    else:
        state = _first(schema, text)
    check(schema, state)
    return state


def empty(schema: BlockSchema) -> State:
    """The content of a document without any change."""
    return read(schema, "")


def check(schema: BlockSchema, state: State) -> None:
    """Refuse a content that the schema does not take.

    Raises:
        ContentError: names the field, or the section and the field.
    """
    if isinstance(schema, CompositeSchema):
        names = {section.name for section in schema.sections}
        for name, part in _sections(state).items():
            in_section(name, lambda name=name, part=part: check(_plain(schema, name), part))
            if isinstance(part, TextState):
                _check_headings(name, part.text, names)
        return
    match schema, state:
        case MapSchema(), MapState():
            check_map(schema, state)
        case ListSchema(), ListState():
            check_list(schema, state)
        case TreeSchema(), TreeState():
            check_tree(schema, state)
        case _:
            pass


def steps_between(schema: BlockSchema, before: State, after: State, roots: Roots | None = None) -> list[Step]:
    """The steps that lead from one content to another; what stays is not touched, so that others' edits merge."""
    roots = roots or Roots()
    match schema, before, after:
        case CompositeSchema(), CompositeState(), CompositeState():
            steps: list[Step] = []
            for section in schema.sections:
                old, new = before.sections[section.name], after.sections[section.name]
                steps += steps_between(section.schema, old, new, Roots(section.name))
            return steps
        case TextSchema(), TextState(), TextState():
            return [] if before.text == after.text else [SetLines(roots.text, after.text)]
        case MapSchema(), MapState(), MapState():
            return map_steps(schema, roots, before, after)
        case ListSchema(), ListState(), ListState():
            return list_steps(roots.items, before.items, after.items)
        case LogSchema(), LogState(), LogState():
            return log_steps(roots.entries, before, after)
        case _:
            pass
    if isinstance(before, TreeState) and isinstance(after, TreeState):
        return tree_steps(roots.tree, before, after)
    raise TypeError(f"{type(before).__name__} is no content of {type(schema).__name__}.")


def in_section(name: str, run: Callable[[], T]) -> T:
    """Run a check of a section; its error names the section too.

    Raises:
        ContentError: what the check raised, with the section's name in front.
    """
    try:
        return run()
    except ContentError as error:
        if error.field:
            raise ContentError(f"{name}.{error.field}", error.problem) from error
        raise ContentError("", f"in the section `{name}`: {error}") from error


def _composite(
    schema: CompositeSchema, bodies: Mapping[str, str], content: Callable[[PlainSchema, str], PlainState]
) -> CompositeState:
    def part(section: SectionSpec) -> PlainState:
        return in_section(section.name, lambda: content(section.schema, bodies.get(section.name, "")))

    return CompositeState({section.name: part(section) for section in schema.sections})


def _first(schema: PlainSchema, text: str) -> PlainState:
    return new_map(schema, text) if isinstance(schema, MapSchema) else read_plain(schema, text)


def _show_plain(schema: PlainSchema, state: State) -> str:
    match schema, state:
        case TextSchema(), TextState():
            return state.text
        case MapSchema(), MapState():
            return show_map(schema, state)
        case ListSchema(), ListState():
            return show_list(schema, state)
        case LogSchema(), LogState():
            return show_log(schema, shown_part(schema, state))
        case TreeSchema(), TreeState():
            return show_tree(state)
        case _:
            raise TypeError(f"{type(state).__name__} is no content of {type(schema).__name__}.")


def _sections(state: State) -> Mapping[str, PlainState]:
    if not isinstance(state, CompositeState):
        raise TypeError(f"{type(state).__name__} is no content of a composite block.")
    return state.sections


def _plain(schema: CompositeSchema, name: str) -> PlainSchema:
    return next(section.schema for section in schema.sections if section.name == name)


def _section(name: str, body: str) -> str:
    return f"{_HEADING}{name}\n{body}" if body else f"{_HEADING}{name}"


def section_texts(schema: CompositeSchema, text: str) -> tuple[tuple[SectionSpec, str, str], ...]:
    """The sections of a text with their headings and bodies, in the schema's order; one that it lacks has no body.

    Raises:
        ContentError: the text is not one of this schema.
    """
    bodies = _bodies(schema, text)
    return tuple((one, f"{_HEADING}{one.name}", bodies.get(one.name, "")) for one in schema.sections)


def _bodies(schema: CompositeSchema, text: str) -> dict[str, str]:
    """The text below each heading, without blank lines around it."""
    known = {f"{_HEADING}{section.name}": section.name for section in schema.sections}
    bodies: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.split("\n"):
        name = known.get(line.rstrip())
        if name is not None:
            if name in bodies:
                raise ContentError(name, "is there twice as a heading")
            current = bodies[name] = []
        elif current is not None:
            current.append(line)
        elif line.strip():
            headings = ", ".join(f"`{heading}`" for heading in known)
            raise ContentError("", f"text stands before the first section; the headings are {headings}")
    return {name: "\n".join(lines).strip("\n") for name, lines in bodies.items()}


def _check_headings(name: str, text: str, names: set[str]) -> None:
    for line in text.split("\n"):
        if line.startswith(_HEADING) and line[len(_HEADING) :].strip() in names:
            raise ContentError(name, f"must not hold the line “{line.strip()}”, which begins another section")


def describe(schema: BlockSchema) -> str:
    """Describe the content of a block of this schema in one line; empty for free text."""
    match schema:
        case TextSchema():
            return ""
        case MapSchema(fields=fields):
            return f"Fields: {_fields(fields)}."
        case ListSchema(fields=fields, max_items=most):
            limit = f" of at most {most} items" if most is not None else ""
            return f"A list{limit}{_records(fields)}."
        case LogSchema(fields=fields, shown=shown):
            return (
                f"A log, its times in UTC; entries are only appended, and the last {shown} are shown{_records(fields)}."
            )
        case TreeSchema():
            return "An outline."
        case CompositeSchema(sections=sections):
            return "Sections: " + "; ".join(_describe_section(section) for section in sections) + "."
        case _:
            assert_never(schema)


def _describe_section(section: SectionSpec) -> str:
    inner = describe(section.schema).rstrip(".")
    parts = [part for part in (section.description.rstrip("."), inner[:1].lower() + inner[1:]) if part]
    mark = " [read-only]" if section.read_only else ""
    return f"{section.name}{mark}{': ' if parts else ''}{', '.join(parts)}"


def _records(fields: tuple[FieldSpec, ...]) -> str:
    return f", each with {_fields(fields)}" if fields else ""


def _fields(fields: tuple[FieldSpec, ...]) -> str:
    return ", ".join(_field(field) for field in fields)


def _field(field: FieldSpec) -> str:
    words = ["timestamp in UTC" if field.kind is FieldKind.TIMESTAMP else field.kind.value]
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
