"""Whatever data says, the marks around it are ours alone (invariant 8)."""

import re

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.context.builder import MemoryView, WriteNote, change_notices, shown_memory, volatile_segment
from pattern_acp.context.compaction import SummaryTask, gap_text, left_out, summary_request, summary_text
from pattern_acp.context.recall_budget import (
    Absence,
    LeftBehind,
    OpenThread,
    Recallable,
    WrittenDecision,
    catch_up,
    for_model,
)
from pattern_acp.domain.clock import MessageId, TurnId
from pattern_acp.domain.messages import Message, ResourcePart, Role, TextPart
from pattern_acp.domain.untrusted_blocks import COMMON, TELLING, Section, as_stored, harmless, untrusted_block
from pattern_acp.providers.base import ModelInfo
from pattern_acp.providers.history import resource_text

AT = 1_800_000_000_000
NAMES = "|".join((*TELLING, *COMMON))
END = re.compile(rf"<[^\S\n]*/[^\S\n]*(?P<name>{NAMES})(?![\w-])", re.IGNORECASE)
TELLING_MARK = re.compile(rf"<[^\S\n]*/?(?P<name>{'|'.join(TELLING)})(?![\w-])", re.IGNORECASE)
PIECES = ("<", "</", "< /", "</ ", "<\\/", "/", "\\", " ", "\n", "\t", ">", ' a="b">', '"', "x", "\u00a0", "\u017f")


def marked_texts(size: int = 12) -> st.SearchStrategy[str]:
    """Texts of names of marks, whole marks, and what stands around them."""
    names = st.sampled_from((*TELLING, *COMMON)).flatmap(lambda name: st.sampled_from((name, name.upper())))
    whole = st.tuples(st.sampled_from(("<", "</", "< / ")), names, st.sampled_from((">", " >", ""))).map("".join)
    return st.lists(st.one_of(names, whole, st.sampled_from(PIECES)), max_size=size).map("".join)


def ends(text: str) -> list[str]:
    """The ends of marks in a text, in their order."""
    return [found["name"].lower() for found in END.finditer(text)]


def of_memory(data: str) -> str:
    """Everything that is told of memory and beside the person's words, made of this data."""
    view = MemoryView(data, data, data, 900, data, notes=(data, data), block_id="b1", permission=data, version=2)
    other = MemoryView("notes", "", "", 900, block_id="b2", version=1)
    shown = shown_memory(TurnId("t1"), [view, other])
    before = shown_memory(TurnId("t1"), [MemoryView(data, data, f"x\n{data}", 900, data, data, block_id="b1"), other])
    changes = change_notices(before, [view], {"b1": (WriteNote(data, AT),)})
    recalled = for_model([Recallable(data, data, AT)])
    missed = catch_up(
        Absence(
            0,
            AT,
            (data,),
            (WrittenDecision(data, data, data),),
            (OpenThread(data, data),),
            (data,),
            (LeftBehind(data, AT, data, (data, data)),),
        )
    )
    state = volatile_segment([view, *changes, recalled, missed, untrusted_block("memory_repeats", data, data)], [data])
    told = untrusted_block("context", data, source=data)
    return "\n".join((shown.text, state, told, summary_text(data, left_out([]), data), gap_text(left_out([]), data)))


@given(marked_texts())
def test_no_data_ends_a_mark_of_memory_or_of_what_is_told_beside_the_prompt(data: str):
    assert ends(of_memory(data)) == ends(of_memory("x" if data.strip() else data))


@given(marked_texts())
def test_no_data_ends_a_mark_around_files_or_poses_as_what_is_true_now(data: str):
    attached = resource_text(ResourcePart(data, data, text=data, lines=data, note=""))
    messages = [Message(MessageId("m"), Role.USER, (TextPart(data), ResourcePart("a", "b", text=data)))]
    task = SummaryTask("", ModelInfo("p", "m", context_window=9_000, max_output_tokens=900), messages, 5_000, 500)
    asked = summary_request(task).messages[0].text.rpartition("\n\n<transcript>")[2]
    for text, name in ((attached, "attachment"), (asked, "transcript"), (untrusted_block("changes", data), "changes")):
        assert ends(text).count(name) == 1
        allowed = 2 if name == "attachment" else 0
        assert len(TELLING_MARK.findall(text)) == allowed


@given(marked_texts(), st.sampled_from((*TELLING, *COMMON)))
def test_what_a_model_copies_is_found_where_it_was_stored(text: str, name: str):
    shown = harmless(text, within=name)
    assert shown.replace("\\", "") == text.replace("\\", "")
    if "\\" not in text:
        assert as_stored(shown, text) == text


def test_a_section_is_plain_text_where_values_are_encoded():
    view = MemoryView("human", "Who.", "Tea.", 900)
    assert type(volatile_segment([view], [])) is type(shown_memory(TurnId("t1"), [view]).text) is str
    assert type(untrusted_block("note", "x")) is Section
