"""/budget: what may be spent, and how much of it is.

Owns: what it takes and answers. Must not know: how budgets are held (session/budgets.py).
"""

from typing import TYPE_CHECKING

from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.domain.allowance import ALLOWED, parse_allowance
from pattern_acp.domain.ids import TurnId
from pattern_acp.domain.usage import amount_text
from pattern_acp.journal.usage import Spent
from pattern_acp.session.budgets import SCOPES, change_budget, limit_of, spent_now
from pattern_acp.session.state import BudgetScope

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

FORM = "/budget turn|session|day AMOUNT, such as `/budget session 2.50 USD`; `off` takes a budget away"


async def run_budget(session: "Session", argument: str) -> str:
    """Show the budgets, or set one for this session."""
    if not argument:
        return await _shown(session)
    name, _, amount = argument.partition(" ")
    words: dict[str, BudgetScope] = {scope: scope for scope in SCOPES}
    scope = words.get(name.lower())
    if scope is None or not amount.strip():
        raise CommandMisusedError(f"Say which budget, and how much: {FORM}.")
    allowance = parse_allowance(amount)
    if allowance is None:
        raise CommandMisusedError(f"A budget must be {ALLOWED.partition(';')[0]}, or `off`.")
    await change_budget(session, scope, allowance)
    where = "" if scope == "session" else f" It holds in this session; `[budget] {scope}` in config.toml is for all."
    return f"The budget of the {scope} is now {allowance}.{where}"


async def _shown(session: "Session") -> str:
    spent = await spent_now(session, session.memory.turn_id or TurnId(""))
    lines = ["| Budget | limit | money used | tokens used |", "| --- | --- | ---: | ---: |"]
    rows: tuple[tuple[BudgetScope, Spent], ...] = (("session", spent.session), ("day", spent.since))
    for scope, used in rows:
        limit = limit_of(session, scope)
        lines.append(f"| {scope} | {limit} | {amount_text(used.micro_units)} | {used.tokens:,} |")
    lines.append(f"| turn | {limit_of(session, 'turn')} | | |")
    return "\n".join([*lines, "", f"Set one with {FORM}."])
