"""How often a plain turn asks the database: each time is a hop to another thread and back."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.clock import TurnId
from pattern_acp.journal.reader import read_stream
from pattern_acp.memory.embeddings import HashedNgrams
from pattern_acp.memory.indexer import Indexer
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.memory_context import memory_of_request
from tests.support.agent import running_agent
from tests.support.scripts import calls, says

T = TypeVar("T")


class CountedDatabase(Database):
    """Another database, whose reads are counted."""

    def __init__(self, inner: Database) -> None:
        self.inner = inner
        self.facts = inner.facts
        self.reads = 0

    async def read(self, function: Callable[[Transaction], T]) -> T:
        self.reads += 1
        return await self.inner.read(function)

    @property
    def writes(self) -> int:
        return self.inner.writes

    async def write(self, function: Callable[[Transaction], T], *, quietly: bool = False) -> T:
        return await self.inner.write(function, quietly=quietly)


class InterruptedDatabase(CountedDatabase):
    """Another database, in which something happens once between the read of some words and its result."""

    def __init__(self, inner: Database, words: str, happens: Callable[[], Awaitable[object]]) -> None:
        super().__init__(inner)
        self._words = words
        self._happens: Callable[[], Awaitable[object]] | None = happens

    async def read(self, function: Callable[[Transaction], T]) -> T:
        found = await super().read(function)
        if self._happens is not None and self._words in str(found):
            happens, self._happens = self._happens, None
            await happens()
        return found


async def test_what_another_window_forgets_while_a_turn_searches_for_it_is_neither_sent_nor_recorded():
    model = ScriptedProvider([says("Noted."), says("Which one?")])
    async with running_agent(model) as agent:
        shared, inner = agent.sessions.constellation, agent.database
        earlier = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(earlier, "The zeppelin hangar opens with the code 90317.")

        async def forget() -> None:
            async with running_agent(ScriptedProvider([]), database=inner.path) as other:
                elsewhere = await other.editor.open_session(str(other.folder))
                await other.editor.prompt(elsewhere, "/memory forget archive hangar opens with the code 90317")

        shared.database = InterruptedDatabase(inner, "with the code 90317", forget)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Which code opens the zeppelin hangar?")
        assert "[forgotten]" in str(await inner.read(lambda tx: read_stream(tx, earlier)))
        assert "with the code 90317" not in str(await inner.read(lambda tx: read_stream(tx, session)))
        assert "with the code 90317" not in str(model.requests[-1])
        assert "This turn began" in model.requests[-1].volatile


async def test_a_later_turn_of_two_requests_reads_the_database_four_times():
    read = calls("read_file", path="notes.txt")
    model = ScriptedProvider([says("Hello."), read, says("It says hello.")])
    async with running_agent(model, files={"notes.txt": "hello\n"}) as agent:
        shared = agent.sessions.constellation
        counted = shared.database = CountedDatabase(shared.database)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello there.")
        before = counted.reads
        await agent.editor.prompt(session, "Read the notes about the staging database.")
        assert len(model.requests) == 3
        # The lease; memory with words forgotten and standing permissions, which is that of the first request, too; what
        # is recalled; and memory for the second request.
        assert counted.reads - before == 4


async def test_memory_that_a_turn_has_read_is_read_again_for_its_first_request_once_this_process_has_written():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        shared = agent.sessions.constellation
        counted = shared.database = CountedDatabase(shared.database)
        session = agent.sessions.get(await agent.editor.open_session(str(agent.folder)))
        counted.reads = 0
        first = await memory_of_request(session.dialogue, TurnId("turn"))
        assert (await memory_of_request(session.dialogue, TurnId("turn"), before=first)).views == first.views
        before = counted.reads
        await counted.write(lambda _: None)
        assert (await memory_of_request(session.dialogue, TurnId("turn"), before=first)).views == first.views
        assert counted.reads == before + 1


async def test_a_search_by_meaning_reads_once_whatever_capitalised_words_the_prompt_has():
    async with running_agent(ScriptedProvider([says("Noted.")])) as agent:
        counted = CountedDatabase(agent.database)
        indexer = Indexer(counted, HashedNgrams(), agent.shared.clock)
        await indexer.query("Opens the table of vectors.")
        before = counted.reads
        for prompt in ("Fix the README of Berlin.", "fix the parser"):
            vector, _ = await indexer.ask(prompt, lambda tx, vector: vector)
            assert vector is not None
        assert counted.reads - before == 2
