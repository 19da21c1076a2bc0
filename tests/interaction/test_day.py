"""A day of work, 60 turns: three sessions, a rewind, a forgetting, and the next day, with a model that knows no more
than what it is sent.

The window is small, so that compaction takes the beginnings away. When the user asks, the model answers with the word
only if it is in the request; where it must be gone, it is looked for in everything that was sent since.
"""

import re
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import CompactionSettings, MemorySettings, Settings
from pattern_acp.domain.messages import ToolResultPart
from pattern_acp.journal.events import ContextCompacted
from pattern_acp.journal.reader import verify_stream
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.passing_time import PassingClock
from tests.support.scripts import Turn, calls, says
from tests.support.turns import events_of, of_type
from tests.support.window_model import WindowModel

WINDOW = 14_000
DAY_MS = 86_400_000
MORNING = int(time.mktime((2026, 11, 26, 9, 0, 0, 0, 0, -1)) * 1000)
"""Nine in the morning of a Thursday."""

ANSWERS = {
    "the staging server called": "heron",
    "the release branch called": "kestrel",
    "the day of our deploys": "Thursdays",
    "the vault code": "zebrafish",
    "the name of the wrong file": "mistake.py",
    "yesterday on the parser": "Create parser.py",
}
"""What may be asked, and the word without which the model cannot answer."""


class SetClock(PassingClock):
    """A clock whose time of day is set."""

    at_ms = MORNING

    def now_ms(self) -> int:
        """Return the time that was set."""
        return self.at_ms


def everything(request: ProviderRequest) -> str:
    """All that the model is sent, apart from the question itself."""
    texts = [request.system, request.volatile, *(str(message.parts) for message in request.messages)]
    return re.sub(r"Tell me [^?]*\?", "", "\n".join(texts))


def answer(request: ProviderRequest) -> Turn:
    """Do what is asked, as far as the request says how."""
    asked = next(message.text for message in reversed(request.messages) if message.text and message.role == "user")
    is_step = isinstance(request.messages[-1].parts[-1], ToolResultPart)
    if found := re.search(r"Write (\S+\.py)", asked):
        return says("It is written.") if is_step else calls("write_file", path=found[1], content="x = 1\n" * 3)
    if "Run the tests" in asked:
        return says("They pass.") if is_step else calls("run_command", command="echo 3 passed")
    if found := re.search(r"Keep in mind: (.*)", asked):
        noted = calls("memory_write", label="project", operation="append", text=found[1])
        return says("I noted it.") if is_step else noted
    for question, word in ANSWERS.items():
        if question in asked:
            if "yesterday" in question and not is_step:
                return calls("session_search", when="yesterday", query="parser")
            return says(f"It is {word}." if word in everything(request) else "I do not know.")
    return says("It was a quiet hour, and we did what there was to do. " * 20)


def chat(number: int) -> str:
    return f"Note {number}: the corridor was quiet. " + "We read mail and spoke of the weather at length. " * 40


class Day:
    """One process of the day: its agent, its model, and what was said."""

    def __init__(self, agent: RunningAgent, model: WindowModel, folder: Path) -> None:
        self.agent = agent
        self.model = model
        self.folder = folder
        self.turns = 0

    async def say(self, session: str, text: str) -> str:
        """One turn; the agent's words."""
        self.turns += 1
        self.agent.editor.updates.clear()
        await self.agent.editor.prompt(session, text)
        return self.agent.editor.said()

    async def chatter(self, session: str, turns: int) -> None:
        for _ in range(turns):
            await self.say(session, chat(self.turns))

    async def knows(self, session: str, question: str) -> bool:
        """Whether the model could answer."""
        return ANSWERS[question] in await self.say(session, f"Tell me {question}?")


@asynccontextmanager
async def working(database: Path, folder: Path, at_ms: int) -> AsyncGenerator[Day]:
    """A process that works from a time on."""
    model = WindowModel(WINDOW, answer, counts=True)
    settings = Settings(
        editor_deadline_seconds=30,
        mode="auto",
        compaction=CompactionSettings("summarise"),
        memory=MemorySettings(embedder="hash"),
    )
    others = {"scripted": model}
    async with running_agent(ScriptedProvider([]), settings=settings, others=others, database=database) as agent:
        info = agent.models.infos["scripted"]
        agent.models.infos["scripted"] = replace(info, context_window=WINDOW, max_output_tokens=1_000)
        clock = agent.shared.clock = SetClock()
        clock.at_ms = at_ms
        yield Day(agent, model, folder)
        assert model.refused == 0, "a request was over the window"


@pytest.mark.slow
async def test_what_is_told_is_known_all_day_and_what_is_taken_back_or_forgotten_is_not(tmp_path: Path):
    database, folder = tmp_path / "data" / "c.db", tmp_path / "project"
    folder.mkdir()
    async with working(database, folder, MORNING) as day:
        first = await day.agent.editor.open_session(str(folder))
        await day.say(first, "/remember project: The staging server is called heron.")
        await day.say(first, "The release branch is called kestrel, by the way.")
        await day.say(first, "Keep in mind: deploys are on Thursdays.")
        await day.say(first, "The vault code is zebrafish, do not tell anybody.")
        await day.say(first, "Let us work on the parser. Write parser.py")
        await day.say(first, "Run the tests of the parser")
        await day.chatter(first, 14)
        for question in ("the staging server called", "the release branch called", "the day of our deploys"):
            assert await day.knows(first, question), question
        assert await day.knows(first, "the vault code")
        assert of_type(await events_of(day.agent, first), ContextCompacted)

        await day.say(first, "Write mistake.py")
        assert (folder / "mistake.py").exists()
        (number,) = re.findall(r"`/rewind (\d+)` \| before “Write mistake", await day.say(first, "/rewind"))
        await day.say(first, f"/rewind {number} yes")
        assert not (folder / "mistake.py").exists()
        assert not await day.knows(first, "the name of the wrong file")

        second = await day.agent.editor.open_session(str(folder))
        await day.chatter(second, 10)
        for question in ("the staging server called", "the release branch called", "the day of our deploys"):
            assert await day.knows(second, question), question

        await day.say(first, "/memory forget --yes archive ZEBRAFISH")
        sent = len(day.model.requests)
        third = await day.agent.editor.open_session(str(folder))
        await day.chatter(third, 8)
        for session in (first, second, third):
            assert "zebrafish" not in await day.say(session, "Tell me the vault code?")
        assert not any("zebrafish" in everything(one) for one in day.model.requests[sent:])
        turns = day.turns

    async with working(database, folder, MORNING + DAY_MS) as day:
        await day.agent.editor.request("session/load", {"sessionId": first, "cwd": str(folder), "mcpServers": []})
        await day.chatter(first, 3)
        fourth = await day.agent.editor.open_session(str(folder))
        assert await day.knows(fourth, "yesterday on the parser")
        assert "3 passed" in everything(day.model.requests[-1])
        for session in (first, fourth):
            assert await day.knows(session, "the release branch called")
            assert await day.knows(session, "the staging server called")
        assert turns + day.turns >= 60
        for session in (first, second, third, fourth):
            chain = await day.agent.database.read(lambda tx, stream=session: verify_stream(tx, stream))
            assert chain.ok, chain.problem
