"""Segments of a constellation: what is written when, and what a rebuild makes of them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from pattern_acp.db.backup import back_up
from pattern_acp.db.connection import Row, Transaction, change_file, open_database, read_file
from pattern_acp.db.segment_files import FOLDER, encode_line, generations, only_writer, segments
from pattern_acp.db.table_rows import all_rows, columns_of, tables_of_state
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.journal import events
from pattern_acp.journal.codec import SegmentsError
from pattern_acp.journal.sessions import NewSession, create_session, get_session, set_title
from pattern_acp.journal.writer import append
from pattern_acp.recovery.backups import lost_constellation, restore
from pattern_acp.recovery.checks import Health, Repair, repair, verify
from pattern_acp.recovery.garbage_collection import RetentionPolicy, find_sweepable, sweep
from pattern_acp.recovery.rebuild import rebuild_into, take_place
from pattern_acp.recovery.segment_export import MADE_AGAIN, TABLES, SegmentExporter, keep_segments
from pattern_acp.session.redaction import RedactionWanted, redact_session, take_out
from pattern_acp.trust import remove_agreement, store_agreement
from tests.support.constellation import FakeClock

NOW = FakeClock().now_ms()
SESSION = SessionId("ses_1")
SECRET = "the words " + "that go"


class EnoughError(Exception):
    """Ends what goes on for ever."""


def add(tx: Transaction, event: events.Event) -> int:
    return append(tx, SESSION, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=NOW).seq


def begin(tx: Transaction) -> None:
    new = NewSession(SESSION, "/work", (), "default", "identity", "offline/offline", "ask")
    seq = add(tx, events.SessionCreated("/work", (), "default", "identity", "offline/offline", "ask"))
    create_session(tx, new, seq=seq, at_ms=NOW)


def title(tx: Transaction, text: str) -> None:
    set_title(tx, SESSION, text, seq=add(tx, events.SessionTitled(text)), at_ms=NOW)


def fill(tx: Transaction) -> None:
    begin(tx)
    title(tx, SECRET)
    # Two payloads that are large: one stands in a line, one in a file.
    add(tx, events.ErrorReported(None, "large", "word " * 4_000))
    add(tx, events.ErrorReported(None, "larger", os.urandom(200_000).hex()))
    title(tx, "The newest title")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "constellation.db"
    anyio.run(make, path)
    return path


async def make(path: Path) -> None:
    async with open_database(path, clock=FakeClock()) as database:
        await database.write(fill)


def export(path: Path, **more: int) -> str:
    done = SegmentExporter(path, TABLES, **more).export()
    assert done is not None
    return done.began


def state(path: Path) -> dict[str, list[Row]]:
    def read(tx: Transaction) -> dict[str, list[Row]]:
        tables = ("events", "blobs", *TABLES.by_row, *TABLES.whole)
        return {table: all_rows(tx, table, columns_of(tx, table)) for table in tables}

    return read_file(path, read)


def destroy(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def test_every_table_of_state_is_in_segments_or_is_made_again(path: Path):
    assert {*TABLES.by_row, *TABLES.whole, *MADE_AGAIN} == set(read_file(path, tables_of_state))


@pytest.mark.parametrize("segment_bytes", [10_000_000, 20_000])
def test_a_destroyed_constellation_is_rebuilt_row_for_row(path: Path, segment_bytes: int):
    assert export(path, segment_bytes=segment_bytes) == "first"
    before = state(path)
    destroy(path)
    fresh = path.with_name("fresh.db")
    told: list[str] = []
    report = rebuild_into(path, fresh, number=0, now_ms=NOW, progress=lambda what, _done, _of: told.append(what))
    assert list(dict.fromkeys(told)) == [
        "reading segments",
        "comparing sessions",
        "indexing sessions",
        "checking what was rebuilt",
    ]
    assert (report.problems, report.longer, report.generation) == ((), (), "0001")
    assert (report.rebuilt.events, report.rebuilt.torn, report.rebuilt.damaged) == (5, 0, ())
    assert (report.sessions, report.blocks) == (1, 0)
    assert take_place(path, fresh, now_ms=NOW) is None
    assert state(path) == before
    assert export(path) == ""
    assert len(generations(path)) == 1


def test_a_table_that_is_written_as_a_whole_may_have_many_rows_and_lose_some(path: Path):
    def trust(tx: Transaction, count: int) -> None:
        seq = add(tx, events.ErrorReported(None, "any", "any"))
        for number in range(count):
            store_agreement(tx, f"/folder/{number}", "digest", (), seq=seq, at_ms=NOW)

    change_file(path, lambda tx: trust(tx, 120))
    exporter = SegmentExporter(path, TABLES)
    exporter.export()

    def revoke(tx: Transaction) -> None:
        trust(tx, 0)
        remove_agreement(tx, "/folder/7")

    change_file(path, revoke)
    exporter.export()
    fresh = path.with_name("fresh.db")
    rebuild_into(path, fresh, number=0, now_ms=NOW)
    assert len(state(fresh)["folder_trust"]) == 119
    assert state(fresh) == state(path)


def test_what_was_committed_since_is_added_and_nothing_is_written_twice(path: Path):
    export(path)
    change_file(path, lambda tx: title(tx, "Another"))
    [segment] = segments(generations(path)[0])
    before = segment.read_bytes()
    export(path)
    after = segment.read_bytes()
    assert after.startswith(before)
    assert after[len(before) :].count(b'"e":') == 1
    export(path)
    assert segment.read_bytes() == after


def test_a_tail_that_is_gone_is_written_again(path: Path):
    export(path)
    before = state(path)
    [segment] = segments(generations(path)[0])
    content = segment.read_bytes()
    segment.write_bytes(content[: content.index(b'"e":[3') - 17])
    export(path)
    report = rebuild_into(path, path.with_name("fresh.db"), number=0, now_ms=NOW)
    assert (report.rebuilt.events, report.rebuilt.damaged, report.problems) == (5, (), ())
    assert state(path.with_name("fresh.db")) == before


def test_wherever_writing_was_cut_off_what_was_written_before_is_rebuilt_and_sound(path: Path):
    export(path)
    [segment] = segments(generations(path)[0])
    content = segment.read_bytes()
    fresh = path.with_name("fresh.db")
    last = content.rindex(b'"e":[5') - 16
    content = content[: content.index(b"\n", last) + 1]
    for length in (*range(last - 1, len(content), 97), len(content) - 1):
        segment.write_bytes(content[:length])
        report = rebuild_into(path, fresh, number=0, now_ms=NOW)
        assert report.rebuilt.events == 4, length
        assert (report.rebuilt.torn, report.rebuilt.damaged) == (int(length > last), ())
        assert (report.problems, report.sessions) == ((), 1)
        destroy(fresh)


def test_a_damaged_line_is_named_and_the_chain_says_which_event_is_missing(path: Path):
    export(path)
    [segment] = segments(generations(path)[0])
    content = segment.read_bytes()
    segment.write_bytes(content.replace(b'"e":[2,', b'"e":[7,'))
    report = rebuild_into(path, path.with_name("fresh.db"), number=0, now_ms=NOW)
    assert len(report.rebuilt.damaged) == 1
    assert report.rebuilt.torn == 0
    assert "event 2 of the stream is missing" in report.problems[0]
    assert verify(path)[-1].repair == Repair("move", str(generations(path)[0]), safe=True)
    assert "Damaged at seg-000000000001.jsonl" in verify(path)[-1].detail
    repair(path, verify(path), now_ms=NOW)
    assert generations(path) == []
    export(path)
    assert verify(path)[-1].health is Health.OK


def test_damage_in_an_older_segment_is_found(path: Path):
    for number in range(3):
        change_file(path, lambda tx, number=number: title(tx, f"Title {number}"))
        export(path, segment_bytes=100)
    first, *_, newest = segments(generations(path)[0])
    assert first != newest
    first.write_bytes(first.read_bytes().replace(b'"e":[2,', b'"e":[7,'))
    assert f"Damaged at {first.name}" in verify(path)[-1].detail


_EXPORTS = """
import sys
from pathlib import Path
from pattern_acp.recovery.segment_export import TABLES
from pattern_acp.db.connection import change_file
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.journal import events
from pattern_acp.recovery.segment_export import SegmentExporter
from pattern_acp.journal.writer import append
path = Path(sys.argv[1])
exporter = SegmentExporter(path, TABLES, segment_bytes=20_000)
def add(tx):
    for text in ("word " * 400, "long " * 20_000):
        append(tx, "ses_1", events.ErrorReported(None, "any", text), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=1)
while True:
    change_file(path, add)
    exporter.export()
    print("exported", flush=True)
"""


def test_a_process_that_is_killed_while_it_writes_segments_damages_none_of_them(path: Path):
    for round_number in range(1, 4):
        child = subprocess.Popen([sys.executable, "-c", _EXPORTS, str(path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        for _ in range(round_number):
            assert child.stdout.readline() == b"exported\n"
        child.kill()
        child.communicate()
    export(path)
    assert verify(path)[-1].health is Health.OK
    count = read_file(path, lambda tx: tx.one("SELECT count(*) FROM events"))
    report = rebuild_into(path, path.with_name("fresh.db"), number=0, now_ms=NOW)
    assert ((report.rebuilt.events,), report.rebuilt.damaged, report.problems) == (count, (), ())


@pytest.mark.parametrize("gone", [True, False])
def test_a_value_of_a_file_of_its_own_that_is_damaged_or_gone_is_found_before_it_is_needed(path: Path, gone: bool):
    export(path)
    [value] = (generations(path)[0] / "blobs").iterdir()
    value.unlink() if gone else value.write_bytes(b"another")
    assert f"the file {value.name[:12]}" in verify(path)[-1].detail
    repair(path, verify(path), now_ms=NOW)
    export(path)
    assert verify(path)[-1].health is Health.OK


def test_a_segment_that_was_deleted_is_found_by_the_number_of_events(path: Path):
    for number in range(3):
        change_file(path, lambda tx, number=number: title(tx, f"Title {number}"))
        export(path, segment_bytes=100)
    first, second, *_ = segments(generations(path)[0])
    second.unlink()
    assert "events are missing" in verify(path)[-1].detail
    repair(path, verify(path), now_ms=NOW)
    assert not first.exists()
    export(path)
    assert verify(path)[-1].health is Health.OK


@pytest.mark.parametrize("segment_bytes", [10_000_000, 20_000])
def test_segments_without_their_first_line_are_rebuilt_all_the_same(path: Path, segment_bytes: int):
    export(path, segment_bytes=segment_bytes)
    before = state(path)
    first = segments(generations(path)[0])[0]
    first.write_bytes(first.read_bytes().replace(b'"segment"', b'"sogment"'))
    report = rebuild_into(path, path.with_name("fresh.db"), number=0, now_ms=NOW)
    assert (len(report.rebuilt.damaged), report.problems) == (1, ())
    assert state(path.with_name("fresh.db")) == before


def test_a_session_whose_row_was_damaged_gets_it_again_from_its_events(path: Path):
    export(path)
    [segment] = segments(generations(path)[0])
    segment.write_bytes(segment.read_bytes().replace(b'"t":"sessions"', b'"t":"Sessions"'))
    fresh = path.with_name("fresh.db")
    report = rebuild_into(path, fresh, number=0, now_ms=NOW)
    assert (len(report.rebuilt.damaged), report.problems, report.sessions) == (1, (), 1)
    row = read_file(fresh, lambda tx: get_session(tx, SESSION))
    assert row is not None
    assert (row.title, row.cwd, row.mode, row.last_seq) == ("The newest title", "/work", "ask", 5)


def test_a_row_that_is_not_what_its_events_say_is_found(path: Path):
    change_file(path, lambda tx: tx.execute("UPDATE sessions SET title = 'Another', archived = 1"))
    [found] = [one for one in verify(path) if one.name == "Verified sessions"]
    assert found.health is Health.BROKEN
    assert "the title of session ses_1 is Another, by its events The newest title" in found.detail
    assert "the archived of session" in found.detail


def test_an_event_that_nobody_understands_is_left_to_the_check_of_its_chain(path: Path):
    change_file(path, lambda tx: tx.execute("DROP TRIGGER events_are_not_updated"))
    change_file(path, lambda tx: tx.execute("UPDATE events SET kind = 'of_tomorrow' WHERE seq = 3"))
    export(path)
    report = rebuild_into(path, path.with_name("fresh.db"), number=0, now_ms=NOW)
    assert [problem.partition(":")[0] for problem in report.problems] == ["Verified journal"]
    assert report.sessions == 1


def test_a_large_payload_that_is_gone_is_named_by_its_chain(path: Path):
    export(path)
    shutil.rmtree(generations(path)[0] / "blobs")
    report = rebuild_into(path, path.with_name("fresh.db"), number=0, now_ms=NOW)
    assert report.rebuilt.missing_payloads == 1
    assert "the file" in report.rebuilt.damaged[0]
    assert "its payload was changed" in report.problems[0]


def test_a_line_that_says_what_nobody_knows_is_damage(path: Path):
    export(path)
    [segment] = segments(generations(path)[0])
    with segment.open("ab") as file:
        file.write(encode_line({"t": "secrets", "r": [1]}))
        file.write(encode_line({"w": "secrets", "rows": []}))
        file.write(encode_line({"t": "grants", "r": [1]}))
        file.write(encode_line({"segment": 1, "tables": {"secrets": ["x"], "grants": ["evil"]}}))
    report = rebuild_into(path, path.with_name("fresh.db"), number=0, now_ms=NOW)
    assert len(report.rebuilt.damaged) == 3
    assert report.problems == ()


def test_after_a_restore_the_segments_begin_anew_and_the_longer_ones_stay(path: Path):
    back_up(path, path.with_name("copy.db"))
    change_file(path, lambda tx: title(tx, "Lost by the restore"))
    export(path)
    before = state(path)
    restore(path, path.with_name("copy.db"), now_ms=NOW)
    assert export(path) == "diverged"
    assert [each.name for each in generations(path)] == ["0001", "0002"]
    report = rebuild_into(path, path.with_name("fresh.db"), number=0, now_ms=NOW)
    assert (report.generation, report.rebuilt.events, report.longer) == ("0002", 5, ("0001",))
    rebuild_into(path, path.with_name("old.db"), number=1, now_ms=NOW)
    assert state(path.with_name("old.db")) == before
    old = generations(path)[0]
    for each in segments(old):
        os.utime(each, (NOW / 1000, NOW / 1000))
    assert find_sweepable(path, RetentionPolicy(NOW)) == []
    for each in segments(old):
        os.utime(each, (1, 1))
    found = find_sweepable(path, RetentionPolicy(NOW))
    assert [one.path for one in found] == [str(old)]
    sweep(path, found, RetentionPolicy(NOW))
    assert [each.name for each in generations(path)] == ["0002"]


async def test_words_that_were_redacted_are_in_no_segment_and_no_file_of_them(path: Path):
    export(path)
    assert holding(path, SECRET)
    async with open_database(path, clock=FakeClock()) as database:
        _, clean = await redact_session(database, RedactionWanted(SESSION, match=SECRET, reason="test"), at_ms=NOW)
    assert clean
    assert not holding(path, SECRET)
    assert export(path) == "first"
    assert not holding(path, SECRET)
    report = rebuild_into(path, path.with_name("fresh.db"), number=0, now_ms=NOW)
    assert report.problems == ()
    assert state(path.with_name("fresh.db")) == state(path)


def test_words_are_gone_from_the_file_when_the_process_ends_before_it_wrote_it_anew(path: Path):
    # Longer than a page, and still in the row: its pages are freed when it gets shorter.
    said = f"{SECRET} " * 250
    change_file(path, lambda tx: add(tx, events.ErrorReported(None, "long", said)))
    assert SECRET.encode() in path.read_bytes()
    change_file(path, lambda tx: take_out(tx, RedactionWanted(SESSION, match=SECRET), at_ms=NOW))
    left = b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))
    assert SECRET.encode() not in left
    export(path)
    assert all(SECRET.encode() not in each.read_bytes() for each in path.parent.rglob("*") if each.is_file())


async def test_segments_of_before_a_redaction_go_when_nobody_deleted_them(path: Path, tmp_path: Path):
    export(path)
    shutil.copytree(path.parent / FOLDER, tmp_path / "kept")
    async with open_database(path, clock=FakeClock()) as database:
        await redact_session(database, RedactionWanted(SESSION, match=SECRET, reason="test"), at_ms=NOW)
    shutil.copytree(tmp_path / "kept", path.parent / FOLDER, dirs_exist_ok=True)
    assert export(path) == "forgotten"
    assert not holding(path, SECRET)
    assert [each.name for each in generations(path)] == ["0002"]
    assert export(path) == ""


async def test_a_redaction_that_finds_another_process_writing_says_that_something_is_left(path: Path):
    export(path)
    async with open_database(path, clock=FakeClock()) as database:
        with only_writer(path):
            assert await database.rewrite() is False
        assert await database.rewrite() is True


def test_segments_of_another_schema_or_of_none_are_written_anew(path: Path):
    export(path)
    [segment] = segments(generations(path)[0])
    lines = segment.read_bytes().split(b"\n")
    header = encode_line({"segment": 1, "schema": 3, "tables": {}}).strip(b"\n")
    segment.write_bytes(b"\n".join([b"", header, *lines[2:]]))
    assert export(path) == "schema"
    assert [each.name for each in generations(path)] == ["0002"]
    for each in segments(generations(path)[0]):
        each.write_bytes(b"no line of ours\n")
    assert export(path) == "diverged"
    assert [each.name for each in generations(path)] == ["0002", "0003"]


def test_while_another_process_writes_segments_this_one_leaves_them_alone(path: Path):
    with only_writer(path):
        assert SegmentExporter(path, TABLES).export() is None
    assert generations(path) == []


def test_what_cannot_be_rebuilt_is_refused_with_a_sentence(path: Path):
    fresh = path.with_name("fresh.db")
    with pytest.raises(SegmentsError, match="There are no segments of"):
        rebuild_into(path, fresh, number=0, now_ms=NOW)
    export(path)
    with pytest.raises(SegmentsError, match="no segments number 7"):
        rebuild_into(path, fresh, number=7, now_ms=NOW)
    with pytest.raises(DatabaseError, match="exists already"):
        rebuild_into(path, path, number=0, now_ms=NOW)
    [segment] = segments(generations(path)[0])
    segment.write_bytes(encode_line({"segment": 99, "schema": 1}))
    with pytest.raises(SegmentsError, match="of a newer pattern-acp"):
        rebuild_into(path, fresh, number=0, now_ms=NOW)
    segment.write_bytes(b"nothing")
    with pytest.raises(SegmentsError, match="no event in"):
        rebuild_into(path, fresh, number=0, now_ms=NOW)
    segment.write_bytes(encode_line({"segment": 1, "schema": 1, "tables": {}}))
    with pytest.raises(SegmentsError, match="no event in"):
        rebuild_into(path, fresh, number=0, now_ms=NOW)


def test_a_constellation_that_is_gone_is_offered_from_its_segments(path: Path):
    export(path)
    destroy(path)
    assert "journal rebuild --from 1 --replace" in lost_constellation(path)


def test_a_constellation_whose_log_was_lost_with_all_that_was_in_it_is_offered_from_its_segments(path: Path):
    export(path)
    page = path.read_bytes()[:4096]
    destroy(path)
    # As copying the file alone leaves it, while a first session is open.
    path.write_bytes(page)
    assert "journal rebuild --from 1 --replace" in lost_constellation(path)
    path.with_name("constellation.db-wal").write_bytes(b"")
    assert "was empty" in lost_constellation(path)
    path.with_name("constellation.db-wal").write_bytes(b"a log that is read before anything is said")
    assert lost_constellation(path) == ""


async def test_segments_follow_what_is_committed_and_a_failure_is_tried_again(path: Path):
    async with open_database(path, clock=FakeClock()) as database:
        looks = 0

        async def pause() -> None:
            nonlocal looks
            looks += 1
            match looks:
                case 1:
                    path.with_name(FOLDER).write_text("in the way", encoding="utf-8")
                case 2:
                    assert not generations(path)
                    path.with_name(FOLDER).unlink()
                case 3:
                    assert len(generations(path)) == 1
                    await database.write(lambda tx: title(tx, "Committed meanwhile"))
                case 5:
                    raise EnoughError
                case _:
                    pass

        with pytest.raises(EnoughError):
            await keep_segments(database, pause)
    assert holding(path, "Committed meanwhile")


def holding(path: Path, words: str) -> list[Path]:
    files = (each for each in (path.parent / FOLDER).rglob("*") if each.is_file())
    return [each for each in files if words.encode() in each.read_bytes()]


def test_segments_whose_first_line_found_no_room_are_begun_again_and_do_not_pile_up(path: Path):
    # As a full disk leaves them, tried every few seconds.
    for name, content in (("0001", b""), ("0002", b'{"segment":1,"sch')):
        folder = path.parent / FOLDER / name
        (folder / "blobs").mkdir(parents=True)
        (folder / "seg-000000000001.jsonl").write_bytes(content)
    assert export(path) == "first"
    assert [each.name for each in generations(path)] == ["0001"]
    target = path.with_name("again.db")
    assert not rebuild_into(path, target, number=0, now_ms=NOW).problems


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_rebuild_that_finds_no_room_leaves_no_half_of_a_file(path: Path, tmp_path: Path):
    export(path)
    program = (
        "import resource, signal, sys; from pathlib import Path;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000));"
        "from pattern_acp.recovery.rebuild import rebuild_into;"
        "rebuild_into(Path(sys.argv[1]), Path(sys.argv[2]), number=0, now_ms=1)"
    )
    target = tmp_path / "made" / "again.db"
    target.parent.mkdir()
    ended = subprocess.run(
        [sys.executable, "-B", "-c", program, str(path), str(target)], capture_output=True, text=True, check=False
    )
    assert "Error" in ended.stderr
    assert list(target.parent.iterdir()) == []
