"""A constellation for each project, with real processes: what is separate, and what the user has in all of them."""

import json
import sqlite3
import subprocess
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import anyio
import pytest

from pattern_acp.jsonrpc.messages import RemoteError
from tests.support.editor import JsonDict
from tests.support.process import AgentProcess, Launch, run_command_line, running_process
from tests.support.second_editor import send, until_idle

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

SETTINGS = "[constellation]\nper_project = true\n"


def command(home: Path, folder: Path, *words: str) -> str:
    """What a command of ours prints in a folder."""
    done = run_command_line(home, *words, cwd=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def home_of(tmp_path: Path, text: str = SETTINGS) -> Path:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text, encoding="utf-8")
    return home


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    subprocess.run(("git", "init", "-q"), cwd=folder, check=True)
    return folder


def folder_of(home: Path, project: str) -> Path:
    """The folder of the constellation of a project, or of the user."""
    found = [one for one in (home / "constellations").iterdir() if one.name == project or f".{project}-" in one.name]
    assert len(found) == 1
    return found[0]


def has(home: Path, project: str, words: str) -> bool:
    """Tell whether any byte of a constellation, or of what is beside it, says so."""
    files = (file for file in folder_of(home, project).rglob("*") if file.is_file())
    return any(words.encode() in file.read_bytes() for file in files)


async def said(agent: AgentProcess, session: str, prompt: str) -> str:
    """What the agent says to a prompt."""
    before = len(agent.editor.updates)
    await agent.editor.prompt(session, prompt)
    return json.dumps([one for one in agent.editor.updates[before:] if one["sessionId"] == session])


async def recalled(agent: AgentProcess, session: str, words: str) -> bool:
    return words in await said(agent, session, "/memory show human")


async def until_recalled(agent: AgentProcess, session: str, words: str) -> None:
    with anyio.fail_after(10):
        while not await recalled(agent, session, words):
            pass


async def ids_listed(agent: AgentProcess, **where: str) -> list[str]:
    answer: JsonDict = await agent.editor.request("session/list", dict(where))
    return [one["sessionId"] for one in answer["sessions"]]


async def test_two_repositories_in_one_process_share_the_users_memory_and_nothing_else(tmp_path: Path):
    home = home_of(tmp_path)
    shop, blog = repository(tmp_path / "shop"), repository(tmp_path / "blog")
    async with running_process(Launch(home)) as agent:
        here, there = [await agent.editor.open_session(str(folder)) for folder in (shop, blog)]
        await agent.editor.prompt(here, "/remember SHOP-CANARY is built with ninja.")
        await agent.editor.prompt(there, "/remember BLOG-CANARY is built with hugo.")
        await agent.editor.prompt(here, "/remember me: USERS-TEA every morning.")
        await until_recalled(agent, there, "USERS-TEA")
        await agent.editor.prompt(there, "/remember me: USERS-ROME is home.")
        await until_recalled(agent, here, "USERS-ROME")
        assert "SHOP-CANARY" in await said(agent, here, "/memory show project")
        assert "SHOP-CANARY" not in await said(agent, there, "/memory show project")
    for project in ("shop", "blog", "default"):
        assert has(home, project, "USERS-TEA")
        assert has(home, project, "USERS-ROME")
        assert has(home, project, "SHOP-CANARY") == (project == "shop")
        assert has(home, project, "BLOG-CANARY") == (project == "blog")


async def test_a_turn_begins_with_what_another_process_told_the_users_memory_meanwhile(tmp_path: Path):
    home = home_of(tmp_path)
    shop, blog = repository(tmp_path / "shop"), repository(tmp_path / "blog")
    async with running_process(Launch(home)) as agent:
        here = await agent.editor.open_session(str(shop))
        assert not await recalled(agent, here, "USERS-TEA")
        async with running_process(Launch(home)) as other:
            there = await other.editor.open_session(str(blog))
            await other.editor.prompt(there, "/remember me: USERS-TEA every morning.")
        assert await recalled(agent, here, "USERS-TEA")


async def test_a_session_is_opened_by_its_folder_and_listed_with_all_others(tmp_path: Path):
    home = home_of(tmp_path)
    shop, blog = repository(tmp_path / "shop"), repository(tmp_path / "blog")
    async with running_process(Launch(home)) as agent:
        ids = [await agent.editor.open_session(str(folder)) for folder in (shop, blog)]
        for one in ids:
            await agent.editor.prompt(one, "hello")
    async with running_process(Launch(home)) as agent:
        assert set(await ids_listed(agent)) == set(ids)
        assert await ids_listed(agent, cwd=str(shop)) == ids[:1]
        await agent.editor.request("session/load", {"sessionId": ids[1], "cwd": str(blog), "mcpServers": []})
        await agent.editor.prompt(ids[1], "again")
        # Only listed here, never opened.
        await agent.editor.request("session/delete", {"sessionId": ids[0]})
        assert await ids_listed(agent) == ids[1:]
        with pytest.raises(RemoteError, match="ses_0"):
            await agent.editor.request("session/load", {"sessionId": "ses_0", "cwd": str(shop), "mcpServers": []})


async def test_a_session_from_before_the_switch_is_listed_and_loaded(tmp_path: Path):
    home, shop = home_of(tmp_path, ""), repository(tmp_path / "shop")
    async with running_process(Launch(home)) as agent:
        session = await agent.editor.open_session(str(shop))
        await agent.editor.prompt(session, "/remember me: USERS-TEA every morning.")
        await agent.editor.prompt(session, "hello")
    home_of(tmp_path)
    async with running_process(Launch(home)) as agent:
        assert await ids_listed(agent, cwd=str(shop)) == [session]
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(shop), "mcpServers": []})
        assert "hello" in agent.editor.said() + json.dumps(agent.editor.updates)
        await agent.editor.prompt(session, "again")
        new = await agent.editor.open_session(str(shop))
        assert await recalled(agent, new, "USERS-TEA")


@pytest.mark.parametrize("how", ["damaged", "no database"])
async def test_a_damaged_file_of_the_user_leaves_the_project_usable_and_is_named_once(how: str, tmp_path: Path):
    home, shop = home_of(tmp_path), repository(tmp_path / "shop")
    async with running_process(Launch(home)) as agent:
        session = await agent.editor.open_session(str(shop))
        await agent.editor.prompt(session, "/remember me: USERS-TEA every morning.")
        await until_recalled(agent, session, "USERS-TEA")
    path = folder_of(home, "default") / "constellation.db"
    for log in path.parent.glob("constellation.db-*"):
        log.unlink()
    content = path.read_bytes()
    path.write_bytes(b"x" * 4096 if how == "no database" else content[:8192] + b"\xff" * (len(content) - 8192))
    async with running_process(Launch(home)) as agent:
        new = await agent.editor.open_session(str(shop))
        first = await said(agent, new, "hello")
        assert "Your own memory cannot be" in first
        assert await recalled(agent, new, "USERS-TEA")
        await agent.editor.prompt(new, "/remember NINJA builds it.")
        assert "NINJA" in await said(agent, new, "/memory show project")
        assert "Your own memory cannot be" not in await said(agent, new, "hello again")


async def test_a_locked_file_of_the_user_is_named_and_hides_no_session_of_a_project(tmp_path: Path):
    home = home_of(tmp_path)
    shop, blog = repository(tmp_path / "shop"), repository(tmp_path / "blog")
    async with running_process(Launch(home)) as agent:
        ids = [await agent.editor.open_session(str(folder)) for folder in (shop, blog)]
        for one in ids:
            await agent.editor.prompt(one, "hello")
    with closing(sqlite3.connect(folder_of(home, "default") / "constellation.db", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = exclusive")
        other.execute("BEGIN EXCLUSIVE")
        async with running_process(Launch(home)) as agent:
            new = await agent.editor.open_session(str(shop))
            assert set(await ids_listed(agent)) == set(ids)
            with anyio.fail_after(60):
                while "Your own memory cannot be" not in await said(agent, new, "hello"):
                    pass


async def test_a_folder_that_is_not_there_gets_no_file_of_its_own(tmp_path: Path):
    home, shop = home_of(tmp_path), repository(tmp_path / "shop")
    async with running_process(Launch(home)) as agent:
        session = await agent.editor.open_session(str(shop))
        for method, more in (("session/new", {}), ("session/load", {"sessionId": session})):
            with pytest.raises(RemoteError, match="existing folder"):
                await agent.editor.request(method, {"cwd": str(tmp_path / "typo"), "mcpServers": [], **more})
        assert await ids_listed(agent, cwd=str(tmp_path / "typo")) == []
    assert not list((home / "constellations").glob("default.typo-*"))


async def test_a_session_is_not_opened_in_the_folder_of_another_project(tmp_path: Path):
    home = home_of(tmp_path)
    shop, blog = repository(tmp_path / "shop"), repository(tmp_path / "blog")
    async with running_process(Launch(home)) as agent:
        session = await agent.editor.open_session(str(shop))
        await agent.editor.prompt(session, "hello")
        for _ in ("open", "closed"):
            with pytest.raises(RemoteError, match="of another project than this folder"):
                await agent.editor.request("session/load", {"sessionId": session, "cwd": str(blog), "mcpServers": []})
            await agent.editor.request("session/close", {"sessionId": session})


async def test_the_first_words_about_the_user_in_several_projects_at_once_are_in_one_block(tmp_path: Path):
    home = home_of(tmp_path)
    async with running_process(Launch(home)) as agent:
        ids = [await agent.editor.open_session(str(repository(tmp_path / name))) for name in ("shop", "blog", "zoo")]
        async with anyio.create_task_group() as tasks:
            for number, one in enumerate(ids):
                tasks.start_soon(agent.editor.prompt, one, f"/remember me: USERS-WORD-{number}.")
        for one in ids:
            for number in range(3):
                await until_recalled(agent, one, f"USERS-WORD-{number}")


async def test_a_process_that_is_killed_while_it_replicates_loses_nothing(tmp_path: Path):
    home = home_of(tmp_path)
    shop, blog = repository(tmp_path / "shop"), repository(tmp_path / "blog")
    words: list[str] = []
    for number in range(5):
        async with running_process(Launch(home)) as agent:
            session = await agent.editor.open_session(str(shop))
            for each in range(4):
                word = sha256(f"{number} {each}".encode()).hexdigest()[:16]
                assert word in await said(agent, session, f"/remember me: {word}")
                words.append(word)
            # Each round ends at another moment between two looks at the files.
            for _ in range(number):
                await said(agent, session, "/status")
            agent.kill()
    async with running_process(Launch(home)) as agent:
        session = await agent.editor.open_session(str(shop))
        assert all([await recalled(agent, session, word) for word in words])
        other = await agent.editor.open_session(str(blog))
        await until_recalled(agent, other, words[-1])
        text = await said(agent, other, "/memory show human")
        assert [text.count(word) for word in words] == [1] * len(words)
    for folder in (shop, blog, tmp_path):
        assert all(not one["problems"] for one in json.loads(command(home, folder, "memory", "verify", "--json")))


async def test_two_repositories_are_served_in_version_2_as_well(tmp_path: Path):
    home = home_of(tmp_path)
    introduction: JsonDict = {"protocolVersion": 2, "capabilities": {}, "info": {"name": "tests", "version": "1"}}
    async with running_process(Launch(home, introduction=introduction)) as agent:
        ids: list[str] = []
        for name in ("shop", "blog"):
            opened = await agent.editor.request(
                "session/new", {"cwd": str(repository(tmp_path / name)), "mcpServers": []}
            )
            ids.append(opened["sessionId"])
        for number, one in enumerate(ids):
            await send(agent.editor, one, "hello")
            await until_idle(agent.editor, number + 1)
        await send(agent.editor, ids[0], "/remember SHOP-CANARY is built with ninja.")
        await until_idle(agent.editor, 3)
        assert set(await ids_listed(agent)) == set(ids)
    assert [has(home, project, "SHOP-CANARY") for project in ("shop", "blog", "default")] == [True, False, False]
