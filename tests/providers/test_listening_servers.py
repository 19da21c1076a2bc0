"""Finding out whether anything listens."""

import anyio
from anyio.abc import SocketAttribute
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.providers.choose import LOCAL_SERVERS
from pattern_acp.providers.known_models import listening_servers


def at(port: int, server: ProviderSettings = LOCAL_SERVERS[0]) -> ProviderSettings:
    return replace(server, base_url=f"http://127.0.0.1:{port}/v1")


async def test_only_ports_that_take_connections_are_named_in_their_order():
    with anyio.fail_after(30):
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
            port = listener.extra_attributes[SocketAttribute.local_port]()
            candidates = (at(port, LOCAL_SERVERS[2]), at(1, LOCAL_SERVERS[1]), at(port))
            found = await listening_servers(candidates, seconds=30)
    assert [settings.name for settings in found] == ["llama-server", "ollama"]


async def test_an_address_that_is_none_does_no_harm():
    with anyio.fail_after(30):
        assert await listening_servers([ProviderSettings("x", "openai", "http://[::1/v1")], seconds=30) == ()
        assert await listening_servers([ProviderSettings("x", "openai", "http://127.0.0.1:x/v1")], seconds=30) == ()


async def test_no_time_means_that_nobody_listens():
    with anyio.fail_after(30):
        assert await listening_servers([at(1)], seconds=0) == ()
