"""Our Chat Completions wire, the actions as text and a whole turn, against llama.cpp's server and a real model.

Optional: skipped without the two packages of requirements.txt. What so small a model says is not judged, only that it
is carried.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.messages import Message
from pattern_acp.journal.events import UsageReported
from pattern_acp.providers.base import (
    ProviderEvent,
    ProviderRequest,
    ProviderStop,
    Stopped,
    TextDelta,
    ToolCallBegun,
    ToolCallFragment,
    UsageKnown,
)
from pattern_acp.providers.catalogue import describe
from pattern_acp.providers.discovery import fetch_models
from pattern_acp.providers.http import HttpClient
from pattern_acp.providers.http_errors import ContextTooLongError
from pattern_acp.providers.rate_limiter import RateLimiters
from pattern_acp.providers.registry import build_wire
from pattern_acp.providers.retry import RetryPolicy
from pattern_acp.providers.streaming import WireProvider
from tests.support.conversations import READ_FILE, assistant, call, result, results, user
from tests.support.local_model import (
    MODEL_NAME,
    MODEL_SHA256,
    WINDOW,
    Front,
    checksum,
    in_front_of,
    model_path,
    serve_local_model,
)
from tests.support.model_server import real_http
from tests.support.process import AgentProcess, Launch, read_events, running_process
from tests.support.turns import of_type

FILE = model_path()

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(FILE is None, reason="the packages of tests/local_model/requirements.txt are not installed"),
    pytest.mark.timeout(300),
]

READ = {"type": "function", "function": {"name": "read_file"}}

FORMS = {
    "action": "I look.\n/read_file path=a.txt",
    "Hermes": 'I look.\n<tool_call>\n{"name": "read_file", "arguments": {"path": "a.txt"}}\n</tool_call>',
}
"""A call as a model writes it whose server has no place for calls."""


@pytest.fixture(scope="module")
async def server() -> AsyncGenerator[str, None]:
    async with serve_local_model() as url:
        yield url


@dataclass(frozen=True, slots=True)
class Answer:
    events: list[ProviderEvent]

    @property
    def texts(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, TextDelta)]

    @property
    def usage(self) -> UsageKnown:
        (known,) = (event for event in self.events if isinstance(event, UsageKnown))
        return known

    @property
    def stop(self) -> ProviderStop:
        assert isinstance(self.events[-1], Stopped)
        return self.events[-1].reason

    @property
    def calls(self) -> list[tuple[str, str]]:
        begun = [event for event in self.events if isinstance(event, ToolCallBegun)]
        pieces = [event for event in self.events if isinstance(event, ToolCallFragment)]
        return [(e.name, "".join(piece.text for piece in pieces if piece.index == e.index)) for e in begun]


def settings_for(url: str) -> ProviderSettings:
    return ProviderSettings("mine", "openai", f"{url}/v1", configured=True)


def asked(*messages: Message, limit: int = 60) -> ProviderRequest:
    return ProviderRequest(MODEL_NAME, "Answer in a few words.", (), messages, max_output_tokens=limit)


async def ask(url: str, request: ProviderRequest) -> Answer:
    settings = settings_for(url)
    async with real_http() as http:

        async def the_client() -> HttpClient:
            return http

        wire = build_wire(settings, partial(describe, "mine"))
        buckets = RateLimiters(SystemClock())
        provider = WireProvider(settings, wire, the_client, RetryPolicy(), buckets, needs_key=False)
        async with provider.stream(request) as events:
            return Answer([event async for event in events])


def test_the_model_is_the_one_that_these_tests_were_written_for():
    assert FILE is not None
    assert checksum(FILE) == MODEL_SHA256


async def test_an_answer_streams_and_its_tokens_are_counted(server: str):
    answer = await ask(server, asked(user("What is the capital of France?")))
    assert "Paris" in "".join(answer.texts)
    assert len(answer.texts) > 3
    assert answer.stop is ProviderStop.END
    counts = answer.usage.usage
    assert 10 < counts.input_tokens + counts.cache_read_tokens < 60
    # The stop itself is a token; some come without text.
    assert 0 <= counts.output_tokens - len(answer.texts) <= 2


async def test_an_answer_at_its_limit_of_tokens_says_so(server: str):
    answer = await ask(server, asked(user("Write a long story about a king."), limit=5))
    assert answer.stop is ProviderStop.MAX_TOKENS
    assert answer.usage.usage.output_tokens == 5


async def test_the_next_request_of_a_conversation_finds_the_last_one_in_the_cache(server: str):
    """So that the bytes of a conversation's beginning stay what they were."""
    begin = user("My cat is called Minka. " * 10)
    await ask(server, asked(begin, limit=1))
    answer = await ask(server, asked(begin, assistant("Good."), user("What is it called?", number=2), limit=1))
    assert answer.usage.usage.cache_read_tokens > 50


async def test_a_call_that_the_server_forces_by_its_grammar_arrives_and_its_result_goes_back(server: str):
    request = replace(asked(user("Read a.txt")), tools=(READ_FILE,))
    async with in_front_of(server) as front:
        front.fields.append({"tool_choice": READ})
        answer = await ask(front.url, request)
    ((name, arguments),) = answer.calls
    assert (name, json.loads(arguments)["path"]) == ("read_file", "a.txt")
    assert answer.stop is ProviderStop.TOOL_CALLS
    history = (user("Read a.txt"), assistant(call("c", "read_file", arguments)), results(result("c", "Good night.")))
    second = await ask(server, replace(request, messages=history))
    assert second.usage.usage.input_tokens > 0
    assert second.texts or second.calls


async def test_a_conversation_that_is_too_long_is_known_as_such(server: str):
    with pytest.raises(ContextTooLongError):
        await ask(server, asked(user("word " * (WINDOW + 100))))


async def test_the_list_tells_the_window_and_whether_tools_reach_the_model(server: str):
    async with real_http() as http, serve_local_model(tools=False) as bare:
        (listed,) = await fetch_models(http, settings_for(server))
        assert (listed.name, listed.context_window, listed.calls_tools) == (MODEL_NAME, WINDOW, True)
        (listed,) = await fetch_models(http, settings_for(bare))
        assert listed.calls_tools is False


@asynccontextmanager
async def agent_before(front: Front, folder: Path) -> AsyncGenerator[tuple[AgentProcess, str], None]:
    """The real process with a session in a folder that holds a file."""
    home, work = folder / "home", folder / "work"
    home.mkdir()
    work.mkdir()
    (work / "a.txt").write_text("Good night.\n", encoding="utf-8")
    (home / "config.toml").write_text(f'[providers.mine]\nbase_url = "{front.url}/v1"\n', encoding="utf-8")
    launch = Launch(home, (), {"PATTERN_ACP_MODEL": f"mine/{MODEL_NAME}"})
    async with running_process(launch) as agent:
        session = await agent.editor.open_session(str(work))
        with anyio.fail_after(30):
            await front.listed.wait()
        yield agent, session
        await agent.close_input()
        assert await agent.wait() == 0


@pytest.mark.parametrize("written", FORMS.values(), ids=FORMS)
async def test_a_whole_turn_of_the_real_agent_with_a_model_whose_template_has_no_tools(tmp_path: Path, written: str):
    """It learns from the server that its calls have to be text; the grammar has the model write one."""
    async with (
        serve_local_model(tools=False) as bare,
        in_front_of(bare) as front,
        agent_before(front, tmp_path) as (agent, session),
    ):
        front.fields += [
            {"grammar": f"root ::= {json.dumps(written)}"},
            {"grammar": 'root ::= "It says good night."'},
        ]
        assert await agent.editor.prompt(session, "Read a.txt", deadline=200) == {"stopReason": "end_turn"}
        (shown,) = agent.editor.of_kind("tool_call")
        assert shown["rawInput"] == {"path": "a.txt"}
        # The notice that the small window leaves out tools comes before the answer that it is about.
        before, _, after = agent.editor.said().partition("It says good night.")
        assert before.startswith("I look.\n")
        assert "window of 4,096 tokens" in before
        assert after.strip() == ""
    first, second = front.bodies
    assert "tools" not in first
    # This model was trained on that form, so it is offered it.
    assert "<tool_call>" in json.dumps(first)
    assert "Good night." in json.dumps(second)
    events = await read_events(agent.constellation, session)
    counts = [event.usage for event in of_type(events, UsageReported)]
    assert len(counts) == 2
    # The second request begins with the first one, and the server reads only what is new.
    assert counts[1].cache_read_tokens > counts[0].input_tokens // 2
