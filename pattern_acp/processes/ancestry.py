"""The processes that this one comes from: who started a command of ours that has lost its environment.

Owns: reading them, and which of them are an agent's. Must not know: what follows from it.
"""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile
from pathlib import Path, PurePath

from msgspec import Struct

from pattern_acp.processes.confinement import LAUNCHER

_MOST = 64
"""Most ancestors that are looked at; a chain has no end only when numbers are reused while it is read."""

_SERVING = frozenset({"acp", "--acp", "serve"})


class ParentProcess(Struct, frozen=True):
    """A process that this one comes from, as far as it can be read."""

    words: Sequence[str] = ()
    variables: Collection[str] = ()
    """Names in its environment. macOS hides that of its own programs, shells among them."""

    @property
    def arguments(self) -> tuple[str, ...] | None:
        """The arguments if it is our program; None if it is another one."""
        program = _name(self.words[0]) if self.words else ""
        ours = ("pattern-acp", "pattern_acp")
        at = next((at for at, word in enumerate(self.words) if _name(word) in ours), None)
        return tuple(self.words[at + 1 :]) if at is not None and (at == 0 or program.startswith("python")) else None

    @property
    def is_server(self) -> bool:
        """True for an agent: our program where it speaks ACP."""
        return self.arguments is not None and (not self.arguments or not _SERVING.isdisjoint(self.arguments))


def is_of_agent(variable: str, environment: Mapping[str, str]) -> bool:
    """Tell whether an agent started this process: by its environment, or by the processes that it comes from."""
    return bool(environment.get(variable)) or descends_from_agent(variable, ancestors(), sys.argv[1:])


def descends_from_agent(variable: str, chain: Iterable[ParentProcess], arguments: Sequence[str]) -> bool:
    """Tell whether an ancestor has `variable` in its environment, is the launcher of a command, or is an agent.

    `env -i` takes a variable from a program, not from the shell that runs it; what is detached becomes a child of the
    launcher. `arguments` are our own: the first ancestors with the same only start the interpreter (Windows).
    """
    own = tuple(arguments)
    return any(
        variable in one.variables
        or one.is_server
        or any(PurePath(word).stem == LAUNCHER.stem for word in one.words[:4])
        for one in dropwhile(lambda one: one.arguments == own, chain)
    )


def _name(word: str) -> str:
    return PurePath(word.replace("\\", "/")).stem


if sys.platform.startswith("linux"):

    def ancestors() -> Iterator[ParentProcess]:
        """Return the parent of this process, its parent and so on."""
        return read_proc(Path("/proc"))

else:

    def ancestors() -> Iterator[ParentProcess]:
        """Return the parent of this process, its parent and so on."""
        return read_by_psutil()


def read_proc(proc: Path, start: str = "self") -> Iterator[ParentProcess]:
    """Yield ancestors as Linux shows them, without the 15 ms that psutil takes to import."""
    pid = _parent(proc / start)
    for _ in range(_MOST):
        if pid in {"", "0"}:
            return
        variables = frozenset(entry.partition("=")[0] for entry in _entries(proc / pid / "environ"))
        yield ParentProcess(_entries(proc / pid / "cmdline"), variables)
        pid = _parent(proc / pid)


def _parent(folder: Path) -> str:
    try:
        # The name before these fields may hold anything, parentheses too.
        return (folder / "stat").read_bytes().rpartition(b")")[2].split()[1].decode("ascii")
    except (OSError, IndexError):
        return ""


def _entries(file: Path) -> list[str]:
    try:
        return file.read_bytes().decode("utf-8", "surrogateescape").rstrip("\0").split("\0")
    except OSError:
        return []


def read_by_psutil() -> Iterator[ParentProcess]:
    """Yield ancestors as macOS and Windows show them; what may not be read is left out."""
    import psutil

    try:
        chain = psutil.Process().parents()
    except psutil.Error:
        return
    for one in chain[:_MOST]:
        read: dict[str, Collection[str]] = {"words": (), "variables": ()}
        for what, reader in (("words", one.cmdline), ("variables", one.environ)):
            try:
                read[what] = tuple(reader())
            except (psutil.Error, OSError):
                continue
        yield ParentProcess(tuple(read["words"]), read["variables"])
