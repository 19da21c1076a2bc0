"""The hash that links the events of a stream.

Owns: what each hash is taken over. Must not know: SQL. A stranger can check a journal with this page alone:
`payload_hash` is the SHA-256 of the payload's canonical JSON, and `hash` the SHA-256 of the canonical JSON of the list
`[prev_hash, payload_hash, kind, actor, origin, item, session_seq]`.
"""

from pattern_acp.domain.canonical import canonical_json, sha256_hex
from pattern_acp.domain.lazy_dataclass import dataclass

FIRST_PREV_HASH = "0" * 64
"""What the first event of a stream has as `prev_hash`."""


@dataclass(frozen=True, slots=True)
class Link:
    """What the hash of one event covers."""

    prev_hash: str
    payload_hash: str
    kind: str
    actor: str
    origin: str
    item: str
    session_seq: int

    @property
    def hash(self) -> str:
        """The hash that the next event names as its `prev_hash`, 64 hexadecimal digits."""
        return sha256_hex(
            canonical_json(
                [self.prev_hash, self.payload_hash, self.kind, self.actor, self.origin, self.item, self.session_seq]
            )
        )
