"""Signing in at servers over HTTP: OAuth with a browser, tokens that are renewed, and what goes wrong on the way."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.lowlevel
import httpx
import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import McpOAuthSettings, McpServerSettings
from pattern_acp.domain.errors import SignInError
from pattern_acp.mcp_servers.catalogue import Login, ServerError, can_login, login_key
from pattern_acp.mcp_servers.server import Server, ServerState
from pattern_acp.mcp_servers.sign_in import may_be_asked, sign_in
from tests.support.mcp_fakes import hosted, silent
from tests.support.mcp_logins import FakeLogins
from tests.support.mcp_oauth_server import OAuthServer, oauth_server


@pytest.fixture
def far() -> Iterator[OAuthServer]:
    with oauth_server() as server:
        yield server


def settings(far: OAuthServer, client_id: str = "", client_secret: str = "") -> McpServerSettings:
    oauth = McpOAuthSettings(client_id, client_secret)
    return McpServerSettings("far", "http", url=f"{far.url}/mcp", oauth=oauth)


@asynccontextmanager
async def joined(far: OAuthServer, logins: FakeLogins) -> AsyncGenerator[Server]:
    async with hosted(settings(far), logins=logins) as session:
        await session.wait_settled(30)
        yield session.servers[0]


async def nobody_looks(url: str) -> None:
    del url


async def signed_in(far: OAuthServer, logins: FakeLogins) -> Login:
    with anyio.fail_after(60):
        return await sign_in(settings(far), logins, nobody_looks)


async def echo(server: Server) -> str:
    with anyio.fail_after(30):
        return (await server.call("echo", {"text": "hi"}, silent)).text


async def test_a_server_that_wants_a_login_works_after_the_user_signed_in(far: OAuthServer):
    logins = FakeLogins()
    async with joined(far, logins) as server:
        assert (server.state, server.offers_login) == (ServerState.FAILED, True)
        assert "wants a login (HTTP status 401)" in server.problem
        shown: list[str] = []

        async def show(url: str) -> None:
            shown.append(url)

        with anyio.fail_after(60):
            await server.sign_in(show)
            await server.settled.wait()
        assert (server.state, server.problem, server.offers_login) == (ServerState.READY, "", False)
        assert await echo(server) == "echo: hi"
        assert shown == logins.opened
        assert "You are signed in." in logins.pages[0]
    sent = parse_qs(urlsplit(shown[0]).query)
    assert (sent["code_challenge_method"], sent["resource"]) == (["S256"], [f"{far.url}/mcp"])
    assert sent["scope"] == ["tools offline_access"]
    assert len(sent["state"][0]) > 20
    (login,) = logins.stored.values()
    assert login.expires_at_ms == logins.now + 3_600_000
    # The next session needs no browser.
    async with joined(far, logins) as server:
        assert await echo(server) == "echo: hi"
    assert (far.registered, len(logins.opened), far.granted) == (1, 1, ["authorization_code"])
    assert login.access_token not in repr(login)
    assert login.refresh_token not in repr(login)


async def test_a_token_that_ends_soon_is_renewed_before_a_request_and_the_new_one_is_stored(far: OAuthServer):
    logins = FakeLogins()
    first = await signed_in(far, logins)
    logins.now += 3_590_000
    async with joined(far, logins) as server:
        assert await echo(server) == "echo: hi"
    (second,) = logins.stored.values()
    assert second.access_token != first.access_token
    assert second.refresh_token != first.refresh_token
    assert second.expires_at_ms == logins.now + 3_600_000
    assert far.granted == ["authorization_code", "refresh_token"]
    assert set(far.resources) == {f"{far.url}/mcp"}


async def test_a_token_that_is_taken_back_in_mid_session_is_renewed_and_no_call_is_lost(far: OAuthServer):
    logins = FakeLogins()
    await signed_in(far, logins)
    async with joined(far, logins) as server:
        far.access.clear()
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(echo, server)
        assert far.mcp.calls == 4
        assert far.granted == ["authorization_code", "refresh_token"], "one renewal serves all calls"


async def test_what_another_process_renewed_is_used_and_not_renewed_again(far: OAuthServer):
    logins = FakeLogins()
    await signed_in(far, logins)
    async with joined(far, logins) as server, joined(far, logins) as other:
        far.access.clear()
        assert await echo(other) == "echo: hi"
        assert await echo(server) == "echo: hi"
    assert far.granted == ["authorization_code", "refresh_token"]


async def test_a_login_that_is_over_asks_for_a_new_one_and_goes_on_with_it(far: OAuthServer):
    logins = FakeLogins()
    await signed_in(far, logins)
    async with joined(far, logins) as server:
        far.access.clear()
        far.refresh.clear()
        for _ in range(2):
            with pytest.raises(ServerError, match=r"it wants a login \(HTTP status 401\)"):
                await echo(server)
        assert (server.state, server.offers_login) == (ServerState.READY, True)
        with anyio.fail_after(60):
            await server.sign_in(nobody_looks)
        assert await echo(server) == "echo: hi"
        assert not server.offers_login


async def test_a_login_without_a_refresh_token_is_over_when_it_is_refused(far: OAuthServer):
    far.gives_refresh = False
    logins = FakeLogins()
    await signed_in(far, logins)
    far.access.clear()
    async with joined(far, logins) as server:
        assert server.offers_login
        assert far.granted == ["authorization_code"]


async def test_an_authorization_server_that_is_away_for_a_moment_costs_no_login(far: OAuthServer):
    logins = FakeLogins()
    await signed_in(far, logins)
    async with joined(far, logins) as server:
        far.access.clear()
        far.failing = 503
        with pytest.raises(ServerError, match="wants a login"):
            await echo(server)
        far.failing = 0
        assert await echo(server) == "echo: hi"


async def test_a_client_of_the_users_own_serves_where_programs_cannot_register(far: OAuthServer):
    far.registers = False
    logins = FakeLogins()
    with pytest.raises(SignInError, match="does not register programs; put a `client_id` into `oauth`") as refused:
        await signed_in(far, logins)
    assert refused.value.failure_code == "auth.refused"
    assert logins.opened == []
    far.clients = {"mine": "", "kept": "hush-hush"}
    for oauth in ({"client_id": "mine"}, {"client_id": "kept", "client_secret": "hush-hush"}):
        with anyio.fail_after(60):
            await sign_in(settings(far, **oauth), logins, nobody_looks)
        far.access.clear()
        async with joined(far, logins) as server:
            assert await echo(server) == "echo: hi", "the renewal has what the sign-in had"
    with pytest.raises(SignInError, match="does not take the code; look at `client_id`"):
        await sign_in(settings(far, client_id="kept", client_secret="wrong"), logins, nobody_looks)
    assert "hush-hush" not in repr(settings(far, client_id="kept", client_secret="hush-hush"))


async def test_a_no_in_the_browser_is_one(far: OAuthServer):
    far.allows = False
    logins = FakeLogins()
    with pytest.raises(
        SignInError, match=r"sign-in at the MCP server far failed: it was refused in the browser\."
    ) as no:
        await signed_in(far, logins)
    assert no.value.failure_code == "auth.denied"
    assert (logins.stored, far.granted) == ({}, [])
    assert "it was refused in the browser" in logins.pages[0]


async def test_the_state_of_another_sign_in_is_refused_and_no_code_is_exchanged(far: OAuthServer):
    far.state = "somebody-elses"
    logins = FakeLogins()
    with pytest.raises(SignInError, match="came back from another sign-in") as refused:
        await signed_in(far, logins)
    assert refused.value.failure_code == "auth.state-mismatch"
    assert (logins.stored, far.granted) == ({}, [])


async def test_a_browser_that_nobody_uses_is_waited_for_so_long_and_no_longer(far: OAuthServer):
    logins = FakeLogins(browses=False)
    with pytest.raises(SignInError, match="nobody signed in within 0 minutes") as expired:
        await sign_in(settings(far), logins, nobody_looks, wait_seconds=1)
    assert expired.value.failure_code == "auth.expired"
    assert len(logins.opened) == 1


async def test_a_cancel_ends_the_wait_for_the_browser(far: OAuthServer):
    logins = FakeLogins(browses=False)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sign_in, settings(far), logins, nobody_looks)
            while not logins.opened:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert logins.stored == {}


@pytest.mark.parametrize("what", ["address", "code"])
async def test_an_address_or_a_code_that_is_pasted_serves_as_well_as_the_browser(far: OAuthServer, what: str):
    logins = FakeLogins(browses=False)

    async def paste() -> str:
        while not logins.opened:
            await anyio.lowlevel.checkpoint()
        async with httpx.AsyncClient(trust_env=False) as client:
            ended = (await client.get(logins.opened[0])).headers["location"]
        return ended if what == "address" else ended.rpartition("code=")[2]

    with anyio.fail_after(60):
        await sign_in(settings(far), logins, nobody_looks, pasted=paste)
    assert far.granted == ["authorization_code"]


async def test_no_code_goes_over_an_unencrypted_line(far: OAuthServer):
    far.endpoint = "http://elsewhere.example/token"
    logins = FakeLogins()
    with pytest.raises(SignInError, match="its authorization server has no https:// address"):
        await signed_in(far, logins)
    assert logins.stored == {}


@pytest.mark.parametrize(
    ("url", "server", "expected"),
    [
        ("https://auth.example/x", "https://docs.example/mcp", True),
        ("http://auth.example/x", "https://docs.example/mcp", False),
        ("http://127.0.0.1:80/x", "http://127.0.0.1:81/mcp", True),
        ("http://127.0.0.1:80/x", "https://docs.example/mcp", False),
        ("file:///etc/passwd", "http://127.0.0.1:81/mcp", False),
        ("javascript:alert(1)", "https://docs.example/mcp", False),
    ],
)
def test_a_server_sends_us_to_encrypted_addresses_and_to_this_machine_only_from_it(
    url: str, server: str, *, expected: bool
):
    assert may_be_asked(url, server) is expected


async def test_a_server_that_wants_no_login_is_told_apart(far: OAuthServer):
    far.access.add("")
    with pytest.raises(SignInError, match="it wants no login"):
        await signed_in(far, FakeLogins())


async def test_a_server_that_is_not_there_is_named_without_its_address():
    gone = McpServerSettings("gone", "http", url="http://user:hush@127.0.0.1:1/mcp")
    with pytest.raises(SignInError, match="gone failed: the server or its authorization server cannot") as failed:
        await sign_in(gone, FakeLogins(), nobody_looks)
    assert "hush" not in failed.value.sentence


def test_a_login_belongs_to_an_address_and_holds_no_key_of_it():
    assert login_key("https://Docs.example.com/mcp") == "mcp:https://docs.example.com/mcp"
    keys = {login_key(f"https://{each}docs.example.com/mcp") for each in ("", "other.", "user:hush@")}
    keys |= {login_key("https://docs.example.com/mcp?key=hush"), login_key("https://docs.example.com/mcp2")}
    assert len(keys) == 5
    assert not any("hush" in key for key in keys)


def test_a_login_is_offered_where_there_is_none_of_the_users_own():
    far = McpServerSettings("far", "http", url="https://x/y")
    assert can_login(far)
    assert can_login(replace(far, transport="sse"))
    assert not can_login(replace(far, headers={"authorization": "Bearer mine"}))
    assert not can_login(McpServerSettings("near", command="x"))
