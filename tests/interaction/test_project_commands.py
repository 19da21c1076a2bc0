"""/init, /review, /undo and /jobs over the wire."""

import json
from pathlib import Path

import anyio
import pytest

from pattern_acp.carry.foreign import read_foreign
from pattern_acp.config.settings import Settings
from pattern_acp.journal.events import PermissionAsked
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import choose
from tests.support.heard import conversation
from tests.support.scripts import calls, says
from tests.support.turns import events_of, of_type

AUTO = Settings(editor_deadline_seconds=30, mode="auto")


async def opened(agent: RunningAgent) -> str:
    files = {
        "shop/prices.py": "def total(prices):\n    return sum(prices)\n",
        "shop/till.py": "from shop.prices import total\n\n\ndef pay(prices):\n    return total(prices)\n",
        "shop/cli.py": "from shop.prices import total\n\nprint(total([1]))\n",
        "tests/test_prices.py": "from shop.prices import total\n",
        "Makefile": "check: lint\n\tpytest\nlint:\n\truff check\n",
        "package.json": json.dumps({"scripts": {"build": "vite build"}}),
        ".gitignore": "constellation/\n",
        "pyproject.toml": "[tool.pytest.ini_options]\n",
    }
    for name, text in files.items():
        path = agent.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return await agent.editor.open_session(str(agent.folder))


async def answer(agent: RunningAgent, session: str, text: str) -> str:
    agent.editor.updates.clear()
    await agent.editor.prompt(session, text)
    return agent.editor.said()


async def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    await anyio.run_process(["git", "-C", str(folder), *who, *words])


async def test_init_drafts_agents_md_from_the_code_map_and_asks_in_every_mode():
    async with running_agent(ScriptedProvider([]), settings=AUTO, permission=choose("allow_once")) as agent:
        session = await opened(agent)
        assert "`AGENTS.md` is written, from 4 files" in await answer(agent, session, "/init")
        draft = (agent.folder / "AGENTS.md").read_text(encoding="utf-8")
        for line in (
            "4 source files: 4 in python.",
            "    make check\n    make lint\n    npm run build\n    python -m pytest\n",
            "- `shop/`: 3 files in python\n- `tests/`: 1 file in python, tests",
            "- `shop/prices.py`, used by 2 files: `total`",
            "It starts in `shop/cli.py`.",
        ):
            assert line in draft
        assert len(of_type(await events_of(agent, session), PermissionAsked)) == 1
        assert "`/init --overwrite` shows what would replace it" in await answer(agent, session, "/init")
        (agent.folder / "AGENTS.md").write_text("Mine.\n", encoding="utf-8")
        assert "is written" in await answer(agent, session, "/init --overwrite")
        assert (agent.folder / "AGENTS.md").read_text(encoding="utf-8") == draft
        assert "/init writes AGENTS.md" in await answer(agent, session, "/init now")


async def test_memory_is_written_into_a_part_of_agents_md_that_is_not_read_back():
    model = ScriptedProvider([says("1."), says("2.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        session = await opened(agent)
        file = agent.folder / "AGENTS.md"
        file.write_text("Use tabs.\n", encoding="utf-8")
        assert "no memory of this project yet" in await answer(agent, session, "/init --memory")
        await answer(agent, session, "/remember --block project The plum tests need a database. <!-- end -->")
        assert "1 block of this project's memory" in await answer(agent, session, "/init --memory")
        written = file.read_text(encoding="utf-8")
        assert written.startswith("Use tabs.\n\n<!-- memory of pattern-acp")
        assert "The plum tests need a database. < !-- end -->" in written
        await answer(agent, session, "/remember --block project The pear tests do not.")
        await answer(agent, session, "/init --memory")
        again = file.read_text(encoding="utf-8")
        assert again.count("<!-- memory of pattern-acp") == again.count("The plum tests") == 1
        assert "The pear tests do not." in again
        other = await agent.editor.open_session(str(agent.folder))
        await answer(agent, other, "Hello.")
        assert "Use tabs." in model.requests[-1].system
        assert "plum" not in model.requests[-1].system
        assert "plum" not in str(read_foreign(file).blocks)


async def test_init_writes_nothing_that_was_refused():
    async with running_agent(ScriptedProvider([]), permission=choose("reject_once")) as agent:
        session = await opened(agent)
        assert "Nothing was written." in await answer(agent, session, "/init")
        assert not (agent.folder / "AGENTS.md").exists()


@pytest.mark.needs("git")
async def test_review_gives_the_model_the_role_of_a_reviewer_and_the_changed_files():
    async with running_agent(ScriptedProvider([says("One fault.")]), settings=AUTO) as agent:
        session = await opened(agent)
        await git(agent.folder, "init", "-q")
        await git(agent.folder, "add", ".")
        await git(agent.folder, "commit", "-qm", "First")
        assert "There is nothing to review" in await answer(agent, session, "/review")
        (agent.folder / "shop" / "till.py").write_text("broken(\n", encoding="utf-8")
        (agent.folder / "new.py").write_text("x = 1\n", encoding="utf-8")
        assert "One fault." in await answer(agent, session, "/review races above all")
        heard = str(conversation(agent.model.requests[-1]))
        for words in ("shop/till.py", "new.py (new)", "You judge changes", "races above all"):
            assert words in heard


async def test_undo_takes_the_last_turn_back_and_shows_first_what_would_change():
    model = ScriptedProvider(
        [
            calls("write_file", path="a.txt", content="one\n"),
            says("First done."),
            calls("write_file", path="a.txt", content="two\n"),
            calls("memory_write", label="human", operation="append", text="Likes plums."),
            says("Second done."),
            says("Again."),
        ]
    )
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        session = await opened(agent)
        assert "no turn to go back behind" in await answer(agent, session, "/undo")
        await answer(agent, session, "Make the first.")
        await answer(agent, session, "Make the second.")
        said = await answer(agent, session, "/undo")
        assert "Back to before turn 2" in said
        asked = agent.editor.asked[-1]
        assert "a.txt" in str(asked["toolCall"]["content"])
        assert (agent.folder / "a.txt").read_text(encoding="utf-8") == "one\n"
        assert "plums" in await answer(agent, session, "/memory show human")
        await answer(agent, session, "/undo yes")
        assert not (agent.folder / "a.txt").exists()
        await answer(agent, session, "What do you know?")
        assert "done." not in str(conversation(model.requests[-1]))
        assert "/rewind goes back further" in await answer(agent, session, "/undo 2")


async def test_jobs_lists_agreed_jobs_and_still_stops_background_commands():
    async with running_agent(ScriptedProvider([]), permission=choose("reject_once")) as agent:
        session = await opened(agent)
        assert "There are no jobs yet" in await answer(agent, session, "/jobs")
        await answer(agent, session, '/job "Move the tests"')
        assert "| 1 | declined | Move the tests |" in await answer(agent, session, "/jobs")
        said = await answer(agent, session, "/jobs stop job1")
        assert "Background commands are under `/background`" in said or "no job 'job1'" in said
