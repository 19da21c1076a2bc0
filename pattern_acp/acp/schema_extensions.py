"""Wire structs of our extensions: memory, checkpoints, forks and subagents (`_pattern/*`; memory-context.md).

Those of memory only read: there is no method by which a plugin could write, as the user or as anyone.
"""

from typing import TypeAlias

import msgspec

from pattern_acp.acp.schema import ConfigOption, LoadSessionRequest, MetaWire, SessionModeState, SessionUpdate, Wire
from pattern_acp.domain.canonical import JsonObject

SUBSCRIBE = "_pattern/memory/subscribe"
UNSUBSCRIBE = "_pattern/memory/unsubscribe"
EVENT = "_pattern/memory/event"


class SubscribeRequest(MetaWire, frozen=True, kw_only=True):
    """Look on at the memory of a session. `since` holds the version that is known of blocks, by their id.

    Writes of `without_sessions` are left out: those of a session that shows them in another way.
    """

    session_id: str
    since: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    without_sessions: tuple[str, ...] = ()


class SubscribeResponse(Wire, frozen=True, kw_only=True):
    """The subscription; its events follow."""

    subscription_id: str


class UnsubscribeRequest(MetaWire, frozen=True, kw_only=True):
    """Look on no more; a `done` event still follows."""

    subscription_id: str


class BlockFacts(Wire, frozen=True, kw_only=True):
    """The facts of a block. The limit is in characters."""

    block_id: str
    label: str
    scope: str
    description: str
    permission: str
    limit: int
    tier: str
    pinned: bool = False


class BlockAvailable(Wire, frozen=True, kw_only=True, tag="block_available", tag_field="type"):
    """A block as it is now; it replaces what was known of it."""

    block: BlockFacts
    version: int
    text: str


class Delta(Wire, frozen=True, kw_only=True, tag="delta", tag_field="type"):
    """One write. `update` is Loro's update in base 64; `text` is the whole text, when this write is the newest."""

    block_id: str
    label: str
    version: int
    actor: str
    origin: str
    operation: str
    reason: str
    at_ms: int
    session_id: str
    update: str
    text: str | None = None


class MetadataChanged(Wire, frozen=True, kw_only=True, tag="metadata_changed", tag_field="type"):
    """The facts of a block have changed."""

    block: BlockFacts


class BlockGone(Wire, frozen=True, kw_only=True, tag="block_gone", tag_field="type"):
    """A block is no longer there, or no longer in sight."""

    block_id: str
    label: str


class Done(Wire, frozen=True, kw_only=True, tag="done", tag_field="type"):
    """The last event: `unsubscribed`, `session_closed` or `shutdown`."""

    reason: str


MemoryEvent: TypeAlias = BlockAvailable | Delta | MetadataChanged | BlockGone | Done


class EventNotification(Wire, frozen=True, kw_only=True):
    """The parameters of `_pattern/memory/event`."""

    subscription_id: str
    event: MemoryEvent


AT_CLIENT = "_pattern/workspace/"
"""Begins the methods that a client serves which does work where its files are (`pattern-acp connect`)."""

GIT_STATUS = f"{AT_CLIENT}git_status"


class ToolAtClientRequest(MetaWire, frozen=True, kw_only=True):
    """Run the tool that the method is named after in the folders of a session; it only reads."""

    session_id: str
    arguments: JsonObject


class ToolAtClientResponse(Wire, frozen=True, kw_only=True):
    """The text for the model, the line for the user, and places as paths, with the line where there is one."""

    text: str
    summary: str = ""
    places: tuple[tuple[str, int | None], ...] = ()


class GitStatusRequest(MetaWire, frozen=True, kw_only=True):
    """Ask git about a folder of an open session."""

    cwd: str


class GitStatusResponse(Wire, frozen=True, kw_only=True):
    """The state of the working tree as `workspace.git.GitStatus` has it; absent without one."""

    status: JsonObject | None = None


SUBSCRIBE_SESSION = "_pattern/session/subscribe"
UNSUBSCRIBE_SESSION = "_pattern/session/unsubscribe"
SESSION_EVENT = "_pattern/session/event"


class SubscribeSessionRequest(MetaWire, frozen=True, kw_only=True):
    """Follow a session that any process on the constellation has open, or had; nothing of it changes."""

    session_id: str


class SessionUpdated(Wire, frozen=True, kw_only=True, tag="update", tag_field="type"):
    """The next update of the session, in the form that version 1 of ACP has for it."""

    update: SessionUpdate


class SessionEventNotification(Wire, frozen=True, kw_only=True):
    """The parameters of `_pattern/session/event`; `done` says `closed`, `interrupted`, `deleted` or as for memory."""

    subscription_id: str
    event: SessionUpdated | Done


FORK = "session/fork"
OWN_FORK = "_pattern/session/fork"
OPEN = "_pattern/session/open"
STOP_SUBAGENT = "_pattern/subagent/stop"


class ForkSessionRequest(LoadSessionRequest, frozen=True, kw_only=True):
    """Begin a session with the history of another one, up to a turn: its number or id; the last one by default."""

    turn: int | str | None = None


class ForkSessionResponse(MetaWire, frozen=True, kw_only=True):
    """The new session. Nothing is replayed: the client shows the history already."""

    session_id: str
    modes: SessionModeState | None = None
    config_options: tuple[ConfigOption, ...] | None = None


class OpenSessionRequest(LoadSessionRequest, frozen=True, kw_only=True):
    """session/load that says what to do with a session in use: `read` or `take_over`."""

    mode: str


class StopSubagentRequest(MetaWire, frozen=True, kw_only=True):
    """End a subagent that runs: that of a tool call, or without one the subagent that was started last."""

    session_id: str
    tool_call_id: str = ""


class StopSubagentResponse(MetaWire, frozen=True, kw_only=True):
    """The tool call whose subagent is being ended; empty when none runs, or it had ended before."""

    tool_call_id: str


BOARD = "_pattern/board"


class BoardRequest(MetaWire, frozen=True, kw_only=True):
    """The question which sessions are open, in any process on the constellation."""


class BoardClaim(Wire, frozen=True, kw_only=True):
    """Something that a session claims. `kind` is `file`, `folder` or `glob`, `state` `active`, `expired` or `stale`.

    `agent` is the subagent that made it last, `wanted_by` the title of the session that asks for it.
    """

    path: str
    kind: str
    state: str
    since: str
    agent: str | None = None
    wanted_by: str | None = None


class BoardSession(Wire, frozen=True, kw_only=True):
    """One open session. `at` is when its last step was; times are ISO 8601 in UTC.

    `waits_for` are questions that nobody has answered; costs are millionths of a US dollar.
    """

    session_id: str
    title: str
    cwd: str
    editor: str | None = None
    persona: str
    model: str
    alive: bool
    task: str | None = None
    step: str | None = None
    at: str
    waits_for: tuple[str, ...]
    used_tokens: int
    used_micro_units: int
    budget: str | None = None
    claims: tuple[BoardClaim, ...]


class BoardResponse(Wire, frozen=True, kw_only=True):
    """The open sessions, the busiest last one first."""

    sessions: tuple[BoardSession, ...]


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
    """The changes that a rewind would make. Turns are named by their numbers and prompts.

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
    """The result of a rewind: paths put back, paths left as others changed them, memory blocks, and what did not work.

    `fork_session_id` is the session in which the conversation continues, where it could not go back in this one.
    """

    words: str
    lost: tuple[str, ...]
    regained: tuple[str, ...]
    files: tuple[str, ...]
    kept: tuple[str, ...]
    blocks: tuple[str, ...]
    problems: tuple[str, ...]
    fork_session_id: str | None = None
