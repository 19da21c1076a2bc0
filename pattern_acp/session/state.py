"""The state of one session, by the part that owns it, and what its sandbox and its code map come to.

Owns: the data that lives as long as a session does in this process; what the setting of the user, this machine and the
folders of the session come to as a sandbox, which confines commands; whether there is a code map, and which files it
may show. Must not know: `Session`, or anything that acts on this state; what changes it lives beside it in this
package; how a profile is applied.
"""

import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio
from anyio import to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.config.project_offer import NOTHING, ProjectOffer
from pattern_acp.config.settings import PolicySettings, Settings
from pattern_acp.context.builder import MemoryView, ShortenedTexts, begins_memory, history_of, last_shown
from pattern_acp.context.window import BreakDetector, Calibration, MessageTokens
from pattern_acp.definitions.collection import NO_DEFINITIONS, Definitions
from pattern_acp.definitions.commands import CommandDefinition
from pattern_acp.definitions.identity import KeptSource
from pattern_acp.definitions.personas import PersonaRef
from pattern_acp.definitions.skills import SkillDefinition
from pattern_acp.domain.access import ReadPath
from pattern_acp.domain.clock import SessionId, ToolCallId, TurnId
from pattern_acp.domain.messages import Message, Part
from pattern_acp.domain.project_parts import PartKind, digest_of_parts
from pattern_acp.domain.untrusted_blocks import Section
from pattern_acp.domain.usage import Allowance, Cost
from pattern_acp.journal.events import (
    InstructionFile,
    JobReported,
    MemoryShown,
    PinnedDefinition,
    SeenDefinition,
    WatchSwitched,
)
from pattern_acp.journal.job_events import JobCheck, JobHold, JobTerms
from pattern_acp.journal.reader import Recorded
from pattern_acp.journal.usage import Spent
from pattern_acp.mcp_servers.host import SessionServers
from pattern_acp.memory.blocks import MemoryFork
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.policy.decision import NO_NETWORK, NO_SANDBOX, SANDBOX_REQUIRED, Verdict
from pattern_acp.policy.grants import Grant
from pattern_acp.policy.sandbox import session_profile
from pattern_acp.processes.confinement import Profile
from pattern_acp.providers.base import ModelInfo, ThoughtLevel, ToolForm, ToolSpec
from pattern_acp.session.options import Overlap
from pattern_acp.tools.base import CodeAccess, Tool, shown_name
from pattern_acp.trust import Agreement
from pattern_acp.turn.budget import Limits
from pattern_acp.turn.loop import TurnEnd
from pattern_acp.turn.permissions import PolicyState
from pattern_acp.turn.request_fingerprints import RequestDigests

if TYPE_CHECKING:
    from pattern_acp.definitions.bundles import Bundle
    from pattern_acp.policy.layers import SubagentLimits
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.tools.skill import LoadSkill, WriteSkill


class Addition(Struct, frozen=True):
    """One thing to tell: `name` and `title` of the call that shows it, the text, and where it came from."""

    name: str
    title: str
    text: str
    source: str
    path: str = ""
    """The file behind it, for the editor to open."""
    parts: tuple[Part, ...] = ()
    """Parts besides the text, such as files that it mentions."""


class InjectionQueue(Struct):
    """A conversation with a model and what it reads next: a subagent's; a session's state is one too."""

    history: list[Message] = field(default_factory=list[Message])
    waiting: list[Addition] = field(default_factory=list[Addition])


BudgetScope: TypeAlias = Literal["turn", "session", "day", "job"]


class RunningJob(Struct):
    """The job that a turn works on (session/agreed_jobs.py)."""

    job_id: str
    number: int
    terms: JobTerms
    hold: JobHold
    before: Spent
    """The use by earlier turns."""
    used_ms: int
    """The time that earlier turns took."""
    limits: "SubagentLimits"
    """The narrower policy of its turn."""
    model: ModelInfo
    """The session's own model, which it has again behind the turn."""
    persona: str
    """The session's own persona, which answers again behind the turn."""
    grants: tuple[Grant, ...] = ()
    """The commands that were agreed to, which need no question in its turn."""
    recorded_ms: int = 0
    """The part of the turn's time that is recorded."""
    checks: tuple[JobCheck, ...] = ()
    """Results of the checks, once they ran behind the last answer."""
    failed_rounds: int = 0

    def limiting(self, limits: Limits) -> Limits:
        """The limits of its turn, with the time that is left of the job's."""
        if self.hold.milliseconds is None:
            return limits
        left = max(self.hold.milliseconds - self.used_ms, 0) // 1000
        return replace(limits, seconds=min(limits.seconds, left))


class BudgetState(Struct):
    """State of a session's budgets, beside the settings."""

    changed: dict[BudgetScope, Allowance] = field(default_factory=dict["BudgetScope", Allowance])
    """Those that /budget set."""
    extended: dict[tuple[BudgetScope, str], Allowance] = field(
        default_factory=dict[tuple["BudgetScope", str], Allowance]
    )
    """Limits as they are after an extension, by the turn, session or day they are of."""
    told: set[tuple[BudgetScope, str, str]] = field(default_factory=set[tuple["BudgetScope", str, str]])
    """Limits of which the user was warned that most is used."""
    told_unpriced: set[str] = field(default_factory=set[str])
    """Models of which the user knows that no budget of money can count them, or counts them as free."""
    stopped: set[tuple[TurnId, BudgetScope, str]] = field(default_factory=set[tuple[TurnId, "BudgetScope", str]])
    """At which limits the user stopped which turn; what still runs of it does not ask again."""
    asking: anyio.Lock = field(default_factory=anyio.Lock)
    """Subagents reach a limit together; the user is asked once."""
    running: set[str] = field(default_factory=set[str])
    """Reservations of this session's requests that run."""
    settled: anyio.Event = field(default_factory=anyio.Event)
    """Set, and replaced, whenever one of them has ended."""
    switched: bool = False
    """True when the user chose another model, with which the turn is to continue."""


class HookState(Struct):
    """State of one session's hooks."""

    started: bool = False
    """True once the hooks of its start have run in this process."""
    told: set[str] = field(default_factory=set[str])
    """Problems that the user has heard of."""


class WindowState(Struct):
    """State of a session's context window."""

    calibration: Calibration = field(default_factory=Calibration)
    messages: MessageTokens = field(default_factory=MessageTokens)
    texts: ShortenedTexts = field(default_factory=ShortenedTexts)
    breaks: BreakDetector = field(default_factory=BreakDetector)
    counts: bool = True
    """False once a provider failed to count: it is not asked again."""
    refused: dict[str, int] = field(default_factory=dict[str, int])
    """Tokens, by our estimate, of requests that were refused as too long, a model each."""
    has_left_out: bool = False
    """True when messages of the conversation left the context, so that search has to find them."""
    told: set[str] = field(default_factory=set[str])
    """Models of which the user knows that tools were left out."""
    offered: tuple[object, tuple[Tool, ...]] = (None, ())
    """The tools offered last, behind all that they depend on."""
    offered_specs: tuple[tuple[Tool, ...], tuple[ToolSpec, ...]] = ((), ())
    """The specifications of the tools offered last, behind these tools."""


class HistoryCache(Struct, frozen=True):
    """The conversation up to an event, with the memory that the model was last shown in whole."""

    session_seq: int = 0
    """The place of that event in the session's stream; 0 for the beginning."""
    messages: tuple[Message, ...] = ()
    shown: MemoryShown | None = field(default=None)

    def followed_by(self, recorded: Sequence[Recorded]) -> "HistoryCache":
        """The conversation once these events, which are the next of the stream, were recorded too."""
        if not recorded:
            return self
        events = [item.event for item in recorded]
        tells_memory = any(begins_memory(event) for event in events)
        shown = last_shown(events) if tells_memory else self.shown
        return HistoryCache(recorded[-1].session_seq, tuple(history_of(events, self.messages)), shown)


class FolderTrust(Struct):
    """The state of one session: what the folder has now, and whether it counts."""

    root: str
    """The session's folder with symbolic links followed: an alias of a folder is the same folder."""
    offer: ProjectOffer = NOTHING
    definitions: Definitions = NO_DEFINITIONS
    """Commands and skills; those of the project are part of the offer."""
    today: Definitions = NO_DEFINITIONS
    """Commands and skills as their files are now; `definitions` are those in force."""
    granted: bool = False
    """True when the folder is trusted with all of `offer` as it is now. Readers of the offer check this first."""
    agreed: frozenset[tuple[PartKind, str, str]] = frozenset()
    """The parts that the user agreed to, by kind, name and digest, whether the folder still has them or not."""
    answered: dict[str, bool] | None = None
    """Answers that hold for this session only, by digest."""
    servers: SessionServers | None = None
    """The servers of the project and of bundles that run in this session."""
    bundles: "tuple[Bundle, ...]" = ()
    """Installed bundles that the user agreed to as they are now; their definitions are among `definitions`."""
    changed_bundles: tuple[str, ...] = ()
    """Names of installed bundles that are not what the user agreed to."""
    told: set[str] = field(default_factory=set[str])
    """Those that were announced to the user."""

    @property
    def in_force(self) -> ProjectOffer:
        """The offers that may be used now: all of the project's or nothing of it, and those of bundles."""
        own = self.offer if self.granted else NOTHING
        if not self.bundles:
            return own
        offers = [bundle.offer for bundle in self.bundles]
        servers = {name: server for offer in (*offers, own) for name, server in offer.mcp_servers.items()}
        return replace(own, mcp_servers=servers, hooks=(*(hook for each in offers for hook in each.hooks), *own.hooks))

    @property
    def summary(self) -> str:
        """Parts that the folder brings and whether they are trusted, for /status; empty when it brings nothing."""
        if not self.offer.parts:
            return "its files, trusted" if self.granted else ""
        # Late, as below: most folders bring nothing.
        from pattern_acp.trust import count_parts

        return f"{count_parts(self.offer.parts)}, {'trusted' if self.granted else 'not trusted'}"

    @property
    def digest(self) -> str:
        """Digest of everything that is offered."""
        return digest_of_parts(self.offer.parts)

    def may_use(self, each: SkillDefinition | CommandDefinition) -> bool:
        """True for what the user agreed to: as part of the folder as it is, or on its own before it changed or went."""
        if self.granted or not each.of_project:
            return True
        is_skill = isinstance(each, SkillDefinition)
        kind, name = (PartKind.SKILL, each.name) if is_skill else (PartKind.COMMAND, f"/{each.name}")
        digest = each.digest if is_skill else each.part_digest
        refused = (self.answered or {}).get(self.digest) is False
        return not refused and (kind, name, digest) in self.agreed

    def judge(self, agreement: Agreement | None) -> bool | None:
        """True when the offer is trusted as it is; None when nobody has decided."""
        parts = agreement.parts if agreement is not None else ()
        self.agreed = frozenset((part.kind, part.name, part.digest) for part in parts)
        digest = self.digest
        if agreement is not None and agreement.digest == digest:
            return True
        return (self.answered or {}).get(digest)

    def note(self, digest: str, *, trusted: bool) -> None:
        """Keep an answer for this session."""
        self.answered = {**(self.answered or {}), digest: trusted}


class DefinitionChange(Struct, frozen=True):
    """A definition that is another than the session has; `word` is `changed`, `gone` or `new`."""

    symbol: str
    word: str
    identity: str = ""
    """Its identity today."""
    counts: bool = False
    """True when today's is in force."""

    @property
    def sentence(self) -> str:
        """A sentence for the user."""
        kind, _, name = self.symbol.partition("/")
        shown = f"The {kind} {'/' if kind == 'command' else ''}{name}"
        if self.word == "new":
            return f"{shown} is new, and counts from now on."
        verb = "has changed" if self.word == "changed" else "is gone"
        if self.counts:
            return f"{shown} {verb}, which counts from now on."
        return f"{shown} {verb}; this session continues with the one that it has."


class Drift(Struct, frozen=True):
    """A definition that is another today than the session has, and a sentence on it."""

    seen: SeenDefinition
    sentence: str
    counts: bool = False
    """True when today's is in force."""


class SessionState(Struct):
    """State of a session."""

    session_id: SessionId
    client_id: SessionId
    """The id by which the client names it: that of the session which it was forked from while the client continued."""
    cwd: str
    additional_directories: tuple[str, ...]
    project_key: str
    title: str
    model: ModelInfo
    thought_level: ThoughtLevel
    policy: PolicyState
    system: str
    settings: Settings
    persona: PersonaRef
    """The persona that the session began with; another process continues as it, whatever persona that process has."""
    memory_fork: MemoryFork | None = None
    """The forked memory that the session uses until it is merged or discarded."""
    tool_form: ToolForm = ToolForm.AUTO
    overlap: Overlap = Overlap.REPLACE
    shows_overlap: bool = False
    """True when the treatment of overlapping prompts is one of the options that the client shows."""
    instructions: tuple[InstructionFile, ...] = ()
    """Files whose instructions are part of `system`, or joined the conversation since in their newest text."""
    pins: tuple[PinnedDefinition, ...] = ()
    """The skills and commands that it has, as they were recorded last."""
    sources: dict[str, KeptSource] = field(default_factory=dict[str, KeptSource])
    """Stored sources that were read, by identity."""
    told_changes: set[SeenDefinition] = field(default_factory=set[SeenDefinition])
    """Changes that were announced to the user, or are with the next turn."""
    untold_drift: list[Drift] = field(default_factory=list[Drift])
    """Those of which the next turn asks the user, or tells them."""
    repository: str | None = None
    """Root of the git repository around, as the last prompt found it, empty without one; None where nobody looked."""
    instruction_stamps: tuple[tuple[int, int], ...] = ()
    """Times of change and sizes of these files, as the last prompt found them."""
    nested_instructions: dict[str, tuple[int, int]] | None = None
    """Files of deeper folders that joined the conversation, as the last prompt found them; None before the first."""
    history: list[Message] = field(default_factory=list[Message])
    used_calls: set[ToolCallId] = field(default_factory=set[ToolCallId])
    """Ids of all tool calls of the session, also of those that left the history: each is used once."""
    digests: RequestDigests = field(default_factory=RequestDigests)
    fingerprints: dict[str, str] = field(default_factory=dict[str, str])
    cost: Cost | None = None
    notices: list[str] = field(default_factory=list[str])
    waiting: list[Addition] = field(default_factory=list[Addition])
    """Additions to the next request (session/instructions.py)."""
    reported: list[JobReported] = field(default_factory=list[JobReported])
    """Results of subagents in the background that waited for a prompt when their process ended."""
    watches: dict[str, WatchSwitched] = field(default_factory=dict[str, WatchSwitched])
    """Watches that are on, by name; each spends the budget of the turn in which it was switched on."""
    skill_tool: "LoadSkill | None" = None
    """The tool that loads skills, once a prompt has fixed what it lists."""
    skill_writer: "WriteSkill | None" = None
    """The tool that proposes skills, in a session that has some, or whose user asked for it."""
    claims: dict[str, int] = field(default_factory=dict[str, int])
    """Paths that the session claims, each with the time of its last renewal."""
    told_claims: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Claims of others that were reported: session, or subagent, and path."""
    claiming_agents: dict[str, str] = field(default_factory=dict[str, str])
    """Files that subagents which run edit, each with the name of the last one."""
    has_tasks: bool | None = None
    """True once there are tasks in sight that are not over; None before the first request asked."""
    has_past: bool | None = None
    """True if anything was said in an earlier session; None in a new session before the first request asked."""
    unfinished: bool = False
    """True when a turn's end could not be recorded."""
    unrecorded: TurnEnd | None = None
    """The end that could not be recorded; None for a cancellation."""
    shown: MemoryShown | None = None
    """The memory that the model was last shown in whole."""
    redacted_seq: int = 0
    """The event of the newest forgetting that took words out of this conversation, as far as `history` knows."""
    settled: HistoryCache = field(default_factory=HistoryCache)
    """The conversation that was read from the journal last, up to the end of a turn."""
    reported_files: set[str] = field(default_factory=set[str])
    """Files of memory, in the state they were in, that the user has heard of."""
    window: WindowState = field(default_factory=WindowState)
    """State of the model's window: token counts and breaks of the cache."""
    job: RunningJob | None = None
    """The job that the turn works on."""
    budgets: BudgetState = field(default_factory=BudgetState)
    """Spending limits and reservations, beside the settings."""
    memory_changes: tuple[MemoryShown, tuple[MemoryView, ...], tuple[Section, ...]] | None = None
    """The notices of changed memory that were worked out last, behind what they compare."""
    told_of_memory: set[str] = field(default_factory=set[str])
    """Sentences on what of memory cannot be read, as the user was shown them."""
    hooks: HookState = field(default_factory=HookState)
    is_read: bool = False
    """True when the session is only shown, since another window has it."""
    read_to: int = 0
    """Number of the last event that was read of a session that is only shown."""


class SessionMemory(Struct):
    """The same memory twice: as the agent writes to it, and as the user does."""

    persona: ConstellationMemory
    person: ConstellationMemory
    follow_persona: Callable[[], None] = lambda: None
    """Continues with the memory of the persona that the session has now; its opener sets it."""

    def begin(self, turn_id: TurnId | None) -> None:
        """Name the turn that the writes of both belong to; None: no turn."""
        self.persona.turn_id = self.person.turn_id = turn_id


ELSEWHERE = (
    "The folders of this session are not on this machine, so nothing confines commands in the editor's terminal."
)


class SandboxState(Struct, frozen=True):
    """The sandbox of a session: its name as policy knows it, and what is wrong with it in a sentence."""

    name: str = ""
    problem: str = ""


async def sandbox_of(shared: "Constellation", state: "SessionState") -> SandboxState:
    """The sandbox in which commands of `session` run unasked, and its name for decisions (`policy.decide`)."""
    setting, means = state.settings.policy.sandbox, shared.sandboxing
    if setting == "off" or means is None:
        return SandboxState()
    found = await means.confinement.find()
    problem = found.problem
    # Not in a thread: it takes a few microseconds, and a turn has just read what the folder brings.
    if found.name and not os.path.isdir(state.cwd):  # noqa: ASYNC240, PTH112
        found, problem = replace(found, name=""), ELSEWHERE
    return SandboxState(sandbox_name(state.settings.policy, found.name), problem)


def sandbox_name(policy: PolicySettings, found: str) -> str:
    """The name by which decisions know a sandbox; `found` is what confines on this machine, empty for nothing."""
    if not found:
        return SANDBOX_REQUIRED if policy.sandbox == "require" else NO_SANDBOX
    return f"{found}, {'the network of the machine' if policy.sandbox_network == 'host' else NO_NETWORK}"


async def sandbox_summary(shared: "Constellation", state: "SessionState") -> str:
    """Name of what confines commands of `session` that run unasked, or why nothing does, for `/status`."""
    if state.settings.policy.sandbox == "off":
        return "off"
    found = await sandbox_of(shared, state)
    confines = found.name not in {"", NO_SANDBOX, SANDBOX_REQUIRED}
    return ". ".join(part for part in (found.name if confines else "none", found.problem) if part)


async def note_sandbox(shared: "Constellation", state: "SessionState") -> None:
    """Let the session's next decisions know its sandbox."""
    state.policy.sandbox = (await sandbox_of(shared, state)).name


async def profile_of(
    shared: "Constellation", state: "SessionState", *, roots: tuple[str, ...] | None = None
) -> Profile:
    """The limits of a command that is to run now: they follow what is on the disk.

    `roots` are the folders that it may write, the session's own unless others are named.

    Raises:
        OSError: the folder for temporary files cannot be made.
    """
    means = shared.sandboxing
    if means is None:
        raise OSError("nothing can confine commands here")
    settings = state.settings.policy
    network = settings.sandbox_network == "host"
    joined = "" if network else await to_thread.run_sync(means.confinement.hold, state.session_id)
    temporary = await to_thread.run_sync(means.confinement.temporary_folder, state.session_id)
    make = partial(
        session_profile,
        roots or state.policy.roots,
        replace(means.folders, writable=settings.sandbox_writable),
        means.environment,
        temporary=temporary,
        network=network,
    )
    return replace(await to_thread.run_sync(make), joined=joined)


CODE_TOOL = "code_map"
"""The tool that is not offered without a code map."""


def code_of(shared: "Constellation", state: "SessionState") -> CodeAccess | None:
    """The code map, where the session is in a workspace.

    The user's home and the top of the file system are none: they hold everything else, too.
    """
    return None if _holds_everything(state.policy.roots[0]) else shared.code


def may_read(state: "SessionState", path: str) -> bool:
    """True when policy, with the user's answers so far, allows reading an absolute path unasked."""
    from pattern_acp.policy.decide import decide

    policy = state.policy
    decision = decide(
        (ReadPath(shown_name(path)),), mode=policy.mode, roots=policy.roots, grants=policy.grants, rules=policy.rules
    )
    return decision.verdict is Verdict.ALLOW


@cache
def _holds_everything(root: str) -> bool:
    """Asked several times a turn, of the few folders that this process has sessions in."""
    first = Path(root)
    return first in {Path(first.anchor), _home()}


@cache
def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except (OSError, RuntimeError):
        return None
