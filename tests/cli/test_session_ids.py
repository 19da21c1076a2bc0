"""Short forms of session ids."""

from pathlib import Path

import pytest

from pattern_acp.cli.command_runner import beginning_of, full_id, meant
from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.codec import AmbiguousSessionError
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.scripts import says


@pytest.mark.parametrize(
    ("given", "beginning"),
    [
        ("ses_1a442a6f", "ses_1a442a6f"),
        ("1a44", "ses_1a44"),
        ("1a4", ""),
        ("", ""),
        ("ses_", ""),
        ("last one", ""),
        ("export.zip", ""),
    ],
)
def test_a_short_form_has_four_digits_or_more(given: str, beginning: str):
    assert beginning_of(given) == beginning


def test_a_short_form_stands_for_the_only_id_that_begins_so():
    assert meant("ses_1a44", ["ses_1a44ff"]) == "ses_1a44ff"
    assert meant("ses_1a44", []) == "ses_1a44"


def test_an_id_that_another_one_begins_with_is_that_id():
    assert meant("ses_1a44", ["ses_1a44ff", "ses_1a44"]) == "ses_1a44"


def test_a_short_form_of_two_ids_is_refused_with_both():
    with pytest.raises(AmbiguousSessionError) as refused:
        meant("1a44", ["ses_1a44ff", "ses_1a44ee"])
    assert "ses_1a44ff, ses_1a44ee" in refused.value.sentence
    assert "Give more of the id" in refused.value.sentence


@pytest.mark.anyio
async def test_a_recorded_session_is_found_by_its_beginning(tmp_path: Path):
    path = tmp_path / "constellation.db"
    async with running_agent(ScriptedProvider([says("Hello.")]), database=path) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Hi")
    async with open_database(path, clock=SystemClock(), read_only=True) as database:
        assert await full_id(database, session[:12]) == session
        assert await full_id(database, session[4:10]) == session
        assert await full_id(database, "ses_none0000") == "ses_none0000"
