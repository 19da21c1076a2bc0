"""Odd answers on the wire of Anthropic's Messages."""

import json

from tests.providers.odd_answers import Odd, named, sse

READ = ("read_file", {"path": "a"})
ARGS = '{"path":"a"}'
JSON = "application/json"

START: dict[str, object] = {
    "type": "message_start",
    "message": {"id": "m", "role": "assistant", "usage": {"input_tokens": 7, "output_tokens": 1}},
}
STOP: dict[str, object] = {"type": "message_stop"}


def begin(kind: str = "text", index: object = 0, **fields: object) -> dict[str, object]:
    """The start of a block."""
    empty: dict[str, dict[str, object]] = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}}
    return {
        "type": "content_block_start",
        "index": index,
        "content_block": {"type": kind, **empty.get(kind, {}), **fields},
    }


def go_on(kind: str, index: object = 0, **fields: object) -> dict[str, object]:
    """More of a block."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def close(index: object = 0) -> dict[str, object]:
    """The end of a block."""
    return {"type": "content_block_stop", "index": index}


def end(reason: object = "end_turn", **fields: object) -> dict[str, object]:
    """The reason of the end."""
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": 2},
        **fields,
    }


def text(words: str = "Hi.", index: int = 0) -> list[object]:
    """A block of text."""
    return [begin(index=index), go_on("text_delta", index, text=words), close(index)]


def call(index: int = 0, *pieces: object, **fields: object) -> list[object]:
    """A block with a call."""
    whole: dict[str, object] = {"id": f"c{index}", "name": "read_file", "input": {}, **fields}
    return [
        begin("tool_use", index, **whole),
        *(go_on("input_json_delta", index, partial_json=piece) for piece in pieces),
        close(index),
    ]


def answer(*events: object, reason: object = "end_turn") -> str:
    """A whole stream."""
    return named(START, *events, end(reason), STOP)


def called(*events: object) -> str:
    """A whole stream that ends in calls."""
    return answer(*events, reason="tool_use")


def whole(*blocks: object, reason: str = "end_turn") -> str:
    """An answer that is no stream."""
    usage = {"input_tokens": 7, "output_tokens": 2}
    return json.dumps(
        {"id": "m", "type": "message", "role": "assistant", "content": blocks, "stop_reason": reason, "usage": usage}
    )


def error(kind: str, message: str = "x") -> dict[str, object]:
    """An error event."""
    return {"type": "error", "error": {"type": kind, "message": message}}


ODD = {
    "plain": Odd(answer(*text()), "Hi.", usage=(7, 2)),
    "done behind the end": Odd(answer(*text()) + "data: [DONE]\n\n", "Hi."),
    "done behind a call": Odd(called(*call(0, ARGS)) + "data: [DONE]\n\n", calls=(READ,), stop="tool_calls"),
    "done in place of the end": Odd(named(START, *text(), end()) + "data: [DONE]\n\n", "Hi."),
    "done in the middle": Odd(
        named(START, begin(), go_on("text_delta", text="Hi.")) + "data: [DONE]\n\n" + named(close(), end(), STOP), "Hi."
    ),
    "no message_stop": Odd(named(START, *text(), end()), "Hi."),
    "no message_start": Odd(named(*text(), end(), STOP), "Hi."),
    "no names": Odd(sse(START, *text(), end(), STOP), "Hi."),
    "the type in the name alone": Odd(
        'event: content_block_delta\ndata: {"index":0,"delta":{"type":"text_delta","text":"Hi."}}\n\n'
        'event: message_delta\ndata: {"delta":{"stop_reason":"end_turn"}}\n\n',
        "Hi.",
    ),
    "pings": Odd("event: ping\ndata: {}\n\n" + answer({"type": "ping"}, *text()), "Hi."),
    "empty data": Odd("event: ping\ndata:\n\n" + answer(*text()), "Hi."),
    "null data": Odd("data: null\n\n" + answer(*text()), "Hi."),
    "comments": Odd(": hold on\n\n" + answer(*text()), "Hi."),
    "carriage returns": Odd(answer(*text()).replace("\n", "\r\n"), "Hi."),
    "unknown events": Odd(answer({"type": "vendor_event", "data": [1]}, *text()), "Hi."),
    "unknown blocks": Odd(
        answer(begin("server_tool_use", 0, id="s", name="x", input={}), close(), *text(index=1)), "Hi."
    ),
    "unknown deltas": Odd(
        answer(begin(), go_on("citations_delta", citation={"a": 1}), go_on("text_delta", text="Hi."), close()), "Hi."
    ),
    "null in the block": Odd(
        answer(
            begin(text=None, thinking=None, signature=None, id=None, input=None),
            go_on("text_delta", text="Hi."),
            close(),
        ),
        "Hi.",
    ),
    "null in the delta": Odd(
        answer(
            begin(),
            go_on("text_delta", text="Hi.", thinking=None, signature=None, partial_json=None),
            go_on("text_delta", text=None),
            close(),
        ),
        "Hi.",
    ),
    "a null index": Odd(answer(begin(index=None), go_on("text_delta", None, text="Hi."), close(None)), "Hi."),
    "an index as text": Odd(answer(begin(index="0"), go_on("text_delta", "0", text="Hi."), close("0")), "Hi."),
    "an index as a fraction": Odd(
        called(
            begin("tool_use", 1.0, id="c", name="read_file", input={}),
            go_on("input_json_delta", 1.0, partial_json=ARGS),
            close(1.0),
        ),
        calls=(READ,),
        stop="tool_calls",
    ),
    "null in the thought": Odd(
        answer(
            begin("thinking", thinking=None, signature=None),
            go_on("thinking_delta", thinking="Hm."),
            go_on("thinking_delta", thinking=None),
            close(),
            *text(index=1),
        ),
        "Hi.",
        "Hm.",
    ),
    "a null signature": Odd(
        answer(
            begin("thinking"),
            go_on("thinking_delta", thinking="Hm."),
            go_on("signature_delta", signature=None),
            close(),
            *text(index=1),
        ),
        "Hi.",
        "Hm.",
    ),
    "a null message": Odd(named({"type": "message_start", "message": None}, *text(), end(), STOP), "Hi."),
    "null usage": Odd(
        named({"type": "message_start", "message": {"usage": None}}, *text(), end(usage=None), STOP), "Hi."
    ),
    "usage as text": Odd(named(START, *text(), end(usage={"output_tokens": "2"}), STOP), "Hi.", usage=(7, 2)),
    "usage at the end alone": Odd(
        named(
            {"type": "message_start", "message": {}}, *text(), end(usage={"input_tokens": 7, "output_tokens": 2}), STOP
        ),
        "Hi.",
        usage=(7, 2),
    ),
    "usage never": Odd(
        named(
            {"type": "message_start"}, *text(), {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, STOP
        ),
        "Hi.",
    ),
    "text in the first event": Odd(answer(begin(text="Hi."), close()), "Hi."),
    "text is a list": Odd(answer(begin(), go_on("text_delta", text=[{"text": "Hi."}]), close()), "Hi."),
    "no start of the block": Odd(answer(go_on("text_delta", text="Hi.")), "Hi."),
    "no end of the block": Odd(answer(begin(), go_on("text_delta", text="Hi.")), "Hi."),
    "two blocks of text": Odd(answer(*text("One "), *text("two.", 1)), "One two."),
    "one index for all": Odd(called(*text(), *call(0, ARGS)), "Hi.", calls=(READ,), stop="tool_calls"),
    "a call in pieces": Odd(called(*call(0, "", '{"pa', 'th":', '"a"}')), calls=(READ,), stop="tool_calls"),
    "a call in its first event": Odd(called(*call(0, input={"path": "a"})), calls=(READ,), stop="tool_calls"),
    "such a call without an end": Odd(called(*call(0, input={"path": "a"})[:-1]), calls=(READ,), stop="tool_calls"),
    "input as text": Odd(called(*call(0, input=ARGS)), calls=(READ,), stop="tool_calls"),
    "empty text as input": Odd(called(*call(0, ARGS, input="")), calls=(READ,), stop="tool_calls"),
    "null as input": Odd(called(*call(0, ARGS, input=None)), calls=(READ,), stop="tool_calls"),
    "a list as input": Odd(called(*call(0, ARGS, input=[])), calls=(READ,), stop="tool_calls"),
    "a piece that is an object": Odd(called(*call(0, {"path": "a"})), calls=(READ,), stop="tool_calls"),
    "a null piece": Odd(called(*call(0, None, ARGS)), calls=(READ,), stop="tool_calls"),
    "input in both places": Odd(called(*call(0, ARGS, input={"path": "a"})), calls=(READ,), stop="tool_calls"),
    "arguments twice": Odd(called(*call(0, ARGS, ARGS)), calls=(READ,), stop="tool_calls"),
    "an empty object first": Odd(called(*call(0, "{}", ARGS)), calls=(READ,), stop="tool_calls"),
    "arguments with a tail": Odd(called(*call(0, ARGS + "}</tool_call>")), calls=(READ,), stop="tool_calls"),
    "no arguments": Odd(called(*call(0)), calls=(("read_file", {}),), stop="tool_calls"),
    "an id that is a number": Odd(called(*call(0, ARGS, id=17)), calls=(READ,), stop="tool_calls"),
    "no id": Odd(called(*call(0, ARGS, id=None)), calls=(READ,), stop="tool_calls"),
    "one id for two": Odd(
        called(*call(0, ARGS, id="c"), *call(1, ARGS, id="c")), calls=(READ, READ), stop="tool_calls"
    ),
    "two calls that overlap": Odd(
        called(
            begin("tool_use", 0, id="a", name="read_file", input={}),
            begin("tool_use", 1, id="b", name="read_file", input={}),
            go_on("input_json_delta", 0, partial_json=ARGS),
            go_on("input_json_delta", 1, partial_json=ARGS),
            close(0),
            close(1),
        ),
        calls=(READ, READ),
        stop="tool_calls",
    ),
    "a namespace at the name": Odd(
        called(*call(0, ARGS, name="functions.read_file")), calls=(READ,), stop="tool_calls"
    ),
    "marks at the name": Odd(
        called(*call(0, ARGS, name="read_file<|channel|>commentary")), calls=(READ,), stop="tool_calls"
    ),
    "end_turn behind a call": Odd(answer(*call(0, ARGS)), calls=(READ,), stop="tool_calls"),
    "null as reason, then one": Odd(named(START, *text(), end(None), end(), STOP), "Hi."),
    "the reason of OpenAI": Odd(answer(*text(), reason="stop"), "Hi."),
    "length": Odd(answer(*text(), reason="length"), "Hi.", stop="max_tokens"),
    "max_tokens": Odd(answer(*text(), reason="max_tokens"), "Hi.", stop="max_tokens"),
    "a refusal": Odd(answer(*text(), reason="refusal"), "Hi.", stop="refusal"),
    "filtered": Odd(answer(*text(), reason="content_filter"), "Hi.", stop="content_filter"),
    "an unknown reason": Odd(answer(*text(), reason="load"), "Hi.", stop="interrupted"),
    "a call before an error": Odd(answer(*call(0, ARGS), reason="api_error"), stop="interrupted"),
    "an early end": Odd(named(START, *text("One "), end(), *text("two.", 1), end(), STOP), "One two."),
    "a call behind the end": Odd(
        named(START, *text(), end(), *call(1, ARGS), end("tool_use"), STOP), "Hi.", calls=(READ,), stop="tool_calls"
    ),
    "think in the text": Odd(answer(*text("<think>\nHm.\n</think>\nHi.")), "Hi.", "Hm."),
    "half an emoji": Odd(
        named(START, begin())
        + 'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\\ud83d"}}\n\n'
        + 'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\ude00"}}\n\n'
        + named(close(), end(), STOP),
        "a\U0001f600",
    ),
    "redacted": Odd(answer(begin("redacted_thinking", data="xx"), close(), *text(index=1)), "Hi."),
    "whole": Odd(whole({"type": "text", "text": "Hi."}), "Hi.", content_type=JSON, usage=(7, 2)),
    "whole with all": Odd(
        whole(
            {"type": "thinking", "thinking": "Hm.", "signature": "s"},
            {"type": "text", "text": "Hi."},
            {"type": "tool_use", "id": "c", "name": "read_file", "input": {"path": "a"}},
            reason="tool_use",
        ),
        "Hi.",
        "Hm.",
        (READ,),
        "tool_calls",
        content_type=JSON,
    ),
    "a stream called JSON": Odd(answer(*text()), "Hi.", content_type=JSON),
    "overloaded": Odd(named(error("overloaded_error", "Overloaded")), failed="ProviderOverloadedError"),
    "overloaded behind text": Odd(
        named(START, *text()[:2], error("overloaded_error", "Overloaded")), "Hi.", stop="interrupted"
    ),
    "too long": Odd(
        json.dumps(error("invalid_request_error", "prompt is too long: 3 > 2")),
        failed="ContextTooLongError",
        status=400,
        content_type=JSON,
    ),
    "a wrong request": Odd(
        json.dumps(error("invalid_request_error", "Bad tool")),
        failed="ProviderRequestError",
        status=400,
        content_type=JSON,
    ),
    "an error of OpenAI's form": Odd(
        '{"error":{"message":"Bad tool","code":400}}', failed="ProviderRequestError", content_type=JSON
    ),
    "cut": Odd(named(START, *text()[:2]), "Hi.", stop="interrupted"),
    "cut in a call": Odd(named(START, *call(0, '{"pa')[:2]), calls=(), failed="", stop="interrupted"),
    "nothing": Odd(answer(), failed="EmptyAnswerError"),
    "no JSON": Odd(sse("{broken"), failed="ProviderProtocolError"),
    "another wire": Odd(sse({"choices": [{"delta": {"content": "Hi."}}]}), failed="ProviderProtocolError"),
}
