"""What a broken repository is, and the steps of a model that mends it.

Owns: making one on the disk, and reading back what became of it. Must not know: any one repository, how the agent runs.
"""

import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pattern_acp.domain.canonical import Json

Step = Mapping[str, object]
"""One step of a script file (see `providers.scripted`)."""

BUILT = frozenset({"build", "__pycache__"})
"""Folders that tests may write to; they are no part of the outcome."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A project whose test fails, what mends it, and what it is afterwards."""

    name: str
    files: Mapping[str, bytes]
    """By path from the repository's folder."""
    test: str
    """A shell line that fails before and passes after."""
    fix: Sequence[Step]
    """The model's calls between the two runs of the test, one a request."""
    fixed: Mapping[str, bytes | None]
    """Files that differ afterwards; None for one that is gone."""
    executable: frozenset[str] = frozenset()
    """Files with the bit before."""
    made_executable: frozenset[str] = frozenset()
    """Files that get it."""
    needs: tuple[str, ...] = field(default=())
    """Programs without which it cannot be tried."""

    def create(self, folder: Path) -> None:
        """Write it below `folder`."""
        for name, data in self.files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            if name in self.executable:
                file.chmod(0o755)

    def script(self) -> list[list[Step]]:
        """The model's turns, one for each request."""
        calls = [run(self.test), *self.fix, run(self.test)]
        return [*([call] for call in calls), [{"text": f"{self.name} is mended."}]]

    def outcome(self) -> dict[str, tuple[bytes, bool]]:
        """Every file afterwards, with whether it may be executed."""
        after = {**self.files, **self.fixed}
        executable = self.executable | self.made_executable
        return {name: (data, name in executable) for name, data in after.items() if data is not None}


def found(folder: Path) -> dict[str, tuple[bytes, bool]]:
    """Every file below `folder` with whether it may be executed, without what tests built."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), bool(path.stat().st_mode & stat.S_IXUSR))
        for path in files
        if BUILT.isdisjoint(path.relative_to(folder).parts)
    }


def run(line: str) -> Step:
    """A call of run_command."""
    return _call("run_command", command=line)


def read(path: str) -> Step:
    """A call of read_file."""
    return _call("read_file", path=path)


def edit(path: str, *pairs: tuple[str, str], everywhere: bool = False) -> Step:
    """A call of edit_file with one replacement for each (old, new)."""
    edits: list[Json] = [{"old_text": old, "new_text": new, "replace_all": everywhere} for old, new in pairs]
    return _call("edit_file", path=path, edits=edits)


def write(path: str, content: str) -> Step:
    """A call of write_file."""
    return _call("write_file", path=path, content=content)


def patch(*lines: str) -> Step:
    """A call of apply_patch; `lines` are those between its first and last line."""
    return _call("apply_patch", input="\n".join(["*** Begin Patch", *lines, "*** End Patch"]))


def _call(tool: str, **arguments: Json) -> Step:
    return {"tool": tool, "arguments": arguments}
