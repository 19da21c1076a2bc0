"""The agent, which also notes how long each of its writes waited for other processes: `timed_agent.py FILE ARGUMENTS`.

For benchmarks alone: it wraps a function of the program, which the program itself offers no way to do.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pattern_acp.__main__ import main as run_agent
from pattern_acp.db.driver import FairWriteLock


def main() -> int:
    waits: list[float] = []
    acquire = FairWriteLock.acquire

    def timed(
        self: FairWriteLock, attempt: Callable[[], bool], *, seconds: float, is_stopped: Callable[[], bool]
    ) -> bool:
        asked = time.perf_counter()
        try:
            return acquire(self, attempt, seconds=seconds, is_stopped=is_stopped)
        finally:
            waits.append((time.perf_counter() - asked) * 1000)

    FairWriteLock.acquire = timed
    waits_file = sys.argv.pop(1)
    try:
        return run_agent()
    finally:
        Path(waits_file).write_text(json.dumps(waits), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
