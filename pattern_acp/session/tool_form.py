"""`/tools`: which tools the model has, and whether it calls them natively or writes actions as text.

Owns: the choice of a session, which is kept as an event. Must not know: how actions are written (providers/).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pattern_acp.domain.errors import InvalidRequestError
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.journal.events import Event, SessionConfigured
from pattern_acp.providers.base import ToolForm
from pattern_acp.session.request_prefix import stable_part
from pattern_acp.turn.sink import Fact

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

TOOLS_OPTION = "tools"
"""The name of the choice in `SessionConfigured`; no client sets it."""


def tool_form_of(events: Iterable[Event]) -> ToolForm:
    """The form that the events of a session, those of what it was forked from too, leave it with."""
    form = ToolForm.AUTO
    for event in events:
        # Words were taken out of it by a version that took them out of everything: what was chosen is not known.
        if isinstance(event, SessionConfigured) and event.option == TOOLS_OPTION and event.value in tuple(ToolForm):
            form = ToolForm(event.value)
    return form


async def run_tools(session: "Session", argument: str) -> str:
    """Show the tools and how they are called, or choose it."""
    if not argument:
        names = ", ".join(f"`{tool.name}`" for tool in stable_part(session).tools)
        return f"{_about(session)}\n\n{names}\n\nChoose with `/tools native`, `/tools text` or `/tools auto`."
    try:
        form = ToolForm(argument.lower())
    except ValueError as error:
        raise InvalidRequestError("/tools takes native, text or auto, or nothing to show the tools.") from error
    await session.sink.record(Fact(SessionConfigured(TOOLS_OPTION, form, "client"), Actor.HUMAN, Origin.PERSON))
    session.state.tool_form = form
    return _about(session)


def _about(session: "Session") -> str:
    form = session.state.tool_form
    info = session.constellation.models.resolve(session.state.model.qualified)[1]
    as_text = form is ToolForm.TEXT or (form is ToolForm.AUTO and not info.calls_tools)
    how = "writes its tool calls as text" if as_text else "calls its tools natively"
    if form is not ToolForm.AUTO:
        why = "you chose it for this session"
    elif info.calls_tools:
        why = "nothing says that it cannot"
    else:
        why = "it refused native calls, or config.toml says tools = false"
    return f"`{info.qualified}` {how}: {why}."
