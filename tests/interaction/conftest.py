"""What the tests of whole conversations share."""

from collections.abc import Iterator

import pytest

from tests.support.both_versions import speaking
from tests.support.official_schema import official_schema, second_schema

IN_BOTH_VERSIONS = """
adoption ask_user auth bad_input_database board cancel checkpoints checks conversation_commands fallback given groups
hooks jobs limits list load mcp mcp_sign_in memory_feed options patches permission permissions_command questions
rewind rewind_forks session_commands sessions streaming subagents terminals tool_calls trust turn_failures
two_processes workers
"""
"""The half of these modules that is about what a client sends and sees; the rest is the same behind both versions."""

FAST_IN_BOTH = "cancel permission terminals tool_calls"
"""The modules of those that the fast suite runs in both; version 2 of the others runs with the slow tests."""


@pytest.fixture(scope="session", autouse=True)
def judges_by_the_official_schema_where_it_can_be_had() -> None:
    """Fetches the schema once, so that `running_agent` judges by it too; without npm the SDK judges alone."""
    official_schema()
    second_schema()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of `IN_BOTH_VERSIONS` in both, unless they are about what the first alone has."""
    subject = metafunc.definition.path.stem.removeprefix("test_")
    if subject in IN_BOTH_VERSIONS.split() and metafunc.definition.get_closest_marker("first_version") is None:
        versions = [1, 2 if subject in FAST_IN_BOTH.split() else pytest.param(2, marks=pytest.mark.slow)]
        metafunc.parametrize("spoken_version", versions, ids=["v1", "v2"], indirect=True)


@pytest.fixture(autouse=True)
def spoken_version(request: pytest.FixtureRequest) -> Iterator[None]:
    with speaking(getattr(request, "param", 1)):
        yield
