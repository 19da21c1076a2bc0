"""Definitions that a session points at by identity, and which of them, or of those of today, are in force.

Owns: what is recorded of a session's skills and commands, that their sources are stored with it, and what of a change
counts on its own. Must not know: where files lie, or how a change is reported and adopted (session/adoption.py).

A session continues with what it has. What the user agreed to as it is now counts at once, and so does what is new: a
changed file of a project that is trusted again, a bundle that was updated. A changed file of the user's own waits for
`/definitions adopt`, unless `[definitions] follow` says otherwise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio.to_thread
from msgspec import Struct

from pattern_acp.definitions.collection import Definitions
from pattern_acp.definitions.commands import COMMAND_FILE, CommandDefinition, kept_command
from pattern_acp.definitions.identity import DefinitionSource, identities, leaves_of
from pattern_acp.definitions.skills import SkillDefinition, kept_skill, skill_leaves, skill_sources
from pattern_acp.definitions.sources import KeptSource, encoded, keep_source, missing_sources, read_sources
from pattern_acp.domain.access import Actor, Origin, TrustTier
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
from pattern_acp.session.state import DefinitionChange, Drift
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.config.settings import Follow
    from pattern_acp.db.connection import Database, Transaction
    from pattern_acp.session.session import Session
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


async def take_definitions(session: "Session") -> tuple[DefinitionChange, ...]:
    """Decide which skills and commands are in force now, and record what of today's the session takes.

    Returns how today's differ from what the session had; of those that count, it has today's from now on.

    Raises:
        DatabaseError: it could not be recorded.
    """
    state, trust = session.state, session.trust
    follow, today = state.settings.definitions.follow, trust.today
    now = pins_of(today)
    if now == tuple(pin for pin in state.pins if kind_of(pin) in WRITTEN):
        trust.definitions = today
        return ()
    gone_or_changed = {pin.identity for pin in state.pins} - {pin.identity for pin in now}
    wanted = tuple(gone_or_changed - set(state.sources))
    if wanted:
        state.sources |= await session.constellation.database.read(lambda tx: read_sources(tx, wanted))
    trust.definitions, changes = in_force(
        state.pins, today, follow, lambda pin: kept_of(session.state, pin), granted=trust.granted
    )
    if any(change.counts for change in changes) and not state.is_read:
        await record_pins(session, trust.definitions)
    return changes


def kept_of(state: "SessionState", pin: PinnedDefinition) -> Written | None:
    """The definition under a pin, from its stored source; None when that was not read, or cannot be used."""
    kept = state.sources.get(pin.identity)
    return loaded(pin, kept) if kept is not None else None


async def record_pins(
    session: "Session",
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
    state = session.state
    # At once: subagents that start side by side record theirs side by side.
    state.pins = (*pins_of(definitions), *(other_pins(state.pins) if others is None else others))
    more = await sources_to_keep(session.constellation.database, definitions, state.cwd, sources)
    # Only now: the event that is recorded last has all of them.
    event = InstructionsCompiled(
        state.system, state.persona.identity, state.instructions, state.pins, state.persona.recorded_symbol
    )
    await session.recorder.record(NewEvent(event, Actor.SYSTEM, Origin.WORKSPACE), behind=keeping(more))


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
