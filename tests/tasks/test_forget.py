"""Words that are forgotten are in no task, no row and no byte of the history of a list."""

from collections.abc import AsyncGenerator

import pytest
from msgspec.structs import replace

from pattern_acp.db.connection import Transaction
from pattern_acp.db.table_rows import columns_of, each_row
from pattern_acp.domain.clock import RandomIds
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.forgotten import Forgotten, forget_passage
from pattern_acp.tasks.document import TaskDocument
from pattern_acp.tasks.forget import forget_in_tasks, tasks_with
from pattern_acp.tasks.model import LinkKind, Task, TaskCheck, TaskFilter, TaskPatch, TaskSource, TaskStep
from pattern_acp.tasks.service import TaskDesk, Tasks
from tests.support.constellation import Constellation, temporary_constellation

OWNERS = ((Scope.PERSONA, "coder"), (Scope.PROJECT, "/work/app"))
SECRET = "the vault opens with quartzvejle"
WORDS = forget_passage(SECRET)


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


@pytest.fixture
def tasks(constellation: Constellation) -> Tasks:
    desk = TaskDesk(OWNERS, "constellation")
    return Tasks(constellation.database, desk, clock=constellation.clock, ids=RandomIds(), peer=7)


def cells(tx: Transaction) -> bytes:
    """Everything that the tables of tasks hold."""
    values = [
        value if isinstance(value, bytes) else str(value).encode()
        for table in ("task_lists", "task_updates", "tasks", "task_edges")
        for row in each_row(tx, table)
        for value in dict(zip(columns_of(tx, table), row, strict=True)).values()
    ]
    return b"\n".join(values)


async def forget(constellation: Constellation, words: Forgotten = WORDS, session: str = "") -> int:
    return await constellation.database.write(lambda tx: forget_in_tasks(tx, words, at_ms=9, session=session))


async def test_words_leave_every_field_and_the_rest_stays(constellation: Constellation, tasks: Tasks):
    other = await tasks.create("Water the plants", TaskPatch(description="On Mondays."))
    patch = TaskPatch(
        description=f"Since {SECRET}.",
        owner=f"who knows {SECRET}",
        steps=(TaskStep(f"Ask whether {SECRET}"), TaskStep("Write it down")),
        checks=(TaskCheck(f"grep '{SECRET}' notes", 1, 5, f"no: {SECRET}"),),
        files=(f"/w/{SECRET}.txt", "/w/a.py"),
        labels=(SECRET, "core"),
        source=TaskSource(f"TODO.md > {SECRET}", 3, f"https://h/{SECRET}", {"title": "0123456789ab"}),
    )
    task = await tasks.create(f"Find out that {SECRET}", patch)
    await tasks.comment(task.ref, f"Yes, {SECRET.upper()}!")
    await tasks.link(other.ref, LinkKind.BLOCKS, task.ref)
    assert await forget(constellation) == 1
    left = await tasks.get(task.ref)
    assert left.title == "Find out that [forgotten]"
    assert [step.text for step in left.steps] == ["Ask whether [forgotten]", "Write it down"]
    assert left.files == ("/w/[forgotten].txt", "/w/a.py")
    assert "quartzvejle" not in str(left).casefold()
    kept = await tasks.get(other.ref)
    assert (kept.title, kept.description) == ("Water the plants", "On Mondays.")
    assert [(link.kind, link.target) for link in kept.links] == [(LinkKind.BLOCKS, task.id)]
    stored = await constellation.database.read(cells)
    assert b"quartzvejle" not in stored.lower()
    assert await forget(constellation) == 0


async def test_words_of_an_older_state_of_a_task_leave_the_history(constellation: Constellation, tasks: Tasks):
    task = await tasks.create("Open the vault", TaskPatch(description=SECRET))
    for number in range(12):
        await tasks.update(task.ref, TaskPatch(description=f"Not said any more, {number}."))
    assert b"quartzvejle" in await constellation.database.read(cells)
    assert await constellation.database.read(lambda tx: tasks_with(tx, WORDS)) == 1
    await forget(constellation)
    assert b"quartzvejle" not in await constellation.database.read(cells)
    assert (await tasks.get(task.ref)).description == "Not said any more, 11."
    await tasks.update(task.ref, TaskPatch(title="Close the vault"))
    assert [row.task.title for row in await tasks.list(TaskFilter())] == ["Close the vault"]


async def test_a_list_without_the_words_keeps_its_history(constellation: Constellation, tasks: Tasks):
    await tasks.create("Water the plants", TaskPatch())
    before = await constellation.database.read(cells)
    assert await forget(constellation) == 0
    assert await constellation.database.read(cells) == before


async def test_a_redaction_reaches_the_lists_that_its_session_wrote_to(constellation: Constellation, tasks: Tasks):
    await tasks.create(SECRET, TaskPatch())
    assert await forget(constellation, session="another") == 0
    assert await forget(constellation, session="constellation") == 1


@pytest.mark.parametrize("damaged", ["task_updates", "both"])
async def test_words_leave_a_list_that_is_damaged(constellation: Constellation, tasks: Tasks, damaged: str):
    task = await tasks.create(f"Find out that {SECRET}", TaskPatch())

    def damage(tx: Transaction) -> None:
        tx.execute("UPDATE task_updates SET data = :data", {"data": b"x" + SECRET.encode()})
        if damaged == "both":
            tx.execute("UPDATE task_lists SET base = :data", {"data": b"y"})

    await constellation.database.write(damage)
    assert await forget(constellation) == 1
    assert (await tasks.update(task.ref, TaskPatch(description="Again"))).title == "Find out that [forgotten]"
    assert b"quartzvejle" not in await constellation.database.read(cells)


def test_a_document_says_every_text_that_it_ever_had():
    document = TaskDocument("list", 3)
    task = Task("task_1", 1, "First “title”")
    document.add(task)
    document.change(task, replace(task, title="Second"))
    assert "First “title”" in document.everything
    assert "Second" in document.everything
