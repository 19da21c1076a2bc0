"""Libraries without parts of theirs that nothing here uses.

Owns: keeping one module from being imported. Must not know: any library. A library that has a command line of its own
imports it with everything else where it can, and that may take longer than the library itself (docs/benchmarks.md).
"""

import sys
from types import ModuleType, TracebackType
from typing import cast


class LeftOut:
    """A context in which the import of one module fails as if it were not installed.

    Only for a module that its library does without when it is missing. It can be imported again afterwards; a thread
    that imports it at the same moment gets what this one gets.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __enter__(self) -> None:
        # Python's own sign for a module that must not be found. What is there already stays.
        sys.modules.setdefault(self._module, cast("ModuleType", None))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if sys.modules.get(self._module) is None:
            sys.modules.pop(self._module, None)
