import re

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.mcp_servers.catalogue import clean, tool_names, typed_names

ALLOWED = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
PAIRS = st.lists(st.tuples(st.text(max_size=80), st.text(max_size=80)), max_size=20)


@given(PAIRS, st.lists(st.from_regex(ALLOWED), max_size=5))
def test_names_are_what_vendors_allow_and_each_is_there_once(pairs: list[tuple[str, str]], taken: list[str]):
    names = tool_names(pairs, taken)
    assert len(names) == len(pairs)
    assert all(ALLOWED.fullmatch(name) for name in names)
    assert len({*names, *taken}) == len(names) + len(set(taken))


@given(PAIRS)
def test_names_stay_when_tools_come_behind_them(pairs: list[tuple[str, str]]):
    assert tool_names(pairs)[: len(pairs) // 2] == tool_names(pairs[: len(pairs) // 2])


def test_what_a_person_types_has_no_marks_where_it_is_the_only_one():
    assert typed_names([("my server", "review it"), ("git", "a.b"), ("git", "a_b"), ("git", "工具")]) == (
        "my_server:review_it",
        f"git:{clean('a.b', 40)}",
        "git:a_b",
        f"git:{clean('工具', 40)}",
    )


@given(PAIRS)
def test_different_prompts_are_typed_differently(pairs: list[tuple[str, str]]):
    different = list(dict.fromkeys(pairs))
    names = typed_names(different)
    assert len(set(names)) == len(different)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,24}:[a-zA-Z0-9_-]{1,40}", name) for name in names)


def test_plain_names_are_joined_by_two_underscores():
    assert tool_names([("github", "create_issue"), ("files", "read-text")]) == (
        "github__create_issue",
        "files__read-text",
    )


def test_names_that_differ_in_what_is_not_allowed_stay_two():
    first, second = tool_names([("Qt Documentation", "a b"), ("Qt_Documentation", "a.b")])
    assert first != second


def test_an_empty_name_becomes_a_name():
    assert clean("", 10)
