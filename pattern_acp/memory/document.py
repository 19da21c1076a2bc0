"""One block's Loro document. The only module that imports loro.

Owns: loading, editing, merging and exporting a document, and turning loro's errors into ours. Must not know: SQL,
limits, labels beyond the name that an error gives.

Facts it rests on, measured with loro 1.17.1:
- nearly every failure is a bare `BaseException`, which `except Exception` does not catch, and a Rust panic is a
  `pyo3_runtime.PanicException`; both are converted here and never leave.
- `LoroText.update` compares characters and can hold the GIL for seconds; `update_by_line` does the same work in
  milliseconds. Only the latter is used, besides insert and delete.
- an update whose predecessors are missing is parked without an error; `ImportStatus.pending` has to be read.
- frontiers have no equality; their encoded form is sorted and so compares.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import loro

from pattern_acp.memory.edits import PlannedEdit
from pattern_acp.memory.errors import BlockCorruptError, DocumentError

_TEXT = "text"
"""Name of the root container that holds the block's text."""

EMPTY_FRONTIERS = b"\x00"
"""Encoded frontiers of a document without any change."""


class BlockDocument:
    """A text document with history. Not shared between threads; made, used and dropped inside one transaction.

    `peer` is the Loro peer of this process start: two processes with one peer would diverge silently, and a new peer a
    write would make documents twice as large and writes slower.
    """

    __slots__ = ("_document", "_name", "_text")

    def __init__(self, name: str, peer: int) -> None:
        """An empty document; `name` is what errors call it."""
        self._name = name
        with _refusals(name):
            self._document = loro.LoroDoc()
            self._document.peer_id = peer
            self._text = self._document.get_text(_TEXT)

    @classmethod
    def create(cls, name: str, text: str, *, peer: int) -> "BlockDocument":
        """A document whose first change is `text`.

        Raises:
            DocumentError: loro refused.
        """
        document = cls(name, peer)
        with _refusals(name):
            document._text.insert(0, text)
            document._document.commit()
        return document

    @classmethod
    def load(cls, name: str, parts: Sequence[bytes], *, peer: int) -> "BlockDocument":
        """A document from a snapshot and the updates after it, or from all updates.

        Raises:
            BlockCorruptError: a part is damaged, or one that the others build on is missing.
        """
        document = cls(name, peer)
        for part in parts:
            document.merge(part)
        return document

    @property
    def text(self) -> str:
        """The text as it reads now."""
        with _refusals(self._name):
            return self._text.to_string()

    @property
    def frontiers(self) -> bytes:
        """The version of the document now, encoded; equal bytes are equal versions."""
        with _refusals(self._name):
            return self._document.oplog_frontiers.encode()

    def apply(self, planned: PlannedEdit) -> None:
        """Make the edit one change of this peer.

        Raises:
            DocumentError: the edit was planned for another text.
        """
        splice = planned.splice
        with _refusals(self._name):
            if splice is None:
                self._text.update_by_line(planned.text)
            else:
                self._text.delete(splice.at, splice.removed)
                self._text.insert(splice.at, splice.inserted)
            self._document.commit()

    def merge(self, update: bytes) -> None:
        """Take in an update or a snapshot; the order of updates that do not build on each other is free.

        Raises:
            BlockCorruptError: it is damaged, or builds on a change that this document does not have.
        """
        with _damage(self._name):
            status = self._document.import_(update)
        if status.pending is not None:
            raise BlockCorruptError(self._name, "a change is missing that later ones build on")

    def export_update(self, since: bytes) -> bytes:
        """Everything after version `since`, as an update.

        Raises:
            DocumentError: the document never had this version.
        """
        with _refusals(self._name):
            version = self._document.frontiers_to_vv(loro.Frontiers.decode(since))
            if version is None:
                raise DocumentError(self._name, "it never had the version asked for")
            return self._document.export(loro.ExportMode.Updates(version))

    def shallow_snapshot(self) -> bytes:
        """The state now without the history before it: what later updates are loaded onto."""
        with _refusals(self._name):
            return self._document.export(loro.ExportMode.ShallowSnapshot(self._document.oplog_frontiers))

    def full_snapshot(self) -> bytes:
        """The state now with all history that the document holds."""
        with _refusals(self._name):
            return self._document.export(loro.ExportMode.Snapshot())

    def text_at(self, frontiers: bytes) -> str:
        """The text as it read at a version; the document must hold the history back to it.

        Raises:
            DocumentError: the version is unknown, or the document was loaded from a shallow snapshot.
        """
        with _refusals(self._name):
            past = self._document.fork_at(loro.Frontiers.decode(frontiers))
            return past.get_text(_TEXT).to_string()


@contextmanager
def _refusals(name: str) -> Generator[None, None, None]:
    """Convert loro's errors where the stored bytes are not at fault."""
    try:
        yield
    except BaseException as error:
        if _is_from_loro(error):
            raise DocumentError(name, str(error)) from error
        raise


@contextmanager
def _damage(name: str) -> Generator[None, None, None]:
    """Convert loro's errors where bytes are read."""
    try:
        yield
    except BaseException as error:
        if _is_from_loro(error):
            raise BlockCorruptError(name, str(error)) from error
        raise


def _is_from_loro(error: BaseException) -> bool:
    # Exactly these two: a subclass is someone else's, such as cancellation or an interrupt.
    kind = type(error)
    return kind is BaseException or (kind.__module__, kind.__qualname__) == ("pyo3_runtime", "PanicException")
