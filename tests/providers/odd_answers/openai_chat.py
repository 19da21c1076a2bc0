"""Odd answers on the wire of Chat Completions."""

import json
from collections.abc import Mapping

from tests.providers.odd_answers import Odd, sse

DONE = "[DONE]"
READ = ("read_file", {"path": "a"})
ARGS = '{"path":"a"}'


def delta(**fields: object) -> dict[str, object]:
    """A chunk."""
    return {"choices": [{"index": 0, "delta": fields}]}


def text(words: str) -> dict[str, object]:
    """A chunk of text."""
    return delta(content=words)


def end(reason: object = "stop", **fields: object) -> dict[str, object]:
    """The last chunk."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}


def call(arguments: object = ARGS, name: object = "read_file", **fields: object) -> dict[str, object]:
    """A chunk with a whole call."""
    whole = {"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}, **fields}
    return delta(tool_calls=[whole])


def calls(*each: object) -> dict[str, object]:
    """A chunk with parts of calls."""
    return delta(tool_calls=list(each))


def whole(message: Mapping[str, object], reason: str = "stop") -> dict[str, object]:
    """An answer that is no stream."""
    return {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2},
    }


FUNCTION = {"name": "read_file", "arguments": ARGS}
JSON = "application/json"

ODD = {
    "plain": Odd(sse(text("Hi."), end(), DONE), "Hi."),
    "done is missing": Odd(sse(text("Hi."), end()), "Hi."),
    "done without a finish reason": Odd(sse(text("Hi."), DONE), "Hi."),
    "done with blanks": Odd(sse(text("Hi."), end(), " [DONE] "), "Hi."),
    "more behind done": Odd(sse(text("Hi."), end(), DONE, text("No.")), "Hi."),
    "a stop in each chunk": Odd(sse(end("stop", content="One "), end("stop", content="two.")), "One two."),
    "a call behind the stop": Odd(sse(text("Hi."), end(), call()), "Hi.", calls=(READ,), stop="tool_calls"),
    "stop behind a call": Odd(sse(call(), end("stop"), DONE), calls=(READ,), stop="tool_calls"),
    "an empty finish reason": Odd(sse(text("Hi."), end(""), DONE), "Hi."),
    "null as a word": Odd(sse(end("null", content="Hi."), DONE), "Hi."),
    "eos": Odd(sse(text("Hi."), end("eos")), "Hi."),
    "a finish reason of Gemini": Odd(sse(text("Hi."), end("MAX_TOKENS")), "Hi.", stop="max_tokens"),
    "an error as reason": Odd(sse(text("Hi."), end("error")), "Hi.", stop="interrupted"),
    "a call before an error": Odd(sse(call(), end("error")), stop="interrupted"),
    "an error as reason at once": Odd(sse(end("error")), failed="ProviderOverloadedError"),
    "filtered": Odd(sse(text("Hi."), end("content_filter")), "Hi.", stop="content_filter"),
    "usage behind the end": Odd(
        sse(text("Hi."), end(), {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}, DONE),
        "Hi.",
        usage=(7, 2),
    ),
    "usage in each chunk": Odd(
        sse(
            {**text("Hi."), "usage": {"prompt_tokens": 7, "completion_tokens": 1}},
            {**end(), "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
        ),
        "Hi.",
        usage=(7, 2),
    ),
    "usage as text": Odd(
        sse(text("Hi."), {**end(), "usage": {"prompt_tokens": "7", "completion_tokens": "2"}}), "Hi.", usage=(7, 2)
    ),
    "usage null": Odd(sse({**text("Hi."), "usage": None}, {**end(), "usage": None}), "Hi."),
    "usage that is a list": Odd(sse(text("Hi."), {**end(), "usage": []}), "Hi."),
    "null everywhere": Odd(
        sse(
            {
                "id": None,
                "choices": [
                    {
                        "index": None,
                        "delta": {
                            "role": None,
                            "content": "Hi.",
                            "tool_calls": None,
                            "refusal": None,
                            "reasoning": None,
                        },
                        "finish_reason": None,
                        "logprobs": None,
                    }
                ],
                "usage": None,
                "error": None,
            },
            end(),
        ),
        "Hi.",
    ),
    "a null delta": Odd(sse({"choices": [{"delta": None}]}, text("Hi."), end()), "Hi."),
    "null choices": Odd(sse({"choices": None}, text("Hi."), end()), "Hi."),
    "a null among choices": Odd(sse({"choices": [None]}, text("Hi."), end()), "Hi."),
    "null data": Odd(sse("null", text("Hi."), "null", end()), "Hi."),
    "no data": Odd("data:\n\n" + sse(text("Hi.")) + "data: \n\n" + sse(end()), "Hi."),
    "comments": Odd(": OPENROUTER PROCESSING\n\n" + sse(text("Hi.")) + ": keep-alive\n\n" + sse(end(), DONE), "Hi."),
    "pings": Odd("event: ping\ndata: {}\n\n" + sse(text("Hi."), end()), "Hi."),
    "no blank after the colon": Odd(
        f"data:{json.dumps(text('Hi.'))}\n\ndata:{json.dumps(end())}\n\ndata:[DONE]\n\n", "Hi."
    ),
    "carriage returns": Odd(sse(text("Hi."), end(), DONE).replace("\n", "\r\n"), "Hi."),
    "only carriage returns": Odd(sse(text("Hi."), end(), DONE).replace("\n", "\r"), "Hi."),
    "a byte order mark": Odd("\ufeff" + sse(text("Hi."), end()), "Hi."),
    "no end of the last line": Odd(sse(text("Hi."), end()).rstrip("\n"), "Hi."),
    "choices is one object": Odd(sse({"choices": {"index": 0, "delta": {"content": "Hi."}}}, end()), "Hi."),
    "text in parts": Odd(sse(delta(content=[{"type": "text", "text": "Hi."}]), end()), "Hi."),
    "text as one part": Odd(sse(delta(content={"type": "text", "text": "Hi."}), end()), "Hi."),
    "parts of thought": Odd(
        sse(delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]), text("Hi."), end()),
        "Hi.",
        "Hm.",
    ),
    "reasoning under both names": Odd(
        sse(delta(reasoning="Hm.", reasoning_content="Hm."), text("Hi."), end()), "Hi.", "Hm."
    ),
    "reasoning as a list": Odd(
        sse(delta(reasoning=[{"type": "summary", "text": "Hm."}]), text("Hi."), end()), "Hi.", "Hm."
    ),
    "reasoning as an object": Odd(sse(delta(reasoning_content={"content": "Hm."}), text("Hi."), end()), "Hi.", "Hm."),
    "think in the text": Odd(sse(text("<think>\nHm.\n</think>\n\nHi."), end()), "Hi.", "Hm."),
    "think in pieces": Odd(
        sse(*map(text, ["<", "thi", "nk>", "Hm", ".", "</", "think", ">", "\n", "Hi."]), end()), "Hi.", "Hm."
    ),
    "think twice": Odd(sse(text("<think>A</think>\n<think>B</think>Hi."), end()), "Hi.", "AB"),
    "think before a call": Odd(
        sse(text("<think>Hm.</think>"), call(), end("tool_calls")), "", "Hm.", (READ,), "tool_calls"
    ),
    "think of Magistral": Odd(sse(text("[THINK]Hm.[/THINK]Hi."), end()), "Hi.", "Hm."),
    "the end of a thought alone": Odd(
        sse(delta(reasoning_content="Hm."), text("</think>\n\nHi."), end()), "Hi.", "Hm."
    ),
    "a thought alone": Odd(sse(text("<think>Hm.</think>"), end()), "", "Hm.", failed="EmptyAnswerError"),
    "think in the middle": Odd(
        sse(text("Write `<think>` and "), text("<think>x</think>."), end()), "Write `<think>` and <think>x</think>."
    ),
    "think in a fence": Odd(sse(text("```\n<think>x</think>\n```"), end()), "```\n<think>x</think>\n```"),
    "no think after all": Odd(sse(text("<thi"), text("s> is a tag."), end()), "<this> is a tag."),
    "half an emoji": Odd(
        sse('{"choices":[{"delta":{"content":"a\\ud83d"}}]}', '{"choices":[{"delta":{"content":"\\ude00b"}}]}', end()),
        "a\U0001f600b",
    ),
    "half an emoji alone": Odd(sse('{"choices":[{"delta":{"content":"a\\ud83d"}}]}', end()), "a\ufffd"),
    "half an emoji in arguments": Odd(
        sse(
            '{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":'
            '{"name":"read_file","arguments":"{\\"path\\":\\"\\ud83d"}}]}}]}',
            '{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\\ude00\\"}"}}]}}]}',
            end("tool_calls"),
        ),
        calls=(("read_file", {"path": "\U0001f600"}),),
        stop="tool_calls",
    ),
    "arguments as an object": Odd(sse(call({"path": "a"}), end("tool_calls")), calls=(READ,), stop="tool_calls"),
    "arguments twice": Odd(sse(call(ARGS + ARGS), end("tool_calls")), calls=(READ,), stop="tool_calls"),
    "an empty object first": Odd(
        sse(call("{}"), calls({"index": 0, "function": {"arguments": ARGS}}), end("tool_calls")),
        calls=(READ,),
        stop="tool_calls",
    ),
    "arguments with a tail": Odd(
        sse(call(ARGS + "}\n</tool_call>"), end("tool_calls")), calls=(READ,), stop="tool_calls"
    ),
    "arguments of Python": Odd(
        sse(call("{'path': 'a', 'line': None}"), end("tool_calls")),
        calls=(("read_file", {"path": "a", "line": None}),),
        stop="tool_calls",
    ),
    "arguments null": Odd(sse(call(None), end("tool_calls")), calls=(("read_file", {}),), stop="tool_calls"),
    "arguments in letters": Odd(
        sse(call(""), *[calls({"index": 0, "function": {"arguments": letter}}) for letter in ARGS], end("tool_calls")),
        calls=(READ,),
        stop="tool_calls",
    ),
    "the name twice": Odd(
        sse(
            call(""),
            calls({"index": 0, "id": "c1", "function": {"name": "read_file", "arguments": ARGS}}),
            end("tool_calls"),
        ),
        calls=(READ,),
        stop="tool_calls",
    ),
    "no id": Odd(sse(call(id=None), end("tool_calls")), calls=(READ,), stop="tool_calls"),
    "an id that is a number": Odd(sse(call(id=17), end("tool_calls")), calls=(READ,), stop="tool_calls"),
    "an index as text": Odd(sse(call(index="0"), end("tool_calls")), calls=(READ,), stop="tool_calls"),
    "an index as a fraction": Odd(sse(call(index=0.0), end("tool_calls")), calls=(READ,), stop="tool_calls"),
    "no index": Odd(
        sse(calls({"id": "c1", "function": FUNCTION}), calls({"id": "c2", "function": FUNCTION}), end("tool_calls")),
        calls=(READ, READ),
        stop="tool_calls",
    ),
    "index 0 for two": Odd(
        sse(
            calls({"index": 0, "id": "c1", "function": FUNCTION}, {"index": 0, "id": "c2", "function": FUNCTION}), end()
        ),
        calls=(READ, READ),
        stop="tool_calls",
    ),
    "one id for two": Odd(
        sse(calls({"index": 0, "id": "c", "function": FUNCTION}, {"index": 1, "id": "c", "function": FUNCTION}), end()),
        calls=(READ, READ),
        stop="tool_calls",
    ),
    "calls is one object": Odd(
        sse(delta(tool_calls={"index": 0, "id": "c1", "function": FUNCTION}), end()), calls=(READ,), stop="tool_calls"
    ),
    "a null among calls": Odd(sse(delta(tool_calls=[None]), call(), end()), calls=(READ,), stop="tool_calls"),
    "no calls": Odd(sse(delta(content="Hi.", tool_calls=[]), end()), "Hi."),
    "an empty object as calls": Odd(sse(delta(content="Hi.", tool_calls={}), end()), "Hi."),
    "the old function_call": Odd(
        sse(delta(function_call={"name": "read_file", "arguments": ARGS}), end("function_call")),
        calls=(READ,),
        stop="tool_calls",
    ),
    "text beside calls": Odd(
        sse(text("I look."), call(), end("tool_calls")), "I look.", calls=(READ,), stop="tool_calls"
    ),
    "whole in the stream": Odd(sse(whole({"content": "Hi."}), DONE), "Hi.", usage=(7, 2)),
    "whole": Odd(json.dumps(whole({"role": "assistant", "content": "Hi."})), "Hi.", content_type=JSON, usage=(7, 2)),
    "whole with a call": Odd(
        json.dumps(
            whole(
                {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": FUNCTION}]}, "tool_calls"
            ),
            indent=1,
        ),
        calls=(READ,),
        stop="tool_calls",
        content_type=JSON,
    ),
    "whole as an event stream": Odd("\n" + json.dumps(whole({"content": "Hi."})), "Hi."),
    "a stream called JSON": Odd(sse(text("Hi."), end(), DONE), "Hi.", content_type=JSON),
    "a stream called text": Odd(sse(text("Hi."), end(), DONE), "Hi.", content_type="text/plain; charset=utf-8"),
    "a stream without a type": Odd(sse(text("Hi."), end(), DONE), "Hi.", content_type=""),
    "lines of JSON": Odd(
        "".join(json.dumps(each) + "\n" for each in (text("Hi."), end())), "Hi.", content_type="application/x-ndjson"
    ),
    "an error as JSON": Odd(
        '{"error":{"message":"Bad tool","type":"invalid_request_error"}}',
        failed="ProviderRequestError",
        content_type=JSON,
    ),
    "an error in a list": Odd(
        '[{"error":{"code":503,"message":"Overloaded"}}]', failed="ProviderOverloadedError", content_type=JSON
    ),
    "JSON of something else": Odd('{"hello":"there"}', failed="ProviderProtocolError", content_type=JSON),
    "a web page": Odd("<html>Sign in</html>", failed="ProviderProtocolError", content_type="text/html"),
    "an error event": Odd(sse({"error": {"message": "Overloaded", "code": 503}}), failed="ProviderOverloadedError"),
    "an error event behind text": Odd(
        sse(text("Hi."), {"error": {"message": "Overloaded", "code": 503}}), "Hi.", stop="interrupted"
    ),
    "an error in the choice": Odd(
        sse(text("Hi."), {"choices": [{"delta": {}, "error": {"code": 502, "message": "Gone"}}]}),
        "Hi.",
        stop="interrupted",
    ),
    "too long in the stream": Odd(
        sse({"error": {"message": "prompt is too long", "code": 400}}), failed="ContextTooLongError"
    ),
    "too long with status 400": Odd(
        '{"error":{"message":"Prompt exceeds max length"}}', failed="ContextTooLongError", status=400, content_type=JSON
    ),
    "a nested reason": Odd(
        '{"error":{"message":"Provider returned error","metadata":'
        '{"raw":"{\\"error\\":{\\"message\\":\\"prompt is too long\\"}}"}}}',
        failed="ContextTooLongError",
        status=400,
        content_type=JSON,
    ),
    "cut before the end": Odd(sse(text("Hi.")), "Hi.", stop="interrupted"),
    "cut before anything": Odd("", failed="ProviderConnectionError"),
    "blanks alone": Odd(sse(text(" \n"), end()), failed="EmptyAnswerError"),
    "nothing": Odd(sse(end(), DONE), failed="EmptyAnswerError"),
    "no JSON": Odd(sse("{broken"), failed="ProviderProtocolError"),
    "a refusal": Odd(sse(delta(refusal="I will not."), end()), "I will not.", stop="refusal"),
    "many choices": Odd(
        sse({"choices": [{"index": 0, "delta": {"content": "Hi."}}, {"index": 1, "delta": {"content": "Ho."}}]}, end()),
        "Hi.",
    ),
}
