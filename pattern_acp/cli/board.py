"""`pattern-acp board` and `jobs`: the open sessions, once or live; jobs of all sessions, and their receipts.

Owns: when the board is read again; each verb of jobs and what it answers. Must not know: how the board is read
(`tasks.claims`), or how a job is worked on (`/job` does).
"""

import shutil
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
from msgspec import Struct

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.output import write_json, write_line, write_screen
from pattern_acp.cli.rendering import coloured, lines_of, plain
from pattern_acp.commands.board import Board
from pattern_acp.commands.document import Paragraph, Part, Result
from pattern_acp.commands.jobs import JobList, JobView, newest_jobs, view_job
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.db.columns import integer
from pattern_acp.db.connection import Database, Transaction, open_for_reading
from pattern_acp.domain.clock import Clock, SystemClock
from pattern_acp.jobs.model import JobNotFoundError
from pattern_acp.jobs.store import JobReport, verify_jobs
from pattern_acp.tasks.claims import read_board

LOOK_SECONDS = 0.25
"""Seconds between two looks whether another process has committed."""

LOOKS_AT_MOST = 20
"""Looks without a commit behind which the board is read all the same: times on it pass, and processes die."""


class BoardDesk(Struct, frozen=True):
    """The services of the board."""

    database: Database
    clock: Clock
    budget: str
    """The budget of a session in the settings."""
    json: bool
    pause: Callable[[], Awaitable[None]]
    """Waits between two looks."""


@asynccontextmanager
async def open_board(call: TypedCommand, process: Process) -> AsyncGenerator[BoardDesk, None]:
    """The constellation, and the budget of a session in the settings."""
    clock, budget = SystemClock(), process.loaded.settings.budget.session
    async with open_for_reading(process.constellation_path, clock=clock) as database:
        yield BoardDesk(database, clock, budget, call.json, _pause)


def without_constellation(_call: TypedCommand) -> Board:
    """The empty board, as long as nothing was recorded."""
    return Board()


async def show_board(desk: BoardDesk, *, watch: bool) -> Result | int:
    """Read the board; with `watch`, show it again whenever it changes, until interrupted.

    A terminal shows it in place, a pipe gets each as text behind an empty line, or as a line of JSON.
    """
    version, board = await _look(desk, None)
    if not watch:
        return board or Board()
    shown, looks = "", 0
    while True:
        looks = 0 if board is not None else looks + 1
        if board is not None and (text := plain(board.document)) != shown:
            _show(board, text, desk, first=not shown)
            shown = text
        await desk.pause()
        version, board = await _look(desk, version if looks < LOOKS_AT_MOST else None)


async def _look(desk: BoardDesk, known: int | None) -> tuple[int, Board | None]:
    """The version of the database, and the board unless the version is the one known."""

    def read(tx: Transaction) -> tuple[int, Board | None]:
        row = tx.one("PRAGMA data_version")
        version = -1 if row is None else integer(row[0])
        if version == known:
            return version, None
        now_ms = desk.clock.now_ms()
        return version, Board(read_board(tx, now_ms=now_ms, budget=desk.budget), now_ms)

    return await desk.database.read(read)


def _show(board: Board, text: str, desk: BoardDesk, *, first: bool) -> None:
    if desk.json:
        write_json(board.value)
    elif sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        write_screen(coloured(lines_of(board.document, width), width))
    else:
        write_line(text if first else f"\n{text}")


async def _pause() -> None:
    await anyio.sleep(LOOK_SECONDS)


class JobDesk(Struct, frozen=True):
    """Dependencies of every verb."""

    database: Database


@asynccontextmanager
async def open_jobs(call: TypedCommand, process: Process) -> AsyncGenerator[JobDesk, None]:
    """Open the services of the verbs."""
    del call
    async with open_for_reading(process.constellation_path, clock=SystemClock()) as database:
        yield JobDesk(database)


class JobsChecked(Result, frozen=True):
    """The result of checking jobs."""

    jobs: tuple[JobReport, ...]
    sound: bool = True

    @property
    def document(self) -> Sequence[Part]:
        """A sentence for each problem, or one for all."""
        wrong = [f"Job {job.number}: {problem}." for job in self.jobs for problem in job.problems]
        if wrong:
            return tuple(Paragraph(sentence) for sentence in wrong)
        return (Paragraph(f"{len(self.jobs)} checked: rows, holds and receipts are what was recorded."),)

    @property
    def is_failure(self) -> bool:
        """True when something is not what was recorded."""
        return not self.sound


async def list_jobs(desk: JobDesk) -> JobList:
    """List the newest jobs."""
    return await desk.database.read(newest_jobs)


async def show(desk: JobDesk, number: int) -> JobView:
    """Show the terms and quotes of a job, and its receipt."""
    return await desk.database.read(lambda tx: view_job(tx, number, quotes=True))


async def receipt(desk: JobDesk, number: int) -> JobView:
    """Show the receipt of a job that is over."""
    return await desk.database.read(lambda tx: view_job(tx, number, quotes=False))


async def verify(desk: JobDesk, number: int | None) -> JobsChecked:
    """Check one job, or all. Raises JobNotFoundError where there is no job of the number."""
    found = await desk.database.read(lambda tx: verify_jobs(tx, number))
    if number is not None and not found:
        raise JobNotFoundError(number)
    return JobsChecked(found, not any(job.problems for job in found))
