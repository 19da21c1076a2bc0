"""Landings: all files of workers or none, whatever fails, and the same whoever was ready first."""

import random
import string
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.errors import DatabaseError, PatternError, WorkspaceError
from pattern_acp.journal.codec import CHECKPOINTS
from pattern_acp.journal.events import CheckpointTaken, LandingEnded, LandingStarted
from pattern_acp.journal.reader import read_item
from pattern_acp.memory.errors import BlockCorruptError
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.rewind.checkpoints import Checkpoints
from pattern_acp.rewind.landing import (
    LandingConflict,
    LandingPlan,
    NotLandedError,
    WorkerChanges,
    land,
    land_in_overlay,
    plan_landing,
    undo_landing,
)
from pattern_acp.workspace.errors import DiskIsFullError
from pattern_acp.workspace.files import FileSystem, TextFile
from pattern_acp.workspace.local_files import LocalFileSystem
from pattern_acp.workspace.overlay import Content, OverlayChange, OverlayFileSystem
from tests.support.agent import running_agent
from tests.support.files import FakeFileSystem

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
CALL = ToolCallId("call_1")
TEN = "".join(f"line {number}\n" for number in range(10))

needs_git = pytest.mark.needs("git")


class FailingFiles(LocalFileSystem):
    """Files of which one change fails, counted from 0; `late` says that it is made all the same."""

    def __init__(self, at: int, error: Exception, *, late: bool = False) -> None:
        super().__init__()
        self._left, self._error, self._late = at, error, late

    async def write_text_file(self, path: str, text: str) -> TextFile:
        fails = self._counts()
        if fails and not self._late:
            raise self._error
        written = await super().write_text_file(path, text)
        if fails:
            raise self._error
        return written

    async def remove_file(self, path: str) -> None:
        fails = self._counts()
        if fails and not self._late:
            raise self._error
        await super().remove_file(path)
        if fails:
            raise self._error

    def _counts(self) -> bool:
        self._left -= 1
        return self._left == -1


class Bench:
    """A session in a folder."""

    def __init__(self, folder: Path, checkpoints: Checkpoints) -> None:
        self.folder, self.checkpoints = folder, checkpoints

    def fill(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)

    def state(self) -> dict[str, bytes]:
        found = [each for each in self.folder.rglob("*") if each.is_file()]
        return {str(each.relative_to(self.folder)): each.read_bytes() for each in found}

    def change(self, name: str, before: Content, after: Content, mode: int = 0) -> OverlayChange:
        return OverlayChange(str(self.folder / name), before, after, mode)

    async def land(self, files: FileSystem, *workers: WorkerChanges) -> LandingPlan:
        plan = await plan_landing(files, workers, environment=ENVIRONMENT)
        await land(self.checkpoints, files, plan, CALL)
        return plan

    async def events(self) -> list[object]:
        scope = self.checkpoints.scope
        entries = await scope.database.read(lambda tx: read_item(tx, scope.session_id, CHECKPOINTS))
        return [entry.event for entry in entries]


@asynccontextmanager
async def landing_bench() -> AsyncGenerator[Bench, None]:
    async with running_agent(ScriptedProvider([])) as agent:
        folder = agent.folder.resolve() / "project"
        await anyio.Path(folder).mkdir()
        session = await agent.editor.open_session(str(folder))
        yield Bench(folder, agent.sessions.get(session).checkpoints)


async def test_all_files_are_written_with_one_checkpoint_and_the_journal_says_so():
    async with landing_bench() as bench:
        bench.fill({"a": "a\n", "gone": "gone\n"})
        await bench.land(
            LocalFileSystem(),
            WorkerChanges("one", (bench.change("a", "a\n", "A\n"), bench.change("gone", "gone\n", None))),
            WorkerChanges("two", (bench.change("new/b", None, "b\n", 0o755), bench.change("image", None, b"\0"))),
        )
        assert bench.state() == {"a": b"A\n", "new/b": b"b\n", "image": b"\0"}
        assert (bench.folder / "new" / "b").stat().st_mode & 0o777 == 0o755
        before, started, _, ended, taken = await bench.events()
        assert isinstance(before, CheckpointTaken)
        assert not before.changes
        assert before.name == "before one, two landed"
        assert isinstance(started, LandingStarted)
        assert started.workers == ("one", "two")
        assert isinstance(ended, LandingEnded)
        assert ended.outcome == "landed"
        assert isinstance(taken, CheckpointTaken)
        assert {Path(change.path).name for change in taken.changes} == {"a", "b", "gone", "image"}


NAMES = st.sampled_from(["a", "b", "below/c", "below/d", "new/e"])
TEXTS = st.one_of(st.none(), st.text(string.ascii_letters + "\n", max_size=20))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    before=st.dictionaries(NAMES, st.text("ab\n", max_size=9), max_size=5),
    after=st.dictionaries(NAMES, TEXTS, min_size=1, max_size=5),
    fails=st.integers(0, 6),
    late=st.booleans(),
)
def test_a_failure_at_each_write_leaves_before_or_after(
    before: dict[str, str], after: dict[str, str | None], fails: int, late: bool
):
    async def run() -> None:
        async with landing_bench() as bench:
            bench.fill(before)
            was = bench.state()
            changes = tuple(bench.change(name, before.get(name), text) for name, text in sorted(after.items()))
            files = FailingFiles(fails, DiskIsFullError("The disk is full."), late=late)
            will = {name: text.encode() for name, text in {**before, **after}.items() if text is not None}
            try:
                await bench.land(files, WorkerChanges("one", changes))
                outcome = "landed"
            except NotLandedError:
                outcome = "failed"
            assert bench.state() == (will if outcome == "landed" else was)
            ends = [event.outcome for event in await bench.events() if isinstance(event, LandingEnded)]
            assert ends == [outcome]

    anyio.run(run)


@pytest.mark.parametrize("fails", range(3))
async def test_a_landing_that_was_cut_off_is_undone_when_the_session_is_opened_again(fails: int):
    async with landing_bench() as bench:
        bench.fill({"a": "a\n", "b": "b\n"})
        was = bench.state()
        changes = (
            bench.change("a", "a\n", "A\n"),
            bench.change("b", "b\n", None),
            bench.change("new/c", None, "c\n"),
        )
        with pytest.raises(ZeroDivisionError):
            await bench.land(FailingFiles(fails, ZeroDivisionError(), late=True), WorkerChanges("one", changes))
        again = Checkpoints(bench.checkpoints.scope)
        await again.recover(undo=undo_landing)
        assert bench.state() == was
        assert [event.outcome for event in await bench.events() if isinstance(event, LandingEnded)] == ["undone"]


@needs_git
async def test_what_the_editor_has_now_is_merged_and_what_does_not_fit_is_shown_and_not_guessed():
    async with landing_bench() as bench:
        path = str(bench.folder / "a")
        bench.fill({"a": TEN})
        editor = FakeFileSystem({path: TEN.replace("line 0", "unsaved")}, disk=LocalFileSystem())
        fits = WorkerChanges("one", (bench.change("a", TEN, TEN.replace("line 9", "mine")),))
        plan = await bench.land(editor, fits)
        assert plan.merged == (path,)
        assert editor.texts[path] == TEN.replace("line 0", "unsaved").replace("line 9", "mine")
        clash = WorkerChanges("two", (bench.change("a", TEN, TEN.replace("line 9", "other")),))
        refused = await plan_landing(editor, [clash], environment=ENVIRONMENT)
        (conflict,) = refused.conflicts
        assert conflict.sentence == f"{path} was changed since two began, in a way that does not fit its changes."
        assert "<<<<<<< yours\nmine\n" in conflict.text
        assert refused.writes == ()
        with pytest.raises(NotLandedError, match="does not fit"):
            await land(bench.checkpoints, editor, refused, CALL)


@needs_git
async def test_two_workers_that_touched_one_file_are_merged_or_refused_by_name():
    async with landing_bench() as bench:
        bench.fill({"a": TEN})
        first = WorkerChanges("one", (bench.change("a", TEN, TEN.replace("line 0", "first")),))
        second = WorkerChanges("two", (bench.change("a", TEN, TEN.replace("line 9", "second")),))
        third = WorkerChanges("three", (bench.change("a", TEN, None),))
        await bench.land(LocalFileSystem(), second, first)
        assert bench.state() == {"a": TEN.replace("line 0", "first").replace("line 9", "second").encode()}
        bench.fill({"a": TEN})
        plan = await plan_landing(LocalFileSystem(), [third, first], environment=ENVIRONMENT)
        assert plan.conflicts == (LandingConflict(str(bench.folder / "a"), ("one", "three")),)
        assert "changed by one and three" in plan.conflicts[0].sentence


@pytest.mark.slow
@needs_git
async def test_a_hundred_orders_of_arrival_choose_the_same():
    async with landing_bench() as bench:
        bench.fill({"a": TEN, "b": TEN})
        workers = [
            WorkerChanges(f"w{number}", (bench.change("a", TEN, TEN.replace(f"line {number}", f"w{number}")),))
            for number in (0, 6)
        ]
        workers += [WorkerChanges(name, (bench.change("b", TEN, TEN.replace("line 5", name)),)) for name in ("x", "y")]
        plans: list[LandingPlan] = []
        for seed in range(100):
            shuffled = random.Random(seed).sample(workers, len(workers))
            plans.append(await plan_landing(LocalFileSystem(), shuffled, environment=ENVIRONMENT))
        assert len({repr(plan) for plan in plans}) == 1
        assert [conflict.workers for conflict in plans[0].conflicts] == [("x", "y")]


async def test_what_the_user_changes_while_it_lands_is_not_overwritten():
    async with landing_bench() as bench:
        bench.fill({"a": "a\n", "b": "b\n"})
        plan = await plan_landing(
            LocalFileSystem(),
            [WorkerChanges("one", (bench.change("a", "a\n", "A\n"), bench.change("b", "b\n", "B\n")))],
            environment=ENVIRONMENT,
        )
        bench.fill({"b": "mine\n"})
        with pytest.raises(NotLandedError, match="was changed while"):
            await land(bench.checkpoints, LocalFileSystem(), plan, CALL)
        assert bench.state() == {"a": b"a\n", "b": b"mine\n"}


@pytest.mark.parametrize("name", [".env", "../outside"])
async def test_what_could_not_be_put_back_is_not_landed(name: str):
    async with landing_bench() as bench:
        changes = (bench.change("a", None, "a\n"), OverlayChange(str((bench.folder / name).resolve()), None, "x\n"))
        with pytest.raises(NotLandedError, match="protected or lies outside"):
            await bench.land(LocalFileSystem(), WorkerChanges("one", changes))
        assert bench.state() == {}


async def test_workers_of_a_worker_land_in_its_view_or_not_at_all(tmp_path: Path):
    view = OverlayFileSystem(LocalFileSystem())
    changes: Sequence[OverlayChange] = (
        OverlayChange(str(tmp_path / "a"), None, "a\n"),
        OverlayChange(str(tmp_path / "a" / "b"), None, "b\n"),
    )
    with pytest.raises(WorkspaceError):
        await land_in_overlay(view, LandingPlan(("one",), tuple(changes)))
    assert view.is_clean
    await land_in_overlay(view, LandingPlan(("one",), tuple(changes[:1])))
    assert view.changes() == tuple(changes[:1])


@pytest.mark.parametrize("error", [DatabaseError("The disk is full."), BlockCorruptError("project", "damaged")])
async def test_a_view_is_as_it_was_when_what_comes_with_its_files_cannot_be_recorded(
    tmp_path: Path, error: PatternError
):
    view = OverlayFileSystem(FakeFileSystem({str(tmp_path / "a"): "a\n"}))
    before = OverlayChange(str(tmp_path / "b"), None, "b\n")
    await view.put(before.path, before.after)
    writes = (OverlayChange(str(tmp_path / "a"), "a\n", "A\n", 0o755), OverlayChange(before.path, "b\n", None))

    async def merge() -> None:
        raise error

    with pytest.raises(type(error)):
        await land_in_overlay(view, LandingPlan(("one",), writes), merge)
    assert view.changes() == (before,)


async def test_what_cannot_be_merged_of_memory_leaves_the_files_as_they_were():
    async with landing_bench() as bench:
        bench.fill({"a": "a\n"})
        worker = WorkerChanges("one", (bench.change("a", "a\n", "A\n"), bench.change("b", None, "b\n")))
        plan = await plan_landing(LocalFileSystem(), [worker], environment=ENVIRONMENT)

        def merge(_tx: Transaction) -> None:
            raise BlockCorruptError("project", "its history is damaged")

        with pytest.raises(NotLandedError, match=r"Nothing was landed: .*damaged.* All files are as they were\."):
            await land(bench.checkpoints, LocalFileSystem(), plan, CALL, merge)
        assert bench.state() == {"a": b"a\n"}
        assert [event.outcome for event in await bench.events() if isinstance(event, LandingEnded)] == ["failed"]


async def test_a_landing_that_was_cut_off_at_its_memory_is_undone_with_its_files():
    async with landing_bench() as bench:
        bench.fill({"a": "a\n"})
        plan = await plan_landing(
            LocalFileSystem(), [WorkerChanges("one", (bench.change("a", "a\n", "A\n"),))], environment=ENVIRONMENT
        )

        def merge(_tx: Transaction) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await land(bench.checkpoints, LocalFileSystem(), plan, CALL, merge)
        assert bench.state() == {"a": b"A\n"}
        again = Checkpoints(bench.checkpoints.scope)
        await again.recover(undo=undo_landing)
        assert bench.state() == {"a": b"a\n"}
        assert [event.outcome for event in await bench.events() if isinstance(event, LandingEnded)] == ["undone"]
