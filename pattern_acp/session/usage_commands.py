"""/usage and /budget: what models used and cost, and what may be spent.

Owns: what they take. Must not know: how sums are made and shown (commands/usage.py), or how a budget is checked
(session/budgets.py).
"""

from typing import TYPE_CHECKING

from pattern_acp.commands.document import Result
from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.commands.usage import BudgetRow, Budgets, BudgetSet, SessionUsage, session_usage
from pattern_acp.domain.allowance import ALLOWED, parse_allowance
from pattern_acp.domain.clock import day_began_ms
from pattern_acp.domain.ids import TurnId
from pattern_acp.journal.usage import usage_of_session, usage_since
from pattern_acp.session.budgets import SCOPES, change_budget, limit_of, spent_now
from pattern_acp.session.state import BudgetScope

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

FORM = "/budget turn|session|day AMOUNT, such as `/budget session 2.50 USD`; `off` takes a budget away"


async def run_usage(session: "Session", argument: str) -> SessionUsage:
    """Sums of this session: its last turns, models and subagents; and of today, over all sessions."""
    if argument:
        raise CommandMisusedError("/usage takes nothing behind it; `pattern-acp usage` in a terminal has more.")
    shared = session.constellation
    since = day_began_ms(shared.clock.now_ms())
    own = await shared.database.read(lambda tx: usage_of_session(tx, session.session_id))
    today = await shared.database.read(lambda tx: usage_since(tx, since))
    return session_usage(own, today, lambda name: shared.models.resolve(name)[1])


async def run_budget(session: "Session", argument: str) -> Result:
    """Show the budgets, or set one for this session."""
    if not argument:
        return await _budgets(session)
    name, _, amount = argument.partition(" ")
    words: dict[str, BudgetScope] = {scope: scope for scope in SCOPES}
    scope = words.get(name.lower())
    if scope is None or not amount.strip():
        raise CommandMisusedError(f"Say which budget, and how much: {FORM}.")
    allowance = parse_allowance(amount)
    if allowance is None:
        raise CommandMisusedError(f"A budget must be {ALLOWED.partition(';')[0]}, or `off`.")
    await change_budget(session.state, session.recorder, scope, allowance)
    return BudgetSet(scope, f"{allowance}", elsewhere=scope != "session")


async def _budgets(session: "Session") -> Budgets:
    spent = await spent_now(session.constellation, session.session_id, session.memory.turn_id or TurnId(""))
    used: dict[BudgetScope, tuple[int, int] | tuple[()]] = {
        "session": (spent.session.micro_units, spent.session.tokens),
        "day": (spent.since.micro_units, spent.since.tokens),
        "turn": (),
    }
    rows = (BudgetRow(scope, f"{limit_of(session.state, scope)}", *counts) for scope, counts in used.items())
    return Budgets(tuple(rows), FORM)
