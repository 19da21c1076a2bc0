"""Tasks as check lists, TODO.md and issues: what is read, what is written, and that both agree."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.commands.tasks import FORMATS, STATES
from pattern_acp.tasks.interchange import TaskFormat, TaskImportError, changes_of, read_tasks, write_tasks
from pattern_acp.tasks.model import Task, TaskEffort, TaskPatch, TaskSource, TaskStatus, TaskStep, patched

TODO = """# TODO

Some words.

### Todo

- [ ] Work on the parser ~3d #feat @ana
  - [x] read the grammar
  - [ ] write it

  It has *two* parts:

  ```
  - [ ] no task
  ```
- [ ] Write to a@b.c

### In Progress

* [ ] Fix C #12

### Done ✓

- [x] Make the repository
"""

ISSUES: list[dict[str, Any]] = [
    {
        "number": 12,
        "title": "Crash on start",
        "state": "OPEN",
        "labels": [{"id": "L1", "name": "bug", "description": "", "color": "f00"}, {"name": "good, first"}],
        "body": "It crashes.\r\n\r\n- [ ] when?",
        "url": "https://github.com/o/r/issues/12",
    },
    {
        "number": 9,
        "title": "Add “dark” mode",
        "state": "CLOSED",
        "stateReason": "NOT_PLANNED",
        "labels": [],
        "body": "",
        "url": "https://github.com/o/r/issues/9",
    },
]


def made_of(text: str, name: str = "TODO.md") -> list[Task]:
    """The tasks that an import of a file makes."""
    return [
        patched(Task(f"task_{at:04}", at, ""), changes_of(draft, None), at)
        for at, draft in enumerate(read_tasks(name, text), start=1)
    ]


def test_the_table_of_commands_knows_every_state_and_form():
    assert tuple(TaskStatus) == STATES
    assert set(FORMATS) == set(TaskFormat.__args__)


def test_a_todo_file_has_states_steps_tags_and_descriptions():
    parser, mail, c, repository = made_of(TODO)
    assert (parser.title, parser.owner, parser.labels) == ("Work on the parser", "ana", ("feat",))
    assert parser.estimate == TaskEffort(wall_ms=24 * 3_600_000)
    assert parser.steps == (TaskStep("read the grammar", TaskStatus.DONE), TaskStep("write it"))
    assert parser.description == "It has *two* parts:\n\n```\n- [ ] no task\n```"
    assert (mail.title, mail.status, mail.owner) == ("Write to a@b.c", TaskStatus.TODO, None)
    assert (c.title, c.status) == ("Fix C #12", TaskStatus.IN_PROGRESS)
    assert (repository.status, repository.labels) == (TaskStatus.DONE, ())


def test_a_check_list_has_headings_as_labels_and_tells_equal_titles_apart():
    drafts = read_tasks("plan.md", "# Plan\n- [ ] test\n## API #\n- [x] test\n- [!] test\n1. no task\n")
    assert [draft.patch.labels for draft in drafts[1:]] == [("API",), ("API",)]
    assert len({draft.source.key for draft in drafts}) == 3


def test_issues_have_number_title_state_labels_body_and_address():
    crash, dark = made_of(json.dumps(ISSUES), "issues.json")
    assert (crash.title, crash.status, crash.labels) == ("Crash on start", TaskStatus.TODO, ("bug", "good, first"))
    assert crash.description == "It crashes.\n\n- [ ] when?"
    assert crash.source is not None
    assert (crash.source.number, crash.source.url) == (12, "https://github.com/o/r/issues/12")
    assert dark.status is TaskStatus.DROPPED
    written = json.loads(write_tasks([crash, dark], "github"))
    for before, after in zip(ISSUES, written, strict=True):
        assert [one["name"] for one in after["labels"]] == [one["name"] for one in before["labels"]]
        assert after["body"] == str(before["body"]).replace("\r\n", "\n")
        assert all(after[name] == before[name] for name in ("number", "title", "state", "url"))


def test_pull_requests_among_issues_are_left_out_and_one_issue_alone_is_read():
    assert read_tasks("a.json", json.dumps([{**ISSUES[0], "pull_request": {}}])) == ()
    assert len(read_tasks("a.json", json.dumps(ISSUES[0]))) == 1
    assert read_tasks("a.json", "[ ]") == ()


def test_a_field_that_did_not_change_in_the_file_stays_as_it_is_here():
    (task,) = made_of("- [ ] a\n")
    here = replace(task, status=TaskStatus.IN_PROGRESS, description="begun")
    (same,) = read_tasks("TODO.md", "- [ ] a\n")
    assert changes_of(same, here).is_empty
    (more,) = read_tasks("TODO.md", "- [ ] a\n  words\n")
    assert changes_of(more, here) == TaskPatch(description="words", source=changes_of(more, None).source)
    (over,) = read_tasks("TODO.md", "- [x] a\n")
    assert changes_of(over, here).status is TaskStatus.DONE


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "",
            "x, line 1: there is no check list in it; write tasks as lines such as “- [ ] Title”. Nothing",
        ),
        ("a\n- [ ] b\n- [?] c", "x, line 3: the box [?] is unknown; use one of [ ], [>], [!], [x], [-]."),
        ("- [ ] " + "a" * 201, "x, line 1: the title has more than 200 characters"),
        ('[\n{"title": "a"},\n{"number": 3}\n]', "x, line 3: the issue has no title"),
        ('[\n{"title": "a"}\n', "x, line 3: the list of issues ends early"),
        ('[{"title": "a", "number": "3"}]', "x, line 1: number and url of an issue"),
        ('[{"title": "a", "state": "MAYBE"}]', "x, line 1: the state of an issue is OPEN or CLOSED"),
        ('[{"title": "a", "labels": [3]}]', "x, line 1: labels of an issue"),
        ('[{"title": "a", "body": 3}]', "x, line 1: the body of an issue"),
        ('{"title": "a"}\n}', "x, line 2: there is something behind the issues"),
        ('[{"title": "a"},\n{"title" "b"}]', "x, line 2: this is no JSON"),
        ("[1]", "x, line 1: an issue is an object with a title"),
        ("[" * 100_000, "x, line 1: "),
    ],
)
def test_what_cannot_be_read_is_one_sentence_with_its_line(text: str, sentence: str):
    with pytest.raises(TaskImportError) as caught:
        read_tasks("x", text)
    assert caught.value.sentence.startswith(sentence)
    assert "\n" not in caught.value.sentence


words = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=30)
titles = words.map(lambda text: " ".join(text.split())).filter(bool)
lines = st.lists(
    words | st.sampled_from(["- [ ] a", "## Todo", "```", "  - [x] b", "\\- [ ] c", "~~~", "#"]), max_size=6
)
tasks = st.builds(
    Task,
    st.integers(1, 99).map(lambda number: f"task_{number:04}"),
    st.integers(1, 99),
    titles,
    lines.map("\n".join),
    st.sampled_from(TaskStatus),
    owner=st.none() | titles,
    estimate=st.none() | st.builds(TaskEffort, wall_ms=st.integers(1, 999).map(lambda minutes: minutes * 60_000)),
    steps=st.lists(st.builds(TaskStep, titles, st.sampled_from(TaskStatus)), max_size=3).map(tuple),
    labels=st.lists(titles, max_size=3, unique=True).map(sorted).map(tuple),
    source=st.none() | st.builds(TaskSource, titles, st.integers(0, 9), titles),
)


@given(tasks, st.sampled_from(["checklist", "todo", "github"]))
def test_reading_what_was_written_changes_nothing(task: Task, form: TaskFormat):
    (draft,) = read_tasks("x", write_tasks([task], form))
    assert draft.task_id == task.id
    assert changes_of(draft, task).is_empty


@given(tasks, tasks)
def test_an_entry_does_not_leak_into_the_next(first: Task, second: Task):
    drafts = read_tasks("x", write_tasks([first, replace(second, status=first.status)], "checklist"))
    assert [draft.task_id for draft in drafts] == [first.id, second.id]


@given(tasks)
def test_an_issue_that_was_exported_is_the_same_task_elsewhere(task: Task):
    (draft,) = read_tasks("x", write_tasks([task], "github"))
    elsewhere = patched(Task("task_else", 1, ""), changes_of(draft, None), 1)
    assert (elsewhere.title, elsewhere.description) == (task.title, task.description)
    assert elsewhere.status.is_open == task.status.is_open
    assert elsewhere.labels == task.labels
    assert changes_of(draft, elsewhere).is_empty


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str):
    with suppress(TaskImportError):
        assert read_tasks("x", text)
