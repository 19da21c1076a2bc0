"""Events about budgets.

Owns: this kind; `journal.events` has them all.
"""

from msgspec import Struct


class BudgetChanged(Struct, frozen=True):
    """A budget took another value.

    `scope` is `turn`, `session` or `day`; `allowance` has the form of `domain.allowance`. `by` is `person` for /budget,
    which holds for the session, and `extended` for the answer to a question, which holds for this turn or day only
    where the scope is one.
    """

    scope: str
    allowance: str
    by: str
