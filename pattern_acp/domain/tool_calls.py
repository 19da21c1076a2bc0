"""A turn as the user sees it, in ACP's words: tool calls, the states of files that they leave, the plan, the end.

A state is what a file was at a moment, enough to put it back: the journal stores it, the workspace captures it.
"""

from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import Struct

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId

A_FOLDER = "it is a folder"
"""The reason why nothing is saved of a path that is one."""

FileKind: TypeAlias = Literal["missing", "file", "link"]


class FileState(Struct, frozen=True):
    """One path at one moment.

    `digest` is the SHA-256 of a file's bytes, or what a link points at; empty when the content was not saved, and
    `why_not` says why in a clause. `mode` holds the permission bits, 0 where they do not count.
    """

    kind: FileKind
    mode: int = 0
    size: int = 0
    digest: str = ""
    why_not: str = ""

    @property
    def is_kept(self) -> bool:
        """True when the path can be put back into this state."""
        return self.kind == "missing" or bool(self.digest)

    @property
    def is_folder(self) -> bool:
        """True when there was a folder; what was in it has states of its own."""
        # Before 0.2, folders were not distinguished from devices.
        return self.why_not.startswith(A_FOLDER)


MISSING = FileState("missing")
"""There is nothing."""


class SavedFile(Struct, frozen=True):
    """A path, absolute and resolved but for its last part, and its state."""

    path: str
    state: FileState


class FileChange(Struct, frozen=True):
    """A change of a path."""

    path: str
    before: FileState
    after: FileState


class UnsavedFile(Struct, frozen=True):
    """Something that a checkpoint does not hold, and why, in a clause."""

    path: str
    why: str


USER_REFUSED = "The user refused this call."
"""First sentence of the result that tells the model of a refusal; the offline provider knows it by that."""

NOTHING_RAN = "Nothing of it ran."
"""Behind the problem of a call in text that cannot be read; advice may follow."""

COMPACT_CALL = "compact"
"""Name of the call that shows a compaction."""


class ToolKind(StrEnum):
    """ACP's tool kinds."""

    READ = "read"
    EDIT = "edit"
    DELETE = "delete"
    MOVE = "move"
    SEARCH = "search"
    EXECUTE = "execute"
    THINK = "think"
    FETCH = "fetch"
    SWITCH_MODE = "switch_mode"
    OTHER = "other"


class ToolCallStatus(StrEnum):
    """ACP's tool call states. There is no state for cancelled: such a call is `FAILED`."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class Location(Struct, frozen=True):
    """A place in a file: an absolute path and a 1-based line."""

    path: str
    line: int | None = None


class Advised(Struct, frozen=True):
    """A text with two readers: the user sees `shown`; the model reads the advice too, in the line behind it."""

    shown: str
    advice: str

    @property
    def for_model(self) -> str:
        """All of it."""
        return f"{self.shown}\n{self.advice}"


class TextContent(Struct, frozen=True, tag="text"):
    """Text shown in a tool call."""

    text: str


class ImageContent(Struct, frozen=True, tag="image"):
    """An image shown in a tool call (base64 data)."""

    media_type: str
    data: str


class DiffContent(Struct, frozen=True, tag="diff", omit_defaults=True):
    """A change of one file: absolute path, old text (None for a new file), new text; of a large file one place."""

    path: str
    old_text: str | None
    new_text: str
    is_gone: bool = False
    """True when the file is no longer there, under this path at least."""
    moved_from: str = ""
    """The path of a file before, which another `DiffContent` beside this one shows as gone."""


class FileSide(Struct, frozen=True, omit_defaults=True):
    """A file before or after a change."""

    kind: FileKind
    text: str | None = None
    """The text, or the target of a link; None where it is no text, or too large to be shown."""
    mode: int = 0
    """Permission bits; 0 where they are not known."""
    is_binary: bool = False


class ChangedPath(Struct, frozen=True, omit_defaults=True):
    """A path that a call changed, and the path that it had before where it was moved."""

    path: str
    before: FileSide
    after: FileSide
    moved_from: str = ""


class FilesChanged(Struct, frozen=True, tag="files"):
    """Files that a command changed. Clients of version 1 are not shown them."""

    files: tuple[ChangedPath, ...]
    left_out: int = 0
    """Number of further files."""


class TerminalContent(Struct, frozen=True, tag="terminal"):
    """A command's terminal.

    `terminal_id` names a live terminal of the client, or one that we show ourselves; a replay shows `output` as text
    instead, since clients drop updates that name a dead terminal (zed#64538).
    """

    terminal_id: str
    command: str
    cwd: str = ""
    output: str = ""
    client_owned: bool = False


class LinkContent(Struct, frozen=True, tag="link"):
    """A link that the user can follow, shown in a tool call: its name on one line, and what is behind it."""

    uri: str
    name: str
    description: str = ""


ToolContent: TypeAlias = TextContent | ImageContent | DiffContent | FilesChanged | TerminalContent | LinkContent


class ToolCallView(Struct, frozen=True):
    """A call as the user is shown it."""

    call_id: ToolCallId
    name: str
    title: str
    kind: ToolKind
    raw_input: JsonObject
    locations: tuple[Location, ...] = ()
    content: tuple[ToolContent, ...] = ()


class PlanPriority(StrEnum):
    """ACP's plan priorities."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class PlanStatus(StrEnum):
    """ACP's plan entry states."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class PlanEntry(Struct, frozen=True):
    """One step."""

    content: str
    priority: PlanPriority = PlanPriority.MEDIUM
    status: PlanStatus = PlanStatus.PENDING


class Plan(Struct, frozen=True):
    """The whole plan; every update replaces the one before."""

    entries: tuple[PlanEntry, ...]


class StopReason(StrEnum):
    """ACP's five stop reasons."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"
