"""The one decision that every effect goes through."""

from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """How much runs without asking. Ids are stable: people save them in their editor's settings."""

    ASK = "ask"
    EDIT = "edit"
    PLAN = "plan"
    AUTO = "auto"


class Verdict(StrEnum):
    """What happens with a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class GrantScope:
    """How far an always reaches.

    `kind` is `command_prefix` (words that a simple command starts with, `pattern` = JSON list of words), `edit_folder`
    (`pattern` = resolved folder), `read_folder`, or `exact_command` (the whole line). `label` is the button's text.
    """

    kind: str
    pattern: str
    label: str


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict, the rule that gave it, and a sentence why.

    `scopes` are what an always would store, narrowest first.
    """

    verdict: Verdict
    rule: str
    reason: str
    scopes: tuple[GrantScope, ...] = ()
