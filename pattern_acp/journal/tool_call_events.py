"""Events about tool calls: what was asked for, what was decided about it, how it ended, and what the person allowed.

Owns: these kinds; `journal.events` has them all.
"""

from msgspec import Struct

from pattern_acp.domain.ids import ToolCallId, TurnId
from pattern_acp.domain.messages import ImagePart
from pattern_acp.domain.tool_calls import Location, ToolCallStatus, ToolCallView, ToolContent


class ToolCallStarted(Struct, frozen=True):
    """A call was announced, with what the person was shown of it."""

    turn_id: TurnId
    call: ToolCallView
    repairs: tuple[str, ...] = ()
    """What was mended of what the model wrote, in phrases without values; the message keeps its own words."""


class PermissionDecided(Struct, frozen=True):
    """Policy decided on a call: verdict, the rule that gave it, the reason (invariant 7)."""

    turn_id: TurnId
    call_id: ToolCallId
    verdict: str
    rule: str
    reason: str


class PermissionAsked(Struct, frozen=True):
    """The person was asked."""

    turn_id: TurnId
    call_id: ToolCallId
    reason: str
    options: tuple[str, ...]


class PermissionAnswered(Struct, frozen=True):
    """The person answered, or the client did in their place. `answer` is a policy `Answer` value."""

    turn_id: TurnId
    call_id: ToolCallId
    answer: str


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
    """An always answer was remembered. `effect` is `allow` or `deny`; `lifetime` is `session`."""

    effect: str
    kind: str
    pattern: str
    lifetime: str
    call_id: ToolCallId | None = None


class PinnedTool(Struct, frozen=True):
    """A tool of an MCP server as the person agreed to it: `definition` is its name, description and schema as text."""

    name: str
    digest: str
    definition: str


class ServerToolsPinned(Struct, frozen=True):
    """The person agreed to tools of an MCP server. `identity` is the hash of the program or address behind it."""

    server: str
    identity: str
    tools: tuple[PinnedTool, ...]
