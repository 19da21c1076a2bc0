"""Odd answers on the wire of Gemini's `generateContent`."""

import json

from tests.providers.odd_answers import Odd, sse

READ = ("read_file", {"path": "a"})
JSON = "application/json"
USAGE: dict[str, object] = {"promptTokenCount": 7, "candidatesTokenCount": 2}


def chunk(*parts: object, reason: object = None, **fields: object) -> dict[str, object]:
    """A chunk of the first candidate."""
    candidate: dict[str, object] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if reason is not None:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], **fields}


def text(words: str = "Hi.", **fields: object) -> dict[str, object]:
    """A part of text."""
    return {"text": words, **fields}


def call(args: object = None, name: object = "read_file", **fields: object) -> dict[str, object]:
    """A part with a call."""
    return {"functionCall": {"name": name, "args": {"path": "a"} if args is None else args, **fields}}


def end(reason: object = "STOP", **fields: object) -> dict[str, object]:
    """A chunk with the reason alone."""
    return {"candidates": [{"finishReason": reason, "index": 0}], **fields}


THOUGHT = {"text": "Hm.", "thought": True}

ODD = {
    "plain": Odd(sse(chunk(text(), reason="STOP", usageMetadata=USAGE)), "Hi.", usage=(7, 2)),
    "done behind it": Odd(sse(chunk(text(), reason="STOP"), "[DONE]"), "Hi."),
    "done behind a call": Odd(sse(chunk(call(), reason="STOP"), "[DONE]"), calls=(READ,), stop="tool_calls"),
    "done without a reason": Odd(sse(chunk(text()), "[DONE]"), "Hi."),
    "the reason in a chunk of its own": Odd(sse(chunk(text()), end()), "Hi."),
    "a reason in each chunk": Odd(
        sse(*[chunk(text(words), reason="STOP", usageMetadata=USAGE) for words in ("One ", "two ", "three")]),
        "One two three",
        usage=(7, 2),
    ),
    "an empty first chunk that stops": Odd(
        sse(chunk(text(""), reason="STOP", usageMetadata=USAGE), chunk(text(), reason="STOP")), "Hi."
    ),
    "a call behind the stop": Odd(
        sse(chunk(text(), reason="STOP", usageMetadata=USAGE), chunk(call(), reason="STOP")),
        "Hi.",
        calls=(READ,),
        stop="tool_calls",
    ),
    "usage at the end alone": Odd(sse(chunk(text()), end(), {"usageMetadata": USAGE}), "Hi.", usage=(7, 2)),
    "usage in each chunk": Odd(
        sse(chunk(text(), usageMetadata={"promptTokenCount": 7}), end(usageMetadata=USAGE)), "Hi.", usage=(7, 2)
    ),
    "usage as text": Odd(
        sse(chunk(text(), reason="STOP", usageMetadata={"promptTokenCount": "7", "candidatesTokenCount": "2"})),
        "Hi.",
        usage=(7, 2),
    ),
    "usage null": Odd(sse(chunk(text(), reason="STOP", usageMetadata=None)), "Hi."),
    "usage that is a list": Odd(sse(chunk(text(), reason="STOP", usageMetadata=[])), "Hi."),
    "null parts": Odd(sse({"candidates": [{"content": {"parts": None}}]}, chunk(text(), reason="STOP")), "Hi."),
    "null content": Odd(sse({"candidates": [{"content": None}]}, chunk(text(), reason="STOP")), "Hi."),
    "null candidates": Odd(sse({"candidates": None}, chunk(text(), reason="STOP")), "Hi."),
    "a null candidate": Odd(sse({"candidates": [None]}, chunk(text(), reason="STOP")), "Hi."),
    "no candidates": Odd(sse({"candidates": []}, chunk(text(), reason="STOP")), "Hi."),
    "nothing in the chunk": Odd(sse({}, chunk(text(), reason="STOP")), "Hi."),
    "a null part": Odd(sse(chunk(None, text(), reason="STOP")), "Hi."),
    "an empty part": Odd(sse(chunk({}, text(), reason="STOP")), "Hi."),
    "null in the part": Odd(
        sse(chunk(text(thought=None, thoughtSignature=None, functionCall=None), reason="STOP")), "Hi."
    ),
    "null text": Odd(sse(chunk({"text": None}), chunk(text(), reason="STOP")), "Hi."),
    "null in the chunk": Odd(
        sse(chunk(text(), reason="STOP", promptFeedback=None, error=None, modelVersion=None)), "Hi."
    ),
    "an empty feedback": Odd(sse(chunk(text(), reason="STOP", promptFeedback={})), "Hi."),
    "an unspecified reason": Odd(sse(chunk(text(), reason="FINISH_REASON_UNSPECIFIED"), end()), "Hi."),
    "an empty reason": Odd(sse(chunk(text(), reason=""), end()), "Hi."),
    "parts are one object": Odd(
        sse({"candidates": [{"content": {"parts": {"text": "Hi."}}, "finishReason": "STOP"}]}), "Hi."
    ),
    "candidates are one object": Odd(
        sse({"candidates": {"content": {"parts": [{"text": "Hi."}]}, "finishReason": "STOP"}}), "Hi."
    ),
    "text that is a number": Odd(sse(chunk({"text": 42}, reason="STOP")), "42"),
    "thought as text": Odd(sse(chunk({"text": "Hm.", "thought": "true"}), chunk(text(), reason="STOP")), "Hi.", "Hm."),
    "thought as a number": Odd(sse(chunk({"text": "Hm.", "thought": 1}), chunk(text(), reason="STOP")), "Hi.", "Hm."),
    "a thought": Odd(sse(chunk(THOUGHT), chunk(text(), reason="STOP")), "Hi.", "Hm."),
    "a thought and text in one chunk": Odd(sse(chunk(THOUGHT, text(), reason="STOP")), "Hi.", "Hm."),
    "a signature on an empty part": Odd(
        sse(chunk(THOUGHT), chunk(text("", thoughtSignature="s")), chunk(text(), reason="STOP")), "Hi.", "Hm."
    ),
    "a thought alone": Odd(sse(chunk(THOUGHT, reason="STOP")), "", "Hm.", failed="EmptyAnswerError"),
    "think in the text": Odd(sse(chunk(text("<think>Hm.")), chunk(text("</think>Hi."), reason="STOP")), "Hi.", "Hm."),
    "snake case": Odd(
        sse({"candidates": [{"content": {"parts": [{"text": "Hi."}]}, "finish_reason": "STOP"}]}, end()), "Hi."
    ),
    "parts of unknown kinds": Odd(
        sse(chunk({"executableCode": {"code": "1"}}, {"inlineData": {}}, text(), reason="STOP")), "Hi."
    ),
    "grounding": Odd(
        sse(
            {
                "candidates": [
                    {
                        "content": {"parts": [{"text": "Hi."}]},
                        "finishReason": "STOP",
                        "groundingMetadata": {"a": [1]},
                        "safetyRatings": None,
                    }
                ]
            }
        ),
        "Hi.",
    ),
    "a call": Odd(sse(chunk(call(), reason="STOP")), calls=(READ,), stop="tool_calls"),
    "a call with an id": Odd(sse(chunk(call(id="c"), reason="STOP")), calls=(READ,), stop="tool_calls"),
    "an id that is a number": Odd(sse(chunk(call(id=17), reason="STOP")), calls=(READ,), stop="tool_calls"),
    "a null id": Odd(sse(chunk(call(id=None), reason="STOP")), calls=(READ,), stop="tool_calls"),
    "two calls in one chunk": Odd(sse(chunk(call(), call(), reason="STOP")), calls=(READ, READ), stop="tool_calls"),
    "two calls in two chunks": Odd(sse(chunk(call()), chunk(call()), end()), calls=(READ, READ), stop="tool_calls"),
    "one id for two": Odd(sse(chunk(call(id="c"), call(id="c"), reason="STOP")), calls=(READ, READ), stop="tool_calls"),
    "arguments null": Odd(
        sse(chunk({"functionCall": {"name": "read_file", "args": None}}, reason="STOP")),
        calls=(("read_file", {}),),
        stop="tool_calls",
    ),
    "no arguments": Odd(
        sse(chunk({"functionCall": {"name": "read_file"}}, reason="STOP")),
        calls=(("read_file", {}),),
        stop="tool_calls",
    ),
    "arguments are an empty list": Odd(
        sse(chunk(call([]), reason="STOP")), calls=(("read_file", {}),), stop="tool_calls"
    ),
    "arguments as text": Odd(sse(chunk(call('{"path":"a"}'), reason="STOP")), calls=(READ,), stop="tool_calls"),
    "a namespace with a dot": Odd(
        sse(chunk(call(name="default_api.read_file"), reason="STOP")), calls=(READ,), stop="tool_calls"
    ),
    "a namespace with a colon": Odd(
        sse(chunk(call(name="default_api:read_file"), reason="STOP")), calls=(READ,), stop="tool_calls"
    ),
    "text beside a call": Odd(
        sse(chunk(text("I look."), call(), reason="STOP")), "I look.", calls=(READ,), stop="tool_calls"
    ),
    "the reason of OpenAI": Odd(sse(chunk(text(), reason="stop")), "Hi."),
    "the limit": Odd(sse(chunk(text(), reason="MAX_TOKENS")), "Hi.", stop="max_tokens"),
    "safety": Odd(sse(chunk(text(), reason="SAFETY")), "Hi.", stop="content_filter"),
    "recitation": Odd(sse(chunk(text(), reason="RECITATION")), "Hi.", stop="content_filter"),
    "other": Odd(sse(chunk(text(), reason="OTHER")), "Hi.", stop="interrupted"),
    "a call before other": Odd(sse(chunk(call(), reason="OTHER")), stop="interrupted"),
    "malformed": Odd(sse(end("MALFORMED_FUNCTION_CALL")), failed="ProviderOverloadedError"),
    "malformed behind text": Odd(sse(chunk(text()), end("MALFORMED_FUNCTION_CALL")), "Hi.", stop="interrupted"),
    "unexpected": Odd(sse(end("UNEXPECTED_TOOL_CALL")), failed="ProviderOverloadedError"),
    "a blocked prompt": Odd(sse({"promptFeedback": {"blockReason": "SAFETY"}}), failed="ContentFilteredError"),
    "half an emoji": Odd(
        sse(
            '{"candidates":[{"content":{"parts":[{"text":"a\\ud83d"}]}}]}',
            '{"candidates":[{"content":{"parts":[{"text":"\\ude00"}]},"finishReason":"STOP"}]}',
        ),
        "a\U0001f600",
    ),
    "comments": Odd(": hold on\n\n" + sse(chunk(text(), reason="STOP")), "Hi."),
    "carriage returns": Odd(sse(chunk(text(), reason="STOP")).replace("\n", "\r\n"), "Hi."),
    "over several lines": Odd(
        "".join(f"data: {line}\n" for line in json.dumps(chunk(text(), reason="STOP"), indent=1).splitlines()) + "\n",
        "Hi.",
    ),
    "no end of the last line": Odd(sse(chunk(text(), reason="STOP")).rstrip("\n"), "Hi."),
    "whole": Odd(json.dumps(chunk(text(), reason="STOP", usageMetadata=USAGE)), "Hi.", content_type=JSON, usage=(7, 2)),
    "an array of chunks": Odd(
        json.dumps([chunk(text("One ")), chunk(text("two."), reason="STOP")], indent=1), "One two.", content_type=JSON
    ),
    "an array with a call": Odd(
        json.dumps([chunk(call()), end()]), calls=(READ,), stop="tool_calls", content_type=JSON
    ),
    "a stream called JSON": Odd(sse(chunk(text(), reason="STOP")), "Hi.", content_type=JSON),
    "an error in an array": Odd(
        '[{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}]',
        failed="ProviderAuthError",
        status=400,
        content_type=JSON,
    ),
    "an error in the stream": Odd(
        sse({"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}),
        failed="ProviderOverloadedError",
    ),
    "an error behind text": Odd(
        sse(chunk(text()), {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}),
        "Hi.",
        stop="interrupted",
    ),
    "too long": Odd(
        '{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens '
        'allowed (8)."}}',
        failed="ContextTooLongError",
        status=400,
        content_type=JSON,
    ),
    "cut": Odd(sse(chunk(text())), "Hi.", stop="interrupted"),
    "nothing": Odd(sse(end()), failed="EmptyAnswerError"),
    "no JSON": Odd(sse("{broken"), failed="ProviderProtocolError"),
    "JSON of something else": Odd('{"hello":"there"}', failed="ProviderProtocolError", content_type=JSON),
}
