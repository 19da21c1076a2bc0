"""The model server against the vendors' own clients: what they read proves that its format is the real one."""

import anthropic
import anyio
import google.genai
import openai
import pytest
from google.genai.types import Content

from pattern_acp.providers.scripted import ScriptStep, ScriptUsage
from tests.support.model_server import serve_models

STEPS = [
    ScriptStep(thinking="Hm.", signature="c2ln"),
    ScriptStep(text="Hello, wörld."),
    ScriptStep(tool="read_file", arguments={"path": "a"}),
    ScriptStep(tool="run_command", arguments={"command": "ls"}),
    ScriptStep(usage=ScriptUsage(7, 3, 20, 1)),
]


async def test_anthropics_client_reads_our_stream():
    with anyio.fail_after(30):
        async with (
            serve_models([STEPS]) as server,
            anthropic.AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0) as client,
            client.messages.stream(
                model="test-model", max_tokens=10, messages=[{"role": "user", "content": "Hi"}]
            ) as stream,
        ):
            message = await stream.get_final_message()
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
    last = message.content[-1]
    assert isinstance(last, anthropic.types.ToolUseBlock)
    assert (last.name, last.input) == ("run_command", {"command": "ls"})
    assert message.stop_reason == "tool_use"
    usage = message.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens) == (7, 3, 20)


async def test_openais_client_reads_our_stream():
    texts: list[str] = []
    arguments: dict[int, str] = {}
    with anyio.fail_after(30):
        async with (
            serve_models([STEPS]) as server,
            openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as client,
        ):
            stream = await client.chat.completions.create(
                model="test-model",
                messages=[{"role": "user", "content": "Hi"}],
                stream=True,
                stream_options={"include_usage": True},
            )
            chunks = [chunk async for chunk in stream]
    for choice in (choice for chunk in chunks for choice in chunk.choices):
        texts.append(choice.delta.content or "")
        for call in choice.delta.tool_calls or ():
            assert call.function is not None
            arguments[call.index] = arguments.get(call.index, "") + (call.function.arguments or "")
    assert "".join(texts) == "Hello, wörld."
    assert arguments == {0: '{"path":"a"}', 1: '{"command":"ls"}'}
    usage = chunks[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (28, 3)


async def test_openais_client_reads_our_responses_stream():
    with anyio.fail_after(30):
        async with (
            serve_models([STEPS]) as server,
            openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as client,
            client.responses.stream(model="test-model", input="Hi") as stream,
        ):
            response = await stream.get_final_response()
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call", "function_call"]
    assert response.output_text == "Hello, wörld."
    last = response.output[-1]
    assert last.type == "function_call"
    assert (last.name, last.arguments) == ("run_command", '{"command":"ls"}')
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.input_tokens_details.cached_tokens) == (28, 20)


async def test_googles_client_reads_our_stream():
    with anyio.fail_after(30):
        async with serve_models([STEPS]) as server:
            options = google.genai.types.HttpOptions(base_url=server.url)
            client = google.genai.Client(api_key="k", http_options=options)
            stream = await client.aio.models.generate_content_stream(model="test-model", contents="Hi")
            chunks = [chunk async for chunk in stream]
            await client.aio.aclose()
            client.close()
    parts = [
        part for chunk in chunks for item in chunk.candidates or () for part in (item.content or Content()).parts or ()
    ]
    assert "".join(part.text or "" for part in parts if not part.thought) == "Hello, wörld."
    calls = [part.function_call for part in parts if part.function_call is not None]
    assert [(call.name, call.args) for call in calls] == [
        ("read_file", {"path": "a"}),
        ("run_command", {"command": "ls"}),
    ]
    assert b"sig" in [part.thought_signature for part in parts]
    usage = chunks[-1].usage_metadata
    assert usage is not None
    assert (usage.prompt_token_count, usage.candidates_token_count, usage.cached_content_token_count) == (28, 3, 20)


async def test_the_vendors_clients_see_an_overload_in_the_stream():
    steps = [ScriptStep(text="So."), ScriptStep(error="overloaded", detail="busy")]
    with anyio.fail_after(30):
        async with serve_models([steps, steps]) as server:
            async with anthropic.AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0) as client:
                with pytest.raises(anthropic.APIStatusError, match="busy"):
                    async with client.messages.stream(
                        model="m", max_tokens=1, messages=[{"role": "user", "content": "Hi"}]
                    ) as stream:
                        await stream.get_final_message()
            async with openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as client:
                answer = await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
                )
                with pytest.raises(openai.APIError, match="busy"):
                    async for _ in answer:
                        pass
