"""Modes and options that a client can show and set.

Ids are stable between releases: people save them in their editor's settings (agent-shell#733).
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from pattern_acp.config.settings import Settings
from pattern_acp.journal.events import Event, SessionConfigured
from pattern_acp.policy.decision import Mode
from pattern_acp.providers.base import ModelInfo, ThoughtLevel, nearest_level

MODE_OPTION = "mode"
MODEL_OPTION = "model"
THOUGHT_OPTION = "thought_level"
OVERLAP_OPTION = "overlapping"
PERSONA_OPTION = "persona"


class Overlap(StrEnum):
    """The treatment of a prompt that arrives while a turn runs."""

    STEER = "steer"
    QUEUE = "queue"
    REPLACE = "replace"


class OptionValue(Struct, frozen=True):
    """One value of an option."""

    value: str
    name: str
    description: str = ""


class Option(Struct, frozen=True):
    """One option with its current value and all choices; `category` is ACP's."""

    option_id: str
    name: str
    category: str
    current: str
    choices: tuple[OptionValue, ...]
    description: str = ""


MODES: tuple[OptionValue, ...] = (
    OptionValue(Mode.ASK, "Ask", "Reads files in the project; asks before edits, commands and anything outside."),
    OptionValue(Mode.EDIT, "Edit", "Reads and edits files in the project; asks before commands and anything outside."),
    OptionValue(Mode.PLAN, "Plan", "Only reads and thinks; nothing that changes anything is offered."),
    OptionValue(Mode.AUTO, "Auto", "Works in the project without asking; what destroys or reaches outside still asks."),
)

OVERLAPS: tuple[OptionValue, ...] = (
    OptionValue(Overlap.STEER, "Steer", "It joins the running turn between two tool calls."),
    OptionValue(Overlap.QUEUE, "Queue", "It runs once the turn has ended."),
    OptionValue(Overlap.REPLACE, "Replace", "The turn is cancelled, and it runs in its place."),
)

_THOUGHT_NAMES = {
    ThoughtLevel.AUTO: "Auto",
    ThoughtLevel.OFF: "Off",
    ThoughtLevel.LOW: "Low",
    ThoughtLevel.MEDIUM: "Medium",
    ThoughtLevel.HIGH: "High",
    ThoughtLevel.MAX: "Max",
}


_THOUGHT_WORDS = {ThoughtLevel.AUTO: "As much as the model's vendor sets by default; medium where that is nothing."}


def thought_level_of(model: ModelInfo, wanted: ThoughtLevel) -> ThoughtLevel:
    """The level that the model is asked for; see `nearest_level`."""
    return nearest_level(model.auto_level if wanted is ThoughtLevel.AUTO else wanted, model.thought_levels)


def is_level_set(settings: Settings, model: ModelInfo) -> bool:
    """Return whether the settings say how much a model thinks, so that no choice in an earlier session counts."""
    own = settings.models.get(model.qualified)
    return bool(own is not None and own.thinking_level) or settings.thinking_is_set or settings.thinking != "auto"


def first_level(settings: Settings, model: ModelInfo, remembered: str = "") -> ThoughtLevel:
    """The level at which a new session with this model begins: of the settings, or the one that was last chosen."""
    own = settings.models.get(model.qualified)
    of_settings = (own.thinking_level if own is not None else "") or settings.thinking
    return ThoughtLevel(of_settings if is_level_set(settings, model) else remembered or of_settings)


def level_after(
    settings: Settings, level: ThoughtLevel, before: ModelInfo, after: ModelInfo, remembered: str = ""
) -> ThoughtLevel:
    """The level of a session behind a change of its model.

    As the settings have it or as it was last chosen for that model; else as it is, where the user chose it here.
    """
    is_chosen = level is not first_level(settings, before) and not (remembered and not is_level_set(settings, after))
    return level if is_chosen else first_level(settings, after, remembered)


def overlap_of(settings: Settings, custom: Overlap, events: Iterable[Event] = ()) -> Overlap:
    """The treatment of overlapping prompts: chosen in the session, else set, else the `custom` of the client."""
    chosen = [e.value for e in events if isinstance(e, SessionConfigured) and e.option == OVERLAP_OPTION]
    known = [value for value in (settings.turn.overlapping, *chosen) if value in tuple(Overlap)]
    return Overlap(known[-1]) if known else custom


def session_options(
    mode: Mode,
    model: ModelInfo,
    models: Sequence[ModelInfo],
    thought_level: ThoughtLevel,
    overlap: Overlap | None = None,
    persona: str = "",
    personas: Mapping[str, str] | None = None,
) -> tuple[Option, ...]:
    """The complete options, in order of priority: mode, model, thought level where the model has one, and the rest.

    `personas` are those that can be chosen, each with what it is for.
    """
    known = {info.qualified: info for info in (model, *models)}
    options = [
        Option(MODE_OPTION, "Mode", "mode", mode, MODES, "How much runs without asking."),
        Option(
            MODEL_OPTION,
            "Model",
            "model",
            model.qualified,
            tuple(OptionValue(name, name) for name in sorted(known)),
            "The model that answers.",
        ),
    ]
    if model.thought_levels:
        levels = (ThoughtLevel.AUTO, *model.thought_levels)
        current = nearest_level(thought_level, model.thought_levels)
        options.append(
            Option(
                THOUGHT_OPTION,
                "Thinking",
                "thought_level",
                current,
                tuple(OptionValue(level, _THOUGHT_NAMES[level], _THOUGHT_WORDS.get(level, "")) for level in levels),
                "How much the model thinks before it answers.",
            )
        )
    if personas:
        names = {persona: "", **personas}
        choices = tuple(OptionValue(name, name, words) for name, words in names.items())
        options.append(Option(PERSONA_OPTION, "Persona", "", persona, choices, "Who answers, with whose memory."))
    if overlap is not None:
        words = "What a prompt does that you send while a turn runs."
        options.append(Option(OVERLAP_OPTION, "Overlapping prompts", "", overlap, OVERLAPS, words))
    return tuple(options)
