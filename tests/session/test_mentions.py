"""What counts as a mention of a path."""

import pytest

from pattern_acp.session.attachments import LOOKED_AT, MENTIONS, Mention, looks_like_path, mentions_in


@pytest.mark.parametrize(
    ("text", "path", "lines"),
    [
        ("Look at @src/x.py please", "src/x.py", ""),
        ("Look at @src/x.py.", "src/x.py", ""),
        ("(see @src/x.py, then go on)", "src/x.py", ""),
        ("@dir/", "dir/", ""),
        ("@src/x.py:10-20", "src/x.py", "10-20"),
        ("@src/x.py:20-10", "src/x.py", "10-20"),
        ("@src/x.py:7?", "src/x.py", "7-7"),
        ("@src/x.py#L3-L9", "src/x.py", "3-9"),
        ("@src/x.py#L3:9", "src/x.py", "3-9"),
        ('@"my file.txt":3-4 now', "my file.txt", "3-4"),
        ('@"my file.txt"', "my file.txt", ""),
        ("@my\\ file.txt", "my file.txt", ""),
        ("@/abs/päth.py", "/abs/päth.py", ""),
        ("@~/notes.md", "~/notes.md", ""),
        ("see @app/[slug]/page.tsx.", "app/[slug]/page.tsx", ""),
        ("(see @app/[[...slug]]/page.tsx:3-4)", "app/[[...slug]]/page.tsx", "3-4"),
        ("@src/routes/(group)/+page.svelte, please", "src/routes/(group)/+page.svelte", ""),
        ("@app/@modal/page.tsx", "app/@modal/page.tsx", ""),
        ("@[id].ts", "[id].ts", ""),
        ("@src/{name}.ts", "src/{name}.ts", ""),
        ("@it's.txt", "it's.txt", ""),
        ("@a,b.txt", "a,b.txt", ""),
        ("@src/x.py's end", "src/x.py", ""),
        ("@src/x.py,src/y.py", "src/x.py", ""),
        ("[@src/x.py](there)", "src/x.py", ""),
    ],
)
def test_a_path_behind_an_at_is_a_mention(text: str, path: str, lines: str):
    (ways,) = mentions_in(text)
    assert Mention(path, lines) in ways


@pytest.mark.parametrize(
    "text",
    [
        "",
        "me@example.com",
        "a @ b",
        "```python\n@dataclass\nclass A: ...\n```",
        "use `@dataclass` here",
        "~~~~\n~~~\n@dataclass\n~~~~",
        "```\n@never-closed",
        "git@github.com:a/b.git",
        "https://example.com/@someone",
        "@@ -1,2 +1,2 @@",
    ],
)
def test_addresses_and_code_are_none(text: str):
    assert mentions_in(text) == ()


def test_a_mention_behind_code_counts():
    assert mentions_in("```\n@a\n```\n`@b` @c") == ((Mention("c"),),)


@pytest.mark.parametrize(
    "text", ["@a", "a:1", "``", '@"a', "```\n", "@a\\ ", "@a/", "@[a", "@(a)", "@[[a]]", "@a#L1", "~~~`\n", "@.:!"]
)
def test_a_long_paste_is_looked_through_at_once(text: str):
    """Were it looked through more than once for each place, the limit of the test run would end it."""
    pasted = text * 100_000
    assert mentions_in(pasted + " @b") == mentions_in(pasted[:LOOKED_AT])


def test_each_is_looked_at_once_and_not_thousands():
    assert len(mentions_in("@a @a @b")) == 2
    assert len(mentions_in(" ".join(f"@{number}" for number in range(1_000)))) == MENTIONS


@pytest.mark.parametrize("written", ["src/a/b", "./notes", "x.py", "src/x.py.", "../up", "docs/api.md:3"])
def test_a_mention_with_folders_or_an_ending_looks_like_a_path(written: str):
    assert looks_like_path(written.partition(":")[0])


@pytest.mark.parametrize("written", ["dataclass", "types/node", "somebody", "pytest.fixture"])
def test_names_packages_and_decorators_do_not_look_like_one(written: str):
    assert not looks_like_path(written)


def test_what_is_called_is_a_decorator():
    (ways,) = mentions_in('@app.get("/users")\n@app.get(users)\n@src/x.py(there)')
    assert Mention("src/x.py") in ways


def test_the_folder_in_front_of_a_bracket_is_not_meant():
    (ways,) = mentions_in("@app/[slug]/page.tsx")
    assert ways == (Mention("app/[slug]/page.tsx"),)
