"""Actors and origins: who caused something, and where it came from.

Invariant 8: file contents, tool output, web text, MCP results and other agents' words are data with an origin; they
never carry the user's authority. An event therefore names both who acted and where the content came from.
"""

from enum import StrEnum


class Actor(StrEnum):
    """The actor behind an event."""

    HUMAN = "human"
    PERSONA = "persona"
    TOOL = "tool"
    SYSTEM = "system"
    PROCESS = "process"
    IMPORT = "import"


class Origin(StrEnum):
    """The source of content."""

    PERSON = "person"
    MODEL = "model"
    WORKSPACE = "workspace"
    COMMAND = "command"
    MEMORY = "memory"
    AGENT = "agent"
    EDITOR = "editor"
    WEB = "web"
    MCP = "mcp"
