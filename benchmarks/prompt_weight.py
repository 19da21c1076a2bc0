"""Bytes of what every request carries: the default persona's system prompt and the tools."""

from pathlib import Path

import msgspec
from measuring import Row, print_table

from pattern_acp.context.instructions import Environment, load_persona, system_prompt
from pattern_acp.tools.base import ToolSpec
from pattern_acp.tools.registry import default_tools

LIMIT_BYTES = 12_000


def weight(spec: ToolSpec) -> int:
    """Bytes of one tool as the wires send it, without the wire's own words."""
    parts = {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}
    return len(msgspec.json.encode(parts))


def main() -> None:
    environment = Environment(
        cwd="/home/somebody/work/a-project",
        additional_directories=(),
        platform="Linux 6.1.0",
        date="2026-11-28",
        git_branch="main",
        editor="zed",
        capabilities=(),
    )
    persona = load_persona("default", Path("no-such-folder"))
    system = len(system_prompt(persona, environment, ()).encode())
    tools = {tool.spec.name: weight(tool.spec) for tool in default_tools()}
    total = system + sum(tools.values())
    rows = [
        Row("system prompt and tools", [total], "bytes", f"< {LIMIT_BYTES}", LIMIT_BYTES),
        Row("system prompt", [system], "bytes"),
        *(Row(f"tool {name}", [size], "bytes") for name, size in sorted(tools.items(), key=lambda item: -item[1])),
    ]
    print_table("What every request carries", rows)


if __name__ == "__main__":
    main()
