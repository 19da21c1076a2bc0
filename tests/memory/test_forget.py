"""Forgetting, on a real file: nothing of the words is left in it."""

from collections.abc import AsyncGenerator
from functools import partial

import apsw
import loro
import pytest

from pattern_acp.db.connection import Transaction
from pattern_acp.db.raw import connect
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import MessageId, SessionId, ToolCallId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart, ToolCallPart
from pattern_acp.domain.tool_calls import DiffContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal import events
from pattern_acp.journal.contents import read_content, store_content
from pattern_acp.journal.reader import ChainReport, read_stream, verify_stream
from pattern_acp.journal.sessions import NewSession, create_session, get_session, set_title
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.memory.archive import NewEntry, insert_entry, list_entries
from pattern_acp.memory.blocks import BlockKey, Scope
from pattern_acp.memory.edits import Append, Rewrite
from pattern_acp.memory.errors import BlockMissingError, UndoConflictError, UnusableEditError, VersionError
from pattern_acp.memory.history import blame_lines, read_history
from pattern_acp.memory.recall import index_message
from pattern_acp.memory.service.forget import MemoryForgetting
from pattern_acp.memory.service.history import HistoryScope, MemoryHistory
from pattern_acp.memory.service.undo import MemoryReverts
from pattern_acp.memory.store import list_blocks
from pattern_acp.memory.undo import plan_undo
from pattern_acp.tools.registry import parameter_names
from tests.support.constellation import Constellation, temporary_constellation
from tests.support.history import record_edit

SECRET = "quartzvejle 58213 belongs to the vault"
OWNERS = ((Scope.PERSONA, "tester"), (Scope.PROJECT, "/project"))
SCOPE = HistoryScope(OWNERS, CONSTELLATION_STREAM, Actor.HUMAN, Origin.PERSON, peer=99)
KEY = BlockKey(Scope.PERSONA, "tester", "human")
SESSION = SessionId("ses_1")
TURN = TurnId("turn_1")


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


def forgetting(constellation: Constellation) -> MemoryForgetting:
    return MemoryForgetting(constellation.database, SCOPE, clock=constellation.clock, parameters=parameter_names)


def history(constellation: Constellation) -> MemoryHistory:
    return MemoryHistory(constellation.database, OWNERS)


async def write(constellation: Constellation, text: str, *, label: str = "human", reason: str = "") -> None:
    scope, owner = OWNERS[1] if label == "project" else OWNERS[0]
    key = BlockKey(scope, owner, label)
    await constellation.database.write(lambda tx: record_edit(tx, key, Append(text), reason=reason))


def raw_files(constellation: Constellation) -> bytes:
    folder = constellation.path.parent
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.name.startswith("constellation.db"))


def plant_conversation(tx: Transaction, secret: str) -> None:
    """A session in which the words are everywhere that words can be."""
    say = partial(append, tx, SESSION, at_ms=1)
    created = say(events.SessionCreated("/w", (), "tester", "id", "m", "ask"), actor=Actor.HUMAN, origin=Origin.EDITOR)
    new = NewSession(SESSION, "/w", (), "tester", "id", "m", "ask")
    create_session(tx, new, seq=created.seq, at_ms=1)
    prompt = Message(MessageId("msg_1"), Role.USER, (TextPart(f"Please remember: {secret}."),))
    arguments = f'{{"label": "human", "text": "- {secret}"}}'
    call = ToolCallPart(ToolCallId("call_1"), "memory_write", arguments)
    answer = Message(MessageId("msg_2"), Role.ASSISTANT, (TextPart(f"Noted that {secret}. " * 300), call))
    raw = {"label": "human", "text": f"- {secret}"}
    view = ToolCallView(ToolCallId("call_1"), "memory_write", "Write memory", ToolKind.EDIT, raw)
    diff = DiffContent("/memory/human.md", "", f"- {secret}\n")
    title = f"Please remember: {secret[:20]}…"
    for event in (
        events.TurnStarted(TURN, prompt),
        events.SessionTitled(title),
        events.MessagePartial(TURN, MessageId("msg_2"), f"Noted that {secret[:12]}", ""),
        events.MessageRecorded(TURN, answer),
        events.ToolCallStarted(TURN, view),
        events.ToolCallFinished(TURN, ToolCallId("call_1"), ToolCallStatus.COMPLETED, secret, (diff,)),
    ):
        last = say(event, actor=Actor.PERSONA, origin=Origin.MODEL)
    set_title(tx, SESSION, title, seq=last.seq, at_ms=1)
    for kind, message in (("user", prompt), ("assistant", answer)):
        index_message(
            tx,
            session_id=SESSION,
            owner="/project",
            kind="user" if kind == "user" else "assistant",
            message_id=message.message_id,
            text=message.text,
            at_ms=1,
            seq=last.seq,
        )


async def verified(constellation: Constellation, stream: str) -> ChainReport:
    return await constellation.database.read(lambda tx: verify_stream(tx, stream))


async def test_nothing_of_a_forgotten_passage_is_left_in_the_files(constellation: Constellation):
    await write(constellation, "- likes tea")
    await write(constellation, f"- {SECRET}", reason=f"They said that {SECRET}.")
    await write(constellation, "- works at night")
    await constellation.database.write(lambda tx: plant_conversation(tx, SECRET))
    assert SECRET.encode() in raw_files(constellation)

    report = await forgetting(constellation).forget("human", SECRET, "It was private.")
    await constellation.database.close()

    left = raw_files(constellation)
    assert report.clean
    for words in (SECRET, "quartzvejl", "58213", "the vault"):
        assert words.encode() not in left
    assert b"works at night" in left


async def test_a_kept_state_of_a_file_that_holds_the_words_is_dropped(constellation: Constellation):
    await write(constellation, f"- {SECRET}")
    contents = (f"x = '{SECRET}'\n".encode() * 9, b"y = 1\n", b"\xff\x00 no text")

    def keep(tx: Transaction) -> None:
        seq = append(tx, SESSION, events.SessionTitled("t"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=1).seq
        for content in contents:
            store_content(tx, sha256_hex(content), content, seq=seq)
        tx.execute("UPDATE file_contents SET content = x'00' WHERE hash = :hash", {"hash": sha256_hex(contents[2])})

    await constellation.database.write(keep)
    report = await forgetting(constellation).forget("human", SECRET)
    left = await constellation.database.read(lambda tx: [read_content(tx, sha256_hex(one)) for one in contents[:2]])
    assert (report.taken.kept_files, left) == (2, [None, b"y = 1\n"])


async def test_no_stored_document_holds_the_words_in_a_packed_form(constellation: Constellation):
    await write(constellation, f"- {SECRET}\n" * 3)
    await write(constellation, "- works at night")
    await forgetting(constellation).forget("human", SECRET)

    def documents(tx: Transaction) -> list[object]:
        rows = tx.all(
            "SELECT base FROM blocks UNION SELECT data FROM block_updates UNION SELECT snapshot FROM block_archives"
        )
        return [row[0] for row in rows if row[0]]

    stored = await constellation.database.read(documents)
    assert stored
    for part in stored:
        assert isinstance(part, bytes)
        document = loro.LoroDoc()
        document.import_(part)
        operations = document.export_json_updates(loro.VersionVector(), document.oplog_vv)
        assert "quartz" not in operations + str(document.get_deep_value())


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("The vault code word is zebrafish", '"vault code word is zebrafish"'),
        ("The vault code word is zebrafish", "vault  code\tword is zebrafish"),
        ("The vault code word is zebrafish", "“VAULT CODE WORD IS ZEBRAFISH”"),
        ("It\u2019s the vault\u2011code word: zebra\u200bfish", "It's the vault-code word: zebrafish"),
        ("Die Schlu\u0308ssel liegen im Tresor", "die schlüssel liegen"),
        ("code: ZEBRAFISH", "zebrafish"),
    ],
)
async def test_a_passage_is_found_whatever_its_case_white_space_quotes_and_unicode_form(
    constellation: Constellation, written: str, asked: str
):
    await write(constellation, "- likes tea")
    await write(constellation, f"- {written}\n- {written.upper()}, she said\n- works at night")
    answer = Message(MessageId("msg_3"), Role.ASSISTANT, (TextPart(f"NOTED: {written.upper()}!"),))

    def say(tx: Transaction) -> None:
        append(tx, SESSION, events.MessageRecorded(TURN, answer), actor=Actor.PERSONA, origin=Origin.MODEL, at_ms=1)

    await constellation.database.write(say)
    report = await forgetting(constellation).forget("human", asked)
    assert report.after.splitlines()[0] == "- likes tea"
    assert report.after.splitlines()[-1] == "- works at night"
    (said,) = [
        one.event.message.text
        for one in await constellation.database.read(lambda tx: read_stream(tx, SESSION))
        if isinstance(one.event, events.MessageRecorded)
    ]
    for word in ("zebra", "schl"):
        assert word not in (report.after + said).lower()
    await constellation.database.close()
    left = raw_files(constellation).lower()
    assert b"zebrafish" not in left
    assert b"ssel liegen" not in left


async def test_a_line_that_says_half_of_it_keeps_the_rest_and_a_mark(constellation: Constellation):
    await write(constellation, "- The deploy key is under the blue flowerpot by the door\n- The deploy key rotates")
    report = await forgetting(constellation).forget("human", "the deploy key is under the blue flowerpot")
    assert report.after == "- by the door\n- The deploy key rotates"
    await write(constellation, "- the deploy key is under the blue sofa")
    report = await forgetting(constellation).forget("human", "the deploy key is under the blue flowerpot")
    assert report.after.endswith("\n- [forgotten] sofa")


async def test_the_rest_of_the_block_stays_and_still_knows_its_authors(constellation: Constellation):
    await write(constellation, "- likes tea")
    await write(constellation, f"- {SECRET}")
    await write(constellation, "- works at night")
    report = await forgetting(constellation).forget("human", SECRET)
    assert report.after == "- likes tea\n- works at night"
    (block,) = [
        b for b in await constellation.database.read(lambda tx: list_blocks(tx, OWNERS)) if b.key.label == "human"
    ]
    stored = await constellation.database.read(lambda tx: read_history(tx, block))
    assert [line.number for line in blame_lines(stored)] == [2, 4]


async def test_the_chain_still_holds_and_says_what_was_redacted(constellation: Constellation):
    await write(constellation, f"- {SECRET}")
    await constellation.database.write(lambda tx: plant_conversation(tx, SECRET))
    report = await forgetting(constellation).forget("human", SECRET, f"Because {SECRET} is private.")
    checked = await verified(constellation, SESSION)
    assert checked.ok
    assert checked.redacted == report.taken.events >= 5
    assert (await verified(constellation, CONSTELLATION_STREAM)).ok
    recorded = await constellation.database.read(lambda tx: read_stream(tx, CONSTELLATION_STREAM))
    (event,) = [one.event for one in recorded if isinstance(one.event, events.BlockForgotten)]
    assert event.reason == "Because [forgotten] is private."
    assert (event.label, event.whole) == ("human", False)


async def test_a_redaction_that_nobody_audited_breaks_the_chain(constellation: Constellation):
    await write(constellation, f"- {SECRET}")
    await constellation.database.write(lambda tx: plant_conversation(tx, SECRET))
    await forgetting(constellation).forget("human", SECRET)

    def tamper(tx: Transaction) -> None:
        (row,) = tx.all("SELECT seq, payload FROM events WHERE kind = 'session_created'")
        tx.execute(
            "INSERT INTO redactions (event_seq, last_seq, payload_hash, at_ms)"
            " VALUES (:seq, (SELECT max(last_seq) FROM redactions), :payload_hash, 1)",
            {"seq": row[0], "payload_hash": sha256_hex(str(row[1]).encode())},
        )

    await constellation.database.write(tamper)
    checked = await verified(constellation, SESSION)
    assert not checked.ok
    assert "another way" in checked.problem


async def test_events_are_append_only_again_afterwards(constellation: Constellation):
    await write(constellation, f"- {SECRET}")
    await forgetting(constellation).forget("human", SECRET)
    with pytest.raises(Exception, match="append-only"):
        await constellation.database.write(lambda tx: tx.execute("UPDATE events SET at_ms = 0"))


async def test_the_conversation_can_still_be_read(constellation: Constellation):
    await write(constellation, f"- {SECRET}")
    await constellation.database.write(lambda tx: plant_conversation(tx, SECRET))
    report = await forgetting(constellation).forget("human", SECRET)
    recorded = await constellation.database.read(lambda tx: read_stream(tx, SESSION))
    (prompt,) = [one.event for one in recorded if isinstance(one.event, events.TurnStarted)]
    assert prompt.message.text == "Please remember: [forgotten]."
    assert report.messages == 2
    row = await constellation.database.read(lambda tx: get_session(tx, SESSION))
    assert row is not None
    assert row.title == "Please remember: [forgotten]…"


async def test_archival_entries_with_the_words_are_deleted(constellation: Constellation):
    await write(constellation, f"- {SECRET}")

    def archive(tx: Transaction) -> None:
        appended = append(
            tx, CONSTELLATION_STREAM, events.SessionClosed(), actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=1
        )
        for number, text in enumerate((f"Long ago: {SECRET}.", "harmless")):
            new = NewEntry(f"entry_{number}", Scope.PROJECT, "/project", text, Actor.PERSONA, Origin.MODEL, "")
            insert_entry(tx, new, at_ms=1, seq=appended.seq)

    await constellation.database.write(archive)
    report = await forgetting(constellation).forget("human", SECRET)
    entries = await constellation.database.read(lambda tx: list_entries(tx, OWNERS, limit=10))
    assert report.taken.archived == 1
    assert [entry.text for entry in entries] == ["harmless"]


async def test_a_whole_block_is_gone_with_its_history_and_cannot_be_restored(constellation: Constellation):
    await write(constellation, "- an early line that was replaced later")
    await constellation.database.write(lambda tx: record_edit(tx, KEY, Rewrite(f"- {SECRET}")))
    report = await forgetting(constellation).forget("human", None, "The person wanted it.")
    assert report.taken.whole
    await constellation.database.close()
    left = raw_files(constellation)
    assert SECRET.encode() not in left
    assert b"an early line" not in left


async def test_a_forgotten_block_is_neither_listed_nor_restored(constellation: Constellation):
    await write(constellation, f"- {SECRET}")
    await forgetting(constellation).forget("human")
    assert await history(constellation).deleted() == ()
    with pytest.raises(BlockMissingError):
        await MemoryReverts(constellation.database, SCOPE, clock=constellation.clock).restore("human")


async def test_a_deleted_block_can_be_forgotten(constellation: Constellation):
    await write(constellation, f"- {SECRET}")
    await MemoryReverts(constellation.database, SCOPE, clock=constellation.clock).delete("human")
    await forgetting(constellation).forget("human", SECRET)
    await constellation.database.close()
    assert SECRET.encode() not in raw_files(constellation)


async def test_versions_before_the_forgetting_are_gone_but_their_authors_stay(constellation: Constellation):
    await write(constellation, f"- {SECRET}", reason=f"heard: {SECRET}")
    await forgetting(constellation).forget("human", SECRET)
    log = await history(constellation).log("human")
    assert [write.operation for write in log] == ["forget", "append", "create"]
    assert log[1].reason == "heard: [forgotten]"
    with pytest.raises(VersionError, match="forgotten with write 3"):
        await history(constellation).show("human", 2)


async def test_what_was_forgotten_cannot_be_undone(constellation: Constellation):
    await write(constellation, f"- {SECRET}")
    await forgetting(constellation).forget("human", SECRET)
    reverts = MemoryReverts(constellation.database, SCOPE, clock=constellation.clock)
    for number in (2, 3):
        with pytest.raises(UndoConflictError, match="forgotten"):
            await reverts.change("human", partial(plan_undo, number=number))


async def test_the_block_goes_on_after_forgetting(constellation: Constellation):
    await write(constellation, f"- {SECRET}")
    await forgetting(constellation).forget("human", SECRET)
    for number in range(40):
        await write(constellation, f"- line {number}")
    reverts = MemoryReverts(constellation.database, SCOPE, clock=constellation.clock)
    change = await reverts.change("human", plan_undo)
    assert change.after.endswith("- line 38")
    assert (await history(constellation).show("human", 4)).text == "- line 0"


async def test_other_blocks_with_the_words_are_named(constellation: Constellation):
    await write(constellation, f"- {SECRET}")
    await write(constellation, f"- {SECRET}", label="project")
    report = await forgetting(constellation).forget("human", SECRET)
    assert report.others == ("project",)


async def test_reasons_of_writes_to_other_blocks_lose_the_words_as_their_events_do(constellation: Constellation):
    await write(constellation, f"- {SECRET}")
    await write(constellation, "- likes tea", label="project", reason=f"They told me: {SECRET.upper()}")
    report = await forgetting(constellation).forget("human", SECRET)
    assert (report.others, report.left) == ((), ())
    assert (await history(constellation).log("project"))[0].reason == "They told me: [forgotten]"
    assert all(one.problems == () for one in await history(constellation).verify())


async def test_backups_beside_the_file_are_named(constellation: Constellation):
    await write(constellation, f"- {SECRET}")
    backup = constellation.path.with_name("constellation.v1.5.backup.db")
    backup.write_bytes(b"")
    report = await forgetting(constellation).forget("human", SECRET)
    assert report.backups == (backup,)


async def test_a_passage_that_is_too_short_is_refused(constellation: Constellation):
    await write(constellation, "- abc")
    with pytest.raises(UnusableEditError, match="at least 4 characters"):
        await forgetting(constellation).forget("human", " abc ")


async def test_a_reader_of_another_process_is_told_to_be_in_the_way(constellation: Constellation):
    await write(constellation, f"- {SECRET}")
    reader = connect(str(constellation.path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchall()
        report = await forgetting(constellation).forget("human", SECRET)
        assert not report.clean
    finally:
        reader.close()
    await write(constellation, "- another word")
    assert (await forgetting(constellation).forget("human", "another word")).clean


async def test_words_that_are_nowhere_are_refused_and_the_history_stays(constellation: Constellation):
    await write(constellation, f"- {SECRET}")
    with pytest.raises(UnusableEditError, match="neither in it nor recorded anywhere"):
        await forgetting(constellation).forget("human", "something that nobody said")
    assert [one.operation for one in await history(constellation).log("human")] == ["append", "create"]


async def test_words_that_only_a_conversation_holds_cost_the_block_nothing(constellation: Constellation):
    await write(constellation, "- likes tea")
    await constellation.database.write(lambda tx: plant_conversation(tx, SECRET))
    report = await forgetting(constellation).forget("human", SECRET)
    assert report.taken.events >= 5
    assert (await history(constellation).show("human", 1)).text == ""
    await constellation.database.close()
    assert b"quartz" not in raw_files(constellation)


async def test_a_history_that_cannot_be_read_is_not_given_up_for_words_that_are_elsewhere(constellation: Constellation):
    await write(constellation, "- likes tea")
    await write(constellation, "- works at night")
    await constellation.database.write(lambda tx: plant_conversation(tx, SECRET))

    def damage(tx: Transaction) -> None:
        tx.execute("UPDATE block_updates SET data = x'00' WHERE number = 2")
        tx.execute("UPDATE block_archives SET snapshot = x'00'")

    await constellation.database.write(damage)
    report = await forgetting(constellation).forget("human", SECRET)
    assert (report.taken.in_text, report.taken.versions) == (False, 0)
    assert report.others == ("human (maybe, its history is damaged)",)
    assert [one.operation for one in await history(constellation).log("human")] == ["append", "append", "create"]


async def test_words_that_an_older_version_held_are_gone_from_the_history(constellation: Constellation):
    await write(constellation, f"- {SECRET}")
    await constellation.database.write(lambda tx: record_edit(tx, KEY, Rewrite("- likes tea")))
    report = await forgetting(constellation).forget("human", SECRET)
    assert report.after == "- likes tea"
    await constellation.database.close()
    assert b"quartz" not in raw_files(constellation)
