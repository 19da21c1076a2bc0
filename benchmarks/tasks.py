"""Speed of tasks and claims in a constellation of 10,000 tasks (docs/reference/development/benchmarks.md).

    .venv/bin/python benchmarks/tasks.py [TASKS]

Lists, a graph, one update (one commit) and the check of a claim before an edit, in wall time and processor time.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from pattern_acp.db.connection import Transaction, open_database
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import RandomIds, SessionId, SystemClock
from pattern_acp.journal.events import SessionCreated
from pattern_acp.journal.leases import acquire, this_process
from pattern_acp.journal.sessions import NewSession, create_session
from pattern_acp.journal.writer import append
from pattern_acp.memory.blocks import Scope
from pattern_acp.tasks import claims, store
from pattern_acp.tasks.model import OPEN, GraphQuery, LinkKind, Task, TaskFilter, TaskPatch, TaskStatus, TaskStep
from pattern_acp.tasks.service import TaskDesk, Tasks

TASKS = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
OWNERS = ((Scope.PERSONA, "coder"), (Scope.PROJECT, "/work/app"))


def fill(tx: Transaction, first: int, count: int) -> None:
    """Add tasks with three steps, each blocked by the one before, every tenth with a branch."""
    writer = store.TaskWriter("constellation", 7, 1_800_000_000_000, Actor.HUMAN, Origin.PERSON)
    steps = tuple(TaskStep(f"Step {number} of it") for number in range(3))
    for number in range(first, first + count):
        task = Task(f"task_{number:012x}", 0, f"Task {number} of the benchmark", "Words about it. " * 5, steps=steps)
        store.create_task(tx, *OWNERS[1], task, writer, list_id=f"list_{number}")
        if number > 1:
            before = number - 10 if number % 10 == 0 else number - 1
            store.link_tasks(tx, OWNERS, str(max(1, before)), LinkKind.BLOCKS, str(number), writer)


async def measured(name: str, times: int, act: Callable[[int], Awaitable[object]]) -> None:
    """Do it so many times, and print the median and the 95th percentile."""
    wall, processor = list[float](), list[float]()
    for number in range(times):
        began, spent = time.perf_counter(), time.process_time()
        await act(number)
        wall.append((time.perf_counter() - began) * 1000)
        processor.append((time.process_time() - spent) * 1000)
    p50, p95 = statistics.median(wall), sorted(wall)[int(len(wall) * 0.95)]
    print(f"{name:<44} {p50:7.2f} {p95:7.2f} ms, processor {statistics.median(processor):6.2f} ms")


async def main() -> None:
    """Fill a constellation and measure."""
    clock, ids = SystemClock(), RandomIds()
    with tempfile.TemporaryDirectory(prefix="pattern-acp-tasks-") as folder:
        async with open_database(Path(folder) / "constellation.db", clock=clock) as database:
            for first in range(1, TASKS + 1, 500):
                await database.write(lambda tx, first=first: fill(tx, first, 500))
            tasks = Tasks(database, TaskDesk(OWNERS, "constellation"), clock=clock, ids=ids, peer=7)
            print(f"{TASKS:,} tasks{'':<33} median     p95")
            await measured("list of the first 100 open", 30, lambda _: tasks.list(TaskFilter(OPEN)))
            await measured("list by a word", 30, lambda _: tasks.list(TaskFilter(keyword="task 99")))
            await measured("list of what is blocked", 30, lambda _: tasks.list(TaskFilter(has_blockers=True)))
            await measured("graph, 16 deep, both ways", 20, lambda _: tasks.graph(GraphQuery(str(TASKS // 2))))
            await measured("graph, 1,000 nodes", 10, lambda _: tasks.graph(GraphQuery(str(TASKS // 2), depth=2_000)))
            states = (TaskStatus.IN_PROGRESS, TaskStatus.TODO)
            await measured(
                "one update, one commit",
                100,
                lambda n: tasks.update(str(1 + n * 97 % TASKS), TaskPatch(status=states[n % 2], title=f"Again {n}")),
            )
            now_ms, target = clock.now_ms(), claims.ClaimTarget("/work/app/a.py")
            await measured(
                "claims of others before an edit",
                200,
                lambda _: database.read(lambda tx: claims.overlapping(tx, "s", [target], now_ms=now_ms)),
            )
            await database.write(open_sessions)
            await measured(
                "the same with 20 open sessions, 400 claims",
                200,
                lambda _: database.read(lambda tx: claims.overlapping(tx, "s", [target], now_ms=now_ms)),
            )
            await measured(
                "a first claim of a file, with its commit",
                200,
                lambda n: database.write(lambda tx: claim(tx, f"/work/app/new_{n}.py", now_ms)),
            )


def open_sessions(tx: Transaction) -> None:
    """Twenty sessions of this process that claim twenty files each."""
    now_ms = SystemClock().now_ms()
    holder = this_process("benchmark")
    for number in range(20):
        session = SessionId(f"ses_{number}")
        new = NewSession(session, "/work/app", (), "coder", "id", "m", "ask")
        event = SessionCreated("/work/app", (), "coder", "id", "m", "ask")
        created = append(tx, session, event, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=now_ms)
        create_session(tx, new, seq=created.seq, at_ms=now_ms)
        acquire(tx, session, holder, now_ms)
        targets = [claims.ClaimTarget(f"/work/app/file_{number}_{n}.py") for n in range(20)]
        claims.take_claims(tx, session, targets, now_ms=now_ms)


def claim(tx: Transaction, path: str, now_ms: int) -> None:
    """Look who works there, and claim it: what the first edit of a file waits for."""
    target = claims.ClaimTarget(path)
    claims.overlapping(tx, "ses_0", [target], now_ms=now_ms)
    claims.take_claims(tx, "ses_0", [target], now_ms=now_ms, renews=False)


anyio.run(main)
