from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.journal.events import Event, JobEnded, JobStarted
from pattern_acp.journal.reader import read_stream
from pattern_acp.journal.turn_ends import RecordedJob, close_lost_jobs, recorded_jobs
from pattern_acp.journal.writer import append
from tests.support.constellation import temporary_constellation

SERVER = JobStarted("job1", "npm run dev", "/work")
TESTS = JobStarted("job2", "npm test", "/work")
PASSED = JobEnded("job2", "exited", 0, None, "ok")


async def test_a_job_without_an_end_is_recorded_as_lost_once():
    async with temporary_constellation() as constellation:

        def fill(tx: Transaction) -> None:
            events: tuple[Event, ...] = (SERVER, TESTS, PASSED)
            for at_ms, event in enumerate(events):
                append(tx, "ses_1", event, actor=Actor.TOOL, origin=Origin.COMMAND, at_ms=at_ms)

        def close(tx: Transaction) -> tuple[RecordedJob, ...]:
            return close_lost_jobs(tx, "ses_1", read_stream(tx, "ses_1"), at_ms=9)

        await constellation.database.write(fill)
        closed = await constellation.database.write(close)
        assert closed == (
            RecordedJob(SERVER, 0, JobEnded("job1", "lost"), 9),
            RecordedJob(TESTS, 1, PASSED, 2),
        )
        assert await constellation.database.write(close) == closed
        recorded = await constellation.database.read(lambda tx: read_stream(tx, "ses_1"))
        assert recorded_jobs(recorded) == closed
        assert len(recorded) == 4
