"""How a replay puts requests together: as this program does it now.

Owns: the port, and the composition of this program with its tools. Must not know: what was recorded, or comparing.

The system prompt is the recorded one: a session keeps it byte for byte. Tools of ours are offered as they are now,
those of MCP servers and skills as they were. Which edit tool a session has, and whether it has a map of code, depends
on settings and folders of then, so there the record decides.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.context.builder import Stable, build_request
from pattern_acp.context.window import tools_with_room
from pattern_acp.domain.ids import SessionId
from pattern_acp.domain.messages import Message
from pattern_acp.providers.base import ModelInfo, ProviderRequest, ThoughtLevel, ToolForm, ToolSpec
from pattern_acp.session.code import CODE_TOOL
from pattern_acp.tools.base import Tool
from pattern_acp.tools.registry import offered

BY_SETTINGS = ("edit_file", "apply_patch", CODE_TOOL)
"""Tools that a session may lack for its settings or its folder."""


class RequestGiven(Struct, frozen=True):
    """What a request is put together from. `tools` and `volatile` are as they were recorded."""

    session_id: SessionId
    system: str
    tools: tuple[ToolSpec, ...]
    model: ModelInfo
    thought_level: ThoughtLevel
    tool_form: ToolForm
    history: Sequence[Message]
    volatile: str
    max_output_tokens: int
    plan_mode: bool


class Composition(Protocol):
    """Puts requests together."""

    def request(self, given: RequestGiven) -> ProviderRequest:
        """The request that would be sent."""
        ...


class CurrentComposition:
    """`Composition` of this program with its own `tools`."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tuple(tools)

    def request(self, given: RequestGiven) -> ProviderRequest:
        """See `Composition.request`."""
        built = build_request(
            session_id=given.session_id,
            stable=Stable(given.system, self._offered(given), given.tool_form),
            model=given.model,
            thought_level=given.thought_level,
            history=given.history,
            memory=(),
            max_output_tokens=given.max_output_tokens,
        )
        return replace(built, volatile=given.volatile)

    def _offered(self, given: RequestGiven) -> tuple[ToolSpec, ...]:
        names = {spec.name for spec in given.tools}
        left_out = [name for name in BY_SETTINGS if name not in names]
        ours = tuple(tool.spec for tool in offered(self._tools, mode_is_plan=given.plan_mode, left_out=left_out))
        known = {tool.spec.name for tool in self._tools}
        specs = (*ours, *(spec for spec in given.tools if spec.name not in known))
        with_room = tools_with_room(specs, given.system, given.model, given.max_output_tokens)
        return tuple(spec for spec in specs if spec.name in with_room)
