"""Messages from the loop's thread to the terminal's thread, questions among them, and the known facts of the session.

Owns: the events, the inbox they arrive in, and what the last update said: title, mode, model, commands, plan and usage.
Must not know: who draws them.
"""

import concurrent.futures
import queue
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, cast

from msgspec import UNSET, Struct, field

from pattern_acp.acp import schema
from pattern_acp.domain.canonical import JsonObject

KEYS: Mapping[str, str] = {"allow_once": "a", "allow_always": "A", "reject_once": "r", "reject_always": "R"}
"""The key of each kind of option (ACP v1, session/request_permission)."""

SYNONYMS: Mapping[str, str] = {"y": "a", "Y": "a", "n": "r", "N": "r"}
"""Keys of habit. None of them reaches further than once."""


class OfferedChoice(Struct, frozen=True):
    """One answer that the agent offers. `kind` is ACP's."""

    option_id: str
    name: str
    kind: str


class Question(Struct, frozen=True):
    """One question. The loop's thread waits for `answer`; the terminal's thread gives it."""

    call: schema.ToolCallUpdate
    choices: tuple[OfferedChoice, ...]
    takes_words: bool = False
    """True when the answer may be any words instead of a choice; a choice then has its own name as its id."""
    is_closed: bool = False
    """True where no answer refuses what the question is about."""
    text: str = ""
    """The text that the user changes; empty for an answer from nothing."""
    answer: "concurrent.futures.Future[str | None]" = field(default_factory=concurrent.futures.Future[str | None])
    """The chosen option's id, or the words, empty for no answer; None when the question was cancelled."""
    beside: list[str] = field(default_factory=list[str])
    """Words of the user beside a choice, before it was chosen."""

    @property
    def is_open(self) -> bool:
        """True while an answer is still wanted."""
        return not self.answer.done()

    def reply(self, option_id: str | None) -> None:
        """Answer with an option or with words, or with None to cancel; the first answer counts."""
        try:
            self.answer.set_result(option_id)
        except concurrent.futures.InvalidStateError:
            return


def keyed(choices: Sequence[OfferedChoice]) -> dict[str, OfferedChoice]:
    """A key for every choice, in the order offered: by its kind, and by number when the kind's key is taken."""
    keys: dict[str, OfferedChoice] = {}
    for number, choice in enumerate(choices, 1):
        key = KEYS.get(choice.kind, str(number))
        keys[str(number) if key in keys else key] = choice
    return keys


def choice_for(key: str, keys: Mapping[str, OfferedChoice]) -> OfferedChoice | None:
    """Return the choice of a pressed key; None for a key that means nothing here."""
    return keys.get(key) or keys.get(SYNONYMS.get(key, ""))


def automatic_choice(answer: Literal["allow", "deny"], choices: Sequence[OfferedChoice]) -> OfferedChoice | None:
    """The choice of `--yes` or `--deny`: the one that reaches least; None when there is none of its sort."""
    kinds = ("allow_once", "allow_always") if answer == "allow" else ("reject_once", "reject_always")
    for kind in kinds:
        for choice in choices:
            if choice.kind == kind:
                return choice
    return None


class Updated(Struct, frozen=True):
    """The agent sent an update; `update` is the object as it was on the wire."""

    update: JsonObject


class AgentAsks(Struct, frozen=True):
    """The agent asks for permission and waits."""

    question: Question


class PromptAnswered(Struct, frozen=True):
    """The prompt was answered: with a stop reason, or with an error's sentence."""

    stop_reason: str
    error: str = ""
    agent_gone: bool = False
    background_jobs: int = 0
    """Background commands that run at the end of the turn."""
    failure: str = ""
    """The code of what failed; without an `error` the turn ended in words of the agent."""
    is_shown: bool = False
    """True if the agent has said the `error` in the chat before."""
    session_id: str = ""


Happening: TypeAlias = Updated | AgentAsks | PromptAnswered

Inbox: TypeAlias = "queue.SimpleQueue[Happening]"
"""Holds at most what one turn says; the terminal's thread empties it while the turn runs. Terminals are looked at
instead (client.py), since a command can write without end."""


def told_by_us(meta: object) -> dict[str, object]:
    """Return our agent's additions in `_meta.pattern`; empty for another agent."""
    ours = cast("dict[str, object]", meta).get("pattern") if isinstance(meta, dict) else None
    return cast("dict[str, object]", ours) if isinstance(ours, dict) else {}


class OpenedSession(Struct, frozen=True):
    """The session that was opened."""

    session_id: str
    cwd: str
    title: str = ""
    mode: str = ""
    model: str = ""
    thinking: str = ""
    """Empty when the model cannot be asked to think."""
    is_new: bool = True


class SessionInfo(Struct):
    """The session's state as its updates tell it."""

    cwd: str = ""
    title: str = ""
    mode: str = ""
    model: str = ""
    commands: tuple[schema.AvailableCommand, ...] = ()
    plan: tuple[schema.PlanEntry, ...] = ()
    usage: schema.UsageUpdate | None = None
    background_jobs: int = 0
    """Background commands that run."""

    def begin(self, opened: OpenedSession) -> None:
        """Know nothing but what an opened session began with."""
        self.cwd, self.title, self.mode, self.model = opened.cwd, opened.title, opened.mode, opened.model
        self.plan, self.usage, self.background_jobs = (), None, 0

    def take(self, update: schema.SessionUpdate) -> None:
        """Remember what an update says."""
        match update:
            case schema.PlanUpdate(entries=entries):
                self.plan = entries
            case schema.AvailableCommandsUpdate(available_commands=commands):
                self.commands = commands
            case schema.CurrentModeUpdate(current_mode_id=mode):
                self.mode = mode
            case schema.ConfigOptionUpdate(config_options=options):
                self._take_options(options)
            case schema.SessionInfoUpdate():
                self._take_info(update)
            case schema.UsageUpdate():
                self.usage = update
            case _:
                pass

    def _take_info(self, update: schema.SessionInfoUpdate) -> None:
        if update.title is not UNSET:
            self.title = update.title or ""
        jobs = told_by_us(update.meta).get("backgroundJobs")
        if isinstance(jobs, int):
            self.background_jobs = jobs

    def _take_options(self, options: tuple[schema.ConfigOption, ...]) -> None:
        for option in options:
            if isinstance(option, schema.SelectConfigOption):
                if option.id == "mode":
                    self.mode = option.current_value
                elif option.id == "model":
                    self.model = option.current_value
