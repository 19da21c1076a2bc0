"""Facts that say nearly the same by their meaning are told to the model after they were stored."""

from array import array
from collections.abc import Sequence

from msgspec.structs import replace

from pattern_acp.memory.embeddings import EmbeddingModel, TextUse, Vector
from pattern_acp.memory.indexer import Indexer
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.scripts import says


class Meanings:
    """An embedder to which texts of tea are one thing, and everything else is another."""

    model = EmbeddingModel("meanings", 2, floor=0.2, trust=1.0)
    is_immediate = False

    def __init__(self, trust: float = 1.0) -> None:
        self.model = replace(type(self).model, trust=trust)

    async def prepare(self) -> None:
        """See `Embedder.prepare`."""

    async def embed(self, texts: Sequence[str], use: TextUse) -> tuple[Vector, ...]:
        del use
        return tuple(array("f", (1.0, 0.0) if "green tea" in text or "brew" in text else (0.0, 1.0)) for text in texts)


async def prepared(agent: RunningAgent, trust: float = 1.0) -> str:
    session = await agent.editor.open_session(str(agent.folder))
    await agent.editor.prompt(session, "/remember Likes green tea.")
    await agent.editor.prompt(session, "/remember me: A fresh brew every morning pleases them.")
    indexer = Indexer(agent.database, Meanings(trust), agent.sessions.constellation.clock)
    while await indexer.catch_up(64):
        pass
    return session


async def test_the_model_is_told_once_and_the_person_sees_it():
    model = ScriptedProvider([says("one"), says("two")])
    async with running_agent(model) as agent:
        session = await prepared(agent)
        await agent.editor.prompt(session, "Hello.")
        told = model.requests[0].volatile
        assert "<memory_repeats>" in told
        assert "“A fresh brew every morning pleases them.” (block human) and “Likes green tea.” (block human)" in told
        titles = [call["title"] for call in agent.editor.of_kind("tool_call")]
        assert any(title.startswith("Nearly the same: ") for title in titles)
        await agent.editor.prompt(session, "Again.")
        assert "memory_repeats" not in model.requests[1].volatile


async def test_repeats_in_a_shared_block_are_told_where_it_is_attached_and_nowhere_else():
    model = ScriptedProvider([says("one"), says("two")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        for text in (
            "/memory create tastes --scope shared What all of us like.",
            "/memory edit tastes Likes green tea.\nA fresh brew every morning pleases them.",
            "/memory unshare tastes project:.",
        ):
            await agent.editor.prompt(session, text)
        indexer = Indexer(agent.database, Meanings(), agent.sessions.constellation.clock)
        while await indexer.catch_up(64):
            pass
        await agent.editor.prompt(session, "Hello.")
        assert "memory_repeats" not in model.requests[0].volatile
        await agent.editor.prompt(session, "/memory share shared/tastes project:.")
        await agent.editor.prompt(session, "Hello again.")
        assert "“Likes green tea.” (block tastes)" in model.requests[1].volatile


async def test_what_was_mended_before_is_not_told():
    model = ScriptedProvider([says("one")])
    async with running_agent(model) as agent:
        session = await prepared(agent)
        await agent.editor.prompt(session, "/memory edit human Likes green tea.")
        await agent.editor.prompt(session, "Hello.")
        assert "memory_repeats" not in model.requests[0].volatile


async def test_an_embedder_that_knows_no_meaning_tells_nothing():
    model = ScriptedProvider([says("one")])
    async with running_agent(model) as agent:
        session = await prepared(agent, trust=0.3)
        await agent.editor.prompt(session, "Hello.")
        assert "memory_repeats" not in model.requests[0].volatile
