"""Which key is used, and its renewal, against a real authorization server."""

from pathlib import Path

import anyio
import anyio.lowlevel
import httpx
import pytest
from anyio.abc import SocketAttribute
from msgspec.structs import replace

from pattern_acp.bootstrap.credentials import post_once
from pattern_acp.config.settings import OAuthSettings, ProviderSettings, Secret
from pattern_acp.credentials import model
from pattern_acp.credentials.keys import StoredKeys, key_sources, with_stored_key
from pattern_acp.credentials.model import Credential, KeyTier, StoredEntry
from pattern_acp.credentials.oauth import DeviceCode
from pattern_acp.credentials.signing_in import sign_in_with_browser, sign_in_with_device
from pattern_acp.credentials.store import CredentialStore
from pattern_acp.domain.clock import Clock, SystemClock
from tests.support.authorization_server import CLIENT_ID, Authorization, authorization_server
from tests.support.constellation import FakeClock
from tests.support.credentials import FakeKeyring

ENTRY = StoredEntry("api_key", "keyring", "6789")
AMBIENT = ProviderSettings("mine", "openai", "http://x/v1", Secret("ambient-key-123", "$MINE_KEY"))
CLOCK = SystemClock()


def oauth_of(server: Authorization) -> OAuthSettings:
    return OAuthSettings(
        f"{server.url}/authorize", f"{server.url}/token", f"{server.url}/device", client_id=CLIENT_ID, scope="models"
    )


async def sign_in(server: Authorization, **changes: str) -> tuple[Credential, list[str]]:
    """Sign in as a browser would; the credential and the pages shown."""
    pages: list[str] = []
    credential = Credential("")
    async with anyio.create_task_group() as tasks:

        async def browse(url: str) -> None:
            async with httpx.AsyncClient(follow_redirects=True, trust_env=False) as client:
                pages.append((await client.get(url)).text)

        async def show(url: str) -> None:
            tasks.start_soon(browse, url)

        credential = await sign_in_with_browser(replace(oauth_of(server), **changes), post_once, CLOCK, show)
    return credential, pages


def keys_in(folder: Path, clock: Clock = CLOCK) -> StoredKeys:
    return StoredKeys(CredentialStore(folder, FakeKeyring(broken=True)), folder, post_once, clock)


def test_what_the_person_did_on_purpose_beats_what_is_merely_set():
    named = replace(AMBIENT, key_variable_named=True)
    assert [each.tier for each in key_sources(AMBIENT, ENTRY)] == [KeyTier.KEYRING, KeyTier.ENVIRONMENT]
    assert [each.tier for each in key_sources(named, ENTRY)] == [KeyTier.CONFIG, KeyTier.KEYRING]
    assert [each.tier for each in key_sources(AMBIENT, None)] == [KeyTier.ENVIRONMENT]
    assert key_sources(ProviderSettings("mine", "openai"), None) == ()
    assert key_sources(AMBIENT, ENTRY)[0].sentence == "the keyring, …6789"


def test_a_kept_key_sets_a_provider_up_without_being_in_its_settings():
    held = with_stored_key(ProviderSettings("mine", "openai"), {"mine": ENTRY})
    assert held.configured
    assert held.api_key == Secret("", "the keyring")
    assert with_stored_key(AMBIENT, {}) is AMBIENT


async def test_the_kept_key_is_used_until_it_is_deleted_and_then_the_environments(tmp_path: Path):
    store = CredentialStore(tmp_path, FakeKeyring())
    keys = StoredKeys(store, tmp_path, post_once, CLOCK)
    assert await keys.key(AMBIENT) == AMBIENT.api_key
    store.save("mine", Credential("kept-key-12345"))
    assert (await keys.key(AMBIENT) or Secret("")).value == "kept-key-12345"
    store.save("mine", Credential("next-key-12345"))
    assert (await keys.key(AMBIENT) or Secret("")).value == "next-key-12345"
    store.delete("mine")
    assert await keys.key(AMBIENT) == AMBIENT.api_key


async def test_a_browser_sign_in_ends_with_tokens_and_a_page_that_says_so():
    with authorization_server() as server:
        credential, pages = await sign_in(server)
        assert credential.kind == "oauth"
        assert credential.secret == server.tokens[0].access_token
        assert credential.refresh_token
        assert "You can close this page" in pages[0]


async def test_a_port_that_is_taken_is_replaced_by_another():
    with authorization_server() as server:
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as taken:
            port = int(taken.extra_attributes[SocketAttribute.local_port]())
            oauth = replace(oauth_of(server), redirect_port=port)
            seen: list[str] = []

            async def show(url: str) -> None:
                seen.append(url)

            with pytest.raises(model.SignInExpiredError, match="--device"):
                await sign_in_with_browser(oauth, post_once, CLOCK, show, wait_seconds=0.01)
        assert f"%3A{port}%2F" not in seen[0]
        assert f":{port}/" not in seen[0].partition("redirect_uri=")[2]


async def test_a_refusal_and_a_broken_exchange_are_told_apart_and_shown_in_the_browser():
    with authorization_server() as server:
        server.failing = 503
        with pytest.raises(BaseExceptionGroup) as caught:
            await sign_in(server)
        assert caught.group_contains(model.SignInTransientError)
        server.failing, server.allows = 0, None
        with pytest.raises(BaseExceptionGroup) as caught:
            await sign_in(server)
        assert caught.group_contains(model.SignInDeniedError)


async def test_a_device_code_waits_longer_when_asked_to_and_ends_when_the_person_has_answered():
    with authorization_server() as server:
        server.allows, server.slow_downs = None, 1
        slept: list[float] = []
        shown: list[DeviceCode] = []

        async def show(device: DeviceCode) -> None:
            shown.append(device)

        async def sleep(seconds: float) -> None:
            slept.append(seconds)
            server.allows = True if len(slept) == 3 else None

        credential = await sign_in_with_device(oauth_of(server), post_once, CLOCK, show, sleep)
        assert credential.refresh_token
        assert shown[0].user_code
        assert slept == [1, 6, 6]
        server.allows = False
        with pytest.raises(model.SignInDeniedError):
            await sign_in_with_device(oauth_of(server), post_once, CLOCK, show, lambda _: anyio.lowlevel.checkpoint())


async def test_a_token_near_its_end_is_renewed_once_for_everybody_and_the_rotation_kept(tmp_path: Path):
    with authorization_server() as server:
        credential, _ = await sign_in(server)
        CredentialStore(tmp_path, FakeKeyring(broken=True)).save(
            "mine", replace(credential, expires_at_ms=CLOCK.now_ms() + 59_000)
        )
        provider = replace(AMBIENT, oauth=oauth_of(server))
        # As two processes have it: nothing shared but the directory.
        ones = [keys_in(tmp_path), keys_in(tmp_path)]
        found: list[str] = []

        async def ask(keys: StoredKeys) -> None:
            found.append((await keys.key(provider) or Secret("")).value)

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(ask, ones[number % 2])
        assert server.token_requests.count("refresh_token") == 1
        assert set(found) == {server.tokens[0].access_token}
        kept = CredentialStore(tmp_path, FakeKeyring(broken=True)).load("mine")
        assert kept is not None
        assert kept.refresh_token == server.tokens[0].refresh_token


async def test_a_token_that_lives_shorter_than_the_time_ahead_is_still_renewed_once_for_everybody(tmp_path: Path):
    with authorization_server() as server:
        server.lifetime_seconds = 30
        credential, _ = await sign_in(server)
        CredentialStore(tmp_path, FakeKeyring(broken=True)).save("mine", credential)
        provider = replace(AMBIENT, oauth=oauth_of(server))
        ones = [keys_in(tmp_path), keys_in(tmp_path)]
        found: set[str] = set()

        async def ask(keys: StoredKeys) -> None:
            found.add((await keys.key(provider) or Secret("")).value)

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(ask, ones[number % 2])
        assert server.token_requests.count("refresh_token") == 1
        assert found == {server.tokens[0].access_token}


@pytest.mark.parametrize("hours", [-48, 48], ids=["back", "ahead"])
async def test_a_clock_that_is_moved_costs_one_renewal_and_no_sign_in(tmp_path: Path, hours: int):
    with authorization_server() as server:
        credential, _ = await sign_in(server)
        CredentialStore(tmp_path, FakeKeyring(broken=True)).save("mine", credential)
        provider = replace(AMBIENT, oauth=oauth_of(server))
        clock = FakeClock(CLOCK.now_ms())
        clock.advance(hours * 3_600_000)
        keys = keys_in(tmp_path, clock)
        first = await keys.key(provider)
        assert first is not None
        # By the clock that went back it is valid for two days more; the server knows better, and refuses it.
        renewed = await keys.key(provider, refused=credential.secret)
        assert renewed is not None
        assert renewed.value == server.tokens[0].access_token
        assert (await keys.key(provider)) == renewed
        assert server.token_requests.count("refresh_token") == 1


async def test_a_refused_token_is_renewed_once_and_one_renewed_meanwhile_is_taken_as_it_is(tmp_path: Path):
    with authorization_server() as server:
        credential, _ = await sign_in(server)
        keys = keys_in(tmp_path)
        CredentialStore(tmp_path, FakeKeyring(broken=True)).save("mine", credential)
        provider = replace(AMBIENT, oauth=oauth_of(server))
        first = await keys.key(provider, refused=credential.secret)
        second = await keys.key(provider, refused=credential.secret)
        assert first == second
        assert first is not None
        assert first.value != credential.secret
        assert server.token_requests.count("refresh_token") == 1


async def test_a_revoked_sign_in_says_what_to_run_and_a_server_that_is_away_loses_nothing(tmp_path: Path):
    with authorization_server() as server:
        credential, _ = await sign_in(server)
        store = CredentialStore(tmp_path, FakeKeyring(broken=True))
        provider = replace(AMBIENT, oauth=oauth_of(server))
        ending = replace(credential, expires_at_ms=CLOCK.now_ms() + 30_000)
        store.save("mine", ending)
        server.failing = 503
        assert (await keys_in(tmp_path).key(provider) or Secret("")).value == ending.secret
        with pytest.raises(model.SignInTransientError):
            await keys_in(tmp_path).key(provider, refused=ending.secret)
        assert store.load("mine") == ending
        server.failing = 0
        server.revoke_all()
        with pytest.raises(model.SignInRevokedError, match="auth login mine"):
            await keys_in(tmp_path).key(provider)
        with pytest.raises(model.SignInRevokedError, match="is gone"):
            await keys_in(tmp_path).key(AMBIENT)
