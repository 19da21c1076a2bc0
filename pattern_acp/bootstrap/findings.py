"""What was looked at and how it is: the words that all parts of a diagnosis share.

Owns: a finding, its health and its repair. Must not know: what is looked at.
"""

from enum import StrEnum
from typing import Literal

from msgspec import Struct


class Health(StrEnum):
    """How one thing is."""

    OK = "ok"
    NOTE = "note"
    """Something optional is missing, or a setting was not used."""
    BROKEN = "broken"
    """Something that is needed does not work; `pattern-acp doctor` exits with 1."""


class Repair(Struct, frozen=True):
    """What would mend a finding. Only one that is `safe`, since it loses nothing, is ever carried out by itself."""

    action: Literal["chmod", "move", "rebuild_search", "begin_histories", "restore"]
    target: str
    safe: bool


class Finding(Struct, frozen=True):
    """One thing that was looked at. `remedy` says what to do; empty when there is nothing to do."""

    name: str
    health: Health
    detail: str
    remedy: str = ""
    repair: Repair | None = None
    code: str = ""
    """The code of the failure that it is (domain/failures.toml), where it is one."""
