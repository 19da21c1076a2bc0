"""A page of the web in a turn: asked for, fetched, shown, recorded as the web's word."""

from pattern_acp.config.settings import FetchSettings, Settings
from pattern_acp.domain.access import Origin
from pattern_acp.journal.reader import read_stream
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.editor import choose
from tests.support.scripts import calls, says
from tests.support.turns import results_of
from tests.support.web_server import Answer, web_server


async def test_a_host_is_asked_for_once_when_the_person_says_always():
    async with web_server({"/a": Answer(b"<h1>One</h1>", "text/html"), "/b": Answer(b"two")}) as server:
        model = ScriptedProvider(
            [calls("fetch_url", url=server.url("/a")) + calls("fetch_url", url=server.url("/b")), says("Read.")]
        )
        settings = Settings(fetch=FetchSettings(private_addresses=True))
        async with running_agent(model, settings=settings, permission=choose("allow_always")) as agent:
            session = await agent.editor.open_session(str(agent.folder))
            await agent.editor.prompt(session, "Read both.")
            first, second = results_of(model.requests[-1])
            assert first.text.endswith("# One")
            assert second.text.endswith("two")
            (asked,) = [params["toolCall"]["title"] for params in agent.editor.asked]
            assert asked in {f"Fetch {server.url('/a')}", f"Fetch {server.url('/b')}"}
            assert agent.editor.of_kind("tool_call")[0]["kind"] == "fetch"
            stream = await agent.database.read(lambda tx: read_stream(tx, session))
            assert Origin.WEB in {item.origin for item in stream}


async def test_a_private_address_is_refused_though_the_person_allowed_its_host():
    async with web_server({"/": Answer(b"private")}) as server:
        model = ScriptedProvider([calls("fetch_url", url=server.url("/")), says("Refused.")])
        async with running_agent(model) as agent:
            session = await agent.editor.open_session(str(agent.folder))
            await agent.editor.prompt(session, "Read it.")
            (result,) = results_of(model.requests[-1])
            assert result.is_error
            assert "which is not fetched" in result.text
        assert server.asked == []
