"""Terminals serve the agent and show their end."""

import os
import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from pattern_acp.cli.chat.client import Terminals, command_line
from pattern_acp.config.load import process_environment
from pattern_acp.jsonrpc.messages import RpcError
from pattern_acp.workspace.local_terminal import LocalTerminal

PYTHON = sys.executable


@asynccontextmanager
async def terminals() -> AsyncGenerator[Terminals, None]:
    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(30):
            yield Terminals(LocalTerminal(process_environment()), tasks)
        tasks.cancel_scope.cancel()


async def test_a_command_runs_and_its_output_and_exit_are_told(tmp_path: Path):
    async with terminals() as served:
        code = "import os,sys; print(os.getcwd()); print(os.environ['X']); sys.exit(3)"
        name = await served.create(PYTHON, ["-c", code], {"X": "a b"}, str(tmp_path), None)
        status = await served.wait(name)
        output, ended = await served.output(name)
        await served.release(name)
        assert status.exit_code == 3
        assert ended == status
        assert output.text.split() == [str(tmp_path), "a", "b"]
        assert served.tail(name).split() == output.text.split()


async def test_arguments_arrive_as_they_are(tmp_path: Path):
    words = ["a b", "$HOME", "'", "*", ""]
    async with terminals() as served:
        name = await served.create(PYTHON, ["-c", "import sys; print(sys.argv[1:])", *words], {}, str(tmp_path), None)
        await served.wait(name)
        output, _ = await served.output(name)
        assert output.text.strip() == repr(words)


async def test_a_killed_command_keeps_its_output(tmp_path: Path):
    async with terminals() as served:
        code = "import time; print('started', flush=True); time.sleep(60)"
        name = await served.create(PYTHON, ["-c", code], {}, str(tmp_path), None)
        while "started" not in (await served.output(name))[0].text:
            await anyio.lowlevel.checkpoint()
        await served.kill(name)
        status = await served.wait(name)
        assert status.exit_code is None or status.exit_code != 0
        assert "started" in (await served.output(name))[0].text


async def test_a_released_terminal_is_forgotten_and_whoever_waits_is_let_go(tmp_path: Path):
    async with terminals() as served:
        name = await served.create(PYTHON, ["-c", "import time; time.sleep(60)"], {}, str(tmp_path), None)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(served.wait, name)
            await anyio.lowlevel.checkpoint()
            await served.release(name)
        with pytest.raises(RpcError):
            await served.output(name)


async def test_a_folder_that_is_missing_is_an_error_for_the_agent(tmp_path: Path):
    async with terminals() as served:
        with pytest.raises(RpcError, match="no folder"):
            await served.create(PYTHON, [], {}, str(tmp_path / "nope"), None)


@pytest.mark.skipif(os.name == "nt", reason="POSIX quoting")
def test_words_are_quoted_for_the_shell():
    assert shlex.split(command_line("a b", ["c'd", "$x"])) == ["a b", "c'd", "$x"]
