"""The hash that links the events of a stream.

Owns: what each hash is taken over. Must not know: SQL. A stranger can check a journal with this page alone:

- `payload_hash` is the SHA-256 of the event's salt, as it is written, followed by the payload's canonical JSON. A salt
  is 32 random hexadecimal digits. A redaction takes it away with the payload, so that nobody can find out by guessing
  what a short payload was. Events from before schema version 13 have an empty one.
- `hash` is the SHA-256 of the canonical JSON of a list. In form 1, the older one, it is
  `[prev_hash, payload_hash, kind, actor, origin, item, session_seq]`; form 2 appends `version, at_ms, stream, 2`.
"""

from msgspec import Struct

from pattern_acp.domain.canonical import Json, canonical_json, sha256_hex

FIRST_PREV_HASH = "0" * 64
"""The `prev_hash` of the first event of a stream."""

FORM = 2
"""The form of the hash that new events get."""


class Link(Struct, frozen=True):
    """The fields that the hash of one event covers."""

    prev_hash: str
    payload_hash: str
    kind: str
    actor: str
    origin: str
    item: str
    session_seq: int
    version: int = 1
    at_ms: int = 0
    stream: str = ""
    form: int = FORM

    @property
    def hash(self) -> str:
        """The hash that the next event names as its `prev_hash`, 64 hexadecimal digits."""
        covered: list[Json] = [
            self.prev_hash,
            self.payload_hash,
            self.kind,
            self.actor,
            self.origin,
            self.item,
            self.session_seq,
        ]
        if self.form != 1:
            covered += [self.version, self.at_ms, self.stream, self.form]
        return sha256_hex(canonical_json(covered))


def salted_hash(salt: str, canonical: bytes) -> str:
    """The `payload_hash` of a payload in its canonical form."""
    return sha256_hex(salt.encode("ascii") + canonical)
