"""Verbs that set blocks up, in /memory and in `pattern-acp memory`: create, set, share, unshare.

Owns: what is typed behind them and what they answer, in Markdown. Must not know: how anything is stored.
"""

import re
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from pattern_acp.domain.errors import BlockError
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.permissions import Permission
from pattern_acp.memory.project import project_key
from pattern_acp.memory.sharing import Attachment
from pattern_acp.memory.templates.loading import load_templates
from pattern_acp.session.errors import CommandMisusedError
from pattern_acp.tools.base import MemoryEdit
from pattern_acp.tools.memory_access import ConstellationMemory
from pattern_acp.tools.memory_sharing import MemorySetup
from pattern_acp.workspace.git import git_facts
from pattern_acp.workspace.paths import absolute_path, resolve_path

_WORD = re.compile(r'\s*(?:"([^"]*)"|(\S+))\s?')
_OPTION = re.compile(r"--(template|scope)[ =](\S+)\s*")
_TEXT = re.compile(r'--text[ =](?:"((?:[^"\\]|\\.)*)"|(\S+))\s*', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class SetupPlace(Struct, frozen=True):
    """Where blocks are set up: the person's memory, the folder that paths start from, and their folder of templates."""

    setup: MemorySetup
    memory: ConstellationMemory
    cwd: str
    templates: Path | None
    isolated: bool = False
    """Whether the project's agent hears nothing that was noted for the persona."""


class _Asked(Struct, frozen=True):
    """What was typed behind `create`."""

    label: str
    template: str
    scope: str
    description: str
    text: str


async def create_block(place: SetupPlace, argument: str) -> str:
    """Create a block: `LABEL [--template NAME] [--scope SCOPE] [--text TEXT] [DESCRIPTION]`; nothing lists templates.

    Raises:
        InvalidRequestError: the scope is none.
        BlockError: the label is taken, or there is no such template.
        ConfigError: the template's file cannot be used.
    """
    if not argument.strip():
        return await _templates(place)
    asked = _read_create(argument)
    edit = MemoryEdit(
        asked.label,
        "create",
        asked.text,
        reason="The person asked for it.",
        template=asked.template,
        description=asked.description,
        scope=asked.scope,
    )
    change = await place.memory.commit(edit, None)
    where = f". {change.notes[0]}" if change.notes else "."
    typed = f'"{change.label}"' if re.search(r"\s", change.label) else change.label
    return f"The block `{change.label}` is there{where} `/memory set {typed}` tells its settings."


async def set_up_block(place: SetupPlace, argument: str) -> str:
    """Change a setting: `LABEL [SETTING VALUE]`; without a setting, tell them.

    Raises:
        InvalidRequestError: no label is given.
        BlockError: there is no such block, setting or value.
    """
    label, setting, value = _words(argument, 3)
    if not label:
        raise CommandMisusedError("Say which block: /memory set LABEL SETTING VALUE.")
    if not setting:
        return await _settings(place, label)
    block = await place.setup.configure(label, setting.lower(), value)
    return f"`{block.key.label}`: {setting.lower()} is {value} now."


async def share_block(place: SetupPlace, argument: str) -> str:
    """Share a block: `LABEL [persona:NAME|project:FOLDER [PERMISSION]]`; alone, tell with whom it is shared.

    Raises:
        InvalidRequestError: an argument is missing or wrong.
        BlockError: there is no such block.
    """
    label, target, permission = _words(argument, 3)
    if not label:
        raise CommandMisusedError("Say which block: /memory share LABEL persona:NAME|project:FOLDER [PERMISSION].")
    setup = place.setup
    if not target:
        shares = await setup.shares(label)
        lines = [f"- {share.scope} `{share.owner}`: {share.permission}" for share in shares]
        return "\n".join(lines) or f"`{label}` is shared with nobody."
    scope, owner = await _target(place, target)
    try:
        allowed = Permission(permission.lower() or Permission.READ_ONLY)
    except ValueError:
        raise CommandMisusedError(f"A permission is one of {', '.join(Permission)}.") from None
    await setup.share(label, Attachment(scope, owner, allowed))
    return f"`{label}` is shared with the {scope} `{owner}` now, with the permission {allowed}."


async def unshare_block(place: SetupPlace, argument: str) -> str:
    """Share a block no longer: `LABEL persona:NAME|project:FOLDER`.

    Raises:
        InvalidRequestError: an argument is missing or wrong.
        BlockError: there is no such block, or it was not shared with them.
    """
    label, target, _ = _words(argument, 3)
    if not target:
        raise CommandMisusedError("Say with whom no longer: /memory unshare LABEL persona:NAME|project:FOLDER.")
    scope, owner = await _target(place, target)
    await place.setup.unshare(label, scope, owner)
    return f"`{label}` is no longer shared with the {scope} `{owner}`."


def _read_create(argument: str) -> _Asked:
    given = _TEXT.search(argument)
    argument = _TEXT.sub("", argument, count=1)
    text = "" if given is None else given[2] or _ESCAPE.sub(_unescaped, given[1])
    options = dict(_OPTION.findall(argument))
    label, description = _words(_OPTION.sub("", argument), 2)
    scope = options.get("scope", "")
    if scope not in {"", *Scope}:
        raise CommandMisusedError(f"A scope is one of {', '.join(Scope)}.")
    if not label:
        raise CommandMisusedError("Say how to call it: /memory create LABEL [--template NAME] DESCRIPTION.")
    return _Asked(label, options.get("template", ""), scope, description, text)


def _unescaped(escape: re.Match[str]) -> str:
    if escape[1] == "n":
        return "\n"
    # A pattern such as \d stays as it was typed.
    return escape[1] if escape[1] in {'"', "\\"} else escape[0]


async def _templates(place: SetupPlace) -> str:
    templates = await anyio.to_thread.run_sync(load_templates, place.templates)
    rows = [f"| `{name}` | {template.description} |" for name, template in templates.usable.items()]
    notes = [f"\n> {error.sentence}" for error in templates.broken.values()]
    head = ["`/memory create LABEL --template NAME` makes a block of one of these:", "", "| Template | What for |"]
    return "\n".join((*head, "| --- | --- |", *rows, *notes))


async def _settings(place: SetupPlace, label: str) -> str:
    for block in await place.memory.blocks():
        if block.label == label:
            rows = [
                ("description", block.description),
                ("limit", f"{block.limit:,}"),
                ("permission", block.permission),
                *await _placing(place, label),
                ("in context now", "yes" if block.in_context else "no"),
                ("holds", block.form or "Free text."),
            ]
            return "\n".join(
                ("| Setting | Value |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows))
            )
    raise CommandMisusedError(f"There is no memory block {label!r}; /memory lists them.")


async def _placing(place: SetupPlace, label: str) -> tuple[tuple[str, str], ...]:
    """What only the owner of a block sets; nothing for one that is attached here."""
    try:
        block = await place.setup.own(label)
    except BlockError:
        return ()
    return ("scope", block.key.scope.value), ("tier", block.tier.value), ("pinned", "yes" if block.pinned else "no")


async def _target(place: SetupPlace, text: str) -> tuple[Scope, str]:
    kind, colon, name = text.partition(":")
    if colon and name and kind == Scope.PERSONA.value:
        return Scope.PERSONA, name
    if colon and name and kind == Scope.PROJECT.value:
        return Scope.PROJECT, await anyio.to_thread.run_sync(_project, name, place.cwd)
    raise CommandMisusedError("Share with persona:NAME or project:FOLDER.")


def _project(folder: str, cwd: str) -> str:
    place = resolve_path(absolute_path(folder, cwd))
    return project_key(git_facts(place).common_dir, place)


def take_word(text: str) -> tuple[str, str]:
    """The first word of a text, which may stand in quotes, and what follows it with its line ends."""
    found = _WORD.match(text)
    if found is None:
        return "", ""
    quoted, plain = found.groups()
    return (plain if quoted is None else quoted), text[found.end() :]


def _words(argument: str, count: int) -> tuple[str, ...]:
    """The first words, the last of which is all of the rest; empty ones where there are fewer."""
    words: list[str] = []
    for _ in range(count - 1):
        word, argument = take_word(argument)
        words.append(word)
    return (*words, argument.strip())
