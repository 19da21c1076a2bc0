"""A client on the official TypeScript SDK (npm), which reads every message by the protocol's own schema."""

import json
import subprocess
import sys
from typing import cast

import pytest

from tests.support.clients import Place
from tests.support.editor import JsonDict

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

RUN_SECONDS = 60
"""Two prompts, a command that is cancelled, and every method of sessions, on a busy machine."""


def run(sdk_client: list[str], place: Place) -> JsonDict:
    done = subprocess.run(
        [*sdk_client, str(place.work), *place.command()],
        env=place.variables,
        capture_output=True,
        timeout=RUN_SECONDS,
        check=False,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return cast("JsonDict", json.loads(done.stdout))


def test_every_method_of_sessions_works_with_the_official_sdk(sdk_client: list[str], place: Place):
    seen = run(sdk_client, place)

    assert seen["name"] == "pattern-acp"
    assert seen["stops"] == ["end_turn", "end_turn", "cancelled"]
    assert (place.work / "greeting.txt").read_text(encoding="utf-8") == "good day\nworld\n"
    assert {"read", "write"} == set(seen["files"])
    assert len(seen["asked"]) == 2
    assert "mode" in seen["options"]
    assert seen["listed"] == [1, 0]
    assert seen["replayed"].count("user_message_chunk") == 3
    assert seen["replayed"].count("tool_call") == 3
    assert seen["code"] == 0


def test_a_client_of_version_2_works_with_the_official_sdk(sdk_client_v2: list[str], place: Place):
    seen = run(sdk_client_v2, place)

    assert (seen["protocolVersion"], seen["name"], seen["exit"]) == (2, "pattern-acp", 0)
    assert seen["stops"][:7] == ["end_turn"] * 4 + ["cancelled"] + ["end_turn"] * 2
    # A prompt that joins a turn leaves one end of both, unless the first had ended before it came.
    assert seen["stops"][7:] in (["end_turn"], ["end_turn"] * 2)
    assert seen["code"] == -32800
    assert seen["shown"] == seen["messages"] == seen["replayedMessages"]
    assert (place.work / "greeting.txt").read_text(encoding="utf-8") == "good day\nworld\n"
    assert len(seen["asked"]) == 4
    assert ["mode", "plan"] in seen["options"]
    assert seen["listed"] == [1, 0]
    assert seen["replayed"].count("terminal_update") >= 1
    assert seen["replayed"][-1] == "state_update"


def test_the_protocol_router_drives_both_versions_and_what_is_not_stable(sdk_router: list[str], place: Place):
    seen = run(sdk_router, place)

    assert seen["v1"] == {"protocolVersion": 1, "stop": "end_turn"}
    assert seen["exits"] == [0, 0]
    second = cast("JsonDict", seen["v2"])
    assert second["protocolVersion"] == 2
    assert {"fork", "archive", "status", "title"} <= set(second["offered"])
    assert (second["title"], second["status"], second["forked"]) == ("About greetings", ["open", "saved"], True)
    assert second["listed"] == [False, True, True]
    assert second["stops"] == ["end_turn", "end_turn"]
    # What the editor had not saved was read and edited, through the server that it offers.
    assert second["buffer"] == "edited\nworld\n"
    assert second["used"] == ["server/discover", "tools/list", "tools/call"]


@pytest.mark.skipif(sys.platform == "win32", reason="the command lines are written for a POSIX shell")
def test_one_call_is_cancelled_a_subagent_is_shown_and_the_end_of_background_work_wakes(
    sdk_background: list[str], place: Place
):
    script = place.home / "play.json"
    build = "until [ -e go ]; do sleep 0.1; done; echo built"
    turns = [
        [{"tool": "run_command", "arguments": {"command": "sleep 60"}}],
        [{"tool": "delegate", "arguments": {"kind": "explorer", "name": "finder", "task": "Look."}}],
        [{"tool": "run_command", "arguments": {"command": build, "background": True}}],
        [{"text": "It builds. "}],
        [{"text": "It is built."}],
    ]
    script.write_text(json.dumps({"turns": turns, "subagents": {"finder": [[{"text": "Found."}]]}}), encoding="utf-8")
    place.environment.update(PATTERN_ACP_MODEL="scripted/scripted", PATTERN_ACP_SCRIPT=str(script))
    seen = run(sdk_background, place)

    assert (seen["cancelled"], seen["stops"], seen["exit"]) == ("cancelled", ["end_turn", "end_turn"], 0)
    assert (seen["running"], seen["left"]) == (["terminal"], 0)
    assert (seen["children"], seen["work"]) == (
        1,
        ["session_message", "state_update", "agent_message", "state_update"],
    )
    assert (seen["messages"], seen["said"]) == (1, "It builds. It is built.")
