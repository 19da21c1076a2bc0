"""Fields, items and outlines as text, and lists of items.

Owns: how structured content reads, its checks and its steps; what is written here is read back as the same values. Must
not know: who may change it. The form is that of a Markdown list with `name: value` lines, which people and models write
unasked.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import Struct

from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.memory.schemas.steps import (
    AddNode,
    Count,
    InsertEntry,
    InsertItem,
    RemoveEntry,
    RemoveNode,
    RemoveStep,
    Roots,
    SetItem,
    SetValue,
    Step,
)
from pattern_acp.memory.schemas.types import (
    LONGEST_VALUE,
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
    Node,
    Record,
    Scalar,
    TreeSchema,
    TreeState,
    check_bounds,
    default_value,
    read_text,
    read_time,
    read_value,
    show_time,
    show_value,
)

_FIELD = late_pattern(r"([a-z][a-z0-9_-]*):(?:\s(.*))?")
_BULLET = "- "
_INDENT = "  "
_BLOCK = "|"


def show_fields(fields: Sequence[FieldSpec], values: Mapping[str, FieldValue]) -> str:
    """The fields that are set, one or more lines each, in the order of the schema."""
    lines: list[str] = []
    for field in fields:
        value = values.get(field.name)
        if value is None:
            continue
        if isinstance(value, tuple):
            lines += (f"{field.name}:", *(line for item in value for line in _bullet(item)))
            continue
        shown = show_value(value, field.kind)
        if "\n" in shown or shown == _BLOCK:
            lines += (f"{field.name}: {_BLOCK}", *_indented(shown.split("\n")))
        else:
            lines.append(f"{field.name}: {shown}")
    return "\n".join(lines)


def read_fields(fields: Sequence[FieldSpec], text: str) -> dict[str, FieldValue]:
    """The values that a text sets.

    Raises:
        ContentError: a line belongs to no field, a field is there twice, or a value is not one of its kind.
    """
    known = {field.name: field for field in fields}
    values: dict[str, FieldValue] = {}
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        field, inline = _heading(lines[at], known)
        end = _end_of_field(lines, at + 1, known)
        if field.name in values:
            raise ContentError(field.name, "is there twice")
        value = _value_of(field, inline, lines[at + 1 : end])
        if value not in ((), None):
            values[field.name] = value
        at = end
    return values


def read_items(text: str, fields: Sequence[FieldSpec]) -> tuple[Item, ...]:
    """The items of a list of bullets.

    Raises:
        ContentError: a line belongs to no bullet, or an item is not one of this list.
    """
    return tuple(read_item(item, fields) for item in read_bullets(text.split("\n")))


def show_item(item: Item, fields: Sequence[FieldSpec]) -> str:
    """An item without its bullet."""
    return item if isinstance(item, str) else show_fields(fields, dict(item.values))


def new_item(text: str, fields: Sequence[FieldSpec]) -> Item:
    """An item that is added: `read_item` with the defaults of what the text leaves out.

    Raises:
        ContentError: see `read_item`.
    """
    item = read_item(text, fields)
    if isinstance(item, str):
        return item
    given = dict(item.values)
    filled = ((field.name, given.get(field.name, default_value(field))) for field in fields)
    return Record(tuple((name, value) for name, value in filled if value is not None and not isinstance(value, tuple)))


def read_item(text: str, fields: Sequence[FieldSpec]) -> Item:
    """An item from its text: lines of fields, or a JSON object, or plain text for the first text field.

    Raises:
        ContentError: a field is missing or wrong.
    """
    if not fields:
        return read_text("", text)
    values = read_fields(fields, _as_field_lines(text.strip(), fields))
    for field in fields:
        if field.required and field.name not in values:
            raise ContentError(field.name, f"is missing; give it as `{field.name}: …`")
    record: list[tuple[str, Scalar]] = []
    for field in fields:
        value = values.get(field.name)
        if value is not None and not isinstance(value, tuple):
            record.append((field.name, value))
    return Record(tuple(record))


def read_bullets(lines: Sequence[str]) -> list[str]:
    """The texts of bullets, without their indentation.

    Raises:
        ContentError: a line stands before the first bullet or between two.
    """
    items: list[list[str]] = []
    for line in lines:
        if line.startswith(_BULLET) or line.rstrip() == _BULLET.strip():
            items.append([line[len(_BULLET) :]])
        elif items and (line.startswith(_INDENT) or not line.strip()):
            items[-1].append(line[len(_INDENT) :])
        elif line.strip():
            raise ContentError("", f"the line {_quoted(line)} is no item; every item begins with `- `")
    return ["\n".join(item).strip("\n") for item in items]


def _heading(line: str, known: Mapping[str, FieldSpec]) -> tuple[FieldSpec, str]:
    match = _FIELD.fullmatch(line)
    field = known.get(match[1]) if match else None
    if match is None or field is None:
        names = ", ".join(known)
        raise ContentError("", f"the line {_quoted(line)} names none of the fields, which are {names}")
    return field, (match[2] or "").strip()


def _end_of_field(lines: Sequence[str], start: int, known: Mapping[str, FieldSpec]) -> int:
    end = start
    while end < len(lines):
        line = lines[end]
        if line.strip() and not line.startswith((_INDENT, "-")):
            match = _FIELD.fullmatch(line)
            if match is not None and match[1] in known:
                break
            raise ContentError("", f"the line {_quoted(line)} names none of the fields, which are {', '.join(known)}")
        end += 1
    return end


def _value_of(field: FieldSpec, inline: str, below: Sequence[str]) -> FieldValue | None:
    body = [line for line in below if line.strip()]
    if field.kind is FieldKind.LIST:
        if inline and body:
            raise ContentError(field.name, "has text beside and below it; give one item a line, each behind `- `")
        if inline:
            return tuple(read_text(field.name, item) for item in inline.split(",") if item.strip())
        return tuple(read_text(field.name, item) for item in read_bullets(_dedented_bullets(below)))
    if inline == _BLOCK:
        inline = "\n".join(line[len(_INDENT) :] for line in below)
    elif body:
        raise ContentError(field.name, f"has more than one line; write `{field.name}: {_BLOCK}` and indent the lines")
    return read_value(field, inline) if inline.strip() else None


def _dedented_bullets(lines: Sequence[str]) -> Sequence[str]:
    # Models like to indent the bullets below a field.
    first = next((line for line in lines if line.strip()), "")
    if first.startswith(_INDENT + _BULLET):
        return [line.removeprefix(_INDENT) for line in lines]
    return lines


def _as_field_lines(text: str, fields: Sequence[FieldSpec]) -> str:
    names = {field.name for field in fields}
    match = _FIELD.fullmatch(text.partition("\n")[0])
    if match is not None and match[1] in names:
        return text
    parsed = _json_object(text)
    if parsed is not None:
        return "\n".join(_json_line(name, value) for name, value in parsed.items())
    target = next((field for field in fields if field.kind is FieldKind.TEXT), fields[0])
    return _json_line(target.name, text)


def _json_line(name: str, value: object) -> str:
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    if "\n" in shown or shown == _BLOCK:
        return "\n".join((f"{name}: {_BLOCK}", *_indented(shown.split("\n"))))
    return f"{name}: {shown}"


def _json_object(text: str) -> dict[str, object] | None:
    if not text.startswith("{"):
        return None
    try:
        value = cast("object", json.loads(text))
    except ValueError:
        return None
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def _bullet(text: str) -> list[str]:
    first, *rest = text.split("\n")
    return [_BULLET + first, *_indented(rest)]


def _indented(lines: Sequence[str]) -> list[str]:
    return [_INDENT + line if line else "" for line in lines]


def _quoted(line: str) -> str:
    shown = line.strip()
    return f"“{shown if len(shown) <= 60 else shown[:59] + '…'}”"


def show_list(schema: ListSchema, state: ListState) -> str:
    """One bullet an item."""
    return "\n".join(line for item in state.items for line in _bullet(show_item(item, schema.fields)))


def read_list(schema: ListSchema, text: str) -> ListState:
    """The list of a text.

    Raises:
        ContentError: see `read_items`.
    """
    return ListState(read_items(text, schema.fields))


def check_list(schema: ListSchema, state: ListState) -> None:
    """Refuse more items than the schema allows.

    Raises:
        ContentError: says how many there would be.
    """
    if schema.max_items is not None and len(state.items) > schema.max_items:
        raise ContentError(
            "", f"it may have {schema.max_items} items and would have {len(state.items)}; remove or join some first"
        )


def list_steps(root: str, before: Sequence[Item], after: Sequence[Item]) -> list[Step]:
    """The steps from one order of items to another; items that stay are not touched."""
    from difflib import SequenceMatcher

    steps: list[Step] = []
    matcher = SequenceMatcher(a=before, b=after, autojunk=False)
    # From the end, so that places before stay right.
    for tag, start, end, new_start, new_end in reversed(matcher.get_opcodes()):
        if tag == "equal":
            continue
        shared = min(end - start, new_end - new_start)
        steps += [RemoveStep(root, at) for at in range(end - 1, start + shared - 1, -1)]
        steps += [SetItem(root, start + step, after[new_start + step]) for step in range(shared)]
        steps += [
            InsertItem(root, start + step, after[new_start + step]) for step in range(shared, new_end - new_start)
        ]
    return steps


_OLDER = late_pattern(r"\((\d+) older entr(?:y is|ies are) not shown\)")
_HEAD = late_pattern(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) ([^\]\n]+)\] ?", re.DOTALL)


def show_log(schema: LogSchema, state: LogState) -> str:
    """The entries shown, oldest first, and how many older ones there are."""
    lines = [_older(state.older)] if state.older else []
    for entry in state.entries:
        first, *rest = f"[{show_time(entry.at)} {entry.by}] {show_item(entry.body, schema.fields)}".split("\n")
        lines += (f"- {first}", *(f"  {line}" if line else "" for line in rest))
    return "\n".join(lines)


def read_log(schema: LogSchema, text: str) -> LogState:
    """The log of a text, as far as it is shown.

    Raises:
        ContentError: a line is no entry, or an entry has no time and author.
    """
    lines = text.split("\n")
    older = _OLDER.fullmatch(lines[0].strip())
    entries = tuple(_entry(schema, item) for item in read_bullets(lines[1:] if older else lines))
    return LogState(entries, int(older[1]) if older else 0)


def log_steps(root: str, before: LogState, after: LogState) -> list[Step]:
    """The steps from one content to another, which undo needs; an ordinary write only ever adds at the end."""
    from difflib import SequenceMatcher

    steps: list[Step] = []
    matcher = SequenceMatcher(a=before.entries, b=after.entries, autojunk=False)
    total = len(before.entries)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        # Places are counted from the end, so those behind a change stay right: changes go from the front.
        steps += [RemoveEntry(root, total - 1 - at) for at in range(start, end)]
        steps += [InsertEntry(root, total - end, after.entries[at]) for at in range(new_start, new_end)]
    return steps


def shown_part(schema: LogSchema, state: LogState) -> LogState:
    """The log as it is shown once all entries are there: the newest ones."""
    hidden = max(0, len(state.entries) - schema.shown)
    return LogState(state.entries[hidden:], state.older + hidden)


def without_count(text: str) -> str:
    """The text of a log without the line that counts the older entries."""
    first, _, rest = text.partition("\n")
    return rest if _OLDER.fullmatch(first) else text


def _entry(schema: LogSchema, item: str) -> LogEntry:
    head = _HEAD.match(item)
    if head is None:
        raise ContentError("", "an entry of a log begins with `[time author]`, which is written when it is appended")
    return LogEntry(read_time("", head[1]), head[2], read_item(item[head.end() :], schema.fields))


def _older(count: int) -> str:
    return f"({count} older {'entry is' if count == 1 else 'entries are'} not shown)"


def show_map(schema: MapSchema, state: MapState) -> str:
    """The fields that are set."""
    return show_fields(schema.fields, state.values)


def read_map(schema: MapSchema, text: str) -> MapState:
    """The map of a text. A counter that the text leaves out counts from zero.

    Raises:
        ContentError: see `read_fields`.
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


class NodePosition(Struct, frozen=True):
    """The position of a node: its parent's id (empty at the top), its place among its siblings, its depth from 1."""

    node: Node
    parent: str
    at: int
    depth: int


def show_tree(state: TreeState) -> str:
    """One bullet a node, two more spaces a level."""
    return "\n".join(f"{'  ' * (place.depth - 1)}- {place.node.text}" for place in walk(state))


def read_tree(text: str) -> TreeState:
    """The tree of an outline; its nodes have no ids.

    Raises:
        ContentError: a line is no bullet, or is indented more than one level below the line before.
    """
    rows: list[tuple[int, str]] = []
    for line in text.split("\n"):
        if line.strip():
            rows.append(_row(line, deepest=rows[-1][0] + 1 if rows else 0))
    nodes, _ = _nodes(rows, 0, 0)
    return TreeState(nodes)


def check_tree(schema: TreeSchema, state: TreeState) -> None:
    """Refuse a tree that is too deep.

    Raises:
        ContentError: names the depth.
    """
    if any(place.depth > schema.max_depth for place in walk(state)):
        raise ContentError("", f"its outline may be {schema.max_depth} levels deep")


def node_text(text: str) -> str:
    """The text of one node. Raises ContentError where it is empty, too long, or more than a line."""
    cleaned = text.strip().removeprefix("- ").strip()
    if not cleaned or "\n" in cleaned:
        raise ContentError("", "an entry of an outline is one line of text")
    if len(cleaned) > LONGEST_VALUE:
        raise ContentError("", f"an entry must have at most {LONGEST_VALUE} characters")
    return cleaned


def walk(state: TreeState) -> list[NodePosition]:
    """All nodes, each before those below it."""
    places: list[NodePosition] = []
    _walk(state.nodes, "", 1, places)
    return places


def tree_steps(root: str, before: TreeState, after: TreeState) -> list[Step]:
    """The steps from one outline to another whose nodes have no ids; nodes that stay keep theirs."""
    return _sibling_steps(root, "", before.nodes, after.nodes)


def _walk(nodes: Sequence[Node], parent: str, depth: int, places: list[NodePosition]) -> None:
    for at, node in enumerate(nodes):
        places.append(NodePosition(node, parent, at, depth))
        _walk(node.children, node.id, depth + 1, places)


def _row(line: str, *, deepest: int) -> tuple[int, str]:
    indent = len(line) - len(line.lstrip(" "))
    level = indent // 2
    if not line.lstrip(" ").startswith("- ") or indent % 2 or level > deepest:
        shown = line.strip()[:60]
        raise ContentError("", f"the line “{shown}” is no entry; write `- text`, two spaces deeper for each level")
    return level, node_text(line)


def _nodes(rows: Sequence[tuple[int, str]], start: int, level: int) -> tuple[tuple[Node, ...], int]:
    nodes: list[Node] = []
    at = start
    while at < len(rows) and rows[at][0] == level:
        children, end = _nodes(rows, at + 1, level + 1)
        nodes.append(Node("", rows[at][1], children))
        at = end
    return tuple(nodes), at


def _sibling_steps(root: str, parent: str, before: Sequence[Node], after: Sequence[Node]) -> list[Step]:
    from difflib import SequenceMatcher

    steps: list[Step] = []
    matcher = SequenceMatcher(a=[node.text for node in before], b=[node.text for node in after], autojunk=False)
    for tag, start, end, new_start, new_end in reversed(matcher.get_opcodes()):
        if tag == "equal":
            for old, new in zip(before[start:end], after[new_start:new_end], strict=True):
                steps += _sibling_steps(root, old.id, old.children, new.children)
            continue
        steps += [RemoveNode(root, node.id) for node in before[start:end]]
        steps += [AddNode(root, parent, start + step, node) for step, node in enumerate(after[new_start:new_end])]
    return steps
