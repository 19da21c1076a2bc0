from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from pattern_acp.codemap.callers import (
    Impact,
    KnownCallers,
    Use,
    Uses,
    impact_of,
    importers_of_file,
    symbols_changed,
    uses_of,
)
from pattern_acp.codemap.lookups import Targets, targets_named
from pattern_acp.db.connection import Database
from tests.support.code_index import code_index

SOURCES = {
    "app/__init__.py": "from app.writer import append as write\n",
    "app/writer.py": """
def append(item):
    return [item]

def append_many(items):
    return [append(item) for item in items]

class Journal:
    def close(self):
        self.flush()

    def flush(self):
        pass
""",
    "app/direct.py": """
from app.writer import append

def store():
    append(1)
""",
    "app/renamed.py": """
from app.writer import append as put

def store():
    put(1)
""",
    "app/module.py": """
from app import writer

def store():
    writer.append(1)
""",
    "app/handed.py": """
from app import write

def store():
    write(1)
""",
    "app/own.py": """
def append(item):
    pass

def store():
    append(1)
""",
    "app/lists.py": """
from app.writer import Journal

class Fast(Journal):
    def hurry(self):
        self.flush()

def grow(items, journal):
    items.append(1)
    journal.flush()
    Journal.flush(journal)

def unrelated(pipe):
    pipe.flush()
""",
    "app/inner.py": """
def outer():
    def step():
        pass
    step()

def other(step):
    step()
""",
    "app/hidden.py": "def secret_name(): pass",
    "app/passed.py": """
from app.writer import append

HANDLERS = [append]
""",
    "app/top.py": """
from app.direct import store

def run():
    store()
""",
    "tests/test_top.py": """
from app.top import run

def test_run():
    run()
""",
    "tests/test_writer.py": "import subprocess",
    **{f"many/m{n}.py": "def common(): pass" for n in range(20)},
    "web/list.ts": """
export class List { add(item: number) { return this.grow(item) } grow(item: number) { return item } }
export default function render() { return new List().add(1) }
""",
    "web/page.ts": """
import render, { List } from "./list"
import * as lists from "./list"
const page = render()
const list: List = new lists.List()
""",
    "go/a.go": """
package main

func Append(x int) int { return x }
""",
    "go/b.go": """
package main

func use() int { return Append(1) }
""",
    "java/app/Writer.java": """
package app;

public class Writer {
    public void write() { flush(); }
    void flush() {}
}
""",
    "java/app/Main.java": """
package app;

class Main {
    void run() { new Writer().write(); }
}
""",
}


@pytest.fixture(scope="module")
async def index(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Database, None]:
    folder: Path = tmp_path_factory.mktemp("callers")
    async with code_index(folder / "work", SOURCES) as database:
        yield database


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def targets(index: Database, text: str) -> Targets:
    return await index.read(lambda tx: targets_named(tx, text, may_show=lambda path: path != "app/hidden.py"))


async def uses(index: Database, text: str) -> Uses:
    (symbol,) = (await targets(index, text)).symbols
    return await index.read(lambda tx: uses_of(KnownCallers(tx), symbol))


def places(found: Sequence[Use]) -> set[str]:
    return {f"{use.path} {use.within.qualified_name if use.within else ''}".strip() for use in found}


async def test_a_use_is_proven_by_an_import_however_it_is_written_and_in_the_same_file(index: Database):
    found = await uses(index, "app/writer.py:append")
    assert places(found.proven) >= {
        "app/writer.py append_many",
        "app/direct.py store",
        "app/renamed.py store",
        "app/module.py store",
        "app/handed.py store",
        "app/passed.py HANDLERS",
    }


async def test_what_certainly_means_something_else_is_no_use_and_no_guess(index: Database):
    found = await uses(index, "app/writer.py:append")
    paths = {use.path for use in (*found.proven, *found.guesses)}
    assert "app/own.py" not in paths
    assert "app/lists.py" not in paths


async def test_a_method_is_proven_on_its_own_object_through_its_class_and_in_heirs(index: Database):
    found = await uses(index, "Journal.flush")
    assert places(found.proven) == {
        "app/writer.py Journal.close",
        "app/lists.py Fast.hurry",
        "app/lists.py grow",
    }
    assert {use.line for use in found.guesses} == {10, 14}
    assert [use.why for use in found.guesses] == [
        "called on journal, which is named like Journal",
        "same name, in a file that knows Journal",
    ]


async def test_what_is_defined_in_a_function_is_used_only_there(index: Database):
    assert places((await uses(index, "outer.step")).proven) == {"app/inner.py outer"}
    assert (await uses(index, "outer.step")).guesses == ()


async def test_default_exports_and_namespaces_are_followed(index: Database):
    assert "web/page.ts" in {use.path for use in (await uses(index, "web/list.ts:render")).proven}
    kinds = {(use.path, use.kind) for use in (await uses(index, "web/list.ts:List")).proven}
    assert {("web/page.ts", "type"), ("web/page.ts", "call")} <= kinds
    assert places((await uses(index, "List.grow")).proven) == {"web/list.ts List.add"}


async def test_files_of_one_package_see_each_other(index: Database):
    assert places((await uses(index, "go/a.go:Append")).proven) == {"go/b.go use"}
    assert "java/app/Main.java Main.run" in places((await uses(index, "java/app/Writer.java:Writer")).proven)
    assert places((await uses(index, "Writer.flush")).proven) == {"java/app/Writer.java Writer.write"}


async def test_importers_of_a_file_say_what_they_import(index: Database):
    found = await index.read(lambda tx: importers_of_file(KnownCallers(tx), "app/writer.py"))
    whys = {use.path: use.why for use in found.proven}
    assert whys["app/direct.py"] == "imports append"
    assert whys["app/lists.py"] == "imports Journal"
    assert "app/writer.py" not in whys


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("app/writer.py", "app/writer.py"),
        ("./app/writer.py", "app/writer.py"),
        ("writer.py", "app/writer.py"),
        ("app/writer.py:2", "append"),
        ("app/writer.py:10", "Journal.close"),
        ("Journal.close", "Journal.close"),
        ("journal.close", "Journal.close"),
        ("nothing/here.py", ""),
        ("zzz", ""),
        ("app/hidden.py", ""),
        ("app/hidden.py:1", ""),
        ("secret_name", ""),
    ],
)
async def test_what_a_text_names(index: Database, text: str, expected: str):
    found = await targets(index, text)
    names = [symbol.qualified_name for symbol in found.symbols] + [file.path for file in found.files]
    assert names == ([expected] if expected else [])


async def test_a_name_of_many_names_them_all_as_far_as_that_is_of_use(index: Database):
    assert [symbol.path for symbol in (await targets(index, "append")).symbols] == ["app/writer.py", "app/own.py"]
    many = await targets(index, "common")
    assert (len(many.symbols), many.left_out) == (12, 8)


async def impact(index: Database, text: str, *, depth: int = 3) -> Impact:
    named = await targets(index, text)
    paths = [file.path for file in named.files]

    def may_show(path: str) -> bool:
        return path != "app/handed.py"

    return await index.read(lambda tx: impact_of(tx, named.symbols, paths, depth=depth, may_show=may_show))


async def test_a_change_reaches_users_of_users_and_their_tests(index: Database):
    found = await impact(index, "app/writer.py:append")
    depths = {item.file.path: item.depth for item in found.reached}
    assert depths["app/direct.py"] == 1
    assert depths["app/top.py"] == 2
    assert [(item.file.path, item.depth) for item in found.tests] == [("tests/test_top.py", 3)]
    assert [file.path for file in found.likely_tests] == ["tests/test_writer.py"]
    assert found.is_whole


async def test_a_change_is_followed_no_deeper_than_asked_and_not_into_what_is_hidden(index: Database):
    found = await impact(index, "app/writer.py:append", depth=1)
    paths = {item.file.path for item in found.reached}
    assert "app/direct.py" in paths
    assert not {"app/top.py", "app/handed.py"} & paths
    assert found.tests == ()


async def test_a_change_of_a_file_reaches_its_importers(index: Database):
    found = await impact(index, "app/direct.py")
    assert [(item.file.path, item.depth) for item in found.reached] == [("app/top.py", 1)]
    assert [(item.file.path, item.depth) for item in found.tests] == [("tests/test_top.py", 2)]


async def test_changed_lines_mean_the_innermost_symbol_or_the_file(index: Database):
    symbols, files = await index.read(lambda tx: symbols_changed(tx, "app/writer.py", ((3, 3), (10, 10))))
    assert [symbol.qualified_name for symbol in symbols] == ["append", "Journal.close"]
    assert not files
    symbols, files = await index.read(lambda tx: symbols_changed(tx, "app/writer.py", ((1, 1),)))
    assert (symbols, files) == ((), True)
    symbols, files = await index.read(lambda tx: symbols_changed(tx, "app/writer.py", ()))
    assert (symbols, files) == ((), True)
