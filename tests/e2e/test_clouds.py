"""A turn with a model that a cloud serves, through the real process, with that cloud's sign-in and addresses."""

import subprocess
import sys
from pathlib import Path
from typing import cast

import anyio.to_thread
import pytest

from pattern_acp.domain.canonical import Json
from pattern_acp.jsonrpc.messages import AUTH_REQUIRED
from pattern_acp.providers.scripted import ScriptStep
from tests.support.amazon import ACCESS_KEY, SECRET_KEY, is_signed
from tests.support.editor import JsonDict
from tests.support.google_server import PROJECT, google_server
from tests.support.model_server import Reply, serve_models
from tests.support.process import Launch, agent_environment, running_process
from tests.support.requests import refused

pytestmark = pytest.mark.e2e

OVER = Reply(status=401, body='{"error":{"code":401,"message":"Expired.","status":"UNAUTHENTICATED"}}')


async def run(home: Path, *words: str, **environ: str) -> tuple[int, str]:
    """A command of the program; its exit code and all that it printed."""

    def call() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "pattern_acp", *words]
        environment = agent_environment(home, **environ)
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False)

    done = await anyio.to_thread.run_sync(call)
    return done.returncode, done.stdout + done.stderr


async def test_a_service_account_of_google_is_enough_for_a_turn_and_its_token_is_shown_nowhere(tmp_path: Path):
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    with google_server(tmp_path) as google:
        async with serve_models([OVER, Reply([ScriptStep(text="Hello from Google.")])]) as server:
            table = f'[providers.vertex]\nregion = "europe-west1"\nbase_url = "{server.url}"\n'
            (home / "config.toml").write_text(table, encoding="utf-8")
            environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(google.key_file), "PATTERN_ACP_MODEL": "vertex"}
            async with running_process(Launch(home, (), environ)) as agent:
                session = await agent.editor.open_session(str(work))
                answer = await agent.editor.prompt(session, "Hi")
                await agent.close_input()
                assert await agent.wait() == 0
            assert cast("dict[str, Json]", answer)["stopReason"] == "end_turn"
            path = f"/v1/projects/{PROJECT}/locations/europe-west1/publishers/anthropic/models/claude-sonnet-5-5"
            assert [each.path for each in server.requests] == [f"{path}:streamRawPredict"] * 2
            assert [each.headers["authorization"] for each in server.requests] == ["Bearer token-1", "Bearer token-2"]
            code, shown = await run(home, "auth", "status", **environ)
            assert (code, "cloud" in shown, "Google's application default credentials" in shown) == (0, True, True)
            code, shown = await run(home, "auth", "login", "vertex", **environ)
            assert (code, "gcloud auth application-default login" in shown) == (1, True)
            shown = (await run(home, "doctor", **environ))[1]
            assert "europe-west1, with Google's application default credentials" in shown
            kept = b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())
            assert not [token for token in google.given if token in shown or token.encode() in kept]


async def test_without_credentials_a_prompt_is_answered_with_what_to_do(tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text('[providers.vertex]\nproject = "mine-1"\n', encoding="utf-8")
    environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "absent.json"), "PATTERN_ACP_MODEL": "vertex"}
    async with running_process(Launch(home, (), environ)) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        words: JsonDict = {"sessionId": session, "prompt": [{"type": "text", "text": "Hi"}]}
        error = await refused(agent.editor, "session/prompt", words)
    assert error.code == AUTH_REQUIRED
    assert "vertex finds no usable credentials of Google; run `gcloud auth application-default login`" in error.message


async def test_the_credentials_of_amazons_programs_sign_a_turn_and_are_shown_nowhere(tmp_path: Path):
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    model = "eu.anthropic.claude-sonnet-4-20250514-v1:0"
    secrets = f"[work]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
    (tmp_path / "credentials").write_text(secrets, encoding="utf-8")
    environ = {
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_PROFILE": "work",
        "AWS_REGION": "eu-west-1",
        "PATTERN_ACP_MODEL": f"bedrock/{model}",
    }
    async with serve_models([[ScriptStep(text="Hello from Amazon.")]]) as server:
        (home / "config.toml").write_text(f'[providers.bedrock]\nbase_url = "{server.url}"\n', encoding="utf-8")
        async with running_process(Launch(home, (), environ)) as agent:
            session = await agent.editor.open_session(str(work))
            answer = await agent.editor.prompt(session, "Hi")
            await agent.close_input()
            assert await agent.wait() == 0
        assert cast("dict[str, Json]", answer)["stopReason"] == "end_turn"
        sent = server.requests[0]
        assert sent.path == f"/model/{model}/invoke-with-response-stream"
        assert is_signed("POST", sent.path, sent.headers, sent.body)
        code, shown = await run(home, "auth", "status", **environ)
        assert (code, "cloud" in shown, "the AWS credential chain" in shown) == (0, True, True)
        shown += (await run(home, "doctor", **environ))[1]
        assert "eu-west-1, with the AWS credential chain" in shown
        kept = b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())
        assert SECRET_KEY not in shown
        assert SECRET_KEY.encode() not in kept


async def test_a_bedrock_key_is_used_before_any_credentials(tmp_path: Path):
    key = "bedrock-api-key-" + "planted"
    environ = {"AWS_BEARER_TOKEN_BEDROCK": key, "AWS_REGION": "eu-west-1", "PATTERN_ACP_MODEL": "bedrock/m"}
    async with serve_models([[ScriptStep(text="Hello.")]]) as server:
        home = tmp_path / "home"
        home.mkdir()
        (home / "config.toml").write_text(f'[providers.bedrock]\nbase_url = "{server.url}"\n', encoding="utf-8")
        async with running_process(Launch(home, (), environ)) as agent:
            session = await agent.editor.open_session(str(tmp_path))
            await agent.editor.prompt(session, "Hi")
        assert server.requests[0].headers["authorization"] == f"Bearer {key}"
