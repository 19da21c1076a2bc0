"""The wire structs of `_pattern/checkpoint/*` and `_pattern/session/rewind`.

Our extension that lets an editor offer going back with buttons of its own (docs/extensions.md).
"""

from pattern_acp.acp.schema_base import MetaWire, Wire

LIST = "_pattern/checkpoint/list"
PREVIEW = "_pattern/checkpoint/preview"
RESTORE = "_pattern/checkpoint/restore"
REWIND = "_pattern/session/rewind"


class ListCheckpointsRequest(MetaWire, frozen=True, kw_only=True):
    """To which moments can the session go back?"""

    session_id: str


class RewindPoint(Wire, frozen=True, kw_only=True):
    """One moment. `key` names it in the other methods; `at` is ISO 8601 in UTC; `files` counts those changed since."""

    key: str
    kind: str
    text: str
    at: str
    files: int
    message_id: str | None = None
    checkpoint_id: str | None = None


class ListCheckpointsResponse(Wire, frozen=True, kw_only=True):
    """The moments, oldest first."""

    points: tuple[RewindPoint, ...]


class RewindRequest(MetaWire, frozen=True, kw_only=True):
    """Go, or look at what it would be to go, to the moment `to`.

    That is a key of the list, a message id of a prompt, a checkpoint's id or name, `last`, or `undo`. Without `parts`
    it goes back with those of the method; an empty list is refused. `overwrite` also puts back what others changed.
    """

    session_id: str
    to: str
    parts: tuple[str, ...] | None = None
    overwrite: bool = False


class RewindFile(Wire, frozen=True, kw_only=True):
    """A file that would change. `kind` is `delete`, `create`, `mode` or `modify`; small text has both of its texts."""

    path: str
    kind: str
    conflict: str | None = None
    problem: str | None = None
    old_text: str | None = None
    new_text: str | None = None


class RewindBlock(Wire, frozen=True, kw_only=True):
    """A memory block that would change, and what would become of it in words."""

    label: str
    text: str


class PreviewResponse(Wire, frozen=True, kw_only=True):
    """What would change. Turns are named by their numbers and prompts.

    With `fork_behind`, the moment is one that the session shares with what it was forked from: its conversation would
    be that of another session, which begins behind that turn; behind turn 0 there is none.
    """

    words: str
    lost: tuple[str, ...]
    regained: tuple[str, ...]
    files: tuple[RewindFile, ...]
    blocks: tuple[RewindBlock, ...]
    not_kept: tuple[str, ...] = ()
    fork_behind: int | None = None


class RewindResponse(Wire, frozen=True, kw_only=True):
    """What was done: paths put back, paths left since others changed them, memory blocks, and what did not work.

    `fork_session_id` is the session in which the conversation goes on, where it could not go back in this one.
    """

    words: str
    lost: tuple[str, ...]
    regained: tuple[str, ...]
    files: tuple[str, ...]
    kept: tuple[str, ...]
    blocks: tuple[str, ...]
    problems: tuple[str, ...]
    fork_session_id: str | None = None
