"""Turns of sessions as they went: the prompt, what was done, and the answer.

Owns: reading them from the journal, finding those that fit, and their words for a model. Must not know: which sessions
there are, or who asks. The search index only leads to sessions: what is reported is in the journal, without what was
redacted.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor
from pattern_acp.domain.clock import local_minute
from pattern_acp.domain.text_limits import cut_middle, one_line, plural
from pattern_acp.domain.tool_calls import ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import (
    Event,
    MessageRecorded,
    SessionRewound,
    ToolCallFinished,
    ToolCallStarted,
    TurnStarted,
)
from pattern_acp.journal.history import active_events, turn_number
from pattern_acp.journal.reader import read_stream
from pattern_acp.memory.secrets import mask_secrets

_KINDS: tuple[type[Event], ...] = (TurnStarted, MessageRecorded, ToolCallStarted, ToolCallFinished, SessionRewound)

_CHANGES = frozenset({ToolKind.EDIT, ToolKind.DELETE, ToolKind.MOVE, ToolKind.EXECUTE})
"""Kinds of calls that do something; others only look."""

_HEAD = 120
"""Characters of a command or of a line of its output."""

_SAID = 600
"""Characters of a prompt or answer in a list of turns."""

MOST_DEEDS = 12
"""Deeds of a turn in a list."""


class Deed(Struct, frozen=True):
    """One tool call that ended: its title and result in a line, the files that it named, and what it was."""

    text: str
    paths: tuple[str, ...] = ()
    changes: bool = False
    is_command: bool = False

    @property
    def searched(self) -> str:
        """The words by which it is found."""
        return "\n".join((mask_secrets(self.text), *(path for path in self.paths if path not in self.text)))


class PastTurn(Struct):
    """One turn. `number` counts prompts from 1; times are milliseconds since 1970-01-01 UTC."""

    session_id: str
    title: str
    number: int
    at_ms: int
    prompt: str
    deeds: list[Deed] = field(default_factory=list[Deed])
    answers: list[str] = field(default_factory=list[str])

    @property
    def uri(self) -> str:
        """The link that opens it."""
        return f"pattern-acp://session/{self.session_id}?turn={self.number}"

    @property
    def answer(self) -> str:
        """The last that the model said in it."""
        return self.answers[-1] if self.answers else ""


def past_turns(tx: Transaction, session_id: str, title: str, *, since_ms: int = 0) -> list[PastTurn]:
    """The turns of a session that still count, oldest first; slash commands are none.

    Raises:
        JournalError: an event cannot be understood.
        DatabaseError: the file cannot be read.
    """
    turns: list[PastTurn] = []
    calls: dict[str, ToolCallView] = {}
    for entry in active_events(read_stream(tx, session_id, kinds=_KINDS)):
        match entry.event:
            case TurnStarted(message=message, command=command) if not command:
                number = turns[-1].number + 1 if turns else turn_number(tx, session_id, entry.seq)
                turns.append(PastTurn(session_id, title, number, entry.at_ms, message.words))
            case MessageRecorded(message=message, for_model=True) if turns and message.text.strip():
                turns[-1].answers.append(message.text)
            case ToolCallStarted(call=call) if entry.actor is not Actor.SYSTEM:
                # Not what was recalled or compacted, which is shown as a call, too.
                calls[call.call_id] = call
            case ToolCallFinished() as finished if turns and finished.call_id in calls:
                turns[-1].deeds.append(deed_of(calls[finished.call_id], finished))
            case _:
                pass
    return [turn for turn in turns if turn.at_ms >= since_ms]


def deed_of(call: ToolCallView, finished: ToolCallFinished) -> Deed:
    """Describe a call that ended."""
    locations = (*call.locations, *finished.locations)
    paths = tuple(dict.fromkeys(location.path for location in locations))
    title = one_line(finished.title or call.title, _HEAD)
    failed = finished.shown_status is ToolCallStatus.FAILED
    changes = call.kind in _CHANGES and (not failed or call.kind is ToolKind.EXECUTE)
    if call.kind is not ToolKind.EXECUTE:
        return Deed(f"{title} (failed)" if failed else title, paths, changes)
    lines = [line for line in finished.result_text.splitlines() if line.strip()]
    # How it ended is in the first line, what came of it in the last, as for tests and builds.
    ends = dict.fromkeys((*lines[:1], *lines[-1:]))
    result = " … ".join(one_line(mask_secrets(line), _HEAD) for line in ends)
    return Deed(f"`{title}`: {result}" if result else f"`{title}`", paths, changes, is_command=True)


def fits(turn: PastTurn, words: Sequence[str], path: str, *, done: bool, said: bool) -> int:
    """Number of the words that the turn has, as said or as done; -1 where it is not about the path."""
    if path and not any(path in known for deed in turn.deeds for known in (*deed.paths, deed.text)):
        return -1
    parts = ([turn.prompt, *turn.answers] if said else []) + ([deed.text for deed in turn.deeds] if done else [])
    text = "\n".join(parts).casefold()
    return sum(word in text for word in words)


def listed(turn: PastTurn, *, whole: bool = False) -> str:
    """A turn for a model: when it was, what was asked, done and answered; `whole` with nothing left out."""
    head = f"[{one_line(turn.title or 'Untitled')}, turn {turn.number}, {local_minute(turn.at_ms)}; {turn.uri}]"
    deeds = [deed for deed in turn.deeds if whole or deed.changes]
    shown = deeds if whole else deeds[:MOST_DEEDS]
    looks = len(turn.deeds) - len(deeds)
    lines = [head, f"The user: {_cut(turn.prompt, whole=whole)}"]
    lines += [f"Done: {deed.text}" for deed in shown]
    lines += [f"Done: {len(deeds) - len(shown)} more"] if len(deeds) > len(shown) else []
    lines += [f"Looked at things in {plural(looks, 'call')}."] if looks else []
    answers = turn.answers if whole else [turn.answer]
    lines += [f"The agent: {_cut(answer, whole=whole)}" for answer in answers if answer]
    return "\n".join(lines)


def _cut(text: str, *, whole: bool) -> str:
    flat = text.strip() if whole else " ".join(text.split())
    return flat if whole or len(flat) <= _SAID else f"{flat[: _SAID - 1]}…"


def with_neighbours(turns: Sequence[PastTurn], number: int, limit: int) -> str:
    """One turn whole, the one before and the one behind it as in a list, in at most so many characters."""
    at = next((place for place, turn in enumerate(turns) if turn.number == number), None)
    if at is None:
        return ""
    before, behind = turns[max(at - 1, 0) : at], turns[at + 1 : at + 2]
    around = [*map(listed, before), "", *map(listed, behind)]
    room = max(limit - sum(map(len, around)) - 100, 1_000)
    opened = cut_middle(listed(turns[at], whole=True), room).text
    return "\n\n".join(filter(None, (*map(listed, before), opened, *map(listed, behind))))


def newest_first(turns: Iterable[PastTurn]) -> list[PastTurn]:
    """The turns, the latest first."""
    return sorted(turns, key=lambda turn: (turn.at_ms, turn.number), reverse=True)
