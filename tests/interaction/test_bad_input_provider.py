"""A provider that answers badly, over real HTTP: a visible message, an ordinary end, and a session that goes on."""

import pytest

from pattern_acp.config.settings import Flags
from pattern_acp.providers.scripted import ScriptStep
from tests.support.model_server import Reply, serve_models
from tests.support.passing_time import passing
from tests.support.serving import served, temporary_home

GOOD = Reply([ScriptStep(text="Hello.")])

FAULTS = {
    "a web page": Reply(body="<html><body>Log in</body></html>", content_type="text/html"),
    "invalid JSON": Reply(body="{not json"),
    "an error object": Reply(body='{"error": {"message": "No such model.", "type": "invalid"}}', status=400),
    "an event that is no JSON": Reply(raw="data: {not json}\n\n"),
    "an unknown model": Reply(body='{"error": {"message": "no model"}}', status=404),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_bad_answer_is_a_visible_message_and_the_session_goes_on(fault: str, wire: str):
    # Some faults are tried again, so the bad answer stays until the test takes it away.
    async with temporary_home() as home, serve_models([FAULTS[fault]], repeat=True) as server:
        home.configure(f'[providers.mine]\nwire = "{wire}"\nbase_url = "{server.url}"\nmodels = ["m"]\n')
        async with served(home, Flags(model="mine/m")) as agent:
            session = await agent.open(home)
            assert (await agent.editor.prompt(session, "Hi", deadline=60))["stopReason"] == "end_turn"
            said = agent.editor.said()
            assert "mine" in said
            assert "Traceback" not in said
            server.replies[:] = [GOOD]
            agent.editor.updates.clear()
            assert (await agent.editor.prompt(session, "Hi again"))["stopReason"] == "end_turn"
            assert agent.editor.said() == "Hello."


async def test_a_provider_that_stalls_is_given_up_after_the_idle_limit():
    stalled = Reply([ScriptStep(text="Hel"), ScriptStep(text="lo.")], stall_after=1, chunk=3)
    async with temporary_home() as home, serve_models([stalled, GOOD], repeat=True) as server:
        home.configure(
            f'[providers.mine]\nwire = "openai"\nbase_url = "{server.url}"\nmodels = ["m"]\n'
            "[turn]\nprovider_idle_seconds = 1\n"
        )
        async with served(home, Flags(model="mine/m")) as agent:
            session = await agent.open(home)
            async with passing(1.5, lambda: agent.editor.wait_until(lambda: "Hel" in agent.editor.said())):
                assert (await agent.editor.prompt(session, "Hi", deadline=60))["stopReason"] == "end_turn"
            assert agent.editor.said().strip()
            server.replies[:] = [GOOD]
            agent.editor.updates.clear()
            assert (await agent.editor.prompt(session, "Hi again"))["stopReason"] == "end_turn"
            assert agent.editor.said() == "Hello."


async def test_a_stream_that_is_cut_keeps_what_came_and_says_so():
    cut = Reply([ScriptStep(text="One two three four.")], cut_after=4, chunk=4)
    async with temporary_home() as home, serve_models([cut]) as server:
        home.configure(f'[providers.mine]\nwire = "openai"\nbase_url = "{server.url}"\nmodels = ["m"]\n')
        async with served(home, Flags(model="mine/m")) as agent:
            session = await agent.open(home)
            assert (await agent.editor.prompt(session, "Hi", deadline=60))["stopReason"] == "end_turn"
            said = agent.editor.said()
            assert said.startswith("One ")
            assert "four." not in said
            assert len(said) > len("One two three four.")


async def test_a_provider_that_is_not_there_is_named():
    async with temporary_home() as home:
        home.configure('[providers.mine]\nwire = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodels = ["m"]\n')
        async with served(home, Flags(model="mine/m")) as agent:
            session = await agent.open(home)
            assert (await agent.editor.prompt(session, "Hi", deadline=60))["stopReason"] == "end_turn"
            assert "mine" in agent.editor.said()
