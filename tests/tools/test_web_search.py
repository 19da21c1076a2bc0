"""The tool web_search against each vendor's form of answer, on loopback."""

import json
from pathlib import Path

import pytest

from pattern_acp.config.settings import SearchSettings
from pattern_acp.domain.access import FetchUrl, Origin
from pattern_acp.domain.canonical import Json
from pattern_acp.tools.base import ToolFailedError
from pattern_acp.tools.registry import default_tools
from pattern_acp.tools.web_search import WebSearch
from pattern_acp.web import VENDORS, WebSearcher, key_owner, what_is_missing
from tests.support.tools import tool_bench
from tests.support.web_server import Answer, web_server

BRAVE: Json = {
    "type": "search",
    "query": {"original": "anyio"},
    "web": {
        "type": "search",
        "results": [
            {
                "title": "AnyIO",
                "url": "https://anyio.readthedocs.io/",
                "description": "High level <b>async</b>.",
                "age": "May 1, 2026",
                "meta_url": {"hostname": "anyio.readthedocs.io"},
            },
            {"title": "no address"},
        ],
    },
}
TAVILY: Json = {
    "query": "anyio",
    "answer": None,
    "results": [{"title": "AnyIO", "url": "https://a.example/", "content": "High level async.", "score": 0.99}],
    "response_time": 1.1,
}
EXA: Json = {
    "requestId": "x",
    "results": [
        {
            "title": "AnyIO",
            "url": "https://a.example/",
            "publishedDate": "2026-05-01T00:00:00.000Z",
            "author": None,
            "id": "https://a.example/",
            "text": "High level async.",
        }
    ],
}
SEARXNG: Json = {
    "query": "anyio",
    "number_of_results": 0,
    "results": [
        {
            "url": "https://a.example/",
            "title": "AnyIO",
            "content": "High level async.",
            "publishedDate": None,
            "engine": "duckduckgo",
            "score": 1.0,
        }
    ],
    "unresponsive_engines": [],
}


async def secret() -> str:
    return "secret"


@pytest.mark.parametrize(
    ("vendor", "path", "answer", "sent", "told"),
    [
        (
            "brave",
            "/res/v1/web/search?q=any+io&count=10&text_decorations=false",
            BRAVE,
            "x-subscription-token: secret",
            "AnyIO | May 1, 2026 | https://anyio.readthedocs.io/\nHigh level <b>async</b>.",
        ),
        ("tavily", "/search", TAVILY, "authorization: bearer secret", "AnyIO | https://a.example/\nHigh level async."),
        (
            "exa",
            "/search",
            EXA,
            "x-api-key: secret",
            "AnyIO | 2026-05-01T00:00:00.000Z | https://a.example/\nHigh level async.",
        ),
        (
            "searxng",
            "/search?q=any+io&format=json",
            SEARXNG,
            "accept: application/json",
            "AnyIO | https://a.example/\nHigh level async.",
        ),
    ],
)
async def test_results_of_each_vendor_are_data_of_the_web(
    tmp_path: Path, vendor: str, path: str, answer: Json, sent: str, told: str
):
    body = json.dumps(answer).encode()
    async with web_server({path: Answer(body, "application/json")}) as server:
        tool = WebSearch(WebSearcher(vendor, secret, server.url("")))
        bench = tool_bench(tmp_path)
        (access,) = (await bench.prepare(tool, query="any io")).accesses
        assert access == FetchUrl(f"127.0.0.1:{server.port}", server.url(""))
        outcome = await bench.call(tool, query="any io")
        assert (outcome.text, outcome.origin) == (told, Origin.WEB)
        assert sent in server.asked[0].lower()


@pytest.mark.parametrize(
    ("status", "why"), [(401, "its key is wrong"), (429, "its limit is reached"), (500, "status 500")]
)
async def test_a_refusal_is_a_sentence_without_the_key(tmp_path: Path, status: int, why: str):
    async with web_server({"/search": Answer(b"{}", "application/json", status)}) as server:
        tool = WebSearch(WebSearcher("tavily", secret, server.url("")))
        with pytest.raises(ToolFailedError, match=why) as caught:
            await tool_bench(tmp_path).call(tool, query="x")
        assert "secret" not in caught.value.sentence
        assert "the user" not in caught.value.sentence
        assert caught.value.for_model.endswith("Tell the user.")


async def test_an_answer_of_another_form_has_no_results(tmp_path: Path):
    async with web_server({"/search": Answer(b'{"results": {"a": 1}}', "application/json")}) as server:
        tool = WebSearch(WebSearcher("tavily", secret, server.url("")))
        assert (await tool_bench(tmp_path).call(tool, query="x")).text == "Nothing was found; try other words."


@pytest.mark.parametrize(
    ("provider", "url", "has_key", "is_missing"),
    [
        ("brave", "", False, "Run `pattern-acp auth login brave`, or set BRAVE_API_KEY."),
        ("brave", "", True, ""),
        ("searxng", "", False, "Set search.url to the address of the server."),
        ("searxng", "http://127.0.0.1:8888", False, ""),
    ],
)
def test_what_a_vendor_still_needs_is_said(provider: str, url: str, *, has_key: bool, is_missing: str):
    assert what_is_missing(SearchSettings(provider, url), has_key=has_key) == is_missing


def test_every_vendor_with_a_key_has_a_variable_of_it():
    owners = [key_owner(name, {"EXA_API_KEY": " k "}) for name in VENDORS]
    assert [(owner.api_key_env, owner.api_key is not None) for owner in owners if owner is not None] == [
        ("BRAVE_API_KEY", False),
        ("TAVILY_API_KEY", False),
        ("EXA_API_KEY", True),
    ]


def test_it_is_offered_only_where_it_is_set_up():
    for searcher in (None, WebSearcher("brave", secret)):
        names = [tool.spec.name for tool in default_tools(searcher=searcher)]
        assert ("web_search" in names) is (searcher is not None)
