"""The system prompt."""

from pathlib import Path

from pattern_acp.context.instructions import (
    AGENTS_LIMIT,
    Environment,
    ProjectInstruction,
    load_persona,
    project_instructions,
    system_prompt,
)

NOWHERE = Path("no-such-folder")
PLACE = Environment("/project", (), "Linux 6.1", "2026-11-28", "", "", ())


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_the_default_persona_has_a_name_and_an_identity():
    persona = load_persona("default", NOWHERE)
    assert persona.prompt.startswith("You are Pattern, ")
    assert "{persona}" not in persona.prompt
    assert persona.identity == load_persona("default", NOWHERE).identity
    assert load_persona("ada", NOWHERE).identity != persona.identity


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
    write(tmp_path / "AGENTS.md", "x" * (AGENTS_LIMIT + 5))
    (found,) = project_instructions(str(tmp_path), None)
    assert (len(found.text), found.cut) == (AGENTS_LIMIT, 5)
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
    full = Environment("/project", ("/other",), "Linux 6.1", "2026-11-28", "main", "Zed", ("Files go through it.",))
    prompt = system_prompt(
        load_persona("default", NOWHERE), full, (ProjectInstruction("/project/AGENTS.md", "Be brief."),)
    )
    for line in (
        "- Working directory: /project",
        "- Further folders: /other",
        "- System: Linux 6.1",
        "- Session started on: 2026-11-28",
        "- Git branch at the start: main",
        "- Editor: Zed",
        "- Files go through it.",
        "Be brief.",
    ):
        assert line in prompt
    bare = system_prompt(load_persona("default", NOWHERE), PLACE, ())
    assert "Git branch" not in bare
    assert "Editor" not in bare.partition("Environment\n")[2]
