"""What the tests of ACP v2 share."""

import pytest

from tests.support.official_schema import second_schema


@pytest.fixture(scope="session", autouse=True)
def judges_by_the_schema_of_version_2_where_it_can_be_had() -> None:
    """Fetches the schema once, so that every line of these tests is judged by it."""
    second_schema()
