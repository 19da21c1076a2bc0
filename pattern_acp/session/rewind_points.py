"""The moments to which a session can go back, by the names that a person gives them.

Owns: numbering turns, finding the moment that a number, name or id means. Must not know: what going back does. Every
turn is such a moment, by its number, and means the state before its prompt; numbers count all prompts of the session,
so that those of dropped turns stay theirs. Checkpoints have a name or an id. In a fork the turns that it shares are
counted, too, but it cannot go back to one: their files and memory are another session's.
"""

from collections.abc import Sequence

from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.lazy_dataclass import dataclass
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


class SharedPointError(UnknownPointError):
    """The turn is one that the session shares with what it was forked from; `number` is the turn's."""

    failure_code = "rewind.point-unknown"

    def __init__(self, number: int, shared: int) -> None:
        behind = f"/fork {number - 1} begins a session in front of it" if number > 1 else "a new session begins there"
        super().__init__(
            f"Turn {number} belongs to the {shared} that this session shares with the one it was forked from; {behind}."
        )
        self.number = number


@dataclass(frozen=True, slots=True)
class Target:
    """A moment, and what to look at to have it again.

    The conversation is that behind the session's event `position`; files are as they were before what checkpoints
    behind the session's event `files_from` hold; memory as before writes behind the event `memory_from` of all streams.
    `words` name the moment in a sentence.
    """

    position: int
    files_from: int
    memory_from: int
    words: str
    parts: tuple[str, ...] = PARTS
    """What is put back unless the person says otherwise."""


@dataclass(frozen=True, slots=True)
class Point:
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
    numbers = turn_numbers(recorded)
    ids = _checkpoint_ids(recorded)
    points: list[Point] = []
    changed: dict[int, set[str]] = {}
    for entry in _with_named(_own(recorded)):
        match entry.event:
            case TurnStarted(command="", message=message):
                text = short(message.text)
                key = str(numbers[entry.session_seq])
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
    numbers = turn_numbers(recorded)
    if named == LAST:
        kept = {entry.session_seq for entry in kept_events(recorded)}
        named = str(max((number for place, number in numbers.items() if place in kept), default=""))
        if not named:
            raise UnknownPointError("There is no turn to go back behind.")
    checkpoint: Target | None = None
    ids = _checkpoint_ids(recorded)
    wanted = _id_or_name(recorded, named, ids)
    for entry in _own(recorded):
        match entry.event:
            case TurnStarted(command="", message=message):
                number = str(numbers[entry.session_seq])
                if named in {number, message.message_id}:
                    words = f"before turn {number} (“{short(message.text)}”)"
                    return Target(entry.session_seq - 1, entry.session_seq - 1, entry.seq - 1, words)
            case CheckpointTaken() as taken if wanted and wanted in {taken.checkpoint_id, taken.name}:
                words = f"the checkpoint {taken.name or short_id(taken.checkpoint_id, ids)}"
                checkpoint = Target(taken.position, entry.session_seq, entry.seq, words)
            case _:
                pass
    shared = _prompts(recorded) - len(numbers)
    if checkpoint is None and named.isdecimal() and 0 < int(named[:9]) <= shared:
        raise SharedPointError(int(named), shared)
    if checkpoint is None:
        raise UnknownPointError(f"There is no turn or checkpoint {named!r}; /rewind lists them.")
    return checkpoint


def short_id(checkpoint_id: str, ids: Sequence[str]) -> str:
    """The shortest beginning of an id, of `SHORTEST_ID` digits at least, with which no other of `ids` begins."""
    others = [each for each in ids if each != checkpoint_id]
    lengths = range(len(_ID_PREFIX) + SHORTEST_ID, len(checkpoint_id))
    cut = (checkpoint_id[:length] for length in lengths)
    return next((text for text in cut if not any(each.startswith(text) for each in others)), checkpoint_id)


def _checkpoint_ids(recorded: Sequence[Recorded]) -> list[str]:
    return [entry.event.checkpoint_id for entry in _own(recorded) if isinstance(entry.event, CheckpointTaken)]


def _id_or_name(recorded: Sequence[Recorded], named: str, ids: Sequence[str]) -> str:
    """`named`, or the whole id where it is the beginning of one and neither an id nor a name itself."""
    is_name = any(isinstance(entry.event, CheckpointTaken) and entry.event.name == named for entry in _own(recorded))
    if is_name or named in ids or not named.startswith(_ID_PREFIX) or named == _ID_PREFIX:
        return named
    fitting = [each for each in ids if each.startswith(named)]
    if len(fitting) > 1:
        raise UnknownPointError(f"The ids of {len(fitting)} checkpoints begin with {named}; give more of its digits.")
    return fitting[0] if fitting else named


def turn_numbers(recorded: Sequence[Recorded]) -> dict[int, int]:
    """The number of each prompt of the session's own, by the place of its event in the stream."""
    places = [e.session_seq for e in recorded if isinstance(e.event, TurnStarted) and not e.event.command]
    return {place: number for number, place in enumerate(places, 1) if place}


def _prompts(recorded: Sequence[Recorded]) -> int:
    return sum(isinstance(e.event, TurnStarted) and not e.event.command for e in recorded)


def _own(recorded: Sequence[Recorded]) -> list[Recorded]:
    return [entry for entry in recorded if entry.session_seq]


def turns_between(recorded: Sequence[Recorded], position: int) -> tuple[list[str], list[str]]:
    """Turns that the conversation loses and those that it gains when it goes to `position`, by number and prompt."""
    numbers = turn_numbers(recorded)
    named = {
        e.session_seq: f"{numbers[e.session_seq]}. {short(e.event.message.text)}"
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
                    return Target(rewound.before, earlier.session_seq, earlier.seq, words, rewound.parts)
    raise UnknownPointError("There is no rewind to undo.")
