"""`pattern-acp serve` and `connect` as processes: a killed server, and a client in another network namespace."""

import socket
import subprocess
from pathlib import Path

import anyio
import pytest

from pattern_acp.jsonrpc.messages import RemoteError
from tests.support.agent import temporary_folder
from tests.support.process import COMMAND, Launch, agent_environment, running_process, write_script
from tests.support.programs import problem_of
from tests.support.server_process import server_process, token_for

pytestmark = pytest.mark.e2e

FILES = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def test_an_editor_outlives_a_killed_server_and_goes_on_with_the_next() -> None:
    words = [{"text": f"word-{number} "} for number in range(20)]
    with temporary_folder() as home, temporary_folder() as away:
        script = write_script(home, [[*words, {"wait_for": "cancel"}]])
        token, address = token_for(home), f"127.0.0.1:{free_port()}"
        expected = "".join(str(word["text"]) for word in words)
        async with server_process(home, token, "--local", "--listen", address, **script) as first:
            launch = Launch(away, ("connect", first.url), token)
            async with running_process(launch) as agent, anyio.create_task_group() as tasks:
                session = await agent.editor.open_session(str(home))
                refused: list[str] = []

                async def prompt() -> None:
                    with pytest.raises(RemoteError) as error:
                        await agent.editor.prompt(session, "go")
                    refused.append(str(error.value))

                tasks.start_soon(prompt)
                await agent.editor.wait_until(lambda: agent.editor.said() == expected)
                # Text is committed once a second at the latest, and what is lost with the process is shown already.
                first.process.kill()
                script = write_script(home, [[{"text": "Again."}]])
                async with server_process(home, token, "--local", "--listen", address, **script):
                    await agent.editor.wait_until(lambda: bool(refused))
                    assert "restarted during this turn" in refused[0]
                    assert (await agent.editor.prompt(session, "once more"))["stopReason"] == "end_turn"
                    assert agent.editor.said() == f"{expected}Again."


async def test_a_server_that_is_told_to_end_ends_in_time_with_its_clients(tmp_path: Path) -> None:
    token = token_for(tmp_path)
    async with server_process(tmp_path, token, "--local", "--listen", f"unix:{tmp_path}/s") as server:
        async with running_process(Launch(tmp_path / "away", ("connect", server.url), token)) as agent:
            await agent.editor.open_session(str(tmp_path))
            server.process.terminate()
            assert await anyio.to_thread.run_sync(lambda: server.process.wait(20)) == 0
        assert not (tmp_path / "s").exists()


NAMESPACES = """
set -e
unshare -n sleep 300 & other=$!
trap 'kill $other' EXIT
# Until it has left this network, the cable would end here twice.
while [ "$(readlink /proc/$other/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.1; done
ip link add near type veth peer name far netns $other
ip addr add 10.77.0.1/24 dev near; ip link set near up; ip link set lo up
nsenter -t $other -n sh -ec 'ip addr add 10.77.0.2/24 dev far; ip link set far up; ip link set lo up'
if [ "$SLOW" ]; then tc qdisc add dev near root netem delay 100ms loss 2%; fi
nsenter -t $other -n "$@" serve --listen 10.77.0.2:8931 --allow-remote >&2 &
server=$!
trap 'kill $server $other' EXIT
for _ in $(seq 300); do
  nsenter -t $other -n ss -ltn | grep -q :8931 && break
  sleep 0.2
done
PATTERN_ACP_HOME="$AWAY" "$@" connect ws://10.77.0.2:8931/acp
"""
"""Two network namespaces with a cable between them: the server in one, the connector in the other."""


@pytest.mark.parametrize("slow", ["", "1"], ids=["plain", "100 ms and 2 % loss"])
async def test_the_agent_in_one_network_works_on_the_files_of_an_editor_in_another(slow: str) -> None:
    problem = namespaces_problem(slow)
    if problem:
        pytest.skip(problem)
    with temporary_folder() as home, temporary_folder() as away:
        (away / "notes.txt").write_text("old words\n", encoding="utf-8")
        edit = {"path": "notes.txt", "edits": [{"old_text": "old", "new_text": "new"}]}
        turns = [
            [{"tool": "search_text", "arguments": {"pattern": "old w.*s"}}],
            [{"tool": "read_file", "arguments": {"path": "notes.txt"}}],
            [{"tool": "edit_file", "arguments": edit}],
        ]
        environment = {**write_script(home, [*turns, [{"text": "Done."}]]), **token_for(home)}
        launch = Launch(
            home,
            environment={**environment, "AWAY": str(away), "SLOW": slow},
            before=("unshare", "-rn", "sh", "-c", NAMESPACES, "sh"),
            capabilities=FILES,
        )
        async with running_process(launch) as agent:
            session = await agent.editor.open_session(str(away))
            assert (await agent.editor.prompt(session, "go"))["stopReason"] == "end_turn"
            assert "Done." in agent.editor.said()
            assert "1 line" in str(agent.editor.of_kind("tool_call_update"))
            assert agent.editor.files[str(away / "notes.txt")] == "new words\n"


def namespaces_problem(slow: str) -> str:
    """Why this machine has no two networks for a test, or cannot make one slow; empty when it can."""
    if problem := problem_of("unshare", "nsenter", "ip", "ss", "tc"):
        return problem
    link = "ip link add near type veth peer name far"
    script = f"{link} && tc qdisc add dev near root netem delay 1ms" if slow else link
    tried = subprocess.run(["unshare", "-rn", "sh", "-c", script], capture_output=True, check=False)
    reason = tried.stderr.decode("utf-8", "replace").strip().split("\n")[0]
    return f"the kernel refuses: {reason}" if tried.returncode else ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("serve", "--listen", "0.0.0.0:1"), "add --allow-remote"),
        (("serve", "--listen", "nowhere"), "give 127.0.0.1:PORT"),
        (("serve", "--certificate", "missing.pem"), "give both as PEM files"),
        (("serve", "--origin", "here"), "is no origin"),
        (("connect", "http://somewhere"), "is no server's URL"),
        (("connect", "ws://127.0.0.1:1/acp"), "--save-token"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_sentence(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    ran = subprocess.run(
        [*COMMAND, *arguments], env=agent_environment(tmp_path), capture_output=True, timeout=60, check=False
    )
    assert ran.returncode == 1
    assert sentence in ran.stderr.decode()
    assert "Traceback" not in ran.stderr.decode()
