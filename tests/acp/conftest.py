"""What the tests of the wire share."""

import pytest

from pattern_acp.domain.canonical import JsonObject
from tests.support.official_schema import official_schema


@pytest.fixture(scope="session")
def official() -> JsonObject:
    schema = official_schema()
    if schema is None:
        pytest.skip("the official JSON schema could not be fetched with npm")
    return schema
