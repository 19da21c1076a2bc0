from collections.abc import Callable

import pytest

from pattern_acp.db import columns
from pattern_acp.db.connection import SqlValue


@pytest.mark.parametrize(("read", "value"), [(columns.integer, 7), (columns.text, "seven"), (columns.data, b"\x07")])
def test_a_column_is_read_as_its_type_and_as_no_other(read: Callable[[SqlValue], SqlValue], value: SqlValue):
    assert read(value) == value
    with pytest.raises(TypeError, match="float"):
        read(0.7)
