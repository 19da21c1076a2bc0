"""Definitions that a session points at by identity, and which of them, or of those of today, are in force.

Owns: what is recorded of a session's skills and commands, and of tools of MCP servers, kinds of subagents, templates
and groups before their first use; that their sources are stored with it, and what of a change counts on its own. Must
not know: where files lie, how a change is reported and adopted (session/adoption.py), or whether a call of a changed
tool is allowed (`tools/mcp_toolbox.py` asks).

A session continues with what it has: it offers the tools that it had, to the byte, and subagents and new blocks follow
what it had, too. What the user agreed to as it is now counts at once, and so does what is new: a changed file of a
project that is trusted again, a bundle that was updated. A changed file of the user's own waits for `/definitions
adopt`, unless `[definitions] follow` says otherwise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio.to_thread
import msgspec
from msgspec import Struct

from pattern_acp.context.instructions import subagent_source
from pattern_acp.definitions.collection import Definitions
from pattern_acp.definitions.commands import COMMAND_FILE, CommandDefinition, kept_command
from pattern_acp.definitions.identity import (
    DefinitionSource,
    KeptSource,
    encoded,
    identities,
    identity_of,
    keep_source,
    leaves_of,
    missing_sources,
    read_sources,
)
from pattern_acp.definitions.skills import SkillDefinition, kept_skill, skill_leaves, skill_sources
from pattern_acp.domain.access import Actor, Origin, TrustTier
from pattern_acp.domain.text_limits import one_line
from pattern_acp.journal.codec import about_following
from pattern_acp.journal.events import (
    DefinitionsFollowed,
    DriftTold,
    InstructionsCompiled,
    PinnedDefinition,
    SeenDefinition,
)
from pattern_acp.journal.reader import Recorded, read_item
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.mcp_servers.catalogue import RemoteTool
from pattern_acp.memory.templates import Template, template_file, template_of
from pattern_acp.session.state import DefinitionChange, Drift
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.config.settings import Follow
    from pattern_acp.db.connection import Database, Transaction
    from pattern_acp.mcp_servers.server import Server
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.ports import Dialogue, ExtendedDialogue
    from pattern_acp.session.state import SessionState


Written: TypeAlias = SkillDefinition | CommandDefinition
"""A definition that people write as files."""

Load: TypeAlias = Callable[[PinnedDefinition], Written | None]
"""Makes a definition from its stored source."""


WRITTEN = frozenset({"skill", "command"})
"""Kinds that are found in folders at every prompt. The others are pinned when they are used first."""


AGREED = frozenset({TrustTier.BUNDLE, TrustTier.BUILT_IN})
"""Tiers of what the user installed and updated as it is now: it counts at once."""


def kind_of(pin: PinnedDefinition) -> str:
    """The kind of a definition, the first part of its symbol."""
    return pin.symbol.partition("/")[0]


def name_of(pin: PinnedDefinition) -> str:
    """The name of a definition, the rest of its symbol."""
    return pin.symbol.partition("/")[2]


def other_pins(pins: Iterable[PinnedDefinition]) -> tuple[PinnedDefinition, ...]:
    """Those of some records that are no skills and commands."""
    return tuple(pin for pin in pins if kind_of(pin) not in WRITTEN)


def pins_of(definitions: Definitions) -> tuple[PinnedDefinition, ...]:
    """The records of skills and commands."""
    skills = (PinnedDefinition(each.digest, each.symbol, each.source, each.folder) for each in definitions.skills)
    commands = (PinnedDefinition(each.identity, each.symbol, each.tier, each.path) for each in definitions.commands)
    return (*skills, *commands)


def in_force(
    pins: Sequence[PinnedDefinition], today: Definitions, follow: "Follow", load: Load, *, granted: bool
) -> tuple[Definitions, tuple[DefinitionChange, ...]]:
    """The definitions that a session continues with, and how those of today differ.

    `granted` says that the folder is trusted as it is.
    """
    known = {pin.symbol: pin for pin in pins}
    chosen: list[Written] = []
    changes: list[DefinitionChange] = []
    for each in (*today.skills, *today.commands):
        identity, pin = _identity(each), known.pop(each.symbol, None)
        if pin is not None and pin.identity == identity:
            chosen.append(each)
            continue
        agreed = each.tier in AGREED or (each.of_project and granted)
        counts = follow == "adopt" or (follow == "ask" and (pin is None or agreed))
        kept = load(pin) if pin is not None and not counts else None
        if counts or kept is not None:
            chosen.append(kept or each)
        counts = counts or (pin is not None and kept is None)
        changes.append(DefinitionChange(each.symbol, "changed" if pin is not None else "new", identity, counts))
    for symbol, pin in known.items():
        if kind_of(pin) not in WRITTEN:
            continue
        # A bundle that is gone was removed whole, by the user.
        leaves = follow == "adopt" or pin.tier.partition(" ")[0] in AGREED
        kept = None if leaves else load(pin)
        if kept is not None:
            chosen.append(kept)
        changes.append(DefinitionChange(symbol, "gone", "", kept is None))
    skills = tuple(each for each in chosen if isinstance(each, SkillDefinition))
    commands = tuple(each for each in chosen if isinstance(each, CommandDefinition))
    return Definitions(commands, skills, today.problems), tuple(changes)


def _identity(each: Written) -> str:
    return each.digest if isinstance(each, SkillDefinition) else each.identity


def loaded(pin: PinnedDefinition, kept: KeptSource) -> Written | None:
    """A definition from its stored source; None when it cannot be used any more, or is not the one of the pin."""
    if pin.symbol != kept.symbol:
        return None
    name = name_of(pin)
    tier, _, bundle = pin.tier.partition(" ")
    if pin.symbol.startswith("skill/"):
        return kept_skill(kept, pin.place, TrustTier(tier), bundle)
    if COMMAND_FILE not in kept.files:
        return None
    text = kept.files[COMMAND_FILE].decode("utf-8", "replace")
    return kept_command(name, text, pin.place, TrustTier(tier), narrows="/.claude/" not in pin.place)


def chosen_follow(tx: "Transaction", project: str) -> str:
    """The choice of the user for a project, instead of the setting `definitions.follow`; empty for none.

    Raises:
        DatabaseError: the file cannot be read.
    """
    chosen = [entry.event for entry in read_item(tx, CONSTELLATION_STREAM, about_following(project))]
    return next((each.follow for each in reversed(chosen) if isinstance(each, DefinitionsFollowed)), "")


class SourceToKeep(Struct, frozen=True):
    """A source that is to be stored with the event that names it."""

    identity: str
    symbol: str
    source: str

    def keep(self, tx: "Transaction", seq: int) -> None:
        """Keep it."""
        keep_source(tx, self.identity, self.symbol, self.source, seq=seq)


async def sources_to_keep(
    database: "Database", definitions: Definitions, cwd: str, others: Iterable[Sequence[DefinitionSource]] = ()
) -> tuple[SourceToKeep, ...]:
    """The sources of some definitions, of those that are not stored yet.

    `others` are those of the session besides, such as its persona, each before all that it includes.

    Raises:
        DatabaseError: the file cannot be read.
    """
    named = {identities([leaves_of(each) for each in closure])[closure[0].symbol]: closure for closure in others}
    written = {_identity(each): each for each in (*definitions.skills, *definitions.commands)}
    wanted = await database.read(lambda tx: missing_sources(tx, (*named, *written)))
    if not wanted:
        return ()
    ready = [SourceToKeep(key, each[0].symbol, encoded(each)) for key, each in named.items() if key in wanted]
    files = {key: each for key, each in written.items() if key in wanted}
    return (*ready, *(await anyio.to_thread.run_sync(_read_all, files, cwd) if files else ()))


def _read_all(written: Mapping[str, Written], cwd: str) -> tuple[SourceToKeep, ...]:
    ready: list[SourceToKeep] = []
    for identity, each in written.items():
        if isinstance(each, CommandDefinition):
            ready.append(SourceToKeep(identity, each.symbol, encoded((each.source,))))
            continue
        closure, hashes = skill_sources(each, Path(cwd) if each.of_project else None)
        # It may have changed since it was looked at; then it is looked at again at the next prompt.
        if identities(skill_leaves(each, closure, hashes)).get(each.symbol) == identity:
            text = encoded(closure, {(each.symbol, name): digest for name, digest in hashes.items()})
            ready.append(SourceToKeep(identity, each.symbol, text))
    return tuple(ready)


async def take_definitions(dialogue: "ExtendedDialogue") -> tuple[DefinitionChange, ...]:
    """Decide which skills and commands are in force now, and record what of today's the session takes.

    Returns how today's differ from what the session had; of those that count, it has today's from now on.

    Raises:
        DatabaseError: it could not be recorded.
    """
    state, trust = dialogue.state, dialogue.trust
    follow, today = state.settings.definitions.follow, trust.today
    now = pins_of(today)
    if now == tuple(pin for pin in state.pins if kind_of(pin) in WRITTEN):
        trust.definitions = today
        return ()
    gone_or_changed = {pin.identity for pin in state.pins} - {pin.identity for pin in now}
    wanted = tuple(gone_or_changed - set(state.sources))
    if wanted:
        state.sources |= await dialogue.shared.database.read(lambda tx: read_sources(tx, wanted))
    trust.definitions, changes = in_force(
        state.pins, today, follow, lambda pin: kept_of(dialogue.state, pin), granted=trust.granted
    )
    if any(change.counts for change in changes) and not state.is_read:
        await record_pins(dialogue, trust.definitions)
    return changes


def kept_of(state: "SessionState", pin: PinnedDefinition) -> Written | None:
    """The definition under a pin, from its stored source; None when that was not read, or cannot be used."""
    kept = state.sources.get(pin.identity)
    return loaded(pin, kept) if kept is not None else None


async def record_pins(
    dialogue: "ExtendedDialogue",
    definitions: Definitions,
    *,
    others: Sequence[PinnedDefinition] | None = None,
    sources: Sequence[Sequence[DefinitionSource]] = (),
) -> None:
    """Record which skills and commands the session has, and which other definitions, and keep their sources.

    Without `others`, those stay as they are; `sources` are those of new ones.

    Raises:
        DatabaseError: it could not be recorded.
    """
    state = dialogue.state
    # At once: subagents that start side by side record theirs side by side.
    state.pins = (*pins_of(definitions), *(other_pins(state.pins) if others is None else others))
    more = await sources_to_keep(dialogue.shared.database, definitions, state.cwd, sources)
    # Only now: the event that is recorded last has all of them.
    event = InstructionsCompiled(
        state.system, state.persona.identity, state.instructions, state.pins, state.persona.recorded_symbol
    )
    await dialogue.recorder.record(NewEvent(event, Actor.SYSTEM, Origin.WORKSPACE), behind=keeping(more))


def keeping(sources: Sequence[SourceToKeep]) -> "Callable[[Transaction], None]":
    """A function that keeps sources behind the event that was appended last."""
    from pattern_acp.journal.reader import newest_event

    def keep(tx: "Transaction") -> None:
        for each in sources:
            each.keep(tx, newest_event(tx))

    return keep


def drift_of(changes: Iterable[DefinitionChange]) -> tuple[Drift, ...]:
    """Those of some changes that the user learns of."""
    return tuple(
        Drift(SeenDefinition(change.symbol, change.word, change.identity), change.sentence, change.counts)
        for change in changes
        if change.word != "new"
    )


def tell_drift(state: "SessionState", found: Iterable[Drift]) -> None:
    """Have the next turn tell the user which definitions differ: each change once, also when it is opened again."""
    fresh = [each for each in found if each.seen not in state.told_changes]
    state.told_changes |= {each.seen for each in fresh}
    # What counts from now on is recorded as what the session has.
    state.notices += [each.sentence for each in fresh if each.counts]
    state.untold_drift += [each for each in fresh if not each.counts]


def told_drift(recorded: Iterable[Recorded]) -> set[SeenDefinition]:
    """The drift that the user has heard of since they adopted something last."""
    told: set[SeenDefinition] = set()
    for entry in recorded:
        if isinstance(entry.event, InstructionsCompiled) and entry.actor is Actor.HUMAN:
            told = set()
        elif isinstance(entry.event, DriftTold):
            told.update(entry.event.definitions)
    return told


MCP, SUBAGENT, TEMPLATE, GROUP = "mcp", "subagent", "template", "group"
"""The kinds of these definitions."""

SUBAGENTS = "subagents"
"""Folder beside `config.toml` in which a user may keep rules for kinds of subagents, one Markdown file each."""

NAMED = 6
"""Tools that a sentence names for each kind of change."""

SERVER_TIER = "server"
"""The tier of a tool set: that of no file."""


class UsedDefinition(Struct, frozen=True):
    """One of these definitions as it is now."""

    source: DefinitionSource
    tier: str

    @property
    def pin(self) -> PinnedDefinition:
        """Its record in a session."""
        return PinnedDefinition(identity_of(self.source), self.source.symbol, self.tier)

    @property
    def text(self) -> str:
        """The text that the user reads and compares."""
        if self.source.symbol.startswith(f"{MCP}/"):
            return "\n\n".join(tool.definition for tool in tools_in(self.source))
        return "\n\n".join(content.decode("utf-8", "replace") for content in self.source.files.values())


def tools_of(server: "Server") -> UsedDefinition:
    """The tools of a server as they are now, each a file; those by which an editor serves its files are left out."""
    files = {f"{tool.name}.json": msgspec.json.encode(tool) for tool in server.catalogue.tools if tool.files is None}
    return UsedDefinition(DefinitionSource(f"{MCP}/{server.name}", files), SERVER_TIER)


def tools_in(source: DefinitionSource) -> tuple[RemoteTool, ...]:
    """The tools of a set; one that cannot be read is left out."""
    tools: list[RemoteTool] = []
    for content in source.files.values():
        try:
            tools.append(RemoteTool(**msgspec.json.decode(content)))
        except (msgspec.DecodeError, TypeError):
            continue
    return tuple(tools)


def offer_kept_tools(dialogue: "ExtendedDialogue") -> None:
    """Have a session that is opened again offer the tools of servers that it had."""
    if dialogue.state.settings.definitions.follow == "adopt":
        return
    for pin in dialogue.state.pins:
        kept = source_under(pin, dialogue.state.sources) if kind_of(pin) == MCP else None
        if kept is not None:
            dialogue.mcp.toolbox.kept[name_of(pin)] = tools_in(kept)


async def used_today(dialogue: "ExtendedDialogue") -> dict[str, UsedDefinition]:
    """Those that the session has, as they are today, and the tool sets of the servers that answer now; by symbol."""
    found = [tools_of(server) for server in dialogue.mcp.servers.ready]
    files = [pin for pin in dialogue.state.pins if kind_of(pin) in {SUBAGENT, TEMPLATE}]
    if files:
        found += await anyio.to_thread.run_sync(_read, files, dialogue.shared)
    if (groups := dialogue.trust.today.groups) is not None:
        names = {name_of(pin) for pin in dialogue.state.pins if kind_of(pin) == GROUP}
        found += [UsedDefinition(each.source, TrustTier.PROJECT) for each in groups.usable if each.name in names]
    return {each.source.symbol: each for each in found if each.source.files}


def _read(pins: Iterable[PinnedDefinition], shared: "Constellation") -> list[UsedDefinition]:
    return [
        subagent_kind(name_of(pin), shared)
        if kind_of(pin) == SUBAGENT
        else memory_template(name_of(pin), shared.template_folder)
        for pin in pins
    ]


def subagent_kind(kind: str, shared: "Constellation") -> UsedDefinition:
    """The rules for subagents of a kind, as they are now."""
    config = shared.own_instructions.parent if shared.own_instructions is not None else None
    source, is_own = subagent_source(kind, config / SUBAGENTS if config is not None else None)
    return UsedDefinition(source, TrustTier.USER if is_own else TrustTier.BUILT_IN)


def memory_template(name: str, folder: "Path | None") -> UsedDefinition:
    """A template of memory as it is now; one that is gone has no file."""
    content, is_own = template_file(name, folder)
    files = {f"{name}.toml": content} if content is not None else {}
    return UsedDefinition(
        DefinitionSource(f"{TEMPLATE}/{name}", files), TrustTier.USER if is_own else TrustTier.BUILT_IN
    )


async def use_definition(
    dialogue: "ExtendedDialogue", found: UsedDefinition, *, agreed: bool = False
) -> DefinitionSource:
    """The definition that the session uses instead of today's, which it records and keeps if it is its first use.

    What the user has `agreed` to as it is now counts at once, unless the session is to have what it had.

    Raises:
        DatabaseError: it could not be read or recorded.
    """
    pins, pin = dialogue.state.pins, found.pin
    known = next((each for each in pins if each.symbol == pin.symbol), None)
    takes = agreed and dialogue.state.settings.definitions.follow != "keep"
    if known is None or (takes and known.identity != pin.identity):
        others = (*(each for each in other_pins(pins) if each.symbol != pin.symbol), pin)
        await record_pins(dialogue, dialogue.trust.definitions, others=others, sources=[(found.source,)])
        return found.source
    kept = None if known.identity == pin.identity else await kept_source(dialogue, known)
    return kept or found.source


async def template_in_use(dialogue: "ExtendedDialogue", name: str) -> Template | None:
    """The template that the session makes blocks of under this name; None where there is no file of it.

    Raises:
        ConfigError: it cannot be used.
        DatabaseError: it could not be read or recorded.
    """
    found = await anyio.to_thread.run_sync(memory_template, name, dialogue.shared.template_folder)
    source = await use_definition(dialogue, found) if found.source.files else found.source
    return next((template_of(content, file) for file, content in source.files.items()), None)


async def kept_source(dialogue: "Dialogue", pin: PinnedDefinition) -> DefinitionSource | None:
    """The stored source of one of these definitions; None when it was forgotten, or is that of another.

    Raises:
        DatabaseError: it could not be read.
    """
    sources = dialogue.state.sources
    if pin.identity not in sources:
        sources |= await dialogue.shared.database.read(lambda tx: read_sources(tx, (pin.identity,)))
    return source_under(pin, sources)


def source_under(pin: PinnedDefinition, sources: Mapping[str, KeptSource]) -> DefinitionSource | None:
    """The one of some stored sources that a record names; None when it is not there, without files, or of another."""
    kept = sources.get(pin.identity)
    own = kept.definitions[0] if kept is not None and kept.symbol == pin.symbol else None
    return own if own is not None and own.files else None


async def follow_used(dialogue: "ExtendedDialogue") -> tuple[Drift, ...]:
    """Record the tool sets that the session did not have, and return how today's definitions differ from what it has.

    Raises:
        DatabaseError: they could not be read or recorded.
    """
    state, servers = dialogue.state, dialogue.mcp.servers.servers
    pins = {pin.symbol: pin for pin in other_pins(state.pins)}
    if not pins and not servers:
        return ()
    today, follow, kept = (
        await used_today(dialogue),
        state.settings.definitions.follow,
        dialogue.mcp.toolbox.kept,
    )
    named = {f"{MCP}/{server.name}" for server in servers}
    fresh = {symbol: each.pin for symbol, each in today.items() if symbol not in pins}
    gone = [pin for symbol, pin in pins.items() if kind_of(pin) == MCP and symbol not in named]
    drift = [
        Drift(
            SeenDefinition(pin.symbol, "gone"),
            f"The MCP server {name_of(pin)}, whose tools this session had, is not set up any more.",
            counts=True,
        )
        for pin in gone
    ]
    for symbol, pin in pins.items():
        now, is_set = today.get(symbol), kind_of(pin) == MCP
        if now is None or now.pin.identity == pin.identity:
            if now is not None and is_set:
                kept.pop(name_of(pin), None)
            continue
        then = await kept_source(dialogue, pin)
        # While it runs, the model reads what changed, and each changed tool asks before its next use.
        is_running = is_set and follow == "ask" and name_of(pin) not in kept
        counts = follow == "adopt" or is_running
        drift.append(
            Drift(SeenDefinition(symbol, "changed", now.pin.identity), _sentence(pin, then, now, counts=counts), counts)
        )
        if counts:
            fresh[symbol] = now.pin
        elif then is not None and is_set:
            kept[name_of(pin)] = tools_in(then)
    if fresh or gone:
        left = {pin.symbol for pin in gone}
        others = ({symbol: pin for symbol, pin in pins.items() if symbol not in left} | fresh).values()
        sources = [(today[symbol].source,) for symbol in fresh]
        await record_pins(dialogue, dialogue.trust.definitions, others=tuple(others), sources=sources)
    return tuple(drift)


def _sentence(pin: PinnedDefinition, then: DefinitionSource | None, now: UsedDefinition, *, counts: bool) -> str:
    verb = "which counts from now on" if counts else "and this session continues with what it had"
    if kind_of(pin) == MCP:
        changes = _changes(then.files if then is not None else {}, now.source.files)
        return f"The tools of the MCP server {name_of(pin)} have changed ({changes}), {verb}."
    kind = kind_of(pin)
    what = "kind of subagent" if kind == SUBAGENT else kind
    return f"The {what} {name_of(pin)} has changed, {verb}."


def _changes(then: Mapping[str, bytes], now: Mapping[str, bytes]) -> str:
    words = {
        "new": [name for name in now if name not in then],
        "changed": [name for name in now if name in then and then[name] != now[name]],
        "gone": [name for name in then if name not in now],
    }
    return "; ".join(f"{word}: {_shown(names)}" for word, names in words.items() if names)


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(one_line(name.removesuffix(".json"), 40) for name in names[:NAMED]) + more
