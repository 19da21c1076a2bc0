"""Regular expressions that are compiled when they are first used.

Owns: putting the compiling off. Must not know: any expression. A start imports some sixty of them and a first turn uses
a quarter; each takes 0.1 to 0.5 ms to compile (docs/benchmarks.md).
"""

import re
from typing import AnyStr, Generic, cast


class _LatePattern(Generic[AnyStr]):
    """Stands for a compiled expression until one of its methods is asked for."""

    def __init__(self, expression: AnyStr, flags: int) -> None:
        self._expression = expression
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        # Kept in the instance, where the next use finds it without coming here.
        found: object = getattr(re.compile(self._expression, self._flags), name)
        self.__dict__[name] = found
        return found


def late_pattern(expression: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What `re.compile` gives, for a constant of a module: its methods and attributes, and no more.

    The functions of `re` do not take it. A mistake in the expression shows at the first use, so each needs a test.
    """
    return cast("re.Pattern[AnyStr]", _LatePattern(expression, flags))
