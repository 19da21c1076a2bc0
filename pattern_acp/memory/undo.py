"""Taking back one write and preserving later ones, going back to a version, and merging an edit of an older version.

Owns: which write an undo or redo means, when it cannot be done, and the change that it is. Must not know: SQL, events.

An undo is a new write that reverts another. A write counts while no counting write reverts it, so that an undo of an
undo is a redo, however long the chain. What a write changed is followed through all later writes; when text that it
brought is gone, or both neighbours of the place where it took text out, it is a conflict and nothing is changed. The
result is a change of the newest version, so it never depends on history that the stored base has not.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from pattern_acp.memory.diffs import Conflict
from pattern_acp.memory.edits import BlockEdit, Operation, Patch, Rewrite, Splice, apply_splices, storable_text
from pattern_acp.memory.errors import UndoConflictError, UnusableEditError
from pattern_acp.memory.history import StoredHistory, WriteData, changes_from, text_of_version
from pattern_acp.memory.schemas.types import TextSchema

_REVERTING = (Operation.UNDO.value, Operation.REDO.value)

_NEVER_REVERTED = {
    Operation.CREATE.value: "it made the block; delete the block instead.",
    Operation.DELETE.value: "it deleted the block; restore the block instead.",
    Operation.RESTORE.value: "it restored the block; delete the block instead.",
    Operation.FORGET.value: "what is forgotten is gone.",
}

_TEXT_GONE = "later writes changed the text that it brought; edit the block instead."
_LINE_BROKEN = "later writes put text into a line that it brought; edit the block instead."
_SURROUNDINGS_GONE = "later writes changed the text around the place where it took something out."


class RevertPlan(Struct, frozen=True):
    """A change worked out from a history whose newest write is `head`.

    `target` is the write that it reverts or the version it goes back to. `conflicts` are lines that were changed here
    and there: both forms are in the text, for a user to choose.
    """

    edit: BlockEdit
    head: int
    target: int | None = None
    conflicts: tuple[Conflict, ...] = ()


def plan_undo(history: StoredHistory, number: int | None = None) -> RevertPlan:
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


def plan_redo(history: StoredHistory, number: int | None = None) -> RevertPlan:
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


def plan_rollback(history: StoredHistory, number: int) -> RevertPlan:
    """Make the block read as write `number` left it, as a new change.

    Raises:
        VersionError: there is no such version, or its words were forgotten.
        BlockCorruptError: the history is damaged.
    """
    return RevertPlan(Rewrite(text_of_version(history, number), Operation.ROLLBACK), history.head, target=number)


def plan_merge(history: StoredHistory, opened: int, text: str) -> RevertPlan:
    """Change the block as an edit of version `opened` to `text` does, preserving what was written since.

    Raises:
        UnusableEditError: the text holds characters that cannot be stored.
        VersionError: there is no such version, or its words were forgotten.
        BlockCorruptError: the history is damaged.
    """
    wanted = storable_text(text, label=history.label)
    # Late: most memory is free text.
    from pattern_acp.memory.schemas.planning import merge_contents

    merged = merge_contents(history.schema, text_of_version(history, opened), history.text, wanted)
    return RevertPlan(Rewrite(merged.text, Operation.EDIT), history.head, conflicts=merged.conflicts)


class _Chain:
    """The writes that count: those that no counting write reverts."""

    def __init__(self, history: StoredHistory) -> None:
        self._reverted_by: dict[int, list[int]] = {}
        for write in history.writes:
            if write.operation in _REVERTING and write.target is not None:
                self._reverted_by.setdefault(write.target, []).append(write.number)

    def counts(self, number: int) -> bool:
        """True when the write is in effect. A write is reverted by later ones only, so this ends."""
        return not any(self.counts(later) for later in self._reverted_by.get(number, ()))

    def counting_reverter(self, number: int) -> int | None:
        """The write in effect that reverts this one."""
        return next((later for later in self._reverted_by.get(number, ()) if self.counts(later)), None)

    def bearer(self, number: int) -> int:
        """The write whose characters carry what `number` did: itself, or the last that brought it back."""
        while reverters := self._reverted_by.get(number):
            number = self._reverted_by[reverters[-1]][-1]
        return number


def _plan_revert(history: StoredHistory, chain: _Chain, number: int) -> RevertPlan:
    done = history.write(number).operation
    if number < history.history_from or done in _NEVER_REVERTED:
        problem = _NEVER_REVERTED.get(done, "its words were forgotten.")
        raise UndoConflictError(history.label, number, problem)
    if (reverter := chain.counting_reverter(number)) is not None:
        remedy = f"write {reverter} did that already; undo that one to have it back."
        raise UndoConflictError(history.label, number, remedy)
    target = chain.bearer(number)
    redo = history.write(target).operation == Operation.UNDO.value
    splices = _inverse(history, target, number)
    operation = Operation.REDO if redo else Operation.UNDO
    if isinstance(history.schema, TextSchema):
        return RevertPlan(Patch(operation, splices), history.head, target)
    return RevertPlan(Rewrite(apply_splices(splices, history.text), operation), history.head, target)


class _Hunk(Struct, frozen=True):
    """One place that a write changed: the text it took out, the characters it brought, and those beside the place.

    Characters are named by identities; a neighbour is None at an end of the text. `on_last_line` tells that it wrote
    on the empty last line: the line end that a later append put behind it goes with it.
    """

    removed: str
    inserted: str
    brought: tuple[int, ...]
    left: int | None
    right: int | None
    on_last_line: bool


class _Trace:
    """The identity of every character, through the writes of a history.

    A write that reverts another gives the characters that come back the identities they had, so that what was taken
    back and brought back counts as never having been away.
    """

    def __init__(self, length: int, reverted: Collection[int]) -> None:
        self.characters = list(range(length))
        self._next = length
        self._reverted = reverted
        self._removed: dict[int, list[int]] = {}

    def follow(self, write: WriteData, splices: Sequence[Splice]) -> None:
        """Take in one write; the places of `splices` are those in the text before it."""
        brought = self._identities(write, sum(len(splice.inserted) for splice in splices))
        removed: list[list[int]] = []
        end = len(brought)
        for splice in reversed(splices):
            start = end - len(splice.inserted)
            place = slice(splice.at, splice.at + splice.removed)
            removed.append(self.characters[place])
            self.characters[place] = brought[start:end]
            end = start
        if write.number in self._reverted:
            self._removed[write.number] = [one for part in reversed(removed) for one in part]

    def _identities(self, write: WriteData, count: int) -> Sequence[int]:
        if write.operation in _REVERTING and write.target is not None:
            known = self._removed.get(write.target, [])
            if len(known) == count:
                return known
        first, self._next = self._next, self._next + count
        return range(first, self._next)


def _inverse(history: StoredHistory, target: int, asked: int) -> tuple[Splice, ...]:
    """Splices that take write `target` back from the newest version; `asked` is the write that the user named."""
    before, changes = changes_from(history, target)
    if not changes[0]:
        raise UndoConflictError(history.label, asked, "it changed nothing.")
    writes = history.writes[target - 1 :]
    trace = _Trace(len(before), {write.target for write in writes if write.target is not None})
    trace.follow(writes[0], changes[0])
    hunks = _hunks(before, changes[0], trace.characters)
    for write, change in zip(writes[1:], changes[1:], strict=True):
        trace.follow(write, change)
    places = {identity: at for at, identity in enumerate(trace.characters)}
    splices: list[Splice] = []
    for hunk in hunks:
        found = _take_back(hunk, places, history.text)
        if isinstance(found, str):
            raise UndoConflictError(history.label, asked, found)
        splices += found
    # Places of one hunk ascend, and so do hunks: characters never change their order.
    return tuple(splices)


def _hunks(before: str, change: Sequence[Splice], after: Sequence[int]) -> list[_Hunk]:
    hunks: list[_Hunk] = []
    shift = 0
    for splice in change:
        start = splice.at + shift
        end = start + len(splice.inserted)
        hunks.append(
            _Hunk(
                removed=before[splice.at : splice.at + splice.removed],
                inserted=splice.inserted,
                brought=tuple(after[start:end]),
                left=after[start - 1] if start else None,
                right=after[end] if end < len(after) else None,
                on_last_line=splice.at == len(before) and before[-1:] in {"", "\n"},
            )
        )
        shift += len(splice.inserted) - splice.removed
    return hunks


def _take_back(hunk: _Hunk, places: Mapping[int, int], text: str) -> list[Splice] | str:
    """The splices that take a hunk back from `text`, or the end of the sentence that says why there are none."""
    if not hunk.brought:
        place = _place_between(hunk, places, len(text))
        return [Splice(place, 0, hunk.removed)] if place is not None else _SURROUNDINGS_GONE
    left = [places[identity] for identity in hunk.brought if identity in places]
    gone = [one for one, identity in zip(hunk.inserted, hunk.brought, strict=True) if identity not in places]
    # A line end may have gone with the line before it.
    if not left or any(one != "\n" for one in gone):
        return _TEXT_GONE
    splices: list[Splice] = []
    inserted = hunk.removed
    for start, end in _runs(left):
        if splices:
            gap_start = splices[-1].at + splices[-1].removed
            if not (text[:gap_start].endswith("\n") and text[gap_start:start].endswith("\n")):
                return _LINE_BROKEN
        splices.append(Splice(start, end - start, inserted))
        inserted = ""
    return [*splices[:-1], _with_line_end(splices[-1], text)] if hunk.on_last_line or gone else splices


def _with_line_end(splice: Splice, text: str) -> Splice:
    """The removal of a whole line, with the line end behind it, so that no empty line is left."""
    end = splice.at + splice.removed
    begins = text[: splice.at][-1:] in {"", "\n"}
    whole = begins and text[end - 1] != "\n" and text[end : end + 1] == "\n"
    return Splice(splice.at, splice.removed + 1, "") if whole and not splice.inserted else splice


def _place_between(hunk: _Hunk, places: Mapping[int, int], length: int) -> int | None:
    if hunk.left is None:
        return 0
    if hunk.left in places:
        return places[hunk.left] + 1
    return length if hunk.right is None else places.get(hunk.right)


def _runs(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ascending places as ranges of neighbours."""
    start = previous = places[0]
    for place in places[1:]:
        if place != previous + 1:
            yield start, previous + 1
            start = place
        previous = place
    yield start, previous + 1
