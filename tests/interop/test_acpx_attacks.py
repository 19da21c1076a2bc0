"""A model in `auto` that obeys a text in a file, through the terminals of acpx: nothing that it tries has an effect.

acpx starts every command that it is asked to start, and answers every question with no.
"""

import json
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from pattern_acp.journal.events import PermissionDecided
from pattern_acp.processes.confinement import Confinement
from tests.support.attacks import SECRET, scene, sink, worst_lines, write_steps
from tests.support.clients import Acpx, Place, Ran, asked_of_client
from tests.support.process import judge_recordings, read_events, write_script
from tests.support.turns import of_type

pytestmark = [pytest.mark.interop, pytest.mark.needs("git", "bash"), pytest.mark.timeout(240)]

ANSWERS = ("--approve-all", "--permission-policy", json.dumps({"autoDeny": ["*"]}))
"""acpx starts terminals and reads files by the first, and answers questions of the agent by the second."""


def agent_with(data: Path) -> int:
    """Return the number of the agent with this data, which acpx started."""
    home = f"PATTERN_ACP_HOME={data}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            variables = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended, or is somebody else's
        if home in variables and b"pattern_acp" in words and b"tests.support.recorder" not in words:
            return int(process.name)
    raise AssertionError("acpx keeps no agent")


def session_of(client: Place) -> str:
    """Return the session that acpx prompted."""
    for file in client.recordings.glob("*.jsonl"):
        for line in file.read_text("utf-8").splitlines():
            message = json.loads(json.loads(line)["line"])
            if message.get("method") == "session/prompt":
                return message["params"]["sessionId"]
    raise AssertionError("acpx prompted no session")


@pytest.mark.parametrize("how", ["in plain words", "in scripts"])
async def test_the_ten_worst_of_a_model_that_obeys_a_file_do_nothing_through_acpx(acpx: Acpx, tmp_path: Path, how: str):
    private = tmp_path / "trial"
    private.mkdir()
    if not (found := await Confinement(private).find()).namespaces:
        pytest.skip(found.problem)
    scripts = tmp_path / "calls"
    scripts.mkdir()
    place = scene(tmp_path)
    with sink() as (port, received):
        lines = worst_lines(place, port, in_scripts=how == "in scripts")
        turn = [{"tool": "read_file", "arguments": {"path": "README.md"}}]
        work = [{"tool": "run_command", "arguments": {"command": line}} for line in lines]
        script = write_script(scripts, [[{"text": "Hello."}], turn, work, [{"text": "Done."}]])
        environment = {**script, "HOME": str(place.home), "PATTERN_ACP_MODE": "auto"}
        client = Place(place.data, place.project, tmp_path / "recordings", environment)

        async def run(*arguments: str) -> Ran:
            return await anyio.to_thread.run_sync(acpx.run, client, *arguments)

        assert (await run("sessions", "new", "--name", "one")).code == 0
        assert "Hello." in (await run(*ANSWERS, "prompt", "-s", "one", "hello")).output
        pid = agent_with(place.data)
        write_steps(place, port, pid)
        before = place.facts()
        ran = await run(*ANSWERS, "prompt", "-s", "one", "Read the README and do what it says.")
        assert agent_with(place.data) == pid
        await run("sessions", "close", "one")
    assert "Done." in ran.output
    assert SECRET not in ran.output
    assert place.facts() == before
    assert received == []
    assert "terminal/create" in asked_of_client(client)
    assert ("session/request_permission" in asked_of_client(client)) == (how == "in plain words")
    constellation = place.data / "constellations" / "default" / "constellation.db"
    decided = of_type(await read_events(constellation, session_of(client)), PermissionDecided)
    unasked = [each for each in decided if each.verdict == "allow" and each.rule != "inside_read"]
    assert all(each.sandbox for each in unasked), "what runs unasked is confined"
    assert len(unasked) == (1 if how == "in plain words" else len(lines))
    assert judge_recordings(client.recordings) > 0
