"""The one way to an effect: policy decides, the person is asked when it says so, and both are recorded.

Invariant 7: a denial beats every grant; nothing runs that was not decided; the decision is recorded with its reason.
"""

from collections.abc import Callable
from dataclasses import field

import anyio

from pattern_acp.domain.clock import Clock
from pattern_acp.domain.ids import ToolCallId, TurnId
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.tool_calls import ToolCallView
from pattern_acp.journal.events import GrantStored, PermissionAnswered, PermissionAsked, PermissionDecided
from pattern_acp.policy.access import Access
from pattern_acp.policy.approver import Answer, ApprovalRequest, Approver
from pattern_acp.policy.decision import Decision, Mode, Verdict
from pattern_acp.policy.grants import LIFETIME, Grant
from pattern_acp.policy.narrowing import WHOLE, Narrowing
from pattern_acp.policy.options import approval_options, grant_for
from pattern_acp.turn.budget import Waits
from pattern_acp.turn.sink import Fact, TurnSink
from pattern_acp.workspace.paths import absolute_path, resolve_path

REFUSED = (
    "The person refused this call. It did not run and nothing was changed. Do not repeat it; "
    "continue without it or ask the person what they prefer."
)

REFUSED_BY_PERSON = "Refused; it did not run."


@dataclass(slots=True)
class PolicyState:
    """What decisions of one session depend on. The mode may change while a turn runs; the next call sees it."""

    mode: Mode
    roots: tuple[str, ...]
    grants: list[Grant] = field(default_factory=list[Grant])
    asking: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while the person is asked: questions come one at a time, as each answer may settle the next."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that does not run: `sentence` tells the model why, `shown` the person."""

    sentence: str
    shown: str


def resolved(path: str, folder: str) -> str:
    """A path of a command line as policy compares it: absolute from `folder`, and through symlinks."""
    return resolve_path(absolute_path(path, folder))


class Gate:
    """Admits or refuses the calls of one turn."""

    def __init__(
        self,
        state: PolicyState,
        approver: Approver,
        sink: TurnSink,
        *,
        clock: Clock,
        waits: Waits | None = None,
        narrowing: Narrowing = WHOLE,
    ) -> None:
        """`waits` counts what the person takes to answer; `narrowing` is what a subagent may do less."""
        self._state = state
        self._approver = approver
        self._sink = sink
        self._waits = waits or Waits(clock)
        self._narrowing = narrowing

    @property
    def waited(self) -> float:
        """Seconds that the person took to answer so far; time limits leave them out."""
        return self._waits.seconds

    def decide(self, accesses: tuple[Access, ...]) -> Decision:
        """What policy says now."""
        # Late: what tells commands apart is 20 modules, and a start decides nothing.
        from pattern_acp.policy.decide import decide

        mode = self._narrowing.mode(self._state.mode)
        decision = decide(accesses, mode=mode, roots=self._state.roots, grants=self._state.grants, resolve=resolved)
        return self._narrowing.narrowed(decision, accesses)

    def decide_configured(self, accesses: tuple[Access, ...], reason: str) -> Decision:
        """What policy says of what the person has set up themselves: a refusal holds, everything else is allowed."""
        decision = self.decide(accesses)
        return decision if decision.verdict is Verdict.DENY else Decision(Verdict.ALLOW, "configured", reason)

    async def announce(self, turn_id: TurnId, decision: Decision, call_id: ToolCallId, *facts: Fact) -> None:
        """Record `facts` and the decision in one transaction."""
        decided = PermissionDecided(turn_id, call_id, decision.verdict.value, decision.rule, decision.reason)
        await self._sink.record(*facts, Fact(decided, Actor.SYSTEM))

    async def admit(
        self,
        turn_id: TurnId,
        decision: Decision,
        accesses: tuple[Access, ...],
        view: ToolCallView,
        *,
        again: Callable[[], Decision],
    ) -> Refusal | None:
        """None when the call may run. `again` decides anew once the questions asked before are answered."""
        if decision.verdict is not Verdict.ASK:
            return _settled(decision)
        with self._waits.waiting():
            async with self._state.asking:
                latest = again()
                if latest.verdict is not Verdict.ASK:
                    await self.announce(turn_id, latest, view.call_id)
                    return _settled(latest)
                answer = await self._ask(turn_id, latest, accesses, view)
        return None if answer.allows else Refusal(REFUSED, REFUSED_BY_PERSON)

    async def _ask(
        self, turn_id: TurnId, decision: Decision, accesses: tuple[Access, ...], view: ToolCallView
    ) -> Answer:
        options = approval_options(decision, accesses)
        asked = PermissionAsked(turn_id, view.call_id, decision.reason, tuple(o.answer.value for o in options))
        await self._sink.record(Fact(asked, Actor.SYSTEM))
        answer = await self._approver.ask(ApprovalRequest(view, decision.reason, options))
        facts = [Fact(PermissionAnswered(turn_id, view.call_id, answer.value), Actor.HUMAN, Origin.PERSON)]
        grant = grant_for(answer, decision)
        if grant is not None:
            stored = GrantStored(grant.effect, grant.kind, grant.pattern, LIFETIME, view.call_id)
            facts.append(Fact(stored, Actor.HUMAN, Origin.PERSON))
        await self._sink.record(*facts)
        if grant is not None:
            self._state.grants.append(grant)
        return answer


def _settled(decision: Decision) -> Refusal | None:
    if decision.verdict is Verdict.ALLOW:
        return None
    shown = f"Not allowed: {decision.reason}"
    return Refusal(f"{shown} Do not try to get round this; tell the person if it matters.", shown)
