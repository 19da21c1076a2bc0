"""The types of blocks, the names of their owners, and the blocks that every persona and project begins with.

Owns: the types of blocks at rest, and which directories are the same project. Must not know: Loro, SQL, search.
"""

import ntpath
import posixpath
import re
import sys
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import BlockId
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
    """The owner of a block: a persona in all projects, a project for all who work there, or what it is attached to."""

    PERSONA = "persona"
    PROJECT = "project"
    SHARED = "shared"


SHARED_OWNER = "(shared)"
"""Owner of all shared blocks. Brackets keep it apart from the names of personas and the keys of projects."""


_IN_FORK = re.compile(r" \((fork_\w+)\)$")

_IN_FORKS = re.compile(r"(?: \(fork_\w+\))+$")


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

    `project` is a project key, see `memory.project.project_key`.
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
