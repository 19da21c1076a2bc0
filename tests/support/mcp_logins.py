"""`FakeLogins`: logins in memory, with a browser that follows the address by itself."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx

from pattern_acp.credentials.signing_in import listen_for_redirect
from pattern_acp.mcp_servers.catalogue import Login, Redirects


class FakeLogins:
    """`mcp_servers.catalogue.Logins`. `browses`: whether its browser goes where it is sent."""

    def __init__(self, *, shows_browser: bool = True, browses: bool = True) -> None:
        self.shows_browser = shows_browser
        self.stored: dict[str, Login] = {}
        self.opened: list[str] = []
        self.pages: list[str] = []
        self.now = 1_700_000_000_000
        self.browses = browses
        self._lock = anyio.Lock()

    def now_ms(self) -> int:
        """See `Logins.now_ms`."""
        return self.now

    async def load(self, key: str) -> Login | None:
        """See `Logins.load`."""
        return self.stored.get(key)

    async def save(self, key: str, login: Login) -> None:
        """See `Logins.save`."""
        self.stored[key] = login

    @asynccontextmanager
    async def locked(self, key: str) -> AsyncGenerator[None]:
        """See `Logins.locked`."""
        del key
        async with self._lock:
            yield

    @asynccontextmanager
    async def listen(self, port: int) -> AsyncGenerator[Redirects]:
        """See `Logins.listen`. The browser's last page is there when the context ends."""
        async with listen_for_redirect(port) as back, anyio.create_task_group() as tasks:
            self._tasks = tasks
            yield back
            if not self.browses:
                tasks.cancel_scope.cancel()

    async def open_browser(self, url: str) -> None:
        """See `Logins.open_browser`."""
        self.opened.append(url)
        if self.browses:
            self._tasks.start_soon(self._browse, url)

    async def _browse(self, url: str) -> None:
        async with httpx.AsyncClient(follow_redirects=True, trust_env=False, timeout=60) as client:
            self.pages.append((await client.get(url)).text)
