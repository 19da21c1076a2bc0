"""What a person sees of recorded updates."""

import io
from collections.abc import Sequence

from inline_snapshot import snapshot
from rich.console import Console

from pattern_acp.cli.chat.answers import PlainAnswer, RenderedAnswer
from pattern_acp.cli.chat.events import SessionInfo
from pattern_acp.cli.chat.screen import ASCII, UNICODE, Marks, Screen
from pattern_acp.cli.chat.transcript import Transcript
from pattern_acp.cli.chat.views import read_update
from pattern_acp.domain.canonical import Json, JsonObject


def text(value: str, message_id: str = "m1", kind: str = "agent_message_chunk") -> JsonObject:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": value}, "messageId": message_id}


def call(title: str, kind: str = "read", call_id: str = "c1", **more: Json) -> JsonObject:
    return {"sessionUpdate": "tool_call", "toolCallId": call_id, "title": title, "kind": kind, **more}


def end(status: str = "completed", call_id: str = "c1", **more: Json) -> JsonObject:
    return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": status, **more}


PLAN: JsonObject = {
    "sessionUpdate": "plan",
    "entries": [
        {"content": "Read it", "priority": "high", "status": "completed"},
        {"content": "Change it", "priority": "medium", "status": "in_progress"},
        {"content": "Test it", "priority": "low", "status": "pending"},
    ],
}
USAGE: JsonObject = {
    "sessionUpdate": "usage_update",
    "used": 12_345,
    "size": 200_000,
    "cost": {"amount": 0.0123, "currency": "USD"},
}


def show(
    updates: Sequence[JsonObject],
    *,
    width: int = 80,
    marks: Marks = UNICODE,
    tail: str = "",
    stop: str = "end_turn",
    rendered: bool = True,
    compact: bool = False,
    pipe: io.StringIO | None = None,
) -> str:
    out = io.StringIO()
    screen = Screen(Console(file=out, width=width, color_system=None, legacy_windows=False), live=False)
    answer = RenderedAnswer(screen) if rendered else PlainAnswer(pipe or out, on_screen=pipe is None)
    moments = iter([0.0, 0.0, 3.2])
    known = SessionInfo(cwd="/project")
    transcript = Transcript(screen, answer, marks, known, lambda _: tail, lambda: next(moments))
    transcript.compact = compact
    transcript.begin_turn()
    for update in updates:
        read = read_update(update)
        assert read is not None
        transcript.show(read)
    transcript.end_turn(stop)
    return out.getvalue()


def test_an_answer_in_pieces_is_printed_once_as_blocks():
    pieces = ["# Ti", "tle\n\nSome **bold** te", "xt.\n\n- one\n", "- two\n\n```py\nx", " = 1\n```\n"]
    assert show([text(piece) for piece in pieces]) == snapshot("""\
                                     Title

Some bold text.

 • one
 • two

 x = 1

3.2 s
""")


def test_thoughts_are_folded_to_one_line():
    thought = text("Let me think. " * 100, kind="agent_thought_chunk")
    assert show([thought, thought, text("Done.")]) == snapshot("""\
∴ thought, 2,800 characters

Done.

3.2 s
""")


def test_a_call_is_printed_when_it_ends_with_its_change():
    diff: Json = {"type": "diff", "path": "/project/a.py", "oldText": "one\ntwo\n", "newText": "one\n2\n"}
    updates = [
        text("I will edit."),
        call("Edit a.py", "edit", content=[diff]),
        end("in_progress"),
        end("completed", content=[diff]),
        text("Edited.", "m2"),
    ]
    assert show(updates) == snapshot("""\
I will edit.

✓ ✎ Edit a.py
    a.py  +1 -1
    1   one
    2 - two
    2 + 2

Edited.

3.2 s
""")


def test_the_end_of_a_command_is_shown():
    output = "".join(f"line {number}\n" for number in range(20)) + "50%\r100%\n\x1b[32mgreen\x1b[0m\n"
    terminal: Json = {"type": "terminal", "terminalId": "t1"}
    status: Json = {"type": "content", "content": {"type": "text", "text": "Exit code 0 after 0.1 s."}}
    updates = [call("make test", "execute"), end("completed", content=[terminal, status])]
    assert show(updates, tail=output) == snapshot("""\
✓ $ make test
    … 10 lines above
    line 10
    line 11
    line 12
    line 13
    line 14
    line 15
    line 16
    line 17
    line 18
    line 19
    100%
    green
    Exit code 0 after 0.1 s.

3.2 s
""")


def test_a_failed_call_says_why_and_shows_no_change_that_was_not_made():
    diff: Json = {"type": "diff", "path": "/project/a.py", "newText": "x\n"}
    why: Json = {"type": "content", "content": {"type": "text", "text": "The disk is full."}}
    assert show([call("Create a.py", "edit"), end("failed", content=[diff, why])]) == snapshot("""\
✗ ✎ Create a.py
    The disk is full.

3.2 s
""")


def test_what_a_read_found_stays_folded():
    found: Json = {"type": "content", "content": {"type": "text", "text": "1 secret\n2 lines\n"}}
    assert show([call("Read a.py"), end(content=[found])]) == snapshot("""\
✓ → Read a.py

3.2 s
""")


def test_a_call_without_an_end_is_printed_when_the_turn_is_over():
    assert show([call("sleep 100", "execute"), end("in_progress")], stop="cancelled") == snapshot("""\
▸ $ sleep 100

cancelled · 3.2 s
""")


def test_plan_and_usage_close_the_turn():
    assert show([PLAN, USAGE, text("Working on it.")]) == snapshot("""\
Plan
  ✓ Read it
  ▸ Change it
  ○ Test it

Working on it.

12.3k of 200k tokens · 0.0123 USD · 3.2 s
""")


def test_a_long_entry_of_a_plan_goes_on_below_its_words():
    entry = {"content": " ".join(["word"] * 30), "priority": "low", "status": "pending"}
    plan: JsonObject = {"sessionUpdate": "plan", "entries": [entry]}
    first, second = [line for line in show([plan]).splitlines() if "word" in line][:2]
    assert (first.index("word"), second.index("word")) == (4, 4)
    assert f"{first} {second}".split().count("word") == 30


def test_an_alphabet_of_few_characters_is_enough():
    shown = show([text("x", kind="agent_thought_chunk"), call("Read a.py"), end(), PLAN, text("Hi.")], marks=ASCII,
                 rendered=False)  # fmt: skip
    assert shown.isascii()
    assert shown == snapshot("""\
: thought, 1 characters
+ > Read a.py

Plan
  + Read it
  > Change it
  o Test it

Hi.

3.2 s
""")


def test_lines_fit_a_narrow_screen():
    updates = [call("x" * 100, "execute"), end(), text("word " * 30), USAGE, PLAN]
    assert max(len(line) for line in show(updates, width=24).splitlines()) <= 24


def test_nothing_that_arrives_can_steer_the_terminal():
    evil = "a\x1b[2J\x1b]0;t\x07\x9b1m\u202eb"
    content: Json = {"type": "content", "content": {"type": "text", "text": evil}}
    title: JsonObject = {"sessionUpdate": "session_info_update", "title": evil}
    plan: JsonObject = {"sessionUpdate": "plan", "entries": [{"content": evil, "priority": "low", "status": "pending"}]}
    updates = [title, text(evil), plan, call(evil, "other"), end("failed", content=[content]),
               text(evil, kind="user_message_chunk"), call(evil, "execute", "c2"),
               end("completed", "c2", content=[{"type": "terminal", "terminalId": "t"}])]  # fmt: skip
    for rendered in (True, False):
        shown = show(updates, tail=evil, rendered=rendered)
        assert all(each == "\n" or each.isprintable() for each in shown)


def test_a_link_shows_where_it_leads():
    assert "https://evil.example" in show([text("[the docs](https://evil.example)\n")])


def test_a_replay_shows_prompts_answers_and_one_line_a_call():
    diff: Json = {"type": "diff", "path": "/project/a.py", "newText": "x\n"}
    updates = [
        text("Make a.py", "u1", "user_message_chunk"),
        call("Create a.py", "edit"),
        end("completed", content=[diff]),
        text("Made it."),
        text("Thanks", "u2", "user_message_chunk"),
        text("Welcome.", "m2"),
    ]
    assert show(updates, compact=True).replace(UNICODE.prompt, ">") == snapshot("""\
> Make a.py

✓ ✎ Create a.py

Made it.

> Thanks

Welcome.

3.2 s
""")


def test_a_replay_names_what_was_piped_in_and_files_as_the_user_knows_them():
    def given(uri: str) -> JsonObject:
        resource: Json = {"uri": uri, "text": "x", "mimeType": "text/plain"}
        content: Json = {"type": "resource", "resource": resource}
        return {"sessionUpdate": "user_message_chunk", "messageId": uri, "content": content}

    shown = show([given("stdin:///piped%20input"), given("file:///a%20b.py"), given("stdin:///%1b[2J")], compact=True)
    assert "@piped input" in shown
    assert "@file:///a b.py" in shown
    assert "\x1b" not in shown


def test_an_update_that_is_not_known_is_ignored():
    assert read_update({"sessionUpdate": "from_the_future", "x": 1}) is None


def test_what_the_agent_says_of_its_connection_is_a_line_and_no_thought():
    told = text("The connection broke. The model is asked to continue.", "m1_told_again_thought", "agent_thought_chunk")
    assert show([text("Half an ans"), told, text("wer.", "m2")]) == snapshot("""\
Half an ans

The connection broke. The model is asked to continue.

wer.

3.2 s
""")


def test_code_that_was_cut_goes_on_as_code():
    told = text("It was cut. The model is asked to continue.", "m1_told_again_thought", "agent_thought_chunk")
    thought = text("Where was I?", "m2_thought", "agent_thought_chunk")
    shown = show([text("```python\nprint(1)\nprint("), told, thought, text("2)\n```\nDone.", "m2")])
    assert [line.strip() for line in shown.splitlines() if line.strip()][-3:-1] == ["2)", "Done."]
    called = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read a", "kind": "read", "status": "pending"}
    shown = show([text("```\none\n"), told, called, text("*Done.*", "m3")])
    assert "*" not in shown


def test_an_answer_that_broke_off_and_went_on_is_one_text_in_a_pipe():
    told = text("The connection broke. The model is asked to continue.", "m1_told_again_thought", "agent_thought_chunk")
    thought = text("Where was I?", "m2_thought", "agent_thought_chunk")
    pipe = io.StringIO()
    show([text("Half an "), told, thought, text("ans", "m2"), told, text("wer.", "m3")], rendered=False, pipe=pipe)
    assert pipe.getvalue() == "Half an answer.\n"
    called = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read a", "kind": "read", "status": "pending"}
    pipe = io.StringIO()
    show([text("I look."), told, called, text("Done.", "m3")], rendered=False, pipe=pipe)
    assert pipe.getvalue() == "I look.\n\nDone.\n"
