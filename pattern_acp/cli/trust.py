"""`pattern-acp trust`: which folder is meant, and the question before it is trusted."""

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread

from pattern_acp.bootstrap.process import Process
from pattern_acp.bootstrap.project import read_project
from pattern_acp.cli.command_runner import open_for_command
from pattern_acp.cli.output import write_failure, write_line
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.paths import resolve_path
from pattern_acp.domain.project_parts import ProjectPart
from pattern_acp.session.trust_commands import TrustDesk, TrustedFolders
from pattern_acp.trust.records import Agreement, count_parts, describe_changes, describe_parts

BRINGS_NOTHING = (
    "It brings nothing that would run. Once you trust it, its files count as your own: what the agent remembers after "
    "reading them is written without a question."
)


@asynccontextmanager
async def open_trust(call: TypedCommand, process: Process) -> AsyncGenerator[TrustDesk, None]:
    """Open the services of the verbs.

    Raises:
        PatternError: the constellation cannot be used.
    """
    del call

    async def offered(root: str) -> tuple[ProjectPart, ...]:
        if not await anyio.Path(root).is_dir():
            raise PatternError(f"{root} is no folder.", failure_code="cli.file-unusable")
        return (await anyio.to_thread.run_sync(read_project, process, root)).offer.parts

    async with open_for_command(process) as database:
        yield TrustDesk(database, SystemClock(), folder_meant, offered, _agrees)


def without_constellation(call: TypedCommand) -> TrustedFolders:
    """The folders that are trusted as long as nothing was recorded: none."""
    del call
    return TrustedFolders()


def folder_meant(path: str) -> str:
    """The folder of a command line with symbolic links followed; the current one when none is named."""
    return resolve_path(str(Path(path or ".").absolute()))


async def _agrees(root: str, parts: Sequence[ProjectPart], before: Agreement | None, sure: bool) -> bool:  # noqa: FBT001  a port
    from pattern_acp.cli.chat.calls import plain_text

    shown = describe_changes(before.parts, parts) if before is not None else describe_parts(parts)
    if not parts:
        shown = f"{shown}\n{BRINGS_NOTHING}".strip()
    write_line(plain_text(shown, None))
    if sure:
        return True
    if not sys.stdin.isatty():
        sentence = "pattern-acp: nothing was changed; say --yes to trust this without a question."
        write_failure("cli.not-confirmed", sentence)
        return False
    wanted = f"{root} to run {count_parts(parts)} as you" if parts else f"the files of {root}"
    sys.stdout.write(f"\nTrust {wanted}? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
