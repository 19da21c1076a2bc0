"""Finding commands and skills, and what a command's text becomes."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.commands.slash import COMMANDS
from pattern_acp.definitions import files
from pattern_acp.definitions.collection import built_in_definitions, find_definitions
from pattern_acp.definitions.commands import expanded, inline_commands
from pattern_acp.definitions.skills import read_skill_file
from pattern_acp.domain.access import TrustTier
from pattern_acp.domain.project_parts import digest_of_parts


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_commands_of_the_person_count_before_those_of_the_project(tmp_path: Path):
    own, project = tmp_path / "own", tmp_path / "project"
    write(own / "commands" / "review.md", "Mine.")
    write(own / "commands" / "git" / "tidy.md", "---\ndescription: Tidy up\nargument-hint: '[REF]'\n---\nTidy $1.")
    write(project / ".pattern" / "commands" / "review.md", "Theirs.")
    write(project / ".pattern" / "commands" / "ship.md", "---\nallowed-tools: [Bash]\n---\nShip $ARGUMENTS.")
    write(project / ".claude" / "commands" / "ship.md", "Never seen.")
    write(project / ".claude" / "commands" / "plan.md", "---\nallowed-tools: Bash(git:*)\n---\nPlan.")
    write(project / ".claude" / "commands" / "notes.txt", "No command.")
    found = {command.name: command for command in find_definitions(str(project), own).commands}
    assert set(found) == {"review", "git:tidy", "ship", "plan"}
    assert (found["review"].body, found["review"].description) == ("Mine.", "Mine.")
    assert (found["git:tidy"].description, found["git:tidy"].hint) == ("Tidy up", "[REF]")
    assert (found["ship"].tools, found["ship"].hint) == (("Bash",), "ARGUMENTS")
    assert found["plan"].tools == ()
    parts = list(find_definitions(str(project), own).parts())
    assert [part.name for part in parts] == ["/ship", "/plan"]


def test_a_skill_is_its_folder_and_any_changed_file_of_it_counts(tmp_path: Path):
    place = tmp_path / ".claude" / "skills" / "pdf"
    write(place / "SKILL.md", "---\nname: pdf\ndescription: Reads PDFs\n---\nRun scripts/read.py.")
    write(place / "scripts" / "read.py", "print(1)")
    (skill,) = find_definitions(str(tmp_path), tmp_path / "own").skills
    assert (skill.name, skill.description, skill.files) == ("pdf", "Reads PDFs", ("scripts/read.py",))
    assert read_skill_file(skill, "scripts/read.py") == "print(1)"
    assert read_skill_file(skill, "../../../secret") is None
    before = digest_of_parts(find_definitions(str(tmp_path), tmp_path / "own").parts())
    write(place / "scripts" / "read.py", "print(2)")
    assert digest_of_parts(find_definitions(str(tmp_path), tmp_path / "own").parts()) != before


def test_what_cannot_be_used_is_named_and_stops_nothing(tmp_path: Path):
    outside = tmp_path / "outside.md"
    write(outside, "Secret.")
    project = tmp_path / "project"
    commands, skills = project / ".pattern" / "commands", project / ".pattern" / "skills"
    write(commands / "a b.md", "x")
    write(commands / "head.md", "---\nx\n---\nBody.")
    (commands / "link.md").symlink_to(outside)
    (commands / "bytes.md").write_bytes(b"\xff\xfe")
    write(commands / "large.md", "x" * (files.FILE_BYTES + 1))
    write(skills / "bare" / "SKILL.md", "No head.")
    write(skills / "none" / "README.md", "No skill.")
    found = find_definitions(str(project), tmp_path / "own")
    assert [command.name for command in found.commands] == ["head"]
    assert found.skills == ()
    told = "\n".join(found.problems)
    for words in (
        "a b.md cannot be",
        "head.md:2:1: this line of the head",
        "leads out of",
        "as text",
        "larger than",
        "bare/SKILL.md:1:1: it begins with no head",
    ):
        assert words in told
    assert len(found.problems) == 6


@pytest.mark.parametrize(
    ("head", "place", "words"),
    [
        ("name: ''\ndescription: x", "2:7", "the name is empty"),
        ("name: a b\ndescription: x", "2:7", "letters, digits"),
        ("name: a", "1:1", "needs a description"),
        ("name: a\ndescription:", "3:13", "needs a description"),
        ("name: a\ndescription: x\ntrust_tier: root", "4:13", "no tier 'root'; tiers are built-in, user, bundle"),
        ("name: a\ndescription: 'x", "3:14", "no closing '"),
    ],
)
def test_a_skill_that_cannot_be_used_is_named_with_file_line_and_column(
    tmp_path: Path, head: str, place: str, words: str
):
    write(tmp_path / ".pattern" / "skills" / "one" / "SKILL.md", f"---\n{head}\n---\nBody.")
    found = find_definitions(str(tmp_path), tmp_path / "own")
    assert found.skills == ()
    (told,) = found.problems
    assert f"SKILL.md:{place}: " in told
    assert words in told


@pytest.mark.parametrize("claim", ["built-in", "first-party", "user"])
def test_the_tier_of_a_skill_is_that_of_its_place_whatever_its_head_claims(tmp_path: Path, claim: str):
    text = f"---\nname: a\ndescription: x\ntrust_tier: {claim}\n---\nBody."
    write(tmp_path / ".pattern" / "skills" / "a" / "SKILL.md", text)
    write(tmp_path / "own" / "skills" / "b" / "SKILL.md", text.replace("name: a", "name: b"))
    found = {skill.name: skill for skill in find_definitions(str(tmp_path), tmp_path / "own").skills}
    assert (found["a"].tier, found["b"].tier) == (TrustTier.PROJECT, TrustTier.USER)
    assert found["a"].claim == claim


def test_the_head_of_a_skill_is_read_as_the_field_writes_it(tmp_path: Path):
    head = (
        "name: release\ndescription: Makes releases\nlicense: MIT\nallowed-tools: Bash(git:*), Read\n"
        "arguments: [version, branch]\ntags: ship\nmetadata:\n  keywords: [changelog, tag]\nuser-invocable: false\n"
        "disable-model-invocation: true\n"
    )
    write(tmp_path / "own" / "skills" / "release" / "SKILL.md", f"---\n{head}---\nTag $version on ${{branch}}.")
    (skill,) = find_definitions(str(tmp_path), tmp_path / "own").skills
    assert (skill.keywords, skill.tools) == (("ship", "changelog", "tag"), ("Bash(git:*)", "Read"))
    assert (skill.arguments, skill.for_model, skill.for_user) == (("version", "branch"), False, False)
    assert skill.more == {"license": "MIT"}
    assert skill.text("1.2 main") == "Tag 1.2 on main."
    assert skill.text("") == "Tag  on ."


def test_a_skill_has_the_same_identity_in_another_folder(tmp_path: Path):
    for place in ("one", "two"):
        write(tmp_path / place / "skills" / "a" / "SKILL.md", "---\nname: a\ndescription: x\n---\n")
    one, two = (find_definitions(str(tmp_path / "p"), tmp_path / place).skills[0] for place in ("one", "two"))
    assert one.digest == two.digest


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_pipes_are_passed_over_and_links_inside_are_followed(tmp_path: Path):
    project = tmp_path / "project"
    write(project / "docs" / "one" / "SKILL.md", "---\nname: one\ndescription: x\n---\n")
    skills = project / ".pattern" / "skills"
    skills.mkdir(parents=True)
    (skills / "one").symlink_to(project / "docs" / "one")
    (skills / "loop").symlink_to(skills)
    (skills / "two").mkdir()
    os.mkfifo(skills / "two" / "SKILL.md")
    found = find_definitions(str(project), tmp_path / "own")
    assert [skill.name for skill in found.skills] == ["one"]


def test_a_folder_of_skills_that_is_a_link_out_of_the_project_gives_none(tmp_path: Path):
    write(tmp_path / "outside" / "one" / "SKILL.md", "---\nname: one\ndescription: x\n---\n")
    (tmp_path / "project" / ".pattern").mkdir(parents=True)
    (tmp_path / "project" / ".pattern" / "skills").symlink_to(tmp_path / "outside")
    found = find_definitions(str(tmp_path / "project"), tmp_path / "own")
    assert found.skills == ()
    assert "leads out of" in found.problems[0]


def test_two_hundred_skills_are_not_read_again_while_their_files_stay(tmp_path: Path):
    for number in range(200):
        write(tmp_path / "own" / "skills" / f"s{number}" / "SKILL.md", f"---\nname: s{number}\ndescription: x\n---\n")
    first = find_definitions(str(tmp_path / "p"), tmp_path / "own").skills
    again = find_definitions(str(tmp_path / "p"), tmp_path / "own").skills
    assert len(first) == 200
    assert all(one.body is other.body for one, other in zip(first, again, strict=True))


def test_what_comes_and_goes_in_a_folder_that_was_looked_at_is_seen(tmp_path: Path):
    skill = tmp_path / "own" / "skills" / "pdf"
    write(skill / "SKILL.md", "---\nname: pdf\ndescription: x\n---\n")

    # As if nothing had happened in it for long, so that its listing is remembered.
    os.utime(skill, ns=(0, 10**18))
    (found,) = find_definitions(str(tmp_path / "p"), tmp_path / "own").skills
    assert found.files == ()
    write(skill / "a.txt", "a")
    (found,) = find_definitions(str(tmp_path / "p"), tmp_path / "own").skills
    assert found.files == ("a.txt",)
    (skill / "a.txt").unlink()
    (found,) = find_definitions(str(tmp_path / "p"), tmp_path / "own").skills
    assert found.files == ()


def test_only_so_many_files_are_looked_at(tmp_path: Path):
    for number in range(files.MOST_FILES + 3):
        write(tmp_path / ".pattern" / "commands" / f"c{number}.md", "x")
    found = find_definitions(str(tmp_path), tmp_path / "own")
    assert len(found.commands) == files.MOST_FILES
    assert "the rest is not looked at" in found.problems[0]


def test_arguments_are_filled_in():
    assert expanded("Fix $1 in $2 ($ARGUMENTS). $10 $3", "'a b' c", {}) == "Fix a b in c ('a b' c). $10 "
    assert expanded("Fix it.", "now", {}) == "Fix it.\n\nArguments: now"
    assert expanded("Fix it.", "", {}) == "Fix it."
    assert expanded("Say $1", "it's", {}) == "Say it's"


def test_lines_run_with_arguments_and_give_way_to_what_they_printed():
    body = "Log: !`git log $1`\nAgain: !`git log $1` $ARGUMENTS"
    assert inline_commands(body, "x") == {"git log $1": "git log x"}
    assert expanded(body, "x", {"git log $1": "out $1 !`ls`"}) == "Log: out $1 !`ls`\nAgain: out $1 !`ls` x"


@given(st.text())
def test_what_was_typed_never_becomes_a_line_or_a_place(typed: str):
    assert inline_commands("Do: $ARGUMENTS", typed) == {}
    assert expanded("Do: $ARGUMENTS", typed, {}) == f"Do: {typed}"


def test_the_skills_of_the_program_can_be_loaded_by_the_user_and_cost_no_request_a_byte():
    skills = built_in_definitions().skills
    assert sorted(skill.name for skill in skills) == ["agents-md", "failing-test", "review-change"]
    for skill in skills:
        assert (skill.tier, skill.for_user, skill.for_model) == (TrustTier.BUILT_IN, True, False)
        assert skill.name not in COMMANDS
        assert not skill.more
        assert "what was typed" in skill.text("what was typed")


def test_the_user_alone_replaces_a_skill_of_the_program(tmp_path: Path):
    head = "---\nname: failing-test\ndescription: Mine\ntrust_tier: built-in\n---\n"
    project = tmp_path / "project"
    write(project / ".pattern" / "skills" / "failing-test" / "SKILL.md", head)

    def chosen() -> TrustTier:
        found = find_definitions(str(project), tmp_path / "own").with_others((built_in_definitions(),))
        return next(skill.tier for skill in found.skills if skill.name == "failing-test")

    assert chosen() is TrustTier.BUILT_IN
    write(tmp_path / "own" / "skills" / "failing-test" / "SKILL.md", head)
    assert chosen() is TrustTier.USER
