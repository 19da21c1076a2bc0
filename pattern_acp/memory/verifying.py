"""Whether what is stored of a block agrees with itself.

Owns: what is compared. Must not know: who asks, or how it is mended (`healing`). Pure over a stored history, so that a
long one can be looked at in another process. Nothing is changed.
"""

from collections.abc import Callable

from pattern_acp.memory.blame import BlameSpan, blame, blame_by_replay
from pattern_acp.memory.document import BlockDocument
from pattern_acp.memory.errors import BlockCorruptError
from pattern_acp.memory.history import (
    READING_PEER,
    StoredHistory,
    archived_document,
    based_document,
    document_at,
)
from pattern_acp.memory.schemas.types import TextSchema


def problems_of(history: StoredHistory) -> tuple[str, ...]:
    """What does not agree, a clause each: the text with base, updates and archive, and two ways to tell who wrote it.

    Authors are had from the ids of characters, and from replaying every write; both have to give the same.
    """
    problems = damaged_parts(history)
    if (
        not problems
        and isinstance(history.schema, TextSchema)
        and _known_to_replay(history) != blame_by_replay(history)
    ):
        return ("the writes of its characters are told differently by their ids and by a replay",)
    return problems


def damaged_parts(history: StoredHistory) -> tuple[str, ...]:
    """Which of base, updates and archive do not give the text, or not its version, a clause each."""
    problems = (
        _base_problem(history),
        _problem("its updates", "give", history, lambda: document_at(history, history.head)),
        _archive_problem(history),
    )
    return tuple(problem for problem in problems if problem)


def _base_problem(history: StoredHistory) -> str:
    problem = _problem("its base", "gives", history, lambda: based_document(history))
    return problem or _snapshot_problem("its base", history, history.base, history.base_update)


def _archive_problem(history: StoredHistory) -> str:
    problem = _problem("its archive", "gives", history, lambda: archived_document(history))
    return problem or _snapshot_problem("its archive", history, history.archive, history.archive_upto)


def _problem(name: str, gives: str, history: StoredHistory, read: Callable[[], BlockDocument]) -> str:
    try:
        document = read()
    except BlockCorruptError as error:
        return f"{name} cannot be read ({error.problem})"
    if document.text != history.text:
        return f"{name} {gives} another text"
    return "" if document.frontiers == history.frontiers else f"{name} {gives} another version"


def _snapshot_problem(name: str, history: StoredHistory, snapshot: bytes, number: int) -> str:
    """What is wrong with a snapshot that is to be that of write `number`; the updates after it may hide it."""
    alone = BlockDocument.load(history.label, [snapshot], peer=READING_PEER, schema=history.schema)
    if 1 <= number <= history.head and alone.frontiers == history.write(number).frontiers:
        return ""
    return f"{name} is not that of write {number}"


def _known_to_replay(history: StoredHistory) -> tuple[BlameSpan, ...]:
    """Authors by the ids of characters, as far as a replay can know them.

    After a forgetting it begins with the text that was left, so all that is older is one write to it.
    """
    spans: list[BlameSpan] = []
    for span in blame(history):
        number = max(span.number, history.history_from)
        start = spans.pop().start if spans and spans[-1].number == number else span.start
        spans.append(BlameSpan(start, span.end, number))
    return tuple(spans)
