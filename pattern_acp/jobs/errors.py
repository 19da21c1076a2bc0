"""Errors of jobs. Every one means that nothing was changed."""

from pattern_acp.domain.errors import JobError


class JobNotFoundError(JobError):
    """There is no job of this number."""

    failure_code = "jobs.job-missing"

    def __init__(self, number: int) -> None:
        """Name the number."""
        super().__init__(f"There is no job {number}; `pattern-acp jobs` lists them.")


class JobMoveError(JobError):
    """A job cannot go from its state to another one."""

    failure_code = "jobs.move-refused"

    def __init__(self, number: int, before: str, after: str) -> None:
        """Name the job and both states."""
        now = f"is {before}" if before else "is not quoted"
        super().__init__(f"Job {number} {now}, so it cannot be {after}; `/job {number}` shows it.")


class JobTermsError(JobError):
    """The terms of a job cannot be met or read."""

    failure_code = "jobs.terms-wrong"
