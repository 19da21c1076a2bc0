"""Running the commands of one event.

Owns: their process, what it is given, and their time limit. Must not know: what an answer leads to.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import count

import anyio
from anyio.abc import ByteReceiveStream, Process
from msgspec import Struct

from pattern_acp.config.settings import HookSettings
from pattern_acp.domain.canonical import Json
from pattern_acp.hooks.answers import HookAnswer, answer_of
from pattern_acp.processes.groups import end_group, start_group

logger = logging.getLogger(__name__)

OUTPUT_BYTES = 1_000_000
"""Most bytes that are kept of each output; what comes after is read and dropped."""

GRACE_SECONDS = 0.3
WATCH_SECONDS = 0.01
CLEANUP_SECONDS = 1.2
"""For ending a command with everything it started; a cancel is answered within 2 s (invariant 3)."""


class HookRunner(Struct, frozen=True):
    """Runs commands on this machine."""

    environment: Mapping[str, str]
    """The environment of hooks, without the keys of model providers."""
    shell: Callable[[str], Sequence[str] | str]
    """Returns the command that runs a line."""

    async def run_all(
        self, hooks: Sequence[HookSettings], payload: Mapping[str, Json], cwd: str
    ) -> list[tuple[HookSettings, HookAnswer]]:
        """Run commands side by side, each line once; the answers in the order of the hooks. Never fails."""
        distinct = list({hook.command: hook for hook in hooks}.values())
        answers: dict[int, HookAnswer] = {}

        async def one(position: int) -> None:
            answers[position] = await self.run(distinct[position], payload, cwd)

        async with anyio.create_task_group() as tasks:
            for position in range(len(distinct)):
                tasks.start_soon(one, position)
        return [(hook, answers[position]) for position, hook in enumerate(distinct)]

    async def run(self, hook: HookSettings, payload: Mapping[str, Json], cwd: str) -> HookAnswer:
        """Run one command with the payload on its stdin; at its time limit it has no opinion."""
        data = (json.dumps(payload) + "\n").encode()
        began = anyio.current_time()
        with anyio.move_on_after(hook.timeout_seconds):
            try:
                answer = await self._run(hook, data, cwd)
            except (OSError, ValueError) as error:
                answer = HookAnswer(problem=f"could not be started ({error})")
            took = anyio.current_time() - began
            logger.info("A hook of %s answered %s after %.2f s.", hook.event, answer.verdict.name, took)
            return answer
        return HookAnswer(problem=f"took longer than its {hook.timeout_seconds} s, so it was ended")

    async def _run(self, hook: HookSettings, data: bytes, cwd: str) -> HookAnswer:
        environment = {**self.environment, "CLAUDE_PROJECT_DIR": cwd, "PATTERN_PROJECT_DIR": cwd}
        process = await _start(self.shell(hook.command), cwd, environment)
        outputs = [bytearray(), bytearray()]
        try:
            async with anyio.create_task_group() as tasks:
                for stream, output in zip((process.stdout, process.stderr), outputs, strict=True):
                    if stream is not None:
                        tasks.start_soon(_collect, stream, output)
                await _feed(process, data)
                await _ended(process)
                # What it left running may hold the pipes open for ever.
                tasks.cancel_scope.deadline = anyio.current_time() + GRACE_SECONDS
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
                await end_group(process, grace=GRACE_SECONDS)
                await process.aclose()
        stdout, stderr = (bytes(output).decode("utf-8", "replace") for output in outputs)
        return answer_of(hook.event, process.returncode, stdout, stderr)


async def _start(command: Sequence[str] | str, cwd: str, environment: Mapping[str, str]) -> Process:
    started: list[Process] = []
    # A cancellation in the middle of the start would lose the process.
    with anyio.CancelScope(shield=True):
        started.append(await start_group(command, cwd=cwd, env=environment))
    return started[0]


async def _feed(process: Process, data: bytes) -> None:
    if process.stdin is None:
        return
    try:
        await process.stdin.send(data)
        await process.stdin.aclose()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, BrokenPipeError, ConnectionResetError):
        # It has no interest in what it is told.
        return


async def _ended(process: Process) -> None:
    # Not `wait`: that waits for the pipes too, which a child may hold open.
    for _ in count():
        if process.returncode is not None:
            return
        await anyio.sleep(WATCH_SECONDS)


async def _collect(stream: ByteReceiveStream, output: bytearray) -> None:
    async for chunk in stream:
        output += chunk[: max(0, OUTPUT_BYTES - len(output))]
