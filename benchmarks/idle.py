"""Wake-ups and processor time of an agent that nobody speaks to: what it costs to leave a thread open in an editor."""

import argparse
import tempfile
import time
from pathlib import Path

from agent_process import AgentProcess
from measuring import Row, cpu_seconds, print_table
from wire_server import WireServer, wire_answers

from pattern_acp.providers.scripted import ScriptStep

WAKE_UPS_A_MINUTE = 30


def main() -> None:
    """Print both for a session after its first turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="of silence that are watched")
    parser.add_argument("--settle", type=int, default=20, help="seconds between the turn and the watch")
    parser.add_argument("--per-project", action="store_true", help="with a constellation for each project")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        wakes, spent = measure(Path(name), options.settle, options.seconds, per_project=options.per_project)
    rows = [
        Row("wake-ups a minute", [wakes * 60 / options.seconds], "", f"<= {WAKE_UPS_A_MINUTE}", WAKE_UPS_A_MINUTE),
        Row("processor time a minute", [spent * 60_000 / options.seconds], "ms"),
    ]
    print_table("Idle", rows)


def measure(folder: Path, settle: int, seconds: int, *, per_project: bool = False) -> tuple[int, float]:
    """Times that a thread of the agent woke up, and seconds of processor time, in so many seconds of silence."""
    project = folder / "project"
    project.mkdir()
    home = folder / "home"
    home.mkdir()
    if per_project:
        (home / "config.toml").write_text("[constellation]\nper_project = true\n", encoding="utf-8")
    with (
        WireServer(wire_answers([[ScriptStep(text="Hello.")]], 40)) as server,
        AgentProcess(home, environment=server.environment()) as agent,
    ):
        agent.initialize()
        agent.prompt(agent.new_session(project), "Hi")
        time.sleep(settle)
        wakes, spent = wake_ups(agent.pid), cpu_seconds(agent.pid)
        time.sleep(seconds)
        return wake_ups(agent.pid) - wakes, cpu_seconds(agent.pid) - spent


def wake_ups(pid: int) -> int:
    """Times that threads of a process have waited for something and were woken (Linux)."""
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                total += int(line.split()[1])
    return total


if __name__ == "__main__":
    main()
