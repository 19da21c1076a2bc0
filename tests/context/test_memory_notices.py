"""Memory told whole once, then by what changed."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.context.builder import (
    RESTATE_CHARACTERS,
    MemoryView,
    WriteNote,
    change_notices,
    changed_blocks,
    history_of,
    is_worth_restating,
    known_memory,
    last_shown,
    shown_memory,
    whole_state,
)
from pattern_acp.domain.clock import MessageId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.journal.events import TurnStarted

HUMAN = MemoryView("human", "Who the person is.", "Likes tea.\nSpeaks Dutch.", 8000, block_id="b1", version=3)
NOTES = MemoryView("notes", "Notes.", "A long page.", 8000, is_shown=False, block_id="b2", version=1)
SHOWN = shown_memory(TurnId("t1"), [HUMAN, NOTES])
AT = 1_800_000_000_000


def prompt(turn: str, text: str) -> TurnStarted:
    return TurnStarted(TurnId(turn), Message(MessageId(f"m_{turn}"), Role.USER, (TextPart(text),)))


def test_nothing_is_told_when_nothing_changed():
    assert change_notices(SHOWN, [HUMAN, NOTES], {}) == ()


def test_a_change_is_told_with_its_author_its_time_and_a_diff():
    now = replace(HUMAN, text="Likes coffee.\nSpeaks Dutch.")
    writes = {"b1": (WriteNote("you", AT - 1), WriteNote("the user", AT))}
    (notice,) = change_notices(SHOWN, [now, NOTES], writes)
    assert notice == (
        '<memory_change label="human" by="you, the user" at="2027-01-15 08:00" used="27" limit="8000">\n'
        "-Likes tea.\n+Likes coffee.\n</memory_change>"
    )
    assert [block.label for block in changed_blocks(SHOWN, [now, NOTES])] == ["human"]


def test_a_text_that_is_shorter_than_its_diff_is_told_whole():
    shown = shown_memory(TurnId("t1"), [replace(HUMAN, text="Likes tea.\n" * 40)])
    (notice,) = change_notices(shown, [replace(HUMAN, text="Gone.")], {})
    assert "It now reads:\nGone.\n" in notice


def test_a_block_that_is_new_or_came_into_context_is_told_whole():
    new = MemoryView("rules", "Rules.", "No tabs.", 100, block_id="b3")
    told = change_notices(SHOWN, [HUMAN, replace(NOTES, is_shown=True), new], {})
    assert ["A long page." in told[0], "No tabs." in told[1]] == [True, True]


def test_a_block_that_is_gone_is_told():
    assert change_notices(SHOWN, [HUMAN], {}) == (
        '<memory_change label="notes">This block is no longer there.</memory_change>',
    )


def test_a_new_limit_and_a_new_permission_are_told():
    assert 'limit="9000"' in change_notices(SHOWN, [replace(HUMAN, limit=9000), NOTES], {})[0]
    assert 'permission="read_only"' in change_notices(SHOWN, [replace(HUMAN, permission="read_only"), NOTES], {})[0]


def test_what_the_model_should_know_now_is_told_with_every_request_and_is_no_part_of_the_state():
    noted = replace(HUMAN, notes=("Two writers changed a line.",))
    assert "Two writers" not in whole_state([noted])
    assert change_notices(SHOWN, [noted, NOTES], {}) == (
        "<note>Memory block human: Two writers changed a line.</note>",
    )


def test_all_is_told_anew_once_the_notices_are_long():
    assert not is_worth_restating(SHOWN, ["x" * RESTATE_CHARACTERS])
    assert is_worth_restating(SHOWN, ["x" * (RESTATE_CHARACTERS + 1)])


def test_the_state_stands_before_the_prompt_of_its_turn_in_every_replay():
    events = [prompt("t0", "One"), prompt("t1", "Two"), SHOWN, prompt("t2", "Three")]
    texts = [message.text for message in history_of(events)]
    assert texts == ["One", SHOWN.text, "Two", "Three"]
    assert last_shown(events) is SHOWN
    assert last_shown(events[:2]) is None


def test_memory_is_known_as_long_as_its_message_stands_in_the_conversation():
    history = history_of([prompt("t1", "Two"), SHOWN, prompt("t2", "Three")])
    assert known_memory(SHOWN, history) is SHOWN
    assert known_memory(SHOWN, history[1:]) is None
    assert known_memory(None, history) is None


@given(st.text(), st.text())
def test_a_notice_comes_exactly_when_the_text_differs(before: str, after: str):
    shown = shown_memory(TurnId("t"), [replace(HUMAN, text=before)])
    assert bool(change_notices(shown, [replace(HUMAN, text=after)], {})) == (before != after)
