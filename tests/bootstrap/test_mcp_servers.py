"""MCP servers of the person's file: what doctor says of them, and what they are started with."""

from pathlib import Path

import anyio

from pattern_acp.acp.editor_ports import LocalMeans
from pattern_acp.bootstrap.diagnosis import Health, diagnose
from pattern_acp.bootstrap.sessions import hook_runner, server_means
from pattern_acp.config.keys import INSIDE_VARIABLE
from pattern_acp.config.settings import Flags
from tests.support.serving import temporary_home

FILE = """
[mcp_servers.there]
command = "there"
[mcp_servers.missing]
command = "no-such-program"
[mcp_servers.web]
url = "https://user:hush@example.com/mcp?key=hush"
"""


async def test_doctor_looks_for_the_programs_of_servers_and_starts_none(tmp_path: Path):
    program = tmp_path / "there"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o700)
    async with temporary_home() as home:
        home.environ["PATH"] = str(tmp_path)
        home.configure(FILE)
        with anyio.fail_after(30):
            diagnosis = await diagnose(home.process(Flags()))
        found = {finding.name: finding for finding in diagnosis.findings if finding.name.startswith("MCP server")}
        assert found["MCP server there"].detail == f"{program} (not started now)"
        assert found["MCP server missing"].health is Health.NOTE
        assert found["MCP server missing"].remedy
        assert found["MCP server web"].detail == "http at example.com (not asked now)"
        assert "hush" not in str(diagnosis)
        assert diagnosis.is_usable


def test_servers_and_hooks_see_the_environment_without_our_keys_and_with_the_mark_of_what_an_agent_starts(
    tmp_path: Path,
):
    environment = {"PATH": "/bin", "ANTHROPIC_API_KEY": "k", "MY_KEY": "k", "HOME": "/h"}
    local = LocalMeans(environment, tmp_path, secret_variables=("MY_KEY",))
    expected = {"PATH": "/bin", "HOME": "/h", INSIDE_VARIABLE: "1"}
    assert dict(server_means(local).environment) == expected
    assert dict(hook_runner(local).environment) == expected
