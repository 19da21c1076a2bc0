"""Names and descriptions from anywhere reach a screen on one line, with nothing hidden in them."""

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from pattern_acp.providers.scripted import ScriptedProvider
from tests.interaction.test_definitions import agent_with
from tests.support.agent import RunningAgent
from tests.support.editor import JsonDict
from tests.support.scripts import calls, says

HOSTILE = "go \x1b[31mred\x1b[0m \u202eevil\u2066 \x9b2K\u200b\x07"
NAME = "src \u202egpj\u2066\x1b[2K.py"
KEYS = frozenset({"title", "name", "description", "hint", "preview"})


def hidden_in(text: str) -> list[str]:
    return [char for char in text if unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp"}]


def names_in(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str) and key in KEYS:
        yield key, value
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            # What the model wrote as arguments is shown as data.
            if name != "rawInput":
                yield from names_in(inner, name)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from names_in(inner, key)


def everything_shown(agent: RunningAgent, *more: JsonDict) -> list[tuple[str, str]]:
    return list(names_in([*agent.editor.updates, *agent.editor.asked, *more]))


async def test_no_name_that_reaches_the_editor_hides_anything(tmp_path: Path):
    command = tmp_path / ".pattern" / "commands" / "go.md"
    command.parent.mkdir(parents=True)
    command.write_text(f'---\ndescription: "{HOSTILE}"\nargument-hint: "{HOSTILE}"\n---\nGo.', encoding="utf-8")
    (tmp_path / NAME).write_text("text\n", encoding="utf-8")
    plan = [{"content": HOSTILE, "priority": "high", "status": "pending"}]
    model = ScriptedProvider(
        [
            calls("read_file", path=NAME)
            + calls("update_plan", entries=plan)
            + calls("list_files", path=NAME)
            + calls("search_text", pattern=HOSTILE, path=NAME),
            calls("write_file", path=f"new {NAME}", content="x") + calls("run_command", command=f"echo '{HOSTILE}'"),
            calls("edit_file", path=NAME, old_text="text", new_text="other"),
            says("Done."),
        ]
    )
    async with agent_with(model) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, f"Do this {HOSTILE}")
        listed = await agent.editor.request("session/list", {})
        plans = [entry["content"] for update in agent.editor.of_kind("plan") for entry in update["entries"]]
        assert plans
        assert agent.editor.asked
        found = [*everything_shown(agent, listed), *(("plan", text) for text in plans)]
        assert {"title", "name", "description", "hint"} <= {key for key, _ in found}
        assert [(key, text) for key, text in found if hidden_in(text)] == []
        assert any("\\u202e" in text for key, text in found if key == "title")
        assert any("\\u202e" in text for key, text in found if key == "description")

        await agent.editor.request("session/close", {"sessionId": session})
        agent.editor.updates.clear()
        params: JsonDict = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        await agent.editor.request("session/load", params)
        assert [(key, text) for key, text in everything_shown(agent) if hidden_in(text)] == []
