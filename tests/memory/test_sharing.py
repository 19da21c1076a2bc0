"""Blocks that more than their owner uses, their settings, and what blocks of older versions become."""

from collections.abc import AsyncGenerator
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from pattern_acp.db.connection import Transaction, open_database
from pattern_acp.db.migrate import load_migrations
from pattern_acp.db.raw import connect
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import BlockId
from pattern_acp.memory.blocks import SHARED_OWNER, Block, BlockKey, BlockSpec, Isolation, Permission, Scope, Tier
from pattern_acp.memory.configuring import configured, store_settings
from pattern_acp.memory.errors import UnusableEditError
from pattern_acp.memory.schemas.types import TEXT, LogSchema
from pattern_acp.memory.sharing import (
    Attachment,
    attach,
    attachments,
    detach,
    sound_blocks,
    touched_by,
    unattached,
    visible_rows,
)
from pattern_acp.memory.store import WriteRecord, list_blocks, load_block, propose_creation, store_change
from tests.support.constellation import Constellation, FakeClock, temporary_constellation
from tests.support.memory import append_memory_event

ADA = ((Scope.PERSONA, "ada"), (Scope.PROJECT, "/repo"))
EVE = ((Scope.PERSONA, "eve"), (Scope.PROJECT, "/other"))


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


def create(tx: Transaction, scope: Scope, owner: str, label: str, *, tier: Tier = Tier.CORE) -> tuple[Block, int]:
    spec = BlockSpec(BlockKey(scope, owner, label), "Something.", f"{label} of {owner}", tier=tier)
    change = propose_creation(spec, BlockId(f"block_{owner}_{label}"), peer=1)
    seq = append_memory_event(tx, change, at_ms=1)
    store_change(tx, change, WriteRecord(seq, Actor.PERSONA, Origin.MODEL, "a test", 1))
    return load_block(tx, spec.key), seq


def labels(tx: Transaction, owners: tuple[tuple[Scope, str], ...], isolation: Isolation = Isolation.NONE) -> list[str]:
    return [visible.label for visible in sound_blocks(tx, owners, isolation=isolation)[0]]


async def test_a_block_is_seen_by_those_it_is_attached_to_and_by_nobody_else(constellation: Constellation):
    def work(tx: Transaction) -> None:
        block, seq = create(tx, Scope.PERSONA, "ada", "policy")
        create(tx, Scope.PERSONA, "eve", "own")
        assert labels(tx, EVE) == ["own"]
        attach(tx, block.id, Attachment(Scope.PROJECT, "/other", Permission.APPEND), at_ms=2, seq=seq)
        own, shared = sound_blocks(tx, EVE)[0]
        assert (own.label, own.shared_from, own.permission) == ("own", "", Permission.READ_WRITE)
        assert (shared.label, shared.shared_from, shared.permission) == ("policy", "ada", Permission.APPEND)
        assert labels(tx, ((Scope.PERSONA, "zoe"),)) == []
        assert detach(tx, block.id, Scope.PROJECT, "/other")
        assert not detach(tx, block.id, Scope.PROJECT, "/other")
        assert labels(tx, EVE) == ["own"]

    await constellation.database.write(work)


async def test_attaching_again_changes_the_permission(constellation: Constellation):
    def work(tx: Transaction) -> None:
        block, seq = create(tx, Scope.PERSONA, "ada", "policy")
        for permission in (Permission.APPEND, Permission.READ_ONLY):
            attach(tx, block.id, Attachment(Scope.PERSONA, "eve", permission), at_ms=2, seq=seq)
        assert attachments(tx, block.id) == (Attachment(Scope.PERSONA, "eve", Permission.READ_ONLY),)

    await constellation.database.write(work)


async def test_the_owner_has_the_block_s_own_permission_even_when_it_is_attached_to_them(constellation: Constellation):
    def work(tx: Transaction) -> None:
        block, seq = create(tx, Scope.PERSONA, "ada", "policy")
        attach(tx, block.id, Attachment(Scope.PROJECT, "/repo", Permission.READ_ONLY), at_ms=2, seq=seq)
        (visible,) = sound_blocks(tx, ADA)[0]
        assert (visible.permission, visible.shared_from) == (Permission.READ_WRITE, "")

    await constellation.database.write(work)


async def test_blocks_of_one_label_are_told_apart(constellation: Constellation):
    def work(tx: Transaction) -> None:
        create(tx, Scope.PERSONA, "ada", "notes")
        create(tx, Scope.PROJECT, "/repo", "notes")
        block, seq = create(tx, Scope.PROJECT, "/work/site", "notes")
        attach(tx, block.id, Attachment(Scope.PERSONA, "ada", Permission.READ_ONLY), at_ms=2, seq=seq)
        assert labels(tx, ADA) == ["notes", "project/notes", "site/notes"]

    await constellation.database.write(work)


@pytest.mark.parametrize(
    ("isolation", "seen"),
    [
        (Isolation.NONE, ["core", "working", "project"]),
        (Isolation.CORE_ONLY, ["core", "project"]),
        (Isolation.FULL, ["project"]),
    ],
)
async def test_isolation_hides_what_is_the_persona_s(
    constellation: Constellation, isolation: Isolation, seen: list[str]
):
    def work(tx: Transaction) -> None:
        create(tx, Scope.PERSONA, "ada", "core")
        create(tx, Scope.PERSONA, "ada", "working", tier=Tier.WORKING)
        create(tx, Scope.PROJECT, "/repo", "project")
        assert labels(tx, ADA, isolation) == seen
        assert [visible.label for visible in visible_rows(tx, ADA, isolation=isolation)] == seen

    await constellation.database.write(work)


@pytest.mark.parametrize(
    ("isolation", "permission"),
    [(Isolation.NONE, "append"), (Isolation.CORE_ONLY, "read_only"), (Isolation.FULL, "")],
)
async def test_what_is_attached_to_the_persona_is_as_isolated_as_the_persona_s_own(
    constellation: Constellation, isolation: Isolation, permission: str
):
    def work(tx: Transaction) -> list[str]:
        block, seq = create(tx, Scope.SHARED, SHARED_OWNER, "rules")
        attach(tx, block.id, Attachment(Scope.PERSONA, "ada", Permission.APPEND), at_ms=1, seq=seq)
        return [one.permission.value for one in sound_blocks(tx, ADA, isolation=isolation)[0]]

    assert await constellation.database.write(work) == ([permission] if permission else [])


async def test_of_two_attachments_the_wider_permission_counts(constellation: Constellation):
    def work(tx: Transaction) -> list[tuple[str, Permission]]:
        block, seq = create(tx, Scope.SHARED, SHARED_OWNER, "rules")
        for (scope, owner), permission in zip(ADA, (Permission.READ_ONLY, Permission.READ_WRITE), strict=True):
            attach(tx, block.id, Attachment(scope, owner, permission), at_ms=1, seq=seq)
        return [(one.label, one.permission) for one in sound_blocks(tx, ADA)[0]]

    assert await constellation.database.write(work) == [("rules", Permission.READ_WRITE)]


async def test_a_shared_block_that_is_not_attached_is_named_for_the_person_alone(constellation: Constellation):
    def work(tx: Transaction) -> None:
        create(tx, Scope.SHARED, SHARED_OWNER, "rules")
        assert labels(tx, ADA) == []
        assert [block.key.label for block in unattached(tx, ADA, visible_rows(tx, ADA))] == ["rules"]

    await constellation.database.write(work)


async def test_a_working_block_is_touched_by_the_session_that_wrote_it(constellation: Constellation):
    def work(tx: Transaction) -> None:
        block, _ = create(tx, Scope.PROJECT, "/repo", "scratch", tier=Tier.WORKING)
        core, _ = create(tx, Scope.PROJECT, "/repo", "core")
        assert touched_by(tx, "constellation", [block, core]) == {block.id}
        assert touched_by(tx, "another", [block, core]) == set()

    await constellation.database.write(work)


async def test_settings_are_changed_and_kept(constellation: Constellation):
    def work(tx: Transaction) -> Block:
        block, seq = create(tx, Scope.PROJECT, "/repo", "scratch")
        wanted = (
            ("limit", "12,000"),
            ("permission", "append"),
            ("pinned", "yes"),
            ("tier", "working"),
            ("description", "Other."),
        )
        for setting, value in wanted:
            block = configured(block, setting, value)
        store_settings(tx, block, seq=seq)
        assert load_block(tx, block.key) == block
        return block

    block = await constellation.database.write(work)
    assert (block.limit, block.permission, block.pinned, block.tier, block.description) == (
        12_000,
        Permission.APPEND,
        True,
        Tier.WORKING,
        "Other.",
    )


@pytest.mark.parametrize(
    ("setting", "value", "problem"),
    [
        ("limit", "0", "from 1 to 32,000"),
        ("limit", "40000", "from 1 to 32,000"),
        ("limit", "many", "from 1 to 32,000"),
        ("permission", "all", "one of read_only, partner, human, append, read_write, admin"),
        ("pinned", "perhaps", "yes or no"),
        ("tier", "log", "one of core, working"),
        ("description", " ", "needs a description"),
        ("schema", "list", "no setting 'schema'"),
    ],
)
def test_a_setting_that_is_none_is_refused(setting: str, value: str, problem: str):
    block = Block(BlockId("b"), BlockKey(Scope.PROJECT, "/repo", "x"), "About.", 100, "", 1, 1)
    with pytest.raises(UnusableEditError, match=problem):
        configured(block, setting, value)


async def test_blocks_of_an_older_version_are_migrated_unchanged(tmp_path: Path):
    path = tmp_path / "constellation.db"
    async with open_database(path, clock=FakeClock(), migrations=load_migrations()[:1]):
        pass
    async with temporary_constellation() as newer:
        await newer.database.write(lambda tx: create(tx, Scope.PERSONA, "ada", "human"))
        block = (await newer.database.read(lambda tx: list_blocks(tx, ADA)))[0]
        await newer.database.checkpoint()
        copy_old_rows(newer.path, path)
    async with open_database(path, clock=FakeClock()) as migrated:
        (again,) = await migrated.read(lambda tx: list_blocks(tx, ADA))
    assert again == block
    assert (again.schema, again.permission, again.tier) == (TEXT, Permission.READ_WRITE, Tier.CORE)
    assert again != replace(again, schema=LogSchema())


def copy_old_rows(source: Path, target: Path) -> None:
    """Give a file of schema version 1 the rows that another version wrote, as far as it has their columns."""
    raw = connect(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
    raw.execute("ATTACH ? AS newer", (str(source),)).fetchall()
    for table in ("events", "blobs", "blocks", "block_updates", "block_archives"):
        columns = raw.execute("SELECT name FROM pragma_table_info(?, 'main')", (table,)).fetchall()
        names = ", ".join(str(row[0]) for row in columns)
        raw.execute(f"INSERT INTO main.{table} ({names}) SELECT {names} FROM newer.{table}").fetchall()  # noqa: S608 (names of ours)
    raw.close()
