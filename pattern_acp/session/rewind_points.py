"""The moments to which a session can go back, by the names that a person gives them.

Owns: numbering turns, finding the moment that a number, name or id means. Must not know: what going back does. Every
turn is such a moment, by its number, and means the state before its prompt; numbers count all prompts of the session,
so that those of dropped turns stay theirs. Checkpoints have a name or an id. In a fork the turns and checkpoints that
it shares are counted and listed, too: files and memory go back to them, the conversation of another fork begins there.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.errors import PatternError
from pattern_acp.journal.events import CheckpointTaken, RewindStarted, SessionRewound, TurnStarted
from pattern_acp.journal.kept import kept_events
from pattern_acp.journal.reader import Recorded

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
    """What is put back unless the person says otherwise."""
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
    """The kept events, and what a person named, where it still is a moment of them.

    Going back to a checkpoint drops its own event, which stands behind the moment.
    """
    kept = kept_events(recorded)
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
        kept = {entry.seq for entry in kept_events(recorded)}
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
    now = {entry.session_seq for entry in kept_events(recorded)}
    then = {entry.session_seq for entry in kept_events(recorded, upto=position)}
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
