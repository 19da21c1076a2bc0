"""`pattern-acp auth login` with a browser, from the address that is printed to the turn that uses what it gave.

The authorization server is a real one of Authlib's, or does what OpenRouter documents.
"""

from pathlib import Path

import anyio
import httpx
import pytest

from pattern_acp.jsonrpc.messages import AUTH_REQUIRED
from pattern_acp.providers.scripted import ScriptStep
from tests.support.authorization_server import CLIENT_ID, Authorization, authorization_server
from tests.support.login import browse, ending_soon, login, signed_in
from tests.support.model_server import Reply, serve_models
from tests.support.process import Launch, running_process
from tests.support.requests import refused

pytestmark = pytest.mark.e2e

OPENROUTER = {"PATTERN_ACP_MODEL": "openrouter/test-model"}
LAB = {"PATTERN_ACP_MODEL": "lab/test-model"}
SECONDS = 100


def at_openrouter(home: Path, server: Authorization, models: str) -> None:
    home.mkdir(exist_ok=True)
    text = f"""
[providers.openrouter]
base_url = "{models}/v1"
[providers.openrouter.oauth]
authorization_url = "{server.url}/auth"
token_url = "{server.url}/api/v1/auth/keys"
redirect_port = 0
"""
    (home / "config.toml").write_text(text, "utf-8")


def at_lab(home: Path, server: Authorization, models: str) -> None:
    home.mkdir(exist_ok=True)
    text = f"""
[providers.lab]
base_url = "{models}/v1"
[providers.lab.oauth]
authorization_url = "{server.url}/authorize"
token_url = "{server.url}/token"
client_id = "{CLIENT_ID}"
scope = "models"
"""
    (home / "config.toml").write_text(text, "utf-8")


async def address_at_the_end(url: str) -> str:
    """Where a browser of another machine ends: at an address that it cannot reach."""
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(url)).headers["location"]


async def test_a_sign_in_at_openrouter_gives_the_key_of_the_next_turn(tmp_path: Path):
    home = tmp_path / "home"
    with authorization_server() as server:
        async with serve_models([Reply([ScriptStep(text="Hello.")])]) as models:
            at_openrouter(home, server, models.url)
            async with login(home, "openrouter") as terminal:
                page = await browse(await terminal.address())
                assert await terminal.end() == 0, terminal.said
            assert "You are signed in." in page
            (key,) = server.keys
            assert key not in terminal.said
            assert "Signed in at openrouter" in terminal.said
            async with running_process(Launch(home, environment=OPENROUTER)) as agent:
                session = await agent.editor.open_session(str(tmp_path))
                assert await agent.editor.prompt(session, "Hi") == {"stopReason": "end_turn"}
                await agent.editor.prompt(session, "/status")
                assert key[-4:] in agent.editor.said()
            assert models.requests[-1].headers["authorization"] == f"Bearer {key}"


@pytest.mark.parametrize("what", ["address", "code"])
async def test_without_a_browser_here_the_address_where_another_ends_or_its_code_is_pasted(tmp_path: Path, what: str):
    with authorization_server() as server:
        async with serve_models([]) as models:
            at_openrouter(tmp_path / "home", server, models.url)
            async with login(tmp_path / "home", "openrouter") as terminal:
                ended = await address_at_the_end(await terminal.address())
                await terminal.paste(ended if what == "address" else ended.rpartition("code=")[2])
                assert await terminal.end() == 0, terminal.said
            assert "Signed in at openrouter" in terminal.said
            assert len(server.keys) == 1


async def test_a_sign_in_that_was_denied_or_is_another_ones_or_has_expired_says_which(tmp_path: Path):
    home = tmp_path / "home"
    with authorization_server() as server:
        at_openrouter(home, server, "http://127.0.0.1:9")
        endings = {
            "denied": "was refused",
            "mismatch": "another sign-in",
            "expired": "start the sign-in again",
            "transient": "has a fault",
        }
        for case, words in endings.items():
            server.allows, server.failing = case != "denied", 503 if case == "transient" else 0
            async with login(home, "openrouter") as terminal:
                address = await terminal.address()
                if case in {"denied", "transient"}:
                    assert words in await browse(address)
                ended = await address_at_the_end(address)
                if case == "mismatch":
                    await terminal.paste(ended.replace("state=", "state=x"))
                elif case == "expired":
                    await terminal.paste(f"code-{'0' * 32}")
                assert await terminal.end() == 1
            assert words in terminal.said
            assert "Traceback" not in terminal.said
        assert not (home / "data" / "credentials.json").exists()
        assert server.keys == []


async def test_four_agents_whose_token_ends_renew_it_with_one_call_and_a_refused_one_once_more(tmp_path: Path):
    home = tmp_path / "home"
    with authorization_server() as server:
        answers = [Reply([ScriptStep(text="Hello.")]) for _ in range(4)]
        async with serve_models([*answers, Reply(status=401, body="{}"), Reply([ScriptStep(text="Again.")])]) as models:
            at_lab(home, server, models.url)
            store = await signed_in(home, "lab")
            old = ending_soon(store, "lab")
            ready, ended = [anyio.Event() for _ in range(4)], anyio.Event()

            async def one_agent(number: int) -> None:
                async with running_process(Launch(home, environment=LAB)) as agent:
                    session = await agent.editor.open_session(str(tmp_path))
                    ready[number].set()
                    for other in ready:
                        await other.wait()
                    assert await agent.editor.prompt(session, "Hi") == {"stopReason": "end_turn"}
                    if number == 0:
                        await ended.wait()
                        # The provider takes the token back before its time.
                        assert await agent.editor.prompt(session, "Once more") == {"stopReason": "end_turn"}
                        assert agent.editor.said().endswith("Again.")

            async def others() -> None:
                async with anyio.create_task_group() as three:
                    for number in range(1, 4):
                        three.start_soon(one_agent, number)
                ended.set()

            with anyio.fail_after(SECONDS):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(one_agent, 0)
                    tasks.start_soon(others)
            used = [request.headers["authorization"] for request in models.requests]
            prompts = [one for one, request in zip(used, models.requests, strict=True) if request.body]
            assert f"Bearer {old.secret}" not in prompts
            assert len(set(prompts[:4])) == 1
            assert prompts[4] == prompts[0] != prompts[5]
            assert server.token_requests == ["authorization_code", "refresh_token", "refresh_token"]


async def test_a_sign_in_that_was_taken_back_names_the_command_and_a_server_that_is_away_loses_nothing(tmp_path: Path):
    home = tmp_path / "home"
    with authorization_server() as server:
        async with serve_models([Reply([ScriptStep(text="Hello.")])]) as models:
            at_lab(home, server, models.url)
            store = await signed_in(home, "lab")
            old = ending_soon(store, "lab")
            async with running_process(Launch(home, environment=LAB)) as agent:
                session = await agent.editor.open_session(str(tmp_path))
                server.failing = 503
                assert await agent.editor.prompt(session, "Hi") == {"stopReason": "end_turn"}
                assert models.requests[-1].headers["authorization"] == f"Bearer {old.secret}"
                server.failing = 0
                server.revoke_all()
                words = {"sessionId": session, "prompt": [{"type": "text", "text": "Hi"}]}
                error = await refused(agent.editor, "session/prompt", words)
                assert error.code == AUTH_REQUIRED
                assert "taken back" in error.message
                assert "auth login lab" in error.message
