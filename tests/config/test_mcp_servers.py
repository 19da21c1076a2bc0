"""The tables `[mcp_servers.NAME]`."""

from pathlib import Path

import pytest

from pattern_acp.config.load import known_secrets, load
from pattern_acp.config.programs import read_mcp_servers
from pattern_acp.config.settings import Flags, McpOAuthSettings, McpServerSettings, Settings
from pattern_acp.config.toml_file import parse_toml


def read(text: str):
    return read_mcp_servers(parse_toml("config.toml", text)[0])


def test_a_program_and_an_address_are_read():
    servers, problems, values = read(
        '[mcp_servers.files]\ncommand = "npx"\nargs = ["-y", "x"]\nenv = { TOKEN = "hush-hush" }\n'
        '[mcp_servers.web]\nurl = "https://example.com/mcp"\nheaders = { Authorization = "hush-hush" }\n'
        '[mcp_servers.old]\nurl = "http://localhost:1/sse"\ntransport = "sse"\n'
    )
    assert servers == {
        "files": McpServerSettings("files", "stdio", "npx", ("-y", "x"), {"TOKEN": "hush-hush"}),
        "web": McpServerSettings("web", "http", url="https://example.com/mcp", headers={"Authorization": "hush-hush"}),
        "old": McpServerSettings("old", "sse", url="http://localhost:1/sse"),
    }
    assert problems == ()
    assert next((value.key, value.shown) for value in values) == ("mcp_servers.files", "npx")
    assert "hush-hush" not in str(values)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("command = 5", "command"),
        ('command = ""', "command"),
        ('command = "x"\nargs = "y"', "a list of text"),
        ('command = "x"\nargs = [1]', "a list of text"),
        ('command = "x"\nenv = { A = 1 }', "a table of text"),
        ('url = "http://x"\nheaders = { Authorization = "Bearer …" }', "the value of Authorization must be text of"),
        ('url = "http://x"\nheaders = { "a b" = "c" }', "a name in it is none that a header may have"),
        ('url = "ftp://x"', "http:// or https://"),
        ('url = "http://x"\noauth = { client_id = 5 }', "a table with client_id, client_secret and redirect_port"),
        ('url = "http://x"\noauth = { redirect_port = 70000 }', "a table with client_id"),
        ('url = "http://x"\noauth = { token = "t" }', "a table with client_id"),
        ('command = "x"\ntransport = "pigeon"', "one of stdio, http, sse"),
        ('command = "x"\nshell = true', "there is no such key"),
        ('transport = "http"', "needs a url"),
        ("", "needs a command"),
    ],
)
def test_a_server_that_cannot_be_used_is_left_out_and_said(table: str, words: str):
    servers, problems, _ = read(f"[mcp_servers.a]\n{table}\n")
    assert servers == {}
    (problem,) = problems
    assert words in str(problem)
    assert "left out" in str(problem)


@pytest.mark.parametrize("text", ["mcp_servers = 5", "[mcp_servers]\na = 5"])
def test_what_is_no_table_is_said(text: str):
    servers, problems, _ = read(text)
    assert servers == {}
    assert len(problems) == 1


def test_the_servers_of_a_project_are_an_offer_only(tmp_path: Path):
    home, project = tmp_path / "home", tmp_path / "project"
    (project / ".pattern").mkdir(parents=True)
    (project / ".pattern" / "config.toml").write_text('[mcp_servers.evil]\ncommand = "sh"\n', encoding="utf-8")
    loaded = load(Flags(), {"PATTERN_ACP_HOME": str(home)}, project_dir=str(project))
    assert loaded.settings.mcp_servers == {}
    assert loaded.offer.mcp_servers == {"evil": McpServerSettings("evil", command="sh")}
    assert [(part.kind, part.name, part.text) for part in loaded.offer.parts] == [("MCP server", "evil", "sh")]


def test_a_client_of_the_users_own_is_read():
    table = 'url = "https://x/y"\noauth = { client_id = "mine", client_secret = "hush-hush", redirect_port = 8123 }'
    servers, problems, values = read(f"[mcp_servers.a]\n{table}\n")
    assert problems == ()
    assert servers["a"].oauth == McpOAuthSettings("mine", "hush-hush", 8123)
    assert "hush-hush" not in f"{servers}{values}"


def test_values_of_servers_are_masked_in_the_log():
    oauth = McpOAuthSettings("mine", "hush-hush-3")
    server = McpServerSettings("a", env={"TOKEN": "hush-hush-1"}, headers={"K": "hush-hush-2"}, oauth=oauth)
    assert set(known_secrets(Settings(mcp_servers={"a": server}))) >= {"hush-hush-1", "hush-hush-2", "hush-hush-3"}
