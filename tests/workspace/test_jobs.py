"""Background commands over real processes with a terminal of their own."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import DatabaseError, WorkspaceError
from pattern_acp.workspace import jobs as jobs_module
from pattern_acp.workspace.errors import InputClosedError
from pattern_acp.workspace.jobs import QUIET_SECONDS, Job, Jobs, JobState
from pattern_acp.workspace.local_terminal import LocalTerminal, StreamInput, StreamPipe
from pattern_acp.workspace.terminal import CommandRequest, ExitStatus, Terminal
from tests.support.children import watched_command
from tests.support.passing_time import passing
from tests.support.terminal import FakeTerminal, PlayedCommand

on_posix = pytest.mark.skipif(sys.platform == "win32", reason="the command lines are written for a POSIX shell")


@dataclass(slots=True)
class Told:
    """`JobObserver` that keeps what it was told."""

    events: list[tuple[str, str, JobState]] = field(default_factory=list[tuple[str, str, JobState]])
    fails: bool = False
    counts: list[int] = field(default_factory=list[int])

    async def started(self, job: Job) -> None:
        if self.fails:
            raise DatabaseError("The disk is full.")
        self.events.append(("started", job.job_id, job.state))

    async def wrote(self, job: Job, text: str) -> None:
        """See `JobObserver.wrote`."""

    async def ended(self, job: Job) -> None:
        self.events.append(("ended", job.job_id, job.state))

    async def counted(self, running: int) -> None:
        self.counts.append(running)


@asynccontextmanager
async def open_jobs(terminal: Terminal | None = None, told: Told | None = None) -> AsyncGenerator[Jobs, None]:
    local = LocalTerminal({"PATH": os.defpath})
    async with anyio.create_task_group() as tasks:
        jobs = Jobs(terminal or local, tasks, told or Told(), SystemClock())
        with anyio.fail_after(100):
            yield jobs
        tasks.cancel_scope.cancel()


def request(line: str, folder: Path, *, takes_input: bool = True) -> CommandRequest:
    return CommandRequest(line, str(folder), takes_input=takes_input, is_background=True)


async def read_until(jobs: Jobs, job: Job, text: str) -> str:
    said = ""
    while text not in said:
        await jobs.wait(job, 60, until=lambda one: one.output.bytes_unread > 0)
        new = job.output.take_new().text
        assert new or job.is_running, said
        said += new
    return said


@on_posix
async def test_a_job_is_told_when_it_starts_and_how_it_ends(tmp_path: Path):
    told = Told()
    async with open_jobs(told=told) as jobs:
        job = await jobs.start(request("echo hello; exit 3", tmp_path))
        await job.done.wait()
        assert (job.state, job.status) == (JobState.EXITED, ExitStatus(3))
        assert job.output.take_new().text == "hello\n"
    assert told.events == [("started", "job1", JobState.RUNNING), ("ended", "job1", JobState.EXITED)]


@on_posix
async def test_what_is_written_reaches_the_command_and_its_answer_comes_back(tmp_path: Path):
    async with open_jobs() as jobs:
        job = await jobs.start(request('printf "Name: "; read -r name; echo "Hello, $name"', tmp_path))
        assert await read_until(jobs, job, "Name: ") == "Name: "
        async with passing(QUIET_SECONDS):
            await jobs.wait(job, 60, until=lambda _: False)
        assert job.is_waiting_for_input()
        await jobs.write(job, b"Ann\n")
        # A terminal may hand over a line and its end one after the other.
        assert await read_until(jobs, job, "Ann\n") == "Hello, Ann\n"
        await job.done.wait()
        with pytest.raises(InputClosedError, match="it has ended"):
            await jobs.write(job, b"more\n")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says who reads a terminal")
async def test_a_silent_reader_is_seen_to_wait_and_a_silent_worker_is_not(tmp_path: Path):
    async with open_jobs() as jobs:
        reader = await jobs.start(request("cat", tmp_path))
        worker = await jobs.start(request("sleep 60", tmp_path))
        async with passing(QUIET_SECONDS):
            await jobs.wait(reader, 60, until=lambda _: False)
        assert reader.is_waiting_for_input()
        async with passing(QUIET_SECONDS + 0.2):
            await jobs.wait(worker, QUIET_SECONDS + 0.2, until=lambda _: False)
        assert not worker.is_waiting_for_input()


@on_posix
async def test_ctrl_c_interrupts_and_ctrl_d_ends_the_input(tmp_path: Path):
    async with open_jobs() as jobs:
        line = "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 1; done"
        job = await jobs.start(request(line, tmp_path))
        await read_until(jobs, job, "ready")
        await jobs.write(job, b"\x03")
        await job.done.wait()
        assert job.status == ExitStatus(7)
        counting = await jobs.start(request("wc -l", tmp_path))
        await jobs.write(counting, b"a\nb\n\x04")
        await counting.done.wait()
        assert counting.output.take_new().text.strip() == "2"


async def test_stopping_ends_the_command_with_what_it_started(tmp_path: Path):
    told = Told()
    async with open_jobs(told=told) as jobs, watched_command(tmp_path, "parent") as command:
        job = await jobs.start(request(command.line, tmp_path))
        await command.wait_until_started()
        await jobs.stop(job)
        assert job.done.is_set()
        assert job.state is JobState.STOPPED
        await command.wait_until_gone()
        await jobs.stop(job)
    assert told.events[-1] == ("ended", "job1", JobState.STOPPED)


@on_posix
async def test_closing_ends_everything_and_starts_nothing_more(tmp_path: Path):
    async with open_jobs() as jobs:
        first = await jobs.start(request("sleep 300", tmp_path))
        second = await jobs.start(request("cat", tmp_path))
        jobs.close()
        await jobs.wait_closed()
        assert first.done.is_set()
        assert second.done.is_set()
        with pytest.raises(WorkspaceError, match="session ends"):
            await jobs.start(request("echo", tmp_path))


async def test_a_job_that_cannot_be_recorded_does_not_run(tmp_path: Path):
    terminal = FakeTerminal(lambda _: PlayedCommand(hangs=True))
    async with open_jobs(terminal, Told(fails=True)) as jobs:
        with pytest.raises(DatabaseError):
            await jobs.start(request("serve", tmp_path))
        assert jobs.all() == ()
        assert terminal.commands[0].released


async def test_only_so_many_run_at_once(tmp_path: Path):
    async with open_jobs(FakeTerminal(lambda _: PlayedCommand(hangs=True))) as jobs:
        for _ in range(jobs_module.MOST_RUNNING):
            await jobs.start(request("serve", tmp_path))
        with pytest.raises(WorkspaceError, match="stop one first"):
            await jobs.start(request("serve", tmp_path))


async def test_an_unknown_job_is_named_and_a_bare_number_will_do(tmp_path: Path):
    async with open_jobs(FakeTerminal()) as jobs:
        with pytest.raises(WorkspaceError, match="There is no job 'job7'; this session has none"):
            jobs.get("job7")
        job = await jobs.start(request("true", tmp_path))
        assert jobs.get("1") is job
        await job.done.wait()


async def test_the_output_of_a_client_terminal_is_read_when_somebody_looks(tmp_path: Path):
    terminal = FakeTerminal(lambda _: PlayedCommand(("up\n",), hangs=True), client_owned=True)
    async with open_jobs(terminal) as jobs:
        job = await jobs.start(request("serve", tmp_path, takes_input=False))
        assert not job.takes_input
        await jobs.wait(job, 60, until=lambda one: one.output.bytes_unread > 0)
        assert job.output.take_new().text == "up\n"
        terminal.commands[0].end()
        await job.done.wait()
        assert job.status == ExitStatus(None, "SIGKILL")


@on_posix
async def test_a_pipe_as_input_passes_on_what_is_written_until_the_command_ended(tmp_path: Path):
    program = [sys.executable, "-c", "print(input()[::-1])"]
    async with await anyio.open_process(program, cwd=tmp_path, stderr=None) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        typed = StreamInput(process.stdin)
        assert not typed.is_awaited()
        await typed.write(b"abc\n")
        pipe, said = StreamPipe(process.stdout), b""
        while piece := await pipe.read():
            said += piece
        assert said == b"cba\n"
        await process.wait()
        await process.stdin.aclose()
        with pytest.raises(InputClosedError):
            await typed.write(b"more\n")
