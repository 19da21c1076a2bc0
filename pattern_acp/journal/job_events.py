"""Events of jobs: work whose price, reach and proof the user agreed to before it began.

A background command is no job of this kind; its events are `JobStarted` and `JobEnded`.
"""

from msgspec import Struct

from pattern_acp.domain.clock import TurnId


class JobTerms(Struct, frozen=True):
    """The terms that the user set: the goal, the most it may use, where it may write, and what proves that it is done.

    `paths` are globs below the session's folder, empty for all of it. `checks` are command lines. `most` is an
    allowance (`domain.usage`) and `seconds` a time without the user's; neither has to be set.
    """

    goal: str
    most: str = ""
    seconds: int | None = None
    paths: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    model: str = ""
    workers: int = 0


class JobQuote(Struct, frozen=True):
    """An estimate for one persona and model; `micro_units` is None where no price is known.

    `percent` is what `jobs` such jobs took of their estimates in the past; the numbers are multiplied by it already.
    """

    persona: str
    model: str
    requests: int
    tokens: int
    micro_units: int | None
    percent: int = 100
    jobs: int = 0
    prices: str = ""


class JobHold(Struct, frozen=True):
    """The most that a job may use; None for as much as it takes, and 0 for nothing at all."""

    tokens: int | None = None
    micro_units: int | None = None
    milliseconds: int | None = None


class JobQuoted(Struct, frozen=True):
    """A job was estimated. Another one of the same job, with narrower terms, takes its place; `round` counts them.

    `files` and `symbols` are in reach; `plan` and `risks` are sentences. The offer ends at `valid_until_ms`.
    """

    turn_id: TurnId
    job_id: str
    number: int
    round: int
    terms: JobTerms
    quotes: tuple[JobQuote, ...]
    files: int
    symbols: int
    plan: tuple[str, ...]
    risks: tuple[str, ...]
    valid_until_ms: int


class JobMoved(Struct, frozen=True):
    """A job went to another state: agreed, working or settling. `by` is `person` or `engine`.

    To agree, `quote` is the chosen one and `hold` the budget that is set aside; `hold` on the way to work is the budget
    after an extension. `spent_ms` is the time that the state before took, without the user's.
    """

    turn_id: TurnId
    job_id: str
    state: str
    by: str
    hold: JobHold | None = None
    quote: int | None = None
    spent_ms: int = 0


class JobCheck(Struct, frozen=True):
    """A check that the engine ran, and what came of it. `exit_code` is None where the command did not end."""

    command: str
    exit_code: int | None
    output_hash: str


class JobFile(Struct, frozen=True):
    """A file that the job changed, and the SHA-256 of its bytes at the end; empty where it is gone."""

    path: str
    content_hash: str


class JobUse(Struct, frozen=True):
    """The use of a job, or of the part that `node` names."""

    node: str
    requests: int
    tokens: int
    micro_units: int
    milliseconds: int = 0


class JobSettled(Struct, frozen=True):
    """A job is over; this is its receipt, which nothing changes later.

    `outcome` is `completed`, `checks failed`, `budget exhausted`, `stopped`, `declined` or `expired`. `released` is the
    rest of the hold, `over` what the last requests used beyond it. `parts` are the uses of subagents, which are in
    `used` too.
    """

    turn_id: TurnId
    job_id: str
    outcome: str
    by: str
    agreed_by: str = ""
    agreed_ms: int = 0
    used: JobUse | None = None
    parts: tuple[JobUse, ...] = ()
    released: JobHold | None = None
    over: JobHold | None = None
    checks: tuple[JobCheck, ...] = ()
    files: tuple[JobFile, ...] = ()
    spent_ms: int = 0
