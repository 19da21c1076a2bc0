from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.codemap.lookups import FindAnswer, FindQuery, Match, find, name_under_test, qualified_parts, stem_of
from pattern_acp.db.connection import Database
from tests.support.code_index import code_index

SOURCES = {
    "app/serve.py": """
def serve(port):
    return port

def _serve():
    pass

class Server:
    def close(self):
        pass
""",
    "app/session.py": """
class Session:
    def prompt(self):
        pass
""",
    "app/other.py": """
from app.serve import serve
from app.session import Session

class Client:
    def prompt(self):
        serve(1)
""",
    "app/http.ts": """
export function readFile(path: string): string { return path }
export class HTTPServer {}
""",
    "tests/test_serve.py": """
from app.serve import serve

def serve_all():
    serve(1)

class serve_it:
    pass
""",
    "docs/serve.md": "# Serve",
    "keys/.env.py": "def serve(): pass",
}


@pytest.fixture
async def index(tmp_path: Path) -> AsyncGenerator[Database, None]:
    async with code_index(tmp_path / "work", SOURCES) as database:
        yield database


async def ask(
    index: Database, text: str, *, kinds: tuple[str, ...] = (), under: str = "", limit: int = 20
) -> FindAnswer:
    query = FindQuery(text, frozenset(kinds), under, limit)
    return await index.read(lambda tx: find(tx, query, may_show=lambda path: not path.startswith("keys/")))


def names(answer: FindAnswer) -> list[str]:
    return [f"{hit.path}:{hit.symbol.qualified_name}" if hit.symbol else hit.path for hit in answer.hits]


async def test_exact_names_come_before_paths_and_paths_before_what_is_alike(index: Database):
    answer = await ask(index, "serve")
    assert names(answer)[:2] == ["app/serve.py:serve", "app/serve.py:_serve"]
    tiers = [min(hit.match, Match.START) for hit in answer.hits]
    assert tiers == sorted(tiers)
    assert set(tiers) == {Match.EXACT, Match.EXACT_BUT_CASE, Match.PATH, Match.START}


async def test_of_what_is_merely_alike_tests_come_last(index: Database):
    alike = [hit.is_test for hit in (await ask(index, "serve")).hits if hit.match.is_fuzzy]
    assert alike == sorted(alike)


async def test_what_policy_hides_is_neither_found_nor_counted(index: Database):
    answer = await ask(index, "serve", limit=200)
    assert not [name for name in names(answer) if name.startswith("keys/")]
    assert answer.more == 0


@pytest.mark.parametrize("text", ["readFile", "read_file", "ReadFile", "read file", "read-file", "READFILE"])
async def test_case_and_the_way_words_are_joined_do_not_matter(index: Database, text: str):
    assert names(await ask(index, text))[0] == "app/http.ts:readFile"


async def test_words_inside_a_name_are_found(index: Database):
    assert "app/http.ts:HTTPServer" in names(await ask(index, "http server"))
    assert names(await ask(index, "server"))[0] == "app/serve.py:Server"


@pytest.mark.parametrize(
    "text", ["Session.prompt", "Session::prompt", "Session#prompt", "session.py:prompt", "Session.prompt()"]
)
async def test_a_method_is_named_with_its_class_or_file(index: Database, text: str):
    answer = await ask(index, text)
    exact = [name for name, hit in zip(names(answer), answer.hits, strict=True) if hit.match.is_exact]
    assert exact == ["app/session.py:Session.prompt"]


async def test_words_may_be_spread_over_a_name_and_what_it_is_inside_of(index: Database):
    assert names(await ask(index, "session prompt"))[0] == "app/session.py:Session.prompt"
    assert names(await ask(index, "server close"))[0] == "app/serve.py:Server.close"


async def test_a_function_is_named_with_its_module(index: Database):
    assert names(await ask(index, "serve.serve"))[0] == "app/serve.py:serve"


async def test_a_path_or_its_end_finds_the_file(index: Database):
    assert names(await ask(index, "app/serve.py")) == ["app/serve.py"]
    assert names(await ask(index, "session.py"))[0] == "app/session.py"


@pytest.mark.parametrize("text", ["app/serve.py", "./app/serve.py"])
async def test_the_whole_path_of_a_file_is_an_exact_match(index: Database, text: str):
    assert [hit.match.is_exact for hit in (await ask(index, text)).hits] == [True]
    assert not any(hit.match.is_exact for hit in (await ask(index, "serve.py")).hits)


async def test_kinds_and_a_folder_narrow(index: Database):
    assert names(await ask(index, "serve", kinds=("file",), under="docs/")) == ["docs/serve.md"]
    assert {hit.symbol.kind for hit in (await ask(index, "serve", kinds=("class",))).hits if hit.symbol} == {"class"}
    assert names(await ask(index, "serve", kinds=("function",), under="tests/")) == ["tests/test_serve.py:serve_all"]


async def test_what_is_left_out_is_counted(index: Database):
    whole = await ask(index, "prompt", limit=50)
    first = await ask(index, "prompt", limit=1)
    assert len(first.hits) == 1
    assert first.more == len(whole.hits) - 1


async def test_a_slip_of_the_keys_is_forgiven_when_nothing_else_is_found(index: Database):
    answer = await ask(index, "Sesion")
    assert names(answer)[0] == "app/session.py:Session"
    assert answer.hits[0].match is Match.TYPO


async def test_nothing_is_found_for_what_is_not_there(index: Database):
    assert await ask(index, "zzzqqq") == FindAnswer(())


@given(st.text(max_size=30))
def test_any_text_has_parts_and_a_stem(text: str):
    assert all(qualified_parts(text))
    assert len(stem_of(text)) == 1
    name_under_test(text)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("tests/test_writer.py", "writer"),
        ("a/writer_test.go", "writer"),
        ("writer.test.ts", "writer"),
        ("WriterTest.java", "writer"),
        ("writer_spec.rb", "writer"),
        ("testing/writer.py", ""),
        ("latest.py", ""),
    ],
)
def test_what_a_test_is_named_after(path: str, name: str):
    assert name_under_test(path) == name
