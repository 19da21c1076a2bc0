"""Bundles of sessions, and whoever changes one."""

import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId, SessionId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.journal import events, verify_bundle
from pattern_acp.journal.bundle import BundledStream, Mask, bundled_streams, make_bundle, without_content
from pattern_acp.journal.sessions import NewSession, create_session
from pattern_acp.journal.verify_bundle import Anchor, BundleReport, chain_hash, describe, parse_anchor
from pattern_acp.journal.writer import append
from tests.support.constellation import temporary_constellation

PARENT, SESSION = SessionId("parent"), SessionId("ses_1")
TURN = TurnId("turn_1")

Line = dict[str, Any]


def message(text: str) -> Message:
    return Message(MessageId("msg_1"), Role.USER, (TextPart(text),))


def record(tx: Transaction) -> None:
    created = events.SessionCreated("/w", (), "default", "id", "offline/offline", "ask")
    first = append(tx, PARENT, created, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=1)
    create_session(tx, NewSession(PARENT, "/w", (), "default", "id", "offline/offline", "ask"), seq=first.seq, at_ms=1)
    shared = append(
        tx, PARENT, events.TurnStarted(TURN, message("Hello é")), actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=2
    )
    append(tx, PARENT, events.SessionTitled("not shared"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=3)
    forked = events.SessionCreated("/w", (), "default", "id", "m", "ask", PARENT, shared.seq, shared.hash)
    fork = append(tx, SESSION, forked, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=4)
    new = NewSession(SESSION, "/w", (), "default", "id", "m", "ask", parent=PARENT, fork_seq=shared.seq)
    create_session(tx, new, seq=fork.seq, at_ms=4)
    for text in ("one", "two" * 4000, "three" * 4000, "four"):
        said = events.TurnStarted(TURN, message(text))
        append(tx, SESSION, said, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=5)


@cache
def bundle(mask: Mask | None = None, redaction: str = "none") -> bytes:
    async def streams() -> tuple[BundledStream, ...]:
        async with temporary_constellation() as constellation:
            await constellation.database.write(record)
            return await constellation.database.read(lambda tx: bundled_streams(tx, SESSION, mask))

    return make_bundle(SESSION, anyio.run(streams), {"conversation.md": b"# x\n"}, redaction=redaction, program="0")


def bundle_at(path: Path, mask: Mask | None = None, redaction: str = "none") -> Path:
    path.write_bytes(bundle(mask, redaction))
    return path


class Forgery:
    """The parts of a bundle, to be changed and put together again."""

    def __init__(self, path: Path) -> None:
        with zipfile.ZipFile(path) as file:
            self.files = {name: file.read(name) for name in file.namelist()}
        self.manifest = json.loads(self.files["manifest.json"])
        self.lines: list[Line] = [json.loads(line) for line in self.files["events.jsonl"].splitlines()]

    @property
    def blobs(self) -> list[str]:
        return [name for name in self.files if name.startswith("blobs/")]

    def rechain(self, *, with_forks: bool = True) -> None:
        """Compute every hash anew, as somebody who knows how it is done can."""
        heads: dict[str, str] = {}
        for line in self.lines:
            line["prev_hash"] = heads.get(line["stream"], "0" * 64)
            if "payload" in line:
                salted = line["salt"].encode() + verify_bundle.canonical_json(line["payload"])
                line["payload_hash"] = hashlib.sha256(salted).hexdigest()
            line["hash"] = heads[line["stream"]] = chain_hash(line, line["prev_hash"])
            for other in self.lines if with_forks else ():
                if other["kind"] == "session_created" and other["payload"].get("fork_seq") == line["seq"]:
                    other["payload"]["fork_hash"] = line["hash"]
        self.manifest["streams"] = [
            {"stream": name, "head": head, "events": sum(line["stream"] == name for line in self.lines)}
            for name, head in heads.items()
        ]

    def write(self, path: Path) -> None:
        self.files["events.jsonl"] = b"".join(verify_bundle.canonical_json(line) + b"\n" for line in self.lines)
        del self.files["manifest.json"]
        self.manifest["files"] = {name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()}
        self.files["manifest.json"] = json.dumps(self.manifest).encode()
        with zipfile.ZipFile(path, "w") as file:
            for name, data in self.files.items():
                file.writestr(name, data)


def edit(forgery: Forgery) -> None:
    forgery.lines[3]["payload"]["message"]["parts"][0]["text"] = "forged"


def reorder(forgery: Forgery) -> None:
    forgery.lines[3], forgery.lines[4] = forgery.lines[4], forgery.lines[3]


def renumber(forgery: Forgery) -> None:
    reorder(forgery)
    forgery.lines[3]["session_seq"], forgery.lines[4]["session_seq"] = 2, 3
    forgery.lines[3]["seq"], forgery.lines[4]["seq"] = forgery.lines[4]["seq"], forgery.lines[3]["seq"]


def drop(forgery: Forgery) -> None:
    del forgery.lines[3]


def insert(forgery: Forgery) -> None:
    forgery.lines.insert(4, forgery.lines[3])


def truncate(forgery: Forgery) -> None:
    del forgery.lines[-1]


def swap_blobs(forgery: Forgery) -> None:
    one, other = forgery.blobs
    forgery.files[one], forgery.files[other] = forgery.files[other], forgery.files[one]


def swap_references(forgery: Forgery) -> None:
    forgery.lines[4]["blob"], forgery.lines[5]["blob"] = forgery.lines[5]["blob"], forgery.lines[4]["blob"]


def drop_blob(forgery: Forgery) -> None:
    del forgery.files[f"blobs/{forgery.lines[4]['blob']}"]


def drop_name(forgery: Forgery) -> None:
    del forgery.lines[3]["actor"]


def no_event(forgery: Forgery) -> None:
    forgery.lines[3] = cast("Line", [1])


def change(name: str, value: object, place: int = 3) -> Callable[[Forgery], None]:
    def apply(forgery: Forgery) -> None:
        forgery.lines[place][name] = value

    return apply


def rechain_one(forgery: Forgery) -> None:
    edit(forgery)
    line = forgery.lines[3]
    line["payload_hash"] = hashlib.sha256(
        line["salt"].encode() + verify_bundle.canonical_json(line["payload"])
    ).hexdigest()
    line["hash"] = chain_hash(line, line["prev_hash"])


def rechain_parent(forgery: Forgery) -> None:
    forgery.lines[1]["payload"]["message"]["parts"][0]["text"] = "forged"
    forgery.rechain(with_forks=False)


def mark_masked(forgery: Forgery) -> None:
    edit(forgery)
    forgery.lines[3]["masked"] = True
    del forgery.lines[3]["salt"]


def claim_redacted(forgery: Forgery) -> None:
    edit(forgery)
    content = hashlib.sha256(verify_bundle.canonical_json(forgery.lines[3]["payload"])).hexdigest()
    forgery.lines[3]["redacted"] = {"payload_hash": content, "by": forgery.lines[4]["seq"]}


def add_file(forgery: Forgery) -> None:
    forgery.files["blobs/" + "0" * 64] = b"more"


@pytest.mark.parametrize(
    ("tamper", "index", "problem"),
    [
        (edit, 2, "payload was changed"),
        (reorder, 2, "missing, or not in its place"),
        (renumber, 2, "does not follow"),
        (drop, 2, "missing, or not in its place"),
        (insert, 3, "missing, or not in its place"),
        (truncate, 5, "the end was cut off"),
        (swap_blobs, 3, "payload was changed"),
        (swap_references, 3, "payload was changed"),
        (change("actor", "persona"), 2, "actor"),
        (change("origin", "model"), 2, "origin"),
        (change("at_ms", 77), 2, "time"),
        (change("kind", "session_titled"), 2, "kind"),
        (change("item", "turn_2"), 2, "item"),
        (change("version", 9), 2, "version"),
        (change("salt", ""), 2, "payload was changed"),
        (change("chain", 1), 2, "place was changed"),
        (change("seq", 1), 2, "order"),
        (change("stream", "other"), 2, "missing, or not in its place"),
        (change("redacted", 5), 2, "cannot be read"),
        (change("note", "more"), 2, "'note', which no such event does"),
        (change("masked", False), 2, "'masked', which no such event does"),
        (change("redacted", {"payload_hash": "", "by": 1, "note": 1}), 2, "'note', which no such event does"),
        (change("blob", "0" * 64), 2, "'payload', which no such event does"),
        (drop_blob, 3, "payload is missing"),
        (drop_name, 2, "cannot be read"),
        (no_event, 2, "cannot be read"),
        (rechain_one, 3, "does not follow"),
        (rechain_parent, 1, "history that it shares"),
        (mark_masked, 0, "masked although"),
        (claim_redacted, 3, "says nothing of the words that are gone"),
        (add_file, 0, "no event has"),
    ],
)
def test_a_change_to_a_bundle_is_found_where_it_was_made(
    tmp_path: Path, tamper: Callable[[Forgery], None], index: int, problem: str
):
    forgery = Forgery(bundle_at(tmp_path / "b.zip"))
    tamper(forgery)
    forgery.write(tmp_path / "forged.zip")
    report = verify_bundle.verify_bundle(tmp_path / "forged.zip")
    assert not report.ok
    assert problem in report.problem
    assert report.index == index


def test_a_bundle_as_it_was_made_is_sound(tmp_path: Path):
    report = verify_bundle.verify_bundle(bundle_at(tmp_path / "b.zip"))
    assert (report.ok, report.session, report.events, report.proven) == (True, SESSION, 7, 7)
    assert "cannot be recognised" in describe(report)


def with_checkpoint(tx: Transaction) -> None:
    created = events.SessionCreated("/w", (), "default", "id", "m", "ask")
    first = append(tx, SESSION, created, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=1)
    create_session(tx, NewSession(SESSION, "/w", (), "default", "id", "m", "ask"), seq=first.seq, at_ms=1)
    for _ in range(5):
        append(tx, PARENT, events.SessionTitled("of another"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=2)
    for number in range(2):
        told = append(tx, SESSION, events.SessionTitled("t"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=3)
        taken = events.CheckpointTaken(f"chk_{number}", TURN, "turn", "", told.session_seq, told.hash, told.seq)
        append(tx, SESSION, taken, actor=Actor.SYSTEM, origin=Origin.WORKSPACE, at_ms=4)


@pytest.mark.parametrize(
    ("place", "seq", "index"),
    [(1, 8, 3), (2, 7, 3), (3, 8, 4), (3, 10, 5)],
    ids=["event above its checkpoint", "checkpoint at its own event", "event below the one before", "event above"],
)
async def test_a_number_over_all_streams_that_no_checkpoint_allows_is_found(
    tmp_path: Path, place: int, seq: int, index: int
):
    async with temporary_constellation() as constellation:
        await constellation.database.write(with_checkpoint)
        streams = await constellation.database.read(lambda tx: bundled_streams(tx, SESSION, None))
    path = tmp_path / "b.zip"
    path.write_bytes(make_bundle(SESSION, streams, {}, redaction="none", program="0"))
    forgery = Forgery(path)
    assert [line["seq"] for line in forgery.lines] == [1, 7, 8, 9, 10]
    forgery.lines[place]["seq"] = seq
    forgery.write(tmp_path / "forged.zip")
    report = verify_bundle.verify_bundle(tmp_path / "forged.zip")
    assert (report.ok, report.index) == (False, index)


async def test_a_number_over_all_streams_that_every_checkpoint_allows_is_not_found(tmp_path: Path):
    async with temporary_constellation() as constellation:
        await constellation.database.write(with_checkpoint)
        streams = await constellation.database.read(lambda tx: bundled_streams(tx, SESSION, None))
    path = tmp_path / "b.zip"
    path.write_bytes(make_bundle(SESSION, streams, {}, redaction="none", program="0"))
    forgery = Forgery(path)
    # Those of another stream lay between.
    forgery.lines[1]["seq"] = 4
    forgery.write(tmp_path / "forged.zip")
    assert verify_bundle.verify_bundle(tmp_path / "forged.zip").ok


def cut_and_rechain(forgery: Forgery) -> None:
    truncate(forgery)
    forgery.rechain()


def edit_and_rechain(forgery: Forgery) -> None:
    edit(forgery)
    forgery.rechain()


@pytest.mark.parametrize(("tamper", "problem"), [(cut_and_rechain, "cut off"), (edit_and_rechain, "recomputed")])
def test_what_an_unkeyed_chain_cannot_tell_an_anchor_does(
    tmp_path: Path, tamper: Callable[[Forgery], None], problem: str
):
    forgery = Forgery(bundle_at(tmp_path / "b.zip"))
    anchor = Anchor(SESSION, 5, forgery.manifest["streams"][-1]["head"])
    assert verify_bundle.verify_bundle(tmp_path / "b.zip", [anchor]).anchored
    tamper(forgery)
    forgery.write(tmp_path / "forged.zip")
    assert verify_bundle.verify_bundle(tmp_path / "forged.zip").ok
    report = verify_bundle.verify_bundle(tmp_path / "forged.zip", [anchor])
    assert not report.ok
    assert problem in report.problem


def test_a_masked_bundle_shows_no_words_and_its_chain_still_fits(tmp_path: Path):
    path = bundle_at(tmp_path / "b.zip", without_content, "content")
    with zipfile.ZipFile(path) as file:
        lines = file.read("events.jsonl").decode()
    assert "Hello" not in lines
    assert "/w" not in lines
    assert all(not json.loads(line).get("salt") for line in lines.splitlines() if json.loads(line).get("masked"))
    report = verify_bundle.verify_bundle(path)
    assert (report.ok, report.masked) == (True, 7)
    assert "not proven" in describe(report)


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04 cut"])
def test_what_is_no_bundle_is_said_to_be_none(tmp_path: Path, content: bytes):
    (tmp_path / "b.zip").write_bytes(content)
    assert "not a bundle" in verify_bundle.verify_bundle(tmp_path / "b.zip").problem


@pytest.mark.parametrize("manifest", [b"[]", b"5", b"{}", b'{"format": 1}', b"[" * 100_000])
def test_a_manifest_of_another_form_is_said_to_be_no_bundle(tmp_path: Path, manifest: bytes):
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
        file.writestr("manifest.json", manifest)
        file.writestr("events.jsonl", b"")
    assert "not a bundle" in verify_bundle.verify_bundle(tmp_path / "b.zip").problem


def test_a_manifest_without_what_it_should_say_is_said_to_be_no_bundle(tmp_path: Path):
    for name in ("streams", "files", "session"):
        for value in cast("tuple[object, ...]", (None, [], 5, [5], {})):
            forgery = Forgery(bundle_at(tmp_path / "b.zip"))
            with zipfile.ZipFile(tmp_path / "forged.zip", "w") as file:
                for each, data in forgery.files.items():
                    changed = json.dumps({**forgery.manifest, name: value}).encode()
                    file.writestr(each, changed if each == "manifest.json" else data)
            assert not verify_bundle.verify_bundle(tmp_path / "forged.zip").ok, (name, value)


@pytest.mark.parametrize("cut", [10, 200, 2000])
def test_a_bundle_that_was_cut_is_not_sound(tmp_path: Path, cut: int):
    path = bundle_at(tmp_path / "b.zip")
    path.write_bytes(path.read_bytes()[:-cut])
    assert not verify_bundle.verify_bundle(path).ok


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', '{"a":1.5}', '{"a":NaN}'])
def test_json_that_can_be_read_in_two_ways_is_refused(text: str):
    with pytest.raises(ValueError, match=r"twice|whole"):
        verify_bundle.parse_json(text.encode())


def test_an_anchor_is_found_among_other_words():
    text = f"pattern-acp journal ses_1:12:{'a' * 64}"
    assert parse_anchor(text) == Anchor("ses_1", 12, "a" * 64)
    with pytest.raises(ValueError, match="SESSION:NUMBER:HASH"):
        parse_anchor("nothing")


def test_the_check_runs_as_one_file_that_needs_nothing_else(tmp_path: Path):
    path = bundle_at(tmp_path / "b.zip")
    alone = tmp_path / "check.py"
    alone.write_bytes(Path(verify_bundle.__file__).read_bytes())
    done = subprocess.run(
        [sys.executable, "-I", str(alone), str(path)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Sound: 7 events")


def test_its_command_line_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert verify_bundle.main([]) == 2
    assert verify_bundle.main([str(tmp_path / "none.zip")]) == 2
    assert verify_bundle.main([str(tmp_path / "none.zip"), "no anchor"]) == 2
    (tmp_path / "b.zip").write_bytes(b"x")
    assert verify_bundle.main([str(tmp_path / "b.zip")]) == 1
    assert "NOT SOUND" in capsys.readouterr().out


def test_a_report_names_what_it_could_not_check():
    report = BundleReport("s", events=3, proven=1, redacted=2, outside=1, anchored=True)
    assert "2 redacted" in describe(report)
    assert "outside of this bundle" in describe(report)
