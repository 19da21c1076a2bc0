import os
import signal
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from pattern_acp.workspace.errors import CommandFailedToStartError
from pattern_acp.workspace.local_terminal import LocalTerminal
from pattern_acp.workspace.terminal import CommandOutput, CommandRequest, ExitStatus

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the command lines are written for a POSIX shell")

ENVIRONMENT = {"PATH": os.defpath, "OPENAI_API_KEY": "planted", "MY_KEY": "planted"}
TERMINAL = LocalTerminal(ENVIRONMENT, secret_variables=["MY_KEY"])


async def run(line: str, cwd: Path, *, output_limit: int = 10_000) -> tuple[ExitStatus, CommandOutput]:
    with anyio.fail_after(30):
        async with TERMINAL.start(CommandRequest(line, str(cwd), output_limit=output_limit)) as command:
            status = await command.wait_for_exit()
            return status, await command.output()


async def wait_until_gone(pid: int) -> None:
    """Wait until a process ended; one that nobody reaps (a container without init) counts as ended."""
    with anyio.fail_after(30):
        while await is_alive(pid):
            await anyio.lowlevel.checkpoint()


async def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = anyio.Path(f"/proc/{pid}/stat")
    try:
        return (await state.read_text(encoding="utf-8")).rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def first_number(command_line: str, cwd: Path) -> int:
    """Start a command, read the process id that it prints, and leave its context."""
    with anyio.fail_after(30):
        async with TERMINAL.start(CommandRequest(command_line, str(cwd))) as command:
            text = ""
            while not text.endswith("\n"):
                text += await command.next_output()
            return int(text)


async def test_output_comes_while_the_command_runs(tmp_path: Path):
    with anyio.fail_after(30):
        async with TERMINAL.start(CommandRequest("echo first; sleep 60; echo second", str(tmp_path))) as command:
            assert await command.next_output() == "first\n"


async def test_a_process_left_in_the_background_delays_nothing_and_is_ended(tmp_path: Path):
    with anyio.fail_after(30):
        async with TERMINAL.start(CommandRequest("sleep 60 & echo $!", str(tmp_path))) as command:
            assert await command.wait_for_exit() == ExitStatus(0)
            pid = int((await command.output()).text)
            assert await is_alive(pid)
    await wait_until_gone(pid)


async def test_a_background_process_that_never_stops_writing_delays_nothing(tmp_path: Path):
    status, output = await run("yes & echo started", tmp_path, output_limit=1_000)
    assert status == ExitStatus(0)
    assert len(output.text) <= 1_000


async def test_children_of_the_shell_end_with_it(tmp_path: Path):
    pid = await first_number("sh -c 'echo $$; exec sleep 60'; true", tmp_path)
    await wait_until_gone(pid)


async def test_a_command_that_ignores_the_polite_signal_ends_all_the_same(tmp_path: Path):
    with anyio.fail_after(30):
        pid = await first_number("trap '' TERM; echo $$; while true; do sleep 1; done", tmp_path)
    await wait_until_gone(pid)


async def test_a_command_may_clean_up_when_it_is_killed(tmp_path: Path):
    with anyio.fail_after(30):
        # A shell that waits needs nobody to take its signal; it has a second.
        line = "trap 'echo bye; exit 7' TERM; echo ready; sleep 60 & wait"
        async with TERMINAL.start(CommandRequest(line, str(tmp_path))) as command:
            await command.next_output()
            await command.kill()
            assert await command.wait_for_exit() == ExitStatus(7)
            assert (await command.output()).text.endswith("bye\n")


async def test_cancelling_leaves_no_process(tmp_path: Path):
    pid = 0
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:

            async def use() -> None:
                nonlocal pid
                async with TERMINAL.start(CommandRequest("echo $$; exec sleep 60", str(tmp_path))) as command:
                    pid = int(await command.next_output())
                    group.cancel_scope.cancel()
                    await command.wait_for_exit()

            group.start_soon(use)
    await wait_until_gone(pid)


async def test_a_signal_is_named(tmp_path: Path):
    status, _ = await run("kill -9 $$", tmp_path)
    assert status == ExitStatus(None, signal.SIGKILL.name)


async def test_a_command_gets_no_input(tmp_path: Path):
    status, output = await run("cat; echo done", tmp_path)
    assert (status, output.text) == (ExitStatus(0), "done\n")


async def test_our_own_keys_are_not_inherited(tmp_path: Path):
    _, output = await run("env", tmp_path)
    assert "planted" not in output.text
    assert "PAGER=cat" in output.text


async def test_characters_cut_between_two_writes_arrive_whole(tmp_path: Path):
    _, output = await run(r"printf '\303'; sleep 0.05; printf '\274 \360\237'; sleep 0.05; printf '\216\211'", tmp_path)
    assert output.text == "ü 🎉"


async def test_much_output_is_read_while_it_is_written(tmp_path: Path):
    status, output = await run("head -c 3000000 /dev/zero | tr '\\0' x; echo end", tmp_path, output_limit=1_000_000)
    assert status == ExitStatus(0)
    assert output.truncated
    assert len(output.text) == 1_000_000
    assert output.text.endswith("xend\n")


async def test_two_waiters_see_the_whole_output_and_the_end(tmp_path: Path):
    pieces: list[str] = []
    statuses: list[ExitStatus] = []
    with anyio.fail_after(30):
        line = "for i in 1 2 3 4 5 6 7 8 9; do echo $i; done; exit 4"
        async with TERMINAL.start(CommandRequest(line, str(tmp_path))) as command:

            async def follow() -> None:
                while piece := await command.next_output():
                    pieces.append(piece)

            async def wait() -> None:
                statuses.append(await command.wait_for_exit())

            async with anyio.create_task_group() as group:
                group.start_soon(follow)
                group.start_soon(wait)
    assert "".join(pieces).split() == list("123456789")
    assert statuses == [ExitStatus(4)]


async def test_a_folder_that_does_not_exist_is_told_in_a_sentence(tmp_path: Path):
    with pytest.raises(CommandFailedToStartError, match="There is no folder"):
        await run("true", tmp_path / "nothing")


async def test_a_line_that_no_system_can_start_is_told_in_a_sentence(tmp_path: Path):
    with pytest.raises(CommandFailedToStartError, match="could not be started"):
        await run("echo a\0b", tmp_path)


async def test_no_descriptor_is_left_open(tmp_path: Path):
    await run("true", tmp_path)
    before = await open_descriptors()
    for _ in range(5):
        await run("echo x", tmp_path)
    with pytest.raises(CommandFailedToStartError):
        await run("a\0b", tmp_path)
    # Fewer when something of an earlier test is closed meanwhile.
    assert await open_descriptors() <= before


async def open_descriptors() -> int:
    folder = anyio.Path("/dev/fd")
    return len([entry async for entry in folder.iterdir()])
