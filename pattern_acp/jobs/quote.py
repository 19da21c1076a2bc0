"""Terms of a job as they are typed, and quotes: what it is likely to cost, worked out without asking a model.

Owns: reading and narrowing terms, such as `"GOAL" --max 2 USD --paths tests/** --check "pytest -q"`; the estimate, the
risks and the plan in words. Must not know: where files, prices and past jobs are read. Pure, and in integers: the same
inputs give the same quotes, in whatever order they come.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.globs import compile_glob
from pattern_acp.domain.text_limits import plural
from pattern_acp.domain.usage import Allowance, Usage, amount_text, parse_allowance
from pattern_acp.jobs.model import JobTermsError
from pattern_acp.journal.job_events import JobHold, JobQuote, JobTerms
from pattern_acp.providers.base import ModelInfo
from pattern_acp.providers.catalogue import cost_of

VALID_MS = 60 * 60_000
"""Life of an offer: prices and files change."""

MOST_QUOTES = 3

LIKELY_FILES = 12
"""Most files that are counted as read and changed; a goal that needs more is several jobs."""

_UNKNOWN_FILES, _UNKNOWN_BYTES = 3, 6_000
"""The guess where there is no code map, or no file has the words of the goal."""
_READ_TOKENS = 60_000
_ANSWER, _RESULT, _WRITTEN = 250, 400, 600
"""Tokens of an answer with a call, of a call's result, and written for a changed file."""
_LEAST_PERCENT, _MOST_PERCENT = 25, 400


class Reach(Struct, frozen=True):
    """The files that a job may have to do with, as the code map knows them.

    `files` may be written; of these, `likely` have the words of the goal, with their `bytes` and `symbols`. `importers`
    are files outside that import some of them, `tests` counts those in reach that are tests. `steps` counts those that
    a plan has, where there is one.
    """

    files: int = 0
    likely: tuple[str, ...] = ()
    bytes: int = 0
    symbols: int = 0
    importers: int = 0
    tests: int = 0
    steps: int = 0


class QuoteCandidate(Struct, frozen=True):
    """A persona and a model that could do the job, with estimated and used tokens of their past jobs."""

    persona: str
    model: ModelInfo
    past: tuple[tuple[int, int], ...] = ()
    is_other: bool = False
    """True for another persona than the session's, which comes second where both cost the same."""

    @property
    def percent(self) -> int:
        """The share of their estimates that past jobs used, the middle one; 100 without any."""
        shares = sorted(used * 100 // estimated for estimated, used in self.past if estimated > 0)
        middle = shares[len(shares) // 2] if shares else 100
        return min(max(middle, _LEAST_PERCENT), _MOST_PERCENT)


def quotes_for(
    terms: JobTerms, reach: Reach, candidates: Iterable[QuoteCandidate], *, base_tokens: int
) -> tuple[JobQuote, ...]:
    """A quote for each candidate, the cheapest first; `base_tokens` are the system prompt and tools of a request."""

    def order(one: tuple[bool, JobQuote]) -> tuple[bool, bool, int, int, bool, str, str]:
        is_other, quote = one
        is_asked, price = bool(terms.model) and quote.model == terms.model, quote.micro_units
        return (not is_asked, price is None, price or 0, quote.tokens, is_other, quote.persona, quote.model)

    quotes = ((one.is_other, _quote(terms, reach, one, base_tokens)) for one in candidates)
    return tuple(quote for _, quote in sorted(quotes, key=order))[:MOST_QUOTES]


def _quote(terms: JobTerms, reach: Reach, candidate: QuoteCandidate, base_tokens: int) -> JobQuote:
    changed = max(len(reach.likely) or _UNKNOWN_FILES, reach.steps)
    read = min((reach.bytes or _UNKNOWN_BYTES * changed) // 4, _READ_TOKENS)
    workers, checks = min(terms.workers, changed), len(terms.checks)
    # With workers, the conversation itself gives the files away, reads reports, and makes up for failed checks.
    parts = [_conversation(0 if workers else changed, 0 if workers else read, checks, base_tokens)]
    shares = [changed // workers + (number < changed % workers) for number in range(workers)]
    parts += [_conversation(share, read * share // changed, 0, base_tokens) for share in shares]
    requests, fresh = sum(part.requests for part in parts), sum(part.fresh for part in parts)
    again, written = sum(part.again for part in parts), sum(part.written for part in parts)
    info = candidate.model
    cached = again if info.cache_read_price or info.is_free else 0
    percent = candidate.percent
    cost = cost_of(info, Usage(fresh + again - cached, written, cache_read_tokens=cached))
    return JobQuote(
        candidate.persona,
        info.qualified,
        max(requests * percent // 100, 1),
        (fresh + again + written) * percent // 100,
        None if cost is None else cost.micro_units * percent // 100,
        percent,
        len(candidate.past),
        info.prices,
    )


class _Conversation(Struct, frozen=True):
    """Tokens that a conversation reads once, reads `again` with later requests, and writes."""

    requests: int
    fresh: int
    again: int
    written: int


def _conversation(changed: int, read: int, checks: int, base_tokens: int) -> _Conversation:
    """The conversation that changes so many files and reads so many tokens of them."""
    # A look around, reading and changing each file, and a second try after each check.
    requests = 3 + 2 * changed + 2 * checks
    # Half of what is read is in the conversation on average, in every request again.
    again = requests * (base_tokens + (read + requests * (_RESULT + _ANSWER)) // 2)
    return _Conversation(
        requests, base_tokens + read + requests * _RESULT, again, requests * _ANSWER + changed * _WRITTEN
    )


def added(quotes: Sequence[JobQuote]) -> JobQuote:
    """The parts of one job as one quote, with the persona and model of the first; one without a price has none."""
    prices = [quote.micro_units for quote in quotes if quote.micro_units is not None]
    return replace(
        quotes[0],
        requests=sum(quote.requests for quote in quotes),
        tokens=sum(quote.tokens for quote in quotes),
        micro_units=sum(prices) if len(prices) == len(quotes) else None,
    )


def is_above(quote: JobQuote, most: Allowance) -> bool:
    """True if an estimate is above an allowance, as far as its price is known."""
    return (most.tokens is not None and quote.tokens > most.tokens) or (
        most.micro_units is not None and (quote.micro_units or 0) > most.micro_units
    )


def hold_for(terms: JobTerms, quote: JobQuote) -> JobHold:
    """The budget to set aside: what the terms set, else twice the estimate, in money where a price is known."""
    hold = hold_of(terms)
    if hold.tokens is not None or hold.micro_units is not None:
        return hold
    if quote.micro_units:
        return JobHold(None, quote.micro_units * 2, hold.milliseconds)
    return JobHold(quote.tokens * 2, None, hold.milliseconds)


def price_text(quote: JobQuote) -> str:
    """The estimate of a quote in money, or in tokens where no price is known."""
    return f"{quote.tokens:,} tokens" if quote.micro_units is None else amount_text(quote.micro_units)


def hold_text(hold: JobHold) -> str:
    """A hold in words."""
    parts = [
        *((amount_text(hold.micro_units),) if hold.micro_units is not None else ()),
        *((f"{hold.tokens:,} tokens",) if hold.tokens is not None else ()),
        *((_time(hold.milliseconds),) if hold.milliseconds is not None else ()),
    ]
    return ", ".join(parts) or "no limit"


def _time(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    return f"{seconds // 60} min" if seconds >= 60 and not seconds % 60 else f"{seconds} s"


def plan_of(terms: JobTerms, reached: Reach, quotes: Sequence[JobQuote]) -> tuple[str, ...]:
    """The plan in sentences."""
    where = f"only in {', '.join(f'`{path}`' for path in terms.paths)}" if terms.paths else "anywhere in the folder"
    named = ", ".join(f"`{path}`" for path in reached.likely[:4]) + (" …" if len(reached.likely) > 4 else "")
    checks = ", ".join(f"`{check}`" for check in terms.checks)
    most = max(quote.requests for quote in quotes)
    reach = f", {plural(reached.files, 'file')} in reach" if reached.files else ""
    workers = f", with those of {plural(terms.workers, 'worker')}" if terms.workers else ""
    return (
        f"Read {plural(len(reached.likely), 'file')} that the goal is likely about: {named}."
        if reached.likely
        else "Find the files that the goal is about; the code map knows none by its words.",
        f"Write {where}{reach}.",
        f"Done when these, which the agent itself runs, exit with 0: {checks}."
        if terms.checks
        else "Done when the model says so.",
        f"About {plural(most, 'model request')}{workers}.",
    )


def risks_of(terms: JobTerms, reach: Reach, quotes: Sequence[JobQuote]) -> tuple[str, ...]:
    """The risks in sentences, none where there are none to be seen."""
    hold = hold_of(terms)
    risks: list[str] = []
    if not terms.checks:
        risks.append("No check proves that it is done (`--check CMD`).")
    if not terms.paths:
        risks.append("Every file of the folder is in reach (`--paths GLOBS`).")
    if terms.checks and reach.tests:
        risks.append(f"{plural(reach.tests, 'test')} in reach: the work can change what a check proves.")
    if reach.importers:
        risks.append(f"{plural(reach.importers, 'file')} outside import what is in reach.")
    if any(quote.micro_units is None for quote in quotes):
        risks.append("No price of some of these models is known, so a budget of money does not count them.")
    short = [quote.model for quote in quotes if is_above(quote, Allowance(hold.micro_units, hold.tokens))]
    if short:
        risks.append(f"The estimate is above the budget with {', '.join(short)}: it may stop unfinished.")
    return tuple(risks)


USAGE = '"GOAL" [--max 2 USD | 60k tokens | 20 min] [--paths GLOBS] [--check CMD]… [--model MODEL] [--workers N]'

MOST_WORKERS = 8

_OPTIONS = frozenset({"--max", "--paths", "--check", "--model", "--workers"})
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"(?=\s|$)|\'[^\']*\'(?=\s|$)|\S+')
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h)(?:ec|in|our)?(?:ond|ute)?s?")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def parse_terms(argument: str) -> JobTerms:
    """The terms that were typed behind /job.

    Raises:
        JobTermsError: they have no goal, or an option that cannot be read.
    """
    goal, options = _split(argument)
    if not goal:
        raise JobTermsError(f"Say what is to be done: `/job {USAGE}`.")
    return _with_options(JobTerms(goal), options)


def narrowed(terms: JobTerms, argument: str) -> JobTerms:
    """The terms with other options instead of those of the same name; the goal stays.

    Raises:
        JobTermsError: nothing would change, or an option cannot be read.
    """
    goal, options = _split(argument)
    if goal or not options:
        raise JobTermsError("Narrow a job by its options, such as `--paths tests/** --max 1 USD`; its goal stays.")
    narrower = _with_options(terms, options)
    if narrower == terms:
        raise JobTermsError("These terms were quoted already; name other paths, checks or another budget.")
    return narrower


def hold_of(terms: JobTerms) -> JobHold:
    """The hold that the terms set; all None where they set none."""
    most = parse_allowance(terms.most) or Allowance()
    return JobHold(most.tokens, most.micro_units, None if terms.seconds is None else terms.seconds * 1000)


def _split(argument: str) -> tuple[str, Mapping[str, Sequence[str]]]:
    """The words in front of the first option, and the text of each option as often as it was typed."""
    goal: list[str] = []
    options: list[tuple[str, list[str]]] = []
    for word in _WORD.findall(argument):
        name, _, value = word.partition("=")
        if name in _OPTIONS:
            options.append((name, [value] if value else []))
        elif options:
            options[-1][1].append(word)
        else:
            goal.append(word)
    found: dict[str, list[str]] = {}
    for name, words in options:
        if not words:
            raise JobTermsError(f"{name} needs a value: `/job {USAGE}`.")
        found.setdefault(name, []).append(_unquoted(words))
    return _unquoted(goal), found


def _unquoted(words: Sequence[str]) -> str:
    if len(words) == 1 and len(words[0]) > 1 and words[0][0] == words[0][-1] and words[0][0] in "\"'":
        return re.sub(r'\\(["\\])', r"\1", words[0][1:-1]) if words[0][0] == '"' else words[0][1:-1]
    return " ".join(words)


def _with_options(terms: JobTerms, options: Mapping[str, Sequence[str]]) -> JobTerms:
    if "--max" in options:
        most, seconds = _most(options["--max"])
        terms = replace(terms, most=most, seconds=seconds)
    if "--paths" in options:
        terms = replace(terms, paths=_globs(options["--paths"]))
    if "--check" in options:
        terms = replace(terms, checks=tuple(dict.fromkeys(options["--check"])))
    if "--model" in options:
        terms = replace(terms, model=options["--model"][-1])
    if "--workers" in options:
        count = options["--workers"][-1]
        if not count.isdecimal() or not 0 < int(count) <= MOST_WORKERS:
            raise JobTermsError(f"--workers takes a number from 1 to {MOST_WORKERS}.")
        terms = replace(terms, workers=int(count))
    return terms


def _most(texts: Sequence[str]) -> tuple[str, int | None]:
    amounts: list[str] = []
    seconds: int | None = None
    for part in (part.strip() for text in texts for part in re.split(r",(?!\d{3})|\band\b|\|", text)):
        time = _TIME.fullmatch(part.lower())
        if time is not None:
            seconds = round(float(time[1]) * _SECONDS[time[2]])
        else:
            amounts.append(part)
    allowance = parse_allowance(", ".join(amounts)) if amounts else Allowance()
    if allowance is None or (amounts and not allowance.is_limited):
        raise JobTermsError(
            "--max takes money, tokens or time, such as `2 USD`, `60k tokens`, `20 min` or `2 USD, 1 h`."
        )
    return (str(allowance) if allowance.is_limited else ""), seconds


def _globs(texts: Sequence[str]) -> tuple[str, ...]:
    globs = tuple(dict.fromkeys(part for text in texts for part in re.split(r"[\s,]+", text) if part))
    for glob in globs:
        parts = glob.replace("\\", "/").split("/")
        if glob.startswith("/") or ".." in parts or ":" in parts[0]:
            raise JobTermsError(f"--paths takes patterns below the session's folder, such as `tests/**`, not {glob!r}.")
        try:
            compile_glob(glob, "/")
        except WorkspaceError as error:
            raise JobTermsError(error.sentence) from error
    return globs
