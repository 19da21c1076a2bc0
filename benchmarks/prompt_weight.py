"""Bytes of what every request carries: the default persona's system prompt and the tools, and a first request whole.

The first request is that of the real process, in an empty home and an empty repository, as a server got it.
"""

import subprocess
import tempfile
from pathlib import Path

import msgspec
from agent_process import AgentProcess
from measuring import Row, print_table
from wire_server import WireServer, wire_answers

from pattern_acp.context.instructions import Environment, load_persona, system_prompt
from pattern_acp.providers.scripted import ScriptStep
from pattern_acp.tools.base import ToolSpec
from pattern_acp.tools.registry import default_tools

LIMIT_BYTES = 10_160

FIRST_REQUEST_BYTES = 10_000


def weight(spec: ToolSpec) -> int:
    """Bytes of one tool as the wires send it, without the wire's own words."""
    parts = {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}
    return len(msgspec.json.encode(parts))


def first_request() -> int:
    """Bytes of the body of the first request of a session."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
        WireServer(wire_answers([[ScriptStep(text="Hello.")]])) as server,
    ):
        project = Path(name) / "project"
        subprocess.run(("git", "init", "-q", str(project)), check=True)
        with AgentProcess(Path(name) / "home", environment=server.environment()) as agent:
            agent.initialize()
            agent.prompt(agent.new_session(project), "Hello there.")
        return server.served[0].size


def main() -> None:
    environment = Environment(
        cwd="/home/somebody/work/a-project",
        additional_directories=(),
        platform="Linux 6.1.0",
        editor="zed",
        capabilities=(),
    )
    persona = load_persona("default", Path("no-such-folder"))
    system = len(system_prompt(persona, environment, ()).encode())
    tools = {tool.spec.name: weight(tool.spec) for tool in default_tools()}
    total = system + sum(tools.values())
    rows = [
        Row("first request", [first_request()], "bytes", f"< {FIRST_REQUEST_BYTES}", FIRST_REQUEST_BYTES),
        Row("system prompt and tools", [total], "bytes", f"< {LIMIT_BYTES}", LIMIT_BYTES),
        Row("system prompt", [system], "bytes"),
        *(Row(f"tool {name}", [size], "bytes") for name, size in sorted(tools.items(), key=lambda item: -item[1])),
    ]
    print_table("What every request carries", rows)


if __name__ == "__main__":
    main()
