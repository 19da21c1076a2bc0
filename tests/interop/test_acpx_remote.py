"""acpx drives an agent that another process serves, through `pattern-acp connect`."""

import json
from dataclasses import dataclass

import pytest

from tests.support.clients import Acpx, Place, asked_of_client
from tests.support.server_process import server_process, token_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]


@dataclass(frozen=True, slots=True)
class ConnectedPlace(Place):
    """A place whose agent runs in a server."""

    url: str = ""

    def command(self, *arguments: str) -> list[str]:
        """The connector behind a recorder."""
        del arguments
        return Place.command(self, "connect", self.url)


async def test_it_edits_and_runs_on_its_own_machine_through_a_server(acpx: Acpx, place: Place) -> None:
    server_home = place.home.parent / "server"
    server_home.mkdir()
    token = token_for(server_home)
    async with server_process(server_home, token, "--listen", "127.0.0.1:0") as server:
        there = ConnectedPlace(place.home, place.work, place.recordings, {**token}, server.url)
        ran = acpx.run(there, "--approve-all", "exec", 'replace "hello" with "good day" in greeting.txt')
        assert ran.code == 0, ran.output
        assert (place.work / "greeting.txt").read_text(encoding="utf-8") == "good day\nworld\n"
        assert {"session/request_permission", "fs/write_text_file"} <= asked_of_client(place)
        ran = acpx.run(there, "--approve-all", "exec", "run echo one")
        assert ran.code == 0, ran.output
        assert "terminal/create" in asked_of_client(place)
        assert json.dumps(token) not in ran.output
