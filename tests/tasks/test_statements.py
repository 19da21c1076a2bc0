"""How many statements each question about tasks and claims takes: as many for a thousand tasks as for ten."""

from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import pytest

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.memory.blocks import Scope
from pattern_acp.tasks import store
from pattern_acp.tasks.claims import ClaimTarget, overlapping, read_board, take_claims
from pattern_acp.tasks.model import OPEN, GraphQuery, LinkKind, Task, TaskFilter, TaskPatch, TaskStatus
from tests.support.constellation import Constellation, temporary_constellation

OWNERS = ((Scope.PERSONA, "coder"), (Scope.PROJECT, "/work/app"))
WRITER = store.TaskWriter("constellation", 7, 1, Actor.HUMAN, Origin.PERSON)


class Counted:
    """A transaction that counts the statements that are done in it."""

    def __init__(self, tx: Transaction) -> None:
        self.statements = 0
        self._tx = tx

    def __getattr__(self, name: str) -> object:
        found: Any = getattr(self._tx, name)
        if name not in {"one", "all", "execute"}:
            return found

        def counting(*arguments: object, **named: object) -> object:
            self.statements += 1
            return found(*arguments, **named)

        return counting


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


def fill(tx: Transaction, count: int) -> None:
    """A star: the first task blocks all others, each of which is part of the one before."""
    for number in range(1, count + 1):
        task = Task(f"task_{number:05}", 0, f"Task {number}")
        store.create_task(tx, *OWNERS[1], task, WRITER, list_id=f"list_{number}")
        if number > 1:
            store.link_tasks(tx, OWNERS, "1", LinkKind.BLOCKS, str(number), WRITER)


async def statements(constellation: Constellation, act: Callable[[Transaction], object]) -> int:
    def counted(tx: Transaction) -> int:
        around = Counted(tx)
        act(cast("Transaction", around))
        return around.statements

    return await constellation.database.write(counted)


QUESTIONS: dict[str, tuple[int, Callable[[Transaction], object]]] = {
    "list": (2, lambda tx: store.list_tasks(tx, OWNERS, TaskFilter(OPEN))),
    "list by a word": (2, lambda tx: store.list_tasks(tx, OWNERS, TaskFilter(keyword="task"))),
    "list of what is blocked": (2, lambda tx: store.list_tasks(tx, OWNERS, TaskFilter(has_blockers=True))),
    "graph of one level": (4, lambda tx: store.walk(tx, OWNERS, GraphQuery("1", depth=1))),
    "graph": (5, lambda tx: store.walk(tx, OWNERS, GraphQuery("1"))),
    "overlap": (1, lambda tx: overlapping(tx, "ses_1", [ClaimTarget("/w/a.py")], now_ms=1)),
    "claim": (1, lambda tx: take_claims(tx, "ses_1", [], now_ms=1, renews=False) or tx.one("SELECT 1")),
    "board": (3, lambda tx: read_board(tx, now_ms=1)),
}


@pytest.mark.parametrize("count", [10, 70])
async def test_a_question_takes_as_many_statements_for_many_tasks_as_for_few(constellation: Constellation, count: int):
    await constellation.database.write(lambda tx: fill(tx, count))
    for name, (most, ask) in QUESTIONS.items():
        assert await statements(constellation, ask) <= most, name


async def test_an_update_takes_as_many_statements_in_a_long_list_as_in_a_short_one(constellation: Constellation):
    await constellation.database.write(lambda tx: fill(tx, 3))

    def update(tx: Transaction) -> object:
        return store.patch_task(tx, OWNERS, "3", TaskPatch(status=TaskStatus.DONE), WRITER)

    def again(tx: Transaction) -> object:
        return store.patch_task(tx, OWNERS, "3", TaskPatch(status=TaskStatus.TODO), WRITER)

    few = await statements(constellation, update)
    await constellation.database.write(lambda tx: fill_more(tx, 60))
    assert await statements(constellation, again) <= few
    assert few <= 12


def fill_more(tx: Transaction, count: int) -> None:
    """More tasks without links."""
    for number in range(count):
        store.create_task(tx, *OWNERS[1], Task(f"more_{number}", 0, f"More {number}"), WRITER, list_id=f"l_{number}")
