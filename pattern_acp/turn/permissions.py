"""The one way to an effect: policy decides, the user is asked when it says so, and both are recorded.

Invariant 7: a denial beats every grant; nothing runs that was not decided; the decision is recorded with its reason.

A call is decided on after it was prepared, and preparing it reads files. `LookedAt` withholds what was read
before the decision: the error of a call that cannot be prepared may quote a file, and its preview shows one.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp import __version__
from pattern_acp.config.settings import OverlapSetting, PolicyRule
from pattern_acp.domain.access import Access, Actor, DataSource, Origin, ReadPath, WritePath
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import Clock, ToolCallId, TurnId, local_hour
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.paths import absolute_path, display_path, resolve_path
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import USER_REFUSED, Location, TextContent, ToolCallView, ToolKind
from pattern_acp.journal.events import (
    GrantStored,
    PermissionAnswered,
    PermissionAsked,
    PermissionDecided,
    RecordedGrant,
    RecordedPolicy,
    RecordedRule,
)
from pattern_acp.policy.decision import (
    CLAIMED,
    ApprovalRequest,
    Approver,
    Basis,
    Circumstances,
    ClaimElsewhere,
    Decision,
    Mode,
    PermissionAnswer,
    Verdict,
    Wording,
)
from pattern_acp.policy.grants import NOBODY, Grant, GrantOwner, approval_options, grant_for
from pattern_acp.tools.base import PreparedCall, Progress, Tool, ToolContext, ToolOutcome, shown_name
from pattern_acp.turn.budget import Budget, UserWaitTimer
from pattern_acp.turn.data_read import DataRead
from pattern_acp.turn.recorder import NewEvent, TurnRecorder
from pattern_acp.workspace.files import LineWindow, TextFile, TextLines
from pattern_acp.workspace.git import git_facts

if TYPE_CHECKING:
    from pattern_acp.policy.layers import SubagentLimits
    from pattern_acp.policy.origins import KnownTexts

REFUSAL_ADVICE = " Do not repeat it; continue without it or ask the user what they prefer."
REFUSED = f"{USER_REFUSED} It did not run and nothing was changed.{REFUSAL_ADVICE}"

REFUSED_WITH_WORDS = f"{USER_REFUSED} It did not run and nothing was changed. They wrote: {{}}"

NOTHING_DONE = "Not done yet, nothing was changed."
WAITS = "The user wants to wait."
WAITS_ADVICE = "Do something else, or work in a fork or a worktree of your own."
ASKED_TO_GIVE_WAY = "The user asked that session to give way; until it does, its work is left alone."
GIVES_WAY_ADVICE = "Do something else first."

PATHS_NAMED = 5
"""Files that a question about a call that does not work names."""

REFUSED_BY_PERSON = "Refused; it did not run."


class GivesWay(Protocol):
    """Hears that the user allowed a call beside claims of others."""

    async def __call__(self, *, takes_over: bool) -> bool:
        """Return whether the call waits until they are returned; `takes_over`: the user wants to take them over."""
        ...


class PolicyState(Struct):
    """Inputs to the decisions of one session. The mode may change while a turn runs; the next call sees it."""

    mode: Mode
    roots: tuple[str, ...]
    grants: list[Grant] = field(default_factory=list[Grant])
    owner: GrantOwner = NOBODY
    """The project and persona that lasting grants belong to."""
    sandbox: str = ""
    """The sandbox of commands that run without a question, in a few words; empty for none."""
    declined_outside: set[tuple[Access, ...]] = field(default_factory=set[tuple[Access, ...]])
    """Calls that the sandbox stopped and the user did not let run outside."""
    reading_asks: bool = False
    """True when commands that only read ask like all others."""
    rules: tuple[PolicyRule, ...] = ()
    """The rules of the user and of the project."""
    overlap: OverlapSetting = "tell"
    """Setting `claims.overlap`: what becomes of calls that change what other open sessions claim."""
    read: DataRead = field(default_factory=DataRead)
    """Data that the session has read, whose text may be behind a call."""
    trusts_folder: Callable[[], bool] = lambda: False
    """Tells whether the user trusts the session's folder as it is now."""
    trusting_files: Callable[[], Callable[[], Awaitable[None]] | None] = lambda: None
    """Returns what trusts the folder; None where more than its files would be trusted."""
    recorded: dict[RecordedPolicy, str] = field(default_factory=dict[RecordedPolicy, str])
    """Policies that the journal has since the session was opened, and their hashes."""
    asking: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while the user is asked: questions come one at a time, as each answer may settle the next."""

    def known(self) -> "KnownTexts":
        """Return what a call is compared with."""
        # Late: a start compares nothing.
        from pattern_acp.policy.origins import KnownTexts

        read = self.read
        return KnownTexts(read.sources, (*read.instructions, *read.turn), tuple(read.said), self.trusts_folder())

    def read_before(self) -> tuple[DataSource, ...]:
        """Return the data of others that the turn has read, that of the session's own folders last."""
        from pattern_acp.policy.origins import read_before

        known = self.known()
        everywhere = read_before(known, beyond_project=False)
        here = [source for source in read_before(known, beyond_project=True) if source not in everywhere]
        return (*everywhere, *(replace(source, of_project=True) for source in here))


class Denied(Struct, frozen=True):
    """A call that does not run: `for_model` says why and what to do, `shown` says why to the user."""

    for_model: str
    shown: str


def resolved(path: str, folder: str) -> str:
    """A path as policy compares it: absolute from `folder`, through symlinks, credentials by the name that shows them.

    A file with several names counts as the one beside it that looks like credentials: a link to `.env` is `.env`.
    """
    return shown_name(resolve_path(absolute_path(path, folder)))


def circumstances_of(budget: Budget, cwd: str, clock: Clock) -> Circumstances:
    """Return the circumstances of a decision that is made now. Blocks for a few small reads."""
    git = git_facts(cwd)
    return Circumstances(
        budget.left,
        git.branch or git.commit[:12],
        max(budget.limits.requests - budget.requests, 0),
        max(int(budget.seconds_left // 60), 0),
        git.branch,
        local_hour(clock.now_ms()),
    )


class PermissionChecker:
    """Admits or refuses the calls of one turn."""

    def __init__(
        self,
        state: PolicyState,
        approver: Approver,
        recorder: TurnRecorder,
        *,
        clock: Clock,
        waits: UserWaitTimer | None = None,
        narrowing: "SubagentLimits | None" = None,
        circumstances: Callable[[], Circumstances] = Circumstances,
    ) -> None:
        """`waits` counts what the user takes to answer; `narrowing` is what a subagent may do less.

        `circumstances` are recorded with each decision.
        """
        self._state = state
        self._approver = approver
        self._recorder = recorder
        self._waits = waits or UserWaitTimer(clock)
        # Late, as all that is only needed once there is a call.
        from pattern_acp.policy.layers import UNLIMITED

        self._narrowing = narrowing or UNLIMITED
        self._circumstances = circumstances

    def narrow(self, limits: "SubagentLimits") -> None:
        """Hold what is decided from here on to the limits of a job that the user agreed to."""
        self._narrowing = limits

    @property
    def waited(self) -> float:
        """Seconds that the user took to answer so far; time limits leave them out."""
        return self._waits.seconds

    def decide(
        self,
        accesses: tuple[Access, ...],
        arguments: JsonObject | None = None,
        claims: tuple[ClaimElsewhere, ...] = (),
    ) -> Decision:
        """Decide by the present policy.

        `arguments` are those of a call of the model, whose origin counts then; `claims` those of other open sessions on
        what it would change.
        """
        # Late: what tells commands apart is 20 modules, and a start decides nothing.
        from pattern_acp.policy.decide import decide

        mode = self._narrowing.mode(self._state.mode)
        state, around = self._state, self._circumstances()
        if claims:
            around = replace(around, claims=claims)
        led: dict[tuple[str, str], str] = {}

        def lookup(path: str, folder: str) -> str:
            real = resolved(path, folder)
            if real != absolute_path(path, folder):
                led[path, folder] = real
            return real

        decision = decide(
            accesses,
            mode=mode,
            roots=state.roots,
            grants=state.grants,
            resolve=lookup,
            sandbox=state.sandbox,
            reading_asks=state.reading_asks,
            rules=state.rules,
            around=around,
            overlap=state.overlap,
        )
        decision = self._narrowing.narrowed(decision, accesses)
        decision = replace(decision, basis=Basis(around, tuple((*place, real) for place, real in led.items())))
        if arguments is None or decision.verdict is Verdict.DENY:
            return decision
        # Late, as above.
        from pattern_acp.policy.origins import with_origin

        known = state.known()
        return with_origin(decision, accesses, arguments, known, mode=mode, roots=state.roots, grants=state.grants)

    def decide_configured(self, accesses: tuple[Access, ...], reason: str) -> Decision:
        """Decide on something that the user set up: refuse what policy refuses, and allow everything else."""
        decision = self.decide(accesses)
        return decision if decision.verdict is Verdict.DENY else Decision(Verdict.ALLOW, "configured", reason)

    def _policy(self) -> RecordedPolicy:
        """Return all that decisions are made by now."""
        state, narrowing = self._state, self._narrowing
        return RecordedPolicy(
            __version__,
            state.mode,
            state.roots,
            tuple(RecordedGrant(one.effect, one.kind, one.pattern, one.lifetime) for one in state.grants),
            tuple(RecordedRule(one.effect, one.kind, one.pattern, one.layer, one.when) for one in state.rules),
            state.sandbox,
            state.reading_asks,
            narrowing.name,
            narrowing.only_reads,
            narrowing.paths,
            narrowing.job,
            narrowing.globs,
            state.overlap,
            narrowing.asks_to_land,
        )

    async def announce(
        self,
        turn_id: TurnId,
        decision: Decision,
        accesses: tuple[Access, ...],
        call_id: ToolCallId,
        *events: NewEvent,
    ) -> None:
        """Record `events` and the decision on `accesses` in one transaction."""
        # Late, as in `decide`.
        from pattern_acp.policy.layers import layer_of, what_would_change
        from pattern_acp.turn.recorded_policy import digest_of_policy, recorded_accesses, recorded_basis

        policy = self._policy()
        known = self._state.recorded.get(policy)
        digest = known or digest_of_policy(policy)
        basis = decision.basis
        around = basis.circumstances if basis is not None else self._circumstances()
        decided = PermissionDecided(
            turn_id,
            call_id,
            decision.verdict.value,
            decision.rule,
            decision.reason,
            decision.sandbox,
            decision.origin,
            around.budget,
            around.git,
            layer=layer_of(decision).value,
            source=decision.source,
            changes=what_would_change(decision),
            accesses=recorded_accesses(accesses),
            policy=digest,
            snapshot=policy if known is None else None,
            basis=recorded_basis(basis) if basis is not None else None,
        )
        await self._recorder.record(*events, NewEvent(decided, Actor.SYSTEM))
        self._state.recorded[policy] = digest

    async def authorize(
        self,
        turn_id: TurnId,
        decision: Decision,
        accesses: tuple[Access, ...],
        view: ToolCallView,
        *,
        again: Callable[[], Decision],
        wording: Wording | None = None,
        gives_way: GivesWay | None = None,
    ) -> Denied | None:
        """None when the call may run. `again` decides again once the questions asked before are answered.

        `wording` is a text that the user may change with their answer, `gives_way` is there for a call that met claims
        of others.
        """
        if decision.verdict is not Verdict.ASK:
            return _settled(decision)
        with self._waits.waiting():
            async with self._state.asking:
                latest = again()
                if latest.verdict is not Verdict.ASK:
                    await self.announce(turn_id, latest, accesses, view.call_id)
                    return _settled(latest)
                answer, words = await self._ask(turn_id, latest, accesses, view, wording)
        if wording is not None and answer is PermissionAnswer.ALLOW_EDITED:
            wording.changed = words
        is_claimed = latest.rule == CLAIMED
        if not answer.allows:
            return _refused(words) if words or not is_claimed else _waits(latest, WAITS, WAITS_ADVICE)
        takes_over = is_claimed and answer is PermissionAnswer.ALLOW_ALWAYS
        if gives_way is not None and await gives_way(takes_over=takes_over):
            return _waits(latest, ASKED_TO_GIVE_WAY, GIVES_WAY_ADVICE)
        return None

    async def offer_outside(
        self, turn_id: TurnId, accesses: tuple[Access, ...], view: ToolCallView, stopped: str
    ) -> Denied | None:
        """Ask the user whether a call that the sandbox stopped is to run outside; None when it is.

        Each command is offered once: a user who declined is not asked again for the same.
        """
        if accesses in self._state.declined_outside:
            return Denied(
                f"{stopped} The user has declined to run it outside the sandbox.",
                f"{stopped} You did not let it run outside the sandbox.",
            )
        # Late, as in `decide`.
        from pattern_acp.policy.decide import outside_offer

        decision = outside_offer(accesses, stopped, self._state.roots, resolved)
        with self._waits.waiting():
            async with self._state.asking:
                await self.announce(turn_id, decision, accesses, view.call_id)
                answer, words = await self._ask(turn_id, decision, accesses, view)
        if answer.allows:
            return None
        self._state.declined_outside.add(accesses)
        declined = f"{stopped} The user declined to run it outside the sandbox."
        shown = f"{stopped} You did not let it run outside the sandbox."
        if not words:
            return Denied(declined, shown)
        return Denied(f"{declined} They wrote: {words}", f"{shown} You wrote: {words}")

    async def _ask(
        self,
        turn_id: TurnId,
        decision: Decision,
        accesses: tuple[Access, ...],
        view: ToolCallView,
        wording: Wording | None = None,
    ) -> tuple[PermissionAnswer, str]:
        """The user's answer, and what they wrote beside it."""
        heard: list[str] = []
        trust_files = self._state.trusting_files() if decision.settled_by_trust else None
        offered = replace(decision, settled_by_trust=trust_files is not None)
        options = approval_options(offered, accesses, edits_text=wording is not None)
        asked = PermissionAsked(turn_id, view.call_id, decision.reason, tuple(o.answer.value for o in options))
        await self._recorder.record(NewEvent(asked, Actor.SYSTEM))
        answer = await self._approver.ask(
            ApprovalRequest(view, decision.reason, options, heard.append, wording.text if wording is not None else "")
        )
        words = "\n".join(heard)
        answered = PermissionAnswered(turn_id, view.call_id, answer.value, words)
        events = [NewEvent(answered, Actor.HUMAN, Origin.PERSON)]
        grant = grant_for(answer, decision)
        if grant is not None:
            owner = self._state.owner.of(grant.lifetime)
            stored = GrantStored(
                grant.effect,
                grant.kind,
                grant.pattern,
                grant.lifetime,
                view.call_id,
                owner.project,
                owner.persona,
            )
            events.append(NewEvent(stored, Actor.HUMAN, Origin.PERSON))
        await self._recorder.record(*events)
        if grant is not None:
            self._state.grants.append(grant)
        if trust_files is not None and answer is PermissionAnswer.ALLOW_ALWAYS:
            await trust_files()
        return answer, words


class LookedAt:
    """The paths that one call named and the files that it read while it was prepared.

    Also the `FileSystem` that the call is prepared with, so that no tool can read past it.
    """

    def __init__(self, context: ToolContext, permissions: PermissionChecker) -> None:
        """`context` is what the call would be prepared with otherwise."""
        self._permissions = permissions
        self._files = context.files
        self._fingerprints = context.read_fingerprints
        self._cwd = context.cwd
        self._resolved: dict[str, str] = {}
        self._seen_before: dict[str, str | None] = {}
        """Resolved path to the fingerprint of the text that the model knew when the path was named."""
        self._read: dict[str, TextFile] = {}
        self.context = replace(context, files=self, note_path=self._note)
        """Context for preparing the call."""

    def unreadable(self) -> tuple[str, ...]:
        """The resolved paths that the model may not read without a question, and whose text it has not read."""
        return tuple(path for path in self._seen_before if not self._may_tell(path))

    def withheld(self, tool: Tool, error: PatternError) -> PreparedCall | None:
        """The call that tells of its failure only when policy lets the model read the files; None when it does already.

        An edit is decided on as an edit all the same: whether it would have fitted must not show in the decision.
        """
        unreadable = self.unreadable()
        if not unreadable:
            return None
        # Late: hardly a call comes here.
        from pattern_acp.tools.schema import WORDS

        learned = {path: self._fingerprints[path] for path in unreadable if path in self._fingerprints}
        for path in unreadable:
            known = self._seen_before[path]
            if known is None:
                self._fingerprints.pop(path, None)
            else:
                self._fingerprints[path] = known

        async def fail(_progress: Progress) -> ToolOutcome:
            self._fingerprints.update(learned)
            raise error

        written = tuple(self._seen_before) if tool.kind is ToolKind.EDIT else ()
        preview = (
            "This call does not work as it is. If you allow it, nothing is changed: the model reads why, which can "
            f"show it text of {self._shown(unreadable)}."
        )
        return PreparedCall(
            one_line(f"{WORDS.get(tool.spec.name, tool.spec.name)} {self._shown(self._seen_before)}"),
            (*map(ReadPath, unreadable), *map(WritePath, written)),
            fail,
            tuple(Location(path) for path in self._resolved),
            (TextContent(preview),),
        )

    def _shown(self, real_paths: Collection[str]) -> str:
        named = [display_path(path, self._cwd) for path, real in self._resolved.items() if real in real_paths]
        return ", ".join(named[:PATHS_NAMED]) + (" and more" if len(named) > PATHS_NAMED else "")

    def _may_tell(self, path: str) -> bool:
        match self._permissions.decide((ReadPath(path),)).verdict:
            case Verdict.ALLOW:
                return True
            case Verdict.DENY:
                return False
            case Verdict.ASK:
                read = self._read.get(path)
                return read is not None and read.fingerprint == self._seen_before[path]

    def _note(self, path: str, real: str) -> None:
        self._resolved[path] = real
        self._seen_before.setdefault(real, self._fingerprints.get(real))

    async def read_text_file(self, path: str) -> TextFile:
        """See `TextStore.read_text_file`."""
        real = self._resolved.get(path) or await anyio.to_thread.run_sync(resolve_path, path)
        self._note(path, real)
        file = await self._files.read_text_file(path)
        self._read[real] = file
        return file

    async def read_lines(self, path: str, window: LineWindow) -> TextLines:
        """See `TextStore.read_lines`."""
        return await self._files.read_lines(path, window)

    async def write_text_file(self, path: str, text: str) -> TextFile:
        """See `TextStore.write_text_file`."""
        return await self._files.write_text_file(path, text)

    async def move_file(self, path: str, to: str) -> None:
        """See `FileSystem.move_file`."""
        await self._files.move_file(path, to)

    async def remove_file(self, path: str) -> None:
        """See `FileSystem.remove_file`."""
        await self._files.remove_file(path)


def _refused(words: str) -> Denied:
    """The user's refusal, with what they wrote, which the model is to follow."""
    if not words:
        return Denied(REFUSED, REFUSED_BY_PERSON)
    return Denied(REFUSED_WITH_WORDS.format(words), f"{REFUSED_BY_PERSON} You wrote: {words}")


def _waits(decision: Decision, sentence: str, advice: str) -> Denied:
    """Refusal of a call that waits for another session."""
    shown = f"{NOTHING_DONE}\n{decision.reason}\n{sentence}"
    return Denied(f"{shown} {advice}", shown)


def _settled(decision: Decision) -> Denied | None:
    if decision.verdict is Verdict.ALLOW:
        return None
    if decision.rule == CLAIMED:
        from pattern_acp.policy.layers import CLAIM_ADVICE

        advice = CLAIM_ADVICE.get(decision.source, "")
        # Journals of earlier releases have the advice in the reason.
        shown = decision.reason.removesuffix(f"\n{advice}")
        return Denied(f"{shown}\n{advice}".rstrip(), shown)
    shown = f"Not allowed: {decision.reason}"
    return Denied(f"{shown} Do not try to get round this; tell the user if it matters.", shown)
