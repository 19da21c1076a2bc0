"""Running a search program and reading its lines as they come.

Owns: starting it, feeding it, stopping it early, and never leaving it behind. Must not know: what the lines mean.
"""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from subprocess import DEVNULL, PIPE

import anyio
import anyio.to_thread
from anyio.abc import Process
from msgspec import Struct

from pattern_acp.processes.groups import quiet_creation_flags
from pattern_acp.workspace.errors import SearchFailedError

MAX_LINE_BYTES = 64_000_000
"""A line of this length is a file of the largest size that is searched, escaped as JSON."""

_STOP_SECONDS = 2.0


class ProcessEnd(Struct, frozen=True):
    """The end of the program; `exit_code` is None when it was stopped because enough was read."""

    exit_code: int | None
    stderr: str = ""


async def run_lines(
    command: Sequence[str],
    cwd: str,
    stdin: bytes | None,
    take: Callable[[bytes], bool],
    *,
    environment: Mapping[str, str] | None = None,
) -> ProcessEnd:
    """Run `command` and pass every line of its output to `take`, until that returns False.

    It runs in this process's environment unless another one is passed.

    Raises:
        WorkspaceError: the program could not be started.
    """
    try:
        process = await anyio.open_process(
            command,
            stdin=DEVNULL if stdin is None else PIPE,
            cwd=cwd if await anyio.to_thread.run_sync(os.path.isdir, cwd) else None,
            env=environment,
            creationflags=quiet_creation_flags(),
        )
    except OSError as error:
        raise SearchFailedError(f"The search program could not be started: {error.strerror}.") from error
    try:
        return await _talk(process, stdin, take)
    finally:
        await _stop(process)


async def _talk(process: Process, stdin: bytes | None, take: Callable[[bytes], bool]) -> ProcessEnd:
    if process.stdin is not None and stdin is not None:
        try:
            await process.stdin.send(stdin)
            await process.stdin.aclose()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # It died before it read everything; its exit code says so.
            pass
    if not await _read_lines(process, take):
        return ProcessEnd(None)
    stderr = b""
    if process.stderr is not None:
        async for chunk in process.stderr:
            stderr = (stderr + chunk)[:10_000]
    return ProcessEnd(await process.wait(), stderr.decode("utf-8", "replace"))


async def _read_lines(process: Process, take: Callable[[bytes], bool]) -> bool:
    """Read lines; return whether the output was read to its end."""
    if process.stdout is None:
        return True
    buffer = bytearray()
    async for chunk in process.stdout:
        buffer += chunk
        if b"\n" not in chunk:
            if len(buffer) > MAX_LINE_BYTES:
                return False
            continue
        *lines, rest = buffer.split(b"\n")
        buffer = rest
        if not all(take(bytes(line)) for line in lines):
            return False
    return True


async def _stop(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    with anyio.move_on_after(_STOP_SECONDS, shield=True):
        await process.aclose()
