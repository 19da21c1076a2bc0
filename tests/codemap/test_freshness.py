"""That the word for the index is right whatever happens to the files, and that only what changed is read."""

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pattern_acp.bootstrap.source_files import list_source_files
from pattern_acp.codemap.indexing import (
    RACY_NS,
    IndexDifference,
    compare,
    hash_content,
    index_files,
    known_files,
    word_for,
)
from pattern_acp.codemap.model import Stamp
from pattern_acp.codemap.recording import add_listed, confirm_files, remove_files
from pattern_acp.codemap.store import MIGRATIONS, files_at
from pattern_acp.db.driver import ApswConnection
from pattern_acp.db.migrate import migrate

NAMES = ("a.py", "b.py", "pkg/c.py", "pkg/d.go", "notes.txt")
CONTENTS = ("x = 1\n", "y = 2\n", "def f():\n    pass\n", "")
"""The first two are of the same size."""


class Index:
    """An index on the disk, used without an event loop."""

    def __init__(self, root: Path, path: Path) -> None:
        self.root = str(root)
        self.path = str(path)
        self.driver = ApswConnection(path, read_only=False, busy_seconds=5.0)
        self.driver.open()
        migrate(self.driver, MIGRATIONS, now_ms=0)

    def difference(self) -> IndexDifference:
        listing = list_source_files(self.root, threading.Event())
        return compare(self.root, listing, self.driver.read(known_files), {})

    def refresh(self, paths: Iterable[str] | None = None) -> None:
        found = self.difference()
        now = time.time_ns()
        self.driver.write(lambda tx: add_listed(tx, found.added))
        self.driver.write(lambda tx: remove_files(tx, found.removed))
        self.driver.write(lambda tx: confirm_files(tx, [(path, stamp, now) for path, stamp in found.confirmed]))
        index_files(self.path, self.root, found.to_read if paths is None else tuple(paths))

    def hashes(self) -> dict[str, str]:
        records = self.driver.read(lambda tx: files_at(tx, ""))
        return {record.path: record.content_hash for record in records if record.language}


class Workspace(RuleBasedStateMachine):
    """Files are written, renamed, deleted, swapped and dated back; the index is refreshed in between."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.root = self.folder / "work"
        self.root.mkdir()
        self.index = Index(self.root, self.folder / "index.db")
        self.files: dict[str, str] = {}

    def teardown(self) -> None:
        self.index.driver.close()
        shutil.rmtree(self.folder)

    @rule(name=st.sampled_from(NAMES), content=st.sampled_from(CONTENTS))
    def write(self, name: str, content: str) -> None:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        self.files[name] = content

    @rule(name=st.sampled_from(NAMES), content=st.sampled_from(CONTENTS))
    def replace_and_date_back(self, name: str, content: str) -> None:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        times = (path.stat().st_atime_ns, path.stat().st_mtime_ns) if path.exists() else (10**18, 10**18)
        other = self.root / "other.tmp"
        other.write_text(content)
        other.replace(path)
        os.utime(path, ns=times)
        self.files[name] = content

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            (self.root / name).unlink()
        self.files.pop(name, None)

    @precondition(lambda self: "a.py" in self.files and "b.py" in self.files)
    @rule()
    def swap(self) -> None:
        first, second, between = (self.root / name for name in ("a.py", "b.py", "between"))
        first.rename(between)
        second.rename(first)
        between.rename(second)
        self.files["a.py"], self.files["b.py"] = self.files["b.py"], self.files["a.py"]

    @rule()
    def refresh(self) -> None:
        self.index.refresh()
        assert not self.index.difference().all_paths

    @invariant()
    def the_difference_is_what_differs(self) -> None:
        known = self.index.hashes()
        expected = {name: hash_content(text.encode()) for name, text in self.files.items() if name != "notes.txt"}
        differing = {name for name in expected.keys() | known.keys() if expected.get(name) != known.get(name)}
        assert set(self.index.difference().all_paths) - {"notes.txt"} == differing


Workspace.TestCase.settings = settings(
    max_examples=12, stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestWorkspace = Workspace.TestCase


@pytest.fixture
def index(tmp_path: Path) -> Index:
    root = tmp_path / "work"
    root.mkdir()
    for name in ("a.py", "b.py"):
        (root / name).write_text(f"def {name[0]}():\n    pass\n")
    return Index(root, tmp_path / "index.db")


def word(index: Index, *, complete: bool) -> str:
    return word_for(index.difference(), known=len(index.hashes()), complete=complete)


def test_the_word_follows_what_was_read(index: Index):
    assert word(index, complete=False) == "missing"
    index.refresh(["a.py"])
    assert word(index, complete=False) == "partial"
    index.refresh()
    assert word(index, complete=False) == "fresh"
    Path(index.root, "a.py").write_text("changed = 1\n")
    assert word(index, complete=True) == "stale"


def test_only_what_changed_is_read_again(index: Index):
    index.refresh()
    Path(index.root, "a.py").write_text("changed = 1\n")
    assert index.difference().to_read == ("a.py",)


def test_a_file_that_was_only_touched_is_confirmed_by_its_content(index: Index):
    index.refresh()
    os.utime(Path(index.root, "a.py"), ns=(1, 1))
    found = index.difference()
    assert (found.changed, "a.py" in [path for path, _ in found.confirmed]) == ((), True)


def test_a_stamp_is_trusted_once_it_is_old_enough(index: Index):
    index.refresh()
    stamps = {path: known.stamp for path, known in index.driver.read(known_files).items()}
    newest = max(max(stamp.mtime_ns, stamp.ctime_ns) for stamp in stamps.values())

    def confirm(read_ns: int) -> None:
        index.driver.write(lambda tx: confirm_files(tx, [(path, stamp, read_ns) for path, stamp in stamps.items()]))

    confirm(newest)
    assert [path for path, _ in index.difference().confirmed] == ["a.py", "b.py"]
    confirm(newest + RACY_NS)
    assert index.difference().confirmed == ()


def test_links_and_what_they_lead_to_are_not_read(index: Index, tmp_path: Path):
    (tmp_path / "outside.py").write_text("secret = 1\n")
    Path(index.root, "link.py").symlink_to(tmp_path / "outside.py")
    index.refresh()
    assert sorted(index.hashes()) == ["a.py", "b.py"]
    assert index_files(index.path, index.root, ["link.py"]) == 0


@pytest.mark.parametrize(
    ("make", "note"),
    [
        (lambda: b"a = 1\n" * 200_000, "larger than 1 MB"),
        (lambda: b"a\0b", "binary"),
        (lambda: b"var a=1;" * 4_000, "minified"),
        (lambda: b"# Code generated by a tool. DO NOT EDIT.\nx = 1\n", "generated"),
    ],
)
def test_what_no_person_wrote_is_not_parsed_and_says_why(index: Index, make: Callable[[], bytes], note: str):
    Path(index.root, "a.py").write_bytes(make())
    index.refresh()
    (record,) = index.driver.read(lambda tx: files_at(tx, "a.py"))
    assert (record.status, record.note) == ("skipped", note)
    assert not index.difference().all_paths


def test_a_file_that_waited_for_its_grammar_is_read_once_there_is_one(index: Index):
    index.refresh()
    index.driver.write(lambda tx: tx.execute("UPDATE files SET status = 'no_grammar' WHERE path = 'a.py'"))
    listing = list_source_files(index.root, threading.Event())
    known = index.driver.read(known_files)
    assert compare(index.root, listing, known, {"python": "tree-sitter-python"}).to_read == ()
    assert compare(index.root, listing, known, {}).to_read == ("a.py",)


def test_a_stamp_of_any_size_fits_into_the_index(index: Index):
    stamp = Stamp(1, 2, 3, 2**63 - 1)
    index.refresh()
    index.driver.write(lambda tx: confirm_files(tx, [("a.py", stamp, 4)]))
    assert index.driver.read(known_files)["a.py"].stamp == stamp
