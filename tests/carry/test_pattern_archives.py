"""Exports of Pattern come as proposals: blocks, archival entries, and the messages of each agent."""

from pathlib import Path

import loro
import pytest

from pattern_acp.carry.arrival import Conflicts, accept
from pattern_acp.carry.car import BLAKE3_CID, ArchiveDamagedError, ArchiveWriter, Node, read_archive
from pattern_acp.carry.foreign import MOST_CHARACTERS, ForeignFileError
from pattern_acp.carry.pattern_archives import read_pattern_export
from pattern_acp.carry.proposing import Importer, look_at, opened
from pattern_acp.db.connection import Database
from pattern_acp.domain.errors import BlockError
from tests.carry.test_archive import NOW, home, is_sound
from tests.support.constellation import FakeClock

ADA, BEN = "agent-ada", "agent-ben"
AT = "2026-05-04T10:00:00Z"


def snapshot(text: str) -> bytes:
    document = loro.LoroDoc()
    document.get_text("content").insert(0, text)
    document.commit()
    return document.export(loro.ExportMode.Snapshot())


def block(archive: ArchiveWriter, owner: str, label: str, text: str, **more: Node) -> bytes:
    """Write a block whose document is in two pieces."""
    content = snapshot(text)
    last = archive.add({"index": 1, "data": content[40:], "next_cid": None})
    pieces: list[Node] = [archive.add({"index": 0, "data": content[:40], "next_cid": last}), last]
    record: dict[str, Node] = {
        "id": f"block-{owner}-{label}",
        "agent_id": owner,
        "label": label,
        "description": f"About {label}.",
        "block_type": "Core",
        "char_limit": 5000,
        "permission": "ReadWrite",
        "pinned": False,
        "content_preview": text,
        "metadata": None,
        "is_active": True,
        "frontier": None,
        "updated_at": AT,
        "snapshot_chunk_cids": pieces,
        "total_snapshot_bytes": len(content),
    }
    return archive.add({**record, **more})


def entry(archive: ArchiveWriter, name: str, text: str, parent: str | None = None, index: int = 0) -> bytes:
    return archive.add(
        {
            "id": name,
            "agent_id": ADA,
            "content": text,
            "metadata": None,
            "chunk_index": index,
            "parent_entry_id": parent,
            "created_at": AT,
        }
    )


def message(position: str, role: str, content: Node, *, deleted: bool = False) -> Node:
    return {
        "id": f"msg-{position}",
        "position": position,
        "role": role,
        "content_json": content,
        "content_preview": "",
        "is_deleted": deleted,
        "created_at": AT,
    }


def agent(archive: ArchiveWriter, name: str, blocks: list[Node]) -> dict[str, Node]:
    said: list[Node] = [
        message("100", "assistant", {"Parts": [{"Text": "On port 7433."}, {"ToolCall": {"name": "send"}}]}),
        message("99", "user", {"Text": "Where does it listen?"}),
        message("101", "user", "Taken back.", deleted=True),
        message("102", "tool", "Noise."),
    ]
    facts: list[Node] = []
    if name == ADA:
        parent = entry(archive, "entry-1", "The parser is recursive descent,")
        facts = [entry(archive, "entry-2", "and it is fast.", "entry-1", 1), parent]
    chunk = archive.add({"chunk_index": 0, "messages": said, "message_count": len(said)})
    return {
        "agent": {"id": name, "name": name.removeprefix("agent-"), "system_prompt": "", "config": {}},
        "message_chunk_cids": [chunk] if name == ADA else [],
        "memory_block_cids": blocks,
        "archival_entry_cids": facts,
        "archive_summary_cids": [],
    }


def manifest(kind: str, data: bytes, version: int = 3) -> Node:
    return {"version": version, "exported_at": AT, "export_type": kind, "stats": {}, "data_cid": data}


def one_agent(file: Path, version: int = 3, **more: Node) -> None:
    with file.open("w+b") as into:
        archive = ArchiveWriter(into, BLAKE3_CID)
        persona = block(archive, ADA, "persona", "I am Ada.")
        stale = block(
            archive, ADA, "human", "They drink tea.", content_preview="They drink coffee.", block_type="Working"
        )
        log = block(archive, ADA, "log", "It rained.", block_type="archival", **more)
        archive.finish(manifest("Agent", archive.add(agent(archive, ADA, [persona, stale, log])), version))


async def taken(database: Database, file: Path) -> tuple[int, int, int]:
    """Import all of a file; the numbers of blocks, facts and sessions that came."""
    importer = Importer("default", str(file.parent), FakeClock())
    async with opened(file, importer) as (archive, _):
        found = await look_at(database, archive, str(file))
        choices: dict[int, Conflicts] = {one.number: "both" for one in found.found if one.is_open}
        report = await database.write(lambda tx: accept(tx, archive, {}, choices, now_ms=NOW))
    return report.blocks, report.facts, report.sessions


async def test_an_agent_comes_with_its_blocks_entries_and_messages_and_once(tmp_path: Path):
    file = tmp_path / "ada.car"
    one_agent(file)
    async with home(tmp_path / "one") as one:
        assert await taken(one, file) == (2, 2, 1)
        blocks = await one.read(lambda tx: tx.all("SELECT label, text, tier FROM blocks WHERE label <> 'project'"))
        assert {("persona", "I am Ada.", "core"), ("human", "They drink coffee.", "working")} <= set(blocks)
        facts = await one.read(lambda tx: tx.all("SELECT text FROM archival_entries ORDER BY text"))
        assert facts == [("It rained.",), ("The parser is recursive descent,\nand it is fast.",)]
        said = await one.read(lambda tx: tx.all("SELECT payload FROM events WHERE kind LIKE '%turn_started'"))
        assert "Where does it listen?" in str(said)
        told = await one.read(lambda tx: tx.all("SELECT payload FROM events WHERE kind = 'message_recorded'"))
        assert "On port 7433." in str(told)
        assert "Taken back" not in str(said) + str(told)
        assert await is_sound(one) == []
        assert await taken(one, file) == (0, 0, 0)


def test_an_agent_that_wrote_more_than_a_session_may_have_comes_as_several(tmp_path: Path):
    pages, letters = 5, MOST_CHARACTERS // 3
    with (tmp_path / "long.car").open("w+b") as file:
        archive = ArchiveWriter(file, BLAKE3_CID)
        chunks: list[Node] = []
        for page in range(pages):
            # The first of a page is its last.
            said: list[Node] = [
                message(str(2 * page + 1), "assistant", f"Page {page}."),
                message(str(2 * page), "user", str(page) * letters),
            ]
            chunks.append(archive.add({"chunk_index": page, "messages": said, "message_count": 2}))
        export: dict[str, Node] = {**agent(archive, ADA, []), "message_chunk_cids": chunks}
        archive.finish(manifest("Agent", archive.add(export)))
        sessions = read_pattern_export(read_archive(file)).sessions
        assert [(one.key, one.title) for one in sessions] == [
            (ADA, "ada (Pattern)"),
            (f"{ADA} 2", "ada (Pattern), part 2"),
        ]
        told = [one.text[:7] for session in sessions for one in session.messages]
        assert told == [text for page in range(pages) for text in (str(page) * 7, f"Page {page}.")]


@pytest.mark.parametrize("kind", ["Group", "Constellation"])
async def test_agents_of_a_group_or_a_constellation_are_personas_and_what_they_share_comes_once(
    kind: str, tmp_path: Path
):
    file = tmp_path / "all.car"
    with file.open("w+b") as into:
        archive = ArchiveWriter(into, BLAKE3_CID)
        shared = block(archive, BEN, "house", "It has two floors.")
        ada = agent(archive, ADA, [block(archive, ADA, "persona", "I am Ada."), shared])
        ben = agent(archive, BEN, [shared])
        if kind == "Group":
            data = archive.add({"group": {}, "agent_exports": [ada, ben], "shared_memory_cids": [shared]})
        else:
            pool: dict[str, Node] = {ADA: archive.add(ada), BEN: archive.add(ben)}
            thin: Node = {"group": {}, "agent_cids": [], "shared_memory_cids": [shared]}
            data = archive.add({"agent_exports": pool, "group_exports": [thin], "all_memory_block_cids": [shared]})
        archive.finish(manifest(kind, data))
    async with home(tmp_path / "one") as one:
        assert (await taken(one, file))[0] == 2
        rows = await one.read(lambda tx: tx.all("SELECT owner, text FROM blocks WHERE label IN ('house', 'persona')"))
        assert {("ben", "It has two floors."), ("ada", "I am Ada.")} <= set(rows)


@pytest.mark.parametrize(
    ("version", "kind", "sentence"), [(2, "Agent", "of version 2"), (3, "Planet", "of a kind that is not known")]
)
async def test_an_export_of_another_version_or_kind_is_refused(version: int, kind: str, sentence: str, tmp_path: Path):
    file = tmp_path / "odd.car"
    with file.open("w+b") as into:
        archive = ArchiveWriter(into, BLAKE3_CID)
        archive.finish(manifest(kind, archive.add({}), version))
    async with home(tmp_path / "one") as one:
        with pytest.raises(ForeignFileError, match=sentence):
            await taken(one, file)


async def test_a_changed_byte_or_a_damaged_document_is_refused_by_name(tmp_path: Path):
    file = tmp_path / "ada.car"
    one_agent(file, snapshot_chunk_cids=[])
    content = bytearray(file.read_bytes())
    content[content.index(b"I am Ada.") + 2] ^= 1
    changed = tmp_path / "changed.car"
    changed.write_bytes(content)
    damaged = tmp_path / "damaged.car"
    with damaged.open("w+b") as into:
        archive = ArchiveWriter(into, BLAKE3_CID)
        piece = archive.add({"index": 0, "data": b"no document", "next_cid": None})
        broken = block(archive, ADA, "persona", "I am Ada.", snapshot_chunk_cids=[piece])
        archive.finish(manifest("Agent", archive.add(agent(archive, ADA, [broken]))))
    async with home(tmp_path / "one") as one:
        with pytest.raises(ArchiveDamagedError, match="was changed"):
            await taken(one, changed)
        with pytest.raises(BlockError, match="persona"):
            await taken(one, damaged)
        assert (await taken(one, file))[0] == 2
