import json

import pytest

from pattern_acp.domain.clock import MessageId, ToolCallId
from pattern_acp.domain.messages import Message, Role, TextPart, ToolCallPart, ToolResultPart
from pattern_acp.providers.base import (
    ProviderEvent,
    ProviderRequest,
    ProviderStop,
    Stopped,
    TextDelta,
    ToolCallBegun,
    ToolCallFragment,
    ToolSpec,
)
from pattern_acp.providers.offline import OfflineProvider, answer, literal_pattern, salient_words
from pattern_acp.turn.permissions import REFUSED

ALL_TOOLS = (
    "read_file",
    "list_directory",
    "find_files",
    "search_text",
    "run_command",
    "edit_file",
    "memory_write",
    "memory_search",
)


def prompt(text: str, number: int = 1) -> Message:
    return Message(MessageId(f"prompt_{number}"), Role.USER, (TextPart(text),))


def request(messages: tuple[Message, ...], tools: tuple[str, ...] = ALL_TOOLS) -> ProviderRequest:
    return ProviderRequest("offline", "", tuple(ToolSpec(name, "", {}) for name in tools), messages)


def calls_of(events: tuple[ProviderEvent, ...]) -> list[ToolCallPart]:
    begun = {event.index: event for event in events if isinstance(event, ToolCallBegun)}
    texts = {event.index: event.text for event in events if isinstance(event, ToolCallFragment)}
    return [ToolCallPart(ToolCallId(call.call_id), call.name, texts[index]) for index, call in begun.items()]


def text_of(events: tuple[ProviderEvent, ...]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def played(messages: tuple[Message, ...], results: list[ToolResultPart | str]) -> tuple[Message, ...]:
    """Messages after one more request whose calls got `results`."""
    calls = calls_of(answer(request(messages)))
    parts = [
        result if isinstance(result, ToolResultPart) else ToolResultPart(call.call_id, result)
        for call, result in zip(calls, results, strict=True)
    ]
    number = len(messages)
    return (
        *messages,
        Message(MessageId(f"a{number}"), Role.ASSISTANT, tuple(calls)),
        Message(MessageId(f"t{number}"), Role.TOOL, tuple(parts)),
    )


@pytest.mark.parametrize(
    ("line", "tool", "arguments"),
    [
        ("read a.py", "read_file", {"path": "a.py"}),
        ("list src", "list_directory", {"path": "src"}),
        ("find a.b(c)", "search_text", {"pattern": r"a\.b\(c\)"}),
        ("run pytest -q", "run_command", {"command": "pytest -q"}),
        (
            'replace "a" with "b" in c.py',
            "edit_file",
            {"path": "c.py", "edits": [{"old_text": "a", "new_text": "b"}]},
        ),
        (
            'replace all "a" with "b" in c.py',
            "edit_file",
            {"path": "c.py", "edits": [{"old_text": "a", "new_text": "b", "replace_all": True}]},
        ),
        (
            "remember tabs",
            "memory_write",
            {"label": "project", "operation": "append", "text": "tabs", "reason": "The user asked to remember it."},
        ),
        (
            "remember I like tabs",
            "memory_write",
            {
                "label": "human",
                "operation": "append",
                "text": "I like tabs",
                "reason": "The user asked to remember it.",
            },
        ),
        ("recall tabs", "memory_search", {"query": "tabs"}),
    ],
)
def test_a_command_becomes_one_call(line: str, tool: str, arguments: dict[str, object]):
    events = answer(request((prompt(line),)))
    (call,) = calls_of(events)
    assert (call.name, json.loads(call.arguments)) == (tool, arguments)
    assert events[-1] == Stopped(ProviderStop.TOOL_CALLS)


def test_the_result_is_told_and_the_turn_ends():
    events = answer(request(played((prompt("read a.py"),), ["1\tprint(1)"])))
    assert "`a.py`" in text_of(events)
    assert "print(1)" in text_of(events)
    assert events[-1] == Stopped(ProviderStop.END)


def test_several_commands_run_one_after_the_other():
    messages = played((prompt("read a\nrun b"),), ["first"])
    events = answer(request(messages))
    assert "first" in text_of(events)
    assert [call.name for call in calls_of(events)] == ["run_command"]
    last = answer(request(played(messages, ["second"])))
    assert "second" in text_of(last)
    assert "first" not in text_of(last)
    assert not calls_of(last)


def test_a_refusal_is_told_the_user_in_words_for_the_user():
    first = calls_of(answer(request((prompt("run touch x"),))))[0]
    messages = played((prompt("run touch x"),), [ToolResultPart(first.call_id, REFUSED, is_error=True)])
    assert text_of(answer(request(messages))) == "You refused “run touch x”. It did not run."


def test_a_failed_call_is_reported():
    first = calls_of(answer(request((prompt("read a"),))))[0]
    messages = played((prompt("read a"),), [ToolResultPart(first.call_id, "There is no file a.", is_error=True)])
    assert "did not work" in text_of(answer(request(messages)))
    assert "There is no file a." in text_of(answer(request(messages)))


def test_a_tool_that_is_not_offered_is_named_and_the_rest_goes_on():
    events = answer(request((prompt("run make\nread a"),), ("read_file",)))
    assert "run_command is not offered in this mode" in text_of(events)
    assert [call.name for call in calls_of(events)] == ["read_file"]


def test_a_call_without_a_result_is_reported():
    call = calls_of(answer(request((prompt("read a"),))))[0]
    messages = (prompt("read a"), Message(MessageId("x"), Role.ASSISTANT, (call,)))
    assert "gave no result" in text_of(answer(request(messages)))


def test_a_question_is_looked_up_in_memory_and_in_the_project():
    events = answer(request((prompt("Where is the retry_policy implemented?"),)))
    calls = {call.name: json.loads(call.arguments) for call in calls_of(events)}
    assert calls == {
        "memory_search": {"query": "retry_policy implemented"},
        "find_files": {"pattern": "**/*retry_policy*"},
        "search_text": {"pattern": "(?i)(retry_policy|implemented)"},
    }


def test_the_answer_to_a_question_says_what_was_found_and_that_there_is_no_model():
    results: list[ToolResultPart | str] = ["human: likes retry_policy", "src/retry.py", "No match."]
    text = text_of(answer(request(played((prompt("Where is the retry_policy?"),), results))))
    assert "likes retry_policy" in text
    assert "src/retry.py" in text
    assert "No match" not in text
    assert text.count("without a model") == 1
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "Ollama", "config.toml"):
        assert name in text


@pytest.mark.parametrize(
    ("head", "shown"),
    [
        ("[memory block human, 2026-11-28; words: tabs; meaning 0.71; recent]", "[memory block human, 2026-11-28]"),
        ("[the person in session ses_0ab1, 2026-11-28; recent]", "[the person, 2026-11-28]"),
        ("[the agent in session ses_0ab1, 2026-11-28]", "[the agent, 2026-11-28]"),
        ("[a note of the person's; not a date]", "[a note of the person's; not a date]"),
    ],
)
def test_what_memory_holds_is_told_without_what_only_a_model_needs(head: str, shown: str):
    hit = f"{head}\nLikes tabs."
    assert f"{shown}\nLikes tabs." in text_of(answer(request(played((prompt("recall tabs"),), [hit]))))
    results: list[ToolResultPart | str] = [hit, "No files.", "No match."]
    assert f"{shown}\nLikes tabs." in text_of(answer(request(played((prompt("What about tabs?"),), results))))


def test_nothing_found_is_said_plainly():
    text = text_of(answer(request(played((prompt("zebra?"),), ["Nothing found.", "No files.", "No match."]))))
    assert "Neither memory nor the project's files mention it." in text


def test_a_greeting_needs_no_call():
    events = answer(request((prompt("hello"),)))
    assert not calls_of(events)
    assert "I understand lines that start with a command" in text_of(events)


def test_how_to_set_up_a_model_is_told_once_and_again_when_asked_for():
    nothing: list[ToolResultPart | str] = ["Nothing found.", "No files.", "No match."]
    first = text_of(answer(request(played((prompt("zebra?"),), nothing))))
    before = (prompt("zebra?"), Message(MessageId("told"), Role.ASSISTANT, (TextPart(first),)))
    again = text_of(answer(request((*before, *played((prompt("okapi?", 2),), nothing)))))
    assert "start Ollama" in first
    assert "start Ollama" not in again
    assert "Neither memory nor the project's files mention it." in again
    assert "`help` says again" in again
    asked = text_of(answer(request((*before, prompt("help", 2)))))
    assert "start Ollama" in asked
    assert "only looked it up" not in asked


def test_a_request_without_messages_is_answered():
    assert answer(request(()))[-1] == Stopped(ProviderStop.END)


def test_a_second_prompt_starts_anew_with_other_call_ids():
    first = played((prompt("read a"),), ["x"])
    done = (*first, Message(MessageId("end"), Role.ASSISTANT, (TextPart("done"),)), prompt("read a", 2))
    second = calls_of(answer(request(done)))
    assert [call.name for call in second] == ["read_file"]
    assert second[0].call_id != first[1].tool_calls[0].call_id


def test_a_long_result_is_cut_with_the_number_of_characters():
    text = text_of(answer(request(played((prompt("read a"),), ["x" * 5_000]))))
    assert "1000 characters more in the tool call" in text


def test_a_result_cannot_close_its_code_block():
    assert "````\n```\n````" in text_of(answer(request(played((prompt("read a"),), ["```"]))))


async def test_the_provider_streams_the_answer():
    async with OfflineProvider().stream(request((prompt("read a"),))) as events:
        assert tuple([event async for event in events]) == answer(request((prompt("read a"),)))


def test_salient_words_are_names_first():
    assert salient_words("Please explain why SessionStore loses data in store.py") == (
        "SessionStore",
        "store.py",
        "loses",
        "data",
    )


def test_a_literal_pattern_escapes_only_what_has_a_meaning():
    assert literal_pattern("a b-c<d>") == "a b-c<d>"
    assert literal_pattern(r"\.^$*+?()[]{}|") == r"\\\.\^\$\*\+\?\(\)\[\]\{\}\|"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("list src", "In `src`:"),
        ("find x y", "Looking for “x y”:"),
        ("run make", "`make`:"),
        ('replace "a" with "b" in c.py', "I replaced the text in `c.py`."),
        ("remember project: use uv", "I wrote it down in the memory block `project`."),
        ("recall uv", "What memory holds about “uv”:"),
    ],
)
def test_each_commands_result_is_told_in_words(line: str, told: str):
    assert told in text_of(answer(request(played((prompt(line),), ["some result"]))))


@pytest.mark.parametrize(
    "line", ["list src", "find x y", "run make", 'replace "a" with "b" in c.py', "remember it all", "recall uv"]
)
def test_each_commands_failure_is_told_with_its_reason(line: str):
    call = calls_of(answer(request((prompt(line),))))[0]
    messages = played((prompt(line),), [ToolResultPart(call.call_id, "The reason.", is_error=True)])
    text = text_of(answer(request(messages)))
    assert line.split(maxsplit=1)[0] in text
    assert "The reason." in text


def test_a_failed_look_up_is_told():
    calls = calls_of(answer(request((prompt("zebra?"),))))
    failed = [ToolResultPart(call.call_id, "", is_error=True) for call in calls]
    text = text_of(answer(request(played((prompt("zebra?"),), [*failed]))))
    assert "memory_search did not work: it gave no reason" in text
