"""Access tokens from google-auth, with a token endpoint that checks what it is sent."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import anyio
import pytest
from google.auth import exceptions
from google.oauth2 import service_account

from pattern_acp.bootstrap.credentials import exchange_once
from pattern_acp.credentials.google_tokens import SCOPE, SOURCE, GoogleCredentials, GoogleTokens, Load
from pattern_acp.credentials.model import CloudCredentialsError, SignInTransientError
from pattern_acp.domain.clock import Clock, SystemClock
from tests.support.constellation import FakeClock
from tests.support.google_server import ACCOUNT, PROJECT, GoogleServer, google_server


def loader(server: GoogleServer) -> Load:
    """What the application default credentials come to where GOOGLE_APPLICATION_CREDENTIALS names the file."""
    read = cast("Callable[..., GoogleCredentials]", service_account.Credentials.from_service_account_file)  # pyright: ignore[reportUnknownMemberType]
    return lambda _: (read(str(server.key_file), scopes=[SCOPE]), PROJECT)


def tokens_of(server: GoogleServer, clock: Clock | None = None) -> GoogleTokens:
    return GoogleTokens(exchange_once, clock or SystemClock(), loader(server))


async def test_a_service_account_proves_itself_and_gets_a_token_that_is_kept(tmp_path: Path):
    with google_server(tmp_path) as server:
        tokens = tokens_of(server)
        first = await tokens.token("vertex")
        assert (first.secret.value, first.secret.source, first.project) == ("token-1", SOURCE, PROJECT)
        assert (await tokens.token("vertex")).secret.value == "token-1"
        assert server.claims[0]["iss"] == ACCOUNT
        assert server.claims[0]["scope"] == SCOPE


async def test_a_refused_token_is_renewed_and_one_that_is_no_longer_used_renews_nothing(tmp_path: Path):
    with google_server(tmp_path) as server:
        tokens = tokens_of(server)
        await tokens.token("vertex")
        assert (await tokens.token("vertex", refused="token-1")).secret.value == "token-2"
        assert (await tokens.token("vertex", refused="token-1")).secret.value == "token-2"
        assert server.given == ["token-1", "token-2"]


async def test_a_token_is_renewed_a_minute_before_its_end(tmp_path: Path):
    with google_server(tmp_path) as server:
        clock = FakeClock(SystemClock().now_ms())
        tokens = tokens_of(server, clock)
        await tokens.token("vertex")
        clock.advance(3_500_000)
        assert (await tokens.token("vertex")).secret.value == "token-1"
        clock.advance(60_000)
        assert (await tokens.token("vertex")).secret.value == "token-2"


async def test_those_who_ask_at_once_get_one_token(tmp_path: Path):
    with google_server(tmp_path) as server:
        tokens = tokens_of(server)
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(tokens.token, "vertex")
        assert server.given == ["token-1"]


async def test_an_account_that_google_does_not_know_is_told_what_to_do(tmp_path: Path):
    with google_server(tmp_path) as server:
        other = tmp_path / "other"
        other.mkdir()
        with google_server(other) as stranger:
            text = stranger.key_file.read_text(encoding="utf-8").replace(stranger.url, server.url)
            server.key_file.write_text(text, encoding="utf-8")
        with pytest.raises(CloudCredentialsError, match="refuses the credentials that vertex uses; run `gcloud"):
            await tokens_of(server).token("vertex")


async def test_a_machine_without_credentials_is_told_how_to_get_them():
    def load(_: object) -> tuple[GoogleCredentials, str]:
        raise exceptions.DefaultCredentialsError

    with pytest.raises(CloudCredentialsError, match="finds no usable credentials of Google; run `gcloud auth"):
        await GoogleTokens(exchange_once, SystemClock(), load).token("vertex")


def test_without_the_extra_the_sentence_has_the_line_that_installs_it():
    script = (
        "import sys, anyio; sys.modules['google'] = None\n"
        "from pattern_acp.credentials.google_tokens import GoogleTokens\n"
        "from pattern_acp.bootstrap.credentials import exchange_once\n"
        "from pattern_acp.domain.clock import SystemClock\n"
        "anyio.run(GoogleTokens(exchange_once, SystemClock()).token, 'vertex')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=False)
    assert 'vertex needs google-auth, which is not installed; run: pip install "pattern-acp[vertex]".' in done.stderr


async def test_a_token_endpoint_that_is_away_may_be_tried_again(tmp_path: Path):
    with google_server(tmp_path) as server:
        tokens = tokens_of(server)
    with pytest.raises(SignInTransientError, match="Google cannot be reached for a token of vertex"):
        await tokens.token("vertex")
