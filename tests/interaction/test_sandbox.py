"""Commands that run unasked are confined, here by the kernel of this machine."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from pattern_acp.cli.journal import current_means
from pattern_acp.config.settings import DelegateSettings, PolicySettings, Settings
from pattern_acp.journal.events import PermissionAnswered, PermissionAsked, PermissionDecided
from pattern_acp.journal.history import read_history
from pattern_acp.processes.confinement import LAUNCHER, Confinement
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.replay.comparison import replay_turns
from tests.interaction.test_subagents import delegates, model_of, requests_of
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, PermissionAnswer, choose
from tests.support.editor_terminals import really_run
from tests.support.scripts import calls, says
from tests.support.turns import events_of, last_result, of_type, results_of

AUTO = Settings(editor_deadline_seconds=30, mode="auto")
TERMINALS: JsonDict = {"terminal": True}
CONFINED = "Landlock and namespaces, no network"


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    private = tmp_path / "trial"
    private.mkdir()
    found = await Confinement(private).find()
    if not found.namespaces:
        pytest.skip(found.problem)
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text("SECRET KEY")
    return home


@asynccontextmanager
async def ran(
    home: Path,
    *lines: str,
    files: dict[str, str] | None = None,
    settings: Settings = AUTO,
    capabilities: JsonDict | None = None,
    permission: PermissionAnswer | None = None,
) -> AsyncGenerator[tuple[RunningAgent, ScriptedProvider, str], None]:
    """An agent whose model has run these commands, in the editor's terminals if it has some."""
    model = ScriptedProvider([*(calls("run_command", command=line) for line in lines), says("Done.")])
    async with running_agent(
        model, settings=settings, capabilities=capabilities, permission=permission, home=home
    ) as agent:
        for name, text in (files or {}).items():
            (agent.folder / name).write_text(text)
        agent.editor.terminals.run = really_run
        session = await agent.editor.open_session(str(agent.folder))
        assert await agent.editor.prompt(session, "Go.") == {"stopReason": "end_turn"}
        yield agent, model, session


def told_sandboxes(agent: RunningAgent) -> list[object]:
    """What the updates of calls say of their sandboxes, in their order."""
    abouts = [update.get("_meta", {}).get("pattern", {}) for update in agent.editor.of_kind("tool_call_update")]
    return [about["sandbox"] for about in abouts if "sandbox" in about]


@pytest.mark.parametrize("capabilities", [None, TERMINALS], ids=["ours", "editor"])
async def test_a_script_neither_reads_keys_nor_writes_outside_and_what_stopped_it_is_asked_about(
    home: Path, capabilities: JsonDict | None
):
    files = {"build.sh": f"cat {home}/.ssh/id_ed25519\necho pwned > {home}/.bashrc\n", ".env": "KEY=SECRET"}
    declined = choose("reject_once")
    async with ran(
        home, "sh build.sh; grep -r SECRET .", files=files, capabilities=capabilities, permission=declined
    ) as (agent, model, session):
        result = last_result(model.requests[1]).text
        assert "SECRET" not in result.replace("grep -r SECRET", "")
        assert not (home / ".bashrc").exists()
        events = await events_of(agent, session)
        first = of_type(events, PermissionDecided)[0]
        assert (first.verdict, first.rule, first.sandbox) == ("allow", "auto_mode", CONFINED)


async def test_what_confines_commands_is_tried_with_the_first_call_and_not_before_a_request(tmp_path: Path):
    model = ScriptedProvider([says("Hello."), calls("run_command", command="true"), says("Done.")])
    async with running_agent(model, settings=AUTO, home=tmp_path) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello?")
        means = agent.shared.sandboxing
        assert means is not None
        assert means.confinement.found is None
        await agent.editor.prompt(session, "Go.")
        assert means.confinement.found is not None


@pytest.mark.parametrize("capabilities", [None, TERMINALS], ids=["ours", "editor"])
async def test_a_stopped_command_runs_outside_once_the_user_allows_it(home: Path, capabilities: JsonDict | None):
    files = {"install.sh": f"echo settings > {home}/settings\n"}
    async with ran(home, "sh install.sh", files=files, capabilities=capabilities) as (agent, model, session):
        assert (home / "settings").read_text() == "settings\n"
        result = last_result(model.requests[1]).text
        assert result.startswith(
            "The sandbox stopped it, and it was run again outside, as the user allowed.\nExit code 0"
        )
        assert told_sandboxes(agent) == [CONFINED, "none"]
        events = await events_of(agent, session)
        assert [(decided.verdict, decided.rule) for decided in of_type(events, PermissionDecided)] == [
            ("allow", "auto_mode"),
            ("ask", "sandbox_stopped"),
        ]
        (asked,) = of_type(events, PermissionAsked)
        stopped = f"The sandbox does not let commands write {home}/settings."
        assert asked.reason == f"{stopped} Run it outside the sandbox?"
        assert [answered.answer for answered in of_type(events, PermissionAnswered)] == ["allow_once"]
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        report = await replay_turns(session, recorded, current_means())
        assert report.difference is None


async def test_a_user_who_declines_is_not_asked_for_the_same_again(home: Path):
    files = {"install.sh": f"echo settings > {home}/settings\n"}
    lines = ("sh install.sh", "sh install.sh")
    async with ran(home, *lines, files=files, permission=choose("reject_once")) as (agent, model, session):
        assert len(of_type(await events_of(agent, session), PermissionAsked)) == 1
        assert not (home / "settings").exists()
        assert last_result(model.requests[1]).text.endswith("The user declined to run it outside the sandbox.")
        assert last_result(model.requests[2]).text.endswith("The user has declined to run it outside the sandbox.")


async def test_the_editor_starts_the_launcher_and_shows_the_users_command(home: Path):
    async with ran(home, "ls -d .", capabilities=TERMINALS) as (agent, model, _):
        words = agent.editor.terminals.by_id["term_1"].words
        assert any(word.endswith(f"/{LAUNCHER.stem}.pyc") for word in words)
        assert words[-3:] == ("ls", "-d", ".")
        assert [update["title"] for update in agent.editor.of_kind("tool_call")] == ["ls -d ."]
        assert told_sandboxes(agent) == [CONFINED, CONFINED]
        assert last_result(model.requests[1]).text.endswith("\n.")


async def test_a_command_that_the_user_answers_for_runs_outside(home: Path):
    asking = Settings(editor_deadline_seconds=30, mode="ask")
    async with ran(home, f"echo hello > {home}/hello", settings=asking) as (agent, _, session):
        assert (home / "hello").read_text() == "hello\n"
        assert told_sandboxes(agent) == ["none", "none"]
        assert [decided.sandbox for decided in of_type(await events_of(agent, session), PermissionDecided)] == [""]


async def test_without_the_sandbox_everything_is_as_before(home: Path):
    off = Settings(editor_deadline_seconds=30, mode="auto", policy=PolicySettings(sandbox="off"))
    files = {"install.sh": f"echo settings > {home}/settings\n"}
    async with ran(home, "sh install.sh", files=files, settings=off) as (agent, _, session):
        assert (home / "settings").exists()
        assert [decided.sandbox for decided in of_type(await events_of(agent, session), PermissionDecided)] == [""]


async def test_what_is_typed_into_a_job_outside_the_sandbox_is_asked_about(home: Path):
    model = ScriptedProvider(
        [
            calls("run_command", command="tee typed", interactive=True),
            says("It runs."),
            calls("job", action="write", job="job1", text="hello"),
            says("Done."),
        ]
    )
    async with running_agent(model, settings=Settings(editor_deadline_seconds=30), home=home) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "auto"})
        await agent.editor.prompt(session, "Type.")
        events = await events_of(agent, session)
        assert [decided.rule for decided in of_type(events, PermissionDecided)] == ["command", "outside_sandbox"]


async def test_status_names_what_confines_commands(home: Path) -> None:
    async with ran(home) as (agent, _model, session):
        await agent.editor.prompt(session, "/status")
        assert f"| Sandbox | {CONFINED} |" in agent.editor.said()


SERVER = (
    "python3 -c \"import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], "
    "file=open('port', 'w'), flush=True); s.accept()[0].sendall(b'served here')\""
)
ASKS = (
    'while ! test -s port; do sleep 0.1; done; python3 -c "import socket; '
    "print(socket.create_connection(('127.0.0.1', int(open('port').read())), 5).recv(99))\""
)


@pytest.mark.parametrize("capabilities", [None, TERMINALS], ids=["ours", "editor"])
async def test_a_command_reaches_a_server_that_runs_as_a_job_of_its_session(home: Path, capabilities: JsonDict | None):
    model = ScriptedProvider(
        [
            calls("run_command", command=SERVER, background=True),
            calls("run_command", command=ASKS),
            says("Done."),
        ]
    )
    async with running_agent(model, settings=AUTO, capabilities=capabilities, home=home) as agent:
        agent.editor.terminals.run = really_run
        session = await agent.editor.open_session(str(agent.folder))
        # The server may still be ending; the answer says so then.
        assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "end_turn"
        assert "served here" in last_result(model.requests[2]).text
        assert told_sandboxes(agent)[-1] == CONFINED


async def test_sessions_share_no_loopback(home: Path):
    other = Confinement(home.parent / "trial")
    assert (await other.find()).namespaces
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other.keep_holders)
        first, again, second = [await anyio.to_thread.run_sync(other.hold, name) for name in ("one", "one", "two")]
        assert first == again != second
        tasks.cancel_scope.cancel()


@pytest.mark.needs("git")
@pytest.mark.parametrize("confined", [True, False], ids=["confined", "agreed"])
async def test_a_worker_s_commands_see_the_folder_with_its_changes_laid_over(home: Path, *, confined: bool):
    line = "cat a.py lib/built; grep -rs KEY .; cat b.py; git add ."
    work = [
        calls("write_file", path="b.py", content="b\n"),
        calls("run_command", command=f"{line}; echo more >> a.py; echo junk > lib/junk; pwd"),
        says("Made it."),
    ]
    model = model_of(delegates("worker", "maker"), says("Done."), maker=work)
    settings = replace(
        AUTO,
        mode="auto" if confined else "edit",
        delegate=DelegateSettings(worker_changes="whole", worker_review="never"),
        policy=PolicySettings(sandbox="auto" if confined else "off"),
    )
    async with running_agent(model, settings=settings, permission=choose("allow_once"), home=home) as agent:
        project = agent.folder / "project"
        await anyio.Path(project / "lib").mkdir(parents=True)
        files = {"a.py": "a\n", ".gitignore": "lib/\n.env\n", "lib/built": "built\n", ".env": "KEY\n"}
        for name, text in files.items():
            (project / name).write_text(text)
        for words in ("init -q", "add .", "-c user.name=A -c user.email=a@b commit -qm One"):
            await anyio.run_process(("git", *words.split()), cwd=project)
        session = await agent.editor.open_session(str(project))
        await agent.editor.prompt(session, "Go.")
        seen = results_of(requests_of(model, "maker")[-1])[-1].text
        assert ("KEY" in seen) is not confined
        assert "a\nbuilt\n" in seen
        assert f"b\n{project}" in seen
        assert last_result(model.requests[-1]).text.startswith("Made it.\n\nLanded: 2 files.")
        assert (project / "a.py").read_text() == "a\nmore\n"
        assert not await anyio.Path(project / "lib" / "junk").exists()
        # Nothing of it was added to the user's index either.
        status = await anyio.run_process(("git", "status", "--porcelain"), cwd=project)
        assert status.stdout == b" M a.py\n?? b.py\n"
