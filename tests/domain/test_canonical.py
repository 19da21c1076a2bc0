from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.canonical import Json, is_deeper


def nested(levels: int) -> Json:
    value: Json = 1
    for level in range(levels):
        value = [value, "text"] if level % 2 else {"a": value}
    return value


@given(levels=st.integers(0, 40), allowed=st.integers(0, 40))
def test_the_levels_of_objects_and_arrays_are_counted(levels: int, allowed: int):
    assert is_deeper(nested(levels), allowed) == (levels > allowed)


def test_nesting_deeper_than_the_call_stack_is_found():
    assert is_deeper(nested(100_000), 32)
