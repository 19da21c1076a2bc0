"""Nothing but the agent reads its stdin or writes its stdout, and commands see nothing of the agent."""

import sys
from pathlib import Path

import pytest

from pattern_acp.journal.events import ToolCallFinished
from tests.support.process import AgentProcess, Launch, read_events, running_process, write_script

pytestmark = pytest.mark.e2e

WRITES_EVERYWHERE = """
import os, sys
os.write(1, b'{"jsonrpc": "2.0", "id": 1, "result": {}}\\n')
os.write(2, b"to standard error\\n")
print("no line feed at the end", end="")
for descriptor in range(3, 256):
    try:
        os.write(descriptor, b"to a descriptor that should not be here\\n")
    except OSError:
        continue
"""
READS_STDIN = "import sys; print('read', len(sys.stdin.read()))"
SHOWS_ENVIRONMENT = "import os; [print(name + '=' + value) for name, value in os.environ.items()]"


def command(folder: Path, program: str) -> str:
    file = folder / "program.py"
    file.write_text(program, encoding="utf-8")
    return f'"{sys.executable}" "{file}"'


async def result_of(agent: AgentProcess, folder: Path) -> str:
    """What the model reads of the one command that the script runs."""
    session = await agent.editor.open_session(str(folder))
    assert await agent.editor.prompt(session, "go") == {"stopReason": "end_turn"}
    events = await read_events(agent.constellation, session)
    [finished] = [event for event in events if isinstance(event, ToolCallFinished)]
    return finished.result_text


async def test_what_a_command_writes_to_any_descriptor_is_its_output_and_nothing_else(tmp_path: Path):
    line = command(tmp_path, WRITES_EVERYWHERE)
    script = write_script(tmp_path, [[{"tool": "run_command", "arguments": {"command": line}}], [{"text": "Done."}]])
    async with running_process(Launch(tmp_path, environment=script)) as agent:
        result = await result_of(agent, tmp_path)

        assert '"result": {}' in result
        assert "to standard error" in result
        assert "should not be here" not in result
        assert agent.editor.said() == "Done."
        assert agent.stderr() == ""


async def test_a_command_that_reads_stdin_gets_its_end(tmp_path: Path):
    line = command(tmp_path, READS_STDIN)
    script = write_script(tmp_path, [[{"tool": "run_command", "arguments": {"command": line}}]])
    async with running_process(Launch(tmp_path, environment=script)) as agent:
        assert "read 0" in await result_of(agent, tmp_path)


async def test_a_command_sees_the_path_but_no_key_and_no_setting_of_ours(tmp_path: Path):
    line = command(tmp_path, SHOWS_ENVIRONMENT)
    (tmp_path / "config.toml").write_text(
        '[providers.mine]\nwire = "openai"\nbase_url = "http://127.0.0.1:9/v1"\napi_key_env = "MY_TOKEN"\n',
        encoding="utf-8",
    )
    script = write_script(tmp_path, [[{"tool": "run_command", "arguments": {"command": line}}]])
    keys = {"ANTHROPIC_API_KEY": "planted-1", "OPENAI_API_KEY": "planted-2", "MY_TOKEN": "planted-3"}
    async with running_process(Launch(tmp_path, environment={**script, **keys, "OF_THE_PERSON": "kept"})) as agent:
        result = await result_of(agent, tmp_path)

        assert "PATH=" in result
        assert "OF_THE_PERSON=kept" in result
        assert "planted" not in result


async def test_a_module_that_writes_while_it_is_loaded_in_a_session_does_not_break_the_stream(tmp_path: Path):
    # The provider's HTTP library is loaded in a thread while the editor already talks.
    (tmp_path / "httpx.py").write_text(
        "import os\nprint('{\"jsonrpc\": 1}', flush=True)\nos.write(1, b'noise')\nraise ImportError('broken')\n",
        encoding="utf-8",
    )
    script = write_script(tmp_path, [[{"text": "Still here."}]])
    environment = {**script, "PYTHONPATH": str(tmp_path)}
    async with running_process(Launch(tmp_path, environment=environment)) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "hello")

        assert agent.editor.said() == "Still here."


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"SSL_CERT_FILE": "no-such-file.pem"}, "SSL_CERT_FILE"),
        ({"ALL_PROXY": "socks5://127.0.0.1:9"}, "A SOCKS proxy cannot be used"),
        ({"HTTPS_PROXY": "ftp://127.0.0.1:9"}, "NO_PROXY"),
    ],
)
async def test_certificates_and_proxies_that_cannot_be_used_are_named_and_leave_everything_local_working(
    tmp_path: Path, variables: dict[str, str], named: str
):
    model = {
        "PATTERN_ACP_MODEL": "anthropic/some-model",
        "ANTHROPIC_API_KEY": "planted",
        # Nobody listens there; the client for it must not even be built.
        "ANTHROPIC_BASE_URL": "https://127.0.0.1:9",
    }
    async with running_process(Launch(tmp_path, environment={**model, **variables})) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "hello")
        assert named in agent.editor.said()

        agent.editor.updates.clear()
        await agent.editor.prompt(session, "/status")
        assert "anthropic/some-model" in agent.editor.said()
