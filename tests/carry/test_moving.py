"""A project moves from one constellation into another: all of it, compared, and nothing is left where it was."""

import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from io import BytesIO
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.carry.car import read_archive
from pattern_acp.carry.moving import MoveRefusedError, MoveReport, MovingProject, ProjectExport, arrive, move, preview
from pattern_acp.db.connection import Database, Transaction, change_file
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import RandomIds, SessionId
from pattern_acp.jobs.model import JobEvent, JobStage
from pattern_acp.jobs.store import JOB, Meter, draw, follow_job, verify_jobs
from pattern_acp.journal.events import BlockConfigured, GrantStored, SessionTitled
from pattern_acp.journal.leases import acquire, this_process
from pattern_acp.journal.reader import verify_stream
from pattern_acp.journal.sessions import get_session
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.memory.blocks import BlockKey, MemoryFork, Scope
from pattern_acp.memory.forks import fork_of_session
from pattern_acp.memory.history import blame_lines, read_history
from pattern_acp.memory.service.access import ARCHIVE, MemoryEdit
from pattern_acp.memory.service.forget import MemoryForgetting
from pattern_acp.memory.service.history import HistoryScope
from pattern_acp.memory.service.scope import PERSON, MemoryRules, MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.service.share import MemorySetup
from pattern_acp.memory.service.undo import MemoryReverts
from pattern_acp.memory.store import load_block
from pattern_acp.policy.decision import Lifetime
from pattern_acp.policy.grants import Effect, Grant, GrantKind, GrantOwner, store_grant
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.rewind.forks import ForkingMemory, fork_session
from pattern_acp.session.stored import project_of_folder, rename_session
from pattern_acp.sync.outgoing import newest_event
from pattern_acp.tools.registry import parameter_names
from pattern_acp.trust import store_agreement
from tests.carry.test_archive import NOW, OTHER, home, is_sound, leave, memory_of, offered, say, state, talk, text_of
from tests.carry.test_task_lists import add
from tests.jobs.test_store import AGREED, quoted
from tests.jobs.test_store import moved as job_moved
from tests.support.agent import running_agent
from tests.support.constellation import FakeClock
from tests.support.editor import choose
from tests.support.scripts import calls, says

LEFT = (b"teal", b"mauve", b"Teal", b"Varnish the", b"crimson")
"""Words of the project; the ids of its tasks are made of others."""


def moving(folder: Path, target: str = "own") -> MovingProject:
    return MovingProject(key_of(folder), folder.name, target, project_of_folder)


def key_of(folder: Path) -> str:
    return project_of_folder(str(folder))


async def move_to(source: Database, target: Database, folder: Path) -> MoveReport:
    return await move(source, target, moving(folder), now_ms=NOW)


async def work(database: Path, folder: Path) -> str:
    """Leave a session that changed a file; its id."""
    await anyio.Path(folder).mkdir(exist_ok=True)
    await anyio.Path(folder / "a.txt").write_text("It was crimson.\n", encoding="utf-8")
    edits = [{"old_text": "crimson", "new_text": "teal"}]
    model = ScriptedProvider([calls("edit_file", path="a.txt", edits=edits), says("Teal it is.")])
    async with running_agent(model, database=database, permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(folder))
        await agent.editor.prompt(session, "Paint it teal.")
        return session


async def fill(home_of: Path, folder: Path) -> str:
    """Leave memory of a project and of others, tasks, and a session; the session's id."""
    project = key_of(folder)
    async with home(home_of) as one:
        await say(one, "human", "Ann likes plum.", project=OTHER)
        for text in ("The wall is teal.", "The door is teal."):
            await say(one, "project", text, project=project)
        memory = memory_of(one, project)
        await memory.commit(MemoryEdit("project", "replace", "The door is mauve.", old_text="The door is teal."), None)
        await memory.commit(MemoryEdit(ARCHIVE, "append", "Teal paint dries slowly."), None)
        await memory.commit(MemoryEdit(ARCHIVE, "append", "teal/ is generated.", kind="trap", paths=("g/**",)), None)
        await add(one, "Varnish the gate", project=project)
        await say(one, "project", "Elsewhere it is plum.", project=OTHER)
        await memory_of(one, OTHER).commit(MemoryEdit(ARCHIVE, "append", "Plum jam keeps."), None)
    return await work(home_of / "constellation.db", folder)


@asynccontextmanager
async def filled(tmp_path: Path) -> AsyncGenerator[tuple[Path, SessionId, Database, Database]]:
    """A project's folder, its session, the constellation that has both, and another one; both are sound at the end."""
    folder = tmp_path / "shop"
    session = SessionId(await fill(tmp_path / "one", folder))
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        yield folder, session, one, two
        assert await is_sound(one) == await is_sound(two) == []


def bytes_around(home_of: Path) -> bytes:
    return b"".join(each.read_bytes() for each in home_of.rglob("*") if each.is_file())


async def test_a_project_moves_with_its_history_tasks_sessions_and_checkpoints_and_nothing_is_left(tmp_path: Path):
    folder = tmp_path / "shop"
    session = await fill(tmp_path / "one", folder)
    await talk(tmp_path / "one" / "constellation.db", tmp_path / "other")
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        blamed = await one.read(partial(_blame, key_of(folder)))
        report = await move_to(one, two, folder)
        assert await is_sound(one) == await is_sound(two) == []
    moved = report.moved
    assert (moved.entries, moved.tasks, moved.sessions, moved.files > 0) == (2, 1, 1, True)
    assert (report.merged, report.is_clean) == (0, True)
    async with home(tmp_path / "two") as two:
        assert await two.read(partial(_blame, key_of(folder))) == blamed
        assert (await two.read(lambda tx: verify_stream(tx, session))).ok
        hits = await memory_of(two, key_of(folder)).search("how does teal paint dry", 3)
        assert "dries slowly" in hits[0].text
    left = bytes_around(tmp_path / "one")
    assert b"plum" in left
    assert not [word for word in LEFT if word in left]


def _blame(owner: str, tx: Transaction) -> list[tuple[str, int]]:
    block = load_block(tx, BlockKey(Scope.PROJECT, owner, "project"))
    return [(line.text, line.number) for line in blame_lines(read_history(tx, block))]


async def test_moving_twice_is_moving_once_and_a_project_comes_back_to_where_it_was_to_the_record(tmp_path: Path):
    async with filled(tmp_path) as (folder, session, one, two):
        there = await move_to(one, two, folder)
        here, moved = await one.read(state), await two.read(state)
        again = await move_to(one, two, folder)
        assert (again.moved.is_empty, again.same, again.merged) == (True, 0, 0)
        assert (await one.read(state), await two.read(state)) == (here, moved)
        back = await move_to(two, one, folder)
        assert (back.moved.root, back.merged) == (there.moved.root, 0)
        assert await is_sound(one) == await is_sound(two) == []
        assert (await one.read(lambda tx: verify_stream(tx, session))).ok
        row = await one.read(lambda tx: get_session(tx, session))
        assert row is not None
        assert row.title == "Paint it teal."
        assert (await move_to(one, two, folder)).moved.root == there.moved.root
    assert not [word for word in LEFT if word in bytes_around(tmp_path / "one")]
    assert all(word in bytes_around(tmp_path / "two") for word in LEFT)


async def test_what_a_session_of_the_project_wrote_into_memory_of_others_stays_and_still_verifies(tmp_path: Path):
    async with filled(tmp_path) as (folder, session, one, two):
        owner = MemoryScope("tester", key_of(folder), session)
        clock = FakeClock()
        memory = ConstellationMemory(
            one, owner, clock=clock, ids=RandomIds(), peer=9, writer=PERSON, rules=MemoryRules()
        )
        await memory.commit(MemoryEdit("human", "append", "Ann also likes quince."), None)
        await memory.commit(MemoryEdit("project", "append", "The roof is teal."), None)
        report = await move_to(one, two, folder)
        assert report.merged == 0
        human = await one.read(lambda tx: load_block(tx, BlockKey(Scope.PERSONA, "tester", "human")))
        assert human.text.endswith("Ann likes plum.\nAnn also likes quince.")
        assert (await text_of(two, owner=key_of(folder))).endswith("The roof is teal.")
        assert await text_of(one, owner=OTHER) == "Elsewhere it is plum."
    assert not [word for word in LEFT if word in bytes_around(tmp_path / "one")]


async def test_a_project_with_an_open_session_or_forked_memory_is_refused_and_nothing_moves(tmp_path: Path):
    async with filled(tmp_path) as (folder, session, one, two):
        before = await one.read(state)
        await one.write(lambda tx: acquire(tx, session, this_process("a window"), NOW))
        for refused in (preview(one, moving(folder), now_ms=NOW), move_to(one, two, folder)):
            with pytest.raises(MoveRefusedError, match=rf"{session} is in use by process .*; close it there"):
                await refused
        await one.write(lambda tx: tx.execute("DELETE FROM leases"))
        assert (await one.read(state), await two.read(lambda tx: tx.all("SELECT * FROM events"))) == (before, [])
        place = ForkingMemory(key_of(folder), 9)
        fork = await fork_session(one, session, "", clock=FakeClock(), ids=RandomIds(), forking=place)
        scope = MemoryScope("default", key_of(folder), fork.session_id, fork=await _memory_fork(one, fork.session_id))
        clock = FakeClock()
        memory = ConstellationMemory(
            one, scope, clock=clock, ids=RandomIds(), peer=9, writer=PERSON, rules=MemoryRules()
        )
        await memory.commit(MemoryEdit("project", "append", "A fork paints it teal."), None)
        with pytest.raises(MoveRefusedError, match=f"Session {fork.session_id} has forked .* /merge or /discard"):
            await move_to(one, two, folder)


async def test_permissions_trust_and_shared_blocks_that_stay_are_named(tmp_path: Path):
    folder = tmp_path / "shop"
    session = SessionId(await fill(tmp_path / "one", folder))
    key, root = key_of(folder), str(folder.resolve())
    grant = Grant(Effect.ALLOW, GrantKind.EXACT_COMMAND, "make", Lifetime.PROJECT)

    def allow(tx: Transaction) -> None:
        stored = GrantStored("allow", "exact_command", "make", "project", project=key, persona="tester")
        seq = append(tx, session, stored, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=NOW).seq
        store_grant(tx, session, grant, GrantOwner(key, "tester"), seq=seq, at_ms=NOW)
        store_agreement(tx, root, "digest", (), seq=seq, at_ms=NOW)
        store_agreement(tx, str(tmp_path), "digest", (), seq=seq, at_ms=NOW)

    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        await one.write(allow)
        report = await move_to(one, two, folder)
        named = f"1 standing permission, the trust in {root}."
        assert report.moved.left == f"These stay; allow, share and trust again there: {named}"
        assert (await move_to(one, two, folder)).moved.left == ""


async def test_what_a_worker_learned_and_has_not_landed_refuses_the_move_with_what_ends_it(tmp_path: Path):
    folder = tmp_path / "shop"
    session = SessionId(await fill(tmp_path / "one", folder))
    async with home(tmp_path / "one") as one:
        fork = MemoryFork("fork_of_a_worker", NOW)
        scope = MemoryScope("default", key_of(folder), session, fork=fork)
        memory = ConstellationMemory(
            one, scope, clock=FakeClock(), ids=RandomIds(), peer=9, writer=PERSON, rules=MemoryRules()
        )
        await memory.commit(MemoryEdit("project", "append", "A worker paints it teal."), None)
        with pytest.raises(MoveRefusedError, match=rf"A worker of session {session} .* `/workers stop NAME`"):
            await preview(one, moving(folder), now_ms=NOW)


async def _memory_fork(database: Database, session: SessionId) -> MemoryFork | None:
    return await database.read(lambda tx: fork_of_session(tx, session))


async def test_forks_go_together_and_one_that_is_of_another_project_too_stays_with_its_origin(tmp_path: Path):
    folder = tmp_path / "shop"
    session = await fill(tmp_path / "one", folder)
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        fork = await fork_session(one, session, "", clock=FakeClock(), ids=RandomIds())
        report = await move_to(one, two, folder)
        assert (report.moved.sessions, report.moved.stays) == (2, ())
        assert await is_sound(one) == await is_sound(two) == []
        assert (await two.read(lambda tx: verify_stream(tx, fork.session_id))).ok
        assert (await move_to(two, one, folder)).merged == 0
        assert await is_sound(one) == []
        elsewhere = {"cwd": OTHER, "id": fork.session_id}
        await one.write(lambda tx: tx.execute("UPDATE sessions SET cwd = :cwd WHERE id = :id", elsewhere))
        stays = (await preview(one, moving(folder), now_ms=NOW)).stays
        other = f"it shares history with {fork.session_id} of another project."
        assert stays == (f"The session {session} stays: {other}",)


async def test_a_deleted_block_and_the_jobs_of_a_session_go_along(tmp_path: Path):
    async with filled(tmp_path) as (folder, session, one, two):
        key = key_of(folder)
        await reverts(one, key).delete("project", "It is painted.")
        for database, of in ((one, session), (two, await _other_session(two))):
            for event in (quoted(), AGREED, job_moved(JobStage.WORKING)):
                await database.write(partial(_follow, replace(event, job_id=f"job of {of}"), SessionId(of)))
        report = await move_to(one, two, folder)
        assert await is_sound(one) == await is_sound(two) == []
        assert (report.moved.jobs, report.notes, report.merged) == (1, ("The job #1 is #2 there.",), 1)
        assert await one.read(lambda tx: tx.all("SELECT id FROM jobs")) == []
        assert [found.problems for found in await two.read(verify_jobs)] == [(), ()]
        await reverts(two, key).restore("project")
        assert (await text_of(two, owner=key)).endswith("The door is mauve.")
        assert await is_sound(two) == []


def reverts(database: Database, project: str) -> MemoryReverts:
    scope = HistoryScope(((Scope.PROJECT, project),), CONSTELLATION_STREAM, PERSON.actor, PERSON.origin, 9)
    return MemoryReverts(database, scope, clock=FakeClock())


def _follow(event: JobEvent, session: SessionId, tx: Transaction) -> None:
    seq = append(tx, session, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=NOW).seq
    follow_job(tx, session, event, seq=seq, at_ms=NOW)


async def agree(database: Database, session: SessionId) -> None:
    """Leave a job of a session that its user agreed to."""
    for event in (quoted(), AGREED):
        await database.write(partial(_follow, event, session))


async def _other_session(database: Database) -> str:
    return await talk(database.path, database.path.parent / "elsewhere")


async def test_a_block_with_a_label_that_is_taken_stands_beside_the_other(tmp_path: Path):
    async with filled(tmp_path) as (folder, _, one, two):
        await say(two, "project", "It is new here.", project=key_of(folder))
        report = await move_to(one, two, folder)
        (note,) = report.notes
        assert note.startswith("The block project is project-")
        label = note.split()[4]
        assert (await text_of(two, label, key_of(folder))).endswith("The door is mauve.")
        assert await text_of(two, owner=key_of(folder)) == "It is new here."
        assert report.merged == 1


def busy(database: Database, folder: Path, write: Callable[[Transaction], object]) -> MovingProject:
    """The project to move, while another window writes each time when it is read."""

    def project_of(path: str) -> str:
        change_file(database.path, write)
        return project_of_folder(path)

    return replace(moving(folder), project_of=project_of)


async def test_other_windows_write_while_a_move_reads_the_project_and_do_not_stop_it(tmp_path: Path):
    folder = tmp_path / "shop"
    await fill(tmp_path / "one", folder)
    elsewhere = await talk(tmp_path / "one" / "constellation.db", tmp_path / "other")
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        event = SessionTitled("It goes on.")

        def write(tx: Transaction) -> None:
            append(tx, elsewhere, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=NOW)

        before = await one.read(newest_event)
        report = await move(one, two, busy(one, folder, write), now_ms=NOW)
        assert report.moved.sessions == 1
        assert await one.read(newest_event) > before + 2
        assert await one.read(lambda tx: tx.all("SELECT 1 FROM blocks WHERE owner = ?", [key_of(folder)])) == []


@pytest.mark.parametrize("what", ["a session", "memory"])
async def test_a_project_that_changes_while_it_is_moved_is_not_removed(tmp_path: Path, what: str):
    folder = tmp_path / "shop"
    session = await fill(tmp_path / "one", folder)
    key = key_of(folder)
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        block = (await one.read(lambda tx: load_block(tx, BlockKey(Scope.PROJECT, key, "project")))).id
        raised = BlockConfigured(block, "project", key, "project", "limit", "5000", "9000")
        stream, event = (session, SessionTitled("It goes on.")) if what == "a session" else (OTHER, raised)

        def write(tx: Transaction) -> None:
            append(tx, stream, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=NOW)

        with pytest.raises(MoveRefusedError, match="changed while it was moved"):
            await move(one, two, busy(one, folder, write), now_ms=NOW)
        assert "The door is mauve." in await text_of(one, owner=key)


async def test_a_move_that_was_cut_off_is_finished_with_what_both_sides_wrote_meanwhile(tmp_path: Path):
    async with filled(tmp_path) as (folder, session, one, two):
        key = key_of(folder)
        await arrived_only(one, two, folder, tmp_path / "a.car")
        await say(one, "project", "The roof is old.", project=key, peer=8)
        await say(two, "project", "The roof is new.", project=key, peer=9)
        await rename_session(one, session, "It went on", now=NOW)
        report = await move_to(one, two, folder)
        assert report.merged > 0
        text = await text_of(two, owner=key)
        assert "The roof is old." in text
        assert "The roof is new." in text
        row = await two.read(lambda tx: get_session(tx, session))
        assert row is not None
        assert row.title == "It went on"
        assert await is_sound(one) == await is_sound(two) == []
        # One that went on in both places is in the way of all.
        await move_to(two, one, folder)
        await arrived_only(one, two, folder, tmp_path / "b.car")
        await rename_session(one, session, "One way", now=NOW)
        await rename_session(two, session, "Another way", now=NOW)
        with pytest.raises(MoveRefusedError, match="continued in both places"):
            await move_to(one, two, folder)


async def arrived_only(one: Database, two: Database, folder: Path, file: Path) -> None:
    """Leave what a move leaves that was cut off before it removed anything."""
    with file.open("w+b") as into:
        await one.read(lambda tx: ProjectExport(tx, into, moving(folder)).export())
        archive = read_archive(into)
        await two.write(lambda tx: arrive(tx, archive, now_ms=NOW))


async def settle(database: Database, project: str, fact: str) -> None:
    await memory_of(database, project).commit(MemoryEdit(ARCHIVE, "resolve", "", old_text=fact, reason="Mended."), None)


async def test_settings_and_states_that_changed_before_a_move_was_run_again_are_not_lost(tmp_path: Path):
    async with filled(tmp_path) as (folder, session, one, two):
        key = key_of(folder)
        for label in ("notes", "old"):
            edit = MemoryEdit(label, "create", f"Teal {label}.", scope="project", description="Notes")
            await memory_of(one, key).commit(edit, None)
        await reverts(one, key).delete("old")
        await agree(one, session)
        await arrived_only(one, two, folder, tmp_path / "a.car")
        owner = MemoryScope("tester", key, session)
        await MemorySetup(one, owner, clock=FakeClock()).configure("project", "limit", "7777")
        await settle(one, key, "teal/ is generated.")
        await reverts(one, key).delete("notes")
        await reverts(one, key).restore("old")
        await one.write(partial(_follow, job_moved(JobStage.WORKING), session))
        root = await one.read(partial(_root, moving(folder)))
        report = await move_to(one, two, folder)
        assert (report.moved.root, report.merged) == (root, 0)
        assert await two.read(partial(_root, moving(folder))) == root
        assert await two.read(lambda tx: tx.all("SELECT state FROM jobs")) == [("working",)]
        assert [found.problems for found in await two.read(verify_jobs)] == [()]


async def test_a_job_that_continued_there_before_a_move_was_run_again_stays_as_it_is_there(tmp_path: Path):
    async with filled(tmp_path) as (folder, session, one, two):
        await agree(one, session)
        await arrived_only(one, two, folder, tmp_path / "a.car")
        await two.write(partial(_follow, job_moved(JobStage.WORKING), session))
        await move_to(one, two, folder)
        assert await two.read(lambda tx: tx.all("SELECT state FROM jobs")) == [("working",)]
        assert await one.read(lambda tx: tx.all("SELECT id FROM jobs")) == []
        assert [found.problems for found in await two.read(verify_jobs)] == [()]


async def test_what_a_job_used_before_a_move_was_run_again_is_not_lost(tmp_path: Path):
    async with filled(tmp_path) as (folder, session, one, two):
        await agree(one, session)
        await arrived_only(one, two, folder, tmp_path / "a.car")
        await rename_session(one, session, "It went on", now=NOW)
        job = quoted().job_id
        await one.write(lambda tx: draw(tx, job, JOB, Meter.TOKENS, 7, seq=newest_event(tx)))
        await move_to(one, two, folder)
        rows = await two.read(lambda tx: tx.all("SELECT spent FROM job_holds WHERE node = '' AND meter = 'tokens'"))
        assert rows == [(7,)]


async def test_a_change_that_cannot_join_another_one_there_refuses_the_move_until_both_are_the_same(tmp_path: Path):
    async with filled(tmp_path) as (folder, session, one, two):
        key = key_of(folder)
        owner = MemoryScope("tester", key, session)
        await arrived_only(one, two, folder, tmp_path / "a.car")
        await MemorySetup(one, owner, clock=FakeClock()).configure("project", "limit", "7777")
        await say(two, "project", "The roof is new.", project=key, peer=9)
        with pytest.raises(MoveRefusedError, match="The memory block project was changed in both places"):
            await move_to(one, two, folder)
        await MemorySetup(two, owner, clock=FakeClock()).configure("project", "limit", "7777")
        await settle(one, key, "teal/ is generated.")
        trap = await two.read(lambda tx: tx.all("SELECT id FROM archival_entries WHERE text LIKE 'teal/%'"))
        assert len(trap) == 1
        edit = MemoryEdit(ARCHIVE, "verify", "", old_text="teal/ is generated.")
        await memory_of(two, key).commit(edit, None)
        with pytest.raises(MoveRefusedError, match=r"The trap “teal/ is generated\.” was changed in both places"):
            await move_to(one, two, folder)
        await settle(two, key, "teal/ is generated.")
        assert (await move_to(one, two, folder)).merged > 0
        assert "The roof is new." in await text_of(two, owner=key)


async def test_words_that_were_forgotten_before_a_move_was_run_again_are_gone_there_too(tmp_path: Path):
    async with filled(tmp_path) as (folder, _, one, two):
        key = key_of(folder)
        await say(one, "project", "The word is zebrafish.", project=key)
        await arrived_only(one, two, folder, tmp_path / "a.car")
        scope = HistoryScope(((Scope.PROJECT, key),), CONSTELLATION_STREAM, PERSON.actor, PERSON.origin, 9)
        forgetting = MemoryForgetting(one, scope, clock=FakeClock(), parameters=parameter_names)
        await forgetting.forget("project", "the word is zebrafish")
        assert (await move_to(one, two, folder)).merged == 0
    assert b"zebrafish" not in bytes_around(tmp_path / "two")


async def test_an_import_does_not_bring_back_a_session_that_moved_away(tmp_path: Path):
    file = tmp_path / "a.car"
    async with filled(tmp_path) as (folder, session, one, two):
        await move_to(one, two, folder)
        await rename_session(two, session, "It went on", now=NOW)
        await leave(two, file)
        (found,) = [each for each in await offered(one, file) if each.kind == "session"]
        assert (found.state, found.about) == ("gone", "it moved away")


KILLED = "tests.support.killed_move"


async def killed(source: Path, target: Path, folder: Path, step: int) -> int:
    """Move in a process that is killed at a step; how many steps it took when it was not."""
    files = [str(each / "constellation.db") for each in (source, target)]
    done = await anyio.run_process(
        [sys.executable, "-m", KILLED, *files, str(folder), str(step)],
        check=False,
        stderr=None,
    )
    assert done.returncode == (-signal.SIGKILL if step else 0)
    return 0 if step else int(done.stdout)


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
async def test_a_move_that_is_killed_at_any_step_loses_nothing_and_is_finished_by_moving_again(tmp_path: Path):
    folder, begun = tmp_path / "shop", tmp_path / "begun"
    session = await fill(begun, folder)
    async with home(begun) as one:
        whole = await preview(one, moving(folder), now_ms=NOW)
    homes = (tmp_path / "one", tmp_path / "two")

    async def fresh() -> None:
        for each in homes:
            shutil.rmtree(each, ignore_errors=True)
        shutil.copytree(begun, homes[0])
        async with home(homes[1]):
            pass

    await fresh()
    steps = await killed(*homes, folder, 0)
    for step in sorted({1, 2, *range(3, steps, steps // 12), *range(steps - 4, steps + 1)}):
        await fresh()
        await killed(*homes, folder, step)
        async with home(homes[0]) as one, home(homes[1]) as two:
            assert await is_sound(one) == await is_sound(two) == []
            roots = [(await database.read(partial(_root, moving(folder)))) for database in (one, two)]
            assert whole.root in roots
            await move_to(one, two, folder)
            assert await two.read(partial(_root, moving(folder))) == whole.root
            assert await one.read(partial(_root, moving(folder))) != whole.root
            assert await is_sound(one) == await is_sound(two) == []
            assert (await two.read(lambda tx: verify_stream(tx, session))).ok
        assert not [word for word in LEFT if word in bytes_around(homes[0])]


def _root(project: MovingProject, tx: Transaction) -> str:
    return ProjectExport(tx, BytesIO(), project).export().root
