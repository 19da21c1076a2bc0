"""What an answer that is no stream means, told by its status, code and words."""

import json

import pytest

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.providers import http_errors
from pattern_acp.providers.http_errors import error_of_event, error_of_status, parse_failure

SETTINGS = ProviderSettings("mine", "openai", "http://127.0.0.1:1")

TOO_LONG = {
    "OpenAI": "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
    "OpenAI Responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "OpenAI, a limit of the account": "Input tokens exceed the configured limit of 922000 tokens.",
    "Anthropic": "prompt is too long: 213000 tokens > 200000 maximum",
    "Anthropic with the answer": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    "Bedrock": "Input is too long for requested model.",
    "Bedrock Titan": "400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token count: 9000",
    "Gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "OpenRouter": "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens.",
    "Mistral": "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 max context length",
    "xAI": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Moonshot": "Invalid request: Your request exceeded model token limit: 131072",
    "z.ai": "Prompt exceeds max length",
    "DashScope": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
    "MiniMax": "invalid params, context window exceeds limit (2013)",
    "DeepSeek": "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens.",
    "Groq": "Please reduce the length of the messages or completion.",
    "Cohere": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000.",
    "Fireworks": "The prompt is too long: 140000, model maximum context length: 131071",
    "Together": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 8000 and 512",
    "SiliconFlow": "length of prompt_tokens (40000) must be less than max_seq_len (32768).",
    "DeepInfra": "Requested input length 40000 exceeds maximum input length 32767",
    "NIM": "Input length 9000 exceeds maximum allowed token size 8192",
    "watsonx": "the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model",
    "Databricks": "prompt token count (9000) cannot exceed 8192. Please reduce the length of your prompt.",
    "Copilot": "prompt token count of 140000 exceeds the limit of 128000",
    "llama-server": "the request exceeds the available context size. try increasing the context size",
    "Ollama": "input length exceeds maximum context length",
    "vLLM, old": "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
    "vLLM, prompt": "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
    "vLLM, tokens": "You passed 9001 input tokens; the maximum number of tokens is 8192.",
    "vLLM, answer": "'max_tokens' is too large: 4096. This model's maximum context length is 8192 tokens.",
    "SGLang": "Input length (9000 tokens) exceeds the maximum allowed length (8192 tokens).",
    "SGLang, model": "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
    "TGI": "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000",
    "LM Studio": "Trying to keep the first 5000 tokens when context the overflows. However, the model has 4096",
    "LM Studio, keep": "The number of tokens to keep from the initial prompt is greater than the context length.",
    "Qianfan": "prompt tokens too long",
    "Volcengine": "Total tokens of image and text exceed max message tokens.",
}

OTHERWISE = (
    "max_tokens is too large: 40000. This model supports at most 16384 completion tokens.",
    "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-opus-4",
    "`max_completion_tokens` must be less than or equal to `32768`, less than the `context_window` for this model",
    "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64.",
    "temperature must be between 0 and 2",
    "messages.0.content.1: image exceeds 5 MB maximum",
    "Unsupported parameter: 'max_tokens' is not supported with this model.",
    "Thinking budget_tokens must be less than max_tokens",
    "metadata: too many keys, maximum 16",
    "The requested model has no input tokens price configured",
)


def of(body: object, status: int = 400) -> http_errors.ProviderError:
    return error_of_status(SETTINGS, "m", status, json.dumps(body).encode())


@pytest.mark.parametrize("server", TOO_LONG)
def test_a_conversation_that_is_too_long_is_known_in_the_words_of_every_server(server: str):
    sentence = TOO_LONG[server]
    for body in (
        {"error": {"message": sentence, "type": "invalid_request_error"}},
        {"message": sentence},
        [{"error": {"message": sentence}}],
    ):
        assert isinstance(of(body), http_errors.ContextTooLongError)
        assert isinstance(of(body, 500), http_errors.ContextTooLongError)


@pytest.mark.parametrize("sentence", OTHERWISE)
def test_other_limits_are_no_conversation_that_is_too_long(sentence: str):
    assert type(of({"error": {"message": sentence}})) is http_errors.ProviderRequestError


@pytest.mark.parametrize(
    "error",
    [
        {"code": "context_length_exceeded", "message": "x"},
        {"code": "model_max_prompt_tokens_exceeded", "message": "x"},
        {"type": "exceed_context_size_error", "message": "x"},
        {"type": "request_too_large", "message": "Request exceeds the maximum size"},
        {"code": "string_above_max_length", "message": "x"},
        {"code": "1261", "message": "x"},
        {"code": 1261, "message": "x"},
    ],
)
def test_a_conversation_that_is_too_long_is_known_by_its_code(error: dict[str, object]):
    assert isinstance(of({"error": error}), http_errors.ContextTooLongError)


NESTED: tuple[tuple[object, str], ...] = (
    (
        {"error": {"message": "Provider returned error", "metadata": {"raw": '{"error":{"message":"Bad tool"}}'}}},
        "Bad tool.",
    ),
    ({"error": {"message": "Provider returned error", "metadata": {"raw": {"detail": "Bad tool"}}}}, "Bad tool."),
    ({"error": {"message": "Provider returned error", "metadata": {"raw": "Bad tool"}}}, "Bad tool."),
    ({"error": {"message": "Provider returned error", "metadata": {"provider_name": "X"}}}, "Provider returned error."),
    ([{"error": {"code": 400, "message": "Bad tool", "status": "INVALID_ARGUMENT"}}], "Bad tool."),
    ({"error": {"message": '{"error":{"code":400,"message":"Bad tool"}}', "code": 400}}, "Bad tool."),
    ({"error": {"message": [{"message": "Bad tool"}]}}, "Bad tool."),
    ({"error": {"error": {"message": "Bad tool"}}}, "Bad tool."),
    ({"error": '{"message":"Bad tool"}'}, "Bad tool."),
    ({"error": ["Bad tool", "Bad name"]}, "Bad tool; Bad name."),
    (
        {"detail": [{"loc": ["body", "messages", 0], "msg": "field required", "type": "missing"}]},
        "body.messages.0: field required.",
    ),
    ({"detail": [{"loc": ["body"], "msg": "One."}, {"msg": "Two."}]}, "body: One; Two."),
    ({"detail": {"error": {"message": "Bad tool"}}}, "Bad tool."),
    ({"errors": [{"code": 7003, "message": "Bad tool"}], "success": False}, "Bad tool."),
    ({"Message": "Bad tool"}, "Bad tool."),
    ({"object": "error", "message": {"detail": [{"msg": "Bad tool"}]}}, "Bad tool."),
    ({"error": "invalid_request", "error_description": "Bad tool"}, "invalid_request."),
)


@pytest.mark.parametrize(("body", "reason"), NESTED)
def test_the_reason_is_found_wherever_a_gateway_puts_it(body: object, reason: str):
    error = of(body)
    assert type(error) is http_errors.ProviderRequestError
    assert str(error) == f"mine refused the request: {reason}"


def test_the_reason_of_the_server_behind_a_gateway_has_its_meaning():
    raw = json.dumps({"error": {"message": "prompt is too long"}})
    body = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}}
    assert isinstance(of(body), http_errors.ContextTooLongError)
    failure = parse_failure(json.dumps(body).encode())
    assert failure is not None
    assert isinstance(error_of_event(SETTINGS, "m", failure), http_errors.ContextTooLongError)
    key = [{"error": {"code": 400, "message": "API key not valid", "details": [{"reason": "API_KEY_INVALID"}]}}]
    assert isinstance(of(key), http_errors.ProviderAuthError)


def test_a_reason_that_comes_late_in_a_long_message_counts():
    body = {"error": {"message": "litellm.BadRequestError: " + "x" * 500 + " maximum context length is 8192 tokens"}}
    assert isinstance(of(body), http_errors.ContextTooLongError)


def test_a_body_that_is_nested_deeper_than_anyone_writes_is_read_as_far_as_it_is_worth():
    deep: object = {"message": "Bad tool"}
    for _ in range(50):
        deep = {"error": deep}
    assert "mine refused the request" in str(of(deep))


@pytest.mark.parametrize("status", [413, 429])
def test_one_request_that_is_more_than_a_minute_allows_is_not_sent_again_unchanged(status: int):
    sentence = "Request too large for gpt-x on tokens per min (TPM): Limit 30000, Requested 40000."
    error = of({"error": {"message": sentence, "type": "tokens", "code": "rate_limit_exceeded"}}, status)
    assert isinstance(error, http_errors.ContextTooLongError)
    assert "larger than mine takes at once" in str(error)


def test_a_rate_that_is_used_up_is_still_waited_for():
    sentence = "Rate limit reached for gpt-x on tokens per min (TPM): Limit 30000, Used 29000, Requested 4000."
    error = of({"error": {"message": sentence, "code": "rate_limit_exceeded"}}, 429)
    assert isinstance(error, http_errors.ProviderOverloadedError)
