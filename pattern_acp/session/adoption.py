"""Definitions of a session beside those of today, `/definitions`, and the question when some have changed.

Owns: which have changed since they were recorded, what is adopted of them, when the user is asked, what is shown, and
how the answer is recorded. A choice for all sessions of a project is an event of the constellation, so that nothing in
the project can make it. Must not know: where definitions lie (`context/instructions.py`), or how a session is opened.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.commands.document import (
    Column,
    Fence,
    Paragraph,
    Part,
    Result,
    Table,
    as_result,
    columns,
    markdown,
)
from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.config.settings import DefinitionSettings
from pattern_acp.context.instructions import ProjectInstruction, is_built_in, persona_part, with_definitions
from pattern_acp.definitions.collection import NO_DEFINITIONS, Definitions
from pattern_acp.definitions.identity import DefinitionSource, KeptSource
from pattern_acp.definitions.personas import Persona, PersonaRef, kept_persona, persona_of
from pattern_acp.definitions.skills import SkillDefinition
from pattern_acp.domain.access import Actor, Origin, TrustTier
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.errors import ConfigError
from pattern_acp.domain.paths import display_path
from pattern_acp.domain.text_limits import plural, short_diff
from pattern_acp.domain.tool_calls import TextContent, ToolCallView, ToolKind
from pattern_acp.journal.events import (
    DefinitionsFollowed,
    DriftTold,
    GrantStored,
    InstructionFile,
    InstructionsCompiled,
    SeenDefinition,
)
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.policy.decision import ApprovalOption, Lifetime, PermissionAnswer
from pattern_acp.policy.grants import Effect, GrantOwner, list_grants
from pattern_acp.session.constellation import Constellation
from pattern_acp.session.definition_pins import (
    UsedDefinition,
    chosen_follow,
    in_force,
    keeping,
    kept_of,
    kept_source,
    kind_of,
    name_of,
    other_pins,
    pins_of,
    sources_to_keep,
    used_today,
)
from pattern_acp.session.opening import (
    Opening,
    Place,
    instruction_files,
    instruction_sources,
    instructions_of,
    look_at,
    refresh_grants,
)
from pattern_acp.session.ports import recorded_question
from pattern_acp.session.state import DefinitionChange, Drift
from pattern_acp.session.trust import look_again
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.config.settings import Follow
    from pattern_acp.db.connection import Transaction
    from pattern_acp.journal.sessions import SessionRow
    from pattern_acp.session.ports import Dialogue, ExtendedDialogue
    from pattern_acp.session.session import Session
    from pattern_acp.session.state import FolderTrust, SessionState


SHOWN_IDENTITY = 12
"""Characters of an identity that a user reads."""

PROGRAM = "the program"
"""The source of what comes with it."""

MOST_DIFF = 20_000
"""Characters of a comparison."""


class Followed(Struct, frozen=True):
    """The instructions that a session continues with, and sentences on what changed."""

    compiled: InstructionsCompiled
    persona: PersonaRef
    notices: tuple[str, ...] = ()
    drift: tuple[Drift, ...] = ()
    """Definitions that are others today and are not taken over."""


async def follow_definitions(
    shared: Constellation,
    place: Place,
    row: "SessionRow",
    compiled: InstructionsCompiled,
    sources: Mapping[str, KeptSource],
) -> Followed:
    """The instructions that a session continues with; it has the lease, so that what it adopts is recorded.

    `sources` are those that are stored of it.

    Raises:
        DatabaseError: what is adopted could not be recorded.
    """
    follow = place.settings.definitions.follow
    kept = sources.get(compiled.identity)
    then = recorded_persona(row.persona, compiled, kept)
    if then is None and kept is not None:
        return await _follow_forgotten(shared, place, row, compiled)
    if then is None:
        # Earlier releases put prompts together in another way, so that no part of them can be exchanged.
        return Followed(compiled, PersonaRef(row.persona, compiled.identity))
    now, sentences = await persona_of_today(shared, row.persona, then)
    changed_persona = not now.is_recorded_as(compiled.identity)
    adopts_persona = changed_persona and follow == "adopt"
    today, found = await anyio.to_thread.run_sync(
        _compiled_now, shared, place, compiled.system, now if adopts_persona else then
    )
    # Skills and commands follow once it is known what the folder is trusted with (session/definition_pins.py).
    today = replace(today, definitions=compiled.definitions)
    files = changed_files(compiled.files, today.files, place.cwd)
    adopts_files = bool(files) and follow != "keep"
    drift: list[Drift] = []
    if changed_persona and not adopts_persona:
        sentence = (
            f"The persona {row.persona} has changed since this session began, and this session continues with the"
            " recorded one."
        )
        drift.append(Drift(SeenDefinition(now.symbol, "changed", now.identity), sentence))
    if adopts_persona:
        sentences.append(
            f"The persona {row.persona} has changed: this session continues with today's, and what the earlier one was"
            " always allowed is asked again."
        )
    if adopts_persona or adopts_files:
        sentences += [f"{file}, which counts from now on." for _, file in files]
    else:
        rest = "this session continues with what it has."
        drift += [Drift(seen, f"{file}: {rest}") for seen, file in files]
    persona = now if adopts_persona else then
    if not (adopts_persona or adopts_files):
        kept_ref = replace(persona.ref, identity=compiled.identity)
        return Followed(compiled, kept_ref, tuple(sentences), tuple(drift))
    await _record(shared, place, row, today, (persona.sources, *instruction_sources(found)))
    return Followed(today, persona.ref, tuple(sentences), tuple(drift))


async def _follow_forgotten(
    shared: Constellation, place: Place, row: "SessionRow", compiled: InstructionsCompiled
) -> Followed:
    """Continue with today's persona, since words of the recorded one were forgotten."""
    now, sentences = await persona_of_today(shared, row.persona, Persona(row.persona, persona_part(compiled.system)))
    if now.identity == compiled.identity:
        return Followed(compiled, now.ref)
    today, found = await anyio.to_thread.run_sync(_compiled_now, shared, place, compiled.system, now)
    today = replace(today, definitions=compiled.definitions)
    await _record(shared, place, row, today, (now.sources, *instruction_sources(found)))
    sentences.append(
        f"Words of the persona {row.persona} as it was in this session were forgotten: it continues with today's, and "
        "its standing permissions do not count any more."
    )
    return Followed(today, now.ref, tuple(sentences))


async def _record(
    shared: Constellation,
    place: Place,
    row: "SessionRow",
    today: InstructionsCompiled,
    sources: Sequence[Sequence[DefinitionSource]],
) -> None:
    at_ms = shared.clock.now_ms()
    missing = await sources_to_keep(shared.database, NO_DEFINITIONS, place.cwd, sources)

    def write(tx: "Transaction") -> None:
        appended = append(tx, row.session_id, today, actor=Actor.SYSTEM, origin=Origin.WORKSPACE, at_ms=at_ms)
        for each in missing:
            each.keep(tx, appended.seq)

    await shared.database.write(write)


def recorded_persona(name: str, compiled: InstructionsCompiled, kept: KeptSource | None) -> Persona | None:
    """The persona of recorded instructions; None when they were put together in another way than today's.

    `kept` is its source, which earlier releases did not keep.
    """
    persona = kept_persona(name, kept) if kept is not None else None
    if persona is not None:
        return persona
    persona = Persona(name, persona_part(compiled.system))
    return persona if persona.is_recorded_as(compiled.identity) else None


async def persona_of_today(shared: Constellation, name: str, then: Persona) -> tuple[Persona, list[str]]:
    """The persona as its file is now, and a sentence when it cannot be read; then the recorded one counts."""
    if name == shared.persona.name or shared.persona_named is None:
        return (shared.persona if name == shared.persona.name else then), []
    try:
        return await anyio.to_thread.run_sync(shared.persona_named, name), []
    except ConfigError as error:
        return then, [error.sentence]


def _compiled_now(
    shared: Constellation, place: Place, system: str, persona: Persona
) -> tuple[InstructionsCompiled, tuple[ProjectInstruction, ...]]:
    found = instructions_of(shared, place)
    files, pins = instruction_files(found), pins_of(place.definitions)
    whole = with_definitions(system, persona, found)
    return InstructionsCompiled(whole, persona.identity, files, pins, persona.symbol), found


def changed_files(
    then: tuple[InstructionFile, ...], now: tuple[InstructionFile, ...], cwd: str
) -> tuple[tuple[SeenDefinition, str], ...]:
    """Instruction files that have changed, are new or are gone, with beginnings of sentences on them."""
    before, after = {file.path: file for file in then}, {file.path: file for file in now}
    words = [
        *((path, "changed") for path, file in before.items() if path in after and differs(file, after[path])),
        *((path, "new") for path in after if path not in before),
        *((path, "gone") for path in before if path not in after),
    ]
    found: list[tuple[SeenDefinition, str]] = []
    for path, word in words:
        shown = display_path(path, cwd)
        identity = after[path].definition if path in after else ""
        verb = "has changed" if word == "changed" else f"is {word}"
        found.append((SeenDefinition(f"instructions/{shown}", word, identity), f"{shown} {verb}"))
    return tuple(found)


def differs(then: InstructionFile, now: InstructionFile) -> bool:
    """True when two files say something else; earlier releases recorded sizes alone."""
    return then.identity != now.identity if then.identity else then.size != now.size


def persona_in_force(state: "SessionState") -> Persona:
    """The persona of a session as it continues with it."""
    known = state.persona.sources
    return persona_of(state.persona.name, known) if known else Persona(state.persona.name, persona_part(state.system))


class _Today(Struct, frozen=True):
    """The instructions as they would be compiled now, the persona in them, and sources to keep with them."""

    compiled: InstructionsCompiled
    persona: Persona
    sources: tuple[Sequence[DefinitionSource], ...]
    used: Mapping[str, UsedDefinition]


async def _today(dialogue: "ExtendedDialogue") -> _Today:
    shared, state = dialogue.shared, dialogue.state
    place = await look_at(shared, Opening(state.cwd, state.additional_directories))
    await look_again(dialogue)
    persona, _ = await persona_of_today(shared, state.persona.name, persona_in_force(dialogue.state))
    compiled, found = await anyio.to_thread.run_sync(_compiled_now, shared, place, state.system, persona)
    used, pins = await used_today(dialogue), {pin.symbol: pin for pin in other_pins(state.pins)}
    others = (pins | {symbol: each.pin for symbol, each in used.items()}).values()
    compiled = replace(compiled, definitions=(*pins_of(dialogue.trust.today), *others))
    sources = (persona.sources, *instruction_sources(found), *((each.source,) for each in used.values()))
    return _Today(compiled, persona, sources, used)


async def compare_definitions(dialogue: "ExtendedDialogue") -> Result:
    """Return what differs between today's definitions and those that the session has.

    Raises:
        DatabaseError: the file cannot be read.
    """
    today, then = await _today(dialogue), dict[str, str]()
    for pin in other_pins(dialogue.state.pins):
        kept = await kept_source(dialogue, pin)
        then[pin.symbol] = UsedDefinition(kept, pin.tier).text if kept is not None else ""
    return _compared(dialogue, today, then)


async def adopt_definitions(dialogue: "ExtendedDialogue", *, with_permissions: bool = False) -> str:
    """Continue with today's definitions; `with_permissions` names the persona as it was as the predecessor of today's.

    Raises:
        DatabaseError: it could not be recorded.
    """
    found, state = await _today(dialogue), dialogue.state
    today, persona = found.compiled, found.persona
    same_persona = persona.is_recorded_as(state.persona.identity)
    if same_persona and today.system == state.system and today.definitions == state.pins:
        return UNCHANGED
    definitions = dialogue.trust.today
    sources = await sources_to_keep(dialogue.shared.database, definitions, state.cwd, found.sources)
    if with_permissions and not same_persona:
        today = replace(today, predecessor=state.persona.identity)
    owner = GrantOwner(state.policy.owner.project, today.identity)
    moved, lapsed = ((), 0) if same_persona else await _grants_to_keep(dialogue, owner, all_of_them=with_permissions)
    adopted = (today, *moved)
    await dialogue.recorder.record(
        *(NewEvent(each, Actor.HUMAN, Origin.WORKSPACE) for each in adopted), behind=keeping(sources)
    )
    state.system, state.instructions, state.pins = today.system, today.files, today.definitions
    dialogue.trust.definitions = definitions
    state.persona, state.policy.owner, state.told_changes = persona.ref, owner, set()
    if dialogue.mcp.toolbox.kept:
        dialogue.mcp.toolbox.fix_anew()
    await refresh_grants(dialogue.shared, state)
    rest = ""
    if with_permissions and moved:
        rest = " It may do what the persona as it was could do always."
    elif lapsed:
        rest = f" {plural(lapsed, 'standing permission')} of the persona as it was lapsed: you are asked again."
    return f"From the next prompt on, this session continues with today's definitions.{rest}"


async def _grants_to_keep(
    dialogue: "Dialogue", owner: GrantOwner, *, all_of_them: bool
) -> tuple[tuple[GrantStored, ...], int]:
    """The lasting answers of the persona as it was that stay those of its successor, and how many lapse.

    What was refused for ever stays refused; what was allowed lapses unless the user names the earlier persona as the
    predecessor.
    """
    state = dialogue.state
    stored = await dialogue.shared.database.read(list_grants)
    lasting = [
        each.grant
        for each in stored
        if each.grant.lifetime in {Lifetime.PROJECT, Lifetime.PERSONA}
        and each.is_of(state.session_id, state.policy.owner)
    ]
    moved = [grant for grant in lasting if all_of_them or grant.effect is Effect.DENY]
    events = tuple(
        GrantStored(
            grant.effect,
            grant.kind,
            grant.pattern,
            grant.lifetime,
            project=owner.of(grant.lifetime).project,
            persona=owner.of(grant.lifetime).persona,
        )
        for grant in moved
    )
    return events, len(lasting) - len(moved)


class _Row(Struct, frozen=True):
    """A line of the list."""

    kind: str
    name: str
    identity: str
    tier: str
    source: str = ""
    drift: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the table."""
        identity = self.identity[:SHOWN_IDENTITY] or "unknown"
        return f"{self.kind} `{self.name}`", identity, self.tier, self.source, self.drift


def _listed(dialogue: "ExtendedDialogue", found: _Today) -> tuple[Part, ...]:
    state, now = dialogue.state, {file.path: file for file in found.compiled.files}
    persona = _persona_row(dialogue.shared, dialogue.state, found.persona)
    rows = [persona]
    for file in state.instructions:
        other = now.pop(file.path, None)
        news = "gone" if other is None else "changed" if differs(file, other) else ""
        rows.append(_instruction_row(dialogue.shared, dialogue.state, file, news))
    rows += [_instruction_row(dialogue.shared, dialogue.state, file, "new") for file in now.values()]
    rows += _written(dialogue)
    pins_now = {pin.symbol: pin.identity for pin in found.compiled.definitions}
    for pin in other_pins(state.pins):
        news = "" if pins_now[pin.symbol] == pin.identity else "changed"
        rows.append(_Row(kind_of(pin), name_of(pin), pin.identity, pin.tier, drift=news))
    heads = columns("Definition", "Identity", "Tier", Column("Source", limit=200), "Drift")
    table = Table(heads, tuple(row.cells for row in rows))
    if not any(row.drift for row in rows):
        return (table,)
    how = "/definitions diff compares with today's, /definitions adopt takes them."
    if persona.drift:
        how += (
            " What the persona as it was is always allowed lapses then; /definitions adopt --with-permissions takes it"
            " over."
        )
    return table, Paragraph(how)


def _persona_row(shared: "Constellation", state: "SessionState", today: Persona) -> _Row:
    ref = state.persona
    tier = TrustTier.BUILT_IN if is_built_in(ref.name, ref.identity) else TrustTier.USER
    source = PROGRAM if tier is TrustTier.BUILT_IN else f"personas/{ref.name}.md"
    if ref.name != shared.persona.name:
        source += f"; this process starts {shared.persona.name}"
    drift = "" if today.is_recorded_as(ref.identity) else "changed"
    return _Row("persona", ref.name, ref.identity, tier, source, drift)


def _instruction_row(shared: "Constellation", state: "SessionState", file: InstructionFile, drift: str) -> _Row:
    own = shared.own_instructions
    tier = TrustTier.USER if own is not None and file.path == str(own) else TrustTier.PROJECT
    shown = display_path(file.path, state.cwd)
    return _Row("instructions", shown, file.definition or file.identity, tier, file.path, drift)


def _changes(state: "SessionState", trust: "FolderTrust") -> tuple[DefinitionChange, ...]:
    """The differences of skills and commands between today and what the session has."""
    return in_force(state.pins, trust.today, "keep", lambda pin: kept_of(state, pin), granted=False)[1]


def _written(dialogue: "ExtendedDialogue") -> list[_Row]:
    """Rows of skills and commands: those in force, and those that are new."""
    trust = dialogue.trust
    changes = {change.symbol: change for change in _changes(dialogue.state, dialogue.trust)}
    rows: list[_Row] = []
    for each in (*trust.definitions.skills, *trust.definitions.commands):
        if isinstance(each, SkillDefinition):
            source = PROGRAM if each.tier is TrustTier.BUILT_IN else each.folder
            row = _Row("skill", each.name, each.digest, each.source, source)
        else:
            row = _Row("command", f"/{each.name}", each.identity, each.tier, each.path)
        tier = f"{row.tier}; not trusted: /trust" if each.of_project and not trust.granted else row.tier
        change = changes.pop(each.symbol, None)
        rows.append(replace(row, tier=tier, drift=change.word if change is not None else ""))
    for symbol, change in changes.items():
        kind, _, name = symbol.partition("/")
        rows.append(_Row(kind, f"/{name}" if kind == "command" else name, change.identity, "", drift=change.word))
    return rows


def _compared(dialogue: "ExtendedDialogue", today: _Today, used: Mapping[str, str]) -> Result:
    """Compare today's definitions with those that the session has; `used` are the texts of what it used."""
    then = {**_texts(dialogue.trust.definitions, dialogue.state.system, persona_in_force(dialogue.state)), **used}
    now = {**_texts(dialogue.trust.today, today.compiled.system, today.persona), **used}
    now |= {symbol: each.text for symbol, each in today.used.items()}
    diffs = [
        Fence(short_diff(then.get(name, ""), now.get(name, ""), MOST_DIFF), "diff")
        for name in sorted({*then, *now})
        if then.get(name) != now.get(name)
    ]
    return as_result(*diffs) if diffs else as_result(UNCHANGED)


def _texts(definitions: Definitions, system: str, persona: Persona) -> dict[str, str]:
    """The texts of definitions by name, each below its name where it is not the system prompt."""
    written = {each.symbol: f"{each.symbol}\n{each.body}" for each in definitions.commands}
    for skill in definitions.skills:
        files = f"\nfiles: {', '.join(skill.files)}" if skill.files else ""
        text = f"{skill.symbol}, {skill.digest[:SHOWN_IDENTITY]}\n{skill.description}\n\n{skill.body}{files}"
        written[skill.symbol] = text
    return {"": system, persona.symbol: persona.preferences, **written}


UNCHANGED = "Nothing has changed: this session continues with today's definitions."

DRIFT_CALL = "definitions"
"""Name of the call that shows the question."""

OPTIONS = (
    ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Adopt today's"),
    ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, "Always adopt in this project"),
    ApprovalOption(PermissionAnswer.REJECT_ONCE, "Keep what the session has"),
)

KEPT = "This session keeps what it has. `/definitions adopt` takes today's at any time."

CHOICES = {
    "adopt": "Sessions of this project adopt changed definitions, and say so.",
    "keep": "Sessions of this project keep the definitions that they have, and say what changed.",
    "ask": "You are asked in this project when definitions of yours have changed.",
    "settings": "In this project the setting `definitions.follow` counts again.",
}

HOW_TO_UNDO = "`/definitions follow settings` takes that back."


async def run_definitions(session: "Session", argument: str) -> Result:
    """List what the session is defined by, compare it with today's, adopt today's, or choose for the project.

    Raises:
        CommandMisusedError: there is no such verb.
        DatabaseError: what is adopted or chosen could not be recorded.
    """
    match argument.split():
        case []:
            project = session.state.project_key
            chosen = await session.constellation.database.read(lambda tx: chosen_follow(tx, project))
            listed = _listed(session.dialogue, await _today(session.dialogue))
            return as_result(*listed, f"{CHOICES[chosen]} {HOW_TO_UNDO}" if chosen else "")
        case ["diff"]:
            return await compare_definitions(session.dialogue)
        case ["adopt"]:
            return as_result(await adopt_definitions(session.dialogue))
        case ["adopt", "--with-permissions"]:
            return as_result(await adopt_definitions(session.dialogue, with_permissions=True))
        case ["follow", choice] if choice in CHOICES:
            return as_result(await _follow(session.dialogue, choice))
        case _:
            raise CommandMisusedError(
                "Say /definitions, /definitions diff, /definitions adopt [--with-permissions] or /definitions follow "
                "ask|adopt|keep|settings."
            )


async def _follow(dialogue: "Dialogue", choice: str) -> str:
    await _choose(dialogue, "" if choice == "settings" else choice)
    later = "It counts in this session once you open it again." if choice == "settings" else HOW_TO_UNDO
    return f"{CHOICES[choice]} {later}"


async def _choose(dialogue: "Dialogue", follow: str) -> None:
    shared, state = dialogue.shared, dialogue.state
    event, now = DefinitionsFollowed(state.project_key, follow), shared.clock.now_ms()

    def write(tx: "Transaction") -> None:
        append(tx, CONSTELLATION_STREAM, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=now)

    await shared.database.write(write)
    if follow:
        state.settings = replace(state.settings, definitions=DefinitionSettings(cast("Follow", follow)))


async def ask_about_drift(dialogue: "ExtendedDialogue", turn_id: TurnId) -> None:
    """Ask what the session takes over of the definitions that have changed; nothing, where none did.

    Raises:
        DatabaseError: the question could not be recorded; the turn stops.
    """
    drift = dialogue.state.untold_drift
    if not drift or dialogue.state.settings.definitions.follow != "ask":
        return
    reason = " ".join(each.sentence for each in drift)
    call = ToolCallView(
        ToolCallId(dialogue.shared.ids.new("call")),
        DRIFT_CALL,
        f"Adopt {plural(len(drift), 'changed definition')}?",
        ToolKind.OTHER,
        {"definitions": [each.seen.symbol for each in drift]},
        content=(TextContent(f"{reason}\n\n{markdown((await compare_definitions(dialogue)).document)}"),),
    )
    async with recorded_question(dialogue, turn_id, call, reason, OPTIONS) as question:
        question.told, question.done = KEPT, False
        answer = await question.put()
        question.done = answer is not PermissionAnswer.CANCELLED
        if answer.allows:
            question.told = await adopt_definitions(dialogue)
        if answer is PermissionAnswer.ALLOW_ALWAYS:
            await _choose(dialogue, "adopt")
            question.told = f"{question.told} {CHOICES['adopt']} {HOW_TO_UNDO}"
        dialogue.state.untold_drift = []
        if not answer.allows:
            seen = DriftTold(tuple(each.seen for each in drift))
            question.events.append(NewEvent(seen, Actor.SYSTEM, Origin.WORKSPACE))
