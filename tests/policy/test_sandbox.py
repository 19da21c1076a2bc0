"""The profile of a session's commands, made of what is on the disk."""

import os
import subprocess
from pathlib import Path

import pytest

from pattern_acp.config.load import process_environment
from pattern_acp.domain.access import RunCommand
from pattern_acp.policy.decide import decide
from pattern_acp.policy.decision import NO_SANDBOX, SANDBOX_REQUIRED, Mode, Verdict
from pattern_acp.policy.sandbox import SandboxFolders, session_profile
from pattern_acp.processes.confinement import Profile

CONFINED = "Landlock and namespaces, no network"


def profile(root: Path, home: Path, *, own: tuple[str, ...] = (), network: bool = False) -> Profile:
    folders = SandboxFolders(str(home), own, ("~/.cache", "~/.cargo/registry"))
    return session_profile((str(root),), folders, {}, temporary=f"{home}/tmp", network=network)


def made(folder: Path, *names: str) -> Path:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x") if not name.endswith("/") else file.mkdir()
    return folder


def test_credentials_are_masked_and_settings_fixed_at_any_depth(tmp_path: Path):
    root = made(
        tmp_path / "p", ".env", "web/.env.local", "web/server.key", ".env.example", "src/credentials/__init__.py",
        "src/credentials.py", ".pattern/config.toml", ".vscode/tasks.json", ".npmrc", "node_modules/a/.env",
    )  # fmt: skip
    made_of = profile(root, made(tmp_path / "h", "x"))
    masked = {os.path.relpath(path, root) for path in made_of.masked if path.startswith(str(root))}
    assert masked == {".env", "web/.env.local", "web/server.key"}
    assert {os.path.relpath(path, root) for path in made_of.read_only} == {".pattern", ".vscode"}
    assert [os.path.relpath(path, root) for path in made_of.emptied] == [".npmrc"]


def test_what_comes_and_goes_in_a_folder_is_in_the_next_profile(tmp_path: Path):
    root = tmp_path / "project"
    (root / "deep").mkdir(parents=True)
    secret = root / "deep" / ".env"
    for there in (False, True, False):
        if there:
            secret.write_text("KEY=1")
        else:
            secret.unlink(missing_ok=True)
        assert (str(secret) in profile(root, tmp_path).masked) is there


def test_another_name_of_a_file_of_credentials_is_masked_like_it(tmp_path: Path):
    root = made(tmp_path / "p", "web/.env", "web/other.txt", "web/read me.txt")
    (root / "web/notes.txt").hardlink_to(root / "web/.env")
    (root / "web/docs").mkdir()
    (root / "web/docs/elsewhere.txt").hardlink_to(root / "web/.env")
    masked = {os.path.relpath(path, root) for path in profile(root, tmp_path).masked}
    assert {each for each in masked if each.startswith("web")} == {
        "web/.env",
        "web/notes.txt",
        "web/docs/elsewhere.txt",
    }


def test_folders_that_did_not_change_are_read_once_and_found_again(tmp_path: Path):
    root = Path(__file__).resolve().parents[2]
    first, second = (profile(root, tmp_path) for _ in range(2))
    assert (first.masked, first.read_only, first.emptied) == (second.masked, second.read_only, second.emptied)


def test_a_home_shows_neither_keys_nor_our_own_data(tmp_path: Path):
    home = made(
        tmp_path / "h", ".ssh/id", ".aws/credentials", ".config/gh/hosts.yml", ".netrc", "data/constellation.db"
    )
    made_of = profile(made(tmp_path / "p", "a"), home, own=(str(home / "data"),))
    assert {str(home / name) for name in (".ssh", ".aws", ".config/gh", "data")} <= set(made_of.masked)
    assert str(home / ".netrc") in made_of.emptied


def test_a_folder_of_the_session_is_never_masked_as_a_whole(tmp_path: Path):
    root = made(tmp_path / "h" / ".aws" / "p", "a")
    made_of = profile(root, tmp_path / "h", own=(str(tmp_path),))
    assert not {str(tmp_path), str(tmp_path / "h" / ".aws")} & set(made_of.masked)


def test_caches_that_exist_may_be_written(tmp_path: Path):
    home = made(tmp_path / "h", ".cache/x")
    made_of = profile(made(tmp_path / "p", "a"), home)
    assert made_of.writable == (str(tmp_path / "p"), f"{home}/tmp", str(home / ".cache"))


@pytest.mark.needs("git")
def test_git_s_hooks_and_configuration_are_fixed_also_of_the_repository_that_a_work_tree_belongs_to(tmp_path: Path):
    main, tree = tmp_path / "main", tmp_path / "tree"
    for command in (
        ("init", "-q", str(main)),
        ("-C", str(main), "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "a"),
        ("-C", str(main), "worktree", "add", "-q", str(tree)),
    ):
        subprocess.run(("git", *command), check=True, env={**process_environment(), "HOME": str(tmp_path)})
    own = profile(main, tmp_path / "h")
    assert {str(main / ".git" / name) for name in ("hooks", "config")} <= set(own.read_only)
    assert own.pinned == (str(main / ".git"),)
    linked = profile(tree, tmp_path / "h")
    assert {str(main / ".git"), str(main / ".git" / "worktrees" / "tree")} <= set(linked.writable)
    assert {str(tree / ".git"), str(main / ".git" / "hooks"), str(main / ".git" / "config")} <= set(linked.read_only)


def test_a_repository_in_which_no_hooks_can_be_made_has_a_profile_all_the_same(tmp_path: Path):
    root = made(tmp_path / "project", ".git/HEAD", ".git/hooks")
    assert str(root / ".git" / "hooks") in profile(root, tmp_path / "home").read_only


def test_a_git_file_that_points_elsewhere_opens_nothing(tmp_path: Path):
    home = made(tmp_path / "h", "secret/HEAD", "secret/config")
    root = made(tmp_path / "p", "a")
    (root / ".git").write_text(f"gitdir: {home}/secret\n")
    made_of = profile(root, home)
    assert made_of.writable == (str(root), f"{home}/tmp")
    assert str(root / ".git") in made_of.read_only


def verdict(line: str, sandbox: str, mode: Mode = Mode.AUTO) -> tuple[Verdict, str, str]:
    decision = decide([RunCommand(line, "/p")], mode=mode, roots=["/p"], sandbox=sandbox)
    return decision.verdict, decision.rule, decision.sandbox


@pytest.mark.parametrize("line", ["pytest -q", "npm test", "git status && make", "sh build.sh", "git commit -m x"])
def test_auto_runs_a_command_inside_the_sandbox(line: str):
    assert verdict(line, CONFINED) == (Verdict.ALLOW, "auto_mode", CONFINED)


@pytest.mark.parametrize(
    "line",
    ["npm install", "npm ci && npm test", "pip install -e .", "python -m pip install x", "git push", "git pull origin",
     "cargo add serde", "go mod tidy", "yarn", "uv sync", "git submodule update --init", "poetry install"],
)  # fmt: skip
def test_auto_asks_for_a_command_that_needs_the_network_which_the_sandbox_cuts(line: str):
    assert verdict(line, CONFINED)[:2] == (Verdict.ASK, "network")
    assert verdict(line, "Landlock, the network of the machine")[0] is Verdict.ALLOW
    assert verdict(line, "") == (Verdict.ALLOW, "auto_mode", "")


@pytest.mark.parametrize(
    "line", ["cargo build", "npm run build", "pip list", "pip install --no-index ./a.whl", "git log"]
)
def test_a_command_that_may_do_without_the_network_runs_in_the_sandbox(line: str):
    assert verdict(line, CONFINED)[0] is Verdict.ALLOW


def test_where_nothing_confines_auto_asks_for_all_but_what_surely_reads_or_stays_inside():
    assert verdict("ls -la | head", NO_SANDBOX)[:1] == (Verdict.ALLOW,)
    assert verdict("mkdir -p a/b && touch a/b/c", NO_SANDBOX)[:1] == (Verdict.ALLOW,)
    for line in ("npm test", "pytest", "sh build.sh", "python x.py"):
        assert verdict(line, NO_SANDBOX)[:2] == (Verdict.ASK, "no_sandbox")


@pytest.mark.parametrize("mode", [Mode.ASK, Mode.EDIT, Mode.AUTO])
def test_where_a_sandbox_is_required_and_there_is_none_no_command_runs(mode: Mode):
    assert verdict("ls", SANDBOX_REQUIRED, mode)[:2] == (Verdict.DENY, "sandbox_required")
