import pytest

from pattern_acp.cli.chat.answers import shortened_links


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("- [a/b.py:3](file:///work/a/b.py#L3) def x", "- a/b.py:3 def x"),
        (r"[a/\_b c.py](file:///work/a/_b%20c.py) file", r"a/\_b c.py file"),
        ("[/work/b.py:3](file:///work/b.py#L3)", "/work/b.py:3"),
        ("[2-7](file:///work/a/b.py#L2) class", "2-7 class"),
        ("[12](file:///work/a/b.py#L12) class", "12 class"),
        ("no link", "no link"),
    ],
)
def test_a_link_that_says_where_it_leads_is_shown_by_its_words(markdown: str, shown: str):
    assert shortened_links(markdown) == shown


@pytest.mark.parametrize(
    "markdown",
    [
        "[click here](file:///etc/passwd)",
        "[a/b.py:3](file:///work/a/b.py#L4)",
        "[b.py](file:///work/ab.py)",
        "[b.py:3](file:///work/b.py)",
        "[2-7](file:///work/b.py#L3)",
        "[b.py](https://example.org/b.py)",
    ],
)
def test_a_link_that_says_something_else_stays_whole(markdown: str):
    assert shortened_links(markdown) == markdown
