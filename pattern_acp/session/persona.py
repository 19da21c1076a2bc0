"""Persona of a session: the choice of another one, and `/persona`.

Owns: what changes with it. The prompt, the memory, the tools and the standing permissions are the new persona's from
the next request on, and so is the model that its file names; the conversation stays. Must not know: where personas lie
(`context/instructions.py`).
"""

from typing import TYPE_CHECKING, TypeAlias

import anyio.to_thread

from pattern_acp.commands.parameters import first_word
from pattern_acp.context.instructions import with_persona
from pattern_acp.definitions.collection import NO_DEFINITIONS
from pattern_acp.definitions.personas import INLINE, Persona, lower_mode, typed_persona
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.errors import ConfigError
from pattern_acp.journal.events import InstructionsCompiled, SessionConfigured
from pattern_acp.policy.grant_matching import GrantOwner, load_grants
from pattern_acp.session.definition_pins import keeping, sources_to_keep
from pattern_acp.session.errors import OptionUnusableError
from pattern_acp.session.options import MODE_OPTION, MODEL_OPTION, PERSONA_OPTION
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from pattern_acp.providers.base import ModelInfo
    from pattern_acp.session.session import Session


ModelNamed: TypeAlias = "Callable[[str], tuple[ModelInfo, list[str]]]"
"""Finds a model by its name; sentences say why it is another one."""


async def change_persona(session: "Session", name: str, model_named: ModelNamed, *, by: str = "client") -> None:
    """Continue as another persona.

    Raises:
        OptionUnusableError: its file cannot be read, or the session's prompt is of an earlier release.
        DatabaseError: it could not be recorded.
    """
    persona = await become_named(session, name, by)
    if persona is not None:
        await _take_preferences(session, persona, model_named, by)


async def become_named(session: "Session", name: str, by: str) -> Persona | None:
    """Continue as another persona, with the models of now; None where that is the persona already.

    Raises:
        OptionUnusableError: its file cannot be read, or the session's prompt is of an earlier release.
        DatabaseError: it could not be recorded.
    """
    shared = session.constellation
    if name == session.state.persona.name or shared.persona_named is None:
        return None
    try:
        persona = await anyio.to_thread.run_sync(shared.persona_named, name)
    except ConfigError as error:
        raise OptionUnusableError(error.sentence) from error
    await _become(session, persona, by)
    return persona


async def _become(session: "Session", persona: Persona, by: str) -> None:
    """Record another persona, and continue as it.

    Raises:
        OptionUnusableError: the session's prompt is of an earlier release.
        DatabaseError: it could not be recorded.
    """
    state, shared, name = session.state, session.constellation, persona.name
    system = with_persona(state.system, persona)
    if system is None:
        raise OptionUnusableError(
            "The prompt of this session was made by an earlier release, so its persona stays; start a new session."
        )
    sources = await sources_to_keep(shared.database, NO_DEFINITIONS, state.cwd, (persona.sources,))
    await session.recorder.record(
        NewEvent(SessionConfigured(PERSONA_OPTION, name, by), Actor.HUMAN, Origin.EDITOR),
        NewEvent(
            InstructionsCompiled(system, persona.identity, state.instructions, state.pins, persona.symbol), Actor.SYSTEM
        ),
        behind=keeping(sources),
    )
    state.system, state.persona = system, persona.ref
    state.policy.owner = GrantOwner(state.policy.owner.project, persona.identity)
    state.shown = None
    session.remember_as()
    state.policy.grants[:] = await shared.database.read(
        lambda tx: load_grants(tx, session.session_id, state.policy.owner)
    )


async def _take_preferences(session: "Session", persona: Persona, model_named: ModelNamed, by: str) -> None:
    """Continue with the persona's model, and in its mode where that may do less than the one of now."""
    state = session.state
    if persona.model and persona.model != state.model.qualified:
        model, notices = model_named(persona.model)
        state.notices += notices
        if not notices and model.qualified != state.model.qualified:
            await session.set_option(MODEL_OPTION, model.qualified, by=by)
    mode = lower_mode(state.policy.mode, persona.mode)
    if mode != state.policy.mode:
        await session.set_option(MODE_OPTION, mode, by=by)


async def run_persona(session: "Session", argument: str) -> str:
    """List the personas, or continue as another one."""
    state, known = session.state, session.constellation.personas
    verb, words = first_word(argument)
    if verb == INLINE and words.strip():
        persona = typed_persona(words.strip())
        await _become(session, persona, by="agent")
        await session.view.show_options(session.options())
        return (
            "From the next prompt on, this text is the persona, with a memory of its own, and without the standing "
            "permissions of the earlier one. It counts until this session is closed: to open the session again with "
            f"it, save the text as personas/{persona.name}.md beside your config.toml."
        )
    if argument:
        if argument not in known:
            names = ", ".join(known) or "none"
            raise OptionUnusableError(f"There is no persona {argument[:80]!r}; there are {names}.")
        before = (state.model.qualified, state.policy.mode)
        await session.view.show_options(await session.set_option(PERSONA_OPTION, argument, by="agent"))
        sentences = [f"From the next prompt on, {argument} answers, with its own memory and standing permissions."]
        if state.model.qualified != before[0]:
            sentences.append(f"Its model is {state.model.qualified}.")
        if state.policy.mode != before[1]:
            sentences.append(f"The mode is {state.policy.mode} now, as its file says.")
        if state.persona.tools:
            sentences.append(f"It has these tools alone: {', '.join(state.persona.tools)}.")
        return " ".join(sentences)
    names = {state.persona.name: "", **known}
    rows = [
        f"- `{name}`{': ' if words else ''}{words}{' ← answers' if name == state.persona.name else ''}"
        for name, words in names.items()
    ]
    return "\n".join([*rows, "", "Choose with `/persona NAME`, or type one for this session: `/persona inline TEXT`."])
