"""A turn is followed to its end, and Ctrl-C cancels before it leaves."""

import queue
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from pattern_acp.acp import schema
from pattern_acp.cli.chat.events import AgentAsks, Happening, Inbox, PromptAnswered, Question, SessionInfo, Updated
from pattern_acp.cli.chat.interactive import Turns
from pattern_acp.cli.chat.keyboard import LEAVING_SECONDS, Interrupts, SecondPress
from pattern_acp.cli.chat.run import exit_code
from pattern_acp.domain.canonical import JsonObject

TITLE: JsonObject = {"sessionUpdate": "session_info_update", "title": "The title"}
TEXT: JsonObject = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Hi"}}


@dataclass
class FakeView:
    """Notes what it is told; `on_ask` may act like a person."""

    seen: list[object] = field(default_factory=list[object])
    interrupt_question: bool = False

    def begin(self) -> None:
        self.seen.append("begin")

    def update(self, update: JsonObject) -> None:
        self.seen.append(update["sessionUpdate"])

    def ask(self, question: Question) -> None:
        self.seen.append("ask")
        question.reply(None if self.interrupt_question else "yes")
        if self.interrupt_question:
            raise KeyboardInterrupt

    def tick(self, *, cancelling: bool) -> None:
        if cancelling:
            self.seen.append("cancelling")

    def end(self, end: PromptAnswered) -> None:
        self.seen.append(end.stop_reason)


def turns_over(
    *happenings: Happening, view: FakeView | None = None, on_cancel: Callable[[Inbox], None] | None = None
) -> tuple[Turns, FakeView, list[str], Interrupts]:
    inbox: Inbox = queue.SimpleQueue[Happening]()
    for happening in happenings:
        inbox.put(happening)
    shown = view or FakeView()
    calls: list[str] = []
    interrupts = Interrupts()

    def cancel() -> None:
        calls.append("cancel")
        if on_cancel is not None:
            on_cancel(inbox)

    turns = Turns(inbox, shown, interrupts, calls.append, cancel, lambda: calls.append("stop"))
    return turns, shown, calls, interrupts


def question() -> Question:
    return Question(schema.ToolCallUpdate(tool_call_id="c"), ())


def test_a_turn_shows_everything_in_order_until_it_ends():
    asked = question()
    turns, view, calls, _ = turns_over(Updated(TEXT), AgentAsks(asked), Updated(TITLE), PromptAnswered("end_turn"))
    assert turns.run("Do it") == PromptAnswered("end_turn")
    assert calls == ["Do it"]
    assert view.seen == ["begin", "agent_message_chunk", "ask", "session_info_update", "end_turn"]
    assert asked.answer.result(0) == "yes"


def test_ctrl_c_in_a_question_cancels_the_turn():
    view = FakeView(interrupt_question=True)
    turns, _, calls, _ = turns_over(
        AgentAsks(question()), view=view, on_cancel=lambda inbox: inbox.put(PromptAnswered("cancelled"))
    )
    assert turns.run("Do it").stop_reason == "cancelled"
    assert calls == ["Do it", "cancel"]


def test_the_first_ctrl_c_cancels_and_the_second_leaves():
    turns, view, calls, interrupts = turns_over()
    with interrupts.installed():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            turns.run("Do it")
    assert calls == ["Do it", "cancel"]
    assert "cancelling" in view.seen


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
def test_ctrl_backslash_ends_one_subagent_and_not_the_turn():
    turns, view, calls, interrupts = turns_over(Updated(TEXT), PromptAnswered("end_turn"))
    with interrupts.installed():
        signal.raise_signal(signal.SIGQUIT)
        assert turns.run("Do it") == PromptAnswered("end_turn")
    assert calls == ["Do it", "stop"]
    assert "cancelling" not in view.seen


def test_ctrl_c_is_raised_where_something_blocks():
    interrupts = Interrupts()
    with interrupts.installed(), pytest.raises(KeyboardInterrupt), interrupts.raised():
        signal.raise_signal(signal.SIGINT)
    assert not interrupts.take()


def test_what_arrives_while_a_line_is_typed_is_remembered_and_shown_later():
    turns, view, _, _ = turns_over(Updated(TITLE), Updated(TEXT))
    known = SessionInfo()
    turns.absorb(known)
    assert known.title == "The title"
    assert view.seen == []
    turns.show_waiting()
    assert view.seen == ["agent_message_chunk"]


@pytest.mark.parametrize(
    ("stop_reason", "code"),
    [("end_turn", 0), ("cancelled", 130), ("refusal", 3), ("max_tokens", 1), ("max_turn_requests", 1), ("", 1)],
)
def test_the_exit_code_tells_how_the_turn_ended(stop_reason: str, code: int):
    assert exit_code(PromptAnswered(stop_reason)) == code


def test_a_turn_that_ended_in_words_about_a_failure_ends_with_1():
    assert exit_code(PromptAnswered("end_turn", failure="provider.overloaded")) == 1


@pytest.mark.parametrize(
    ("presses", "leaves"),
    [
        ([(0.0, ""), (1.0, "")], True),
        ([(0.0, ""), (LEAVING_SECONDS + 1, "")], False),
        ([(0.0, ""), (1.0, "typed meanwhile")], False),
        ([(0.0, "typed"), (1.0, "")], True),
        ([(0.0, ""), (1.0, "typed meanwhile"), (2.0, "")], True),
        ([(0.0, "")], False),
    ],
)
def test_only_a_second_ctrl_c_soon_after_the_first_with_nothing_typed_leaves(
    presses: list[tuple[float, str]], leaves: bool
):
    times = iter([at for at, _ in presses])
    second = SecondPress(lambda: next(times))
    assert [second.leaves(line) for _, line in presses] == [*([False] * (len(presses) - 1)), leaves]


def test_a_prompt_between_two_ctrl_c_makes_the_second_a_first_one():
    second = SecondPress(lambda: 0.0)
    assert not second.leaves("")
    second.forget()
    assert not second.leaves("")
