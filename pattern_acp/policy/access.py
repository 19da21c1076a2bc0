"""What a tool call wants to touch, as facts that policy decides on."""

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct


class ReadPath(Struct, frozen=True):
    """Read a file or folder. `path` is absolute and resolved through symlinks."""

    path: str
    is_folder: bool = False
    """Whether `path` is a folder, so that an always answer reaches below it and not below the folder it is in."""


class WritePath(Struct, frozen=True):
    """Create, change or delete a file.

    `path` is absolute and resolved through symlinks (the parent's, for a new file).
    """

    path: str


class RunCommand(Struct, frozen=True):
    """Run a shell line in `cwd` (absolute, resolved)."""

    line: str
    cwd: str


class ReadMemory(Struct, frozen=True):
    """Read or search memory."""


class Standing(StrEnum):
    """What the permission of a block, and the guards, say of a write."""

    ALLOWED = "allowed"
    CONSENT = "consent"
    DENIED = "denied"


class WriteMemory(Struct, frozen=True):
    """Change a memory block.

    `scope` and `owner` tell blocks of one label apart. `reason` says in a sentence why the person has to consent, or
    why nobody may; `only_once` that an always answer must not reach it, as with a secret.
    """

    label: str
    scope: str = ""
    owner: str = ""
    standing: Standing = Standing.ALLOWED
    reason: str = ""
    only_once: bool = False


class CallServer(Struct, frozen=True):
    """Use an MCP server: one of its tools, or its resources.

    `definition` is a hash of what the person would agree to: the program or address behind the server, and the tool as
    it is described now. `news` says in a sentence what the person has not agreed to so far; empty for what they know.
    """

    server: str
    tool: str
    definition: str = ""
    read_only: bool = False
    """By the server's own word, which is worth a question and no more."""
    news: str = ""


class FetchUrl(Struct, frozen=True):
    """Fetch a page of the web. `host` has the port where the URL names one."""

    host: str
    url: str


class NoEffect(Struct, frozen=True):
    """Nothing outside the conversation, such as a plan."""


Access: TypeAlias = ReadPath | WritePath | RunCommand | ReadMemory | WriteMemory | CallServer | FetchUrl | NoEffect
