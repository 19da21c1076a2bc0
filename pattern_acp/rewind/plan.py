"""Moments to which a session can go back, and what going back would change, worked out before anything is changed.

Owns: the moment that a number, a name or an id means; which files would get which state, which of them others changed
since; what becomes of memory. Must not know: how files are put back, or who asked.

Every turn is a moment, by its number, and means the state before its prompt; numbers count all prompts of the session,
so that those of dropped turns stay theirs. Checkpoints have a name or an id. In a fork the turns and checkpoints that
it shares are counted and listed, too: files and memory go back to them, the conversation of another fork begins there.

Only what the session changed is put back: a file gets the state that it had before the session's first change behind
the moment. A file counts as changed by others when it is not what the session left, now or between two of its changes.
One that is too large to be stored is in conflict too, since going back has to be something that can be undone.

Memory is put back as new changes by the user: each block to its version then when nobody else wrote since, else write
by write, so that what others wrote stays. Doing it twice is as once.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import BlockError, JournalError, PatternError
from pattern_acp.domain.paths import is_within
from pattern_acp.domain.tool_calls import MISSING, DiffContent, FileChange, FileState
from pattern_acp.journal.contents import read_content
from pattern_acp.journal.events import (
    BlockCommitted,
    BlockDeleted,
    CheckpointTaken,
    RewindStarted,
    SessionRewound,
    TurnStarted,
)
from pattern_acp.journal.history import active_events, ancestors, read_history, read_lineage
from pattern_acp.journal.reader import Recorded
from pattern_acp.memory.errors import BlockMissingError, VersionError
from pattern_acp.memory.forgotten import lost_words
from pattern_acp.memory.history import Write, list_writes
from pattern_acp.memory.service.history import MemoryHistory
from pattern_acp.memory.service.undo import MemoryReverts
from pattern_acp.memory.undo import plan_rollback, plan_undo
from pattern_acp.rewind.checkpoints import RewindScope
from pattern_acp.workspace.snapshots import canonical_path, capture_in_place, is_repository

MOST_WRITES = 500
"""Writes of one block that are looked back at."""

REASON = "The user went back to an earlier moment of the session."

_REVERTING = frozenset({"undo", "redo"})


class BlockPlan(Struct, frozen=True):
    """Plan for one block: `how` is `rollback`, `undo`, `delete`, `restore`, or `stay` if it cannot go back.

    `numbers` are the version to go back to, or the writes to take back, newest first.
    """

    label: str
    how: str
    numbers: tuple[int, ...] = ()

    @property
    def changes(self) -> bool:
        """True when the block would change."""
        return self.how != "stay"

    @property
    def sentence(self) -> str:
        """The planned change, in a few words."""
        match self.how:
            case "rollback":
                return f"goes back to version {self.numbers[0]}"
            case "delete":
                return "is deleted, since the session made it"
            case "restore":
                return "comes back, since the session deleted it"
            case "stay":
                return "stays as it is, since the words that it had then were forgotten"
            case _:
                writes = ", ".join(map(str, self.numbers))
                return f"loses this session's writes ({writes}); what others wrote since stays"


async def plan_blocks(scope: RewindScope, labels: Sequence[str], memory_from: int) -> tuple[BlockPlan, ...]:
    """Plan the blocks with these labels; unchanged ones are left out."""
    plans = [await _plan_block(scope, label, memory_from) for label in labels]
    return tuple(plan for plan in plans if plan is not None)


async def take_back(scope: RewindScope, labels: Sequence[str], memory_from: int) -> list[str]:
    """Put the blocks back; sentences about those that could not be."""
    problems: list[str] = []
    for label in labels:
        try:
            plan = await _plan_block(scope, label, memory_from)
            if plan is not None and plan.changes:
                await _put_block_back(scope, plan)
            elif plan is not None:
                problems.append(f"The block {label!r} {plan.sentence}.")
        except BlockError as error:
            problems.append(error.sentence)
    return problems


async def _put_block_back(scope: RewindScope, plan: BlockPlan) -> None:
    reverts = _reverts(scope)
    match plan.how:
        case "rollback":
            await reverts.change(plan.label, partial(plan_rollback, number=plan.numbers[0]), REASON)
        case "delete":
            await reverts.delete(plan.label, REASON)
        case "restore":
            await reverts.restore(plan.label, REASON)
        case _:
            for number in plan.numbers:
                await reverts.change(plan.label, partial(plan_undo, number=number), REASON)


async def _own_writes(scope: RewindScope) -> Callable[[Write], bool]:
    """Return a test for the session's writes, including those that it shares with the sessions it was forked from."""
    found = await scope.database.read(lambda tx: ancestors(tx, scope.session_id))
    shared = {one.session_id: one.seq for one in found}
    return lambda write: write.stream == scope.session_id or write.seq <= shared.get(SessionId(write.stream), 0)


async def _plan_block(scope: RewindScope, label: str, memory_from: int) -> BlockPlan | None:
    ours = await _own_writes(scope)
    history = MemoryHistory(scope.database, scope.history().owners)
    try:
        writes = await history.log(label, limit=MOST_WRITES)
    except BlockMissingError:
        return await _plan_missing(scope, history, label, memory_from, ours)
    except BlockError:
        return None
    since = [write for write in writes if write.seq > memory_from]
    own = [write for write in since if ours(write)]
    if not own:
        return None
    if len(own) != len(since):
        numbers = _to_undo(own)
        return BlockPlan(label, "undo", numbers) if numbers else None
    first = min(own, key=lambda write: write.number)
    if first.number > 1:
        return await _unless_same(history, label, first.number - 1)
    # Blocks that every persona has are made when memory is first looked at; they stay, as they were made.
    return BlockPlan(label, "delete") if first.actor is not Actor.SYSTEM else await _unless_same(history, label, 1)


async def _unless_same(history: MemoryHistory, label: str, number: int) -> BlockPlan | None:
    now = await history.show(label)
    try:
        then = await history.show(label, number)
    except VersionError:
        return BlockPlan(label, "stay")
    return None if now.text == then.text else BlockPlan(label, "rollback", (number,))


async def _plan_missing(
    scope: RewindScope, history: MemoryHistory, label: str, memory_from: int, ours: Callable[[Write], bool]
) -> BlockPlan | None:
    gone = next((block for block in await history.deleted() if block.key.label == label), None)
    if gone is None:
        return None
    writes = await scope.database.read(lambda tx: list_writes(tx, gone, limit=MOST_WRITES))
    was_there = any(write.seq <= memory_from for write in writes)
    deleted_here = ours(writes[0]) and writes[0].seq > memory_from
    return BlockPlan(label, "restore") if was_there and deleted_here else None


def _to_undo(own: Sequence[Write]) -> tuple[int, ...]:
    """The writes to take back, newest first, without those that were taken back already."""
    numbers = {write.number for write in own}
    reverted = {write.target for write in own if write.operation in _REVERTING}
    return tuple(
        write.number
        for write in sorted(own, key=lambda write: -write.number)
        if write.number not in reverted and not (write.operation in _REVERTING and write.target in numbers)
    )


def _reverts(scope: RewindScope) -> MemoryReverts:
    reverts = MemoryReverts(scope.database, scope.history(), clock=scope.clock)
    reverts.turn_id = scope.turn_id or None
    return reverts


UNDO = "undo"
LAST = "last"
PARTS = ("conversation", "files", "memory")

SHOWN_PROMPT = 80
"""Characters of a prompt that a list shows."""

SHORTEST_ID = 8
"""Digits of a checkpoint's id that are shown at least, so that the next checkpoint seldom makes them ambiguous."""

_ID_PREFIX = "chk_"


class UnknownPointError(PatternError):
    """There is no such turn or checkpoint."""

    failure_code = "rewind.point-unknown"


class Target(Struct, frozen=True):
    """A moment, and what to look at to have it again.

    The conversation is that behind the session's event `position`; files are as they were before what checkpoints
    behind the event `files_from` of all streams hold; memory as before writes behind the event `memory_from`.
    `words` name the moment in a sentence.
    """

    position: int
    files_from: int
    memory_from: int
    words: str
    parts: tuple[str, ...] = PARTS
    """Parts that are put back unless the user chooses others."""
    fork_behind: int | None = None
    """For a moment that the session shares with what it was forked from: behind which turn another fork has its
    conversation, 0 for the one that nothing is in front of. The session's own conversation stays as it is."""


class Point(Struct, frozen=True):
    """A moment as it is listed. `key` is what names it; `files` counts those changed from it to the next.

    A checkpoint without a name is named by the first digits of its id that no other has.
    """

    key: str
    kind: str
    """`turn` or `checkpoint`."""
    text: str
    at_ms: int
    files: int
    message_id: str = ""
    checkpoint_id: str = ""


def list_points(recorded: Sequence[Recorded]) -> tuple[Point, ...]:
    """The moments of the conversation as it is, oldest first.

    `recorded` is the session's whole stream, behind what it shares (`session_seq` 0).
    """
    numbers = _numbers(recorded)
    ids = _checkpoint_ids(recorded)
    points: list[Point] = []
    changed: dict[int, set[str]] = {}
    for entry in [*_shared(recorded), *_with_named(_own(recorded))]:
        match entry.event:
            case TurnStarted(command="", message=message):
                text = short(message.words)
                key = str(numbers[entry.seq])
                points.append(Point(key, "turn", text, entry.at_ms, 0, message_id=message.message_id))
            case CheckpointTaken() as taken:
                changed.setdefault(len(points), set()).update(change.path for change in taken.changes)
                if taken.cause in {"person", "tool"}:
                    text = taken.name or "before a tool that may change much"
                    key = taken.name or short_id(taken.checkpoint_id, ids)
                    point = Point(key, "checkpoint", text, entry.at_ms, 0, checkpoint_id=taken.checkpoint_id)
                    points.append(point)
            case _:
                pass
    return tuple(
        Point(p.key, p.kind, p.text, p.at_ms, len(changed.get(index, ())), p.message_id, p.checkpoint_id)
        for index, p in enumerate(points, 1)
    )


def _with_named(recorded: Sequence[Recorded]) -> list[Recorded]:
    """The stored events, and what a user named, where it still is a moment of them.

    Going back to a checkpoint drops its own event, which follows the moment.
    """
    kept = active_events(recorded)
    places = {entry.session_seq for entry in kept}
    named = [
        (entry.event.position, entry)
        for entry in recorded
        if isinstance(entry.event, CheckpointTaken)
        and entry.event.cause == "person"
        and entry.session_seq not in places
        and (entry.event.position in places or not entry.event.position)
    ]
    ordered = sorted([*((entry.session_seq, entry) for entry in kept), *named], key=lambda one: one[0])
    return [entry for _, entry in ordered]


def find_target(recorded: Sequence[Recorded], named: str) -> Target:
    """The moment that `named` means: a turn's number, `last`, `undo`, a checkpoint's name or id, or a prompt's id.

    An id may be cut behind any digit with which no other checkpoint's begins.

    Raises:
        UnknownPointError: there is none, or there are several.
    """
    if named == UNDO:
        return _before_last_rewind(_own(recorded))
    numbers = _numbers(recorded)
    if named == LAST:
        kept = {entry.seq for entry in active_events(recorded)}
        named = str(max((number for seq, number in numbers.items() if seq in kept), default=""))
        if not named:
            raise UnknownPointError("There is no turn to go back behind.")
    checkpoint: Target | None = None
    ids = _checkpoint_ids(recorded)
    wanted = _id_or_name(recorded, named, ids)
    begun = 0
    for entry in recorded:
        match entry.event:
            case TurnStarted(command="", message=message):
                begun = numbers[entry.seq]
                if named in {str(begun), message.message_id}:
                    words = f"before turn {begun} (“{short(message.words)}”)"
                    target = Target(entry.session_seq - 1, entry.seq - 1, entry.seq - 1, words)
                    return target if entry.session_seq else _in_shared(target, begun - 1)
            case CheckpointTaken() as taken if wanted and wanted in {taken.checkpoint_id, taken.name}:
                words = f"the checkpoint {taken.name or short_id(taken.checkpoint_id, ids)}"
                checkpoint = Target(taken.position, entry.seq, entry.seq, words)
                if not entry.session_seq:
                    # No fork begins within a turn.
                    checkpoint = _in_shared(checkpoint, begun - 1 if taken.cause == "tool" else begun)
            case _:
                pass
    if checkpoint is None:
        raise UnknownPointError(f"There is no turn or checkpoint {named!r}; /rewind lists them.")
    return checkpoint


def _in_shared(target: Target, fork_behind: int) -> Target:
    parts = PARTS if fork_behind else PARTS[1:]
    return replace(target, position=0, parts=parts, fork_behind=fork_behind)


def short_id(checkpoint_id: str, ids: Sequence[str]) -> str:
    """The shortest beginning of an id, of `SHORTEST_ID` digits at least, with which no other of `ids` begins."""
    others = [each for each in ids if each != checkpoint_id]
    lengths = range(len(_ID_PREFIX) + SHORTEST_ID, len(checkpoint_id))
    cut = (checkpoint_id[:length] for length in lengths)
    return next((text for text in cut if not any(each.startswith(text) for each in others)), checkpoint_id)


def _checkpoint_ids(recorded: Sequence[Recorded]) -> list[str]:
    return [entry.event.checkpoint_id for entry in recorded if isinstance(entry.event, CheckpointTaken)]


def _id_or_name(recorded: Sequence[Recorded], named: str, ids: Sequence[str]) -> str:
    """`named`, or the whole id where it is the beginning of one and neither an id nor a name itself."""
    is_name = any(isinstance(entry.event, CheckpointTaken) and entry.event.name == named for entry in recorded)
    if is_name or named in ids or not named.startswith(_ID_PREFIX) or named == _ID_PREFIX:
        return named
    fitting = [each for each in ids if each.startswith(named)]
    if len(fitting) > 1:
        raise UnknownPointError(f"The ids of {len(fitting)} checkpoints begin with {named}; give more of its digits.")
    return fitting[0] if fitting else named


def turn_numbers(recorded: Sequence[Recorded]) -> dict[int, int]:
    """The number of each prompt of the session's own, by the place of its event in the stream."""
    numbers = _numbers(recorded)
    return {e.session_seq: numbers[e.seq] for e in recorded if e.session_seq and e.seq in numbers}


def _numbers(recorded: Sequence[Recorded]) -> dict[int, int]:
    """The number of each prompt, also of those that the session shares, by the number of its event."""
    prompts = (e.seq for e in recorded if isinstance(e.event, TurnStarted) and not e.event.command)
    return {seq: number for number, seq in enumerate(prompts, 1)}


def _shared(recorded: Sequence[Recorded]) -> list[Recorded]:
    return [entry for entry in recorded if not entry.session_seq]


def _own(recorded: Sequence[Recorded]) -> list[Recorded]:
    return [entry for entry in recorded if entry.session_seq]


def turns_between(recorded: Sequence[Recorded], position: int) -> tuple[list[str], list[str]]:
    """Turns that the conversation loses and those that it gains when it goes to `position`, by number and prompt."""
    numbers = turn_numbers(recorded)
    named = {
        e.session_seq: f"{numbers[e.session_seq]}. {short(e.event.message.words)}"
        for e in recorded
        if isinstance(e.event, TurnStarted) and e.session_seq in numbers
    }
    now = {entry.session_seq for entry in active_events(recorded)}
    then = {entry.session_seq for entry in active_events(recorded, upto=position)}
    lost = [text for place, text in named.items() if place in now - then]
    return lost, [text for place, text in named.items() if place in then - now]


def short(text: str) -> str:
    """A prompt on one line, cut."""
    flat = " ".join(text.split())
    return flat if len(flat) <= SHOWN_PROMPT else f"{flat[: SHOWN_PROMPT - 1]}…"


def _before_last_rewind(recorded: Sequence[Recorded]) -> Target:
    for entry in reversed(recorded):
        if isinstance(entry.event, SessionRewound):
            rewound = entry.event
            for earlier in reversed(recorded):
                if isinstance(earlier.event, RewindStarted) and earlier.event.rewind_id == rewound.rewind_id:
                    words = "before the last rewind"
                    return Target(rewound.before, earlier.seq, earlier.seq, words, rewound.parts)
    raise UnknownPointError("There is no rewind to undo.")


_REPOSITORY = "it is a git repository, submodule or worktree of its own, and those are not saved"
NAMELESS = "its name was forgotten or redacted, so nobody knows which file it is"
_LINKED = "a folder on the way to it is a link now"

DIFF_BYTES = 200_000
"""Most bytes of a file's two states together of which a preview shows the difference."""


class PlannedFile(Struct, frozen=True):
    """One file: what it is now, what it would be, why it is better left alone, or why it cannot be put back."""

    path: str
    now: FileState
    then: FileState
    conflict: str = ""
    problem: str = ""

    @property
    def kind(self) -> str:
        """Kind of change: `delete`, `create`, `mode` or `modify`."""
        if self.then.kind == "missing":
            return "delete"
        if self.now.kind == "missing":
            return "create"
        same = self.now.kind == self.then.kind and self.now.digest == self.then.digest
        return "mode" if same else "modify"


class RewindPlan(Struct, frozen=True):
    """All that going back to `target` would change. `lost` and `regained` are turns, with their numbers."""

    target: Target
    lost: tuple[str, ...]
    regained: tuple[str, ...]
    files: tuple[PlannedFile, ...]
    blocks: tuple[BlockPlan, ...]
    left_out: tuple[str, ...] = ()
    """Files that the session changed and that are in no checkpoint, with the reason."""

    def chosen(self, *, overwrite: bool) -> tuple[FileChange, ...]:
        """The changes of files that would be made, in their order; those in conflict only with `overwrite`."""
        chosen = [file for file in self.files if not file.problem and (overwrite or not file.conflict)]
        # What goes makes space first, inner ones before outer ones: a file may come where a folder is, and the reverse.
        chosen.sort(key=lambda file: -len(Path(file.path).parts) if file.then.kind == "missing" else 0)
        return tuple(FileChange(file.path, file.now, file.then) for file in chosen)

    @property
    def conflicts(self) -> tuple[PlannedFile, ...]:
        """The files that others changed, or that an undo could not bring back."""
        return tuple(file for file in self.files if file.conflict and not file.problem)


async def recorded_of(scope: RewindScope) -> list[Recorded]:
    """The session's whole stream, behind what it shares with the session that it was forked from."""
    return await scope.database.read(lambda tx: read_history(tx, scope.session_id))


async def listed_of(scope: RewindScope) -> list[Recorded]:
    """As `recorded_of`, with the checkpoint of the turn behind which a fork began, which follows what is shared."""
    recorded = await recorded_of(scope)
    shared = [entry for entry in recorded if not entry.session_seq]
    if not shared:
        return recorded
    turns = {entry.event.turn_id for entry in shared if isinstance(entry.event, TurnStarted)}
    known = {entry.seq for entry in recorded}
    lineage = await scope.database.read(lambda tx: read_lineage(tx, scope.session_id))
    closing = [
        replace(entry, session_seq=0)
        for entry in lineage
        if isinstance(entry.event, CheckpointTaken) and entry.event.turn_id in turns and entry.seq not in known
    ]
    return [*sorted([*shared, *closing], key=lambda entry: entry.seq), *recorded[len(shared) :]]


async def plan_rewind(scope: RewindScope, recorded: Sequence[Recorded], target: Target) -> RewindPlan:
    """Work out the changes that going back to `target` would make now."""
    lost, regained = turns_between(recorded, target.position)
    if target.fork_behind is not None:
        lost, regained = [], []
        database = scope.database
        recorded = await database.read(lambda tx: read_lineage(tx, scope.session_id))
    behind = [e.event for e in recorded if e.seq > target.files_from]
    taken = [event for event in behind if isinstance(event, CheckpointTaken)]
    files = await anyio.to_thread.run_sync(_plan_files, taken, scope.policy.roots)
    left_out = {left.path: left.why for event in taken for left in event.left_out}
    return RewindPlan(
        target,
        tuple(lost),
        tuple(regained),
        tuple(files),
        await plan_blocks(scope, _labels(recorded, target.memory_from), target.memory_from),
        tuple(f"{path}: {why}" for path, why in left_out.items()),
    )


async def diff_of(scope: RewindScope, change: FileChange) -> DiffContent | None:
    """Diff of a planned change; None when one side is not text, is too long to show, or cannot be read."""
    if change.before.size + change.after.size > DIFF_BYTES or "link" in {change.before.kind, change.after.kind}:
        return None
    captured = await anyio.to_thread.run_sync(capture_in_place, change.path)
    digest = change.after.digest

    def read(tx: Transaction) -> bytes | None:
        return read_content(tx, digest) if digest else None

    try:
        then = await scope.database.read(read)
        old = None if captured.content is None else captured.content.decode("utf-8")
        new = "" if then is None else then.decode("utf-8")
    except (UnicodeDecodeError, JournalError):
        return None
    return DiffContent(change.path, old, new)


def _plan_files(taken: Sequence[CheckpointTaken], roots: Sequence[str]) -> list[PlannedFile]:
    first: dict[str, FileState] = {}
    last: dict[str, FileState] = {}
    between: set[str] = set()
    for change in (change for event in taken for change in event.changes):
        if change.path in last and last[change.path] != _as_file(change.before):
            between.add(change.path)
        first.setdefault(change.path, change.before)
        last[change.path] = _as_file(change.after)
    planned = (
        _plan_file(path, then, last[path], roots, changed_between=path in between) for path, then in first.items()
    )
    files = [file for file in planned if file is not None]
    making_way = {file.path for file in files if file.now.kind == "link" and file.then.kind == "missing"}
    making_way -= {file.path for file in files if file.problem or file.conflict}
    return [
        replace(file, problem="") if file.problem == _LINKED and _behind(file.path) in making_way else file
        for file in files
    ]


def _behind(path: str) -> str:
    """The first link on the way to a path; empty when there is none."""
    return next((str(above) for above in reversed(Path(path).parents) if above.is_symlink()), "")


def _as_file(state: FileState) -> FileState:
    """A state with a folder as no file, as which a command's changes have it; what is in it says itself whose it is."""
    return MISSING if state.is_folder else state


def _plan_file(
    path: str, then: FileState, left: FileState, roots: Sequence[str], *, changed_between: bool
) -> PlannedFile | None:
    if lost_words(path):
        return PlannedFile(path, MISSING, then, problem=NAMELESS)
    now = capture_in_place(path).state
    if then.is_folder:
        # What was in it is put back on its own, as far as it is known.
        then = now if now.is_folder else MISSING
    if now == then:
        return None
    plan = partial(PlannedFile, path, now, then)
    if problem := _problem(path, then, now, roots):
        return plan(problem=problem)
    if _as_file(now) != left:
        return plan(conflict="it was changed since the session left it")
    if changed_between:
        return plan(conflict="it was changed by others between the session's changes")
    if not now.is_kept and not now.is_folder:
        return plan(conflict=f"an undo could not bring back what it holds: {now.why_not}")
    return plan()


def _problem(path: str, then: FileState, now: FileState, roots: Sequence[str]) -> str:
    """Why a path cannot be put back, in a clause; empty when it can."""
    if not is_within(path, roots):
        return "it lies outside the session's folders"
    if canonical_path(path) != path:
        return _LINKED
    if now.is_folder and is_repository(path):
        return _REPOSITORY
    return "" if then.is_kept else f"its content was not saved: {then.why_not}"


def _labels(recorded: Sequence[Recorded], memory_from: int) -> tuple[str, ...]:
    """The labels of the blocks that the session wrote behind an event."""
    written = (e.event for e in recorded if e.seq > memory_from)
    return tuple(dict.fromkeys(e.label for e in written if isinstance(e, BlockCommitted | BlockDeleted)))
