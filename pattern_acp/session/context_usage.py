"""The use of a session: the part of every request that stays byte-identical, the context, tokens and money.

Owns: which tools a model is offered, /tools, /usage and /budget, and the editor's figure of the context where no
request follows that would count. Must not know: when a request is built (`turn_stages`), how sums are made and shown
(commands/usage.py), or how a budget is checked (session/budgets.py).
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pattern_acp.commands.document import Result, as_result
from pattern_acp.commands.parameters import CommandMisusedError, first_word
from pattern_acp.context.builder import Stable, build_request
from pattern_acp.context.window import request_tokens
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import day_began_ms
from pattern_acp.domain.errors import InvalidRequestError
from pattern_acp.domain.usage import ALLOWED, parse_allowance
from pattern_acp.journal.events import ContextCompacted, Event, HistoryCleared, SessionConfigured, UsageReported
from pattern_acp.journal.usage import usage_of_session, usage_since
from pattern_acp.policy.decision import Mode
from pattern_acp.providers.base import ModelInfo, ThoughtLevel, ToolForm
from pattern_acp.session.budgets import SCOPES, change_budget, limit_of, spent_now
from pattern_acp.session.definitions import named_tools, tools_of_persona
from pattern_acp.session.state import CODE_TOOL, BudgetScope, code_of
from pattern_acp.session.window import with_room
from pattern_acp.tools.base import Tool
from pattern_acp.tools.registry import PLAN_TOOL, TASK_TOOL, edit_tool_left_out, offered, one_for_plans
from pattern_acp.turn.recorder import ContextChanged, NewEvent

if TYPE_CHECKING:
    from pattern_acp.commands.usage import Budgets, SessionUsage
    from pattern_acp.domain.clock import SessionId
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.ports import Dialogue, ExtendedDialogue
    from pattern_acp.session.session import Session
    from pattern_acp.session.state import SessionState


def stable_part(dialogue: "ExtendedDialogue") -> Stable:
    """System prompt and tools, the cached prefix of every request."""
    state = dialogue.state
    tools = offered_tools(dialogue)
    if state.window.offered_specs[0] is not tools:
        state.window.offered_specs = tools, tuple(tool.spec for tool in tools)
    return Stable(
        state.system, state.window.offered_specs[1], state.tool_form, state.settings.cache_ttl, state.window.texts
    )


def offered_tools(dialogue: "ExtendedDialogue", model: ModelInfo | None = None) -> tuple[Tool, ...]:
    """The tools that a model, the session's own unless one is passed, has in this mode; those of MCP servers last."""
    state, plan = dialogue.state, dialogue.state.policy.mode is Mode.PLAN
    more = (*skill_tools(dialogue.state, mode_is_plan=plan), *dialogue.mcp.toolbox.offered(mode_is_plan=plan))
    is_elsewhere = dialogue.shared.elsewhere is not None
    has_code = is_elsewhere or code_of(dialogue.shared, dialogue.state) is not None
    depends_on = (
        plan,
        model or state.model,
        state.model,
        state.settings,
        state.system,
        has_code,
        state.has_tasks,
        state.has_past,
        state.persona.tools,
        more,
    )
    if state.window.offered[0] != depends_on:
        left_out = edit_tool_left_out(state.settings.edit_tool, model or state.model)
        if not has_code:
            left_out = (*left_out, CODE_TOOL)
        if not state.has_tasks:
            left_out = (*left_out, TASK_TOOL)
        if state.has_past is False:
            left_out = (*left_out, PAST_TOOL)
        own = offered(dialogue.shared.tools, mode_is_plan=plan, left_out=left_out)
        named = named_tools(tuple(one for one in state.persona.tools if "*" not in one), (PLAN_TOOL,))
        had = one_for_plans(tools_of_persona(state.persona, (*own, *more)), model or state.model, named)
        state.window.offered = depends_on, with_room(dialogue.state, had)
    return state.window.offered[1]


def skill_tools(state: "SessionState", *, mode_is_plan: bool = False) -> tuple[Tool, ...]:
    """The tools that load and propose skills, where the session has them."""
    writer = None if mode_is_plan else state.skill_writer
    return tuple(filter(None, (state.skill_tool, writer)))


PAST_TOOL = "session_search"
"""Name of the tool that a session is not offered when there was none before it."""


async def show_context(dialogue: "ExtendedDialogue") -> None:
    """Tell how full the context of the session's model is by our estimate."""
    state = dialogue.state
    used = context_tokens(dialogue, state.model)
    await dialogue.view.show(ContextChanged(used, state.model.context_window, state.cost))


def context_tokens(dialogue: "ExtendedDialogue", model: ModelInfo) -> int:
    """About how many tokens a request of the conversation as it is would have; memory that changed is not in it."""
    request = build_request(
        session_id=dialogue.session_id,
        stable=stable_part(dialogue),
        model=model,
        thought_level=ThoughtLevel.AUTO,
        history=dialogue.state.history,
        memory=(),
        max_output_tokens=dialogue.state.settings.turn.max_output_tokens,
    )
    return dialogue.state.window.calibration.tokens(model.name, request_tokens(request))


def is_outdated(events: Sequence[Event]) -> bool:
    """True when the conversation changed after the last figure that these events report."""
    changed = (
        event for event in reversed(events) if isinstance(event, UsageReported | ContextCompacted | HistoryCleared)
    )
    return isinstance(next(changed, None), ContextCompacted | HistoryCleared)


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


async def run_tools(session: "Session", argument: str) -> Result:
    """Show the tools and how they are called, or choose it."""
    if not argument:
        names = ", ".join(f"`{tool.name}`" for tool in stable_part(session.dialogue).tools)
        about = _about(session.constellation, session.state)
        return as_result(about, names, "Choose with `/tools native`, `/tools text` or `/tools auto`.")
    try:
        form = ToolForm(argument.lower())
    except ValueError as error:
        raise InvalidRequestError("/tools takes native, text or auto, or nothing to show the tools.") from error
    await session.recorder.record(NewEvent(SessionConfigured(TOOLS_OPTION, form, "client"), Actor.HUMAN, Origin.PERSON))
    session.state.tool_form = form
    return as_result(_about(session.constellation, session.state))


def _about(shared: "Constellation", state: "SessionState") -> str:
    form = state.tool_form
    info = shared.models.resolve(state.model.qualified)[1]
    as_text = form is ToolForm.TEXT or (form is ToolForm.AUTO and not info.calls_tools)
    how = "writes its tool calls as text" if as_text else "calls its tools natively"
    if form is not ToolForm.AUTO:
        why = "you chose it for this session"
    elif info.calls_tools:
        why = "nothing says that it cannot"
    else:
        why = "it refused native calls, or config.toml says tools = false"
    return f"`{info.qualified}` {how}: {why}."


FORM = "/budget turn|session|day AMOUNT, such as `/budget session 2.50 USD`; `off` takes a budget away"


async def run_usage(shared: "Constellation", session_id: "SessionId") -> "SessionUsage":
    """Sums of this session: its last turns, models and subagents; and of today, over all sessions."""
    from pattern_acp.commands.usage import session_usage

    since = day_began_ms(shared.clock.now_ms())
    own = await shared.database.read(lambda tx: usage_of_session(tx, session_id))
    today = await shared.database.read(lambda tx: usage_since(tx, since))
    return session_usage(own, today, lambda name: shared.models.resolve(name)[1])


async def run_budget(session: "Session", argument: str) -> Result:
    """Show the budgets, or set one for this session."""
    from pattern_acp.commands.usage import BudgetSet

    if not argument:
        return await _budgets(session.dialogue)
    name, amount = first_word(argument)
    words: dict[str, BudgetScope] = {scope: scope for scope in SCOPES}
    scope = words.get(name.lower())
    if scope is None or not amount.strip():
        raise CommandMisusedError(f"Say which budget, and how much: {FORM}.")
    allowance = parse_allowance(amount)
    if allowance is None:
        raise CommandMisusedError(f"A budget must be {ALLOWED.partition(';')[0]}, or `off`.")
    await change_budget(session.state, session.recorder, scope, allowance)
    return BudgetSet(scope, f"{allowance}", elsewhere=scope != "session")


async def _budgets(dialogue: "Dialogue") -> "Budgets":
    from pattern_acp.commands.usage import BudgetRow, Budgets

    spent = await spent_now(dialogue.shared, dialogue.session_id, dialogue.turn_id)
    used: dict[BudgetScope, tuple[int, int] | tuple[()]] = {
        "session": (spent.session.micro_units, spent.session.tokens),
        "day": (spent.since.micro_units, spent.since.tokens),
        "turn": (),
    }
    rows = (BudgetRow(scope, f"{limit_of(dialogue.state, scope)}", *counts) for scope, counts in used.items())
    return Budgets(tuple(rows), FORM)
