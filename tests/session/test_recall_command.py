"""What /recall understands."""

import pytest

from pattern_acp.commands.memory import SEARCH
from pattern_acp.commands.parameters import CommandMisusedError, Value, read_slash
from pattern_acp.memory.service.access import EVERYTHING, MemoryFilter
from pattern_acp.memory.service.search import day_bounds, narrowing_of


def read_recall(typed: str) -> tuple[Value, MemoryFilter]:
    found = read_slash(SEARCH, typed, "/recall")
    kinds = found["kinds"]
    assert isinstance(kinds, tuple)
    return found["query"], narrowing_of(kinds, *(str(found[name]) for name in ("scope", "since", "until")))


def test_words_alone_are_looked_for_everywhere_even_with_dashes():
    for query in ("the database port", "--force of git push", "port --kind block"):
        assert read_recall(query) == (query, EVERYTHING)
    assert read_recall("-- --kind of thing") == ("--kind of thing", EVERYTHING)


def test_options_in_front_narrow_it():
    query, narrowing = read_recall(
        "--kind user --kind=superseded  --scope project --since 2026-11-01 --until 2026-11-02 port"
    )
    assert query == "port"
    since, until = day_bounds("2026-11-01")[0], day_bounds("2026-11-02")[1]
    assert narrowing == MemoryFilter("project", ("user", "superseded"), since_ms=since, until_ms=until)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--kind word port", "--kind takes one of block, archival"),
        ("--scope port", "--scope takes one of persona, project, shared"),
        ("--since yesterday port", "--since takes a day, such as 2026-11-28"),
        ("--until", "--until takes a day"),
    ],
)
def test_an_option_that_cannot_be_used_says_what_it_takes(typed: str, said: str):
    with pytest.raises(CommandMisusedError, match=said):
        read_recall(typed)
