"""Subagents as tools know them: what one is asked, and the port that runs it.

Owns: the kinds and the port. Must not know: how a subagent runs; `session/subagents` does.
"""

from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from pattern_acp.domain.ids import ToolCallId
from pattern_acp.tools.base import Progress, ToolOutcome

DELEGATE = "delegate"
"""Name of the tool that runs a subagent."""


class SubagentKind(StrEnum):
    """What a subagent may do at most; its session's mode and policy hold for it as well."""

    EXPLORER = "explorer"
    WORKER = "worker"
    REVIEWER = "reviewer"

    @property
    def only_reads(self) -> bool:
        """Whether it changes nothing."""
        return self is not SubagentKind.WORKER


class DelegatedTask(Struct, frozen=True):
    """What one subagent is asked."""

    kind: SubagentKind
    task: str
    name: str
    """One short line, by which the person knows it."""
    tools: tuple[str, ...] = ()
    """The only tools that it may use; none for all of its kind."""
    paths: tuple[str, ...] = ()
    """Where alone it may write: absolute, resolved paths of files and folders; none for wherever the session may."""


class Delegation(Protocol):
    """Runs subagents for one turn."""

    def tool_names(self, kind: SubagentKind) -> tuple[str, ...]:
        """The tools that a subagent of this kind has, in the order of the session's."""
        ...

    async def run(self, task: DelegatedTask, call_id: ToolCallId, progress: Progress) -> ToolOutcome:
        """Run one to its end; what it found, and what it changed.

        Raises:
            DatabaseError: something could not be recorded; the turn must stop.
            PatternError: it could not run.
        """
        ...
