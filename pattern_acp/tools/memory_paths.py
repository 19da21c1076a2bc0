"""Where the diff of a block is shown.

Owns: the path that stands for a block. Must not know: anything that is stored there, which is nothing.
"""

from pathlib import PurePosixPath, PureWindowsPath


def memory_path(label: str, cwd: str) -> str:
    """The path under which a block's diff is shown: ACP wants an absolute one, but a block is no file.

    It lies at the root of the drive that `cwd` is on, where nobody keeps files, so that no editor takes it for one.
    """
    pure = PureWindowsPath(cwd) if PureWindowsPath(cwd).drive else PurePosixPath(cwd)
    return str(type(pure)(pure.anchor or "/") / "memory" / f"{label}.md")
