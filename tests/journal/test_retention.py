"""What a deleted session loses, what others keep of it, and which contents of files are still needed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pattern_acp.db.connection import Transaction
from pattern_acp.db.driver import ApswConnection
from pattern_acp.db.migrate import load_migrations, migrate
from pattern_acp.db.segment_files import generations
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import canonical_json, sha256_hex
from pattern_acp.domain.clock import MessageId, SessionId, ToolCallId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.domain.tool_calls import FileState, SavedFile, StopReason, ToolCallView, ToolKind
from pattern_acp.journal import sessions
from pattern_acp.journal.codec import _KINDS, decode, encode  # pyright: ignore[reportPrivateUsage]  the list of kinds
from pattern_acp.journal.contents import read_content, store_content
from pattern_acp.journal.events import (
    Event,
    EventsRedacted,
    FilesSaved,
    SessionCreated,
    SessionDeleted,
    SessionTitled,
    SubagentRecorded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from pattern_acp.journal.history import read_history
from pattern_acp.journal.reader import read_stream, verify_stream
from pattern_acp.journal.retention import (
    CONTENT_KINDS,
    blank,
    newest_forgetting_ms,
    old_contents,
    old_sessions,
    sweep_contents,
    sweep_session,
)
from pattern_acp.journal.sessions import NewSession
from pattern_acp.journal.writer import append
from pattern_acp.recovery.segment_export import TABLES, SegmentExporter
from pattern_acp.session.session_row_rebuild import wrong_rows
from tests.journal.test_codec import EVENTS

DAY = 24 * 3_600_000
STAYS = {
    "session_created",
    "session_opened",
    "session_configured",
    "session_closed",
    "session_deleted",
    "session_restored",
    "session_archived",
    "usage_reported",
    "block_committed",
    "block_deleted",
    "block_restored",
    "block_forgotten",
    "archive_imported",
    "memory_forked",
    "memory_fork_joined",
    "memory_fork_ended",
    "block_healed",
    "block_configured",
    "block_shared",
    "entry_archived",
    "entry_verified",
    "entry_status_changed",
    "server_tools_pinned",
    "folder_trust_decided",
    "history_cleared",
    "events_redacted",
    "budget_changed",
    "memory_recalled",
    "tasks_changed",
    "definition_noted",
    "definitions_followed",
    "job_moved",
    "job_settled",
}


class Store:
    """A constellation on disk, written without a loop."""

    def __init__(self, folder: str) -> None:
        self.path = Path(folder) / "c.db"
        self.driver = ApswConnection(self.path, read_only=False, busy_seconds=1.0)
        self.driver.open()
        migrate(self.driver, load_migrations(), now_ms=0)

    def create(self, name: str, parent: str = "", fork_seq: int | None = None) -> None:
        def write(tx: Transaction) -> None:
            known = SessionId(parent) if parent else None
            event = SessionCreated("/w", (), "p", "i", "m/m", "ask", known, fork_seq, "")
            if parent:
                row = tx.one("SELECT hash FROM events WHERE seq = ?", (fork_seq or 0,))
                assert row is not None
                event = SessionCreated("/w", (), "p", "i", "m/m", "ask", known, fork_seq, str(row[0]))
            seq = self.add(tx, name, event, 0)
            new = NewSession(SessionId(name), "/w", (), "p", "i", "m/m", "ask", parent=known, fork_seq=fork_seq)
            sessions.create_session(tx, new, seq=seq, at_ms=0)

        self.driver.write(write)

    def add(self, tx: Transaction, name: str, event: Event, at_ms: int) -> int:
        return append(tx, name, event, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=at_ms).seq

    def turn(self, name: str, words: str, digests: Sequence[str] = (), at_ms: int = 0) -> int:
        """Say something, change files, and end; the number of the event that ends it."""

        def write(tx: Transaction) -> int:
            turn = TurnId(f"turn_{len(words)}")
            message = Message(MessageId("m"), Role.USER, (TextPart(words),))
            seq = self.add(tx, name, TurnStarted(turn, message), at_ms)
            sessions.note_prompt(tx, SessionId(name), seq=seq, at_ms=at_ms)
            sessions.set_title(tx, SessionId(name), "x", seq=seq, at_ms=at_ms)
            for digest in digests:
                state = FileState("file", 0o644, 1, sha256_hex(digest.encode()))
                seq = self.add(tx, name, FilesSaved(turn, (SavedFile("/w/a", state),)), at_ms)
                store_content(tx, sha256_hex(digest.encode()), digest.encode(), seq=seq)
            return self.add(tx, name, TurnEnded(turn, StopReason.END_TURN), at_ms)

        return self.driver.write(write)

    def title(self, name: str, title: str) -> None:
        def write(tx: Transaction) -> None:
            sessions.set_title(tx, SessionId(name), title, seq=self.add(tx, name, SessionTitled(title), 0), at_ms=0)

        self.driver.write(write)

    def delete(self, name: str, at_ms: int) -> None:
        def write(tx: Transaction) -> None:
            sessions.mark_deleted(tx, SessionId(name), seq=self.add(tx, name, SessionDeleted(), at_ms), at_ms=at_ms)

        self.driver.write(write)

    def sweep(self, *, before_ms: int, now_ms: int = 100 * DAY) -> list[str]:
        found: list[str] = [
            one.session_id for one in self.driver.read(lambda tx: list(old_sessions(tx, before_ms=before_ms)))
        ]
        for name in found:
            self.driver.write(
                lambda tx, name=name: sweep_session(tx, SessionId(name), before_ms=before_ms, at_ms=now_ms)
            )
        self.driver.write(lambda tx: sweep_contents(tx, before_ms=0, most_bytes=0, at_ms=now_ms))
        return found

    def words(self, name: str) -> str:
        """Everything that is stored of a session and of what it shares."""
        history = self.driver.read(lambda tx: read_history(tx, name))
        return "".join(canonical_json(encode(entry.event).payload).decode("utf-8", "replace") for entry in history)

    def contents(self) -> set[str]:
        rows = self.driver.read(lambda tx: tx.all("SELECT hash FROM file_contents"))
        return {str(row[0]) for row in rows}

    def sound(self, *names: str) -> bool:
        reports = [self.driver.read(lambda tx, name=name: verify_stream(tx, name)) for name in names]
        return all(report.ok for report in reports)


def test_every_kind_of_event_either_stays_or_loses_its_words():
    kinds = {kind for kind, _ in _KINDS.values()}
    assert len(kinds) == len(get_args(Event))
    assert kinds == CONTENT_KINDS | STAYS
    assert not CONTENT_KINDS & STAYS


@settings(max_examples=60, deadline=None)
@given(EVENTS)
def test_an_event_without_its_words_can_still_be_read(event: Event):
    encoded = encode(event)
    payload = json.loads(canonical_json(blank(encoded.kind, encoded.payload)).decode("utf-8", "surrogatepass"))
    if encoded.kind in CONTENT_KINDS and not isinstance(event, SubagentRecorded):
        decode(encoded.kind, encoded.version, payload)


def test_a_number_with_a_fraction_among_the_arguments_of_a_call_keeps_no_words_from_going():
    view = ToolCallView(ToolCallId("c1"), "search", "Search", ToolKind.SEARCH, {"about": "plums", "least": 0.5}, (), ())
    encoded = encode(ToolCallStarted(TurnId("t1"), view))
    event = decode(encoded.kind, encoded.version, blank(encoded.kind, encoded.payload))
    assert isinstance(event, ToolCallStarted)
    assert event.call.raw_input == {"about": "", "least": ""}


def test_a_session_that_was_deleted_long_ago_loses_its_words_and_its_chain_holds():
    with TemporaryDirectory() as folder:
        store = Store(folder)
        store.create("old")
        store.turn("old", "the plum is ripe " * 2000, ["state"])
        store.title("old", "About a plum")
        store.create("new")
        store.turn("new", "a plum too", ["other"])
        store.delete("old", at_ms=DAY)
        store.delete("new", at_ms=50 * DAY)
        found = store.driver.read(lambda tx: list(old_sessions(tx, before_ms=40 * DAY)))
        assert [(one.session_id, one.size > 10) for one in found] == [("old", True)]
        gone = frozenset(event.seq for event in found[0].events)
        [unused] = store.driver.read(lambda tx: old_contents(tx, without=gone))
        assert (unused.digests, store.driver.read(old_contents)) == ((sha256_hex(b"state"),), ())
        assert store.sweep(before_ms=40 * DAY) == ["old"]
        assert "plum" not in store.words("old")
        assert "plum" in store.words("new")
        assert store.contents() == {sha256_hex(b"other")}
        assert store.sound("old", "new", "constellation")
        assert store.driver.read(lambda tx: tx.one("SELECT title FROM sessions WHERE id = 'old'")) == ("",)
        assert store.driver.read(lambda tx: tx.one("SELECT count(*) FROM blobs")) == (0,)
        assert not list(store.driver.read(wrong_rows)[1])
        assert store.driver.read(lambda tx: sessions.was_swept(tx, "old"))
        assert not store.driver.read(lambda tx: sessions.was_swept(tx, "new"))
        # Nobody wanted words forgotten, so copies of before may stay.
        assert store.driver.read(newest_forgetting_ms) == 0
        assert store.sweep(before_ms=40 * DAY) == []
        store.driver.close()


def test_what_a_fork_shares_stays_until_the_fork_is_swept_too():
    with TemporaryDirectory() as folder:
        store = Store(folder)
        store.create("parent")
        end = store.turn("parent", "shared words", ["shared"])
        store.turn("parent", "parent alone", ["alone"])
        store.create("fork", "parent", end)
        store.turn("fork", "fork words", ["forked"])
        store.delete("parent", at_ms=DAY)
        assert store.sweep(before_ms=2 * DAY) == ["parent"]
        assert "shared words" in store.words("fork")
        assert "alone" not in store.words("parent")
        assert store.contents() == {sha256_hex(b"shared"), sha256_hex(b"forked")}
        store.delete("fork", at_ms=3 * DAY)
        assert store.sweep(before_ms=4 * DAY) == ["parent", "fork"]
        assert "words" not in store.words("fork")
        assert store.contents() == set()
        assert store.sound("parent", "fork", "constellation")
        store.driver.close()


def test_a_session_that_came_back_before_the_sweep_keeps_all():
    with TemporaryDirectory() as folder:
        store = Store(folder)
        store.create("s")
        store.turn("s", "plum")
        assert store.driver.write(lambda tx: sweep_session(tx, SessionId("s"), before_ms=DAY, at_ms=DAY)) == 0
        assert "plum" in store.words("s")
        store.driver.close()


def test_segments_are_written_anew_without_what_was_swept_and_those_of_before_a_restore_stay():
    with TemporaryDirectory() as folder:
        store = Store(folder)
        older = store.path.parent / "segments" / "0001"
        older.mkdir(parents=True)
        (older / "seg-000000000001.jsonl").write_bytes(b'{"x"}\n')
        store.create("s")
        store.turn("s", "a plum", ["file plum"])
        exporter = SegmentExporter(store.path, TABLES)
        exporter.export()
        store.delete("s", at_ms=0)
        store.sweep(before_ms=DAY)
        exported = exporter.export()
        assert exported is not None
        assert (exported.began, [each.name for each in generations(store.path)]) == ("swept", ["0001", "0003"])
        written = b"".join(each.read_bytes() for each in generations(store.path)[-1].rglob("*.jsonl"))
        assert b"plum" not in written
        store.driver.close()


def test_contents_of_files_go_by_age_and_by_size_and_the_newest_stay():
    with TemporaryDirectory() as folder:
        store = Store(folder)
        store.create("s")
        for day, digest in ((1, "first"), (2, "second"), (3, "third"), (4, "first")):
            store.turn("s", f"turn {day}", [digest], at_ms=day * DAY)

        def found(*, before_ms: int = 0, most_bytes: int = 0) -> list[tuple[int, str]]:
            groups = store.driver.read(lambda tx: old_contents(tx, before_ms=before_ms, most_bytes=most_bytes))
            return [(len(group.digests), group.reason) for group in groups]

        assert found() == []
        assert found(before_ms=3 * DAY) == [(1, "older than retention.files_days")]
        assert found(most_bytes=10) == [(1, "beyond retention.files_mb")]
        assert found(before_ms=4 * DAY, most_bytes=5) == [(2, "older than retention.files_days")]
        swept = store.driver.write(lambda tx: sweep_contents(tx, before_ms=3 * DAY, most_bytes=0, at_ms=9 * DAY))
        assert swept == 1
        assert store.driver.read(lambda tx: read_content(tx, sha256_hex(b"second"))) is None
        said = store.driver.read(lambda tx: read_stream(tx, "constellation"))[-1].event
        assert isinstance(said, EventsRedacted)
        assert (said.files, said.cause) == (1, "retention")
        store.driver.close()


def test_nothing_counts_as_unused_while_an_event_cannot_be_read():
    with TemporaryDirectory() as folder:
        store = Store(folder)
        store.create("s")
        store.turn("s", "turn", ["kept"])

        def damage(tx: Transaction) -> None:
            tx.execute("DROP TRIGGER events_are_not_updated")
            tx.execute("UPDATE events SET payload = 'no json' WHERE kind = 'files_saved'")

        store.driver.write(damage)
        assert store.driver.read(old_contents) == ()
        store.driver.close()


@dataclass
class Modelled:
    """What a model of the test knows of a session: its turns with the contents they name, and where it was forked."""

    turns: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    parent: str = ""
    shared: int = 0
    deleted_ms: int | None = None


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), st.integers(0, 5), st.sampled_from("abcd")),
        st.tuples(st.just("fork"), st.integers(0, 5), st.integers(0, 3)),
        st.tuples(st.just("delete"), st.integers(0, 5), st.integers(0, 60)),
        st.tuples(st.just("sweep"), st.integers(0, 60), st.just(0)),
    ),
    max_size=14,
)


def needed_contents(known: dict[str, Modelled], before_ms: int) -> set[str]:
    """Contents that a session names which can be opened or brought back, itself or in what it shares."""
    needed: set[str] = set()
    for one in known.values():
        if one.deleted_ms is None or one.deleted_ms >= before_ms:
            needed |= {content for _, content in one.turns}
            current = one
            while current.parent:
                shared, current = current.shared, known[current.parent]
                needed |= {content for end, content in current.turns if end <= shared}
    return needed


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_content_stays_exactly_as_long_as_a_session_that_can_be_opened_names_it(steps: list[tuple[str, int, object]]):
    with TemporaryDirectory() as folder:
        store = Store(folder)
        store.create("s0")
        known = {"s0": Modelled()}
        swept_ms = 0
        for action, number, more in [*steps, ("sweep", 60, 0)]:
            name = f"s{number % len(known)}"
            one = known[name]
            if action == "turn" and one.deleted_ms is None:
                one.turns.append((store.turn(name, f"said {more}", [str(more)]), str(more)))
            elif action == "fork" and one.deleted_ms is None and one.turns:
                end = one.turns[int(str(more)) % len(one.turns)][0]
                store.create(f"s{len(known)}", name, end)
                known[f"s{len(known)}"] = Modelled(parent=name, shared=end)
            elif action == "delete" and one.deleted_ms is None:
                one.deleted_ms = int(str(more)) * DAY
                store.delete(name, at_ms=one.deleted_ms)
            elif action == "sweep":
                swept_ms = max(swept_ms, number * DAY)
                store.sweep(before_ms=swept_ms)
                contents = {sha256_hex(each.encode()) for each in needed_contents(known, swept_ms)}
                assert store.contents() == contents
        assert store.sound(*known, "constellation")
        store.driver.close()
