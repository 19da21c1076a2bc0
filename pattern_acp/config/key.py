"""The form of a setting: what it is called, what it may hold, where it may be set.

Owns: `Key`. Must not know: which settings there are (config/keys.py).
"""

from enum import Enum

from msgspec import Struct

from pattern_acp.config.values import Rule, Value


class ProjectRule(Enum):
    """What a project's file may do with a key; a cloned repository must never widen what the agent may do."""

    NEVER = "never"
    LOWER = "lower"
    """Only a number below the person's own."""
    NARROWER = "narrower"
    """Only a choice that may do less than the person's own, or as much (`Key.reach`)."""
    CONFIGURED = "configured"
    """Only a model of a provider that the person has set up."""


class Key(Struct, frozen=True):
    """One setting outside tables whose names people give."""

    name: str
    """Dotted, as in the file."""
    summary: str
    rule: Rule
    default: Value
    variable: str = ""
    flag: str = ""
    project: ProjectRule = ProjectRule.NEVER
    when_empty: str = "automatic"
    """What an empty value means, for doctor."""
    reach: tuple[Value, ...] = ()
    """The choices from the one that may do least to the one that may do most, for `ProjectRule.NARROWER`."""
