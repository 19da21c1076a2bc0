import os
import re
import sys
from functools import partial
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.domain.access import RunCommand
from pattern_acp.domain.paths import resolve_path
from pattern_acp.domain.tool_calls import TerminalContent, TextContent
from pattern_acp.tools.base import ToolFailedError, ToolInputError
from pattern_acp.tools.run_command import RunCommandTool
from pattern_acp.workspace.errors import CommandFailedToStartError
from pattern_acp.workspace.local_terminal import LocalTerminal
from pattern_acp.workspace.terminal import CommandRequest, ExitStatus
from tests.support.passing_time import passing
from tests.support.terminal import FakeTerminal, PlayedCommand
from tests.support.tools import tool_bench

ENDED_WELL = ExitStatus(0)


def terminal_of(
    *chunks: str, status: ExitStatus = ENDED_WELL, hangs: bool = False, client_owned: bool = False
) -> FakeTerminal:
    return FakeTerminal(lambda _request: PlayedCommand(chunks, status, hangs), client_owned=client_owned)


def without_duration(text: str) -> str:
    return re.sub(r"[\d.]+ s\.", "N s.", text)


async def test_the_title_is_the_command_and_the_preview_shows_it_whole(tmp_path: Path):
    prepared = await tool_bench(tmp_path).prepare(
        RunCommandTool(), command="make\nmake test", description="Build and test"
    )
    assert prepared.title == "make ↵ make test"
    assert prepared.accesses == (RunCommand("make\nmake test", resolve_path(str(tmp_path))),)
    assert prepared.preview == (TextContent("Build and test\n```sh\nmake\nmake test\n```"),)


@pytest.mark.parametrize("how", ["background", "interactive"])
async def test_the_title_says_first_that_a_command_goes_on_in_the_background(tmp_path: Path, how: str):
    prepared = await tool_bench(tmp_path).prepare(RunCommandTool(), command=f"npm run dev {'x' * 500}", **{how: True})
    assert prepared.title.startswith("In the background: npm run dev")


async def test_another_folder_is_resolved_and_shown(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "sub").symlink_to(tmp_path / "real")
    terminal = FakeTerminal()
    bench = tool_bench(tmp_path, terminal)
    prepared = await bench.prepare(RunCommandTool(), command="ls", cwd="sub")
    assert prepared.accesses == (RunCommand("ls", resolve_path(str(tmp_path / "real"))),)
    assert prepared.preview == (TextContent("In sub:\n```sh\nls\n```"),)
    await prepared.run(bench.progress)
    assert terminal.requests[0].cwd == str(tmp_path / "sub")


async def test_output_and_exit_code_are_the_result(tmp_path: Path):
    bench = tool_bench(tmp_path, terminal_of("one\n", "two\n", status=ExitStatus(1)))
    outcome = await bench.call(RunCommandTool(), command="test")
    assert without_duration(outcome.text) == "Exit code 1 after N s.\none\ntwo"
    assert not outcome.is_error
    assert bench.progress.output == [("term_1", "one\n"), ("term_1", "two\n")]
    assert bench.progress.exits == [("term_1", 1, None)]
    terminal = TerminalContent("term_1", "test", str(tmp_path))
    assert bench.progress.shown[0] == (terminal,)
    assert outcome.content == (
        replace(terminal, output="one\ntwo\n"),
        TextContent(outcome.text.removesuffix("\none\ntwo")),
    )


async def test_tokens_in_the_output_are_masked_with_a_note(tmp_path: Path):
    token = "ghp_" + "a1B2" * 9
    bench = tool_bench(tmp_path, terminal_of(f"+token: {token}\n+name: x\n"))
    outcome = await bench.call(RunCommandTool(), command="git log -p")
    assert "+token: [secret]\n+name: x" in outcome.text
    assert "are shown as [secret]" in outcome.text
    assert token not in repr(outcome)


async def test_output_so_far_is_shown_as_content_while_the_command_runs(tmp_path: Path):
    bench = tool_bench(tmp_path, terminal_of("one\n", "two\n"))
    await bench.call(RunCommandTool(show_seconds=0), command="test")
    terminal = TerminalContent("term_1", "test", str(tmp_path))
    assert bench.progress.shown == [
        (terminal,),
        (replace(terminal, output="one\n"),),
        (replace(terminal, output="one\ntwo\n"),),
    ]


async def test_a_terminal_of_the_client_is_embedded_before_its_release_and_read_at_the_end(tmp_path: Path):
    terminal = terminal_of("done\n", client_owned=True)
    bench = tool_bench(tmp_path, terminal)
    outcome = await bench.call(RunCommandTool(), command="test")
    assert bench.progress.shown == [(TerminalContent("term_1", "test", str(tmp_path), client_owned=True),)]
    assert (bench.progress.output, bench.progress.exits) == ([], [])
    assert (terminal.commands[0].killed, terminal.commands[0].released) == (False, True)
    assert outcome.text.endswith("done")


@pytest.mark.parametrize("client_owned", [True, False])
async def test_a_command_is_ended_at_its_time_limit(tmp_path: Path, client_owned: bool):
    terminal = terminal_of("started\n", hangs=True, client_owned=client_owned)
    async with passing(1.5):
        outcome = await tool_bench(tmp_path, terminal).call(RunCommandTool(), command="sleep", timeout_seconds=1)
    assert (terminal.commands[0].killed, terminal.commands[0].released) == (True, True)
    assert outcome.is_error
    assert outcome.text.startswith("The command was ended at its time limit of 1 s.")
    assert outcome.text.endswith("started")


async def test_a_signal_is_named(tmp_path: Path):
    bench = tool_bench(tmp_path, terminal_of(status=ExitStatus(None, "SIGSEGV")))
    outcome = await bench.call(RunCommandTool(), command="x")
    assert without_duration(outcome.text) == "Ended by SIGSEGV after N s.\n(no output)"


async def test_an_unknown_end_is_not_passed_off_as_success(tmp_path: Path):
    bench = tool_bench(tmp_path, terminal_of(status=ExitStatus(None)))
    assert (await bench.call(RunCommandTool(), command="x")).text.startswith("Exit code unknown")


async def test_long_output_is_cut_in_the_middle_and_kept_whole_for_the_journal(tmp_path: Path):
    output = "first\n" + "x\n" * 1_000 + "last\n"
    bench = tool_bench(tmp_path, terminal_of(output)).with_limit(700)
    outcome = await bench.call(RunCommandTool(), command="x")
    assert len(outcome.text) <= 700
    assert "first\nx" in outcome.text
    assert "bytes cut ...]" in outcome.text
    assert outcome.text.endswith("x\nlast")
    assert outcome.full_output == output


async def test_output_that_the_terminal_did_not_keep_is_told(tmp_path: Path):
    bench = tool_bench(tmp_path, terminal_of("x" * 4_000_001))
    assert "Only the newest 4,000,000 bytes" in (await bench.call(RunCommandTool(), command="x")).text


async def test_colours_and_progress_bars_are_left_out(tmp_path: Path):
    bench = tool_bench(tmp_path, terminal_of("\x1b[32mok\x1b[0m\r\n1%\r100%\n"))
    outcome = await bench.call(RunCommandTool(), command="x")
    assert without_duration(outcome.text) == "Exit code 0 after N s.\nok\n100%"


async def test_a_cancelled_command_is_released_and_files_may_have_changed(tmp_path: Path):
    ended: list[str] = []
    started = anyio.Event()

    def play(_request: CommandRequest) -> PlayedCommand:
        started.set()
        return PlayedCommand(hangs=True)

    terminal = FakeTerminal(play)
    bench = tool_bench(tmp_path, terminal)
    bench.context = replace(bench.context, command_ended=lambda: ended.append("x"))
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(partial(bench.call, RunCommandTool(), command="x"))
            await started.wait()
            group.cancel_scope.cancel()
    assert terminal.commands[0].released
    assert ended == ["x"]


async def test_files_may_have_changed_after_a_command(tmp_path: Path):
    ended: list[str] = []
    bench = tool_bench(tmp_path)
    bench.context = replace(bench.context, command_ended=lambda: ended.append("x"))
    await bench.call(RunCommandTool(), command="x")
    assert ended == ["x"]


async def test_a_command_that_cannot_start_is_an_error(tmp_path: Path):
    terminal = FakeTerminal(lambda _request: PlayedCommand(start_error=CommandFailedToStartError("There is no shell.")))
    with pytest.raises(CommandFailedToStartError):
        await tool_bench(tmp_path, terminal).call(RunCommandTool(), command="x")


async def test_a_folder_that_is_none_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()
    terminal = FakeTerminal()
    with pytest.raises(ToolFailedError, match="file is not a folder; the command was not run"):
        await tool_bench(tmp_path, terminal).call(RunCommandTool(), command="x", cwd="file")
    assert terminal.requests == []


async def test_a_time_limit_of_more_than_half_an_hour_is_refused(tmp_path: Path):
    with pytest.raises(ToolInputError, match="`timeout_seconds` must be at most 1800"):
        await tool_bench(tmp_path).prepare(RunCommandTool(), command="x", timeout_seconds=120_000)


async def test_a_real_command_is_run_in_its_folder(tmp_path: Path):
    (tmp_path / "marker").touch()
    bench = tool_bench(tmp_path, LocalTerminal({"PATH": os.defpath}))
    with anyio.fail_after(20):
        outcome = await bench.call(RunCommandTool(), command="dir" if sys.platform == "win32" else "ls")
    assert outcome.text.startswith("Exit code 0")
    assert "marker" in outcome.text


@pytest.mark.parametrize("command", ["echo a\0; rm b", "echo \ud800"])
async def test_a_command_that_no_shell_takes_is_refused_before_anyone_is_asked(tmp_path: Path, command: str):
    with pytest.raises(ToolInputError, match="NUL character or half of a surrogate pair"):
        await tool_bench(tmp_path).prepare(RunCommandTool(), command=command)


@pytest.mark.parametrize("line", ["vim a.txt", "cd src && nano a.txt", "sudo vi /etc/hosts", "top"])
async def test_a_program_that_needs_a_screen_is_not_run_and_the_model_learns_what_to_do(tmp_path: Path, line: str):
    bench = tool_bench(tmp_path)
    with pytest.raises(ToolInputError, match=r"waits for keys .* edit_file"):
        await bench.prepare(RunCommandTool(), command=line)
    await bench.prepare(RunCommandTool(), command=line, interactive=True)


@pytest.mark.parametrize(
    "line", ["vim -es -c wq a.txt", "emacs --batch -l a.el", "git commit -m 'use vim'", "top -b -n1"]
)
async def test_the_same_program_runs_where_it_needs_none(tmp_path: Path, line: str):
    assert (await tool_bench(tmp_path).prepare(RunCommandTool(), command=line)).title == line


async def test_a_command_that_failed_at_a_question_says_that_there_is_no_input(tmp_path: Path):
    asks = terminal_of("package name: (demo) ", status=ExitStatus(1))
    outcome = await tool_bench(tmp_path, asks).call(RunCommandTool(), command="npm init")
    assert "It asked for input, and there is none. Use flags that need no answer" in outcome.text
    fails = terminal_of("1 failed\n", status=ExitStatus(1))
    assert "asked" not in (await tool_bench(tmp_path, fails).call(RunCommandTool(), command="pytest")).text
