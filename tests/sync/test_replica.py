"""The user's own memory in the constellations of projects, and nothing else."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from io import BytesIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pattern_acp.carry.car import read_archive
from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import RandomIds, SessionId
from pattern_acp.journal.reader import verify_stream
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.blocks import BlockKey, Scope
from pattern_acp.memory.errors import UnusableEditError
from pattern_acp.memory.history import blame_lines, list_writes, read_history
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.memory.service.forget import MemoryForgetting
from pattern_acp.memory.service.history import HistoryScope
from pattern_acp.memory.service.scope import PERSON, MemoryRules, MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.store import load_block
from pattern_acp.session.redaction import KEPT_SOURCES
from pattern_acp.sync.forgetting import HEARD_MS
from pattern_acp.sync.incoming import take_over
from pattern_acp.sync.outgoing import read_changes
from pattern_acp.sync.replica import (
    DEVICES,
    USERS_MEMORY,
    ReplicaForgetting,
    Side,
    is_due,
    is_to_be_forgotten,
    replicate,
)
from pattern_acp.sync.segments import new_key
from pattern_acp.tasks.forget import FORGETTING
from pattern_acp.tools.registry import parameter_names
from tests.support.constellation import FakeClock

KEY = new_key()


class Place:
    """One constellation, of the user or of a project."""

    def __init__(self, database: Database, name: str, peer: int, clock: FakeClock) -> None:
        self.database = database
        self.side = Side(name, database)
        self.name = name
        self.peer = peer
        self.clock = clock

    @property
    def owner(self) -> MemoryScope:
        return MemoryScope("tester", f"/{self.name}", SessionId(CONSTELLATION_STREAM))

    async def say(self, label: str, text: str, operation: str = "append") -> None:
        self.clock.advance(1_000)
        memory = ConstellationMemory(
            self.database,
            self.owner,
            clock=self.clock,
            ids=RandomIds(),
            peer=self.peer,
            writer=PERSON,
            rules=MemoryRules(),
        )
        edit = MemoryEdit(label, operation, text, reason=f"Said in {self.name}.", description="Of a test.")
        await memory.commit(edit, None)

    async def begin(self) -> None:
        """Have the blocks that every persona begins with, as a first turn does."""
        memory = ConstellationMemory(
            self.database,
            self.owner,
            clock=self.clock,
            ids=RandomIds(),
            peer=self.peer,
            writer=PERSON,
            rules=MemoryRules(),
        )
        await memory.blocks()

    async def labels(self) -> list[str]:
        rows = await self.database.read(
            lambda tx: tx.all("SELECT label FROM blocks WHERE deleted = 0 AND scope = 'persona' ORDER BY label")
        )
        return [str(row[0]) for row in rows]

    async def forget(self, label: str, passage: str, forgetting: ReplicaForgetting, *targets: str) -> None:
        async def telling() -> object:
            return forgetting.telling(targets)

        scope = HistoryScope(self.owner.owners, CONSTELLATION_STREAM, Actor.HUMAN, Origin.PERSON, self.peer)
        one = MemoryForgetting(
            self.database,
            scope,
            clock=self.clock,
            parameters=parameter_names,
            tasks=FORGETTING,
            sources=KEPT_SOURCES,
            telling=telling,  # pyright: ignore[reportArgumentType]
        )
        await one.forget(label, passage, "")

    async def text(self, label: str = "human") -> str:
        key = BlockKey(Scope.PERSONA, "tester", label)
        return (await self.database.read(lambda tx: load_block(tx, key))).text

    async def blame(self, label: str = "human") -> dict[str, str]:
        def read(tx: Transaction) -> dict[str, str]:
            block = load_block(tx, BlockKey(Scope.PERSONA, "tester", label))
            reasons = {write.number: write.reason for write in list_writes(tx, block, limit=1_000)}
            return {line.text: reasons[line.number] for line in blame_lines(read_history(tx, block)) if line.number}

        return await self.database.read(read)

    def has(self, words: str) -> bool:
        """Tell whether any byte of the file, or of what lies beside it, says so."""
        folder = self.database.path.parent
        return any(words.encode() in file.read_bytes() for file in folder.rglob("*") if file.is_file())


@asynccontextmanager
async def places(folder: Path, *names: str) -> AsyncGenerator[tuple[Place, ...], None]:
    clock = FakeClock()
    async with AsyncExitStack() as stack:
        made: list[Place] = []
        for name in names:
            path = folder / name / "constellation.db"
            path.parent.mkdir(parents=True, exist_ok=True)
            database = await stack.enter_async_context(open_database(path, clock=clock))
            made.append(Place(database, name, RandomIds().peer(), clock))
        yield tuple(made)


async def test_what_the_user_says_in_one_project_is_known_in_another_with_who_said_it(tmp_path: Path):
    async with places(tmp_path, "user", "shop", "blog") as (user, shop, blog):
        await shop.say("human", "Likes tea.")
        await replicate(shop.side, user.side, shop.clock)
        await replicate(blog.side, user.side, shop.clock)
        await blog.say("human", "Lives in Rome.")
        await replicate(blog.side, user.side, shop.clock)
        await replicate(shop.side, user.side, shop.clock)
        for one in (user, shop, blog):
            assert await one.blame() == {"Likes tea.": "Said in shop.", "Lives in Rome.": "Said in blog."}
            await one.database.read(lambda tx: verify_stream(tx, CONSTELLATION_STREAM))


async def test_projects_agree_on_the_blocks_that_all_begin_with_before_anybody_writes_to_them(tmp_path: Path):
    async with places(tmp_path, "user", "shop", "blog") as (user, shop, blog):
        for one in (shop, blog, user):
            await one.begin()
        for one in (shop, blog):
            await replicate(one.side, user.side, user.clock)
        await shop.say("human", "Likes tea.")
        await blog.say("human", "Lives in Rome.")
        for one in (shop, blog, shop):
            await replicate(one.side, user.side, user.clock)
        for one in (user, shop, blog):
            assert await one.labels() == ["human", "persona"]
            assert "tea" in await one.text()
            assert "Rome" in await one.text()


@pytest.mark.parametrize("luck", range(6))
async def test_what_projects_append_to_an_empty_block_at_once_is_on_lines_of_its_own(tmp_path: Path, luck: int):
    async with places(tmp_path, "user", "shop", "blog", "wiki") as (user, *projects):
        await user.begin()
        for one in projects:
            await replicate(one.side, user.side, user.clock)
        said = [f"From {one.name}." for one in projects]
        for one in projects:
            await one.say("human", f"From {one.name}.")
        await projects[luck % 3].say("human", "And more.")
        Random(luck).shuffle(projects)
        for one in (*projects, *projects):
            await replicate(one.side, user.side, user.clock)
        texts = [await one.text() for one in (user, *projects)]
        assert sorted(line for line in texts[0].splitlines() if line) == sorted([*said, "And more."])
        assert set(texts) == {texts[0]}
        assert not await replicate(projects[0].side, user.side, user.clock)


async def test_two_places_that_part_the_same_lines_part_them_once(tmp_path: Path):
    async with places(tmp_path, "user", "shop") as (user, shop):
        await user.begin()
        await replicate(shop.side, user.side, user.clock)
        await user.say("human", "From user.")
        await shop.say("human", "From shop.")
        changes = [await one.database.read(lambda tx: read_changes(tx, USERS_MEMORY, 0, None)) for one in (user, shop)]
        for one, came in zip((shop, user), changes, strict=True):
            archive = read_archive(BytesIO(came.archive))
            await one.database.write(lambda tx, a=archive: take_over(tx, a, USERS_MEMORY, now_ms=1))
        for _ in range(2):
            await replicate(shop.side, user.side, user.clock)
        assert await user.text() == await shop.text()
        assert sorted((await user.text()).splitlines()) == ["From shop.", "From user."]


async def test_a_block_that_nobody_wrote_to_makes_way_for_one_that_somebody_did(tmp_path: Path):
    async with places(tmp_path, "user", "shop") as (user, shop):
        await user.begin()
        await shop.say("human", "Likes tea.")
        await replicate(shop.side, user.side, user.clock)
        for one in (user, shop):
            assert await one.labels() == ["human", "persona"]
            assert await one.text() == "Likes tea."


async def test_nothing_of_a_project_is_in_a_byte_of_another_file(tmp_path: Path):
    async with places(tmp_path, "user", "shop", "blog") as (user, shop, blog):
        await shop.say("project", "PROJECT-CANARY-OF-SHOP")
        await shop.say("human", "USERS-OWN-WORDS")
        await user.say("project", "PROJECT-CANARY-OF-USER")
        for one in (shop, blog, shop):
            await replicate(one.side, user.side, shop.clock)
        assert [one.has("USERS-OWN-WORDS") for one in (user, shop, blog)] == [True, True, True]
        assert [one.has("PROJECT-CANARY-OF-SHOP") for one in (user, shop, blog)] == [False, True, False]
        assert [one.has("PROJECT-CANARY-OF-USER") for one in (user, shop, blog)] == [True, False, False]


async def test_what_was_carried_over_comes_to_rest(tmp_path: Path):
    async with places(tmp_path, "user", "shop") as (user, shop):
        await shop.say("human", "Likes tea.")
        assert await replicate(shop.side, user.side, shop.clock)
        assert not await replicate(shop.side, user.side, shop.clock)
        assert not await replicate(shop.side, user.side, shop.clock)


async def test_what_is_forgotten_in_one_project_is_in_no_byte_of_any_file(tmp_path: Path):
    async with places(tmp_path, "user", "shop", "blog") as (user, shop, blog):
        by_name = {one.name: one for one in (user, shop, blog)}

        @asynccontextmanager
        async def open_there(name: str) -> AsyncGenerator[Database, None]:
            yield by_name[name].database

        forgetting = ReplicaForgetting(KEY, open_there, shop.clock, RandomIds())
        await shop.say("human", "Drinks tea every morning.")
        await shop.say("human", "The door code is QUARTZ-7731-LANTERN.")
        await replicate(shop.side, user.side, shop.clock)
        await replicate(blog.side, user.side, shop.clock)
        await shop.forget("human", "QUARTZ-7731-LANTERN", forgetting, "user")
        assert not shop.has("QUARTZ-7731-LANTERN")
        await forgetting.run(shop.database, lambda name: ("shop", "blog"))
        await forgetting.run(user.database, lambda name: ())
        await blog.say("human", "Lives in Rome.")
        for one in (blog, shop, blog):
            await replicate(one.side, user.side, shop.clock)
        for one in (user, shop, blog):
            assert not one.has("QUARTZ-7731-LANTERN")
            assert await one.text() == await user.text()
            assert "Lives in Rome." in await one.text()


async def test_what_waits_for_other_devices_stays_30_days_while_it_cannot_be_reported(tmp_path: Path):
    async with places(tmp_path, "user") as (user,):
        forgetting = ReplicaForgetting(KEY, lambda _: None, user.clock, RandomIds())
        await user.say("human", "The door code is QUARTZ-7731-LANTERN.")
        await user.forget("human", "QUARTZ-7731-LANTERN", forgetting, DEVICES)
        user.clock.advance(HEARD_MS - 1)
        await forgetting.run(user.database, lambda _: (), waits=True)
        assert await user.database.read(is_to_be_forgotten)
        user.clock.advance(1)
        await forgetting.run(user.database, lambda _: (), waits=True)
        assert not await user.database.read(is_to_be_forgotten)


async def test_what_waits_for_other_devices_goes_at_once_where_there_are_none_any_more(tmp_path: Path):
    async with places(tmp_path, "user") as (user,):
        forgetting = ReplicaForgetting(KEY, lambda _: None, user.clock, RandomIds())
        await user.say("human", "The door code is QUARTZ-7731-LANTERN.")
        await user.forget("human", "QUARTZ-7731-LANTERN", forgetting, DEVICES)
        await forgetting.run(user.database, lambda _: ())
        assert not await user.database.read(is_to_be_forgotten)


@pytest.mark.parametrize(
    ("target", "key", "expected"),
    [(DEVICES, KEY, False), ("shop", new_key(), False), ("shop", KEY, True)],
    ids=["other devices", "noted with another key", "a project"],
)
async def test_an_exchange_is_due_for_what_can_be_forgotten_now_alone(
    tmp_path: Path, target: str, key: bytes, *, expected: bool
):
    async with places(tmp_path, "user") as (user,):
        forgetting = ReplicaForgetting(KEY, lambda _: None, user.clock, RandomIds())
        await user.say("human", "The door code is QUARTZ-7731-LANTERN.")
        await user.forget("human", "QUARTZ-7731-LANTERN", forgetting, target)
        assert await user.database.read(is_to_be_forgotten)
        assert await user.database.read(lambda tx: is_due(tx, lambda: key)) is expected


async def test_one_that_went_back_to_a_backup_gets_what_it_lacks_and_what_is_new_there_comes(
    tmp_path: Path,
):
    async with places(tmp_path, "user", "shop") as (user, shop):
        await user.say("human", "Likes tea.")
        await replicate(shop.side, user.side, shop.clock)
        await user.database.checkpoint()
        backup = user.database.path.read_bytes()
        await user.say("human", "Lives in Rome.")
        await replicate(shop.side, user.side, shop.clock)
    for file in (tmp_path / "user").iterdir():
        file.unlink()
    (tmp_path / "user" / "constellation.db").write_bytes(backup)
    async with places(tmp_path, "user", "shop") as (user, shop):
        await user.say("human", "Speaks Greek.")
        await replicate(shop.side, user.side, shop.clock)
        assert await user.text() == await shop.text()
        assert set((await user.text()).splitlines()) >= {"Likes tea.", "Lives in Rome.", "Speaks Greek."}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False))
def test_in_whatever_order_all_come_to_the_same_and_no_project_to_another(luck: Random):
    async def run() -> None:
        with TemporaryDirectory() as folder:
            async with places(Path(folder), "user", "shop", "blog") as (user, shop, blog):
                every = (user, shop, blog)
                for number in range(14):
                    one = luck.choice(every)
                    match luck.randrange(5):
                        case 0:
                            await one.say(luck.choice(["human", "persona"]), f"word-{number}")
                        case 1:
                            await one.say("project", f"secret-of-{one.name}-{number}")
                        case 2:
                            with suppress(UnusableEditError):
                                await one.say(luck.choice(["first", "second"]), f"word-{number}", "create")
                        case _:
                            await replicate(luck.choice((shop, blog)).side, user.side, one.clock)
                for one in (shop, blog, shop, blog):
                    await replicate(one.side, user.side, user.clock)
                assert not await replicate(shop.side, user.side, user.clock)
                texts = [await _users(one) for one in every]
                assert texts[0] == texts[1] == texts[2]
                for one in every:
                    assert not any(one.has(f"secret-of-{other.name}") for other in every if other is not one)

    anyio.run(run)


async def _users(one: Place) -> list[tuple[str, ...]]:
    """All blocks of the user's that somebody wrote to."""
    rows = await one.database.read(
        lambda tx: tx.all(
            "SELECT label, text FROM blocks AS b WHERE deleted = 0 AND scope = 'persona' AND EXISTS (SELECT 1 FROM "
            "block_updates WHERE block_id = b.id AND actor <> 'system') ORDER BY label, id"
        )
    )
    return [tuple(str(cell) for cell in row) for row in rows]
