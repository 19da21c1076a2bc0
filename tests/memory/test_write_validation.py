"""What is looked at before a text is stored."""

from collections.abc import AsyncGenerator

import pytest

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import BlockId
from pattern_acp.memory.blocks import Block, BlockKey, BlockSpec, Scope
from pattern_acp.memory.errors import DuplicateFoundError, LimitExceededError, SecretFoundError, SystemTextError
from pattern_acp.memory.indexing import index_block
from pattern_acp.memory.store import WriteRecord, changed_block, propose_creation, store_change
from pattern_acp.memory.write_validation import (
    SYSTEM_MARKS,
    Passages,
    SecretRule,
    check_repeats,
    check_secret,
    check_words,
    plain,
    with_oldest,
)
from tests.support.constellation import Constellation, temporary_constellation
from tests.support.memory import append_memory_event

FACTS = "- The build runs with `make all`.\n- Tests are run by pytest with the option --maxfail=1 in CI"


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


def remember(tx: Transaction, text: str = FACTS) -> Block:
    spec = BlockSpec(BlockKey(Scope.PROJECT, "/repo", "project"), "Facts.", text)
    change = propose_creation(spec, BlockId("block_1"), peer=1)
    seq = append_memory_event(tx, change, at_ms=1)
    store_change(tx, change, WriteRecord(seq, Actor.PERSONA, Origin.MODEL, "a test", 1))
    block = changed_block(change, 1)
    index_block(tx, block, at_ms=1, seq=seq)
    return block


def look(tx: Transaction, text: str) -> None:
    remember(tx)
    check_repeats(tx, "human", text, Passages([("block_1", "project")], ["/repo"]))


@pytest.mark.parametrize(
    "text",
    [
        "The build runs with `make all`.",
        "* the BUILD   runs with `make all`",
        "1. The build runs with `make all`.",
        "Something new.\n\nThe build runs with `make all`",
        "Tests are run by pytest, with the option --maxfail=1, in the CI!",
    ],
)
async def test_what_memory_says_already_is_shown_to_the_writer(constellation: Constellation, text: str):
    with pytest.raises(DuplicateFoundError, match="the block 'project' says nearly the same already: “- T"):
        await constellation.database.write(lambda tx: look(tx, text))


@pytest.mark.parametrize(
    "text",
    ["The build runs with ninja.", "make all", "Tests are written with hypothesis where they can be.", "", "- \n\n"],
)
async def test_what_is_new_is_no_repeat(constellation: Constellation, text: str):
    await constellation.database.write(lambda tx: look(tx, text))


async def test_blocks_out_of_sight_are_not_looked_at(constellation: Constellation):
    def work(tx: Transaction) -> None:
        remember(tx)
        check_repeats(tx, "human", FACTS, Passages([], ["/repo"]))

    await constellation.database.write(work)


def test_the_program_s_own_text_is_nobody_s_words():
    for mark in SYSTEM_MARKS:
        with pytest.raises(SystemTextError, match="own messages"):
            check_words("human", f"The person said: {mark} tea")
    check_words("human", "The person said: <b>tea</b>")


def test_a_secret_is_blocked_or_handed_on_for_a_question():
    text = "the key is AKIAIOSFODNN7EXAMPLE"
    with pytest.raises(SecretFoundError, match="seems to hold an AWS key") as caught:
        check_secret("human", text, SecretRule.BLOCK)
    assert "AKIAIOSFODNN7EXAMPLE" not in caught.value.sentence
    found = check_secret("human", text, SecretRule.ASK)
    assert found is not None
    assert found.what == "an AWS key"
    assert check_secret("human", "likes tea", SecretRule.BLOCK) is None


async def test_a_full_block_names_its_oldest_passages(constellation: Constellation):
    def work(tx: Transaction) -> LimitExceededError:
        block = remember(tx, "first fact\n\nsecond fact")
        return with_oldest(tx, LimitExceededError("project", current=24, limit=24, wanted=30), block)

    error = await constellation.database.write(work)
    assert "24 of at most 24" in error.sentence
    told = "The oldest and least recalled are: “first fact” (1970-01-01, never recalled); “second fact” (1970-01-01, "
    assert told in error.sentence


@pytest.mark.parametrize(("passage", "bare"), [("- a  b.", "a b"), ("2) x", "x"), ("x - y", "x - y")])
def test_a_passage_is_compared_without_its_bullet(passage: str, bare: str):
    assert plain(passage) == bare
