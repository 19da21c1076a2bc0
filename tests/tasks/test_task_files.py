"""One task as a Markdown file: written, read, and merged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.domain.clock import local_minute
from pattern_acp.domain.tool_calls import PlanPriority
from pattern_acp.tasks.model import (
    LinkKind,
    Task,
    TaskCheck,
    TaskComment,
    TaskLink,
    TaskStatus,
    TaskStep,
)
from pattern_acp.tasks.task_files import (
    Reading,
    TaskFileError,
    merge_task,
    read_task_file,
    text_of_task,
    write_task_file,
)

TASK = Task(
    "task_a",
    12,
    "Write the parser",
    "It reads:\n\n## Steps\n\nand more",
    TaskStatus.IN_PROGRESS,
    PlanPriority.HIGH,
    "ana",
    steps=(TaskStep("grammar", TaskStatus.DONE), TaskStep("code")),
    links=(TaskLink(LinkKind.BLOCKS, "task_b"),),
    comments=(TaskComment("ana", 1_795_974_946_279, "one\n\ntwo"),),
    checks=(TaskCheck("pytest -q", 0, 5, "fine"),),
    files=("src/a.py",),
    labels=("core", "good, first"),
)
NAMES = {"task_b": "13"}
READING = Reading("user", 9_000, lambda task_id: NAMES.get(task_id, task_id), lambda ref: f"task_{ref}")

FILE = f"""---
task: 12
title: Write the parser
status: in_progress
priority: high
owner: ana
labels: core, "good, first"
links: blocks #13
---

It reads:

\\## Steps

and more

## Steps

- [x] grammar
- [ ] code

## Checks

- `pytest -q`

## Files

- src/a.py

## Comments

- {local_minute(1_795_974_946_279)} ana: one
  two
"""


def edited(old: str, new: str, now: Task = TASK) -> Task:
    """The task after an edit of its file."""
    base = text_of_task(TASK, NAMES)
    return merge_task(base, read_task_file("t.md", FILE.replace(old, new), 12), now, READING)


def test_a_file_says_all_that_can_be_edited():
    assert write_task_file(12, text_of_task(TASK, NAMES)) == FILE


def test_a_file_that_nobody_edited_changes_nothing():
    assert edited("", "") == TASK


def test_every_field_can_be_edited():
    assert edited("title: Write", "title:  Mend ").title == "Mend the parser"
    assert edited("status: in_progress", "status: blocked").status is TaskStatus.BLOCKED
    assert edited("priority: high", "priority: low").priority is PlanPriority.LOW
    assert edited("owner: ana", "owner:").owner is None
    assert edited("labels: core,", "labels: api,").labels == ("api", "good, first")
    assert edited("and more", "and less").description == "It reads:\n\n## Steps\n\nand less"
    assert edited("- [ ] code", "- [x] code").steps[1].status is TaskStatus.DONE
    assert edited("`pytest -q`", "`pytest -q`\n- `ruff`").checks == (*TASK.checks, TaskCheck("ruff"))
    assert edited("- src/a.py", "- src/b.py").files == ("src/b.py",)
    assert edited("links: blocks #13", "links: relates #14").links == (TaskLink(LinkKind.RELATES, "task_14"),)
    assert edited("  two\n", "  two\n- and I\n  say\n").comments[1:] == (TaskComment("user", 9_000, "and I\nsay"),)


def test_what_others_changed_meanwhile_stays():
    now = replace(
        TASK,
        title="Write a parser",
        description="It reads:\n\n## Steps\n\nand more\nlast",
        steps=(TaskStep("grammar", TaskStatus.DONE), TaskStep("review"), TaskStep("code", TaskStatus.IN_PROGRESS)),
        labels=("core", "new"),
        comments=(*TASK.comments, TaskComment("bob", 5, "hm")),
    )
    after = edited("- [ ] code", "- [ ] code\n- [ ] docs", now)
    assert after.title == "Write a parser"
    assert [step.text for step in after.steps] == ["grammar", "review", "code", "docs"]
    assert after.steps[2].status is TaskStatus.IN_PROGRESS
    assert edited("It reads", "It read", now).description == "It read:\n\n## Steps\n\nand more\nlast"
    assert edited("labels: core, ", "labels: ", now).labels == ("new",)
    assert edited("  two\n", "  two\n- me\n", now).comments[1:] == (now.comments[1], TaskComment("user", 9_000, "me"))


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("---\ntask", "task", 1, "the head is missing"),
        ("status: in_progress\n", "", 1, "the field status is missing"),
        ("status: in_progress", "status: doing", 4, "the status is one of todo, in_progress, blocked, done, dropped."),
        ("priority: high", "priority: huge", 5, "the priority is one of"),
        ("title: Write the parser", "title:", 3, "a task needs a title"),
        ("task: 12", "task: 13", 2, "the file is that of the task 12"),
        ("owner: ana", "assigned: ana", 6, "the fields are task, title"),
        ("links: blocks #13", "links: needs #13", 8, "links are blocks, relates or parent"),
        ("- [ ] code", "- code", 20, "a step is a line such as"),
        ("- src/a.py", "src/a.py", 28, "each line of this section begins with"),
        ("## Files", "## Steps", 26, "there is a second section Steps"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(old: str, new: str, line: int, problem: str):
    with pytest.raises(TaskFileError) as caught:
        edited(old, new)
    assert caught.value.sentence.startswith(f"t.md, line {line}: {problem}")


words = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=20)
titles = words.map(lambda text: " ".join(text.split())).filter(bool)
texts = st.lists(words | st.sampled_from(["## Steps", "\\## Files", "---", "- [ ] a", "- b", ""]), max_size=5).map(
    "\n".join
)
tasks = st.builds(
    Task,
    st.just("task_a"),
    st.just(12),
    titles,
    texts,
    st.sampled_from(TaskStatus),
    st.sampled_from(PlanPriority),
    owner=st.none() | words,
    steps=st.lists(st.builds(TaskStep, words, st.sampled_from(TaskStatus)), max_size=4).map(tuple),
    links=st.lists(
        st.builds(TaskLink, st.sampled_from(LinkKind), st.sampled_from(["task_b", "task_c"])), max_size=3
    ).map(tuple),
    comments=st.lists(st.builds(TaskComment, titles, st.integers(0, 10**12), texts.filter(str.strip)), max_size=3).map(
        tuple
    ),
    checks=st.lists(st.builds(TaskCheck, words), max_size=3).map(tuple),
    files=st.lists(titles, max_size=3, unique=True).map(tuple),
    labels=st.lists(titles, max_size=3, unique=True).map(sorted).map(tuple),
)


@given(tasks)
def test_reading_a_file_gives_what_was_written(task: Task):
    base = text_of_task(task, NAMES)
    read = read_task_file("t.md", write_task_file(task.number, base), 12)
    assert read == base
    assert merge_task(base, read, task, READING) == task
