"""Memory of several devices comes to the same, through whatever lies between them."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.domain.clock import RandomIds, SessionId
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.leases import acquire, release, this_process
from pattern_acp.journal.reader import verify_stream
from pattern_acp.journal.sessions import set_title
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.memory.blocks import BlockKey, Scope
from pattern_acp.memory.history import blame_lines, list_writes, read_history
from pattern_acp.memory.secrets import SecretMask
from pattern_acp.memory.service.access import ARCHIVE, MemoryEdit
from pattern_acp.memory.service.history import HistoryScope
from pattern_acp.memory.service.scope import PERSON, MemoryRules, MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.service.undo import MemoryReverts
from pattern_acp.memory.store import load_block
from pattern_acp.memory.write_validation import SecretRule
from pattern_acp.recovery.checks import Health, check_rows
from pattern_acp.sync.exchange import ExchangeReport, MemoryExchange, peers_of, revoke, tell_all_again
from pattern_acp.sync.outgoing import Sharing
from pattern_acp.sync.segments import Carrier, DeviceRevokedError, SyncError, new_key
from pattern_acp.tasks import store
from pattern_acp.tasks.model import Task, TaskFilter, TaskPatch, TaskStatus
from tests.carry.test_archive import talk
from tests.support.carriers import Depot, LyingCarrier, MemoryCarrier
from tests.support.constellation import FakeClock

PROJECT, SECRET = "/project", "/work/secret"
KEY = new_key()


class Device:
    """One machine of the user: a constellation of its own, and its way to the others."""

    def __init__(self, database: Database, name: str, peer: int, carrier: Carrier, clock: FakeClock) -> None:
        self.database = database
        self.name = name
        self.peer = peer
        self.clock = clock
        self.carrier = carrier

    def memory(self, project: str = PROJECT) -> ConstellationMemory:
        owner = MemoryScope("tester", project, SessionId(CONSTELLATION_STREAM))
        rules = MemoryRules(secrets=SecretRule.ASK)
        return ConstellationMemory(
            self.database, owner, clock=self.clock, ids=RandomIds(), peer=self.peer, writer=PERSON, rules=rules
        )

    async def say(self, label: str, text: str, project: str = PROJECT, operation: str = "append") -> None:
        self.clock.advance(1_000)
        edit = MemoryEdit(label, operation, text, reason=f"Said on {self.name}.", description="Of a test.")
        await self.memory(project).commit(edit, None)

    async def exchange(self, sharing: Sharing | None = None, key: bytes = KEY) -> ExchangeReport:
        self.clock.advance(1_000)
        one = MemoryExchange(
            self.database,
            self.carrier,
            key,
            sharing or Sharing(),
            SecretMask(),
            self.clock,
            RandomIds(),
            host=self.name,
        )
        return await one.run()

    async def texts(self, owner: str = PROJECT) -> dict[str, str]:
        def read(tx: Transaction) -> dict[str, str]:
            rows = tx.all(
                "SELECT label, text FROM blocks AS b WHERE deleted = 0 AND owner = ? AND EXISTS (SELECT 1 FROM "
                "block_updates WHERE block_id = b.id AND actor <> 'system') ORDER BY label",
                (owner,),
            )
            return {str(label): str(text) for label, text in rows}

        return await self.database.read(read)

    async def facts(self) -> list[str]:
        rows = await self.database.read(lambda tx: tx.all("SELECT text FROM archival_entries ORDER BY text"))
        return [str(row[0]) for row in rows]

    async def blame(self, label: str = "project") -> dict[str, str]:
        """Why each line is there, by its text."""

        def read(tx: Transaction) -> dict[str, str]:
            block = load_block(tx, BlockKey(Scope.PROJECT, PROJECT, label))
            reasons = {write.number: write.reason for write in list_writes(tx, block, limit=1_000)}
            return {line.text: reasons[line.number] for line in blame_lines(read_history(tx, block)) if line.number}

        return await self.database.read(read)

    async def is_sound(self) -> list[str]:
        findings = await self.database.write(lambda tx: list(check_rows(tx)))
        return [one.detail for one in findings if one.health is Health.BROKEN]


@asynccontextmanager
async def devices(folder: Path, count: int, way: Callable[[], Carrier]) -> AsyncGenerator[tuple[Device, ...], None]:
    clock = FakeClock()
    async with AsyncExitStack() as stack:
        made: list[Device] = []
        for number in range(count):
            home = anyio.Path(folder) / f"home-{number}"
            await home.mkdir(parents=True, exist_ok=True)
            database = await stack.enter_async_context(open_database(Path(home) / "constellation.db", clock=clock))
            made.append(Device(database, f"host-{number}", 100 + number, way(), clock))
        yield tuple(made)


async def test_what_is_said_on_one_device_is_known_on_the_other(tmp_path: Path):
    depot = Depot()
    async with devices(tmp_path, 2, lambda: MemoryCarrier(depot)) as (one, two):
        await one.say("project", "The port is 7433.")
        await one.say(ARCHIVE, "The parser is recursive descent.")
        assert (await one.exchange()).sent == 1
        report = await two.exchange()
        assert (report.received, report.blocks, report.facts) == (1, 1, 1)
        assert await two.texts() == {"project": "The port is 7433."}
        assert await two.facts() == ["The parser is recursive descent."]
        assert await two.blame() == {"The port is 7433.": "Said on host-0."}
        await two.say("project", "Build with ninja.")
        await two.exchange()
        await one.exchange()
        assert await one.blame() == {
            "The port is 7433.": "Said on host-0.",
            "Build with ninja.": "Said on host-1.",
        }
        assert await one.is_sound() == []
        assert await two.is_sound() == []


async def test_an_exchange_without_news_writes_nothing(tmp_path: Path):
    depot = Depot()
    async with devices(tmp_path, 2, lambda: MemoryCarrier(depot)) as (one, two):
        await one.say("project", "The port is 7433.")
        for _ in range(3):
            await one.exchange()
            await two.exchange()
        before = dict(depot.there)
        events = await two.database.read(lambda tx: tx.one("SELECT max(seq) FROM events"))
        for _ in range(3):
            assert (await one.exchange()).sent == 0
            assert (await two.exchange()).sent == 0
        assert depot.there == before
        assert await two.database.read(lambda tx: tx.one("SELECT max(seq) FROM events")) == events


async def test_blocks_that_two_devices_made_under_one_label_end_under_the_same_two(tmp_path: Path):
    depot = Depot()
    async with devices(tmp_path, 3, lambda: MemoryCarrier(depot)) as (one, two, three):
        await one.say("project", "Written first.")
        await two.say("project", "Written second.")
        for _ in range(3):
            for each in (two, three, one):
                await each.exchange()
        texts = await one.texts()
        assert texts["project"] == "Written first."
        assert sorted(texts.values()) == ["Written first.", "Written second."]
        assert await two.texts() == texts
        assert await three.texts() == texts
        for each in (one, two, three):
            assert await each.is_sound() == []
        await two.say("project", "And more.")
        await two.exchange()
        await three.exchange()
        assert (await three.texts())["project"] == "Written first.\nAnd more."


async def test_a_canary_of_an_excluded_project_never_leaves_and_never_comes(tmp_path: Path):
    depot = Depot()
    sharing = Sharing(excluded=("/work",))
    async with devices(tmp_path, 2, lambda: MemoryCarrier(depot)) as (one, two):
        await one.say("project", "canary-7f3a", project=SECRET)
        await one.say(ARCHIVE, "canary-7f3b is a fact", project=SECRET)
        await one.say("project", "Known to all.")
        await one.exchange(sharing)
        await two.exchange()
        assert await two.texts(SECRET) == {}
        assert await two.facts() == []
        assert await two.texts() == {"project": "Known to all."}
        found = await two.database.read(lambda tx: tx.all("SELECT payload FROM events"))
        assert not any("canary" in str(row) or SECRET in str(row) for row in found)
        await two.say("project", "From outside.", project=SECRET)
        await two.exchange()
        await one.exchange(sharing)
        assert await one.texts(SECRET) == {"project": "canary-7f3a"}
        # Shared from now on: what was passed over before comes, too.
        await one.exchange()
        await two.exchange()
        assert "canary-7f3a" in (await two.texts(SECRET)).values()
        assert "From outside." in (await one.texts(SECRET)).values()


async def test_a_project_in_another_folder_is_joined_by_its_name(tmp_path: Path):
    depot = Depot()
    here, there = Sharing(folders={"shop": "/home/ann/shop"}), Sharing(folders={"shop": "/Users/ann/shop"})
    async with devices(tmp_path, 2, lambda: MemoryCarrier(depot)) as (one, two):
        await one.say("project", "The port is 7433.", project="/home/ann/shop")
        await one.say(ARCHIVE, "A fact.", project="/home/ann/shop")
        await one.exchange(here)
        await two.exchange()
        assert await two.facts() == []
        await two.exchange(there)
        assert await two.texts("/Users/ann/shop") == {"project": "The port is 7433."}
        await two.say("project", "Build with ninja.", project="/Users/ann/shop")
        await two.exchange(there)
        await one.exchange(here)
        assert await one.texts("/home/ann/shop") == {"project": "The port is 7433.\nBuild with ninja."}
        assert await one.is_sound() == []


async def test_a_deletion_is_known_everywhere_unless_somebody_wrote_meanwhile(tmp_path: Path):
    depot = Depot()
    async with devices(tmp_path, 3, lambda: MemoryCarrier(depot)) as (one, two, three):
        await one.say("plan", "First this.", operation="create")
        await one.say("ideas", "A boat.", operation="create")
        for each in (one, two, three):
            await each.exchange()
        one.clock.advance(1_000)
        for label in ("plan", "ideas"):
            await undo_of(one).delete(label, "Done.")
        await two.say("ideas", "A bigger boat.")
        for _ in range(3):
            for each in (one, three, two):
                await each.exchange()
        for each in (one, two, three):
            assert await each.texts() == {"ideas": "A boat.\nA bigger boat."}
            assert await each.is_sound() == []
        one.clock.advance(1_000)
        await undo_of(three).restore("plan")
        for each in (three, one, two):
            await each.exchange()
            assert (await each.texts())["plan"] == "First this."


def undo_of(device: Device) -> MemoryReverts:
    scope = HistoryScope(((Scope.PROJECT, PROJECT),), CONSTELLATION_STREAM, PERSON.actor, PERSON.origin, device.peer)
    return MemoryReverts(device.database, scope, clock=device.clock)


async def task_names(device: Device) -> dict[str, str]:
    """The titles of tasks by their numbers, with their states."""
    rows = await device.database.read(
        lambda tx: store.list_tasks(tx, ((Scope.PROJECT, PROJECT),), TaskFilter(statuses=None))
    )
    assert len({row.task.number for row in rows}) == len(rows)
    return {row.task.title: row.task.status for row in rows}


async def plan(device: Device, title: str, project: str = PROJECT) -> None:
    """Add a task."""
    device.clock.advance(1_000)
    at_ms = device.clock.now_ms()
    writer = store.TaskWriter(CONSTELLATION_STREAM, device.peer, at_ms, PERSON.actor, PERSON.origin)
    task = Task(f"task_{at_ms}_{device.name}", 0, title)
    list_id = f"tasklist_{device.name}_{project.strip('/').replace('/', '_')}"
    await device.database.write(lambda tx: store.create_task(tx, Scope.PROJECT, project, task, writer, list_id=list_id))


async def finish(device: Device, title: str) -> None:
    """Note that a task is done."""
    device.clock.advance(1_000)
    owners = ((Scope.PROJECT, PROJECT),)
    writer = store.TaskWriter(CONSTELLATION_STREAM, device.peer, device.clock.now_ms(), PERSON.actor, PERSON.origin)

    def write(tx: Transaction) -> None:
        rows = store.list_tasks(tx, owners, TaskFilter(statuses=None))
        (ref,) = (row.task.id for row in rows if row.task.title == title)
        store.patch_task(tx, owners, ref, TaskPatch(status=TaskStatus.DONE), writer)

    await device.database.write(write)


async def test_tasks_of_all_devices_are_on_all_each_with_a_number_of_its_own(tmp_path: Path):
    depot = Depot()
    sharing = Sharing(excluded=(SECRET,))
    async with devices(tmp_path, 3, lambda: MemoryCarrier(depot)) as three:
        one, two, _ = three
        await plan(one, "Parse it")
        await plan(one, "canary-tasks", project=SECRET)
        await plan(two, "Print it")
        for _ in range(4):
            for each in three:
                await each.exchange(sharing)
        await finish(two, "Parse it")
        await plan(one, "Ship it")
        await plan(two, "Tell them")
        for _ in range(4):
            for each in three:
                await each.exchange(sharing)
        wanted = {"Parse it": "done", "Print it": "todo", "Ship it": "todo", "Tell them": "todo"}
        for each in three:
            assert await task_names(each) == wanted
            assert await each.is_sound() == []
            assert (await each.exchange(sharing)).sent == 0
        found = await two.database.read(lambda tx: tx.all("SELECT payload FROM events"))
        assert not any("canary" in str(row) for row in found)


async def test_sessions_go_where_the_user_wants_them_to_turn_by_turn(tmp_path: Path):
    depot, sharing = Depot(), Sharing(sessions_since_ms=0)
    folder = tmp_path / "work"
    async with devices(tmp_path, 2, lambda: MemoryCarrier(depot)) as (one, two):
        session = SessionId(await talk(one.database.path, folder, "Where is it?"))
        await one.exchange()
        assert (await two.exchange()).sessions == 0
        await one.exchange(sharing)
        assert (await two.exchange(sharing)).sessions == 1
        assert (await two.database.read(lambda tx: verify_stream(tx, session))).ok
        await one.database.write(lambda tx: say_more(tx, session, "Renamed", one.clock.now_ms()))
        await one.exchange(sharing)
        held = this_process("a window")
        await two.database.write(lambda tx: acquire(tx, session, held, two.clock.now_ms()))
        report = await two.exchange(sharing)
        assert report.sessions == 0
        assert any("is open here" in note for note in report.notes)
        await two.database.write(lambda tx: release(tx, session, held))
        await one.database.write(tell_all_again)
        await one.exchange(sharing)
        assert (await two.exchange(sharing)).sessions == 1
        for each in (one, two):
            assert await each.is_sound() == []
            assert await each.database.read(lambda tx: tx.one("SELECT title FROM sessions")) == ("Renamed",)
        for each in (one, two):
            await each.database.write(lambda tx, name=each.name: say_more(tx, session, name, one.clock.now_ms()))
        for _ in range(2):
            for each in (one, two):
                report = await each.exchange(sharing)
        assert await one.database.read(lambda tx: tx.one("SELECT title FROM sessions")) == ("host-0",)
        assert await two.database.read(lambda tx: tx.one("SELECT title FROM sessions")) == ("host-1",)
        for each in (one, two):
            assert await each.is_sound() == []


def say_more(tx: Transaction, session: SessionId, name: str, at_ms: int) -> None:
    """Give a session a title."""
    seq = append(tx, session, SessionTitled(name), actor=PERSON.actor, origin=PERSON.origin, at_ms=at_ms).seq
    set_title(tx, session, name, seq=seq, at_ms=at_ms)


async def test_a_session_of_an_excluded_folder_stays(tmp_path: Path):
    depot, folder = Depot(), tmp_path / "secret"
    async with devices(tmp_path, 2, lambda: MemoryCarrier(depot)) as (one, two):
        await talk(one.database.path, folder, "The canary sings.")
        await one.exchange(Sharing(excluded=(str(tmp_path),), sessions_since_ms=0))
        assert (await two.exchange(Sharing(sessions_since_ms=0))).sessions == 0
        await one.exchange(Sharing(sessions_since_ms=0))
        assert (await two.exchange(Sharing(excluded=(str(tmp_path),), sessions_since_ms=0))).sessions == 0
        assert (await two.exchange(Sharing(sessions_since_ms=0))).sessions == 1


async def test_a_revoked_device_is_refused_by_all_and_told_so(tmp_path: Path):
    depot = Depot()
    async with devices(tmp_path, 3, lambda: MemoryCarrier(depot)) as (one, two, lost):
        await lost.say("project", "Before.")
        for each in (lost, one, two):
            await each.exchange()
        (device,) = [peer.device for peer in await one.database.read(peers_of) if peer.host == "host-2"]
        await one.database.write(lambda tx: (revoke(tx, device), tell_all_again(tx)))
        await one.exchange()
        await lost.say("project", "Afterwards.")
        with pytest.raises(DeviceRevokedError):
            await lost.exchange()
        await two.exchange()
        await one.exchange()
        for each in (one, two):
            assert await each.texts() == {"project": "Before."}


async def test_a_device_with_another_key_says_so_and_both_go_on(tmp_path: Path):
    depot = Depot()
    async with devices(tmp_path, 2, lambda: MemoryCarrier(depot)) as (one, two):
        await one.say("project", "The port is 7433.")
        await one.exchange()
        report = await two.exchange(key=new_key())
        assert (report.received, report.waiting) == (0, 1)
        (peer,) = await two.database.read(peers_of)
        assert "another key" in peer.problem
        await two.database.write(tell_all_again)
        await two.exchange()
        assert await two.texts() == {"project": "The port is 7433."}
        await one.exchange()
        assert [peer.problem for peer in await one.database.read(peers_of)] == [""]


ACTIONS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["say", "exchange", "exchange", "fact", "task"]), st.integers(0, 1)),
    min_size=6,
    max_size=30,
)


TASKS_OF_ALL = [
    *((0, "say", 0), (1, "fact", 1), (1, "exchange", 0), (0, "say", 0), (2, "task", 0), (2, "say", 0)),
    *((0, "exchange", 1), (0, "exchange", 0), (0, "task", 1), (1, "task", 1), (1, "task", 1), (1, "exchange", 0)),
    *((2, "exchange", 0), (2, "fact", 0), (1, "say", 1), (0, "exchange", 0), (0, "fact", 0), (1, "task", 1)),
    *((1, "task", 1), (0, "say", 1)),
]
"""A list that goes on in two places, in one of them from before what the base of the other still has."""


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS, seed=st.integers(0, 10_000))
@example(actions=TASKS_OF_ALL, seed=5005)
def test_whatever_a_server_does_three_devices_come_to_the_same_and_nothing_is_lost(
    actions: list[tuple[int, str, int]], seed: int, tmp_path_factory: pytest.TempPathFactory
):
    anyio.run(_converge, actions, seed, tmp_path_factory.mktemp("three"))


async def act(device: Device, action: str, number: int, label: int, said: dict[str, str]) -> None:
    """Do one thing on a device; `said` gets what each line says of who wrote it."""
    if action == "exchange":
        with suppress(SyncError):
            await device.exchange()
    elif action == "fact":
        await device.say(ARCHIVE, f"Fact {number}.")
    elif action == "task":
        await plan(device, f"Task {number}.")
    else:
        name = ("project", "notes")[label]
        operation = "create" if label and name not in await device.texts() else "append"
        await device.say(name, f"Line {number}.", operation=operation)
        said[f"Line {number}."] = f"Said on {device.name}."


async def _converge(actions: list[tuple[int, str, int]], seed: int, folder: Path) -> None:
    depot, luck = Depot(), Random(seed)
    async with devices(folder, 3, lambda: LyingCarrier(depot, luck)) as three:
        said: dict[str, str] = {}
        for number, (which, action, label) in enumerate(actions):
            await act(three[which], action, number, label, said)
        for device in three:
            assert isinstance(device.carrier, LyingCarrier)
            device.carrier.is_honest = True
        for _ in range(4):
            for device in three:
                await device.exchange()
        planned = {f"Task {number}.": "todo" for number, one in enumerate(actions) if one[1] == "task"}
        for device in three:
            assert await task_names(device) == planned
        texts = await three[0].texts()
        facts = await three[0].facts()
        assert facts == sorted(f"Fact {number}." for number, one in enumerate(actions) if one[1] == "fact")
        assert sorted(line for text in texts.values() for line in text.splitlines() if line in said) == sorted(said)
        blamed: dict[str, str] = {}
        for device in three:
            assert await device.texts() == texts
            assert await device.facts() == facts
            assert await device.is_sound() == []
            blamed = {}
            for label in texts:
                blamed |= await device.blame(label)
            assert {line: reason for line, reason in blamed.items() if line in said} == said
