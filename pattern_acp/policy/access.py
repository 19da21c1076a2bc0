"""What a tool call wants to touch, as facts that policy decides on."""

from typing import TypeAlias

from pattern_acp.domain.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ReadPath:
    """Read a file or folder. `path` is absolute and resolved through symlinks."""

    path: str
    is_folder: bool = False
    """Whether `path` is a folder, so that an always answer reaches below it and not below the folder it is in."""


@dataclass(frozen=True, slots=True)
class WritePath:
    """Create, change or delete a file.

    `path` is absolute and resolved through symlinks (the parent's, for a new file).
    """

    path: str


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Run a shell line in `cwd` (absolute, resolved)."""

    line: str
    cwd: str


@dataclass(frozen=True, slots=True)
class ReadMemory:
    """Read or search memory."""


@dataclass(frozen=True, slots=True)
class WriteMemory:
    """Change a memory block."""

    label: str


@dataclass(frozen=True, slots=True)
class NoEffect:
    """Nothing outside the conversation, such as a plan."""


Access: TypeAlias = ReadPath | WritePath | RunCommand | ReadMemory | WriteMemory | NoEffect
