"""What the model reads of background commands.

Owns: the sentences about one, and its new output in a result. Must not know: which tool asks, how commands run.
"""

from pattern_acp.domain.origin import Origin
from pattern_acp.domain.tool_calls import TerminalContent, TextContent, ToolContent
from pattern_acp.tools.base import ToolOutcome
from pattern_acp.tools.text_limits import cut_middle, fenced, one_line, plain_output, plural
from pattern_acp.workspace.jobs import SEEN, Job, JobState

STATUS_ROOM = 500
"""Characters of a result kept free for the sentences in front of the output."""

SHOWN_LINE = 120
"""Characters of a command that a sentence quotes."""

SHOWN_TAIL = 4_000
"""Characters of new output that the person is shown."""


def state_of(job: Job) -> str:
    """How a job is, as the end of a sentence."""
    match job.state:
        case JobState.RUNNING:
            return "is waiting for input" if job.is_waiting_for_input() else "is running"
        case JobState.STOPPED:
            return "was stopped"
        case JobState.LOST:
            return "was lost: the agent's process ended, or its end could not be seen"
        case JobState.EXITED:
            status = job.status
            if status is not None and status.signal is not None:
                return f"was ended by {status.signal}"
            code = "an unknown code" if status is None or status.exit_code is None else f"code {status.exit_code}"
            return f"exited with {code}"


def job_sentence(job: Job) -> str:
    """One sentence about a job."""
    return f"{job.job_id} (`{one_line(job.line, SHOWN_LINE)}`) {state_of(job)}."


def input_advice(job: Job) -> str:
    """What to do about a job that waits for input; empty when it does not."""
    if not job.is_waiting_for_input():
        return ""
    asked = one_line(job.output.last_line(), SHOWN_LINE)
    question = f" Its last line is {asked!r}." if asked else ""
    if job.takes_input:
        return f"{question} Answer with action write of the tool job, or stop it."
    return (
        f"{question} It runs in the editor's terminal, where only the person can type; tell them, or stop it and "
        "run it with flags that need no answer, or with interactive."
    )


def job_outcome(job: Job, *, limit: int, first: str = "", is_error: bool = False) -> ToolOutcome:
    """The state of a job and what it wrote since the last reading, which then counts as read.

    `first` is said before; `limit` is the characters of the whole result.
    """
    if not job.is_running:
        job.end_told = SEEN
    advice = input_advice(job)
    new = job.output.take_new()
    text = plain_output(new.text)
    cut = cut_middle(text, max(limit - STATUS_ROOM, 0))
    dropped = f" {new.bytes_dropped:,} bytes of older output are no longer kept." if new.bytes_dropped else ""
    sentence = " ".join(part for part in (first, job_sentence(job) + advice + dropped) if part)
    body = cut.text.rstrip("\n") or "(no new output)"
    return ToolOutcome(
        f"{sentence}\n{body}",
        is_error=is_error,
        content=_shown(job, sentence, text),
        full_output=new.text if cut.bytes_cut else "",
        origin=Origin.COMMAND,
    )


def job_list(jobs: tuple[Job, ...]) -> str:
    """All jobs, one a line."""
    if not jobs:
        return "There are no background jobs."
    return "\n".join(f"{job_sentence(job)} {plural(job.output.new_lines, 'new line')}." for job in jobs)


def _shown(job: Job, sentence: str, text: str) -> tuple[ToolContent, ...]:
    command = job.command
    if command is not None and command.client_owned and job.is_running:
        return (TerminalContent(command.terminal_id, job.line, job.cwd, client_owned=True), TextContent(sentence))
    tail = text[-SHOWN_TAIL:].strip("\n")
    return (TextContent(fenced(tail, "console")), TextContent(sentence)) if tail else (TextContent(sentence),)
