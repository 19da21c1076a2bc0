"""Near-valid arguments of tool calls -> the objects that were plainly meant.

Owns: which slips of models and servers are repaired: a code fence or marks of a chat template around the object, the
object written twice, JSON written as text inside a string, trailing commas, line breaks inside strings, Python's quotes
and words, numbers and lists as text, another case of a name, marks and namespaces at a name, the names that other
agents have for the same tool or argument, the fields of a list's only item beside it. Nothing is added and no value is
guessed: what is cut off or ambiguous stays an error. Must not know: tools, wires, events.

Every repair is a phrase for the journal that names fields and never values.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.late_pattern import late_pattern

_MOST_UNWRAPPED = 2
"""Times that an object may be written as text inside a string; more has not been seen, and each doubles the marks."""

MOST_LEVELS = 8
"""Levels to which values are compared with a schema; deeper ones are left as they are."""

_MOST_OF_FIELD = 400
"""Longest field, as JSON, that stays of a call that was cut: a path or a command, not the text of a file."""

_FENCE = late_pattern(r"\s*```[A-Za-z]*\s*(.*?)\s*```\s*", re.DOTALL)
_STRING_OR_COMMA = late_pattern(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)
_PYTHON = late_pattern(
    r""""(?:[^"\\]|\\.)*"|(?<=[{\[,:\s])'(?:[^'\\]|\\.)*'(?=\s*[}\],:])|\b(?:None|True|False)\b""", re.DOTALL
)
"""A string as JSON or Python has it, or a word of Python's."""
_IN_QUOTES = late_pattern(r"""\\.|\"""", re.DOTALL)
_WORDS = {"None": "null", "True": "true", "False": "false"}
_MARKS = r"\s|```[A-Za-z]*|</?tool_call>|</?function(?:_call)?>|</?parameters?>|<\|[A-Za-z_]{1,40}\|>"
_BEFORE = late_pattern(rf"(?:{_MARKS})*")
_BEHIND = late_pattern(rf"(?:[}}\]]|{_MARKS})*")
"""Marks that servers leave of a model's template, and brackets that close nothing."""
_MOST_TIMES = 3

_NAMESPACE = late_pattern(
    r"(?:functions?|default_api|repo_browser|tools?|container|commentary)[.:](?=.)", re.IGNORECASE
)
"""Namespaces that models of OpenAI, of Google, and such as were trained on either put before the name of a tool."""
_NAME_MARKS = late_pattern(r"<\|.*|(?<=.)(?::\d+|\(\))$", re.DOTALL)
"""Marks behind a name: those of the harmony format (`<|channel|>commentary`), and Kimi's number of the call."""


_TOOLS_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "run_command": (
        "bash", "shell", "sh", "terminal", "exec", "execcommand", "executecommand", "runterminalcmd",
        "runterminalcommand", "runshellcommand", "runinterminal", "localshell",
    ),
    "read_file": ("read", "view", "cat", "openfile", "viewfile"),
    "write_file": ("write", "createfile", "writetofile", "savefile"),
    "edit_file": (
        "edit", "multiedit", "strreplace", "searchreplace", "replaceinfile", "replace", "strreplaceeditor",
        "strreplacebasededittool", "texteditor",
    ),
    "search_text": ("grep", "rg", "ripgrep", "search", "grepsearch", "searchfiles", "searchcode", "searchfilecontent"),
    "find_files": ("glob", "filesearch", "find", "globfilesearch"),
    "list_directory": ("ls", "listdir", "listfiles"),
    "update_plan": ("todowrite", "updatetodolist", "writetodos", "managetodolist"),
    "fetch_url": ("webfetch", "fetch", "readurl", "fetchwebpage"),
    "web_search": ("websearch", "googlewebsearch", "searchweb"),
    "ask_user": ("askuserquestion", "askfollowupquestion", "question", "requestuserinput"),
    "delegate": ("task", "agent", "spawnagent", "subagent", "runsubagent"),
    "memory_write": ("savememory", "remember"),
}  # fmt: skip
"""Our tools, and the names of tools that do the same in agents for which models were trained, without separators."""

_ARGUMENTS_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "path": ("filepath", "filename", "file", "absolutepath", "relativepath", "targetfile"),
    "old_text": ("oldstring", "oldstr"),
    "new_text": ("newstring", "newstr"),
    "content": ("contents", "filetext", "filecontent"),
    "text": ("content", "newtext", "newstring", "newstr", "memory", "fact", "note"),
    "start_line": ("offset",),
    "line_count": ("limit",),
    "command": ("cmd",),
    "cwd": ("workdir", "workingdirectory"),
    "background": ("runinbackground", "isbackground"),
    "pattern": ("query", "regex"),
    "glob": ("include", "includepattern", "filepattern"),
    "entries": ("todos", "plan"),
}
"""Our arguments, and the same for them."""


class Repaired(Struct, frozen=True):
    """An object, and what had to be repaired for it, as phrases; nothing for an object that was valid."""

    value: JsonObject
    repairs: tuple[str, ...] = ()


def read_object(text: str) -> Repaired:
    """The object that `text` is or plainly means; no text at all is the empty object.

    Raises:
        ValueError: it is no JSON, or no object.
        RecursionError: it is nested too deep.
    """
    repairs: list[str] = []
    value = _parse(text if text.strip() else "{}", repairs)
    for _ in range(_MOST_UNWRAPPED):
        if isinstance(value, str):
            repairs.append("took the object out of a string")
            value = _parse(value, repairs)
    if isinstance(value, dict):
        return Repaired(value, tuple(dict.fromkeys(repairs)))
    raise ValueError("no JSON object")


def whole_fields(text: str) -> str:
    """The short fields that are whole in arguments that were cut, as the text of an object: what the call was about."""
    fields: dict[str, Json] = {}
    text = text.lstrip()
    decoder, place = json.JSONDecoder(), int(text.startswith("{"))
    try:
        while place:
            key, after = _next_value(decoder, text, place)
            colon = text.index(":", after)
            value, end = _next_value(decoder, text, colon + 1)
            rest = text[end:].lstrip()[:1]
            # A number that nothing follows may have had more digits.
            if isinstance(key, str) and rest and end - colon <= _MOST_OF_FIELD:
                fields[key] = value
            place = text.index(",", end) + 1 if rest == "," else 0
    except (ValueError, RecursionError):
        pass
    return json.dumps(fields, ensure_ascii=False)


def _next_value(decoder: json.JSONDecoder, text: str, place: int) -> tuple[Json, int]:
    return decoder.raw_decode(text, len(text) - len(text[place:].lstrip()))


def fit_to_schema(value: JsonObject, schema: JsonObject) -> Repaired:
    """`value` with names and types as a JSON Schema has them, where there is one way only to read what was written."""
    repairs: list[str] = []
    fitted = _fit_object(value, schema, "", repairs, MOST_LEVELS)
    return Repaired(fitted, tuple(repairs))


def meant_name(name: str, known: Iterable[str]) -> str:
    """The one of `known` that `name` is in another case or with other separators; empty for none or several."""
    names = tuple(known)
    for written in (name, _NAMESPACE.sub("", _NAME_MARKS.sub("", name.strip()), count=1)):
        plain = _plain(written)
        found = [other for other in names if _plain(other) == plain] if plain else []
        if found:
            return found[0] if len(found) == 1 else ""
    return ""


def tool_elsewhere(name: str, known: Iterable[str]) -> str:
    """The one of `known` that does what other agents have a tool of this name for; empty for none."""
    bare = _plain(_NAMESPACE.sub("", _NAME_MARKS.sub("", name.strip()), count=1))
    return next((own for own in known if bare in _TOOLS_ELSEWHERE.get(own, ())), "")


def _parse(text: str, repairs: list[str]) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        fenced = _FENCE.fullmatch(text)
        inner = fenced[1] if fenced else text
        bare = _STRING_OR_COMMA.sub(lambda found: "" if found[0] == "," else found[0], inner)
        value, found = _loaded(bare)
    repairs += found
    if found:
        return value
    if fenced:
        repairs.append("removed a code fence")
    if bare != inner:
        repairs.append("removed a trailing comma")
    if not _is_strict(bare):
        repairs.append("read a line break inside a string")
    return value


def _loaded(text: str) -> tuple[Json, list[str]]:
    """The value of a text that may have line breaks in its strings; and what else had to be repaired."""
    plain = _PYTHON.sub(_as_json, text)
    python = [] if plain == text else ["read quotes and words of Python"]
    for written, repairs in ((text, []), *([(plain, python)] if python else [])):
        try:
            return json.loads(written, strict=False), repairs
        except ValueError:
            pass
        try:
            value, repair = _only_object(written)
        except ValueError:
            continue
        return value, [*repairs, repair]
    raise ValueError("no JSON object")


def _only_object(text: str) -> tuple[Json, str]:
    """The one object in a text with marks around it, or that is there more than once or behind an empty one.

    Raises:
        ValueError: there is none, there are several, or something else is there.
    """
    decoder = json.JSONDecoder(strict=False)
    before = _BEFORE.match(text)
    place = before.end() if before else 0
    objects: list[Json] = []
    while text[place : place + 1] == "{" and len(objects) < _MOST_TIMES:
        value, place = decoder.raw_decode(text, place)
        objects.append(value)
        behind = _BEHIND.match(text, place)
        place = behind.end() if behind else place
    meant = [value for value in objects if value] or objects
    if not meant or place < len(text) or len({json.dumps(value, sort_keys=True) for value in meant}) > 1:
        raise ValueError("no single JSON object")
    if len(objects) > 1:
        return meant[0], "took one of two objects that were the same or of which one was empty"
    return meant[0], "removed what was around the object"


def _as_json(found: re.Match[str]) -> str:
    written = found[0]
    if written in _WORDS:
        return _WORDS[written]
    if written.startswith('"'):
        return written
    inside = _IN_QUOTES.sub(lambda part: {"\\'": "'", '"': '\\"'}.get(part[0], part[0]), written[1:-1])
    return f'"{inside}"'


def _is_strict(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _fit_object(value: JsonObject, schema: JsonObject, path: str, repairs: list[str], levels: int) -> JsonObject:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not levels:
        return value
    value = _gathered(value, properties, path, repairs)
    fitted: dict[str, Json] = {}
    for key, item in value.items():
        name = key if key in properties else _free_name(key, value, properties)
        place = f"{path}.{name}" if path else name
        if name != key:
            repairs.append(f"read a misspelt name as {place}")
        fitted[name] = _fit(item, properties.get(name), place, repairs, levels - 1)
    return fitted


def _free_name(key: str, value: JsonObject, properties: JsonObject) -> str:
    """The property that a key means when the value does not give that property too, in any spelling."""
    name = meant_name(key, properties) or _argument_elsewhere(key, properties)
    meanings = (_plain(name), *_ARGUMENTS_ELSEWHERE.get(name, ()))
    others = [other for other in value if other != key and _plain(other) in meanings]
    # A property of its own, as `offset` may be one, means itself.
    return key if not name or [other for other in others if other == name or other not in properties] else name


def _argument_elsewhere(key: str, properties: JsonObject) -> str:
    bare = _plain(key)
    return next((own for own in properties if bare in _ARGUMENTS_ELSEWHERE.get(own, ())), "")


def _gathered(value: JsonObject, properties: JsonObject, path: str, repairs: list[str]) -> JsonObject:
    """The value with the fields of a missing list's only item put into that list; most values are as they came."""
    for name, listed in properties.items():
        items = listed.get("items") if isinstance(listed, Mapping) and name not in value else None
        fields = items.get("properties") if isinstance(items, Mapping) else None
        required = items.get("required") if isinstance(items, Mapping) else None
        if not isinstance(fields, Mapping) or not isinstance(required, Sequence) or not required:
            continue
        beside = {key: item for key, item in value.items() if _free_name(key, value, properties) not in properties}
        if set(required) <= {_free_name(key, beside, fields) for key in beside}:
            repairs.append(f"put the fields of one item into {f'{path}.{name}' if path else name}")
            return {**{key: item for key, item in value.items() if key not in beside}, name: [beside]}
    return value


def _fit(item: Json, schema: Json, place: str, repairs: list[str], levels: int) -> Json:
    if not isinstance(schema, Mapping):
        return item
    item = _from_text(item, schema, place, repairs)
    if isinstance(item, Mapping):
        return _fit_object(item, schema, place, repairs, levels)
    if isinstance(item, Sequence) and not isinstance(item, str) and levels:
        return [
            _fit(each, schema.get("items"), f"{place}[{index}]", repairs, levels - 1) for index, each in enumerate(item)
        ]
    return item


def _from_text(item: Json, schema: JsonObject, place: str, repairs: list[str]) -> Json:
    """A value that was written as text, where the schema wants one type and text is not it."""
    kind = schema.get("type")
    if not isinstance(item, str) or not isinstance(kind, str) or kind not in _KINDS:
        return item
    try:
        value: Json = json.loads(item.lower() if kind == "boolean" else item)
    except (ValueError, RecursionError):
        return item
    if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return item
    repairs.append(f"took {place} out of a string")
    return value


_KINDS: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
