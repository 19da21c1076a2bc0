"""Durable facts. One frozen struct a kind; `journal/codec.py` gives each its name, version and JSON form.

Events are what a replay shows and what the next request is built from, so each holds everything needed for both.
"""

from typing import TypeAlias

from msgspec import Struct

from pattern_acp.domain.clock import MessageId, SessionId, ToolCallId, TurnId
from pattern_acp.domain.messages import ImagePart, Message
from pattern_acp.domain.project_parts import ProjectPart
from pattern_acp.domain.tool_calls import (
    FileChange,
    Location,
    Plan,
    SavedFile,
    StopReason,
    ToolCallStatus,
    ToolCallView,
    ToolContent,
    UnsavedFile,
)
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.job_events import JobMoved, JobQuoted, JobSettled
from pattern_acp.journal.memory_events import (
    ArchiveImported,
    BlockCommitted,
    BlockConfigured,
    BlockDeleted,
    BlockForgotten,
    BlockHealed,
    BlockRestored,
    BlockShared,
    EntryArchived,
    EntryStatusChanged,
    EntryVerified,
    MemoryForked,
    MemoryForkEnded,
    MemoryForkJoined,
    MemoryRecalled,
)


class FilesSaved(Struct, frozen=True):
    """Files as they were right before the session changed them; recorded first, so that a crash loses none."""

    turn_id: TurnId
    files: tuple[SavedFile, ...]


class MemoryPoint(Struct, frozen=True):
    """A point in the history of a memory block: the number of its newest write, and Loro's frontiers as hex."""

    block_id: str
    label: str
    version: int
    frontiers: str


class CheckpointTaken(Struct, frozen=True):
    """A moment to which the session can go back.

    `cause` is `turn`, `tool`, `person`, `rewind` or `recovered`. `position` is the session's event it is behind and
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
    left_out: tuple[UnsavedFile, ...] = ()
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

    With `back_to`, the conversation is what it was behind that event of the session, and continues with this one; None
    leaves the conversation as it is. `before` is the event behind which an undo begins; `problems` are sentences about
    what could not be put back.
    """

    rewind_id: str
    turn_id: TurnId
    before: int
    parts: tuple[str, ...]
    back_to: int | None = None
    problems: tuple[str, ...] = ()


class WorkerFile(Struct, frozen=True):
    """A file that a worker changed, by hashes of its texts; empty for no file. `mode` is 0 for bits that stay."""

    path: str
    before: str
    after: str
    mode: int = 0


class WorkerReady(Struct, frozen=True):
    """A worker is done, and its changes wait for their landing.

    `tree` is one hash over all that it read and wrote. `check` is the command that has to succeed, with its exit code
    and the hash of its output; empty for none.
    """

    turn_id: TurnId
    call_id: ToolCallId
    name: str
    tree: str
    files: tuple[WorkerFile, ...] = ()
    check: str = ""
    exit_code: int | None = None
    output: str = ""


class LandingStarted(Struct, frozen=True):
    """The changes of workers are about to be written; an end of the process before its LandingEnded is made up for.

    `files` are the changes that are to be made, each from the state that was found.
    """

    landing_id: str
    turn_id: TurnId
    call_id: ToolCallId
    workers: tuple[str, ...]
    files: tuple[FileChange, ...] = ()


class LandingEnded(Struct, frozen=True):
    """A landing ended: `landed`, `failed` or, after a crash, `undone`; `problem` says why, in sentences."""

    landing_id: str
    turn_id: TurnId
    outcome: str
    problem: str = ""


RETENTION = "retention"
"""The cause of a redaction that frees disk space: nobody wanted any words forgotten."""

MOVE = "move"
"""The cause of a redaction of what is in another constellation now, or came back from it."""


class EventsRedacted(Struct, frozen=True):
    """The user had words of the session taken out of its journal, for good; they are not repeated here.

    `events` counts the events that lost words, `files` the saved contents of files that are gone. `redaction` is
    `journal.reader.redaction_digest` of the events, so that nobody can add one later.
    """

    reason: str
    events: int
    files: int
    redaction: str
    cause: str = ""
    """`retention` when what was deleted long ago was removed, `import` when words had been taken out before the events
    came here, `move` when they moved to another constellation; empty when the user wanted words gone."""


class ContextCompacted(Struct, frozen=True):
    """Messages left the model's context. They stay in the journal, so a replay shows them and search finds them.

    A message that calls tools takes its results with it. `text`, a message of id `note_id`, is in their place.
    """

    turn_id: TurnId
    strategy: str
    """The method: `results`, `truncate`, `summarise`, `importance` or `time_decay`."""
    trigger: str
    """Why: `threshold`, `person`, or `provider`, which said that the request was too long."""
    removed: tuple[MessageId, ...] = ()
    shortened: tuple[ToolCallId, ...] = ()
    """Calls of whose results only the ends are sent, `keep_characters` of them."""
    keep_characters: int = 0
    note_id: MessageId = MessageId("")
    text: str = ""
    """The text that the model reads instead of the removed; empty when nothing was removed."""
    tokens_before: int = 0
    tokens_after: int = 0
    """Both estimated, of the whole request."""


class MessagePinned(Struct, frozen=True):
    """The user wants a message to stay in the context whatever is compacted; `pinned` is False when no longer."""

    turn_id: TurnId
    message_id: MessageId
    pinned: bool = True


class HistoryCleared(Struct, frozen=True):
    """The model's context starts again behind this: `/clear`. What was said stays in the transcript and in memory."""

    turn_id: TurnId


class OfferedTool(Struct, frozen=True):
    """A tool as a model was offered it. `schema` is the JSON Schema of its arguments as text."""

    name: str
    description: str
    schema: str
    free_form: str = ""


class ToolsOffered(Struct, frozen=True):
    """Tools that the requests behind this offer, until the next such event.

    It names no turn: so its payload is that of every session with these tools, and is stored once for them all.
    """

    tools: tuple[OfferedTool, ...]


class RequestParts(Struct, frozen=True):
    """Parts of a request, for a replay to compare.

    `system`, `tools`, `volatile` and each of `messages` are the first 16 hexadecimal digits of a SHA-256
    (turn/request_fingerprints.py). The first `kept` messages are those of the session's request before.
    """

    system: str
    tools: str
    volatile: str
    kept: int
    messages: tuple[str, ...]
    context_window: int
    max_output_tokens: int
    thought_level: str
    volatile_text: str | None = None
    """The text sent behind the messages; None when it is that of the request before."""
    tool_form: str = "auto"


class ModelRequested(Struct, frozen=True):
    """A request is about to be sent; `digest` is the SHA-256 of all of it but for the ids of its messages.

    `number` counts those of the turn from 1; 0 for one that writes a summary. Journals of before have no `parts`, and
    a digest that covers ids.
    """

    turn_id: TurnId
    number: int
    provider: str
    model: str
    digest: str
    message_count: int
    byte_count: int
    estimate: int = 0
    """Tokens by our own count, before any calibration."""
    parts: RequestParts | None = None


class ToolCallStarted(Struct, frozen=True):
    """A call was announced, with what the user was shown of it."""

    turn_id: TurnId
    call: ToolCallView
    repairs: tuple[str, ...] = ()
    """Repairs of the model's arguments, in phrases without values; the message has its own words still."""


class RecordedAccess(Struct, frozen=True):
    """One thing that a call would touch: the name of its kind, and its fields in their order."""

    kind: str
    words: tuple[str, ...]


class RecordedGrant(Struct, frozen=True):
    """A grant that held when something was decided."""

    effect: str
    kind: str
    pattern: str
    lifetime: str


class RecordedRule(Struct, frozen=True, omit_defaults=True):
    """A rule that held when something was decided. Without conditions it is written as earlier releases did."""

    effect: str
    kind: str
    pattern: str
    layer: str
    when: str = ""
    """Its conditions, as they are written."""


class RecordedPath(Struct, frozen=True):
    """A path that led elsewhere than it says when something was decided, as it is written in a folder."""

    path: str
    folder: str
    real: str


class RecordedClaim(Struct, frozen=True):
    """Claim of another open session that a call met."""

    path: str
    session: str
    told: bool = False
    """True if it had been reported, or allowed, before."""


class RecordedBasis(Struct, frozen=True, omit_defaults=True):
    """All that something was decided from besides policy and what the call would touch."""

    requests: int | None = None
    """Requests that the turn had left."""
    minutes: int | None = None
    branch: str | None = None
    hour: int | None = None
    """The hour of the day where the user was."""
    paths: tuple[RecordedPath, ...] = ()
    claims: tuple[RecordedClaim, ...] = ()


class RecordedPolicy(Struct, frozen=True):
    """All that decisions of a session were made by, with the release whose built-in policy it was."""

    release: str
    mode: str
    roots: tuple[str, ...]
    grants: tuple[RecordedGrant, ...] = ()
    rules: tuple[RecordedRule, ...] = ()
    sandbox: str = ""
    reading_asks: bool = False
    subagent: str = ""
    only_reads: bool = False
    paths: tuple[str, ...] = ()
    """The folders in which alone the subagent may write."""
    job: int = 0
    globs: tuple[str, ...] = ()
    """The patterns of files that the job may write."""
    overlap: str = "tell"
    """Setting `claims.overlap`: what became of calls that change what other open sessions claim."""
    asks_to_land: bool = False
    """True for a worker whose edits reached only its own view until the user agreed to all of them."""


class PermissionDecided(Struct, frozen=True):
    """Policy decided on a call: verdict, the rule that gave it, the reason (invariant 7)."""

    turn_id: TurnId
    call_id: ToolCallId
    verdict: str
    rule: str
    reason: str
    sandbox: str = ""
    """The sandbox that the call had to run in; empty when it might run outside."""
    origin: str = ""
    """Origin of its arguments in words, as far as it was known; empty in journals of before."""
    budget: str = ""
    """Requests and time that the turn had left; empty in journals of before."""
    git: str = ""
    """The branch or commit of the session's folder; empty without one, and in journals of before."""
    layer: str = ""
    """The layer of policy that decided; empty in journals of earlier releases, as all below."""
    source: str = ""
    """The rule of a file, or the grant, by which it was decided."""
    changes: str = ""
    """A sentence on what would have led to another decision."""
    accesses: tuple[RecordedAccess, ...] = ()
    """All that the call would touch."""
    policy: str = ""
    """The hash of the policy."""
    snapshot: RecordedPolicy | None = None
    """The policy, in the first decision by it."""
    basis: RecordedBasis | None = None
    """None where something else than policy had the last word, and in journals of earlier releases."""


class PermissionAsked(Struct, frozen=True):
    """The user was asked."""

    turn_id: TurnId
    call_id: ToolCallId
    reason: str
    options: tuple[str, ...]


class PermissionAnswered(Struct, frozen=True):
    """The user answered, or the client did in their place. `answer` is a policy `Answer` value.

    `words` are what the user wrote beside it.
    """

    turn_id: TurnId
    call_id: ToolCallId
    answer: str
    words: str = ""


class ToolCallFinished(Struct, frozen=True):
    """A call reached its final status, once. The model reads `result_text`; `failure` is a code of failures.toml."""

    turn_id: TurnId
    call_id: ToolCallId
    status: ToolCallStatus
    result_text: str
    content: tuple[ToolContent, ...] = ()
    locations: tuple[Location, ...] = ()
    images: tuple[ImagePart, ...] = ()
    full_output: str = ""
    duration_ms: int = 0
    interrupted: bool = False
    """True when nobody saw it end: the process died, or the turn was cancelled."""
    title: str = ""
    """The title at its end; empty for the one that it was announced with."""
    failure: str = ""
    sandbox: str = ""
    """The sandbox that it ran in, `none` when it ran outside; empty for a call that none could confine."""

    @property
    def shown_status(self) -> ToolCallStatus:
        """The status as the user sees it: a command that failed is no error for the model, and yet it failed."""
        return ToolCallStatus.FAILED if self.failure else self.status


class ToolResultExtended(Struct, frozen=True):
    """The model reads `text` behind the result of a call that has ended, such as what checks found after the edit."""

    turn_id: TurnId
    call_id: ToolCallId
    text: str


class GrantStored(Struct, frozen=True):
    """A standing permission answer was remembered.

    `effect` is `allow` or `deny`; `lifetime` is `turn`, `session`, `project` (of the persona) or `persona`.
    """

    effect: str
    kind: str
    pattern: str
    lifetime: str
    call_id: ToolCallId | None = None
    project: str = ""
    """The key of the project; empty where it does not matter."""
    persona: str = ""
    """The content identity of the persona; empty for one of a session."""


class GrantRevoked(Struct, frozen=True):
    """The user took a grant back; `number` is that of its row, and the rest says which it was, as in `GrantStored`."""

    number: int
    effect: str
    kind: str
    pattern: str
    lifetime: str
    project: str = ""
    persona: str = ""


class PinnedTool(Struct, frozen=True):
    """A tool of an MCP server as the user agreed to it: `definition` is its name, description and schema as text."""

    name: str
    digest: str
    definition: str


class ServerToolsPinned(Struct, frozen=True):
    """The user agreed to tools of an MCP server. `identity` is the hash of the program or address behind it."""

    server: str
    identity: str
    tools: tuple[PinnedTool, ...]


class InstructionFile(Struct, frozen=True):
    """A file whose instructions are part of a system prompt, and the bytes of it that are."""

    path: str
    size: int
    identity: str = ""
    """SHA-256 of its text with the line ends of Unix; empty in what earlier releases recorded."""
    definition: str = ""
    """The identity under which its text is stored; empty in what earlier releases recorded."""


class PinnedDefinition(Struct, frozen=True):
    """A skill or a command of a session, by its identity; its source is stored under that.

    `symbol` is its canonical name, `tier` says who it is from, and `place` where it lay: neither is part of the
    identity.
    """

    identity: str
    symbol: str
    tier: str
    place: str = ""


class InstructionsCompiled(Struct, frozen=True):
    """The system prompt of the session, byte for byte, so that a resumed session sends the same prefix.

    Recorded when the session begins, and again when it adopts definitions that have changed. `identity` is that of the
    persona; `definitions` are the skills and commands that it has from now on.
    """

    system: str
    identity: str
    files: tuple[InstructionFile, ...] = ()
    definitions: tuple[PinnedDefinition, ...] = ()
    symbol: str = ""
    """The canonical name of the persona, whose source is stored; empty in what earlier releases recorded."""
    predecessor: str = ""
    """The identity of the persona whose standing permissions this one takes over; empty where they lapse."""

    @property
    def identities(self) -> tuple[str, ...]:
        """The identities of all that the session is defined by."""
        files = (each.definition for each in self.files if each.definition)
        return (self.identity, *files, *(each.identity for each in self.definitions))


class SeenDefinition(Struct, frozen=True):
    """A definition that is another today than a session has; `word` is `changed`, `gone` or `new`."""

    symbol: str
    word: str
    identity: str = ""
    """Its identity today."""


class DriftTold(Struct, frozen=True):
    """The user learns that these definitions differ from those of the session, which continues with its own."""

    definitions: tuple[SeenDefinition, ...]


class WatchSwitched(Struct, frozen=True):
    """A watch of the project's groups is on or off in this session. All that it does runs for `call_id`."""

    turn_id: TurnId
    name: str
    call_id: ToolCallId
    on: bool


class DefinitionsFollowed(Struct, frozen=True):
    """The user chose for all sessions of a project what they take over of changed definitions, as `definitions.follow`.

    An empty `follow` leaves it to the settings again.
    """

    project: str
    follow: str


class DefinitionNoted(Struct, frozen=True):
    """The user wrote a note on the identity of a definition, instead of an earlier one; nothing reads it to act."""

    identity: str
    symbol: str
    note: str


class ContextAdded(Struct, frozen=True):
    """The model reads something that the user did not write: what hooks say, instructions of a folder in hand.

    It stands before the turn's prompt while nothing was answered yet, else at the end of the conversation. `sources`
    names where each part came from.
    """

    turn_id: TurnId
    message: Message
    sources: tuple[str, ...] = ()


class PromptRefused(Struct, frozen=True):
    """A hook refused the turn's prompt; the model never sees it."""

    turn_id: TurnId
    reason: str


class FolderTrustDecided(Struct, frozen=True):
    """The user decided on what a project's folder brings along.

    `decision` is `trusted`, `session`, `refused` or `revoked`; `root` is the folder with symbolic links followed,
    `digest` that of all `parts`.
    """

    root: str
    decision: str
    digest: str = ""
    parts: tuple[ProjectPart, ...] = ()


class BudgetChanged(Struct, frozen=True):
    """A budget took another value.

    `scope` is `turn`, `session` or `day`; `allowance` has the form of `domain.usage`. `by` is `person` for /budget,
    which holds for the session, and `extended` for the answer to a question, which holds for this turn or day only
    where the scope is one.
    """

    scope: str
    allowance: str
    by: str


class SessionCreated(Struct, frozen=True):
    """A session began. `persona_identity` is the content hash of the persona it runs (rule R5).

    A fork names its `parent`, the number of the parent's event behind which it begins, and that event's hash: a parent
    that is changed later no longer fits.
    """

    cwd: str
    additional_directories: tuple[str, ...]
    persona: str
    persona_identity: str
    model: str
    mode: str
    parent: SessionId | None = None
    fork_seq: int | None = None
    fork_hash: str = ""
    thought_level: str = ""
    """Empty in what was recorded before there was a setting for it."""


class SessionOpened(Struct, frozen=True):
    """A session was loaded or resumed by a process. `how` is `load` or `resume`."""

    how: str
    cwd: str
    additional_directories: tuple[str, ...]


BY_MODEL = "model"
"""Cause of the change of an option that follows from a change of the model."""


class SessionConfigured(Struct, frozen=True):
    """An option took a new value: `mode`, `model`, `thought_level`, `tools` or `overlapping`.

    `by` is `client`, `agent` (a slash command) or `BY_MODEL`.
    """

    option: str
    value: str
    by: str


class SessionTitled(Struct, frozen=True):
    """The session has a title."""

    title: str


class SessionClosed(Struct, frozen=True):
    """The client closed the session; it can be loaded again."""


class HandoffLeft(Struct, frozen=True):
    """A session as it was when it was left: put together from its own events, without a model.

    `state` is `finished`, `cancelled`, `limit` or `failed`, as its last turn ended. `files` are those that it changed,
    the newest first, as many as are named; `files_in_all` counts them. `commands` ran in the background and were ended.
    """

    turn_id: TurnId
    state: str
    request: str
    """The last prompt, on one line and cut."""
    steps: tuple[str, ...] = ()
    """Steps of the plan that are open."""
    files: tuple[str, ...] = ()
    files_in_all: int = 0
    commands: tuple[str, ...] = ()


class SessionDeleted(Struct, frozen=True):
    """The user deleted the session; it is no longer listed or loaded."""


class SessionRestored(Struct, frozen=True):
    """The user took the deletion back."""


class SessionArchived(Struct, frozen=True):
    """The user put the session away (`archived`) or back into the list."""

    archived: bool


OWN_TURN = "(own turn)"
"""The command of a turn that nobody prompted: the agent began it, since background work had ended."""


class TurnStarted(Struct, frozen=True):
    """The user sent a prompt. `command` is the slash command's name when it is one (the model does not see those).

    A turn of the agent's own has `OWN_TURN` there and a message without parts.

    `prompt_key` is the idempotency key with which the client sent it: a second prompt with it is the same one.
    """

    turn_id: TurnId
    message: Message
    command: str = ""
    prompt_key: str = ""


class ShownBlock(Struct, frozen=True):
    """A memory block as the model was shown it. `version` is the number of its newest write then."""

    block_id: str
    label: str
    version: int
    about: str
    permission: str
    limit: int
    text: str
    is_shown: bool = True
    """False for a block of which only the head was shown."""


class MemoryShown(Struct, frozen=True):
    """The model was shown its whole memory, in the words of `text`, right before the turn's prompt.

    Later requests tell what changed since; so the text stays in the history, byte for byte.
    """

    turn_id: TurnId
    text: str
    blocks: tuple[ShownBlock, ...]


class MessagePartial(Struct, frozen=True):
    """Text that was added to an unfinished message, committed at least once a second (rule R2).

    The text begins behind the first `text_at` characters of what was committed of the message before, the thinking
    likewise; version 1 always held all of both. Superseded by its `MessageRecorded`.
    """

    turn_id: TurnId
    message_id: MessageId
    text: str
    thinking: str
    text_at: int = 0
    thinking_at: int = 0


class MessageRecorded(Struct, frozen=True):
    """An assistant message ended. `complete` is False when it was cut (cancel, broken stream)."""

    turn_id: TurnId
    message: Message
    complete: bool = True
    for_model: bool = True
    """False for what only the user sees (answers to slash commands, notices)."""


class PlanUpdated(Struct, frozen=True):
    """The plan was replaced."""

    turn_id: TurnId
    plan: Plan


class TasksChanged(Struct, frozen=True):
    """Tasks of one list were changed: `number` is that of the update, `update_hash` the SHA-256 of it."""

    list_id: str
    number: int
    operation: str
    task_ids: tuple[str, ...]
    update_hash: str
    turn_id: TurnId | None = None
    call_id: ToolCallId | None = None


class UsageReported(Struct, frozen=True):
    """Tokens of one model request, tokens now in context, the model's window, and the session's cost so far.

    `spent` is the cost of this request alone, reckoned with the price table `prices`; `model` is `PROVIDER/MODEL`.
    Journals of before have none of these three. `estimated` counts are ours: the request was cut before its provider
    told them.
    """

    turn_id: TurnId
    usage: Usage
    used: int
    size: int
    cost: Cost | None = None
    model: str = ""
    spent: Cost | None = None
    prices: str = ""
    estimated: bool = False


class ErrorReported(Struct, frozen=True):
    """A turn failed; the event behind it ends the turn. `kind` names the error class, `code` a row of failures.toml."""

    turn_id: TurnId | None
    kind: str
    sentence: str
    code: str = ""


class TurnEnded(Struct, frozen=True):
    """The turn is over; the last event of a turn."""

    turn_id: TurnId
    stop_reason: StopReason
    sentence: str = ""
    handed_over: bool = False
    """True when it ended between two tool calls for the next prompt, which steers the work."""


class JobStarted(Struct, frozen=True):
    """A command runs in the background from now on, beside the turns of the session."""

    job_id: str
    line: str
    cwd: str


class JobEnded(Struct, frozen=True):
    """A background command ended. `outcome` is `exited`, `stopped` or `lost`: nobody saw how."""

    job_id: str
    outcome: str
    exit_code: int | None = None
    signal: str | None = None
    last_line: str = ""


class JobReported(Struct, frozen=True):
    """A subagent in the background has finished, and its result waits for a prompt, also of a later process.

    `kind`, `name`, `task`, `paths` and `checks` are those of the `delegate` call. `files` are its changes, whose
    contents are stored; they land if `lands`. `problem` says in sentences what was wrong, and `failed` how it counts.
    `wants_words`: the user's next message says what it is to change. `memory` is the fork of what it learned; empty for
    nothing.
    """

    job_id: str
    call_id: ToolCallId
    kind: str
    name: str
    task: str
    report: str
    paths: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    files: tuple[WorkerFile, ...] = ()
    lands: bool = False
    problem: str = ""
    failed: bool = False
    exit_code: int | None = None
    output: str = ""
    wants_words: bool = False
    memory: str = ""


class SubagentRecorded(Struct, frozen=True):
    """Something that happened in the thread of a subagent, which is beside the conversation of its session.

    `call_id` is the call that the subagent runs for, `name` what the user knows it by. Neither the model nor a replay
    reads a thread as part of the conversation; a grant that the user gave is recorded as the session's own.
    """

    turn_id: TurnId
    call_id: ToolCallId
    thread_id: str
    name: str
    event: "Event"


Event: TypeAlias = (
    SessionCreated
    | SessionOpened
    | SessionConfigured
    | SessionTitled
    | SessionClosed
    | SessionDeleted
    | SessionRestored
    | SessionArchived
    | InstructionsCompiled
    | TurnStarted
    | MemoryShown
    | ContextAdded
    | PromptRefused
    | ToolsOffered
    | ModelRequested
    | MessagePartial
    | MessageRecorded
    | ToolCallStarted
    | PermissionDecided
    | PermissionAsked
    | PermissionAnswered
    | ToolCallFinished
    | ToolResultExtended
    | PlanUpdated
    | UsageReported
    | ErrorReported
    | TurnEnded
    | BlockCommitted
    | BlockDeleted
    | BlockRestored
    | BlockForgotten
    | ArchiveImported
    | MemoryForked
    | MemoryForkJoined
    | MemoryForkEnded
    | BlockHealed
    | BlockConfigured
    | BlockShared
    | EntryArchived
    | EntryVerified
    | EntryStatusChanged
    | GrantStored
    | GrantRevoked
    | ServerToolsPinned
    | FolderTrustDecided
    | JobStarted
    | JobEnded
    | JobReported
    | HistoryCleared
    | FilesSaved
    | CheckpointTaken
    | RewindStarted
    | WorkerReady
    | LandingStarted
    | LandingEnded
    | SessionRewound
    | SubagentRecorded
    | ContextCompacted
    | MessagePinned
    | EventsRedacted
    | BudgetChanged
    | HandoffLeft
    | DriftTold
    | DefinitionNoted
    | DefinitionsFollowed
    | WatchSwitched
    | MemoryRecalled
    | TasksChanged
    | JobQuoted
    | JobMoved
    | JobSettled
)
