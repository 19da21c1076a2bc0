"""The user chooses what to take over: all of it, a kind, one by one, and which side where both differ."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from pattern_acp.carry.arrival import Proposal, State
from pattern_acp.carry.proposing import (
    Answers,
    Ask,
    Choices,
    Importer,
    UnusableChoiceError,
    asked,
    chosen,
    look_at,
    opened,
)
from pattern_acp.domain.errors import PatternError
from tests.carry.test_archive import NOW, arrive, home, leave, say, text_of
from tests.support.constellation import FakeClock

IMPORTER = Importer("tester", "/project", FakeClock())


def proposal(
    number: int,
    kind: Literal["memory", "fact", "session"] = "memory",
    state: State = "new",
    *,
    differs: bool = False,
) -> Proposal:
    return Proposal(number, kind, f"thing {number}", "shared", state, "about it", ("store",), b"", differs)


FOUND = (
    proposal(1),
    proposal(2, "fact"),
    proposal(3, "fact", "known"),
    proposal(4, "session"),
    proposal(5, state="conflict", differs=True),
)


def answers(*said: str | None, into: list[Answers] | None = None) -> Ask:
    """Answers question by question."""
    left = list(said)

    async def ask(text: str, offered: Answers) -> str | None:
        assert text
        if into is not None:
            into.append(offered)
        return left.pop(0)

    return ask


@pytest.mark.parametrize(
    ("said", "numbers"),
    [
        ("all", [1, 2, 4, 5]),
        ("facts", [2]),
        ("memory", [1, 5]),
        ("Sessions", [4]),
        ("1,4", [1, 4]),
        ("1-4", [1, 2, 4]),
        ("nothing", []),
        ("", []),
    ],
)
def test_words_choose_by_kind_and_by_number(said: str, numbers: Sequence[int]):
    assert list(chosen(said, FOUND, "both").numbers) == numbers


@pytest.mark.parametrize(("said", "sentence"), [("3", "cannot be taken over"), ("9", "no number 9"), ("x", "chooses")])
def test_words_that_choose_nothing_are_refused(said: str, sentence: str):
    with pytest.raises(UnusableChoiceError, match=sentence):
        chosen(said, FOUND, "both")


async def test_where_both_sides_differ_the_user_is_asked_which_is_to_stay():
    offered = list[Answers]()
    assert await asked(FOUND, answers("memory", "theirs", into=offered)) == Choices({1: "theirs", 5: "theirs"})
    assert list(offered[0]) == ["all", "memory", "facts", "sessions", "each", "nothing"]
    assert list(offered[1]) == ["both", "mine", "theirs"]
    # Only where something that is taken over differs, and nobody said it before.
    assert await asked(FOUND, answers("facts")) == Choices({2: "both"})
    assert await asked(FOUND, answers("all"), "mine") == Choices({1: "mine", 2: "mine", 4: "mine", 5: "mine"})
    # No answer changes nothing of the user's.
    assert await asked(FOUND, answers("5", "")) == Choices({5: "mine"})


async def test_one_by_one_each_is_taken_left_or_decided():
    assert await asked(FOUND, answers("each", "take", "leave", "take", "theirs")) == Choices(
        {1: "both", 4: "both", 5: "theirs"}
    )
    assert await asked(FOUND, answers("each", "leave", "rest")) == Choices({2: "both", 4: "both", 5: "both"})
    assert await asked(FOUND, answers("each", "take", "stop")) == Choices({1: "both"})
    assert await asked(FOUND, answers("each", "take", None)) == Choices({1: "both"})


async def test_nothing_is_taken_over_where_nobody_can_be_asked():
    assert await asked(FOUND, answers(None)) is None


async def test_each_block_that_differs_can_have_another_side(tmp_path: Path):
    file = tmp_path / "a.car"
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        for label in ("project", "human"):
            await say(one, label, f"It began in {label}.")
        await leave(one, file)
        await arrive(two, file)
        for label in ("project", "human"):
            await say(one, label, f"One is in {label}.", peer=8)
            await say(two, label, f"Two drinks tea, {label}.", peer=9)
        await leave(one, file)
        async with opened(file, IMPORTER) as (archive, _):
            found = await look_at(two, archive, str(file))
            differing = [each for each in found.found if each.differs]
            assert sorted(each.name for each in differing) == ["human", "project"]
            assert {each.about for each in differing} == {"1 write more than here, and it continued here too"}
            sides = ["theirs" if each.name == "project" else "mine" for each in differing]
            choices = await asked(differing, answers("each", *sides))
            assert choices is not None
            done = await found.take(choices, now_ms=NOW)
            assert (done.blocks, done.kept_mine) == (1, 1)
        assert await text_of(two) == "It began in project.\nOne is in project."


async def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(PatternError, match="cannot be read"):
        async with opened(tmp_path / "none.car", IMPORTER):
            pass
