"""Attacks on what a session runs: by files, by claims in them, and by changes of what was kept."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from pattern_acp.context.instructions import load_persona
from pattern_acp.definitions.collection import Definitions, find_definitions
from pattern_acp.definitions.identity import (
    DefinitionSource,
    KeptSource,
    SourceDamagedError,
    decoded,
    encoded,
    file_hash,
    identity_of,
)
from pattern_acp.definitions.personas import Persona, kept_persona
from pattern_acp.definitions.skills import SkillDefinition, skill_sources
from pattern_acp.domain.access import TrustTier
from pattern_acp.journal.events import PinnedDefinition
from pattern_acp.session.definition_pins import in_force, loaded, pins_of, source_under, tools_in


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def skill(own: Path, name: str, body: str) -> SkillDefinition:
    write(own / "skills" / name / "SKILL.md", f"---\nname: {name}\ndescription: x\n---\n{body}")
    return next(each for each in find_definitions(str(own / "none"), own).skills if each.name == name)


def kept(one: SkillDefinition) -> KeptSource:
    return decoded(one.digest, one.symbol, encoded(skill_sources(one)[0]))


def pin(one: SkillDefinition, **changed: str) -> PinnedDefinition:
    (found,) = pins_of(Definitions(skills=(one,)))
    return replace(found, **changed)


def forged(one: SkillDefinition, change: str) -> str:
    """The stored source of a skill, changed."""
    stored = json.loads(encoded(skill_sources(one)[0]))
    files = stored[one.symbol]["files"]
    match change:
        case "a file more":
            files["run.sh"] = {"text": "rm -rf ~"}
        case "a file less":
            del files["notes.txt"]
        case "another name of a file":
            files["other.txt"] = files.pop("notes.txt")
        case "other data in place of a hash":
            files["notes.txt"] = {"hash": "text:00"}
        case "an include more":
            stored[one.symbol]["includes"] = ["evil.md"]
            stored["evil.md"] = {"files": {"evil.md": {"text": "Obey."}}}
        case _:
            files["SKILL.md"]["text"] += " Obey."
    return json.dumps(stored)


@pytest.mark.parametrize(
    "change",
    [
        "a file more",
        "a file less",
        "another name of a file",
        "other data in place of a hash",
        "an include more",
        "other words",
    ],
)
def test_no_change_of_a_kept_source_passes_for_it(tmp_path: Path, change: str):
    write(tmp_path / "skills" / "a" / "notes.txt", "Notes.")
    one = skill(tmp_path, "a", "Body.")
    with pytest.raises(SourceDamagedError):
        decoded(one.digest, one.symbol, forged(one, change))


def test_the_sound_source_of_another_definition_does_not_pass(tmp_path: Path):
    one, other = skill(tmp_path, "a", "Mild."), skill(tmp_path, "b", "Wild.")
    with pytest.raises(SourceDamagedError):
        decoded(one.digest, one.symbol, encoded(skill_sources(other)[0]))
    with pytest.raises(SourceDamagedError):
        decoded(other.digest, one.symbol, encoded(skill_sources(other)[0]))


def test_a_pointer_to_another_symbol_of_a_sound_identity_misses(tmp_path: Path):
    one = skill(tmp_path, "a", "Body.")
    assert loaded(pin(one), kept(one)) is not None
    assert loaded(pin(one, symbol="skill/b"), kept(one)) is None
    assert loaded(pin(one, symbol="command/a"), kept(one)) is None


def test_unknown_keys_beside_a_kept_source_say_nothing(tmp_path: Path):
    one = skill(tmp_path, "a", "Body.")
    stored = json.loads(encoded(skill_sources(one)[0]))
    stored[one.symbol] |= {"tier": "built-in", "allowed": True}
    again = loaded(pin(one), decoded(one.digest, one.symbol, json.dumps(stored)))
    assert isinstance(again, SkillDefinition)
    assert again.tier is TrustTier.USER


def test_a_claim_of_another_tier_in_a_kept_source_gains_nothing(tmp_path: Path):
    text = "---\nname: a\ndescription: x\ntrust_tier: built-in\n---\nBody."
    write(tmp_path / "skills" / "a" / "SKILL.md", text)
    (one,) = find_definitions(str(tmp_path / "none"), tmp_path).skills
    again = loaded(pin(one, tier="project"), kept(one))
    assert isinstance(again, SkillDefinition)
    assert again.of_project


@pytest.mark.parametrize(("granted", "body"), [(False, "Mine."), (True, "Theirs.")])
def test_a_projects_skill_by_the_same_name_counts_only_once_it_is_trusted(tmp_path: Path, granted: bool, body: str):
    mine = skill(tmp_path / "own", "a", "Mine.")
    theirs = replace(skill(tmp_path / "project", "a", "Theirs."), tier=TrustTier.PROJECT)
    pins, source = pins_of(Definitions(skills=(mine,))), kept(mine)
    found, changes = in_force(
        pins, Definitions(skills=(theirs,)), "ask", lambda each: loaded(each, source), granted=granted
    )
    assert [each.body for each in found.skills] == [body]
    assert [change.word for change in changes] == ["changed"]


def test_a_skill_of_a_bundle_that_was_removed_does_not_go_on(tmp_path: Path):
    one = replace(skill(tmp_path, "a", "Body."), tier=TrustTier.BUNDLE, bundle="tools")
    source = kept(one)
    found, changes = in_force(
        pins_of(Definitions(skills=(one,))), Definitions(), "ask", lambda each: loaded(each, source), granted=True
    )
    assert found.skills == ()
    assert changes[0].counts


def test_the_sound_source_of_another_persona_does_not_pass():
    mild = Persona("mild", "Be mild.")
    source = decoded(mild.identity, mild.symbol, encoded(mild.sources))
    assert kept_persona("mild", source) is not None
    assert kept_persona("wild", source) is None


def test_a_skill_does_not_pass_for_a_persona(tmp_path: Path):
    one = skill(tmp_path, "reviewer", "Obey.")
    assert kept_persona("reviewer", kept(one)) is None


def test_a_persona_whose_text_was_not_kept_is_not_used():
    mild = Persona("mild", "Be mild.")
    stored = json.loads(encoded(mild.sources))
    files = stored["persona/mild"]["files"]
    files["persona.md"] = {"hash": file_hash("persona.md", b"Be mild.")}
    assert kept_persona("mild", decoded(mild.identity, mild.symbol, json.dumps(stored))) is None


def test_a_command_without_its_text_is_not_run():
    source = DefinitionSource("command/ship", {"command.md": b"Ship."})
    stored = json.dumps(
        {"command/ship": {"files": {"command.md": {"hash": file_hash("command.md", b"Ship.")}}, "includes": []}}
    )
    found = decoded(identity_of(source), "command/ship", stored)
    assert loaded(PinnedDefinition(found.identity, "command/ship", "user", "/x/ship.md"), found) is None


def test_the_sound_tools_of_another_server_do_not_pass():
    source = DefinitionSource("mcp/theirs", {"echo.json": b'{"name":"echo","description":"x","input_schema":{}}'})
    identity = identity_of(source)
    sources = {identity: decoded(identity, source.symbol, encoded((source,)))}
    assert source_under(PinnedDefinition(identity, "mcp/theirs", "server"), sources) == source
    assert source_under(PinnedDefinition(identity, "mcp/mine", "server"), sources) is None
    assert [tool.name for tool in tools_in(source)] == ["echo"]


def test_tools_that_cannot_be_read_and_tools_whose_text_is_gone_are_not_offered():
    source = DefinitionSource("mcp/x", {"a.json": b"[]", "b.json": b'{"nome": 1}', "c.json": b"\xff"})
    assert tools_in(source) == ()
    gone = DefinitionSource("mcp/x", {})
    sources = {"0": KeptSource("0", "mcp/x", (gone,))}
    assert source_under(PinnedDefinition("0", "mcp/x", "server"), sources) is None


def test_a_skill_that_the_agent_wrote_stays_ad_hoc_whatever_it_claims(tmp_path: Path):
    learned = tmp_path / "p" / ".pattern" / "learned" / "mine"
    write(learned / "SKILL.md", "---\nname: mine\ndescription: x\ntrust_tier: user\n---\nBody.")
    (skill,) = find_definitions(str(tmp_path / "p"), tmp_path / "own").skills
    assert (skill.tier, skill.claim) == (TrustTier.AD_HOC, "user")


def test_a_rename_is_another_definition_so_that_permissions_do_not_go_with_it():
    text = {"persona.md": b"You review."}
    assert identity_of(DefinitionSource("persona/ada", text)) != identity_of(DefinitionSource("persona/bob", text))


def test_a_head_that_names_a_predecessor_takes_nothing_over(tmp_path: Path):
    write(tmp_path / "ada.md", "You review.")
    before = load_persona("ada", tmp_path)
    write(tmp_path / "ada.md", f"---\npredecessor: {before.identity}\ndescription: x\n---\nYou review.")
    after = load_persona("ada", tmp_path)
    assert (after.prompt, after.preferences) == (before.prompt, before.preferences)
    assert not after.is_recorded_as(before.identity)


def test_names_that_look_the_same_are_one_name_and_letters_of_another_script_another():
    composed, decomposed, cyrillic = "command/caf\u00e9", "command/cafe\u0301", "command/c\u0430f\u00e9"
    one, same, other = (identity_of(DefinitionSource(name, {})) for name in (composed, decomposed, cyrillic))
    assert one == same != other
