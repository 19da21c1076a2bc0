"""Whether what is stored of a block agrees with itself.

Owns: what is compared. Must not know: who asks, or how it is mended (`healing`). Pure over a stored history, so that a
long one can be looked at in another process. Nothing is changed.
"""

from collections.abc import Callable

from pattern_acp.memory.blame import BlameSpan, blame, blame_by_replay
from pattern_acp.memory.errors import BlockCorruptError
from pattern_acp.memory.history import StoredHistory, archived_document, document_at
from pattern_acp.memory.schemas.types import TextSchema


def problems_of(history: StoredHistory) -> tuple[str, ...]:
    """What does not agree, a clause each: the text with updates and archive, and the two ways to tell who wrote it.

    Authors are had from the ids of characters, and from replaying every write; both have to give the same.
    """
    sources: tuple[tuple[str, Callable[[], str]], ...] = (
        ("its updates", lambda: document_at(history, history.head).text),
        ("its archive", lambda: archived_document(history).text),
    )
    problems: list[str] = []
    for name, read in sources:
        try:
            if read() != history.text:
                problems.append(f"{name} give another text")
        except BlockCorruptError as error:
            problems.append(f"{name} cannot be read ({error.problem})")
    if (
        not problems
        and isinstance(history.schema, TextSchema)
        and _known_to_replay(history) != blame_by_replay(history)
    ):
        problems.append("the writes of its characters are told differently by their ids and by a replay")
    return tuple(problems)


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
