"""What released versions wrote can be read for ever: a constellation of each, and the form of every payload.

The form of a payload may gain fields that have a default, and nothing else, unless its version in journal/codec.py
goes up and the old one is still read. `python -m tests.journal.test_released_forms` writes down what changed.
"""

import enum
import gzip
import json
import types
import typing
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from msgspec import Struct

from pattern_acp.db.migrate import load_migrations
from pattern_acp.journal.codec import _KINDS, _TYPES  # pyright: ignore[reportPrivateUsage]  the list of kinds
from pattern_acp.recovery.backups import list_backups
from tests.support.process import Launch, run_command_line, running_process

GOLDEN = Path(__file__).parent / "golden" / "payload_forms.json"
FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.db.gz"))
CONSTELLATION = Path("constellations", "default", "constellation.db")

Forms = dict[str, dict[str, Any]]


def forms() -> Forms:
    """Every kind with its version and fields, and every type that a field has, by name."""
    found: Forms = {}
    for event_type, (kind, version) in _KINDS.items():
        found[kind] = {"version": version, "fields": _fields(event_type, found)}
    return dict(sorted(found.items()))


def _fields(kind: type[Struct], found: Forms) -> dict[str, str]:
    fields: dict[str, str] = {}
    optional = kind.__struct_fields__[len(kind.__struct_fields__) - len(kind.__struct_defaults__) :]
    for field in kind.__struct_fields__:
        fields[field] = _name(kind.__annotations__[field], found) + (" = ..." if field in optional else "")
    return fields


def _name(hint: object, found: Forms) -> str:
    if isinstance(hint, typing.NewType):
        return _name(hint.__supertype__, found)
    if get_origin(hint) in (typing.Union, types.UnionType):
        return " | ".join(sorted(_name(each, found) for each in get_args(hint)))
    if get_origin(hint) is typing.Literal:
        return " | ".join(sorted(map(repr, get_args(hint))))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        found.setdefault(f"<{hint.__name__}>", {"values": sorted(str(each.value) for each in hint)})
    elif isinstance(hint, type) and issubclass(hint, Struct) and f"<{hint.__name__}>" not in found:
        found[f"<{hint.__name__}>"] = {}
        found[f"<{hint.__name__}>"] = {"fields": _fields(hint, found)}
    if isinstance(hint, type) and not get_args(hint):
        return hint.__name__
    if get_args(hint):
        return (
            f"{getattr(get_origin(hint), '__name__', '')}[{', '.join(_name(each, found) for each in get_args(hint))}]"
        )
    return f"{hint!r}"


def problems(before: Forms, now: Forms) -> list[str]:
    """What a journal of `before` holds that `now` would not read."""
    found: list[str] = []
    for name, old in before.items():
        new = now.get(name, {})
        if old.get("version", 0) != new.get("version", 0):
            # An upcaster reads the old one: test_every_version_that_was_ever_written_can_be_read.
            continue
        gone = set(old.get("values", ())) - set(new.get("values", ()))
        found += [f"{name} no longer has the value {value}" for value in sorted(gone)]
        fields: dict[str, str] = new.get("fields", {})
        for field, form in old.get("fields", {}).items():
            if fields.get(field, "").removesuffix(" = ...") != form.removesuffix(" = ..."):
                found.append(f"{name}.{field} was {form} and is {fields.get(field, 'gone')}")
            elif form.endswith(" = ...") and not fields[field].endswith(" = ..."):
                found.append(f"{name}.{field} lost its default")
        new_fields = fields.keys() - old.get("fields", {}).keys()
        found += [
            f"{name}.{each} is new and has no default" for each in new_fields if not fields[each].endswith(" = ...")
        ]
    return found


def written() -> Forms:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_no_payload_changed_its_form_without_a_new_version():
    assert problems(written(), forms()) == []


def test_the_written_forms_are_those_of_today():
    assert forms() == written(), "Run python -m tests.journal.test_released_forms and look at what it changed."


def test_every_version_that_was_ever_written_can_be_read():
    assert {(kind, old) for kind, version in _KINDS.values() for old in range(1, version + 1)} == _TYPES.keys()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"a": "int"}, "k.b was str = ... and is gone"),
        ({"a": "str", "b": "str = ..."}, "k.a was int and is str"),
        ({"a": "int", "b": "str"}, "k.b lost its default"),
        ({"a": "int", "b": "str = ...", "c": "int"}, "k.c is new and has no default"),
        ({"a": "int", "b": "str = ...", "c": "int = ..."}, ""),
        ({"a": "int = ...", "b": "str = ..."}, ""),
    ],
)
def test_what_a_form_may_not_lose_is_named(change: dict[str, str], problem: str):
    before: Forms = {"k": {"version": 1, "fields": {"a": "int", "b": "str = ..."}}}
    assert problems(before, {"k": {"version": 1, "fields": change}}) == ([problem] if problem else [])
    assert problems(before, {"k": {"version": 2, "fields": change}}) == []


def unpack(fixture: Path, home: Path) -> Path:
    path = home / CONSTELLATION
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.decompress(fixture.read_bytes()))
    path.chmod(0o600)
    return path


@pytest.mark.e2e
@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda each: each.name)
async def test_a_constellation_of_a_released_version_lists_loads_goes_on_replays_and_verifies(
    fixture: Path, tmp_path: Path
):
    path = unpack(fixture, tmp_path)
    async with running_process(Launch(tmp_path)) as agent:
        listed = (await agent.editor.request("session/list", {}))["sessions"]
        assert {one["title"] for one in listed} == {"Plums", "Plums (fork)"}
        for one in listed:
            await agent.editor.request(
                "session/load", {"sessionId": one["sessionId"], "cwd": str(tmp_path), "mcpServers": []}
            )
        said = agent.editor.said()
        assert all(part in said for part in ("I write it down.", "After going back.", "In the fork."))
        assert "pear" not in said
        await agent.editor.prompt(listed[0]["sessionId"], "go on")
        await agent.close_input()
        await agent.wait()
    schema = int(fixture.name.partition("-schema-")[2].partition(".")[0])
    backups = [each for each in list_backups(path) if each.kind == "migration"]
    assert len(backups) == (0 if schema == load_migrations()[-1].version else 1)
    assert run_command_line(tmp_path, "journal", "verify").returncode == 0
    for one in listed:
        replayed = json.loads(run_command_line(tmp_path, "journal", "replay", one["sessionId"], "--json").stdout)
        assert replayed["difference"] is None
        # A tool may have been given more to do since; its description is part of every request.
        assert (replayed["turns"]["difference"] or {"part": "tools"})["part"] == "tools"
    verified = json.loads(run_command_line(tmp_path, "doctor", "--verify", "--json").stdout)
    assert not [each for each in verified["findings"] if each["health"] == "broken"]


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(forms(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
