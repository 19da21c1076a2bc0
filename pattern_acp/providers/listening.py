"""Whether anything listens where a model server might be.

Owns: the connection attempts. They come before httpx is imported: on most machines nobody listens, and finding that out
must not cost an import of 0.1 s at every start. Must not know: HTTP and what a server answers.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

import anyio

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.providers.endpoints import base_url


async def listening(candidates: Sequence[ProviderSettings], seconds: float) -> tuple[ProviderSettings, ...]:
    """The candidates whose port takes a connection within `seconds` in all, in their order. Never raises."""
    found: set[str] = set()

    async def knock(settings: ProviderSettings) -> None:
        if await _takes_connections(base_url(settings)):
            found.add(settings.name)

    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as tasks:
            for settings in candidates:
                tasks.start_soon(knock, settings)
    return tuple(settings for settings in candidates if settings.name in found)


async def _takes_connections(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        stream = await anyio.connect_tcp(parts.hostname or "", port)
    except (OSError, ValueError):
        # Nobody there, or an address that is none.
        return False
    await stream.aclose()
    return True
