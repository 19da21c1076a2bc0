"""The types of blocks, and those that every persona and project begins with.

Owns: the types of blocks at rest. Must not know: Loro, SQL, search.
"""

from enum import StrEnum

from msgspec import Struct

from pattern_acp.domain.ids import BlockId
from pattern_acp.memory.merging import Conflict
from pattern_acp.memory.permissions import Permission
from pattern_acp.memory.schemas.types import TEXT, BlockSchema

DEFAULT_LIMIT = 8_000
"""Characters of a block (issue 2, section 8): three blocks stay a small part of any model's context."""

MOST_LIMIT = 32_000
"""Characters that a limit may be set to (issue 3, section 1): loading stays cheap up to about 32 KB."""


class Tier(StrEnum):
    """The times at which a block is in context."""

    CORE = "core"
    """In every request."""
    WORKING = "working"
    """While it is pinned, or was touched in the session."""


class Scope(StrEnum):
    """The owner of a block: a persona in all projects, a project whoever works there, or what it is attached to."""

    PERSONA = "persona"
    PROJECT = "project"
    SHARED = "shared"


SHARED_OWNER = "(shared)"
"""Owner of all shared blocks. Brackets keep it apart from the names of personas and the keys of projects."""


class BlockKey(Struct, frozen=True):
    """The name of a block: its label is unique in its scope and owner."""

    scope: Scope
    owner: str
    label: str


class BlockSpec(Struct, frozen=True):
    """A block to make: its key, what it is for, how long it may get, and what it says at first."""

    key: BlockKey
    description: str
    text: str = ""
    limit: int = DEFAULT_LIMIT
    schema: BlockSchema = TEXT
    permission: Permission = Permission.READ_WRITE
    pinned: bool = False
    tier: Tier = Tier.CORE


class Block(Struct, frozen=True):
    """A block as stored. Times are milliseconds since 1970-01-01 UTC, the limit is in characters."""

    id: BlockId
    key: BlockKey
    description: str
    limit: int
    text: str
    updated_ms: int
    head_update: int
    """Number of the newest update, which counts the writes."""
    history_from: int = 1
    """Number of the first update whose words are still there; forgetting takes those of older ones away."""
    schema: BlockSchema = TEXT
    permission: Permission = Permission.READ_WRITE
    pinned: bool = False
    tier: Tier = Tier.CORE
    conflicts: tuple[Conflict, ...] = ()
    """Double changes that nobody has mended: both sides are in the text."""


def default_blocks(persona: str, project: str) -> tuple[BlockSpec, ...]:
    """The blocks that a persona and a project begin with, in the order they are shown.

    `project` is a project key, see `memory.project.project_key`.
    """
    name = "Pattern" if persona == "default" else persona
    return (
        BlockSpec(
            BlockKey(Scope.PERSONA, persona, "persona"),
            "Who you are in every project: character, manner, and what you learned about working well.",
            f"I am {name}. I work in the user's code, and I remember what they teach me.",
        ),
        BlockSpec(
            BlockKey(Scope.PERSONA, persona, "human"),
            "Who the user is in every project: name, language, role, habits, tastes, standing wishes. No guesses.",
        ),
        BlockSpec(
            BlockKey(Scope.PROJECT, project, "project"),
            "What to know about this project: how to build, test and run it, conventions, decisions and their reasons, "
            "traps. Leave out what a look at the files shows.",
        ),
    )
