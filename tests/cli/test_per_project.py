"""Commands of a terminal where each project has a constellation."""

import errno
import json
import subprocess
from pathlib import Path

import pytest

from pattern_acp.bootstrap.constellation_choice import process_in
from pattern_acp.bootstrap.process import Process, start_process
from pattern_acp.bootstrap.replicas import key_of_machine
from pattern_acp.cli.arguments import BackUp, Doctor, ServeClients
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.main import run_with
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.config.settings import Flags
from pattern_acp.db.connection import read_file
from pattern_acp.sync.segments import new_key

SETTINGS = "[constellation]\nper_project = true\n[backup]\nsegments = false\n"


class Terminal:
    """A terminal of a user with two repositories."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._capfd = capfd
        self._monkeypatch = monkeypatch
        for name in ("home", "shop", "blog", "elsewhere"):
            (folder / name).mkdir()
        for name in ("shop", "blog"):
            subprocess.run(("git", "init", "-q"), cwd=folder / name, check=True)
        self.configure(SETTINGS)

    def configure(self, text: str) -> None:
        (self.folder / "home" / "config.toml").write_text(text, encoding="utf-8")

    def process(self, flags: Flags | None = None) -> Process:
        environ = {"PATTERN_ACP_HOME": str(self.folder / "home"), "PATTERN_ACP_MODEL": "offline/offline"}
        return start_process(flags or Flags(), environ)

    def path(self, name: str) -> Path:
        return process_in(self.process(), str(self.folder / name)).constellation_path

    def run(self, place: str, *words: str) -> str:
        """What a command that succeeds prints in a folder."""
        code, text = self.tried(place, *words)
        assert code == 0, text
        return text

    def note(self, place: str, label: str, text: str, scope: str = "persona") -> None:
        """Make a block of the user's, or of the project."""
        self.run(place, "memory", "create", label, "--scope", scope, "--text", text, "Of a test.")

    def tried(self, place: str, *words: str) -> tuple[int, str]:
        self._monkeypatch.chdir(self.folder / place)
        arguments = parse_arguments(words)
        assert isinstance(arguments, TypedCommand | Doctor | BackUp | ServeClients)
        code = run_with(arguments, self.process(arguments.flags))
        found = self._capfd.readouterr()
        return code, found.out + found.err


@pytest.fixture
def terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(tmp_path, capfd, monkeypatch)


def test_a_command_uses_the_file_of_its_repository_and_the_users_memory_is_in_all(terminal: Terminal):
    terminal.note("shop", "build", "Build with ninja.", "project")
    terminal.note("shop", "about", "Likes tea.")
    terminal.note("blog", "home", "Lives in Rome.")
    assert "Build with ninja." in terminal.run("shop", "memory", "show", "build")
    assert "ninja" not in terminal.tried("blog", "memory", "show", "build")[1]
    assert "Likes tea." in terminal.run("blog", "memory", "show", "about")
    assert "Lives in Rome." in terminal.run("shop", "memory", "show", "home")
    assert b"ninja" not in terminal.process().constellation_path.read_bytes()


def test_where_nothing_was_recorded_a_command_that_looks_shows_the_users_memory(terminal: Terminal):
    terminal.note("shop", "about", "Likes tea.")
    assert "Likes tea." in terminal.run("elsewhere", "memory", "show", "about")
    assert not terminal.path("elsewhere").parent.exists()


def test_a_constellation_that_is_named_is_used_wherever_the_command_runs(terminal: Terminal):
    terminal.note("shop", "build", "Build with ninja.", "project")
    there = ("--cwd", str(terminal.folder / "shop"))
    assert "Build with ninja." in terminal.run("blog", "memory", "show", "build", *there)
    named = ("--constellation", terminal.path("shop").parent.name)
    assert "Build with ninja." in terminal.run("blog", *named, "memory", "show", "build", *there)
    assert "ninja" not in terminal.tried("blog", "--constellation", "default", "memory", "show", "build", *there)[1]


def test_what_a_command_forgets_is_forgotten_in_the_files_of_all(terminal: Terminal):
    terminal.note("shop", "about", r"Likes tea.\nThe door code is QUARTZ-7731-LANTERN.")
    terminal.note("blog", "build", "Build with hugo.", "project")
    assert b"QUARTZ-7731-LANTERN" in _bytes(terminal.path("blog"))
    terminal.run("elsewhere", "memory", "forget", "about", "QUARTZ-7731-LANTERN", "--yes")
    for path in (terminal.path("shop"), terminal.path("blog"), terminal.process().constellation_path):
        assert b"QUARTZ-7731-LANTERN" not in _bytes(path)
        assert b"Likes tea." in _bytes(path)


def test_what_is_forgotten_without_the_key_of_sync_is_forgotten_in_the_files_of_all_projects(terminal: Terminal):
    terminal.note("shop", "about", "The door code is QUARTZ-7731-LANTERN.")
    terminal.note("blog", "build", "Build with hugo.", "project")
    (terminal.folder / "synced").mkdir()
    terminal.configure(f'{SETTINGS}[sync]\nurl = "folder:{terminal.folder / "synced"}"\n')
    said = terminal.run("elsewhere", "memory", "forget", "about", "QUARTZ-7731-LANTERN", "--yes")
    assert "your other devices, which will be notified later: There is no key" in " ".join(said.split())
    for path in (terminal.path("shop"), terminal.path("blog"), terminal.process().constellation_path):
        assert b"QUARTZ-7731-LANTERN" not in _bytes(path)


@pytest.mark.parametrize("place", ["shop", "elsewhere"])
def test_other_devices_hear_of_what_was_forgotten_without_the_key_of_sync_once_it_is_there(
    terminal: Terminal, place: str
):
    terminal.note("shop", "about", "The door code is QUARTZ-7731-LANTERN.")
    (terminal.folder / "synced").mkdir()
    terminal.configure(f'{SETTINGS}[sync]\nurl = "folder:{terminal.folder / "synced"}"\n')
    terminal.run(place, "memory", "forget", "about", "QUARTZ-7731-LANTERN", "--yes")
    users = terminal.process().constellation_path
    assert read_file(users, lambda tx: tx.all("SELECT id FROM sync_forgettings")) == []
    terminal.run("elsewhere", "sync", "key", "new", "--file")
    terminal.run("elsewhere", "memory", "list")
    assert len(read_file(users, lambda tx: tx.all("SELECT id FROM sync_forgettings"))) == 1
    assert read_file(users, lambda tx: tx.all("SELECT id FROM replica_forgettings")) == []
    assert b"QUARTZ-7731-LANTERN" not in _bytes(users)


def test_what_waits_for_other_devices_is_gone_once_sync_is_not_set_up_any_more(terminal: Terminal):
    terminal.note("shop", "about", "The door code is QUARTZ-7731-LANTERN.")
    (terminal.folder / "synced").mkdir()
    terminal.configure(f'{SETTINGS}[sync]\nurl = "folder:{terminal.folder / "synced"}"\n')
    terminal.run("shop", "memory", "forget", "about", "QUARTZ-7731-LANTERN", "--yes")
    users = terminal.process().constellation_path
    assert read_file(users, lambda tx: len(tx.all("SELECT id FROM replica_forgettings"))) == 1
    terminal.configure(SETTINGS)
    terminal.run("shop", "memory", "list")
    assert read_file(users, lambda tx: tx.all("SELECT id FROM replica_forgettings")) == []


@pytest.mark.parametrize("content", [b"short", new_key()], ids=["damaged", "another"])
def test_what_cannot_be_forgotten_elsewhere_for_a_damaged_key_stays_and_doctor_says_so(
    terminal: Terminal, content: bytes
):
    terminal.note("shop", "about", "The door code is QUARTZ-7731-LANTERN.")
    terminal.note("blog", "build", "Build with hugo.", "project")
    blog = terminal.path("blog")
    sound = blog.read_bytes()
    for file in blog.parent.glob("*.db*"):
        file.unlink()
    blog.write_bytes(b"x" * 4096)
    terminal.run("shop", "memory", "forget", "about", "QUARTZ-7731-LANTERN", "--yes")
    (key,) = (terminal.folder / "home").rglob("replica.key")
    right = key.read_bytes()
    key.write_bytes(content)
    blog.write_bytes(sound)
    terminal.run("shop", "memory", "list")
    assert b"QUARTZ-7731-LANTERN" in _bytes(blog)
    _, text = terminal.tried("shop", "doctor", "--json")
    (found,) = (one for one in json.loads(text)["findings"] if one["name"] == "Forgotten words")
    assert str(key) in found["detail"]
    assert "from a backup" in found["detail"]
    key.write_bytes(right)
    terminal.run("shop", "memory", "list")
    assert b"QUARTZ-7731-LANTERN" not in _bytes(blog)
    _, text = terminal.tried("shop", "doctor", "--json")
    assert not [one for one in json.loads(text)["findings"] if one["name"] == "Forgotten words"]


def test_a_key_is_made_where_a_file_system_has_no_hard_links(tmp_path: Path):
    def link(_made: Path, _path: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    key = key_of_machine(tmp_path, link)
    assert key_of_machine(tmp_path) == key
    assert [file.name for file in tmp_path.iterdir()] == ["replica.key"]


def test_doctor_names_the_file_of_the_folder_and_that_of_the_users_memory(terminal: Terminal):
    terminal.note("shop", "build", "Build with ninja.", "project")
    _, text = terminal.tried("shop", "doctor", "--json")
    found = {one["name"]: one["detail"] for one in json.loads(text)["findings"]}
    assert str(terminal.path("shop")) in found["Constellation file"]
    assert str(terminal.process().constellation_path) in found["Your own memory"]


def test_a_backup_is_of_the_file_of_the_folder(terminal: Terminal):
    terminal.note("shop", "build", "Build with ninja.", "project")
    out = terminal.folder / "copy.db"
    assert "There are also default:" in terminal.run("shop", "backup", "-o", str(out))
    assert b"ninja" in out.read_bytes()


@pytest.mark.parametrize("words", [("backup", "--list"), ("sessions", "list", "--all")])
def test_what_is_of_one_file_alone_names_the_others(terminal: Terminal, words: tuple[str, ...]):
    terminal.note("shop", "build", "Build with ninja.", "project")
    assert "There are also default:" in terminal.run("shop", *words)
    terminal.note("blog", "build", "Build with hugo.", "project")
    assert f"There are also default, {terminal.path('blog').parent.name}:" in terminal.run("shop", *words)
    assert "There are also" not in terminal.run("shop", "--constellation", "default", *words)


def test_doctor_in_a_project_says_that_the_file_of_the_users_memory_is_damaged(terminal: Terminal):
    terminal.note("shop", "build", "Build with ninja.", "project")
    terminal.process().constellation_path.write_bytes(b"x" * 4096)
    code, text = terminal.tried("shop", "doctor", "--json")
    found = {one["name"]: one for one in json.loads(text)["findings"]}
    assert code == 1
    assert "damaged" in found["Your own memory"]["detail"]
    assert found["Constellation file"]["health"] == "ok"


def test_a_server_asks_for_the_constellation_that_it_serves(terminal: Terminal):
    code, text = terminal.tried("shop", "serve")
    assert code == 1
    assert "--constellation NAME" in text


def _bytes(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.rglob("*") if file.is_file())
