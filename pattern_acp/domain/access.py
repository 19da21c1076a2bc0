"""Facts on which policy decides: who acts, where content came from, and what a tool call touches.

Invariant 8: file contents, tool output, web text, MCP results and other agents' words are data with an origin; they
never carry the user's authority. An event therefore names both who acted and where the content came from.
"""

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct


class ReadPath(Struct, frozen=True):
    """Read a file or folder. `path` is absolute and resolved through symlinks."""

    path: str
    is_folder: bool = False
    """True for a folder, so that an "always" answer covers the folder itself and not the one around it."""


class WritePath(Struct, frozen=True):
    """Create, change or delete a file.

    `path` is absolute and resolved through symlinks (the parent's, for a new file).
    """

    path: str


class RunCommand(Struct, frozen=True):
    """Run a shell line in `cwd` (absolute, resolved)."""

    line: str
    cwd: str
    git_setting: str = ""
    """The setting of a repository by which git's reading commands would run a program, such as `diff.external`."""


class ReadMemory(Struct, frozen=True):
    """Read or search memory."""


class WriteVerdict(StrEnum):
    """Verdict of a block's permission, and of the guards, on a write."""

    ALLOWED = "allowed"
    CONSENT = "consent"
    DENIED = "denied"


class WriteMemory(Struct, frozen=True):
    """Change a memory block.

    `scope` and `owner` distinguish blocks with the same label. `reason` is a sentence that says why the user has to
    consent, or why nobody may; `only_once` excludes "always" answers, as with a secret.
    """

    label: str
    scope: str = ""
    owner: str = ""
    standing: WriteVerdict = WriteVerdict.ALLOWED
    reason: str = ""
    only_once: bool = False


class CallServer(Struct, frozen=True):
    """Use an MCP server: one of its tools, or its resources.

    `definition` is a hash of what the user would agree to: the program or address behind the server, and the current
    description of the tool. `news` is a sentence about what the user has not agreed to yet; empty when there is nothing
    new.
    """

    server: str
    tool: str
    definition: str = ""
    read_only: bool = False
    """The server's own claim; it only turns a denial into a question."""
    news: str = ""


class FetchUrl(Struct, frozen=True):
    """Fetch a web page. `host` includes the port if the URL names one."""

    host: str
    url: str


class NoEffect(Struct, frozen=True):
    """Affect nothing outside the conversation, such as by a plan."""


Access: TypeAlias = ReadPath | WritePath | RunCommand | ReadMemory | WriteMemory | CallServer | FetchUrl | NoEffect


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
