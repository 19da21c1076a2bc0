"""Lines before which nothing has to be kept."""

import pytest

from pattern_acp.policy.programs import only_reads


@pytest.mark.parametrize(
    "line",
    ["ls -la", "cat a.txt | head -3", "git status", "git log --oneline -5", "find . -name '*.py'", "rg foo src", "env"],
)
def test_a_line_of_programs_that_look_only_reads(line: str):
    assert only_reads(line)


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
    ],
)
def test_whatever_may_write_or_is_not_understood_counts_as_writing(line: str):
    assert not only_reads(line)
