"""What is found in a constellation from end to end, what endangers it, and what is mended."""

import os
import sys
from pathlib import Path
from typing import LiteralString

import anyio
import pytest

from pattern_acp.db.connection import Transaction, change_file, open_database, read_file
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import BlockId
from pattern_acp.journal.contents import store_content
from pattern_acp.memory.blocks import BlockKey, BlockSpec, Scope
from pattern_acp.memory.edits import Append
from pattern_acp.memory.indexing import index_block
from pattern_acp.memory.store import WriteRecord, changed_block, propose_creation, store_change
from pattern_acp.recovery.checks import Finding, Health, Repair, check_environment, file_system_of, repair, verify
from tests.support.constellation import FakeClock
from tests.support.history import record_edit
from tests.support.memory import append_memory_event

NOW = FakeClock().now_ms()
HOUR_MS = 3_600_000
SPEC = BlockSpec(BlockKey(Scope.PERSONA, "default", "human"), "Who the person is.", "The person is Ada.\n", limit=2_000)


def fill(tx: Transaction) -> None:
    change = propose_creation(SPEC, BlockId("block_human"), peer=11)
    seq = append_memory_event(tx, change, at_ms=NOW)
    store_change(tx, change, WriteRecord(seq, Actor.PERSONA, Origin.MODEL, "a test", NOW))
    index_block(tx, changed_block(change, NOW), at_ms=NOW, seq=seq)
    store_content(tx, sha256_hex(b"a file"), b"a file", seq=seq)


async def make(path: Path) -> None:
    async with open_database(path, clock=FakeClock()) as database:
        await database.write(fill)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "constellation.db"
    anyio.run(make, path)
    return path


def states(findings: list[Finding]) -> dict[str, Health]:
    return {finding.name: finding.health for finding in findings}


def test_a_sound_constellation_is_sound_from_end_to_end(path: Path):
    before = path.read_bytes()
    findings = verify(path)
    assert {finding.health for finding in findings} == {Health.OK}, findings
    assert len(findings) == 6
    assert path.read_bytes() == before


def test_damage_is_found_where_it_is_and_the_way_back_is_left_to_the_person(path: Path):
    def damage(tx: Transaction) -> None:
        tx.execute("DROP TRIGGER events_are_not_updated")
        tx.execute("UPDATE events SET actor = 'human'")
        tx.execute("UPDATE file_contents SET content = x'00'")
        tx.execute("UPDATE blocks SET base = x'00', text_hash = 'x'")
        tx.execute("UPDATE block_updates SET data = x'00'")
        tx.execute("DELETE FROM block_archives")

    change_file(path, damage)
    findings = verify(path)
    broken = {name for name, health in states(findings).items() if health is Health.BROKEN}
    assert broken == {"Verified journal", "Verified memory", "Verified stored files"}
    assert repair(path, findings, now_ms=NOW) == []
    assert all(finding.repair == Repair("restore", "latest", safe=False) for finding in findings if finding.repair)


def test_a_block_that_is_whole_in_another_place_is_a_note(path: Path):
    change_file(path, lambda tx: tx.execute("UPDATE blocks SET base = x'00'"))
    [note] = [finding for finding in verify(path) if finding.health is not Health.OK]
    assert (note.name, note.health) == ("Verified memory", Health.NOTE)
    assert "human" in note.detail


def test_a_file_that_cannot_be_copied_is_broken(path: Path):
    content = path.read_bytes()
    path.write_bytes(bytes(100) + content[100:])
    [finding] = verify(path)
    assert (finding.health, finding.repair) == (Health.BROKEN, Repair("restore", str(path), safe=False))


def test_a_search_index_that_lost_a_text_is_written_anew(path: Path):
    def lose(tx: Transaction) -> None:
        tx.execute("DROP TRIGGER search_entries_delete")
        tx.execute("DELETE FROM search_entries")

    change_file(path, lose)
    findings = verify(path)
    assert states(findings)["Verified search"] is Health.BROKEN
    [(wanted, sentence)] = repair(path, findings, now_ms=NOW)
    assert (wanted.action, wanted.safe) == ("rebuild_search", True)
    assert "rebuilt" in sentence
    assert states(verify(path))["Verified search"] is Health.OK


def test_passages_that_the_search_index_lost_are_named_and_indexed_again(path: Path):
    change_file(path, lambda tx: tx.execute("DELETE FROM search_entries WHERE source = 'block_human'"))
    findings = verify(path)
    [broken] = [finding for finding in findings if finding.health is not Health.OK]
    assert (broken.name, broken.detail) == ("Verified search", "Searches do not find 1 passage of the block human.")
    repair(path, findings, now_ms=NOW)
    assert states(verify(path))["Verified search"] is Health.OK
    rows = read_file(path, lambda tx: tx.all("SELECT kind, owner, text FROM search_entries"))
    assert rows == [("block", "default", "The person is Ada.")]


def test_what_a_copy_left_is_moved_and_never_deleted(path: Path):
    part = path.parent / "backups" / "snapshot-20260101T000000Z.db.part"
    part.parent.mkdir()
    part.write_text("half", encoding="utf-8")
    os.utime(part, (NOW / 1000, NOW / 1000))
    assert check_environment(path, now_ms=NOW) == []
    findings = check_environment(path, now_ms=NOW + 2 * HOUR_MS)
    assert states(findings) == {"Leftover": Health.NOTE}
    repair(path, findings, now_ms=NOW)
    [moved] = path.parent.glob("backups/leftovers-*/*.part")
    assert moved.read_text(encoding="utf-8") == "half"
    assert check_environment(path, now_ms=NOW + 2 * HOUR_MS) == []
    [(_, sentence)] = repair(path, findings, now_ms=NOW)
    assert "could not be changed" in sentence


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
def test_a_folder_that_others_can_use_is_closed(path: Path):
    path.parent.chmod(0o755)
    findings = check_environment(path, now_ms=NOW)
    assert states(findings) == {"Constellation folder": Health.NOTE}
    repair(path, findings, now_ms=NOW)
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_clock_that_was_set_back_is_a_note(path: Path, tmp_path: Path):
    assert states(check_environment(path, now_ms=NOW - HOUR_MS)) == {"Clock": Health.NOTE}
    assert check_environment(tmp_path / "none.db", now_ms=NOW) == []


async def append(path: Path, at_ms: int) -> None:
    change = propose_creation(
        BlockSpec(BlockKey(Scope.PERSONA, "default", "later"), "Later.", "x", limit=100),
        BlockId("block_later"),
        peer=12,
    )
    async with open_database(path, clock=FakeClock()) as database:
        await database.write(lambda tx: append_memory_event(tx, change, at_ms=at_ms))


def test_events_that_go_back_in_time_are_a_note(path: Path):
    anyio.run(append, path, NOW - 30 * HOUR_MS)
    (found,) = check_environment(path, now_ms=NOW)
    assert (found.name, found.health) == ("Clock", Health.NOTE)
    assert "one before it of" in found.detail


def test_a_network_file_system_is_a_note(path: Path, tmp_path: Path):
    mounts = tmp_path / "mounts"
    home = str(path.parent.resolve())
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/home {home} nfs4 rw 0 0\nbroken\n", encoding="utf-8")
    assert states(check_environment(path, now_ms=NOW, mounts=mounts)) == {"File system": Health.NOTE}
    assert file_system_of(tmp_path, mounts) == "ext4"
    assert file_system_of(tmp_path, tmp_path / "none") == ""


@pytest.mark.parametrize("base", ["base", "x'00'"], ids=["the history", "the document, too"])
def test_a_history_that_is_lost_begins_anew_with_the_sound_text_and_a_copy_is_kept(path: Path, base: LiteralString):
    def lose(tx: Transaction) -> None:
        tx.execute("UPDATE block_updates SET data = x'00'")
        tx.execute("DELETE FROM block_archives")
        tx.execute(f"UPDATE blocks SET base = {base}")  # noqa: S608  no value in it

    change_file(path, lose)
    findings = verify(path)
    assert "The text is sound, and the history cannot be read: human." in str(findings)
    ((wanted, sentence),) = repair(path, findings, now_ms=NOW)
    assert wanted.action == "begin_histories"
    copy = Path(sentence.rpartition(" ")[2].removesuffix("."))
    assert copy.parent == path.parent / "backups"
    assert copy.exists()
    assert {finding.health for finding in verify(path)} == {Health.OK}
    assert read_file(path, lambda tx: tx.one("SELECT text, history_from FROM blocks")) == ("The person is Ada.\n", 2)


def test_a_history_without_a_write_begins_anew_and_nothing_is_said_of_it_afterwards(path: Path):
    anyio.run(write_more, path)
    change_file(path, lambda tx: tx.execute("DELETE FROM block_updates WHERE number = 2"))
    findings = verify(path)
    assert "human: the write of event 2 is gone" in str(findings)
    assert "write 3" not in str(findings)
    repair(path, findings, now_ms=NOW)
    assert {finding.health for finding in verify(path)} == {Health.OK}
    change_file(path, lambda tx: tx.execute("DELETE FROM block_updates WHERE number = 4"))
    assert "human: the write of event 4 is gone" in str(verify(path))


async def write_more(path: Path) -> None:
    async with open_database(path, clock=FakeClock()) as database:
        for text in ("Likes tea.", "Likes coffee."):
            await database.write(lambda tx, text=text: record_edit(tx, SPEC.key, Append(text)))


def test_a_write_of_memory_that_is_not_what_its_event_says_is_found(path: Path):
    def swap(tx: Transaction) -> None:
        tx.execute("UPDATE block_updates SET data = x'00'")

    change_file(path, swap)
    assert "human: data of write 1 is not what event 1 says" in str(verify(path))
