"""What becomes of process groups when the process that started them ends without a word."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from pattern_acp.processes.groups import Guard
from tests.support.children import watched_command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups of this kind")

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="children are listed in /proc")

PROGRAM = """
import os, signal, sys
from pathlib import Path
from pattern_acp.processes.groups import Guard
guard = Guard()
for group in sys.argv[1].split():
    guard.watch(int(group))
for group in sys.argv[2].split():
    guard.forget(int(group))
for group in sys.argv[3].split():
    shell = int(Path("/proc/self/task", str(os.getpid()), "children").read_text())
    os.kill(shell, signal.SIGKILL)
    os.waitid(os.P_PID, shell, os.WEXITED | os.WNOWAIT)
    guard.watch(int(group))
print("watching", flush=True)
sys.stdin.read()
"""


def begin(line: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["/bin/sh", "-c", line], start_new_session=True, stdout=subprocess.DEVNULL)


def children() -> set[int]:
    """The children of this process."""
    found: set[int] = set()
    for each in Path("/proc/self/task").glob("*/children"):
        # A thread of another test may have ended meanwhile.
        with contextlib.suppress(OSError):
            found |= {int(pid) for pid in each.read_text().split()}
    return found


def end(*groups: "subprocess.Popen[bytes]") -> None:
    for group in groups:
        if group.poll() is None:
            os.killpg(group.pid, signal.SIGKILL)
        group.wait()


def watcher(watched: str, forgotten: str = "", after_a_restart: str = "") -> "subprocess.Popen[bytes]":
    """A process of its own that has a guard, once it watches."""
    command = [sys.executable, "-c", PROGRAM, watched, forgotten, after_a_restart]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"watching\n"
    return process


async def dies(process: "subprocess.Popen[bytes]") -> None:
    with process:
        process.kill()
        await anyio.to_thread.run_sync(process.wait)


@pytest.mark.parametrize("words", [("parent",), ("stubborn", "parent", "stubborn")])
async def test_a_killed_process_takes_its_groups_with_it_also_what_ignores_a_polite_signal(
    tmp_path: Path, words: tuple[str, ...]
):
    async with watched_command(tmp_path, *words) as command:
        group = begin(command.line)
        try:
            with anyio.fail_after(30):
                await command.wait_until_started()
                await dies(watcher(str(group.pid)))
                await command.wait_until_gone()
        finally:
            end(group)


async def test_a_group_that_was_forgotten_is_left_alone(tmp_path: Path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    async with watched_command(tmp_path / "one") as kept, watched_command(tmp_path / "two") as lost:
        groups = begin(kept.line), begin(lost.line)
        try:
            with anyio.fail_after(30):
                await kept.wait_until_started()
                await lost.wait_until_started()
                await dies(watcher(f"{groups[0].pid} {groups[1].pid}", str(groups[0].pid)))
                await lost.wait_until_gone()
            assert not kept.ended.is_set()
        finally:
            end(*groups)


@on_linux
async def test_a_guard_that_somebody_ended_is_started_again_with_all_that_it_watched(tmp_path: Path):
    async with watched_command(tmp_path) as command:
        group, other = begin(command.line), begin("exec sleep 30")
        try:
            with anyio.fail_after(30):
                await command.wait_until_started()
                await dies(watcher(str(group.pid), "", str(other.pid)))
                await command.wait_until_gone()
                assert await anyio.to_thread.run_sync(other.wait) == -signal.SIGTERM
        finally:
            end(group, other)


@on_linux
def test_a_guard_that_has_nothing_to_watch_has_no_process():
    guard, before = Guard(), children()
    guard.forget(1)
    guard.close()
    assert not children() - before
    group = begin("exit 0")
    guard.watch(group.pid)
    assert len(children() - before - {group.pid}) == 1
    end(group)
    guard.forget(group.pid)
    guard.close()
    assert not children() - before
