"""The types of blocks, the names of their owners, who may do what with them, and the blocks that all begin with.

Owns: the types of blocks at rest, which directories are the same project, the table of permissions, and isolation of a
project from the persona. Must not know: Loro, SQL, search, how a user is asked.

The table is that of pattern (reference: pattern, section 2.4). It binds the agent. The user owns the memory, so they
may always write, and so may the program; both still keep to the schema and the limit.
"""

import ntpath
import posixpath
import sys
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from pattern_acp.domain.access import Actor, WriteVerdict
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import BlockId
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.memory.diffs import Conflict
from pattern_acp.memory.edits import AddItem, AnyEdit, Append, Operation, Within
from pattern_acp.memory.schemas.types import (
    TEXT,
    BlockSchema,
    CompositeSchema,
    ListSchema,
    LogSchema,
    TextSchema,
    TreeSchema,
)


class Permission(StrEnum):
    """Rights of the agent over a block, from the least to the most."""

    READ_ONLY = "read_only"
    PARTNER = "partner"
    """Every write needs the consent of the user that the agent works with."""
    HUMAN = "human"
    """Every write needs the consent of a user."""
    APPEND = "append"
    READ_WRITE = "read_write"
    ADMIN = "admin"
    """Deleting too."""

    @property
    def rank(self) -> int:
        """0 for the least."""
        return tuple(Permission).index(self)


class WriteAction(StrEnum):
    """Effect of a write on the present content."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    DELETE = "delete"


class Isolation(StrEnum):
    """Separation of a project from the persona's memory, from the least to the most."""

    NONE = "none"
    """Both are read and written."""
    CORE_ONLY = "core-only"
    """The persona's core blocks are read; nothing of the persona is written."""
    FULL = "full"
    """No memory of the persona is read or written."""


_ASKING = frozenset({Permission.PARTNER, Permission.HUMAN})

_MAY = {
    Permission.READ_ONLY: "nobody but the user writes it",
    Permission.PARTNER: "every write needs the consent of the user",
    Permission.HUMAN: "every write needs the consent of a user",
    Permission.APPEND: "text can only be added at its end",
    Permission.READ_WRITE: "it can be written, but not deleted",
    Permission.ADMIN: "everything is allowed",
}


def judge(permission: Permission, action: WriteAction, actor: Actor = Actor.PERSONA) -> WriteVerdict:
    """True when `actor` may do `action` with a block of this permission."""
    if actor in {Actor.HUMAN, Actor.SYSTEM, Actor.IMPORT}:
        return WriteVerdict.ALLOWED
    if action is WriteAction.DELETE:
        return WriteVerdict.ALLOWED if permission is Permission.ADMIN else WriteVerdict.DENIED
    if permission in _ASKING:
        return WriteVerdict.CONSENT
    needed = Permission.APPEND if action is WriteAction.APPEND else Permission.READ_WRITE
    return WriteVerdict.ALLOWED if permission.rank >= needed.rank else WriteVerdict.DENIED


def explain_permission(permission: Permission) -> str:
    """Meaning of a permission, as the end of a sentence."""
    return f"its permission is {permission}, so {_MAY[permission]}"


def isolation_sentence(isolation: Isolation) -> str:
    """Meaning of isolation, for the user, from whom it hides nothing; "" where there is no isolation."""
    kept = {
        Isolation.NONE: "",
        Isolation.CORE_ONLY: "the agent reads the persona's core blocks here and nothing else of it, and writes none",
        Isolation.FULL: "the agent neither reads nor writes memory of the persona here",
    }[isolation]
    if not kept:
        return ""
    return f"This project is isolated (memory.isolation is {isolation}): {kept}. You see all of it."


def action_of(edit: AnyEdit, schema: BlockSchema) -> WriteAction:
    """The action of an edit. Only what is added at the end of a text, list, log or outline counts as an append."""
    if isinstance(edit, Within):
        if not isinstance(schema, CompositeSchema) or "." in edit.place:
            return WriteAction.OVERWRITE
        inner = next((part.schema for part in schema.sections if part.name == edit.place), None)
        return WriteAction.OVERWRITE if inner is None else action_of(edit.edit, inner)
    adds = isinstance(edit, Append | AddItem)
    takes_more = isinstance(schema, TextSchema | ListSchema | LogSchema | TreeSchema)
    return WriteAction.APPEND if adds and takes_more else WriteAction.OVERWRITE


def action_named(operation: Operation) -> WriteAction:
    """Action of an operation of the history: undo, redo and rollback change what is there."""
    return WriteAction.DELETE if operation is Operation.DELETE else WriteAction.OVERWRITE


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
    """The owner of a block: a persona in all projects, a project for all who work there, or what it is attached to."""

    PERSONA = "persona"
    PROJECT = "project"
    SHARED = "shared"


SHARED_OWNER = "(shared)"
"""Owner of all shared blocks. Brackets keep it apart from the names of personas and the keys of projects."""


_IN_FORK = late_pattern(r" \((fork_\w+)\)$")

_IN_FORKS = late_pattern(r"(?: \(fork_\w+\))+$")


class MemoryFork(Struct, frozen=True):
    """Forked memory that is neither merged nor discarded. What the archive had at `forked_ms` is in its sight.

    `within` is the fork that it was forked from, and merges into; None where that is no fork.
    """

    id: str
    forked_ms: int
    within: "MemoryFork | None" = None


def owner_in(owner: str, fork: str) -> str:
    """The name of an owner in a fork; without one, its own."""
    return f"{owner} ({fork})" if fork else owner


def fork_in(owner: str) -> str:
    """The id of the innermost fork that an owner's name is of; empty for none."""
    found = _IN_FORK.search(owner)
    return "" if found is None else found[1]


def owner_outside(owner: str) -> str:
    """The owner's name outside of the fork that it is of."""
    return _IN_FORK.sub("", owner)


def lasting_owner(owner: str) -> str:
    """The owner's name outside of any fork."""
    return _IN_FORKS.sub("", owner)


def shared_owner(owners: Sequence[tuple[Scope, str]]) -> str:
    """The owner of shared blocks, among these owners."""
    forks = _IN_FORKS.search(owners[0][1]) if owners else None
    return SHARED_OWNER if forks is None else f"{SHARED_OWNER}{forks[0]}"


def peer_in(owner: str, peer: int) -> int:
    """The Loro peer that writes blocks of an owner.

    A block and its copy are one document to Loro: one peer that wrote to both would give two operations the same id.
    """
    fork = fork_in(owner)
    return int(sha256_hex(f"{peer} {fork}".encode())[:16], 16) >> 1 or 1 if fork else peer


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
    """Double changes that nobody has repaired: both sides are in the text."""


PERSONA_TEXT = "I am Pattern. I work in the user's code, and I remember what they teach me."
"""First text of the persona block of the default persona."""


def default_blocks(persona: str, project: str) -> tuple[BlockSpec, ...]:
    """The blocks that a persona and a project begin with, in the order they are shown.

    `project` is a project key, see `memory.blocks.project_key`.
    """
    return (
        BlockSpec(
            BlockKey(Scope.PERSONA, persona, "persona"),
            "Who you are in every project: character, manner, what you learned about working well.",
            PERSONA_TEXT if persona == "default" else PERSONA_TEXT.replace("Pattern", persona, 1),
        ),
        BlockSpec(
            BlockKey(Scope.PERSONA, persona, "human"),
            "Who the user is in every project: name, language, role, habits, standing wishes. No guesses.",
        ),
        BlockSpec(
            BlockKey(Scope.PROJECT, project, "project"),
            "This project: how to build, test and run it, conventions, decisions, traps. Nothing that files show.",
        ),
    )


def project_key(common_dir: str | None, cwd: str) -> str:
    """The key of the project that `cwd` (absolute) is in.

    `common_dir` is git's common directory, which all worktrees of a repository share: absolute, or relative to `cwd` as
    git prints it; None outside a repository. The key of a repository with a `.git` directory is the directory that
    holds it, so that a directory keeps its memory when it becomes a repository.
    """
    place = Path(cwd) if common_dir is None else Path(cwd, common_dir)
    key = normalise_path(str(place.resolve()), sys.platform)
    if common_dir is not None and posixpath.basename(key) == ".git":
        return posixpath.dirname(key)
    return key


def normalise_path(path: str, platform: str) -> str:
    """Spell an absolute path in the one way that compares, by the rules of a `sys.platform` name.

    Slashes everywhere; case is folded where file systems ignore it by default (Windows, macOS); macOS hands names out
    in either Unicode form.
    """
    if platform == "win32":
        return ntpath.normcase(ntpath.normpath(path)).replace("\\", "/")
    plain = posixpath.normpath(path)
    if platform == "darwin":
        return unicodedata.normalize("NFC", plain).casefold()
    return plain
