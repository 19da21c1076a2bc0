"""Names of the moments to which a session can go back."""

import pytest

from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import TurnId
from pattern_acp.journal.events import CheckpointTaken
from pattern_acp.journal.reader import Recorded
from pattern_acp.rewind.plan import UnknownPointError, find_target, list_points, short_id

FIRST, SECOND, THIRD = (f"chk_{digits:0<32}" for digits in ("0123456789a", "0123456789b", "fedcba98"))


def taken(*checkpoints: tuple[str, str]) -> list[Recorded]:
    return [
        Recorded(
            seq,
            seq,
            0,
            Actor.SYSTEM,
            Origin.WORKSPACE,
            "",
            CheckpointTaken(checkpoint_id, TurnId("t"), "person" if name else "tool", name, seq, "", seq),
        )
        for seq, (checkpoint_id, name) in enumerate(checkpoints, 1)
    ]


def test_a_checkpoint_without_a_name_is_listed_by_the_first_digits_that_no_other_has():
    points = list_points(taken((FIRST, ""), (SECOND, ""), (THIRD, ""), ("chk_" + "7" * 32, "before the move")))
    assert [point.key for point in points] == ["chk_0123456789a", "chk_0123456789b", "chk_fedcba98", "before the move"]
    assert points[2].checkpoint_id == THIRD
    assert short_id(FIRST, [FIRST, f"{FIRST}0"]) == FIRST


@pytest.mark.parametrize(("named", "position"), [(FIRST, 1), ("chk_0123456789b", 2), ("chk_f", 3)])
def test_a_checkpoint_is_found_by_its_id_and_by_the_beginning_of_it(named: str, position: int):
    target = find_target(taken((FIRST, ""), (SECOND, ""), (THIRD, "")), named)
    assert target.position == position
    assert target.words.startswith("the checkpoint chk_")
    assert len(target.words) < 32


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ("chk_0123", "The ids of 2 checkpoints begin with chk_0123; give more of its digits."),
        ("chk_", "There is no turn or checkpoint 'chk_'; /rewind lists them."),
        ("chk_9", "There is no turn or checkpoint 'chk_9'; /rewind lists them."),
        ("0123456789a", "There is no turn or checkpoint '0123456789a'; /rewind lists them."),
        ("", "There is no turn or checkpoint ''; /rewind lists them."),
    ],
)
def test_a_beginning_of_several_ids_or_of_none_is_refused(named: str, sentence: str):
    with pytest.raises(UnknownPointError) as refused:
        find_target(taken((FIRST, ""), (SECOND, "")), named)
    assert refused.value.sentence == sentence


def test_a_name_that_looks_like_the_beginning_of_an_id_is_a_name_first():
    assert find_target(taken((FIRST, ""), (SECOND, ""), (THIRD, "chk_0123")), "chk_0123").position == 3
