"""Which words of a line may lead outside."""

from collections.abc import Sequence

import pytest

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.policy.command_paths import command_targets, outside_paths, protected_words
from pattern_acp.policy.commands import read_command_line
from pattern_acp.policy.paths import protection, resolve_by_text

ROOT = "/work/project"


def outside(line: str, cwd: str = ROOT) -> tuple[str, ...]:
    return outside_paths(command_targets(read_command_line(line), cwd), [ROOT])


@pytest.mark.parametrize(
    "line",
    [
        "cat /etc/passwd", "cat ../x", "cat ~/x", "cat ~", "cd", "cd -", "cd ~", "cd ..", "cat a/../../x",
        "tool --out=/tmp/x",
        "tool -I/usr/include", "tool X=/etc", "tool @/etc/x", "tool a:/etc/x", "cat < /etc/x", "echo x > /tmp/x",
        "A=/etc tool",
        "export A=/etc", "bash -c 'cat /etc/passwd'", "env cat /etc/passwd", "cat $HOME/x", "cat $UNKNOWN",
        "cat ${TMPDIR}/x",
        "cat \"$PWD/../x\"", "cat $(pwd)/../x", "python -c \"open('/etc/passwd')\"", "node -e 'fs.rmSync(\"../x\")'",
        "python -c \"open('/etc' + '/passwd')\"", "sed 'r /etc/passwd' x", "sed r/etc/passwd x",
        "awk '{print > \"/tmp/x\"}' y",
        "cat {/etc/passwd,x}", "cat {.,..}/x", "/usr/bin/env", "../run", "if x; then cat /etc/x; fi",
        "cat `cat /etc/x`",
        "git -C /etc log", "tar -C / -xf x", "find / -name x", "ls /etc/*", "cat '/etc/passwd'", "cat $'\\x2fetc'",
        "curl file:///etc/x",
        "ln -s / x", "eval \"cat /etc/x\"", "cat \"/etc/x\"", "xargs -a /etc/x echo", "cat https://../../../etc/x",
    ],
    ids=ascii,
)  # fmt: skip
def test_words_that_lead_out_of_the_roots_are_named(line: str):
    assert outside(line)


@pytest.mark.parametrize(
    "line",
    [
        "pytest", "cat src/a.py", f"cat {ROOT}/a", "cat ./a", "ls .", "curl https://example.com/a/b", "git log HEAD~3",
        "grep /api/ src",
        "sed -n '/foo/p' x", "sed s/a/b/g x", "awk '/x/ {print $1}' y", "for f in *.py; do cat \"$f\"; done",
        "X=a; cat $X", "echo $HOME",
        "echo $?", "x > /dev/null 2>&1", "mkdir -p src/{a,b}", "touch x{1..3}", "git show HEAD:src/a.py",
        "cd src && pytest",
        "git log $(git merge-base HEAD main)", "cat file~", "npm run test -- --watch",
        "docker run -p 80:80 x",
        "git clone git@example.com:a/b.git", "python -c 'print(1/2)'", "cat a//b", "echo \"$PATH\"", "cat \"$PWD/x\"",
    ],
    ids=ascii,
)  # fmt: skip
def test_words_that_stay_inside_are_not_named(line: str):
    assert outside(line) == ()


def test_changes_of_folder_add_up():
    deep = f"{ROOT}/a/b"
    assert outside("cd .. && cat x", deep) == ()
    assert outside("cd .. && cd .. && cd ..", deep) == ("..",)
    assert outside("cd .. && cat ../../x", deep) == ("../../x",)
    assert ".." in outside("git -C .. -C .. -C .. log", deep)
    assert ".." in outside("for i in 1 2 3; do cd ..; done; cat x", deep)
    assert outside("cat x > ../../y && cd ..", deep) == ("../../y",)
    assert outside("while :; do cat ../../x; cd ..; done", deep)
    assert outside("cd $(cat x)", deep)


def test_a_line_with_very_many_words_counts_as_outside():
    assert outside("cat " + " ".join(f"w{number}" for number in range(2_500)))


def test_a_symlink_counts_as_what_it_leads_to():
    def resolve(path: str, folder: str) -> str:
        return "/etc/passwd" if path == "link" else resolve_by_text(path, folder)

    assert outside_paths(command_targets(read_command_line("cat link"), ROOT, resolve), [ROOT]) == ("link",)


def test_a_link_is_followed_before_dots_take_a_folder_away():
    def resolve(path: str, folder: str) -> str:
        place = resolve_by_text(path, folder)
        return ROOT + place.removeprefix(f"{ROOT}/a/up") if place.startswith(f"{ROOT}/a/up") else place

    assert outside_paths(command_targets(read_command_line("cat up/x"), f"{ROOT}/a", resolve), [ROOT]) == ()
    back = command_targets(read_command_line("cat up/../x"), f"{ROOT}/a", resolve)
    assert outside_paths(back, [ROOT]) == ("up/../x",)


def test_a_path_that_the_resolver_refuses_counts_as_outside():
    def resolve(path: str, folder: str) -> str:
        if path == "loop":
            raise WorkspaceError("Its links lead in a circle.")
        return resolve_by_text(path, folder)

    assert outside_paths(command_targets(read_command_line("cat 'a b' ' ' loop"), ROOT, resolve), [ROOT]) == ("loop",)


@pytest.mark.parametrize(
    "line",
    ["cat .env", "ls .git", "echo x > .git/hooks/y", "cat .e*", "cp a .pattern/x", "cat a/id_rsa", "tool --key=x.pem"],
)
def test_words_that_lead_to_protected_paths_are_named(line: str):
    assert protected_words(command_targets(read_command_line(line), ROOT), [ROOT])


@pytest.mark.parametrize(
    "line", ["cat .gitignore", "ls github", "cat *", "cat *.py", "cat .env.example", "cat environment"]
)
def test_other_words_are_not_protected(line: str):
    assert not protected_words(command_targets(read_command_line(line), ROOT), [ROOT])


@pytest.mark.parametrize(
    ("roots", "expected"), [(["C:\\work"], ()), (["C:\\work\\project"], ("C:/work/x",)), (["D:\\"], ("C:/work/x",))]
)
def test_windows_paths_are_compared_as_windows_does(roots: Sequence[str], expected: tuple[str, ...]):
    line = read_command_line("type C:\\work\\x", windows=True)
    assert outside_paths(command_targets(line, roots[0]), roots) == expected


@pytest.mark.parametrize("path", [".claude/.credentials.json", ".vscode/.env", ".git/id_rsa", ".pattern/server.pem"])
def test_credentials_ask_before_they_are_read_whatever_else_guards_their_folder(path: str):
    guard = protection(f"{ROOT}/{path}", [ROOT])
    assert guard is not None
    assert guard.for_reading


@pytest.mark.parametrize(
    "path",
    [
        "credentials", ".aws/credentials", ".aws/credentials.py", "a/credentials.json", "credentials.toml",
        "credentials.YAML", "credentials.ini", "credentials.csv", "credentials.sh", "credentials.py.bak",
        "credentials_prod", "credentials.tf", ".credentials", "id_rsa", "id_rsa.old", "id_ed25519.pub", ".env.py",
    ],
)  # fmt: skip
def test_files_of_credentials_ask_before_they_are_read(path: str):
    guard = protection(f"{ROOT}/{path}", [ROOT])
    assert guard is not None
    assert guard.for_reading


@pytest.mark.parametrize(
    "path",
    [
        "app/credentials.py", "credentials_test.go", "credentials.test.ts", "Credentials.java", "Credentials.cs",
        "credentials.d.ts", "credentials.rs", "id_rsa_test.go", "secrets.ts", "src/credentials.php", "credentials.cpp",
    ],
)  # fmt: skip
def test_source_code_that_deals_with_credentials_is_read_without_a_question(path: str):
    assert protection(f"{ROOT}/{path}", [ROOT]) is None
    assert not protected_words(command_targets(read_command_line(f"cat {path}"), ROOT), [ROOT])
