"""A turn that failed has exactly one failure in the journal, directly in front of its end; no other turn has any."""

import secrets
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pattern_acp.cli.explain import failures
from pattern_acp.config.settings import BudgetSettings, Settings, TurnSettings
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId, TurnId
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.journal.events import ErrorReported, TurnStarted
from pattern_acp.journal.reader import verify_stream
from pattern_acp.journal.writer import append
from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.providers import http_errors
from pattern_acp.providers.base import ProviderStop
from pattern_acp.providers.scripted import ScriptedProvider, ScriptGate
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.faulty_provider import RaisingProvider
from tests.support.passing_time import passing
from tests.support.requests import begin_prompt
from tests.support.scripts import Turn, calls, gate, says, stops
from tests.support.turns import events_of, of_type, prompting

COUNTS = """
SELECT started.item,
    (SELECT count(*) FROM events AS e WHERE e.stream = :stream AND e.item = started.item AND e.kind = 'turn_ended'),
    (SELECT count(*) FROM events AS e WHERE e.stream = :stream AND e.item = started.item AND e.kind = 'error_reported'),
    (SELECT count(*) FROM events AS e
        JOIN events AS ended ON ended.stream = e.stream AND ended.session_seq = e.session_seq + 1
        WHERE e.stream = :stream AND e.item = started.item AND e.kind = 'error_reported'
            AND ended.kind = 'turn_ended' AND ended.item = e.item AND ended.at_ms = e.at_ms)
FROM events AS started WHERE started.stream = :stream AND started.kind = 'turn_started' ORDER BY started.seq
"""
"""For each turn: its id, its ends, its failures, and those of its failures that stand directly in front of its end."""


async def counts(agent: RunningAgent, session: str) -> list[tuple[int, int, int]]:
    """How many ends, failures, and failures in front of the end each turn has, in order."""

    def count(tx: Transaction) -> list[tuple[int, int, int]]:
        rows = tx.all(COUNTS, {"stream": session})
        return [(int(str(row[1])), int(str(row[2])), int(str(row[3]))) for row in rows]

    return await agent.database.read(count)


async def codes(agent: RunningAgent, session: str) -> list[str]:
    return [event.code for event in of_type(await events_of(agent, session), ErrorReported)]


FAILED, WELL = (1, 1, 1), (1, 0, 0)


@dataclass(frozen=True)
class Way:
    """One way a turn can end, and the code of its failure; empty where it did not fail."""

    code: str
    model: tuple[Turn, ...] = ()
    prompt: str = "Go."
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    turn: TurnSettings = field(default_factory=TurnSettings)
    is_slow: bool = False
    """Whether more time passes than a turn may take."""


def raising(error: ProviderError) -> Way:
    return Way(error.failure_code, ((*says("Well, "), error),))


CUT_CALL: Turn = calls("read_file", path="a.txt") + stops(ProviderStop.MAX_TOKENS)
LOOP: Turn = calls("read_file", path="not-there.txt")

WAYS: Mapping[str, Way] = {
    "refused key": raising(http_errors.ProviderAuthError("Set a key.")),
    "unreachable": raising(http_errors.ProviderConnectionError("Check the network.")),
    "silent": raising(http_errors.ProviderStalledError("Nothing came.")),
    "slow": raising(http_errors.ProviderTooSlowError("It took too long.")),
    "overloaded": raising(http_errors.ProviderOverloadedError("Later.", 1_000)),
    "no model left": raising(http_errors.NoModelLeftError("All are out.")),
    "refused request": raising(http_errors.ProviderRequestError("There is no such model.")),
    "garbage": raising(http_errors.ProviderProtocolError("That was HTML.")),
    "filtered prompt": raising(http_errors.ContentFilteredError("Put it differently.")),
    "too long for the provider": raising(http_errors.ContextTooLongError("Shorten it.")),
    "empty": Way("provider.answer-empty", ((),)),
    "cut connection": Way("provider.interrupted", (says("Half") + stops(ProviderStop.INTERRUPTED),) * 5),
    "cut answer": Way("provider.answer-cut", (says("Half") + stops(ProviderStop.MAX_TOKENS),) * 3),
    "cut calls": Way("provider.answer-cut", (CUT_CALL,) * 3),
    "refusal": Way("provider.model-refused", (says("No") + stops(ProviderStop.REFUSAL),)),
    "filtered answer": Way("provider.answer-filtered", (says("N") + stops(ProviderStop.CONTENT_FILTER),)),
    "budget": Way("turn.budget-reached", budget=BudgetSettings(day="0 tokens")),
    "limit of requests": Way("turn.limit-reached", (LOOP, LOOP), turn=TurnSettings(1)),
    "limit of time": Way("turn.limit-reached", ((*says("One"), gate()),), turn=TurnSettings(100, 1), is_slow=True),
    "repeating": Way("turn.repeating", (LOOP,) * 20),
    "misused command": Way("session.command-misused", prompt="/budget week 1"),
    "an answer": Way("", (says("Hello."),)),
    "a command": Way("", prompt="/help"),
}


async def end_of(agent: RunningAgent, session: str, prompt: str) -> None:
    """Run a prompt to its end, whatever that is."""
    with suppress(RemoteError):
        await agent.editor.prompt(session, prompt)


@pytest.mark.parametrize("name", WAYS)
async def test_a_turn_has_one_failure_with_its_code_exactly_when_it_failed(name: str):
    way = WAYS[name]
    means = Settings(editor_deadline_seconds=30, mode="auto", budget=way.budget, turn=way.turn)
    # A gate belongs to the event loop of one test.
    script = [[gate() if isinstance(step, ScriptGate) else step for step in turn] for turn in way.model]
    model = ScriptedProvider([*script, says("Here again.")])
    async with running_agent(model, settings=means, permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        said = partial(agent.editor.wait_until, lambda: "One" in agent.editor.said())
        async with passing(2, said) if way.is_slow else nullcontext():
            await end_of(agent, session, way.prompt)
        assert await codes(agent, session) == ([way.code] if way.code else [])
        assert await counts(agent, session) == [FAILED if way.code else WELL]
        assert way.code == "" or way.code in failures()


async def test_what_does_not_fit_after_the_provider_said_so_is_one_failure():
    way = WAYS["too long for the provider"]
    async with running_agent(ScriptedProvider([says("Hello."), *way.model, *way.model])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hi")
        await end_of(agent, session, "Go.")
        assert await codes(agent, session) == ["context.full"]
        assert await counts(agent, session) == [WELL, FAILED]


async def test_a_fault_of_ours_is_one_failure_too():
    async with running_agent(ScriptedProvider([]), others={"faulty": RaisingProvider()}) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        choice = {"sessionId": session, "configId": "model", "value": "faulty/test"}
        await agent.editor.request("session/set_config_option", choice)
        await end_of(agent, session, "Go.")
        assert await codes(agent, session) == ["agent.fault"]
        assert await counts(agent, session) == [FAILED]


async def test_a_cancelled_turn_did_not_fail():
    waits = gate()
    async with running_agent(ScriptedProvider([(*says("One"), waits)])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await waits.reached.wait()
            await agent.editor.cancel(session)
            assert await flight.stop_reason() == "cancelled"
        assert await counts(agent, session) == [WELL]


async def refuse_ends(agent: RunningAgent) -> None:
    """Let every transaction fail that holds the end of a turn."""
    statement = (
        "CREATE TRIGGER planted BEFORE INSERT ON events WHEN NEW.kind = 'turn_ended' "
        "BEGIN SELECT RAISE(ABORT, 'planted'); END"
    )
    await agent.database.write(lambda tx: tx.all(statement))


async def allow_ends(agent: RunningAgent) -> None:
    await agent.database.write(lambda tx: tx.all("DROP TRIGGER planted"))


@pytest.mark.parametrize("name", ["overloaded", "refused key", "an answer", "misused command"])
async def test_the_failure_is_recorded_in_the_transaction_that_ends_the_turn_or_not_at_all(name: str):
    way = WAYS[name]
    async with running_agent(ScriptedProvider([*way.model, says("Here again."), says("Once more.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await refuse_ends(agent)
        await agent.editor.prompt(session, way.prompt)
        assert "Nothing more was saved" in agent.editor.said()
        assert await counts(agent, session) == [(0, 0, 0)]
        await allow_ends(agent)
        # What is known of it now is that it could not be saved.
        assert (await agent.editor.prompt(session, "And now?"))["stopReason"] == "end_turn"
        assert await codes(agent, session) == ["database.constraint"]
        assert await counts(agent, session) == [FAILED, WELL]
        assert (await agent.database.read(lambda tx: verify_stream(tx, session))).ok


@pytest.mark.first_version("a failure is an error of the state")
async def test_refused_keys_are_named_by_the_same_code_in_the_answer():
    model = ScriptedProvider(WAYS["refused key"].model)
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        with pytest.raises(RemoteError) as caught:
            await agent.editor.prompt(session, "Go.")
        assert isinstance(caught.value.data, Mapping)
        assert caught.value.data["code"] == "provider.key-refused"


async def test_a_turn_whose_process_died_has_one_failure():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.request("session/close", {"sessionId": session})
        begun = TurnStarted(TurnId("turn_dead"), Message(MessageId("msg_dead"), Role.USER, (TextPart("Go."),)))
        await agent.database.write(
            lambda tx: append(tx, session, begun, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=1)
        )
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", params)
        await agent.editor.prompt(session, "Again.")
        assert await codes(agent, session) == ["turn.interrupted"]
        assert await counts(agent, session) == [FAILED, WELL]


async def test_a_full_disk_is_one_failure_once_there_is_room_again():
    model = ScriptedProvider([says(secrets.token_hex(300_000)), says("Hello.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.database.write(lambda tx: tx.all("PRAGMA max_page_count = 150"))
        await agent.editor.prompt(session, "Hi")
        assert await counts(agent, session) == [(0, 0, 0)]
        await agent.database.write(lambda tx: tx.all("PRAGMA max_page_count = 1000000"))
        await agent.editor.prompt(session, "Again")
        assert await codes(agent, session) == ["database.disk-full"]
        assert await counts(agent, session) == [FAILED, WELL]


async def test_a_turn_that_another_window_takes_over_has_one_failure_and_no_traceback(caplog: pytest.LogCaptureFixture):
    waiting = gate()
    model = ScriptedProvider([(*says("First. "), waiting, *says("Never recorded."))])
    async with running_agent(model) as first, anyio.create_task_group() as tasks:
        session = await first.editor.open_session(str(first.folder))
        running = begin_prompt(tasks, first.editor, session, "Look")
        with anyio.fail_after(30):
            await waiting.reached.wait()
        path, permission = first.database.path, choose("allow_always")
        async with running_agent(ScriptedProvider([says("Mine.")]), database=path, permission=permission) as second:
            params: JsonDict = {"sessionId": session, "cwd": str(first.folder), "mcpServers": []}
            await second.editor.request("session/load", params)
            await second.editor.prompt(session, "Go on")
            waiting.opened.set()
            answer = await running.end()
            assert isinstance(answer, dict)
            assert answer["stopReason"] == "end_turn"
        assert await codes(first, session) == ["session.taken-over"]
        assert await counts(first, session) == [FAILED, WELL]
    assert not [record.getMessage() for record in caplog.records if record.exc_info]


LONG = {"repeating", "too long for the provider"}
"""Ways that ask the model more or less often as the conversation grows."""

ORDINARY = [name for name, way in WAYS.items() if way == Way(way.code, way.model, way.prompt) and name not in LONG]


@pytest.mark.slow
@settings(max_examples=12)
@given(names=st.lists(st.sampled_from(ORDINARY), min_size=2, max_size=4))
async def test_turns_that_follow_each_other_have_each_their_own(names: list[str]):
    ways = [WAYS[name] for name in names]
    model = ScriptedProvider([turn for way in ways for turn in way.model])
    async with running_agent(model, settings=Settings(editor_deadline_seconds=30, mode="auto")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        for way in ways:
            await end_of(agent, session, way.prompt)
        assert await codes(agent, session) == [way.code for way in ways if way.code]
        assert await counts(agent, session) == [FAILED if way.code else WELL for way in ways]
