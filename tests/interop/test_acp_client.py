"""acp-client (PyPI) drives the agent: a client without files and terminals, which loads sessions."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Protocol, cast

import anyio
import pytest
from acp_client import Agent, AgentError

from tests.support.children import watched_command
from tests.support.clients import Place

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

Update = Mapping[str, object]
See = Callable[[Update], None]


class Client(Protocol):
    """What the tests use of `acp_client.Agent`, whose own annotations leave the kinds of its dicts open."""

    session: str | None
    process: asyncio.subprocess.Process | None

    async def ask(self, text: str, *, on_update: See | None = None) -> str: ...

    async def start(self, on_update: See | None = None) -> None: ...

    def cancel(self) -> None: ...

    async def stop(self) -> None: ...


class Person:
    """Answers permission requests of one agent and keeps what it was shown."""

    def __init__(self, answer: str | None) -> None:
        self.answer = answer
        self.asked: list[Update] = []
        self.updates: list[Update] = []

    async def permit(self, request: Update) -> str | None:
        self.asked.append(request)
        return self.answer

    def see(self, update: Update) -> None:
        self.updates.append(update)

    def kinds(self) -> list[object]:
        return [update["sessionUpdate"] for update in self.updates]


@contextlib.asynccontextmanager
async def agent_of(place: Place, person: Person, session: str | None = None) -> AsyncGenerator[Client, None]:
    agent = cast("Client", Agent(place.command(), place.work, None, person.permit, session))
    try:
        with anyio.fail_after(60):
            yield agent
    finally:
        with anyio.CancelScope(shield=True):
            await agent.stop()


@pytest.fixture
def allows() -> Person:
    return Person("allow_once")


@pytest.fixture(autouse=True)
def environment(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # The client hands its own environment to the agent and takes no other.
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)


def greeting(place: Place) -> str:
    return (place.work / "greeting.txt").read_text(encoding="utf-8")


async def test_it_reads_a_file(place: Place, allows: Person):
    async with agent_of(place, allows) as agent:
        answer = await agent.ask("read greeting.txt", on_update=allows.see)

    assert "world" in answer
    assert allows.asked == []
    assert {"tool_call", "tool_call_update", "agent_message_chunk"} <= set(allows.kinds())


async def test_it_edits_a_file_when_it_is_allowed(place: Place, allows: Person):
    async with agent_of(place, allows) as agent:
        await agent.ask('replace "hello" with "good day" in greeting.txt')

    assert greeting(place) == "good day\nworld\n"
    assert len(allows.asked) == 1


@pytest.mark.parametrize("answer", ["reject_once", None, "no such option"])
async def test_it_leaves_a_file_alone_when_it_is_refused(place: Place, answer: str | None):
    person = Person(answer)
    async with agent_of(place, person) as agent:
        await agent.ask('replace "hello" with "good day" in greeting.txt')

    assert greeting(place) == "hello\nworld\n"
    assert len(person.asked) == 1


async def test_it_runs_a_command(place: Place, allows: Person):
    async with agent_of(place, allows) as agent:
        answer = await agent.ask("run echo one; echo two | tr o 0")

    assert "one\ntw0" in answer


async def test_a_cancelled_turn_ends_its_command_and_the_next_prompt_works(place: Place, allows: Person):
    async with watched_command(place.work) as command, agent_of(place, allows) as agent:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(agent.ask, f"run {command.line}"))
            await command.wait_until_started()
            agent.cancel()
            await command.wait_until_gone()
        assert "world" in await agent.ask("read greeting.txt")


async def test_a_loaded_session_is_told_again_and_goes_on(place: Place, allows: Person):
    async with agent_of(place, allows) as agent:
        first = await agent.ask("read greeting.txt")
        session = agent.session
    person = Person("allow_once")
    async with agent_of(place, person, session) as agent:
        await agent.start(on_update=person.see)
        assert agent.session == session
        assert "user_message_chunk" in person.kinds()
        assert "world" in str(person.updates)
        assert first
        assert "hello" in await agent.ask("read greeting.txt")


async def test_an_unknown_session_is_refused_and_a_new_one_begins(place: Place, allows: Person):
    async with agent_of(place, allows, "ses_unknown") as agent:
        await agent.start()
        assert agent.session not in (None, "ses_unknown")


async def test_a_second_process_sees_what_the_first_remembered(place: Place, allows: Person):
    async with agent_of(place, allows) as one, agent_of(place, allows) as other:
        await other.start()
        await one.ask("remember the build needs four cores")
        assert "four cores" in await other.ask("recall build")


async def test_a_session_that_is_open_elsewhere_is_read_there_and_goes_on_in_a_fork(place: Place, allows: Person):
    async with agent_of(place, allows) as one:
        said = await one.ask("read greeting.txt")
        async with agent_of(place, allows, one.session) as other:
            await other.start()
            assert other.session == one.session
            assert await other.ask("read greeting.txt")
        assert await one.ask("read greeting.txt") == said


async def test_a_client_that_leaves_ends_the_agent(place: Place, allows: Person):
    async with agent_of(place, allows) as agent:
        await agent.start()
        process = agent.process
        await agent.stop()
        assert process is not None
        assert process.returncode is not None
        with contextlib.suppress(AgentError):
            agent.cancel()
