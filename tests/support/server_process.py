"""`pattern-acp serve` as a process of its own."""

import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from pattern_acp.credentials.store import ServerToken
from tests.support.process import COMMAND, agent_environment

START_SECONDS = 60.0


@dataclass(slots=True)
class ServerProcess:
    """A running server, its URL, and the variable that has its token."""

    process: subprocess.Popen[bytes]
    url: str
    environment: Mapping[str, str]


def token_for(home: Path) -> dict[str, str]:
    """The variable with a new token of the server of this home."""
    return {"PATTERN_ACP_TOKEN": ServerToken(home).make(0)}


@asynccontextmanager
async def server_process(
    home: Path, token: Mapping[str, str], *arguments: str, **environment: str
) -> AsyncGenerator[ServerProcess, None]:
    """A server; killed at the end, unless it ended before. `token` is what `token_for` made."""
    process = subprocess.Popen(  # noqa: ASYNC220  its pipe is read in a thread
        [*COMMAND, "serve", *arguments],
        stdout=subprocess.PIPE,
        env=agent_environment(home, **environment),
        cwd=str(home),
    )
    stdout = process.stdout
    assert stdout is not None
    try:
        with anyio.fail_after(START_SECONDS):
            line = await anyio.to_thread.run_sync(stdout.readline, abandon_on_cancel=True)
        url = line.decode().partition("Serving at ")[2].partition(". ")[0]
        assert url, line
        yield ServerProcess(process, url, token)
    finally:
        process.kill()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(partial(process.wait, 30))
        stdout.close()
