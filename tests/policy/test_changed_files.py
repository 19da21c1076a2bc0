"""Which files a shell line changes, as far as it says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.policy.command_paths import changed_files
from pattern_acp.policy.commands import read_command_line


def changed(line: str, cwd: str = "/work") -> set[str]:
    return set(changed_files(read_command_line(line), cwd))


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("echo x > a.py", {"/work/a.py"}),
        ("echo x >> src/a.py 2>/dev/null", {"/work/src/a.py"}),
        ("sed -i 's/a/b/' src/a.py", {"/work/src/a.py"}),
        ("sed -i.bak -E 's/a/b/' a.py b.py", {"/work/a.py", "/work/b.py"}),
        ("perl -pi -e 's/a/b/' a.py", {"/work/a.py"}),
        ("cat b.py | tee a.py", {"/work/a.py"}),
        ("rm -f a.py", {"/work/a.py"}),
        ("mv a.py b.py", {"/work/a.py", "/work/b.py"}),
        ("cp a.py b.py", {"/work/b.py"}),
        ("dd if=a.py of=b.py", {"/work/b.py"}),
        ("cd src && rm ../a.py b.py", {"/a.py", "/work/a.py", "/work/b.py", "/work/src/b.py"}),
        ("git checkout -- a.py", {"/work/a.py"}),
        ("sudo rm /etc/hosts", {"/etc/hosts"}),
        ("ruff format a.py", {"/work/a.py"}),
        ("ruff check --fix a.py", {"/work/a.py"}),
        ("black a.py", {"/work/a.py"}),
        ("prettier --write a.ts", {"/work/a.ts"}),
    ],
)
def test_what_a_line_plainly_changes_is_found(line: str, files: set[str]):
    assert changed(line) >= files


@pytest.mark.parametrize(
    "line",
    [
        "cat a.py",
        "sed -n 1,20p a.py",
        "sed 's/a/b/' a.py",
        "perl -ne 'print' a.py",
        "perl -Mstrict -e 'print' a.py",
        "git diff a.py",
        "git add a.py",
        "pytest a.py",
        "python a.py < b.py",
        "ruff check a.py",
        "black --check a.py",
        "prettier --check a.ts",
        "grep -i rm a.py",
        "echo rm a.py",
        "ls 2>&1",
        "",
    ],
)
def test_what_is_read_or_run_is_not_changed(line: str):
    assert changed(line) == set()


@pytest.mark.parametrize("line", ["git commit -m rm", "git log checkout", "git stash push -m mv", "ruff check format"])
def test_a_word_that_only_reads_like_a_command_that_changes_files_is_none(line: str):
    assert changed(line) == set()


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("git rm a.py", {"/work/a.py"}),
        ("git -c x.y=z mv a.py b.py", {"/work/a.py", "/work/b.py"}),
        ("git restore --staged a.py", {"/work/a.py"}),
        ("ruff format --quiet a.py", {"/work/a.py"}),
    ],
)
def test_the_command_of_a_program_is_no_file_that_it_changes(line: str, files: set[str]):
    assert changed(line) == files


@pytest.mark.parametrize("line", ["cp a.py b.py", "dd if=a.py of=b.py", "cat a.py | tee b.py"])
def test_what_a_copy_is_made_of_is_not_changed(line: str):
    assert changed(line) == {"/work/b.py"}


@given(st.text("rm sedi>a./'\"\\$({|&;-\n", max_size=30))
def test_any_line_has_an_answer(line: str):
    assert all(path.startswith("/") for path in changed(line))
