"""Terms of a job as they are typed: `"GOAL" --max 2 USD --paths tests/** --check "pytest -q"`.

Owns: reading and narrowing them. Must not know: what they cost.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.globs import compile_glob
from pattern_acp.domain.usage import Allowance, parse_allowance
from pattern_acp.jobs.errors import JobTermsError
from pattern_acp.journal.job_events import JobHold, JobTerms

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
