"""Who writes next: the queue of processes beside a constellation."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pattern_acp.db.driver import PLACES, STALE_NS, FairWriteLock

MS = 1_000_000


class Clock:
    """Nanoseconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000_000_000

    def __call__(self) -> int:
        return self.now


@contextmanager
def queues(path: Path, count: int, clock: Clock | None = None) -> Generator[list[FairWriteLock], None, None]:
    made = [FairWriteLock(path, now=clock or Clock(), sleep=never) for _ in range(count)]
    try:
        yield made
    finally:
        for queue in made:
            queue.close()


def never(seconds: float) -> None:
    raise AssertionError(f"it was not to wait for {seconds} s")


def running() -> bool:
    return False


def test_whoever_finds_the_lock_free_and_nobody_waiting_notes_nothing(tmp_path: Path):
    with queues(tmp_path / "c.db", 1) as (queue,):
        assert queue.acquire(lambda: True, seconds=1, is_stopped=running)
    assert list(tmp_path.iterdir()) == []


def test_who_came_first_is_first(tmp_path: Path):
    clock = Clock()
    with queues(tmp_path / "c.db", 3, clock) as waiting:
        for queue in waiting:
            queue.join()
            clock.now += MS
        assert [queue.ahead() for queue in waiting] == [0, 1, 2]
        waiting[0].leave()
        assert [queue.ahead() for queue in waiting[1:]] == [0, 1]
        waiting[0].join()
        assert [queue.ahead() for queue in waiting] == [2, 0, 1]


def test_a_newcomer_does_not_ask_while_others_wait(tmp_path: Path):
    clock, asked = Clock(), list[str]()

    def attempt() -> bool:
        asked.append("asked")
        return True

    with queues(tmp_path / "c.db", 1, clock) as (first,):
        first.join()

        def first_is_done(_seconds: float) -> None:
            assert asked == []
            first.leave()

        newcomer = FairWriteLock(tmp_path / "c.db", now=clock, sleep=first_is_done)
        clock.now += MS
        assert newcomer.acquire(attempt, seconds=5, is_stopped=running)
        assert asked == ["asked"]
        assert first.ahead() == 0
        newcomer.close()


def test_a_killed_process_is_not_waited_for_and_a_suspended_one_has_its_place_again(tmp_path: Path):
    clock = Clock()
    with queues(tmp_path / "c.db", 2, clock) as (lost, other):
        lost.join()
        clock.now += MS
        other.join()
        assert other.ahead() == 1
        clock.now += STALE_NS + 1
        assert other.ahead() == 0
        assert lost.ahead() == 0
        assert other.ahead() == 1


def test_a_note_of_a_killed_process_is_wiped_out_in_the_end(tmp_path: Path):
    clock = Clock()
    with queues(tmp_path / "c.db", 2, clock) as (lost, other):
        lost.join()
        clock.now += 60_000 * MS
        other.join()
        other.leave()
    assert not any((tmp_path / "c.db-queue").read_bytes())


def test_two_that_chose_one_place_both_get_one(tmp_path: Path):
    clock = Clock()
    with queues(tmp_path / "c.db", 2, clock) as (first, second):
        first.join()
        clock.now += MS
        second.join()
        notes = (tmp_path / "c.db-queue").read_bytes()
        (tmp_path / "c.db-queue").write_bytes(bytes(len(notes)))
        for _ in range(2):
            assert [first.ahead(), second.ahead()][0] == 0
        assert second.ahead() == 1


def test_more_processes_than_places_ask_at_once(tmp_path: Path):
    clock = Clock()
    with queues(tmp_path / "c.db", PLACES + 1, clock) as waiting:
        for queue in waiting:
            queue.join()
            clock.now += 1
        assert waiting[PLACES - 1].ahead() == PLACES - 1
        assert waiting[PLACES].ahead() == PLACES
        waiting[0].leave()
        assert waiting[PLACES].ahead() == PLACES - 1


@pytest.mark.parametrize("damage", [b"", b"\xff" * 1000, b"x" * 5000])
def test_a_damaged_file_keeps_nobody_from_writing(tmp_path: Path, damage: bytes):
    (tmp_path / "c.db-queue").write_bytes(damage)
    answers = iter([False, True])
    queue = FairWriteLock(tmp_path / "c.db", now=Clock(), sleep=lambda _seconds: None)
    assert queue.acquire(lambda: next(answers), seconds=5, is_stopped=running)
    queue.close()


def test_without_a_file_it_is_still_tried_again(tmp_path: Path):
    (tmp_path / "c.db-queue").mkdir()
    answers = iter([False, False, True])
    queue = FairWriteLock(tmp_path / "c.db", now=Clock(), sleep=lambda _seconds: None)
    assert queue.acquire(lambda: next(answers), seconds=5, is_stopped=running)
    queue.close()


def refusing() -> bool:
    return False


def raising() -> bool:
    raise ValueError("a fault")


@pytest.mark.parametrize(
    ("attempt", "seconds", "is_stopped"),
    [(refusing, 0.0, running), (refusing, 5.0, lambda: True)],
)
def test_it_gives_up_in_time_and_when_stopped_and_leaves_no_note(
    tmp_path: Path, attempt: Callable[[], bool], seconds: float, is_stopped: Callable[[], bool]
):
    with queues(tmp_path / "c.db", 1) as (queue,):
        assert not queue.acquire(attempt, seconds=seconds, is_stopped=is_stopped)
        assert not any((tmp_path / "c.db-queue").read_bytes())


def test_an_error_of_the_attempt_reaches_the_caller(tmp_path: Path):
    with queues(tmp_path / "c.db", 1) as (queue,), pytest.raises(ValueError, match="a fault"):
        queue.acquire(raising, seconds=1, is_stopped=running)
