"""Odd answers on the wire of OpenAI's Responses."""

import json

from tests.providers.odd_answers import Odd, named, sse

READ = ("read_file", {"path": "a"})
ARGS = '{"path":"a"}'
JSON = "application/json"
USAGE: dict[str, object] = {"input_tokens": 7, "output_tokens": 2}


def added(kind: str = "message", index: object = 0, **fields: object) -> dict[str, object]:
    """The start of an item."""
    return {"type": "response.output_item.added", "output_index": index, "item": {"type": kind, "id": "i", **fields}}


def done(kind: str = "message", index: object = 0, **fields: object) -> dict[str, object]:
    """The end of an item."""
    return {
        "type": "response.output_item.done",
        "output_index": index,
        "item": {"type": kind, "id": "i", "status": "completed", **fields},
    }


def more(delta: object = "Hi.", index: object = 0, kind: str = "output_text") -> dict[str, object]:
    """More of an item."""
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": delta}


def last(kind: str = "completed", **fields: object) -> dict[str, object]:
    """The last event."""
    return {"type": f"response.{kind}", "response": {"status": kind, "usage": USAGE, **fields}}


def said(words: str = "Hi.") -> dict[str, object]:
    """A message that is whole."""
    return {"type": "message", "content": [{"type": "output_text", "text": words}]}


def made(**fields: object) -> dict[str, object]:
    """A call that is whole."""
    return {"type": "function_call", "call_id": "c", "name": "read_file", "arguments": ARGS, **fields}


def call(*pieces: object, index: int = 0, call_id: object = "c", name: str = "read_file") -> list[object]:
    """The events of a call."""
    rest = [more(piece, index, "function_call_arguments") for piece in pieces]
    return [
        added("function_call", index, call_id=call_id, name=name, arguments=""),
        *rest,
        done("function_call", index, call_id=call_id, name=name),
    ]


def called(*events: object) -> Odd:
    """An answer that comes to one call."""
    return Odd(named(*events, last()), calls=(READ,), stop="tool_calls")


def whole(*output: object, **fields: object) -> str:
    """An answer that is no stream."""
    return json.dumps(
        {
            "id": "r",
            "object": "response",
            "status": "completed",
            "error": None,
            "output": output,
            "usage": USAGE,
            **fields,
        }
    )


TEXT: list[object] = [added(), more(), done()]
REASONING: list[object] = [added("reasoning"), more("Hm.", 0, "reasoning_summary_text"), done("reasoning", summary=[])]

ODD = {
    "plain": Odd(
        named({"type": "response.created", "response": {"status": "in_progress"}}, *TEXT, last()), "Hi.", usage=(7, 2)
    ),
    "done behind the end": Odd(named(*TEXT, last()) + "data: [DONE]\n\n", "Hi."),
    "done in place of the end": Odd(named(*TEXT) + "data: [DONE]\n\n", "Hi.", stop="interrupted"),
    "more behind the end": Odd(named(*TEXT, last(), more("No.")), "Hi."),
    "no names": Odd(sse(*TEXT, last()), "Hi."),
    "the type in the name alone": Odd(
        'event: response.output_text.delta\ndata: {"delta":"Hi."}\n\n'
        'event: response.completed\ndata: {"response":{}}\n\n',
        "Hi.",
    ),
    "pings": Odd("event: ping\ndata: {}\n\n" + named(*TEXT, last()), "Hi."),
    "keepalives": Odd(named({"type": "keepalive", "sequence_number": 1}, *TEXT, last()), "Hi."),
    "null data": Odd("data: null\n\n" + named(*TEXT, last()), "Hi."),
    "empty data": Odd("data:\n\n" + named(*TEXT, last()), "Hi."),
    "comments": Odd(": hold on\n\n" + named(*TEXT, last()), "Hi."),
    "carriage returns": Odd(named(*TEXT, last()).replace("\n", "\r\n"), "Hi."),
    "unknown events": Odd(named({"type": "response.vendor.delta", "delta": {"a": 1}}, *TEXT, last()), "Hi."),
    "unknown items": Odd(
        named(
            added("web_search_call"),
            done("web_search_call", action={"a": 1}),
            added(index=1),
            more(index=1),
            done(index=1),
            last(),
        ),
        "Hi.",
    ),
    "no items": Odd(named(more(), last()), "Hi."),
    "no end of the item": Odd(named(added(), more(), last()), "Hi."),
    "no start of the item": Odd(named(more(), done(content=[{"type": "output_text", "text": "Hi."}]), last()), "Hi."),
    "text in the end of the item alone": Odd(
        named(added(), done(content=[{"type": "output_text", "text": "Hi."}]), last()), "Hi."
    ),
    "text in output_text.done alone": Odd(
        named(added(), {"type": "response.output_text.done", "output_index": 0, "text": "Hi."}, done(), last()), "Hi."
    ),
    "text in both": Odd(
        named(
            added(),
            more(),
            {"type": "response.output_text.done", "output_index": 0, "text": "Hi."},
            done(content=[{"type": "output_text", "text": "Hi."}]),
            last(),
        ),
        "Hi.",
    ),
    "text in the last event alone": Odd(named(last(output=[said()])), "Hi."),
    "text in the last event too": Odd(named(*TEXT, last(output=[said()])), "Hi."),
    "a call in the last event alone": called(last(output=[made()])),
    "a call in the last event too": called(*call(ARGS), last(output=[made()])),
    "null in the event": Odd(
        named({**more(), "item": None, "response": None, "summary_index": None, "arguments": None}, last()), "Hi."
    ),
    "a null index": Odd(named(more(index=None), last()), "Hi."),
    "an index as text": Odd(named(added(index="0"), more(index="0"), done(index="0"), last()), "Hi."),
    "an index as a fraction": Odd(named(added(index=0.0), more(index=0.0), last()), "Hi."),
    "a null delta": Odd(named(more(None), more(), last()), "Hi."),
    "a delta in parts": Odd(named(more([{"text": "Hi."}]), last()), "Hi."),
    "a null item": Odd(
        named({"type": "response.output_item.added", "output_index": 0, "item": None}, more(), last()), "Hi."
    ),
    "null in the item": Odd(
        named(added(content=None, summary=None, phase=None, name=None), more(), done(content=None), last()), "Hi."
    ),
    "a null response": Odd(named(*TEXT, {"type": "response.completed", "response": None}), "Hi."),
    "null in the response": Odd(
        named(*TEXT, last(usage=None, error=None, incomplete_details=None, output=None)), "Hi."
    ),
    "no response": Odd(named(*TEXT, {"type": "response.completed"}), "Hi."),
    "usage as text": Odd(named(*TEXT, last(usage={"input_tokens": "7", "output_tokens": "2"})), "Hi.", usage=(7, 2)),
    "usage that is a list": Odd(named(*TEXT, last(usage=[])), "Hi."),
    "the status of the beginning": Odd(named(*TEXT, last(status="in_progress")), "Hi."),
    "completed with incomplete": Odd(
        named(*TEXT, last(status="incomplete", incomplete_details={"reason": "max_output_tokens"})),
        "Hi.",
        stop="max_tokens",
    ),
    "incomplete": Odd(
        named(*TEXT, last("incomplete", incomplete_details={"reason": "max_output_tokens"})), "Hi.", stop="max_tokens"
    ),
    "incomplete without a reason": Odd(named(*TEXT, last("incomplete")), "Hi.", stop="max_tokens"),
    "filtered": Odd(
        named(*TEXT, last("incomplete", incomplete_details={"reason": "content_filter"})), "Hi.", stop="content_filter"
    ),
    "failed behind text": Odd(
        named(*TEXT, last("failed", error={"code": "server_error", "message": "x"})), "Hi.", stop="interrupted"
    ),
    "failed": Odd(
        named(last("failed", error={"code": "server_error", "message": "x"})), failed="ProviderOverloadedError"
    ),
    "failed with a number": Odd(
        named(last("failed", error={"code": 503, "message": "x"})), failed="ProviderOverloadedError"
    ),
    "too long": Odd(
        named(last("failed", error={"code": "context_length_exceeded", "message": "x"})), failed="ContextTooLongError"
    ),
    "cancelled": Odd(named(*TEXT, last("cancelled")), "Hi.", stop="interrupted"),
    "an error event": Odd(
        named({"type": "error", "code": "server_error", "message": "x"}), failed="ProviderOverloadedError"
    ),
    "an error event with an object": Odd(
        named({"type": "error", "error": {"type": "server_error", "message": "x"}}), failed="ProviderOverloadedError"
    ),
    "a refusal": Odd(named(added(), more("I will not.", 0, "refusal"), last()), "I will not.", stop="refusal"),
    "a refusal at its end alone": Odd(
        named(added(), {"type": "response.refusal.done", "output_index": 0, "refusal": "No."}, last()),
        "No.",
        stop="refusal",
    ),
    "reasoning": Odd(named(*REASONING, added(index=1), more(index=1), last()), "Hi.", "Hm."),
    "reasoning as text": Odd(named(more("Hm.", 0, "reasoning_text"), more(index=1), last()), "Hi.", "Hm."),
    "reasoning at its end alone": Odd(
        named(done("reasoning", summary=[{"type": "summary_text", "text": "Hm."}]), more(index=1), last()), "Hi.", "Hm."
    ),
    "reasoning in content": Odd(
        named(done("reasoning", content=[{"type": "reasoning_text", "text": "Hm."}]), more(index=1), last()),
        "Hi.",
        "Hm.",
    ),
    "think in the text": Odd(named(more("<think>Hm.</th"), more("ink>\n\nHi."), last()), "Hi.", "Hm."),
    "half an emoji": Odd(
        'data: {"type":"response.output_text.delta","delta":"a\\ud83d"}\n\n'
        'data: {"type":"response.output_text.delta","delta":"\\ude00"}\n\n' + named(last()),
        "a\U0001f600",
    ),
    "a call": called(*call(ARGS)),
    "a call in pieces": called(*call('{"pa', 'th":"a"}')),
    "arguments at their end alone": called(
        added("function_call", call_id="c", name="read_file"),
        {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": ARGS},
        done("function_call", call_id="c", name="read_file"),
    ),
    "arguments at the end of the item alone": called(
        added("function_call", call_id="c", name="read_file"),
        done("function_call", call_id="c", name="read_file", arguments=ARGS),
    ),
    "arguments in all places": called(
        *call(ARGS)[:-1],
        {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": ARGS},
        done("function_call", call_id="c", name="read_file", arguments=ARGS),
    ),
    "arguments in the start of the item": called(
        added("function_call", call_id="c", name="read_file", arguments=ARGS),
        done("function_call", call_id="c", name="read_file", arguments=ARGS),
    ),
    "arguments as an object": called(done("function_call", call_id="c", name="read_file", arguments={"path": "a"})),
    "a piece that is an object": called(*call({"path": "a"})),
    "arguments twice": called(*call(ARGS, ARGS)),
    "arguments with a tail": called(*call(ARGS + "</tool_call>")),
    "the item twice": called(*call(ARGS), done("function_call", call_id="c", name="read_file", arguments=ARGS)),
    "the start of the item twice": called(*call(ARGS)[:1], *call(ARGS)),
    "no start of a call": called(done("function_call", call_id="c", name="read_file", arguments=ARGS)),
    "no end of a call": called(*call(ARGS)[:-1]),
    "no id of a call": called(*call(ARGS, call_id=None)),
    "an id that is a number": called(*call(ARGS, call_id=17)),
    "marks at the name": called(*call(ARGS, name="read_file<|channel|>commentary")),
    "two calls": Odd(
        named(*call(ARGS), *call(ARGS, index=1, call_id="d"), last()), calls=(READ, READ), stop="tool_calls"
    ),
    "one index for text and a call": Odd(named(*TEXT, *call(ARGS), last()), "Hi.", calls=(READ,), stop="tool_calls"),
    "whole": Odd(whole(said()), "Hi.", content_type=JSON, usage=(7, 2)),
    "whole with all": Odd(
        whole({"type": "reasoning", "summary": [{"text": "Hm."}]}, said(), made()),
        "Hi.",
        "Hm.",
        (READ,),
        "tool_calls",
        content_type=JSON,
    ),
    "whole and incomplete": Odd(
        whole(said(), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        "Hi.",
        stop="max_tokens",
        content_type=JSON,
    ),
    "a stream called JSON": Odd(named(*TEXT, last()), "Hi.", content_type=JSON),
    "a wrong request": Odd(
        '{"error":{"message":"Bad tool","type":"invalid_request_error"}}',
        failed="ProviderRequestError",
        status=400,
        content_type=JSON,
    ),
    "cut": Odd(named(*TEXT), "Hi.", stop="interrupted"),
    "nothing": Odd(named(last()), failed="EmptyAnswerError"),
    "no JSON": Odd(sse("{broken"), failed="ProviderProtocolError"),
    "another wire": Odd(sse({"choices": []}), failed="ProviderProtocolError"),
}
