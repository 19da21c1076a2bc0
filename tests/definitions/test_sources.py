"""Kept sources of definitions."""

from pathlib import Path

import pytest

from pattern_acp.db.connection import Transaction
from pattern_acp.db.driver import ApswConnection
from pattern_acp.db.migrate import load_migrations, migrate
from pattern_acp.definitions.collection import find_definitions
from pattern_acp.definitions.identity import (
    DefinitionSource,
    SourceDamagedError,
    decoded,
    drop_damaged_sources,
    encoded,
    forget_in_sources,
    identity_of,
    keep_source,
    list_sources,
    missing_sources,
    read_sources,
    sources_with,
)
from pattern_acp.definitions.skills import kept_skill, read_skill_file, skill_sources
from pattern_acp.domain.access import Actor, Origin, TrustTier
from pattern_acp.journal.events import SessionClosed
from pattern_acp.journal.writer import append


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_skill_with_includes_is_the_same_from_its_kept_source(tmp_path: Path):
    own = tmp_path / "own"
    write(own / "skills" / "pdf" / "SKILL.md", "---\nname: pdf\ndescription: x\ninclude: text/tone.md\n---\nRead it.")
    write(own / "skills" / "pdf" / "scripts" / "read.py", "print(1)")
    (own / "skills" / "pdf" / "logo.bin").write_bytes(b"\xff\x00")
    write(own / "text" / "tone.md", "---\ninclude: text/more.md\n---\nBe brief.")
    write(own / "text" / "more.md", "---\ninclude: text/tone.md\n---\nAnd kind.")
    (skill,) = find_definitions(str(tmp_path / "p"), own).skills
    assert skill.body == "Read it.\n\nBe brief.\n\nAnd kind."
    closure, hashes = skill_sources(skill)
    assert hashes == {}
    kept = decoded(skill.digest, skill.symbol, encoded(closure))
    again = kept_skill(kept, skill.folder, TrustTier.USER)
    assert again is not None
    assert (again.body, again.files, again.digest) == (skill.body, skill.files, skill.digest)
    assert read_skill_file(again, "scripts/read.py") == "print(1)"
    assert read_skill_file(again, "logo.bin") is None
    write(own / "text" / "more.md", "And firm.")
    (changed,) = find_definitions(str(tmp_path / "p"), own).skills
    assert changed.digest != skill.digest


@pytest.mark.parametrize("name", ["../secret.md", "/etc/passwd", "text/./a.md", "link.md"])
def test_nothing_outside_of_its_root_is_included(tmp_path: Path, name: str):
    project = tmp_path / "project"
    write(tmp_path / "secret.md", "Secret.")
    write(project / ".pattern" / "skills" / "a" / "SKILL.md", f"---\ndescription: x\ninclude: {name}\n---\nBody.")
    (project / ".pattern" / "link.md").symlink_to(tmp_path / "secret.md")
    found = find_definitions(str(project), tmp_path / "own")
    assert found.skills[0].body == "Body."
    assert "includ" in found.problems[0]


def test_one_changed_character_of_a_kept_source_is_found(tmp_path: Path):
    write(tmp_path / "own" / "commands" / "ship.md", "Ship it.")
    (command,) = find_definitions(str(tmp_path / "p"), tmp_path / "own").commands
    stored = encoded((command.source,))
    assert decoded(command.identity, command.symbol, stored).files["command.md"] == b"Ship it."
    for forged in (stored.replace("Ship it.", "Ship at."), stored[:-1], stored.replace("command/", "c0mmand/")):
        with pytest.raises(SourceDamagedError, match="not what was stored"):
            decoded(command.identity, command.symbol, forged)
    assert identity_of(command.source) == command.identity


def test_damaged_sources_are_dropped_and_the_others_stay(tmp_path: Path):
    driver = ApswConnection(tmp_path / "c.db", read_only=False, busy_seconds=1.0)
    driver.open()
    migrate(driver, load_migrations(), now_ms=0)

    def keep(tx: Transaction) -> None:
        seq = append(tx, "constellation", SessionClosed(), actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=0).seq
        for name in ("sound", "damaged"):
            source = DefinitionSource(f"command/{name}", {"command.md": name.encode()})
            keep_source(tx, identity_of(source), source.symbol, encoded((source,)), seq=seq)
        tx.execute("UPDATE definition_sources SET source = '{}' WHERE symbol = 'command/damaged'")
        drop_damaged_sources(tx)

    driver.write(keep)
    (left,) = driver.read(list_sources)
    assert left.symbol == "command/sound"
    assert left.identity in driver.read(lambda tx: read_sources(tx, (left.identity, "none")))
    assert driver.read(lambda tx: missing_sources(tx, (left.identity, "none"))) == {"none"}


def test_a_file_with_forgotten_words_goes_and_its_source_is_verified_all_the_same(tmp_path: Path):
    own = tmp_path / "own" / "skills" / "pdf"
    write(own / "SKILL.md", "---\nname: pdf\ndescription: x\ninclude: text/tone.md\n---\nBody.")
    write(own / "who.txt", "Ask Zebedee.")
    (own / "data.bin").write_bytes(b"\xff\xfe Zebedee")
    write(tmp_path / "own" / "text" / "tone.md", "As Zebedee does.")
    (skill,) = find_definitions(str(tmp_path / "p"), tmp_path / "own").skills
    other = DefinitionSource("command/other", {"command.md": b"Ask nobody."})
    driver = ApswConnection(tmp_path / "c.db", read_only=False, busy_seconds=1.0)
    driver.open()
    migrate(driver, load_migrations(), now_ms=0)

    def holds(text: str) -> bool:
        return "Zebedee" in text

    def mask(text: str) -> str:
        return text.replace("Zebedee", "[forgotten]")

    def keep(tx: Transaction) -> int:
        seq = append(tx, "constellation", SessionClosed(), actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=0).seq
        keep_source(tx, skill.digest, skill.symbol, encoded(skill_sources(skill)[0]), seq=seq)
        keep_source(tx, identity_of(other), other.symbol, encoded((other,)), seq=seq)
        tx.execute("UPDATE definition_sources SET note = 'By Zebedee' WHERE symbol = 'skill/pdf'")
        assert sources_with(tx, holds) == 1
        assert forget_in_sources(tx, holds, mask, seq=seq, only=()) == 0
        return forget_in_sources(tx, holds, mask, seq=seq)

    assert driver.write(keep) == 1
    rows = driver.read(lambda tx: str(tx.all("SELECT * FROM definition_sources")))
    assert "Zebedee" not in rows
    assert "By [forgotten]" in rows
    found = driver.read(lambda tx: read_sources(tx, (skill.digest,)))[skill.digest]
    assert set(found.files) == {"SKILL.md"}
    # What it includes is gone, so that the skill would not be what it was.
    assert kept_skill(found, skill.folder, TrustTier.USER) is None
