"""Work beside sessions never takes them down."""

import logging

import pytest

from pattern_acp.bootstrap.sessions import beside_sessions


async def test_work_beside_sessions_that_fails_is_logged_and_goes_no_further(caplog: pytest.LogCaptureFixture):
    async def fails() -> None:
        raise KeyError("unforeseen")

    with caplog.at_level(logging.ERROR):
        await beside_sessions("indexer", fails)
    assert "The background task 'indexer' ended." in caplog.text
