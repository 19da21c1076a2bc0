"""What the person agreed to of a folder.

Owns: the rows. Must not know: how the person is asked, or the event that records a decision (the caller appends
`FolderTrustDecided` first, in the same transaction, and hands over its `seq`: rule R1).
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from pattern_acp.db.columns import integer, text
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import Transaction, storable
from pattern_acp.domain.project_parts import ProjectPart

QUERIES = load_queries("pattern_acp.trust")


class Agreement(Struct, frozen=True):
    """A folder and what of it was agreed to; `decided_ms` is milliseconds since 1970 UTC."""

    root: str
    digest: str
    parts: tuple[ProjectPart, ...]
    decided_ms: int


def load_agreement(tx: Transaction, root: str) -> Agreement | None:
    """What was agreed to of the folder `root`, an absolute path without symbolic links.

    Raises:
        DatabaseError: the file cannot be read.
    """
    row = tx.one(QUERIES["load_trust"], {"root": storable(root)})
    return Agreement(root, text(row[0]), _parts(text(row[1])), integer(row[2])) if row else None


def list_agreements(tx: Transaction) -> tuple[Agreement, ...]:
    """Every agreement, by folder.

    Raises:
        DatabaseError: the file cannot be read.
    """
    rows = tx.all(QUERIES["list_trust"])
    return tuple(Agreement(text(r[0]), text(r[1]), _parts(text(r[2])), integer(r[3])) for r in rows)


def store_agreement(
    tx: Transaction, root: str, digest: str, parts: Sequence[ProjectPart], *, seq: int, at_ms: int
) -> None:
    """Keep what was agreed to, in place of an earlier agreement.

    Raises:
        DatabaseError: the file cannot be written.
    """
    written = storable(msgspec.json.encode([_plain(part) for part in parts]).decode())
    values = {"root": storable(root), "digest": digest, "parts": written, "decided_ms": at_ms, "last_seq": seq}
    tx.execute(QUERIES["store_trust"], values)


def remove_agreement(tx: Transaction, root: str) -> None:
    """Take an agreement back; nothing happens when there is none.

    Raises:
        DatabaseError: the file cannot be written.
    """
    tx.execute(QUERIES["remove_trust"], {"root": storable(root)})


def _plain(part: ProjectPart) -> dict[str, str]:
    # JSON cannot hold a lone surrogate, which names of files may have.
    return {
        "kind": part.kind.value,
        "name": storable(part.name),
        "text": storable(part.text),
        "digest": part.digest,
    }


def _parts(stored: str) -> tuple[ProjectPart, ...]:
    return msgspec.json.decode(stored, type=tuple[ProjectPart, ...])
