"""What /code tells the person."""

from pattern_acp.session.project_commands import as_typed


def test_hints_are_of_what_a_person_can_type():
    hint = as_typed("- 12 more; narrow with kinds, under or a longer name, or raise limit")
    assert hint == "- 12 more; type a longer name, or `/code outline PATH`"
    building = as_typed(
        "*freshness: missing (the index is being built; ask again in a moment, or use search\\_text meanwhile)*"
    )
    assert building == "*freshness: missing (the index is being built; ask again in a moment)*"
