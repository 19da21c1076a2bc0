"""What every `IdFactory` does. A new implementation adds itself to `FACTORIES`."""

import re
from collections.abc import Callable

import pytest

from pattern_acp.domain.clock import IdFactory, RandomIds

FACTORIES: dict[str, Callable[[], IdFactory]] = {"random": RandomIds}


@pytest.fixture(params=list(FACTORIES))
def ids(request: pytest.FixtureRequest) -> IdFactory:
    return FACTORIES[request.param]()


def test_an_id_says_what_it_is_of_and_can_stand_in_a_command_line(ids: IdFactory):
    assert re.fullmatch(r"ses_[0-9a-z]{16,}", ids.new("ses"))


def test_no_id_comes_twice(ids: IdFactory):
    assert len({ids.new("x") for _ in range(2000)}) == 2000


def test_two_factories_do_not_share_ids(ids: IdFactory):
    other = type(ids)()
    assert not {ids.new("x") for _ in range(200)} & {other.new("x") for _ in range(200)}


def test_a_peer_is_a_positive_number_of_63_bits(ids: IdFactory):
    # SQLite keeps signed 64-bit numbers, and Loro knows no peer 0.
    assert all(0 < ids.peer() < 2**63 for _ in range(500))
