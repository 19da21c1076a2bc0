"""Logs: entries that are only added.

Owns: how a log reads, and its steps. Must not know: who may add to it.
"""

import re
from difflib import SequenceMatcher

from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.memory.schemas.states import LogEntry, LogState
from pattern_acp.memory.schemas.steps import InsertEntry, RemoveEntry, Step
from pattern_acp.memory.schemas.text_forms import read_bullets, read_item, show_item
from pattern_acp.memory.schemas.types import LogSchema
from pattern_acp.memory.schemas.values import ContentError, read_time, show_time

_OLDER = late_pattern(r"\((\d+) older entr(?:y is|ies are) not shown\)")
_HEAD = late_pattern(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) ([^\]\n]+)\] ?", re.DOTALL)


def show_log(schema: LogSchema, state: LogState) -> str:
    """The entries shown, oldest first, and how many older ones there are."""
    lines = [_older(state.older)] if state.older else []
    for entry in state.entries:
        first, *rest = f"[{show_time(entry.at)} {entry.by}] {show_item(entry.body, schema.fields)}".split("\n")
        lines += (f"- {first}", *(f"  {line}" if line else "" for line in rest))
    return "\n".join(lines)


def read_log(schema: LogSchema, text: str) -> LogState:
    """The log of a text, as far as it is shown.

    Raises:
        ContentError: a line is no entry, or an entry has no time and author.
    """
    lines = text.split("\n")
    older = _OLDER.fullmatch(lines[0].strip())
    entries = tuple(_entry(schema, item) for item in read_bullets(lines[1:] if older else lines))
    return LogState(entries, int(older[1]) if older else 0)


def log_steps(root: str, before: LogState, after: LogState) -> list[Step]:
    """The steps from one content to another, which undo needs; an ordinary write only ever adds at the end."""
    steps: list[Step] = []
    matcher = SequenceMatcher(a=before.entries, b=after.entries, autojunk=False)
    total = len(before.entries)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        # Places are counted from the end, so those behind a change stay right: changes go from the front.
        steps += [RemoveEntry(root, total - 1 - at) for at in range(start, end)]
        steps += [InsertEntry(root, total - end, after.entries[at]) for at in range(new_start, new_end)]
    return steps


def shown_part(schema: LogSchema, state: LogState) -> LogState:
    """The log as it is shown once all entries are there: the newest ones."""
    hidden = max(0, len(state.entries) - schema.shown)
    return LogState(state.entries[hidden:], state.older + hidden)


def without_count(text: str) -> str:
    """The text of a log without the line that counts the older entries."""
    first, _, rest = text.partition("\n")
    return rest if _OLDER.fullmatch(first) else text


def _entry(schema: LogSchema, item: str) -> LogEntry:
    head = _HEAD.match(item)
    if head is None:
        raise ContentError("", "an entry of a log begins with `[time author]`, which is written when it is appended")
    return LogEntry(read_time("", head[1]), head[2], read_item(item[head.end() :], schema.fields))


def _older(count: int) -> str:
    return f"({count} older {'entry is' if count == 1 else 'entries are'} not shown)"
