"""What goes on around tool calls: the hooks of the session, and what is before, around and behind effects and edits.

Owns: the ports, and how a hook's opinion changes what policy decided. Must not know: which hooks there are, or who else
is behind a port.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from pattern_acp.domain.access import Access
from pattern_acp.domain.ids import TurnId
from pattern_acp.domain.origin import Origin
from pattern_acp.domain.tool_calls import TextContent, ToolCallView
from pattern_acp.hooks.answers import Opinion, Verdict
from pattern_acp.policy.decision import Decision
from pattern_acp.policy.decision import Verdict as PolicyVerdict
from pattern_acp.tools.base import ToolOutcome

_SENTENCE_ENDS = frozenset(".!?…")
"""A reason that ends otherwise gets a full stop, since sentences follow it."""


class ToolHooks(Protocol):
    """The hooks around tool calls."""

    @property
    def stop(self) -> str:
        """Why the turn is to end, as a hook wants it; empty when it may go on."""
        ...

    async def before(self, turn_id: TurnId, call: ToolCallView) -> Opinion:
        """What the hooks think of a call that is understood and has not run."""
        ...

    async def after(self, turn_id: TurnId, call: ToolCallView, outcome: ToolOutcome) -> str:
        """What the model is told behind the result of a call that ran; empty when it is nothing."""
        ...


class AfterEdits(Protocol):
    """What follows a batch of calls that wrote files; `turn/checks.py` has the checks that are configured."""

    async def after_edits(self, turn_id: TurnId, changed: Sequence[str]) -> str:
        """Text for the model behind the last edit's result, empty for none; `changed` are absolute paths."""
        ...


class BeforeEdits(Protocol):
    """What is to be read before files are changed; `session/edit_warnings.py` has what memory holds about them."""

    async def before(self, accesses: Sequence[Access]) -> str:
        """What the model reads instead of the effect of a call with these accesses; empty when it may have it."""
        ...


class AroundEffects(Protocol):
    """What is to be known of the state before and after every effect; `session/checkpoints.py` keeps files."""

    def around(self, turn_id: TurnId, accesses: Sequence[Access]) -> AbstractAsyncContextManager[None]:
        """Entered before a call with these accesses runs, left when it has ended, however it ended."""
        ...


def held_back(view: ToolCallView, warning: str) -> ToolOutcome:
    """The result of a call that waits until the model has read what memory holds about its files."""
    shown = (*view.content, TextContent(warning))
    title = f"{view.title} (held: memory warns)"
    return ToolOutcome(
        warning, is_error=True, content=shown, origin=Origin.MEMORY, title=title, failure="memory.warned"
    )


def with_opinion(decision: Decision, opinion: Opinion) -> Decision:
    """The decision after the hooks were heard.

    A hook may refuse, may have the person asked, and may allow what policy would ask; it never allows what policy
    denies, and the person's consent to a write of memory stays the person's.
    """
    denies, asks = decision.verdict is PolicyVerdict.DENY, decision.verdict is PolicyVerdict.ASK
    ended = opinion.reason[-1:] in _SENTENCE_ENDS
    said = f": {opinion.reason}{'' if ended else '.'}" if opinion.reason else "."
    match opinion.verdict:
        case Verdict.DENY if not denies:
            return Decision(PolicyVerdict.DENY, "hook", f"A hook refused it{said}")
        case Verdict.ASK if not denies and not asks:
            return Decision(PolicyVerdict.ASK, "hook", f"A hook wants you to be asked{said}")
        case Verdict.ALLOW if asks and not decision.rule.startswith("memory_"):
            return Decision(PolicyVerdict.ALLOW, "hook", f"A hook allowed it{said}")
        case _:
            return decision
