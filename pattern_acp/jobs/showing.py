"""Jobs in words: quotes and receipts, as Markdown.

Owns: the words. Must not know: where they are shown.
"""

from pattern_acp.domain.clock import local_minute
from pattern_acp.domain.paths import display_path
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.domain.usage import amount_text
from pattern_acp.jobs.model import JobOutcome, JobRow
from pattern_acp.jobs.quote import hold_for, hold_text
from pattern_acp.journal.job_events import JobQuote, JobQuoted, JobSettled, JobUse

_HASH = 12


def price_text(quote: JobQuote) -> str:
    """The estimate of a quote in money, or in tokens where no price is known."""
    return f"{quote.tokens:,} tokens" if quote.micro_units is None else amount_text(quote.micro_units)


def quote_text(quoted: JobQuoted) -> str:
    """The table of quotes, with plan, files, risks and the end of the offer."""
    rows = [
        f"| {number} | {quote.persona} | `{quote.model}` | {price_text(quote)}, {quote.tokens:,} tokens | "
        f"{hold_text(hold_for(quoted.terms, quote))} | {_past(quote)} |"
        for number, quote in enumerate(quoted.quotes, 1)
    ]
    risks = quoted.risks or ("None to be seen.",)
    return "\n".join(
        [
            f"**Job {quoted.number}: {one_line(quoted.terms.goal, 300)}**",
            "",
            "| | persona | model | estimate | budget | past |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
            *(f"{number}. {step}" for number, step in enumerate(quoted.plan, 1)),
            "",
            *(f"- Risk: {risk}" for risk in risks),
            "",
            f"Files in reach: {quoted.files:,}, with {plural(quoted.symbols, 'symbol')}. "
            f"The offer ends {local_minute(quoted.valid_until_ms)}.",
        ]
    )


def _past(quote: JobQuote) -> str:
    return f"{quote.percent} % of the estimate in {plural(quote.jobs, 'job')}" if quote.jobs else "none yet"


def receipt_line(row: JobRow, settled: JobSettled) -> str:
    """The receipt in one line."""
    used = settled.used or JobUse("", 0, 0, 0)
    checks = [check for check in settled.checks if check.exit_code == 0]
    parts = [
        f"{used.tokens:,} tokens",
        amount_text(used.micro_units),
        f"{used.milliseconds / 1000:.1f} s",
        plural(used.requests, "model request"),
        plural(len(settled.files), "file"),
    ]
    if settled.checks:
        parts.append(f"{len(checks)} of {plural(len(settled.checks), 'check')} passed")
    return f"Job {row.number}: {settled.outcome}. {', '.join(parts)}."


def receipt_text(row: JobRow, quoted: JobQuoted, settled: JobSettled, root: str = "") -> str:
    """The whole receipt; files below `root` by their paths there."""
    if settled.outcome in {JobOutcome.DECLINED, JobOutcome.EXPIRED}:
        return f"Job {row.number}: {settled.outcome}. Nothing was done, and nothing spent."
    released = "" if settled.released is None else hold_text(settled.released)
    over = "" if settled.over is None else hold_text(settled.over)
    lines = [
        f"**{receipt_line(row, settled)}**",
        "",
        f"- Goal: {one_line(quoted.terms.goal, 300)}",
        f"- Agreed by {_who(settled.agreed_by)} on {local_minute(settled.agreed_ms)}, with `{row.model}`",
        *((f"- Given back: {released}",) if released else ()),
        *((f"- Beyond the budget, by the last request: {over}",) if over and over != "no limit" else ()),
        *(
            f"- Part {part.node}: {part.tokens:,} tokens, {amount_text(part.micro_units)}, "
            f"{plural(part.requests, 'model request')}"
            for part in settled.parts
        ),
    ]
    for check in settled.checks:
        ended = "did not end" if check.exit_code is None else f"exit code {check.exit_code}"
        lines.append(f"- Check `{check.command}`: {ended}, output {check.output_hash[:_HASH]}")
    if not settled.checks:
        lines.append("- No check was agreed: nothing but the model says that it is done")
    files = ((display_path(file.path, root) if root else file.path, file.content_hash) for file in settled.files)
    lines += [f"- `{path}` {content_hash[:_HASH] or 'is gone'}" for path, content_hash in files]
    return "\n".join(lines)


def _who(agreed_by: str) -> str:
    return "you" if agreed_by == "person" else agreed_by or "nobody"
