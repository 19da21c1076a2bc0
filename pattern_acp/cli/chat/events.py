"""Messages from the loop's thread to the terminal's thread, questions among them.

Owns: the events and the inbox they arrive in. Must not know: who draws them.
"""

import concurrent.futures
import queue
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, field

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
