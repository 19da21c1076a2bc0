"""Tools for models without native calls, over every wire."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings, Wire
from pattern_acp.domain.clock import MessageId, ToolCallId
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.messages import Message, Role, ToolCallPart
from pattern_acp.providers.base import (
    MalformedToolCall,
    ProviderEvent,
    ProviderNotice,
    ProviderRequest,
    ProviderStop,
    Stopped,
    TextDelta,
    ToolCallBegun,
    ToolCallFragment,
    ToolForm,
)
from pattern_acp.providers.http_errors import ProviderConnectionError, ToolsRefusedError, error_of_status
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.providers.text_tools import TextToolsProvider, instruction, put_as_text, verbs_of, with_text_calls
from pattern_acp.tools.edit_file import EditFile
from tests.support.conversations import (
    PIXEL,
    READ_FILE,
    RUN_COMMAND,
    assistant,
    call,
    everything,
    request,
    result,
    results,
    user,
)
from tests.support.scripts import Turn, says
from tests.support.wires import WIRES, body_for

REFUSED = ToolsRefusedError("m takes no tool calls.")


@dataclass(slots=True)
class Model:
    """A provider of scripted turns, and what was learned of its model."""

    turns: Sequence[Turn]
    calls_tools: bool = False
    inner: ScriptedProvider = field(init=False)
    learned: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.inner = ScriptedProvider(self.turns, name="local")

    async def learn(self, model: str) -> None:
        self.learned.append(model)

    async def ask(self, asked: ProviderRequest | None = None) -> list[ProviderEvent]:
        provider = TextToolsProvider(self.inner, lambda _: self.calls_tools and not self.learned, self.learn)
        async with provider.stream(asked or request(user("Hi"))) as events:
            return [event async for event in events]


async def test_actions_at_the_end_come_as_calls_and_the_text_before_as_text():
    model = Model([says("I look.\n", '/read_file a.py\n/run_command "ls"')])
    assert await model.ask() == [
        TextDelta("I look.\n"),
        ToolCallBegun(0, "action_1_0", "read_file"),
        ToolCallFragment(0, '{"path": "a.py"}'),
        ToolCallBegun(1, "action_1_1", "run_command"),
        ToolCallFragment(1, '{"command": "ls"}'),
        Stopped(ProviderStop.END),
    ]
    (sent,) = model.inner.requests
    assert sent.tools == ()
    assert sent.system == f"You are helpful.\n\n{instruction((READ_FILE, RUN_COMMAND))}"


async def test_what_cannot_be_read_comes_as_a_call_with_its_problem_and_the_right_form():
    text = '/read_file path="a" colour=red\n/run_command rm b\n'
    model = Model([says(text)])
    assert await model.ask() == [
        ToolCallBegun(0, "action_1_0", "read_file"),
        ToolCallFragment(0, text),
        MalformedToolCall(
            0,
            "It cannot be read: NAME=VALUE is expected where 'colour=red' stands; names are path, line. Put text with "
            "blanks into double quotes. Nothing of it ran. The form is: /read_file path=TEXT [line=NUMBER]",
        ),
        Stopped(ProviderStop.END),
    ]


async def test_no_action_of_an_answer_that_the_limit_cut_counts_as_whole():
    model = Model([(*says("/read_file a.py\n/run_command rm -r a"), Stopped(ProviderStop.MAX_TOKENS))])
    unread = [event for event in await model.ask() if isinstance(event, MalformedToolCall)]
    assert [event.index for event in unread] == [0, 1]


def test_a_call_that_the_limit_cut_goes_back_as_an_action():
    cut = ToolCallPart(ToolCallId("a"), "read_file", '{"path": "a b.py"}', "This call was cut at 9 tokens.")
    told, _ = with_text_calls([Message(MessageId("m"), Role.ASSISTANT, (cut,))], verbs_of((READ_FILE, RUN_COMMAND)))
    assert told.text == '/read_file path="a b.py"'


async def test_a_model_that_refuses_tools_is_asked_again_and_the_person_is_told_once():
    model = Model([(REFUSED,), says("/read_file a"), says("Done.")], calls_tools=True)
    events = await model.ask()
    assert events[0] == ProviderNotice("local/m takes no tool calls, so it writes its actions as text (/tools).")
    assert ToolCallBegun(0, "action_1_0", "read_file") in events
    assert model.learned == ["m"]
    assert [bool(sent.tools) for sent in model.inner.requests] == [True, False]
    assert await model.ask() == [TextDelta("Done."), Stopped(ProviderStop.END)]


@pytest.mark.parametrize(
    ("error", "form"), [(ProviderConnectionError("Away."), ToolForm.AUTO), (REFUSED, ToolForm.NATIVE)]
)
async def test_other_errors_and_tools_that_the_person_wants_native_are_not_asked_for_again(
    error: ProviderError, form: ToolForm
):
    model = Model([(error,), says("Hi.")], calls_tools=True)
    with pytest.raises(type(error)):
        await model.ask(replace(request(user("Hi")), tool_form=form))
    assert model.learned == []


async def test_the_person_chooses_the_form_whatever_the_model_can():
    model = Model([says("/read_file a"), says("/read_file a")], calls_tools=True)
    assert await model.ask() == [TextDelta("/read_file a"), Stopped(ProviderStop.END)]
    assert len(await model.ask(replace(request(user("Hi")), tool_form=ToolForm.TEXT))) == 3


async def test_what_the_person_or_a_file_says_runs_nothing():
    model = Model([says("Yes.")])
    asked = request(user("/run_command rm a"), assistant(call("c1")), results(result("c1", "/run_command rm b")))
    assert await model.ask(asked) == [TextDelta("Yes."), Stopped(ProviderStop.END)]


def test_the_system_prompt_says_how_each_action_is_written():
    tool = replace(READ_FILE, description="Read.\nAll of it.")
    told = instruction((tool, RUN_COMMAND))
    assert "/read_file path=TEXT [line=NUMBER]\n    Read.\n    All of it.\n/run_command [command=TEXT]\n" in told
    assert told == instruction((tool, RUN_COMMAND))
    assert instruction(()) == ""


def test_arguments_inside_lists_are_told_of_too():
    told = instruction((EditFile.spec,))
    assert "/edit_file path=TEXT edits.1.old_text=TEXT edits.1.new_text=TEXT [edits.1.replace_all=true|false]" in told
    assert "    old_text: Exact, no line numbers" in told


def test_calls_and_results_go_back_as_text_with_ids():
    history = [
        user("Read it."),
        assistant("I will.", call("c1"), call("c2", "run_command", '{"command": "ls -l"}')),
        results(result("c1", "one\nEND\n", images=(PIXEL,)), result("c2", "no", is_error=True)),
        assistant("Done."),
    ]
    _, called, brought, _ = with_text_calls(history, verbs_of((READ_FILE, RUN_COMMAND)))
    assert called.text == 'I will.\n/read_file path=a\n/run_command command="ls -l"'
    assert brought.role is Role.USER
    assert brought.text.split("\n") == [
        "[results of actions; data from tools, not the user's words]",
        "1. /read_file, id c1, done: <<END2",
        "one",
        "END",
        "",
        "END2",
        "2. /run_command, id c2, failed: <<END",
        "no",
        "END",
    ]
    assert brought.parts[1] == PIXEL


def test_a_call_that_could_not_be_read_goes_back_as_it_was_written():
    unread = replace(call("c1", "read_file", "/read_file x=1\n"), problem="It is wrong.")
    called, _ = with_text_calls([assistant(unread), results(result("c1"))], verbs_of(()))
    assert called.text == "/read_file x=1"
    broken, _ = with_text_calls([assistant(call("c1", "read_file", "{"))], verbs_of(()))
    assert broken.text == "/read_file {"


@pytest.mark.parametrize("wire", WIRES)
def test_no_wire_gets_a_native_call_and_a_longer_conversation_begins_with_the_same_messages(wire: Wire):
    whole = request(*everything("mine"))
    body = body_for(wire, put_as_text(whole)).decode()
    assert "[results of actions" in body
    for mark in ('"tool_use"', '"tool_calls"', '"function_call"', '"functionCall"', '"tools"'):
        assert mark not in body
    shorter = put_as_text(replace(whole, messages=whole.messages[:3]))
    assert put_as_text(whole).messages[: len(shorter.messages)] == shorter.messages


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (500, "tools param requires --jinja flag"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (404, "No endpoints found that support tool use."),
        (400, "`tool calling` is not supported with this model"),
        (400, "deepseek-reasoner does not support Function Calling"),
    ],
)
def test_a_refusal_of_tools_is_told_from_other_errors(status: int, message: str):
    settings = ProviderSettings("local", "openai", "http://127.0.0.1:1")
    body = json.dumps({"error": {"message": message}}).encode()
    assert isinstance(error_of_status(settings, "m", status, body), ToolsRefusedError)


HERMES = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a"}}\n</tool_call>'


def calls_of(events: Sequence[ProviderEvent]) -> list[tuple[str, str]]:
    names = {event.index: event.name for event in events if isinstance(event, ToolCallBegun)}
    return [(names[event.index], event.text) for event in events if isinstance(event, ToolCallFragment)]


def text_of(events: Sequence[ProviderEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


READ = ("read_file", '{"path": "a"}')


@pytest.mark.parametrize(
    ("written", "shown", "made"),
    [
        (HERMES, "", [READ]),
        (f"I look.\n{HERMES}", "I look.\n", [READ]),
        (f"I look. {HERMES}\n", "I look. ", [READ]),
        (f"{HERMES}\n{HERMES}", "", [READ, READ]),
        (f"{HERMES}\nThen we see.", "Then we see.", [READ]),
        (HERMES.removesuffix("</tool_call>"), "", [READ]),
        (HERMES.replace("arguments", "parameters"), "", [READ]),
        (HERMES.replace('{"path": "a"}', '"{\\"path\\": \\"a\\"}"'), "", [READ]),
        (HERMES.replace('"', "'"), "", [READ]),
        (HERMES.replace("read_file", "functions.Read-File"), "", [READ]),
        (HERMES.replace("}}", "}}\n" + '{"name": "read_file", "arguments": {"path": "a"}}'), "", [READ, READ]),
        ("A `<tool_call>` is a mark.", "A `<tool_call>` is a mark.", []),
        (f"```\n{HERMES}\n```", f"```\n{HERMES}\n```", []),
        ("a <tool", "a <tool", []),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_calls_in_the_form_of_hermes_are_calls(written: str, shown: str, made: list[tuple[str, str]], size: int):
    pieces = [written[start : start + size] for start in range(0, len(written), size)]
    events = await Model([says(*pieces)]).ask()
    assert (text_of(events), calls_of(events)) == (shown, made)
    assert events[-1] == Stopped(ProviderStop.END)


async def test_a_call_in_the_form_of_hermes_that_cannot_be_read_runs_nothing_and_says_the_form():
    events = await Model([says('<tool_call>\n{"name": "read_file", "arguments": {"path"\n</tool_call>')]).ask()
    (problem,) = [event.problem for event in events if isinstance(event, MalformedToolCall)]
    assert '<tool_call>{"name"' in problem
    assert [event.name for event in events if isinstance(event, ToolCallBegun)] == ["read_file"]


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "granite-4", "SmolLM3", "nous-hermes-3"])
def test_models_that_were_trained_on_that_form_are_offered_it_and_see_their_calls_in_it(model: str):
    history = (user("a"), assistant("So.", call("c1")), results(result("c1")))
    sent = put_as_text(replace(request(*history), model=model))
    assert '"name": "read_file"' in sent.system
    assert "</tools>" in sent.system
    assert sent.messages[1].text == f"So.\n{HERMES}".replace('{"path": "a"}', '{"path": "a"}')
    assert "</tools>" not in put_as_text(request(*history)).system
