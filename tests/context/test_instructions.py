"""The system prompt."""

from pathlib import Path

import pytest

from pattern_acp.context.instructions import (
    BUILT_IN,
    FILE_LIMIT,
    TOTAL_LIMIT,
    Environment,
    ProjectInstruction,
    load_persona,
    nested_instructions,
    own_instructions,
    project_instructions,
    system_prompt,
    within_total,
)

NOWHERE = Path("no-such-folder")
PLACE = Environment("/project", (), "Linux 6.1", "", ())


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_the_default_persona_has_a_name_and_an_identity():
    persona = load_persona("default", NOWHERE)
    assert persona.prompt.startswith("You are Pattern, ")
    assert "{persona}" not in persona.prompt
    assert persona.identity == load_persona("default", NOWHERE).identity
    assert load_persona("ada", NOWHERE).identity != persona.identity


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "default"])
def test_a_built_in_persona_is_the_default_with_a_role(name: str, tmp_path: Path):
    persona, default = load_persona(name, NOWHERE), load_persona("default", NOWHERE)
    assert persona.prompt.startswith(f"{default.prompt}\n\nYour role: {name}\n")
    assert len(persona.prompt) < len(default.prompt) + 1_000
    write(tmp_path / f"{name}.md", "You are another.")
    assert load_persona(name, tmp_path).prompt == "You are another."


def test_a_persona_that_the_person_wrote_wins(tmp_path: Path):
    write(tmp_path / "ada.md", "You are Ada.")
    assert load_persona("ada", tmp_path).prompt == "You are Ada."


def test_the_nearest_instructions_come_first_up_to_the_root_of_the_repository(tmp_path: Path):
    for folder in ("", "repo", "repo/a/b"):
        write(tmp_path / folder / "AGENTS.md", f"Rules of {folder or 'home'}.")
    found = project_instructions(str(tmp_path / "repo" / "a" / "b"), str(tmp_path / "repo"))
    assert [item.text for item in found] == ["Rules of repo/a/b.", "Rules of repo."]


def test_outside_a_repository_only_the_folder_itself_counts(tmp_path: Path):
    write(tmp_path / "AGENTS.md", "Rules of home.")
    write(tmp_path / "work" / "AGENTS.md", "Rules of work.")
    found = project_instructions(str(tmp_path / "work"), None)
    assert [item.text for item in found] == ["Rules of work."]


def test_a_long_file_is_cut_and_the_model_is_told(tmp_path: Path):
    write(tmp_path / "AGENTS.md", "x" * (FILE_LIMIT + 5))
    (found,) = project_instructions(str(tmp_path), None)
    assert (len(found.text), found.cut) == (FILE_LIMIT, 5)
    assert "[5 bytes of this file were left out.]" in system_prompt(load_persona("default", NOWHERE), PLACE, (found,))


def test_a_file_without_text_and_a_folder_of_that_name_are_no_instructions(tmp_path: Path):
    write(tmp_path / "AGENTS.md", " \n")
    assert project_instructions(str(tmp_path), None) == ()
    (tmp_path / "other" / "AGENTS.md").mkdir(parents=True)
    assert project_instructions(str(tmp_path / "other"), None) == ()


def test_bytes_that_are_no_text_do_not_stop_a_session(tmp_path: Path):
    (tmp_path / "AGENTS.md").write_bytes(b"Rules \xff.")
    (found,) = project_instructions(str(tmp_path), None)
    assert found.text == "Rules \ufffd."


def test_the_environment_is_told_as_far_as_it_is_known():
    full = Environment(
        "/project", ("/other",), "Linux 6.1", "Zed", ("Files go through it.",), "bash",
        ("git", "rg"), ("src/", "Makefile"),
    )  # fmt: skip
    prompt = system_prompt(
        load_persona("default", NOWHERE), full, (ProjectInstruction("/project/AGENTS.md", "Be brief."),)
    )
    for line in (
        "- Working directory: /project",
        "- Further folders: /other",
        "- In it: src/, Makefile",
        "- System: Linux 6.1, shell: bash",
        "- Programs found: git, rg",
        "- Editor: Zed",
        "- Files go through it.",
        "Be brief.",
    ):
        assert line in prompt
    bare = system_prompt(load_persona("default", NOWHERE), PLACE, ())
    assert bare.endswith("- System: Linux 6.1")
    assert not [word for word in ("In it", "Programs") if word in bare.partition("Environment\n")[2]]
    assert "Editor" not in bare.partition("Environment\n")[2]


def test_other_names_count_where_a_folder_has_no_agents_file(tmp_path: Path):
    write(tmp_path / "repo" / ".github" / "copilot-instructions.md", "Copilot.")
    write(tmp_path / "repo" / "a" / "GEMINI.md", "Gemini.")
    write(tmp_path / "repo" / "a" / "CLAUDE.md", "Claude.")
    write(tmp_path / "repo" / "a" / "b" / ".cursorrules", "Cursor.")
    write(tmp_path / "repo" / "a" / "b" / "AGENTS.md", "Agents.")
    found = project_instructions(str(tmp_path / "repo" / "a" / "b"), str(tmp_path / "repo"))
    assert [item.text for item in found] == ["Agents.", "Claude.", "Copilot."]


def test_a_link_out_of_the_project_is_refused_and_one_inside_is_followed(tmp_path: Path):
    write(tmp_path / "secret.md", "Secret.")
    write(tmp_path / "repo" / "docs" / "rules.md", "Rules.")
    (tmp_path / "repo" / "a").mkdir()
    (tmp_path / "repo" / "AGENTS.md").symlink_to(tmp_path / "secret.md")
    (tmp_path / "repo" / "a" / "AGENTS.md").symlink_to(tmp_path / "repo" / "docs" / "rules.md")
    inner, outer = project_instructions(str(tmp_path / "repo" / "a"), str(tmp_path / "repo"))
    assert (inner.text, outer.text) == ("Rules.", "")
    prompt = system_prompt(load_persona("default", NOWHERE), PLACE, (inner, outer))
    assert "leads out of the project" in prompt
    assert "Secret." not in prompt


def test_the_persons_own_file_holds_everywhere_and_behind_links(tmp_path: Path):
    write(tmp_path / "dotfiles" / "AGENTS.md", "Be brief.")
    (tmp_path / "AGENTS.md").symlink_to(tmp_path / "dotfiles" / "AGENTS.md")
    (own,) = own_instructions(tmp_path / "AGENTS.md")
    assert own.of_person
    prompt = system_prompt(load_persona("default", NOWHERE), PLACE, (own,))
    assert "Instructions of the user from" in prompt
    assert own_instructions(None) == own_instructions(tmp_path / "none.md") == ()


def test_imports_are_not_followed_and_the_model_is_told(tmp_path: Path):
    write(tmp_path / "AGENTS.md", "Rules.\n@~/.ssh/id_rsa\nMail me @home.")
    found = project_instructions(str(tmp_path), None)
    assert "are not followed" in system_prompt(load_persona("default", NOWHERE), PLACE, found)
    write(tmp_path / "AGENTS.md", "Use @decorators.")
    assert project_instructions(str(tmp_path), None)[0].notes == ()


def test_files_that_do_not_fit_together_are_named(tmp_path: Path):
    half = "x" * (TOTAL_LIMIT // 2)
    first, second, third = within_total([ProjectInstruction(str(tmp_path / name), half) for name in "abc"])
    assert (first.text, second.text, third.text) == (half, half, "")
    assert "did not fit" in third.problem


def test_nested_files_are_those_between_the_file_and_the_sessions_folder(tmp_path: Path):
    cwd, other = tmp_path / "work", tmp_path / "other"
    for folder in (cwd, cwd / "a", cwd / "a" / "b", other, tmp_path):
        write(folder / "AGENTS.md", folder.name)
    roots = (str(cwd), str(other))

    def names(path: Path) -> list[str]:
        return [item.text for item in nested_instructions(str(path), str(cwd), roots)]

    assert names(cwd / "a" / "b" / "x.py") == ["a", "b"]
    assert names(cwd / "x.py") == []
    assert names(other / "c" / "x.py") == ["other"]
    assert names(tmp_path / "elsewhere" / "x.py") == []
