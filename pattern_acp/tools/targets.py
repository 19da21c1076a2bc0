"""The file or folder that a call names.

Owns: the two names of a path (the one the editor knows, the one policy decides on) and the check that they still belong
together just before an effect. Must not know: what is done with it.
"""

import difflib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio.to_thread
from msgspec import Struct

from pattern_acp.domain.paths import absolute_path, display_path, normal_path, resolve_path
from pattern_acp.tools.base import TargetMissingError, ToolContext, ToolFailedError

T = TypeVar("T")

NAMES_COMPARED = 5_000
"""Most names of a folder that are compared with a misspelt one."""


class CodeTarget(Struct, frozen=True):
    """A path as the model named it.

    `path` is absolute and what the editor knows, `resolved` goes through symbolic links and is what policy decides on,
    `shown` is short for people and the model.
    """

    path: str
    resolved: str
    shown: str
    is_elsewhere: bool = False
    """True if it is on another machine: what this one has at the path means nothing."""


async def find_target(raw: str, context: ToolContext) -> CodeTarget:
    """The target that `raw` names in this session.

    Raises:
        WorkspaceError: the path cannot be used.
    """
    path = absolute_path(raw, context.cwd)
    if context.is_elsewhere:
        resolved = normal_path(path)
        context.note_path(path, resolved)
        return CodeTarget(path, resolved, display_path(path, context.cwd), is_elsewhere=True)
    resolved = await anyio.to_thread.run_sync(resolve_path, path)
    context.note_path(path, resolved)
    return CodeTarget(path, resolved, display_path(path, context.cwd))


async def confirm_target(target: CodeTarget) -> None:
    """Check that the path still leads where policy thought (issue 2, section 9: again just before the effect).

    Raises:
        ToolFailedError: a symbolic link was changed since.
    """
    if not target.is_elsewhere:
        await confirmed(target, lambda _: None)


async def confirmed(target: CodeTarget, look: Callable[[str], T]) -> T:
    """Return the result of `look` at the path, checked as by `confirm_target` on the same way to a worker thread.

    Raises:
        ToolFailedError: a symbolic link was changed since.
    """

    def look_there() -> T:
        if resolve_path(target.path) != target.resolved:
            raise ToolFailedError(
                f"{target.shown} now leads to another place than when it was decided on; nothing was done.",
                advice="Try again.",
            )
        return look(target.path)

    return await anyio.to_thread.run_sync(look_there)


async def missing_target(target: CodeTarget, then: str = "", *, advice: str = "") -> TargetMissingError:
    """The error for a path that does not exist, with names that are like it; `then` is a sentence after that."""
    if target.is_elsewhere:
        sentence, where = f"There is no file {target.shown}.", ""
    else:
        sentence, where = await anyio.to_thread.run_sync(_missing, target)
    return TargetMissingError(f"{sentence} {then}".rstrip(), advice=f"{where} {advice}".strip())


def _missing(target: CodeTarget) -> tuple[str, str]:
    """Describe what is missing in a sentence, and name the tools that find it."""
    parent = Path(target.path).parent
    if not os.path.isdir(parent):  # noqa: PTH112  a Path raises where it may not look
        return f"{target.shown} does not exist, nor does its folder.", "Look for it with find_files."
    near = _nearest_names(parent, Path(target.path).name)
    if not near:
        return f"{target.shown} does not exist.", "Look for it with find_files or list_directory."
    folder = target.shown[: len(target.shown) - len(Path(target.path).name)]
    return f"{target.shown} does not exist; did you mean {' or '.join(folder + name for name in near)}?", ""


def _nearest_names(folder: Path, name: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(NAMES_COMPARED), strict=False)]
    except OSError:
        return []
    by_lower = {known.lower(): known for known in names}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=3, cutoff=0.6)
    return [by_lower[lower] for lower in near]
