"""Identities of definitions: what they depend on, and what changes nothing of them."""

import json
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st

from pattern_acp.definitions.identity import DefinitionSource, Leaves, file_hash, identities, identity_of, leaves_of

GOLDEN = Path(__file__).parent / "golden" / "identities.json"

SYMBOLS = [f"text/{letter}" for letter in "abcdef"]

TEXTS = st.text("ab é\n", max_size=12)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[DefinitionSource, ...]:
    """Definitions that include each other in any way, also in circles."""
    symbols = draw(st.lists(st.sampled_from(SYMBOLS), min_size=2, unique=True))
    return tuple(
        DefinitionSource(
            symbol,
            {"main.md": draw(TEXTS).encode(), "data.bin": draw(st.binary(max_size=4))},
            tuple(draw(st.lists(st.sampled_from(symbols), max_size=3, unique=True))),
        )
        for symbol in symbols
    )


def all_identities(sources: tuple[DefinitionSource, ...]) -> dict[str, str]:
    return identities([leaves_of(each) for each in sources])


def reaches(sources: tuple[DefinitionSource, ...], start: str) -> set[str]:
    includes = {each.symbol: each.includes for each in sources}
    found, waiting = {start}, [start]
    while waiting:
        for other in includes[waiting.pop()]:
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found


def edited(sources: tuple[DefinitionSource, ...], symbol: str) -> tuple[DefinitionSource, ...]:
    return tuple(
        DefinitionSource(each.symbol, {**each.files, "main.md": each.files["main.md"] + b"!"}, each.includes)
        if each.symbol == symbol
        else each
        for each in sources
    )


def test_identities_are_those_of_the_golden_vectors():
    for vector in json.loads(GOLDEN.read_text(encoding="utf-8")):
        leaves = [
            leaves_of(
                DefinitionSource(
                    symbol,
                    {name: bytes.fromhex(content) for name, content in each["files"].items()},
                    tuple(each.get("includes", ())),
                )
            )
            for symbol, each in vector["definitions"].items()
        ]
        assert identities(leaves) == vector["identities"], vector["about"]


@given(graphs(), st.data())
def test_an_edit_changes_all_that_includes_it_and_no_sibling(
    sources: tuple[DefinitionSource, ...], data: st.DataObject
):
    symbol = data.draw(st.sampled_from([each.symbol for each in sources]))
    before, after = all_identities(sources), all_identities(edited(sources, symbol))
    for each in sources:
        assert (before[each.symbol] != after[each.symbol]) == (symbol in reaches(sources, each.symbol))


@given(graphs(), st.data())
def test_the_order_of_definitions_files_and_includes_changes_nothing(
    sources: tuple[DefinitionSource, ...], data: st.DataObject
):
    shuffled = [
        DefinitionSource(each.symbol, dict(sorted(each.files.items(), reverse=True)), tuple(reversed(each.includes)))
        for each in data.draw(st.permutations(sources))
    ]
    assert all_identities(tuple(shuffled)) == all_identities(sources)


@given(graphs())
def test_what_is_beside_a_definition_and_not_included_changes_nothing(sources: tuple[DefinitionSource, ...]):
    first = sources[0].symbol
    within = tuple(each for each in sources if each.symbol in reaches(sources, first))
    assert all_identities(within)[first] == all_identities(sources)[first]


@given(TEXTS)
def test_line_ends_and_forms_of_characters_change_text_and_not_data(text: str):
    decomposed = text.replace("é", "e\N{COMBINING ACUTE ACCENT}").replace("\n", "\r\n")
    assume(decomposed != text)
    assert file_hash("a.md", text.encode()) == file_hash("a.md", decomposed.encode())
    assert file_hash("a.md", f"\ufeff{text}".encode()) == file_hash("a.md", text.encode())
    assert file_hash("a.py", text.encode()) != file_hash("a.py", decomposed.encode())


def test_a_name_counts_and_the_same_files_under_another_are_another_definition():
    assert identity_of(DefinitionSource("skill/a", {"SKILL.md": b"x"})) != identity_of(
        DefinitionSource("skill/b", {"SKILL.md": b"x"})
    )
    assert identity_of(DefinitionSource("skill/a", {"a.md": b"x"})) != identity_of(
        DefinitionSource("skill/a", {"b.md": b"x"})
    )


def test_text_that_is_no_utf_8_is_data():
    assert file_hash("a.md", b"\xff\r\n").startswith("data:")
    assert file_hash("a.md", b"\xff\r\n") != file_hash("a.md", b"\xff\n")


def test_a_circle_is_one_unit_and_its_members_differ():
    found = identities([Leaves("a", {}, ("b",)), Leaves("b", {}, ("a",)), Leaves("c", {}, ("a",))])
    assert len(set(found.values())) == 3


def test_a_chain_of_thousands_of_includes_has_an_identity():
    chain = [Leaves(f"t{number}", {}, (f"t{number + 1}",)) for number in range(3_000)]
    assert len(identities(chain)) == 3_000
