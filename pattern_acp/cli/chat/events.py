"""What the loop's thread tells the terminal's thread.

Owns: the happenings and the inbox they arrive in. Must not know: who draws them.
"""

import queue
from dataclasses import dataclass
from typing import TypeAlias

from pattern_acp.cli.chat.questions import Question
from pattern_acp.domain.canonical import JsonObject


@dataclass(frozen=True, slots=True)
class Updated:
    """The agent sent an update; `update` is the object as it was on the wire."""

    update: JsonObject


@dataclass(frozen=True, slots=True)
class Asked:
    """The agent asks for permission and waits."""

    question: Question


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The prompt was answered: with a stop reason, or with an error's sentence."""

    stop_reason: str
    error: str = ""
    agent_gone: bool = False
    background_jobs: int = 0
    """Background commands that run at the end of the turn."""
    failure: str = ""
    """The code of what failed; without an `error` the turn ended in words of the agent."""


Happening: TypeAlias = Updated | Asked | TurnEnded

Inbox: TypeAlias = "queue.SimpleQueue[Happening]"
"""Holds at most what one turn says; the terminal's thread empties it while the turn runs. Terminals are looked at
instead (terminals.py), since a command can write without end."""
