"""Time of a decision of policy: warm, and with the first parse of a line.

    .venv/bin/python benchmarks/permission_decisions.py

Decides on the everyday commands, and on reads and edits, in each mode, with fifty rules and fifty grants.
"""

import statistics
import time
from pathlib import Path

from pattern_acp.config.policy_rules import parse_rule
from pattern_acp.domain.access import Access, ReadPath, RunCommand, WritePath
from pattern_acp.policy.decide import decide
from pattern_acp.policy.decision import Decision, Mode
from pattern_acp.policy.grants import Effect, Grant, GrantKind
from pattern_acp.turn.permissions import resolved

ROOT = str(Path(__file__).resolve().parent.parent)
COMMANDS = Path(ROOT, "tests", "policy", "everyday_commands.txt").read_text("utf-8").splitlines()
RULES = [parse_rule("allow" if n % 3 else "deny", f"run tool{n} check *") for n in range(50)]
GRANTS = [Grant(Effect.ALLOW, GrantKind.COMMAND_PREFIX, f'["program{n}", "sub"]') for n in range(50)]


def decided(access: Access, mode: Mode) -> Decision:
    """Return the decision on one access as a session makes it."""
    return decide([access], mode=mode, roots=[ROOT], grants=GRANTS, rules=RULES, resolve=resolved)


def measured(accesses: list[Access], mode: Mode) -> list[float]:
    """Return the milliseconds of each decision."""
    times: list[float] = []
    for access in accesses:
        began = time.thread_time()
        decided(access, mode)
        times.append((time.thread_time() - began) * 1000)
    return times


def shown(name: str, times: list[float]) -> str:
    """Return a row of the result."""
    at = statistics.quantiles(times, n=100)
    return f"{name:<12} p50 {at[49]:.2f} ms   p95 {at[94]:.2f} ms   max {max(times):.2f} ms   ({len(times)} decisions)"


def main() -> None:
    """Measure and print."""
    lines = [line for line in COMMANDS if line and not line.startswith("#")]
    paths: list[Access] = [ReadPath(f"{ROOT}/README.md"), WritePath(f"{ROOT}/README.md")]
    accesses: list[Access] = [*(RunCommand(line, ROOT) for line in lines), *paths]
    # Tables and grammar are loaded once a process.
    decided(RunCommand("make warm", ROOT), Mode.ASK)
    first = measured(accesses, Mode.AUTO)
    warm = [one for _ in range(10) for mode in Mode for one in measured(accesses, mode)]
    print(shown("first parse", first))
    print(shown("warm", warm))


if __name__ == "__main__":
    main()
