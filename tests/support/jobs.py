"""Who is told of background commands, in tests that have no journal.

Owns: `SilentObserver`. Must not know: who starts commands.
"""

import anyio.lowlevel

from pattern_acp.workspace.jobs import Job


class SilentObserver:
    """`JobObserver` that keeps the ids it was told, as `started job1` and `ended job1`."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def started(self, job: Job) -> None:
        """See `JobObserver.started`."""
        await anyio.lowlevel.checkpoint()
        self.told.append(f"started {job.job_id}")

    async def wrote(self, job: Job, text: str) -> None:
        """See `JobObserver.wrote`."""

    async def ended(self, job: Job) -> None:
        """See `JobObserver.ended`."""
        await anyio.lowlevel.checkpoint()
        self.told.append(f"ended {job.job_id}")

    async def counted(self, running: int) -> None:
        """See `JobObserver.counted`."""
