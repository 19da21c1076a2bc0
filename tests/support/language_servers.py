"""Language servers of a session over the small server of `tests.support.language_server`.

Owns: starting and ending them round a test. Must not know: what is asked of them.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from pattern_acp.config.settings import LspServerSettings, LspSettings
from pattern_acp.lsp.servers import LanguageServers
from pattern_acp.processes.groups import ChildProgramPorts
from tests.support.language_server import command


def fake_server(kind: str = "usual", argument: str = "") -> LspSettings:
    """Settings with the small server for files that end in `.txt`, and none that is installed."""
    return LspSettings(wait_seconds=30, servers=(LspServerSettings("fake", command(kind, argument), ("txt",)),))


@asynccontextmanager
async def language_servers(
    root: Path, settings: LspSettings, *, trusted: bool = False, path: str = ""
) -> AsyncGenerator[LanguageServers, None]:
    """The servers of a session in `root`; `path` is its PATH, and its home lies in the root."""
    means = ChildProgramPorts({"PATH": path, "HOME": str(root / ".home")})
    async with anyio.create_task_group() as tasks:
        servers = LanguageServers(tasks, means, settings, (str(root),), lambda: trusted)
        try:
            yield servers
        finally:
            servers.started.close()
            await servers.started.wait_closed()
            tasks.cancel_scope.cancel()
