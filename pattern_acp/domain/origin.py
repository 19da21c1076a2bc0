"""Who caused something and where it came from.

Invariant 8: file contents, tool output, web text, MCP results and other agents' words are data with an origin; they
never carry the person's authority. An event therefore names both who acted and where the content came from.
"""

from enum import StrEnum


class Actor(StrEnum):
    """Who acted."""

    HUMAN = "human"
    PERSONA = "persona"
    TOOL = "tool"
    SYSTEM = "system"
    PROCESS = "process"
    IMPORT = "import"


class Origin(StrEnum):
    """Where content came from."""

    PERSON = "person"
    MODEL = "model"
    WORKSPACE = "workspace"
    COMMAND = "command"
    MEMORY = "memory"
    AGENT = "agent"
    EDITOR = "editor"
    WEB = "web"
    MCP = "mcp"
