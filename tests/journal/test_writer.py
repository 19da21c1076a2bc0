import hashlib
import json
import time
from typing import LiteralString

import pytest

from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.errors import ConstraintError
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import JsonObject, canonical_json
from pattern_acp.domain.clock import MessageId, ToolCallId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart, ToolCallPart
from pattern_acp.domain.tool_calls import DiffContent, TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal import events
from pattern_acp.journal.events import Event
from pattern_acp.journal.reader import Recorded, read_item, read_stream
from pattern_acp.journal.writer import INLINE_BYTES, Appended, append, append_copy
from tests.support.constellation import temporary_constellation

TURN = TurnId("turn_1")
CALL = ToolCallId("call_1")


def add(tx: Transaction, *added: Event, stream: str = "s") -> tuple[Appended, ...]:
    return tuple(append(tx, stream, event, actor=Actor.PERSONA, origin=Origin.MODEL, at_ms=5) for event in added)


async def test_an_appended_event_is_read_back_with_who_when_and_what_it_is_about():
    async with temporary_constellation() as constellation:
        event = events.ToolCallFinished(TURN, CALL, ToolCallStatus.COMPLETED, "done", (TextContent("x"),))

        def write(tx: Transaction) -> Appended:
            return append(tx, "s", event, actor=Actor.TOOL, origin=Origin.COMMAND, at_ms=77)

        appended = await constellation.database.write(write)
        assert await constellation.database.read(lambda tx: read_stream(tx, "s")) == [
            Recorded(appended.seq, 1, 77, Actor.TOOL, Origin.COMMAND, "call_1", event)
        ]
        assert appended.at_ms == 77


async def test_streams_are_numbered_apart_and_ordered_together():
    async with temporary_constellation() as constellation:

        def write(tx: Transaction) -> list[tuple[int, int]]:
            one = add(tx, events.SessionTitled("a"), events.SessionTitled("b"), stream="one")
            other = add(tx, events.SessionTitled("c"), stream="other")
            return [(appended.seq, appended.session_seq) for appended in (*one, *other)]

        assert await constellation.database.write(write) == [(1, 1), (2, 2), (3, 1)]
        later = await constellation.database.read(lambda tx: read_stream(tx, "one", after=1))
        assert [entry.event for entry in later] == [events.SessionTitled("b")]


async def test_an_event_follows_one_that_was_copied_into_its_stream_in_the_same_transaction():
    async with temporary_constellation() as constellation:

        def write(tx: Transaction) -> list[tuple[SqlValue, ...]]:
            add(tx, events.SessionTitled("a"))
            (row,) = tx.all("SELECT at_ms, kind, version, actor, origin, item, payload_hash, salt, chain FROM events")
            names = ("at_ms", "kind", "version", "actor", "origin", "item", "payload_hash", "salt", "chain")
            place = {"stream": "s", "session_seq": 2, "prev_hash": "x", "hash": "copied"}
            append_copy(tx, {**dict(zip(names, row, strict=True)), **place}, b"{}")
            add(tx, events.SessionTitled("b"), events.SessionTitled("c"))
            return tx.all("SELECT session_seq, prev_hash = 'copied' FROM events WHERE session_seq > 2")

        assert await constellation.database.write(write) == [(3, 1), (4, 0)]


@pytest.mark.parametrize(
    ("extra", "encodings"), [(0, []), (1, ["zstd"])], ids=["as long as a row may be", "one byte longer"]
)
async def test_a_payload_leaves_its_row_when_it_is_too_long(extra: int, encodings: list[str]):
    length = INLINE_BYTES - len(canonical_json({"title": ""})) + extra
    async with temporary_constellation() as constellation:
        await constellation.database.write(lambda tx: add(tx, events.SessionTitled("x" * length)))
        rows = await constellation.database.read(lambda tx: tx.all("SELECT encoding FROM blobs"))
    assert [row[0] for row in rows] == encodings


async def test_what_cannot_be_packed_smaller_is_kept_as_it_is():
    # A lone surrogate does not fit into SQLite's text, and so few bytes only grow when they are packed.
    event = events.SessionTitled("\ud800")
    async with temporary_constellation() as constellation:
        await constellation.database.write(lambda tx: add(tx, event))
        rows = await constellation.database.read(lambda tx: tx.all("SELECT encoding FROM blobs"))
        read = await constellation.database.read(lambda tx: read_stream(tx, "s"))
    assert [row[0] for row in rows] == ["raw"]
    assert [entry.event for entry in read] == [event]


async def test_the_hashes_are_what_the_description_says():
    def stored(tx: Transaction) -> list[Row]:
        return tx.all("SELECT payload, payload_hash, prev_hash, hash, salt, at_ms FROM events ORDER BY seq")

    async with temporary_constellation() as constellation:
        await constellation.database.write(lambda tx: add(tx, events.SessionTitled("é"), events.SessionClosed()))
        rows = await constellation.database.read(stored)
    salt = str(rows[0][4])
    payload_hash = hashlib.sha256((salt + '{"title":"é"}').encode()).hexdigest()
    covered = ["0" * 64, payload_hash, "session_titled", "persona", "model", "", 1, 1, rows[0][5], "s", 2]
    first_hash = hashlib.sha256(json.dumps(covered, separators=(",", ":")).encode()).hexdigest()
    assert rows[0][:4] == ('{"title":"é"}', payload_hash, "0" * 64, first_hash)
    assert rows[1][2] == first_hash
    assert (len(salt), rows[1][4] == salt) == (32, False)


async def test_the_events_of_one_call_are_found_by_its_id():
    call = ToolCallView(CALL, "read_file", "Read", ToolKind.READ, {})
    about_the_call: list[Event] = [
        events.ToolCallStarted(TURN, call),
        events.PermissionAsked(TURN, CALL, "why", ("allow_once",)),
        events.PermissionAnswered(TURN, CALL, "allow_once"),
        events.ToolCallFinished(TURN, CALL, ToolCallStatus.COMPLETED, "x"),
    ]
    async with temporary_constellation() as constellation:
        await constellation.database.write(lambda tx: add(tx, events.SessionTitled("a"), *about_the_call))
        found = await constellation.database.read(lambda tx: read_item(tx, "s", CALL))
        assert [entry.event for entry in found] == about_the_call


@pytest.mark.parametrize("text", ["a" * (INLINE_BYTES + 1), "\ud800", "\x00", "𝄞" * 9000])
async def test_any_text_survives_whatever_its_size(text: str):
    async with temporary_constellation() as constellation:
        await constellation.database.write(lambda tx: add(tx, events.SessionTitled(text)))
        found = await constellation.database.read(lambda tx: read_stream(tx, "s"))
        assert [entry.event for entry in found] == [events.SessionTitled(text)]


async def test_a_large_payload_is_kept_once_and_small():
    def blobs(tx: Transaction) -> list[Row]:
        return tx.all("SELECT encoding, size, length(content) < 1000 FROM blobs")

    async with temporary_constellation() as constellation:
        event = events.SessionTitled("a" * 50_000)
        await constellation.database.write(lambda tx: add(tx, event, event))
        assert await constellation.database.read(blobs) == [("zstd", 50_012, 1)]


async def test_an_id_that_is_no_text_still_names_its_events():
    async with temporary_constellation() as constellation:
        event = events.PermissionAnswered(TURN, ToolCallId("call\ud800"), "reject_once")
        await constellation.database.write(lambda tx: add(tx, event))
        found = await constellation.database.read(lambda tx: read_stream(tx, "s"))
        assert [(entry.item, entry.event) for entry in found] == [("call\ufffd\ufffd\ufffd", event)]


@pytest.mark.parametrize("statement", ["UPDATE events SET kind = 'x'", "DELETE FROM events"])
async def test_the_journal_is_append_only(statement: LiteralString):
    async with temporary_constellation() as constellation:
        await constellation.database.write(lambda tx: add(tx, events.SessionTitled("a")))
        with pytest.raises(ConstraintError, match="append-only"):
            await constellation.database.write(lambda tx: tx.execute(statement))


async def test_a_thousand_events_are_read_in_a_moment():
    arguments: JsonObject = {"path": "src/a.py"}
    added: list[Event] = []
    for number in range(250):
        call = ToolCallPart(ToolCallId(f"call_{number}"), "read_file", json.dumps(arguments))
        message = Message(MessageId(f"m{number}"), Role.ASSISTANT, (TextPart("word " * 60), call))
        view = ToolCallView(call.call_id, "read_file", "Read a.py", ToolKind.READ, arguments)
        content = (TextContent("line\n" * 20), DiffContent("/w/a.py", "old", "new"))
        finished = events.ToolCallFinished(TURN, call.call_id, ToolCallStatus.COMPLETED, "line\n" * 20, content)
        answered = events.PermissionAnswered(TURN, call.call_id, "allow_once")
        added += [events.MessageRecorded(TURN, message), events.ToolCallStarted(TURN, view), answered, finished]
    async with temporary_constellation() as constellation:
        await constellation.database.write(lambda tx: add(tx, *added))
        fastest, tries = 1.0, 0
        found: list[Recorded] = []
        # Until one of many falls into a moment in which nothing else runs.
        while fastest >= 0.2 and tries < 30:
            tries += 1
            start = time.perf_counter()
            found = await constellation.database.read(lambda tx: read_stream(tx, "s"))
            fastest = min(fastest, time.perf_counter() - start)
        assert [entry.event for entry in found] == added
        # 25 ms on a quiet machine; the goal is 40 ms, and the margin is for machines that are shared.
        assert fastest < 0.2
