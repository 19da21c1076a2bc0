"""`pattern-acp auth` beside a running agent, as a person has it in another terminal."""

import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from pattern_acp.bootstrap.credentials import StoredLogins
from pattern_acp.bootstrap.process import start_process
from pattern_acp.config.settings import Flags
from pattern_acp.jsonrpc.messages import AUTH_REQUIRED
from pattern_acp.mcp_servers.catalogue import Login
from pattern_acp.providers.scripted import ScriptStep
from tests.support.editor import JsonDict
from tests.support.model_server import Reply, serve_models
from tests.support.process import Launch, agent_environment, running_process
from tests.support.requests import refused

pytestmark = pytest.mark.e2e

MODEL = {"PATTERN_ACP_MODEL": "lab/test-model"}
KEY = "test-key-" + "4711-abcdefgh"


async def auth(home: Path, *words: str, given: str = "") -> tuple[int, str]:
    """Run `pattern-acp auth`; its exit code and everything that it printed."""

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pattern_acp", "auth", *words],
            input=given,
            env=agent_environment(home),
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

    done = await anyio.to_thread.run_sync(run)
    return done.returncode, done.stdout + done.stderr


def configure(home: Path, url: str) -> None:
    home.mkdir()
    (home / "config.toml").write_text(f'[providers.lab]\nbase_url = "{url}/v1"\n', "utf-8")


async def test_a_key_is_kept_shown_by_its_end_and_forgotten_and_never_printed(tmp_path: Path):
    home = tmp_path / "home"
    async with serve_models([]) as server:
        configure(home, server.url)
        code, said = await auth(home, "login", "lab", "--file", given=f"{KEY}\n")
        assert (code, KEY in said) == (0, False)
        assert "Signed in at lab" in said
        code, shown = await auth(home, "status")
        assert (code, KEY in shown) == (0, False)
        assert "file" in shown
        assert "…efgh" in shown
        assert '"lastFour":"efgh"' in (await auth(home, "status", "lab", "--json"))[1]
        assert (await auth(home, "logout", "lab"))[1].startswith("Signed out of lab.")
        assert (await auth(home, "logout", "lab"))[0] == 0
        assert "no key" in (await auth(home, "status"))[1]
    two_lines = f"{KEY}\nanother\n"
    for words, given in (
        (("login", "nobody"), ""),
        (("login", "lab", "--file"), "two words\n"),
        (("login", "lab", "--file"), two_lines),
        (("status", "x"), ""),
    ):
        code, said = await auth(home, *words, given=given)
        assert code == 1, said
        assert "Traceback" not in said
        assert ("more than one line" in said) is (given == two_lines)
    assert (await auth(home, "login", "lab", KEY))[0] == 2
    assert KEY not in (await auth(home, "login", "lab", KEY))[1]


async def test_a_provider_of_the_list_needs_no_table_and_its_variable_is_named(tmp_path: Path):
    home = tmp_path / "home"
    assert "set GROQ_API_KEY" in (await auth(home, "status", "groq"))[1]
    code, said = await auth(home, "login", "azure", "--file", given=KEY)
    assert (code, "[providers.azure]" in said) == (1, True)
    assert "name a provider" in (await auth(home, "login"))[1]
    code, said = await auth(home, "login", "brave", "--file", given=KEY)
    assert (code, 'when search.provider = "brave"' in said, KEY in said) == (0, True, False)
    assert "…efgh" in (await auth(home, "status", "brave"))[1]
    assert "providers are anthropic, brave, deepseek" in (await auth(home, "login", "nobody"))[1]


async def test_after_a_login_in_another_terminal_the_next_prompt_works(tmp_path: Path):
    home = tmp_path / "home"
    replies = [Reply(status=401, body="{}"), Reply([ScriptStep(text="Hello.")])]
    async with serve_models(replies) as server:
        configure(home, server.url)
        async with running_process(Launch(home, environment=MODEL)) as agent:
            session = await agent.editor.open_session(str(tmp_path))
            words = {"sessionId": session, "prompt": [{"type": "text", "text": "Hi"}]}
            error = await refused(agent.editor, "session/prompt", words)
            assert error.code == AUTH_REQUIRED
            assert "auth login lab" in error.message
            assert (await auth(home, "login", "lab", "--file", given=KEY))[0] == 0
            assert await agent.editor.prompt(session, "Hi") == {"stopReason": "end_turn"}
            assert server.requests[-1].headers["authorization"] == f"Bearer {KEY}"
            await agent.editor.prompt(session, "/status")
            assert "the credentials file, …efgh" in agent.editor.said()
            lines = b"\n".join(agent.editor.recording.lines).decode()
    assert KEY not in lines
    holders = {path.name for path in home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()}
    assert holders == {"credentials.json"}


async def test_logout_forgets_what_was_kept_until_somebody_signs_in_again(tmp_path: Path):
    home = tmp_path / "home"
    async with serve_models([Reply([ScriptStep(text="Hello.")])]) as server:
        configure(home, server.url)
        await auth(home, "login", "lab", "--file", given=KEY)
        logins = StoredLogins(start_process(Flags(), {"PATTERN_ACP_HOME": str(home)}), in_file=True)
        await logins.save("mcp:https://tracker.example/mcp", Login("token"))
        async with running_process(Launch(home, environment=MODEL)) as agent:
            await agent.editor.request("logout", {})
            assert await logins.load("mcp:https://tracker.example/mcp") == Login("token")
            assert "no key" in (await auth(home, "status"))[1]
            asked: JsonDict = {"cwd": str(tmp_path), "mcpServers": []}
            assert (await refused(agent.editor, "session/new", asked)).code == AUTH_REQUIRED
            await auth(home, "login", "lab", "--file", given=KEY)
            session = await agent.editor.open_session(str(tmp_path))
            assert await agent.editor.prompt(session, "Hi") == {"stopReason": "end_turn"}
