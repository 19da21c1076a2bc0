"""One story in every editor of the table, over the real process: what its user would see."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from pattern_acp.jsonrpc.messages import ConnectionClosedError, RemoteError
from tests.support.editor_kinds import KINDS, EditorKind
from tests.support.process import write_script
from tests.support.screen import faults_of_call
from tests.support.simulated_editor import SimulatedEditor, simulated_editor
from tests.support.turns import CANCEL_SECONDS

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(os.name == "nt", reason="commands of a POSIX shell")]

Turn = Sequence[Mapping[str, object]]


def call(tool: str, **arguments: object) -> dict[str, object]:
    return {"tool": tool, "arguments": arguments}


def says(*texts: str) -> Turn:
    return [{"text": text} for text in texts]


def plan(*statuses: str) -> Mapping[str, object]:
    steps = ("Look.", "Change.")
    return call("update_plan", entries=[{"content": s, "status": t} for s, t in zip(steps, statuses, strict=True)])


EDIT = call("edit_file", path="greeting.txt", edits=[{"old_text": "hello", "new_text": "good day"}])
AGAIN = call("edit_file", path="greeting.txt", edits=[{"old_text": "good day", "new_text": "bye"}])
FIRST: Sequence[Turn] = (
    [{"thinking": "It wants a look."}, *says("I ", "look."), call("read_file", path="greeting.txt")],
    says("It says ", "hello."),
    [*says("Both at once."), EDIT, call("write_file", path="new/plum.txt", content="plum\n")],
    says("Changed and made."),
    [call("run_command", command="printf 'one\\n'; echo two | tr t T")],
    says("It ran."),
    [plan("in_progress", "pending")],
    [*says("Now the change."), plan("completed", "in_progress")],
    says("Planned."),
    [*says("Half an ans"), {"wait_for": "cancel"}],
    [*says("Two more."), AGAIN, call("run_command", command="touch never")],
    says("Here again."),
)
SECOND: Sequence[Turn] = ([*says("Once more."), call("read_file", path="greeting.txt")], says("Still here."))

HELLO, CHANGED = "hello\nworld\n", "good day\nworld\n"


def said(window: SimulatedEditor, since: int = 0) -> str:
    """What the agent wrote, without what it told of the MCP servers that some editors pass unasked."""
    told, _, answer = window.screen.said(since).rpartition("\n\n")
    assert all(line.startswith("> MCP servers that ") for line in told.split("\n") if line)
    return answer


async def reads(window: SimulatedEditor) -> None:
    assert await window.say("Look at the greeting.") == "end_turn"
    assert said(window) == "I look.\nIt says hello."
    assert ("thought", "It wants a look.") in window.screen.shown
    (call,) = window.screen.calls.values()
    assert (call["status"], call["kind"]) == ("completed", "read")
    assert call["locations"] == [{"path": str(window.folder / "greeting.txt"), "line": 1}]


async def edits(window: SimulatedEditor) -> None:
    since, asked = len(window.screen.shown), len(window.editor.asked)
    assert await window.say("Change it and make another.") == "end_turn"
    assert said(window, since) == "Both at once.\nChanged and made."
    edit, write = window.screen.calls_since(since)
    assert (edit["status"], write["status"]) == ("completed", "completed")
    assert [question["toolCall"]["toolCallId"] for question in window.editor.asked[asked:]] == [
        edit["toolCallId"],
        write["toolCallId"],
    ]
    assert window.seen(window.folder / "greeting.txt") == CHANGED
    assert window.seen(window.folder / "new" / "plum.txt") == "plum\n"
    (shown,) = [item for item in edit["content"] if item["type"] == "diff"]
    assert (shown["oldText"], shown["newText"]) == (HELLO, CHANGED)


async def runs(window: SimulatedEditor) -> None:
    since = len(window.screen.shown)
    assert await window.say("Run it.") == "end_turn"
    (call,) = window.screen.calls_since(since)
    assert (call["status"], call["kind"]) == ("completed", "execute")
    assert "tr t T" in call["title"]
    kinds = [item["type"] for item in call["content"]]
    if window.kind.terminals:
        assert "terminal" in kinds
        (terminal,) = window.editor.terminals.by_id.values()
        assert terminal.output.replace("\r", "") == "one\nTwo\n"
        assert terminal.released
    else:
        texts = [item["content"]["text"] for item in call["content"] if item["type"] == "content"]
        assert any("one\nTwo" in text for text in texts)


async def plans(window: SimulatedEditor) -> None:
    assert await window.say("Plan it.") == "end_turn"
    assert [entry["status"] for entry in window.screen.plan] == ["completed", "in_progress"]


async def cancels_an_answer(window: SimulatedEditor) -> None:
    since = len(window.screen.shown)
    async with window.saying("Tell me much.") as flight:
        await window.editor.wait_until(lambda: "Half an ans" in said(window, since))
        await window.cancel()
        assert await flight.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
    assert said(window, since).startswith("Half an ans")


async def cancels_a_question(window: SimulatedEditor) -> None:
    since, asked, person = len(window.screen.shown), len(window.editor.asked), window.person
    person.waits = True
    async with window.saying("Change it again.") as flight:
        await window.editor.wait_until(lambda: person.open > 0)
        with anyio.fail_after(CANCEL_SECONDS):
            await window.cancel()
            assert await flight.stop_reason() == "cancelled"
    person.waits = False
    assert {call["status"] for call in window.screen.calls_since(since)} == {"failed"}
    assert len(window.editor.asked) == asked + 1, "No second question comes up while the person presses stop."
    assert window.seen(window.folder / "greeting.txt") == CHANGED
    assert not (window.folder / "never").exists()


async def goes_on(window: SimulatedEditor) -> None:
    since = len(window.screen.shown)
    assert await window.say("Are you there?") == "end_turn"
    assert said(window, since) == "Here again."


async def uses_commands(window: SimulatedEditor) -> None:
    await window.editor.wait_until(lambda: bool(window.screen.commands))
    assert {"rewind", "usage", "memory"} <= set(window.screen.commands)
    since = len(window.screen.shown)
    assert await window.say("/memory") == "end_turn"
    assert "human" in window.screen.said(since)


async def rewinds(window: SimulatedEditor) -> None:
    since = len(window.screen.shown)
    assert await window.say("/rewind 2") == "end_turn"
    assert window.editor.asked[-1]["toolCall"]["title"] == "Go back to before turn 2 (“Change it and make another.”)"
    assert "Back to before turn 2" in window.screen.said(since)
    assert window.seen(window.folder / "greeting.txt") == HELLO
    assert not (window.folder / "new" / "plum.txt").exists()
    assert await window.say("/rewind undo") == "end_turn"
    assert window.seen(window.folder / "greeting.txt") == CHANGED


STORY = (reads, edits, runs, plans, cancels_an_answer, cancels_a_question, goes_on, uses_commands)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_a_person_sees_the_same_story_in_every_editor(kind: EditorKind, tmp_path: Path):
    folder = (tmp_path / "work").resolve()
    folder.mkdir()
    for name in ("greeting.txt", "main.cpp", "notebook.py"):
        (folder / name).write_text(HELLO, encoding="utf-8")
    home = tmp_path / "home"
    async with simulated_editor(kind, home, folder, write_script(tmp_path, FIRST)) as window:
        await window.new_session()
        await window.set_mode("plan")
        await window.set_mode("ask")
        for step in STORY:
            await step(window)
        assert window.screen.title == "Look at the greeting."
        shown, session = window.screen.history(), window.session
        await rewinds(window)
        assert [fault for call in window.screen.calls.values() for fault in faults_of_call(call, folder)] == []
    async with simulated_editor(kind, home, folder, write_script(tmp_path, SECOND)) as window:
        await window.open_again(session)
        if kind.reopens == "session/load":
            again = [entry for entry in window.screen.history() if entry[0] != "person"]
            assert again[: len(shown)] == shown
            assert window.screen.title == "Look at the greeting."
        since = len(window.screen.shown)
        assert await window.say("Look again.") == "end_turn"
        assert said(window, since) == "Once more.\nStill here."


async def test_a_client_that_answers_no_question_and_leaves_finds_the_call_failed_and_the_file_as_it_was(
    tmp_path: Path,
):
    # chuk-acp answers nothing that it is asked; an editor that is closed does not either.
    kind = EditorKind("a client that answers nothing", {"protocolVersion": 1, "capabilities": {}}, text_ids=True)
    folder = (tmp_path / "work").resolve()
    folder.mkdir()
    (folder / "greeting.txt").write_text(HELLO, encoding="utf-8")
    turns: Sequence[Turn] = ([*says("I change it."), EDIT], says("Never."))
    home = tmp_path / "home"
    async with simulated_editor(kind, home, folder, write_script(tmp_path, turns)) as window:
        await window.new_session()
        session, window.person.waits = window.session, True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leaving, window)
            await window.editor.wait_until(lambda: window.person.open > 0)
            await window.agent.close_input()
            assert await window.agent.wait() == 0
    async with simulated_editor(kind, home, folder, write_script(tmp_path, SECOND)) as window:
        await window.open_again(session)
        (failed,) = window.screen.calls.values()
        assert failed["status"] == "failed"
        assert window.seen(folder / "greeting.txt") == HELLO
        assert said(window) == "I change it."
        assert await window.say("Look again.") == "end_turn"
        assert said(window).endswith("Once more.\nStill here.")


async def leaving(window: SimulatedEditor) -> None:
    """A prompt whose answer nobody waits for any more."""
    with suppress(ConnectionClosedError, RemoteError):
        await window.say("Change it.")
