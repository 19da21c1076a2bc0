"""acpx (npm, OpenClaw) drives the agent: files and terminals of the client, its permission rules, its sessions."""

import subprocess
from dataclasses import replace
from functools import partial

import anyio
import anyio.to_thread
import pytest

from tests.support.children import watched_command
from tests.support.clients import Acpx, Place, asked_of_client
from tests.support.process import COMMAND

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

PERMISSION_DENIED = 5
"""acpx's exit code when a permission was denied."""


def greeting(place: Place) -> str:
    return (place.work / "greeting.txt").read_text(encoding="utf-8")


def test_it_reads_a_file_through_the_client(acpx: Acpx, place: Place):
    ran = acpx.run(place, "--approve-reads", "exec", "read greeting.txt")

    assert ran.code == 0
    assert "world" in ran.output
    assert "fs/read_text_file" in asked_of_client(place)


def test_it_edits_a_file_when_it_is_allowed(acpx: Acpx, place: Place):
    ran = acpx.run(place, "--approve-all", "exec", 'replace "hello" with "good day" in greeting.txt')

    assert ran.code == 0
    assert greeting(place) == "good day\nworld\n"
    assert {"session/request_permission", "fs/write_text_file"} <= asked_of_client(place)


def test_it_leaves_a_file_alone_when_it_is_refused(acpx: Acpx, place: Place):
    ran = acpx.run(place, "--deny-all", "exec", 'replace "hello" with "good day" in greeting.txt')

    assert ran.code == PERMISSION_DENIED
    assert greeting(place) == "hello\nworld\n"
    assert "fs/write_text_file" not in asked_of_client(place)


def test_it_runs_a_line_of_shell_in_the_terminal_of_the_client(acpx: Acpx, place: Place):
    ran = acpx.run(place, "--approve-all", "exec", "run echo one; echo two | tr o 0 > out.txt && cat out.txt")

    assert ran.code == 0
    assert "one\ntw0" in ran.output
    assert {"terminal/create", "terminal/release"} <= asked_of_client(place)


def test_it_works_alone_when_the_client_offers_nothing(acpx: Acpx, place: Place):
    ran = acpx.run(place, "--approve-all", "--no-fs", "--no-terminal", "exec", "read greeting.txt\nrun echo t*.txt")

    assert ran.code == 0
    assert "world" in ran.output
    assert asked_of_client(place) <= {"session/request_permission"}


def test_a_session_is_listed_resumed_and_set_and_its_memory_seen_by_the_next(acpx: Acpx, place: Place):
    named = ("-s", "one")
    assert acpx.run(place, "sessions", "new", "--name", "one").code == 0
    assert acpx.run(place, "--approve-all", "prompt", *named, "remember the build needs four cores").code == 0
    assert "remember the build needs" in acpx.run(place, "sessions", "list").output
    assert "mode set: plan" in acpx.run(place, "set-mode", *named, "plan").output
    assert "mode=ask" in acpx.run(place, "set", *named, "mode", "ask").output
    assert acpx.run(place, "sessions", "close", "one").code == 0

    assert "four cores" in acpx.run(place, "exec", "recall build").output


async def test_a_cancelled_turn_ends_its_command_and_the_next_prompt_works(acpx: Acpx, place: Place):
    async with watched_command(place.work) as command:
        await anyio.to_thread.run_sync(acpx.run, place, "sessions", "new", "--name", "one")
        process = acpx.start(place, "--approve-all", "prompt", "-s", "one", f"run {command.line}")
        with process, anyio.fail_after(60):
            await command.wait_until_started()
            cancelled = await anyio.to_thread.run_sync(acpx.run, place, "cancel", "-s", "one")
            await command.wait_until_gone()
            output, _ = await anyio.to_thread.run_sync(partial(process.communicate, timeout=60))

    assert "cancel" in cancelled.output
    assert "cancelled" in output
    again = await anyio.to_thread.run_sync(acpx.run, place, "prompt", "-s", "one", "read greeting.txt")
    await anyio.to_thread.run_sync(acpx.run, place, "sessions", "close", "one")
    assert "world" in again.output


@pytest.mark.parametrize("mode", ["ask", "edit", "auto"])
def test_what_it_refuses_is_neither_written_nor_run_nor_read_in_any_mode(acpx: Acpx, place: Place, mode: str):
    strict = replace(place, environment={**place.environment, "PATTERN_ACP_MODE": mode})
    words = (
        'replace "hello" with "good day" in greeting.txt',
        "run echo hi > ran.txt",
        "read greeting.txt",
    )
    for line in words:
        ran = acpx.run(strict, "--deny-all", "exec", line)
        assert "world" not in ran.output
    assert sorted(path.name for path in place.work.iterdir()) == ["greeting.txt"]
    assert greeting(place) == "hello\nworld\n"
    asked = {"fs/read_text_file", "terminal/create"} if mode == "auto" else {"fs/read_text_file"}
    assert asked <= asked_of_client(place)


def test_a_plan_shows_blocked_dropped_and_resumed_steps(acpx: Acpx, place: Place):
    def steps(*boxes: str) -> None:
        head = (
            "---\ntask: 1\ntitle: Parser\nstatus: in_progress\npriority: medium\nowner: user\nlabels:\nlinks:\n---\n\n"
        )
        names = ("Read the grammar", "Write the lexer", "Port the old tests")
        lines = "\n".join(f"- [{box}] {name}" for box, name in zip(boxes, names, strict=True))
        (place.home / "task.md").write_text(f"{head}## Steps\n\n{lines}\n", encoding="utf-8")
        words = ("tasks", "--cwd", str(place.work), "edit", "1", "--file", str(place.home / "task.md"))
        subprocess.run([*COMMAND, *words], env=place.variables, check=True, capture_output=True, timeout=60)

    named = ("-s", "one")
    assert acpx.run(place, "sessions", "new", "--name", "one").code == 0
    assert acpx.run(place, "prompt", *named, "/tasks add Parser").code == 0
    assert acpx.run(place, "prompt", *named, "/task 1 start").code == 0
    steps("!", "-", " ")
    stopped = acpx.run(place, "prompt", *named, "/task 1 start").output
    assert "- [pending] [blocked] Read the grammar" in stopped
    assert "- [completed] [dropped] Write the lexer" in stopped
    steps(">", " ", " ")
    resumed = acpx.run(place, "prompt", *named, "/task 1 start").output
    assert "- [in_progress] Read the grammar" in resumed
    assert "- [pending] Write the lexer" in resumed
