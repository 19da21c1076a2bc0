"""Memory as files: one file a block, Markdown, or TOML where its schema has typed fields.

Owns: the form of a file, the values that each field takes, the way back to the text that a block reads as, the name of
a file, and the rows that say which write each file was made from. Must not know: where the folder is, when files are
written and read, or how a change is applied. A file is a projection (rule R3): it can be deleted, and is made again.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TypeVar, cast

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.errors import BlockError
from pattern_acp.memory.errors import ContentRefusedError
from pattern_acp.memory.schemas.forms import check, in_section, read, read_plain, show
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
    MapSchema,
    MapState,
    PlainSchema,
    PlainState,
    Record,
    Scalar,
    SectionSpec,
    State,
    read_text,
    read_value,
    show_number,
)

T = TypeVar("T")

_TABLE = re.compile(r"\s*\[\[?\s*([A-Za-z0-9_-]+)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=")
_FIRST_KEY = re.compile(r"\[|[A-Za-z0-9_-]+\s*=")


def looks_like_toml(text: str) -> bool:
    """Tell whether a typed content is written as TOML, and not in the form that blocks read in."""
    lines = [line for line in text.split("\n") if line.strip()]
    content = next((line for line in lines if not line.startswith("#") or line.startswith("## ")), None)
    return bool(lines) if content is None else _FIRST_KEY.match(content.strip()) is not None


def read_toml(schema: BlockSchema, text: str, before: State) -> State:
    """The content of a TOML text; a field or section that is read-only for the agent and left out stays as `before`.

    Raises:
        ContentError: it is no TOML, or a value is not one of its field; says where, with the line, and why.
    """
    # Late: most processes never read an edited block.
    import tomllib

    try:
        table = cast("dict[str, object]", tomllib.loads(text.replace("\r\n", "\n")))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ContentError("", f"it is no TOML ({error})") from error
    state = _Reader(text).content(schema, table, before)
    check(schema, state)
    return state


class _Reader:
    """Reads the tables of one text, whose lines its errors name."""

    def __init__(self, text: str) -> None:
        self._text = text

    def content(self, schema: BlockSchema, table: Mapping[str, object], before: State) -> State:
        match schema, before:
            case CompositeSchema(), CompositeState():
                self._refuse_unknown(table, "", [section.name for section in schema.sections], "section")
                return CompositeState(
                    {one.name: self._section(one, table, before.sections[one.name]) for one in schema.sections}
                )
            case MapSchema(), MapState():
                return self._map(schema, table, before, "")
            case ListSchema(), ListState():
                self._refuse_unknown(table, "", [ITEMS], "table")
                return self._list(schema, table.get(ITEMS, []), ITEMS)
            case _:
                raise TypeError(f"{type(schema).__name__} has no typed fields.")

    def _section(self, section: SectionSpec, table: Mapping[str, object], before: PlainState) -> PlainState:
        name, schema = section.name, section.schema
        if name not in table:
            return before if section.read_only else self._plain(name, schema, "", before)
        value = table[name]
        if isinstance(schema, MapSchema) and isinstance(before, MapState):
            if not isinstance(value, dict):
                raise self._wrong(name, f"must be a table, begun with `[{name}]`", "", name)
            return self._map(schema, cast("dict[str, object]", value), before, name)
        if isinstance(schema, ListSchema):
            return self._list(schema, value, name)
        if not isinstance(value, str):
            raise self._wrong(name, "must be a text in quotes", "", name)
        return self._plain(name, schema, value, before)

    def _plain(self, name: str, schema: PlainSchema, text: str, before: PlainState) -> PlainState:
        if not text and isinstance(schema, MapSchema) and isinstance(before, MapState):
            return self._map(schema, {}, before, name)
        return self._at("", name, lambda: in_section(name, lambda: read_plain(schema, text.strip("\n"))))

    def _map(self, schema: MapSchema, table: Mapping[str, object], before: MapState, section: str) -> MapState:
        self._refuse_unknown(table, section, [field.name for field in schema.fields], "field")
        values: dict[str, FieldValue] = {}
        for field in schema.fields:
            if field.name in table:
                value = self._field(field, table[field.name], section)
            else:
                value = before.values.get(field.name) if field.read_only else None
            if value is None and field.kind is FieldKind.COUNTER:
                value = 0
            if value is not None:
                values[field.name] = value
        return MapState(values)

    def _list(self, schema: ListSchema, value: object, name: str) -> ListState:
        if not isinstance(value, list):
            wanted = f"`[[{name}]]` before each item" if schema.fields else "a list in brackets"
            raise self._wrong(name, f"must be {wanted}", "", name)
        items = cast("list[object]", value)
        if not schema.fields:
            return ListState(tuple(self._texts(name, items, "")))
        return ListState(tuple(self._record(schema.fields, item, name, at) for at, item in enumerate(items)))

    def _record(self, fields: Sequence[FieldSpec], item: object, section: str, at: int) -> Item:
        if not isinstance(item, dict):
            raise self._wrong(section, f"must have `[[{section}]]` before each item", "", section)
        table = cast("dict[str, object]", item)
        self._refuse_unknown(table, section, [field.name for field in fields], "field", at)
        record: list[tuple[str, Scalar]] = []
        for field in fields:
            value = self._field(field, table[field.name], section, at) if field.name in table else None
            if field.required and value is None:
                raise self._wrong(field.name, f"is missing; give it as `{field.name} = …`", section, "", at)
            if value is not None and not isinstance(value, tuple):
                record.append((field.name, value))
        return Record(tuple(record))

    def _field(self, field: FieldSpec, value: object, section: str, at: int = 0) -> FieldValue | None:
        if field.kind is FieldKind.LIST:
            if not isinstance(value, list):
                raise self._wrong(field.name, "must be a list in brackets", section, field.name, at)
            return tuple(self._texts(field.name, cast("list[object]", value), section)) or None
        return self._at(section, field.name, lambda: _scalar(field, value), at)

    def _texts(self, name: str, items: Sequence[object], section: str) -> list[str]:
        if not all(isinstance(item, str) for item in items):
            raise self._wrong(name, "must hold texts in quotes only", section, name)
        return self._at(section, name, lambda: [read_text(name, str(item)) for item in items])

    def _refuse_unknown(
        self, table: Mapping[str, object], section: str, known: Sequence[str], what: str, at: int = 0
    ) -> None:
        for name in table:
            if name not in known:
                names = ", ".join(known)
                line = self._line(section, name, at)
                raise ContentError("", f"there is no {what} `{name}`{line}; those there are: {names}")

    def _at(self, section: str, key: str, run: Callable[[], T], at: int = 0) -> T:
        try:
            return run()
        except ContentError as error:
            if error.field:
                raise self._wrong(error.field, error.problem, section, key, at) from error
            raise ContentError("", f"{error.problem}{self._line(section, key, at)}") from error

    def _wrong(self, name: str, problem: str, section: str, key: str, at: int = 0) -> ContentError:
        line = self._line(section, key, at)
        return ContentError(f"{section}.{name}" if section not in {"", ITEMS} else name, f"{problem}{line}")

    def _line(self, section: str, key: str, at: int) -> str:
        """The line of a key of a table, or of the table where `key` is empty, as ` (line 3)`; `at` counts tables."""
        current, seen, inside = "", -1, False
        for number, line in enumerate(self._text.split("\n"), 1):
            if not inside:
                header = _TABLE.fullmatch(line)
                if header is not None:
                    current = header[1]
                    seen += current == section
                pair = _KEY.match(line)
                is_place = current == section and (not section or seen == at)
                found = (pair is not None and pair[1] == key) if key else header is not None
                if (is_place and found) or (not section and header is not None and header[1] == key):
                    return f" (line {number})"
            # Lines of a long text look like anything.
            inside ^= line.count('"""') % 2 == 1
        return ""


def _scalar(field: FieldSpec, value: object) -> Scalar | None:
    match field.kind:
        case FieldKind.NUMBER | FieldKind.COUNTER:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ContentError(field.name, "must be a number, without quotes")
            return read_value(field, repr(value))
        case FieldKind.BOOLEAN:
            if not isinstance(value, bool):
                raise ContentError(field.name, "must be true or false, without quotes")
            return value
        case FieldKind.TIMESTAMP:
            return _moment(field, value)
        case _:
            if not isinstance(value, str):
                raise ContentError(field.name, "must be a text in quotes")
            return read_text(field.name, value) if value.strip() else None


def _moment(field: FieldSpec, value: object) -> Scalar:
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return int(moment.timestamp())
    if isinstance(value, date | str):
        return read_value(field, str(value))
    raise ContentError(field.name, "must be a date or time such as 2026-11-27 or 2026-11-27T14:05:00Z")


ITEMS = "items"
"""The array of tables that holds the records of a list."""

_EMPTY = {
    FieldKind.TEXT: '""',
    FieldKind.NUMBER: "0",
    FieldKind.COUNTER: "0",
    FieldKind.BOOLEAN: "false",
    FieldKind.LIST: "[]",
    FieldKind.TIMESTAMP: "2026-11-27",
}
"""The value that shows an unset field, behind a comment sign."""


def has_typed_fields(schema: BlockSchema) -> bool:
    """Tell whether contents of this schema are written as TOML; others read well as Markdown."""
    if isinstance(schema, CompositeSchema):
        return any(has_typed_fields(section.schema) for section in schema.sections)
    return isinstance(schema, MapSchema) or (isinstance(schema, ListSchema) and bool(schema.fields))


def show_toml(schema: BlockSchema, state: State) -> str:
    """The content as TOML, each field below a comment that says what it is. `read_toml` gives the same content back.

    Only for schemas with typed fields.
    """
    match schema, state:
        case CompositeSchema(sections=sections), CompositeState(sections=contents):
            # Keys of the top come before tables, or they would belong to one.
            ordered = sorted(sections, key=lambda section: has_typed_fields(section.schema))
            return "\n\n".join(_section(section, contents[section.name]) for section in ordered) + "\n"
        case MapSchema(), MapState():
            return "\n".join(_fields(schema.fields, state.values)) + "\n"
        case ListSchema(), ListState():
            return "\n".join(_records(ITEMS, schema, state)) + "\n"
        case _:
            raise TypeError(f"{type(schema).__name__} has no typed fields.")


def _section(section: SectionSpec, part: PlainState) -> str:
    lines = _comment(section.description, _marks(read_only=section.read_only))
    match section.schema, part:
        case MapSchema() as schema, MapState():
            lines += [f"[{section.name}]", *_fields(schema.fields, part.values)]
        case ListSchema() as schema, ListState() if schema.fields:
            lines += _records(section.name, schema, part)
        case _:
            lines.append(f"{section.name} = {_plain(section.schema, part)}")
    return "\n".join(lines)


def _plain(schema: PlainSchema, part: PlainState) -> str:
    if isinstance(schema, ListSchema) and isinstance(part, ListState):
        return _array(item for item in part.items if isinstance(item, str))
    return _text(show(schema, part))


def _fields(fields: Sequence[FieldSpec], values: Mapping[str, FieldValue]) -> list[str]:
    lines: list[str] = []
    for field in fields:
        lines += _comment(field.description, _marks(required=field.required, read_only=field.read_only))
        value = values.get(field.name)
        lines.append(f"# {field.name} = {_EMPTY[field.kind]}" if value is None else _pair(field, value))
    return lines


def _records(name: str, schema: ListSchema, state: ListState) -> list[str]:
    lines: list[str] = ["# Each item begins with the line in double brackets. Its fields:"]
    for field in schema.fields:
        kind = f"{field.kind}, required" if field.required else field.kind
        lines.append(f"#   {field.name} ({kind}): {' '.join(field.description.split())}".rstrip(" :"))
    if not state.items:
        lines.append(f"# [[{name}]]")
    for item in state.items:
        values = dict(item.values) if isinstance(item, Record) else {}
        lines += ["", f"[[{name}]]"]
        lines += [_pair(field, values[field.name]) for field in schema.fields if field.name in values]
    return lines


def _pair(field: FieldSpec, value: FieldValue) -> str:
    return f"{field.name} = {_value(field.kind, value)}"


def _value(kind: FieldKind, value: FieldValue) -> str:
    if isinstance(value, tuple):
        return _array(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if kind is FieldKind.TIMESTAMP:
        return datetime.fromtimestamp(int(value), UTC).isoformat().replace("+00:00", "Z")
    return show_number(value)


def _array(items: Iterable[str]) -> str:
    lines = [f"  {_text(item)}," for item in items]
    return "\n".join(("[", *lines, "]")) if lines else "[]"


def _text(text: str) -> str:
    if "\n" not in text:
        return _quoted(text)
    # Each line is escaped as JSON escapes it, which TOML reads; two quotes in a row could end the text.
    lines = (_quoted(line)[1:-1].replace('\\"', '"').replace('""', '"\\"') for line in text.split("\n"))
    return '"""\n' + "\n".join(lines) + '\n"""'


def _quoted(text: str) -> str:
    # JSON leaves U+007F as it is, which TOML refuses.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _marks(*, required: bool = False, read_only: bool = False) -> str:
    named = [name for name, holds in (("required", required), ("read-only for the agent", read_only)) if holds]
    return f"({', '.join(named)})" if named else ""


def _comment(description: str, marks: str) -> list[str]:
    about = " ".join((*description.split(), *([marks] if marks else [])))
    return [f"# {about}"] if about else []


MARKDOWN, TOML = ".md", ".toml"
"""Suffixes of the files of each form."""


class EditableText(Struct, frozen=True):
    """A text of a block in the form that it is edited in, and how the name of its file ends."""

    text: str
    suffix: str


def editable_text(schema: BlockSchema, text: str) -> EditableText:
    """The text of a block as TOML where its schema has typed fields, otherwise as it reads.

    A text that the schema does not take, such as one of a damaged block, is returned as it reads too.
    """
    if not has_typed_fields(schema):
        return EditableText(text, MARKDOWN)
    try:
        return EditableText(show_toml(schema, read(schema, text)), TOML)
    except ContentError:
        return EditableText(text, MARKDOWN)


def text_of_edited(label: str, schema: BlockSchema, edited: str, before: str, suffix: str = "") -> str:
    """Text of the block `label` after an edit of its file; `before` is its text when it was opened.

    `suffix` is that of the file which was opened. Without one the text itself tells which of both forms it has.

    Raises:
        ContentRefusedError: it is TOML that cannot be read, or of other fields; says in which line, and why.
    """
    is_toml = suffix == TOML or (not suffix and has_typed_fields(schema) and looks_like_toml(edited))
    if not is_toml:
        return edited
    try:
        return show(schema, read_toml(schema, edited, read(schema, before)))
    except ContentError as error:
        raise ContentRefusedError(label, str(error), error.field) from error


_QUERIES = load_queries("pattern_acp.memory")

MOST_BYTES = 256 * 1024
"""Limit for a file that is read: the longest block in the widest characters is half of it."""

_HEAD = re.compile(r"---\n(?P<head>(?:[^\n]*\n)*?)---\n\n?(?P<text>.*)", re.DOTALL)
_KNOWN = frozenset({"label", "limit", "description"})
_UNSAFE = re.compile(r"[^\w.-]+")
_RESERVED = re.compile(r"(?i)(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")


class MemoryFileError(BlockError):
    """A file of memory cannot be used; it was left as it is."""

    failure_code = "memory.file-unusable"

    def __init__(self, file: str, problem: str) -> None:
        """`problem` completes "… was not taken in and was left as it is: …"."""
        super().__init__(f"The memory file {file} was not taken in and was left as it is: {problem}")


class MemoryFile(Struct, frozen=True):
    """A file as it was written: its name, from which write of which block, and the SHA-256 of its bytes."""

    block_id: str
    file: str
    version: int
    file_hash: str


def file_content(label: str, description: str, limit: int, editable: EditableText) -> str:
    """The file of a block. It says nothing that changes without the block, so that its diffs are those of memory.

    What is known of the block stands before its text: between lines of dashes, or in TOML as comments.
    """
    known = (f"label: {label}", f"limit: {limit}", f"description: {' '.join(description.split())}")
    text = editable.text
    body = text if text.endswith("\n") or not text else f"{text}\n"
    if editable.suffix == TOML:
        return "".join(f"# {line}\n" for line in known) + f"\n{body}"
    return "\n".join(("---", *known, "---", "", body))


def text_in_file(file: str, content: bytes, label: str, *, known: str) -> str:
    """The block's text in a file that a user edited; `known` is its text as the file was written.

    The line end that every file ends with is not the block's own, unless the block had one. A TOML file is written
    whole, since what is before its fields are comments.

    Raises:
        MemoryFileError: it is not of the form in which it was written.
    """
    if len(content) > MOST_BYTES:
        raise MemoryFileError(file, f"it is longer than {MOST_BYTES} bytes; shorten it.")
    try:
        decoded = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise MemoryFileError(file, "it is not UTF-8; save it as UTF-8.") from error
    if file.endswith(TOML):
        if not decoded.startswith(f"# label: {label}\n"):
            raise MemoryFileError(file, f"its head is not the one it was written with; begin it with # label: {label}.")
        return decoded
    found = _HEAD.fullmatch(decoded)
    if found is None or f"label: {label}\n" not in found["head"]:
        raise MemoryFileError(
            file, f"its head is not the one it was written with; let it begin with ---, label: {label} and ---."
        )
    text = found["text"]
    return text if known.endswith("\n") else text.rstrip("\n")


def told_by_file(content: str) -> tuple[dict[str, str], str]:
    """Values in the head of a file (`label`, `limit`, `description`), and the text behind it.

    A file without such a head is all text.
    """
    found = _HEAD.fullmatch(content.replace("\r\n", "\n"))
    if found is None:
        return {}, content
    pairs = (line.partition(": ") for line in found["head"].splitlines())
    return {name: value for name, _, value in pairs if name in _KNOWN}, found["text"]


def file_name(label: str, taken: frozenset[str], suffix: str = MARKDOWN) -> str:
    """The name of a block's file on every platform, other than those `taken`, which are in lower case."""
    plain = _UNSAFE.sub("-", label).strip(".-") or "block"
    plain = f"_{plain}" if _RESERVED.fullmatch(plain) else plain
    name, number = f"{plain}{suffix}", 2
    while name.lower() in taken:
        name, number = f"{plain}-{number}{suffix}", number + 1
    return name


def content_hash(content: bytes) -> str:
    """SHA-256 of a file's bytes."""
    return sha256_hex(content)


def files_in(tx: Transaction, folder: str) -> dict[str, MemoryFile]:
    """The files that were written into a folder, by the id of their block."""
    rows = tx.all(_QUERIES["memory_files"], {"folder": folder})
    found = (
        MemoryFile(columns.text(row[0]), columns.text(row[1]), columns.integer(row[2]), columns.text(row[3]))
        for row in rows
    )
    return {one.block_id: one for one in found}


def note_file(tx: Transaction, folder: str, written: MemoryFile) -> None:
    """A file was written."""
    tx.execute(
        _QUERIES["note_memory_file"],
        {
            "folder": folder,
            "block_id": written.block_id,
            "file": written.file,
            "version": written.version,
            "file_hash": written.file_hash,
        },
    )


def drop_file(tx: Transaction, folder: str, block_id: str) -> None:
    """A file is no longer stored."""
    tx.execute(_QUERIES["drop_memory_file"], {"folder": folder, "block_id": block_id})
