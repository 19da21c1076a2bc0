"""What the tests of whole conversations share."""

import pytest

from tests.support.official_schema import official_schema


@pytest.fixture(scope="session", autouse=True)
def judges_by_the_official_schema_where_it_can_be_had() -> None:
    """Fetches the schema once, so that `running_agent` judges by it too; without npm the SDK judges alone."""
    official_schema()
