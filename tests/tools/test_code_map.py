from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from pattern_acp.codemap.callers import MOST_GUESSES
from pattern_acp.codemap.model import IndexProgress, Judgement
from pattern_acp.domain.access import ReadMemory, ReadPath
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.tool_calls import Location, TextContent
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.tools.base import CodeOperation, CodeState, ToolFailedError, ToolInputError
from pattern_acp.tools.code_map import OPERATIONS, CodeMap
from pattern_acp.tools.code_questions import found_by_text
from pattern_acp.tools.code_texts import Line
from pattern_acp.workspace.git import FileDiff
from tests.support.code_index import FakeCode, code_index
from tests.support.tools import ToolBench, tool_bench

SOURCES = {
    "app/writer.py": """
class Journal:
    def append(self, item):
        self.flush()

    def flush(self):
        pass


def append(item):
    return item
""",
    "app/store.py": """
from app.writer import append

def store(item):
    append(item)

def grow(items):
    items.append(1)
""",
    "tests/test_store.py": """
from app.store import store

def test_store():
    store(1)
""",
    "app/.env.py": "def append(): pass",
    "README.md": "# App",
}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncGenerator[tuple[ToolBench, FakeCode], None]:
    root = tmp_path / "work"
    root.mkdir()
    async with code_index(root, SOURCES) as index:
        code = FakeCode(index)
        bench = tool_bench(root)
        yield replace(bench, context=replace(bench.context, code=code)), code


Bench = tuple[ToolBench, FakeCode]


async def text(bench: Bench, operation: str, query: str = "", **arguments: object) -> str:
    return (await bench[0].call(CodeMap(), operation=operation, query=query, **arguments)).text


async def test_find_gives_place_kind_and_signature_and_clickable_locations(bench: Bench):
    outcome = await bench[0].call(CodeMap(), operation="find", query="append")
    assert outcome.text.splitlines() == [
        "freshness: fresh",
        "append: 2 exact matches",
        "app/writer.py:10 function def append(item)",
        "app/writer.py:3 method def append(self, item)  [in Journal]",
    ]
    writer = str(Path(bench[0].context.cwd, "app/writer.py"))
    assert outcome.locations == (Location(writer, 10), Location(writer, 3))
    assert outcome.content == (TextContent(outcome.text),)


async def test_what_policy_keeps_from_the_agent_is_in_no_answer(bench: Bench):
    for operation, query in (
        ("find", "append"),
        ("find", ".env"),
        ("brief", "append"),
        ("callers", "append"),
        ("outline", "app"),
        ("impact", "app/writer.py"),
    ):
        assert ".env.py" not in await text(bench, operation, query)


async def test_an_outline_shows_lines_and_nesting(bench: Bench):
    assert (await text(bench, "outline", "app/writer.py")).splitlines() == [
        "freshness: fresh",
        "app/writer.py: python, 11 lines",
        "2-7 class Journal",
        "  3-4 method def append(self, item)",
        "  6-7 method def flush(self)",
        "10-11 function def append(item)",
    ]


async def test_an_outline_of_a_folder_has_a_line_a_file(bench: Bench):
    lines = (await text(bench, "outline", "app")).splitlines()
    assert lines[1:] == ["app/store.py (8 lines): store, grow", "app/writer.py (11 lines): Journal, append"]


async def test_no_number_of_lines_is_told_of_a_file_that_was_not_read(bench: Bench):
    assert "README.md: no source file" in (await text(bench, "outline", "README.md")).splitlines()
    answers = [await text(bench, operation, query) for operation, query in (("outline", "."), ("brief", "README app"))]
    assert "README.md" in "".join(answers)
    assert "0 lines" not in "".join(answers)


async def test_an_outline_finds_a_file_by_the_end_of_its_path_and_says_what_may_have_been_meant(bench: Bench):
    assert "class Journal" in await text(bench, "outline", "writer.py")
    assert "did you mean app/writer.py" in await text(bench, "outline", "lib/writer.py")
    assert "no file or folder" in await text(bench, "outline", "nothing.rs")


async def test_an_outline_outside_the_roots_is_refused(bench: Bench, tmp_path: Path):
    with pytest.raises(ToolFailedError, match="outside the folders of this session"):
        await text(bench, "outline", str(tmp_path / "elsewhere.py"))


async def test_callers_are_proven_apart_from_guesses(bench: Bench):
    lines = (await text(bench, "callers", "app/writer.py:append")).splitlines()
    assert (
        lines[1:]
        == [
            "app/writer.py:10 function def append(item)",
            "1 proven use:",
            "app/store.py:5 call in store: imports it from writer",
        ]
        or "proven" in lines[2]
    )
    whole = await text(bench, "callers", "append")
    assert "guess (only the name agrees" in whole
    assert "app/store.py:8 call in grow: same name only" in whole
    assert whole.index("app/store.py:5") < whole.index("guess")


async def test_importers_of_a_file_and_of_a_symbol(bench: Bench):
    assert "app/store.py:2: imports append" in await text(bench, "importers", "app/writer.py")
    assert "1 proven import:" in await text(bench, "importers", "append")
    assert "0 proven imports" in await text(bench, "importers", "grow")


async def test_impact_names_users_and_tests(bench: Bench):
    answer = await text(bench, "impact", "app/writer.py")
    assert "app/store.py:2 imports append" in answer
    assert "Tests that are proven to reach it: 1\ntests/test_store.py:2 imports store through app/store.py" in answer


async def test_guesses_of_importers_users_and_tests_are_called_guesses(tmp_path: Path):
    sources = {
        "app/writer.py": "class Journal:\n    def push(self): pass\n",
        "scripts/run.py": "import writer\n\ndef run(journal):\n    journal.push()\n",
        "tests/test_writer.py": "def test_nothing(): pass\n",
        **{f"many/m{n}.py": "def common(): pass\n" for n in range(14)},
    }
    async with code_index(tmp_path / "guessed", sources) as index:
        bench = tool_bench(tmp_path / "guessed")
        seen = (replace(bench, context=replace(bench.context, code=FakeCode(index))), FakeCode(index))
        whole = await text(seen, "callers", "app/writer.py")
        assert "0 proven importers\n1 guess:\nscripts/run.py:1: imports a module called writer" in whole
        push = await text(seen, "impact", "Journal.push")
        assert "No file is proven to use it." in push
        assert "Guess, tests that are only named after it: 1\ntests/test_writer.py" in push
        assert "Guesses, not followed further: 1:\nscripts/run.py:4 call in run: called on journal" in push
        common = await text(seen, "callers", "common")
        assert "No proven use of 12 others of that name:" in common
        assert "2 more definitions of that name; ask for one as path:name" in common
        for operation in ("importers", "impact"):
            assert "did you mean Journal" in await text(seen, operation, "Jurnal")


async def test_guesses_that_were_cut_are_more_than_those_counted(tmp_path: Path):
    calls = "".join(f"def run{n}(thing):\n    thing.push()\n" for n in range(MOST_GUESSES + 1))
    sources = {"app/writer.py": "class Journal:\n    def push(self): pass\n", "scripts/run.py": calls}
    async with code_index(tmp_path / "cut", sources) as index:
        bench = tool_bench(tmp_path / "cut")
        seen = (replace(bench, context=replace(bench.context, code=FakeCode(index))), FakeCode(index))
        assert "\nmore than 300 guesses (only the name agrees" in await text(seen, "callers", "push")
        assert "\nGuesses, not followed further: more than 300:" in await text(seen, "impact", "push")


async def test_impact_without_a_query_is_that_of_what_is_not_committed(bench: Bench):
    bench[1].changes = (FileDiff("app/store.py", ((5, 5),)), FileDiff("app/.env.py", is_new=True))
    answer = await text(bench, "impact")
    assert "app/store.py:4 function def store(item)" in answer
    assert "tests/test_store.py:5 test_store" in answer
    bench[1].changes = (FileDiff("app/gone.py", is_deleted=True),)
    assert "A change of:\napp/gone.py\nNo file is proven to use it." in await text(bench, "impact")
    bench[1].changes = ()
    assert "differs from the last commit" in await text(bench, "impact")


async def test_a_brief_brings_files_and_memories(bench: Bench):
    edit = MemoryEdit("project", "append", "The journal appends are batched.")
    await bench[0].memory.commit(edit, None)
    answer = await text(bench, "brief", "journal append")
    assert answer.splitlines()[1].startswith("app/writer.py:")
    assert "Memory on it:" in answer
    assert "batched" in answer


async def test_a_name_that_is_not_there_says_what_is_like_it(bench: Bench):
    assert "did you mean Journal" in await text(bench, "callers", "Jornal")
    assert "knows nothing for 'zzz'" in await text(bench, "find", "zzz")


async def test_every_answer_says_how_fresh_it_is_and_which_places_may_be_off(bench: Bench):
    code = bench[1]
    code.state = CodeState(Judgement("stale", 5, 4, ("app/store.py",)))
    stale = await text(bench, "find", "store")
    assert stale.startswith("freshness: stale (1 file differs from the index: app/store.py; ask again")
    assert "app/store.py:4 function def store(item)  (changed since it was indexed)" in stale
    code.state = CodeState(Judgement("partial", 800, 120), building=True)
    assert (await text(bench, "find", "store")).startswith("freshness: partial (120 of 800 files are indexed; it is")
    code.state = CodeState(Judgement("missing", 800, 0), building=True)
    assert (await text(bench, "find", "store")).startswith("freshness: missing (the index is being built; ask again")
    code.state = CodeState(Judgement("fresh", 5, 5, (), ("ruby: tree_sitter_ruby is not installed",)))
    first = (await text(bench, "find", "store")).splitlines()[0]
    assert first == "freshness: fresh; not indexed for want of a grammar: ruby: tree_sitter_ruby is not installed"


async def test_a_name_that_an_unfinished_index_lacks_is_found_by_its_text_and_its_definition_first(bench: Bench):
    made, code = bench
    folder = Path(made.context.cwd)
    (folder / "a_use.py").write_text("from late import Sluice\n\nSluice().open()\n", encoding="utf-8")
    (folder / "late.py").write_text("class Sluice:\n    pass\n", encoding="utf-8")
    code.state = CodeState(Judgement("partial", 800, 120), building=True)
    assert (await text(bench, "find", "Sluice")).splitlines()[1:] == [
        "Sluice: by its text, since the index is not complete",
        "late.py:1: class Sluice:",
        "a_use.py:1: from late import Sluice",
        "a_use.py:3: Sluice().open()",
    ]
    assert "late.py:1: class Sluice:" in await text(bench, "callers", "late.Sluice")
    assert "late.py" not in await text(bench, "find", "Sluice", under="app")
    code.state = CodeState(Judgement("fresh", 800, 800))
    assert "by its text" not in await text(bench, "find", "Sluice")


def test_a_search_by_text_that_ran_out_of_time_says_so():
    found = [Line("late.py:1: class Sluice:")]
    assert [line.text for line in found_by_text("Sluice", found, is_whole=False)] == [
        "Sluice: by its text, since the index is not complete, and not all files were searched in 3 s",
        "late.py:1: class Sluice:",
    ]
    (unknown,) = found_by_text("Sluice", [], is_whole=False)
    assert unknown.text == "Sluice: not found, but not all files were searched in 3 s"
    assert found_by_text("Sluice", [], is_whole=True) == []


async def test_progress_of_a_build_is_shown(bench: Bench):
    bench[1].told = (IndexProgress(10, 200), IndexProgress(200, 200))
    await text(bench, "find", "store")
    assert bench[0].progress.shown == [
        (TextContent("Indexing the code: 10 of 200 files"),),
        (TextContent("Indexing the code: 200 of 200 files"),),
    ]


async def test_a_long_answer_is_cut_and_says_how_to_narrow(bench: Bench):
    small = bench[0].with_limit(300)
    outcome = await small.call(CodeMap(), operation="find", query="append")
    assert len(outcome.text) <= 300
    assert "left out; narrow the question" in outcome.text


async def test_what_a_call_would_read_is_stated(bench: Bench):
    root = bench[0].context.roots[0]
    prepared = await bench[0].prepare(CodeMap(), operation="find", query="append")
    assert (prepared.title, prepared.accesses) == ("Find in code: append", (ReadPath(root, is_folder=True),))
    prepared = await bench[0].prepare(CodeMap(), operation="outline", query="app/writer.py")
    assert prepared.accesses == (ReadPath(f"{root}/app/writer.py"),)
    prepared = await bench[0].prepare(CodeMap(), operation="brief", query="x")
    assert ReadMemory() in prepared.accesses
    assert (await bench[0].prepare(CodeMap(), operation="impact")).title == "Impact of what is not committed"


async def test_an_empty_query_is_refused_where_one_is_needed(bench: Bench):
    for operation in ("find", "brief", "callers", "importers"):
        with pytest.raises(ToolInputError, match="`query` is empty"):
            await bench[0].prepare(CodeMap(), operation=operation, query=" ")


async def test_a_kind_that_there_is_not_is_refused_with_those_there_are(bench: Bench):
    with pytest.raises(ToolInputError, match="`kinds` has no 'klass'; there are file, function, method"):
        await text(bench, "find", "append", kinds=["klass"])
    assert "method" not in (await text(bench, "find", "append", kinds=["function"])).replace("exact match", "")


async def test_places_are_behind_the_link_by_which_the_folder_was_given(bench: Bench, tmp_path: Path):
    link = tmp_path / "link"
    link.symlink_to(bench[0].context.cwd)
    linked = replace(bench[0], context=replace(bench[0].context, cwd=str(link)))
    outcome = await linked.call(CodeMap(), operation="find", query="store", limit=1)
    assert outcome.text.splitlines()[2].startswith("app/store.py:4 ")
    assert outcome.locations == (Location(str(link / "app" / "store.py"), 4),)
    assert "app/store.py" in (await linked.call(CodeMap(), operation="outline", query="app")).text


async def test_every_root_is_asked_once_and_none_inside_another(bench: Bench, tmp_path: Path):
    root, other = bench[0].context.roots[0], str(tmp_path / "other")
    roots = (root, other, f"{root}/app")
    several = replace(bench[0], context=replace(bench[0].context, roots=roots))
    answer = (await several.call(CodeMap(), operation="find", query="store", kinds=["function"], limit=1)).text
    assert bench[1].asked == [root, other]
    assert "app/store.py:4 function" in answer
    assert f"{tmp_path}/other/app/store.py:4 function" in answer
    bench[1].asked.clear()
    await several.call(CodeMap(), operation="outline", query=f"{other}/app/store.py")
    assert bench[1].asked == [other]


async def test_a_root_that_does_not_have_it_says_nothing_beside_one_that_does(tmp_path: Path):
    async with (
        code_index(tmp_path / "one", {"a.py": "def first(): pass"}) as one,
        code_index(tmp_path / "two", {"b.py": "def fist(): pass"}) as two,
    ):
        bench = tool_bench(tmp_path / "one")
        roots = (str(tmp_path / "one"), str(tmp_path / "two"))
        code = FakeCode(one, others={roots[1]: two})
        several = replace(bench, context=replace(bench.context, code=code, roots=roots))
        answer = (await several.call(CodeMap(), operation="callers", query="first")).text
        assert "a.py:1 function def first()" in answer
        assert "did you mean" not in answer


async def test_without_a_code_map_other_tools_are_named(tmp_path: Path):
    with pytest.raises(PatternError, match="use search_text"):
        await tool_bench(tmp_path).call(CodeMap(), operation="find", query="x")


def test_every_operation_is_in_the_table():
    assert set(OPERATIONS) == set(CodeOperation)
