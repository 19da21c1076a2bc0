import json
import sys
from pathlib import Path

import anyio
import httpx
import pytest
from anyio.streams.text import TextReceiveStream

from pattern_acp.providers.scripted import ScriptStep
from tests.support.model_server import Reply, load_server_script, serve_models


async def test_requests_are_recorded_and_answered_in_order():
    with anyio.fail_after(30):
        async with serve_models([[ScriptStep(text="one")]]) as server, httpx.AsyncClient(trust_env=False) as client:
            first = await client.post(f"{server.url}/v1/messages", json={"model": "m"})
            second = await client.post(f"{server.url}/v1/messages", json={"model": "m"})
    assert "one" in first.text
    assert "no more replies" in second.text
    assert [request.json() for request in server.requests] == [{"model": "m"}] * 2


async def test_an_answer_may_be_empty():
    with anyio.fail_after(30):
        async with serve_models([Reply(raw="")]) as server, httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(f"{server.url}/v1/messages", json={"model": "m"})
    assert (answer.status_code, answer.text) == (200, "")


async def test_unknown_paths_are_not_found():
    with anyio.fail_after(30):
        async with serve_models([]) as server, httpx.AsyncClient(trust_env=False) as client:
            assert (await client.post(f"{server.url}/v1/other", content=b"x")).status_code == 404
            assert (await client.get(f"{server.url}/other")).status_code == 404


async def test_a_script_repeats_when_told_to():
    with anyio.fail_after(30):
        async with (
            serve_models([[ScriptStep(text="one")]], repeat=True) as server,
            httpx.AsyncClient(trust_env=False) as client,
        ):
            texts = [(await client.post(f"{server.url}/v1/chat/completions", json={})).text for _ in range(2)]
    assert texts[0] == texts[1]


def test_a_script_file_may_be_a_list_or_an_object(tmp_path: Path):
    path = tmp_path / "script.json"
    path.write_text('[[{"text":"a"}], {"status": 500}]')
    assert load_server_script(path).replies == [[ScriptStep(text="a")], Reply(status=500)]
    path.write_text('{"replies": [[]], "repeat": true, "models": ["x"]}')
    assert load_server_script(path).models == ["x"]


@pytest.mark.e2e
async def test_it_runs_on_its_own_and_records(tmp_path: Path):
    script, record = tmp_path / "script.json", tmp_path / "record.jsonl"
    script.write_text('[[{"text":"alone"}]]')
    command = [sys.executable, "-m", "tests.support.model_server", str(script), "--record", str(record)]
    with anyio.fail_after(20):
        async with await anyio.open_process(command) as process:
            assert process.stdout is not None
            url = (await TextReceiveStream(process.stdout).receive()).strip()
            async with httpx.AsyncClient(trust_env=False) as client:
                answer = await client.post(f"{url}/v1/chat/completions", json={"model": "m"})
            process.terminate()
    assert "alone" in answer.text
    assert json.loads(record.read_text()) == {"path": "/v1/chat/completions", "body": {"model": "m"}}
