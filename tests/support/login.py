"""`pattern-acp auth login`, and `mcp login`, in a process of its own, and the browser and the store beside it.

Must not know: which authorization server is signed in at.
"""

import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio
import httpx
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from pattern_acp.credentials.model import Credential
from pattern_acp.credentials.store import CredentialStore, SystemKeyring
from pattern_acp.domain.clock import SystemClock
from tests.support.process import agent_environment

LOGIN_SECONDS = 100

Found = TypeVar("Found")


class Login:
    """The program, as its terminal shows it."""

    def __init__(self, process: Process) -> None:
        self.said = ""
        self._process = process
        self._output = TextReceiveStream(_there(process.stdout))

    async def address(self, after: str = "press Enter") -> str:
        """The first address that it prints, once it has printed `after`."""
        while after not in self.said:
            self.said += await self._output.receive()
        return _there(re.search(r"http\S+", self.said))[0]

    async def paste(self, text: str) -> None:
        """Give it a line on stdin."""
        await _there(self._process.stdin).send(f"{text}\n".encode())

    async def end(self) -> int:
        """Its exit code; `said` is whole then."""
        async for text in self._output:
            self.said += text
        return await self._process.wait()


@asynccontextmanager
async def login(home: Path, *words: str, at: str = "auth") -> AsyncGenerator[Login]:
    """Run it for a bounded time; credentials go to the file of `home`. `at`: the command whose `login` it is."""
    command = [sys.executable, "-m", "pattern_acp", at, "login", *words, "--file", "--no-browser"]
    with anyio.fail_after(LOGIN_SECONDS):
        async with await anyio.open_process(command, env=agent_environment(home), stderr=subprocess.STDOUT) as process:
            yield Login(process)


async def browse(url: str) -> str:
    """What a browser shows in the end."""
    async with httpx.AsyncClient(follow_redirects=True, trust_env=False) as client:
        return (await client.get(url)).text


async def signed_in(home: Path, provider: str) -> CredentialStore:
    """Sign in through a browser; the store that has it then."""
    async with login(home, provider) as terminal:
        await browse(await terminal.address())
        if await terminal.end():
            raise RuntimeError(terminal.said)
    found = next(home.rglob("credentials.json"))  # noqa: ASYNC240 - a few entries
    return CredentialStore(found.parent, SystemKeyring())


def ending_soon(store: CredentialStore, provider: str) -> Credential:
    """The kept tokens, made to end within the minute in which they are renewed."""
    kept = _there(store.load(provider))
    ending = Credential(kept.secret, "oauth", kept.refresh_token, SystemClock().now_ms() + 50_000)
    store.save(provider, ending, in_file=True)
    return ending


def _there(found: Found | None) -> Found:
    if found is None:
        raise RuntimeError("the program did not give what it should")
    return found
