"""Two processes that change the tasks of one constellation, against a model."""

import tempfile
from pathlib import Path

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, field

from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import RandomIds
from pattern_acp.memory.blocks import Scope
from pattern_acp.tasks.document import TaskDocument
from pattern_acp.tasks.model import LinkKind, TaskFilter, TaskPatch, TaskStatus
from pattern_acp.tasks.service import TaskDesk, Tasks
from tests.support.constellation import FakeClock

OWNERS = ((Scope.PERSONA, "coder"), (Scope.PROJECT, "/work/app"))


class Told(Struct):
    """A task as the model has it."""

    title: str
    status: TaskStatus = TaskStatus.TODO
    owner: str | None = None
    links: set[tuple[LinkKind, int]] = field(default_factory=set[tuple[LinkKind, int]])
    comments: list[str] = field(default_factory=list[str])


OPERATIONS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.one_of(
            st.tuples(st.just("create"), st.sampled_from("abc")),
            st.tuples(st.just("status"), st.integers(0, 9), st.sampled_from(list(TaskStatus))),
            st.tuples(st.just("owner"), st.integers(0, 9), st.sampled_from([None, "ana", "bob"])),
            st.tuples(
                st.sampled_from(["link", "unlink"]),
                st.integers(0, 9),
                st.sampled_from(list(LinkKind)),
                st.integers(0, 9),
            ),
            st.tuples(st.just("comment"), st.integers(0, 9), st.sampled_from("xyz")),
        ),
    ),
    max_size=30,
)


@settings(max_examples=25, deadline=None)
@given(OPERATIONS)
def test_random_operations_of_two_processes_equal_a_model(operations: list[tuple[int, tuple[object, ...]]]):
    anyio.run(compare, operations)


async def compare(operations: list[tuple[int, tuple[object, ...]]]) -> None:
    """Do the operations on two connections of one file and on the model, and compare what both have at the end."""
    with tempfile.TemporaryDirectory(prefix="pattern-acp-", ignore_cleanup_errors=True) as folder:
        path, clock, model = Path(folder) / "c.db", FakeClock(), dict[int, Told]()
        async with open_database(path, clock=clock) as one, open_database(path, clock=clock) as other:
            sides = [
                Tasks(database, TaskDesk(OWNERS, "constellation"), clock=clock, ids=RandomIds(), peer=peer)
                for peer, database in ((3, one), (4, other))
            ]
            for side, operation in operations:
                clock.advance(1)
                await perform(sides[side], operation, model)
            rows = [row.task for row in await sides[0].list(TaskFilter())]
            assert rows == [row.task for row in await sides[1].list(TaskFilter())]
            ids = {task.id: task.number for task in rows}
            found = {
                task.number: Told(
                    task.title,
                    task.status,
                    task.owner,
                    {(link.kind, ids[link.target]) for link in task.links},
                    [comment.text for comment in task.comments],
                )
                for task in rows
            }
            assert found == model


async def perform(tasks: Tasks, operation: tuple[object, ...], model: dict[int, Told]) -> None:
    """Do one operation on both; a task is named by its place among those there are."""
    match operation:
        case ("create", str(title)):
            task = await tasks.create(title, TaskPatch())
            model[task.number] = Told(title)
        case (_, int(at), *_) if not model or at >= len(model):
            return
        case ("status", int(at), TaskStatus() as status):
            await tasks.update(str(at + 1), TaskPatch(status=status))
            model[at + 1].status = status
        case ("owner", int(at), (None | str()) as owner):
            await tasks.update(str(at + 1), TaskPatch(owner=owner))
            model[at + 1].owner = owner
        case ("link" | "unlink" as act, int(at), LinkKind() as kind, int(to)) if to < len(model):
            await tasks.link(str(at + 1), kind, str(to + 1), remove=act == "unlink")
            links = model[at + 1].links
            links.add((kind, to + 1)) if act == "link" else links.discard((kind, to + 1))
        case ("comment", int(at), str(words)):
            await tasks.comment(str(at + 1), words)
            model[at + 1].comments.append(words)
        case _:
            pass


EDITS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(0, 2),
        st.sampled_from(["title", "description", "owner", "link", "comment"]),
        st.text("ab", min_size=1, max_size=3),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(EDITS, st.booleans())
def test_copies_that_were_apart_are_equal_once_each_has_the_others_changes(
    edits: list[tuple[int, int, str, str]], first_to_second_first: bool
):
    from msgspec.structs import replace

    from pattern_acp.tasks.model import Task, TaskComment, TaskLink

    begun = TaskDocument("list", 1)
    for number in range(3):
        begun.add(Task(f"task_{number}", number, "t"))
    whole = begun.export_update(b"\x00")
    copies = [TaskDocument.load("list", [whole], peer=peer) for peer in (2, 3)]
    since = copies[0].frontiers
    comments = links = 0
    for side, at, name, words in edits:
        before = copies[side].tasks[at]
        match name:
            case "link":
                after = replace(before, links=tuple({*before.links, TaskLink(LinkKind.BLOCKS, words)}))
            case "comment":
                after = replace(before, comments=(*before.comments, TaskComment("ana", 1, words)))
                comments += 1
            case _:
                after = replace(before, **{name: words})
        copies[side].change(before, after)
    links = {(task.id, link) for copy in copies for task in copy.tasks for link in task.links}
    updates = [copy.export_update(since) for copy in copies]
    for side in (1, 0) if first_to_second_first else (0, 1):
        copies[side].merge(updates[1 - side])
    assert copies[0].tasks == copies[1].tasks
    assert sum(len(task.comments) for task in copies[0].tasks) == comments
    assert {(task.id, link) for task in copies[0].tasks for link in task.links} == links
