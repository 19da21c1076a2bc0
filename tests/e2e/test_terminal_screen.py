"""The chat in a real terminal: paste, resize, Ctrl-C, prompts that wait, lists to choose from, and plain lines."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pattern_acp.cli.chat.screen import UNICODE
from tests.support.process import COMMAND, agent_environment, write_script
from tests.support.tmux import TmuxScreen, tmux_screen

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.needs("tmux")]

CHAT = (*COMMAND, "chat")

SIGN = UNICODE.prompt


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "home").mkdir()
    return tmp_path


def environment(folder: Path, *turns: Sequence[Mapping[str, object]]) -> dict[str, str]:
    script = write_script(folder, turns) if turns else {}
    return agent_environment(folder / "home", PYTHONUTF8="1", **script)


def ready(screen: TmuxScreen) -> None:
    """Wait for the first prompt."""
    screen.wait_for("mode ask")


def test_pasted_lines_are_one_prompt_with_their_lines(folder: Path):
    with tmux_screen(folder, CHAT, environment(folder, [{"text": "Both read."}], [{"text": "Again."}])) as screen:
        ready(screen)
        screen.paste("first line\nsecond line\n")
        shown = screen.wait_for("second line")
        assert "Both read." not in shown
        screen.keys("Enter")
        screen.wait_for("Both read.")
        screen.keys("Up")
        assert screen.wait_for("Both read.").count("first line") >= 1


def test_a_prompt_survives_a_change_of_the_windows_size(folder: Path):
    with tmux_screen(folder, CHAT, environment(folder, [{"text": "It was read."}])) as screen:
        ready(screen)
        screen.type("wide characters: 価格は整数")
        screen.wait_for("価格は整数")
        for columns, rows in (("40", "12"), ("22", "20"), ("26", "20"), ("100", "35")):
            screen.run("resize-window", "-x", columns, "-y", rows)
            screen.wait_for("価")
        screen.type(" end")
        shown = screen.wait_for("価格は整数 end")
        assert shown.count("mode ask") == 1
        assert shown.count("Ctrl-D leaves") == 1
        screen.keys("Enter")
        screen.wait_for("It was read.")


def test_a_narrower_window_shows_what_a_turn_does_once(folder: Path):
    turn: Sequence[Mapping[str, object]] = [{"text": "Working."}, {"wait_for": "cancel"}]
    with tmux_screen(folder, CHAT, environment(folder, turn)) as screen:
        ready(screen)
        screen.type("begin")
        screen.keys("Enter")
        screen.wait_for("answering")
        screen.run("resize-window", "-x", "24", "-y", "20")
        shown = screen.wait_for("…", gone="Ctrl-C cancels")
        assert shown.count("Working.") == 1
        assert shown.count("answering") == 1
        screen.keys("C-c")
        screen.wait_for("cancelled")


def test_ctrl_c_cancels_the_turn_says_so_and_loses_no_text(folder: Path):
    turns: list[Sequence[Mapping[str, object]]] = [
        [{"text": "Working."}, {"wait_for": "cancel"}],
        [{"text": "Second answer."}],
    ]
    with tmux_screen(folder, CHAT, environment(folder, *turns)) as screen:
        ready(screen)
        screen.type("begin")
        screen.keys("Enter")
        screen.wait_for("Ctrl-C cancels")
        screen.type("and then this")
        screen.wait_for(f"{SIGN} and then this")
        screen.keys("C-c")
        screen.wait_for("cancelled", gone="Ctrl-C cancels")
        screen.keys("Enter")
        screen.wait_for("Second answer.")


def test_a_prompt_that_is_typed_while_a_turn_runs_waits_for_its_end(folder: Path):
    wait = {"command": "until [ -e go ]; do sleep 0.1; done"}
    turns: list[Sequence[Mapping[str, object]]] = [
        [{"tool": "run_command", "arguments": wait}],
        [{"text": "First done."}],
        [{"text": "Second done."}],
    ]
    with tmux_screen(folder, (*CHAT, "--yes"), environment(folder, *turns)) as screen:
        ready(screen)
        screen.type("one")
        screen.keys("Enter")
        screen.wait_for("Ctrl-C cancels")
        screen.type("two")
        screen.keys("Enter")
        assert "First done." not in screen.wait_for("○ two")
        (folder / "project" / "go").touch()
        shown = screen.wait_for("Second done.")
        assert shown.index("First done.") < shown.index(f"{SIGN} two") < shown.index("Second done.")


def test_completions_pop_up_and_sessions_are_chosen_from_a_list(folder: Path):
    with tmux_screen(folder, CHAT, environment(folder, *[[{"text": "Heard."}]] * 3)) as screen:
        screen.wait_for(f"scripted/scripted\n{SIGN}")
        screen.type("/resu")
        screen.wait_for("continue another session")
        screen.keys("C-c")
        screen.wait_for("Ctrl-C again")
        for prompt in ("about apples", "about pears"):
            screen.type(prompt)
            screen.keys("Enter")
            screen.wait_for(f"{SIGN} {prompt}")
            screen.wait_for("Heard.")
            screen.wait_for("mode ask")
            screen.type("/new")
            screen.keys("Enter")
            screen.wait_for("A new session.")
        screen.type("/resume")
        screen.keys("Enter")
        screen.wait_for("The number of a session")
        screen.type("1")
        screen.keys("Enter")
        screen.type("/status")
        screen.keys("Enter")
        assert re.search(r"Title +about pears", screen.wait_for("System prompt and tools"))


def test_a_refusal_with_words_is_what_the_model_reads(folder: Path):
    edit = {"path": "a.txt", "content": "x\n"}
    turns: list[Sequence[Mapping[str, object]]] = [[{"tool": "write_file", "arguments": edit}], [{"text": "Then not."}]]
    with tmux_screen(folder, CHAT, environment(folder, *turns)) as screen:
        ready(screen)
        screen.type("write it")
        screen.keys("Enter")
        screen.wait_for("[w] Reject, and say what to do instead")
        screen.keys("w")
        screen.wait_for("What should the agent do instead?")
        screen.type("Use b.txt.")
        screen.keys("Enter")
        screen.wait_for("You wrote: Use b.txt.")
        screen.wait_for("Then not.")
        assert not (folder / "project" / "a.txt").exists()


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(folder: Path):
    with tmux_screen(folder, CHAT, environment(folder, [{"text": "Plainly."}]), term="dumb") as screen:
        ready(screen)
        screen.type("hello")
        screen.keys("Enter")
        shown = screen.wait_for("Plainly.")
        assert "\x1b" not in shown
        assert "⠋" not in shown


def test_a_screen_reader_gets_words_for_signs_and_nothing_is_redrawn(folder: Path):
    look: list[Sequence[Mapping[str, object]]] = [
        [{"tool": "list_directory", "arguments": {"path": "."}}],
        [{"text": "It is **empty**."}],
    ]
    with tmux_screen(folder, (*CHAT, "--plain"), environment(folder, *look)) as screen:
        ready(screen)
        screen.type("look")
        screen.keys("Enter")
        shown = screen.wait_for("It is **empty**.")
        assert "done: List" in shown
        assert not set(shown) & {*UNICODE.kinds.values(), UNICODE.done, UNICODE.prompt, UNICODE.dot} - {"$"}
