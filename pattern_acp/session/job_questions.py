"""The question about quotes of a job, in a form or with buttons, and what its answer says; and files in reach of a job.

Owns: the options, narrower terms, the record of question and answer, and which files count as likely by the code map of
the session. Must not know: what follows from an answer, or what a job costs.
"""

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from pattern_acp.codemap.lookups import files_named, importer_counts, paths_and_tests, symbol_counts, symbols_with_word
from pattern_acp.commands.document import as_result, markdown
from pattern_acp.commands.jobs import quote_parts
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import canonical_json
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.globs import compile_glob
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.jobs.model import MOST_ROUNDS, JobTermsError
from pattern_acp.jobs.quote import LIKELY_FILES, Reach, hold_for, hold_text, narrowed, price_text
from pattern_acp.journal.events import JobQuoted, PermissionAnswered, PermissionAsked, ToolCallFinished, ToolCallStarted
from pattern_acp.journal.job_events import JobHold, JobQuote, JobTerms
from pattern_acp.policy.decision import ApprovalOption, ApprovalRequest, PermissionAnswer, UserQuestion
from pattern_acp.session.context_usage import stable_part
from pattern_acp.session.state import code_of
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.codemap.model import IndexProgress
    from pattern_acp.session.ports import Dialogue, ExtendedDialogue


JOB_CALL = "job_offer"
"""Name of the call that shows the question."""

NARROW, DECLINE = "Narrow it first", "No, leave it"


class JobQuestion(Struct, frozen=True):
    """A question about quotes, which one of `labels` agrees to, one for each, and one of `refusals` does not."""

    quoted: JobQuoted
    title: str
    labels: tuple[str, ...]
    refusals: tuple[str, ...]
    """The last is the answer of those who do not answer."""
    narrow: str = ""
    """The option that asks for narrower terms; empty for none."""
    takes_words: bool = False
    """True where options that the user writes narrow it, too, without such an option."""
    why: str = ""
    """The reason for the question, above the quotes."""


async def ask_about(dialogue: "Dialogue", question: JobQuestion) -> int | JobTerms | str:
    """Ask: the number of the quote that the user agrees to, narrower terms, or a refusal.

    Terms that cannot be read, or that are not narrower, are named, and the user is asked again.
    """
    quoted, refused = question.quoted, question.refusals[-1]
    options = (*question.labels, *((question.narrow,) if question.narrow else ()), *question.refusals)
    turn_id, problem = dialogue.turn_id, question.why
    for _ in range(MOST_ROUNDS):
        call_id = ToolCallId(dialogue.shared.ids.new("call"))
        shown = TextContent(markdown(as_result(problem, *quote_parts(quoted)).document))
        call = ToolCallView(call_id, JOB_CALL, question.title, ToolKind.OTHER, {"job": quoted.number}, (), (shown,))
        asked = PermissionAsked(turn_id, call_id, question.title, options)
        started = NewEvent(ToolCallStarted(turn_id, call), Actor.SYSTEM)
        await dialogue.recorder.record(started, NewEvent(asked, Actor.SYSTEM))
        answer = await dialogue.approver.put(UserQuestion(call, shown.text, options, is_closed=True))
        if answer is None:
            answer = await _by_buttons(dialogue, call, question)
        result: int | JobTerms | str = refused
        try:
            result = await _understood(dialogue, question, call, answer)
            problem = ""
        except JobTermsError as error:
            problem = error.sentence
        said = (
            question.labels[result] if isinstance(result, int) else NARROW if isinstance(result, JobTerms) else result
        )
        said = problem or said
        status = ToolCallStatus.FAILED if problem or isinstance(result, str) else ToolCallStatus.COMPLETED
        ended = ToolCallFinished(turn_id, call_id, status, said, (shown, TextContent(f"**{said}**")))
        await dialogue.recorder.record(
            NewEvent(PermissionAnswered(turn_id, call_id, said), Actor.HUMAN, Origin.PERSON),
            NewEvent(ended, Actor.SYSTEM),
        )
        if not problem:
            return result
    return refused


async def _understood(
    dialogue: "Dialogue", question: JobQuestion, call: ToolCallView, answer: str
) -> int | JobTerms | str:
    """The meaning of an answer.

    Raises:
        JobTermsError: its terms cannot be read, or are not narrower.
    """
    chosen = next((index for index, label in enumerate(question.labels) if answer.startswith(label)), None)
    wish = answer[answer.index("--") :] if "--" in answer else ""
    if chosen is None and wish and (question.narrow or question.takes_words):
        return narrowed(question.quoted.terms, wish)
    if chosen is None and question.narrow and answer.startswith(question.narrow):
        return await _narrower(dialogue, question.quoted, call) or question.refusals[-1]
    refused = next((one for one in question.refusals if answer.startswith(one)), question.refusals[-1])
    return refused if chosen is None else chosen


async def _by_buttons(dialogue: "Dialogue", call: ToolCallView, question: JobQuestion) -> str:
    """The answer of a client that shows one button of a kind."""
    kinds = (PermissionAnswer.ALLOW_ONCE, PermissionAnswer.ALLOW_ALWAYS)
    names = (*question.labels, *question.refusals[:-1])
    offered: dict[PermissionAnswer, str] = dict(zip(kinds, names, strict=False))
    options = [ApprovalOption(kind, label) for kind, label in offered.items()]
    options.append(ApprovalOption(PermissionAnswer.REJECT_ONCE, question.refusals[-1]))
    return offered.get(await dialogue.approver.ask(ApprovalRequest(call, call.title, tuple(options))), "")


async def _narrower(dialogue: "Dialogue", quoted: JobQuoted, call: ToolCallView) -> JobTerms | None:
    """Narrower terms that the user chooses now; None where they give none.

    Raises:
        JobTermsError: they cannot be read, or are not narrower.
    """
    terms = quoted.terms
    half = hold_for(terms, quoted.quotes[0])
    halved = hold_text(
        JobHold(None if half.tokens is None else half.tokens // 2, half.micro_units and half.micro_units // 2)
    )
    text = "Narrow it by which options? For example: --paths tests/** --max 1 USD --check CMD"
    answer = await dialogue.approver.put(UserQuestion(call, text, (f"--max {halved}", DECLINE), is_closed=True))
    wish = answer[answer.index("--") :] if answer and "--" in answer else ""
    return narrowed(terms, wish) if wish else None


def label_of(terms: JobTerms, each: JobQuote) -> str:
    """The words that agree to a quote, as a form shows them, whose answer is compared with them."""
    most = hold_text(hold_for(terms, each))
    return one_line(f"{each.persona} with {each.model}: about {price_text(each)}, at most {most}")


_WORD = re.compile(r"[^\W\d_]{4,}")
_MOST_WORDS = 24


async def reach_of(dialogue: "Dialogue", terms: JobTerms) -> Reach:
    """The files that the terms leave in reach; nothing where there is no code map.

    Raises:
        WorkspaceError: the index can be neither read nor made again.
    """
    code = code_of(dialogue.shared, dialogue.state)
    if code is None:
        return Reach()
    found, _ = await code.ask(
        dialogue.state.policy.roots[0], lambda tx: reach_in(tx, terms), on_progress=_unshown, briefly=True
    )
    return found or Reach()


async def _unshown(_progress: "IndexProgress") -> None:
    return


def reach_in(tx: Transaction, terms: JobTerms) -> Reach:
    """The same by an index, in the order of paths, so that it gives the same each time."""
    globs = [compile_glob(pattern, "/") for pattern in terms.paths]
    known = {
        path: is_test
        for path, is_test in paths_and_tests(tx).items()
        if not globs or any(glob.matches(path) for glob in globs)
    }
    words = tuple(dict.fromkeys(word.lower() for word in _WORD.findall(terms.goal)))[:_MOST_WORDS]
    hits: dict[str, int] = {}
    for word in words:
        for path in {symbol.path for symbol in symbols_with_word(tx, word)} | {
            path for path in known if word in path.lower()
        }:
            if path in known:
                hits[path] = hits.get(path, 0) + 1
    ranked = sorted(hits, key=lambda path: (-hits[path], path)) or (sorted(known) if globs else [])
    likely = tuple(ranked[:LIKELY_FILES])
    records, inside = files_named(tx, likely), set(known)
    importers = sum(importer_counts(tx, likely).values()) if len(inside) < len(paths_and_tests(tx)) else 0
    return Reach(
        files=len(known),
        likely=likely,
        bytes=sum(record.size for record in records.values()),
        symbols=sum(symbol_counts(tx, likely).values()),
        importers=importers,
        tests=sum(known.values()),
    )


def session_tokens(dialogue: "ExtendedDialogue") -> int:
    """The tokens of the system prompt and the tools, which every request has."""
    stable = stable_part(dialogue)
    tools = canonical_json(
        [{"name": each.name, "description": each.description, "schema": each.input_schema} for each in stable.tools]
    )
    return (len(stable.system.encode("utf-8", "surrogatepass")) + len(tools)) // 4
