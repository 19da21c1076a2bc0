"""Events about checkpoints and about going back to one.

Owns: these kinds; `journal.events` has them all. Nothing is erased by any of them: a conversation that goes back leaves
the turns behind it in the stream, and `journal.kept` says which of them still count.
"""

from msgspec import Struct

from pattern_acp.domain.file_states import FileChange, LeftOut, SavedFile
from pattern_acp.domain.ids import TurnId


class FilesSaved(Struct, frozen=True):
    """What files were right before the session changed them; recorded before the change, so that a crash loses none."""

    turn_id: TurnId
    files: tuple[SavedFile, ...]


class MemoryPoint(Struct, frozen=True):
    """How far the history of a memory block had come: the number of its newest write, and Loro's frontiers as hex."""

    block_id: str
    label: str
    version: int
    frontiers: str


class CheckpointTaken(Struct, frozen=True):
    """A moment to which the session can go back.

    `cause` is `turn`, `tool`, `person`, `rewind` or `recovered`. `position` is the session's event it stands behind and
    `state_hash` that event's hash in the chain; `global_seq` is the newest event of all streams. `changes` are those
    that the session made to files since its checkpoint before, in their order.
    """

    checkpoint_id: str
    turn_id: TurnId
    cause: str
    name: str
    position: int
    state_hash: str
    global_seq: int
    changes: tuple[FileChange, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    memory: tuple[MemoryPoint, ...] = ()


class RewindStarted(Struct, frozen=True):
    """The session is about to go back to `position`; an end of the process before its SessionRewound is made up for.

    `before` is the event behind which an undo of this rewind begins. `files` are the changes that are to be made, each
    from the state that was found; `blocks` are labels of memory blocks of which this session's writes behind the event
    `memory_from`, counted over all streams, are to be taken back.
    """

    rewind_id: str
    turn_id: TurnId
    position: int
    before: int
    parts: tuple[str, ...]
    files: tuple[FileChange, ...] = ()
    blocks: tuple[str, ...] = ()
    memory_from: int = 0


class SessionRewound(Struct, frozen=True):
    """The session went back.

    With `back_to`, the conversation is what it was behind that event of the session, and goes on with this one; None
    leaves the conversation as it is. `before` is the event behind which an undo begins; `problems` are sentences about
    what could not be put back.
    """

    rewind_id: str
    turn_id: TurnId
    before: int
    parts: tuple[str, ...]
    back_to: int | None = None
    problems: tuple[str, ...] = ()
