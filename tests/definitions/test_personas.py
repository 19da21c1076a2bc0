"""Personas from their files, and from the sources that are kept of them."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from pattern_acp.context.instructions import BUILT_IN, known_personas, load_persona
from pattern_acp.definitions.identity import decoded, encoded
from pattern_acp.definitions.personas import Persona, lower_mode, persona_of
from pattern_acp.domain.errors import ConfigError

HEAD = """---
description: Reads and says what is wrong.
include: text/tone.md, skills/base
tools: Read, memory_*
model: anthropic/claude-haiku
mode: plan
---
You read.
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def written(own: Path, text: str = HEAD) -> Persona:
    write(own / "personas" / "reader.md", text)
    write(own / "text" / "tone.md", "---\ndescription: x\n---\nBe brief.")
    write(own / "skills" / "base" / "SKILL.md", "---\nname: base\ndescription: x\n---\nNever guess.")
    return load_persona("reader", own / "personas")


def test_the_head_of_a_persona_is_read_and_is_no_part_of_its_prompt(tmp_path: Path):
    found = written(tmp_path)
    assert found.prompt == "You read.\n\nBe brief.\n\nNever guess."
    assert (found.description, found.tools) == ("Reads and says what is wrong.", ("Read", "memory_*"))
    assert (found.model, found.mode) == ("anthropic/claude-haiku", "plan")
    assert known_personas(tmp_path / "personas")["reader"] == found.description


def test_a_persona_is_the_same_from_its_kept_source(tmp_path: Path):
    found = written(tmp_path)
    kept = decoded(found.identity, found.symbol, encoded(found.sources))
    again = persona_of("reader", kept.definitions)
    assert again.identity == found.identity
    assert replace(again, closure=()) == replace(found, closure=())


def test_a_change_of_what_a_persona_includes_is_a_change_of_the_persona(tmp_path: Path):
    before = written(tmp_path).identity
    write(tmp_path / "text" / "beside.md", "Nobody includes this.")
    assert load_persona("reader", tmp_path / "personas").identity == before
    write(tmp_path / "text" / "tone.md", "Be long.")
    assert load_persona("reader", tmp_path / "personas").identity != before


def test_a_persona_without_a_head_is_its_text(tmp_path: Path):
    found = written(tmp_path, "You read.\n\n- Slowly.\n")
    assert found.prompt == "You read.\n\n- Slowly.\n"
    assert found.identity == Persona("reader", found.prompt).identity


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("---\nmode: god\n---\nYou read.", "reader.md:2:7: there is no mode 'god'"),
        ("---\nmodel: gpt\n---\nYou read.", "reader.md:2:8: a model is written as PROVIDER/MODEL"),
        ("---\nbroken\n---\nYou read.", "reader.md:2:1: this line of the head is not"),
        ("---\nmode: ask\n---\n", "there is no prompt below the head"),
        ("---\ninclude: none.md\n---\nYou read.", "includes something that cannot be used"),
        ("---\ninclude: ../secret.md\n---\nYou read.", "cannot be included"),
    ],
)
def test_a_mistake_in_a_persona_is_named_with_its_place(tmp_path: Path, text: str, words: str):
    with pytest.raises(ConfigError, match="reader") as refused:
        written(tmp_path, text)
    assert words in refused.value.sentence
    assert known_personas(tmp_path / "personas")["reader"] == refused.value.sentence


def test_a_persona_of_a_bundle_includes_nothing_outside_of_it(tmp_path: Path):
    bundle = tmp_path / "bundles" / "team"
    write(tmp_path / "secret.md", "Secret.")
    write(bundle / "personas" / "lead.md", "---\ninclude: link.md\n---\nYou lead.")
    (bundle / "link.md").symlink_to(tmp_path / "secret.md")
    with pytest.raises(ConfigError, match="leads out"):
        load_persona("lead", tmp_path / "personas", [bundle / "personas"])


def test_a_persona_of_a_bundle_replaces_none_that_comes_with_the_program(tmp_path: Path):
    bundle = tmp_path / "bundles" / "team" / "personas"
    write(bundle / "reviewer.md", "---\ndescription: Evil.\n---\nObey.")
    write(bundle / "lead.md", "---\ndescription: Leads.\n---\nYou lead.")
    assert load_persona("reviewer", tmp_path / "personas", [bundle]).prompt != "Obey."
    listed = known_personas(tmp_path / "personas", bundle)
    assert (listed["reviewer"], listed["lead"]) == (BUILT_IN["reviewer"], "Leads.")


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_each_built_in_persona_can_be_copied_and_changed(tmp_path: Path, name: str):
    built_in = load_persona(name, tmp_path / "personas")
    write(tmp_path / "personas" / f"{name}.md", built_in.prompt)
    copied = load_persona(name, tmp_path / "personas")
    assert (copied.prompt, copied.identity) == (built_in.prompt, built_in.identity)
    write(tmp_path / "personas" / f"{name}.md", f"---\nmode: plan\n---\n{built_in.prompt}\n- Speak plainly.")
    changed = load_persona(name, tmp_path / "personas")
    assert changed.prompt.endswith("- Speak plainly.")
    assert changed.identity != built_in.identity


def test_the_mode_that_may_do_less_counts():
    assert lower_mode("auto", "plan") == "plan"
    assert lower_mode("ask", "auto") == "ask"
    assert lower_mode("edit", "") == "edit"
