"""Forked memory: what it sees, what stays as it is until a merge, and what a merge brings back."""

import signal
import sys
from collections.abc import AsyncGenerator
from functools import partial

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import IdFactory, RandomIds, SessionId
from pattern_acp.domain.errors import BlockError
from pattern_acp.journal.events import MemoryForkEnded, SessionCreated
from pattern_acp.journal.reader import read_everywhere
from pattern_acp.journal.sessions import NewSession, create_session, mark_deleted
from pattern_acp.journal.writer import append
from pattern_acp.memory.blocks import MemoryFork, Scope
from pattern_acp.memory.diffs import Side, merge_texts
from pattern_acp.memory.document import BlockDocument
from pattern_acp.memory.edits import Append, Replace, plan_edit
from pattern_acp.memory.errors import BlockMissingError, UnusableEditError
from pattern_acp.memory.forks import fork_of_session, stored_blocks, worker_forks
from pattern_acp.memory.history import read_history, texts_of_all_versions
from pattern_acp.memory.integrity import damaged_snapshots
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.memory.service.forget import MemoryForgetting
from pattern_acp.memory.service.forking import (
    ForkEndedError,
    ForkInUseError,
    MergeResult,
    discard_fork,
    fork_memory,
    is_untouched,
    merge_fork,
)
from pattern_acp.memory.service.history import HistoryScope, MemoryHistory
from pattern_acp.memory.service.provenance import archive_mismatches, mismatches
from pattern_acp.memory.service.scope import PERSON, PERSONA, MemoryRules, MemoryScope, WriteContext, Writer
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.service.undo import MemoryReverts
from pattern_acp.memory.templates import NO_TEMPLATES
from pattern_acp.memory.undo import plan_undo
from pattern_acp.recovery.garbage_collection import RetentionPolicy, Sweepable, find_sweepable, sweep
from pattern_acp.session.stored import DAY_MS
from tests.support.constellation import Constellation, temporary_constellation

IDS: IdFactory = RandomIds()
PEER = IDS.peer()
PARENT = MemoryScope("tester", "/project", SessionId("ses_parent"))
FORK = replace(PARENT, session_id=SessionId("ses_fork"))


class Forked:
    """Memory of a session and of its fork, in one process, which has one Loro peer."""

    def __init__(self, constellation: Constellation) -> None:
        self.constellation = constellation
        self.fork: MemoryFork | None = None

    @property
    def owner(self) -> MemoryScope:
        return replace(FORK, fork=self.fork)

    def memory(self, owner: MemoryScope, writer: Writer = PERSONA) -> ConstellationMemory:
        database, clock = self.constellation.database, self.constellation.clock
        return ConstellationMemory(database, owner, clock=clock, ids=IDS, peer=PEER, writer=writer)

    async def write(self, owner: MemoryScope, operation: str, text: str, label: str = "human", **more: str) -> None:
        writer = PERSON if more.pop("by", "") == "person" else PERSONA
        self.constellation.clock.advance(1000)
        edit = MemoryEdit(label, operation, text, **more)  # pyright: ignore[reportArgumentType]  words alone
        await self.memory(owner, writer).commit(edit, None)

    async def begin(self) -> MemoryFork:
        await self.memory(PARENT).blocks()
        self.constellation.clock.advance(1000)
        fork = MemoryFork(IDS.new("fork"), self.constellation.clock.now_ms())

        def write(tx: Transaction) -> None:
            self._session(tx, FORK.session_id)
            fork_memory(tx, fork, self._writing(FORK))

        await self.constellation.database.write(write)
        self.fork = await self.constellation.database.read(lambda tx: fork_of_session(tx, FORK.session_id))
        assert self.fork == fork
        return fork

    def _session(self, tx: Transaction, name: SessionId) -> None:
        event = SessionCreated("/project", (), "tester", "", "m/m", "ask", None, None, "")
        seq = append(tx, name, event, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=0).seq
        create_session(tx, NewSession(name, "/project", (), "tester", "", "m/m", "ask"), seq=seq, at_ms=0)

    def _writing(self, owner: MemoryScope) -> WriteContext:
        now = self.constellation.clock.now_ms()
        return WriteContext(owner, PERSON, MemoryRules(), IDS, PEER, now, NO_TEMPLATES)

    async def merge(self, side: Side = "both") -> MergeResult:
        assert self.fork is not None
        return await self.constellation.database.write(partial(self._merge, self.fork, side))

    def _merge(self, fork: MemoryFork, side: Side, tx: Transaction) -> MergeResult:
        return merge_fork(tx, fork, self._writing(FORK), side)

    async def discard(self) -> None:
        fork = self.fork
        assert fork is not None
        await self.constellation.database.write(lambda tx: discard_fork(tx, fork, self._writing(FORK)))

    async def text(self, owner: MemoryScope, label: str = "human") -> str:
        return next(view.text for view in await self.memory(owner).blocks() if view.label == label)

    def history(self, owner: MemoryScope) -> MemoryHistory:
        return MemoryHistory(self.constellation.database, owner.owners)

    async def authors(self, label: str = "human") -> list[tuple[str, str]]:
        blamed = await self.history(PARENT).blame(label)
        return [(line.text, blamed.writes[line.number].actor.value) for line in blamed.lines]

    async def assert_sound(self) -> None:
        """Nothing of memory is other than its events say, nor damaged."""

        def read(tx: Transaction) -> list[str]:
            found = [f"{one.label}: {one.problem}" for one in (*mismatches(tx), *archive_mismatches(tx))]
            return [*found, *(f"{label}: {problem}" for label, problem in damaged_snapshots(tx))]

        assert await self.constellation.database.read(read) == []
        for owner in (PARENT, self.owner):
            assert [one.problems for one in await self.history(owner).verify() if one.problems] == []


@pytest.fixture
async def forked() -> AsyncGenerator[Forked, None]:
    async with temporary_constellation() as constellation:
        yield Forked(constellation)


async def test_a_fork_begins_as_its_parent_is_and_neither_sees_what_the_other_learns(forked: Forked):
    await forked.write(PARENT, "append", "Likes tea.")
    await forked.begin()
    await forked.write(forked.owner, "append", "Speaks Dutch.")
    await forked.write(PARENT, "append", "Works at night.")
    assert await forked.text(forked.owner) == "Likes tea.\nSpeaks Dutch."
    assert await forked.text(PARENT) == "Likes tea.\nWorks at night."
    await forked.assert_sound()


async def test_memory_of_the_program_alone_is_untouched(forked: Forked):
    database = forked.constellation.database
    assert await database.read(lambda tx: is_untouched(tx, PARENT))
    await forked.memory(PARENT).blocks()
    assert await database.read(lambda tx: is_untouched(tx, PARENT))
    await forked.write(PARENT, "append", "Likes tea.")
    assert not await database.read(lambda tx: is_untouched(tx, PARENT))


async def test_a_merge_brings_each_write_back_with_who_wrote_it(forked: Forked):
    await forked.write(PARENT, "append", "Likes tea.")
    await forked.begin()
    await forked.write(forked.owner, "append", "Speaks Dutch.", reason="They said so.")
    await forked.write(PARENT, "append", "Works at night.", by="person")
    await forked.write(forked.owner, "append", "Has a dog.", by="person")
    merged = await forked.merge()
    assert [(one.label, one.notes) for one in merged.blocks] == [("human", ())]
    assert set(await forked.authors()) == {
        ("Likes tea.", "persona"),
        ("Works at night.", "human"),
        ("Speaks Dutch.", "persona"),
        ("Has a dog.", "human"),
    }
    log = await forked.history(PARENT).log("human")
    assert [write.operation for write in log] == ["append", "append", "append", "append", "create"]
    assert log[1].reason == "They said so."
    await forked.assert_sound()


async def test_the_same_process_goes_on_with_both_and_a_merged_write_can_be_undone(forked: Forked):
    await forked.write(PARENT, "append", "Likes tea.")
    await forked.begin()
    await forked.write(forked.owner, "append", "Speaks Dutch.")
    await forked.write(PARENT, "append", "Works at night.")
    await forked.merge()
    await forked.write(PARENT, "append", "Has a dog.")
    scope = HistoryScope(PARENT.owners, PARENT.session_id, Actor.HUMAN, Origin.PERSON, PEER)
    reverts = MemoryReverts(forked.constellation.database, scope, clock=forked.constellation.clock)
    await reverts.change("human", partial(plan_undo, number=4))
    assert await forked.text(PARENT) == "Likes tea.\nWorks at night.\nHas a dog."
    await forked.assert_sound()


async def test_what_both_wrote_into_an_empty_block_stands_on_lines_of_its_own(forked: Forked):
    await forked.begin()
    await forked.write(forked.owner, "append", "Speaks Dutch.", by="person")
    await forked.write(PARENT, "append", "Works at night.")
    assert (await forked.merge()).blocks[0].notes == ()
    assert set(await forked.authors()) == {("Works at night.", "persona"), ("Speaks Dutch.", "human")}
    await forked.assert_sound()


async def test_lines_that_both_changed_are_both_there_and_told(forked: Forked):
    await forked.write(PARENT, "append", "port 8080\nuses make")
    await forked.begin()
    await forked.write(forked.owner, "replace", "port 9090", old_text="port 8080", by="person")
    await forked.write(PARENT, "replace", "port 7070", old_text="port 8080")
    merged = await forked.merge()
    assert "1 place was changed on both sides" in merged.blocks[0].notes[0]
    text = await forked.text(PARENT)
    assert set(text.split("\n")) == {"port 7070", "port 9090", "uses make"}
    assert {("port 7070", "persona"), ("port 9090", "human")} < set(await forked.authors())
    view = next(one for one in await forked.memory(PARENT).blocks() if one.label == "human")
    assert "port 9090" in view.notes[0]
    await forked.assert_sound()


@pytest.mark.parametrize(
    ("side", "line", "told"), [("ours", "port 9191", "lines of the fork"), ("theirs", "port 7070", "from outside")]
)
async def test_lines_that_both_changed_read_as_on_the_side_that_the_user_prefers(
    forked: Forked, side: Side, line: str, told: str
):
    await forked.write(PARENT, "append", "port 8080\nuses make")
    await forked.begin()
    await forked.write(forked.owner, "replace", "port 9090", old_text="port 8080", by="person")
    await forked.write(forked.owner, "replace", "port 9191", old_text="port 9090")
    await forked.write(forked.owner, "append", "uses ruff")
    await forked.write(PARENT, "replace", "port 7070", old_text="port 8080")
    merged = await forked.merge(side)
    assert told in merged.blocks[0].notes[0]
    assert (merged.places, (await forked.text(PARENT)).split("\n")) == (0, [line, "uses make", "uses ruff"])
    view = next(one for one in await forked.memory(PARENT).blocks() if one.label == "human")
    assert view.notes == ()
    await forked.assert_sound()


async def test_a_fork_whose_every_change_gives_way_is_no_fork_that_learned_nothing(forked: Forked):
    await forked.write(PARENT, "append", "port 8080")
    await forked.begin()
    await forked.write(forked.owner, "replace", "port 9090", old_text="port 8080")
    await forked.write(PARENT, "replace", "port 7070", old_text="port 8080")
    merged = await forked.merge("theirs")
    assert (merged.blocks, merged.is_empty) == ([], False)
    assert "1 place was changed on both sides" in merged.left[0]
    assert await forked.text(PARENT) == "port 7070"


async def test_blocks_that_the_fork_made_or_deleted_are_made_and_deleted(forked: Forked):
    await forked.write(PARENT, "create", "Old.", "plan", scope="project", description="Plans")
    await forked.begin()
    await forked.write(forked.owner, "create", "New.", "notes", scope="persona", description="Notes")
    await forked.write(forked.owner, "append", "Newer.", "notes", by="person")
    scope = HistoryScope(forked.owner.owners, FORK.session_id, Actor.HUMAN, Origin.PERSON, PEER)
    await MemoryReverts(forked.constellation.database, scope, clock=forked.constellation.clock).delete("plan")
    assert await forked.text(PARENT, "plan") == "Old."
    await forked.merge()
    assert await forked.text(PARENT, "notes") == "New.\nNewer."
    assert await forked.authors("notes") == [("New.", "persona"), ("Newer.", "human")]
    with pytest.raises(BlockMissingError):
        await forked.history(PARENT).show("plan")
    await forked.assert_sound()


async def test_a_block_that_was_deleted_outside_comes_back_when_the_fork_wrote_to_it(forked: Forked):
    await forked.write(PARENT, "create", "Old.", "plan", scope="project", description="Plans")
    await forked.begin()
    await forked.write(forked.owner, "append", "New.", "plan")
    scope = HistoryScope(PARENT.owners, PARENT.session_id, Actor.HUMAN, Origin.PERSON, PEER)
    await MemoryReverts(forked.constellation.database, scope, clock=forked.constellation.clock).delete("plan")
    merged = await forked.merge()
    assert "comes back" in merged.blocks[0].notes[0]
    assert await forked.text(PARENT, "plan") == "Old.\nNew."
    await forked.assert_sound()


async def test_what_is_discarded_is_gone_and_the_parent_is_as_it_was(forked: Forked):
    await forked.write(PARENT, "append", "Likes tea.")
    fork = await forked.begin()
    await forked.write(forked.owner, "append", "A secret plan.")
    await forked.write(forked.owner, "append", "A fact of the fork.", "archive")
    await forked.discard()
    assert await forked.text(PARENT) == "Likes tea."
    stored = await forked.constellation.database.read(lambda tx: stored_blocks(tx, fork.id))
    assert {(one.deleted, one.block.text) for one in stored} == {(2, "")}
    with pytest.raises(ForkEndedError):
        await forked.write(forked.owner, "append", "Too late.")
    with pytest.raises(ForkEndedError):
        await forked.merge()
    ended = await forked.constellation.database.read(lambda tx: read_everywhere(tx, MemoryForkEnded))
    assert [(one.event.outcome,) for one in ended if isinstance(one.event, MemoryForkEnded)] == [("discarded",)]
    forked.fork = None
    await forked.assert_sound()


async def test_facts_of_the_archive_are_inherited_and_new_ones_come_back(forked: Forked):
    await forked.write(PARENT, "append", "The build needs docker.", "archive")
    await forked.begin()
    await forked.write(PARENT, "append", "The moon is made of rock.", "archive")
    await forked.write(forked.owner, "append", "Tests want a free port.", "archive", reason="They failed.")
    memory = forked.memory(forked.owner)
    assert [hit.text for hit in await memory.search("docker", 5)] == ["The build needs docker."]
    assert await memory.search("moon", 5) == ()
    assert await forked.memory(PARENT).search("port", 5) == ()
    with pytest.raises(BlockError):
        await forked.write(forked.owner, "append", "The build needs docker.", "archive")
    entry = (await forked.history(PARENT).archive())[-1].entry
    with pytest.raises(UnusableEditError, match="stays as it is until this one is merged"):
        await forked.write(forked.owner, "replace", "The build needs podman.", "archive", old_text=entry.id)
    merged = await forked.merge()
    assert merged.facts == ["Tests want a free port."]
    assert [hit.text for hit in await forked.memory(PARENT).search("port", 5)] == ["Tests want a free port."]
    await forked.assert_sound()


async def test_an_open_fork_is_searched_for_its_own_words_only(forked: Forked):
    await forked.write(PARENT, "append", "Likes green tea.")
    await forked.begin()
    await forked.write(forked.owner, "replace", "Likes black tea.", old_text="Likes green tea.")
    assert [hit.text for hit in await forked.memory(forked.owner).search("tea", 5)] == ["Likes black tea."]
    assert [hit.text for hit in await forked.memory(PARENT).search("tea", 5)] == ["Likes green tea."]


@pytest.mark.parametrize("where", ["parent", "fork"])
async def test_what_is_forgotten_is_forgotten_on_both_sides(forked: Forked, where: str):
    await forked.write(PARENT, "append", "Pays with card 4929.\nLikes tea.")
    fork = await forked.begin()
    await forked.write(forked.owner, "append", "Speaks Dutch.")
    owner = PARENT if where == "parent" else forked.owner
    scope = HistoryScope(owner.owners, owner.session_id, Actor.HUMAN, Origin.PERSON, PEER)
    forgetting = MemoryForgetting(
        forked.constellation.database, scope, clock=forked.constellation.clock, parameters=frozenset
    )
    report = await forgetting.forget("human", "Pays with card 4929.")
    assert report.others == ()
    assert await forked.text(PARENT) == "Likes tea."
    assert await forked.text(forked.owner) == "Likes tea.\nSpeaks Dutch."

    def versions(tx: Transaction) -> list[str]:
        blocks = [one.block for one in stored_blocks(tx, fork.id) if one.block.key.label == "human"]
        return [text for block in blocks for text in texts_of_all_versions(read_history(tx, block))]

    assert "4929" not in str(await forked.constellation.database.read(versions))
    merged = await forked.merge()
    assert "forgotten meanwhile" in merged.blocks[0].notes[0]
    assert await forked.text(PARENT) == "Likes tea.\nSpeaks Dutch."
    await forked.assert_sound()


async def test_a_persona_that_the_conversation_goes_on_with_falls_through_too(forked: Forked):
    other = replace(PARENT, persona="other")
    await forked.write(other, "append", "The other knows this.")
    fork = await forked.begin()
    in_fork = replace(other, session_id=FORK.session_id, fork=fork)
    assert await forked.text(in_fork) == "The other knows this."
    await forked.write(in_fork, "append", "And this.")
    assert await forked.text(other) == "The other knows this."
    await forked.merge()
    assert await forked.text(other) == "The other knows this.\nAnd this."
    await forked.assert_sound()


async def test_shared_blocks_are_forked_with_the_permission_of_the_attachment(forked: Forked):
    await forked.write(PARENT, "create", "Everyone reads this.", "rules", scope="shared", description="Rules")
    await forked.begin()
    await forked.write(forked.owner, "append", "Be kind.", "rules")
    assert await forked.text(PARENT, "rules") == "Everyone reads this."
    assert await forked.text(forked.owner, "rules") == "Everyone reads this.\nBe kind."
    await forked.merge()
    assert await forked.text(PARENT, "rules") == "Everyone reads this.\nBe kind."
    await forked.assert_sound()


async def test_a_merge_that_fails_at_any_statement_leaves_everything_as_it_was(forked: Forked):
    await forked.write(PARENT, "append", "Likes tea.")
    await forked.begin()
    await forked.write(forked.owner, "append", "Speaks Dutch.")
    await forked.write(forked.owner, "append", "A fact of the fork.", "archive")

    class StoppedError(Exception):
        pass

    fork = forked.fork
    assert fork is not None

    def stopped(tx: Transaction) -> None:
        merge_fork(tx, fork, forked._writing(FORK))  # pyright: ignore[reportPrivateUsage]
        raise StoppedError

    with pytest.raises(StoppedError):
        await forked.constellation.database.write(stopped)
    assert await forked.text(PARENT) == "Likes tea."
    assert await forked.text(forked.owner) == "Likes tea.\nSpeaks Dutch."
    assert (await forked.merge()).facts == ["A fact of the fork."]
    await forked.assert_sound()


async def test_a_fork_whose_sessions_were_all_deleted_long_ago_goes_with_what_is_swept(forked: Forked):
    await forked.write(PARENT, "append", "Likes tea.")
    await forked.begin()
    await forked.write(forked.owner, "append", "Speaks Dutch.")
    clock, path = forked.constellation.clock, forked.constellation.path

    def found() -> list[Sweepable]:
        return [one for one in find_sweepable(path, RetentionPolicy(clock.now_ms())) if one.kind == "forked memory"]

    clock.advance(90 * DAY_MS)
    assert found() == []
    await forked.constellation.database.write(lambda tx: mark_deleted(tx, FORK.session_id, seq=1, at_ms=clock.now_ms()))
    assert found() == []
    clock.advance(31 * DAY_MS)
    assert [one.reason for one in found()] == ["1 fork of memory of sessions that were deleted"]
    sweep(path, found(), RetentionPolicy(clock.now_ms()))
    assert found() == []
    forked.fork = None
    assert await forked.text(PARENT) == "Likes tea."
    await forked.assert_sound()


async def test_a_fork_that_no_session_uses_begins_with_its_first_write_and_stays_while_its_session_does(forked: Forked):
    await forked.write(PARENT, "append", "Likes tea.")
    clock, path = forked.constellation.clock, forked.constellation.path
    database, session = forked.constellation.database, FORK.session_id
    await database.write(lambda tx: forked._session(tx, session))  # pyright: ignore[reportPrivateUsage]
    fork = MemoryFork(IDS.new("fork"), clock.now_ms())
    owner = replace(FORK, fork=fork)
    assert await database.read(lambda tx: worker_forks(tx, session)) == ()
    await forked.write(owner, "append", "Speaks Dutch.")
    assert await database.read(lambda tx: worker_forks(tx, session)) == (fork,)
    assert await database.read(lambda tx: fork_of_session(tx, session)) is None
    assert await forked.text(owner) == "Likes tea.\nSpeaks Dutch."

    def found() -> list[Sweepable]:
        return [one for one in find_sweepable(path, RetentionPolicy(clock.now_ms())) if one.kind == "forked memory"]

    clock.advance(90 * DAY_MS)
    assert found() == []
    await database.write(lambda tx: mark_deleted(tx, session, seq=1, at_ms=clock.now_ms()))
    clock.advance(31 * DAY_MS)
    sweep(path, found(), RetentionPolicy(clock.now_ms()))
    assert await database.read(lambda tx: worker_forks(tx, session)) == ()
    assert await forked.text(PARENT) == "Likes tea."
    await forked.assert_sound()


async def test_a_fork_of_a_fork_merges_into_that_one_which_cannot_end_before(forked: Forked):
    await forked.write(PARENT, "append", "Likes tea.")
    await forked.write(PARENT, "create", "Be kind.", "rules", scope="shared", description="For all")
    await forked.write(PARENT, "append", "A fact from before.", "archive")
    outer = await forked.begin()
    await forked.write(forked.owner, "append", "A fact of the fork.", "archive")
    forked.constellation.clock.advance(1000)
    inner = MemoryFork(IDS.new("fork"), forked.constellation.clock.now_ms(), outer)
    owner = replace(FORK, fork=inner)
    await forked.write(owner, "append", "Speaks Dutch.")
    await forked.write(owner, "append", "Be brief.", "rules")
    await forked.write(owner, "append", "A fact of the fork in the fork.", "archive")
    facts = ["A fact from before.", "A fact of the fork.", "A fact of the fork in the fork."]
    assert {hit.text for hit in await forked.memory(owner).search("fact", 10)} >= set(facts)
    assert await forked.text(forked.owner) == "Likes tea."
    for end in (forked.merge, forked.discard):
        with pytest.raises(ForkInUseError):
            await end()
    database, writing = forked.constellation.database, forked._writing(forked.owner)  # pyright: ignore[reportPrivateUsage]
    await database.write(lambda tx: merge_fork(tx, inner, writing))
    assert await forked.text(forked.owner) == "Likes tea.\nSpeaks Dutch."
    assert await forked.text(forked.owner, "rules") == "Be kind.\nBe brief."
    assert (await forked.text(PARENT), await forked.text(PARENT, "rules")) == ("Likes tea.", "Be kind.")
    await forked.assert_sound()
    assert set((await forked.merge()).facts) == set(facts[1:])
    assert await forked.text(PARENT) == "Likes tea.\nSpeaks Dutch."
    assert await forked.text(PARENT, "rules") == "Be kind.\nBe brief."
    forked.fork = None
    await forked.assert_sound()


@pytest.mark.e2e
async def test_a_merge_that_is_killed_at_any_statement_did_all_or_nothing(forked: Forked):
    await forked.write(PARENT, "append", "Likes tea.")
    fork = await forked.begin()
    await forked.write(forked.owner, "append", "Speaks Dutch.")
    await forked.write(forked.owner, "create", "New.", "notes", scope="persona", description="Notes")
    await forked.write(forked.owner, "append", "A fact of the fork.", "archive")
    about = (str(forked.constellation.path), fork.id, str(fork.forked_ms), *PARENT.owners[0][1:], PARENT.project_key)
    statement, step, killed = 1, 7, 0
    while True:
        command = [sys.executable, "-m", "tests.support.killed_merge", *about, PARENT.session_id, str(statement)]
        ended = await anyio.run_process(command, check=False)
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
        killed += 1
        assert await forked.text(PARENT) == "Likes tea."
        assert await forked.text(forked.owner) == "Likes tea.\nSpeaks Dutch."
        await forked.assert_sound()
        statement += step
    assert killed > 5
    assert await forked.text(PARENT) == "Likes tea.\nSpeaks Dutch."
    assert await forked.text(PARENT, "notes") == "New."
    forked.fork = None
    await forked.assert_sound()


WRITES = st.lists(st.tuples(st.sampled_from(["parent", "fork"]), st.booleans()), max_size=8)


@settings(max_examples=8, deadline=None)
@given(WRITES)
def test_whatever_both_sides_write_is_merged_with_its_authors(writes: list[tuple[str, bool]]):
    async def merge() -> None:
        async with temporary_constellation() as constellation:
            forked = Forked(constellation)
            await forked.begin()
            wrote: set[tuple[str, str]] = set()
            for number, (side, by_person) in enumerate(writes):
                line, by = f"{side} {number}.", "person" if by_person else ""
                await forked.write(PARENT if side == "parent" else forked.owner, "append", line, by=by)
                wrote.add((line, "human" if by_person else "persona"))
            merged = await forked.merge()
            assert all(not one.notes for one in merged.blocks)
            assert set(await forked.authors()) == wrote
            forked.fork = None
            await forked.assert_sound()

    anyio.run(merge)


LINES = st.lists(st.sampled_from(["tea", "dog", "make", "port 8080", "night", "dutch"]), max_size=4, unique=True)


@settings(max_examples=30, deadline=None)
@given(LINES, LINES, LINES, st.booleans())
def test_what_only_one_side_wrote_is_there_whatever_the_other_did(
    first: list[str], ours: list[str], theirs: list[str], replaces: bool
):
    # The documents alone, as a merge brings their updates together.
    document = BlockDocument.create("human", "\n".join(first), peer=1)
    start = document.full_snapshot()
    sides: list[BlockDocument] = []
    for peer, lines, mark in ((2, ours, "ours"), (3, theirs, "theirs")):
        side = BlockDocument.load("human", [start], peer=peer)
        for line in lines:
            edit = Append(f"{mark} {line}")
            if replaces and side.text.split("\n").count(line) == 1 and side.text.count(line) == 1:
                edit = Replace(line, f"{mark} {line}")
            side.apply(plan_edit(edit, side.text, label="human", limit=10_000))
        sides.append(side)
    one, other = (BlockDocument.load("human", [side.full_snapshot()], peer=9) for side in sides)
    one.merge(sides[1].full_snapshot())
    other.merge(sides[0].full_snapshot())
    assert one.text == other.text
    if not merge_texts("\n".join(first), sides[0].text, sides[1].text).conflicts:
        added = {line for side in sides for line in side.text.split("\n")} - set("\n".join(first).split("\n"))
        assert added <= set(one.text.split("\n"))


def test_the_owners_of_a_fork_are_none_of_the_parents():
    fork = MemoryFork("fork_1", 0)
    assert {owner for _, owner in replace(PARENT, fork=fork).owners}.isdisjoint(owner for _, owner in PARENT.owners)
    assert replace(PARENT, fork=fork).owner_of(Scope.SHARED) != PARENT.owner_of(Scope.SHARED)
