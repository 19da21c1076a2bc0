"""Two machines of one user, each with a home and real processes: memory, tasks and sessions are the same on both."""

import json
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import pytest

from tests.support.nats_server import nats_server
from tests.support.process import AgentProcess, Launch, run_command_line, running_process, write_script

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

PLACES = ["folder", pytest.param("nats", marks=pytest.mark.needs("nats-server"))]


def command(home: Path, *words: str, typed: str = "") -> str:
    """What a command of ours prints."""
    done = run_command_line(home, *words, typed=typed)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@contextmanager
def place(kind: str, folder: Path) -> Generator[str]:
    """Something to exchange memory at; its address."""
    with ExitStack() as stack:
        folder.mkdir()
        yield f"folder:{folder}" if kind == "folder" else stack.enter_context(nats_server(folder)).url


def two_homes(tmp_path: Path, url: str) -> tuple[Path, Path]:
    """A desktop and a laptop that have the same key."""
    homes = (tmp_path / "desktop", tmp_path / "laptop")
    for home in homes:
        home.mkdir()
        (home / "config.toml").write_text(f'[sync]\nurl = "{url}"\nsessions_days = 30\n', encoding="utf-8")
    key = json.loads(command(homes[0], "sync", "key", "new", "--file", "--json"))["sync_key"]
    command(homes[1], "sync", "key", "set", "--file", typed=key)
    return homes


async def looking_on(agent: AgentProcess, folder: Path) -> str:
    """A session whose editor sees memory live."""
    session = await agent.editor.open_session(str(folder))
    await agent.editor.prompt(session, "/memory")
    await agent.editor.request("_pattern/memory/subscribe", {"sessionId": session})
    return session


def seen(agent: AgentProcess) -> list[str]:
    """The texts of blocks that the editor was shown."""
    return [str(one["event"].get("text", "")) for one in agent.editor.memory_events]


@pytest.mark.parametrize("kind", PLACES)
async def test_what_is_remembered_in_an_open_window_appears_in_that_of_the_other_machine_and_back(
    kind: str, tmp_path: Path
):
    with place(kind, tmp_path / "between") as url:
        desktop, laptop = two_homes(tmp_path, url)
        async with running_process(Launch(desktop)) as one, running_process(Launch(laptop)) as two:
            here, there = [await looking_on(each, tmp_path) for each in (one, two)]
            await one.editor.prompt(here, "/remember Likes tea.")
            await two.editor.wait_until(lambda: "Likes tea." in seen(two))
            await two.editor.prompt(there, "/remember Speaks Dutch.")
            await one.editor.wait_until(lambda: "Likes tea.\nSpeaks Dutch." in seen(one))
        for home in (desktop, laptop):
            assert all(not one["problems"] for one in json.loads(command(home, "memory", "verify", "--json")))


async def live(home: Path, folder: Path) -> str:
    """Have memory with a history, facts, tasks and a session; the id of the session."""
    await anyio.Path(folder).mkdir()
    await anyio.Path(folder / "a.txt").write_text("hello\n", encoding="utf-8")
    reading = {"tool": "read_file", "arguments": {"path": "a.txt"}}
    script = write_script(home, [[reading], [{"text": "It says hello."}]])
    async with running_process(Launch(home, environment=script)) as agent:
        session = await agent.editor.open_session(str(folder))
        for prompt in ("What is in a.txt?", "/remember Likes tea.", "/remember Speaks Dutch."):
            await agent.editor.prompt(session, prompt)
    command(home, "memory", "decision", "Use tabs everywhere.", "--cwd", str(folder))
    command(home, "tasks", "add", "Parse it", "--cwd", str(folder))
    return session


async def assert_all_is_here(home: Path, folder: Path, session: str) -> None:
    """What `live` left is what a user sees on a machine, and it is sound."""
    assert "Likes tea.\nSpeaks Dutch." in command(home, "memory", "show", "human")
    blamed = command(home, "memory", "blame", "human").splitlines()
    assert all("you" in line and " of " in line for line in blamed if "tea" in line or "Dutch" in line), blamed
    assert "Use tabs everywhere." in command(home, "memory", "traps", "--cwd", str(folder))
    assert "Parse it" in command(home, "tasks", "--cwd", str(folder))
    assert "What is in a.txt?" in command(home, "sessions", "list", "--all")
    assert "hello" in command(home, "sessions", "search", "hello", "--all")
    assert '"broken"' not in command(home, "doctor", "--verify", "--json")
    async with running_process(Launch(home)) as agent:
        params = {"sessionId": session, "cwd": str(folder), "mcpServers": list[object]()}
        await agent.editor.request("session/load", params)
        assert "It says hello." in agent.editor.said()


async def test_a_new_laptop_has_everything_through_a_folder(tmp_path: Path):
    with place("folder", tmp_path / "between") as url:
        desktop, laptop = two_homes(tmp_path, url)
        session = await live(desktop, tmp_path / "work")
        command(desktop, "sync")
        command(laptop, "sync")
        await assert_all_is_here(laptop, tmp_path / "work", session)


async def test_a_new_laptop_has_everything_through_a_file_and_makes_the_same_file_of_it(tmp_path: Path):
    desktop, laptop = tmp_path / "desktop", tmp_path / "laptop"
    for home in (desktop, laptop):
        home.mkdir()
    session = await live(desktop, tmp_path / "work")
    choices = {"all": (), "project": ("--project", str(tmp_path / "work")), "none": ("--history", "none")}
    for name, words in choices.items():
        command(desktop, "export", str(tmp_path / f"{name}.car"), *words)
    command(laptop, "import", str(tmp_path / "all.car"), "--accept", "all")
    for name, words in choices.items():
        again = tmp_path / f"{name} again.car"
        command(laptop, "export", str(again), *words)
        assert again.read_bytes() == (tmp_path / f"{name}.car").read_bytes(), name
    await assert_all_is_here(laptop, tmp_path / "work", session)
