"""Actors and origins: who caused something, and where it came from.

Invariant 8: file contents, tool output, web text, MCP results and other agents' words are data with an origin; they
never carry the user's authority. An event therefore names both who acted and where the content came from.
"""

from enum import StrEnum

from msgspec import Struct


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


class TrustTier(StrEnum):
    """The party behind a definition, by the place where its bytes were found, never by a claim inside."""

    BUILT_IN = "built-in"
    USER = "user"
    BUNDLE = "bundle"
    """Installed by the user from others, and agreed to as it is."""
    PROJECT = "project"
    AD_HOC = "ad-hoc"
    """Written by the agent in a session, and agreed to by the user."""


class DataSource(Struct, frozen=True):
    """Data that a session has read, and what the user would call the place that it is from."""

    origin: Origin
    name: str
    """In words for a sentence, such as “the file `README.md`”."""
    text: str = ""
    """The data as it is compared: small letters, one blank between words."""
    of_project: bool = False
    """True for data of the session's own folders."""
    given: bool = False
    """True for data that the user attached to a prompt."""
    of_user: bool = False
    """True for instructions of the user's own, such as a skill of theirs."""
    server: str = ""
    """The MCP server that it is from, if it is from one."""
    line: str = ""
    """The command whose output it is, if it is one's."""


def flat_text(text: str) -> str:
    """`text` as it is compared: small letters, one blank between words."""
    return " ".join(text.split()).casefold()
