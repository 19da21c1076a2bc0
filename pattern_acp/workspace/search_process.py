"""Running a search program and reading its lines as they come.

Owns: starting it, feeding it, stopping it early, and never leaving it behind. Must not know: what the lines mean.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from subprocess import DEVNULL, PIPE

import anyio
import anyio.to_thread
from anyio.abc import Process
from msgspec import Struct

from pattern_acp.domain.errors import unwrap_exception_group
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
    stdin: AsyncIterator[bytes] | None,
    take: Callable[[bytes], bool],
    *,
    environment: Mapping[str, str] | None = None,
) -> ProcessEnd:
    """Run `command`, feed it `stdin` and pass every line of its output to `take`, until that returns False.

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


async def _talk(process: Process, stdin: AsyncIterator[bytes] | None, take: Callable[[bytes], bool]) -> ProcessEnd:
    is_whole = False
    try:
        async with anyio.create_task_group() as feeding:
            if stdin is not None:
                feeding.start_soon(_feed, process, stdin)
            is_whole = await _read_lines(process, take)
            # A program that has ended, or has said enough, wants no more.
            feeding.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise unwrap_exception_group(errors) from errors
    if not is_whole:
        return ProcessEnd(None)
    stderr = b""
    if process.stderr is not None:
        async for chunk in process.stderr:
            stderr = (stderr + chunk)[:10_000]
    return ProcessEnd(await process.wait(), stderr.decode("utf-8", "replace"))


async def _feed(process: Process, stdin: AsyncIterator[bytes]) -> None:
    if process.stdin is None:
        return
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        # Where it died before it read everything, its exit code says so.
        async for data in stdin:
            await process.stdin.send(data)
        await process.stdin.aclose()


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
