"""Tasks in the constellation."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import LiteralString

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from pattern_acp.db.columns import data, text
from pattern_acp.db.connection import Transaction
from pattern_acp.db.raw import Params, Row
from pattern_acp.db.table_rows import count_rows
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import RandomIds
from pattern_acp.domain.tool_calls import Plan, PlanEntry, PlanPriority, PlanStatus
from pattern_acp.memory.blocks import Scope
from pattern_acp.tasks import store
from pattern_acp.tasks.document import TaskDocument
from pattern_acp.tasks.model import (
    GraphQuery,
    LinkKind,
    NotATaskListError,
    TaskEffort,
    TaskFilter,
    TaskNotFoundError,
    TaskPatch,
    TaskRefusedError,
    TaskStatus,
    TaskStep,
)
from pattern_acp.tasks.service import TaskDesk, Tasks
from tests.support.constellation import Constellation, temporary_constellation

pytestmark = pytest.mark.anyio

OWNERS = ((Scope.PERSONA, "coder"), (Scope.PROJECT, "/work/app"))


def tasks_of(constellation: Constellation, *, session: str = "s1", peer: int = 7) -> Tasks:
    """The tasks of a session."""
    desk = TaskDesk(OWNERS, "constellation", session, "coder")
    return Tasks(constellation.database, desk, clock=constellation.clock, ids=RandomIds(), peer=peer)


@asynccontextmanager
async def opened() -> AsyncGenerator[tuple[Tasks, Constellation]]:
    """Tasks of one session in an empty constellation."""
    async with temporary_constellation() as constellation:
        yield tasks_of(constellation), constellation


async def test_a_task_has_what_it_was_created_with_and_ids_sort_by_age():
    async with opened() as (tasks, constellation):
        first = await tasks.create("Write the parser", TaskPatch(description="All of it", priority=PlanPriority.HIGH))
        constellation.clock.advance(5)
        second = await tasks.create(
            "  Test\nit ", TaskPatch(steps=(TaskStep("one"), TaskStep("two", TaskStatus.BLOCKED)))
        )
        assert (first.number, second.number) == (1, 2)
        assert first.id < second.id
        assert second.title == "Test it"
        assert await tasks.get("#2") == second
        assert await tasks.get("1") == await tasks.get(first.id) == first


async def test_absent_stays_null_clears_and_a_value_replaces():
    async with opened() as (tasks, constellation):
        await tasks.create("a", TaskPatch(description="words", owner="ana", estimate=TaskEffort(tokens=5)))
        constellation.clock.advance(10)
        renamed = await tasks.update("1", TaskPatch(title="b"))
        assert (renamed.title, renamed.description, renamed.owner) == ("b", "words", "ana")
        cleared = await tasks.update("1", TaskPatch(owner=None, estimate=None, description=None))
        assert (cleared.owner, cleared.estimate, cleared.description) == (None, None, "")
        assert cleared.updated_ms == constellation.clock.now_ms()
        assert (await tasks.update("1", TaskPatch(owner="bob"))).owner == "bob"


async def test_a_patch_of_nothing_and_a_task_without_a_title_are_refused():
    async with opened() as (tasks, _):
        await tasks.create("a", TaskPatch())
        with pytest.raises(TaskRefusedError, match="name a field"):
            await tasks.update("1", TaskPatch())
        with pytest.raises(TaskRefusedError, match="needs a title"):
            await tasks.create(" \n ", TaskPatch())


async def test_a_missing_task_is_named_with_what_there_is():
    async with opened() as (tasks, _):
        with pytest.raises(TaskNotFoundError, match="There are no open tasks"):
            await tasks.get("3")
        await tasks.create("Write the parser", TaskPatch())
        with pytest.raises(TaskNotFoundError, match=r"no task '#9'.*#1 Write the parser"):
            await tasks.update("#9", TaskPatch(title="x"))


async def test_states_stamp_when_a_task_began_and_ended_and_what_it_took():
    async with opened() as (tasks, constellation):
        await tasks.create("a", TaskPatch())
        begun = await tasks.update("1", TaskPatch(status=TaskStatus.IN_PROGRESS))
        assert (begun.started_ms, begun.owner, begun.session) == (constellation.clock.now_ms(), "coder", "s1")
        constellation.clock.advance(4_000)
        done = await tasks.update("1", TaskPatch(status=TaskStatus.DONE))
        assert (done.completed_ms, done.actual.wall_ms) == (constellation.clock.now_ms(), 4_000)
        again = await tasks.update("1", TaskPatch(status=TaskStatus.TODO))
        assert (again.completed_ms, again.started_ms) == (None, begun.started_ms)


async def test_a_link_touches_its_source_alone_and_is_there_once():
    async with opened() as (tasks, constellation):
        for title in ("a", "b"):
            await tasks.create(title, TaskPatch())
        target = await tasks.get("2")
        await tasks.link("1", LinkKind.BLOCKS, "2")
        again = await tasks.link("1", LinkKind.BLOCKS, "2")
        assert [link.target for link in again.links] == [target.id]
        assert await tasks.get("2") == target
        assert await count(constellation, "task_edges") == 1
        await tasks.link("1", LinkKind.RELATES, "1")
        assert len((await tasks.link("1", LinkKind.BLOCKS, "2", remove=True)).links) == 1
        before = await count(constellation, "events")
        await tasks.link("1", LinkKind.BLOCKS, "2", remove=True)
        assert await count(constellation, "events") == before


async def test_filters_narrow_a_list_and_an_empty_one_asks_nothing():
    async with opened() as (tasks, _):
        for title in ("Parser", "Tests", "Docs"):
            await tasks.create(title, TaskPatch())
        await tasks.link("1", LinkKind.BLOCKS, "2")
        await tasks.update("3", TaskPatch(status=TaskStatus.DONE, owner="ana"))

        async def found(asked: TaskFilter) -> list[int]:
            return [row.task.number for row in await tasks.list(asked)]

        assert await found(TaskFilter()) == [1, 2, 3]
        assert await found(TaskFilter(statuses=(TaskStatus.TODO,))) == [1, 2]
        assert await found(TaskFilter(statuses=())) == []
        assert await found(TaskFilter(owners=("ana",))) == [3]
        assert await found(TaskFilter(has_blockers=True)) == [2]
        assert await found(TaskFilter(has_blockers=False)) == [1, 3]
        assert await found(TaskFilter(blocks=(await tasks.get("2")).id)) == [1]
        assert await found(TaskFilter(keyword="PARS")) == [1]
        assert [row.blockers for row in await tasks.list(TaskFilter())] == [(), (1,), ()]
        await tasks.update("1", TaskPatch(status=TaskStatus.DROPPED))
        assert await found(TaskFilter(has_blockers=True)) == []


async def test_tasks_of_another_project_are_out_of_sight():
    async with opened() as (tasks, constellation):
        await tasks.create("ours", TaskPatch())
        await tasks.create("of the persona", TaskPatch(), scope=Scope.PERSONA)
        elsewhere = TaskDesk(((Scope.PERSONA, "coder"), (Scope.PROJECT, "/work/other")), "constellation")
        other = Tasks(constellation.database, elsewhere, clock=constellation.clock, ids=RandomIds(), peer=8)
        assert [row.task.title for row in await other.list(TaskFilter())] == ["of the persona"]
        with pytest.raises(TaskNotFoundError):
            await other.get("1")


async def test_a_list_costs_two_statements_however_long_it_is():
    async with opened() as (tasks, constellation):
        for number in range(20):
            await tasks.create(f"t{number}", TaskPatch())
            if number:
                await tasks.link(str(number), LinkKind.BLOCKS, str(number + 1))
        seen = await constellation.database.read(
            lambda tx: counted(tx, lambda one: store.list_tasks(one, OWNERS, TaskFilter()))
        )
        assert seen == 2
        graph = await constellation.database.read(
            lambda tx: counted(tx, lambda one: store.walk(one, OWNERS, GraphQuery("1", "forward", depth=3)))
        )
        assert graph <= 2 * 3 + 2


async def test_a_graph_goes_breadth_first_to_its_limits():
    async with opened() as (tasks, constellation):
        for number in range(6):
            constellation.clock.advance(1)
            await tasks.create(f"t{number}", TaskPatch())
        for source, target in (("1", "2"), ("2", "3"), ("3", "1"), ("4", "1"), ("3", "5")):
            await tasks.link(source, LinkKind.BLOCKS, target)

        async def around(query: GraphQuery) -> tuple[list[int], int, bool]:
            graph = await tasks.graph(query)
            ids = {task.id for task in graph.nodes}
            assert all(edge.source in ids and edge.target in ids for edge in graph.edges)
            return [task.number for task in graph.nodes], len(graph.edges), graph.truncated

        assert await around(GraphQuery("1", "forward")) == ([1, 2, 3, 5], 4, False)
        assert await around(GraphQuery("1", "reverse")) == ([1, 3, 4, 2], 4, False)
        assert (await around(GraphQuery("1")))[0] == [1, 2, 3, 4, 5]
        assert await around(GraphQuery("1", depth=0)) == ([1], 0, False)
        assert await around(GraphQuery("1", "forward", depth=1)) == ([1, 2], 1, True)
        assert await around(GraphQuery("1", most=2)) == ([1, 2], 1, True)
        with pytest.raises(TaskNotFoundError):
            await tasks.graph(GraphQuery("77"))


async def test_what_two_copies_of_a_list_change_at_once_is_all_there():
    async with opened() as (tasks, constellation):
        for title in ("a", "b", "c"):
            await tasks.create(title, TaskPatch())
        await tasks.link("1", LinkKind.BLOCKS, "2")
        list_id, base = await constellation.database.read(whole_list)
        copy = TaskDocument.load(list_id, base, peer=99)
        version, (first, second, third) = copy.frontiers, copy.tasks
        copy.change(first, replace(first, links=(), title="renamed"))
        update = copy.export_update(version)
        await tasks.link("1", LinkKind.BLOCKS, "3")
        await tasks.update("1", TaskPatch(description="new"))
        writer = store.TaskWriter("constellation", 7, 1, Actor.HUMAN, Origin.PERSON)
        await constellation.database.write(lambda tx: store.merge_update(tx, list_id, update, writer))
        merged = await tasks.get("1")
        assert (merged.title, merged.description) == ("renamed", "new")
        assert [link.target for link in merged.links] == [third.id]
        assert [row.blockers for row in await tasks.list(TaskFilter())] == [(), (), (1,)]
        assert second.title == "b"
        with pytest.raises(NotATaskListError):
            await constellation.database.write(lambda tx: store.merge_update(tx, list_id, b"damaged", writer))


async def test_rows_follow_from_the_documents():
    async with opened() as (tasks, constellation):
        for number in range(70):
            await tasks.create(f"t{number}", TaskPatch())
        for number in range(1, 30):
            await tasks.update(str(number), TaskPatch(status=TaskStatus.DONE))
        await tasks.comment("5", "looks right")
        assert await count(constellation, "task_lists") == 2
        rows = {row.task.id: row.task for row in await tasks.list(TaskFilter(limit=1_000))}
        documents = await constellation.database.read(all_documents)
        assert {task.id: task for document in documents for task in document.tasks} == rows
        assert rows[(await tasks.get("5")).id].comments[0].author == "coder"


async def test_a_plan_is_the_steps_of_the_task_that_the_session_works_on():
    async with opened() as (tasks, constellation):
        plan = Plan((PlanEntry("read", status=PlanStatus.IN_PROGRESS), PlanEntry("[blocked] write")))
        task = await tasks.show_plan(plan, "Add a feature")
        assert task is not None
        assert task.status is TaskStatus.IN_PROGRESS
        assert [step.status for step in task.steps] == [TaskStatus.IN_PROGRESS, TaskStatus.BLOCKED]
        assert task.plan == plan
        assert await tasks.active() == task
        assert await tasks_of(constellation, session="s2").active() is None
        over = Plan(
            (PlanEntry("read", status=PlanStatus.COMPLETED), PlanEntry("[dropped] write", status=PlanStatus.COMPLETED))
        )
        done = await tasks.show_plan(over, "ignored")
        assert done is not None
        assert (done.id, done.status, done.title) == (task.id, TaskStatus.DONE, "Add a feature")
        assert await tasks.active() is None
        assert await tasks.show_plan(Plan(()), "nothing") is None


async def test_halves_of_characters_are_stored_as_replacements():
    async with opened() as (tasks, _):
        task = await tasks.create("a \ud83d b", TaskPatch(description="\udc00"))
        assert "\ud83d" not in task.title
        assert await tasks.get("1") == task


def test_a_patch_knows_what_is_absent():
    assert TaskPatch().is_empty
    assert not TaskPatch(owner=None).is_empty
    assert TaskPatch().owner is UNSET


async def count(constellation: Constellation, table: str) -> int:
    """The rows of a table."""
    return await constellation.database.read(lambda tx: count_rows(tx, table))


def whole_list(tx: Transaction) -> tuple[str, list[bytes]]:
    """The first list, by all of its updates."""
    row = tx.one("SELECT id FROM task_lists ORDER BY rowid")
    assert row is not None
    rows = tx.all("SELECT data FROM task_updates WHERE list_id = ? ORDER BY number", (row[0],))
    return text(row[0]), [data(one[0]) for one in rows]


def all_documents(tx: Transaction) -> list[TaskDocument]:
    """Every list, from its base and the updates behind it."""
    documents: list[TaskDocument] = []
    for row in tx.all("SELECT id, base, base_update FROM task_lists"):
        behind = "SELECT data FROM task_updates WHERE list_id = ? AND number > ? ORDER BY number"
        parts = [data(row[1]), *(data(one[0]) for one in tx.all(behind, (row[0], row[2])))]
        documents.append(TaskDocument.load(text(row[0]), parts, peer=3))
    return documents


class CountingTransaction(Transaction):
    """A transaction that counts its statements."""

    def __init__(self, inner: Transaction) -> None:
        self._inner = inner
        self.statements = 0

    def one(self, sql: LiteralString, params: Params = ()) -> Row | None:
        """See `Transaction.one`."""
        self.statements += 1
        return self._inner.one(sql, params)

    def all(self, sql: LiteralString, params: Params = ()) -> list[Row]:
        """See `Transaction.all`."""
        self.statements += 1
        return self._inner.all(sql, params)


def counted(tx: Transaction, look: Callable[[Transaction], object]) -> int:
    """The statements that a reading function needs."""
    counting = CountingTransaction(tx)
    look(counting)
    return counting.statements
