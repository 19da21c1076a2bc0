"""What every `Terminal` does. A new implementation adds its factory to `TERMINALS`."""

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from pattern_acp.acp.editor_ports import EditorTerminal
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.paths import resolve_path
from pattern_acp.workspace.delegation import DelegatingTerminal
from pattern_acp.workspace.errors import CommandFailedToStartError
from pattern_acp.workspace.local_terminal import LocalTerminal
from pattern_acp.workspace.terminal import CommandRequest, ExitStatus, RunningCommand, Terminal
from tests.support.agent import temporary_folder
from tests.support.connected_editor import connected_editor
from tests.support.editor_terminals import FakeTerminalState
from tests.support.terminal import FakeTerminal, PlayedCommand

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the command lines are written for a POSIX shell")

Factory = Callable[[], AbstractAsyncContextManager[Terminal]]

HELLO = "printf hello"
BOTH = "printf out; printf err >&2"
FAIL = "exit 3"
HANG = "sleep 60"
MANY = "printf 0123456789"
WHERE = "pwd"
VARIABLE = 'printf "$GREETING"'


def play(request: CommandRequest) -> PlayedCommand:
    """The command lines of this suite, as the fake plays them."""
    return {
        HELLO: PlayedCommand(("hel", "lo")),
        BOTH: PlayedCommand(("out", "err")),
        FAIL: PlayedCommand(exit_status=ExitStatus(3)),
        HANG: PlayedCommand(hangs=True),
        MANY: PlayedCommand(("0123456789",)),
        WHERE: PlayedCommand((request.cwd + "\n",)),
        VARIABLE: PlayedCommand((request.env.get("GREETING", ""),)),
    }[request.line]


def refuse(_request: CommandRequest) -> PlayedCommand:
    return PlayedCommand(start_error=CommandFailedToStartError("The editor has no terminal."))


@asynccontextmanager
async def local() -> AsyncGenerator[Terminal, None]:
    yield LocalTerminal({"PATH": os.defpath})


@asynccontextmanager
async def fake() -> AsyncGenerator[Terminal, None]:
    yield FakeTerminal(play)


@asynccontextmanager
async def fake_of_client() -> AsyncGenerator[Terminal, None]:
    yield FakeTerminal(play, client_owned=True)


@asynccontextmanager
async def delegating() -> AsyncGenerator[Terminal, None]:
    yield DelegatingTerminal(FakeTerminal(play, client_owned=True), FakeTerminal(), on_warning=lambda _: None)


@asynccontextmanager
async def falling_back() -> AsyncGenerator[Terminal, None]:
    yield DelegatingTerminal(FakeTerminal(refuse), LocalTerminal({"PATH": os.defpath}), on_warning=lambda _: None)


@asynccontextmanager
async def editor() -> AsyncGenerator[Terminal, None]:
    with temporary_folder() as scratch:
        async with connected_editor() as (client, dispatcher):
            client.terminals.run = play_in_editor
            yield EditorTerminal(SessionId("ses_1"), dispatcher, 30, scratch)
            # The editor is not waited for when a terminal is given back.
            await anyio.wait_all_tasks_blocked()
        assert all(terminal.released for terminal in client.terminals.by_id.values())


def play_in_editor(state: FakeTerminalState) -> None:
    played = play(CommandRequest(state.line, state.cwd, state.env))
    state.output = "".join(played.chunks)
    if not played.hangs:
        state.end(exit_code=played.exit_status.exit_code, signal=played.exit_status.signal)


TERMINALS: dict[str, Factory] = {
    "local": local,
    "fake": fake,
    "fake of client": fake_of_client,
    "delegating": delegating,
    "falling back": falling_back,
    "editor": editor,
}


@pytest.fixture(params=list(TERMINALS))
def factory(request: pytest.FixtureRequest) -> Factory:
    return TERMINALS[request.param]


async def streamed(command: RunningCommand) -> str:
    text = ""
    while piece := await command.next_output():
        text += piece
    return text


async def test_a_command_gives_its_output_and_exit_code(factory: Factory, tmp_path: Path):
    with anyio.fail_after(30):
        async with factory() as terminal, terminal.start(CommandRequest(HELLO, str(tmp_path))) as command:
            status = await command.wait_for_exit()
            output = await command.output()
    assert status == ExitStatus(0)
    assert (output.text, output.truncated) == ("hello", False)


async def test_output_is_streamed_whole_or_not_at_all(factory: Factory, tmp_path: Path):
    with anyio.fail_after(30):
        async with factory() as terminal, terminal.start(CommandRequest(HELLO, str(tmp_path))) as command:
            text = await streamed(command)
            await command.wait_for_exit()
            assert text == ("" if command.client_owned else "hello")
            assert (await command.output()).text == "hello"


async def test_stdout_and_stderr_come_as_one(factory: Factory, tmp_path: Path):
    with anyio.fail_after(30):
        async with factory() as terminal, terminal.start(CommandRequest(BOTH, str(tmp_path))) as command:
            await command.wait_for_exit()
            assert (await command.output()).text == "outerr"


async def test_a_failing_command_is_a_result(factory: Factory, tmp_path: Path):
    with anyio.fail_after(30):
        async with factory() as terminal, terminal.start(CommandRequest(FAIL, str(tmp_path))) as command:
            assert await command.wait_for_exit() == ExitStatus(3)
            assert await command.wait_for_exit() == ExitStatus(3)


async def test_a_killed_command_ends_by_a_signal(factory: Factory, tmp_path: Path):
    with anyio.fail_after(30):
        async with factory() as terminal, terminal.start(CommandRequest(HANG, str(tmp_path))) as command:
            await command.kill()
            status = await command.wait_for_exit()
            await command.kill()
    assert status.exit_code is None
    assert status.signal in {"SIGTERM", "SIGKILL"}


async def test_leaving_the_context_does_not_wait_for_a_command_that_hangs(factory: Factory, tmp_path: Path):
    with anyio.fail_after(30):
        async with factory() as terminal, terminal.start(CommandRequest(HANG, str(tmp_path))):
            pass


async def test_waiting_can_be_given_up_and_taken_up_again(factory: Factory, tmp_path: Path):
    with anyio.fail_after(30):
        async with factory() as terminal, terminal.start(CommandRequest(HANG, str(tmp_path))) as command:
            with anyio.move_on_after(0.02) as scope:
                await command.wait_for_exit()
            assert scope.cancelled_caught
            await command.kill()
            assert (await command.wait_for_exit()).exit_code is None


async def test_the_newest_output_is_kept_when_there_is_more_than_the_limit(factory: Factory, tmp_path: Path):
    with anyio.fail_after(30):
        async with factory() as terminal:
            request = CommandRequest(MANY, str(tmp_path), output_limit=4)
            async with terminal.start(request) as command:
                await command.wait_for_exit()
                output = await command.output()
    assert (output.text, output.truncated) == ("6789", True)


async def test_a_command_runs_in_its_folder_with_its_variables(factory: Factory, tmp_path: Path):
    with anyio.fail_after(30):
        async with factory() as terminal:
            folder = resolve_path(str(tmp_path))
            async with terminal.start(CommandRequest(WHERE, folder)) as command:
                await command.wait_for_exit()
                assert (await command.output()).text.strip() == folder
            async with terminal.start(CommandRequest(VARIABLE, str(tmp_path), {"GREETING": "hi"})) as command:
                await command.wait_for_exit()
                assert (await command.output()).text == "hi"


async def test_every_terminal_has_a_name_of_its_own(factory: Factory, tmp_path: Path):
    with anyio.fail_after(30):
        async with factory() as terminal:
            request = CommandRequest(HELLO, str(tmp_path))
            async with terminal.start(request) as first, terminal.start(request) as second:
                assert first.terminal_id != second.terminal_id
