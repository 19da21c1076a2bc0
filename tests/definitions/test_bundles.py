"""Bundles on the disk."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.definitions.bundles import (
    BundleSource,
    BundleUnusableError,
    install_bundle,
    installed_bundles,
    read_bundle,
    remove_bundle,
    source_of_bundle,
)
from pattern_acp.domain.access import TrustTier
from pattern_acp.domain.project_parts import PartKind
from tests.support.bundles import MANIFEST, write_bundle


def test_every_byte_of_a_bundle_is_in_a_part_that_the_user_is_shown(tmp_path: Path):
    bundle = read_bundle(write_bundle(tmp_path / "team"))
    assert [(part.kind, part.name) for part in bundle.parts] == [
        (PartKind.HOOK, "UserPromptSubmit"),
        (PartKind.COMMAND, "/ship"),
        (PartKind.SKILL, "tag"),
        (PartKind.FILE, "pattern-bundle.toml"),
        (PartKind.PERSONA, "teamreview"),
        (PartKind.FILE, "tools/note.sh"),
    ]
    assert {one.tier for one in (*bundle.definitions.skills, *bundle.definitions.commands)} == {TrustTier.BUNDLE}
    before = bundle.digest
    paths = [path for path in (tmp_path / "team").rglob("*") if path.is_file() and ".git" not in path.parts]
    assert len(paths) == 5
    for path in paths:
        kept = path.read_bytes()
        path.write_bytes(kept + (b"# x\n" if path.suffix == ".toml" else b"x"))
        changed = read_bundle(tmp_path / "team")
        assert changed.digest != before, path
        assert changed.identity != bundle.identity
        path.write_bytes(kept)
    assert read_bundle(tmp_path / "team").digest == before


def test_the_installed_copy_is_the_same_bundle_and_its_hooks_name_its_own_files(tmp_path: Path):
    bundle, config = read_bundle(write_bundle(tmp_path / "team")), tmp_path / "config"
    copy = install_bundle(bundle, config, BundleSource("/from", "abc"))
    assert (copy.digest, copy.identity) == (bundle.digest, bundle.identity)
    assert copy.offer.hooks[0].command == f'sh "{config}/bundles/team/tools/note.sh"'
    assert source_of_bundle(Path(copy.root)) == BundleSource("/from", "abc")
    assert not (config / "bundles" / "team" / ".git").exists()
    assert [each.name for each in installed_bundles(config)[0]] == ["team"]
    install_bundle(read_bundle(write_bundle(tmp_path / "team", note="echo two\n")), config, BundleSource("/from"))
    assert (config / "bundles" / "team" / "tools" / "note.sh").read_text() == "echo two\n"
    assert [path.name for path in (config / "bundles").iterdir()] == ["team"]
    remove_bundle(config, "team")
    assert installed_bundles(config) == ((), ())
    with pytest.raises(BundleUnusableError, match="cannot be deleted"):
        remove_bundle(config, "team")


def test_a_source_that_changes_while_it_is_shown_is_not_installed(tmp_path: Path):
    bundle = read_bundle(write_bundle(tmp_path / "team"))
    write_bundle(tmp_path / "team", note="curl evil\n")
    with pytest.raises(BundleUnusableError, match="changed while it was copied"):
        install_bundle(bundle, tmp_path / "config", BundleSource(""))
    assert installed_bundles(tmp_path / "config") == ((), ())


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"pattern_bundle": "name = 'a b'"}, "pattern-bundle.toml:1: name: a bundle needs a name"),
        ({"pattern_bundle": MANIFEST + "\n[other]\nx = 1"}, "other: there is no such key; allowed are name, version"),
        ({"pattern_bundle": "name = \n"}, "pattern-bundle.toml:1"),
        ({"pattern_bundle": MANIFEST.replace("UserPromptSubmit", "Never")}, "event must be one of"),
        ({"SKILL": "---\nname: tag\n---\n"}, "SKILL.md:1:1: the head needs a description"),
    ],
)
def test_a_mistake_in_a_bundle_is_named_with_its_place(tmp_path: Path, files: dict[str, str], words: str):
    with pytest.raises(BundleUnusableError) as raised:
        read_bundle(write_bundle(tmp_path / "team", **files))
    assert words in raised.value.sentence


def test_a_folder_without_the_file_and_a_link_that_leads_out_are_no_bundle(tmp_path: Path):
    with pytest.raises(BundleUnusableError, match="it has no pattern-bundle"):
        read_bundle(tmp_path)
    folder = write_bundle(tmp_path / "team")
    (folder / "secret").symlink_to("/etc/passwd")
    with pytest.raises(BundleUnusableError, match="leads out of"):
        read_bundle(folder)


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc",), exclude_characters='"\\\\')))
def test_any_description_is_one_line_and_part_of_the_identity(text: str):
    with TemporaryDirectory(prefix="bundle-") as folder:
        file = Path(folder) / "pattern-bundle.toml"
        file.write_text(f'name = "x"\ndescription = "{text}"\n', encoding="utf-8")
        one = read_bundle(Path(folder))
        assert one.description == " ".join(text.split())[:500]
        file.write_text(f'name = "x"\ndescription = "{text}."\n', encoding="utf-8")
        assert read_bundle(Path(folder)).identity != one.identity
