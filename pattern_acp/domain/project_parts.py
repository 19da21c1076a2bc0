"""Parts of a project's folder, or of a bundle, that could run something.

Owns: names of parts, and what differs from an older state of the same part. Must not know: where parts are found, or
who trusts them.
"""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from pattern_acp.domain.canonical import canonical_json, sha256_hex


class PartKind(StrEnum):
    """Kinds of parts, in the words that the user reads."""

    HOOK = "hook"
    SERVER = "MCP server"
    CHECK = "check"
    COMMAND = "command"
    SKILL = "skill"
    GROUP = "group"
    LANGUAGE_SERVER = "language server"
    PERSONA = "persona"
    FILE = "file"


class ProjectPart(Struct, frozen=True):
    """One hook, server, check, command, skill, group or language server of a project; of a bundle a persona or file.

    `text` is what the user is shown of it: never a value that may be a key. `digest` is the SHA-256 of all of it, so
    that a change behind the text counts too.
    """

    kind: PartKind
    name: str
    text: str
    digest: str


def digest_of_parts(parts: Iterable[ProjectPart]) -> str:
    """One SHA-256 over parts, in whatever order they were found; the text counts, since it is what was agreed to."""
    listed = sorted((part.kind.value, part.name, part.text, part.digest) for part in parts)
    return sha256_hex(canonical_json([list(item) for item in listed]))
