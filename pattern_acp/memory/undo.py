"""Taking back one write and keeping later ones, going back to a version, and merging an edit of an older version.

Owns: which write an undo or redo means, when it cannot be done, and the change that it is. Must not know: SQL, events.

An undo is a new write that reverts another. A write counts while no counting write reverts it, so that an undo of an
undo is a redo, however long the chain. What a write changed is followed through all later writes; when those took away
text that it brought, or both neighbours of the place where it took text out, it is a conflict and nothing is changed.
The result is a change of the newest version, so it never depends on history that the stored base has not.
"""

import difflib
from collections.abc import Sequence

from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.memory.document import BlockDocument
from pattern_acp.memory.edits import BlockEdit, Operation, Patch, PlannedEdit, Rewrite, Splice, storable_text
from pattern_acp.memory.errors import UndoConflictError, UnusableEditError
from pattern_acp.memory.history import StoredHistory, changes_from, document_at, text_of_version

_REVERTING = (Operation.UNDO.value, Operation.REDO.value)

_NEVER_REVERTED = {
    Operation.CREATE.value: "it made the block; delete the block instead.",
    Operation.DELETE.value: "it deleted the block; restore the block instead.",
    Operation.RESTORE.value: "it restored the block; delete the block instead.",
    Operation.FORGET.value: "what is forgotten is gone.",
}

_MERGING_PEER = 2
"""Peer of documents that only work out a merge. Small, so that its place beside other peers is always the same."""

_SHOWN_CONFLICTS = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """A change worked out from a history whose newest write is `head`.

    `target` is the write that it reverts or the version it goes back to. `conflicts` are lines that were changed here
    and there: both forms are kept, for a person to choose.
    """

    edit: BlockEdit
    head: int
    target: int | None = None
    conflicts: tuple[str, ...] = ()


def plan_undo(history: StoredHistory, number: int | None = None) -> Plan:
    """Take back write `number`, or the newest that still counts.

    Raises:
        UnusableEditError: there is nothing to undo.
        UndoConflictError: the write cannot be taken back, and why.
        VersionError: there is no such write, or its words were forgotten.
        BlockCorruptError: the history is damaged.
    """
    chain = _Chain(history)
    if number is None:
        candidates = (
            write.number
            for write in reversed(history.writes[history.history_from :])
            if write.operation not in {*_REVERTING, *_NEVER_REVERTED} and chain.counts(write.number)
        )
        number = next(candidates, None)
        if number is None:
            raise UnusableEditError(history.label, "there is nothing to undo.")
    return _plan_revert(history, chain, number)


def plan_redo(history: StoredHistory, number: int | None = None) -> Plan:
    """Take back undo `number`, or the newest that still counts.

    Raises:
        UnusableEditError: there is nothing to redo, or the write is no undo.
        UndoConflictError: see `plan_undo`.
        VersionError: see `plan_undo`.
        BlockCorruptError: see `plan_undo`.
    """
    chain = _Chain(history)
    if number is None:
        undone = (
            write.number
            for write in reversed(history.writes[history.history_from :])
            if write.operation == Operation.UNDO.value and chain.counts(write.number)
        )
        number = next(undone, None)
        if number is None:
            raise UnusableEditError(history.label, "there is nothing to redo.")
    elif history.write(number).operation != Operation.UNDO.value:
        raise UnusableEditError(history.label, f"write {number} is no undo; give the number of one, or none.")
    return _plan_revert(history, chain, number)


def plan_rollback(history: StoredHistory, number: int) -> Plan:
    """Make the block read as write `number` left it, as a new change.

    Raises:
        VersionError: there is no such version, or its words were forgotten.
        BlockCorruptError: the history is damaged.
    """
    return Plan(Rewrite(text_of_version(history, number), Operation.ROLLBACK), history.head, target=number)


def plan_merge(history: StoredHistory, opened: int, text: str) -> Plan:
    """Change the block as an edit of version `opened` to `text` does, keeping what was written since.

    Raises:
        UnusableEditError: the text holds characters that cannot be stored.
        VersionError: there is no such version, or its words were forgotten.
        BlockCorruptError: the history is damaged.
    """
    wanted = storable_text(text, label=history.label)
    before = text_of_version(history, opened)
    if before == history.text:
        return Plan(Rewrite(wanted, Operation.EDIT), history.head)
    past = document_at(history, opened)
    edited = BlockDocument.load(history.label, [past.full_snapshot()], peer=_MERGING_PEER)
    edited.apply(PlannedEdit(Operation.EDIT, wanted, None))
    edit = edited.export_update(past.frontiers)
    splices = document_at(history, history.head).merge_watched(edit)
    conflicts = _lines_changed_twice(before, wanted, history.text)
    return Plan(Patch(Operation.EDIT, splices), history.head, conflicts=conflicts)


class _Chain:
    """Which writes count: those that no counting write reverts."""

    def __init__(self, history: StoredHistory) -> None:
        self._reverted_by: dict[int, list[int]] = {}
        for write in history.writes:
            if write.operation in _REVERTING and write.target is not None:
                self._reverted_by.setdefault(write.target, []).append(write.number)

    def counts(self, number: int) -> bool:
        """Whether the write is in effect. A write is reverted by later ones only, so this ends."""
        return not any(self.counts(later) for later in self._reverted_by.get(number, ()))

    def counting_reverter(self, number: int) -> int | None:
        """The write in effect that reverts this one."""
        return next((later for later in self._reverted_by.get(number, ()) if self.counts(later)), None)

    def bearer(self, number: int) -> int:
        """The write whose characters carry what `number` did: itself, or the last that brought it back."""
        while reverters := self._reverted_by.get(number):
            number = self._reverted_by[reverters[-1]][-1]
        return number


def _plan_revert(history: StoredHistory, chain: _Chain, number: int) -> Plan:
    operation = history.write(number).operation
    if number < history.history_from or operation in _NEVER_REVERTED:
        problem = _NEVER_REVERTED.get(operation, "its words were forgotten.")
        raise UndoConflictError(history.label, number, problem)
    if (reverter := chain.counting_reverter(number)) is not None:
        remedy = f"write {reverter} did that already; undo that one to have it back."
        raise UndoConflictError(history.label, number, remedy)
    target = chain.bearer(number)
    redo = history.write(target).operation == Operation.UNDO.value
    splices = _inverse(history, target, number)
    return Plan(Patch(Operation.REDO if redo else Operation.UNDO, splices), history.head, target)


@dataclass(slots=True)
class _Hunk:
    """One place that a write changed, followed through later writes.

    `pieces` are the ranges where the text that it brought is now, `removed` what it took out. `left` and `right` are
    where the characters beside the place are now: None once they are gone, and an empty range at an end of the text.
    """

    removed: str
    pieces: list[tuple[int, int]]
    left: tuple[int, int] | None
    right: tuple[int, int] | None
    broken: str = ""

    def follow(self, splice: Splice) -> None:
        """Take in one splice of a later write; those of one write come from the last to the first."""
        moved: list[tuple[int, int]] = []
        for piece in self.pieces:
            parts = _follow(piece, splice)
            if parts is None:
                self.broken = "later writes changed the text that it brought; edit the block instead."
                return
            moved += parts
        self.pieces = moved
        self.left = _follow_neighbour(self.left, splice, at_start=True)
        self.right = _follow_neighbour(self.right, splice, at_start=False)

    def inverse(self, text: str) -> list[Splice]:
        """What takes the write's change back from `text`, the newest version; sets `broken` when nothing does."""
        if not self.pieces:
            place = self.left[1] if self.left is not None else self.right[0] if self.right is not None else None
            if place is None:
                self.broken = "later writes changed the text around the place where it took something out."
                return []
            return [Splice(place, 0, self.removed)]
        for (_, end), (start, _) in zip(self.pieces, self.pieces[1:], strict=False):
            between = text[end:start]
            if between and not (text[:end].endswith("\n") and between.endswith("\n")):
                self.broken = "later writes put text into a line that it brought; edit the block instead."
                return []
        first, *rest = self.pieces
        return [
            Splice(first[0], first[1] - first[0], self.removed),
            *(Splice(start, end - start, "") for start, end in rest),
        ]


def _inverse(history: StoredHistory, target: int, asked: int) -> tuple[Splice, ...]:
    before, changes = changes_from(history, target)
    own, later = changes[0], changes[1:]
    if not own:
        raise UndoConflictError(history.label, asked, "it changed nothing.")
    hunks = _hunks(before, own)
    splices: list[Splice] = []
    for hunk in hunks:
        for change in later:
            for splice in reversed(change):
                if not hunk.broken:
                    hunk.follow(splice)
        splices += [] if hunk.broken else hunk.inverse(history.text)
        if hunk.broken:
            raise UndoConflictError(history.label, asked, hunk.broken)
    return tuple(sorted(splices, key=lambda splice: splice.at))


def _hunks(before: str, own: Sequence[Splice]) -> list[_Hunk]:
    hunks: list[_Hunk] = []
    length = len(before) + sum(len(splice.inserted) - splice.removed for splice in own)
    shift = 0
    for splice in own:
        start = splice.at + shift
        end = start + len(splice.inserted)
        hunks.append(
            _Hunk(
                removed=before[splice.at : splice.at + splice.removed],
                pieces=[(start, end)] if splice.inserted else [],
                left=(start - 1, start) if start else (0, 0),
                right=(end, end + 1) if end < length else (length, length),
            )
        )
        shift += len(splice.inserted) - splice.removed
    return hunks


def _follow(piece: tuple[int, int], splice: Splice) -> list[tuple[int, int]] | None:
    """Where a range is after a splice: in two parts when something was put into it, None when a part of it is gone."""
    start, end = piece
    gone_to = splice.at + splice.removed
    shift = len(splice.inserted) - splice.removed
    if gone_to <= start:
        return [(start + shift, end + shift)]
    if splice.at >= end:
        return [piece]
    if splice.removed:
        return None
    return [(start, splice.at), (splice.at + shift, end + shift)]


def _follow_neighbour(place: tuple[int, int] | None, splice: Splice, *, at_start: bool) -> tuple[int, int] | None:
    if place is None:
        return None
    start, end = place
    if start == end:
        # An end of the text is always there.
        end = end if at_start else end + len(splice.inserted) - splice.removed
        return end, end
    parts = _follow(place, splice)
    return parts[0] if parts else None


def _lines_changed_twice(base: str, ours: str, theirs: str) -> tuple[str, ...]:
    lines = base.split("\n")
    twice = sorted(_changed_lines(lines, ours) & _changed_lines(lines, theirs))
    return tuple(lines[number] for number in twice[:_SHOWN_CONFLICTS])


def _changed_lines(base: list[str], text: str) -> set[int]:
    matcher = difflib.SequenceMatcher(None, base, text.split("\n"), autojunk=False)
    return {
        number
        for tag, start, end, _, _ in matcher.get_opcodes()
        if tag in {"replace", "delete"}
        for number in range(start, end)
    }
