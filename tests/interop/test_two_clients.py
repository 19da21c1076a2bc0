"""Two real clients on one project, acpx and acp-client: who edits second is told before its first edit."""

from functools import partial

import anyio.to_thread
import pytest

from tests.interop.test_acp_client import Person, agent_of
from tests.support.clients import Acpx, Place

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]


async def test_a_client_is_told_before_its_first_edit_that_another_one_works_on_the_file(
    acpx: Acpx, place: Place, monkeypatch: pytest.MonkeyPatch
):
    for name, value in place.variables.items():
        # acp-client hands its own environment to the agent.
        monkeypatch.setenv(name, value)
    run = partial(anyio.to_thread.run_sync, acpx.run, place)
    await run("sessions", "new", "--name", "one")
    edited = await run("--approve-all", "prompt", "-s", "one", 'replace "hello" with "good day" in greeting.txt')
    assert edited.code == 0
    person = Person("allow_once")
    async with agent_of(place, person) as agent:
        await agent.ask('replace "good day" with "bye" in greeting.txt', on_update=person.see)
    await run("sessions", "close", "one")
    shown = str(person.updates)
    assert "Another open session works on what this call would change" in shown
    assert "greeting.txt: “replace" in shown
    assert (place.work / "greeting.txt").read_text(encoding="utf-8") == "good day\nworld\n"
