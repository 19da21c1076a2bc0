"""One block's Loro document. With `memory/containers.py`, which it alone calls, it imports loro for all of memory.

Owns: loading, editing, merging and exporting a document, and turning loro's errors into ours. Must not know: SQL,
limits, labels beyond the name that an error gives.

Facts it rests on, measured with loro 1.17.1:
- nearly every failure is a bare `BaseException`, which `except Exception` does not catch, and a Rust panic is a
  `pyo3_runtime.PanicException`; both are converted here and never leave.
- `LoroText.update` compares characters and can hold the GIL for seconds; `update_by_line` does the same work in
  milliseconds. Only the latter is used, besides insert and delete.
- an update whose predecessors are missing is parked without an error; `ImportStatus.pending` has to be read.
- frontiers have no equality; their encoded form is sorted and so compares.
- it takes 6 MB, and a turn that changes no memory needs no document, so it is imported with the first one; a new home
  begins with blocks whose documents are ready as bytes (`create_document`).
"""

import json
from collections.abc import Callable, Generator, Iterator, Sequence, Set
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypedDict, cast

from msgspec import Struct

from pattern_acp.domain.errors import BlockError
from pattern_acp.memory.blocks import PERSONA_TEXT
from pattern_acp.memory.containers import perform, read_content, set_lines
from pattern_acp.memory.edits import PlannedEdit, Splice
from pattern_acp.memory.errors import BlockCorruptError, DocumentError
from pattern_acp.memory.schemas.forms import first_content, read, show, steps_between
from pattern_acp.memory.schemas.steps import Step
from pattern_acp.memory.schemas.types import TEXT, BlockSchema, State, TextSchema

if TYPE_CHECKING:
    import loro

_TEXT = "text"
"""Name of the root container that holds the block's text."""

EMPTY_FRONTIERS = b"\x00"
"""Encoded frontiers of a document without any change."""

CharacterId: TypeAlias = tuple[int, int]
"""The peer that inserted a character, and the number of that insertion among all operations of the peer."""

Spans: TypeAlias = Callable[[str], Sequence[tuple[int, int]]]
"""Finds places in a text: their starts and ends."""

_ROOT, _TEXT_END = "cid:root-", ":Text"
"""Around the name of a text in the id of its container."""

_OUT = "\ufffd"
"""Instead of a character that was taken out of a change."""


PREPARED_PEER = 100
"""The peer that wrote the documents that are prepared. It never writes anything else."""

_PREPARED = {
    "": (b"loro" + bytes(12) + b"X|{\xe2\x00\x04", EMPTY_FRONTIERS),
    PERSONA_TEXT: (
        b"loro" + bytes(12) + b"yd\x96O\x00\x04\x87\x01\x00K\x00K\x01\x10\x01d" + bytes(7) + b"\x01\x01" + bytes(5) +
        b"\x05\x01\x00\x00\x01\x00\x06\x01\x04\x01\x02\x00\x00\x05\x04text\x00\x0e\x01\x04\x02\x01\x00\x02\x01\x00\x02"
        b"\x01\x05\x02\x01K\x00LK" + PERSONA_TEXT.encode(),
        b"\x01d\x94\x01",
    ),
}  # fmt: skip
"""Update and frontiers of documents that say these texts, as loro exports them for `PREPARED_PEER`."""


class _Change(TypedDict):
    id: str
    ops: list["_Operation"]


class _Operation(TypedDict):
    container: str
    content: dict[str, object]
    counter: int


class _Changes(TypedDict):
    """The parts of loro's JSON of changes that are read."""

    peers: list[str]
    changes: list[_Change]


class BlockDocument:
    """A document with history, of the content that its schema says.

    Not shared between threads; made, used and dropped inside one transaction.

    `peer` is the Loro peer of this process start: two processes with one peer would diverge silently, and a new peer a
    write would make documents twice as large and writes slower.
    """

    __slots__ = ("_document", "_name", "_shown", "_text", "schema")

    def __init__(self, name: str, peer: int, schema: BlockSchema = TEXT) -> None:
        """An empty document; `name` is what errors call it."""
        import loro

        self._name = name
        self.schema = schema
        """The schema it is read by; one of the same containers may be put here, such as one that shows all of a log."""
        self._shown: tuple[BlockSchema, str] | None = None
        """The text by a schema, until the next change: a log or a tree takes a while to write out."""
        with _refusals(name):
            self._document = loro.LoroDoc()
            self._document.peer_id = peer
            self._text = self._document.get_text(_TEXT)

    @classmethod
    def create(cls, name: str, text: str, *, peer: int, schema: BlockSchema = TEXT) -> "BlockDocument":
        """A document whose first change is `text`, with the schema's defaults for what it leaves out.

        Raises:
            ContentError: the text is not one of the schema.
            DocumentError: loro refused.
        """
        document = cls(name, peer, schema)
        if not isinstance(schema, TextSchema):
            document.apply(steps_between(schema, document.content, first_content(schema, text)))
            return document
        with _refusals(name):
            document._text.insert(0, text)
            document._document.commit()
        return document

    @classmethod
    def load(cls, name: str, parts: Sequence[bytes], *, peer: int, schema: BlockSchema = TEXT) -> "BlockDocument":
        """A document from a snapshot and the updates after it, or from all updates.

        Raises:
            BlockCorruptError: a part is damaged, or one that the others build on is missing.
        """
        document = cls(name, peer, schema)
        for part in parts[:1]:
            document.merge(part)
        # At once: each import on its own costs as much as the text has pieces, which in a text of many writers is a
        # lot.
        if len(parts) > 1:
            with _damage(name):
                status = document._document.import_batch(list(parts[1:]))
            _refuse_pending(name, status)
        return document

    @property
    def text(self) -> str:
        """The present text."""
        if self._shown is None or self._shown[0] is not self.schema:
            with _refusals(self._name):
                self._shown = self.schema, _shown(self._document, self.schema)
        return self._shown[1]

    @property
    def content(self) -> State:
        """The present content."""
        with _refusals(self._name):
            return read_content(self._document, self.schema)

    @property
    def is_text(self) -> bool:
        """True when it is free text, so that places in the text mean something."""
        return isinstance(self.schema, TextSchema)

    @property
    def frontiers(self) -> bytes:
        """The version of the document now, encoded; equal bytes are equal versions."""
        with _refusals(self._name):
            return self._document.oplog_frontiers.encode()

    @property
    def peer(self) -> int:
        """The peer that its changes are of."""
        with _refusals(self._name):
            return self._document.peer_id

    def apply(self, planned: PlannedEdit | Sequence[Step]) -> None:
        """Make the edit, or the steps, one change of this peer.

        Raises:
            ContentError: the text is not one of the schema.
            DocumentError: it was planned for another content.
        """
        if isinstance(planned, PlannedEdit) and not self.is_text:
            # The edit is of what the content reads as.
            planned = steps_between(self.schema, self.content, read(self.schema, planned.text))
        self._shown = None
        with _refusals(self._name):
            if not isinstance(planned, PlannedEdit):
                perform(self._document, planned)
            elif planned.splices is None:
                set_lines(self._text, planned.text)
            else:
                # From the end, so that the places of those before stay right.
                for splice in reversed(planned.splices):
                    self._text.delete(splice.at, splice.removed)
                    self._text.insert(splice.at, splice.inserted)
            self._document.commit()

    def merge(self, update: bytes) -> None:
        """Take in an update or a snapshot; the order of updates that do not build on each other is free.

        Raises:
            BlockCorruptError: it is damaged, or builds on a change that this document does not have.
        """
        self._shown = None
        with _damage(self._name):
            status = self._document.import_(update)
        _refuse_pending(self._name, status)

    def merge_from_elsewhere(self, update: bytes) -> None:
        """Take in an update, or a snapshot of a document from which words may have been taken out.

        Raises:
            BlockCorruptError: see `merge`.
        """
        with _damage(self._name):
            update = new_in(self._document, update)
        self.merge(update)

    def merge_watched(self, update: bytes) -> tuple[Splice, ...]:
        """Take in an update as `merge` does, and tell what it changed in the text.

        Raises:
            BlockCorruptError: see `merge`.
        """
        seen: list[loro.DiffEvent] = []
        with _refusals(self._name):
            # A callback that raises is a panic in loro, so this one only keeps what it gets.
            subscription = self._document.subscribe_root(seen.append)
        try:
            self.merge(update)
        finally:
            with _refusals(self._name):
                subscription.unsubscribe()
        return tuple(splice for event in seen for part in event.events for splice in _splices(part.diff))

    def character_ids(self) -> list[CharacterId]:
        """The origin of each character of the text, in order."""
        import loro

        with _refusals(self._name):
            cursors = (self._text.get_cursor(at, loro.Side.Middle) for at in range(self._text.len_unicode))
            ids = [None if cursor is None else cursor.id for cursor in cursors]
            return [(0, 0) if one is None else (one.peer, one.counter) for one in ids]

    def export_update(self, since: bytes) -> bytes:
        """Everything after version `since`, as an update.

        Raises:
            DocumentError: the document never had this version.
        """
        import loro

        with _refusals(self._name):
            version = self._document.frontiers_to_vv(loro.Frontiers.decode(since))
            if version is None:
                raise DocumentError(self._name, "it never had the version asked for")
            return self._document.export(loro.ExportMode.Updates(version))

    def shallow_snapshot(self) -> bytes:
        """The state now without the history before it: what later updates are loaded onto."""
        import loro

        with _refusals(self._name):
            return self._document.export(loro.ExportMode.ShallowSnapshot(self._document.oplog_frontiers))

    def full_snapshot(self) -> bytes:
        """The state now with all history that the document holds."""
        import loro

        with _refusals(self._name):
            return self._document.export(loro.ExportMode.Snapshot())

    def without_words(
        self, versions: Sequence[bytes], spans: Spans, mask: Callable[[str], str]
    ) -> "BlockDocument | None":
        """The same document with the same changes under the same ids, of which none brings the words any more.

        `versions` are those to look for them in, besides the changes themselves; `spans` finds the words in a text. In
        place of characters that brought them are others, so documents with and without the words merge. What is in the
        text now stays. None where this document does not hold all of its history.

        Raises:
            DocumentError: a version is unknown, or loro refused.
        """
        import loro

        with _refusals(self._name):
            document = self._document
            if document.is_shallow():
                return None
            changes = cast(
                "_Changes", json.loads(document.export_json_updates(loro.VersionVector(), document.oplog_vv))
            )
            texts = [document.get_text(name) for name in _names_of_texts(changes)]
            gone = set[CharacterId]()
            for version in versions:
                document.checkout(loro.Frontiers.decode(version))
                for text in texts:
                    gone.update(_characters(text, spans(text.to_string())))
            document.checkout_to_latest()
            here = {one for text in texts for one in _characters(text, [(0, text.len_unicode)])}
            _mask_changes(changes, gone - here, here, spans, mask)
            made = BlockDocument(self._name, self.peer, self.schema)
            made._document.import_json_updates(json.dumps(changes, ensure_ascii=False))
        is_same = made.text == self.text and made.frontiers == self.frontiers
        return made if is_same else None

    def text_at(self, frontiers: bytes) -> str:
        """The text as it read at a version; the document must hold the history back to it.

        Raises:
            DocumentError: the version is unknown, or lies before the snapshot that the document was loaded from.
        """
        import loro

        with _refusals(self._name):
            # Not fork_at, which documents of a shallow snapshot refuse.
            self._document.checkout(loro.Frontiers.decode(frontiers))
            text = _shown(self._document, self.schema)
            self._document.checkout_to_latest()
            return text


class CreatedDocument(Struct, frozen=True):
    """Rows of a new document: its text, the change that brings it, that change's peer, and what later ones build on."""

    text: str
    update: bytes
    peer: int
    frontiers: bytes
    base: bytes
    archive: bytes


def create_document(name: str, text: str, *, peer: int, schema: BlockSchema = TEXT) -> CreatedDocument:
    """Create a document whose first change is `text`; the texts that every home begins with need no loro.

    Raises:
        ContentError: the text is not one of the schema.
        DocumentError: loro refused.
    """
    prepared = _PREPARED.get(text) if isinstance(schema, TextSchema) else None
    if prepared is not None:
        update, frontiers = prepared
        # One change is all of the history, so it is the base, too.
        return CreatedDocument(text, update, PREPARED_PEER, frontiers, base=update, archive=update)
    document = BlockDocument.create(name, text, peer=peer, schema=schema)
    return CreatedDocument(
        document.text,
        document.export_update(EMPTY_FRONTIERS),
        peer,
        document.frontiers,
        base=document.shallow_snapshot(),
        archive=document.full_snapshot(),
    )


def text_of_snapshot(name: str, snapshot: bytes) -> str:
    """Return what a document of another program says: its texts, and other content as JSON.

    Raises:
        BlockCorruptError: it is damaged.
    """
    import loro

    with _damage(name):
        document = loro.LoroDoc()
        document.import_(snapshot)
        content = cast("dict[str, object]", document.get_deep_value())
    return "\n\n".join(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        for _, value in sorted(content.items())
        if value
    )


def new_in(document: "loro.LoroDoc", update: bytes) -> bytes:
    """The part of an update, which may be a snapshot, that a document lacks.

    Loro refuses a snapshot that says something else under an id that it knows, such as one without words.
    """
    import loro

    mode = loro.LoroDoc.decode_import_blob_meta(update, check_checksum=True).mode
    if mode != loro.EncodedBlobMode.Snapshot:
        return update
    other = loro.LoroDoc()
    other.import_(update)
    return other.export(loro.ExportMode.Updates(document.oplog_vv))


def update_between(name: str, snapshot: bytes, before: bytes, after: bytes) -> bytes:
    """The changes between two versions, as an update, from a snapshot of a document that holds both.

    Raises:
        DocumentError: it does not.
    """
    import loro

    with _refusals(name):
        document = loro.LoroDoc()
        document.import_(snapshot)
        version = document.frontiers_to_vv(loro.Frontiers.decode(before))
        if version is None:
            raise DocumentError(name, "it never had the version asked for")
        return document.fork_at(loro.Frontiers.decode(after)).export(loro.ExportMode.Updates(version))


def last_operations(name: str, frontiers: bytes) -> tuple[CharacterId, ...]:
    """The newest operations of a version, peer and number of each: one, or several that were made side by side.

    loro gives no way to look into frontiers, so their encoded form is read (a count, then each operation's peer and
    number as variable-length integers, the number in zigzag form) and checked by encoding it again.

    Raises:
        DocumentError: these are no frontiers.
    """
    import loro

    numbers = _read_numbers(frontiers)
    found = tuple((peer, number >> 1) for peer, number in zip(numbers[1::2], numbers[2::2], strict=False))
    with _refusals(name):
        again = loro.Frontiers.from_ids([loro.ID(*one) for one in found]).encode()
    if again != frontiers:
        raise DocumentError(name, "its stored version has a form that is not known")
    return found


def _refuse_pending(name: str, status: "loro.ImportStatus") -> None:
    if status.pending is not None:
        raise BlockCorruptError(name, "a change is missing that later ones build on")


def _shown(document: "loro.LoroDoc", schema: BlockSchema) -> str:
    if isinstance(schema, TextSchema):
        return document.get_text(_TEXT).to_string()
    return show(schema, read_content(document, schema))


def _names_of_texts(changes: _Changes) -> list[str]:
    """The names of all texts that changes are in."""
    containers = (operation["container"] for change in changes["changes"] for operation in change["ops"])
    return sorted({one[len(_ROOT) : -len(_TEXT_END)] for one in containers if one.endswith(_TEXT_END)})


def _characters(text: "loro.LoroText", spans: Sequence[tuple[int, int]]) -> Iterator[CharacterId]:
    """The ids of the characters in places of a text."""
    import loro

    for start, end in spans:
        for at in range(start, end):
            cursor = text.get_cursor(at, loro.Side.Middle)
            if cursor is not None and cursor.id is not None:
                yield cursor.id.peer, cursor.id.counter


def _mask_changes(
    changes: _Changes, gone: Set[CharacterId], here: Set[CharacterId], spans: Spans, mask: Callable[[str], str]
) -> None:
    """Take out of changes the characters that are `gone`, and words in what they bring, unless it is still `here`."""
    peers = [int(peer) for peer in changes["peers"]]
    for change in changes["changes"]:
        peer = peers[int(change["id"].partition("@")[2])]
        for operation in change["ops"]:
            content = operation["content"]
            if isinstance(text := content.get("text"), str):
                ids = [(peer, operation["counter"] + at) for at in range(len(text))]
                found = {ids[at] for start, end in spans(text) for at in range(start, end)} - here
                is_out = found | gone
                content["text"] = "".join(_OUT if one in is_out else sign for one, sign in zip(ids, text, strict=True))
            elif "value" in content:
                content["value"] = _masked(content["value"], mask)


def _masked(value: object, mask: Callable[[str], str]) -> object:
    match value:
        case str():
            return mask(value)
        case list():
            return [_masked(item, mask) for item in cast("list[object]", value)]
        case dict():
            return {key: _masked(item, mask) for key, item in cast("dict[str, object]", value).items()}
        case _:
            return value


def _read_numbers(encoded: bytes) -> list[int]:
    numbers, value, shift = list[int](), 0, 0
    for byte in encoded:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value = shift = 0
    return numbers


def _splices(diff: "loro.Diff") -> Generator[Splice, None, None]:
    """A change of the text as splices whose places are those in the text before."""
    import loro

    if not isinstance(diff, loro.Diff.Text):
        return
    at = removed = 0
    inserted = ""
    # loro's own annotations leave the variants of a delta open.
    for delta in cast("list[object]", diff.diff):
        match delta:
            case loro.TextDelta.Delete():
                removed += delta.delete
            case loro.TextDelta.Insert():
                inserted += delta.insert
            case loro.TextDelta.Retain():
                if removed or inserted:
                    yield Splice(at, removed, inserted)
                at += removed + delta.retain
                removed, inserted = 0, ""
            case _:
                pass
    if removed or inserted:
        yield Splice(at, removed, inserted)


@contextmanager
def _converted(to: Callable[[str, str], BlockError], name: str) -> Generator[None, None, None]:
    """Convert loro's errors."""
    try:
        yield
    except BaseException as error:
        if is_from_loro(error):
            raise to(name, str(error)) from error
        raise


_refusals = partial(_converted, DocumentError)
"""Conversion where the stored bytes are not at fault."""

_damage = partial(_converted, BlockCorruptError)
"""Conversion where bytes are read."""


def is_from_loro(error: BaseException) -> bool:
    """True for what loro raises: a bare `BaseException` or a panic of Rust."""
    # Exactly these two: a subclass is someone else's, such as cancellation or an interrupt.
    kind = type(error)
    return kind is BaseException or (kind.__module__, kind.__qualname__) == ("pyo3_runtime", "PanicException")
