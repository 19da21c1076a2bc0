"""Facts about a tool call, on which policy decides."""

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
