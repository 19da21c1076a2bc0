"""A session as one file that others can read and check: docs/reference/journal.md describes its form.

Owns: which streams belong to it, its lines, its manifest, and what is masked. Must not know: how the conversation is
shown, or where the file goes. journal/verify_bundle.py checks what is made here.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Literal, TypeAlias, cast, get_args

from msgspec import Struct

from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Row, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.canonical import Json, JsonObject, canonical_json, sha256_hex
from pattern_acp.domain.structural_keys import TextRole, walk
from pattern_acp.journal.history import ancestors
from pattern_acp.journal.reader import stored_payload
from pattern_acp.journal.verify_bundle import BLOBS, EVENTS, FORMAT, MANIFEST
from pattern_acp.journal.writer import FIRST_PREV_HASH

Redaction: TypeAlias = Literal["none", "secrets", "content"]
"""The part that a bundle leaves out: nothing, what looks like a secret, or all that was said, read and written."""

REDACTIONS: tuple[str, ...] = get_args(Redaction)


def mask_texts(
    kind: str, payload: JsonObject, mask: Callable[[str], str], *, stays: Set[TextRole] = frozenset({TextRole.KIND})
) -> JsonObject:
    """The payload of an event of a kind with `mask` applied to every text but those whose role `stays`."""

    def leaf(role: TextRole, _: str, value: Json) -> Json:
        return value if role in stays else _masked(value, mask)

    return walk(kind, payload, leaf)


def without_content(kind: str, payload: JsonObject) -> JsonObject:
    """The payload of an event of a kind with the length of every text in its place."""
    return mask_texts(kind, payload, _length)


def _length(text: str) -> str:
    return f"[{len(text)} characters]" if text else ""


def _masked(value: Json, mask: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {key: _masked(item, mask) for key, item in value.items()}
    return [_masked(item, mask) for item in value] if isinstance(value, Sequence) else value


QUERIES = load_queries("pattern_acp.journal")

INLINE_BYTES = 8192
"""Largest payload in its line; a larger one is a file of its own."""

_PAGE = 500

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The one date of every file in a bundle, so that the same session gives the same bytes."""

Mask = Callable[[str, JsonObject], JsonObject]
"""A mask: from the payload of an event of a kind to its form in the bundle."""


class BundledStream(Struct, frozen=True):
    """The events of one stream, as their lines; `blobs` are large payloads by their hash."""

    stream: str
    lines: tuple[bytes, ...]
    head: str
    blobs: Mapping[str, bytes]
    audits: Mapping[int, Sequence[tuple[int, str]]]
    """The redactions of each event that redacted others: their numbers and new payload hashes."""


def bundled_streams(tx: Transaction, session_id: str, mask: Mask | None) -> tuple[BundledStream, ...]:
    """The streams of a session: those that it shares history with, as far as it does, and its own last.

    Raises:
        JournalError: a payload cannot be read.
    """
    shared = [(one.session_id, one.session_seq) for one in reversed(ancestors(tx, session_id))]
    return tuple(_bundled(tx, stream, upto, mask) for stream, upto in [*shared, (session_id, None)])


def make_bundle(
    session_id: str, streams: Sequence[BundledStream], pages: Mapping[str, bytes], *, redaction: str, program: str
) -> bytes:
    """The file: events, large payloads, `pages` by name, and a manifest of all hashes."""
    files: dict[str, bytes] = {EVENTS: b"".join(line + b"\n" for stream in streams for line in stream.lines)}
    for stream in streams:
        files |= {f"{BLOBS}{digest}": content for digest, content in stream.blobs.items()}
    files |= pages
    audits: dict[str, Json] = {
        str(by): [[seq, hashed] for seq, hashed in done] for stream in streams for by, done in stream.audits.items()
    }
    manifest: JsonObject = {
        "format": FORMAT,
        "format_version": 1,
        "program": program,
        "session": session_id,
        "redaction": redaction,
        "streams": [{"stream": one.stream, "events": len(one.lines), "head": one.head} for one in streams],
        "audits": audits,
        "files": {name: sha256_hex(content) for name, content in files.items()},
    }
    return _zipped({MANIFEST: json.dumps(manifest, indent=2).encode() + b"\n", **files})


def _bundled(tx: Transaction, stream: str, upto: int | None, mask: Mask | None) -> BundledStream:
    lines: list[bytes] = []
    blobs: dict[str, bytes] = {}
    audits: dict[int, Sequence[tuple[int, str]]] = {}
    head = FIRST_PREV_HASH
    for row in _rows(tx, stream):
        if upto is not None and integer(row[1]) > upto:
            break
        line, stored = _line(stream, row, mask)
        if len(stored) > INLINE_BYTES:
            blobs[sha256_hex(stored)] = stored
        lines.append(canonical_json(line))
        head = text(row[10])
        if row[2] in {"events_redacted", "block_forgotten"}:
            by = integer(row[0])
            done = tx.all(QUERIES["redactions_of"], {"last_seq": by})
            audits[by] = [(integer(seq), text(hashed)) for seq, hashed in done]
    return BundledStream(stream, tuple(lines), head, blobs, audits)


def _line(stream: str, row: Row, mask: Mask | None) -> tuple[JsonObject, bytes]:
    """The line of an event, and its payload where that is a file of its own, else nothing."""
    stored = stored_payload(row[6], row[13], row[14])
    names = ("seq", "session_seq", "kind", "actor", "origin", "item")
    line: dict[str, Json] = {"stream": stream, **{name: _cell(row[at]) for at, name in enumerate(names)}}
    line |= {"payload_hash": text(row[8]), "prev_hash": text(row[9]), "hash": text(row[10])}
    line |= {"at_ms": integer(row[15]), "version": integer(row[16]), "chain": integer(row[18])}
    payload = cast("JsonObject", json.loads(stored.decode("utf-8", "surrogatepass")))
    shown = payload if mask is None else mask(text(row[2]), payload)
    if shown != payload:
        # Without the salt, which would let anybody try out what stood there.
        return line | {"masked": True, "payload": shown}, b""
    line["salt"] = text(row[17])
    if row[11] is not None:
        line["redacted"] = {"payload_hash": text(row[11]), "by": integer(row[12])}
    if len(stored) > INLINE_BYTES:
        return line | {"blob": sha256_hex(stored)}, stored
    return line | {"payload": payload}, b""


def _rows(tx: Transaction, stream: str) -> Iterator[Row]:
    after = 0
    while rows := tx.all(QUERIES["read_chain"], {"stream": stream, "after": after, "limit": _PAGE}):
        yield from rows
        after = integer(rows[-1][1])


def _cell(value: object) -> Json:
    return value if isinstance(value, int) else str(value)


def _zipped(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o600 << 16
            bundle.writestr(info, content)
    return buffer.getvalue()
