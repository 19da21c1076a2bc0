"""Questions are shown whole and answered as the person says."""

import io
from collections.abc import Iterable
from typing import Literal

import pytest
from inline_snapshot import snapshot
from rich.console import Console

from pattern_acp.acp import schema
from pattern_acp.cli.chat.answers import PlainAnswer
from pattern_acp.cli.chat.asking import Asker, shows_at_length
from pattern_acp.cli.chat.client import FormFields, form_fields
from pattern_acp.cli.chat.events import OfferedChoice, Question, SessionInfo
from pattern_acp.cli.chat.screen import UNICODE, Screen
from pattern_acp.cli.chat.transcript import Transcript
from pattern_acp.cli.chat.views import ScreenView
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.tool_calls import ToolKind

CHOICES = (
    OfferedChoice("allow_once", "Allow once", "allow_once"),
    OfferedChoice("allow_always", "Always allow edits under src/", "allow_always"),
    OfferedChoice("reject_once", "Reject", "reject_once"),
)


class TypedKeys:
    """Keys as a person would press them."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = iter(keys)

    def forget(self) -> None:
        return

    def read(self, question: Question, hint: str) -> str:
        del question, hint
        key = next(self._keys, "")
        if key == "\x03":
            raise KeyboardInterrupt
        return key

    def read_line(self, question: Question) -> str | None:
        return question.text + next(self._keys, "") if question.text else next(self._keys, None)


def edit(new_text: str = "new\n", reason: str = "Mode `ask` asks before each edit.") -> schema.ToolCallUpdate:
    return schema.ToolCallUpdate(
        tool_call_id="c1",
        title="Edit a.py",
        kind=ToolKind.EDIT,
        content=(
            schema.Diff(path="/project/a.py", old_text="old\n", new_text=new_text),
            schema.Content(content=schema.TextContent(text=reason)),
        ),
    )


def answer(
    call: schema.ToolCallUpdate, keys: Iterable[str] | None, flag: Literal["ask", "allow", "deny"] = "ask"
) -> tuple[str | None, str]:
    out = io.StringIO()
    screen = Screen(Console(file=out, width=80, color_system=None, legacy_windows=False), live=False)
    question = Question(call, CHOICES)
    Asker(screen, UNICODE, flag, None if keys is None else TypedKeys(keys)).ask(question, "/project")
    return question.answer.result(0), out.getvalue()


def test_a_question_shows_change_reason_and_keys():
    chosen, shown = answer(edit(), ["x", "\r", "A"])
    assert chosen == "allow_always"
    assert shown == snapshot("""\
? ✎ Edit a.py
    a.py  +1 -1
    1 - old
    1 + new
    Mode `ask` asks before each edit.
  [a] Allow once
  [A] Always allow edits under src/
  [r] Reject
  [w] Reject, and say what to do instead
  ▸ Always allow edits under src/
""")


def test_a_long_change_can_be_seen_whole_before_it_is_allowed():
    long = "".join(f"line {number}\n" for number in range(60))
    chosen, shown = answer(edit(long), ["v", "a"])
    assert chosen == "allow_once"
    assert "… 31 more lines" in shown
    assert "line 59" in shown


def test_a_command_is_shown_once_and_a_long_one_in_full():
    line = "echo " + "x" * 200
    call = schema.ToolCallUpdate(
        tool_call_id="c1",
        title=line,
        kind=ToolKind.EXECUTE,
        content=(schema.Content(content=schema.TextContent(text=f"```\n{line}\n```")),),
    )
    _, shown = answer(call, ["r"])
    assert shown.count("x") == 200


def test_a_refusal_may_say_what_to_do_instead():
    question = Question(edit(), CHOICES)
    screen = Screen(Console(file=io.StringIO(), width=80), live=False)
    Asker(screen, UNICODE, "ask", TypedKeys(["w", "", "w", "Use the helper."])).ask(question, "/project")
    assert (question.answer.result(0), question.beside) == ("reject_once", ["Use the helper."])
    gone = Question(edit(), CHOICES)
    Asker(screen, UNICODE, "ask", TypedKeys(["w"])).ask(gone, "/project")
    assert (gone.answer.result(0), gone.beside) == (None, [])


def test_a_table_in_a_question_is_drawn_as_one():
    quotes = "**Job 1: Tidy**\n\n| | model | estimate |\n| --- | --- | --- |\n| 1 | `a/b` | 2 USD |\n\n- Risk: none."
    content = (schema.Content(content=schema.TextContent(text=quotes)),)
    call = schema.ToolCallUpdate(tool_call_id="c1", title="Agree to job 1?", content=content)
    _, shown = answer(call, ["r"])
    assert "| ---" not in shown
    assert "────" in shown
    assert "a/b" in shown
    assert "Risk: none." in shown
    assert shows_at_length(call)


def test_without_an_answer_the_question_is_cancelled():
    assert answer(edit(), [])[0] is None


def test_ctrl_c_cancels_the_question_and_goes_on_up():
    screen = Screen(Console(file=io.StringIO()), live=False)
    question = Question(edit(), CHOICES)
    with pytest.raises(KeyboardInterrupt):
        Asker(screen, UNICODE, "ask", TypedKeys(["\x03"])).ask(question, "")
    assert question.answer.result(0) is None


def test_flags_answer_without_a_word():
    assert answer(edit(), ["r"], "allow") == ("allow_once", "")
    assert answer(edit(), ["a"], "deny") == ("reject_once", "")


def test_where_nobody_can_be_asked_the_answer_is_no_and_names_the_flag():
    chosen, shown = answer(edit(), None)
    assert chosen == "reject_once"
    assert "Edit a.py" in shown
    assert "--yes" in shown


def test_a_question_cannot_steer_the_terminal():
    _, shown = answer(edit("\x1b[2J\x9b\n", reason="\x1b]0;x\x07"), ["a"])
    assert all(each == "\n" or each.isprintable() for each in shown)


def test_a_question_with_changes_is_told_from_one_without():
    assert shows_at_length(edit())
    assert not shows_at_length(schema.ToolCallUpdate(tool_call_id="c"))


def answer_words(
    line: str | None, flag: Literal["ask", "allow", "deny"] = "ask", options: tuple[str, ...] = ("SQLite", "Files")
) -> tuple[str | None, str]:
    out = io.StringIO()
    screen = Screen(Console(file=out, width=80, color_system=None, legacy_windows=False), live=False)
    question = FormFields("answer" if options else "", options, "own_words").question(
        "**Where** to now?\n\nIt stays there."
    )
    Asker(screen, UNICODE, flag, TypedKeys([] if line is None else [line])).ask(question, "/project")
    return question.answer.result(0), out.getvalue()


def test_a_text_to_change_begins_as_the_agent_wrote_it():
    asked = schema.ElicitationRequest(
        session_id="s",
        tool_call_id="c1",
        message="The text as it should be saved",
        requested_schema={
            "type": "object",
            "properties": {"own_words": {"type": "string", "default": "We use ninja"}},
        },
        mode="form",
    )
    fields = form_fields(asked)
    assert fields is not None
    out = io.StringIO()
    screen = Screen(Console(file=out, width=80, color_system=None, legacy_windows=False), live=False)
    question = fields.question(asked.message)
    Asker(screen, UNICODE, "ask", TypedKeys([" for C."])).ask(question, "/project")
    assert question.answer.result(0) == "We use ninja for C."
    assert "Change the text and press Enter" in out.getvalue()


def test_the_agents_own_refusal_with_a_reason_takes_the_place_of_the_key_for_one():
    choices = (*CHOICES, OfferedChoice("reject_once_with_reason", "Reject, with a reason", "reject_once"))
    out = io.StringIO()
    screen = Screen(Console(file=out, width=80, color_system=None, legacy_windows=False), live=False)
    question = Question(edit(), choices)
    Asker(screen, UNICODE, "ask", TypedKeys(["w", "4"])).ask(question, "/project")
    assert question.answer.result(0) == "reject_once_with_reason"
    assert "[4] Reject, with a reason" in out.getvalue()
    assert "[w]" not in out.getvalue()


def test_a_question_of_the_agent_takes_a_number_or_any_words():
    chosen, shown = answer_words("2")
    assert chosen == "Files"
    assert shown == snapshot("""\
? • Where to now?
    It stays there.
  [1] SQLite
  [2] Files
  A number or your own words, and Enter; Enter alone: no answer
""")
    assert answer_words("Nowhere, ask Ana.")[0] == "Nowhere, ask Ana."
    assert answer_words("")[0] == ""
    assert answer_words(None)[0] is None
    assert answer_words("2", options=())[0] == "2"


def test_a_question_of_the_agent_is_decided_by_a_flag_without_a_refusal():
    assert answer_words(None, "allow") == ("SQLite", "")
    assert answer_words(None, "allow", options=()) == ("", "")
    assert answer_words(None, "deny") == ("", "")


def test_a_form_about_a_call_shows_the_changes_of_that_call():
    out = io.StringIO()
    screen = Screen(Console(file=out, width=80, color_system=None, legacy_windows=False), live=False)
    answer, known = PlainAnswer(out, on_screen=True), SessionInfo(cwd="/project")
    transcript = Transcript(screen, answer, UNICODE, known, lambda _: "", lambda: 0.0)
    view = ScreenView(transcript, Asker(screen, UNICODE, "ask", TypedKeys(["1", "Nothing."])))
    view.begin()
    started: JsonObject = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Worker: maker", "kind": "think"}
    diff: JsonObject = {"type": "diff", "path": "/project/a.py", "oldText": "one\n", "newText": "two\n"}
    view.update(started)
    view.update({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [diff]})
    question = FormFields("answer", ("Accept", "Drop it"), "own_words").question("maker has finished.\n\n- a.py", "c")
    view.ask(question)
    assert question.answer.result(0) == "Accept"
    assert "- a.py" in out.getvalue()
    assert "- one" in out.getvalue()
    assert "+ two" in out.getvalue()
    again = FormFields("", (), "own_words").question("What should maker change?", "c")
    view.ask(again)
    assert out.getvalue().count("- one") == 1
