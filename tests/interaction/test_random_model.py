"""A model that does anything at all: whatever it calls, each call has one result, and the next turn works.

`--all-faults` plays many more conversations. What fails names its seed.
"""

import logging
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from pattern_acp.cli.journal import current_means
from pattern_acp.config.settings import MODES_BY_REACH, Settings
from pattern_acp.domain.messages import ToolResultPart
from pattern_acp.journal.history import read_history
from pattern_acp.journal.reader import broken_streams
from pattern_acp.jsonrpc.messages import RemoteError, RpcError
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.replay.comparison import replay_turns
from pattern_acp.session.session_row_rebuild import replay
from pattern_acp.tools.registry import default_tools
from tests.support.agent import FULL_CLIENT, RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.editor_terminals import FakeTerminalState, end_with, really_run
from tests.support.mcp_fakes import passed
from tests.support.odd_files import disturb, fill_with_odd_files, state_of
from tests.support.programs import problem_of
from tests.support.random_model import RandomModel
from tests.support.vendor_types import judge_body
from tests.support.wires import WIRES, body_for

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes and links are made in another way there")

PROMPTS, REQUESTS = 2, 4

CONVERSATIONS, USUALLY = 300, 5

INTERNAL_ERROR = RpcError(-32603, "Internal error")

ENDS = {"end_turn", "max_tokens", "max_turn_requests", "refusal"}

FAULTS = ("failed unexpectedly", "the log has details")
"""What the model is told of a tool that did not say itself what was wrong."""

LOOK_ONLY = frozenset(tool.spec.name for tool in default_tools() if not tool.changes_things)

SAID = ("allow_once", "allow_always", "reject_once", "reject_always", "cancelled")

ANSWERS = (*SAID, "error", "late", "nonsense", "any")


class Person:
    """Answers questions in one way, or in any."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._way = draw.choice(ANSWERS)
        self.never_allows = self._way not in {"allow_once", "allow_always", "late", "any"}

    async def __call__(self, params: JsonDict) -> JsonDict:
        """See `PermissionAnswer`."""
        way = self._draw.choice(SAID) if self._way == "any" else self._way
        match way:
            case "error":
                raise INTERNAL_ERROR
            case "nonsense":
                return self._draw.choice(({"outcome": "selected", "optionId": "no"}, {"outcome": "x"}, {}))
            case "cancelled":
                return {"outcome": "cancelled"}
            case "late":
                await anyio.wait_all_tasks_blocked()
                return {"outcome": "selected", "optionId": "allow_once"}
            case _:
                return {"outcome": "selected", "optionId": way}


def run_without_failing(state: FakeTerminalState) -> None:
    """`really_run`, where a folder may be closed to the command."""
    try:
        really_run(state)
    except OSError as error:
        raise INTERNAL_ERROR from error


def spoil_editor(agent: RunningAgent, draw: random.Random) -> None:
    """Give the editor a bad habit or two, or none."""
    habits, terminals = agent.editor.disk.habits, agent.editor.terminals
    match draw.randrange(8):
        case 0:
            habits.error = INTERNAL_ERROR
        case 1:
            habits.missing_as_empty = True
        case 2:
            habits.saves = False
        case 3:
            habits.formatter = lambda text: text.upper() + "\n"
        case _:
            pass
    terminals.run = draw.choice((run_without_failing, run_without_failing, end_with("out\0\x1b[2J", 1)))
    if draw.random() < 0.15:
        method = draw.choice(("create", "output", "wait_for_exit", "kill", "release"))
        terminals.errors = {f"terminal/{method}": INTERNAL_ERROR}


def judge_request(request: ProviderRequest, *, by_vendors: bool) -> None:
    """Every call has one result, none of them says that it does not know why, and vendors would read the history."""
    asked = Counter(call.call_id for message in request.messages for call in message.tool_calls)
    parts = [part for message in request.messages for part in message.parts if isinstance(part, ToolResultPart)]
    assert Counter(part.call_id for part in parts) == asked
    assert not [part.text for part in parts if any(fault in part.text for fault in FAULTS)]
    for wire in WIRES if by_vendors else ():
        judge_body(wire, body_for(wire, request, "scripted"))


async def judge_journal(agent: RunningAgent, session: str) -> None:
    """The chain holds, and what was recorded replays the same."""
    assert (await agent.database.read(broken_streams))[1] == ()
    rows = await agent.database.read(lambda tx: replay(tx, session))
    assert rows.difference is None, rows.difference
    recorded = await agent.database.read(lambda tx: read_history(tx, session))
    turns = await replay_turns(session, recorded, current_means())
    assert turns.difference is None, turns.difference


async def play(agent: RunningAgent, model: RandomModel, draw: random.Random, work: Path, servers: Sequence[JsonDict]):
    """A few prompts in a session, while somebody else changes files."""
    answer = await agent.editor.request("session/new", {"cwd": str(work), "mcpServers": [*servers]})
    session: str = answer["sessionId"]
    await agent.sessions.get(session).mcp.servers.wait_settled(30)
    for number in range(PROMPTS):
        model.begin(REQUESTS)
        await anyio.to_thread.run_sync(disturb, work, draw)
        # An answer that failed is an error of the prompt or a sentence; both end the turn.
        with suppress(RemoteError):
            assert (await agent.editor.prompt(session, f"Go {number}."))["stopReason"] in ENDS
    model.begin(0)
    assert (await agent.editor.prompt(session, "Are you still there?"))["stopReason"] == "end_turn"
    return session


def settings_of(draw: random.Random) -> tuple[Settings, Mapping[str, object] | None, Sequence[JsonDict]]:
    """Settings, the editor's capabilities and servers of a conversation."""
    settings = Settings(editor_deadline_seconds=2, mode=draw.choice(("auto", *MODES_BY_REACH)))
    files = {"fs": {"readTextFile": True, "writeTextFile": True}}
    capabilities = draw.choice((None, FULL_CLIENT, files, {"terminal": True}, {"fs": {"readTextFile": True}}))
    return settings, capabilities, [passed("usual")] if draw.random() < 0.3 else []


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_whatever_a_model_does_ends_well(
    few: Callable[[int, int], Sequence[int]], caplog: pytest.LogCaptureFixture
):
    for seed in few(CONVERSATIONS, USUALLY):
        try:
            await one_conversation(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        failed = [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]
        assert not failed, (seed, [record.getMessage() for record in failed])


async def one_conversation(seed: int) -> None:
    draw = random.Random(seed)
    settings, capabilities, servers = settings_of(draw)
    person = Person(draw)
    model = RandomModel(draw, leaves=lambda name: name in LOOK_ONLY, never=("usual__slow",))
    async with running_agent(
        ScriptedProvider([]),
        capabilities=None if capabilities is None else dict(capabilities),
        permission=person,
        settings=settings,
        others={"scripted": model},
    ) as agent:
        work, outside = agent.folder / "work", agent.folder / "outside"
        await anyio.to_thread.run_sync(fill_with_odd_files, work, outside)
        if draw.random() < 0.5 and not problem_of("git"):
            await anyio.run_process(["git", "init", "-q", str(work)])
        before = state_of(outside)
        spoil_editor(agent, draw)
        session = await play(agent, model, draw, work, servers)
        for number, request in enumerate(model.requests):
            judge_request(request, by_vendors=number % 3 == 0)
        await judge_journal(agent, session)
        assert state_of(outside) == before or not person.never_allows
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(work), "mcpServers": []})
