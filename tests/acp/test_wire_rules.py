"""Rules about the form of everything we write, looked at in one conversation that uses every part."""

import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePath
from typing import cast

from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import FULL_CLIENT, running_agent
from tests.support.editor import JsonDict
from tests.support.scripts import calls, says, thinks, uses

FREE_FORM = {"rawInput", "rawOutput", "_meta", "data"}
"""Members whose inside is not ACP's."""

SNAKE = re.compile(r"[a-z]+(_[a-z]+)*")
CAMEL = re.compile(r"_?[a-z]+[A-Za-z]*")


@asynccontextmanager
async def conversation() -> AsyncGenerator[tuple[list[JsonDict], Path], None]:
    """Every line that the agent wrote, and the project."""
    model = ScriptedProvider(
        [
            thinks("Hm.") + says("Look. ") + calls("read_file", path="a.txt") + uses(10, 5),
            calls("write_file", path="new.txt", content="one\ntwo\n"),
            calls("edit_file", path="a.txt", edits=[{"old_text": "hello", "new_text": "goodbye"}]),
            calls("run_command", command="echo one &&\necho two"),
            calls("update_plan", entries=[{"content": "Look", "status": "pending", "priority": "low"}]),
            calls("search_text", pattern="goodbye"),
            says("Done."),
        ]
    )
    async with running_agent(model, capabilities=FULL_CLIENT) as agent:
        path = agent.folder / "a.txt"
        path.write_text("hello\n", encoding="utf-8")
        agent.editor.disk.buffers[str(path)] = "hello\n"
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Do everything")
        await agent.editor.prompt(session, "/status")
        await agent.editor.request("session/list", {})
        yield [cast("JsonDict", json.loads(line)) for line in agent.editor.recording.lines], agent.folder


def objects(value: object) -> Iterator[JsonDict]:
    """Every object of a message, without what is not ACP's."""
    if isinstance(value, dict):
        members = cast("JsonDict", value)
        yield members
        for key, inner in members.items():
            if key not in FREE_FORM:
                yield from objects(inner)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from objects(item)


async def test_keys_are_camel_case_and_kinds_are_snake_case():
    async with conversation() as (messages, _):
        found = [item for message in messages for item in objects(message)]
        assert len(found) > 50
        for item in found:
            assert all(CAMEL.fullmatch(key) for key in item), item
            for key in ("sessionUpdate", "type", "kind", "status", "stopReason", "outcome", "optionId"):
                if isinstance(item.get(key), str):
                    assert SNAKE.fullmatch(item[key]), item


async def test_every_path_is_absolute_and_every_line_counts_from_one():
    async with conversation() as (messages, folder):
        found = [item for message in messages for item in objects(message)]
        paths = [item["path"] for item in found if "path" in item]
        assert str(folder / "a.txt") in paths
        assert all(PurePath(path).is_absolute() for path in paths)
        assert all(item["line"] >= 1 for item in found if isinstance(item.get("line"), int))
        assert all(PurePath(item["cwd"]).is_absolute() for item in found if "cwd" in item)


async def test_titles_are_one_short_line():
    async with conversation() as (messages, _):
        titles = [item["title"] for message in messages for item in objects(message) if "title" in item]
        assert titles
        for title in titles:
            assert title.strip()
            assert "\n" not in title
            assert len(title) <= 200


async def test_a_diff_has_an_absolute_path_and_no_old_text_for_a_new_file_alone():
    async with conversation() as (messages, folder):
        diffs = [item for message in messages for item in objects(message) if item.get("type") == "diff"]
        olds = {diff["path"]: diff.get("oldText") for diff in diffs}
        assert olds == {str(folder / "new.txt"): None, str(folder / "a.txt"): "hello\n"}


async def test_raw_input_is_an_object():
    async with conversation() as (messages, _):
        inputs = [item["rawInput"] for message in messages for item in objects(message) if "rawInput" in item]
        assert len(inputs) >= 6
        assert all(isinstance(value, dict) for value in inputs)


async def test_the_prompt_s_response_comes_after_all_its_updates_and_nothing_follows_it():
    async with conversation() as (messages, _):
        ends = [at for at, m in enumerate(messages) if cast("JsonDict", m.get("result") or {}).get("stopReason")]
        updates = [at for at, message in enumerate(messages) if message.get("method") == "session/update"]
        assert len(ends) == 2
        assert max(updates) < ends[-1]


async def test_every_call_is_created_before_it_is_updated_and_ends_once():
    async with conversation() as (messages, _):
        updates = [cast("JsonDict", m["params"]["update"]) for m in messages if m.get("method") == "session/update"]
        created: set[str] = set()
        ended: list[str] = []
        for update in updates:
            if update["sessionUpdate"] == "tool_call":
                assert update["toolCallId"] not in created
                created.add(update["toolCallId"])
            elif update["sessionUpdate"] == "tool_call_update":
                assert update["toolCallId"] in created
                if update.get("status") in {"completed", "failed"}:
                    ended.append(update["toolCallId"])
        assert sorted(ended) == sorted(created)
        assert len(created) == 6
