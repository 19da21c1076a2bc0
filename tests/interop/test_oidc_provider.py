"""`pattern-acp auth login` against an authorization server that we did not write: oidc-provider (npm)."""

import re
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx
import pytest
from anyio.streams.text import TextReceiveStream
from msgspec.structs import replace

from pattern_acp.bootstrap.credentials import post_once
from pattern_acp.config.settings import OAuthSettings
from pattern_acp.credentials.model import SignInDeniedError, SignInExpiredError, SignInRefusedError
from pattern_acp.credentials.oauth import DeviceCode
from pattern_acp.credentials.signing_in import sign_in_with_device
from pattern_acp.domain.clock import SystemClock
from pattern_acp.jsonrpc.messages import AUTH_REQUIRED
from pattern_acp.providers.scripted import ScriptStep
from tests.support.login import browse, ending_soon, login, signed_in
from tests.support.model_server import Reply, serve_models
from tests.support.process import Launch, running_process
from tests.support.requests import refused

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

CLIENT_ID = "pattern-tests"
SCOPE = "openid offline_access"
LAB = {"PATTERN_ACP_MODEL": "lab/test-model"}
START_SECONDS = 60


@dataclass(frozen=True)
class Server:
    """The server's address, and what its person and its operator do."""

    url: str

    @property
    def oauth(self) -> OAuthSettings:
        return OAuthSettings(f"{self.url}/auth", f"{self.url}/token", f"{self.url}/device/auth", CLIENT_ID, SCOPE)

    def configure(self, home: Path, models: str, scope: str = SCOPE) -> None:
        home.mkdir(exist_ok=True)
        oauth = self.oauth
        text = f"""
[providers.lab]
base_url = "{models}/v1"
[providers.lab.oauth]
authorization_url = "{oauth.authorization_url}"
token_url = "{oauth.token_url}"
device_url = "{oauth.device_url}"
client_id = "{CLIENT_ID}"
scope = "{scope}"
"""
        (home / "config.toml").write_text(text, "utf-8")

    async def person(self, *, allows: bool = True, later: int = 0) -> None:
        """What the person answers from now on, and by how many seconds the server's clock is ahead."""
        await self.post("/person", json={"allows": allows, "later": later})

    async def post(self, path: str, **content: object) -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False, base_url=self.url) as client:
            return await client.post(path, **content)  # pyright: ignore[reportArgumentType] - data or json

    async def enter(self, address: str) -> str:
        """Open the address of a device code, send its two forms, and answer; the page in the end."""
        async with httpx.AsyncClient(trust_env=False, base_url=self.url, follow_redirects=True) as client:
            page = (await client.get(address)).text
            for _ in range(2):
                fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page))
                fields.pop("abort", None)
                page = (await client.post("/device", data=fields)).text
                if "Sign-in Success" in page:
                    break
            return page


@pytest.fixture
async def server(oidc_provider: list[str]) -> AsyncGenerator[Server]:
    command = [*oidc_provider, CLIENT_ID]
    async with await anyio.open_process(command, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        with anyio.fail_after(START_SECONDS):
            port = await TextReceiveStream(process.stdout).receive()
        yield Server(f"http://127.0.0.1:{port.strip()}")
        await process.stdin.aclose()
        await process.wait()


async def test_a_sign_in_in_a_browser_gives_the_token_of_the_next_turn(server: Server, tmp_path: Path):
    home = tmp_path / "home"
    async with serve_models([Reply([ScriptStep(text="Hello.")])]) as models:
        server.configure(home, models.url)
        kept = (await signed_in(home, "lab")).load("lab")
        assert kept is not None
        assert kept.refresh_token
        assert kept.expires_at_ms is not None
        assert kept.expires_at_ms > SystemClock().now_ms() + 3_000_000
        async with running_process(Launch(home, environment=LAB)) as agent:
            session = await agent.editor.open_session(str(tmp_path))
            assert await agent.editor.prompt(session, "Hi") == {"stopReason": "end_turn"}
        assert models.requests[-1].headers["authorization"] == f"Bearer {kept.secret}"


async def test_what_stopped_a_sign_in_is_said(server: Server, tmp_path: Path):
    home = tmp_path / "home"
    server.configure(home, "http://127.0.0.1:9")

    async def ends(words: str, do: Callable[[str], Awaitable[str]]) -> None:
        async with login(home, "lab") as terminal:
            pasted = await do(await terminal.address())
            if pasted:
                await terminal.paste(pasted)
            assert await terminal.end() == 1
        assert words in terminal.said
        assert "Traceback" not in terminal.said

    async def denied(address: str) -> str:
        await server.person(allows=False)
        assert "was refused" in await browse(address)
        return ""

    async def of_another(address: str) -> str:
        await server.person()
        return (await end_of(address)).replace("state=", "state=x")

    async def too_late(address: str) -> str:
        ended = await end_of(address)
        await server.person(later=3600)
        return ended

    await ends("was refused", denied)
    await ends("another sign-in", of_another)
    await ends("start the sign-in again", too_late)
    assert not list(home.rglob("credentials.json"))


async def end_of(address: str) -> str:
    """The address that a browser of another machine ends at: the redirect that it cannot follow."""
    async with httpx.AsyncClient(trust_env=False) as client:
        while "/callback?" not in address:
            address = str(httpx.URL(address).join((await client.get(address)).headers["location"]))
    return address


async def test_a_code_serves_once(server: Server, tmp_path: Path):
    home = tmp_path / "home"
    server.configure(home, "http://127.0.0.1:9")
    async with login(home, "lab") as terminal:
        ended = await end_of(await terminal.address())
        await terminal.paste(ended)
        assert await terminal.end() == 0
    async with login(home, "lab") as terminal:
        await terminal.address()
        await terminal.paste(httpx.URL(ended).params["code"])
        assert await terminal.end() == 1
    assert "start the sign-in again" in terminal.said


async def test_a_code_of_a_device_that_was_entered_signs_in(server: Server, tmp_path: Path):
    home = tmp_path / "home"
    async with serve_models([]) as models:
        server.configure(home, models.url)
        async with login(home, "lab", "--device") as terminal:
            await terminal.address(after="which has it in it")
            found = re.search(r"http\S+user_code=\S+(?=, which)", terminal.said)
            assert found is not None
            assert "Sign-in Success" in await server.enter(found[0])
            assert await terminal.end() == 0, terminal.said
    assert "Signed in at lab" in terminal.said
    assert "cannot be renewed" not in terminal.said


async def test_a_sign_in_without_a_refresh_token_says_until_when_it_serves(server: Server, tmp_path: Path):
    home = tmp_path / "home"
    server.configure(home, "http://127.0.0.1:9", scope="openid")
    async with login(home, "lab") as terminal:
        await browse(await terminal.address())
        assert await terminal.end() == 0
    assert re.search(r"It ends at \d{4}-\d\d-\d\d \d\d:\d\d and cannot be renewed.*offline_access", terminal.said)


@pytest.mark.parametrize(("allows", "later", "error"), [(False, 0, SignInDeniedError), (True, 700, SignInExpiredError)])
async def test_a_code_of_a_device_that_is_denied_or_over_says_so(
    server: Server, *, allows: bool, later: int, error: type[Exception]
):
    codes: list[DeviceCode] = []

    async def show(code: DeviceCode) -> None:
        codes.append(code)

    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            await server.person(allows=allows, later=later)
            await server.enter(codes[0].complete_url)

    with pytest.raises(error):
        await sign_in_with_device(server.oauth, post_once, SystemClock(), show, sleep)

    assert pauses == [5.0, 5.0]


async def test_a_client_id_that_the_server_does_not_know_is_named(server: Server):
    async def show(code: DeviceCode) -> None:
        del code

    with pytest.raises(SignInRefusedError, match="client_id"):
        await sign_in_with_device(replace(server.oauth, client_id="nobody"), post_once, SystemClock(), show)


async def test_tokens_are_rotated_until_they_are_taken_back(server: Server, tmp_path: Path):
    home = tmp_path / "home"
    async with serve_models([Reply([ScriptStep(text="Hello.")]) for _ in range(2)]) as models:
        server.configure(home, models.url)
        store = await signed_in(home, "lab")
        used: set[str] = set()
        async with running_process(Launch(home, environment=LAB)) as agent:
            session = await agent.editor.open_session(str(tmp_path))
            for _ in range(2):
                used.add(ending_soon(store, "lab").refresh_token)
                assert await agent.editor.prompt(session, "Hi") == {"stopReason": "end_turn"}
                kept = store.load("lab")
                assert kept is not None
                assert models.requests[-1].headers["authorization"] == f"Bearer {kept.secret}"
                assert kept.refresh_token not in used
            ending = ending_soon(store, "lab")
            await server.post("/token/revocation", data={"token": ending.refresh_token, "client_id": CLIENT_ID})
            words = {"sessionId": session, "prompt": [{"type": "text", "text": "Hi"}]}
            error = await refused(agent.editor, "session/prompt", words)
            assert error.code == AUTH_REQUIRED
            assert "taken back" in error.message
            assert "auth login lab" in error.message


async def test_a_refresh_token_that_is_over_asks_for_a_sign_in(server: Server, tmp_path: Path):
    home = tmp_path / "home"
    async with serve_models([]) as models:
        server.configure(home, models.url)
        ending_soon(await signed_in(home, "lab"), "lab")
        await server.person(later=2 * 86400)
        async with running_process(Launch(home, environment=LAB)) as agent:
            session = await agent.editor.open_session(str(tmp_path))
            words = {"sessionId": session, "prompt": [{"type": "text", "text": "Hi"}]}
            error = await refused(agent.editor, "session/prompt", words)
        assert error.code == AUTH_REQUIRED
        assert "it expired" in error.message
