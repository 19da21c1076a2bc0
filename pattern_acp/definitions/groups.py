"""Groups of personas that a project names in `.pattern/groups.toml`.

Owns: the form of the file, and one sentence for each mistake in it. Must not know: which personas there are, who trusts
the project, or how a group runs (`session/groups.py`). A table is one group:

    [ship]
    kind = "pipeline"                    # pipeline, panel, watch
    description = "Plan, build and review a change."
    max = "1 USD, 400k tokens"           # of one run; a watch needs it, and spends it once while it is on
    steps = [                            # of a pipeline, one after the other
        { persona = "planner", task = "Write a plan." },
        { persona = "default", kind = "worker", paths = ["src"], checks = ["pytest -q"] },
        "reviewer",                      # the same as { persona = "reviewer" }
    ]

A panel has `members`, who answer side by side, and `decides`, who decides. A watch has `wakes`, and what it watches:
`files` (patterns), `blocks` (labels), `tasks = true`; `per_hour` bounds how often.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta, Struct

from pattern_acp.config.toml_file import describe_type, find_lines, is_table, parse_toml
from pattern_acp.definitions.files import DefinitionFiles, is_inside, read_text
from pattern_acp.definitions.identity import DefinitionSource
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.globs import compile_glob
from pattern_acp.domain.project_parts import PartKind, ProjectPart
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.domain.usage import ALLOWED, Allowance, parse_allowance

GROUPS_FILE = (".pattern", "groups.toml")
"""Place of the file below a project's folder."""

SOURCE_FILE = "group.json"
"""Name of a group's file inside its definition."""

FEWEST, MOST = 2, 8
"""Personas of a pipeline or a panel; so many subagents work at once."""

MOST_PER_HOUR = 60

MOST_PROBLEMS = 20
"""Mistakes that are named; the others are counted."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")

Kind: TypeAlias = Literal["pipeline", "panel", "watch"]

_Text: TypeAlias = Annotated[str, Meta(pattern=r"\S")]
_Name: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")]


class GroupMember(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A persona in a group. `kind` is that of the subagent that it works as."""

    persona: _Name
    name: str = ""
    """Its name in the group; empty for that of the persona."""
    task: str = ""
    kind: Literal["explorer", "worker", "reviewer"] = "explorer"
    paths: tuple[_Text, ...] = ()
    """The only places where a worker may write, below the project's folder."""
    checks: tuple[_Text, ...] = ()
    """Command lines that have to succeed on what a worker changed."""

    @property
    def shown_name(self) -> str:
        """The name by which the others and the user know it."""
        return self.name or self.persona

    @property
    def writes(self) -> bool:
        """True for one that may change something."""
        return self.kind == "worker"

    @property
    def line(self) -> str:
        """The member in words: all that it may do."""
        about = [self.kind] if self.name or self.kind != "explorer" else []
        about = [f"persona {self.persona}", *about] if self.name else about
        about += [f"writes in {', '.join(self.paths)}"] if self.paths else []
        about += [f"check: {line}" for line in self.checks]
        told = f" ({'; '.join(about)})" if about else ""
        return f"{self.shown_name}{told}{f': {self.task}' if self.task else ''}"


class GroupDefinition(Struct, frozen=True, omit_defaults=True):
    """A group as its file has it. `kind` says which of the other fields it has."""

    name: str
    kind: Kind
    members: tuple[GroupMember, ...]
    """The steps of a pipeline in their order, the members of a panel, or the one that a watch wakes."""
    decides: GroupMember | None = None
    """The persona that decides, of a panel."""
    description: str = ""
    max: str = ""
    """The most that a run may cost, as an allowance is written; empty for no limit of its own."""
    files: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    tasks: bool = False
    per_hour: int = 4

    @property
    def everybody(self) -> tuple[GroupMember, ...]:
        """All members, the one that decides last."""
        return (*self.members, *((self.decides,) if self.decides is not None else ()))

    @property
    def allowance(self) -> Allowance:
        """The most that a run may cost."""
        return parse_allowance(self.max) or Allowance()

    @property
    def summary(self) -> str:
        """Its members and their order, in a line."""
        names = [each.shown_name for each in self.members]
        if self.kind == "pipeline":
            return " → ".join(names)
        if self.decides is not None:
            return f"{', '.join(names)}; {self.decides.shown_name} decides"
        seen = [*self.files, *(f"block {label}" for label in self.blocks), *(("tasks",) if self.tasks else ())]
        return f"wakes {names[0]} for {', '.join(seen)}, at most {self.per_hour} times an hour"

    @property
    def source(self) -> DefinitionSource:
        """The definition of which its identity is."""
        # A line a value, which can be compared.
        content = msgspec.json.format(msgspec.json.encode(self, order="deterministic"), indent=2)
        return DefinitionSource(f"group/{self.name}", {SOURCE_FILE: content})

    @property
    def part(self) -> ProjectPart:
        """The part of the project that the user is asked about."""
        lines = [f"{self.kind}: {self.summary}", *([f"at most {self.max}"] if self.max else [])]
        text = "\n".join((*lines, *(each.line for each in self.everybody)))
        return ProjectPart(PartKind.GROUP, self.name, text, sha256_hex(self.source.files[SOURCE_FILE]))


class Groups(Struct, frozen=True):
    """The groups of a project, in the order of the file, and a sentence for each mistake."""

    usable: tuple[GroupDefinition, ...] = ()
    problems: tuple[str, ...] = ()

    def named(self, name: str) -> GroupDefinition | None:
        """The group of a name."""
        return next((each for each in self.usable if each.name == name), None)


def group_of(source: DefinitionSource) -> GroupDefinition | None:
    """The group of a stored source; None when that cannot be read any more."""
    try:
        return msgspec.json.decode(source.files.get(SOURCE_FILE, b""), type=GroupDefinition)
    except msgspec.DecodeError:
        return None


_COMMON = {
    "kind": "one of pipeline, panel, watch",
    "description": "text",
    "max": ALLOWED,
}
_PEOPLE = f"a list of {FEWEST} to {MOST} personas, each a name or a table with persona, name, task, kind, paths, checks"
_KEYS: Mapping[str, Mapping[str, str]] = {
    "pipeline": _COMMON | {"steps": _PEOPLE},
    "panel": _COMMON | {"members": _PEOPLE, "decides": "a persona, by its name or as a table"},
    "watch": _COMMON
    | {
        "wakes": "a persona, by its name or as a table",
        "files": "a list of patterns, such as src/**/*.py",
        "blocks": "a list of labels of memory blocks",
        "tasks": "true or false",
        "per_hour": f"a whole number from 1 to {MOST_PER_HOUR}",
    },
}
_NEEDED = {"pipeline": ("steps",), "panel": ("members", "decides"), "watch": ("wakes", "max")}

_FORMS: Mapping[str, object] = {
    "description": str,
    "steps": Annotated[list[object], Meta(min_length=FEWEST, max_length=MOST)],
    "members": Annotated[list[object], Meta(min_length=FEWEST, max_length=MOST)],
    "decides": object,
    "wakes": object,
    "files": list[_Text],
    "blocks": list[_Text],
    "tasks": bool,
    "per_hour": Annotated[int, Meta(ge=1, le=MOST_PER_HOUR)],
}

_MEMBER_KEYS: Mapping[str, tuple[object, str]] = {
    "persona": (_Name, "the name of a persona"),
    "name": (_Name, "a name of letters, digits, - and _"),
    "task": (str, "text"),
    "kind": (Literal["explorer", "worker", "reviewer"], "one of explorer, worker, reviewer"),
    "paths": (list[_Text], "a list of paths below the project's folder"),
    "checks": (list[_Text], "a list of command lines"),
}


class _MistakeError(Exception):
    """A key of a group, and what is wrong with it. Never leaves this module."""

    def __init__(self, key: str, sentence: str) -> None:
        super().__init__(sentence)
        self.key, self.sentence = key, sentence


def find_groups(root: Path) -> Groups:
    """The groups of the project in `root`. Never fails: what cannot be used is left out, with a sentence."""
    path, reading = root.joinpath(*GROUPS_FILE), DefinitionFiles()
    if not is_inside(path, root):
        return Groups(problems=(f"{path} is a link that leads out of {root}, so it is not used.",))
    text = read_text(path, reading)
    return groups_in(str(path), text) if text is not None else Groups(problems=tuple(reading.problems))


def groups_in(path: str, text: str) -> Groups:
    """The groups in the text of a file, which sentences name by its path."""
    file, broken = parse_toml(path, text.removeprefix("\ufeff"))
    if broken:
        return Groups(problems=tuple(str(problem) for problem in broken))
    found: list[GroupDefinition] = []
    problems: list[str] = []
    places = _Places(text)
    for name, table in file.table.items():
        try:
            found.append(_read(name, table))
        except _MistakeError as mistake:
            key = f"{name}.{mistake.key}".strip(".")
            line, column = places.of(key)
            shown = one_line(key, 120) or '""'
            problems.append(f"{path}:{line}:{column}: {shown}: {mistake.sentence}; the group is left out.")
    more = len(problems) - MOST_PROBLEMS
    problems[MOST_PROBLEMS:] = [f"{path}: {plural(more, 'more group')} left out."] if more > 0 else []
    return Groups(tuple(found), tuple(problems))


def _read(name: str, table: object) -> GroupDefinition:
    if not is_table(table):
        raise _MistakeError("", f"a group is a table [NAME], not {describe_type(table)}")
    if not _NAME.fullmatch(name) or name == "watch":
        raise _MistakeError("", "a group is named by letters, digits, - and _, and not watch")
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        sentence = f"it must be {_COMMON['kind']}" if "kind" in table else f"a group needs kind: {_COMMON['kind']}"
        raise _MistakeError("kind" if "kind" in table else "", sentence)
    kind = cast("Kind", kind)
    _check_keys(kind, table)
    people = table.get("steps") or table.get("members") or [table["wakes"]]
    place = next(key for key in ("steps", "members", "wakes") if key in table)
    members = tuple(_member(place, each) for each in cast("list[object]", people))
    decides = _member("decides", table["decides"]) if "decides" in table else None
    _check_people(place, members, decides)
    named = {key: table[key] for key in ("description", "max", "files", "blocks", "tasks", "per_hour") if key in table}
    named |= {"max": str(named["max"])} if "max" in named else {}
    group = msgspec.convert({**named, "name": name, "kind": kind, "members": ()}, GroupDefinition)
    return msgspec.structs.replace(group, members=members, decides=decides)


def _check_keys(kind: str, table: Mapping[str, object]) -> None:
    keys = _KEYS[kind]
    for key, value in table.items():
        if key not in keys:
            raise _MistakeError(key, f"a {kind} has no such key; it has {', '.join(keys)}")
        if key == "max":
            number = isinstance(value, int | float) and not isinstance(value, bool)
            sound = (isinstance(value, str) or number) and parse_allowance(str(value)) is not None
        else:
            sound = key == "kind" or _fits(value, _FORMS[key])
        if not sound:
            raise _MistakeError(key, f"it must be {keys[key]}")
    missing = next((key for key in _NEEDED[kind] if not table.get(key)), "")
    if missing:
        raise _MistakeError("", f"a {kind} needs {missing}: {keys[missing]}")
    if kind == "watch":
        _check_watch(table)


def _check_watch(table: Mapping[str, object]) -> None:
    if not (table.get("files") or table.get("blocks") or table.get("tasks")):
        raise _MistakeError("", "a watch needs something to watch: files, blocks or tasks = true")
    patterns = cast("list[str]", table.get("files", []))
    if patterns and all(pattern.startswith("!") for pattern in patterns):
        raise _MistakeError("files", "each of these patterns leaves files out; one has to be without !")
    allowed = parse_allowance(str(table["max"]))
    if allowed is None or not allowed.is_limited:
        raise _MistakeError("max", "a watch needs a limit, such as 0.50 USD")
    if 0 in {allowed.micro_units, allowed.tokens}:
        raise _MistakeError("max", "a watch that may spend nothing never works; name an amount, such as 0.50 USD")
    for pattern in patterns:
        try:
            compile_glob(pattern, "/")
        except PatternError as error:
            raise _MistakeError("files", error.sentence.removesuffix(".")) from error


def _member(place: str, raw: object) -> GroupMember:
    table = {"persona": raw} if isinstance(raw, str) else raw
    if not is_table(table) or "persona" not in table:
        raise _MistakeError(place, "a persona is written as its name, or as a table with persona")
    for key, value in table.items():
        if key not in _MEMBER_KEYS:
            raise _MistakeError(place, f"a persona has no key {key[:40]!r}; it has {', '.join(_MEMBER_KEYS)}")
        form, words = _MEMBER_KEYS[key]
        if not _fits(value, form):
            raise _MistakeError(place, f"{key} must be {words}")
    member = msgspec.convert(table, GroupMember)
    if not member.writes and (member.paths or member.checks):
        raise _MistakeError(place, f'{member.shown_name} changes nothing; paths and checks need kind = "worker"')
    for path in member.paths:
        parts = path.replace("\\", "/").split("/")
        if path.startswith(("/", "~")) or ".." in parts or ":" in parts[0]:
            raise _MistakeError(place, f"paths are below the project's folder, unlike {path[:80]!r}")
    return member


def _check_people(place: str, members: tuple[GroupMember, ...], decides: GroupMember | None) -> None:
    # A decision may cite a member in other letters.
    names = [each.shown_name.casefold() for each in members]
    twice = next((each.shown_name for each in members if names.count(each.shown_name.casefold()) > 1), "")
    if twice:
        raise _MistakeError(place, f"{twice} is there twice; set name for one of them")
    if decides is not None and decides.kind != "explorer":
        raise _MistakeError("decides", "the one that decides reads the answers and is an explorer")


def _fits(raw: object, form: object) -> bool:
    try:
        msgspec.convert(raw, form)
    except msgspec.ValidationError:
        return False
    return True


class _Places:
    """The places of dotted keys in a text, which is read once however many are asked for."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _lines(self) -> tuple[Mapping[str, int], Sequence[str]]:
        return dict(reversed(list(find_lines(self._text)))), self._text.splitlines() or [""]

    def of(self, key: str) -> tuple[int, int]:
        """Line and column of the value of a key, or of the nearest table around it; from 1."""
        numbers, lines = self._lines
        while key and key not in numbers:
            key = key.rpartition(".")[0]
        number = numbers.get(key, 1)
        line = lines[number - 1]
        before, sign, value = line.partition("=")
        is_value = bool(sign) and not line.lstrip().startswith("[")
        return number, len(before) + 2 + len(value) - len(value.lstrip()) if is_value else 1
