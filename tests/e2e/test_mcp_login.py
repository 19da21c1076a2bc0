"""`pattern-acp mcp login` in a terminal, and the session of another process that uses what it gave."""

import json
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.support.editor import choose
from tests.support.login import browse, login
from tests.support.mcp_oauth_server import OAuthServer, oauth_server
from tests.support.process import Launch, agent_environment, run_command_line, running_process, write_script

pytestmark = pytest.mark.e2e


def at_far(home: Path, server: OAuthServer, more: str = "") -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f'[mcp_servers.far]\nurl = "{server.url}/mcp"\n{more}', "utf-8")


async def test_a_login_in_a_terminal_serves_the_sessions_of_other_processes_until_it_is_forgotten(tmp_path: Path):
    home = tmp_path / "home"
    call = [{"tool": "far__echo", "arguments": {"text": "hi"}}]
    environment = {**agent_environment(home), **write_script(tmp_path, [call, [{"text": "Done."}]])}
    with oauth_server() as server:
        at_far(home, server)
        async with login(home, "far", at="mcp") as terminal:
            assert "You are signed in." in await browse(await terminal.address())
            assert await terminal.end() == 0, terminal.said
        assert "Signed in at far; it is stored in" in terminal.said
        # Other processes renew it, too.
        server.access.clear()
        async with running_process(Launch(home, (), environment, permission=choose("allow_once"))) as agent:
            session = await agent.editor.open_session(str(tmp_path))
            while "far | ready" not in agent.editor.said():
                await agent.editor.prompt(session, "/mcp")
            await agent.editor.prompt(session, "Try it.")
            assert server.mcp.calls == 1
        assert server.granted == ["authorization_code", "refresh_token"]
        (token,), (renewal,) = server.access, server.refresh
        shown = run_command_line(home, "mcp", "status", TZ="JST-9")
        assert (shown.returncode, "far" in shown.stdout, f"{server.url}/mcp" in shown.stdout) == (0, True, True)
        (row,) = json.loads(run_command_line(home, "mcp", "--json").stdout)
        assert (row["server"], row["login"], row["keptIn"]) == ("far", True, "file")
        ends = datetime.fromisoformat(row["expiresAt"]).astimezone(timezone(timedelta(hours=9)))
        # TZ does not name zones on Windows.
        assert sys.platform == "win32" or f"{ends:%Y-%m-%d %H:%M}" in shown.stdout
        everything = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
        stored = next(home.rglob("credentials.json")).read_bytes()
        for secret in (token, renewal):
            assert everything.count(secret.encode()) == stored.count(secret.encode()) == 1
            assert secret not in terminal.said + shown.stdout
        assert run_command_line(home, "mcp", "logout", "far").stdout == "Signed out of far.\n"
        assert run_command_line(home, "mcp", "logout", "far").stdout == "There is no login at far.\n"
        assert token.encode() not in next(home.rglob("credentials.json")).read_bytes()


async def test_a_sign_in_that_fails_says_why_and_a_server_that_there_is_not_is_named(tmp_path: Path):
    home = tmp_path / "home"
    with oauth_server() as server:
        at_far(home, server, 'headers = { Authorization = "Bearer mine" }\n[mcp_servers.near]\ncommand = "x"\n')
        own = run_command_line(home, "mcp", "login", "far")
        assert (own.returncode, "has an Authorization header" in own.stderr) == (1, True)
        for name in ("near", "nowhere", "ftp://x/y"):
            missing = run_command_line(home, "mcp", "login", name)
            assert missing.returncode == 1
            assert "servers over HTTP of config.toml are far. An address serves as well." in missing.stderr
        server.registers = False
        refused = run_command_line(home, "mcp", "login", f"{server.url}/mcp", "--file", "--no-browser")
        assert (refused.returncode, "put a `client_id` into `oauth`" in refused.stderr) == (1, True)
        assert "Traceback" not in refused.stderr
        server.clients["mine"] = ""
        at_far(home, server, 'oauth = { client_id = "mine" }\n')
        server.allows = False
        async with login(home, "far", at="mcp") as terminal:
            await browse(await terminal.address())
            assert await terminal.end() == 1
        assert "The sign-in at the MCP server far failed: it was refused in the browser." in terminal.said
