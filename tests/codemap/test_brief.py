from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from pattern_acp.codemap.brief import MOST_FILES, Brief, brief, outline_file, outline_folder, topic_words
from pattern_acp.db.connection import Database
from tests.support.code_index import code_index

SOURCES = {
    "policy/grants.py": """
from policy.patterns import compiled

class Grant:
    pass

def load_grants():
    return []
""",
    "policy/patterns.py": "def compiled(text): return text",
    "policy/permission.py": """
from policy.grants import Grant
from policy.patterns import compiled

class PermissionAsked:
    def granted(self):
        class Inner:
            def deep(self):
                pass
        return Inner
""",
    "ui/window.py": """
from policy.grants import Grant
WIDTH = 3
""",
    "ui/colours.py": "def red(): pass",
    "policy/__init__.py": "",
    "docs/permissions.md": "# Permissions",
    **{f"tests/test_grants_{n}.py": f"def test_a_permission_grant_{n}(): pass" for n in range(30)},
    "policy/credentials.py": "def permission_grants(): pass",
}


@pytest.fixture
async def index(tmp_path: Path) -> AsyncGenerator[Database, None]:
    async with code_index(tmp_path / "work", SOURCES) as database:
        yield database


def may_show(path: str) -> bool:
    return "credentials" not in path


async def ask(index: Database, topic: str) -> Brief:
    return await index.read(lambda tx: brief(tx, topic, may_show=may_show))


async def test_the_files_of_a_topic_are_few_and_say_why_they_are_there(index: Database):
    found = await ask(index, "permission grants")
    paths = [item.file.path for item in found.files]
    assert set(paths[:2]) == {"policy/grants.py", "policy/permission.py"}
    assert "ui/colours.py" not in paths
    assert "policy/credentials.py" not in paths
    whys = {item.file.path: item.why for item in found.files}
    assert whys["policy/grants.py"] == "named grants; defines Grant:4, load_grants:7"


async def test_tests_are_at_most_a_quarter(index: Database):
    assert any(item.file.is_test for item in (await ask(index, "permission grants")).files)
    for topic in ("permission grants", "grants", "Grant", "permission"):
        files = (await ask(index, topic)).files
        tests = [item for item in files if item.file.is_test]
        assert len(tests) * 4 <= len(files)
        assert len(files) <= MOST_FILES


@pytest.mark.parametrize("topic", ["grants test", "tests of grants", "how is a permission tested"])
async def test_a_topic_that_speaks_of_tests_still_begins_with_the_source(index: Database, topic: str):
    files = (await ask(index, topic)).files
    assert files[0].file.path == ("policy/permission.py" if "permission" in topic else "policy/grants.py")
    assert sum(item.file.is_test for item in files) <= len(files) / 4


async def test_nothing_but_tests_is_still_an_answer(index: Database):
    found = await ask(index, "test_a_permission_grant_7")
    assert found.files[0].file.path == "tests/test_grants_7.py"


async def test_the_file_that_defines_the_topic_is_first(index: Database):
    assert (await ask(index, "PermissionAsked")).files[0].file.path == "policy/permission.py"
    assert (await ask(index, "load grants")).files[0].file.path == "policy/grants.py"


async def test_what_several_of_the_files_import_and_few_others_do_is_added(index: Database):
    found = await ask(index, "permission grants")
    whys = {item.file.path: item.why for item in found.files}
    assert whys["policy/patterns.py"] == "imported by 2 of these"


async def test_a_topic_that_nothing_has_to_do_with_has_no_files(index: Database):
    assert await ask(index, "quaternions") == Brief(())
    assert await ask(index, "") == Brief(())


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("How are permission grants stored?", ("permission", "grant", "stor")),
        ("ToolRunner", ("tool", "runner")),
        ("the", ("the",)),
        ("caching entries classes", ("cach", "entr", "class")),
    ],
)
def test_a_topic_is_looked_for_by_its_telling_words_without_endings(topic: str, words: tuple[str, ...]):
    assert topic_words(topic) == words


async def test_an_outline_is_nested_and_in_the_order_of_lines(index: Database):
    outline = await index.read(lambda tx: outline_file(tx, "policy/permission.py"))
    assert outline is not None
    assert [(line.depth, line.symbol.name) for line in outline.lines] == [
        (0, "PermissionAsked"),
        (1, "granted"),
        (2, "Inner"),
        (3, "deep"),
    ]
    assert [item.module for item in outline.imports] == ["policy.grants", "policy.patterns"]


async def test_the_outline_of_a_folder_has_its_files_and_what_they_are_for(index: Database):
    outline = await index.read(lambda tx: outline_folder(tx, "policy/", limit=50, may_show=may_show))
    names = {item.file.path: [line.symbol.name for line in item.lines] for item in outline.files}
    assert names == {
        "policy/__init__.py": [],
        "policy/grants.py": ["Grant", "load_grants"],
        "policy/patterns.py": ["compiled"],
        "policy/permission.py": ["PermissionAsked"],
    }
    first = await index.read(lambda tx: outline_folder(tx, "", limit=2, may_show=may_show))
    assert (len(first.files), first.more) == (2, 34)


async def test_there_is_no_outline_of_what_the_index_does_not_have(index: Database):
    assert await index.read(lambda tx: outline_file(tx, "nothing.py")) is None
    assert await index.read(lambda tx: outline_file(tx, "policy/")) is None
