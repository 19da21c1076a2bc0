"""Lines that only read: they run unasked, and nothing has to be kept before them."""

from pathlib import Path

import pytest

from pattern_acp.domain.access import RunCommand
from pattern_acp.policy.decide import decide
from pattern_acp.policy.decision import NO_SANDBOX, Mode, Verdict
from pattern_acp.policy.reading import changes_nothing, git_folders, surely_reads

ROOT = "/work/project"
EVERYDAY = [
    tuple(line.split(" ", 1))
    for line in Path(__file__).with_name("everyday_commands.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize(
    "line",
    ["ls -la", "cat a.txt | head -3", "git status", "git log --oneline -5", "find . -name '*.py'", "rg foo src", "env",
     "printenv HOME", "sleep 1", "ps -o pid", "cat *.py", "grep -r KEY .", "rg --hidden foo", "tail -f log",
     "find -L . -name x", "/usr/bin/cat a", "git -C src log"],
)  # fmt: skip
def test_a_line_of_programs_that_look_changes_nothing_even_if_it_would_ask(line: str):
    assert changes_nothing(line)


@pytest.mark.parametrize(
    "line",
    [
        "rm a",
        "cat a > b",
        "ls; make",
        "echo $(touch a)",
        "find . -delete",
        "git checkout .",
        "git log --output=x",
        "git",
        "env FOO=1 make",
        "rg --pre ./x foo",
        "PAGER=./x git log",
        "cat 'unfinished",
        "",
        "sort -o a a",
        "./ls",
        "src/cat a",
        "find *",
        "git log *",
        "printf -v 'a[$(id)]' x",
        "test -v 'a[$(id)]'",
        "rg --hostname-bin=./x foo",
        "file -C -m x",
    ],
)
def test_whatever_may_write_or_is_not_understood_counts_as_writing(line: str):
    assert not changes_nothing(line)


def verdict(line: str, mode: Mode, *, reading_asks: bool = False, git_setting: str = "") -> Verdict:
    access = RunCommand(line, ROOT, git_setting)
    return decide([access], mode=mode, roots=[ROOT], reading_asks=reading_asks).verdict


@pytest.mark.parametrize(("expected", "line"), EVERYDAY)
def test_everyday_commands_ask_only_where_they_change_something_or_may_show_secrets(expected: str, line: str):
    verdicts = [verdict(line, mode) for mode in (Mode.ASK, Mode.EDIT, Mode.AUTO)]
    assert "".join("a" if one is Verdict.ALLOW else "k" for one in verdicts) == expected


def test_docs_count_the_everyday_commands_that_ask():
    counts = [sum(expected[index] == "k" for expected, _ in EVERYDAY) for index in range(3)]
    assert len(EVERYDAY) == 100
    page = (Path(__file__).parents[2] / "docs" / "reference" / "permissions.md").read_text("utf-8")
    assert f"| after | {counts[0]} | {counts[1]} | {counts[2]} |" in page


def test_reading_runs_in_plan_too_and_asks_where_the_user_wants_that():
    assert verdict("git diff | head", Mode.PLAN) is Verdict.ALLOW
    assert verdict("git diff | head", Mode.PLAN, reading_asks=True) is Verdict.DENY
    assert verdict("git diff | head", Mode.ASK, reading_asks=True) is Verdict.ASK
    assert verdict("git diff | head", Mode.EDIT, reading_asks=True) is Verdict.ASK


def test_a_repository_whose_settings_name_a_program_makes_git_ask():
    assert verdict("git diff", Mode.ASK, git_setting="diff.external") is Verdict.ASK


def test_where_nothing_confines_auto_asks_for_it_too_and_for_a_program_of_the_project_with_a_known_name():
    def alone(line: str, git_setting: str = "") -> Verdict:
        return decide([RunCommand(line, ROOT, git_setting)], mode=Mode.AUTO, roots=[ROOT], sandbox=NO_SANDBOX).verdict

    assert alone("git diff") is Verdict.ALLOW
    assert alone("git diff", "diff.external") is Verdict.ASK
    assert alone("cat a") is Verdict.ALLOW
    assert alone("./cat a") is Verdict.ASK


@pytest.mark.parametrize(
    "line",
    [
        "cat /etc/passwd", "cat .env", "cat ../x", "ls ~", "git show HEAD:.env", "cat < .env", "cd / && ls", "cat .e*",
        "git -C /etc status", "head -1 id_rsa",
    ],
)  # fmt: skip
def test_credentials_and_paths_outside_still_ask(line: str):
    assert verdict(line, Mode.ASK) is Verdict.ASK


@pytest.mark.parametrize(
    "line",
    [
        "git -c core.pager=./x log", "git --exec-path=. log", "git log --output=x", "git log --outp=x",
        "git diff --ext-diff", "git diff --no-index a b", "git grep -O./x foo", "git grep --open-files-in-pager foo",
        "git log --show-signature", "git log --format=%G?", "git log --textconv", "git cat-file --filters HEAD:a",
        "git branch new", "git branch -d old", "git tag v1", "git stash", "git stash pop", "git remote add a b",
        "git remote update", "git fetch", "git config user.name x", "git config --get credential.helper",
        "git reflog expire",
        "git worktree add x", "git symbolic-ref HEAD refs/heads/x", "git bisect run ./x", "git alias",
        "git blame --contents .env a.py", "git ls-files --exclude-from=x", "GIT_EXTERNAL_DIFF=./x git diff",
        "find . -exec rm {} +", "find . -fprintf x y", "find -L . -name x", "fd -x rm", "rg --pre=./x foo",
        "rg -uu foo",
        "rg --hidden foo", "rg -L foo", "sed -n '1e id' a", "sed -n 'w x' a", "sed -i 1d a", "sed -n 1p -i a",
        "sed 1d a",
        "awk 1 a", "uniq a b", "sort -o a a", "sort --compress-program=./x a", "sort --outp=b a", "date 010100002030",
        "date -s x", "hostname evil", "printf -v 'a[$(id)]' x", "test -v 'a[$(id)]'", "command rm a", "command ls",
        "env", "printenv", "xargs rm", "ls | xargs cat", "echo $HOME", "echo $(id)", "echo `id`", "ls > x", "ls &",
        "./ls", "src/ls", "LS", "Cat a", "cat *", "cat *.pem", "head -1 [i]d_rsa", "grep -r KEY .", "grep -R KEY",
        "grep -dn KEY", "tail -f log", "tree -o x", "jq env", "jq '$ENV.KEY' a.json", "jq -f x.jq a.json",
        "file -C -m x", "file -z a", "npm run x", "npm exec x", "npm ls --prefix=x", "npm config list",
        "pip install x", "pip --log x list", "pip list --outdated", "pip --python ./x list", "go env -w A=b",
        "go list ./...", "cargo tree", "cargo --version", "python a.py --version", "python --version a.py",
        "python -c 1", "make --version --eval x", "docker run x", "docker ps --format x", "ps e", "ps auxe",
        "ls\nid", "ls # note", "ls; unknown", "unknown | head", "ls && rm a", "if true; then ls; fi", "(ls)", "! ls",
        "cat <<E\n`id`\nE", "cat <<< x", "cat <(id)", "ls {a,b}", "sudo ls", "time ls", "eval ls", "sh -c ls",
        "function ls { id; }; ls", "alias ls=id; ls", "\u0441at a", "c\\at a; x", "man ls", "less a", "vi a",
    ],
)  # fmt: skip
def test_whatever_may_do_more_than_read_is_no_reading(line: str):
    assert not surely_reads(line)


def test_the_folders_in_which_git_starts_are_named():
    assert git_folders("cd a && git -C b status", ROOT) == (ROOT, f"{ROOT}/a", f"{ROOT}/b", f"{ROOT}/a/b")
    assert git_folders("ls a", ROOT) == ()


CONFINED = "Landlock and namespaces, no network"


@pytest.mark.parametrize(
    "line",
    ["grep -rn TODO src", "grep -r KEY .", "rg --hidden foo", "rg -uu foo", "cat *", "head -3 *.py", "grep x *.py",
     "git ls-files | xargs wc -l", "rg -l foo | xargs -n 1 head -3", "find . -name x -print0 | xargs -0 cat"],
)  # fmt: skip
def test_where_credentials_cannot_be_read_more_lines_only_read(line: str):
    for sandbox, verdict in ((CONFINED, Verdict.ALLOW), ("", Verdict.ASK), ("Landlock, no network", Verdict.ASK)):
        decided = decide([RunCommand(line, "/work/p")], mode=Mode.ASK, roots=("/work/p",), sandbox=sandbox)
        assert decided.verdict is verdict


@pytest.mark.parametrize(
    "line",
    ["grep -R x .", "rg -L x", "rg --pre ./x y", "sort *", "sed -n 1p *", "cat * ../x", "cat .env", "xargs cat",
     "cat list | xargs cat", "git ls-files | xargs rm", "git ls-files | xargs sh -c x", "git ls-files | xargs sort",
     "git ls-files | xargs -I{} cp {} x", "git ls-files | xargs cat > x"],
)  # fmt: skip
def test_a_sandbox_makes_no_line_a_reading_one_that_does_more(line: str):
    decided = decide([RunCommand(line, "/work/p")], mode=Mode.ASK, roots=("/work/p",), sandbox=CONFINED)
    assert decided.verdict is Verdict.ASK
