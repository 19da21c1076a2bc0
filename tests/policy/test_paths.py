"""Names that ask before they are read, in every spelling that reaches the same file."""

import pytest

from pattern_acp.policy.paths import protection_of_names

SECRET = [
    ".env", ".env.local", "server.pem", "a.p12", "a.key", ".key", "id_rsa", "id_ed25519.old", "credentials",
    "credentials.json", ".credentials.xml", ".netrc", "_netrc", ".pgpass", "prod.tfvars", "service-account-7.json",
    "SERVER.PEM", "server.pem.", "server.pem:stream", ".e\u200bnv",
]  # fmt: skip

ORDINARY = [
    "env", ".env.example", "pem", "keys.py", "monkey", "credentials.py", "id_rsa.go", "netrc", "service-account.txt",
    "service.json", "my.cnf", "",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET)
def test_a_file_of_credentials_is_known_by_its_name(name: str):
    guard = protection_of_names((name,))
    assert guard is not None
    assert guard.for_reading


@pytest.mark.parametrize("name", ORDINARY)
def test_other_names_are_not_taken_for_credentials(name: str):
    assert protection_of_names((name,)) is None


def test_credentials_in_a_folder_that_only_writing_asks_for_are_still_credentials():
    guard = protection_of_names((".vscode", "server.pem"))
    assert guard is not None
    assert guard.for_reading
    # Of two alike the first is named.
    assert protection_of_names((".git", ".vscode", "x")) == protection_of_names((".git",))


PROGRAMS = [
    ".mcp.json", ".codex/config.toml", ".gemini/settings.json", ".continue/config.yaml", ".windsurf/rules",
    "opencode.json", ".aider.conf.yml", ".nvimrc", ".exrc", ".vimrc", ".nvim.lua", ".dir-locals.el",
    "x.code-workspace", "x.sublime-project", ".helix/languages.toml", ".github/workflows/ci.yml", ".gitlab-ci.yml",
    ".circleci/config.yml", "Jenkinsfile", ".husky/pre-commit", ".pre-commit-config.yaml", ".mise.toml",
    ".gitattributes", "src/.MCP.json", ".github./workflows/ci.yml",
]  # fmt: skip


@pytest.mark.parametrize("path", PROGRAMS)
def test_settings_by_which_others_run_programs_ask_before_they_are_written_and_not_before_reading(path: str):
    guard = protection_of_names(path.split("/"))
    assert guard is not None
    assert not guard.for_reading


@pytest.mark.parametrize("path", ["mcp.py", "docs/github/ci.yml", "vimrc.txt", "gitattributes", "code-workspace"])
def test_names_like_those_settings_are_ordinary(path: str):
    assert protection_of_names(path.split("/")) is None
