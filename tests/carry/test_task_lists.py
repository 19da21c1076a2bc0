"""Tasks go along with memory: whole, once, merged, with numbers that each is one task's alone."""

from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest
from msgspec.structs import replace

from pattern_acp.carry.arrival import read_contents
from pattern_acp.carry.car import ArchiveDamagedError, ArchiveWriter, read_archive
from pattern_acp.carry.export import FORM, FORMAT, Choice, Contents, TaskListRecord, TaskUpdate, node_of
from pattern_acp.db.connection import Database, Transaction
from pattern_acp.db.migrate import load_migrations
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.journal.reader import verify_stream
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.blocks import Scope
from pattern_acp.tasks import store
from pattern_acp.tasks.model import LinkKind, Task, TaskFilter, TaskPatch, TaskStatus, TaskStep
from tests.carry.test_archive import KEY, OTHER, PROJECT, arrive, home, is_sound, leave, offered

OWNERS = ((Scope.PROJECT, PROJECT),)


def writer(peer: int, at_ms: int = 1_800_000_000_000) -> store.TaskWriter:
    return store.TaskWriter(CONSTELLATION_STREAM, peer, at_ms, Actor.HUMAN, Origin.PERSON)


async def add(
    database: Database, title: str, *, list_id: str = "tasklist_1", project: str = PROJECT, peer: int = 7
) -> Task:
    task = Task(f"task_{title.replace(' ', '_')}", 0, title, steps=(TaskStep("First"), TaskStep("Second")))
    make = partial(store.create_task, scope=Scope.PROJECT, owner=project, task=task, writer=writer(peer))
    return await database.write(lambda tx: make(tx, list_id=list_id))


async def tasks(database: Database) -> dict[str, Task]:
    rows = await database.read(lambda tx: store.list_tasks(tx, OWNERS, TaskFilter(statuses=None)))
    return {row.task.title: row.task for row in rows}


def work(tx: Transaction) -> None:
    store.comment_task(tx, OWNERS, "1", "Ann", "It is in lexer.py.", writer(7))
    store.patch_task(tx, OWNERS, "1", TaskPatch(status=TaskStatus.IN_PROGRESS), writer(7))
    store.link_tasks(tx, OWNERS, "1", LinkKind.BLOCKS, "2", writer(7))


async def test_tasks_with_steps_comments_and_links_go_along_and_come_back_to_the_byte(tmp_path: Path):
    file, again = tmp_path / "a.car", tmp_path / "b.car"
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        await add(one, "Parse it")
        await add(one, "Print it")
        await one.write(work)
        assert (await leave(one, file)).tasks == 2
        (found,) = await offered(two, file)
        assert (found.kind, found.name, found.about, found.state) == ("tasks", "2 tasks", "2 open", "new")
        report = await arrive(two, file)
        assert (report.tasks, report.events) == (2, 5)
        assert await tasks(two) == await tasks(one)
        (row,) = await two.read(lambda tx: store.list_tasks(tx, OWNERS, TaskFilter(statuses=None, has_blockers=True)))
        assert (row.task.title, row.blockers) == ("Print it", (1,))
        assert await is_sound(two) == []
        assert (await two.read(lambda tx: verify_stream(tx, CONSTELLATION_STREAM))).ok
        await leave(two, again)
        assert again.read_bytes() == file.read_bytes()
        assert {each.state for each in await offered(two, file)} == {"known"}
        assert (await arrive(two, file)).events == 0


async def test_changes_of_both_sides_merge_and_both_end_with_the_same(tmp_path: Path):
    there, back = tmp_path / "there.car", tmp_path / "back.car"
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        await add(one, "Parse it")
        await leave(one, there)
        await arrive(two, there)
        await one.write(lambda tx: store.comment_task(tx, OWNERS, "1", "Ann", "One says.", writer(8)))
        patch = TaskPatch(status=TaskStatus.DONE)
        await two.write(lambda tx: store.patch_task(tx, OWNERS, "1", patch, writer(9)))
        await leave(one, there)
        assert [each.state for each in await offered(two, there)] == ["changed"]
        await arrive(two, there)
        await leave(two, back)
        await arrive(one, back)
        task = (await tasks(one))["Parse it"]
        assert task == (await tasks(two))["Parse it"]
        assert (task.status, [comment.text for comment in task.comments]) == (TaskStatus.DONE, ["One says."])
        assert {each.state for each in await offered(one, back)} == {"known"}
        assert {each.state for each in await offered(two, there)} == {"known"}


async def test_a_task_whose_number_is_taken_here_gets_another(tmp_path: Path):
    file = tmp_path / "a.car"
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        await add(one, "Parse it")
        await add(two, "Mine", list_id="tasklist_2")
        await leave(one, file)
        report = await arrive(two, file)
        assert report.notes == ["The task “Parse it” is #2 here."]
        assert {title: task.number for title, task in (await tasks(two)).items()} == {"Mine": 1, "Parse it": 2}


async def test_tasks_of_other_projects_and_with_secrets_stay(tmp_path: Path):
    file = tmp_path / "a.car"
    async with home(tmp_path / "one") as one:
        await add(one, "The canary sings", project=OTHER)
        await add(one, "Parse it", list_id="tasklist_2")
        assert (await leave(one, file, Choice(project=PROJECT))).tasks == 1
        assert b"canary" not in file.read_bytes()
        patch = TaskPatch(description=f"The key is {KEY}.")
        await one.write(lambda tx: store.patch_task(tx, OWNERS, "2", patch, writer(7)))
        await one.write(lambda tx: store.patch_task(tx, OWNERS, "2", TaskPatch(description="No key."), writer(7)))
        report = await leave(one, file)
        assert (report.tasks, len(report.left_out)) == (1, 1)
        assert "seems to hold a secret, now or in its history" in report.left_out[0]
        assert KEY.encode() not in file.read_bytes()


async def test_an_update_that_is_not_what_its_event_says_is_refused(tmp_path: Path):
    file = tmp_path / "a.car"
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        await add(one, "Parse it")
        await add(two, "Another", list_id="tasklist_1", peer=9)
        await leave(one, file)
        changed = tmp_path / "changed.car"
        with file.open("rb") as opened:
            archive = read_archive(opened)
            (page,) = read_contents(archive).tasks
            (link,) = archive.read(page, list[bytes])
            record = archive.read(link, TaskListRecord)
            (update,) = archive.read(record.updates[0], list[TaskUpdate])
        (other,) = await two.read(lambda tx: store.updates_of(tx, "tasklist_1"))
        with changed.open("w+b") as into:
            _write(into, record, replace(update, data=other.data))
    async with home(tmp_path / "three") as three:
        with pytest.raises(ArchiveDamagedError, match="is not what its event says"):
            await arrive(three, changed)
        assert await tasks(three) == {}


def _write(into: BinaryIO, record: TaskListRecord, update: TaskUpdate) -> None:
    archive = ArchiveWriter(into)
    listed = archive.add(node_of(replace(record, updates=(archive.add([node_of(update)]),))))
    contents = Contents(FORMAT, FORM, load_migrations()[-1].version, tasks=(archive.add([listed]),))
    archive.finish(node_of(contents))
