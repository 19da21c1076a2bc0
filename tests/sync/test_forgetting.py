"""What one device forgets is forgotten on all, and their memory still comes to the same."""

import json
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

import anyio
import pytest

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.clock import RandomIds
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.blocks import BlockKey, BlockSpec, Scope
from pattern_acp.memory.edits import AddItem, SetField, Within
from pattern_acp.memory.schemas.types import FieldSpec, ListSchema, LogSchema, MapSchema, TreeSchema
from pattern_acp.memory.service.access import ARCHIVE
from pattern_acp.memory.service.forget import MemoryForgetting, Tell
from pattern_acp.memory.service.history import HistoryScope
from pattern_acp.memory.service.scope import PERSON
from pattern_acp.recovery.segment_export import export_last
from pattern_acp.session.redaction import KEPT_SOURCES
from pattern_acp.sync.exchange import tell_all_again
from pattern_acp.sync.forgetting import HEARD_MS, change_key, note_forgetting, unheard_forgettings
from pattern_acp.sync.outgoing import Sharing
from pattern_acp.sync.segments import Carrier, FolderCarrier, SyncError, SyncKeyError, new_key, unseal
from pattern_acp.tasks.forget import FORGETTING
from pattern_acp.tools.registry import parameter_names
from tests.carry.test_archive import talk
from tests.support.carriers import Depot, LyingCarrier, MemoryCarrier
from tests.support.editor import choose
from tests.support.history import record_creation, record_edit
from tests.support.nats_server import nats_server
from tests.support.process import Launch, run_command_line, running_process
from tests.sync.test_exchange import KEY, PROJECT, SECRET, Device, devices, plan, task_names

WORDS = "correct-horse-battery"

T = TypeVar("T")


async def forget(device: Device, label: str, passage: str | None = WORDS, project: str = PROJECT) -> None:
    device.clock.advance(1_000)
    scope = HistoryScope(((Scope.PROJECT, project),), CONSTELLATION_STREAM, PERSON.actor, PERSON.origin, device.peer)

    async def telling() -> Tell:
        return partial(note_forgetting, key=KEY, ids=RandomIds())

    forgetting = MemoryForgetting(
        device.database,
        scope,
        clock=device.clock,
        parameters=parameter_names,
        tasks=FORGETTING,
        sources=KEPT_SOURCES,
        telling=telling,
    )
    await forgetting.forget(label, passage)


def files_with(folder: Path, words: str = WORDS) -> list[str]:
    """The files below a folder, such as databases, their logs and segments, whose bytes have the words."""
    return [str(path) for path in sorted(folder.rglob("*")) if path.is_file() and words.encode() in path.read_bytes()]


async def rounds(three: tuple[Device, ...], sharing: Sharing | None = None, times: int = 3) -> None:
    for _ in range(times):
        for each in three:
            with suppress(SyncError):
                await each.exchange(sharing)


@pytest.fixture(
    params=["memory", "folder", pytest.param("nats", marks=[pytest.mark.slow, pytest.mark.needs("nats-server")])]
)
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Callable[[], Carrier], None, None]:
    if request.param == "nats":
        from pattern_acp.sync.nats_carrier import NatsCarrier

        with nats_server(tmp_path / "server") as server:
            yield lambda: NatsCarrier(server.url)
        return
    depot, folder = Depot(), tmp_path / "synced"
    folder.mkdir()
    yield lambda: MemoryCarrier(depot) if request.param == "memory" else FolderCarrier(folder)


async def test_what_one_device_forgets_goes_from_blocks_facts_sessions_tasks_and_files_of_all(
    way: Callable[[], Carrier], tmp_path: Path
):
    sharing, homes = Sharing(sessions_since_ms=0), tmp_path / "homes"
    async with devices(homes, 3, way) as three:
        one, two, _ = three
        await one.say("project", f"The port is 7433.\nThe password is {WORDS}.")
        await two.say(ARCHIVE, f"The door opens with {WORDS}, too.")
        await plan(two, f"Change {WORDS}")
        await talk(one.database.path, tmp_path / "work", f"Is {WORDS} right?")
        await rounds(three, sharing)
        await two.say("project", "Written before the second heard of it.")
        for each in three:
            await export_last(each.database.path)
            assert WORDS in (await each.texts())["project"]
            assert len(await each.facts()) == 1
        assert len(files_with(homes)) >= 3
        await forget(one, "project")
        await one.say("project", "Written afterwards.")
        await rounds(three, sharing)
        lines = {
            "The port is 7433.": "Said on host-0.",
            "Written before the second heard of it.": "Said on host-1.",
            "Written afterwards.": "Said on host-0.",
        }
        for each in three:
            await export_last(each.database.path)
            assert await each.texts() == await one.texts()
            assert await each.facts() == []
            assert await task_names(each) == {"Change [forgotten]": "todo"}
            assert lines.items() <= (await each.blame()).items()
            assert await each.is_sound() == []
            assert (await each.exchange(sharing)).sent == 0
            await each.carrier.close()
    assert files_with(homes) == []


async def test_no_segment_that_is_left_has_the_words_but_to_say_that_they_are_forgotten(tmp_path: Path):
    depot = Depot()
    async with devices(tmp_path, 3, lambda: MemoryCarrier(depot)) as three:
        one, two, three_ = three
        await one.say("project", f"The password is {WORDS}.")
        await rounds(three)
        await forget(one, "project")
        await rounds(three)
        for name, content in depot.there.items():
            segment = unseal(KEY, name, content)
            assert segment is not None
            assert WORDS.encode() not in segment.archive
        assert WORDS not in (await three_.texts()).get("project", "")
        assert await two.database.read(lambda tx: unheard_forgettings(tx, 0)) == 1


class MeanwhileDatabase(Database):
    """A constellation in which something happens before one of its reads, counted from 0."""

    def __init__(self, inner: Database, at: int, meanwhile: Callable[[], Awaitable[None]]) -> None:
        super().__init__(inner._writer, inner._reader, inner.facts)
        self._at, self._meanwhile = at, meanwhile

    async def read(self, function: Callable[[Transaction], T]) -> T:
        """See `Database.read`."""
        self._at -= 1
        if self._at == -1:
            await self._meanwhile()
        return await super().read(function)


@pytest.mark.parametrize("at", range(6))
async def test_words_that_another_window_forgets_while_one_exchanges_are_in_no_segment_that_is_left(
    tmp_path: Path, at: int
):
    depot = Depot()
    async with devices(tmp_path, 2, lambda: MemoryCarrier(depot)) as (one, two):
        await one.say("project", f"The password is {WORDS}.")
        await one.exchange()
        await one.say("project", "The port is 7433.")
        inner = one.database
        one.database = MeanwhileDatabase(
            inner, at, lambda: forget(Device(inner, "", 7, one.carrier, one.clock), "project")
        )
        await one.exchange()
        one.database = inner
        for each in (one, two, one):
            await each.exchange()
        for name, content in depot.there.items():
            segment = unseal(KEY, name, content)
            assert segment is not None
            assert WORDS.encode() not in segment.archive
        assert WORDS not in (await two.texts())["project"]


async def test_a_device_that_was_away_forgets_when_it_is_back_and_brings_nothing_back(tmp_path: Path):
    depot = Depot()
    async with devices(tmp_path, 3, lambda: MemoryCarrier(depot)) as three:
        one, two, away = three
        await one.say("project", f"The password is {WORDS}.")
        await rounds(three)
        await forget(one, "project")
        await rounds((one, two))
        await away.say("project", f"For the shed one needs {WORDS} and a torch.")
        await away.say(ARCHIVE, f"It is {WORDS}, of course.")
        await away.exchange()
        await rounds(three)
        for each in three:
            assert WORDS not in "".join((await each.texts()).values())
            assert await each.facts() == []
            assert await each.texts() == await one.texts()
            assert await each.is_sound() == []
    assert files_with(tmp_path) == []


async def test_a_segment_that_comes_late_brings_no_words_back(tmp_path: Path):
    depot = Depot()
    async with devices(tmp_path, 2, lambda: MemoryCarrier(depot)) as (one, two):
        await one.say("project", f"The password is {WORDS}.")
        await rounds((one, two))
        await two.say(ARCHIVE, f"It is {WORDS}, of course.")
        await two.exchange()
        # The first forgets before it has the segment.
        await forget(one, "project")
        await one.exchange()
        assert await one.facts() == []
        assert WORDS not in "".join((await one.texts()).values())
        await rounds((one, two))
        assert await one.texts() == await two.texts()
    assert files_with(tmp_path) == []


async def test_a_block_that_was_forgotten_as_a_whole_is_gone_everywhere(tmp_path: Path):
    depot = Depot()
    async with devices(tmp_path, 3, lambda: MemoryCarrier(depot)) as three:
        one, two, _ = three
        await one.say("plan", f"First this, with {WORDS}.", operation="create")
        await one.say("project", "The port is 7433.")
        await rounds(three)
        await two.say("plan", "And then that, by somebody else.")
        await forget(one, "plan", None)
        await rounds(three)
        for each in three:
            assert await each.texts() == {"project": "The port is 7433."}
            assert await each.is_sound() == []
    assert files_with(tmp_path) == []
    assert files_with(tmp_path, "by somebody else") == []


async def test_what_an_excluded_project_forgets_never_leaves(tmp_path: Path):
    depot, sharing = Depot(), Sharing(excluded=("/work",))
    async with devices(tmp_path, 2, lambda: MemoryCarrier(depot)) as (one, two):
        await one.say("project", f"canary {WORDS}", project=SECRET)
        await two.say("project", f"Ours is {WORDS}.")
        await forget(one, "project", project=SECRET)
        for _ in range(2):
            await one.exchange(sharing)
            await two.exchange()
        assert (await two.texts())["project"] == f"Ours is {WORDS}."
        for name, content in depot.there.items():
            segment = unseal(KEY, name, content)
            assert segment is not None
            assert segment.forgotten == ()
        assert await one.database.read(lambda tx: unheard_forgettings(tx, 0)) == 0


async def test_a_record_goes_once_every_device_has_heard_of_it_for_long(tmp_path: Path):
    depot = Depot()
    async with devices(tmp_path, 2, lambda: MemoryCarrier(depot)) as (one, two):
        await one.say("project", f"The password is {WORDS}.")
        await rounds((one, two))
        await forget(one, "project")
        await rounds((one, two))
        for each in (one, two):
            assert await each.database.read(lambda tx: unheard_forgettings(tx, 0)) == 1
        one.clock.advance(HEARD_MS)
        for each in (one, two):
            await each.say("project", f"Written later by {each.name}.")
            await rounds((one, two))
        for each in (one, two):
            assert await each.database.read(lambda tx: unheard_forgettings(tx, 0)) == 0


async def test_without_the_key_words_are_forgotten_here_and_the_answer_says_who_is_not_told(
    tmp_path: Path,
):
    async with devices(tmp_path, 1, lambda: MemoryCarrier(Depot())) as (one,):
        await one.say("project", f"The password is {WORDS}.")
        scope = HistoryScope(((Scope.PROJECT, PROJECT),), CONSTELLATION_STREAM, PERSON.actor, PERSON.origin, one.peer)

        async def telling() -> Tell:
            raise SyncKeyError("There is no key of sync.")

        forgetting = MemoryForgetting(one.database, scope, clock=one.clock, parameters=parameter_names, telling=telling)
        report = await forgetting.forget("project", WORDS)
        assert WORDS not in (await one.texts())["project"]
        assert report.left == ("your other devices, which are not notified: There is no key of sync",)


SCHEMAS = {
    "list": (ListSchema(), AddItem),
    "log": (LogSchema(), AddItem),
    "tree": (TreeSchema(), AddItem),
    "map": (MapSchema((FieldSpec("one"),)), SetField),
}
THINGS = BlockKey(Scope.PROJECT, PROJECT, "things")


async def add(device: Device, kind: str, text: str) -> None:
    edit = SCHEMAS[kind][1](text)
    asked = Within("one", edit) if isinstance(edit, SetField) else edit
    device.clock.advance(1_000)
    at_ms = device.clock.now_ms()
    await device.database.write(lambda tx: record_edit(tx, THINGS, asked, peer=device.peer, at_ms=at_ms))


@pytest.mark.parametrize("kind", SCHEMAS)
async def test_fields_lists_logs_and_trees_of_all_devices_lose_the_words_and_come_to_the_same(
    tmp_path: Path, kind: str
):
    depot = Depot()
    async with devices(tmp_path, 3, lambda: MemoryCarrier(depot)) as three:
        one, two, _ = three
        spec = BlockSpec(THINGS, "Of a test.", schema=SCHEMAS[kind][0])
        await one.database.write(lambda tx: record_creation(tx, spec, "block_things"))
        await add(one, kind, f"begins with {WORDS}")
        await rounds(three)
        await add(two, kind, f"later there is {WORDS}")
        await add(two, kind, "alone")
        await forget(one, "things")
        await forget(two, "things")
        await rounds(three)
        for each in three:
            text = (await each.texts())["things"]
            assert text == (await one.texts())["things"]
            assert "alone" in text
            assert WORDS not in text
            assert await each.is_sound() == []
    assert files_with(tmp_path) == []


async def test_a_forgetting_is_told_with_the_next_key_too(tmp_path: Path):
    depot, key = Depot(), new_key()
    async with devices(tmp_path, 2, lambda: MemoryCarrier(depot)) as (one, two):
        await one.say("project", f"The password is {WORDS}.")
        await rounds((one, two))
        await forget(one, "project")
        for each in (one, two):
            await each.database.write(lambda tx: (tell_all_again(tx), change_key(tx, KEY, key)))
        for _ in range(2):
            for each in (one, two):
                await each.exchange(key=key)
        assert WORDS not in (await two.texts())["project"]
    assert files_with(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_whatever_a_server_does_three_devices_forget_and_come_to_the_same(seed: int, tmp_path: Path):
    anyio.run(_forget_and_converge, seed, tmp_path)


async def act(device: Device, number: int, luck: Random, said: list[str]) -> None:
    """Do one thing on a device; `said` gets the lines that are to stay."""
    match luck.choice(["say", "say", "secret", "fact", "task", "exchange", "exchange", "exchange", "forget"]):
        case "say":
            said.append(f"Line {number}.")
            await device.say("project", said[-1])
        case "secret":
            await device.say("project", f"Line {number} has {WORDS}.")
        case "fact":
            await device.say(ARCHIVE, f"Fact {number} has {WORDS}.")
        case "task":
            await plan(device, f"Task {number} has {WORDS}.")
        case "exchange":
            await rounds((device,), times=1)
        case _ if WORDS in (await device.texts()).get("project", ""):
            await forget(device, "project")
        case _:
            pass


def be_honest(three: tuple[Device, ...], *, is_honest: bool) -> None:
    for device in three:
        assert isinstance(device.carrier, LyingCarrier)
        device.carrier.is_honest = is_honest


async def _forget_and_converge(seed: int, folder: Path) -> None:
    depot, luck, said = Depot(), Random(seed), list[str]()
    async with devices(folder, 3, lambda: LyingCarrier(depot, luck)) as three:
        await three[0].say("project", f"The password is {WORDS}.")
        # All begin with the same block: of one that another device made itself, the words are only named.
        be_honest(three, is_honest=True)
        await rounds(three)
        be_honest(three, is_honest=False)
        for number in range(24):
            await act(luck.choice(three), number, luck, said)
        await three[0].say("project", f"At last there is {WORDS}.")
        await forget(three[0], "project")
        be_honest(three, is_honest=True)
        await rounds(three, times=5)
        for device in three:
            assert await device.texts() == await three[0].texts()
            assert await task_names(device) == await task_names(three[0])
            text = "\n".join((await device.texts()).values())
            assert set(said) <= set(text.splitlines())
            assert WORDS not in "".join((text, *await device.facts()))
            assert WORDS not in "".join(await task_names(device))
            assert await device.is_sound() == []
    assert files_with(folder) == []


def homes_with(tmp_path: Path) -> list[Path]:
    """Two homes that exchange through a folder, with one key."""
    folder, homes = tmp_path / "synced", [tmp_path / name for name in ("desktop", "laptop")]
    folder.mkdir()
    for home in homes:
        home.mkdir()
        (home / "config.toml").write_text(f'[sync]\nurl = "folder:{folder}"\n', encoding="utf-8")
    desktop, laptop = homes
    key = json.loads(run(desktop, "sync", "key", "new", "--file", "--json"))["sync_key"]
    run(laptop, "sync", "key", "set", "--file", typed=key)
    return homes


def run(home: Path, *words: str, typed: str = "") -> str:
    done = run_command_line(home, *words, typed=typed)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.e2e
@pytest.mark.slow
def test_two_processes_on_two_homes_forget_what_one_of_them_does(tmp_path: Path):
    desktop, laptop = homes_with(tmp_path)
    run(desktop, "memory", "edit", "human", "--file", "-", typed=f"Likes tea.\nThe password is {WORDS}.\n")
    run(desktop, "memory", "decision", f"Use {WORDS} for the shed.")
    run(desktop, "sync")
    run(laptop, "sync")
    run(desktop, "sync")
    assert files_with(laptop) != []
    run(desktop, "memory", "forget", "human", WORDS, "--yes")
    run(desktop, "sync")
    (status,) = json.loads(run(desktop, "sync", "status", "--json"))["devices"]
    assert status["to_forget"] == 1
    assert "1 passage that another device forgot" in run(laptop, "sync")
    assert "Likes tea." in run(laptop, "memory", "show", "human")
    run(desktop, "sync")
    (status,) = json.loads(run(desktop, "sync", "status", "--json"))["devices"]
    assert status["to_forget"] == 0
    assert files_with(tmp_path) == []


@pytest.mark.e2e
@pytest.mark.slow
async def test_what_is_forgotten_in_a_session_is_forgotten_on_the_other_device(tmp_path: Path):
    desktop, laptop = await anyio.to_thread.run_sync(homes_with, tmp_path)
    project = tmp_path / "project"
    await anyio.Path(project).mkdir()
    async with running_process(Launch(desktop, permission=choose("allow_once"))) as agent:
        session = await agent.editor.open_session(str(project))
        await agent.editor.prompt(session, f"/remember me: The password is {WORDS}.")
        await agent.editor.prompt(session, "/remember me: Likes tea.")
        await anyio.to_thread.run_sync(run, desktop, "sync")
        await anyio.to_thread.run_sync(run, laptop, "sync")
        assert WORDS in await anyio.to_thread.run_sync(run, laptop, "memory", "show", "human")
        await agent.editor.prompt(session, f"/memory forget human {WORDS}")
    await anyio.to_thread.run_sync(run, desktop, "sync")
    await anyio.to_thread.run_sync(run, laptop, "sync")
    shown = await anyio.to_thread.run_sync(run, laptop, "memory", "show", "human")
    assert "Likes tea." in shown
    assert WORDS not in shown
    assert files_with(laptop) == []
