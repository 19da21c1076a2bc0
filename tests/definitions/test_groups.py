"""The file of a project's groups: what it may say, and one sentence for each mistake."""

import os
from pathlib import Path

import pytest

from pattern_acp.definitions.collection import find_definitions
from pattern_acp.definitions.groups import find_groups, group_of, groups_in
from pattern_acp.domain.project_parts import PartKind, digest_of_parts

GROUPS = """\
[ship]
kind = "pipeline"
description = "Plan, build and review a change."
max = "1 USD, 400k tokens"
steps = [
    { persona = "planner", task = "Write a plan." },
    { persona = "default", kind = "worker", paths = ["src"], checks = ["pytest -q"] },
    "reviewer",
]

[storage]
kind = "panel"
members = ["planner", { persona = "planner", name = "second" }]
decides = "reviewer"

[guard]
kind = "watch"
wakes = { persona = "reviewer", task = "Look for faults." }
files = ["src/**/*.py"]
blocks = ["project"]
tasks = true
per_hour = 2
max = 0.5
"""


def place(project: Path, text: str) -> None:
    file = project / ".pattern" / "groups.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def test_pipelines_panels_and_watches_are_read_and_each_is_a_part_of_the_project(tmp_path: Path):
    place(tmp_path, GROUPS)
    found = find_definitions(str(tmp_path), tmp_path / "own")
    assert found.groups is not None
    assert found.problems == ()
    ship, storage, guard = found.groups.usable
    assert ship.summary == "planner → default → reviewer"
    assert (ship.allowance.micro_units, ship.allowance.tokens) == (1_000_000, 400_000)
    assert [each.shown_name for each in storage.everybody] == ["planner", "second", "reviewer"]
    assert guard.summary == "wakes reviewer for src/**/*.py, block project, tasks, at most 2 times an hour"
    parts = list(found.parts())
    assert [(part.kind, part.name) for part in parts] == [
        (PartKind.GROUP, each) for each in ("ship", "storage", "guard")
    ]
    # What the user agrees to names all that would run.
    assert "default (worker; writes in src; check: pytest -q)" in parts[0].text
    assert "planner: Write a plan." in parts[0].text
    assert all(group_of(each.source) == each for each in found.groups.usable)


def test_any_change_of_a_group_asks_again(tmp_path: Path):
    place(tmp_path, GROUPS)
    before = digest_of_parts(find_definitions(str(tmp_path), tmp_path / "own").parts())
    place(tmp_path, GROUPS.replace("pytest -q", "pytest -x"))
    assert digest_of_parts(find_definitions(str(tmp_path), tmp_path / "own").parts()) != before


WATCH = '[w]\nkind = "watch"\nwakes = "a"\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('ship = "a"', ":1:8: ship: a group is a table [NAME], not text"),
        ("[ship]", ":1:1: ship: a group needs kind: one of pipeline, panel, watch"),
        ('[ship]\nkind = "ring"', ":2:8: ship.kind: it must be one of pipeline, panel, watch"),
        ('["two words"]\nkind = "panel"', "a group is named by letters, digits, - and _, and not watch"),
        ('[watch]\nkind = "panel"', "and not watch"),
        ('[p]\nkind = "pipeline"', ":1:1: p: a pipeline needs steps: a list of 2 to 8 personas"),
        ('[p]\nkind = "pipeline"\nsteps = ["a"]', ":3:9: p.steps: it must be a list of 2 to 8 personas"),
        (
            '[p]\nkind = "pipeline"\nsteps = ["a", "b"]\nloud = 1',
            "a pipeline has no such key; it has kind, description",
        ),
        ('[p]\nkind = "pipeline"\nsteps = ["a", "a"]', "p.steps: a is there twice; set name for one of them"),
        ('[p]\nkind = "pipeline"\nsteps = ["a", { name = "b" }]', "a persona is written as its name, or as a table"),
        ('[p]\nkind = "pipeline"\nsteps = ["a", { persona = "b", mood = 1 }]', "a persona has no key 'mood'"),
        ('[p]\nkind = "pipeline"\nsteps = ["a", { persona = "b", kind = "boss" }]', "kind must be one of explorer"),
        ('[p]\nkind = "pipeline"\nsteps = ["a", { persona = "b", checks = ["x"] }]', "b changes nothing; paths and"),
        (
            '[p]\nkind = "pipeline"\nsteps = ["a", { persona = "b", kind = "worker", paths = ["../x"] }]',
            "paths are below the project's folder, unlike '../x'",
        ),
        ('[p]\nkind = "panel"\nmembers = ["a", "b"]', "p: a panel needs decides: a persona"),
        (
            '[p]\nkind = "panel"\nmembers = ["a", "b"]\ndecides = { persona = "c", kind = "worker" }',
            "p.decides: the one that decides reads the answers and is an explorer",
        ),
        (f"{WATCH}tasks = true", "w: a watch needs max: an amount"),
        (f'{WATCH}tasks = true\nmax = "off"', ":5:7: w.max: a watch needs a limit, such as 0.50 USD"),
        (f'{WATCH}tasks = true\nmax = "0 tokens"', ":5:7: w.max: a watch that may spend nothing never works"),
        (f'{WATCH}tasks = true\nmax = "0.50 USD, 0 tokens"', "w.max: a watch that may spend nothing never works"),
        (f'{WATCH}tasks = true\nmax = "much"', "w.max: it must be an amount such as"),
        (f"{WATCH}max = 1", "w: a watch needs something to watch: files, blocks or tasks = true"),
        (f'{WATCH}max = 1\nfiles = ["{"{a,b}" * 8}"]', "w.files: The braces stand for more than"),
        (f"{WATCH}max = 1\ntasks = true\nper_hour = 0", "w.per_hour: it must be a whole number from 1 to 60"),
        (f'{WATCH}max = 1\nfiles = ["!a", "!b"]', ":5:9: w.files: each of these patterns leaves files out"),
        ('[p]\nkind = ["panel"]', ":2:8: p.kind: it must be one of pipeline"),
        ("[p]\nkind = { panel = 1 }", ":2:8: p.kind: it must be one of pipeline"),
        ('[p]\nkind = "panel"\nmembers = ["a", "A"]\ndecides = "c"', "p.members: a is there twice; set name"),
        ('[p]\nkind = "panel"\nmembers = ["a\\n", "b"]\ndecides = "c"', "p.members: persona must be the name of"),
        ('[""]\nkind = "panel"', '"": a group is named by letters'),
        ("[ship\nkind", ":1: it is not valid TOML"),
    ],
)
def test_each_mistake_is_one_sentence_with_its_place(text: str, sentence: str):
    groups = groups_in("groups.toml", text)
    assert groups.usable == ()
    (problem,) = groups.problems
    assert problem.startswith("groups.toml:")
    assert sentence in problem


def test_a_mistake_leaves_the_other_groups_as_they_are_and_its_line_is_found_among_tables():
    table = '[[{}.steps]]\npersona = "{}"\n'
    good = '[good]\nkind = "pipeline"\n' + table.format("good", "a") + table.format("good", "b")
    bad = '[bad]\nkind = "pipeline"\n' + table.format("bad", "a") + '[[bad.steps]]\nname = "b"\n'
    groups = groups_in("groups.toml", f"{good}\n{bad}")
    assert [each.name for each in groups.usable] == ["good"]
    assert groups.problems[0].startswith("groups.toml:10:1: bad.steps: a persona is written")


def test_a_link_that_leads_out_of_the_project_and_what_is_no_text_are_not_read(tmp_path: Path):
    project = tmp_path / "project"
    place(tmp_path / "other", GROUPS)
    (project / ".pattern").mkdir(parents=True)
    (project / ".pattern" / "groups.toml").symlink_to(tmp_path / "other" / ".pattern" / "groups.toml")
    linked = find_definitions(str(project), tmp_path / "own")
    assert "is a link that leads out of" in linked.problems[0]
    assert list(linked.parts()) == []
    (tmp_path / "other" / ".pattern" / "groups.toml").write_bytes(b"\xff\xfe[ship]")
    assert "cannot be read as text" in find_definitions(str(tmp_path / "other"), tmp_path / "own").problems[0]


def test_a_circle_of_links_and_what_is_no_file_are_named_and_not_read(tmp_path: Path):
    file = tmp_path / ".pattern" / "groups.toml"
    file.parent.mkdir()
    file.symlink_to(file)
    assert "groups.toml" in find_groups(tmp_path).problems[0]
    file.unlink()
    file.mkdir()
    assert "cannot be read as text" in find_groups(tmp_path).problems[0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes among files")
@pytest.mark.timeout(20)
def test_a_named_pipe_is_not_waited_for(tmp_path: Path):
    file = tmp_path / ".pattern" / "groups.toml"
    file.parent.mkdir()
    os.mkfifo(file)
    assert "cannot be read as text" in find_groups(tmp_path).problems[0]


@pytest.mark.timeout(20)
def test_of_thousands_of_mistakes_the_first_are_named_and_the_others_counted():
    groups = groups_in("groups.toml", "".join(f'[g{number}]\nkind = "x"\n' for number in range(10_000)))
    assert groups.problems[19].startswith("groups.toml:40:8: g19.kind")
    assert groups.problems[20:] == ("groups.toml: 9,980 more groups left out.",)
